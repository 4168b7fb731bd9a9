//! A place for a test to happen, for one user.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::run::{check, kill_group};
use super::{Outcome, Policy, Run, TempDir, is_emulated, skip};

/// The user that a program runs as: user and group of one number, no other groups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who(pub(crate) u32);

impl Who {
    pub(crate) const ROOT: Self = Self(0);
    pub(crate) const NOBODY: Self = Self(65534);

    pub(crate) fn is_root(self) -> bool {
        self == Self::ROOT
    }

    /// The user of the test itself.
    pub(crate) fn current() -> Self {
        // SAFETY: asks for a number.
        Self(unsafe { libc::geteuid() })
    }

    /// A user who is not root: that of the test itself, if it can choose no other.
    pub(crate) fn unprivileged() -> Self {
        if Self::current().is_root() {
            Self::NOBODY
        } else {
            Self::current()
        }
    }

    /// Turns the child into this user.
    pub(crate) fn become_in(self, run: &mut Run) {
        if self == Self::current() {
            return;
        }
        // SAFETY: three calls that are safe after fork, the groups first while that is still allowed.
        run.before(move || unsafe {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(self.0, self.0, self.0))?;
            check(libc::setresuid(self.0, self.0, self.0))
        });
    }
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "uid {}", self.0)
    }
}

/// The test, as root and as an unprivileged user.
pub(crate) fn as_each(test: impl Fn(&Scene)) {
    as_root(&test);
    test(&Scene::new(Who::unprivileged()));
}

/// The test as root alone.
pub(crate) fn as_root(test: impl Fn(&Scene)) {
    if Who::current().is_root() {
        test(&Scene::new(Who::ROOT));
    } else {
        skip("the part as root needs root");
    }
}

/// A directory of the test's own with the launcher and the probe in it.
///
/// Both are copies: the repository may be unreadable to the unprivileged user.
pub(crate) struct Scene {
    pub(crate) who: Who,
    temp: TempDir,
    agent: String,
    probe: String,
    policies: AtomicU32,
}

impl Scene {
    pub(crate) fn new(who: Who) -> Self {
        // Shown when the test fails.
        eprintln!("as {who}");
        let temp = TempDir::new();
        let mut scene = Self {
            who,
            temp,
            agent: String::new(),
            probe: String::new(),
            policies: AtomicU32::new(0),
        };
        fs::create_dir(scene.path("bin")).expect("a new directory");
        scene.agent = scene.copy(
            "bin/oarbank-agent",
            env!("CARGO_BIN_EXE_oarbank-agent").as_ref(),
        );
        scene.probe = scene.copy("bin/probe", &probe_path());
        scene
    }

    /// The path of something in the scene's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.temp
            .path()
            .join(name)
            .into_os_string()
            .into_string()
            .expect("text")
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    pub(crate) fn probe(&self) -> &str {
        &self.probe
    }

    /// A directory of the user's, with those above it.
    pub(crate) fn dir(&self, name: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        self.give(&path);
        path
    }

