//! The launch: arguments, exit codes, messages, and what arrives in the module.

mod support;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;

use support::{Outcome, Policy, Run, Scene, as_each, as_root, assert_lines, check, skip};

/// Where the tests put descriptors; see `Run::fd`.
const FD: i32 = 500;

// Exit code 64.

#[test]
fn wrong_usage_exits_64() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        let wrong: &[&[&str]] = &[
            &[],
            &["bogus"],
            &["--bogus"],
            &["-h=1"],
            &[""],
            &["sandbox-exec"],
            &["sandbox-exec", "--"],
            &["sandbox-exec", "--", "/bin/true"],
            &["sandbox-exec", &policy],
            &["sandbox-exec", &policy, "--"],
            &["sandbox-exec", &policy, "/bin/true"],
            &["sandbox-exec", &policy, &policy, "--", "/bin/true"],
            &["sandbox-exec", "--bogus", &policy, "--", "/bin/true"],
            &["sandbox-exec", &policy, "--bogus", "--", "/bin/true"],
            &["sandbox-exec", &policy, "--", "true"],
            &["sandbox-exec", &policy, "--", "./true"],
            &["sandbox-exec", &policy, "--", ""],
            &["SANDBOX-EXEC", &policy, "--", "/bin/true"],
        ];
        for arguments in wrong {
            eprintln!("{arguments:?}");
            scene.launcher(arguments).run().refused(64, "usage", &[]);
        }
    });
}

#[test]
fn a_usage_error_names_what_is_wrong() {
    as_each(|scene| {
        let policy = scene.policy_file("{}");
        scene
            .launcher(&["frobnicate"])
            .run()
            .refused(64, "usage", &["frobnicate"]);
        scene
            .launcher(&["--frobnicate"])
            .run()
            .refused(64, "usage", &["--frobnicate"]);
        let relative = ["sandbox-exec", &policy, "--", "bin/true"];
        scene
            .launcher(&relative)
            .run()
            .refused(64, "usage", &["bin/true"]);
    });
}

#[test]
fn a_usage_error_is_printable_whatever_the_argument_holds() {
    as_each(|scene| {
        let odd = OsString::from_vec(b"\x1b[31m\n\xff\x80".to_vec());
        scene.launcher(&[]).arg(odd).run().refused(64, "usage", &[]);
    });
}

#[test]
fn no_argv_at_all_exits_64() {
    as_each(|scene| {
        // The kernel gives a program that is started without argv one empty string.
        let steps = format!("sys execve s:{} u64:0 u64:0", scene.agent());
        if cfg!(target_arch = "x86_64") {
            scene
                .plain(&scene.probe_argv(&steps))
                .run()
                .refused(64, "usage", &[]);
        }
    });
}

#[test]
fn help_and_version_are_printed_on_standard_output() {
    as_each(|scene| {
        for arguments in [
            &["--help"][..],
            &["--version"],
            &["sandbox-exec", "--help"],
            &["sandbox-exec", "--version"],
        ] {
            let outcome = scene.launcher(arguments).run();
            assert!(
                outcome.success().contains("oarbank-agent"),
                "{arguments:?}: {outcome:?}"
            );
            assert!(outcome.err.is_empty(), "{arguments:?}: {outcome:?}");
        }
        let version = scene.launcher(&["--version"]).run().success();
        assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    });
}

#[test]
fn options_after_the_dashes_belong_to_the_module() {
    as_each(|scene| {
        let argv = ["/bin/echo", "--help", "--", "--version"];
        let said = scene.confined(&Policy::new(), &argv).run().success();
        // echo of coreutils takes --help itself only when it is the single argument.
        assert_eq!(said, "--help -- --version\n");
    });
}

// Exit code 70: the policy file and the paths in it.

#[test]
fn a_policy_file_that_cannot_be_read_exits_70() {
    as_each(|scene| {
        let run = |file: &str| {
            scene
                .launcher(&["sandbox-exec", file, "--", "/bin/echo", "ran"])
                .run()
        };
        let missing = scene.path("missing.json");
        run(&missing).refused(70, "policy", &[&missing, "ENOENT"]);
        let directory = scene.dir("directory.json");
        run(&directory).refused(70, "policy", &[&directory, "EISDIR"]);
        let below_a_file = format!("{}/x", scene.policy_file("{}"));
        run(&below_a_file).refused(70, "policy", &[&below_a_file, "ENOTDIR"]);
        let empty = scene.policy_file("");
        run(&empty).refused(70, "policy", &[]);
        run("/dev/null").refused(70, "policy", &[]);
        run("/dev/zero").refused(70, "policy", &[]);
        run("").refused(70, "policy", &["ENOENT"]);
    });
}

#[test]
fn a_fifo_as_policy_exits_70_without_waiting() {
    as_each(|scene| {
        let fifo = scene.path("fifo.json");
        assert!(
            std::process::Command::new("mkfifo")
                .args(["-m", "666", &fifo])
                .status()
                .unwrap()
                .success()
        );
        scene
            .launcher(&["sandbox-exec", &fifo, "--", "/bin/true"])
            .run()
            .refused(70, "policy", &[&fifo]);
    });
}

#[test]
fn an_unreadable_policy_file_exits_70() {
    as_each(|scene| {
        if scene.who.is_root() {
            return; // Root reads what it likes.
        }
        let file = scene.policy_file("{}");
        assert!(
            std::process::Command::new("chmod")
                .args(["000", &file])
                .status()
                .unwrap()
                .success()
        );
        scene
            .launcher(&["sandbox-exec", &file, "--", "/bin/true"])
            .run()
            .refused(70, "policy", &["EACCES"]);
    });
}

