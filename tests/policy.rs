//! The policy on the wire: what is JSON, what is a policy, and what a path may be.

mod support;

use std::fs;

use support::{Outcome, Policy, Scene, Who, as_each};

/// A launch of `/bin/true` with this policy file.
fn launch(scene: &Scene, policy: impl AsRef<[u8]>) -> Outcome {
    let file = scene.policy_file(policy);
    scene
        .launcher(&["sandbox-exec", &file, "--", "/bin/echo", "ran"])
        .run()
}

#[track_caller]
fn accepts(scene: &Scene, policy: impl AsRef<[u8]>) {
    let outcome = launch(scene, &policy);
    assert_eq!(
        outcome.code,
        Some(0),
        "{}: {outcome:?}",
        shown(policy.as_ref())
    );
}

/// Exit code 70, and the step says that the policy is wrong.
#[track_caller]
fn refuses(scene: &Scene, policy: impl AsRef<[u8]>) {
    let outcome = launch(scene, &policy);
    assert_eq!(
        outcome.code,
        Some(70),
        "{}: {outcome:?}",
        shown(policy.as_ref())
    );
    outcome.refused(70, "policy", &[]);
}

/// The same, and the line has these parts.
#[track_caller]
fn refuses_by_name(scene: &Scene, policy: &str, parts: &[&str]) {
    launch(scene, policy).refused(70, "policy", parts);
}

fn shown(policy: &[u8]) -> String {
    String::from_utf8_lossy(&policy[..policy.len().min(200)]).into_owned()
}

/// These tests are about text: one user is enough where nothing depends on the user.
fn as_anyone(test: impl Fn(&Scene)) {
    test(&Scene::new(Who::current()));
}

// The object.

#[test]
fn every_field_may_be_left_out() {
    as_each(|scene| {
        accepts(scene, "{}");
        let (secret, work) = (scene.file("secret", "contents"), scene.dir("work"));
        scene.denied(&scene.policy(), &format!("read {secret}"), "EACCES");
        scene.denied(
            &scene.policy(),
            &format!("create {work}/new then unlink {work}/new"),
            "EACCES EACCES|ENOENT",
        );
        scene.denied(&scene.policy(), "sys socket 2 1 0", "EPERM");
        scene.denied(&scene.policy(), "sys socket 1 1 0", "EPERM");
    });
}

#[test]
fn every_field_may_be_there() {
    as_each(|scene| {
        let dir = scene.dir("dir");
        accepts(
            scene,
            format!(
                r#"{{"module": "m", "ro": ["{dir}"], "rw": ["{dir}"], "rd": ["{dir}"], "wo": ["{dir}"], "net": "egress-allowlist",
                "proxy_port": 3128, "broker_socket": null, "gpu": true, "exec_rw": true, "kind": "service", "exe": "/bin/true"}}"#
            ),
        );
        accepts(
            scene,
            r#"{"proxy_port": null, "broker_socket": null, "exe": null, "ro": [], "rw": [], "rd": [], "wo": []}"#,
        );
    });
}