    /// A file of the user's.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, contents).unwrap_or_else(|error| panic!("{path}: {error}"));
        self.give(&path);
        path
    }

    /// A symbolic link.
    pub(crate) fn symlink(&self, target: &str, name: &str) -> String {
        let path = self.path(name);
        std::os::unix::fs::symlink(target, &path).unwrap_or_else(|error| panic!("{path}: {error}"));
        path
    }

    /// A FIFO of the scene's user, which may be there already.
    pub(crate) fn fifo(&self, name: &str) -> String {
        let path = self.path(name);
        let text = CString::new(path.as_str()).expect("no zero byte");
        // SAFETY: the path ends in a zero byte.
        let _ = unsafe { libc::mkfifo(text.as_ptr(), 0o600) };
        self.give(&path);
        path
    }

    /// An executable copy, made by another process: a descriptor of ours that is open for writing
    /// could be inherited by a child of another test, and the exec would fail with ETXTBSY.
    pub(crate) fn program(&self, name: &str, from: &Path) -> String {
        let path = self.path(name);
        let made = Command::new("cp").arg(from).arg(&path).status();
        assert!(made.expect("cp").success(), "cp {} {path}", from.display());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
        self.give(&path);
        path
    }

    /// As [`Scene::program`], of one that nobody changes: by a second name of the same file where that can be, because an
    /// emulator keeps what it has made of a file's pages.
    fn copy(&self, name: &str, from: &Path) -> String {
        let path = self.path(name);
        if is_emulated() && fs::hard_link(from, &path).is_ok() {
            return path;
        }
        self.program(name, from)
    }

    /// An executable script.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let source = self.file("script-source", text);
        self.program(name, Path::new(&source))
    }

    /// Makes the user the owner.
    pub(crate) fn give(&self, path: &str) {
        if self.who != Who::current() {
            std::os::unix::fs::lchown(path, Some(self.who.0), Some(self.who.0)).expect("root may");
        }
    }

    /// A policy that lets the probe run.
    pub(crate) fn policy(&self) -> Policy {
        Policy::new().exe(&self.probe)
    }

    /// Writes a policy file, whatever it holds.
    pub(crate) fn policy_file(&self, contents: impl AsRef<[u8]>) -> String {
        let number = self.policies.fetch_add(1, Ordering::Relaxed);
        self.file(&format!("policy-{number}.json"), contents)
    }

    /// A program as the user, without the launcher.
    pub(crate) fn plain(&self, argv: &[&str]) -> Run {
        self.ready(Run::new(argv, &self.path("")))
    }

    /// The launcher as the user, with these arguments.
    pub(crate) fn launcher(&self, arguments: &[&str]) -> Run {
        self.plain(&[&[self.agent.as_str()], arguments].concat())
    }

    /// A program as the user, in the sandbox.
    pub(crate) fn confined(&self, policy: &Policy, argv: &[&str]) -> Run {
        let file = self.policy_file(policy.json());
        self.launcher(&[&["sandbox-exec", &file, "--"], argv].concat())
    }

    fn ready(&self, mut run: Run) -> Run {
        self.who.become_in(&mut run);
        run
    }

    /// The probe's steps without the launcher.
    #[track_caller]
    pub(crate) fn outside(&self, steps: &str) -> Vec<String> {
        lines(&self.plain(&self.probe_argv(steps)).run())
    }

    /// The probe's steps in the sandbox.
    #[track_caller]
    pub(crate) fn inside(&self, policy: &Policy, steps: &str) -> Vec<String> {
        lines(&self.confined(policy, &self.probe_argv(steps)).run())
    }

    /// The arguments that make the probe do the steps.
    pub(crate) fn probe_argv<'a>(&'a self, steps: &'a str) -> Vec<&'a str> {
        std::iter::once(self.probe.as_str())
            .chain(steps.split_whitespace())
            .collect()
    }

    /// All of these in one process in the sandbox, each of one or more steps, which must end so: the
    /// pattern is that of [`assert_lines`].
    #[track_caller]
    pub(crate) fn each_inside(&self, policy: &Policy, each: &[impl AsRef<str>], pattern: &str) {
        let each: Vec<&str> = each.iter().map(AsRef::as_ref).collect();
        let lines = self.inside(policy, &each.join(" then "));
        assert_each(&lines, &each, pattern, &format!("{}, inside: ", self.who));
    }

    /// The same without the launcher.
    #[track_caller]
    pub(crate) fn each_outside(&self, each: &[impl AsRef<str>], pattern: &str) {
        let each: Vec<&str> = each.iter().map(AsRef::as_ref).collect();
        let lines = self.outside(&each.join(" then "));
        assert_each(&lines, &each, pattern, &format!("{}, outside: ", self.who));
    }

    /// All of these in one process without the launcher and in another in the sandbox: where no step bears on the next, this
    /// says the same as [`Scene::contrast`] of each.
    #[track_caller]
    pub(crate) fn contrast_each(
        &self,
        policy: &Policy,
        each: &[impl AsRef<str>],
        outside: &str,
        inside: &str,
    ) {
        self.each_outside(each, outside);
        self.each_inside(policy, each, inside);
    }

    /// All of these work without the launcher; in the sandbox the last step of each is refused so.
    #[track_caller]
    pub(crate) fn denied_each(&self, policy: &Policy, each: &[impl AsRef<str>], error: &str) {
        self.contrast_each(policy, each, "ok", error);
    }

    /// The steps end one way without the launcher and another way in the sandbox.
    /// The patterns are those of [`assert_lines`].
    #[track_caller]
    pub(crate) fn contrast(&self, policy: &Policy, steps: &str, outside: &str, inside: &str) {
        self.contrast_each(policy, &[steps], outside, inside);
    }

    /// The steps work in the sandbox, to the last.
    #[track_caller]
    pub(crate) fn works(&self, policy: &Policy, steps: &str) {
        self.each_inside(policy, &[steps], "ok");
    }

    /// The steps work without the launcher; in the sandbox the last is refused so.
    #[track_caller]
    pub(crate) fn denied(&self, policy: &Policy, steps: &str, error: &str) {
        self.denied_each(policy, &[steps], error);
    }

    /// A process of the user's that runs beside the test and ends with it.
    pub(crate) fn process(&self, argv: &[&str]) -> Process {
        let mut run = self.plain(argv);
        run.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Process(
            run.command
                .spawn()
                .unwrap_or_else(|error| panic!("{argv:?}: {error}")),
        )
    }
}