#[test]
fn a_policy_file_over_one_mebibyte_exits_70() {
    as_each(|scene| {
        let padded = |length: usize| {
            let mut text = b"{}".to_vec();
            text.resize(length, b' ');
            scene.policy_file(text)
        };
        let run = |file: &str| {
            scene
                .launcher(&["sandbox-exec", file, "--", "/bin/true"])
                .run()
        };
        run(&padded(1 << 20)).success();
        run(&padded((1 << 20) + 1)).refused(70, "policy", &[]);
        run(&padded(5 << 20)).refused(70, "policy", &[]);
    });
}

#[test]
fn a_missing_path_exits_70_and_is_named_with_its_place() {
    as_each(|scene| {
        let here = scene.dir("here");
        let missing = scene.path("missing");
        for list in ["ro", "rw", "rd", "wo"] {
            let policy = scene
                .policy()
                .path(list, &here)
                .path(list, &here)
                .path(list, &missing);
            let line = format!("{list}[2] \"{missing}\": ENOENT (no such file or directory)");
            scene
                .confined(&policy, &["/bin/echo", "ran"])
                .run()
                .refused(70, "landlock", &[&line]);
        }
        let exe = Policy::new().exe(&missing);
        scene.confined(&exe, &["/bin/true"]).run().refused(
            70,
            "landlock",
            &["exe", &missing, "ENOENT"],
        );
        let broker = Policy::new().broker(&missing);
        let outcome = scene.confined(&broker, &["/bin/true"]).run();
        outcome.refused(70, "landlock", &["broker_socket", &missing, "ENOENT"]);
        let dangling = scene.symlink("/nowhere/at/all", "dangling");
        let policy = Policy::new().ro(&dangling);
        scene
            .confined(&policy, &["/bin/true"])
            .run()
            .refused(70, "landlock", &["ro[0]", "ENOENT"]);
        let below_a_file = format!("{}/x", scene.file("plain-file", ""));
        let policy = Policy::new().ro(&below_a_file);
        scene.confined(&policy, &["/bin/true"]).run().refused(
            70,
            "landlock",
            &["ro[0]", "ENOTDIR"],
        );
        let round = scene.symlink("round", "round");
        let policy = Policy::new().rw(&round);
        scene
            .confined(&policy, &["/bin/true"])
            .run()
            .refused(70, "landlock", &["rw[0]", "ELOOP"]);
    });
}

#[test]
fn a_missing_path_with_odd_characters_is_still_one_printable_line() {
    as_each(|scene| {
        let odd = scene.path("line\nbreak\u{1b}[31m\"quote\\ é \u{1f600} \u{7f} \u{85} \u{202e}");
        let policy = Policy::new().ro(&odd);
        scene
            .confined(&policy, &["/bin/true"])
            .run()
            .refused(70, "landlock", &["ro[0]", "ENOENT"]);
    });
}

#[test]
fn a_path_that_the_user_cannot_reach_exits_70() {
    as_each(|scene| {
        if scene.who.is_root() {
            return; // Root reaches everything.
        }
        let locked = scene.dir("locked");
        scene.file("locked/file", "");
        let chmod = std::process::Command::new("chmod")
            .args(["000", &locked])
            .status();
        assert!(chmod.unwrap().success());
        let policy = Policy::new().ro(&format!("{locked}/file"));
        let outcome = scene.confined(&policy, &["/bin/true"]).run();
        outcome.refused(70, "landlock", &["ro[0]", "EACCES"]);
    });
}

#[test]
fn the_policy_file_may_be_named_relative_to_the_working_directory() {
    as_each(|scene| {
        let here = scene.dir("here");
        scene.file("here/policy.json", "{}");
        for name in ["policy.json", "./policy.json", "../here/policy.json"] {
            scene
                .launcher(&["sandbox-exec", name, "--", "/bin/true"])
                .cwd(&here)
                .run()
                .success();
        }
    });
}

// Exit code 71.

#[test]
fn an_exec_that_fails_exits_71() {
    as_each(|scene| {
        let tools = scene.dir("tools");
        let plain = scene.file("tools/not-executable", "#!/bin/sh\necho ran\n");
        let garbage = scene.program(
            "tools/garbage",
            std::path::Path::new(&scene.file("bytes", [0, 1, 2, 3])),
        );
        let orphan = scene.script("tools/orphan", "#!/nowhere/interpreter\n");
        let missing = scene.path("tools/missing");
        let policy = Policy::new().ro(&tools);
        let run = |file: &str| scene.confined(&policy, &[file]).run();
        run(&missing).refused(71, "exec", &[&missing, "ENOENT"]);
        run(&plain).refused(71, "exec", &[&plain, "EACCES"]);
        run(&tools).refused(71, "exec", &[&tools, "EACCES"]);
        run(&garbage).refused(71, "exec", &[&garbage, "ENOEXEC"]);
        run(&orphan).refused(71, "exec", &[&orphan, "ENOENT"]);
    });
}

#[test]
fn a_program_without_a_grant_exits_71() {
    as_each(|scene| {
        let steps = scene.probe_argv("fds");
        scene.plain(&steps).run().success();
        let outcome = scene.confined(&Policy::new(), &steps).run();
        outcome.refused(71, "exec", &[scene.probe(), "EACCES (permission denied)"]);
    });
}

// What arrives.

