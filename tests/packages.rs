//! What `dist` makes, made and used: a Debian package, a container image, an initramfs, a unit of systemd.
//!
//! Each is unpacked into a root of its own, with nothing in it but what it brings, and run there.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{TempDir, Who, is_here, landlock_abi, skip};

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

#[track_caller]
fn out(command: &mut Command) -> String {
    let output = run(command);
    String::from_utf8(output.stdout)
        .expect("text")
        .trim_end()
        .to_owned()
}

/// The program as it is shipped: without symbols.
fn binary(directory: &Path) -> PathBuf {
    let stripped = directory.join("oarbank-agent");
    run(Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(env!("CARGO_BIN_EXE_oarbank-agent")));
    stripped
}

/// Whether roots can be entered here.
fn may_chroot() -> bool {
    let root = Who::current().is_root();
    if !root {
        skip("chroot takes root");
    }
    root
}

/// The program in a root that has nothing else: it tells its version, and confines itself.
#[track_caller]
fn works_alone(root: &Path, program: &str) {
    let chroot = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(root).arg(program).args(words).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    };
    let version = format!("oarbank-agent {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(out(&mut chroot(&["--version"])), version);
    if landlock_abi() < 3 {
        return;
    }
    let policy = root.join("policy.json");
    fs::write(&policy, format!("{{\"exe\": {program:?}}}")).expect("a policy");
    let confined = ["sandbox-exec", "/policy.json", "--", program, "--version"];
    assert_eq!(out(&mut chroot(&confined)), version);
    // The control: without the grant there is no exec.
    fs::write(&policy, "{}").expect("a policy");
    let refused = chroot(&confined).output().expect("chroot");
    let granted_anyway = program.starts_with("/usr/");
    assert_eq!(
        refused.status.code(),
        Some(if granted_anyway { 0 } else { 71 })
    );
    fs::remove_file(policy).expect("a policy");
}

#[test]
fn the_debian_package_is_clean_and_installs_and_goes() {
    if !is_here("/usr/bin/dpkg-deb") {
        return;
    }
    let directory = TempDir::new();
    let binary = binary(directory.path());
    let make = |name: &str| {
        let folder = directory.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        let package = out(Command::new("dist/deb.sh").arg(&binary).arg(folder));
        let bytes = fs::read(&package).expect("the package");
        (package, bytes)
    };
    let (package, bytes) = make("one");
    assert!(
        bytes == make("two").1,
        "the same binary gives another package"
    );
    if is_here("/usr/bin/lintian") {
        let lintian = |package: &str| {
            let options = [
                "--allow-root",
                "--fail-on",
                "error,warning,info,pedantic",
                "-I",
                "--pedantic",
            ];
            Command::new("lintian")
                .args(options)
                .arg(package)
                .output()
                .expect("lintian")
        };
        let output = lintian(&package);
        assert!(
            output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        // The control: with symbols it is not clean.
        let faulty = env!("CARGO_BIN_EXE_oarbank-agent");
        let folder = directory.path().join("faulty");
        fs::create_dir(&folder).expect("a folder");
        let faulty = out(Command::new("dist/deb.sh").arg(faulty).arg(folder));
        assert!(!lintian(&faulty).status.success());
    }
    if !may_chroot() {
        return;
    }
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("a folder");
    fs::create_dir(root.join("var/lib/dpkg/updates")).expect("a folder");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a file");
    let dpkg = |words: &[&str]| {
        let mut command = Command::new("dpkg");
        command
            .arg("--log=/dev/null")
            .arg(format!("--root={}", root.display()));
        command.args(words);
        command
    };
    run(&mut dpkg(&["--install", &package]));
    works_alone(&root, "/usr/bin/oarbank-agent");
    for part in [
        "man/man8/oarbank-agent.8.gz",
        "man/man5/oarbank-policy.5.gz",
        "bash-completion/completions/oarbank-agent",
        "oarbank-agent/policy.schema.json",
    ] {
        assert!(
            fs::exists(root.join("usr/share").join(part)).expect("a path"),
            "{part}"
        );
    }
    assert_eq!(out(&mut dpkg(&["--verify", "oarbank-agent"])), "");
    run(&mut dpkg(&["--purge", "oarbank-agent"]));
    assert!(!fs::exists(root.join("usr/bin")).expect("a path"));
}

/// What stands behind a key of compact JSON, as text; the first one.
fn value<'t>(json: &'t str, key: &str) -> &'t str {
    let start = json.find(&format!("\"{key}\":\"")).expect("the key") + key.len() + 4;
    json[start..].split('"').next().expect("a value")
}

