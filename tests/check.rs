//! `sandbox-check` and `sandbox-report`. That a check agrees with the launch is seen by every suite: `Run::run` makes one
//! before each launch.

mod support;

use std::fs;

use support::{Outcome, Policy, Run, Scene, as_each, landlock_abi};

fn check(scene: &Scene, words: &[&str]) -> Outcome {
    scene.launcher(&[&["sandbox-check"], words].concat()).run()
}

/// The line of a text report that has this in it.
#[track_caller]
fn line(outcome: &Outcome, part: &str) -> String {
    let text = String::from_utf8_lossy(&outcome.out);
    let found: Vec<&str> = text.lines().filter(|line| line.contains(part)).collect();
    assert_eq!(found.len(), 1, "{part}: {outcome:?}");
    found[0].trim().to_owned()
}

/// Python's JSON reader: a second opinion on what is printed, where it is there.
fn is_json(scene: &Scene, bytes: &[u8]) -> bool {
    if !support::is_here("/usr/bin/python3") {
        return true;
    }
    let python = scene.plain(&["python3", "-c", "import json, sys; json.load(sys.stdin)"]);
    python.input(bytes).run().code == Some(0)
}

#[test]
fn each_rule_is_told_with_where_it_leads() {
    as_each(|scene| {
        let work = scene.dir("work");
        scene.dir("outbox");
        let link = scene.symlink("outbox", "link");
        let file = scene.file("input", "");
        let policy = Policy::new().rw(&work).wo(&link).rd(&file);
        let outcome = check(scene, &[&scene.policy_file(policy.json())]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let root = scene.path("");
        let root = root.trim_end_matches('/');
        for expected in [
            format!("rw[0] {work:?} -> {work:?}: every file right but execute"),
            format!(
                "wo[0] {link:?} -> \"{root}/outbox\": make files and directories, write, truncate"
            ),
            format!("rd[0] {file:?} -> {file:?}: read files and list"),
            "\"/usr\" -> \"/usr\": read and execute".to_owned(),
        ] {
            line(&outcome, &format!("  {expected}"));
        }
    });
}

#[test]
fn the_exec_is_foreseen_with_the_part_that_fails() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        let ends = |program: &str, code, parts: &[(&str, &str)]| {
            let outcome = check(scene, &[&policy, "--", program]);
            assert_eq!(outcome.code, Some(code), "{outcome:?}");
            for (part, end) in parts {
                assert!(line(&outcome, part).ends_with(end), "{part}: {outcome:?}");
            }
        };
        let work = scene.dir("work");
        let ran = format!("{work}/ran");
        let shell = fs::read("/bin/sh").expect("a shell");
        // The name of the loader stands near the beginning of a program that has one.
        let start = &shell[..shell.len().min(4096)];
        if start.windows(4).any(|part| part == b"/ld-") {
            ends("/bin/sh", 0, &[("loader", "can be executed")]);
        } else {
            support::skip("the shell has no loader");
        }
        let outside = scene.script("outside", &format!("#!/bin/sh\n: > {ran}\n"));
        ends(
            &outside,
            71,
            &[
                (&outside, "EACCES (permission denied)"),
                ("interpreter", "can be executed"),
            ],
        );
        // Granted, but what it needs is not.
        let interpreter = scene.path("bin/probe");
        let script = scene.script("script", &format!("#!{interpreter}\n"));
        let policy = scene.policy_file(Policy::new().exe(&script).json());
        let outcome = check(scene, &[&policy, "--", &script]);
        assert_eq!(outcome.code, Some(71), "{outcome:?}");
        assert!(
            line(&outcome, "interpreter").ends_with("EACCES (permission denied)"),
            "{outcome:?}"
        );
        // Whatever could be executed was not.
        let policy = scene.policy_file(Policy::new().exe(&outside).json());
        let outcome = check(scene, &[&policy, "--", &outside]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(
            !fs::exists(&ran).expect("a path"),
            "an instruction of the program has run"
        );
        // The control: it would have left its mark.
        let policy = scene.policy_file(Policy::new().exe(&outside).rw(&work).json());
        let launched = ["sandbox-exec", &policy, "--", &outside];
        assert_eq!(scene.launcher(&launched).run().code, Some(0));
        assert!(fs::exists(&ran).expect("a path"));
    });
}