#[test]
fn arguments_arrive_byte_for_byte() {
    as_each(|scene| {
        let odd: Vec<&[u8]> = vec![
            b"",
            b" ",
            b"--",
            b"\xff\xfe\x80",
            b"a\nb",
            b"\x01",
            "é😀".as_bytes(),
            b"",
        ];
        let mut run = scene.confined(&scene.policy(), &[scene.probe(), "args"]);
        for argument in &odd {
            run = run.arg(OsString::from_vec(argument.to_vec()));
        }
        let expected: Vec<u8> = odd
            .iter()
            .flat_map(|argument| [argument, &b"\0"[..]].concat())
            .collect();
        assert_eq!(run.run().out, expected);
    });
}

#[test]
fn many_and_long_arguments_arrive() {
    as_each(|scene| {
        let long = "x".repeat(100_000);
        let mut run = scene.confined(&scene.policy(), &[scene.probe(), "args", &long]);
        for number in 0..5_000 {
            run = run.arg(number.to_string());
        }
        let out = run.run().out;
        assert_eq!(out.iter().filter(|byte| **byte == 0).count(), 5_001);
        assert!(out.starts_with(long.as_bytes()) && out.ends_with(b"\x004999\0"));
    });
}

#[test]
fn the_environment_arrives_in_order_and_byte_for_byte() {
    as_each(|scene| {
        let file = scene.policy_file("{}");
        // Twice the same name, no `=`, an empty name, an empty entry, bytes that are no text.
        let odd: Vec<&[u8]> = vec![
            b"B=2",
            b"A=1",
            b"A=other",
            b"NOVALUE",
            b"=noname",
            b"",
            b"E=",
            b"X=\xff\n",
            b"OARBANK=1",
            b"OARBANK_CONFINEDX=1",
            b"XOARBANK_CONFINED=7",
        ];
        let mut run = scene.plain(&[scene.probe(), "exec-env"]);
        for entry in &odd {
            run = run.arg(OsString::from_vec(entry.to_vec()));
        }
        for word in [
            "--",
            scene.agent(),
            "sandbox-exec",
            &file,
            "--",
            "/bin/cat",
            "/proc/self/environ",
        ] {
            run = run.arg(word);
        }
        let expected: Vec<u8> = odd
            .iter()
            .flat_map(|entry| [entry, &b"\0"[..]].concat())
            .collect();
        let outcome = run.run();
        assert_eq!(outcome.out, expected, "{outcome:?}");
    });
}

#[test]
fn an_empty_environment_stays_empty() {
    as_each(|scene| {
        let file = scene.policy_file("{}");
        let words = [
            scene.probe(),
            "exec-env",
            "--",
            scene.agent(),
            "sandbox-exec",
            &file,
            "--",
            "/bin/cat",
            "/proc/self/environ",
        ];
        assert_eq!(scene.plain(&words).run().success(), "");
    });
}

#[test]
fn directory_umask_signals_and_limits_arrive_unchanged() {
    as_each(|scene| {
        let here = scene.dir("here");
        let arrange = |run: Run| {
            run.cwd(&here).with(|| {
                // SAFETY: calls that are safe after fork, on values of this frame.
                unsafe {
                    libc::umask(0o137);
                    libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                    libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                    let mut mask: libc::sigset_t = std::mem::zeroed();
                    libc::sigaddset(&mut mask, libc::SIGUSR2);
                    libc::sigaddset(&mut mask, libc::SIGPIPE);
                    libc::sigaddset(&mut mask, libc::SIGRTMIN());
                    libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                    let limit = libc::rlimit {
                        rlim_cur: 123,
                        rlim_max: 456,
                    };
                    check(libc::setrlimit(libc::RLIMIT_NOFILE, &limit))?;
                    let limit = libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 4096,
                    };
                    check(libc::setrlimit(libc::RLIMIT_CORE, &limit))?;
                    libc::setpriority(libc::PRIO_PROCESS, 0, 5);
                }
                Ok(())
            })
        };
        for question in [
            &["/bin/cat", "/proc/self/limits"][..],
            &["/bin/readlink", "/proc/self/cwd"],
            &[
                "/bin/grep",
                "-E",
                "^(Umask|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Uid|Gid|Groups):",
                "/proc/self/status",
            ],
            &["/bin/cut", "-d ", "-f18,19", "/proc/self/stat"],
        ] {
            let outside = arrange(scene.plain(question)).run().success();
            let inside = arrange(scene.confined(&Policy::new().ro(&here), question))
                .run()
                .success();
            assert_eq!(inside, outside, "{question:?}");
        }
        let ignored = arrange(scene.confined(
            &Policy::new(),
            &["/bin/grep", "SigIgn", "/proc/self/status"],
        ))
        .run();
        // Besides what whoever started the tests ignores: a shell ignores some for its background jobs.
        let mask = ignored.success();
        let mask = mask.trim_end().rsplit('\t').next().expect("a mask");
        let mask = u64::from_str_radix(mask, 16).expect("hexadecimal");
        assert_eq!(mask & 0x1200, 0x1200, "SIGUSR1 and SIGPIPE: {ignored:?}");
    });
}

#[test]
fn standard_input_and_output_work_and_the_exit_code_is_the_modules() {
    as_each(|scene| {
        let policy = Policy::new();
        let copied = scene
            .confined(&policy, &["/bin/cat"])
            .input("some bytes")
            .run();
        assert_eq!(copied.success(), "some bytes");
        let failed = scene
            .confined(&policy, &["/bin/sh", "-c", "echo said >&2; exit 42"])
            .run();
        assert_eq!(
            (failed.code, failed.err.as_slice()),
            (Some(42), &b"said\n"[..])
        );
        let killed = scene
            .confined(&policy, &["/bin/sh", "-c", "kill -9 $$"])
            .run();
        assert_eq!(killed.signal, Some(libc::SIGKILL));
    });
}

