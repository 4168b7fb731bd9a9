//! Every call of the launch, each occurrence, is made to fail with every plausible errno: the launch ends in 70 (71
//! for the exec), one line names the step, and the module has not run. The same with too little of everything.
//!
//! What is made to fail comes from a trace of the launch itself, so a call that is added is tried too; one that
//! the table below doesn't name fails the test.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oarbank_agent::surface::{FAILURE, LAUNCH};
use support::{Outcome, Policy, Run, Scene, as_each, skip};

/// The descriptors that the launch is given: one to be told, one to pass on.
const TOLD: i32 = 400;
const KEPT: i32 = 401;

/// What a call is made to fail with. Left out is what [`REGULAR`] has.
const ERRNOS: &[(&str, &str)] = &[
    ("capget", "EPERM EFAULT EINVAL"),
    ("capset", "EPERM EFAULT EINVAL"),
    ("close_range", "ENOSYS EINVAL ENOMEM EMFILE"),
    (
        "execve",
        "ENOENT EACCES ENOEXEC ENOMEM E2BIG ETXTBSY EINTR EIO",
    ),
    ("eventfd2", "EMFILE ENFILE ENODEV ENOMEM"),
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
    ("newfstatat", "EIO ENOMEM ELOOP ENAMETOOLONG"),
    (
        "openat",
        "EACCES EMFILE ENFILE ENOMEM EIO EPERM ENAMETOOLONG ENOTDIR",
    ),
    (
        "openat2",
        "EACCES EMFILE ENFILE ENOMEM EIO EPERM E2BIG EAGAIN ENOTDIR",
    ),
    ("prctl", "EPERM ENOSYS EFAULT EINVAL"),
    ("read", "EIO EISDIR EAGAIN ENOMEM"),
    ("readlinkat", "EACCES EIO ENOMEM ENAMETOOLONG ENOTDIR"),
    ("rt_sigprocmask", "EINVAL EFAULT"),
    ("seccomp", "EINVAL ENOMEM EACCES EFAULT ENOSYS ESRCH"),
    ("write", "EPIPE EIO ENOSPC EAGAIN EBADF EFBIG"),
];

/// What is part of the launch, wherever the kernel really says it: the launch then goes on in another way, or
/// ends. If it goes on, the module is confined in full.
const REGULAR: &[(&str, &str)] = &[
    // A descriptor number is free again whatever close answers. A debug build panics there (rustix).
    ("close", "EIO EINTR"),
    // F_GET_SEALS: a file that can't be sealed lies on a disk.
    ("fcntl", "EINVAL"),
    // A standard descriptor that is closed.
    ("fstat", "EBADF"),
    // /dev went away.
    ("getdents64", "ENOENT"),
    // A path of the host that is not there.
    ("openat", "ENOENT"),
    // The same, while its links are looked at; a file, or a directory that may not be searched, where a merged /usr has a link.
    ("newfstatat", "ENOENT ENOTDIR EACCES"),
    // The same; a link, which is then walked; and a filter around the launcher, under which everything is.
    ("openat2", "ENOENT ELOOP ENOSYS"),
    // No link.
    ("readlinkat", "EINVAL ENOENT"),
];

/// Calls whose EINTR is tried again; where others are interrupted the launch ends.
const RETRIED: [&str; 4] = ["openat", "openat2", "read", "write"];

/// The steps that a line may name.
const STEPS: [&str; 8] = [
    "descriptors",
    "policy",
    "no_new_privs",
    "landlock",
    "capabilities",
    "seccomp",
    "confined",
    "exec",
];

/// A descriptor that is passed on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Pipe,
    /// A file without a name, on a disk or in a tmpfs: looked at more closely, it might live in memory alone.
    Nameless(&'static str),
}

