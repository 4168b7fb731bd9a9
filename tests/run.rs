//! `sandbox-run` and `sandbox-verify`, from outside: what the module gets, who is told what, and that nothing is left
//! however it ends.

mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use support::{
    Cgroup, Policy, Run, Scene, Trial, Who, add_filter, as_each, check, in_each_container,
    is_emulated, is_here, members, parent, processes, skip, state, strace_is_here, wait_for,
    written,
};

/// Where the tests put descriptors; see `Run::fd`.
const FD: i32 = 500;

/// The test without a cgroup, as root and as a user: where the container makes no difference.
fn as_each_trial(test: impl Fn(&Trial<'_>)) {
    as_each(|scene| test(&Trial::new(scene, None)));
}

// Usage.

#[test]
fn wrong_usage_exits_64() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        let wrong: &[(&[&str], &str)] = &[
            (&[], "no policy"),
            (&["--bogus"], "--bogus"),
            (&["--bogus=1"], "--bogus=1"),
            (&["-t"], "-t"),
            (&["--help", "x"], "x"),
            (&["--timeout"], "needs a value"),
            (&["--timeout="], "seconds above 0"),
            (&["--timeout=0"], "seconds above 0"),
            (&["--timeout", "-1"], "seconds above 0"),
            (&["--timeout", "1e3"], "seconds above 0"),
            (&["--timeout", "1."], "seconds above 0"),
            (&["--timeout", "0.0000000001"], "seconds above 0"),
            (&["--timeout", "99999999999999999999"], "seconds above 0"),
            (&["--timeout", "1s"], "seconds above 0"),
            (&["--grace"], "needs a value"),
            (&["--grace", "x"], "number of seconds"),
            (&["--grace=1 "], "number of seconds"),
            (&["--cpu-max"], "needs a value"),
            (&["--cpu-max", "0"], "number of cores"),
            (&["--cpu-max", "0.001"], "number of cores"),
            (&["--cpu-max", "max"], "number of cores"),
            (&["--cpu-max", "1.0000001"], "number of cores"),
            (&["--memory-max", "0"], "number of bytes"),
            (&["--memory-max", "1k"], "number of bytes"),
            (&["--memory-max", "1.5G"], "number of bytes"),
            (&["--memory-max", "99999999T"], "number of bytes"),
            (&["--pids-max", "0"], "above 0"),
            (&["--pids-max", "1.5"], "above 0"),
            (&["--pids-max=max"], "above 0"),
            (&["--cgroup"], "needs a value"),
            (&["--status-fd"], "needs a value"),
            (&["--status-fd", "2"], "descriptor above 2"),
            (&["--status-fd", "-1"], "descriptor above 2"),
            (&["--status-fd", "x"], "descriptor above 2"),
            (&["--status-fd", "4294967299"], "descriptor above 2"),
            (&[&policy], "no \"--\""),
            (&[&policy, "--timeout=1", "--", "/bin/true"], "--timeout=1"),
            (&[&policy, "--"], "no program"),
            (&[&policy, "--", "true"], "absolute"),
            (&["--", "/bin/true"], "no policy"),
        ];
        for (arguments, part) in wrong {
            eprintln!("{arguments:?}");
            let words = [&["sandbox-run"], *arguments].concat();
            let outcome = scene.launcher(&words).run();
            outcome.refused(64, "usage", &[part]);
        }
    });
}

#[test]
fn options_may_be_written_both_ways_and_the_last_one_counts() {
    as_each_trial(|trial| {
        let argv = ["/bin/sh", "-c", "exit 3"];
        for options in [
            &["--timeout=60", "--grace=1.5", "--cgroup=none"][..],
            &["--timeout", "60", "--grace", "0", "--cgroup", "none"],
            &["--timeout=0.001", "--timeout", "60"],
            &["--cgroup=/nowhere", "--cgroup=none"],
            &[
                "--memory-max=1G",
                "--cgroup=/nowhere",
                "--cgroup",
                "none",
                "--grace=1",
            ],
        ] {
            let trial = trial.again().options(options);
            let code = trial.run(&Policy::new(), &argv).run().code;
            let limited = options[0].starts_with("--memory");
            assert_eq!(code, Some(if limited { 70 } else { 3 }), "{options:?}");
        }
    });
}

#[test]
fn help_is_printed() {
    as_each(|scene| {
        for command in ["sandbox-run", "sandbox-verify"] {
            let said = scene.launcher(&[command, "--help"]).run().success();
            assert!(said.contains(&format!("oarbank-agent {command}")), "{said}");
            let said = scene.launcher(&[command, "--version"]).run().success();
            assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
        }
    });
}

// What is told.

#[test]
fn every_end_can_be_told_from_every_other() {
    in_each_container(|trial| {
        for code in [0, 1, 64, 70, 71, 124, 137, 143, 255] {
            let trial = trial.again();
            let argv = ["/bin/sh", "-c", &format!("exit {code}")];
            let outcome = trial.run(&Policy::new(), &argv).run();
            assert_eq!(
                (outcome.code, &*outcome.err),
                (Some(code), &b""[..]),
                "{outcome:?}"
            );
            assert_eq!(trial.field("exited", "code"), code.to_string());
            assert_eq!(trial.field("exited", "signal"), "null");
            assert_eq!(trial.field("exited", "timeout"), "false");
            assert_eq!(trial.events().len(), 3, "{:?}", trial.events());
            trial.is_gone();
        }
        for (name, signal) in [("KILL", 9), ("TERM", 15), ("ABRT", 6)] {
            let trial = trial.again();
            let argv = ["/bin/sh", "-c", &format!("ulimit -c 0; kill -{name} $$")];
            let outcome = trial.run(&Policy::new(), &argv).run();
            assert_eq!(outcome.code, Some(128 + signal), "{outcome:?}");
            assert_eq!(trial.field("exited", "code"), "null");
            assert_eq!(trial.field("exited", "signal"), signal.to_string());
            trial.is_gone();
        }
        let failures: [(Policy, &str, i32, &str, &str, &str); 3] = [
            (
                Policy::new().rw("/nowhere"),
                "/bin/true",
                70,
                "landlock",
                "ENOENT",
                "",
            ),
            (
                Policy::new(),
                "/nowhere/a \"b\"",
                71,
                "exec",
                "ENOENT",
                "started verified ",
            ),
            (
                Policy::new().field("rw", "1"),
                "/bin/true",
                70,
                "policy",
                "null",
                "",
            ),
        ];
        for (policy, program, code, step, errno, before) in failures {
            let trial = trial.again();
            let outcome = trial.run(&policy, &[program]).run();
            outcome.refused(code, step, &[]);
            assert_eq!(trial.field("failed", "step"), step);
            assert_eq!(trial.field("failed", "errno"), errno);
            assert_eq!(trial.field("failed", "exit"), code.to_string());
            let names: String = trial
                .events()
                .iter()
                .map(|line| line[10..].split('"').next().unwrap().to_owned() + " ")
                .collect();
            assert_eq!(names, format!("{before}failed "));
            trial.is_gone();
        }
    });
}