#[test]
fn the_process_stays_the_same() {
    as_each(|scene| {
        // The shell prints its number and becomes the launcher, which becomes `readlink`.
        let file = scene.policy_file("{}");
        let script = "echo $$; exec \"$@\"";
        let argv = [
            "/bin/sh",
            "-c",
            script,
            "sh",
            scene.agent(),
            "sandbox-exec",
            &file,
            "--",
            "/bin/readlink",
            "/proc/self",
        ];
        let said = scene.plain(&argv).run().success();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], lines[1]);
    });
}

#[test]
fn the_status_shows_what_the_parent_verifies() {
    as_each(|scene| {
        let question = ["/bin/cat", "/proc/self/status"];
        let outside = scene.plain(&question).run().success();
        assert_eq!(
            (field(&outside, "NoNewPrivs"), field(&outside, "Seccomp")),
            ("0", "0")
        );
        let inside = scene.confined(&Policy::new(), &question).run().success();
        assert_eq!(
            (field(&inside, "NoNewPrivs"), field(&inside, "Seccomp")),
            ("1", "2")
        );
        assert_eq!(field(&inside, "Seccomp_filters"), "1");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(
                field(&inside, set),
                "0000000000000000",
                "{set} of {}",
                scene.who
            );
        }
        // An unprivileged process may not change its bounding set, and gains nothing from it.
        if scene.who.is_root() {
            assert_ne!(field(&outside, "CapEff"), "0000000000000000");
            assert_eq!(field(&inside, "CapBnd"), "0000000000000000");
        }
    });
}

/// The capability sets of this process as `capget` has them: effective, permitted and inheritable,
/// first of the low 32 capabilities, then of the high ones.
type CapabilitySets = [u32; 6];

/// Changes the capability sets of the calling process; safe after fork.
fn change_capabilities(change: impl Fn(&mut CapabilitySets)) -> std::io::Result<()> {
    let header = [0x2008_0522_u32, 0];
    let mut sets = CapabilitySets::default();
    // SAFETY: the header and the sets of version 3, which outlive the calls.
    unsafe {
        check(libc::syscall(libc::SYS_capget, &header, &mut sets) as i32)?;
        change(&mut sets);
        check(libc::syscall(libc::SYS_capset, &header, &sets) as i32)
    }
}

/// CAP_DAC_OVERRIDE.
const SOME: u32 = 1;
/// CAP_SETPCAP.
const SETPCAP: u32 = 8;

/// Makes a capability survive the exec of any user.
fn raise_ambient(capability: u32) -> std::io::Result<()> {
    // SAFETY: takes numbers; safe after fork.
    check(unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_RAISE,
            capability,
            0,
            0,
        )
    })
}

#[test]
fn root_with_ambient_and_inheritable_capabilities_keeps_none() {
    as_root(|scene| {
        let argv = ["/bin/cat", "/proc/self/status"];
        let arrange = |run: Run| {
            run.with(|| {
                change_capabilities(|sets| (sets[2], sets[5]) = (sets[1], sets[4]))?;
                raise_ambient(SOME)
            })
        };
        let outside = arrange(scene.plain(&argv)).run().success();
        assert_eq!(field(&outside, "CapAmb"), "0000000000000002");
        let inside = arrange(scene.confined(&Policy::new(), &argv))
            .run()
            .success();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&inside, set), "0000000000000000", "{set}");
        }
    });
}

#[test]
fn a_user_with_ambient_capabilities_keeps_none() {
    as_root(|scene| {
        let argv = ["/bin/cat", "/proc/self/status"];
        let arrange = |run: Run| {
            run.with(|| {
                // SAFETY: takes numbers; safe after fork.
                unsafe {
                    check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
                    check(libc::setgroups(0, std::ptr::null()))?;
                    check(libc::setresgid(65534, 65534, 65534))?;
                    check(libc::setresuid(65534, 65534, 65534))?;
                }
                change_capabilities(|sets| *sets = [1 << SOME, 1 << SOME, 1 << SOME, 0, 0, 0])?;
                raise_ambient(SOME)
            })
        };
        let outside = arrange(scene.plain(&argv)).run().success();
        assert_eq!(field(&outside, "CapEff"), "0000000000000002");
        let inside = arrange(scene.confined(&Policy::new(), &argv))
            .run()
            .success();
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(&inside, set), "0000000000000000", "{set}");
        }
    });
}

#[test]
fn root_that_cannot_empty_its_bounding_set_is_refused() {
    as_root(|scene| {
        // Without CAP_SETPCAP in the bounding set, root does not get it by an exec.
        let run = scene
            .confined(&Policy::new(), &["/bin/echo", "ran"])
            .with(|| {
                // SAFETY: takes numbers; safe after fork.
                check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, SETPCAP, 0, 0, 0) })
            });
        run.run().refused(70, "capabilities", &["EPERM"]);
    });
}

/// One line of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {status}")).trim()
}

// OARBANK_CONFINED.

/// A pipe: what is read from, what is written to.
fn pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: fills the two numbers, which are owned by what is returned.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)).expect("a pipe");
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Everything up to the end, which comes when nobody holds the other end.
fn rest(mut pipe: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}

