//! What a person reads who has mistyped something: each slip is answered with what was meant, or where to look.

mod support;

use support::{Policy, as_each};

#[test]
fn a_slip_on_the_command_line_is_answered_with_what_was_meant() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        let policy = policy.as_str();
        for (words, part) in [
            (&[][..], "no command; see oarbank-agent --help"),
            (&["sandbox-exce"], "did you mean sandbox-exec?"),
            (&["exec", policy], "did you mean sandbox-exec?"),
            (&["Sandbox-Run"], "did you mean sandbox-run?"),
            (&["help"], "did you mean --help?"),
            (&["-h"], "did you mean --help?"),
            (&["-version"], "did you mean --version?"),
            (&["sandbox-exec", "-h"], "did you mean --help?"),
            (
                &["sandbox-exec", "--timeout=1", policy],
                "of this command, but of sandbox-run; see oarbank-agent sandbox-run --help",
            ),
            (
                &["sandbox-run", "--timout", "1", policy],
                "did you mean --timeout?",
            ),
            (
                &["sandbox-run", "--memory=1G", policy],
                "did you mean --memory-max?",
            ),
            (
                &["sandbox-run", "--pid-max", "5"],
                "did you mean --pids-max?",
            ),
            (&["sandbox-check", "--jason"], "did you mean --json?"),
            (&["sandbox-report", "--txt"], "did you mean --text?"),
            (&["sandbox-audit", "--bfp"], "did you mean --bpf?"),
            (
                &["sandbox-audit", "--frobnicate"],
                "no such option; see oarbank-agent sandbox-audit --help",
            ),
            (&["frobnicate"], "no such command; see oarbank-agent --help"),
            (&["sandbox-exec"], "POLICY.json"),
            (&["sandbox-exec", policy], "POLICY.json -- ARGV"),
            (&["sandbox-exec", policy, "/bin/sh"], "POLICY.json -- ARGV"),
            (&["sandbox-exec", "--", "/bin/sh"], "POLICY.json -- ARGV"),
            (
                &["sandbox-exec", policy, "--", "sh"],
                "not looked up in PATH",
            ),
            (
                &["sandbox-run", policy, "--timeout", "5", "--", "/bin/sh"],
                "options stand before the policy",
            ),
            (&["sandbox-run", "--memory-max", "1GB"], "K, M, G or T"),
        ] {
            let outcome = scene.launcher(words).run();
            outcome.refused(64, "usage", &[part]);
        }
    });
}

#[test]
fn a_slip_in_a_policy_is_answered_with_what_it_should_be() {
    as_each(|scene| {
        for (text, part) in [
            ("{'ro': []}", "line 1 column 2: JSON has double quotes"),
            (
                "{\n  \"ro\": [], // data\n}",
                "line 2 column 13: JSON has no comments",
            ),
            ("# data\n{}", "JSON has no comments"),
            (
                "{\"ro\": [\"/usr\",]}",
                "line 1 column 16: the last one has a comma",
            ),
            (
                "{\"gpu\": true,\n}",
                "line 2 column 1: the last one has a comma",
            ),
            ("{\"gpu\": yes}", "expected a value"),
            ("{\"gpu\": True}", "expected a value"),
            ("{gpu: true}", "expected a name in double quotes"),
            ("{\"ro\": [\"/usr]}", "its closing quote is missing"),
            (
                "{\"ro\": [\"C:\\dir\"]}",
                "a backslash itself is written twice",
            ),
            (
                "{\"ro\": \"/usr\"}",
                "ro: must be a list of strings, as [\"/a\", \"/b\"]",
            ),
            (
                "{\"rw\": [\"~/data\"]}",
                "rw[0] \"~/data\": the path must be absolute",
            ),
            (
                "{\"net\": \"all\"}",
                "must be \"none\" or \"egress-allowlist\"",
            ),
            (
                "{\"net\": \"egress-any\"}",
                "use \"egress-allowlist\" with a proxy",
            ),
            ("{\"net\": \"egress-allowlist\"}", "proxy_port: missing"),
            (
                "{\"proxy_port\": \"3128\"}",
                "proxy_port: must be an integer",
            ),
        ] {
            let file = scene.policy_file(text);
            let run = scene.launcher(&["sandbox-exec", &file, "--", "/bin/true"]);
            run.run().refused(70, "policy", &[part]);
        }
        let missing = scene.policy_file(Policy::new().ro("/urs/share").json());
        let run = scene.launcher(&["sandbox-exec", &missing, "--", "/bin/true"]);
        run.run().refused(
            70,
            "landlock",
            &["ro[0] \"/urs/share\": ENOENT (no such file"],
        );
    });
}