#[test]
fn a_failure_on_something_very_long_is_told_too() {
    as_each_trial(|trial| {
        let program = format!("/nowhere/{}", "\u{1}".repeat(4000));
        let outcome = trial.run(&Policy::new(), &[&program]).run();
        outcome.refused(71, "exec", &["ENOENT", "\\u{1}\\u{1}"]);
        assert_eq!(trial.field("failed", "step"), "exec");
        assert_eq!(trial.field("failed", "exit"), "71");
        assert_eq!(trial.field("failed", "subject"), "too long to be told");
    });
}

#[test]
fn the_status_names_the_process_and_its_container() {
    in_each_container(|trial| {
        let work = trial.scene.dir("work");
        let script = "echo $$ > \"$0\"/pid; cut -d' ' -f4,5,6 /proc/$$/stat > \"$0\"/ids; cat /proc/self/cgroup > \"$0\"/cgroup";
        trial.script(script, &work).run().success();
        let read =
            |name: &str| fs::read_to_string(format!("{work}/{name}")).expect("the module wrote it");
        let pid = trial.field("started", "pid");
        assert_eq!(trial.field("verified", "pid"), pid);
        assert_eq!(read("pid").trim(), pid);
        let ids: Vec<String> = read("ids").split_whitespace().map(str::to_owned).collect();
        assert_eq!(ids[1..], [pid.clone(), pid.clone()], "group and session");
        let cgroup = trial.field("started", "cgroup");
        assert_eq!(trial.field("started", "reason"), "null");
        match trial.cgroup {
            None => assert_eq!(cgroup, "null"),
            Some(home) => {
                assert_eq!(Path::new(&cgroup).parent(), Some(Path::new(home.path())));
                let name = cgroup.rsplit('/').next().expect("a name");
                let own = read("cgroup");
                assert!(
                    own.lines()
                        .any(|line| line.starts_with("0::") && line.ends_with(name)),
                    "{own}"
                );
            }
        }
        trial.is_gone();
    });
}

#[test]
fn what_the_whole_container_used_is_told() {
    in_each_container(|trial| {
        // In a grandchild that nobody but the keeper reaps.
        let rounds = if is_emulated() { 20_000 } else { 200_000 };
        let busy =
            format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done; echo > \"$0\"/done");
        let script =
            format!("(sh -c '{busy}' \"$0\" &) ; while [ ! -e \"$0\"/done ]; do sleep 0.02; done");
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        trial.script(&script, &work).run().success();
        let used: u64 = trial.field("exited", "cpu_usec").parse().expect("a number");
        assert!(used > 20_000, "{used} microseconds");
        assert_eq!(trial.field("exited", "oom"), "false");
    });
}

#[test]
fn a_status_that_cannot_be_told_is_refused_before_anything_runs() {
    as_each_trial(|trial| {
        let scene = trial.scene;
        let work = scene.dir("work");
        let run = |give: &dyn Fn(Run) -> Run, name: &str| {
            let policy = scene.policy_file(Policy::new().rw(&work).json());
            let words = [
                "sandbox-run",
                "--cgroup=none",
                "--status-fd=500",
                &policy,
                "--",
                "/bin/sh",
                "-c",
                "echo > $0/ran",
                &work,
            ];
            let outcome = give(trial.marked(scene.launcher(&words))).run();
            outcome.refused(70, "status", &["--status-fd", name]);
            assert!(
                !fs::exists(format!("{work}/ran")).expect("a path"),
                "{name}"
            );
            trial.is_gone();
        };
        run(&|run| run, "EBADF");
        run(
            &|run| {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(reader);
                run.fd(FD, writer)
            },
            "EPIPE",
        );
        run(
            &|run| run.fd(FD, File::open("/dev/null").expect("a device")),
            "EBADF",
        );
        run(
            &|run| {
                run.fd(
                    FD,
                    File::options()
                        .write(true)
                        .open("/dev/full")
                        .expect("a device"),
                )
            },
            "ENOSPC",
        );
        let pipe = || std::io::pipe().expect("a pipe").1;
        run(
            &|run| run.fd(FD, pipe()).env("OARBANK_X", "fd:500"),
            "names this descriptor",
        );
        run(
            &|run| run.fd(FD, pipe()).env("OARBANK_CONFINED", "500"),
            "names this descriptor",
        );
        // The control: the same words with somebody who listens.
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let policy = scene.policy_file(Policy::new().rw(&work).json());
        let words = [
            "sandbox-run",
            "--cgroup=none",
            "--status-fd=500",
            &policy,
            "--",
            "/bin/sh",
            "-c",
            "echo > $0/ran",
            &work,
        ];
        scene.launcher(&words).fd(FD, writer).run().success();
        let mut text = String::new();
        reader
            .read_to_string(&mut text)
            .expect("all ends are closed");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(fs::exists(format!("{work}/ran")).expect("a path"));
    });
}

// What the module gets.