/// A way to launch.
struct Way {
    name: &'static str,
    policy: fn(&Place<'_>, Policy) -> Policy,
    told: bool,
    kept: Option<Kept>,
    /// Root whose bounding set is empty, as in some containers.
    bare_root: bool,
    /// Under a filter that hides `openat2`, as some units of systemd are.
    without_openat2: bool,
}

impl Way {
    /// Whether this user can launch so; says that it is skipped where the host is what keeps it from that.
    fn can_be_made(&self, scene: &Scene) -> bool {
        if let Some(Kept::Nameless(directory)) = self.kept
            && let Err(error) = nameless(directory)
        {
            skip(&format!("no file without a name in {directory}: {error}"));
            return false;
        }
        !self.bare_root || scene.who.is_root()
    }
}

const PLAIN: Way = Way {
    name: "plain",
    policy: |_, policy| policy,
    told: false,
    kept: None,
    bare_root: false,
    without_openat2: false,
};

/// Here the launcher asks whether the program is in the base system: a place there that can't be walked is none
/// that holds it, and another may.
const LINKED_EXE: &str = "linked exe";
/// What such a place is looked at with.
const WALKED: [&str; 4] = ["fstat", "newfstatat", "openat2", "readlinkat"];

/// The ways; the first has everything.
const WAYS: [Way; 13] = [
    Way {
        name: "everything",
        policy: |place, policy| {
            let policy = place.nested(policy).gpu().exec_rw();
            policy.broker(&place.broker).proxy(9)
        },
        told: true,
        kept: Some(Kept::Pipe),
        ..PLAIN
    },
    PLAIN,
    Way {
        name: "net",
        policy: |_, policy| policy.proxy(9),
        ..PLAIN
    },
    Way {
        name: "broker",
        policy: |place, policy| policy.broker(&place.broker),
        ..PLAIN
    },
    Way {
        name: "gpu",
        policy: |_, policy| policy.gpu(),
        ..PLAIN
    },
    Way {
        name: "exec_rw",
        policy: |_, policy| policy.exec_rw(),
        ..PLAIN
    },
    Way {
        name: "nested",
        policy: |place, policy| place.nested(policy),
        ..PLAIN
    },
    Way {
        name: "told",
        told: true,
        ..PLAIN
    },
    Way {
        name: "file on a disk",
        kept: Some(Kept::Nameless("/tmp")),
        ..PLAIN
    },
    Way {
        name: "file in a tmpfs",
        kept: Some(Kept::Nameless("/dev/shm")),
        ..PLAIN
    },
    Way {
        name: LINKED_EXE,
        policy: |place, policy| policy.exe(&place.exe),
        ..PLAIN
    },
    Way {
        name: "bare root",
        bare_root: true,
        ..PLAIN
    },
    Way {
        name: "without openat2",
        policy: |place, policy| place.nested(policy),
        without_openat2: true,
        ..PLAIN
    },
];

/// Where the ways are tried: a writable root, with a broker's socket and a link to a folder in it.
struct Place<'a> {
    scene: &'a Scene,
    root: String,
    link: String,
    broker: String,
    /// A link to a program of the base system.
    exe: String,
    rd: String,
    wo: String,
    /// What no policy here grants.
    outside: String,
    _listener: UnixListener,
}

impl<'a> Place<'a> {
    fn new(scene: &'a Scene) -> Self {
        let root = scene.dir("root");
        let inner = scene.dir("root/inner");
        let broker = scene.path("root/broker");
        let listener = UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        Place {
            scene,
            root,
            link: scene.symlink(&inner, "root/link"),
            broker,
            exe: scene.symlink("/bin/sh", "root/sh"),
            rd: scene.dir("rd"),
            wo: scene.dir("wo"),
            outside: scene.dir("outside") + "/reached",
            _listener: listener,
        }
    }

    /// Below the writable root, through a link.
    fn nested(&self, policy: Policy) -> Policy {
        policy.ro(&self.link).rd(&self.rd).wo(&self.wo)
    }
}

/// One way to launch, in its place.
struct Launch<'a> {
    place: &'a Place<'a>,
    way: &'a Way,
    policy: String,
}

/// The module: leaves a mark inside, tries to leave one outside, and says how it is confined.
const MODULE: &str = r#"
    { echo > "$0"; } 2>/dev/null
    echo > "$1" && exec /bin/grep -E "^($2):" /proc/self/status"#;

impl<'a> Launch<'a> {
    fn new(place: &'a Place<'a>, way: &'a Way) -> Self {
        let policy = Policy::new().exe("/bin/sh").rw(&place.root);
        let policy = (way.policy)(place, policy).json();
        Launch {
            place,
            way,
            policy: place.scene.policy_file(policy),
        }
    }

