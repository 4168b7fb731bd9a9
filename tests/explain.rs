//! `sandbox-run --explain-denials`, from outside: what is told of each denial, that the module is answered what it is
//! answered without, and what a module, its caller or an accident can do to that.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};

use oarbank_agent::output::Text;
use oarbank_agent::seccomp::call::{Answer, Verdict};
use oarbank_agent::seccomp::{Architecture, filter};
use support::other_abi::with_abi;
use support::{
    Explained, Policy, Scene, Trial, as_each, as_root, check, explain, field, in_each_container,
    is_emulated, is_here, landlock_abi, log, skip, state, terminal, wait_for, written,
};

/// Where the tests put descriptors; see `Run::fd`.
const FD: i32 = 500;

// Calls.

/// One line for each refused call: its text, errno, reason and the field that would allow it.
fn told(line: &str) -> [String; 4] {
    ["call", "errno", "reason", "grant"].map(|name| field(line, name))
}

#[test]
fn every_call_that_is_always_refused_is_told_with_the_reason_of_the_table() {
    as_each(|scene| {
        let native = Architecture::NATIVE;
        let mut refused = BTreeMap::new();
        for (group, call) in filter::TABLES
            .into_iter()
            .flatten()
            .flat_map(|group| group.calls.iter().map(move |call| (group, call)))
        {
            if let (Verdict::Refuse(answer), Some(number)) = (call.verdict, call.number(native)) {
                let errno = match answer {
                    Answer::Eperm => "EPERM",
                    Answer::Enosys => "ENOSYS",
                    Answer::Eacces => "EACCES",
                };
                let reason = [call.reason, group.reason];
                let reason = reason.into_iter().find(|reason| !reason.is_empty());
                refused.insert(number, (call.name, errno, reason.expect("one of both")));
            }
        }
        let steps: Vec<String> = refused.keys().map(|nr| format!("sys {nr}")).collect();
        assert!(steps.len() > 70, "{}", steps.len());
        let explained = explain(scene, &scene.policy(), &steps.join(" then "));
        let lines: BTreeMap<usize, &str> = explained
            .events("call")
            .into_iter()
            .map(|line| (field(line, "number").parse().expect("a number"), line))
            .collect();
        for (number, (name, errno, reason)) in &refused {
            let line = lines[number];
            let [call, told_errno, told_reason, grant] = told(line);
            assert!(call.starts_with(&format!("{name}(")), "{line}");
            assert_eq!(field(line, "name"), *name, "{line}");
            assert_eq!((&*told_errno, &*told_reason), (*errno, *reason), "{line}");
            assert_eq!(grant, "null", "{line}");
            assert_eq!(field(line, "process"), "probe", "{line}");
        }
        assert_eq!(explained.sum("untold"), 0);
        assert_eq!(explained.sum("lost_lines"), 0);
    });
}