#[test]
fn everything_of_the_callers_arrives_as_with_sandbox_exec() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let here = scene.dir("here");
        let arrange = |run: Run| {
            run.cwd(&here)
                .env("ODD", "a\nb=\u{e9}")
                .input("words")
                .with(|| {
                    // SAFETY: calls that are safe after fork, on values of this frame.
                    unsafe {
                        libc::umask(0o137);
                        for signal in [
                            libc::SIGUSR1,
                            libc::SIGCHLD,
                            libc::SIGHUP,
                            libc::SIGTSTP,
                            64,
                        ] {
                            libc::signal(signal, libc::SIG_IGN);
                        }
                        let mut mask: libc::sigset_t = std::mem::zeroed();
                        for signal in [
                            libc::SIGUSR2,
                            libc::SIGPIPE,
                            libc::SIGTERM,
                            libc::SIGRTMIN(),
                        ] {
                            libc::sigaddset(&mut mask, signal);
                        }
                        libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                        let limit = libc::rlimit {
                            rlim_cur: 723,
                            rlim_max: 856,
                        };
                        check(libc::setrlimit(libc::RLIMIT_NOFILE, &limit))?;
                        libc::setpriority(libc::PRIO_PROCESS, 0, 5);
                    }
                    Ok(())
                })
        };
        for question in [
            &["/bin/cat", "/proc/self/limits"][..],
            &["/bin/readlink", "/proc/self/cwd"],
            &["/bin/cat"],
            &["/usr/bin/env", "-0"],
            &["/bin/echo", "a b", "", "\u{1}", "--"],
            &[
                "/bin/grep",
                "-E",
                "^(Umask|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):",
                "/proc/self/status",
            ],
            &["/bin/cut", "-d ", "-f18,19", "/proc/self/stat"],
        ] {
            let policy = Policy::new().ro(&here);
            let exec = arrange(trial.marked(scene.confined(&policy, question)))
                .run()
                .success();
            let run = arrange(trial.again().run(&policy, question)).env("TEST_MARK", "");
            let exec = exec.replace(&mark_of(&exec), "TEST_MARK=");
            assert_eq!(run.run().success(), exec, "{question:?}");
        }
    });
}

/// The variable that marks a trial, as it stands in an environment; a text that is nowhere, if it doesn't.
fn mark_of(text: &str) -> String {
    let found = text
        .split('\0')
        .find(|variable| variable.starts_with("TEST_MARK="));
    found.unwrap_or("\u{1}\u{2}").to_owned()
}

#[test]
fn there_is_one_exec_and_it_comes_after_the_verification() {
    if !strace_is_here() {
        return;
    }
    as_each_trial(|trial| {
        let log = trial.scene.file("log", "");
        let words = trial.words(&Policy::new());
        let mut argv = vec![
            "strace",
            "-f",
            "-qq",
            "-s",
            "200",
            "-o",
            &log,
            trial.scene.agent(),
        ];
        argv.extend(words.iter().map(String::as_str));
        argv.push("/bin/true");
        trial.supervised(trial.scene.plain(&argv)).run().success();
        let text = fs::read_to_string(&log).expect("the log");
        let execs = text
            .lines()
            .filter(|line| line.contains(" execve("))
            .count();
        assert_eq!(
            execs, 2,
            "strace's own of sandbox-run, and that of the module: {text}"
        );
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part} in {text}"))
        };
        assert!(at("/status\"") < at("\\\"verified\\\""), "{text}");
        assert!(
            at("\\\"verified\\\"") < at("execve(\"/bin/true\""),
            "{text}"
        );
    });
}

#[test]
fn the_module_gets_its_descriptors_and_no_other() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let fds = |run: Run| run.run().success().lines().next().map(str::to_owned);
        let probe = scene.probe_argv("fds");
        let trial = trial.again();
        let others = trial
            .run(&scene.policy(), &probe)
            .fd(FD, File::open("/dev/null").expect("a device"));
        assert_eq!(fds(others).as_deref(), Some("0 1 2"));
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let named = trial
            .again()
            .run(&scene.policy(), &probe)
            .fd(FD, writer)
            .env("OARBANK_X", "fd:500");
        assert_eq!(fds(named).as_deref(), Some("0 1 2 500"));
        for (value, error) in [
            ("fd:501", "EBADF"),
            ("fd:x", "must be"),
            ("fd:500", "EINVAL"),
        ] {
            let trial = trial.again();
            let run = trial
                .run(&scene.policy(), &probe)
                .fd(FD, File::open("/").expect("a directory"));
            run.env("OARBANK_X", value)
                .run()
                .refused(70, "descriptors", &[error]);
            trial.is_gone();
        }
    });
}

#[test]
fn confined_is_told_after_the_verification_and_closed() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let work = scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let script = "env > \"$0\"/env; [ -e /proc/$$/fd/500 ] && echo > \"$0\"/fd; while [ ! -e \"$0\"/go ]; do sleep 0.02; done";
        let running = trial
            .script(script, &work)
            .fd(FD, writer)
            .env("OARBANK_CONFINED", "500")
            .start();
        // It is told while the module lives, by nobody else any more.
        let mut told = Vec::new();
        reader.read_to_end(&mut told).expect("a pipe");
        assert_eq!(told, b"1");
        assert!(trial.event("verified").is_some());
        fs::write(format!("{work}/go"), "").expect("own folder");
        running.finish().success();
        let environment = fs::read_to_string(format!("{work}/env")).expect("the module wrote it");
        assert!(!environment.contains("OARBANK_CONFINED"), "{environment}");
        assert!(!fs::exists(format!("{work}/fd")).expect("a path"));
        // Nobody is told of a launch that fails.
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let trial = trial.again();
        let run = trial.run(&Policy::new().rw("/nowhere"), &["/bin/true"]);
        run.fd(FD, writer)
            .env("OARBANK_CONFINED", "500")
            .run()
            .refused(70, "landlock", &[]);
        told.clear();
        reader.read_to_end(&mut told).expect("a pipe");
        assert_eq!(told, b"");
    });
}

#[test]
fn nothing_that_the_module_has_is_held_open_beside_it() {
    // Which closes descriptors of three digits.
    if !is_here("/bin/bash") {
        return;
    }
    in_each_container(|trial| {
        let scene = trial.scene;
        let work = scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let (mut peer, channel) = UnixStream::pair().expect("a pair");
        let (mut output, out) = std::io::pipe().expect("a pipe");
        let (leaked, mut leak) = std::io::pipe().expect("a pipe");
        let (mut rest, held) = std::io::pipe().expect("a pipe");
        // The module closes all that it was given and lives on.
        let script = "exec 0<&- 1>&- 500>&-; echo > \"$0\"/closed; while [ ! -e \"$0\"/go ]; do sleep 0.02; done";
        let words = ["/bin/bash", "-c", script, &work];
        let run = trial.run(&Policy::new().rw(&work), &words);
        let run = run
            .fd(FD, channel)
            .env("OARBANK_X", "fd:500")
            .fd(501, leaked)
            .fd(503, held);
        let input = OwnedFd::from(std::io::pipe().expect("a pipe").1);
        let (mut fed, feed) = UnixStream::pair().expect("a pair");
        drop(input);
        let run = run.fd(0, feed).fd(1, out);
        let running = run.start();
        wait_for("the module has closed them", || {
            written(&format!("{work}/closed"))
        });
        assert_eq!(peer.read(&mut [0; 8]).expect("the other end is closed"), 0);
        assert_eq!(
            output.read(&mut [0; 8]).expect("the other end is closed"),
            0
        );
        assert_eq!(fed.read(&mut [0; 8]).expect("the other end is closed"), 0);
        assert_eq!(rest.read(&mut [0; 8]).expect("the other end is closed"), 0);
        let error = leak.write(b"x").expect_err("nobody reads");
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        assert!(
            state(trial.module()).is_some_and(|(state, _)| state != 'Z'),
            "it lives"
        );
        fs::write(format!("{work}/go"), "").expect("own folder");
        assert_eq!(running.finish().code, Some(0));
        trial.is_gone();
    });
}