    /// The launch under strace with these options, and whether the module has run.
    fn run(&self, number: usize, options: &[&str]) -> (Outcome, bool) {
        let (place, scene) = (self.place, self.place.scene);
        let marker = format!("{}/ran-{number}", place.root);
        let mut argv = vec!["strace", "-s", "0"];
        argv.extend(options);
        argv.extend([scene.agent(), "sandbox-exec", &self.policy, "--"]);
        argv.extend(["/bin/sh", "-c", MODULE, &place.outside, &marker]);
        argv.push(self.status().0);
        let outcome = self.given(scene.plain(&argv)).run();
        let ran = fs::exists(&marker).expect("a path");
        let _ = fs::remove_file(&marker);
        (outcome, ran)
    }

    /// The lines of `/proc/self/status` to be looked at, and what they must be. A user's bounding set stays.
    fn status(&self) -> (&'static str, String) {
        let none = |set| format!("Cap{set}:\t0000000000000000\n");
        let sets = ["Inh", "Prm", "Eff"].map(none).concat();
        let rest = format!("{}NoNewPrivs:\t1\nSeccomp:\t2\n", none("Amb"));
        if self.place.scene.who.is_root() {
            let all = "Cap...|NoNewPrivs|Seccomp";
            (all, format!("{sets}{}{rest}", none("Bnd")))
        } else {
            let all = "Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp";
            (all, sets + &rest)
        }
    }

    /// With the descriptors and the privileges of the way.
    fn given(&self, mut run: Run) -> Run {
        if self.way.told {
            let null = fs::File::options().write(true).open("/dev/null");
            run = run
                .fd(TOLD, null.expect("a device"))
                .env("OARBANK_CONFINED", TOLD.to_string());
        }
        let kept = self.way.kept.map(|kept| match kept {
            Kept::Pipe => OwnedFd::from(std::io::pipe().expect("a pipe").0),
            Kept::Nameless(directory) => nameless(directory).expect("asked before").into(),
        });
        if let Some(kept) = kept {
            run = run.fd(KEPT, kept).env("OARBANK_KEPT", format!("fd:{KEPT}"));
        }
        if self.way.without_openat2 {
            run.before(support::hide_openat2);
        }
        if self.way.bare_root {
            run.before(|| {
                for capability in 0..64 {
                    // SAFETY: takes numbers; safe after fork. Past the last capability it fails.
                    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
                }
                Ok(())
            });
        }
        run
    }

