//! The cgroup v2 leaf of a module (`Documentation/admin-guide/cgroup-v2.rst`).
//!
//! Every module gets a leaf of its own: after `cgroup.kill`, some kernels kill whatever is born into the same leaf later.
//! Whoever watches over a leaf holds a lock on its directory; a leaf that nobody holds was left behind, and is swept.

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::ops::ControlFlow;

use heapless::{String, Vec};

use crate::error::{Cause, Error, Step, Subject};
use crate::limits::PATH_MAX;
use crate::lines;
use crate::sys::fs::{self, OFlags};
use crate::sys::signal::{self, Signals};
use crate::sys::{Errno, OwnedFd, process};

/// The cgroup into which a caller moves so that its own can have controllers: one with children that have them may
/// hold no process.
const CALLER: &CStr = c"oarbank-caller";

/// What the name of a leaf starts with; the pid of who made it and a count follow.
const LEAF: &str = "oarbank-";

/// What a message calls the cgroup of this process.
const OWN: &str = "this process's cgroup";

/// Why there is no leaf.
const UNIFIED: &str = "no cgroup v2 hierarchy with this process is mounted: see findmnt -t cgroup2, or use --cgroup none without limits";

/// The limits of a container. `None`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processor time in microseconds per [`CPU_PERIOD`] (`cpu.max`), 1,000 at least.
    pub cpu: Option<u64>,
    /// Memory in bytes (`memory.max`); there is no swap then (`memory.swap.max`).
    pub memory: Option<u64>,
    /// Processes and threads (`pids.max`).
    pub pids: Option<u64>,
}

/// The period of `cpu.max`, in microseconds.
pub const CPU_PERIOD: u64 = 100_000;

impl Limits {
    /// Whether there is any.
    pub const fn any(&self) -> bool {
        self.cpu.is_some() || self.memory.is_some() || self.pids.is_some()
    }

    /// The controllers that the limits need, by name.
    fn controllers(&self) -> impl Iterator<Item = &'static str> {
        let asked = [
            (self.cpu.is_some(), "cpu"),
            (self.memory.is_some(), "memory"),
            (self.pids.is_some(), "pids"),
        ];
        asked
            .into_iter()
            .filter(|(asked, _)| *asked)
            .map(|(_, controller)| controller)
    }
}

/// What a container has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, in microseconds.
    pub cpu_usec: u64,
    /// The most memory at a time, in bytes; `None` without the memory controller.
    pub memory_peak: Option<u64>,
    /// Whether the kernel killed a process of it for want of memory.
    pub oom: bool,
}

/// A path with its NUL.
type Path = Vec<u8, PATH_MAX>;

/// The cgroup in which leaves are made.
pub struct Base {
    directory: OwnedFd,
    path: Path,
}

fn failed(subject: &str, errno: Errno) -> Error<'_> {
    Error::call(Step::Cgroup, subject, errno)
}