#[test]
fn every_check_of_arguments_is_told_with_them_and_the_field_that_allows_it() {
    const SOCKET: &str = "unix with a broker; inet and inet6 streams of TCP with egress-allowlist";
    const PAIR: &str = "unix, stream or seqpacket: a datagram pair may be re-addressed";
    const CLONE: &str = "no namespace flag and no CLONE_PARENT in the low half of the flags";
    const MEMFD: &str =
        "without exec_rw only with MFD_NOEXEC_SEAL: a written file must not be executed";
    const FASTOPEN: &str = "not MSG_FASTOPEN, which connects without the connect hook";
    const OPTIONS: &str = "not TCP_ULP (another protocol past Landlock), no multicast groups";
    // An x32 call, by its bits, where there are such calls.
    const MINUS_ONE: &str = if cfg!(target_arch = "x86_64") {
        "EPERM"
    } else {
        "ENOSYS"
    };
    let mut cases = vec![
        (
            "sys socket 1 1 0",
            "socket(AF_UNIX, SOCK_STREAM, 0)",
            "EPERM",
            SOCKET,
            "broker_socket",
        ),
        (
            "sys socket 2 0x80001 6",
            "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 6)",
            "EPERM",
            SOCKET,
            "net",
        ),
        (
            "sys socket 2 2 17",
            "socket(AF_INET, SOCK_DGRAM, 17)",
            "EPERM",
            SOCKET,
            "null",
        ),
        (
            "sys socket 16 3 9",
            "socket(AF_NETLINK, SOCK_RAW, 9)",
            "EPERM",
            SOCKET,
            "null",
        ),
        (
            "sys socketpair 1 2 0 buf:8",
            "socketpair(AF_UNIX, SOCK_DGRAM, 0)",
            "EPERM",
            PAIR,
            "null",
        ),
        (
            "sys memfd_create s:x 0",
            "memfd_create(flags 0)",
            "EACCES",
            MEMFD,
            "exec_rw",
        ),
        (
            "sys clone 0x10000011 0 0 0 0",
            "clone(CLONE_NEWUSER|SIGCHLD)",
            "EPERM",
            CLONE,
            "null",
        ),
        (
            "sys ioctl 0 0x5412 buf:8",
            "ioctl(0, TIOCSTI)",
            "EPERM",
            "types into the caller's terminal",
            "null",
        ),
        (
            "sys ioctl 0 0x9403 0",
            "ioctl(0, 0x9403)",
            "EPERM",
            "btrfs: every command but FICLONE, FICLONERANGE, FIDEDUPERANGE",
            "null",
        ),
        (
            "sys mknodat -100 s:/x 0x2180 0",
            "mknodat(AT_FDCWD, mode S_IFCHR|0x180)",
            "EPERM",
            "no character or block device",
            "null",
        ),
        (
            "sys prlimit64 1 7 u64:1,1 0",
            "prlimit64(1, RLIMIT_NOFILE)",
            "EPERM",
            "only on oneself, or reading",
            "null",
        ),
        (
            "sys sendto -1 0 0 0x20000000 0 0",
            "sendto(-1, flags MSG_FASTOPEN)",
            "EPERM",
            FASTOPEN,
            "null",
        ),
        (
            "sys sendmsg -1 0 0x20000040",
            "sendmsg(-1, flags MSG_FASTOPEN|MSG_DONTWAIT)",
            "EPERM",
            FASTOPEN,
            "null",
        ),
        (
            "sys sendmmsg -1 0 0 0x20000000",
            "sendmmsg(-1, flags MSG_FASTOPEN)",
            "EPERM",
            FASTOPEN,
            "null",
        ),
        (
            "sys setsockopt -1 6 31 0 0",
            "setsockopt(-1, IPPROTO_TCP, option 31)",
            "EPERM",
            OPTIONS,
            "null",
        ),
        (
            "sys setsockopt -1 0 35 0 0",
            "setsockopt(-1, IPPROTO_IP, option 35)",
            "EPERM",
            OPTIONS,
            "null",
        ),
        (
            "sys 999",
            "call 999(...)",
            "ENOSYS",
            "this filter does not know the call",
            "null",
        ),
        (
            "sys -1",
            "call -1(...)",
            MINUS_ONE,
            "this filter does not know the call",
            "null",
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        cases.push((
            "sys mknod s:/x 0x6180 0",
            "mknod(mode S_IFBLK|0x180)",
            "EPERM",
            "no character or block device",
            "null",
        ));
        cases.push((
            "sys 0x40000027",
            "call 39 of x32(...)",
            "EPERM",
            "this filter does not know the call",
            "null",
        ));
    }
    as_each(|scene| {
        let steps: Vec<&str> = cases.iter().map(|case| case.0).collect();
        let explained = explain(scene, &scene.policy(), &steps.join(" then "));
        let lines = explained.events("call");
        for (steps, call, errno, reason, grant) in &cases {
            let expected = [call, errno, reason, grant].map(|&text| text.to_owned());
            assert!(
                lines.iter().any(|line| told(line) == expected),
                "{steps}: {lines:#?}"
            );
        }
        // What the policy grants is not told, and what it does not is told with what is left to ask for.
        let broker = scene.path("broker");
        if !std::path::Path::new(&broker).exists() {
            drop(std::os::unix::net::UnixListener::bind(&broker).expect("a socket"));
            scene.give(&broker);
        }
        let policy = scene.policy().broker(&broker);
        let explained = explain(scene, &policy, "sys socket 1 1 0 then sys socket 2 1 0");
        let lines = explained.events("call");
        let calls: Vec<String> = lines.iter().map(|line| field(line, "call")).collect();
        assert_eq!(calls, ["socket(AF_INET, SOCK_STREAM, 0)"]);
        assert_eq!(field(lines[0], "grant"), "net");
    });
}

#[test]
fn what_is_refused_again_is_counted_also_of_many_threads_and_processes() {
    as_each(|scene| {
        let explained = explain(scene, &scene.policy(), "flood 4 500 1");
        let lines = explained.events("call");
        let socket: Vec<&&str> = lines
            .iter()
            .filter(|line| field(line, "call") == "socket(0x64, 9, 0)")
            .collect();
        let [line] = socket[..] else {
            panic!("{lines:#?}");
        };
        let id = field(line, "id");
        let again = explained.events("again");
        let count = again.iter().find(|line| field(line, "id") == id);
        assert_eq!(field(count.expect("a count"), "count"), "2000");

        let trial = Trial::new(scene, None);
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do \"$0\" flood 1 7 1 & done; wait";
        let argv = ["/bin/sh", "-c", script, scene.probe()];
        let explained = Explained::of(&trial, &scene.policy(), &argv);
        assert_eq!(explained.outcome.success(), "ok 7\n".repeat(10));
        let processes: BTreeSet<String> = explained
            .events("call")
            .iter()
            .filter(|line| field(line, "call") == "socket(0x64, 9, 0)")
            .map(|line| field(line, "pid"))
            .collect();
        assert!(!processes.is_empty() && processes.len() <= 10);
        assert!(explained.sum("calls") >= 70, "{:?}", explained.lines);
    });
}

#[test]
fn one_program_at_many_addresses_is_one_place() {
    // More processes than kinds are told apart; each has its code at another address.
    let processes = if is_emulated() { 40 } else { 600 };
    as_each(|scene| {
        let script = format!(
            "i=0; while [ $i -lt {processes} ]; do i=$((i+1)); \"$0\" sys socket 1 1 0; done; \"$0\" sys socket 1 2 0"
        );
        let argv = ["/bin/sh", "-c", &script, scene.probe()];
        let trial = Trial::new(scene, None);
        let explained = Explained::of(&trial, &scene.policy(), &argv);
        assert_eq!(explained.outcome.success(), "EPERM\n".repeat(processes + 1));
        let lines = explained.events("call");
        let told = |call: &str| {
            let lines = lines.iter().filter(|line| field(line, "call") == call);
            lines.map(|line| field(line, "id")).collect::<Vec<_>>()
        };
        let [stream] = &told("socket(AF_UNIX, SOCK_STREAM, 0)")[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(
            told("socket(AF_UNIX, SOCK_DGRAM, 0)").len(),
            1,
            "{lines:#?}"
        );
        let again = explained.events("again");
        let count = again.iter().find(|line| field(line, "id") == *stream);
        assert_eq!(
            field(count.expect("a count"), "count"),
            processes.to_string()
        );
        assert_eq!(explained.sum("untold"), 0);
    });
}

#[test]
fn a_thread_is_told_with_its_process() {
    as_each(|scene| {
        let trial = Trial::new(scene, None);
        let steps = "flood 3 9 9 then sys socket 1 1 0";
        let explained = Explained::of(&trial, &scene.policy(), &scene.probe_argv(steps));
        let pid = |line: &&str| field(line, "pid");
        let pids: BTreeSet<String> = explained.events("call").iter().map(pid).collect();
        assert_eq!(pids.len(), 1, "{:?}", explained.lines);
    });
}

// A flood.

#[test]
fn a_flood_of_refused_calls_is_answered_counted_and_bounded() {
    let each: u64 = if is_emulated() { 2_000 } else { 250_000 };
    as_each(|scene| {
        let log = log(scene);
        let option = format!("--explain-denials={log}");
        let trial = Trial::new(scene, None).options(&[&option, "--json"]);
        // More kinds than are told apart.
        let flood = format!("flood 4 {each} 1000");
        let running = trial
            .run(&scene.policy(), &scene.probe_argv(&flood))
            .start();
        let keeper = trial.keeper();
        let memory = || {
            let status = fs::read_to_string(format!("/proc/{keeper}/status")).ok()?;
            let peak = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            peak.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        };
        let (first, mut last) = (memory(), 0);
        while state(running.id()).is_some_and(|(state, _)| state != 'Z') {
            last = memory().unwrap_or(last);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let outcome = running.finish();
        trial.is_gone();
        assert_eq!(outcome.success(), format!("ok {}\n", 4 * each));
        // The memory for what is told apart is used page by page: 512 kB are more than all of it.
        let first = first.expect("the module has only begun");
        assert!(last <= first + 512, "{first} kB, then {last} kB");
        let text = fs::read_to_string(&log).expect("UTF-8");
        assert!(text.len() < 512 * 1024, "{} bytes", text.len());
        let summary = text.lines().last().expect("a line");
        let sum = |name| field(summary, name).parse::<u64>().expect("a number");
        // The threads' libraries ask for a little more.
        let asked = 4 * each..4 * each + 100;
        assert!(asked.contains(&sum("calls")), "{summary}");
        assert!(sum("untold") > 4 * each / 3, "{summary}");
        fs::remove_file(&log).expect("a file of the scene");
    });
}

// Ends.

#[test]
fn without_who_answers_refused_calls_are_refused_and_nobody_hangs() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let work = scene.dir("work");
        let answers = format!("{work}/answers");
        let _ = fs::remove_file(&answers);
        let trial = trial.again().options(&["--explain-denials"]);
        let policy = scene.policy().rw(&work);
        let script = "(while :; do \"$1\" sys socket 1 1 0 >>\"$0/answers\"; done) & wait";
        let argv = ["/bin/sh", "-c", script, &work, scene.probe()];
        let running = trial.run(&policy, &argv).start();
        let read = || fs::read_to_string(&answers).unwrap_or_default();
        wait_for("an answer", || read().contains("EPERM\n"));
        let keeper = trial.keeper();
        // The front would end all of it.
        running.signal(libc::SIGSTOP);
        wait_for("the front stops", || {
            state(running.id()).is_some_and(|(state, _)| state == 'T')
        });
        // SAFETY: takes numbers; this process is one of this trial.
        check(unsafe { libc::kill(keeper, libc::SIGKILL) }).expect("own process");
        wait_for("the kernel answers", || read().contains("ENOSYS\n"));
        assert!(!read().contains("ok"), "{}", read());
        running.signal(libc::SIGCONT);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(70), "{outcome:?}");
        trial.will_be_gone();

        // In the middle of a flood.
        let trial = trial.again();
        let flood = scene.probe_argv("flood 3 1000000000 1");
        let running = trial.run(&policy, &flood).start();
        let keeper = trial.keeper();
        // SAFETY: as above.
        check(unsafe { libc::kill(keeper, libc::SIGKILL) }).expect("own process");
        assert_eq!(running.finish().code, Some(70));
        trial.will_be_gone();
    });
}