#[test]
fn confined_gets_one_byte_and_the_module_sees_neither() {
    as_each(|scene| {
        let (reader, writer) = pipe();
        let run = scene.confined(&scene.policy(), &scene.probe_argv("fds"));
        let run = run.fd(FD, writer).env("OARBANK_CONFINED", FD.to_string());
        assert_eq!(run.run().success().lines().next(), Some("0 1 2"));
        assert_eq!(rest(reader), b"1");

        let (_reader, writer) = pipe();
        let run = scene.confined(&scene.policy(), &["/bin/cat", "/proc/self/environ"]);
        let run = run
            .env("BEFORE", "1")
            .env("OARBANK_CONFINED", FD.to_string())
            .env("ZAFTER", "2")
            .fd(FD, writer);
        let environment = run.run().success();
        assert!(!environment.contains("OARBANK_CONFINED"), "{environment}");
        assert!(environment.contains("BEFORE=1\0") && environment.contains("ZAFTER=2\0"));
    });
}

#[test]
fn confined_comes_while_the_module_runs_and_ends_at_once() {
    as_each(|scene| {
        // The module waits for its input, which comes only after the end of the pipe was seen.
        let (reader, writer) = pipe();
        let mut run = scene.confined(&Policy::new(), &["/bin/cat"]);
        run = run.fd(FD, writer).env("OARBANK_CONFINED", FD.to_string());
        let mut child = run.command.spawn().expect("starts");
        drop(run);
        assert_eq!(rest(reader), b"1");
        assert!(
            child.try_wait().expect("own child").is_none(),
            "the module waits"
        );
        drop(child.stdin.take());
        assert!(child.wait().expect("own child").success());
    });
}

#[test]
fn confined_may_be_a_socket_a_file_or_number_3() {
    as_each(|scene| {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let run = scene.confined(&scene.policy(), &scene.probe_argv("fds"));
        let outcome = run
            .fd(FD, theirs)
            .env("OARBANK_CONFINED", FD.to_string())
            .run();
        assert_eq!(outcome.success().lines().next(), Some("0 1 2"));
        assert_eq!(rest(File::from(OwnedFd::from(ours))), b"1");

        let told = scene.file("told", "");
        let file = scene.policy_file(scene.policy().json());
        let script = "exec 3>$0; OARBANK_CONFINED=3 exec \"$@\"";
        let argv = [
            &[
                "/bin/sh",
                "-c",
                script,
                &told,
                scene.agent(),
                "sandbox-exec",
                &file,
                "--",
            ][..],
            &scene.probe_argv("fds"),
        ]
        .concat();
        assert_eq!(
            scene.plain(&argv).run().success().lines().next(),
            Some("0 1 2")
        );
        assert_eq!(fs::read(&told).expect("the file"), b"1");
    });
}

#[test]
fn confined_is_not_told_of_a_launch_that_failed_but_of_an_exec_that_did() {
    as_each(|scene| {
        let (reader, writer) = pipe();
        let policy = Policy::new().ro("/nowhere");
        let run = scene.confined(&policy, &["/bin/true"]).fd(FD, writer);
        run.env("OARBANK_CONFINED", FD.to_string())
            .run()
            .refused(70, "landlock", &[]);
        assert_eq!(rest(reader), b"");

        let (reader, writer) = pipe();
        let run = scene.confined(&Policy::new(), &["/nowhere"]).fd(FD, writer);
        run.env("OARBANK_CONFINED", FD.to_string())
            .run()
            .refused(71, "exec", &["ENOENT"]);
        assert_eq!(rest(reader), b"1", "everything was applied");
    });
}

#[test]
fn a_value_of_confined_that_is_no_such_descriptor_exits_70() {
    as_each(|scene| {
        for value in [
            "",
            "x",
            "0",
            "1",
            "2",
            "-1",
            "+500",
            " 500",
            "500 ",
            "500x",
            "0x1f4",
            "3.0",
            "777",
            "4294967796",
            "18446744073709552116",
            "99999999999999999999999",
            "fd:500",
        ] {
            eprintln!("{value:?}");
            let (reader, writer) = pipe();
            let run = scene
                .confined(&Policy::new(), &["/bin/echo", "ran"])
                .fd(FD, writer);
            let outcome = run.env("OARBANK_CONFINED", value).run();
            outcome.refused(70, "descriptors", &["OARBANK_CONFINED"]);
            assert_eq!(rest(reader), b"");
        }
    });
}

#[test]
fn a_closed_confined_descriptor_is_named_with_its_error() {
    as_each(|scene| {
        let run = scene
            .confined(&Policy::new(), &["/bin/echo", "ran"])
            .env("OARBANK_CONFINED", "777");
        run.run()
            .refused(70, "descriptors", &["OARBANK_CONFINED", "777", "EBADF"]);
    });
}

#[test]
fn a_confined_descriptor_that_cannot_be_written_exits_70() {
    as_each(|scene| {
        let run = |descriptor: OwnedFd| {
            let run = scene.confined(&Policy::new(), &["/bin/echo", "ran"]);
            run.fd(FD, descriptor)
                .env("OARBANK_CONFINED", FD.to_string())
                .run()
        };
        let (reader, _writer) = pipe();
        either_step(&run(reader.into()), "EBADF");
        let (reader, writer) = pipe();
        drop(reader);
        either_step(&run(writer), "EPIPE");
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        drop(ours);
        either_step(&run(theirs.into()), "EPIPE");
        either_step(&run(File::open("/tmp").expect("a directory").into()), "");
        either_step(
            &run(File::options()
                .write(true)
                .open("/dev/full")
                .expect("a device")
                .into()),
            "ENOSPC",
        );
        // Full, and told not to wait.
        let (_reader, writer) = pipe();
        // SAFETY: fills an own pipe from a buffer of that size.
        unsafe {
            libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
            let bytes = [0_u8; 4096];
            while libc::write(writer.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) > 0 {}
        }
        either_step(&run(writer), "EAGAIN");
    });
}