// Containers.

#[test]
fn a_limit_that_cannot_be_applied_is_refused_and_says_what_is_missing() {
    as_each(|scene| {
        let limits = [
            ("--cpu-max=0.5", "cpu"),
            ("--memory-max=64M", "memory"),
            ("--pids-max=10", "pids"),
        ];
        let work = scene.dir("work");
        let policy = Policy::new().rw(&work);
        let argv = ["/bin/sh", "-c", "echo > $0/ran", &work];
        for (limit, _) in limits {
            let trial = Trial::new(scene, None).options(&[limit]);
            let outcome = trial.run(&policy, &argv).run();
            outcome.refused(70, "cgroup", &["--cgroup none", "needs a cgroup"]);
            assert_eq!(trial.field("failed", "step"), "cgroup");
            trial.is_gone();
        }
        let Some(outer) = Cgroup::new(scene.who) else {
            return;
        };
        let cgroup = outer.inner(scene.who);
        for (limit, controller) in limits {
            for place in ["auto", cgroup.path()] {
                let trial = Trial::new(scene, Some(&cgroup)).options(&[limit, "--cgroup", place]);
                let outcome = trial.run(&policy, &argv).run();
                let part = format!("has no {controller} controller");
                outcome.refused(70, "cgroup", &[&part, cgroup.path()]);
                trial.is_gone();
            }
        }
        assert!(!fs::exists(format!("{work}/ran")).expect("a path"));
    });
}

#[test]
fn a_cgroup_that_is_none_is_refused() {
    as_each(|scene| {
        let run = |place: &str, errors: &[&str]| {
            let trial = Trial::new(scene, None).options(&["--cgroup", place]);
            let outcome = trial.run(&Policy::new(), &["/bin/true"]).run();
            outcome.refused(70, "cgroup", errors);
        };
        run("/nowhere", &["/nowhere", "ENOENT"]);
        run("/tmp", &["/tmp", "not a cgroup of version 2"]);
        run("/etc/passwd", &["/etc/passwd", "ENOTDIR"]);
        run("", &["ENOENT"]);
        if !scene.who.is_root()
            && let Some(cgroup) = Cgroup::new(Who::ROOT)
        {
            run(cgroup.path(), &[cgroup.path(), "EACCES"]);
        }
    });
}

#[test]
fn auto_takes_a_leaf_where_it_can_and_else_says_why_not() {
    as_each(|scene| {
        let argv = ["/bin/true"];
        if let Some(cgroup) = Cgroup::new(scene.who) {
            let trial = Trial::new(scene, Some(&cgroup)).options(&["--cgroup=auto"]);
            trial.run(&Policy::new(), &argv).run().success();
            let leaf = trial.field("started", "cgroup");
            assert_eq!(Path::new(&leaf).parent(), Some(Path::new(cgroup.path())));
            assert_eq!(trial.field("started", "reason"), "null");
            trial.is_gone();
        }
        if scene.who.is_root() {
            return;
        }
        // What root owns, and what is delegated but for the file that a process is born through.
        for delegated in [false, true] {
            if let Some(cgroup) = Cgroup::new(Who::ROOT) {
                if delegated && Who::current().is_root() {
                    scene.give(cgroup.path());
                }
                let trial = Trial::new(scene, Some(&cgroup)).options(&["--cgroup=auto"]);
                trial.run(&Policy::new(), &argv).run().success();
                assert_eq!(trial.field("started", "cgroup"), "null");
                let reason = trial.field("started", "reason");
                assert!(
                    reason.contains("cgroup: ") && reason.contains("EACCES"),
                    "{reason}"
                );
                trial.is_gone();
            }
        }
    });
}

#[test]
fn a_module_is_born_in_its_leaf_with_all_that_it_forks() {
    as_each(|scene| {
        let Some(cgroup) = Cgroup::new(scene.who) else {
            return;
        };
        let trial = Trial::new(scene, Some(&cgroup));
        let work = scene.dir("work");
        // The first thing that it does.
        let script = "for n in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & setsid sleep 1000 & done; echo > \"$0\"/forked; wait";
        let running = trial.script(script, &work).start();
        wait_for("it has forked", || written(&format!("{work}/forked")));
        let leaf = trial.field("started", "cgroup");
        wait_for("21 in the leaf", || members(Path::new(&leaf)).len() == 21);
        assert!(members(Path::new(&leaf)).contains(&trial.module()));
        assert!(!members(Path::new(&leaf)).contains(&trial.keeper()));
        running.signal(libc::SIGTERM);
        assert_eq!(running.finish().code, Some(143));
        trial.is_gone();
    });
}

