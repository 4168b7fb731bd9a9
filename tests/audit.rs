//! `sandbox-audit`: what it prints is what the filter does, what the kernel gets, and what the release file can call.
//!
//! That the launcher's own calls come in the order of the table is seen by `tests/fail_closed.rs`, which traces every way to
//! launch.

mod disassembly;
mod interpreter;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use disassembly::Code;
use interpreter::{Data, run};
use linux_raw_sys::ptrace::{AUDIT_ARCH_X86_64, sock_filter};
use oarbank_agent::seccomp::Architecture;
use oarbank_agent::seccomp::filter::calls;
use oarbank_agent::surface::{FAILURE, LAUNCH, OTHERS, Row};
use support::{Outcome, Policy, Scene, as_each, check, skip};

fn audit(scene: &Scene, words: &[&str]) -> Outcome {
    scene.launcher(&[&["sandbox-audit"], words].concat()).run()
}

/// A policy of each mode of the filter.
fn policies(scene: &Scene) -> Vec<(String, [bool; 3])> {
    let flags = |index: usize| [4, 2, 1].map(|bit| index & bit != 0);
    let file = |[tcp, broker, exec_rw]: [bool; 3]| {
        let mut policy = Policy::new().exe("/bin/sh");
        if tcp {
            policy = policy.proxy(9);
        }
        if broker {
            policy = policy.broker(&scene.path("broker"));
        }
        if exec_rw {
            policy = policy.exec_rw();
        }
        scene.policy_file(policy.json())
    };
    (0..8).map(flags).map(|mode| (file(mode), mode)).collect()
}