/// A descriptor may be found wrong when the descriptors are looked at, or when the byte is written.
#[track_caller]
fn either_step(outcome: &Outcome, error: &str) {
    let early = outcome.err.starts_with(b"oarbank-agent: descriptors: ");
    outcome.refused(70, if early { "descriptors" } else { "confined" }, &[error]);
}

#[test]
fn a_file_size_limit_does_not_kill_the_launcher() {
    as_each(|scene| {
        // Writing would raise SIGXFSZ, which ends a process that doesn't expect it.
        let told = scene.file("told", "");
        let run = scene.confined(&Policy::new(), &["/bin/echo", "ran"]);
        let run = run.fd(
            FD,
            File::options().write(true).open(told).expect("own file"),
        );
        let run = run.env("OARBANK_CONFINED", FD.to_string()).with(|| {
            let limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: the limit outlives the call.
            check(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) })
        });
        either_step(&run.run(), "EFBIG");
    });
}

#[test]
fn confined_leaves_mask_and_pending_signals_alone() {
    as_each(|scene| {
        let question = [
            "/bin/grep",
            "-E",
            "^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt):",
            "/proc/self/status",
        ];
        let outside = scene.plain(&question).run().success();
        let (_reader, writer) = pipe();
        let run = scene.confined(&Policy::new(), &question).fd(FD, writer);
        assert_eq!(
            run.env("OARBANK_CONFINED", FD.to_string()).run().success(),
            outside
        );
    });
}

#[test]
fn confined_twice_in_the_environment_exits_70() {
    as_each(|scene| {
        let (reader, writer) = pipe();
        let file = scene.policy_file("{}");
        let entry = format!("OARBANK_CONFINED={FD}");
        let argv = [
            scene.probe(),
            "exec-env",
            &entry,
            &entry,
            "--",
            scene.agent(),
            "sandbox-exec",
            &file,
            "--",
            "/bin/echo",
            "ran",
        ];
        scene
            .plain(&argv)
            .fd(FD, writer)
            .run()
            .refused(70, "descriptors", &["OARBANK_CONFINED"]);
        assert_eq!(rest(reader), b"");
    });
}

// Inherited descriptors.

#[test]
fn closed_standard_descriptors_stay_closed() {
    as_each(|scene| {
        let file = scene.policy_file("{}");
        for closed in ["0", "0 1", "0 1 2"] {
            // What the launcher opens takes the free numbers; none of it may reach the module.
            let close: String = closed
                .split(' ')
                .map(|number| format!("exec {number}>&-; "))
                .collect();
            let script = format!("{close} exec \"$@\"");
            let question =
                "for n in 0 1 2 3 4 5; do if [ -e /proc/$$/fd/$n ]; then echo $n; fi; done >$0";
            let told = scene.file("told", "");
            let policy = scene.policy_file(Policy::new().rw(&told).json());
            let argv = [
                "/bin/sh",
                "-c",
                &script,
                "sh",
                scene.agent(),
                "sandbox-exec",
                &policy,
                "--",
                "/bin/sh",
                "-c",
                question,
                &told,
            ];
            assert_eq!(scene.plain(&argv).run().code, Some(0), "{closed}");
            let open: String = ["0", "1", "2"]
                .iter()
                .filter(|number| !closed.contains(*number))
                .map(|number| format!("{number}\n"))
                .collect();
            // Number 1 is then the shell's own redirection.
            let seen = fs::read_to_string(&told).expect("own file");
            assert_eq!(seen.replace("1\n", ""), open.replace("1\n", ""), "{closed}");
            let argv = [
                "/bin/sh",
                "-c",
                &script,
                "sh",
                scene.agent(),
                "sandbox-exec",
                &file,
                "--",
                "/nowhere",
            ];
            assert_eq!(scene.plain(&argv).run().code, Some(71), "{closed}");
        }
    });
}

#[test]
fn descriptors_from_3_up_are_closed() {
    as_each(|scene| {
        let give = |run: Run| {
            let mut run = run;
            for number in [500, 501, 510, 600] {
                run = run.fd(number, File::open("/dev/null").expect("a device"));
            }
            run
        };
        let outside = give(scene.plain(&scene.probe_argv("fds"))).run().success();
        assert!(
            outside
                .lines()
                .next()
                .unwrap()
                .ends_with(" 500 501 510 600"),
            "{outside}"
        );
        let inside = give(scene.confined(&scene.policy(), &scene.probe_argv("fds")))
            .run()
            .success();
        assert_eq!(inside.lines().next(), Some("0 1 2"));
        // Names of others, values of another form: no service channels.
        let inside = give(scene.confined(&scene.policy(), &scene.probe_argv("fds")))
            .env("OTHER_X", "fd:500")
            .env("XOARBANK_X", "fd:500")
            .env("OARBANK_X", "500")
            .env("OARBANK_Y", "xfd:500")
            .env("OARBANK_Z", "");
        assert_eq!(inside.run().success().lines().next(), Some("0 1 2"));
    });
}

