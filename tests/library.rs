//! The library in an agent of its own: a program with the standard library, an allocator and threads.

mod support;

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use oarbank_agent::error::{Exit, Step};
use oarbank_agent::launch::{Memory, Sandbox};
use oarbank_agent::supervise::cgroup::{Base, Leaf, Limits};
use oarbank_agent::supervise::module::{Command, Module, Room};
use oarbank_agent::supervise::verify::confinement;
use oarbank_agent::sys::Errno;
use oarbank_agent::sys::args::{Pointer, Vector};
use oarbank_agent::sys::spawn::End;

use support::{
    Cgroup, Policy, TempDir, Who, check, members, parent, processes_with, skip, state, wait_for,
};

/// One test at a time: they count the descriptors and children of the process that they share.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn sandbox(policy: &Policy) -> Sandbox {
    static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());
    let mut memory = MEMORY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    Sandbox::parse(policy.json().as_bytes(), &mut memory).expect("a policy for this kernel")
}

fn null() -> OwnedFd {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("a device")
        .into()
}

/// Starts a module; `Err`: the message, the step, the exit code and the error number.
fn start(
    sandbox: &Sandbox,
    argv: &[&str],
    environment: &[&str],
    standard: [i32; 3],
    leaf: Option<&Leaf>,
) -> Result<Module, (String, Step, Exit, Option<Errno>)> {
    let strings = |words: &[&str]| -> Vec<CString> {
        words
            .iter()
            .map(|&word| CString::new(word).expect("no NUL"))
            .collect()
    };
    let (argv, environment) = (strings(argv), strings(environment));
    let argv: Vec<&CStr> = argv.iter().map(CString::as_c_str).collect();
    let environment: Vec<&CStr> = environment.iter().map(CString::as_c_str).collect();
    let (mut one, mut two) = ([Pointer::NULL; 16], [Pointer::NULL; 16]);
    let command = Command {
        program: argv[0],
        argv: Vector::of(&argv, &mut one).expect("room"),
        environment: Vector::of(&environment, &mut two).expect("room"),
        standard,
        leaf,
    };
    Module::start(sandbox, command, &mut Room::new()).map_err(|error| {
        (
            error.to_string(),
            error.step,
            error.exit,
            error.cause.errno(),
        )
    })
}

/// A shell script; what it said, and how it ended.
fn say(sandbox: &Sandbox, script: &str, environment: &[&str]) -> (String, End) {
    output(sandbox, &["/bin/sh", "-c", script], environment)
}

/// A program with nothing to read and its output in a pipe; what it said, and how it ended.
fn output(sandbox: &Sandbox, argv: &[&str], environment: &[&str]) -> (String, End) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let null = null();
    let standard = [null.as_raw_fd(), writer.as_raw_fd(), null.as_raw_fd()];
    let module = start(sandbox, argv, environment, standard, None);
    let module = module.expect("it starts");
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    (text, module.wait().expect("own child"))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a list").count()
}

/// Asks for the end of any child: there is none.
fn no_child_is_left() {
    // SAFETY: no status is asked for.
    let waited = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    let error = std::io::Error::last_os_error().raw_os_error();
    assert_eq!((waited, error), (-1, Some(libc::ECHILD)));
}

#[test]
fn one_sandbox_starts_many_modules_from_many_threads() {
    let _alone = alone();
    let sandbox = sandbox(&Policy::new());
    let before = descriptors();
    let done = AtomicBool::new(false);
    let shared = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        // They hold the allocator's and this lock at any time.
        for _ in 0..2 {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let bytes: Vec<u8> = vec![1; 100_000];
                    shared.lock().expect("no panic").push(bytes[9]);
                    shared.lock().expect("no panic").clear();
                }
            });
        }
        let starters: Vec<_> = (0..8)
            .map(|thread| {
                let sandbox = &sandbox;
                threads.spawn(move || {
                    for number in 0..15 {
                        let script = format!(
                            "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; exit {}",
                            thread * 15 + number
                        );
                        let (said, end) = say(sandbox, &script, &[]);
                        assert_eq!(said, "NoNewPrivs:\t1\nSeccomp:\t2\n");
                        assert_eq!(end, End::Code(thread * 15 + number));
                    }
                })
            })
            .collect();
        for starter in starters {
            starter.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(descriptors(), before);
    no_child_is_left();
}

