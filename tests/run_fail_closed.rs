//! Every call of `sandbox-run`, each occurrence, in each of its processes, is made to fail: nothing of the module runs
//! before it was verified, and whatever happens, no process and no leaf is left.
//!
//! What is made to fail comes from a trace, so a call that is added is tried too. A fault meets every process that makes
//! a call so often, the module among them: it may end as it likes then.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Outcome, Policy, Trial, in_each_container, strace_is_here, wait_for};

/// What the module says: it is confined.
const CONFINED: &str = "NoNewPrivs:\t1\nSeccomp:\t2\n";

/// A call that may fail and the module runs all the same, and why it may.
type Harmless = (&'static str, &'static str);

const HARMLESS: &[Harmless] = &[
    (
        "close",
        "the descriptor is gone whatever the kernel answers",
    ),
    ("flock", "of a leaf that others may have left behind"),
    (
        "getdents64",
        "a list of what is to be swept, or granted where it exists",
    ),
    ("getrusage", "after the module's end, whose code stands"),
    (
        "openat",
        "of the base system as far as it exists; and of what is told after the end",
    ),
    ("read", "of what is told after the end"),
    ("unlinkat", "the next launch sweeps what is left"),
    ("wait4", "of what has ended: it is tried again"),
    ("write", "of what is told after the end"),
];

/// The same with `--explain-denials`, besides.
const HARMLESS_EXPLAINED: &[Harmless] = &[
    ("bind", "files and connections are not seen then"),
    ("clock_gettime", "how long a line may wait"),
    ("ioctl", "it makes answers faster; none is given here"),
    ("kill", "of a process that only writes lines, to go on"),
    ("ppoll", "for a line or its reader"),
    ("pwritev2", "of a line"),
    ("readlinkat", "files and connections are not seen then"),
    ("recvfrom", "of a line, or of what is not seen then"),
    ("sendto", "of a line, or of what is not seen then"),
    ("socket", "files and connections are not seen then"),
];

/// What a call is made to fail with.
fn errnos(call: &str) -> &'static [&'static str] {
    match call {
        "openat" | "pipe2" => &["EMFILE", "EACCES"],
        "clone3" => &["EAGAIN", "ENOSYS"],
        "mkdirat" => &["EACCES", "ENOSPC"],
        "flock" => &["EAGAIN", "ENOLCK"],
        _ => &["EIO", "EPERM"],
    }
}

/// `sandbox-run` under strace with these options.
fn run(trial: &Trial<'_>, options: &[&str]) -> Outcome {
    let words = trial.words(&Policy::new());
    let mut argv = vec!["strace", "-f", "-qq", "-s", "0"];
    argv.extend(options);
    argv.push(trial.scene.agent());
    argv.extend(words.iter().map(String::as_str));
    argv.extend([
        "/bin/grep",
        "-E",
        "^(NoNewPrivs|Seccomp):",
        "/proc/self/status",
    ]);
    trial.supervised(trial.scene.plain(&argv)).run()
}

/// Every call of so many processes, with how often one of them makes it; of the module up to its exec.
fn calls(log: &str, processes: usize) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut roles: Vec<&str> = Vec::new();
    let mut module = None;
    for line in log.lines() {
        let (process, rest) = line.split_once(' ').expect("a pid");
        let Some((call, _)) = rest.trim_start().split_once('(') else {
            continue;
        };
        if !call
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            continue; // The second half of a call, or a signal.
        }
        if !roles.contains(&process) {
            roles.push(process);
        }
        if module == Some(process) {
            continue;
        }
        *counts.entry((process, call)).or_default() += 1;
        // The first exec is strace's own of the front.
        if call == "execve" && roles[0] != process {
            module = Some(process);
        }
    }
    assert!(module.is_some() && roles.len() == processes, "{log}");
    let mut most = BTreeMap::new();
    for ((_, call), count) in counts {
        let entry: &mut usize = most.entry(call.to_owned()).or_default();
        *entry = count.max(*entry);
    }
    most
}

/// The calls that failed and the module ran all the same.
type Seen = Mutex<BTreeSet<String>>;