fn missing(reason: &'static str) -> Error<'static> {
    Error::refused(
        Step::Cgroup,
        Subject::Name("/proc/self/cgroup"),
        Cause::Reason(reason),
    )
}

impl Base {
    /// This process's own cgroup, or the one around it if it was moved into a leaf for callers.
    pub fn of_this_process() -> Result<Self, Error<'static>> {
        let mut path = own_path()?;
        if let Some(length) = before_caller(&path) {
            path.truncate(length);
            path.push(0).map_err(|_| missing(UNIFIED))?;
        }
        let base = Base::open(path)
            .map_err(|cause| Error::refused(Step::Cgroup, Subject::Name(OWN), cause))?;
        // Who is born in a leaf goes through the file of the cgroup around it (`cgroups(7)`, delegation).
        fs::open_at(&base.directory, c"cgroup.procs", OFlags::WRONLY)
            .map_err(|errno| failed("cgroup.procs of this process's cgroup", errno))?;
        Ok(base)
    }

    /// A cgroup that the caller names.
    pub fn at(path: &CStr) -> Result<Self, Error<'_>> {
        Vec::from_slice(path.to_bytes_with_nul())
            .map_err(|_| Cause::Errno(Errno::NAMETOOLONG))
            .and_then(Base::open)
            .map_err(|cause| Error::refused(Step::Cgroup, Subject::Text(path.to_bytes()), cause))
    }

    fn open(path: Path) -> Result<Self, Cause<'static>> {
        let directory = fs::open_directory(fs::CWD, as_path(&path)).map_err(Cause::Errno)?;
        if fs::is_cgroup2(&directory).map_err(Cause::Errno)? {
            Ok(Base { directory, path })
        } else {
            Err(Cause::Reason(
                "not a cgroup of version 2: name a directory below one that findmnt -t cgroup2 tells",
            ))
        }
    }

    fn path(&self) -> &[u8] {
        self.path.strip_suffix(b"\0").unwrap_or(&self.path)
    }

    fn refused(&self, cause: Cause<'static>) -> Error<'_> {
        Error::refused(Step::Cgroup, Subject::Text(self.path()), cause)
    }

    /// Makes a leaf with limits, after it has removed those that others have left behind.
    pub fn leaf(&self, limits: &Limits) -> Result<Leaf, Error<'_>> {
        self.sweep();
        self.enable(limits)?;
        let leaf = self.make()?;
        match leaf.set(limits) {
            Ok(()) => Ok(leaf),
            Err(error) => {
                // Nothing was in it.
                let _ = leaf.remove();
                Err(error)
            }
        }
    }

    /// Sees to it that leaves have the controllers that the limits need.
    fn enable(&self, limits: &Limits) -> Result<(), Error<'_>> {
        let mut buffer = [0; 512];
        let has = |text: &[u8], controller: &str| {
            text.split(|byte| byte.is_ascii_whitespace())
                .any(|word| word == controller.as_bytes())
        };
        let mut order: String<32> = String::new();
        let enabled = self.read(c"cgroup.subtree_control", &mut buffer)?;
        for controller in limits.controllers().filter(|name| !has(enabled, name)) {
            // Three short words.
            let _ = write!(order, "+{controller} ");
        }
        if order.is_empty() {
            return Ok(());
        }
        let available = self.controllers(&mut buffer)?;
        for controller in limits.controllers() {
            if !has(available, controller) {
                return Err(self.refused(Cause::Reason(match controller {
                    "cpu" => "has no cpu controller, which a cpu limit needs: see cgroup.subtree_control of the cgroup above",
                    "memory" => {
                        "has no memory controller, which a memory limit needs: see cgroup.subtree_control of the cgroup above"
                    }
                    _ => "has no pids controller, which a pids limit needs: see cgroup.subtree_control of the cgroup above",
                })));
            }
        }
        // With a process in it the kernel refuses memory, but takes cpu and pids and makes leaves that nothing can be born in
        // ("domain invalid"). The root alone, which has no type, may have both.
        let is_root = fs::open_at(&self.directory, c"cgroup.type", OFlags::RDONLY).is_err();
        if !is_root {
            if self.is_own()? {
                self.move_caller()?;
            }
            let processes = self.read(c"cgroup.procs", &mut buffer);
            if !processes.is_ok_and(<[u8]>::is_empty) {
                return Err(self.refused(Cause::Explained(
                    Errno::BUSY,
                    "can't have controllers for children while processes are in it: move them to a cgroup of their own",
                )));
            }
        }
        fs::write_file(&self.directory, c"cgroup.subtree_control", order.as_bytes())
            .map_err(|errno| self.refused(Cause::Errno(errno)))
    }

    /// The controllers that its leaves could have, separated by spaces.
    pub fn controllers<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Error<'_>> {
        self.read(c"cgroup.controllers", buffer)
    }

    fn read<'b>(&self, name: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Error<'_>> {
        fs::read_file(&self.directory, name, buffer)
            .map_err(|errno| self.refused(Cause::Errno(errno)))
    }

    /// Whether this process is in this cgroup.
    fn is_own(&self) -> Result<bool, Error<'_>> {
        let refused = |errno| self.refused(Cause::Errno(errno));
        let own = fs::stat_path(as_path(&own_path()?)).map_err(refused)?;
        let base = fs::stat(&self.directory).map_err(refused)?;
        Ok((own.st_dev, own.st_ino) == (base.st_dev, base.st_ino))
    }

    /// Moves this process out of the way.
    fn move_caller(&self) -> Result<(), Error<'_>> {
        let base = &self.directory;
        let moved = match fs::make_directory(base, CALLER) {
            Err(Errno::EXIST) => Ok(()),
            made => made.and_then(|()| fs::set_mode(base, CALLER)),
        }
        .and_then(|()| fs::open_directory(base, CALLER))
        .and_then(|caller| fs::write_file(&caller, c"cgroup.procs", b"0"));
        moved.map_err(|errno| {
            self.refused(Cause::Explained(
                errno,
                "can't move the caller into a leaf of its own: is this cgroup delegated (Delegate=yes)?",
            ))
        })
    }

    /// Makes an empty leaf that nobody else has.
    fn make(&self) -> Result<Leaf, Error<'_>> {
        let refused = |errno| self.refused(Cause::Errno(errno));
        for count in 0..u32::MAX {
            let mut name: String<40> = String::new();
            // The prefix, two numbers of ten digits, a dash and a NUL.
            let _ = write!(name, "{LEAF}{}-{count}\0", process::id());
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
            match fs::make_directory(&self.directory, name) {
                Err(Errno::EXIST) => continue,
                made => made.map_err(refused)?,
            }
            match self.take(name) {
                // A sweep has come by: then the next name.
                Ok(None) => {}
                Ok(Some(leaf)) => return Ok(leaf),
                Err(errno) => {
                    let _ = fs::remove_directory(&self.directory, name);
                    return Err(refused(errno));
                }
            }
        }
        Err(refused(Errno::AGAIN))
    }

    /// Takes the leaf that this process has just made. `None`: a sweep was faster.
    fn take(&self, name: &CStr) -> Result<Option<Leaf>, Errno> {
        let gone = |errno| matches!(errno, Errno::NOENT | Errno::NODEV);
        let taken = fs::set_mode(&self.directory, name)
            .and_then(|()| fs::open_directory(&self.directory, name))
            .and_then(|directory| Ok((fs::try_lock(&directory)?, directory)));
        let directory = match taken {
            Ok((true, directory)) => directory,
            Ok((false, _)) => return Ok(None),
            Err(errno) if gone(errno) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        // Locked; but was it removed before that?
        match fs::open_at(&directory, c"cgroup.procs", OFlags::RDONLY) {
            Err(errno) if gone(errno) => return Ok(None),
            opened => opened.map(drop)?,
        }
        let mut path = self.path.clone();
        path.pop();
        path.push(b'/').map_err(|_| Errno::NAMETOOLONG)?;
        path.extend_from_slice(name.to_bytes_with_nul())
            .map_err(|_| Errno::NAMETOOLONG)?;
        Ok(Some(Leaf { directory, path }))
    }

    /// Removes the leaves whose watchers have died, with all that is in them. What can't be removed (others may own
    /// it) stays: it confines nobody and keeps nothing from this launch.
    fn sweep(&self) {
        let base = &self.directory;
        let _ = fs::for_each_entry(base, c".", |name| {
            let number = name.to_bytes().strip_prefix(LEAF.as_bytes());
            if number.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
                && let Ok(directory) = fs::open_directory(base, name)
                && fs::try_lock(&directory) == Ok(true)
                && fs::write_file(&directory, c"cgroup.kill", b"1").is_ok()
            {
                let _ = remove(|| fs::remove_directory(base, name));
            }
            Ok(())
        });
    }
}