#[test]
fn signals_and_the_timeout_are_acted_upon_in_a_flood() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let flood = scene.probe_argv("flood 3 1000000000 1000");
        let options = ["--explain-denials", "--timeout=0.3", "--grace=0.1"];
        let timed = trial.again().options(&options);
        assert_eq!(timed.run(&scene.policy(), &flood).run().code, Some(124));
        timed.is_gone();
        let trial = trial.again().options(&["--explain-denials"]);
        let running = trial.run(&scene.policy(), &flood).start();
        trial.module();
        running.signal(libc::SIGTERM);
        assert_eq!(running.finish().code, Some(128 + libc::SIGTERM));
        trial.is_gone();
    });
}

#[test]
fn an_output_that_nobody_reads_changes_nothing() {
    as_each(|scene| {
        let run = |options: &[&str], output: OwnedFd| {
            let trial = Trial::new(scene, None).options(options);
            let argv = scene.probe_argv("flood 2 2000 1000 then fds then sys socket 1 1 0");
            let outcome = trial.run(&scene.policy(), &argv).fd(FD, output).run();
            // Who waits for a reader ends by itself.
            trial.will_be_gone();
            // Neither it nor the listener is the module's.
            assert_eq!(outcome.success(), "ok 4000\n0 1 2\nok 3\nEPERM\n");
        };
        let option = format!("--explain-denials=fd:{FD}");

        eprintln!("closed");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        run(&[&option], writer.into());

        eprintln!("full: what is there are whole lines");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        run(&[&option, "--json"], writer.into());
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8");
        assert!(text.len() > 32 * 1024, "{}", text.len());
        for line in text.lines() {
            assert!(
                line.starts_with("{\"event\":\"") && line.ends_with('}'),
                "{line}"
            );
        }

        eprintln!("a terminal that is full, which knows no write that does not wait");
        let (terminal, its_end) = terminal();
        let who = scene.who.0;
        std::os::unix::fs::fchown(&its_end, Some(who), None).expect("root may");
        run(&[&option], its_end);
        drop(terminal);

        eprintln!("a full device");
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("a device");
        run(&[&option], full.into());
    });
}