#[test]
fn a_leaf_that_was_left_behind_is_swept_and_one_in_use_is_not() {
    as_each(|scene| {
        let Some(cgroup) = Cgroup::new(scene.who) else {
            return;
        };
        let work = scene.dir("work");
        let first = Trial::new(scene, Some(&cgroup));
        let running = first.script("sleep 1000", &work).start();
        let module = first.module();
        let in_use = cgroup.leaves();
        assert_eq!(in_use.len(), 1);
        // Left behind: nobody holds its lock. And those that only look like it.
        for name in ["oarbank-1-0", "oarbank-1-1", "oarbank-other", "another"] {
            let path = format!("{}/{name}", cgroup.path());
            fs::create_dir(&path).expect("a cgroup");
            for name in ["", "/cgroup.procs", "/cgroup.kill"] {
                scene.give(&format!("{path}{name}"));
            }
        }
        let mut left = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("sleep");
        fs::write(
            format!("{}/oarbank-1-1/cgroup.procs", cgroup.path()),
            left.id().to_string(),
        )
        .expect("root may, or the owner");
        let second = Trial::new(scene, Some(&cgroup));
        second.run(&Policy::new(), &["/bin/true"]).run().success();
        let mut names: Vec<String> = cgroup
            .leaves()
            .iter()
            .map(|leaf| leaf.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.retain(|name| !in_use[0].ends_with(name));
        assert_eq!(names, ["another", "oarbank-other"]);
        assert_eq!(
            left.wait().expect("own child").code(),
            None,
            "it was killed"
        );
        assert!(
            in_use[0].exists() && parent(module).is_some(),
            "the one in use"
        );
        running.signal(libc::SIGTERM);
        assert_eq!(running.finish().code, Some(143));
        assert!(!in_use[0].exists());
    });
}

// The end.

#[test]
fn a_timeout_asks_first_and_kills_after_the_grace() {
    /// Options, script, exit code, and how the module itself ended.
    type Case = (
        &'static [&'static str],
        &'static str,
        i32,
        &'static str,
        &'static str,
    );
    // Time enough for a shell to set its trap.
    const CASES: &[Case] = &[
        (&["--timeout=60"], "exit 7", 7, "7", "null"),
        (
            &["--timeout=3"],
            "trap 'exit 9' TERM; while :; do sleep 0.5; done",
            124,
            "9",
            "null",
        ),
        (&["--timeout=0.2"], "sleep 1000", 124, "null", "15"),
        (
            &["--timeout=3", "--grace=0.2"],
            "trap '' TERM; while :; do sleep 0.5; done",
            124,
            "null",
            "9",
        ),
        (
            &["--timeout=3", "--grace=0"],
            "trap '' TERM; while :; do sleep 0.5; done",
            124,
            "null",
            "9",
        ),
        (
            &["--timeout=0.2", "--grace=0.2"],
            "kill -STOP $$",
            124,
            "null",
            "",
        ),
    ];
    in_each_container(|trial| {
        let work = trial.scene.dir("work");
        std::thread::scope(|threads| {
            for &(options, script, exit, code, signal) in CASES {
                let (trial, work) = (trial.again().options(options), &work);
                threads.spawn(move || {
                    let outcome = trial.script(script, work).run();
                    assert_eq!(outcome.code, Some(exit), "{script}: {outcome:?}");
                    assert_eq!(trial.field("exited", "code"), code, "{script}");
                    let ended_by = trial.field("exited", "signal");
                    // One who is stopped may be continued for it, or not.
                    assert!(
                        ended_by == signal || signal.is_empty(),
                        "{script}: {ended_by}"
                    );
                    assert_eq!(trial.field("exited", "timeout"), (exit == 124).to_string());
                    assert_eq!(trial.survivors(), [], "{script}");
                });
            }
        });
        trial.is_gone();
    });
}

#[test]
fn a_signal_is_passed_on_and_the_module_answers_it() {
    in_each_container(|trial| {
        let work = trial.scene.dir("work");
        let signals = [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3)];
        for (name, signal) in signals {
            let trial = trial.again();
            let script = format!(
                "trap 'echo {name} > \"$0\"/got; exit 33' {name}; while :; do sleep 0.02; done"
            );
            let running = trial.script(&script, &work).start();
            let module = trial.module();
            wait_for("the trap", || catches(module, signal));
            running.signal(signal);
            let outcome = running.finish();
            assert_eq!(outcome.code, Some(33), "{outcome:?}");
            assert_eq!(
                fs::read_to_string(format!("{work}/got")).expect("the trap wrote it"),
                format!("{name}\n")
            );
            assert_eq!(trial.field("exited", "timeout"), "false");
            trial.is_gone();
            // Who does not act on it is killed after the grace.
            let trial = trial.again().options(&["--grace=0.2"]);
            let running = trial
                .script(
                    &format!("trap '' {name}; echo > \"$0\"/ready; while :; do sleep 0.02; done"),
                    &work,
                )
                .start();
            wait_for("ready", || written(&format!("{work}/ready")));
            fs::remove_file(format!("{work}/ready")).expect("own folder");
            running.signal(signal);
            assert_eq!(running.finish().code, Some(137));
            trial.is_gone();
        }
    });
}

/// Whether a process has a handler for a signal.
fn catches(pid: i32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:\t"));
    caught.is_some_and(|set| u64::from_str_radix(set, 16).expect("a set") & 1 << (signal - 1) != 0)
}

#[test]
fn a_signal_that_the_caller_ignores_is_not_acted_upon() {
    as_each_trial(|trial| {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTSTP] {
            let work = trial.scene.dir(&format!("work-{signal}"));
            // It would be killed at once, or stand still.
            let trial = trial.again().options(&["--grace=0"]);
            let script = "while [ ! -e \"$0\"/go ]; do sleep 0.02; done; exit 5";
            let run = trial.script(script, &work).with(move || {
                // SAFETY: one call that is safe after fork.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
                Ok(())
            });
            let running = run.start();
            trial.module();
            running.signal(signal);
            std::thread::sleep(Duration::from_millis(300));
            fs::write(format!("{work}/go"), "").expect("own folder");
            let outcome = running.finish();
            assert_eq!(outcome.code, Some(5), "{signal}: {outcome:?}");
        }
    });
}

/// Appends to a file for ever; `$1` is how its work is begun, `$0` where.
const COUNTER: &str = "while :; do echo >> \"$0\"/count; sleep 0.01; done";

/// Whether a file grows.
fn grows(path: &str) -> bool {
    let length = || fs::metadata(path).map_or(0, |file| file.len());
    let before = length();
    (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        length() > before
    })
}

