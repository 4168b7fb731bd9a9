//! What runs: the suites, linked without shared libraries, and the released launcher.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::archive::Archive;
use crate::guest::System;
use crate::suites;

pub(crate) struct Built {
    /// The path of each suite, of the probe and of the launcher, by name.
    executables: BTreeMap<String, PathBuf>,
}

impl Built {
    /// The suites in a target directory of their own, so that neither of two builds undoes the other.
    pub(crate) fn new(system: System, cache: &Path) -> Self {
        let for_guest = |words: &[&str]| {
            let mut build = cargo(words);
            build
                .env("CARGO_TARGET_DIR", target().join("guest"))
                .env(
                    "RUSTFLAGS",
                    "-C target-feature=+crt-static -C relocation-model=static",
                )
                // A guest has little memory, and the emulator little speed.
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_PROFILE_DEV_STRIP", "symbols");
            match system {
                System::Arm64 => for_arm64(&mut build, cache),
                _ => build.args(["--target", "x86_64-unknown-linux-gnu"]),
            };
            build
        };
        let mut test = for_guest(&["test", "--no-run"]);
        test.args(
            suites::built(system)
                .iter()
                .flat_map(|suite| ["--test", suite]),
        );
        let mut executables = executables(&mut test);
        // Not by the same command: named there, it would be built as a test of its own.
        let probe = for_guest(&["build", "--example", "probe"]);
        executables.extend(self::executables(&mut { probe }));
        // The suites look for the launcher where their own build has left it.
        let mut release = match system {
            System::Arm64 => for_guest(&["build", "--release"]),
            _ => cargo(&["build", "--release"]),
        };
        let released = self::executables(&mut release);
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
    pub(crate) fn archive(&self, system: System, cache: &Path) -> Vec<u8> {
        let contents = |path: &Path| fs::read(path).expect("a program");
        let mut archive = Archive::default();
        if system == System::Systemd {
            archive.tree(&cache.join("systemd"));
            archive.file(
                "/etc/systemd/system/suites.service",
                include_bytes!("suites.service"),
            );
            // Not the first time that it starts, and nothing is hidden in /tmp.
            archive.file("/etc/machine-id", b"0123456789abcdef0123456789abcdef\n");
            archive.link("/etc/systemd/system/tmp.mount", "/dev/null");
        }
        for place in [
            "/proc", "/sys", "/dev", "/tmp", "/root", "/var/tmp", "/boot", "/etc", "/home", "/opt",
            "/run", "/srv", "/bin", "/usr/bin",
        ] {
            archive.directory(place);
        }
        archive.file(
            "/etc/passwd",
            b"root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/:/bin/sh\n",
        );
        archive.file("/etc/group", b"root:x:0:\nagent:x:1000:\n");
        // Where the first process writes until it has mounted /dev.
        archive.device("/dev/console", [5, 1]);
        archive.program("/init", include_bytes!("init"));
        archive.program("/suites.sh", include_bytes!("suites.sh"));
        let shell = |system: System| {
            cache.join(match system {
                System::Arm64 => "arm64/usr/bin/busybox",
                _ => "emulator/usr/bin/busybox",
            })
        };
        archive.program("/usr/bin/busybox", &contents(&shell(system)));
        // The same version here.
        let list = Command::new(shell(System::Amd64)).arg("--list").output();
        let list = String::from_utf8(list.expect("a static program").stdout).expect("names");
        let probe = contents(self.path("probe"));
        for place in ["/usr/bin", "/bin"] {
            // With systemd one leads to the other, and holds programs of the same name.
            if place == "/bin" && system == System::Systemd {
                continue;
            }
            // The shell would not know what to do under the names that tests give to their copies of `true`; the probe does
            // nothing.
            archive.program(&format!("{place}/true"), &probe);
            for name in list.lines() {
                let path = format!("{place}/{name}");
                if !archive.has(&path) {
                    archive.link(&path, "/usr/bin/busybox");
                }
            }
        }
        // Beside the directory of the suites, as in a target directory.
        archive.program("/examples/probe", &probe);
        for suite in suites::built(system) {
            // Memory is what they are kept in.
            let with_systemd = suites::SYSTEMD.contains(&suite);
            if with_systemd == (system == System::Systemd) {
                archive.program(&format!("/suites/{suite}"), &contents(self.path(suite)));
            }
        }
        let agent = self.path("oarbank-agent");
        archive.program(agent.to_str().expect("text"), &contents(agent));
        archive.finish()
    }
}

/// Builds with a compiler that has the library for arm64, and links with its C library.
fn for_arm64<'c>(build: &'c mut Command, cache: &Path) -> &'c mut Command {
    let said = |words: &[&str]| {
        let output = Command::new("rustc").args(words).output().expect("rustc");
        String::from_utf8(output.stdout).expect("text")
    };
    let about = said(&["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let lld = Path::new(said(&["--print", "sysroot"]).trim())
        .join("lib/rustlib")
        .join(host.expect("a host"))
        .join("bin/rust-lld");
    assert!(lld.exists(), "the toolchain has no rust-lld");
    let rust = cache.join("rust/usr");
    build
        .args(["--target", "aarch64-unknown-linux-gnu"])
        .env("RUSTC", rust.join("bin/rustc"))
        .env("LD_LIBRARY_PATH", rust.join("lib/x86_64-linux-gnu"))
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/rust-lld"),
        )
        .env("OARBANK_LLD", lld)
        .env("OARBANK_SYSROOT", cache.join("arm64"))
        // Those of another compiler's builds can't be shared.
        .env("CARGO_TARGET_DIR", target().join("guest-arm64"))
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
