//! `--help`, the manual, the README and the completions tell the same: every command, option, field, exit code, variable and step,
//! and none that there is not.
//!
//! What there is is read from the source and asked of the program; no list is kept here.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use oarbank_agent::error::Step;
use oarbank_agent::policy::reader;
use support::{TempDir, is_here};

const AGENT: &str = env!("CARGO_BIN_EXE_oarbank-agent");

fn file(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn help(words: &[&str]) -> String {
    let output = Command::new(AGENT).args(words).arg("--help").output();
    let output = output.expect("the program");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The words of a text that look like one thing or another.
fn words<'t>(text: &'t str, of: impl Fn(&str) -> bool + 't) -> BTreeSet<String> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter))
        .filter(|word| of(word))
        .map(str::to_owned)
        .collect()
}

fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--");
    name.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase()))
}

fn is_command(word: &str) -> bool {
    word.strip_prefix("sandbox-")
        .is_some_and(|name| !name.is_empty())
}

fn commands() -> BTreeSet<String> {
    let help = help(&[]);
    let found = words(
        help.split_once("Commands:").expect("commands").1,
        is_command,
    );
    assert!(found.len() > 4, "{found:?}");
    found
}

/// The options of a command, without --help and --version, which all have.
fn options(command: &str) -> BTreeSet<String> {
    let help = help(&[command]);
    help.lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| is_option(word))
        .map(str::to_owned)
        .collect()
}

/// The options that the source compares words with.
#[test]
fn every_option_of_the_source_is_in_the_help_of_a_command() {
    let source = file("src/cli/mod.rs");
    let read: BTreeSet<String> = source
        .split("b\"")
        .skip(1)
        .filter_map(|part| part.split('"').next())
        .filter(|word| is_option(word) || is_command(word))
        .map(str::to_owned)
        .collect();
    let commands = commands();
    let told: BTreeSet<String> = commands
        .iter()
        .flat_map(|command| options(command))
        .chain(commands.clone())
        .chain(["--help", "--version"].map(str::to_owned))
        .collect();
    assert_eq!(read, told);
}

/// `.Ss` or `.Sh` and its name, to the next one.
fn section<'t>(manual: &'t str, heading: &str) -> &'t str {
    let start = manual
        .find(&format!("{heading}\n"))
        .unwrap_or_else(|| panic!("the manual has no {heading}"));
    let text = &manual[start + heading.len()..];
    let end = ["\n.Ss ", "\n.Sh "]
        .into_iter()
        .filter_map(|next| text.find(next));
    &text[..end.min().unwrap_or(text.len())]
}

/// The first words of the items of a list: what `of` makes of the rest of each `.It` line.
fn items(section: &str, of: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let lines = section.lines().filter_map(|line| line.strip_prefix(".It "));
    lines.filter_map(of).collect()
}

fn flag(item: &str) -> Option<String> {
    let name = item.strip_prefix("Fl -")?.split(' ').next()?;
    Some(format!("--{name}"))
}

fn modifier(item: &str) -> Option<String> {
    item.strip_prefix("Cm ")?
        .split(' ')
        .next()
        .map(str::to_owned)
}

#[test]
fn commands_and_options_are_in_the_manual_and_the_readme() {
    let manual = file("dist/man/oarbank-agent.8");
    let readme = file("README.md");
    let synopsis = section(&manual, ".Sh SYNOPSIS");
    let in_readme = words(&readme, is_command);
    let in_manual = words(&manual, is_command);
    assert_eq!(in_manual, commands());
    assert!(commands().is_subset(&in_readme), "{in_readme:?}");
    for command in commands() {
        let options = options(&command);
        let described = items(section(&manual, &format!(".Ss {command}")), flag);
        assert_eq!(described, options, "{command} in the manual");
        let usage = help(&[&command]);
        let usage = words(usage.split_once("\n\n").expect("usage").0, is_option);
        for option in &options {
            let short = format!("-{}", option.trim_start_matches('-'));
            assert!(
                words(synopsis, |word| word == short).len() == 1,
                "{option} in SYNOPSIS"
            );
            assert!(
                words(&readme, is_option).contains(option),
                "{option} in the README"
            );
            // A long list is "[OPTIONS]".
            let own = usage.contains(option) || help(&[&command]).contains("[OPTIONS]");
            assert!(own, "{option} in the usage of {command}");
        }
    }
    for option in ["-help", "-version"] {
        assert!(manual.contains(&format!("Fl {option}")), "{option}");
    }
}