#[test]
fn a_frozen_container_does_nothing_until_it_is_thawed_or_ends() {
    in_each_container(|trial| {
        // The leader itself, a child in a session of its own, and an orphan in one.
        for (number, script) in [
            COUNTER.to_owned(),
            format!("setsid /bin/sh -c '{COUNTER}' \"$0\" & wait"),
            format!("(setsid /bin/sh -c '{COUNTER}' \"$0\" &); while :; do sleep 0.02; done"),
            format!("setsid /bin/sh -c 'setsid /bin/sh -c \"$1\" \"$0\" & wait' \"$0\" '{COUNTER}' & wait"),
        ]
        .iter()
        .enumerate()
        {
            let trial = trial.again();
            let leaf = trial.cgroup.is_some();
            let work = trial.scene.dir(&format!("work-{leaf}-{number}"));
            let count = format!("{work}/count");
            let running = trial.script(script, &work).start();
            wait_for("it counts", || written(&count));
            assert!(grows(&count), "{script}");
            running.signal(libc::SIGTSTP);
            wait_for("it is frozen", || !grows(&count));
            assert!(!grows(&count), "{script}");
            running.signal(libc::SIGCONT);
            wait_for("it is thawed", || grows(&count));
            running.signal(libc::SIGTSTP);
            wait_for("it is frozen", || !grows(&count));
            running.signal(libc::SIGTERM);
            assert_eq!(running.finish().code, Some(143), "{script}");
            trial.is_gone();
        }
    });
}

#[test]
fn who_was_asked_to_end_is_not_frozen_any_more() {
    in_each_container(|trial| {
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let trial = trial.again().options(&["--grace=1000"]);
        let script = "trap 'echo > \"$0\"/asked; while [ ! -e \"$0\"/go ]; do sleep 0.02; done; exit 5' TERM; echo > \"$0\"/ready; while :; do sleep 0.02; done";
        let running = trial.script(script, &work).start();
        wait_for("ready", || written(&format!("{work}/ready")));
        running.signal(libc::SIGTERM);
        wait_for("asked", || written(&format!("{work}/asked")));
        running.signal(libc::SIGTSTP);
        std::thread::sleep(Duration::from_millis(100));
        fs::write(format!("{work}/go"), "").expect("own folder");
        assert_eq!(running.finish().code, Some(5));
        trial.is_gone();
    });
}

/// A shell on a terminal of its own: starts `argv`, types ^Z, sees the job stop, continues it, types ^C.
const TERMINAL: &str = r#"
import os, pty, select, sys, time
work, shell, command = sys.argv[1], '/bin/bash', sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(shell, [shell, '--norc', '--noprofile', '-i'])
seen = b''
def expect(text):
    global seen
    end = time.time() + 60
    while text not in seen:
        if time.time() > end:
            sys.exit('no %r in %r' % (text, seen))
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 4096)
    seen = seen[seen.index(text) + len(text):]
def grows():
    size = lambda: os.path.exists(work + '/count') and os.path.getsize(work + '/count')
    before = size()
    time.sleep(0.5)
    return size() > before
def until(condition):
    end = time.time() + 60
    while not condition():
        if time.time() > end:
            sys.exit('waited in vain, saw %r' % seen)
type = lambda text: os.write(terminal, text)
type(b'PS1=\'ready$ \'; bind "set enable-bracketed-paste off"\n')
expect(b'ready$ ')
type(' '.join("'" + word.replace("'", "'\\''") + "'" for word in command).encode() + b'\n')
until(grows)
type(b'\x1a')
expect(b'Stopped')
until(lambda: not grows())
type(b'fg\n')
until(grows)
type(b'\x03')
expect(b'ready$ ')
type(b'echo code=$?\n')
expect(b'code=130')
"#;

#[test]
fn a_shell_stops_and_continues_it_as_a_job() {
    in_each_container(|trial| {
        let python = "/usr/bin/python3";
        if !Path::new(python).exists() {
            return skip("no python3");
        }
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        // The shell has no use for the status descriptor, and its children none of its number.
        let words = trial.words(&Policy::new().rw(&work));
        let mut argv = vec![python, "-c", TERMINAL, &work, trial.scene.agent()];
        argv.extend(
            words
                .iter()
                .map(String::as_str)
                .filter(|word| !word.starts_with("--status-fd")),
        );
        argv.extend(["/bin/sh", "-c", COUNTER, &work]);
        trial.supervised(trial.scene.plain(&argv)).run().success();
        trial.will_be_gone();
    });
}

#[test]
fn orphans_are_reaped_while_the_leader_runs() {
    in_each_container(|trial| {
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let script = "n=0; while [ $n -lt 50 ]; do (setsid sleep 0.1 &); n=$((n+1)); done; echo > \"$0\"/made; while [ ! -e \"$0\"/go ]; do sleep 0.02; done";
        let running = trial.script(script, &work).start();
        wait_for("they were made", || written(&format!("{work}/made")));
        let children = |parent: i32| {
            let is_child = |&pid: &i32| state(pid).is_some_and(|(_, other)| other == parent);
            processes().iter().filter(|pid| is_child(pid)).count()
        };
        let (front, keeper) = (running.id(), trial.keeper());
        wait_for("only the leader is left", || {
            children(keeper) == 1 && trial.survivors().len() < 5
        });
        assert_eq!((children(front), children(keeper)), (1, 1), "zombies too");
        fs::write(format!("{work}/go"), "").expect("own folder");
        running.finish().success();
        trial.is_gone();
    });
}

/// Leaves behind a process in a session of its own, whose parents have ended, and others.
const DAEMONS: &str = "(setsid /bin/sh -c '(setsid sleep 1000 </dev/null >/dev/null 2>&1 &)' &); (trap '' HUP TERM; sleep 1000 </dev/null >/dev/null 2>&1 &)";

#[test]
fn what_the_leader_leaves_behind_is_killed_with_it() {
    in_each_container(|trial| {
        let work = trial.scene.dir("work");
        let script = format!("{DAEMONS}; exit 6");
        // The control: confined, and left alone.
        let control = trial.again();
        let run = trial
            .scene
            .confined(&Policy::new().rw(&work), &["/bin/sh", "-c", &script, &work]);
        let outcome = control.marked(run).start();
        wait_for("two survivors", || {
            control.survivors().len() == 2 && parent(outcome.id()).is_none()
        });
        control.kill_survivors();
        assert_eq!(outcome.finish().code, Some(6));
        let outcome = trial.script(&script, &work).run();
        assert_eq!(outcome.code, Some(6), "{outcome:?}");
        trial.is_gone();
    });
}

