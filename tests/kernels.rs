//! The suites on other kernels: `cargo test --test kernels -- --ignored --nocapture`.
//!
//! Each kernel boots in an emulator with an initramfs that holds the launcher, the probe, the statically linked suites and
//! a static shell, and nothing else: no /usr, no libc, no /etc. Kernels, emulator and shell are fetched once by
//! `tests/kernels/fetch.sh` into a folder outside the repository (`OARBANK_KERNELS`), where what each guest said is left
//! too. `OARBANK_KERNEL=7.3` runs one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A guest: a kernel by its version's start, more of its command line, and the Landlock ABI that it must have (0: none).
struct Guest {
    kernel: &'static str,
    more: &'static str,
    abi: u32,
}

const GUESTS: [Guest; 9] = [
    guest("5.10.0", "", 0),
    guest("6.1.0", "", 2),
    guest("6.12", "lsm=lockdown,yama", 0),
    guest("6.12", "", 6),
    guest("6.18", "", 7),
    guest("7.0", "", 8),
    guest("7.1", "", 9),
    guest("7.2", "", 10),
    guest("7.3", "", 11),
];

const fn guest(kernel: &'static str, more: &'static str, abi: u32) -> Guest {
    Guest { kernel, more, abi }
}

impl Guest {
    /// The suites that can run: where nothing may be launched, that nothing is.
    fn suites(&self) -> &'static [(&'static str, &'static [&'static str])] {
        if self.abi < 3 { &SUITES[..1] } else { &SUITES }
    }
}

/// The suites that run in a guest, each with the tests of it (by parts of their names; none: all). What is left out needs
/// programs that a guest doesn't have, or makes thousands of processes, which takes too long in an emulator.
const SUITES: [(&str, &[&str]); 5] = [
    ("kernel", &[]),
    ("filter_kernel", &[]),
    ("check", &["the_report_says_what_this_kernel_enforces"]),
    (
        "grants",
        &[
            "egress_allowlist_connects_to_the_proxy_port_alone",
            "from_abi_9_the_broker_is_the_only_socket",
            "a_broker_grant_gives_unix_sockets",
            "net_none_makes_no_internet_socket",
            "rd_reads_and_lists",
            "gpu_gives_the_gpu_nodes",
        ],
    ),
    (
        "escapes",
        &[
            "abstract_sockets_outside_are_out_of_reach",
            "clone3_is_not_implemented",
            "device_nodes_cannot_be_made",
            "handles_do_not_open_files_past_landlock",
            "io_uring_is_refused",
            "keyrings_are_out_of_reach",
            "limits_of_other_processes_cannot_be_set",
            "mptcp_does_not_reach_another_port",
            "no_send_opens_a_connection",
            "root_has_no_capabilities_left",
            "shared_memory_of_the_same_user_is_out_of_reach",
            "signals_stay_inside",
            "socket_pairs_are_streams",
            "sysv_and_posix_ipc_is_refused",
            "the_32_bit_call_table_kills",
            "the_mount_family_is_refused",
            "unix_sockets_need_the_broker",
            "x32_numbers_are_refused",
        ],
    ),
];

/// What a guest may skip: it holds nothing but the launcher, a shell and the suites.
const MAY_SKIP: [&str; 3] = ["no python3", "no strace", "no /usr"];

/// How long one guest may take.
const LIMIT: Duration = Duration::from_secs(240);

/// Guests that run at the same time.
const AT_ONCE: usize = 2;

#[test]
#[ignore = "fetches 400 MB and boots nine kernels"]
fn the_suites_hold_on_every_kernel() {
    let folder = fetch();
    let initramfs = Initramfs::build(&folder);
    let only = std::env::var("OARBANK_KERNEL").ok();
    let guests: Vec<&Guest> = GUESTS
        .iter()
        .filter(|guest| only.as_deref().is_none_or(|only| guest.kernel == only))
        .collect();
    assert!(!guests.is_empty(), "no kernel {only:?} in the list");
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(guest) = guests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let said = boot(&folder, guest, &initramfs);
                    let log = format!("{}{}.log", guest.kernel, guest.more);
                    fs::write(folder.join(log), &said).expect("own folder");
                    let result = read(guest, &said);
                    let seconds = start.elapsed().as_secs();
                    println!(
                        "{} {}: {} ({seconds} s)",
                        guest.kernel,
                        guest.more,
                        result.line()
                    );
                    failures.lock().expect("no panic").extend(result.failures);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!(
        "the newest kernel that was run: {}",
        guests.last().expect("one").kernel
    );
}