/// The program that `--bpf` prints.
fn program(bytes: &[u8]) -> Vec<sock_filter> {
    let (instructions, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    let instruction = |&[a, b, jt, jf, c, d, e, f]: &[u8; 8]| sock_filter {
        code: u16::from_ne_bytes([a, b]),
        jt,
        jf,
        k: u32::from_ne_bytes([c, d, e, f]),
    };
    instructions.iter().map(instruction).collect()
}

fn bpf(scene: &Scene, policy: &str) -> Vec<u8> {
    let outcome = audit(scene, &["--bpf", policy]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.err.is_empty(), "{outcome:?}");
    outcome.out
}

/// Flattens the object: a line of tabs for each row. Python's reader is the second opinion on what is printed.
const FLATTEN: &str = r#"
import json, sys
it = json.load(sys.stdin)
print("mode", *(json.dumps(it["mode"][name]) for name in ("tcp", "broker", "exec_rw")), sep="\t")
for row in it["launcher"] + [it["failure"]] + it["other_commands"]:
    print("own", row["step"], row["name"], *(call["name"] for call in row["calls"]), sep="\t")
for call in it["syscalls"]:
    print("call", call["number"], call["name"], call["verdict"], call["errno"], call["allows"], call["reason"], sep="\t")
    for kind in ("refused_commands", "refused_types"):
        for number, reason in call.get(kind, []):
            print(kind, number, reason, sep="\t")
for line in it["filter"]:
    print("line", line, sep="\t")
print("count", it["instructions"], it["architecture"], *sorted(it["unknown"].values()), sep="\t")
"#;

fn flattened(scene: &Scene, words: &[&str]) -> BTreeMap<String, Vec<Vec<String>>> {
    let outcome = audit(scene, &[&["--json"], words].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let python = scene.plain(&["python3", "-c", FLATTEN]);
    let mut rows: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for line in python.input(outcome.out).run().success().lines() {
        let mut cells = line.split('\t').map(str::to_owned);
        let kind = cells.next().expect("a kind");
        rows.entry(kind).or_default().push(cells.collect());
    }
    rows
}

/// What the program answers to a number, as the audit says it. One that looks at arguments is tried with some.
fn verdict(program: &[sock_filter], nr: u32) -> (&'static str, &'static str) {
    let tried = [[0; 6], [1; 6], [u64::MAX; 6]].map(|args| {
        let arch = AUDIT_ARCH_X86_64;
        run(program, &Data { nr, arch, args }, |_| {}).expect("total")
    });
    if tried.iter().any(|outcome| !outcome.by_number) {
        return ("by arguments", "None");
    }
    match tried[0].answer {
        0x7fff_0000 => ("allowed", "None"),
        0x0005_0001 => ("refused", "EPERM"),
        0x0005_0026 => ("refused", "ENOSYS"),
        0x0005_000d => ("refused", "EACCES"),
        answer => panic!("{nr}: {answer:#x}"),
    }
}

#[test]
fn every_verdict_is_that_of_the_program() {
    as_each(|scene| {
        for (policy, mode) in policies(scene) {
            let program = program(&bpf(scene, &policy));
            let rows = flattened(scene, &[&policy]);
            let mode = mode.map(|set| set.to_string());
            assert_eq!(rows["mode"], [mode.to_vec()]);
            let mut listed = BTreeMap::new();
            for call in &rows["call"] {
                let [number, name, said, errno, allows, reason] = &call[..] else {
                    panic!("{call:?}");
                };
                let nr = number.parse().expect("a number");
                let expected = verdict(&program, nr);
                assert_eq!((said.as_str(), errno.as_str()), expected, "{mode:?} {name}");
                assert_eq!(allows != "None", said == "by arguments", "{call:?}");
                assert!(!reason.is_empty() && reason != "None", "{call:?}");
                listed.insert(nr, name.as_str());
            }
            let numbers = calls().filter_map(|call| {
                let number = call.number(Architecture::X86_64)?;
                Some((number as u32, call.name))
            });
            assert_eq!(listed, numbers.collect());
            let order: Vec<u32> = rows["call"]
                .iter()
                .map(|call| call[0].parse().expect("a number"))
                .collect();
            assert!(
                order.is_sorted_by(|one, next| one < next),
                "sorted by number"
            );
            // What is not listed, and what the unknown are said to be answered.
            for nr in (0..1024).filter(|nr| !listed.contains_key(nr)) {
                assert_eq!(verdict(&program, nr), ("refused", "ENOSYS"), "{nr}");
            }
            let [count, architecture, answers @ ..] = &rows["count"][0][..] else {
                panic!("{rows:?}");
            };
            assert_eq!(answers, ["ENOSYS", "EPERM", "the process is killed"]);
            assert_eq!(architecture, "x86_64");
            assert_eq!(*count, program.len().to_string());
            assert_eq!(rows["line"].len(), program.len());
        }
    });
}

#[test]
fn the_refused_commands_of_ioctl_are_those_of_the_program() {
    as_each(|scene| {
        let program = program(&audit(scene, &["--bpf"]).out);
        let is_refused = |command: u32| {
            let nr = libc::SYS_ioctl as u32;
            let args = [0, command.into(), 0, 0, 0, 0];
            let arch = AUDIT_ARCH_X86_64;
            let outcome = run(&program, &Data { nr, arch, args }, |_| {}).expect("total");
            outcome.answer != 0x7fff_0000
        };
        let rows = flattened(scene, &[]);
        let text = audit(scene, &[]).success();
        let numbers = |kind| -> BTreeSet<u32> {
            let number = |row: &Vec<String>| row[0].parse().expect("a number");
            rows[kind].iter().map(number).collect()
        };
        let (commands, types) = (numbers("refused_commands"), numbers("refused_types"));
        // Every command without a direction and a size, and every constant that the program compares with.
        let compared = program.iter().map(|instruction| instruction.k);
        for command in (0..=0xffff).chain(compared).chain(commands.iter().copied()) {
            // FICLONE, FICLONERANGE, FIDEDUPERANGE.
            let clone = [0x4004_9409, 0x4020_940d, 0xc018_9436].contains(&command);
            let listed =
                commands.contains(&command) || types.contains(&(command >> 8 & 0xff)) && !clone;
            assert_eq!(is_refused(command), listed, "{command:#x}");
        }
        for command in commands {
            assert!(text.contains(&format!("\n        not {command:#010x}: ")));
        }
        for kind in types {
            assert!(text.contains(&format!("\n        not type {kind:#04x}: ")));
        }
    });
}

#[test]
fn without_a_policy_it_is_that_of_an_empty_one() {
    as_each(|scene| {
        let empty = scene.policy_file("{}");
        for format in ["--text", "--json", "--bpf"] {
            let with = audit(scene, &[format, &empty]);
            let without = audit(scene, &[format]);
            assert_eq!(with.code, Some(0), "{with:?}");
            assert_eq!(
                (with.code, with.out),
                (without.code, without.out),
                "{format}"
            );
        }
        let text = audit(scene, &[]).success();
        assert_eq!(text, audit(scene, &["--text"]).success(), "the default");
    });
}

#[test]
fn the_text_says_what_the_object_says() {
    as_each(|scene| {
        for (policy, _) in policies(scene) {
            let text = audit(scene, &[&policy]).success();
            let rows = flattened(scene, &[&policy]);
            let [tcp, broker, exec_rw] = &rows["mode"][0][..] else {
                panic!("{rows:?}");
            };
            assert!(text.contains(&format!(
                "\nmode: tcp {tcp}, broker {broker}, exec_rw {exec_rw}\n"
            )));
            for call in &rows["call"] {
                let [number, name, verdict, errno, ..] = &call[..] else {
                    panic!("{call:?}");
                };
                let said = if verdict == "refused" { errno } else { verdict };
                let start = format!("  {number:>3} {name:<24}{said}");
                assert_eq!(
                    text.lines().filter(|line| line.starts_with(&start)).count(),
                    1,
                    "{start}"
                );
            }
            let listing: Vec<&str> = rows["line"].iter().map(|line| &*line[0]).collect();
            assert!(text.ends_with(&format!("\n\n{}\n", listing.join("\n"))));
        }
    });
}

#[test]
fn the_object_has_every_row_of_the_table() {
    as_each(|scene| {
        let row = |step: String, row: &Row| {
            let names = row.calls.iter().map(|own| own.name);
            let cells = [step, row.name.to_owned()].into_iter();
            cells.chain(names.map(str::to_owned)).collect::<Vec<_>>()
        };
        let steps = (1..)
            .zip(&LAUNCH)
            .map(|(step, one)| row(step.to_string(), one));
        let others = [&FAILURE].into_iter().chain(OTHERS);
        let others = others.map(|one| row("None".to_owned(), one));
        let expected: Vec<_> = steps.chain(others).collect();
        assert_eq!(flattened(scene, &[])["own"], expected);
    });
}

/// The filter in a line of `strace -v -X raw`: `[BPF_STMT(0|0|0x20, 0x4), BPF_JUMP(0x5|0|0x10, 0xc000003e, 0, 0x8d), ...]`.
fn traced(line: &str) -> Vec<u8> {
    // Its bits one by one: `0x50000|0x1`.
    let number = |text: &str| -> u32 {
        let bits = text
            .split('|')
            .map(|bits| match bits.trim().strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => bits.trim().parse(),
            });
        bits.map(|bits| bits.unwrap_or_else(|error| panic!("{text}: {error}")))
            .sum()
    };
    let mut bytes = Vec::new();
    for instruction in line.split("BPF_").skip(1) {
        let (_, rest) = instruction.split_once('(').expect("its fields");
        let (fields, _) = rest.split_once(')').expect("their end");
        let mut fields = fields.split(',');
        let code = number(fields.next().expect("a code"));
        bytes.extend((code as u16).to_ne_bytes());
        let k = number(fields.next().expect("a number"));
        let mut distance = || fields.next().map_or(0, number) as u8;
        bytes.extend([distance(), distance()]);
        bytes.extend(k.to_ne_bytes());
    }
    bytes
}

#[test]
fn the_program_is_what_the_kernel_gets_from_a_launch() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let _broker = std::os::unix::net::UnixListener::bind(scene.path("broker"));
        let mut different = BTreeSet::new();
        for (policy, mode) in policies(scene) {
            let log = scene.file("log", "");
            let strace = [
                "strace",
                "-v",
                "-X",
                "raw",
                "-e",
                "trace=seccomp",
                "-o",
                &log,
            ];
            let launch = [
                scene.agent(),
                "sandbox-exec",
                &policy,
                "--",
                "/bin/sh",
                "-c",
                "",
            ];
            let outcome = scene.plain(&[&strace[..], &launch].concat()).run();
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            let log = fs::read_to_string(&log).expect("the log");
            let lines: Vec<&str> = log
                .lines()
                .filter(|line| line.starts_with("seccomp("))
                .collect();
            assert_eq!(lines.len(), 1, "{log}");
            let expected = bpf(scene, &policy);
            assert_eq!(traced(lines[0]), expected, "{mode:?}");
            assert!(lines[0].contains(&format!("{{len={},", expected.len() / 8)));
            different.insert(expected);
        }
        assert_eq!(different.len(), 8, "each mode has a filter of its own");
    });
}

