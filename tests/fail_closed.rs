//! Every call of the launch, each occurrence, is made to fail with every plausible errno: the launch ends in 70 (71
//! for the exec), one line names the step, and the module has not run.
//!
//! What is made to fail comes from a trace of the launch itself, so a call that is added is tried too; one that
//! the table below doesn't name fails the test.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Outcome, Run, Scene, as_each, skip};

/// The descriptors that the launch is given: one to be told, one to pass on.
const TOLD: i32 = 400;
const KEPT: i32 = 401;

/// What a call is made to fail with. Left out is what is part of the launch: ENOENT (a path of the host that does
/// not exist) and ELOOP (a link, which is then walked) of an open, EINVAL of readlink (no link), EBADF of a
/// standard descriptor (it is closed).
const ERRNOS: &[(&str, &str)] = &[
    ("capget", "EPERM EFAULT EINVAL"),
    ("capset", "EPERM EFAULT EINVAL"),
    ("close_range", "ENOSYS EINVAL ENOMEM EMFILE"),
    (
        "execve",
        "ENOENT EACCES ENOEXEC ENOMEM E2BIG ETXTBSY EINTR EIO",
    ),
    ("fcntl", "EIO ENOSYS EPERM ENOMEM"),
    ("fstat", "EIO ENOMEM EACCES EOVERFLOW"),
    ("fstatfs", "EIO ENOSYS ENOMEM"),
    ("getdents64", "EIO ENOMEM EINVAL ENOSYS"),
    (
        "landlock_add_rule",
        "EINVAL ENOMSG EBADF EBADFD ENOMEM EPERM ENOSYS",
    ),
    (
        "landlock_create_ruleset",
        "ENOSYS EOPNOTSUPP E2BIG EINVAL ENOMEM EMFILE",
    ),
    (
        "landlock_restrict_self",
        "EPERM E2BIG ENOMEM EBADF EINVAL ENOSYS",
    ),
    ("memfd_create", "EMFILE ENOMEM ENOSYS EACCES"),
    ("newfstatat", "EIO ENOMEM EACCES EOVERFLOW"),
    (
        "openat",
        "EACCES EMFILE ENFILE ENOMEM EIO EPERM ENAMETOOLONG ENOTDIR",
    ),
    (
        "openat2",
        "EACCES EMFILE ENFILE ENOMEM EIO EPERM ENOSYS E2BIG EAGAIN ENOTDIR",
    ),
    ("prctl", "EPERM ENOSYS EFAULT"),
    ("read", "EIO EISDIR EAGAIN ENOMEM"),
    ("readlinkat", "EACCES EIO ENOMEM ENAMETOOLONG ENOTDIR"),
    ("rt_sigprocmask", "EINVAL EFAULT"),
    ("seccomp", "EINVAL ENOMEM EACCES EFAULT ENOSYS ESRCH"),
    ("write", "EPIPE EIO ENOSPC EAGAIN EBADF EFBIG"),
];

/// Calls whose EINTR is tried again.
const RETRIED: [&str; 4] = ["openat", "openat2", "read", "write"];

/// Calls that are not made to fail: who one is can't fail (`geteuid(2)`); a close before the exec only saves
/// descriptors, except for the one that was told, which is tried.
fn is_exempt(line: &str) -> bool {
    line.starts_with("geteuid(")
        || (line.starts_with("close(") && !line.starts_with(&format!("close({TOLD})")))
}

/// A policy with every grant, below a writable root, through a link.
struct Launch<'a> {
    scene: &'a Scene,
    policy: String,
    marker: String,
    _broker: UnixListener,
}

impl<'a> Launch<'a> {
    fn new(scene: &'a Scene) -> Self {
        let root = scene.dir("root");
        let inner = scene.dir("root/inner");
        let link = scene.symlink(&inner, "root/link");
        let broker = scene.path("root/broker");
        let listener = UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        let (rd, wo) = (scene.dir("rd"), scene.dir("wo"));
        let policy = scene
            .policy()
            .rw(&root)
            .ro(&link)
            .rd(&rd)
            .wo(&wo)
            .gpu()
            .broker(&broker)
            .proxy(9);
        let policy = scene.policy_file(policy.exe("/bin/sh").json());
        Launch {
            scene,
            policy,
            marker: format!("{root}/ran"),
            _broker: listener,
        }
    }

    /// The launch under strace with these options, and whether the module has run.
    fn run(&self, number: usize, options: &[&str]) -> (Outcome, bool) {
        let marker = format!("{}{number}", self.marker);
        let mut argv = vec!["strace", "-s", "0"];
        argv.extend(options);
        argv.extend([self.scene.agent(), "sandbox-exec", &self.policy, "--"]);
        argv.extend(["/bin/sh", "-c", "echo > \"$0\"", &marker]);
        let outcome = given(self.scene.plain(&argv)).run();
        let ran = fs::exists(&marker).expect("a path");
        let _ = fs::remove_file(&marker);
        (outcome, ran)
    }

