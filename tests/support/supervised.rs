//! `sandbox-run` in a place where everything that it leaves behind is seen.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::run::check;
use super::{Policy, Run, Scene, Who, as_each, is_emulated, skip};

/// Where a run is told to write its status.
pub(crate) const STATUS: i32 = 600;

/// What marks the processes of one run: every descendant inherits it.
const MARK: &str = "TEST_MARK";

/// Waits until something holds; far longer than that takes on a machine that is busy.
#[track_caller]
pub(crate) fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    // Sleep costs nothing in the emulator, and looking does.
    let pause = Duration::from_millis(if is_emulated() { 25 } else { 5 });
    while !holds() {
        assert!(Instant::now() < end, "waited for: {what}");
        std::thread::sleep(pause);
    }
}

/// Counts up, so that names differ.
fn next() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A cgroup that is delegated to a user, beneath this process's own. Removed when dropped, with all that is in it.
pub(crate) struct Cgroup {
    path: PathBuf,
    /// Its `cgroup.procs`, open: whoever has it may join, also a user who may not leave the cgroup that he is in.
    procs: OwnedFd,
}

impl Cgroup {
    /// `None`, and says that something is skipped: no cgroup v2 here, or none that this process may write to.
    pub(crate) fn new(who: Who) -> Option<Self> {
        let made = Self::make(who);
        if let Err(error) = &made {
            skip(&format!("no cgroup v2 of our own: {error}"));
        }
        made.ok()
    }

    /// One whose leaves can have these controllers. `None`, and says that something is skipped: there is none here.
    pub(crate) fn with(who: Who, controllers: &[&str]) -> Option<Self> {
        let made = Self::new(who)?;
        let there = fs::read_to_string(made.path.join("cgroup.controllers")).unwrap_or_default();
        let missing = controllers
            .iter()
            .find(|name| !there.split_whitespace().any(|one| one == **name));
        if let Some(name) = missing {
            skip(&format!("no cgroup with the {name} controller"));
            return None;
        }
        Some(made)
    }

    /// One in this, which has no controllers for it.
    pub(crate) fn inner(&self, who: Who) -> Self {
        Self::make_in(&self.path, who).expect("this one is ours")
    }

    fn make(who: Who) -> std::io::Result<Self> {
        let missing = || std::io::Error::other("no hierarchy is mounted");
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mount = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| fields[2] == "cgroup2")
            .ok_or_else(missing)?[1];
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        Self::make_in(&Path::new(mount).join(own.ok_or_else(missing)?), who)
    }

    fn make_in(parent: &Path, who: Who) -> std::io::Result<Self> {
        let path = parent.join(format!("test-{}-{}", std::process::id(), next()));
        fs::create_dir(&path)?;
        if who != Who::current() {
            for name in ["", "cgroup.procs", "cgroup.subtree_control"] {
                chown(path.join(name), Some(who.0), Some(who.0))?;
            }
        }
        let procs = File::options()
            .write(true)
            .open(path.join("cgroup.procs"))?;
        Ok(Self {
            path,
            procs: procs.into(),
        })
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("text")
    }

    /// The cgroups in it.
    pub(crate) fn children(&self) -> Vec<PathBuf> {
        children(&self.path)
    }

    /// The leaves of modules in it.
    pub(crate) fn leaves(&self) -> Vec<PathBuf> {
        let mut leaves = self.children();
        leaves.retain(|path| path.file_name().expect("a name") != "oarbank-caller");
        leaves
    }

    /// The leaf for callers, which is made at the first limit.
    pub(crate) fn caller(&self) -> PathBuf {
        self.path.join("oarbank-caller")
    }

    /// Makes the program start in it, or in its leaf for callers: with a limit set, that is where whoever starts modules is.
    pub(crate) fn join(&self, run: Run) -> Run {
        let caller = File::options()
            .write(true)
            .open(self.caller().join("cgroup.procs"));
        let procs = self.procs.as_raw_fd();
        run.with(move || {
            let procs = caller.as_ref().map_or(procs, |caller| caller.as_raw_fd());
            // SAFETY: writes one byte to a descriptor that is kept open; safe after fork.
            check(unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) } as i32)
        })
    }
}

/// The cgroups in one.
fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// The processes in a cgroup.
pub(crate) fn members(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            for child in children(&self.path) {
                let _ = fs::remove_dir(child);
            }
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::io::stderr().write_all(format!("left: {}\n", self.path()).as_bytes());
    }
}