/// Loads a filter in the process that it is called in.
fn load(bytes: &[u8]) -> std::io::Result<()> {
    let filter = libc::sock_fprog {
        len: (bytes.len() / 8) as u16,
        filter: bytes.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: two calls that are safe after fork. The kernel copies `len` instructions of eight bytes each and has no
    // wish for their alignment.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        let loaded = libc::syscall(libc::SYS_seccomp, 1, 0, &raw const filter);
        check(loaded as i32)
    }
}

/// What other tools do with it: bubblewrap's `--seccomp`, setpriv's `--seccomp-filter`.
#[test]
fn the_program_can_be_loaded_by_others() {
    const TRY: &str = "
import os, socket
try: socket.socket(socket.AF_INET); print('made')
except OSError as error: print(error.errno)
print(os.read(os.open('/dev/zero', os.O_RDONLY), 2))";
    as_each(|scene| {
        let python = || scene.plain(&["python3", "-c", TRY]);
        assert_eq!(
            python().run().success(),
            "made\nb'\\x00\\x00'\n",
            "the control"
        );
        let bytes = audit(scene, &["--bpf"]).out;
        let program = bytes.clone();
        let loaded = python().with(move || load(&program));
        assert_eq!(loaded.run().success(), "1\nb'\\x00\\x00'\n");
        // One that lacks its end is none to the kernel.
        let cut = bytes[..bytes.len() - 8].to_vec();
        let refused = python().with(move || load(&cut)).command.spawn();
        assert_eq!(
            refused.err().and_then(|error| error.raw_os_error()),
            Some(libc::EINVAL)
        );
    });
}