fn check(
    trial: &Trial<'_>,
    call: &str,
    count: usize,
    errno: &str,
    harmless: &[Harmless],
    seen: &Seen,
) {
    let what = format!("{call} {count} {errno}");
    let inject = format!("inject={call}:error={errno}:when={count}");
    let outcome = run(trial, &["-o", "/dev/null", "-e", &inject]);
    let what = format!("{what}: {outcome:?}\n{:?}", trial.events());
    let out = String::from_utf8_lossy(&outcome.out);
    assert!(out.is_empty() || out == CONFINED, "{what}");
    let verified = trial.event("verified").is_some();
    assert!(verified || out.is_empty(), "not verified: {what}");
    let exited = trial.event("exited").map(|_| trial.field("exited", "code"));
    let code = outcome.code.map(|code| code.to_string());
    match outcome.code {
        // A fault of the module's own, or none that matters.
        _ if exited.is_some() && exited == code => {}
        Some(0) => assert_eq!(out, CONFINED, "{what}"),
        Some(70 | 71) => {
            let err = String::from_utf8_lossy(&outcome.err);
            let ours =
                |line: &str| line.starts_with("oarbank-agent: ") && line.matches(": ").count() > 1;
            // Beside it there may be what a module said that met the same fault.
            assert!(err.lines().any(ours) || call == "write", "{what}");
        }
        _ => panic!("{what}"),
    }
    if out == CONFINED && outcome.code == Some(0) {
        assert!(
            harmless.iter().any(|(harmless, _)| *harmless == call),
            "it failed, and nobody has noticed: {what}"
        );
        seen.lock().expect("no panic").insert(call.to_owned());
    }
    // A debug build panics at a close that fails, also in the front, which then waits for nobody.
    if call == "close" || call == "unlinkat" {
        return;
    }
    if harmless != HARMLESS {
        wait_for("who writes the lines ends", || trial.survivors().is_empty());
    }
    assert!(
        trial.survivors().is_empty(),
        "{:?} are left: {what}",
        trial.survivors()
    );
    if trial.cgroup.is_some() && trial.event("started").is_some() {
        let leaf = trial.field("started", "cgroup");
        assert!(
            !fs::exists(&leaf).expect("a path"),
            "{leaf} is left: {what}"
        );
    }
}

/// Tries it with this option, if any, which makes so many processes of it.
fn every_call_may_fail(option: Option<&str>, processes: usize, harmless: &[Harmless]) {
    if !strace_is_here() {
        return;
    }
    let seen = Mutex::new(BTreeSet::new());
    in_each_container(|trial| {
        let trial = &match option {
            Some(option) => trial
                .again()
                .options(&[&format!("{option}={}", trial.scene.file("told", ""))]),
            None => trial.again(),
        };
        let log = trial.scene.file("log", "");
        let first = trial.again();
        let outcome = run(&first, &["-o", &log]);
        assert_eq!(outcome.success(), CONFINED);
        let calls = calls(&fs::read_to_string(&log).expect("the log"), processes);
        let mut faults = Vec::new();
        for (call, most) in &calls {
            // The first exec is strace's own of the front; how the others end is seen above.
            let first = if call == "execve" { continue } else { 1 };
            // strace makes a call fail by making another of it, -1: with a listener that no one has yet, nobody answers.
            if ["exit_group", "sendmsg"].contains(&call.as_str()) {
                continue;
            }
            for count in first..=*most {
                faults.extend(errnos(call).iter().map(|errno| (call, count, *errno)));
            }
        }
        assert!(faults.len() > 100, "{calls:?}");
        let next = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while let Some((call, count, errno)) =
                        faults.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        check(&trial.again(), call, *count, errno, harmless, &seen);
                    }
                });
            }
        });
        eprintln!("{} faults", faults.len());
        if trial.cgroup.is_some() {
            // What could not be removed is swept by the next launch.
            trial
                .again()
                .run(&Policy::new(), &["/bin/true"])
                .run()
                .success();
            trial.will_be_gone();
        }
    });
    let seen = seen.into_inner().expect("no panic");
    for (call, reason) in harmless {
        assert!(
            seen.contains(*call),
            "{call} never was harmless ({reason}): {seen:?}"
        );
    }
}

#[test]
fn every_call_may_fail_in_every_process() {
    every_call_may_fail(None, 3, HARMLESS);
}

#[test]
fn every_call_may_fail_with_denials_explained() {
    let harmless = [HARMLESS, HARMLESS_EXPLAINED].concat();
    // One more writes the lines.
    every_call_may_fail(Some("--explain-denials"), 4, &harmless);
}