#[test]
fn a_named_socket_pipe_or_file_stays() {
    as_each(|scene| {
        let (socket, _other) = UnixStream::pair().expect("a pair");
        let (reader, writer) = pipe();
        let file = File::open(scene.file("regular", "contents")).expect("own file");
        let run = scene.confined(
            &scene.policy(),
            &scene.probe_argv("fds then sys read 504 buf:64 64 then sys write 502 s:hello 5"),
        );
        let outcome = run
            .fd(500, socket)
            .fd(502, writer)
            .fd(504, file)
            .fd(505, File::open("/dev/null").expect("a device"))
            .env("OARBANK_CHANNEL", "fd:500")
            .env("OARBANK_LOG", "fd:502")
            .env("OARBANK_", "fd:504")
            .env("OARBANK_AGAIN", "fd:504")
            .run();
        let said = outcome.success();
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "0 1 2 500 502 504");
        assert_lines(&lines[1..], "ok=6 ok=8 ok=5", "fds, read, write");
        assert_eq!(rest(reader), b"hello");
    });
}

#[test]
fn a_named_descriptor_stays_in_the_environment() {
    as_each(|scene| {
        let (_ours, theirs) = UnixStream::pair().expect("a pair");
        let run = scene
            .confined(&Policy::new(), &["/usr/bin/env"])
            .fd(FD, theirs);
        let said = run
            .env("OARBANK_CHANNEL", format!("fd:{FD}"))
            .run()
            .success();
        assert!(
            said.lines()
                .any(|line| line == format!("OARBANK_CHANNEL=fd:{FD}")),
            "{said}"
        );
    });
}

#[test]
fn a_named_descriptor_of_another_kind_exits_70() {
    as_each(|scene| {
        let special = |call: fn() -> i32| {
            let made = call();
            check(made).expect("a descriptor");
            // SAFETY: new and owned by what is returned.
            unsafe { OwnedFd::from_raw_fd(made) }
        };
        // SAFETY: both calls only make a descriptor.
        let event = special(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) });
        // SAFETY: as above.
        let epoll = special(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .expect("a device");
        let directory = File::open(scene.dir("directory")).expect("own directory");
        let wrong: Vec<OwnedFd> = vec![directory.into(), device.into(), event, epoll];
        for descriptor in wrong {
            let run = scene
                .confined(&Policy::new(), &["/bin/echo", "ran"])
                .fd(FD, descriptor);
            let outcome = run.env("OARBANK_X", format!("fd:{FD}")).run();
            outcome.refused(70, "descriptors", &["OARBANK_X"]);
        }
    });
}

#[test]
fn a_named_descriptor_that_is_closed_or_no_number_exits_70() {
    as_each(|scene| {
        for value in [
            "fd:777",
            "fd:",
            "fd:x",
            "fd:-1",
            "fd:+500",
            "fd: 500",
            "fd:500 ",
            "fd:500,501",
            "fd:0x1f4",
            "fd:99999999999",
            "fd:4294967796",
            "fd:18446744073709552116",
        ] {
            eprintln!("{value:?}");
            let (_reader, writer) = pipe();
            let run = scene
                .confined(&Policy::new(), &["/bin/echo", "ran"])
                .fd(FD, writer);
            run.env("OARBANK_X", value)
                .run()
                .refused(70, "descriptors", &["OARBANK_X"]);
        }
        let run = scene
            .confined(&Policy::new(), &["/bin/echo", "ran"])
            .env("OARBANK_X", "fd:777");
        run.run().refused(
            70,
            "descriptors",
            &["OARBANK_X", "777", "EBADF (bad file descriptor)"],
        );

        // The same name twice: the second is looked at like the first.
        let (_reader, writer) = pipe();
        let file = scene.policy_file("{}");
        let argv = [
            scene.probe(),
            "exec-env",
            "OARBANK_X=fd:500",
            "OARBANK_X=fd:777",
            "--",
            scene.agent(),
            "sandbox-exec",
            &file,
            "--",
            "/bin/true",
        ];
        scene
            .plain(&argv)
            .fd(FD, writer)
            .run()
            .refused(70, "descriptors", &["OARBANK_X"]);
    });
}

#[test]
fn one_descriptor_for_the_byte_and_for_the_module_exits_70() {
    as_each(|scene| {
        let (reader, writer) = pipe();
        let run = scene
            .confined(&Policy::new(), &["/bin/echo", "ran"])
            .fd(FD, writer);
        let run = run
            .env("OARBANK_CONFINED", FD.to_string())
            .env("OARBANK_X", format!("fd:{FD}"));
        run.run().refused(70, "descriptors", &["OARBANK_"]);
        assert_eq!(rest(reader), b"");
    });
}

#[test]
fn hundreds_of_descriptors_may_be_named() {
    as_each(|scene| {
        let mut run = scene.confined(&scene.policy(), &scene.probe_argv("fds"));
        let (reader, writer) = pipe();
        for number in 400..600 {
            run = run
                .fd(number, writer.try_clone().expect("a copy"))
                .env(format!("OARBANK_N{number}"), format!("fd:{number}"));
        }
        drop((reader, writer));
        let said = run.run().success();
        assert_eq!(said.lines().nth(1), Some("ok 203"), "{said}");
    });
}

// The launcher's own calls.