#[test]
fn a_policy_that_a_launch_refuses_is_refused() {
    as_each(|scene| {
        for (policy, part) in [
            (scene.policy_file("{"), "policy"),
            (scene.policy_file("{} {}"), "policy"),
            (scene.policy_file(r#"{"net":"egress-any"}"#), "egress-any"),
            (scene.policy_file(r#"{"ro":["relative"]}"#), "relative"),
            ("/nowhere".to_owned(), "ENOENT"),
        ] {
            for format in ["--text", "--json", "--bpf"] {
                audit(scene, &[format, &policy]).refused(70, "policy", &[part]);
            }
        }
    });
}

#[test]
fn what_cant_be_written_is_an_error() {
    as_each(|scene| {
        for format in ["--text", "--json", "--bpf"] {
            for (shell, error) in [
                ("exec \"$@\" > /dev/full", "ENOSPC"),
                ("exec 3>&1 >&-; exec \"$@\"", "EBADF"),
            ] {
                let argv = [
                    "/bin/sh",
                    "-c",
                    shell,
                    "sh",
                    scene.agent(),
                    "sandbox-audit",
                    format,
                ];
                scene.plain(&argv).run().refused(70, "output", &[error]);
            }
            // A pipe that has no reader.
            let (_, writer) = std::io::pipe().expect("a pipe");
            let perl = ["perl", "-MPOSIX", "-e", "POSIX::dup2(500, 1); exec @ARGV"];
            let argv = [&perl[..], &[scene.agent(), "sandbox-audit", format]].concat();
            let outcome = scene.plain(&argv).fd(500, writer).run();
            outcome.refused(70, "output", &["EPIPE"]);
        }
        // What fits before the disk is full is no whole object.
        let cut = "ulimit -f 4; \"$@\" > \"$0\"";
        let file = scene.file("cut", "");
        let argv = [
            "/bin/sh",
            "-c",
            cut,
            &file,
            scene.agent(),
            "sandbox-audit",
            "--json",
        ];
        let outcome = scene.plain(&argv).run();
        assert_eq!(outcome.code, Some(70), "{outcome:?}");
        let written = fs::read(&file).expect("own file");
        assert!(!written.is_empty());
        let python = scene.plain(&["python3", "-c", FLATTEN]);
        assert_ne!(
            python.input(written).run().code,
            Some(0),
            "it can be read as JSON"
        );
    });
}

#[test]
fn wrong_usage_exits_64() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        for words in [
            &["--json", "--text"][..],
            &["--bpf", "--json"],
            &["--text", "--text"],
            &["--text", "--bpf", &policy],
            &["--bogus"],
            &["--json=yes"],
            &["--"],
            &[&policy, "--json"],
            &[&policy, &policy],
            &["--help", &policy],
        ] {
            audit(scene, words).refused(64, "usage", &[]);
        }
        let help = audit(scene, &["--help"]).success();
        assert!(help.starts_with("Usage: oarbank-agent sandbox-audit "));
    });
}

/// The release file, built if it is not there.
fn release_file() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a folder");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--offline",
            "--bin",
            "oarbank-agent",
        ])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(target)
        .output()
        .expect("cargo runs");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    target.join("release/oarbank-agent")
}