#[test]
fn the_likely_mistakes_are_warned_of() {
    as_each(|scene| {
        let home = scene.dir("home");
        let inner = scene.dir("home/bin");
        let policy = Policy::new().rw(&home).ro(&inner).rd("/");
        let file = scene.file("home/policy.json", policy.json());
        let run = scene.launcher(&["sandbox-check", &file]).env("HOME", &home);
        let outcome = run.run();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        for warning in [
            "a home directory is granted",
            "the module can change its own policy",
            "the module can change what it may execute",
            "the whole file system is granted",
        ] {
            line(&outcome, warning);
        }
        // The control: none of them without a reason.
        let data = scene.dir("data");
        let file = scene.policy_file(Policy::new().rw(&data).json());
        let outcome = check(scene, &[&file]);
        assert!(
            outcome.out.ends_with(b"warnings:\n  none\nexit: 0\n"),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_check_in_json_is_one_object_also_of_a_failure() {
    as_each(|scene| {
        let odd = scene.dir("a \"b\"\n\u{1b}[31m");
        let good = scene.policy_file(Policy::new().rw(&odd).json());
        let missing = scene.policy_file(Policy::new().ro(&odd).rw("/nowhere").json());
        let broken = scene.policy_file("{");
        for (words, code) in [
            (vec![good.as_str()], 0),
            (vec![&good, "--", "/bin/sh"], 0),
            (vec![&good, "--", "/nowhere"], 71),
            (vec![&missing], 70),
            (vec![&broken], 70),
            (vec!["/nowhere"], 70),
        ] {
            let outcome = check(scene, &[&["--json"], &words[..]].concat());
            assert_eq!(outcome.code, Some(code), "{outcome:?}");
            assert!(is_json(scene, &outcome.out), "{outcome:?}");
            let text = String::from_utf8_lossy(&outcome.out);
            assert!(text.ends_with(&format!(",\"exit\":{code}}}\n")), "{text}");
            assert_eq!(code == 0, text.contains("\"error\":null"), "{text}");
        }
    });
}

#[test]
fn what_cant_be_written_is_an_error() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        for words in [
            &["sandbox-report"][..],
            &["sandbox-report", "--text"],
            &["sandbox-check", &policy],
            &["sandbox-check", "--json", &policy],
        ] {
            let mut argv = vec![
                "/bin/sh",
                "-c",
                "exec \"$@\" > /dev/full",
                "sh",
                scene.agent(),
            ];
            argv.extend(words);
            scene.plain(&argv).run().refused(70, "output", &["ENOSPC"]);
            argv[2] = "exec 3>&1 >&-; exec \"$@\"";
            scene.plain(&argv).run().refused(70, "output", &["EBADF"]);
        }
    });
}

#[test]
fn wrong_usage_exits_64() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        for words in [
            &["sandbox-check"][..],
            &["sandbox-check", "--"],
            &["sandbox-check", "--bogus", &policy],
            &["sandbox-check", "--json=yes", &policy],
            &["sandbox-check", &policy, &policy],
            &["sandbox-check", &policy, "--"],
            &["sandbox-check", &policy, "--", "true"],
            &["sandbox-report", "--bogus"],
            &["sandbox-report", "--json", "--text"],
            &["sandbox-report", &policy],
        ] {
            scene.launcher(words).run().refused(64, "usage", &[]);
        }
    });
}

/// The capabilities of contract section 6, with the first ABI that enforces them.
const CAPABILITIES: [(&str, i64); 11] = [
    ("filesystem", 3),
    ("net.none", 3),
    ("exec_writable_deny", 3),
    ("gpu.compute", 3),
    ("folders.read", 3),
    ("folders.write", 3),
    ("endpoints", 3),
    ("net.egress-allowlist", 4),
    ("no_loopback", 4),
    ("no_link_local", 4),
    ("ipc", 6),
];