#[test]
fn fields_are_in_the_help_the_manual_the_readme_and_the_schema() {
    let fields: BTreeSet<String> = reader::names().map(str::to_owned).collect();
    assert_eq!(fields.len(), 12);
    let manual = file("dist/man/oarbank-policy.5");
    assert_eq!(items(section(&manual, ".Sh DESCRIPTION"), modifier), fields);
    let readme = file("README.md");
    let rows = readme
        .split_once("| field | type |")
        .expect("the table of fields")
        .1
        .split_once("\n\n")
        .expect("its end")
        .0;
    let rows: BTreeSet<String> = rows
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(rows, fields);
    for command in ["sandbox-exec", "sandbox-run"] {
        let help = help(&[command]);
        let policy = help.split_once("\nPolicy").expect("the policy").1;
        let policy = policy.split_once("\n\n").expect("its end").0;
        let told: BTreeSet<String> = policy
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        assert_eq!(told, fields, "{command} --help");
    }
    let schema = file("dist/policy.schema.json");
    let properties: BTreeSet<String> = schema
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.split_once("\": {"))
        .map(|(name, _)| name.to_owned())
        .filter(|name| !["path", "paths", "optional_path"].contains(&name.as_str()))
        .collect();
    assert_eq!(properties, fields);
}

#[test]
fn exit_codes_variables_and_steps_are_in_the_manual_and_the_readme() {
    let manual = file("dist/man/oarbank-agent.8");
    let readme = file("README.md");
    let told = items(section(&manual, ".Sh EXIT STATUS"), |item| {
        Some(item.to_owned())
    });
    let mut helped = BTreeSet::new();
    for command in ["sandbox-exec", "sandbox-run"] {
        let help = help(&[command]);
        let codes = help
            .split_once("\nExit status: that of ARGV, or\n")
            .expect("codes")
            .1;
        let codes = codes
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        helped.extend(codes.map(str::to_owned));
    }
    assert!(helped.len() > 4, "{helped:?}");
    assert_eq!(told, helped);
    for code in &helped {
        assert!(
            readme.contains(&format!("\n| {code} |")),
            "exit code {code} in the README"
        );
    }
    for command in commands() {
        assert!(help(&[&command]).contains("\nExit status"), "{command}");
    }
    let variables = help(&["sandbox-exec"]);
    assert!(variables.contains("OARBANK_CONFINED=N") && variables.contains("OARBANK_...=fd:N"));
    assert!(readme.contains("`OARBANK_CONFINED=N`") && readme.contains("`OARBANK_...=fd:N`"));
    let described = section(&manual, ".Sh ENVIRONMENT");
    assert!(described.contains(".It Ev OARBANK_CONFINED Ns = Ns Ar N\n"));
    assert!(described.contains(".It Ev OARBANK_ Ns Ar ... Ns =fd: Ns Ar N\n"));
    let steps: BTreeSet<String> = Step::ALL
        .iter()
        .map(|step| step.name().to_owned())
        .collect();
    assert_eq!(items(section(&manual, ".Sh DIAGNOSTICS"), modifier), steps);
}