#[test]
fn the_release_file_makes_the_calls_of_the_table_and_no_other() {
    let Some(code) = Code::of(&release_file()) else {
        skip("no objdump");
        return;
    };
    let (numbers, count) = code.numbers().unwrap_or_else(|fault| panic!("{fault}"));
    assert!(count > 50, "{count} instructions");
    let names: BTreeMap<&str, usize> = calls()
        .filter_map(|call| Some((call.name, call.number(Architecture::X86_64)?)))
        .collect();
    let rows = LAUNCH.iter().chain([&FAILURE]).chain(OTHERS);
    let table: BTreeSet<u64> = rows
        .flat_map(|row| row.calls)
        .map(|own| names[own.name] as u64)
        .collect();
    let name = |number: &u64| {
        let found = names.iter().find(|(_, known)| **known as u64 == *number);
        found.map_or(number.to_string(), |(name, _)| (*name).to_owned())
    };
    let only = |one: &BTreeSet<u64>, other| one.difference(other).map(name).collect::<Vec<_>>();
    let (unlisted, never) = (only(&numbers, &table), only(&table, &numbers));
    assert!(
        unlisted.is_empty() && never.is_empty(),
        "made and not listed in src/surface.rs: {unlisted:?}; listed and never made: {never:?}"
    );
}

#[test]
fn the_steps_are_numbered_as_in_the_launch() {
    let launch = concat!(env!("CARGO_MANIFEST_DIR"), "/src/launch.rs");
    let launch = fs::read_to_string(launch).expect("a source file");
    let has = |step: usize| launch.contains(&format!("// {step}. "));
    assert!((1..=LAUNCH.len()).all(has) && !has(LAUNCH.len() + 1));
}

#[test]
fn a_call_of_another_command_is_none_of_a_launch() {
    let launch: BTreeSet<&str> = LAUNCH
        .iter()
        .chain([&FAILURE])
        .flat_map(|row| row.calls)
        .map(|own| own.name)
        .collect();
    for row in OTHERS {
        let names = || row.calls.iter().map(|own| own.name);
        assert!(names().is_sorted_by(|one, next| one < next), "{}", row.name);
        for name in names() {
            assert!(!launch.contains(name), "{name}");
        }
    }
}

/// Code as objdump prints it, an instruction a line, from address 0x10 on.
fn numbers(lines: &[&str], data: &[disassembly::Data]) -> Result<Vec<u64>, String> {
    let lines = (0x10..)
        .zip(lines)
        .map(|(address, line)| format!("  {address:x}:\t{line}\n"));
    let text: String = lines.collect();
    let (numbers, _) = Code::parse(&text, data).numbers()?;
    Ok(numbers.into_iter().collect())
}