/// Killed when dropped, with its group.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// False once it ended, though nobody has waited for it.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("own child");
        !stat.rsplit(')').next().expect("a state").starts_with(" Z")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.wait();
    }
}

/// Cargo builds the examples beside the tests.
fn probe_path() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps/TEST");
    let probe = profile.join("examples/probe");
    assert!(
        probe.is_file(),
        "{}: built by `cargo test` without a selection, or by `cargo build --example probe`",
        probe.display()
    );
    probe
}

#[track_caller]
fn lines(outcome: &Outcome) -> Vec<String> {
    outcome.success().lines().map(str::to_owned).collect()
}

/// Holds the lines of one process against the pattern of each.
#[track_caller]
fn assert_each(lines: &[String], each: &[&str], pattern: &str, what: &str) {
    let mut rest = lines;
    for steps in each {
        let (own, others) = rest
            .split_at_checked(steps.split(" then ").count())
            .unwrap_or_else(|| panic!("{what}{steps}: {rest:?} is too little"));
        assert_lines(own, pattern, &format!("{what}{steps}"));
        rest = others;
    }
    assert!(rest.is_empty(), "{what}{rest:?} is too much");
}

/// Holds lines of the probe against patterns, one a line, separated by spaces. `ok` stands for any
/// value, `ok=5` for one; `A|B` for either; `!A` for all but A. Lines before those with a pattern
/// must be `ok`.
#[track_caller]
pub(crate) fn assert_lines(lines: &[String], patterns: &str, what: &str) {
    let patterns: Vec<&str> = patterns.split_whitespace().collect();
    assert!(
        lines.len() >= patterns.len(),
        "{what}: {lines:?} is not {patterns:?}"
    );
    let free = lines.len() - patterns.len();
    let expected = std::iter::repeat_n("ok", free).chain(patterns.iter().copied());
    for (line, pattern) in lines.iter().zip(expected) {
        assert!(fits(line, pattern), "{what}: {lines:?} is not {patterns:?}");
    }
}

fn fits(line: &str, pattern: &str) -> bool {
    if let Some(refused) = pattern.strip_prefix('!') {
        return !fits(line, refused);
    }
    pattern.split('|').any(|one| match one.strip_prefix("ok=") {
        Some(value) => line.strip_prefix("ok ") == Some(value),
        None => line == one || (one == "ok" && line.starts_with("ok ")),
    })
}