#[test]
fn errors_are_values_and_leave_nothing() {
    let _alone = alone();
    let wrong = |json: &str| {
        static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());
        let mut memory = MEMORY
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let Err(error) = Sandbox::parse(json.as_bytes(), &mut memory) else {
            panic!("{json} is fine");
        };
        (error.step, error.cause.errno(), error.to_string())
    };
    assert_eq!(wrong("{").0, Step::Policy);
    let (step, errno, text) = wrong("{\"rw\": [\"/nowhere\"]}");
    assert_eq!((step, errno), (Step::Landlock, Some(Errno::NOENT)));
    assert!(text.contains("rw[0] \"/nowhere\""), "{text}");
    // The same memory again.
    wrong("[]");

    let sandbox = sandbox(&Policy::new());
    let null = null();
    let before = descriptors();
    let standard = [null.as_raw_fd(); 3];
    let fails = |program: &str, environment: &[&str], standard| {
        let Err(error) = start(&sandbox, &[program], environment, standard, None) else {
            panic!("{program} started");
        };
        error
    };
    let (text, step, exit, errno) = fails("/nowhere/a\nb", &[], standard);
    assert_eq!(
        (step, exit, errno),
        (Step::Exec, Exit::Exec, Some(Errno::NOENT))
    );
    assert!(text.contains("\"/nowhere/a\\nb\""), "{text}");
    let long = format!("/nowhere/{}", "x".repeat(3000));
    let (text, ..) = fails(&long, &[], standard);
    assert!(text.contains(&long), "{text}");
    let (_, step, exit, errno) = fails("/bin/true", &["OARBANK_X=fd:900"], standard);
    assert_eq!(
        (step, exit, errno),
        (Step::Descriptors, Exit::Refused, Some(Errno::BADF))
    );
    let (_, step, _, errno) = fails("/bin/true", &[], [null.as_raw_fd(), 901, 902]);
    assert_eq!((step, errno), (Step::Spawn, Some(Errno::BADF)));
    assert_eq!(descriptors(), before);
    no_child_is_left();
}

#[test]
fn standard_descriptors_may_be_given_in_any_order() {
    let _alone = alone();
    let sandbox = sandbox(&Policy::new());
    let script = "read word; echo out $word; echo err $word >&2";
    let temp = TempDir::new();
    let file = temp.path().join("in");
    fs::write(&file, "word\n").expect("own folder");
    // The three numbers of the process itself, exchanged: as high ones they are given one by one.
    let (mut out, out_end) = std::io::pipe().expect("a pipe");
    let (mut err, err_end) = std::io::pipe().expect("a pipe");
    let input = File::open(&file).expect("own file");
    let standard = [input.as_raw_fd(), out_end.as_raw_fd(), err_end.as_raw_fd()];
    let module =
        start(&sandbox, &["/bin/sh", "-c", script], &[], standard, None).expect("it starts");
    drop((out_end, err_end));
    let (mut said, mut wrong) = (String::new(), String::new());
    out.read_to_string(&mut said).expect("text");
    err.read_to_string(&mut wrong).expect("text");
    assert_eq!((&*said, &*wrong), ("out word\n", "err word\n"));
    assert_eq!(module.wait().expect("own child"), End::Code(0));
    // One that is itself a standard number, for another.
    let module = start(
        &sandbox,
        &["/bin/sh", "-c", "[ /proc/self/fd/0 -ef /proc/self/fd/1 ]"],
        &[],
        [2, 2, 1],
        None,
    );
    assert_eq!(
        module.expect("it starts").wait().expect("own child"),
        End::Code(0)
    );
}