/// The folder with kernels, emulator and shell.
fn fetch() -> PathBuf {
    let cache = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folder = cache("OARBANK_KERNELS").unwrap_or_else(|| {
        cache("XDG_CACHE_HOME")
            .or_else(|| cache("HOME").map(|home| home.join(".cache")))
            .expect("a home")
            .join("oarbank-kernels")
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/fetch.sh");
    let fetched = Command::new("bash")
        .arg(script)
        .arg(&folder)
        .stdout(Stdio::null())
        .status();
    assert!(fetched.expect("bash").success(), "the kernels can't be had");
    folder
}

/// The file system of a guest: a cpio archive (`Documentation/driver-api/early-userspace/buffer-format.rst`).
struct Initramfs {
    /// For kernels from ABI 3 on.
    full: PathBuf,
    /// For those below: the launcher and a script.
    small: PathBuf,
}

impl Initramfs {
    fn build(folder: &Path) -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let released = cargo(&["build", "--release", "--locked"])
            .output()
            .expect("cargo");
        assert!(released.status.success(), "the launcher can't be built");
        // The suites and the probe, not the launcher: that is the released one. (As a target of `cargo test` the probe would get
        // a test harness.)
        let tests = SUITES.iter().flat_map(|(suite, _)| ["--test", suite]);
        let mut messages = build(cargo(&["test", "--no-run"]).args(tests));
        messages += &build(cargo(&["build", "--bins"]).args(["--example", "probe"]));
        let executables: BTreeSet<&str> = messages
            .split("\"executable\":\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let archive = |suites: &[(&str, &[&str])], name: &str| {
            let mut archive = Archive::new();
            archive.shell(folder);
            let mut tests = String::new();
            for path in &executables {
                let file = Path::new(path).file_name().and_then(|name| name.to_str());
                let file = file.expect("text");
                let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
                if file == "oarbank-agent" {
                    let released = fs::read(own.join("target/release/oarbank-agent"));
                    archive.file(path, &released.expect("built"), 0o755);
                    tests = format!("{path}\n{tests}");
                } else if let Some((_, parts)) = suites.iter().find(|(suite, _)| *suite == name) {
                    archive.file(path, &fs::read(path).expect("built"), 0o755);
                    tests += &format!("{path} {}\n", parts.join(" "));
                } else if file == "probe" {
                    archive.file(path, &fs::read(path).expect("built"), 0o755);
                }
            }
            assert_eq!(tests.lines().count(), suites.len() + 1, "{executables:?}");
            archive.file("/tests", tests.as_bytes(), 0o644);
            archive.write(folder, name)
        };
        Initramfs {
            full: archive(&SUITES, "full"),
            small: archive(&SUITES[..1], "small"),
        }
    }
}

/// Builds something for a guest: static. What cargo says of it.
fn build(command: &mut Command) -> String {
    let built = command
        .args(["--release", "--locked", "--message-format=json"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("target/guest"),
        )
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .output()
        .expect("cargo");
    assert!(
        built.status.success(),
        "the suites can't be built for a guest"
    );
    String::from_utf8(built.stdout).expect("JSON")
}

/// The cargo that runs this.
fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(words)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    command
}

struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<PathBuf>,
}

impl Archive {
    fn new() -> Self {
        let mut archive = Archive {
            bytes: Vec::new(),
            directories: BTreeSet::new(),
        };
        for directory in ["/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/root"] {
            archive.directories_to(Path::new(directory));
            archive.directory(Path::new(directory));
        }
        archive.entry("/dev/console", &[], 0o020600, (5, 1));
        archive.file("/init", include_bytes!("kernels/init"), 0o755);
        archive
    }

    /// The shell, and every program that it is too.
    fn shell(&mut self, folder: &Path) {
        let shell = ["bin/busybox", "usr/bin/busybox"]
            .map(|name| folder.join("root").join(name))
            .into_iter()
            .find(|path| path.exists())
            .expect("fetched");
        self.file("/bin/busybox", &fs::read(&shell).expect("fetched"), 0o755);
        let list = Command::new(&shell)
            .arg("--list")
            .output()
            .expect("a static program");
        for name in String::from_utf8(list.stdout).expect("names").lines() {
            if name != "busybox" {
                self.entry(&format!("/bin/{name}"), b"busybox", 0o120777, (0, 0));
            }
        }
    }

    fn file(&mut self, path: &str, contents: &[u8], mode: u32) {
        self.directories_to(Path::new(path));
        self.entry(path, contents, 0o100000 | mode, (0, 0));
    }

    fn directories_to(&mut self, path: &Path) {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for directory in above.into_iter().rev() {
            self.directory(directory);
        }
    }

    fn directory(&mut self, path: &Path) {
        if path != Path::new("/") && self.directories.insert(path.to_owned()) {
            let mode = if path.ends_with("tmp") {
                0o041777
            } else {
                0o040755
            };
            self.entry(path.to_str().expect("text"), &[], mode, (0, 0));
        }
    }