#[test]
fn the_report_says_what_this_kernel_enforces() {
    as_each(|scene| {
        let outcome = scene.launcher(&["sandbox-report"]).run();
        let abi = landlock_abi();
        let backend = abi >= 3;
        assert_eq!(outcome.code, Some(i32::from(!backend)), "{outcome:?}");
        let text = String::from_utf8_lossy(&outcome.out).into_owned();
        let says = |part: String| assert!(text.contains(&part), "{part}: {text}");
        says(format!(
            "\"backend\":{}",
            if backend { "\"landlock\"" } else { "null" }
        ));
        says(format!(
            "\"landlock_abi\":{}",
            if abi > 0 {
                abi.to_string()
            } else {
                "null".into()
            }
        ));
        for (name, since) in CAPABILITIES {
            let enforced = backend && abi >= since;
            let status = if enforced { "enforced" } else { "unavailable" };
            says(format!("\"{name}\":\"{status}\""));
        }
        says("\"net.egress-any\":\"unavailable\"".into());
        says("\"hide_existence\":\"not promised\"".into());
        assert!(is_json(scene, &outcome.out), "{text}");
        // The same for a reader.
        let outcome = scene.launcher(&["sandbox-report", "--text"]).run();
        let text = String::from_utf8_lossy(&outcome.out).into_owned();
        assert_eq!(
            text.matches(" enforced").count(),
            CAPABILITIES
                .iter()
                .filter(|(_, since)| backend && abi >= *since)
                .count(),
            "{text}"
        );
    });
}

/// What a kernel or a container takes away is told, not looked up: a call of the trying that another filter refuses.
#[test]
fn a_capability_that_does_not_hold_is_unavailable_with_the_reason() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let report = |fault: &str| {
            let inject = format!("inject={fault}");
            let argv = [
                "strace",
                "-f",
                "-o",
                "/dev/null",
                "-e",
                &inject,
                scene.agent(),
                "sandbox-report",
            ];
            let outcome = scene.plain(&argv).run();
            (
                outcome.code,
                String::from_utf8_lossy(&outcome.out).into_owned(),
            )
        };
        // The filter is not installed, though the call says so.
        let (code, text) = report("seccomp:retval=0");
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("\"filesystem\":\"enforced\""), "{text}");
        for name in [
            "net.none",
            "exec_writable_deny",
            "net.egress-allowlist",
            "ipc",
        ] {
            assert!(
                text.contains(&format!("\"{name}\":\"unavailable\"")),
                "{name}: {text}"
            );
            assert!(text.contains(&format!("\"{name}\":\"")), "{name}: {text}");
        }
        assert!(text.contains("was not refused"), "{text}");
        // Nor is the ruleset: no backend at all.
        let (code, text) = report("landlock_restrict_self:retval=0");
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains("\"backend\":null") && !text.contains("\"enforced\""),
            "{text}"
        );
        assert!(text.contains("open /: was not refused"), "{text}");
        // A kernel without Landlock.
        let (code, text) = report("landlock_create_ruleset:error=ENOSYS");
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains("\"backend\":null") && !text.contains("\"enforced\""),
            "{text}"
        );
        assert!(text.contains("\"landlock_abi\":null"), "{text}");
    });
}

#[test]
fn the_report_leaves_nothing_behind() {
    as_each(|scene| {
        let run: Run = scene.launcher(&["sandbox-report"]);
        run.run();
        for place in ["/tmp", "/var/tmp", "/run", "/dev/shm", "/"] {
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let own = name.strip_prefix("oarbank-report-");
                // That of a report which is being made is somebody's.
                let left =
                    own.is_some_and(|pid| !fs::exists(format!("/proc/{pid}")).expect("/proc"));
                assert!(!left, "{place}/{name}");
            }
        }
    });
}