    /// The launcher's own calls, one a line: all between its own exec and that of the module, the latter included.
    fn trace(&self) -> Vec<String> {
        let log = self.place.scene.file("log", "");
        let (outcome, ran) = self.run(0, &["-o", &log]);
        self.ran_confined(&outcome, ran, "the control");
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

    fn ran_confined(&self, outcome: &Outcome, ran: bool, what: &str) {
        let out = String::from_utf8_lossy(&outcome.out);
        assert_eq!(
            (outcome.code, ran, &*out),
            (Some(0), true, &*self.status().1),
            "{what}: {outcome:?}"
        );
        let outside = fs::exists(&self.place.outside).expect("a path");
        assert!(!outside, "{what}: it reached the outside");
    }

    /// Without /proc, /usr or a loader the module ends early.
    fn has_less(&self, outcome: &Outcome, fault: &Fault) {
        let out = String::from_utf8_lossy(&outcome.out);
        assert!(
            out.is_empty() || *out == self.status().1,
            "{fault:?}: {outcome:?}"
        );
        let outside = fs::exists(&self.place.outside).expect("a path");
        assert!(!outside, "{fault:?}: it reached the outside");
    }

    fn refused(&self, outcome: &Outcome, ran: bool, fault: &Fault) {
        let code = if fault.call == "execve" { 71 } else { 70 };
        let said = String::from_utf8_lossy(&outcome.err);
        assert_eq!(
            (outcome.code, ran, outcome.out.len()),
            (Some(code), false, 0),
            "{fault:?}: {outcome:?}"
        );
        let line = said.strip_prefix("oarbank-agent: ");
        let named = line.and_then(|line| line.split_once(": "));
        let step = named.map_or("", |(step, _)| step);
        let panicked = fault.call == "close" && step == "internal";
        assert!(STEPS.contains(&step) || panicked, "{fault:?}: {said}");
        assert!(
            said.ends_with('\n') && said.lines().count() == 1,
            "{fault:?}: {said}"
        );
        if fault.expected == Expected::Refused {
            assert!(said.contains(fault.errno), "{fault:?}: {said}");
        }
    }

    fn check(&self, number: usize, fault: &Fault) {
        let Fault {
            call, count, errno, ..
        } = fault;
        let inject = format!("inject={call}:error={errno}:when={count}");
        let (outcome, ran) = self.run(number, &["-o", "/dev/null", "-e", &inject]);
        let runs = match fault.expected {
            Expected::Refused if self.way.name == LINKED_EXE && WALKED.contains(&&**call) => {
                outcome.code == Some(0)
            }
            Expected::Refused => false,
            Expected::Runs => true,
            Expected::Either => outcome.code == Some(0),
            Expected::Less if outcome.code == Some(70) => false,
            Expected::Less => return self.has_less(&outcome, fault),
        };
        if runs {
            self.ran_confined(&outcome, ran, &format!("{fault:?}"));
        } else {
            self.refused(&outcome, ran, fault);
        }
    }
}

/// A new file that no name leads to.
fn nameless(directory: &str) -> std::io::Result<fs::File> {
    let mut options = fs::File::options();
    let options = options.read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_TMPFILE).open(directory)
}

/// What must become of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Refused,
    Runs,
    Either,
    /// As either, but what the module gets may be too little to say how it runs.
    Less,
}

/// A call of the launch that is made to fail.
#[derive(Clone, Debug)]
struct Fault {
    call: String,
    /// Which occurrence, from 1.
    count: usize,
    errno: &'static str,
    /// What the trace has of it.
    line: String,
    expected: Expected,
}

fn faults(trace: &[String]) -> Vec<Fault> {
    let row = |table: &[(&str, &'static str)], call: &str| {
        let row = table.iter().find(|(name, _)| *name == call);
        row.map(|(_, errnos)| errnos.split_whitespace())
    };
    let mut counts = BTreeMap::new();
    let mut faults = Vec::new();
    for line in trace {
        let call = line.split('(').next().expect("a name");
        let count = *counts
            .entry(call)
            .and_modify(|count| *count += 1)
            .or_insert(1);
        let mut fault = |errno, expected| {
            // What fails so by itself is tried by every launch.
            if !line.contains(&format!(" = -1 {errno} ")) {
                faults.push(Fault {
                    call: call.to_owned(),
                    count,
                    errno,
                    line: line.clone(),
                    expected,
                });
            }
        };
        match call {
            // Who one is can't fail (geteuid(2)).
            "geteuid" => continue,
            // The end of what is told: it must not stay open.
            "close" if line.starts_with(&format!("close({TOLD})")) => {
                fault("EIO", Expected::Refused);
                fault("EBADF", Expected::Refused);
                continue;
            }
            "close" => {}
            _ => row(ERRNOS, call)
                .unwrap_or_else(|| panic!("add {call} to the table: {line}"))
                .for_each(|errno| fault(errno, Expected::Refused)),
        }
        for errno in row(REGULAR, call).into_iter().flatten() {
            let less = errno == "ENOENT";
            fault(
                errno,
                if less {
                    Expected::Less
                } else {
                    Expected::Either
                },
            );
        }
        match call {
            "execve" | "close" => {}
            call if RETRIED.contains(&call) => fault("EINTR", Expected::Runs),
            _ => fault("EINTR", Expected::Either),
        }
    }
    faults
}

#[test]
fn every_call_may_fail_in_every_way() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let place = Place::new(scene);
        let (mut tried, mut lines) = (BTreeSet::new(), BTreeSet::new());
        for (turn, way) in WAYS.iter().enumerate() {
            if !way.can_be_made(scene) {
                continue;
            }
            let launch = Launch::new(&place, way);
            let trace = launch.trace();
            assert!(trace.len() > 45, "{trace:#?}");
            // A call that an earlier way made too (the base system's paths) fails in one of its ways, by turns.
            let faults: Vec<Fault> = faults(&trace)
                .chunk_by(|one, other| (&one.call, one.count) == (&other.call, other.count))
                .flat_map(|call| {
                    let turn = turn % call.len();
                    match lines.contains(&call[0].line) {
                        true => &call[turn..=turn],
                        false => call,
                    }
                })
                .cloned()
                .collect();
            lines.extend(trace.iter().cloned());
            let next = AtomicUsize::new(0);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            let Some(fault) = faults.get(number) else {
                                break;
                            };
                            launch.check(number + 1, fault);
                        }
                    });
                }
            });
            let calls = trace.len();
            eprintln!("{}: {} faults in {calls} calls", way.name, faults.len());
            tried.extend(faults.into_iter().map(|fault| fault.call));
        }
        // A row that no way needs is a way that is missing here. A user has no capabilities to drop.
        for (call, _) in ERRNOS {
            assert!(
                tried.contains(*call) || (*call == "capset" && !scene.who.is_root()),
                "{call} is in the table and in no launch"
            );
        }
    });
}