#[test]
fn who_holds_the_output_holds_nobody_up() {
    as_each(|scene| {
        let fifo = scene.fifo("held");
        // With a reader, who reads nothing.
        let reader = File::options().read(true).write(true).open(&fifo);
        let reader = reader.expect("own FIFO");
        let file = format!("--explain-denials={fifo}");
        for (options, hold) in [
            (&[][..], "hold-pipe 2".to_owned()),
            (&["--explain-denials"], "hold-pipe 2".to_owned()),
            (
                &[&file],
                format!("sys openat -100 s:{fifo} 2 then hold-pipe 3"),
            ),
        ] {
            eprintln!("{options:?}");
            let timed = [&["--timeout=1", "--grace=0.2"], options].concat();
            let trial = Trial::new(scene, None).options(&timed);
            let policy = scene.policy().rw(&fifo);
            let outcome = trial.run(&policy, &scene.probe_argv(&hold)).run();
            assert_eq!(outcome.code, Some(124), "{outcome:?}");
            let out = String::from_utf8_lossy(&outcome.out);
            assert!(out.ends_with("held 10\n"), "{outcome:?}");
            trial.will_be_gone();
            // The lines come when it is let go.
            let lines = String::from_utf8_lossy(&outcome.err)
                .matches(" socket(0x")
                .count();
            let on_error = usize::from(options == ["--explain-denials"]);
            assert_eq!(lines, 10 * on_error, "{outcome:?}");
        }

        eprintln!("held by somebody else, with a front that gets all orphans");
        let (_reader, pipe) = std::io::pipe().expect("a pipe");
        let other = Trial::new(scene, None);
        let hold = scene.plain(&[scene.probe(), "hold-pipe", &FD.to_string()]);
        let copy = pipe.try_clone().expect("a descriptor");
        let holding = other.marked(hold.fd(FD, copy)).start();
        wait_for("it is held", || {
            let process = format!("/proc/{}/task", holding.id());
            fs::read_dir(process).is_ok_and(|threads| threads.count() == 3)
        });
        let trial = Trial::new(scene, None).options(&[&format!("--explain-denials=fd:{FD}")]);
        let argv = scene.probe_argv("flood 1 10 10");
        let run = trial.run(&scene.policy(), &argv).fd(FD, pipe).with(|| {
            // SAFETY: a flag of this process, which its exec keeps.
            check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
        });
        assert_eq!(run.run().success(), "ok 10\n");
        // It waits for the pipe.
        assert_eq!(trial.survivors().len(), 1);
        drop(holding);
        trial.will_be_gone();
        drop(reader);
    });
}

