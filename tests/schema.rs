//! The JSON Schema of the policy against the parser: each accepts and refuses the same texts, where a schema can say it.
//!
//! A validator that others wrote (`jsonschema` of Python) reads the schema.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use oarbank_agent::policy::{Listed, reader};
use support::{TempDir, skip};

/// Prints, for each file in the order of its number, whether the schema accepts it. Numbers such as 1.0 are no integers, as in
/// the parser.
const JUDGE: &str = r#"
import decimal, json, os, sys
import jsonschema
with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for number in range(int(sys.argv[3])):
    with open(os.path.join(sys.argv[2], str(number)), "rb") as file:
        policy = json.loads(file.read().decode(), parse_float=decimal.Decimal)
    print(validator.is_valid(policy))
"#;

/// What the parser says: accepted, refused, or refused by a rule that no schema can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Refused,
    OursAlone,
}

/// `None`: it is no JSON, or no object, which is before any schema.
fn parse(text: &[u8]) -> Option<Verdict> {
    oarbank_agent::policy::json::check(text).ok()?;
    let mut room = vec![0; text.len()];
    let mut lists = Box::new(Listed::new());
    let Err(error) = reader::read(text, &mut room, &mut lists) else {
        return Some(Verdict::Accepted);
    };
    let message = error.to_string();
    let ours = [
        "stands in the policy twice",
        "half a surrogate pair",
        "too many paths",
        "ENAMETOOLONG",
    ];
    Some(if ours.iter().any(|rule| message.contains(rule)) {
        Verdict::OursAlone
    } else {
        Verdict::Refused
    })
}

/// What the schema says of each text. `None`: there is no validator here.
fn validate(schema: &Path, texts: &[&[u8]]) -> Option<Vec<bool>> {
    let directory = TempDir::new();
    for (number, text) in texts.iter().enumerate() {
        fs::write(directory.path().join(number.to_string()), text).expect("a file");
    }
    // Debian's, which has the module that its package brings, or whichever is first.
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let import = Command::new(python)
            .args(["-c", "import jsonschema"])
            .output();
        import.is_ok_and(|output| output.status.success())
    });
    let Some(python) = python else {
        skip("no jsonschema for python3 (python3-jsonschema)");
        return None;
    };
    let output = Command::new(python)
        .args(["-c", JUDGE])
        .args([schema, directory.path()])
        .arg(texts.len().to_string())
        .output()
        .expect("python");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(|line| line == "True").collect())
}

fn samples() -> Vec<Vec<u8>> {
    let mut samples: Vec<Vec<u8>> = Vec::new();
    let mut add = |text: String| samples.push(text.into_bytes());
    let values = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "3128",
        "65535",
        "65536",
        "1.0",
        "1e3",
        "0.5",
        "99999999999999999999",
        "\"\"",
        "\"none\"",
        "\"None\"",
        "\"egress-allowlist\"",
        "\"egress-any\"",
        "\"\\u006eone\"",
        "\"/\"",
        "\"/a\"",
        "\"a\"",
        "\"~/a\"",
        "\"/..\"",
        "\"/a/..\"",
        "\"/../a\"",
        "\"/a/../b\"",
        "\"/..a\"",
        "\"/a..\"",
        "\"/...\"",
        "\"/a/..\\n\"",
        "\"//\"",
        "\"/./a\"",
        "\"/a\\nb\"",
        "\"/a\\u0000\"",
        "\"/é😀\"",
        "\"\\ud83d\"",
        "[]",
        "{}",
        "[\"/a\"]",
        "[\"/a\",\"/b\",\"/a\"]",
        "[\"a\"]",
        "[\"/a\",\"\"]",
        "[\"/a/..\"]",
        "[null]",
        "[1]",
        "[[\"/a\"]]",
        "[\"/a\\u0000\"]",
        "{\"0\":\"/a\"}",
    ];
    for field in reader::names().chain(["added_later", "Ro", "exec_wr", "$schema", ""]) {
        for value in values {
            add(format!("{{\"{field}\":{value}}}"));
            add(format!(
                "{{\"net\":\"egress-allowlist\",\"proxy_port\":1,\"x\":[],\"{field}\":{value}}}"
            ));
        }
    }
    for net in ["\"none\"", "\"egress-allowlist\"", "\"egress-any\"", "1"] {
        for port in ["null", "0", "1", "65535", "65536", "\"1\"", "true"] {
            add(format!("{{\"proxy_port\":{port},\"net\":{net}}}"));
        }
        add(format!("{{\"net\":{net}}}"));
    }
    let list = |count: usize| format!("[{}]", vec!["\"/a\""; count].join(","));
    let path = |length: usize| format!("[\"/{}\"]", "a".repeat(length - 1));
    for value in [list(1024), list(1025), path(4095), path(4096)] {
        add(format!("{{\"rd\":{value}}}"));
    }
    add(format!("{{\"ro\":{},\"rw\":{}}}", list(1024), list(1)));
    add(format!("{{\"wo\":[\"/{}\"]}}", "é".repeat(3000)));
    add("{\"ro\":[],\"ro\":[]}".to_owned());
    add("{}".to_owned());
    samples.push(fs::read("tests/sample-policy.json").expect("the sample"));
    for entry in fs::read_dir("tests/fuzz/corpus/policy").expect("the corpus") {
        samples.push(fs::read(entry.expect("an entry").path()).expect("a policy"));
    }
    samples
}

#[test]
fn the_schema_and_the_parser_agree() {
    let samples = samples();
    let judged: Vec<(&[u8], Verdict)> = samples
        .iter()
        .filter_map(|text| Some((&text[..], parse(text)?)))
        .collect();
    for (verdict, least) in [
        (Verdict::Accepted, 200),
        (Verdict::Refused, 400),
        (Verdict::OursAlone, 4),
    ] {
        let count = judged.iter().filter(|(_, found)| *found == verdict).count();
        assert!(count >= least, "{verdict:?}: {count}");
    }
    let texts: Vec<&[u8]> = judged.iter().map(|(text, _)| *text).collect();
    let Some(schema) = validate(Path::new("dist/policy.schema.json"), &texts) else {
        return;
    };
    assert_eq!(schema.len(), texts.len());
    let differ: Vec<String> = judged
        .iter()
        .zip(&schema)
        .filter(|((_, parser), schema)| match parser {
            Verdict::Accepted => !**schema,
            Verdict::Refused => **schema,
            Verdict::OursAlone => false,
        })
        .map(|((text, parser), schema)| {
            let text = String::from_utf8_lossy(&text[..text.len().min(200)]);
            format!("{text}: parser {parser:?}, schema {schema}")
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// The control: a schema that says something else is found out.
#[test]
fn another_schema_is_seen_to_differ() {
    let directory = TempDir::new();
    let other = directory.path().join("schema.json");
    let text = fs::read_to_string("dist/policy.schema.json").expect("the schema");
    for (part, instead, text_of_policy) in [
        ("\"maximum\": 65535,", "", "{\"proxy_port\": 65536}"),
        ("(?![^/]))", "(?!.*))", "{\"exe\": \"/../a\"}"),
        (
            "\"required\": [\"proxy_port\"]",
            "\"required\": []",
            "{\"net\": \"egress-allowlist\"}",
        ),
    ] {
        assert!(text.contains(part), "{part}");
        fs::write(&other, text.replace(part, instead)).expect("a schema");
        assert_eq!(parse(text_of_policy.as_bytes()), Some(Verdict::Refused));
        let Some(found) = validate(&other, &[text_of_policy.as_bytes()]) else {
            return;
        };
        assert_eq!(found, [true], "{part}");
    }
}