/// One run, in one kind of container.
pub(crate) struct Trial<'a> {
    pub(crate) scene: &'a Scene,
    /// Where its leaf is; `None`: it has none.
    pub(crate) cgroup: Option<&'a Cgroup>,
    mark: String,
    status: String,
    options: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(scene: &'a Scene, cgroup: Option<&'a Cgroup>) -> Self {
        let number = next();
        let place = cgroup.map_or("none", Cgroup::path);
        Self {
            scene,
            cgroup,
            mark: format!("{}-{number}", std::process::id()),
            status: scene.file(&format!("status-{number}"), ""),
            options: vec!["--cgroup".to_owned(), place.to_owned()],
        }
    }

    /// With other options in front.
    pub(crate) fn options(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|&word| word.to_owned()));
        self
    }

    /// Another run of the same kind.
    pub(crate) fn again(&self) -> Self {
        let mut trial = Self::new(self.scene, self.cgroup);
        trial.options.clone_from(&self.options);
        trial
    }

    /// The words before the module's own.
    pub(crate) fn words(&self, policy: &Policy) -> Vec<String> {
        let mut words = vec!["sandbox-run".to_owned(), format!("--status-fd={STATUS}")];
        words.extend(self.options.iter().cloned());
        words.extend([self.scene.policy_file(policy.json()), "--".to_owned()]);
        words
    }

    /// The module under `sandbox-run`.
    pub(crate) fn run(&self, policy: &Policy, argv: &[&str]) -> Run {
        let words = self.words(policy);
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .chain(argv.iter().copied())
            .collect();
        self.supervised(self.scene.launcher(&words))
    }

    /// A shell script as the module, with write access to one directory, which is its `$0`.
    pub(crate) fn script(&self, script: &str, work: &str) -> Run {
        self.run(&Policy::new().rw(work), &["/bin/sh", "-c", script, work])
    }

    /// What starts `sandbox-run`, with what it is given in a trial.
    pub(crate) fn supervised(&self, run: Run) -> Run {
        let status = File::options().append(true).open(&self.status);
        let run = self.marked(run.fd(STATUS, status.expect("own file")));
        match self.cgroup {
            Some(cgroup) => cgroup.join(run),
            None => run,
        }
    }

    /// Any program, to be seen among the survivors.
    pub(crate) fn marked(&self, run: Run) -> Run {
        run.env(MARK, &self.mark)
    }

    /// The status, one event a line.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.status).expect("own file");
        text.lines().map(str::to_owned).collect()
    }

    /// The event of that name.
    pub(crate) fn event(&self, name: &str) -> Option<String> {
        let start = format!("{{\"event\":\"{name}\",");
        self.events()
            .into_iter()
            .find(|line| line.starts_with(&start))
    }

    /// The field of an event that must have come.
    #[track_caller]
    pub(crate) fn field(&self, event: &str, name: &str) -> String {
        let line = self.event(event);
        let line = line.unwrap_or_else(|| panic!("no {event} in {:?}", self.events()));
        field(&line, name)
    }

    /// The module's process, once it was seen to be confined.
    #[track_caller]
    pub(crate) fn module(&self) -> i32 {
        wait_for("the module is verified", || {
            self.event("verified").is_some()
        });
        self.field("verified", "pid").parse().expect("a pid")
    }

    /// The process that watches over the module.
    #[track_caller]
    pub(crate) fn keeper(&self) -> i32 {
        parent(self.module()).expect("the module lives")
    }

    /// Everything that lives, or is a zombie of somebody who lives, and has come of this trial.
    pub(crate) fn survivors(&self) -> Vec<i32> {
        processes_with(MARK, &self.mark)
    }

    /// Ends what nobody else does.
    pub(crate) fn kill_survivors(&self) {
        for pid in self.survivors() {
            // SAFETY: takes numbers; this process has the mark of this trial.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    /// Nothing is left of it.
    #[track_caller]
    pub(crate) fn is_gone(&self) {
        assert_eq!(
            self.survivors(),
            [] as [i32; 0],
            "survivors: {:?}",
            self.events()
        );
        if let Some(cgroup) = self.cgroup {
            assert_eq!(cgroup.leaves(), [] as [PathBuf; 0], "leaves");
        }
    }

    /// The same, of something that takes a while.
    #[track_caller]
    pub(crate) fn will_be_gone(&self) {
        wait_for("all of it is gone", || self.survivors().is_empty());
        if let Some(cgroup) = self.cgroup {
            wait_for("its leaf is gone", || cgroup.leaves().is_empty());
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.kill_survivors();
        }
    }
}

/// The test in both kinds of containers, as root and as a user.
pub(crate) fn in_each_container(test: impl Fn(&Trial<'_>)) {
    as_each(|scene| {
        eprintln!("without a cgroup");
        test(&Trial::new(scene, None));
        if let Some(cgroup) = Cgroup::new(scene.who) {
            eprintln!("with a cgroup");
            test(&Trial::new(scene, Some(&cgroup)));
        }
    });
}

/// A file that is there and not empty.
pub(crate) fn written(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// The first field of a name in what `--status-fd` was told.
#[track_caller]
pub(crate) fn field(status: &str, name: &str) -> String {
    let start = format!("\"{name}\":");
    let at = status
        .find(&start)
        .unwrap_or_else(|| panic!("no {name} in {status}"))
        + start.len();
    let rest = &status[at..];
    let end = match rest.strip_prefix('"') {
        // Up to the quote that no backslash stands before.
        Some(text) => {
            2 + text
                .match_indices('"')
                .find(|(at, _)| !text[..*at].ends_with('\\'))
                .expect("an end")
                .0
        }
        None => rest.find([',', '}']).expect("an end"),
    };
    rest[..end].trim_matches('"').to_owned()
}

/// Every process.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("a list").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Every process with this variable in its environment.
pub(crate) fn processes_with(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}").into_bytes();
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == wanted)
    };
    processes().into_iter().filter(has).collect()
}

/// State and parent of a process.
pub(crate) fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The parent of a process that lives.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    state(pid)
        .filter(|(state, _)| *state != 'Z')
        .map(|(_, parent)| parent)
}