#[test]
fn a_line_that_was_cut_off_is_ended_before_the_next() {
    as_root(|scene| {
        // A file system takes what fits of a line.
        let place = scene.dir("full");
        let (log, rest, probe) = (
            format!("{place}/log"),
            format!("{place}/rest"),
            scene.probe(),
        );
        let mount =
            format!("mount -t tmpfs -o size=16k none {place} && head -c 8192 /dev/zero >{rest}");
        let module = format!(
            "{probe} flood 1 100 100; until [ $(wc -c <{log}) -ge 8192 ]; do sleep 0.05; done; sleep 0.2
             rm {rest}; {probe} sys memfd_create s:x 0"
        );
        let module = ["/bin/sh", "-c", &module];
        let said = logged_on(scene, &mount, &log, &scene.policy().rw(&place), &module);
        let text = said
            .strip_prefix("ok 100\nEACCES\n")
            .expect("what it is without");
        let is_cut = text.as_bytes()[8191] != b'\n';
        let is_whole = |line: &&str| line.starts_with("{\"event\":\"") && line.ends_with('}');
        let (whole, cut): (Vec<&str>, Vec<&str>) = text.lines().partition(is_whole);
        assert_eq!(cut.len(), usize::from(is_cut), "{text}");
        assert!(
            whole
                .iter()
                .any(|line| line.contains("memfd_create(flags 0)")),
            "{text}"
        );
        let lost = field(whole[whole.len() - 1], "lost_lines");
        let calls = whole
            .iter()
            .filter(|line| line.contains("\"name\":\"socket\""));
        assert_eq!(
            calls.count() + lost.parse::<usize>().expect("a number"),
            100,
            "{text}"
        );
    });
}

/// What a module prints, and then the log of its denials, which lies where this has mounted something for it alone.
fn logged_on(scene: &Scene, mount: &str, log: &str, policy: &Policy, module: &[&str]) -> String {
    let script = format!("{mount} && \"$@\" && cat {log}");
    let option = format!("--explain-denials={log}");
    let policy = scene.policy_file(policy.json());
    let shell = [
        "/usr/bin/unshare",
        "--mount",
        "/bin/sh",
        "-c",
        &script,
        "sh",
    ];
    let agent = [
        scene.agent(),
        "sandbox-run",
        "--cgroup=none",
        &option,
        "--json",
        &policy,
        "--",
    ];
    let run = scene.plain(&[&shell[..], &agent, module].concat());
    run.run().success()
}

/// A pause of a module, until it is ended from outside.
struct Pause {
    work: String,
}

impl Pause {
    fn new(scene: &Scene) -> Self {
        let work = scene.dir("work");
        scene.file("work/wait", "");
        let _ = fs::remove_file(format!("{work}/reached"));
        Self { work }
    }

    fn policy(&self, scene: &Scene) -> Policy {
        scene.policy().rw(&self.work)
    }

    /// A script that has it between some steps and some others.
    fn between(&self, scene: &Scene, before: &str, after: &str) -> String {
        let (work, probe) = (&self.work, scene.probe());
        format!(
            "{probe} {before}; cd {work}; echo >reached; while [ -e wait ]; do sleep 0.05; done; {probe} {after}"
        )
    }

    fn is_reached(&self) {
        wait_for("the pause", || written(&format!("{}/reached", self.work)));
    }

    fn end(&self) {
        fs::remove_file(format!("{}/wait", self.work)).expect("a file of the scene");
    }
}

