//! What runs: the suites, linked without shared libraries, and the released launcher.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::archive::Archive;

pub(crate) struct Built {
    /// The path of each suite, of the probe and of the launcher, by name.
    executables: BTreeMap<String, PathBuf>,
}

impl Built {
    /// The suites in a target directory of their own, so that neither of two builds undoes the other.
    pub(crate) fn new(suites: &[&str]) -> Self {
        let for_guest = |words: &[&str]| {
            let mut build = cargo(words);
            build
                .args(["--target", "x86_64-unknown-linux-gnu"])
                .env("CARGO_TARGET_DIR", target().join("guest"))
                .env("RUSTFLAGS", "-C target-feature=+crt-static")
                // A guest has little memory, and the emulator little speed.
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_PROFILE_DEV_STRIP", "symbols");
            build
        };
        let mut test = for_guest(&["test", "--no-run"]);
        test.args(suites.iter().flat_map(|suite| ["--test", suite]));
        let mut executables = executables(&mut test);
        // Not by the same command: named there, it would be built as a test of its own.
        let probe = for_guest(&["build", "--example", "probe"]);
        executables.extend(self::executables(&mut { probe }));
        // The suites look for the launcher where their own build has left it.
        let released = self::executables(&mut cargo(&["build", "--release"]));
        let (from, to) = (&released["oarbank-agent"], &executables["oarbank-agent"]);
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
        Self { executables }
    }

    pub(crate) fn path(&self, name: &str) -> &Path {
        &self.executables[name]
    }

    /// The names of the tests of a suite.
    pub(crate) fn tests(&self, suite: &str) -> Vec<String> {
        let output = Command::new(self.path(suite))
            .args(["--list", "--format=terse"])
            .output();
        let list = String::from_utf8(output.expect("a suite").stdout).expect("names");
        list.lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect()
    }

    /// The file system of a guest: the launcher, the probe, the suites, a shell, and the places where file systems are
    /// mounted.
    pub(crate) fn archive(&self, suites: &[&str], busybox: &Path) -> Vec<u8> {
        let contents = |path: &Path| fs::read(path).expect("a program");
        let mut archive = Archive::default();
        for place in [
            "/proc", "/sys", "/dev", "/tmp", "/root", "/var/tmp", "/boot", "/etc", "/home", "/opt",
            "/run",
        ] {
            archive.directory(place);
        }
        archive.file("/etc/passwd", b"root:x:0:0::/root:/bin/sh\n");
        // Where `/init` writes until it has mounted /dev.
        archive.device("/dev/console", [5, 1]);
        archive.program("/init", include_bytes!("init"));
        archive.program("/bin/busybox", &contents(busybox));
        let list = Command::new(busybox).arg("--list").output();
        let list = String::from_utf8(list.expect("a static program").stdout).expect("names");
        // It would not know what to do under the names that tests give to their copies of `true`; the probe does nothing.
        for name in list
            .lines()
            .filter(|name| !["busybox", "true"].contains(name))
        {
            archive.link(&format!("/bin/{name}"), "busybox");
            archive.link(&format!("/usr/bin/{name}"), "/bin/busybox");
        }
        let probe = contents(self.path("probe"));
        archive.program("/bin/true", &probe);
        archive.program("/usr/bin/true", &probe);
        // Beside the directory of the suites, as in a target directory.
        archive.program("/examples/probe", &probe);
        for suite in suites {
            archive.program(&format!("/suites/{suite}"), &contents(self.path(suite)));
        }
        let agent = self.path("oarbank-agent");
        archive.program(agent.to_str().expect("text"), &contents(agent));
        archive.finish()
    }
}

/// The target directory in which this runs.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let target = test.ancestors().nth(3).expect("target/PROFILE/deps/TEST");
    target.to_owned()
}

fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(words)
        .arg("--locked")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target())
        .stderr(Stdio::inherit());
    command
}

/// Builds, and returns the path of each executable by its name.
fn executables(build: &mut Command) -> BTreeMap<String, PathBuf> {
    let built = build.arg("--message-format=json").output().expect("cargo");
    assert!(built.status.success(), "{build:?}");
    let messages = String::from_utf8(built.stdout).expect("JSON");
    let paths = messages
        .split("\"executable\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let named = paths.map(|path| {
        let file = path.rsplit('/').next().expect("a name");
        // Without the hash of the build.
        let is_hash =
            |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = file.rsplit_once('-').filter(|(_, end)| is_hash(end));
        (
            name.map_or(file, |(name, _)| name).to_owned(),
            PathBuf::from(path),
        )
    });
    named.collect()
}