#[test]
fn unknown_fields_are_skipped_whatever_they_hold() {
    as_anyone(|scene| {
        for value in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-1.5",
            "1e5",
            "1E+5",
            "1.25e-3",
            "0.0",
            "0e0",
            "1e999",
            "123456789012345678901234567890",
            r#""""#,
            r#""text \" \\ \/ \b \f \n \r \t \u00e9 \ud83d\ude00 é 😀""#,
            r#""\u0000""#,
            "[]",
            "{}",
            "[[], {}, [[1]]]",
            r#"{"a": {"b": [1, "x", null, true]}, "ro": ["/nowhere"], "": 0}"#,
            "[1,2,3]",
            "[ ]",
            "{ }",
            "[\n1\t,\r2 ]",
        ] {
            accepts(scene, format!(r#"{{"newer": {value}, "module": "m"}}"#));
            accepts(scene, format!(r#"{{"module": "m", "newer": {value}}}"#));
        }
        // Names with escapes, of any length, and names that only look like known ones.
        accepts(
            scene,
            format!(
                r#"{{"{}": 1, "": 2, "\"\\\u00e9😀": 3, "RO": 4, "ro ": 5, "r\u0000o": 6}}"#,
                "n".repeat(5000)
            ),
        );
    });
}

#[test]
fn white_space_may_stand_between_all_tokens() {
    as_anyone(|scene| {
        accepts(
            scene,
            " \t\r\n{ \t\r\n\"ro\" \t\r\n: \t\r\n[ \t\r\n\"/usr\" \t\r\n, \t\r\n\"/etc\" ] \t\r\n, \"gpu\":false} \t\r\n",
        );
        for space in [
            "\u{b}", "\u{c}", "\u{a0}", "\u{2028}", "\u{85}", "\u{feff}", "\0",
        ] {
            refuses(scene, format!("{{{space}}}"));
            refuses(scene, format!("{{\"x\":{space}1}}"));
        }
    });
}

#[test]
fn only_one_object_is_a_policy() {
    as_anyone(|scene| {
        let array = r#"["m", [], [], [], [], "none", null, null, false, false, "runner", null]"#;
        for policy in [
            "",
            " ",
            "\n",
            array,
            "[]",
            "[{}]",
            "null",
            "true",
            "1",
            r#""{}""#,
            "{}{}",
            "{} {}",
            "{},",
            "{} x",
            "{}x",
            "{}\0",
            "{}1",
            "{}]",
            "{}}",
            "{} //",
            "\u{feff}{}",
            "{",
            "}",
            r#"{"ro""#,
            r#"{"ro":"#,
            r#"{"ro": ["#,
            r#"{"ro": ["/usr""#,
            r#"{"ro": ["/usr"]"#,
            r#"{"module": "m"#,
        ] {
            refuses(scene, policy);
        }
    });
}

#[test]
fn what_is_no_json_is_refused() {
    as_anyone(|scene| {
        for policy in [
            "{,}",
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":1,,"b":2}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a" 1}"#,
            r#"{"a"::1}"#,
            r#"{"a":}"#,
            r#"{"a"}"#,
            "{a:1}",
            "{'a':1}",
            "{1:1}",
            "{null:1}",
            r#"{"a":1 hello}"#,
            r#"{"a":1 hello world !!}"#,
            r#"{"a":1;}"#,
            r#"{"a"=1}"#,
            r#"{/**/"a":1}"#,
            "{//\n}",
            r#"{"a":1}#"#,
            r#"{"ro":[,"/usr"]}"#,
            r#"{"ro":["/usr",]}"#,
            r#"{"ro":["/usr" "/etc"]}"#,
            r#"{"ro":[,]}"#,
            r#"{"ro":["/usr",,"/etc"]}"#,
            r#"{"ro":["/usr"}"#,
            r#"{"a":[,1]}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":[}"#,
            r#"{"a":{]}"#,
            r#"{"a":[1}]"#,
            r#"{"a":{"b":1,}}"#,
            r#"{"a":{"b"}}"#,
            r#"{"a":{b:1}}"#,
        ] {
            refuses(scene, policy);
        }
    });
}

#[test]
fn wrong_literals_and_numbers_are_refused_in_skipped_values_too() {
    as_anyone(|scene| {
        for value in [
            "tru",
            "truee",
            "True",
            "TRUE",
            "nul",
            "nulll",
            "None",
            "NaN",
            "nan",
            "Infinity",
            "-Infinity",
            "undefined",
            "01",
            "-01",
            "00",
            "1.",
            ".5",
            "+1",
            "-",
            "--1",
            "1e",
            "1e+",
            "1.e5",
            "1.5.5",
            "1e5.5",
            "0x10",
            "1_000",
            "1a",
            "0b1",
            "1 000",
            "١",
            "- 1",
            "e5",
            "1..2",
        ] {
            refuses(scene, format!(r#"{{"newer": {value}}}"#));
            refuses(scene, format!(r#"{{"newer": [{value}]}}"#));
            refuses(
                scene,
                format!(r#"{{"newer": {{"x": {value}}}, "gpu": false}}"#),
            );
        }
    });
}

#[test]
fn wrong_strings_are_refused_in_skipped_values_and_names_too() {
    as_anyone(|scene| {
        for text in [
            "\\x41",
            "\\'",
            "\\0",
            "\\u",
            "\\u1",
            "\\u12",
            "\\u123",
            "\\u+0e9",
            "\\u 0e9",
            "\\u-0e9",
            "\\u00g9",
            "\\U000000e9",
            "\\u{e9}",
            "\\",
            "a\nb",
            "a\tb",
            "\u{1}",
            "\0",
            "\u{1f}",
        ] {
            refuses(scene, format!("{{\"newer\": \"{text}\"}}"));
            refuses(scene, format!("{{\"{text}\": 1}}"));
            refuses(scene, format!("{{\"newer\": {{\"{text}\": 1}}}}"));
            refuses(scene, format!("{{\"module\": \"{text}\"}}"));
        }
    });
}

#[test]
fn bytes_that_are_no_utf_8_are_refused_everywhere() {
    as_anyone(|scene| {
        // A lone continuation, a cut sequence, an overlong slash, a surrogate, beyond U+10FFFF, Latin-1.
        for bytes in [
            &b"\x80"[..],
            b"\xc3",
            b"\xc0\xaf",
            b"\xe0\x80\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xe9",
            b"\xff\xfe",
        ] {
            for frame in [
                "{\"newer\": \"@\"}",
                "{\"@\": 1}",
                "{\"ro\": [\"/@\"]}",
                "{\"module\": \"@\"}",
                "{} @",
                "@{}",
            ] {
                let (before, after) = frame.split_once('@').expect("a frame");
                refuses(scene, [before.as_bytes(), bytes, after.as_bytes()].concat());
            }
        }
        // UTF-16, as some editors write it.
        refuses(scene, b"\xff\xfe{\0}\0");
        refuses(scene, b"{\0}\0");
    });
}

#[test]
fn nesting_without_end_is_refused_and_does_not_crash() {
    as_anyone(|scene| {
        accepts(
            scene,
            format!(r#"{{"newer": {}1{}}}"#, "[".repeat(8), "]".repeat(8)),
        );
        for depth in [10_000, 100_000, 500_000] {
            refuses(
                scene,
                format!(r#"{{"newer": {}{}}}"#, "[".repeat(depth), "]".repeat(depth)),
            );
            refuses(scene, format!(r#"{{"newer": {}"#, "[".repeat(depth)));
            refuses(scene, "[".repeat(depth));
            refuses(
                scene,
                format!(r#"{{"ro": {}{}}}"#, "[".repeat(depth), "]".repeat(depth)),
            );
        }
        refuses(
            scene,
            format!(
                r#"{{"newer": {}1{}}}"#,
                r#"{"a":"#.repeat(100_000),
                "}".repeat(100_000)
            ),
        );
        refuses(scene, r#"[{"a":"#.repeat(100_000));
    });
}

#[test]
fn a_field_twice_is_refused() {
    as_anyone(|scene| {
        for (field, value) in [
            ("module", "\"m\""),
            ("ro", "[]"),
            ("rw", "[]"),
            ("rd", "[]"),
            ("wo", "[]"),
            ("net", "\"none\""),
            ("proxy_port", "null"),
            ("broker_socket", "null"),
            ("gpu", "false"),
            ("exec_rw", "false"),
            ("kind", "\"k\""),
            ("exe", "null"),
        ] {
            accepts(scene, format!(r#"{{"{field}": {value}}}"#));
            refuses_by_name(
                scene,
                &format!(r#"{{"{field}": {value}, "{field}": {value}}}"#),
                &[field],
            );
            let escaped = format!("\\u{:04x}{}", u32::from(field.as_bytes()[0]), &field[1..]);
            refuses(
                scene,
                format!(r#"{{"{field}": {value}, "x": 1, "{escaped}": {value}}}"#),
            );
            refuses(
                scene,
                format!(r#"{{"{escaped}": {value}, "{field}": {value}}}"#),
            );
        }
    });
}

#[test]
fn an_escaped_name_is_the_same_name() {
    as_each(|scene| {
        let dir = scene.dir("dir");
        let file = scene.file("dir/file", "contents");
        for name in [r"\u0072o", r"r\u006f", r"\u0072\u006F"] {
            let policy = scene.policy().field(name, &format!("[\"{dir}\"]"));
            scene.works(&policy, &format!("read {file}"));
        }
        let policy = scene.policy().field(r"e\u0078ec_rw", "true").rw(&dir);
        let program = scene.program("dir/program", "/bin/true".as_ref());
        scene.works(&policy, &format!("execute {program}"));
    });
}

// The types of the fields.

#[test]
fn values_of_another_type_are_refused_by_name() {
    as_anyone(|scene| {
        for list in ["ro", "rw", "rd", "wo"] {
            for value in [
                "null",
                "\"/usr\"",
                "{}",
                "1",
                "true",
                "[1]",
                "[null]",
                "[[\"/usr\"]]",
                "[\"/usr\", 1]",
                "[{}]",
                "[true]",
            ] {
                refuses_by_name(scene, &format!(r#"{{"{list}": {value}}}"#), &[list]);
            }
        }
        for field in ["gpu", "exec_rw"] {
            for value in ["null", "\"true\"", "\"\"", "1", "0", "[]", "{}"] {
                refuses_by_name(scene, &format!(r#"{{"{field}": {value}}}"#), &[field]);
            }
        }
        for field in ["module", "kind", "net"] {
            for value in ["null", "true", "1", "[]", "{}", "[\"none\"]"] {
                refuses_by_name(scene, &format!(r#"{{"{field}": {value}}}"#), &[field]);
            }
        }
        for field in ["broker_socket", "exe"] {
            for value in ["false", "1", "[]", "{}", "[\"/bin/true\"]"] {
                refuses_by_name(scene, &format!(r#"{{"{field}": {value}}}"#), &[field]);
            }
        }
    });
}

#[test]
fn labels_may_hold_any_text() {
    as_anyone(|scene| {
        for text in [
            "",
            "é😀",
            r#"\u00e9 \ud83d\ude00 \" \\ \/ \n"#,
            r"\u0000",
            &"long ".repeat(20_000),
        ] {
            accepts(
                scene,
                format!(r#"{{"module": "{text}", "kind": "{text}"}}"#),
            );
        }
    });
}

#[test]
fn the_proxy_port_is_a_port() {
    as_anyone(|scene| {
        let with = |port: &str| format!(r#"{{"net": "egress-allowlist", "proxy_port": {port}}}"#);
        for port in ["1", "80", "65535"] {
            accepts(scene, with(port));
        }
        for port in [
            "0",
            "65536",
            "65616",
            "4294967376",
            "99999999999999999999999",
            "-1",
            "-0",
            "1.0",
            "80.5",
            "8e1",
            "\"80\"",
            "true",
            "[80]",
            "{}",
            "null",
            "080",
            "+80",
            "0x50",
        ] {
            refuses_by_name(scene, &with(port), &[]);
        }
        refuses_by_name(scene, r#"{"net": "egress-allowlist"}"#, &["proxy_port"]);
        refuses_by_name(scene, &with("0"), &["proxy_port"]);
        refuses_by_name(scene, &with("65536"), &["proxy_port"]);
        accepts(scene, r#"{"net": "none", "proxy_port": 3128}"#);
        accepts(scene, r#"{"proxy_port": 3128}"#);
        accepts(scene, r#"{"proxy_port": 3128, "net": "egress-allowlist"}"#);
    });
}

#[test]
fn a_net_that_is_unknown_or_cannot_be_enforced_is_refused() {
    as_anyone(|scene| {
        for net in [
            "",
            "None",
            "NONE",
            "none ",
            "any",
            "egress",
            "egress-allowlist ",
            "egress_allowlist",
            "host",
            "none\\u0000",
        ] {
            refuses_by_name(
                scene,
                &format!(r#"{{"net": "{net}", "proxy_port": 80}}"#),
                &["net"],
            );
        }
        let any = launch(scene, r#"{"net": "egress-any", "proxy_port": 80}"#);
        let step = if any.err.starts_with(b"oarbank-agent: policy: ") {
            "policy"
        } else {
            "landlock"
        };
        any.refused(70, step, &["net", "egress-any"]);
        accepts(scene, r#"{"net": "n\u006fne"}"#);
    });
}

// Paths.

#[test]
fn paths_arrive_with_every_escape() {
    as_each(|scene| {
        let base = scene.dir("base");
        // The name as the file system has it, and ways to write it.
        let names: &[(&str, &[&str])] = &[
            (
                "plain",
                &["plain", r"pl\u0061in", r"\u0070\u006C\u0061\u0069\u006e"],
            ),
            ("é", &["é", r"\u00e9", r"\u00E9"]),
            ("😀", &["😀", r"\ud83d\ude00", r"\uD83D\uDE00"]),
            ("\u{10ffff}", &["\u{10ffff}", r"\udbff\udfff"]),
            ("\u{10000}", &[r"\ud800\udc00"]),
            ("\u{ffff}", &[r"\uffff"]),
            ("quote\"", &[r#"quote\""#, r"quote\u0022"]),
            ("back\\slash", &[r"back\\slash", r"back\u005cslash"]),
            (
                "n\nt\tr\rb\u{8}f\u{c}",
                &[r"n\nt\tr\rb\bf\f", r"n\u000at\u0009r\u000db\u0008f\u000c"],
            ),
            ("\u{7f}\u{1}", &["\u{7f}\\u0001", r"\u007f\u0001"]),
            ("sub/dir", &[r"sub\/dir", r"sub\u002fdir"]),
            ("\u{2028}", &["\u{2028}", r"\u2028"]),
            ("é\u{301}日本語", &[r"\u00e9\u0301\u65e5\u672c\u8a9e"]),
            ("a..b", &["a..b"]),
            ("...", &["..."]),
            (" ", &[" ", r"\u0020"]),
        ];
        for (name, spellings) in names {
            let dir = scene.dir(&format!("base/{name}"));
            for (number, spelling) in spellings.iter().enumerate() {
                let file = format!("{dir}/made-{number}");
                let list = format!(r#"["{base}/{spelling}"]"#);
                let policy = scene.policy_file(scene.policy().field("rw", &list).json());
                // Not by words: the path may hold spaces.
                let argv = [
                    "sandbox-exec",
                    &policy,
                    "--",
                    scene.probe(),
                    "create",
                    &file,
                ];
                let outcome = scene.launcher(&argv).run();
                assert_eq!(outcome.success(), "ok 1\n", "{spelling}");
            }
        }
    });
}

#[test]
fn a_path_that_is_none_is_refused_with_its_place() {
    as_anyone(|scene| {
        let long = format!("/{}", "x/".repeat(2048));
        let wrong = [
            "",
            "usr",
            "./usr",
            "../usr",
            "~",
            "~/x",
            "$HOME",
            " /usr",
            "C:/",
            "/..",
            "/usr/..",
            "/usr/../etc",
            "/../usr",
            "/usr/./../etc",
            r"/usr/\u002e\u002e/etc",
            r"/usr\/..",
            r"/usr\u0000",
            r"\u0000",
            r"/\u0000/usr",
            r"/usr/\ud800",
            r"/usr/\udc00",
            r"/usr/\ud83d\u0041",
            r"/usr/\ud83dx",
            r"/usr/\ude00\ud83d",
            r"/usr/\ud83d\ud83d\ude00",
            &long,
        ];
        for path in wrong {
            for list in ["ro", "rw", "rd", "wo"] {
                refuses_by_name(scene, &format!(r#"{{"{list}": ["/usr", "{path}"]}}"#), &[]);
            }
            for field in ["exe", "broker_socket"] {
                refuses_by_name(scene, &format!(r#"{{"{field}": "{path}"}}"#), &[]);
            }
        }
        for path in ["", "usr", "/usr/../etc", r"/usr\u0000"] {
            refuses_by_name(
                scene,
                &format!(r#"{{"wo": ["/tmp", "/tmp", "{path}"]}}"#),
                &["wo[2]"],
            );
            refuses_by_name(scene, &format!(r#"{{"exe": "{path}"}}"#), &["exe"]);
        }
    });
}

#[test]
fn dots_and_doubled_slashes_are_harmless() {
    as_each(|scene| {
        let dir = scene.dir("dir");
        let file = scene.file("dir/file", "contents");
        for path in [
            format!("{dir}/."),
            format!("{dir}//"),
            format!("//{dir}/"),
            format!("/.//./{dir}/./"),
            dir.replace('/', "//"),
        ] {
            scene.works(&scene.policy().ro(&path), &format!("read {file}"));
            scene.works(&scene.policy().rw(&path), &format!("write {file}"));
        }
    });
}

#[test]
fn a_path_may_be_as_long_as_the_kernel_takes() {
    as_each(|scene| {
        let dir = scene.dir("dir");
        let file = scene.file("dir/file", "contents");
        let padded = |length: usize| format!("{}{dir}", "/".repeat(length - dir.len()));
        scene.works(&scene.policy().ro(&padded(4095)), &format!("read {file}"));
        refuses_by_name(scene, &Policy::new().ro(&padded(4096)).json(), &["ro[0]"]);
        refuses_by_name(scene, &Policy::new().exe(&padded(4096)).json(), &["exe"]);
        refuses_by_name(
            scene,
            &Policy::new().ro(&padded(100_000)).json(),
            &["ro[0]"],
        );
        // Written with escapes it is six times as long in the file.
        let escaped: String = padded(4095)
            .bytes()
            .map(|byte| format!("\\u{:04x}", u32::from(byte)))
            .collect();
        scene.works(
            &scene.policy().field("ro", &format!(r#"["{escaped}"]"#)),
            &format!("read {file}"),
        );
    });
}

#[test]
fn a_policy_may_have_1024_paths() {
    as_each(|scene| {
        let dir = scene.dir("dir");
        let paths = |count: usize| {
            let one: Vec<String> = (0..count)
                .map(|number| format!("\"{dir}/{}\"", if number % 2 == 0 { "." } else { "" }))
                .collect();
            format!("[{}]", one.join(","))
        };
        let of = |ro: usize, rw: usize, rd: usize, wo: usize| {
            format!(
                r#"{{"ro": {}, "rw": {}, "rd": {}, "wo": {}}}"#,
                paths(ro),
                paths(rw),
                paths(rd),
                paths(wo)
            )
        };
        accepts(scene, of(1024, 0, 0, 0));
        accepts(scene, of(256, 256, 256, 256));
        refuses(scene, of(1025, 0, 0, 0));
        refuses(scene, of(0, 1025, 0, 0));
        refuses(scene, of(256, 256, 256, 257));
        refuses(scene, of(20_000, 0, 0, 0));
    });
}

#[test]
fn hundreds_of_different_paths_all_count() {
    as_each(|scene| {
        let mut policy = scene.policy();
        let mut steps = Vec::new();
        for number in 0..300 {
            policy = policy.rw(&scene.dir(&format!("d{number}")));
            steps.push(format!("create {}/new", scene.path(&format!("d{number}"))));
        }
        let lines = scene.inside(&policy, &steps.join(" then "));
        assert_eq!(lines, vec!["ok 1"; 300]);
    });
}

#[test]
fn a_policy_may_be_one_mebibyte_of_anything() {
    as_anyone(|scene| {
        let filled = |length: usize| {
            let mut text = String::from(r#"{"newer": ""#);
            text.push_str(&"é".repeat((length - text.len() - 2) / 2));
            text.push_str(&"x".repeat(length - text.len() - 2));
            text + "\"}"
        };
        assert_eq!(filled(1 << 20).len(), 1 << 20);
        accepts(scene, filled(1 << 20));
        refuses(scene, filled((1 << 20) + 1));
        // What counts stands at the end.
        let late = |value: &str| {
            format!(
                r#"{{"newer": "{}", "gpu": {value}}}"#,
                "x".repeat(1_000_000)
            )
        };
        accepts(scene, late("false"));
        refuses_by_name(scene, &late("1"), &["gpu"]);
    });
}

// The SDK's own writer.

#[test]
fn a_policy_written_by_pythons_json_works() {
    if !support::is_here("/usr/bin/python3") {
        return;
    }
    as_each(|scene| {
        let (data, inbox) = (scene.dir("données 😀"), scene.dir("entrée"));
        let program = r#"
import dataclasses, json, sys
from typing import Optional

@dataclasses.dataclass
class Policy:
    module: str = ""
    ro: list = dataclasses.field(default_factory=list)
    rw: list = dataclasses.field(default_factory=list)
    rd: list = dataclasses.field(default_factory=list)
    wo: list = dataclasses.field(default_factory=list)
    net: str = "none"
    proxy_port: Optional[int] = None
    broker_socket: Optional[str] = None
    gpu: bool = False
    exec_rw: bool = False
    kind: str = "runner"
    exe: Optional[str] = None
    added_later: dict = dataclasses.field(default_factory=lambda: {"à": [1.5, None, True, "\0\u2028"]})

out, probe, rw, rd, ascii, indent = sys.argv[1:]
policy = Policy(module="modèle", rw=[rw], rd=[rd], exe=probe, net="egress-allowlist", proxy_port=3128)
with open(out, "w") as file:
    json.dump(dataclasses.asdict(policy), file, ensure_ascii=ascii == "1", indent=int(indent) or None)
"#;
        scene.file("données 😀/file", "contents");
        scene.file("entrée/file", "contents");
        for (ascii, indent) in [("1", "0"), ("0", "0"), ("1", "4")] {
            let out = scene.policy_file("");
            let argv = [
                "/usr/bin/python3",
                "-c",
                program,
                &out,
                scene.probe(),
                &data,
                &inbox,
                ascii,
                indent,
            ];
            scene.plain(&argv).run().success();
            assert_eq!(
                fs::read_to_string(&out).unwrap().contains("\\ud83d\\ude00"),
                ascii == "1"
            );
            let launch = |words: &[&str]| {
                let argv = [&["sandbox-exec", &out, "--", scene.probe()], words].concat();
                scene.launcher(&argv).run().success()
            };
            assert_eq!(launch(&["write", &format!("{data}/file")]), "ok 1\n");
            assert_eq!(launch(&["read", &format!("{inbox}/file")]), "ok 8\n");
            assert_eq!(launch(&["write", &format!("{inbox}/file")]), "EACCES\n");
        }
    });
}