/// Removes a cgroup whose processes have been killed: they may take a moment to be gone.
fn remove(rmdir: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    const TRIES: u32 = 200;
    const PAUSE: u64 = 1_000_000;
    for _ in 0..TRIES {
        match rmdir() {
            Err(Errno::BUSY) => signal::wait(Signals::of(&[]), Some(PAUSE))?,
            Err(Errno::NOENT) => return Ok(()),
            removed => return removed,
        };
    }
    Err(Errno::BUSY)
}

/// The leaf of one module. It is locked for as long as it, or a copy of it in a child, exists.
pub struct Leaf {
    directory: OwnedFd,
    path: Path,
}

impl Leaf {
    /// Where it is.
    pub fn path(&self) -> &[u8] {
        self.path.strip_suffix(b"\0").unwrap_or(&self.path)
    }

    /// The directory, to be born in.
    pub const fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    fn write(&self, name: &CStr, value: fmt::Arguments<'_>) -> Result<(), Errno> {
        let mut text: String<48> = String::new();
        text.write_fmt(value).map_err(|_| Errno::INVAL)?;
        fs::write_file(&self.directory, name, text.as_bytes())
    }

    fn set(&self, limits: &Limits) -> Result<(), Error<'static>> {
        if let Some(quota) = limits.cpu {
            self.write(c"cpu.max", format_args!("{quota} {CPU_PERIOD}"))
                .map_err(|errno| failed("cpu.max", errno))?;
        }
        if let Some(bytes) = limits.memory {
            match self.write(c"memory.swap.max", format_args!("0")) {
                // A kernel that can't swap has no such file, and no list of what it swaps to.
                Err(Errno::NOENT) if fs::stat_path(c"/proc/swaps").err() == Some(Errno::NOENT) => {}
                written => written.map_err(|errno| failed("memory.swap.max", errno))?,
            }
            self.write(c"memory.max", format_args!("{bytes}"))
                .map_err(|errno| failed("memory.max", errno))?;
        }
        if let Some(tasks) = limits.pids {
            self.write(c"pids.max", format_args!("{tasks}"))
                .map_err(|errno| failed("pids.max", errno))?;
        }
        Ok(())
    }

    /// Ends everything in it (`cgroup.kill`, Linux 5.14), also what is frozen.
    pub fn kill(&self) -> Result<(), Error<'static>> {
        self.write(c"cgroup.kill", format_args!("1"))
            .map_err(|errno| failed("cgroup.kill", errno))
    }

    /// Stops everything in it, or lets it go on (`cgroup.freeze`).
    pub fn freeze(&self, frozen: bool) -> Result<(), Error<'static>> {
        self.write(c"cgroup.freeze", format_args!("{}", u8::from(frozen)))
            .map_err(|errno| failed("cgroup.freeze", errno))
    }

    /// What was used in it.
    pub fn usage(&self) -> Result<Usage, Error<'static>> {
        let at = &self.directory;
        let optional = |read: Result<Option<u64>, Errno>| match read {
            Err(Errno::NOENT) => Ok(None),
            read => read,
        };
        let cpu = lines::number(at, c"cpu.stat", b"usage_usec");
        let killed = lines::number(at, c"memory.events", b"oom_kill");
        let peak = lines::find(at, c"memory.peak", &mut [0; 32], |line| {
            ControlFlow::Break(lines::decimal(line))
        });
        Ok(Usage {
            cpu_usec: cpu.map_err(|errno| failed("cpu.stat", errno))?.unwrap_or(0),
            memory_peak: optional(peak.map(Option::flatten))
                .map_err(|errno| failed("memory.peak", errno))?,
            oom: optional(killed)
                .map_err(|errno| failed("memory.events", errno))?
                .is_some_and(|count| count > 0),
        })
    }

    /// Removes it; nothing may live in it.
    pub fn remove(&self) -> Result<(), Error<'static>> {
        remove(|| fs::remove_path(as_path(&self.path)))
            .map_err(|errno| failed("rmdir of the leaf", errno))
    }
}