    fn entry(&mut self, path: &str, contents: &[u8], mode: u32, device: (u32, u32)) {
        let name = path.trim_start_matches('/');
        let inode = self.bytes.len() as u32 + 1;
        let fields = [
            inode,
            mode,
            0,
            0,
            1,
            0,
            contents.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        for part in [&[name.as_bytes(), b"\0"].concat(), contents] {
            self.bytes.extend(part);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
    }

    fn write(mut self, folder: &Path, name: &str) -> PathBuf {
        self.entry("TRAILER!!!", &[], 0, (0, 0));
        let path = folder.join(format!("{name}.{}.cpio", std::process::id()));
        fs::write(&path, &self.bytes).expect("own folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
        path
    }
}

impl Drop for Initramfs {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.full);
        let _ = fs::remove_file(&self.small);
    }
}

/// Boots a guest and returns what it said.
fn boot(folder: &Path, guest: &Guest, initramfs: &Initramfs) -> String {
    let root = folder.join("root");
    let file = |name: &str| root.join(name).into_os_string();
    let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"]
        .map(|name| file(name).into_string().expect("text"));
    let append = format!(
        "console=ttyS0 panic=-1 quiet acpi=off cryptomgr.notests nokaslr mitigations=off initcall_blacklist=\
         load_system_certificate_list,jent_mod_init,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,crypto_kdf108_init {}",
        guest.more
    );
    let archive = if guest.abi < 3 {
        &initramfs.small
    } else {
        &initramfs.full
    };
    let seconds = LIMIT.as_secs().to_string();
    let said = Command::new("timeout")
        .args(["--signal=KILL", &seconds])
        .arg(file("lib64/ld-linux-x86-64.so.2"))
        .args(["--library-path", &libraries.join(":")])
        .arg(file("usr/bin/qemu-system-x86_64"))
        .arg("-L")
        .arg(file("usr/share/qemu"))
        .arg("-L")
        .arg(file("usr/share/seabios"))
        .args([
            "-M",
            "pc,usb=off,smm=off,vmport=off",
            "-accel",
            "tcg,thread=single",
        ])
        .args([
            "-icount",
            "shift=2,sleep=off",
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            "1024",
        ])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
        ])
        .arg("-kernel")
        .arg(folder.join("kernels").join(guest.kernel).join("vmlinuz"))
        .arg("-initrd")
        .arg(archive)
        .args(["-append", &append])
        .env("QEMU_MODULE_DIR", file("usr/lib/x86_64-linux-gnu/qemu"))
        .stdin(Stdio::null())
        .output()
        .expect("timeout");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// What came of a guest.
struct Outcome {
    release: String,
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

impl Outcome {
    fn line(&self) -> String {
        let Outcome {
            release,
            passed,
            skipped,
            failures,
        } = self;
        format!(
            "Linux {release}: {passed} passed, {skipped} skipped, {} failed",
            failures.len()
        )
    }
}

/// Reads what a guest said. Whatever is missing is a failure.
fn read(guest: &Guest, said: &str) -> Outcome {
    let who = format!("{} {}", guest.kernel, guest.more);
    let mut outcome = Outcome {
        release: String::new(),
        passed: 0,
        skipped: 0,
        failures: Vec::new(),
    };
    let mut ends: BTreeMap<String, String> = BTreeMap::new();
    let mut suite = String::new();
    let mut abi = None;
    for line in said.lines().map(|line| line.trim_end_matches('\r')) {
        if let Some(number) = line.strip_prefix("=== abi ") {
            abi = if number == "null" {
                Some(0)
            } else {
                number.parse().ok()
            };
        } else if let Some(release) = line.strip_prefix("=== kernel ") {
            outcome.release = release.to_owned();
        } else if let Some(name) = line.strip_prefix("=== run ") {
            suite = name.to_owned();
        } else if let Some(code) = line.strip_prefix("=== end ") {
            ends.insert(suite.clone(), code.to_owned());
        } else if let Some(reason) = line.strip_prefix("SKIPPED ") {
            outcome.skipped += 1;
            if !MAY_SKIP.iter().any(|known| reason.contains(known)) {
                outcome
                    .failures
                    .push(format!("{who}: skipped without leave: {reason}"));
            }
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            outcome.passed += 1;
        } else if line.starts_with("test ") && line.ends_with("FAILED") {
            outcome.failures.push(format!("{who}: {suite}: {line}"));
        }
    }
    let well = ends.values().filter(|code| *code == "0").count();
    if well != guest.suites().len() || !said.contains("=== done") {
        let last: Vec<&str> = said.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        outcome.failures.push(format!(
            "{who}: ended as {ends:?}, at last:\n{}",
            last.join("\n")
        ));
    }
    if abi != Some(guest.abi) {
        outcome.failures.push(format!(
            "{who}: Landlock ABI {abi:?}, {} is expected",
            guest.abi
        ));
    }
    outcome
}
