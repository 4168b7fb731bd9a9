//! What `sandbox-run` does with a cgroup that has controllers: the guests of `cargo test --test kernels` have one, and a host
//! that delegates them. Elsewhere these tests are skipped; what needs no controller is in `tests/run.rs`.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use support::{
    Cgroup, Policy, Trial, Who, as_each, check, members, parent, state, wait_for, written,
};

/// All that limits need.
const ALL: &[&str] = &["cpu", "memory", "pids"];

/// The test in a delegated cgroup with every controller, as root and as a user.
fn where_limits_hold(test: impl Fn(&Trial<'_>, &Cgroup)) {
    as_each(|scene| {
        if let Some(cgroup) = Cgroup::with(scene.who, ALL) {
            // The way of an agent, that names no cgroup.
            let trial = Trial::new(scene, Some(&cgroup)).options(&["--cgroup=auto"]);
            test(&trial, &cgroup);
        }
    });
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

/// A file of a cgroup.
fn read(cgroup: &Path, name: &str) -> String {
    fs::read_to_string(cgroup.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

// Each limit.

#[test]
fn the_limits_stand_in_the_leaf() {
    where_limits_hold(|trial, _| {
        let work = trial.scene.dir("work");
        for (options, values) in [
            (
                &["--cpu-max=0.5", "--memory-max=64M", "--pids-max=20"][..],
                ["50000 100000", "67108864", "20"],
            ),
            (&["--memory-max=32M"], ["max 100000", "33554432", "max"]),
            (&["--cpu-max", "2"], ["200000 100000", "max", "max"]),
            (&["--pids-max", "7"], ["max 100000", "max", "7"]),
            (&[], ["max 100000", "max", "max"]),
        ] {
            let trial = trial.again().options(options);
            let running = trial.script("sleep 1000", &work).start();
            trial.module();
            let leaf = trial.field("started", "cgroup");
            let files = ["cpu.max", "memory.max", "pids.max"];
            let found = files.map(|file| read(Path::new(&leaf), file).trim().to_owned());
            assert_eq!(found, values, "{options:?}");
            running.signal(libc::SIGTERM);
            assert_eq!(running.finish().code, Some(143));
            trial.is_gone();
        }
    });
}

/// Needs 24 MiB at a time: as the leader, and in a child whose end the leader survives.
const HUNGRY: &str = "exec dd if=/dev/zero of=/dev/null bs=24M count=1 2>/dev/null";
const HUNGRY_CHILD: &str =
    "dd if=/dev/zero of=/dev/null bs=24M count=1 2>/dev/null; echo $? > \"$0\"/child; exit 3";

#[test]
fn memory_beyond_the_limit_is_killed_and_told() {
    where_limits_hold(|trial, _| {
        let work = trial.scene.dir("work");
        for (limit, script, code, child, oom) in [
            ("64M", HUNGRY, 0, "", "false"),
            ("12M", HUNGRY, 137, "", "true"),
            ("64M", HUNGRY_CHILD, 3, "0\n", "false"),
            ("12M", HUNGRY_CHILD, 3, "137\n", "true"),
        ] {
            let trial = trial.again().options(&["--memory-max", limit]);
            let outcome = trial.script(script, &work).run();
            assert_eq!(outcome.code, Some(code), "{limit} {script}: {outcome:?}");
            assert_eq!(trial.field("exited", "oom"), oom, "{limit} {script}");
            let peak = number(&trial.field("exited", "memory_peak"));
            let bytes = number(limit.trim_end_matches('M')) << 20;
            // What was needed was had, or as much as there was.
            let least = if oom == "true" { bytes / 2 } else { 24 << 20 };
            assert!((least..=bytes).contains(&peak), "{limit} {script}: {peak}");
            if !child.is_empty() {
                let end = fs::read_to_string(format!("{work}/child"));
                assert_eq!(end.expect("the leader wrote it"), child, "{limit}");
            }
            trial.is_gone();
        }
    });
}

#[test]
fn a_fork_beyond_the_limit_fails() {
    where_limits_hold(|trial, _| {
        let work = trial.scene.dir("work");
        // With the leader itself nine; each number that a shell could start.
        let script =
            "for n in 1 2 3 4 5 6 7 8; do sleep 1000 & echo $n > \"$0\"/forked; done; exit 5";
        for (options, forked, code) in [
            (&["--pids-max=9"][..], "8\n", 5),
            (&["--pids-max=6"], "5\n", 2),
        ] {
            let trial = trial.again().options(options);
            let outcome = trial.script(script, &work).run();
            assert_eq!(outcome.code, Some(code), "{options:?}: {outcome:?}");
            let seen = fs::read_to_string(format!("{work}/forked"));
            assert_eq!(seen.expect("it forked"), forked, "{options:?}");
            let said = String::from_utf8_lossy(&outcome.err).to_lowercase();
            assert_eq!(said.contains("fork"), code != 5, "{options:?}: {outcome:?}");
            trial.is_gone();
        }
        // The error is EAGAIN, also of a thread.
        let policy = trial.scene.policy();
        for (limit, answer) in [("1", "EAGAIN"), ("2", "ok")] {
            let trial = trial.again().options(&["--pids-max", limit]);
            let argv = trial.scene.probe_argv("sys clone 0x11 0 0 0 0");
            let said = trial.run(&policy, &argv).run().success();
            let first = said.lines().next().unwrap_or_default().to_owned();
            assert!(first.starts_with(answer), "{limit}: {said}");
            trial.is_gone();
        }
    });
}

#[test]
fn processor_time_is_rationed() {
    where_limits_hold(|trial, _| {
        let used = |options: &[&str]| {
            let trial = trial.again().options(options);
            let trial = trial.options(&["--timeout=1", "--grace=0"]);
            let begin = Instant::now();
            let argv = ["/bin/sh", "-c", "while :; do :; done"];
            let outcome = trial.run(&Policy::new(), &argv).run();
            assert_eq!(outcome.code, Some(124), "{outcome:?}");
            let used = number(&trial.field("exited", "cpu_usec"));
            trial.is_gone();
            (used, begin.elapsed().as_micros() as u64)
        };
        // A tenth of the time, and one ration that may be begun.
        let (limited, time) = used(&["--cpu-max=0.1"]);
        assert!(limited <= time / 10 + 20_000, "{limited} of {time}");
        let (free, _) = used(&["--cpu-max=8"]);
        assert!(free > 2 * limited, "{free} and {limited}");
    });
}

// Where leaf and caller are.

#[test]
fn a_module_with_limits_is_born_in_its_leaf_beside_its_caller() {
    where_limits_hold(|trial, cgroup| {
        let work = trial.scene.dir("work");
        // The first run moves its caller, later ones find it there.
        for run in ["first", "second"] {
            let trial = trial.again().options(&["--pids-max=50"]);
            let script = "cat /proc/self/cgroup > \"$0\"/own; for n in 1 2 3 4 5; do sleep 1000 & setsid sleep 1000 & done; echo > \"$0\"/forked; wait";
            let running = trial.script(script, &work).start();
            wait_for("it has forked", || written(&format!("{work}/forked")));
            let leaf = trial.field("started", "cgroup");
            assert_eq!(cgroup.leaves(), [Path::new(&leaf)], "{run}");
            wait_for("11 in the leaf", || members(Path::new(&leaf)).len() == 11);
            assert!(members(Path::new(&leaf)).contains(&trial.module()));
            let mut callers = vec![running.id(), trial.keeper()];
            callers.sort_unstable();
            assert_eq!(members(&cgroup.caller()), callers, "{run}");
            assert_eq!(members(Path::new(cgroup.path())), [] as [i32; 0], "{run}");
            // What it has seen of itself from the start.
            let own = fs::read_to_string(format!("{work}/own")).expect("it wrote it");
            let name = leaf.rsplit('/').next().expect("a name");
            assert!(own.trim().ends_with(&format!("/{name}")), "{own}");
            // All in one stroke, also who left the session.
            running.signal(libc::SIGTERM);
            assert_eq!(running.finish().code, Some(143));
            trial.is_gone();
            fs::remove_file(format!("{work}/forked")).expect("own folder");
        }
    });
}

#[test]
fn denials_are_explained_of_a_module_with_limits() {
    where_limits_hold(|trial, cgroup| {
        // The first run moves its caller, and all that this has started by then.
        let scene = trial.scene;
        let told = scene.file("told", "");
        let explain = format!("--explain-denials={told}");
        let trial = trial.again().options(&["--pids-max=50", &explain]);
        let argv = scene.probe_argv("sys memfd_create s:x 0");
        let outcome = trial.run(&scene.policy(), &argv).run();
        assert_eq!(outcome.success(), "EACCES\n");
        let told = fs::read_to_string(&told).expect("own file");
        assert!(told.contains("memfd_create("), "{told}");
        assert_eq!(members(&cgroup.caller()), [] as [i32; 0]);
        trial.is_gone();
    });
}

#[test]
fn a_cgroup_that_is_named_has_limits_too() {
    where_limits_hold(|trial, cgroup| {
        // Nobody is in it, so nobody is moved; a user is born into it from one beside it.
        let place = cgroup.inner(trial.scene.who);
        let enable = fs::write(
            Path::new(cgroup.path()).join("cgroup.subtree_control"),
            "+cpu +memory +pids",
        );
        enable.expect("nobody is in it");
        fs::create_dir(cgroup.caller()).expect("a cgroup");
        for name in ["", "/cgroup.procs"] {
            trial
                .scene
                .give(&format!("{}{name}", cgroup.caller().display()));
        }
        let trial = trial.again().options(&["--cgroup", place.path()]);
        let trial = trial.options(&["--memory-max=12M"]);
        let work = trial.scene.dir("work");
        let outcome = trial.script(HUNGRY, &work).run();
        assert_eq!(outcome.code, Some(137), "{outcome:?}");
        let leaf = trial.field("started", "cgroup");
        assert_eq!(Path::new(&leaf).parent(), Some(Path::new(place.path())));
        assert_eq!(trial.field("exited", "oom"), "true");
        assert_eq!(place.children().len(), 0);
    });
}

#[test]
fn another_process_in_the_callers_cgroup_is_refused_by_name() {
    where_limits_hold(|trial, cgroup| {
        let work = trial.scene.dir("work");
        let mut other = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep");
        let procs = Path::new(cgroup.path()).join("cgroup.procs");
        fs::write(procs, other.id().to_string()).expect("a member");
        let limits = ["--cpu-max=1", "--memory-max=64M", "--pids-max=9"];
        for limit in limits {
            // Whoever was moved stays there; here each begins where the other is.
            let _ = fs::remove_dir(cgroup.caller());
            let trial = trial.again().options(&[limit]);
            let outcome = trial.script("echo > \"$0\"/ran", &work).run();
            outcome.refused(
                70,
                "cgroup",
                &[cgroup.path(), "EBUSY", "processes are in it"],
            );
            assert_eq!(trial.field("failed", "step"), "cgroup");
            trial.is_gone();
        }
        assert!(!fs::exists(format!("{work}/ran")).expect("a path"));
        // Without a limit they may be beside each other, and with one when the other has gone.
        let free = trial.again();
        free.script("exit 4", &work).run();
        assert_eq!(free.field("exited", "code"), "4");
        assert_ne!(free.field("started", "cgroup"), "null");
        other.kill().expect("own child");
        other.wait().expect("own child");
        for limit in limits {
            let trial = trial.again().options(&[limit]);
            trial.script("echo > \"$0\"/ran", &work).run().success();
            assert!(fs::exists(format!("{work}/ran")).expect("a path"));
            fs::remove_file(format!("{work}/ran")).expect("own folder");
            trial.is_gone();
        }
    });
}

#[test]
fn without_delegation_a_limit_is_refused_and_none_is_no_reason_to() {
    where_limits_hold(|trial, _| {
        let scene = trial.scene;
        if scene.who.is_root() {
            return;
        }
        let work = scene.dir("work");
        let Some(cgroup) = Cgroup::with(Who::ROOT, ALL) else {
            return;
        };
        for limit in ["--cpu-max=1", "--memory-max=64M", "--pids-max=9"] {
            let trial = Trial::new(scene, Some(&cgroup)).options(&["--cgroup=auto", limit]);
            let outcome = trial.script("echo > \"$0\"/ran", &work).run();
            outcome.refused(70, "cgroup", &["EACCES"]);
            assert_eq!(trial.field("failed", "step"), "cgroup");
            trial.is_gone();
        }
        assert!(!fs::exists(format!("{work}/ran")).expect("a path"));
        let trial = Trial::new(scene, Some(&cgroup)).options(&["--cgroup=auto"]);
        let outcome = trial.script("echo > \"$0\"/ran", &work).run();
        outcome.success();
        assert!(fs::exists(format!("{work}/ran")).expect("a path"));
        assert_eq!(trial.field("started", "cgroup"), "null");
        let reason = trial.field("started", "reason");
        assert!(reason.contains("EACCES"), "{reason}");
        trial.is_gone();
    });
}

// The end.

#[test]
fn a_frozen_leaf_with_limits_stands_still_and_can_be_ended() {
    where_limits_hold(|trial, _| {
        let work = trial.scene.dir("work");
        let count = format!("{work}/count");
        let length = || fs::metadata(&count).map_or(0, |file| file.len());
        let trial = trial.again().options(&["--cpu-max=1", "--memory-max=64M"]);
        let script =
            "setsid /bin/sh -c 'while :; do echo >> \"$0\"/count; sleep 0.01; done' \"$0\" & wait";
        let running = trial.script(script, &work).start();
        wait_for("it counts", || length() > 3);
        let leaf = trial.field("started", "cgroup");
        let frozen = || read(Path::new(&leaf), "cgroup.events").contains("frozen 1");
        assert!(!frozen());
        running.signal(libc::SIGTSTP);
        wait_for("it is frozen", frozen);
        let before = length();
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(length(), before);
        running.signal(libc::SIGCONT);
        wait_for("it is thawed", || length() > before);
        running.signal(libc::SIGTSTP);
        wait_for("it is frozen", frozen);
        running.signal(libc::SIGTERM);
        assert_eq!(running.finish().code, Some(143));
        trial.is_gone();
    });
}

#[test]
fn a_leaf_whose_watchers_were_both_killed_is_swept_by_the_next() {
    where_limits_hold(|trial, _| {
        let work = trial.scene.dir("work");
        let first = trial.again().options(&["--pids-max=50"]);
        let script = "trap '' TERM HUP; (setsid sleep 1000 &); setsid sleep 1000 & echo > \"$0\"/ready; while :; do sleep 0.05; done";
        let running = first.script(script, &work).start();
        wait_for("ready", || written(&format!("{work}/ready")));
        let (front, keeper, module) = (running.id(), first.keeper(), first.module());
        let leaf = first.field("started", "cgroup");
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for pid in [front, keeper] {
                // SAFETY: takes numbers of processes that live.
                check(unsafe { libc::kill(pid, signal) }).expect("it lives");
            }
        }
        for (what, pid) in [("front", front), ("keeper", keeper), ("leader", module)] {
            wait_for(what, || parent(pid).is_none());
        }
        // The control: two live on in a leaf that nobody watches.
        let living = || {
            let lives = |pid: &i32| state(*pid).is_some_and(|(state, _)| state != 'Z');
            members(Path::new(&leaf)).into_iter().filter(lives).count()
        };
        wait_for("two are left", || living() == 2);
        let next = trial.again().options(&["--pids-max=50"]);
        next.run(&Policy::new(), &["/bin/true"]).run().success();
        assert!(!Path::new(&leaf).exists());
        assert_eq!(running.finish().signal, Some(9));
        first.will_be_gone();
    });
}

#[test]
fn too_little_memory_for_the_launch_itself_ends_it_and_nothing_runs() {
    where_limits_hold(|trial, _| {
        let mut launched = Vec::new();
        for kib in [4_u32, 8, 16, 32, 64, 128, 256, 512] {
            let work = trial.scene.dir(&format!("work-{kib}"));
            let trial = trial.again().options(&["--memory-max", &format!("{kib}K")]);
            let outcome = trial.script(": > \"$0\"/ran; exec sleep 0", &work).run();
            let ran = fs::exists(format!("{work}/ran")).expect("a path");
            if outcome.code == Some(70) {
                outcome.refused(70, "spawn", &["want of memory"]);
                assert_eq!(trial.field("failed", "step"), "spawn");
                assert!(!ran, "{kib}: {outcome:?}");
            } else {
                // It was verified first, and whatever became of it was its own.
                assert!(trial.event("verified").is_some(), "{kib}: {outcome:?}");
                assert!(
                    outcome.code == Some(0) && ran || trial.field("exited", "oom") == "true",
                    "{kib}: {outcome:?} {:?}",
                    trial.events()
                );
                launched.push(kib);
            }
            trial.is_gone();
        }
        assert!(!launched.contains(&4), "nothing runs in one page");
        let work = trial.scene.dir("control");
        let control = trial.again().options(&["--memory-max=64M"]);
        control.script("echo > \"$0\"/ran", &work).run().success();
        assert!(fs::exists(format!("{work}/ran")).expect("a path"));
    });
}