/// The length of the path of the cgroup around it, if `path` is that of a leaf for callers.
fn before_caller(path: &Path) -> Option<usize> {
    let rest = path.strip_suffix(CALLER.to_bytes_with_nul())?;
    rest.strip_suffix(b"/").map(<[u8]>::len)
}

fn as_path(path: &Path) -> &CStr {
    CStr::from_bytes_with_nul(path).unwrap_or(c"")
}

/// Where this process's cgroup is in the file system.
fn own_path() -> Result<Path, Error<'static>> {
    let mut buffer = [0; 2 * PATH_MAX];
    let own = lines::find(
        fs::CWD,
        c"/proc/self/cgroup",
        &mut buffer,
        |line| match line.strip_prefix(b"0::") {
            Some(path) => ControlFlow::Break(Path::from_slice(path)),
            None => ControlFlow::Continue(()),
        },
    )
    .map_err(|errno| failed("/proc/self/cgroup", errno))?
    .and_then(Result::ok)
    .ok_or(missing(UNIFIED))?;
    lines::find(
        fs::CWD,
        c"/proc/self/mountinfo",
        &mut buffer,
        |line| match beneath_mount(line, &own) {
            Some(path) => ControlFlow::Break(path),
            None => ControlFlow::Continue(()),
        },
    )
    .map_err(|errno| failed("/proc/self/mountinfo", errno))?
    .ok_or(missing(UNIFIED))
}