#[test]
fn a_program_that_cant_be_executed_is_told_with_where_to_look() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        let exec = |program: &str| {
            scene
                .launcher(&["sandbox-exec", &policy, "--", program])
                .run()
        };
        let outside = scene.script("outside", "#!/bin/sh\n");
        let look = "see sandbox-check POLICY.json -- PROGRAM";
        exec(&outside).refused(71, "exec", &[&outside, "EACCES (", "not granted", look]);
        exec("/bin/shh").refused(71, "exec", &["\"/bin/shh\": ENOENT (", look]);
        // What it says to look at tells which part is missing.
        let script = scene.script("script", "#!/bin/shh\n");
        let granted = scene.policy_file(Policy::new().exe(&script).json());
        let words = ["sandbox-check", &granted, "--", &script];
        let outcome = scene.launcher(&words).run();
        let text = String::from_utf8_lossy(&outcome.out);
        assert!(text.contains("interpreter \"/bin/shh\": ENOENT"), "{text}");
    });
}

/// A launch skips what it does not know; a check tells it, and what was probably meant.
#[test]
fn a_field_that_looks_like_another_is_pointed_out_by_a_check() {
    as_each(|scene| {
        let work = scene.dir("work");
        let text = format!(
            "{{\"exec_wr\": true, \"RW\": [{work:?}], \"prox\\u0079\": 1, \"added_later\": {{\"rw\": 1}}, \"kind\": \"\"}}"
        );
        let file = scene.policy_file(&text);
        let outcome = scene.launcher(&["sandbox-check", &file]).run();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let out = String::from_utf8_lossy(&outcome.out);
        let skipped: Vec<&str> = out
            .lines()
            .skip_while(|line| *line != "skipped:")
            .take_while(|line| !line.starts_with("landlock:"))
            .collect();
        assert_eq!(
            skipped,
            [
                "skipped:",
                "  \"exec_wr\": no such field, did you mean exec_rw?",
                "  \"RW\": no such field, did you mean rw?",
                "  \"proxy\": no such field, did you mean proxy_port?",
                "  \"added_later\": no such field in this version",
            ]
        );
        let json = scene.launcher(&["sandbox-check", "--json", &file]).run();
        let json = String::from_utf8_lossy(&json.out).into_owned();
        let expected = "\"skipped\":[{\"name\":\"exec_wr\",\"near\":\"exec_rw\"}";
        assert!(json.contains(expected), "{json}");
        // Also where the slip is what makes the policy fail.
        let file = scene.policy_file("{\"proxyport\": 3128, \"net\": \"egress-allowlist\"}");
        let outcome = scene.launcher(&["sandbox-check", &file]).run();
        assert_eq!(outcome.code, Some(70), "{outcome:?}");
        let out = String::from_utf8_lossy(&outcome.out);
        assert!(
            out.contains("\"proxyport\": no such field, did you mean proxy_port?"),
            "{out}"
        );
        // A launch says nothing, and skips it.
        let file = scene.policy_file("{\"exec_wr\": 1}");
        let outcome = scene
            .launcher(&["sandbox-exec", &file, "--", "/bin/true"])
            .run();
        assert_eq!((outcome.code, &outcome.err[..]), (Some(0), &b""[..]));
        // The control: a policy of known fields.
        let file = scene.policy_file("{\"exec_rw\": true}");
        let outcome = scene.launcher(&["sandbox-check", &file]).run();
        let out = String::from_utf8_lossy(&outcome.out);
        assert!(out.contains("skipped:\n  none\n"), "{out}");
        // However long a name is, it is cut and told.
        let file = scene.policy_file(format!("{{\"{}\": 1}}", "é\\u001b".repeat(100_000)));
        let outcome = scene.launcher(&["sandbox-check", &file]).run();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.out.len() < 4096 && !outcome.out.contains(&0x1b));
    });
}
