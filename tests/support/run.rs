//! One program run to its end, as some user.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Far above what any test needs, far below what a caller waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a program is run; [`Run::run`] does it.
pub(crate) struct Run {
    pub(crate) command: Command,
    input: Vec<u8>,
    /// Kept open until the child has been started.
    given: Vec<OwnedFd>,
    /// What the child does before the program starts.
    steps: Vec<Arc<Step>>,
    /// Whether `sandbox-check` can foresee the end.
    foreseeable: bool,
}

type Step = dyn Fn() -> io::Result<()> + Send + Sync;

impl Run {
    /// The program with a small environment, in `/`, without a terminal, in a session of its own.
    pub(crate) fn new(argv: &[impl AsRef<OsStr>], home: &str) -> Self {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir("/").env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home)
            .env("LC_ALL", "C.UTF-8");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut run = Self {
            command,
            input: Vec::new(),
            given: Vec::new(),
            steps: Vec::new(),
            foreseeable: true,
        };
        // SAFETY: one call that is safe after fork.
        run.before(|| check(unsafe { libc::setsid() }));
        run
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn cwd(mut self, directory: &str) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// What the program reads from its standard input.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Done in the child before the program starts, in the order given; only calls that are safe
    /// after fork.
    pub(crate) fn before(&mut self, step: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        let step: Arc<Step> = Arc::new(step);
        self.steps.push(Arc::clone(&step));
        // SAFETY: every caller in these tests makes single system calls that are safe after fork.
        unsafe { self.command.pre_exec(move || step()) };
    }

    /// Runs in a root directory of its own, which takes root; the working directory is the top one then.
    pub(crate) fn in_root(self, root: &str) -> Self {
        let root = CString::new(root).expect("no NUL");
        // SAFETY: two calls that are safe after fork; the name ends in a zero byte.
        self.with(move || unsafe {
            super::check(libc::chroot(root.as_ptr()))?;
            super::check(libc::chdir(c"/".as_ptr()))
        })
    }

    /// [`Run::before`] as a part of a chain.
    pub(crate) fn with(
        mut self,
        step: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.before(step);
        self
    }

    /// Gives the program this descriptor under that number. The number should be high (500 and
    /// more): the standard library uses low ones between fork and exec.
    pub(crate) fn fd(mut self, number: i32, descriptor: impl Into<OwnedFd>) -> Self {
        let descriptor = descriptor.into();
        // A number out of the way of those that are asked for.
        // SAFETY: copies an own descriptor; the copy is owned by what is returned.
        let moved = unsafe {
            let moved = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 700);
            check(moved).expect("a free descriptor");
            OwnedFd::from_raw_fd(moved)
        };
        let source = moved.as_raw_fd();
        // SAFETY: dup2 is safe after fork.
        self.before(move || check(unsafe { libc::dup2(source, number) }));
        self.given.push(moved);
        self
    }

    /// `sandbox-check` can't foresee how this ends: a limit leaves less room for it, or the world changes in between.
    pub(crate) fn unforeseeable(mut self) -> Self {
        self.foreseeable = false;
        self
    }

    /// The same by `sandbox-check`, if it is a `sandbox-exec`.
    fn checked(&self) -> Option<Self> {
        let arguments: Vec<&OsStr> = self.command.get_args().collect();
        let first = arguments.first().copied();
        // An emulator has no time for it.
        if super::is_emulated() || !self.foreseeable || first != Some(OsStr::new("sandbox-exec")) {
            return None;
        }
        let mut twin = Self::new(&[self.command.get_program()], "/");
        twin.command.arg("sandbox-check").args(&arguments[1..]);
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => twin.command.env(name, value),
                None => twin.command.env_remove(name),
            };
        }
        if let Some(directory) = self.command.get_current_dir() {
            twin.command.current_dir(directory);
        }
        // The first is that of `new`.
        for step in self.steps.iter().skip(1) {
            let step = Arc::clone(step);
            twin.before(move || step());
        }
        Some(twin)
    }

    /// Starts it and waits for its end; whatever it leaves behind is killed. For a launch `sandbox-check` must have said
    /// how it would end.
    pub(crate) fn run(self) -> Outcome {
        let checked = self.checked().map(Self::run_alone);
        let outcome = self.run_alone();
        if let Some(checked) = checked {
            outcome.agrees_with(&checked);
        }
        outcome
    }

    /// Without a thread: an emulator starts thousands of programs.
    fn run_alone(self) -> Outcome {
        let (mut running, mut talk) = self.spawn();
        let in_time = talk.go_on(Some(&running.process), after(TIMEOUT));
        let status = running.end(in_time);
        let heard = talk.go_on(None, after(TIMEOUT));
        running.outcome(status, heard.then_some(talk.said))
    }

    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let (mut running, mut talk) = self.spawn();
        let (tell, told) = mpsc::channel();
        running.said = Some(told);
        thread::spawn(move || {
            talk.go_on(None, None);
            // Nobody waits for the output of a test that has failed.
            let _ = tell.send(talk.said);
        });
        running
    }

    fn spawn(mut self) -> (Running, Talk) {
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let output = |pipe: OwnedFd| Some(File::from(pipe));
        let talk = Talk {
            input: child.stdin.take().filter(|_| !self.input.is_empty()),
            bytes: self.input,
            given: 0,
            outputs: [
                output(child.stdout.take().expect("piped").into()),
                output(child.stderr.take().expect("piped").into()),
            ],
            said: Said::default(),
        };
        // SAFETY: the child is an own one that was not waited for; the descriptor is owned here.
        let process = unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
            check(descriptor).expect("a descriptor of an own child");
            OwnedFd::from_raw_fd(descriptor)
        };
        let running = Running {
            child,
            process,
            name: format!("{:?}", self.command),
            said: None,
            is_over: false,
        };
        (running, talk)
    }
}