/// Where the cgroup `own` is beneath the mount of a line of `/proc/self/mountinfo`. `None`: nowhere, or the mount is none
/// of cgroup v2.
///
/// `36 35 98:0 ROOT MOUNTPOINT OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS` (`proc_pid_mountinfo(5)`).
fn beneath_mount(line: &[u8], own: &[u8]) -> Option<Path> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = unescape(fields.nth(3)?)?;
    let mut path = unescape(fields.next()?)?;
    fields.find(|&field| field == b"-")?;
    if fields.next()? != b"cgroup2" {
        return None;
    }
    let rest = own.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root))?;
    // "/a" is not above "/ab".
    if rest.first().is_some_and(|&byte| byte != b'/') {
        return None;
    }
    path.extend_from_slice(rest.strip_suffix(b"/").unwrap_or(rest))
        .ok()?;
    path.push(0).ok()?;
    Some(path)
}

/// A field of mountinfo: space, tab, newline and backslash are three octal digits there.
fn unescape(field: &[u8]) -> Option<Path> {
    let mut path = Path::new();
    let mut rest = field;
    while let [byte, after @ ..] = rest {
        rest = after;
        let byte = match (byte, after) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                rest = after;
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            _ => *byte,
        };
        path.push(byte).ok()?;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_for_callers_is_known_by_its_whole_name() {
        let length = |path: &[u8]| before_caller(&Path::from_slice(path).expect("it fits"));
        assert_eq!(length(b"/a/oarbank-caller\0"), Some(2));
        assert_eq!(length(b"/a/my-oarbank-caller\0"), None);
        assert_eq!(length(b"/a/oarbank-caller/b\0"), None);
    }

    #[test]
    fn the_own_cgroup_is_found_beneath_its_mount() {
        let found = |line: &str, own: &str| {
            let path = beneath_mount(line.as_bytes(), own.as_bytes())?;
            Some(std::string::String::from_utf8_lossy(path.strip_suffix(b"\0")?).into_owned())
        };
        let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        for (line, own, path) in [
            (unified, "/", Some("/sys/fs/cgroup/unified")),
            (unified, "/a/b", Some("/sys/fs/cgroup/unified/a/b")),
            (
                "41 31 0:38 / /a\\040b\\134 rw shared:1 master:2 - cgroup2 none rw",
                "/x",
                Some("/a b\\/x"),
            ),
            (
                "41 31 0:38 /a /mnt rw - cgroup2 none rw",
                "/a",
                Some("/mnt"),
            ),
            (
                "41 31 0:38 /a /mnt rw - cgroup2 none rw",
                "/a/b",
                Some("/mnt/b"),
            ),
            ("41 31 0:38 /a /mnt rw - cgroup2 none rw", "/ab", None),
            ("41 31 0:38 /a /mnt rw - cgroup2 none rw", "/", None),
            ("41 31 0:38 / /mnt rw - cgroup none rw,cpu", "/", None),
            ("41 31 0:38 / /mnt rw - tmpfs cgroup2 rw", "/", None),
            ("41 31 0:38 / /mnt rw", "/", None),
            ("", "/", None),
        ] {
            assert_eq!(found(line, own).as_deref(), path, "{line} {own}");
        }
    }
}