    /// The launcher's own calls, one a line: all between its own exec and that of the module, the latter included.
    fn trace(&self) -> Vec<String> {
        let log = self.scene.file("log", "");
        let (outcome, ran) = self.run(0, &["-o", &log]);
        outcome.success();
        assert!(ran, "the control did not run");
        let text = fs::read_to_string(&log).expect("the log");
        let mut own = Vec::new();
        for line in text.lines().skip(1) {
            own.push(line.to_owned());
            if line.starts_with("execve(") {
                return own;
            }
        }
        panic!("no exec in {text}");
    }
}

/// With the two descriptors.
fn given(run: Run) -> Run {
    let null = fs::File::options()
        .write(true)
        .open("/dev/null")
        .expect("a device");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(writer);
    run.fd(TOLD, null)
        .env("OARBANK_CONFINED", TOLD.to_string())
        .fd(KEPT, OwnedFd::from(reader))
        .env("OARBANK_KEPT", format!("fd:{KEPT}"))
}

/// Call, occurrence (from 1), errno, and what the trace says of the call.
fn faults(trace: &[String]) -> Vec<(String, usize, &'static str, String)> {
    let table: BTreeMap<&str, &'static str> = ERRNOS.iter().copied().collect();
    let mut counts = BTreeMap::new();
    let mut faults = Vec::new();
    for line in trace {
        let call = line.split('(').next().expect("a name").to_owned();
        let count = counts.entry(call.clone()).or_insert(0);
        *count += 1;
        // What fails by itself is expected to, and goes on in another way.
        if is_exempt(line) || line.contains(" = -1 ") {
            continue;
        }
        let errnos = match call.as_str() {
            "close" => "EIO EBADF",
            call => table
                .get(call)
                .unwrap_or_else(|| panic!("add {call} to the table: {line}")),
        };
        let interrupted = RETRIED.contains(&call.as_str()).then_some("EINTR");
        for errno in errnos.split_whitespace().chain(interrupted) {
            faults.push((call.clone(), *count, errno, line.clone()));
        }
    }
    faults
}

#[test]
fn every_call_may_fail_in_every_way() {
    if std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_err()
    {
        return skip("no strace");
    }
    as_each(|scene| {
        let launch = Launch::new(scene);
        let trace = launch.trace();
        assert!(trace.len() > 60, "{trace:#?}");
        let faults = faults(&trace);
        let next = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(fault) = faults.get(number) else {
                            break;
                        };
                        check(&launch, number + 1, fault);
                    }
                });
            }
        });
        eprintln!("{} faults in {} calls", faults.len(), trace.len());
    });
}

fn check(launch: &Launch<'_>, number: usize, fault: &(String, usize, &'static str, String)) {
    let (call, count, errno, line) = fault;
    let inject = format!("inject={call}:error={errno}:when={count}");
    let (outcome, ran) = launch.run(number, &["-o", "/dev/null", "-e", &inject]);
    if *errno == "EINTR" && call != "execve" {
        assert_eq!(
            (outcome.code, ran),
            (Some(0), true),
            "{inject} ({line}): {outcome:?}"
        );
        return;
    }
    let code = if call == "execve" { 71 } else { 70 };
    assert_eq!(
        (outcome.code, ran),
        (Some(code), false),
        "{inject} ({line}): {outcome:?}"
    );
    let err = String::from_utf8_lossy(&outcome.err);
    let said: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("oarbank-agent: "))
        .collect();
    assert_eq!(said.len(), 1, "{inject} ({line}): {err}");
    assert!(said[0].contains(errno), "{inject} ({line}): {err}");
}

/// A module that says how it runs.
const WITNESS: &str = "while read -r name value; do [ \"$name\" = Seccomp: ] && echo \"$value\"; done </proc/self/status; exit 0";

/// Held against whatever a launch without enough of something may end in.
fn confined_or_refused(outcome: &Outcome, what: &str) -> bool {
    let out = String::from_utf8_lossy(&outcome.out);
    assert!(
        ["", "2\n"].contains(&&*out),
        "{what}: it ran unconfined: {outcome:?}"
    );
    if let Some(70 | 71) = outcome.code {
        let err = String::from_utf8_lossy(&outcome.err);
        assert!(
            err.starts_with("oarbank-agent: ") && err.lines().count() == 1,
            "{what}: {err}"
        );
        assert_eq!(out, "", "{what}");
    }
    // Else the module itself, or the kernel at the exec, ended for want of something; a witness without a
    // descriptor left to read with says nothing.
    outcome.code == Some(0) && out == "2\n"
}