/// Kills both at once, as nobody could do between them.
fn kill_both(front: i32, keeper: i32) {
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        for pid in [front, keeper] {
            // SAFETY: takes numbers of processes that live.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

#[test]
fn a_killed_parent_takes_the_module_with_it() {
    in_each_container(|trial| {
        let leaf = trial.cgroup.is_some();
        for who in ["front", "keeper", "both"] {
            for stopped in [false, true] {
                eprintln!("{who}, stopped: {stopped}");
                let trial = trial.again();
                let work = trial.scene.dir(&format!("work-{leaf}-{who}-{stopped}"));
                let script = format!(
                    "trap '' TERM HUP INT; {DAEMONS}; echo > \"$0\"/ready; while :; do sleep 0.05; done"
                );
                let running = trial.script(&script, &work).start();
                wait_for("ready", || written(&format!("{work}/ready")));
                let (front, keeper, module) = (running.id(), trial.keeper(), trial.module());
                wait_for("all of them", || trial.survivors().len() >= 5);
                if stopped {
                    running.signal(libc::SIGTSTP);
                    std::thread::sleep(Duration::from_millis(50));
                }
                match who {
                    "front" => running.signal(libc::SIGKILL),
                    "keeper" => {
                        // SAFETY: takes numbers of a process that lives.
                        check(unsafe { libc::kill(keeper, libc::SIGKILL) }).expect("it lives");
                    }
                    _ => kill_both(front, keeper),
                }
                if who == "both" {
                    for (what, pid) in [("front", front), ("keeper", keeper), ("leader", module)] {
                        wait_for(what, || parent(pid).is_none());
                    }
                    if leaf {
                        // What is left is the next launch's to sweep.
                        let next = trial.again().run(&Policy::new(), &["/bin/true"]);
                        next.run().success();
                        trial.will_be_gone();
                    }
                    trial.kill_survivors();
                }
                let outcome = running.finish();
                if who == "keeper" {
                    outcome.refused(70, "supervise", &["the keeper", "killed"]);
                    assert_eq!(trial.field("failed", "step"), "supervise");
                    // The front has not ended before all the rest.
                    trial.is_gone();
                } else {
                    assert_eq!(outcome.signal, Some(9), "{who}: {outcome:?}");
                    wait_for("all of it is gone", || {
                        if who == "both" {
                            // Who was between fork and exec had no mark.
                            trial.kill_survivors();
                        }
                        trial.survivors().is_empty()
                    });
                    trial.will_be_gone();
                }
            }
        }
    });
}

/// A user of its own: a limit on processes counts all of a user's.
const BOMBER: Who = Who(61234);

#[test]
fn a_fork_bomb_ends() {
    if !Who::current().is_root() {
        return skip("a user of its own needs root");
    }
    // All of them spin, and what ends them has one share of many.
    let most = if is_emulated() { 25 } else { 100 };
    let scene = Scene::new(BOMBER);
    let cgroup = Cgroup::new(BOMBER);
    let kinds = [Some(None), cgroup.as_ref().map(Some)];
    for trial in kinds
        .into_iter()
        .flatten()
        .map(|kind| Trial::new(&scene, kind))
    {
        for kind in ["bomb", "bomb sessions"] {
            for how in ["timeout", "front", "keeper"] {
                eprintln!("{kind}, {how}, in a leaf: {}", trial.cgroup.is_some());
                let options: &[&str] = if how == "timeout" {
                    &["--timeout=0.5", "--grace=0.1"]
                } else {
                    &[]
                };
                let trial = trial.again().options(options);
                let run = trial
                    .run(&scene.policy(), &scene.probe_argv(kind))
                    .with(move || {
                        let limit = libc::rlimit {
                            rlim_cur: most,
                            rlim_max: most,
                        };
                        // SAFETY: one call that is safe after fork and reads one structure.
                        check(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &limit) })
                    });
                let running = run.start();
                let keeper = trial.keeper();
                match how {
                    "timeout" => {}
                    how => {
                        wait_for("it is full", || {
                            trial.survivors().len() as u64 > most * 9 / 10
                        });
                        let pid = if how == "front" { running.id() } else { keeper };
                        // SAFETY: takes numbers of a process that lives.
                        check(unsafe { libc::kill(pid, libc::SIGKILL) }).expect("it lives");
                    }
                }
                let outcome = running.finish();
                match how {
                    "timeout" => assert_eq!(outcome.code, Some(124), "{outcome:?}"),
                    "keeper" => assert_eq!(outcome.code, Some(70), "{outcome:?}"),
                    _ => {}
                }
                trial.will_be_gone();
            }
        }
    }
}

#[test]
fn a_thousand_runs_and_fifty_at_once_leave_nothing() {
    in_each_container(|trial| {
        let argv = ["/bin/true"];
        let policy = Policy::new();
        let words: Vec<String> = trial.words(&policy);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(argv).collect();
        let runs = |count: usize| {
            for _ in 0..count {
                let outcome = trial.supervised(trial.scene.launcher(&words)).run();
                assert_eq!(outcome.code, Some(0), "{outcome:?}");
            }
        };
        runs(1000);
        // At once: each of them lives until all do.
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let script = "while [ ! -e \"$0\"/go ]; do sleep 0.1; done; exit 8";
        let trials: Vec<Trial> = (0..50).map(|_| trial.again()).collect();
        let running: Vec<_> = trials
            .iter()
            .map(|trial| trial.script(script, &work).start())
            .collect();
        for trial in &trials {
            trial.module();
        }
        if let Some(cgroup) = trial.cgroup {
            assert_eq!(cgroup.leaves().len(), 50);
        }
        fs::write(format!("{work}/go"), "").expect("own folder");
        for running in running {
            assert_eq!(running.finish().code, Some(8));
        }
        for trial in trials {
            trial.is_gone();
        }
        trial.is_gone();
    });
}

// The verification.