#[test]
fn the_manual_has_no_fault_that_mandoc_knows() {
    if !is_here("/usr/bin/mandoc") {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/man/");
    let lint = |page: &str| -> Vec<String> {
        let output = Command::new("mandoc")
            .args(["-T", "lint", "-W", "style", page])
            .output();
        let text = String::from_utf8(output.expect("mandoc").stdout).expect("text");
        // Whether this machine has the other pages is not the pages' matter.
        let faults = text
            .lines()
            .filter(|line| !line.contains("referenced manual not found"));
        faults.map(str::to_owned).collect()
    };
    for page in ["oarbank-agent.8", "oarbank-policy.5"] {
        assert_eq!(lint(&format!("{folder}{page}")), [""; 0]);
    }
    // The control.
    let directory = TempDir::new();
    let broken = directory.path().join("broken.8");
    let text = file("dist/man/oarbank-agent.8").replacen(".El\n", "", 1);
    fs::write(&broken, text).expect("a page");
    assert!(!lint(broken.to_str().expect("text")).is_empty());
}

/// What a shell is told to run, line by line.
fn shell(argv: &[&str], script: &str) -> Vec<String> {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .arg(script)
        .env("AGENT", AGENT)
        .env("HOME", "/nonexistent")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{script}: {err}");
    let out = String::from_utf8(output.stdout).expect("text");
    out.lines().map(str::to_owned).collect()
}

/// Commands, each command's options and what may stand elsewhere, as a shell offers them: `offered` gets the words before the
/// cursor, the last one unfinished.
fn completes(offered: impl Fn(&[&str]) -> Vec<String>) {
    let set = |words: &[&str]| -> BTreeSet<String> { offered(words).into_iter().collect() };
    let global = || ["--help", "--version"].map(str::to_owned).into_iter();
    let of = |expected: BTreeSet<String>| expected.into_iter().chain(global()).collect();
    let first: BTreeSet<String> = of(commands());
    assert_eq!(
        set(&[""])
            .union(&set(&["-"]))
            .cloned()
            .collect::<BTreeSet<_>>(),
        first
    );
    for command in commands() {
        let expected: BTreeSet<String> = of(options(&command));
        assert_eq!(set(&[&command, "-"]), expected, "{command}");
    }
    assert_eq!(
        set(&["sandbox-ex"]),
        BTreeSet::from(["sandbox-exec".to_owned()])
    );
    // A file, before and after the `--`.
    for words in [
        &["sandbox-exec", "./READ"][..],
        &["sandbox-run", "--timeout", "5", "./READ"],
        &["sandbox-exec", "p.json", "--", "./READ"],
    ] {
        assert!(
            set(words).contains("./README.md"),
            "{words:?}: {:?}",
            set(words)
        );
    }
}

#[test]
fn bash_completes_what_the_help_says() {
    if !is_here("/bin/bash") {
        return;
    }
    let offered = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            ". dist/completions/oarbank-agent.bash; COMP_WORDS=(\"$AGENT\" {}); COMP_CWORD={}; \
             _oarbank_agent \"$AGENT\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words.len()
        );
        shell(&["/bin/bash", "--norc", "-uc"], &script)
    };
    completes(offered);
    assert!(offered(&["sandbox-run", "--cgroup", ""]).contains(&"none".to_owned()));
    assert_eq!(offered(&["sandbox-run", "--timeout", ""]), [""]);
    assert!(offered(&["sandbox-verify", ""]).contains(&std::process::id().to_string()));
}

#[test]
fn fish_completes_what_the_help_says() {
    if !is_here("/usr/bin/fish") {
        return;
    }
    let directory = TempDir::new();
    let link = directory.path().join("oarbank-agent");
    std::os::unix::fs::symlink(AGENT, &link).expect("a link");
    completes(|words| {
        let script = format!(
            "set -gx HOME {0}; source dist/completions/oarbank-agent.fish; complete -C '{0}/oarbank-agent {1}'",
            directory.path().display(),
            words.join(" ")
        );
        let lines = shell(&["/usr/bin/fish", "--no-config", "-c"], &script);
        let first = |line: String| line.split('\t').next().unwrap_or_default().to_owned();
        lines.into_iter().map(first).collect()
    });
}

#[test]
fn zsh_completes_what_the_help_says() {
    if !is_here("/usr/bin/zsh") {
        return;
    }
    // The functions of zsh that offer things, as far as they are used, in a few words.
    let stubs = "_describe() { local name=${@[-1]}; print -rl -- ${${(P)name}%%:*} }; \
                 _files() { print -rl -- $words[CURRENT]*(N) }; _message() { }; _pids() { }; _alternative() { print -r none }";
    completes(|words| {
        let script = format!(
            "{stubs}; f() {{ local -a words=($AGENT {}); local CURRENT=$#words; {}\n}}; f",
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(" "),
            file("dist/completions/_oarbank-agent")
        );
        let lines = shell(&["/usr/bin/zsh", "-fc"], &script);
        let start = words.last().copied().unwrap_or_default();
        lines
            .into_iter()
            .filter(|line| line.starts_with(start))
            .collect()
    });
}

#[test]
fn the_readme_is_short_and_its_lines_too() {
    let readme = file("README.md");
    let lines: Vec<&str> = readme.lines().collect();
    assert!(lines.len() < 300, "{} lines", lines.len());
    for (number, line) in (1..).zip(lines) {
        // A row of a table cannot be broken.
        assert!(
            line.starts_with('|') || line.chars().count() <= 140,
            "line {number}"
        );
    }
    // Every file that it names in code is there.
    let mut named = 0;
    for word in readme
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(str::split_whitespace)
    {
        let inside = ["src/", "tests/", "dist/", "ld/", ".ci/"]
            .iter()
            .any(|top| word.starts_with(top));
        if inside && !word.contains(['*', '|', '\\', '$']) {
            let path = format!("{}/{word}", env!("CARGO_MANIFEST_DIR"));
            assert!(fs::exists(&path).expect("a path"), "{word}");
            named += 1;
        }
    }
    assert!(named > 10, "{named}");
}