#[test]
fn descriptors_environment_and_mask_are_those_that_were_asked_for() {
    let _alone = alone();
    let sandbox = sandbox(&Policy::new());
    let (_kept, other) = std::io::pipe().expect("a pipe");
    let leaked = null();
    // SAFETY: makes copies that the exec does not close by themselves, closed below.
    let [open, named] = [leaked.as_raw_fd(), other.as_raw_fd()].map(|fd| unsafe { libc::dup(fd) });
    let (mut told, tell) = std::io::pipe().expect("a pipe");
    let variables = [
        format!("OARBANK_X=fd:{named}"),
        format!("OARBANK_CONFINED={}", tell.as_raw_fd()),
        "A=b c".to_owned(),
    ];
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    let script = format!(
        "echo $A $OARBANK_X ${{OARBANK_CONFINED-none}}; for n in {open} {named} {}; do [ -e /proc/$$/fd/$n ] && echo $n; done; cut -d' ' -f1,5,6 /proc/$$/stat",
        tell.as_raw_fd()
    );
    let (said, end) = say(&sandbox, &script, &variables);
    // SAFETY: the sets live in this frame; the mask is put back.
    let (mask, _) = unsafe {
        let (mut set, mut before) = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        let answer = output(&sandbox, &["/bin/grep", "SigBlk", "/proc/self/status"], &[]);
        let mut after: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, &raw mut after);
        assert_eq!(libc::sigismember(&after, libc::SIGUSR1), 1);
        assert_eq!(
            libc::sigismember(&after, libc::SIGTERM),
            libc::sigismember(&before, libc::SIGTERM)
        );
        answer
    };
    assert_eq!(end, End::Code(0));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..2],
        [&format!("b c fd:{named} none"), &named.to_string()],
        "{said}"
    );
    assert_eq!(mask, "SigBlk:\t0000000000000200\n");
    let ids: Vec<&str> = lines[2].split(' ').collect();
    assert!(
        ids[0] == ids[1] && ids[1] == ids[2],
        "a group and a session of its own: {said}"
    );
    drop(tell);
    let mut byte = Vec::new();
    told.read_to_end(&mut byte).expect("a pipe");
    assert_eq!(byte, b"1");
    for fd in [open, named] {
        // SAFETY: own descriptors, not used any more.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

#[test]
fn a_module_outlives_the_thread_that_started_it() {
    let _alone = alone();
    let sandbox = sandbox(&Policy::new());
    let null = null();
    let standard = [null.as_raw_fd(); 3];
    let module = std::thread::scope(|threads| {
        threads
            .spawn(|| {
                start(&sandbox, &["/bin/sleep", "1000"], &[], standard, None).expect("it starts")
            })
            .join()
            .expect("no panic")
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(parent(module.pid()).is_some(), "{:?}", state(module.pid()));
    let confined = confinement(module.pid()).expect("it lives");
    assert!(
        confined.holds()
            && confined.filters
                > confinement(std::process::id() as i32)
                    .expect("own process")
                    .filters
    );
    module.signal(libc::SIGTERM as u32).expect("it lives");
    assert_eq!(module.wait().expect("own child"), End::Signal(15));
}

#[test]
fn a_process_of_the_standard_library_enters() {
    let _alone = alone();
    let temp = TempDir::new();
    let work = temp.path().to_str().expect("text");
    let sandbox = &sandbox(&Policy::new().rw(work));
    let kept = File::open("/etc/passwd").expect("a file");
    let number = kept.as_raw_fd();
    let run = |script: &str, confine: bool| {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", script, work]);
        // SAFETY: system calls and nothing else; the references live until the child has been started.
        unsafe {
            let sandbox: &'static Sandbox = std::mem::transmute(sandbox);
            command.pre_exec(move || {
                check(libc::fcntl(number, libc::F_SETFD, 0))?;
                if confine {
                    sandbox.enter_keeping(&[number]).map_err(|error| {
                        std::io::Error::from_raw_os_error(
                            error
                                .cause
                                .errno()
                                .map_or(libc::EINVAL, Errno::raw_os_error),
                        )
                    })?;
                }
                Ok(())
            });
        }
        command.output()
    };
    let script = format!(
        "grep Seccomp: /proc/self/status; [ -e /proc/$$/fd/{number} ] && echo kept; echo > $0/inside && echo in; (echo > $0.outside) 2>/dev/null && echo out; exit 0"
    );
    let text = |confine| {
        String::from_utf8(run(&script, confine).expect("it starts").stdout).expect("text")
    };
    assert!(
        text(false).ends_with("kept\nin\nout\n"),
        "the control: {}",
        text(false)
    );
    fs::remove_file(format!("{work}.outside")).expect("the control made it");
    assert_eq!(text(true), "Seccomp:\t2\nkept\nin\n");
    // What can't be kept is an error of the start.
    let directory = File::open("/").expect("a directory");
    // SAFETY: replaces an own descriptor by a directory.
    check(unsafe { libc::dup2(directory.as_raw_fd(), number) }).expect("a copy");
    let error = run("exit 0", true).expect_err("a directory can't be kept");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_leaf_kills_freezes_and_counts() {
    let _alone = alone();
    let Some(home) = Cgroup::new(Who::current()) else {
        return;
    };
    let temp = TempDir::new();
    let work = temp.path().to_str().expect("text");
    let count = format!("{work}/count");
    let sandbox = sandbox(&Policy::new().rw(work));
    let path = CString::new(home.path()).expect("no NUL");
    let base = Base::at(&path).expect("a cgroup");
    let Err(error) = Base::at(c"/tmp") else {
        panic!("/tmp is none");
    };
    assert_eq!((error.step, error.cause.errno()), (Step::Cgroup, None));
    let leaf = base.leaf(&Limits::default()).expect("own cgroup");
    let here = Path::new(std::str::from_utf8(leaf.path()).expect("text")).to_owned();
    assert_eq!(home.leaves(), std::slice::from_ref(&here));
    let null = null();
    let standard = [null.as_raw_fd(); 3];
    let script = "(setsid sleep 1000 &); while :; do echo >> $0/count; sleep 0.01; done";
    let module = start(
        &sandbox,
        &["/bin/sh", "-c", script, work],
        &["PATH=/usr/bin:/bin"],
        standard,
        Some(&leaf),
    )
    .expect("it starts");
    wait_for("the two, and the sleep of the loop", || {
        members(&here).len() >= 2 && fs::exists(&count).expect("a path")
    });
    assert!(members(&here).contains(&module.pid()));
    let length = || fs::metadata(&count).expect("it is written").len();
    let grows = || {
        let before = length();
        (0..40).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            length() > before
        })
    };
    leaf.freeze(true).expect("own leaf");
    wait_for("it is frozen", || !grows());
    leaf.freeze(false).expect("own leaf");
    wait_for("it is thawed", grows);
    // A second launch sweeps, but not what is in use.
    let other = base.leaf(&Limits::default()).expect("own cgroup");
    assert!(parent(module.pid()).is_some());
    other.remove().expect("an empty leaf");
    leaf.kill().expect("own leaf");
    assert_eq!(module.wait().expect("own child"), End::Signal(9));
    wait_for("all of it is gone", || members(&here).is_empty());
    assert!(leaf.usage().expect("own leaf").cpu_usec > 0);
    leaf.remove().expect("an empty leaf");
    assert_eq!(home.leaves(), [] as [std::path::PathBuf; 0]);
    let there = fs::read_to_string(format!("{}/cgroup.controllers", home.path())).expect("a file");
    if there.contains("memory") {
        return skip("the memory controller is here");
    }
    let limits = Limits {
        memory: Some(1 << 20),
        ..Limits::default()
    };
    let Err(error) = base.leaf(&limits) else {
        panic!("there is no memory controller");
    };
    assert_eq!(error.step, Step::Cgroup);
    assert!(
        error.to_string().contains("has no memory controller"),
        "{error}"
    );
    assert_eq!(home.leaves(), [] as [std::path::PathBuf; 0]);
}

/// Marks the program below, and the copies of it that have not become a module.
const STARTER: &str = "TEST_STARTER";

/// Starts modules from many threads at once, for ever.
#[test]
#[ignore = "a program that another test runs and kills"]
fn starter() {
    if std::env::var(STARTER).is_err() {
        return;
    }
    let sandbox = sandbox(&Policy::new());
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                loop {
                    let module = start(&sandbox, &["/bin/true"], &[], [1, 1, 2], None);
                    module.expect("it starts").wait().expect("own child");
                }
            });
        }
    });
}

#[test]
fn a_killed_agent_leaves_no_process_that_waits_for_it() {
    let _alone = alone();
    let own = std::env::current_exe().expect("own path");
    for number in 0..20 {
        let mark = format!("{}-{number}", std::process::id());
        let mut agent = std::process::Command::new(&own)
            .args(["--exact", "starter", "--ignored"])
            .env(STARTER, &mark)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("own program");
        // Each copy holds the pipes of those that are being started beside it.
        wait_for("it starts modules", || {
            processes_with(STARTER, &mark).len() > 2
        });
        agent.kill().expect("own child");
        agent.wait().expect("own child");
        wait_for("no copy of it is left", || {
            processes_with(STARTER, &mark).is_empty()
        });
    }
}