#[test]
fn a_stub_that_does_not_confine_is_killed_before_it_acts() {
    if !strace_is_here() {
        return;
    }
    in_each_container(|trial| {
        let work = trial.scene.dir(if trial.cgroup.is_some() {
            "leaf"
        } else {
            "none"
        });
        let marker = format!("{work}/ran");
        let script = "echo > \"$0\"/ran";
        // A caller with a filter and no_new_privs of its own shows both lines from the start.
        for filtered in [false, true] {
            let run = |inject: &[&str]| {
                let trial = trial.again();
                let log = trial.scene.file("log", "");
                let words = trial.words(&Policy::new().rw(&work));
                let mut argv = vec!["strace", "-f", "-qq", "-o", &log];
                argv.extend(inject);
                argv.push(trial.scene.agent());
                argv.extend(words.iter().map(String::as_str));
                argv.extend(["/bin/sh", "-c", script, &work]);
                let run = trial.supervised(trial.scene.plain(&argv));
                let outcome = if filtered {
                    run.with(add_allowing_filter)
                } else {
                    run
                }
                .run();
                (trial, outcome, fs::read_to_string(&log).expect("the log"))
            };
            // The control.
            let (trial, outcome, _) = run(&[]);
            outcome.success();
            assert!(fs::exists(&marker).expect("a path"));
            trial.is_gone();
            fs::remove_file(&marker).expect("own folder");
            // Nothing is confined, and every call says that it was.
            let pretend = "inject=seccomp,landlock_restrict_self:retval=0";
            let (trial, outcome, log) = run(&["-e", pretend]);
            assert!(!fs::exists(&marker).expect("a path"), "{outcome:?}");
            outcome.refused(70, "verify", &["not confined"]);
            assert_eq!(trial.field("failed", "step"), "verify");
            assert!(trial.event("verified").is_none());
            assert!(!log.contains("execve(\"/bin/sh\""), "{log}");
            trial.is_gone();
            if filtered {
                continue;
            }
            // Without no_new_privs alone: who keeps root's capabilities needs it for nothing.
            let number = prctl_number(&log);
            let pretend = format!("inject=prctl:retval=0:when={number}");
            let (trial, outcome, log) = run(&["-e", &pretend, "-e", "inject=capset:retval=0"]);
            assert!(!fs::exists(&marker).expect("a path"), "{outcome:?}");
            assert!(!log.contains("execve(\"/bin/sh\""), "{log}");
            let root = trial.scene.who.is_root();
            outcome.refused(70, if root { "verify" } else { "landlock" }, &[]);
            trial.is_gone();
        }
    });
}

/// Which `prctl` of its process sets no_new_privs.
fn prctl_number(log: &str) -> usize {
    let line = log
        .lines()
        .find(|line| line.contains("PR_SET_NO_NEW_PRIVS"))
        .expect("it is set");
    let process = line.split(' ').next().expect("a pid");
    log.lines()
        .filter(|line| line.starts_with(process) && line.contains(" prctl("))
        .position(|one| one == line)
        .expect("among them")
        + 1
}

/// A filter that allows everything.
fn add_allowing_filter() -> std::io::Result<()> {
    add_filter(&[libc::sock_filter {
        code: 6,
        jt: 0,
        jf: 0,
        k: 0x7fff_0000,
    }])
}

#[test]
fn verify_tells_confined_from_not_and_from_unknown() {
    as_each_trial(|trial| {
        let scene = trial.scene;
        let verify = |words: &[&str]| scene.launcher(&[&["sandbox-verify"], words].concat()).run();
        let work = scene.dir("work");
        let running = trial
            .script("while [ ! -e \"$0\"/go ]; do sleep 0.02; done", &work)
            .start();
        let module = trial.module().to_string();
        // The byte has not been asked for, so its exec is waited for.
        let confined = verify(&[&module]);
        assert_eq!(confined.success(), "");
        for unconfined in [running.id(), trial.keeper(), std::process::id() as i32] {
            let outcome = verify(&[&unconfined.to_string()]);
            assert_eq!(
                (outcome.code, outcome.out.len(), outcome.err.len()),
                (Some(1), 0, 0),
                "{outcome:?}"
            );
        }
        // One of the two is not enough.
        let half = scene.process(&["/usr/bin/setpriv", "--no-new-privs", "sleep", "1000"]);
        wait_for("setpriv has begun", || {
            fs::read(format!("/proc/{}/cmdline", half.id()))
                .is_ok_and(|line| line.starts_with(b"sleep"))
        });
        assert_eq!(verify(&[&half.id().to_string()]).code, Some(1));
        fs::write(format!("{work}/go"), "").expect("own folder");
        running.finish().success();
        verify(&[&module]).refused(70, "verify", &["ENOENT", "no such process"]);
        verify(&["2147483647"]).refused(70, "verify", &["ENOENT"]);
        for wrong in [
            &[][..],
            &["0"],
            &["-1"],
            &["x"],
            &["1x"],
            &["2147483648"],
            &["1", "2"],
            &["--bogus"],
            &[""],
        ] {
            verify(wrong).refused(64, "usage", &[]);
        }
    });
}

// Real programs.

#[test]
fn real_programs_run() {
    in_each_container(|trial| {
        let scene = trial.scene;
        let leaf = trial.cgroup.is_some();
        let work = scene.dir(&format!("work-{leaf}"));
        scene.file(
            &format!("work-{leaf}/program.c"),
            "int main(void) { return 42; }\n",
        );
        let cases = [
            (
                "/bin/sh",
                "seq 1 100 | sort -rn | head -n 2 | tr '\\n' ' '; (sleep 0.01; echo late) & wait; trap 'echo caught' USR1; kill -USR1 $$",
                "100 99 late\ncaught\n",
            ),
            (
                "/usr/bin/python3",
                "import subprocess,threading as t; print(subprocess.run('exit 3', shell=True).returncode); x=t.Thread(target=lambda: print('thread')); x.start(); x.join()",
                "3\nthread\n",
            ),
            (
                "/usr/bin/node",
                "const { Worker } = require('worker_threads'); new Worker('console.log(6*7)', {eval: true}).on('exit', () => console.log(require('child_process').execSync('echo child').toString().trim()))",
                "42\nchild\n",
            ),
            (
                "/bin/bash",
                "git init -q r && cd r && git config user.name N && git config user.email n@e && echo 1 > f && git add f && git commit -q -m first && git log --format=%s && git gc -q",
                "first\n",
            ),
            (
                "/bin/bash",
                "gcc -pipe -o program program.c && ./program; echo $?",
                "42\n",
            ),
        ];
        for (program, text, expected) in cases {
            if !Path::new(program).exists()
                || (text.starts_with("gcc") && !Path::new("/usr/bin/gcc").exists())
            {
                skip(&format!("no {program}"));
                continue;
            }
            let trial = trial.again();
            let flag = if program.ends_with("node") {
                "-e"
            } else {
                "-c"
            };
            let run = trial.run(&Policy::new().rw(&work).exec_rw(), &[program, flag, text]);
            let outcome = run.cwd(&work).env("HOME", &work).env("TMPDIR", &work).run();
            assert_eq!(outcome.success(), expected, "{outcome:?}");
            trial.is_gone();
        }
    });
}