#[test]
fn the_sums_wait_a_little_for_who_reads_late() {
    as_each(|scene| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let option = format!("--explain-denials=fd:{FD}");
        let trial = Trial::new(scene, None).options(&[&option, "--json"]);
        // Each kind twice: what is left of the pipe is filled with the counts.
        let argv = scene.probe_argv("flood 1 600 300");
        let running = trial.run(&scene.policy(), &argv).fd(FD, writer).start();
        let keeper = trial.keeper();
        wait_for("the pipe is full", || {
            let mut length = 0;
            // SAFETY: the kernel writes a number.
            check(unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut length) })
                .is_ok()
                && length > 60_000
        });
        wait_for("the leader has ended", || {
            let children = format!("/proc/{keeper}/task/{keeper}/children");
            fs::read_to_string(children).is_ok_and(|children| children.is_empty())
        });
        wait_for("the keeper waits, or has ended", || {
            state(keeper).is_none_or(|(state, _)| state != 'R')
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8");
        running.finish().success();
        let last = text.lines().last().expect("a line");
        assert!(last.starts_with("{\"event\":\"summary\","), "{last}");
    });
}

#[test]
fn lines_that_could_not_be_written_are_counted_for_who_reads_later() {
    as_each(|scene| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // SAFETY: a flag of the reader's description.
        check(unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })
            .expect("a flag");
        let option = format!("--explain-denials=fd:{FD}");
        let trial = Trial::new(scene, None).options(&[&option, "--json"]);
        let pause = Pause::new(scene);
        let script = pause.between(scene, "flood 1 1000 1000", "flood 1 1 1");
        let argv = ["/bin/sh", "-c", &script];
        let running = trial
            .run(&pause.policy(scene), &argv)
            .fd(FD, writer)
            .start();
        pause.is_reached();
        let mut whole = Vec::new();
        let all = reader.read_to_end(&mut whole).map_err(|error| error.kind());
        assert_eq!(all, Err(std::io::ErrorKind::WouldBlock));
        pause.end();
        let outcome = running.finish().success();
        assert!(outcome.starts_with("ok 1000\n"), "{outcome}");
        reader.read_to_end(&mut whole).expect("its end");
        let whole = String::from_utf8(whole).expect("UTF-8");
        let summary = whole.lines().last().expect("a line");
        let lost: u64 = field(summary, "lost_lines").parse().expect("a number");
        let calls = whole.matches("{\"event\":\"call\"").count() as u64;
        assert!(lost > 0 && calls + lost == 512, "{calls}, {summary}");
    });
}

#[test]
fn who_reads_after_the_end_is_told_how_many_lines_are_lost() {
    as_root(|scene| {
        let mut told = 0;
        // Whether there is room for the last line depends on the length of those before it.
        for name in ["", "xxx", "xxxxxx", "xxxxxxxxx"] {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let option = format!("--explain-denials=fd:{FD}");
            let trial = Trial::new(scene, None).options(&[&option, "--json"]);
            let steps = format!("sys prctl 15 s:p{name} then flood 1 500 500");
            let run = trial.run(&scene.policy(), &scene.probe_argv(&steps));
            assert_eq!(run.fd(FD, writer).run().success(), "ok 0\nok 500\n");
            trial.will_be_gone();
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("UTF-8");
            let calls = text.matches("{\"event\":\"call\"").count();
            assert!(calls < 400, "{calls}");
            let last = text.lines().last().expect("a line");
            if last.starts_with("{\"event\":\"summary\"") {
                let number = |name| field(last, name).parse::<usize>().expect("a number");
                // Each was denied once.
                assert_eq!(calls + number("lost_lines"), number("calls"), "{last}");
                assert!(number("calls") >= 500, "{last}");
                told += 1;
            }
        }
        assert!(told > 0, "it never was");
    });
}

#[test]
fn closed_standard_descriptors_lose_no_line() {
    as_each(|scene| {
        for closed in ["<&-", ">&-", "<&- >&- 2>&-"] {
            let log = log(scene);
            let policy = scene.policy_file(scene.policy().json());
            let option = format!("--explain-denials={log}");
            let script = format!("exec \"$@\" {closed}");
            let agent = [scene.agent(), "sandbox-run", &option, "--json", &policy];
            let probe = ["--", scene.probe(), "flood", "1", "30", "30"];
            let argv = [&["/bin/sh", "-c", &script, "sh"][..], &agent, &probe].concat();
            let outcome = scene.plain(&argv).run();
            let text = fs::read_to_string(&log).expect("UTF-8");
            let calls = text.matches("\"name\":\"socket\"").count();
            assert_eq!(calls, 30, "{closed}: {outcome:?} {text}");
            assert!(text.ends_with("\"lost_records\":0}\n"), "{text}");
        }
    });
}