fn with_limit(scene: &Scene, resource: libc::__rlimit_resource_t, value: u64) -> bool {
    let data = scene.path("");
    let policy = scene.policy().rd(&data);
    let mut run = scene.confined(&policy, &["/bin/sh", "-c", WITNESS]);
    run.before(move || {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: one call that is safe after fork and reads one structure.
        support::check(unsafe { libc::setrlimit(resource, &raw const limit) })
    });
    confined_or_refused(&run.run(), &format!("limit {resource} {value}"))
}

#[test]
fn a_tight_limit_never_runs_the_module_unconfined() {
    as_each(|scene| {
        // The control: enough of everything, and the witness runs.
        assert!(with_limit(scene, libc::RLIMIT_NOFILE, 64));
        assert!(with_limit(scene, libc::RLIMIT_AS, 1 << 30));
        let mut refused = 0;
        for files in 3..12 {
            refused += u32::from(!with_limit(scene, libc::RLIMIT_NOFILE, files));
        }
        for kilobytes in (0..64).map(|step| 256 * step) {
            refused += u32::from(!with_limit(scene, libc::RLIMIT_AS, kilobytes << 10));
        }
        for kilobytes in [0, 4, 8, 16, 32, 48, 64, 96, 128, 256, 8192] {
            let ran = with_limit(scene, libc::RLIMIT_STACK, kilobytes << 10);
            assert!(ran || kilobytes < 64, "{kilobytes} KiB of stack");
        }
        for bytes in [0, 1, 4096] {
            with_limit(scene, libc::RLIMIT_FSIZE, bytes);
        }
        assert!(refused > 10, "the limits were not tight");
    });
}

#[test]
fn a_policy_that_changes_while_it_is_read_is_one_of_its_versions_or_refused() {
    as_each(|scene| {
        let (narrow, wide) = (scene.dir("narrow"), scene.dir("wide"));
        let versions = [
            scene.policy().rd(&narrow).json(),
            scene.policy().rd(&narrow).rw(&wide).json(),
        ];
        let file = scene.policy_file(&versions[0]);
        let stop = AtomicUsize::new(0);
        let (mut ran, mut refused) = (0, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                // Bounded, so that a failed check ends the test.
                for round in 0..100_000 {
                    if stop.load(Ordering::Relaxed) == 1 {
                        break;
                    }
                    let text = &versions[round % 2];
                    if round % 3 == 0 {
                        let other = format!("{file}.new");
                        fs::write(&other, text).expect("a file");
                        scene.give(&other);
                        fs::rename(&other, &file).expect("own files");
                    } else {
                        // In place: emptied, then written in two halves.
                        fs::write(&file, &text[..text.len() / 2]).expect("a file");
                        fs::write(&file, text).expect("a file");
                    }
                }
            });
            for _ in 0..400 {
                let outcome = scene
                    .launcher(&["sandbox-exec", &file, "--", "/bin/sh", "-c", WITNESS])
                    .run();
                assert!([Some(0), Some(70)].contains(&outcome.code), "{outcome:?}");
                match confined_or_refused(&outcome, "changing policy") {
                    true => ran += 1,
                    false => refused += 1,
                }
            }
            stop.store(1, Ordering::Relaxed);
        });
        assert!(ran > 0 && refused > 0, "{ran} ran, {refused} refused");
    });
}

#[test]
fn a_root_with_nothing_else_is_enough() {
    // No /proc, no /dev, no /usr: an initramfs, or an empty container image.
    support::as_root(|scene| {
        let root = scene.dir("empty");
        fs::copy(scene.agent(), format!("{root}/agent")).expect("own folder");
        let policy = support::Policy::new().exe("/agent").gpu();
        fs::write(format!("{root}/policy"), policy.json()).expect("own folder");
        let run = |argv: &[&str]| {
            let mut run = scene.plain(argv);
            let root = std::ffi::CString::new(root.clone()).expect("no NUL");
            // SAFETY: two calls that are safe after fork; the name ends in a zero byte.
            run.before(move || unsafe {
                support::check(libc::chroot(root.as_ptr()))?;
                support::check(libc::chdir(c"/".as_ptr()))
            });
            run.run()
        };
        let version = run(&["/agent", "--version"]).success();
        let inside = run(&[
            "/agent",
            "sandbox-exec",
            "/policy",
            "--",
            "/agent",
            "--version",
        ]);
        assert_eq!(inside.success(), version);
        // What is not granted does not run there either.
        fs::copy(scene.agent(), format!("{root}/other")).expect("own folder");
        let other = run(&[
            "/agent",
            "sandbox-exec",
            "/policy",
            "--",
            "/other",
            "--version",
        ]);
        other.refused(71, "exec", &["/other", "EACCES"]);
    });
}
