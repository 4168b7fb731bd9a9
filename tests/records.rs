//! `sandbox-run --explain-denials`, of what Landlock denies: told where the kernel logs that and lets it be read, and else
//! why it is not. The guests with `audit=1` are where it is told; see `tests/kernels`.

mod support;

use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use support::{
    Explained, Policy, Scene, Trial, as_root, check, egress_is_here, explain, field, landlock_abi,
    skip,
};

/// `NETLINK_AUDIT`, and the group of those who read the records.
const AUDIT: i32 = 9;
const READERS: u32 = 1;

/// The records that this process sees of what happens from now on.
struct Records(OwnedFd);

impl Records {
    fn new() -> std::io::Result<Self> {
        // SAFETY: an address of its own length; the socket is owned by what is returned.
        unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let socket = libc::socket(libc::AF_NETLINK, kind, AUDIT);
            check(socket)?;
            let socket = OwnedFd::from_raw_fd(socket);
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as u16;
            address.nl_groups = READERS;
            let length = size_of_val(&address) as u32;
            check(libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                length,
            ))?;
            Ok(Self(socket))
        }
    }

    /// Those that come until one has this in it. `None`: none comes.
    fn until(&self, part: &str) -> Option<String> {
        let mut all = String::new();
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            let mut buffer = [0_u8; 9216];
            // SAFETY: the kernel writes no more than there is room for.
            let length = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let Ok(length) = usize::try_from(length) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let text = String::from_utf8_lossy(&buffer[..length]);
            all.push_str(&text);
            if text.contains(part) {
                return Some(all);
            }
        }
        None
    }
}

/// Denies itself reading, and fails to read this file: its process.
fn denied_by_a_domain_of_its_own(path: &str) -> i32 {
    let path = std::ffi::CString::new(path).expect("no NUL");
    // LANDLOCK_ACCESS_FS_READ_FILE.
    let handled = 1_u64 << 2;
    // SAFETY: after the fork the child makes system calls on what was made before, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let ruleset = libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const handled,
                8_usize,
                0,
            );
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let applied = libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0);
            let opened = libc::open(path.as_ptr(), libc::O_RDONLY);
            libc::_exit(i32::from(applied != 0 || opened >= 0));
        }
        let mut status = 0;
        check(libc::waitpid(child, &raw mut status, 0)).expect("own child");
        assert_eq!(status, 0, "the control is denied");
        child
    }
}

/// The control: whether what some domain denies is seen by this process, with its own number for the one that made it.
fn are_seen(scene: &Scene) -> bool {
    let file = scene.file("control", "");
    let seen = Records::new().is_ok_and(|records| {
        let pid = denied_by_a_domain_of_its_own(&file);
        records.until(&format!(" pid={pid} ")).is_some()
    });
    eprintln!("records are seen here: {seen}");
    assert!(
        seen || std::env::var_os("OARBANK_AUDIT").is_none(),
        "this guest is there to see them"
    );
    seen
}

/// As [`are_seen`]; says that the test is skipped if not.
fn are_seen_or_skipped(scene: &Scene) -> bool {
    let seen = are_seen(scene);
    if !seen {
        skip("what Landlock denies is not seen here");
    }
    seen
}

/// A file outside of every policy.
fn secret(scene: &Scene, name: &str) -> String {
    scene.file(name, "secret")
}

/// What is told of accesses: rights, path and the fields that grant them.
fn accesses(explained: &Explained) -> Vec<[String; 3]> {
    let told = |line: &&str| {
        let grants = line.split_once("\"grants\":[").expect("a list").1;
        let grants = grants.split_once(']').expect("its end").0;
        [
            field(line, "rights"),
            field(line, "path"),
            grants.to_owned(),
        ]
    };
    explained.events("access").iter().map(told).collect()
}