// Where it is written.

#[test]
fn a_file_is_made_for_its_owner_and_appended_to() {
    as_each(|scene| {
        let log = log(scene);
        for runs in 1..=2 {
            let option = format!("--explain-denials={log}");
            let trial = Trial::new(scene, None).options(&[&option]);
            let argv = scene.probe_argv("sys socket 1 1 0");
            let outcome = trial.run(&scene.policy(), &argv).run();
            assert_eq!(
                (outcome.success().as_str(), outcome.err.as_slice()),
                ("EPERM\n", &b""[..])
            );
            let text = fs::read_to_string(&log).expect("UTF-8");
            let calls = text
                .lines()
                .filter(|line| line.contains(" socket(AF_UNIX, SOCK_STREAM, 0): EPERM "));
            assert_eq!(calls.count(), runs, "{text}");
            assert!(
                text.lines()
                    .all(|line| line.starts_with("oarbank-agent: denied: ")),
                "{text}"
            );
        }
        let file = fs::metadata(&log).expect("a file");
        assert_eq!(
            (file.permissions().mode() & 0o777, file.uid()),
            (0o600, scene.who.0)
        );
    });
}

#[test]
fn a_file_loses_no_line_on_a_system_that_would_have_it_wait() {
    // Both answer EAGAIN to a write that must not wait, for the time of the file.
    as_root(|scene| {
        for kind in ["xfs", "btrfs"] {
            let make = format!("/usr/sbin/mkfs.{kind}");
            let known = fs::read_to_string("/proc/filesystems").expect("text");
            if !is_here(&make) {
                continue;
            }
            if !known
                .lines()
                .any(|line| line.ends_with(&format!("\t{kind}")))
            {
                skip(&format!("no {kind} in this kernel"));
                continue;
            }
            let (image, place) = (scene.file(kind, ""), scene.dir("mounted"));
            let file = File::options().write(true).open(&image).expect("own file");
            file.set_len(320 << 20).expect("a file with holes");
            scene.plain(&[&make, "-q", &image]).run().success();
            let mount = format!("mount -o loop {image} {place}");
            let log = format!("{place}/log");
            let module = [scene.probe(), "flood", "1", "30", "30"];
            let said = logged_on(scene, &mount, &log, &scene.policy(), &module);
            assert_eq!(
                said.matches("\"name\":\"socket\"").count(),
                30,
                "{kind}: {said}"
            );
            assert!(said.contains("\"lost_lines\":0"), "{kind}: {said}");
            fs::remove_file(&image).expect("own file");
        }
    });
}

#[test]
fn standard_error_is_told_without_a_file() {
    as_each(|scene| {
        let trial = Trial::new(scene, None).options(&["--explain-denials"]);
        let outcome = trial
            .run(&scene.policy(), &scene.probe_argv("sys memfd_create s:x 0"))
            .run();
        let err = String::from_utf8(outcome.err.clone()).expect("UTF-8");
        assert_eq!(outcome.success(), "EACCES\n");
        let line = err
            .lines()
            .find(|line| line.contains("memfd_create"))
            .expect("a line");
        let (id, rest) = line
            .strip_prefix("oarbank-agent: denied: ")
            .and_then(|line| line.split_once(". "))
            .expect("a number");
        id.parse::<u32>().expect("a number");
        assert!(
            rest.starts_with(
                "memfd_create(flags 0): EACCES (without exec_rw only with MFD_NOEXEC_SEAL: a written file must not be \
                 executed); exec_rw would allow it; by "
            ) && rest.ends_with(" \"probe\""),
            "{rest}"
        );
    });
}