/// Its output and its errors.
type Said = [Vec<u8>; 2];

/// What a program is given and says.
struct Talk {
    input: Option<ChildStdin>,
    bytes: Vec<u8>,
    /// How many of the bytes.
    given: usize,
    /// `None` once nobody can write any more.
    outputs: [Option<File>; 2],
    said: Said,
}

impl Talk {
    /// Goes on until the process has ended, if one is meant, else until nobody can write any more; false when it takes too
    /// long.
    fn go_on(&mut self, process: Option<&OwnedFd>, end: Option<Instant>) -> bool {
        fn number(descriptor: Option<&impl AsRawFd>) -> i32 {
            // One that is negative is passed over.
            descriptor.map_or(-1, AsRawFd::as_raw_fd)
        }
        loop {
            let [out, err] = self.outputs.each_ref().map(|pipe| number(pipe.as_ref()));
            let (process, input) = (number(process), number(self.input.as_ref()));
            if [process, input, out, err] == [-1; 4] {
                return true;
            }
            let awaited = [
                (process, libc::POLLIN),
                (input, libc::POLLOUT),
                (out, libc::POLLIN),
                (err, libc::POLLIN),
            ];
            let Some([ended, takes, out, err]) = ready(awaited, end) else {
                return false;
            };
            if takes {
                self.give();
            }
            for (which, says) in [out, err].into_iter().enumerate() {
                if says {
                    self.hear(which);
                }
            }
            if ended {
                return true;
            }
        }
    }

    /// As much as never waits.
    fn give(&mut self) {
        let input = self.input.as_mut().expect("it is ready");
        let part = self.bytes[self.given..].chunks(libc::PIPE_BUF).next();
        // A program that doesn't read its input is fine.
        self.given += input
            .write(part.expect("some are left"))
            .unwrap_or(self.bytes.len());
        if self.given >= self.bytes.len() {
            self.input = None;
        }
    }

    fn hear(&mut self, which: usize) {
        let mut part = [0; 16 * 1024];
        let pipe = self.outputs[which].as_mut().expect("it is ready");
        match pipe.read(&mut part).expect("a pipe can be read") {
            0 => self.outputs[which] = None,
            length => self.said[which].extend_from_slice(&part[..length]),
        }
    }
}

fn after(time: Duration) -> Option<Instant> {
    Some(Instant::now() + time)
}