#[test]
fn denied_files_are_told_or_why_they_are_not() {
    as_root(|scene| {
        let seen = are_seen(scene);
        let (file, place) = (secret(scene, "secret"), scene.dir("place"));
        let victim = scene.file("place/victim", "");
        let program = scene.program("program", scene.probe().as_ref());
        let own = scene.dir("own");
        let steps = [
            format!("read {file}"),
            format!("read {file}"),
            format!("replace {file}"),
            format!("execute {program}"),
            format!("list {place}"),
            format!("mkdir {place}/new"),
            format!("unlink {victim}"),
            format!("mkfifo {place}/fifo"),
            format!("rename {victim} {own}/victim"),
        ];
        let policy = scene.policy().rw(&own);
        let explained = explain(scene, &policy, &steps.join(" then "));
        assert!(
            !explained.outcome.success().contains("ok"),
            "{:?}",
            explained.outcome
        );
        let files = explained.events("files");
        if !seen {
            let [line] = files[..] else {
                panic!("{:?}", explained.lines);
            };
            assert_eq!(field(line, "seen"), "false");
            let why = match landlock_abi() {
                ..7 => "ABI 7 (Linux 6.15)",
                _ => "audit",
            };
            assert!(field(line, "reason").contains(why), "{line}");
            assert_eq!(
                (accesses(&explained), explained.sum("accesses")),
                (Vec::new(), 0)
            );
            return;
        }
        assert!(files.is_empty(), "{files:?}");
        let told = accesses(&explained);
        for (rights, path, grants) in [
            ("fs.read_file", &file, r#""rd","ro","rw""#),
            ("fs.write_file", &file, r#""wo","rw""#),
            (
                "fs.execute,fs.read_file",
                &program,
                r#""ro","rw with exec_rw""#,
            ),
            ("fs.read_dir", &place, r#""rd","ro","rw""#),
            ("fs.make_dir", &place, r#""wo","rw""#),
            ("fs.remove_file", &place, r#""rw""#),
            ("fs.make_fifo", &place, r#""rw""#),
        ] {
            let line = [rights, path, grants].map(str::to_owned);
            assert!(told.contains(&line), "{line:?} is not in {told:#?}");
        }
        let first = explained.events("access")[0];
        let again = explained.events("again");
        let twice = again
            .iter()
            .find(|line| field(line, "id") == field(first, "id"));
        assert_eq!(field(twice.expect("a count"), "count"), "2");
        assert_eq!(explained.sum("lost_records"), 0);

        // In words, on standard error.
        let trial = Trial::new(scene, None).options(&["--explain-denials"]);
        let outcome = trial.run(&policy, &scene.probe_argv(&steps[0])).run();
        let err = String::from_utf8(outcome.err).expect("UTF-8");
        let line = format!(". fs.read_file on \"{file}\"; rd or ro or rw would grant it\n");
        assert!(err.contains(&line), "{err}");
    });
}

#[test]
fn denied_connections_signals_and_names_are_told() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) || !egress_is_here() {
            return;
        }
        let policy = scene.policy().proxy(9);
        let own = std::process::id();
        let steps = format!(
            "sys socket 2 1 0 then sys connect $ in:127.0.0.1:10 len then sys bind $0 in:127.0.0.1:11 len then sys kill {own} 0"
        );
        let explained = explain(scene, &policy, &steps);
        let lines = explained.events("access");
        let told = |rights: &str| {
            let line = lines.iter().find(|line| field(line, "rights") == rights);
            *line.unwrap_or_else(|| panic!("no {rights} in {lines:#?}"))
        };
        let line = told("net.connect_tcp");
        assert_eq!(field(line, "port"), "10");
        assert!(line.contains("\"grants\":[\"proxy_port\"]"), "{line}");
        let line = told("net.bind_tcp");
        assert_eq!(field(line, "port"), "11");
        assert!(line.contains("\"grants\":[]"), "{line}");
        let line = told("scope.signal");
        assert_eq!(field(line, "pid"), own.to_string());
        assert!(line.contains("\"grants\":[]"), "{line}");
    });
}

#[test]
fn only_what_its_own_module_was_denied_is_told() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let (one, other) = (secret(scene, "one"), secret(scene, "other"));
        // Both at the same time, and a domain that is no module's.
        let run = |path: &str, name: &str| {
            let log = scene.path(name);
            let option = format!("--explain-denials={log}");
            let trial = Trial::new(scene, None).options(&[&option, "--json"]);
            let script = "for i in 1 2 3 4 5 6 7 8 9; do \"$0\" read \"$1\"; done";
            let argv = ["/bin/sh", "-c", script, scene.probe(), path];
            (trial.run(&scene.policy(), &argv).start(), log)
        };
        let runs = [run(&one, "one.log"), run(&other, "other.log")];
        denied_by_a_domain_of_its_own(&secret(scene, "third"));
        let texts = runs.map(|(running, log)| {
            assert_eq!(running.finish().success(), "EACCES\n".repeat(9));
            fs::read_to_string(log).expect("UTF-8")
        });
        for (text, own) in texts.iter().zip([&one, &other]) {
            let lines = || text.lines().filter(|line| line.contains("\"access\""));
            let secrets = lines().filter(|line| line.contains("fs.read_file"));
            assert!(
                secrets.clone().all(|line| field(line, "path") == *own),
                "{text}"
            );
            assert_eq!(secrets.count(), 1, "{text}");
        }
    });
}