#[test]
fn the_container_image_has_one_file_and_runs() {
    let directory = TempDir::new();
    let binary = binary(directory.path());
    let make = |name: &str| {
        let layout = directory.path().join(name);
        let digest = out(Command::new("dist/oci.sh").arg(&binary).arg(&layout));
        (layout, digest)
    };
    let (layout, digest) = make("one");
    assert_eq!(digest, make("two").1, "the same binary gives another image");
    // From the index to the layer, each blob by its digest, which must be that of its bytes.
    let blob = |digest: &str| {
        let path = layout
            .join("blobs/sha256")
            .join(digest.strip_prefix("sha256:").expect("sha256"));
        let sum = out(Command::new("sha256sum").arg(&path));
        assert_eq!(format!("sha256:{}", &sum[..64]), digest);
        path
    };
    let index = fs::read_to_string(layout.join("index.json")).expect("the index");
    assert_eq!(value(&index, "digest"), digest);
    let manifest = fs::read_to_string(blob(&digest)).expect("the manifest");
    let config = fs::read_to_string(blob(value(&manifest, "digest"))).expect("the configuration");
    let layers = manifest.split_once("\"layers\":").expect("layers").1;
    assert!(config.contains(&format!("\"diff_ids\":[\"{}\"]", value(layers, "digest"))));
    let layer = blob(value(layers, "digest"));
    assert_eq!(
        out(Command::new("tar").arg("-tf").arg(&layer)),
        "oarbank-agent"
    );
    if is_here("/usr/bin/umoci") {
        // A second opinion: unpacked by a tool that reads such images.
        let image = format!("{}:latest", layout.display());
        let mut umoci = Command::new("umoci");
        umoci.arg("unpack").args(["--rootless", "--image", &image]);
        run(umoci.arg(directory.path().join("bundle")));
        assert!(fs::exists(directory.path().join("bundle/rootfs/oarbank-agent")).expect("a path"));
    }
    if may_chroot() {
        let root = directory.path().join("root");
        fs::create_dir(&root).expect("a folder");
        run(Command::new("tar")
            .arg("-xf")
            .arg(&layer)
            .arg("-C")
            .arg(&root));
        works_alone(&root, "/oarbank-agent");
    }
}

#[test]
fn the_initramfs_starts_a_confined_program() {
    let busybox = "/bin/busybox";
    if !is_here(busybox) || !may_chroot() {
        return;
    }
    let static_one = run(Command::new("readelf").args(["-lW", busybox]));
    if String::from_utf8_lossy(&static_one.stdout).contains("INTERP") {
        return skip("busybox is not static");
    }
    let directory = TempDir::new();
    let binary = binary(directory.path());
    let archive = directory.path().join("initramfs.cpio.gz");
    let policy = directory.path().join("policy.json");
    fs::write(&policy, "{\"rw\": [\"/work\"]}").expect("a policy");
    let script = "grep NoNewPrivs /proc/self/status; echo a > /work/a && cat /work/a; echo a > /tmp/a || echo refused";
    let mut make = Command::new("dist/initramfs.sh");
    make.arg(&binary).arg(&policy).arg(busybox).arg(&archive);
    run(make.args(["/bin/sh", "-c", script]));
    let root = directory.path().join("root");
    fs::create_dir(&root).expect("a folder");
    let unpack = format!("gzip -dc {} | {busybox} cpio -i", archive.display());
    run(Command::new("/bin/sh")
        .args(["-c", &unpack])
        .current_dir(&root));
    if landlock_abi() < 3 {
        return;
    }
    // The mounts of its /init are in a namespace of their own.
    let mut start = Command::new("unshare");
    start
        .args(["--mount", "chroot"])
        .arg(&root)
        .arg("/init")
        .env_clear();
    let output = start
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "NoNewPrivs:\t1\na\nrefused\n", "{output:?}");
}

#[test]
fn systemd_understands_the_unit() {
    if !is_here("/usr/bin/systemd-analyze") {
        return;
    }
    let directory = TempDir::new();
    let verify = |unit: &str| {
        let path = directory.path().join("oarbank-module@.service");
        fs::write(&path, unit).expect("a unit");
        let mut command = Command::new("systemd-analyze");
        command
            .args(["verify", "--man=no"])
            .arg(path)
            .output()
            .expect("systemd-analyze")
    };
    let unit = fs::read_to_string("dist/systemd/oarbank-module@.service").expect("the unit");
    let agent = env!("CARGO_BIN_EXE_oarbank-agent");
    let unit = unit.replace("/usr/bin/oarbank-agent", agent);
    let output = verify(&unit);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !err.contains("oarbank"), "{err}");
    let options: Vec<&str> = unit
        .lines()
        .filter(|line| line.starts_with("Delegate="))
        .collect();
    assert_eq!(options, ["Delegate=yes"]);
    // The control.
    let output = verify(&unit.replace("Delegate=yes", "Delegated=yes"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Delegated"));
    // Its command line is one that the program reads, up to the policy that is not there.
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let line = line.replace("%i", "absent");
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect("the program");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{err}");
    assert!(
        err.contains("\"/etc/oarbank/absent.json\": ENOENT"),
        "{err}"
    );
}