#[test]
fn a_place_that_cannot_be_written_ends_the_launch() {
    as_each(|scene| {
        let (directory, dangling) = (scene.dir("d"), scene.path("dangling"));
        if fs::symlink_metadata(&dangling).is_err() {
            scene.symlink("/etc/made-by-a-module", "dangling");
            scene.symlink(&directory, "linked");
        }
        let fifo = scene.fifo("fifo");
        let run = |place: &str| {
            let option = format!("--explain-denials={place}");
            let trial = Trial::new(scene, None).options(&[&option]);
            let ran = scene.path("d/ran");
            let script = format!("echo >{ran}");
            let argv = ["/bin/sh", "-c", &script];
            let outcome = trial.run(&Policy::new().rw(&directory), &argv).run();
            trial.is_gone();
            assert!(!written(&ran), "{place}");
            outcome
        };
        run(&format!("{directory}/no/log")).refused(70, "output", &["d/no/log", "ENOENT"]);
        run(&directory).refused(70, "output", &["/d\"", "EISDIR"]);
        run(&dangling).refused(70, "output", &["dangling", "ELOOP", "symbolic link"]);
        run(&scene.path("linked/log")).refused(70, "output", &["linked/log", "ELOOP"]);
        run(&fifo).refused(70, "output", &["fifo", "ENXIO"]);
        run("fd:499").refused(70, "output", &["--explain-denials", "EBADF"]);
        for place in ["", "fd:", "fd:2", "fd:x", "fd:-1"] {
            run(place).refused(64, "usage", &[]);
        }
        let policy = scene.policy_file("{}");
        let json = scene
            .launcher(&["sandbox-run", "--json", &policy, "--", "/bin/true"])
            .run();
        json.refused(64, "usage", &["--json", "--explain-denials"]);
        let option = format!("--explain-denials=fd:{FD}");
        let trial = Trial::new(scene, None).options(&[&option]);
        let run = |descriptor: OwnedFd| {
            let argv = scene.probe_argv("sys getpid");
            trial.run(&scene.policy(), &argv).fd(FD, descriptor)
        };
        let opened = |path: &str, flags| {
            let file = File::options().read(true).custom_flags(flags).open(path);
            OwnedFd::from(file.expect("it is there"))
        };
        // Nothing can be written to these.
        let file = scene.file("d/file", "");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        for descriptor in [opened(&file, 0), opened(&file, libc::O_PATH), reader.into()] {
            let outcome = run(descriptor).run();
            outcome.refused(70, "output", &["--explain-denials", "EBADF"]);
        }
        // SAFETY: the descriptor is new.
        let event = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) };
        for descriptor in [opened(&directory, 0), event] {
            let outcome = run(descriptor).run();
            outcome.refused(70, "output", &["--explain-denials", "EINVAL"]);
        }
        // A descriptor is the module's or the launcher's.
        let run = run(opened("/dev/null", 0)).env("OARBANK_X", format!("fd:{FD}"));
        run.run()
            .refused(70, "output", &["--explain-denials", "OARBANK_"]);
    });
}

#[test]
fn who_is_looked_after_already_is_told_so() {
    as_each(|scene| {
        let trial = Trial::new(scene, None).options(&["--explain-denials"]);
        let argv = scene.probe_argv("sys getpid");
        // The supervisor of another ABI is a listener.
        let mut outcome = None;
        with_abi(Ok(landlock_abi().min(6) as u32), || {
            outcome = Some(trial.run(&scene.policy(), &argv).run())
        });
        let outcome = outcome.expect("it was run");
        let err = String::from_utf8_lossy(&outcome.err);
        assert_eq!(outcome.code, Some(70), "{outcome:?}");
        let last = err.lines().last().expect("a line");
        assert!(
            last.starts_with("oarbank-agent: seccomp: ")
                && last.contains("EBUSY (this process has a listener already"),
            "{err}"
        );
        trial.is_gone();
    });
}

// What a module writes into its name.

#[test]
fn text_has_no_letter_that_ends_a_line_or_turns_the_writing() {
    for letter in
        "\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}"
            .chars()
    {
        let text = format!("a{letter}é");
        let shown = Text(text.as_bytes()).to_string();
        assert_eq!(shown, "a\u{fffd}é", "{letter:?}");
    }
    assert_eq!(Text(b"\xffa\xc3").to_string(), "\u{fffd}a\u{fffd}");
}

#[test]
fn what_a_module_calls_itself_is_made_harmless() {
    const NAME: &str = "\u{1b}[2J\"\\\u{9b}\u{202e}\u{61c}";
    as_each(|scene| {
        let steps = format!("sys prctl 15 s:{NAME} then sys socket 1 1 0");
        let argv = scene.probe_argv(&steps);
        let explained = explain(scene, &scene.policy(), &steps);
        let line = explained
            .lines
            .iter()
            .find(|line| line.contains("socket("))
            .expect("a line");
        assert!(
            line.contains("\"process\":\"\\u001B[2J\\\"\\\\\\\\\u{fffd}\u{fffd}\u{fffd}\""),
            "{line}"
        );
        let trial = Trial::new(scene, None).options(&["--explain-denials"]);
        let outcome = trial.run(&scene.policy(), &argv).run();
        let err = String::from_utf8(outcome.err.clone()).expect("UTF-8");
        let odd = |letter: char| {
            letter.is_control() && letter != '\n' || ['\u{202e}', '\u{61c}'].contains(&letter)
        };
        assert!(!err.contains(odd), "{err:?}");
        assert!(err.contains("\\u{1b}[2J"), "{err:?}");
        if is_here("/usr/bin/python3") {
            let check = "import json, sys\nfor line in sys.stdin: json.loads(line)";
            let python = scene.plain(&["/usr/bin/python3", "-c", check]);
            python.input(explained.lines.join("\n")).run().success();
        }
    });
}