#[test]
fn a_module_that_confines_itself_further_is_told_what_this_sandbox_denies() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let (file, place) = (secret(scene, "secret"), scene.dir("place"));
        let steps = format!(
            "sys landlock_create_ruleset u64:4 8 0 then sys 446 $ 0 then read {file} then list {place}"
        );
        let explained = explain(scene, &scene.policy(), &steps);
        let answers = explained.outcome.success();
        assert!(answers.ends_with("ok 0\nEACCES\nEACCES\n"), "{answers}");
        let told = accesses(&explained);
        assert!(told.iter().any(|[_, path, _]| *path == place), "{told:?}");
        // What its own domain denied, the younger one, is not the sandbox's to tell.
        assert!(!told.iter().any(|[_, path, _]| *path == file), "{told:?}");
    });
}

#[test]
fn long_paths_are_told_whole_and_apart() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let long = "x".repeat(200);
        for letter in ["x", " "] {
            let place = format!("{letter}{long}/{long}");
            scene.dir(&place);
            let paths = ["one", "other"].map(|end| secret(scene, &format!("{place}/{long}{end}")));
            let script = "for file; do (: <\"$file\"); done 2>/dev/null";
            let argv = ["/bin/sh", "-c", script, "sh", &paths[0], &paths[1]];
            let explained = Explained::of(&Trial::new(scene, None), &Policy::new(), &argv);
            let told = accesses(&explained);
            for path in &paths {
                let lines = told.iter().filter(|[_, told, _]| told == path);
                assert_eq!(lines.count(), 1, "{path}: {told:#?}");
            }
        }
    });
}

#[test]
fn what_cannot_be_read_is_not_logged_and_said_so() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let records = Records::new().expect("they are seen");
        let (file, end) = (secret(scene, "unlogged"), secret(scene, "end"));
        // Without the option, and with it for a user.
        let steps = format!("read {file}");
        let argv = scene.probe_argv(&steps);
        let trial = Trial::new(scene, None);
        let outcome = trial.run(&scene.policy(), &argv).run();
        assert_eq!(outcome.success(), "EACCES\n");
        let user = Scene::new(support::Who::NOBODY);
        let his = secret(&user, "unlogged");
        let explained = explain(&user, &user.policy(), &format!("read {his}"));
        let files = explained.events("files");
        assert_eq!(field(files[0], "seen"), "false");
        assert!(files[0].contains("takes CAP_AUDIT_READ"), "{files:?}");
        assert_eq!(accesses(&explained), [[""; 3]; 0]);
        denied_by_a_domain_of_its_own(&end);
        let seen = records.until(&end).expect("the end");
        assert!(!seen.contains("unlogged"), "{seen}");
    });
}

#[test]
fn a_path_that_a_terminal_acts_on_is_made_harmless() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let file = secret(scene, "odd\u{1b}[2J\" \u{9b}é");
        let script = "read line <\"$0\"";
        let argv = ["/bin/sh", "-c", script, &file];
        let trial = Trial::new(scene, None);
        let explained = Explained::of(&trial, &Policy::new(), &argv);
        let line = explained
            .lines
            .iter()
            .find(|line| line.contains("/odd"))
            .expect("a line");
        assert!(line.contains("/odd\\u001B[2J\\\" \u{fffd}é\""), "{line}");
        let trial = Trial::new(scene, None).options(&["--explain-denials"]);
        let outcome = trial.run(&Policy::new(), &argv).run();
        let err = String::from_utf8(outcome.err).expect("UTF-8");
        assert!(err.contains("/odd\\u{1b}[2J\\\" \\u{9b}é\""), "{err:?}");
    });
}

#[test]
fn a_flood_of_denied_files_is_counted_or_said_to_be_lost() {
    as_root(|scene| {
        if !are_seen_or_skipped(scene) {
            return;
        }
        let file = secret(scene, "flooded");
        let script =
            "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); true <\"$0\"; done 2>/dev/null; echo $i";
        let argv = ["/bin/sh", "-c", script, &file];
        let trial = Trial::new(scene, None);
        let explained = Explained::of(&trial, &Policy::new(), &argv);
        assert_eq!(explained.outcome.success(), "2000\n");
        // The kernel has counted what it could not hand over.
        let all = explained.sum("accesses") + explained.sum("lost_records");
        let of_the_file = accesses(&explained);
        let lines = of_the_file.iter().filter(|[_, path, _]| *path == file);
        assert_eq!(lines.count(), 1, "{of_the_file:?}");
        assert!((2000..=2100).contains(&all), "{:?}", explained.lines.last());
    });
}