/// The calls of the launcher, from the first after its own start to the exec of the module.
fn trace(scene: &Scene, name: &str, policy: &Policy, argv: &[&str]) -> Vec<String> {
    let log = scene.file(name, "");
    let file = scene.policy_file(policy.json());
    let strace = [
        "strace",
        "-s",
        "200",
        "-o",
        &log,
        scene.agent(),
        "sandbox-exec",
        &file,
        "--",
    ];
    told(scene.plain(&[&strace[..], argv].concat()))
        .run()
        .success();
    let text = fs::read_to_string(&log).expect("the log");
    let mut calls = text.lines().map(str::to_owned);
    assert!(
        calls.next().expect("a first call").starts_with("execve("),
        "{text}"
    );
    let mut own: Vec<String> = Vec::new();
    for call in calls {
        let last = call.starts_with("execve(");
        own.push(call);
        if last {
            return own;
        }
    }
    panic!("no exec in {text}");
}

/// With a descriptor for the byte, so that the calls around it are seen too.
fn told(run: Run) -> Run {
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .expect("a device");
    run.fd(FD, null).env("OARBANK_CONFINED", FD.to_string())
}

#[test]
fn the_first_call_is_ours_and_the_steps_are_in_order() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let own = trace(scene, "log", &scene.policy(), &["/bin/true"]);
        // Nothing of a libc or a loader comes before the policy: only what looks at the descriptors.
        let policy = own
            .iter()
            .position(|line| line.contains("policy-"))
            .expect("the policy is opened");
        for line in &own[..policy] {
            assert!(
                ["close_range(", "fcntl(", "fstat("]
                    .iter()
                    .any(|call| line.starts_with(call)),
                "{line} in {own:?}"
            );
        }
        for call in [
            "brk(",
            "mmap(",
            "arch_prctl(",
            "set_tid_address(",
            "rseq(",
            "prlimit64(",
            "mprotect(",
        ] {
            assert!(
                !own.iter().any(|line| line.starts_with(call)),
                "{call} in {own:?}"
            );
        }
        let place = |what: &str| {
            own.iter()
                .position(|line| line.contains(what))
                .unwrap_or_else(|| panic!("{what} in {own:?}"))
        };
        let order = [
            "policy-",
            "PR_SET_NO_NEW_PRIVS",
            "landlock_restrict_self(",
            "SECCOMP_SET_MODE_FILTER",
            "execve(",
        ];
        let places: Vec<usize> = order.iter().map(|what| place(what)).collect();
        assert!(places.is_sorted(), "{order:?} at {places:?} in {own:?}");
    });
}

#[test]
fn every_call_that_fails_ends_the_launch() {
    if !support::strace_is_here() {
        return;
    }
    as_each(|scene| {
        let data = scene.dir("data");
        let policy = scene.policy().rw(&data).ro(&data).gpu();
        let own = trace(scene, "log", &policy, &["/bin/true"]);
        assert!(own.len() > 50, "{own:?}");
        let file = scene.policy_file(policy.json());
        let mut counts = std::collections::BTreeMap::new();
        for line in &own {
            let call = line.split('(').next().expect("a name");
            let count = counts.entry(call).or_insert(0);
            *count += 1;
            // A descriptor that can't be closed is closed all the same; the question who one is can't
            // fail; a call that failed by itself was expected to (a path of the base system that does
            // not exist).
            if call == "close" || call == "geteuid" || line.contains(" = -1 ") {
                continue;
            }
            let inject = format!("inject={call}:error=EIO:when={count}");
            let argv = [
                "strace",
                "-o",
                "/dev/null",
                "-e",
                &inject,
                scene.agent(),
                "sandbox-exec",
                &file,
                "--",
                "/bin/echo",
                "ran",
            ];
            let outcome = told(scene.plain(&argv)).run();
            let code = if call == "execve" { 71 } else { 70 };
            assert_eq!(
                (outcome.code, outcome.out.len()),
                (Some(code), 0),
                "{inject} ({line}): {outcome:?}"
            );
            let err = String::from_utf8_lossy(&outcome.err);
            let said: Vec<&str> = err
                .lines()
                .filter(|line| line.starts_with("oarbank-agent: "))
                .collect();
            assert_eq!(said.len(), 1, "{inject} ({line}): {outcome:?}");
            assert!(said[0].contains("EIO"), "{inject} ({line}): {outcome:?}");
        }
    });
}

#[test]
fn a_panic_ends_in_70() {
    if !support::strace_is_here() {
        return;
    }
    if !cfg!(debug_assertions) {
        // The release file has no such assertion, and no other way into a panic is known.
        return skip("only a debug build has an assertion that a test can break");
    }
    // geteuid(2) can't fail; told that it did, rustix panics. Only a user is asked who he is.
    let scene = Scene::new(support::Who::unprivileged());
    let marker = scene.dir("data") + "/ran";
    let policy = scene.policy_file(scene.policy().rw(&scene.path("data")).json());
    let run = |fault| {
        let mut argv = vec!["strace", "-o", "/dev/null", "-e", fault];
        argv.extend([scene.agent(), "sandbox-exec", &policy, "--"]);
        argv.extend(["/bin/sh", "-c", "echo > \"$0\"", &marker]);
        told(scene.plain(&argv)).run()
    };
    let outcome = run("inject=geteuid:error=EPERM:when=1");
    assert_eq!(outcome.code, Some(70), "{outcome:?}");
    let err = String::from_utf8_lossy(&outcome.err).into_owned();
    let said: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("oarbank-agent: "))
        .collect();
    assert_eq!(
        said,
        ["oarbank-agent: internal: panic: a fault of the launcher, please report it"]
    );
    assert!(!fs::exists(&marker).expect("a path"));
    // The control: the same without the fault runs the module.
    assert_eq!(run("trace=geteuid").code, Some(0));
    assert!(fs::exists(&marker).expect("a path"));
}