/// The table of the launcher's own calls, held against what it does: each step makes its calls and no other, in order.
#[test]
fn every_call_is_that_of_its_step() {
    if !support::strace_is_here() {
        return;
    }
    // Which calls the table has, by step, and the operation that they were made with.
    let listed: BTreeSet<Made> = (0..)
        .zip(&LAUNCH)
        .flat_map(|(step, row)| row.calls.iter().map(move |own| (step, own)))
        .flat_map(|(step, own)| {
            let with = if own.with.is_empty() { &[""] } else { own.with };
            with.iter().map(move |with| (step, own.name, *with))
        })
        .collect();
    let seen = Mutex::new(BTreeSet::new());
    as_each(|scene| {
        let place = Place::new(scene);
        for way in WAYS.iter().filter(|way| way.can_be_made(scene)) {
            let trace = Launch::new(&place, way).trace();
            let made = steps(&trace).unwrap_or_else(|fault| panic!("{}: {fault}", way.name));
            seen.lock().expect("no panic").extend(made);
        }
    });
    let seen = seen.into_inner().expect("no panic");
    let never: Vec<_> = listed.difference(&seen).collect();
    assert!(never.is_empty(), "listed and never made: {never:?}");
}

/// A call of the table: its step, its name, its operation.
type Made = (usize, &'static str, &'static str);

/// What a trace has of the table, or where it leaves it.
fn steps(trace: &[String]) -> Result<BTreeSet<Made>, String> {
    let mut made = BTreeSet::new();
    let mut lines = trace.iter().peekable();
    for (step, row) in LAUNCH.iter().enumerate() {
        let mut once = row.calls.iter().filter(|own| own.once);
        let of_step = |line: &&String| {
            let name = line.split('(').next();
            row.calls.iter().find(|own| Some(own.name) == name)
        };
        while let Some((line, own)) = lines.peek().and_then(|line| Some((line, of_step(line)?))) {
            let with = match own.with {
                [] => Some(&""),
                with => with.iter().find(|with| line.contains(**with)),
            };
            let with = with.ok_or(format!(
                "step {}: other than {:?}: {line}",
                step + 1,
                own.with
            ))?;
            made.insert((step, own.name, *with));
            if own.once && once.next().map(|own| own.name) != Some(own.name) {
                return Err(format!(
                    "step {}: a second time, or too early: {line}",
                    step + 1
                ));
            }
            lines.next();
        }
        if let Some(own) = once.next() {
            return Err(format!(
                "step {}: no {} before {:?}",
                step + 1,
                own.name,
                lines.peek()
            ));
        }
    }
    match lines.next() {
        None => Ok(made),
        Some(line) => Err(format!("in no step of src/surface.rs from here on: {line}")),
    }
}