#[test]
fn the_disassembly_is_read_rightly() {
    let made = |lines: &[&str]| numbers(lines, &[]);
    assert_eq!(
        made(&[
            "mov    $0x101,%eax",
            "lea    0x1(%rip),%rdi        # 0x99",
            "syscall"
        ]),
        Ok(vec![257])
    );
    assert_eq!(
        made(&["push   $0x3", "pop    %rax", "mov    %rbx,%rdi", "syscall"]),
        Ok(vec![3])
    );
    assert_eq!(made(&["xor    %eax,%eax", "syscall", "ret"]), Ok(vec![0]));
    // Kept in another register, over a call too if that restores it.
    assert_eq!(
        made(&[
            "push   $0x3",
            "pop    %rdx",
            "mov    %rdx,%rax",
            "syscall",
            "mov    %rdx,%rax",
            "syscall"
        ]),
        Ok(vec![3])
    );
    assert_eq!(
        made(&[
            "mov    $0x1,%r13d",
            "call   0x99",
            "mov    %r13,%rax",
            "syscall"
        ]),
        Ok(vec![1])
    );
    // Two ways to the instruction, one of them from below.
    assert_eq!(
        made(&[
            "mov    $0x1,%eax",
            "jmp    0x13",
            "mov    $0x2,%eax",
            "syscall",
            "mov    $0x3,%eax",
            "jne    0x13",
            "ret"
        ]),
        Ok(vec![1, 2, 3])
    );
    // By a function's argument: all that call it.
    assert_eq!(
        made(&[
            "mov    %edi,%eax",
            "syscall",
            "ret",
            "mov    $0x7,%edi",
            "call   0x10",
            "mov    $0x8,%edi",
            "call   0x10"
        ]),
        Ok(vec![7, 8])
    );
    for (unknown, why) in [
        (&["mov    (%rdi),%eax", "syscall"][..], "from memory"),
        (&["mov    $0x1,%al", "syscall"], "a part of it"),
        (
            &["mov    $0x1,%eax", "add    $0x1,%eax", "syscall"],
            "computed",
        ),
        (
            &["mov    $0x1,%eax", "call   0x99", "syscall"],
            "a function's answer",
        ),
        (
            &["mov    $0x1,%ecx", "syscall", "mov    %rcx,%rax", "syscall"],
            "overwritten by the call",
        ),
        (
            &["mov    $0x1,%eax", "ret", "syscall"],
            "nothing leads there",
        ),
        (&["mov    %edi,%eax", "syscall"], "nobody calls it"),
        (
            &["mov    $0x1,%eax", "cmove  %ecx,%eax", "syscall"],
            "one of two",
        ),
        (
            &["push   $0x1", "push   %rbx", "pop    %rax", "syscall"],
            "whatever rbx is",
        ),
        (
            &[
                "mov    $0x1,%edi",
                "rep stos %al,%es:(%rdi)",
                "mov    %edi,%eax",
                "syscall",
            ],
            "moved by a string",
        ),
        (
            &["mov    $0x1,%eax", "syscall", "int    $0x80"],
            "another table",
        ),
        (
            &["mov    $0x1,%eax", "syscall", "sysenter"],
            "another way in",
        ),
        (
            &[
                "mov    $0x1,%eax",
                "jmp    0x13",
                "lea    0x1(%rip),%rcx        # 0x13",
                "syscall",
            ],
            "its address is taken",
        ),
    ] {
        assert!(made(unknown).is_err(), "{why}: {unknown:?}");
    }
    // A pointer, and a jump table, to the instruction: who comes from there is not known.
    let code = [
        "mov    $0x1,%eax",
        "syscall",
        "lea    0x1(%rip),%rcx        # 0x1000",
        "jmp    *%rcx",
    ];
    let at = |bytes: &[u8]| numbers(&code, &[(0x1000, bytes)]);
    assert_eq!(at(&0_u64.to_le_bytes()), Ok(vec![1]));
    assert!(at(&0x11_u64.to_le_bytes()).is_err());
    assert!(at(&(0x11_i32 - 0x1000).to_le_bytes()).is_err());
    assert_eq!(at(&(0x13_i32 - 0x1000).to_le_bytes()), Ok(vec![1]));
}