/// Waits until one of these descriptors is ready for its events, or its other end is gone; `None` when it takes too long.
fn ready<const N: usize>(awaited: [(i32, i16); N], end: Option<Instant>) -> Option<[bool; N]> {
    let mut polls = awaited.map(|(fd, events)| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    loop {
        let left = end.map_or(-1, |end| {
            end.saturating_duration_since(Instant::now()).as_millis() as i32
        });
        // SAFETY: an array of as many elements, which outlives the call.
        match unsafe { libc::poll(polls.as_mut_ptr(), N as u64, left) } {
            0 => return None,
            -1 => assert_eq!(
                io::Error::last_os_error().kind(),
                io::ErrorKind::Interrupted
            ),
            _ => return Some(polls.map(|poll| poll.revents != 0)),
        }
    }
}

/// A program that runs; killed when dropped, with its group.
pub(crate) struct Running {
    child: Child,
    process: OwnedFd,
    name: String,
    /// From who talks with it, if it is another thread.
    said: Option<Receiver<Said>>,
    /// Whether it was waited for.
    is_over: bool,
}

impl Running {
    pub(crate) fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child was not waited for, so the number is its own.
        check(unsafe { libc::kill(self.id(), signal) }).expect("own child");
    }

    /// Waits for its end; whatever it leaves behind in its group is killed.
    pub(crate) fn finish(mut self) -> Outcome {
        let process = (self.process.as_raw_fd(), libc::POLLIN);
        let in_time = ready([process], after(TIMEOUT)).is_some();
        let status = self.end(in_time);
        let said = self.said.as_ref().expect("it was started");
        let said = said.recv_timeout(TIMEOUT).ok();
        self.outcome(status, said)
    }

    fn end(&mut self, in_time: bool) -> ExitStatus {
        kill_group(&self.child);
        let status = self.child.wait().expect("own child");
        self.is_over = true;
        assert!(in_time, "did not end: {}", self.name);
        status
    }

    fn outcome(&self, status: ExitStatus, said: Option<Said>) -> Outcome {
        let Some([out, err]) = said else {
            panic!(
                "somebody it has started still holds its output: {}",
                self.name
            );
        };
        Outcome {
            code: status.code(),
            signal: status.signal(),
            out,
            err,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            kill_group(&self.child);
            let _ = self.child.wait();
        }
    }
}

/// Ends the child's process group, before the child is waited for and its number may be reused.
pub(super) fn kill_group(child: &Child) {
    // SAFETY: the child leads a group of its own (`setsid`) and was not waited for.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
}

/// The error of a call that returns -1.
pub(crate) fn check(returned: i32) -> io::Result<()> {
    if returned == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// How the program ended and what it wrote.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy;
        let (stdout, stderr) = (text(&self.out), text(&self.err));
        write!(
            out,
            "exit {:?}, signal {:?}\nout: {stdout}\nerr: {stderr}",
            self.code, self.signal
        )
    }
}

impl Outcome {
    /// Whether `sandbox-check` foresaw this end of a launch.
    fn agrees_with(&self, checked: &Outcome) {
        let is_launchers = self.out.is_empty()
            && self.err.starts_with(b"oarbank-agent: ")
            && matches!(self.code, Some(70 | 71));
        // Usage differs, nobody is told of a confinement that is only tried, and what can't be printed is an error.
        if self.code == Some(64)
            || self.err.starts_with(b"oarbank-agent: confined: ")
            || checked.err.starts_with(b"oarbank-agent: output: ")
        {
            return;
        }
        if is_launchers {
            assert_eq!(
                (checked.code, &checked.err),
                (self.code, &self.err),
                "{checked:?} {self:?}"
            );
        } else {
            assert_eq!(
                (checked.code, checked.err.as_slice()),
                (Some(0), &b""[..]),
                "{checked:?} {self:?}"
            );
        }
    }

    /// What it printed; it must have ended well.
    #[track_caller]
    pub(crate) fn success(&self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        String::from_utf8(self.out.clone()).expect("text")
    }

    /// The launcher refused: this exit code, nothing on standard output, and on standard error one
    /// line `oarbank-agent: STEP: ...` with all the parts.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, step: &str, parts: &[&str]) {
        let err = String::from_utf8_lossy(&self.err);
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        assert!(
            err.starts_with(&format!("oarbank-agent: {step}: ")),
            "step {step}: {self:?}"
        );
        assert!(
            err.ends_with('\n') && err.lines().count() == 1,
            "one line: {self:?}"
        );
        assert!(
            !err.trim_end().chars().any(char::is_control),
            "printable: {self:?}"
        );
        for part in parts {
            assert!(err.contains(part), "no {part:?} in: {self:?}");
        }
    }
}