#[test]
fn a_failure_makes_the_calls_of_the_table() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let log = scene.file("log", "");
        let argv = [
            "strace",
            "-o",
            &log,
            scene.agent(),
            "sandbox-exec",
            "/nowhere",
        ];
        let outcome = scene
            .plain(&[&argv[..], &["--", "/bin/true"]].concat())
            .run();
        outcome.refused(70, "policy", &["ENOENT"]);
        let text = fs::read_to_string(&log).expect("the log");
        let calls: Vec<&str> = text
            .lines()
            .map(|line| line.split('(').next().expect("a name"))
            .collect();
        let listed: Vec<&str> = FAILURE.calls.iter().map(|own| own.name).collect();
        let ends: Vec<usize> = (0..calls.len())
            .filter(|&at| calls[at..].starts_with(&listed))
            .collect();
        // The last line of a log says how the process ended.
        assert_eq!(ends, [calls.len() - 1 - listed.len()], "{calls:?}");
    });
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
    let outcome = run.unforeseeable().run();
    confined_or_refused(&outcome, &format!("limit {resource} {value}"))
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

/// Says which of two folders it can write to.
const WRITES: &str =
    "(: > \"$0/f\") 2>/dev/null && echo a; (: > \"$1/f\") 2>/dev/null && echo b; exit 0";

/// A file that is rewritten in place is mixed from both versions for a while, whoever looks at it: versions of one
/// length are therefore only exchanged by a rename, which the launcher sees wholly or not at all.
#[test]
fn a_policy_that_changes_while_it_is_read_is_one_of_its_versions_or_refused() {
    as_each(|scene| {
        let folders = [scene.dir("a"), scene.dir("b")];
        let version = |folder: &str, pad| Policy::new().rw(folder).json() + &" ".repeat(pad);
        // Over several pages, so that they are read piece by piece.
        let by_rename = folders.each_ref().map(|folder| version(folder, 20_000));
        let in_place = [version(&folders[0], 9_000), version(&folders[1], 30_000)];
        let end = Instant::now() + Duration::from_secs(3);
        for (renamed, versions) in [(true, by_rename), (false, in_place)] {
            let file = scene.policy_file(&versions[0]);
            let counts = [(); 3].map(|()| AtomicUsize::new(0));
            let half = end - Duration::from_millis(if renamed { 1500 } else { 0 });
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut version = 0;
                    while Instant::now() < half {
                        version = 1 - version;
                        let other = format!("{file}.new");
                        let name = if renamed { &other } else { &file };
                        fs::write(name, &versions[version]).expect("a file");
                        if renamed {
                            scene.give(&other);
                            fs::rename(&other, &file).expect("own files");
                        }
                    }
                });
                for _ in 0..2 {
                    threads.spawn(|| {
                        let words = ["sandbox-exec", &file, "--", "/bin/sh", "-c", WRITES];
                        let [a, b] = &folders;
                        while Instant::now() < half {
                            let run = scene.launcher(&words).arg(a).arg(b).unforeseeable();
                            let outcome = run.run();
                            let end = match (outcome.code, &*outcome.out) {
                                (Some(0), b"a\n") => 0,
                                (Some(0), b"b\n") => 1,
                                (Some(70), b"") if !renamed => 2,
                                _ => panic!("neither of the versions: {outcome:?}"),
                            };
                            counts[end].fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            let [a, b, refused] = counts.map(AtomicUsize::into_inner);
            eprintln!("renamed: {renamed}; {a} under a, {b} under b, {refused} refused");
            assert!(a + b > 0, "it was never whole");
            assert!(
                renamed || refused > 0,
                "it did not change while it was read"
            );
        }
    });
}

#[test]
fn a_read_that_lies_about_its_length_is_noticed() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let place = Place::new(scene);
        let mut launch = Launch::new(&place, &PLAIN);
        // A policy that is whole without its end too.
        let policy = fs::read_to_string(&launch.policy).expect("own file");
        launch.policy = scene.policy_file(policy + &" ".repeat(10_000));
        for length in [0, 1, 2, 4096, 9_999] {
            // The first read says that it read so much, and did nothing.
            let inject = format!("inject=read:retval={length}:when=1");
            let (outcome, ran) = launch.run(length, &["-o", "/dev/null", "-e", &inject]);
            assert!(!ran, "{length}: {outcome:?}");
            outcome.refused(70, "policy", &["EAGAIN"]);
        }
    });
}

#[test]
fn a_policy_that_is_no_file_is_refused() {
    as_each(|scene| {
        let socket = scene.path("socket.json");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let dangling = scene.symlink("/nowhere/at/all", "dangling.json");
        let round = scene.symlink("round.json", "round.json");
        let unreadable = scene.policy_file("{}");
        let nobody = Permissions::from_mode(0o000);
        fs::set_permissions(&unreadable, nobody).expect("own file");
        let mut names = vec![
            (&*socket, "ENXIO"),
            (&dangling, "ENOENT"),
            (&round, "ELOOP"),
            // Regular files by their mode, of no length by their size.
            ("/proc/self/environ", "EAGAIN"),
            ("/proc/self/mem", "EIO"),
            ("/proc/self/maps", "EAGAIN"),
            // Endless, and not to be waited for.
            ("/dev/zero", "EINVAL"),
            ("/dev/full", "EINVAL"),
            ("/", "EISDIR"),
            ("", "ENOENT"),
        ];
        if !scene.who.is_root() {
            names.push((&unreadable, "EACCES"));
        }
        let outside = scene.dir("outside");
        for (name, error) in names {
            let module = ["/bin/sh", "-c", "echo > \"$0\"/ran", &outside];
            let words = [&["sandbox-exec", name, "--"], &module[..]].concat();
            let outcome = scene.launcher(&words).run();
            outcome.refused(70, "policy", &[error]);
            assert!(!fs::exists(format!("{outside}/ran")).expect("a path"));
        }
    });
}

/// Writes down which of the descriptors 0 to 9 are open.
const OPEN: &str =
    "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && l=$l$n; done; echo $l > $0";

#[test]
fn closed_standard_descriptors_stay_closed_in_every_combination() {
    as_each(|scene| {
        let told = scene.file("told", "");
        let policy = scene.policy_file(scene.policy().rw(&told).gpu().json());
        for closed in 0..8 {
            let ends = |policy: &str, program: &str| {
                let words = ["sandbox-exec", policy, "--", program, "-c", OPEN, &told];
                let mut run = scene.launcher(&words);
                run.before(move || {
                    for number in (0..3).filter(|number| closed & 1 << number != 0) {
                        // SAFETY: closes a number that the child then has no use for.
                        unsafe { libc::close(number) };
                    }
                    Ok(())
                });
                run.unforeseeable().run()
            };
            let open: String = (0..3)
                .filter(|number| closed & 1 << number == 0)
                .map(|number| number.to_string())
                .collect();
            fs::write(&told, "?").expect("own file");
            let outcome = ends(&policy, "/bin/sh");
            assert_eq!(outcome.code, Some(0), "{open:?} open: {outcome:?}");
            let seen = fs::read_to_string(&told).expect("own file");
            assert_eq!(seen.trim_end(), open, "seen, and open");
            // An error has the same end when nobody can read its line, and no line lands elsewhere.
            for (policy, program, code) in [
                ("/nowhere/policy", "/bin/sh", 70),
                (&*told, "/bin/sh", 70),
                (&*policy, "/nowhere/program", 71),
            ] {
                let outcome = ends(policy, program);
                assert_eq!(outcome.code, Some(code), "{open:?} open: {outcome:?}");
                assert_eq!(outcome.err.is_empty(), closed & 4 != 0, "{outcome:?}");
                assert!(outcome.out.is_empty(), "{outcome:?}");
                let kept = fs::read_to_string(&told).expect("own file");
                assert_eq!(kept, seen, "what was written");
            }
        }
    });
}

#[test]
fn a_root_with_nothing_else_is_enough() {
    // No /proc, no /dev, no /usr: an initramfs, or an empty container image.
    support::as_root(|scene| {
        let root = scene.dir("empty");
        scene.program("empty/agent", Path::new(scene.agent()));
        let policy = support::Policy::new().exe("/agent").gpu();
        fs::write(format!("{root}/policy"), policy.json()).expect("own folder");
        let run = |argv: &[&str]| scene.plain(argv).in_root(&root).run();
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
        scene.program("empty/other", Path::new(scene.agent()));
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
