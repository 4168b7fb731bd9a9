//! Opening, reading and describing files. Every descriptor made here is close-on-exec.

use core::ffi::CStr;
use core::fmt::{Arguments, Display, Write};

use heapless::{String, Vec};
use linux_raw_sys::general::{
    __NR_close, __NR_close_range, CGROUP2_SUPER_MAGIC, NAME_MAX, PATH_MAX, PROC_SUPER_MAGIC,
};
use rustix::event::EventfdFlags;
use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, FlockOperation, MemfdFlags, Mode, RawDir, ResolveFlags, SealFlags};
use rustix::io::{FdFlags, retry_on_intr};

pub use rustix::fs::{CWD, FileType, OFlags, Stat};

use super::arch::syscall;
use super::{AsFd, BorrowedFd, Errno, OwnedFd, result};

/// Of `include/uapi/linux/fcntl.h` (Linux 6.3), which rustix 1.1 lacks.
const F_SEAL_EXEC: u32 = 0x20;

/// Of `include/uapi/linux/close_range.h`, which linux-raw-sys 0.12 lacks.
const CLOSE_RANGE_CLOEXEC: usize = 1 << 2;

/// A path in `/proc` with a number in it.
pub struct ProcPath(String<40>);

impl ProcPath {
    /// "/proc/", ten digits, what is told of the process, and a NUL: at most 32 bytes.
    pub fn of_process(pid: impl Display, what: &str) -> Self {
        Self::new(format_args!("/proc/{pid}/{what}\0"))
    }

    /// Of what one of this process's descriptors is.
    pub fn of_descriptor(fd: impl AsFd) -> Self {
        Self::new(format_args!("/proc/self/fd/{}\0", fd.as_fd().as_raw_fd()))
    }

    fn new(text: Arguments<'_>) -> Self {
        let mut path = String::new();
        // There is room for any number.
        let _ = path.write_fmt(text);
        ProcPath(path)
    }

    /// For a call.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(self.0.as_bytes()).unwrap_or(c"")
    }
}

/// Opens a path as a location only (`O_PATH`), following no symbolic link anywhere. ELOOP: there is one.
pub fn open_location(path: &CStr) -> Result<OwnedFd, Errno> {
    locate(path, ResolveFlags::NO_SYMLINKS)
}

/// Opens a path as a location only (`O_PATH`), following symbolic links.
pub fn open_location_following(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens a path as a location only (`O_PATH`), following symbolic links that have a text. ELOOP: one is the kernel's
/// own (`/proc/PID/cwd`), whose text says less than where it leads.
pub fn open_location_without_magic(path: &CStr) -> Result<OwnedFd, Errno> {
    locate(path, ResolveFlags::NO_MAGICLINKS)
}

fn locate(path: &CStr, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)) {
        // Hidden by a filter that can't look at its arguments, as that of systemd's RestrictSUIDSGID= and DynamicUser=.
        Err(Errno::NOSYS) => walk(path, resolve == ResolveFlags::NO_MAGICLINKS),
        located => located,
    }
}

/// The same without `openat2`: component by component, each opened as what it is. Of links only those that have a text are
/// followed, if any are; those of the kernel's own are in procfs, below its top.
#[cold]
#[inline(never)]
fn walk(path: &CStr, follow: bool) -> Result<OwnedFd, Errno> {
    /// As many as the kernel follows (`MAXSYMLINKS`).
    const LINKS: u32 = 40;
    const LONG: Errno = Errno::NAMETOOLONG;
    let open = |at: BorrowedFd<'_>, name: &CStr| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::openat(at, name, flags, Mode::empty()))
    };
    let mut text = Vec::<u8, { PATH_MAX as usize }>::new();
    let mut link = [0; PATH_MAX as usize];
    text.extend_from_slice(path.to_bytes()).map_err(|_| LONG)?;
    let (mut at, mut rest, mut links) = (open(CWD, c"/")?, 0, 0);
    loop {
        let left = text.get(rest..).unwrap_or_default();
        let Some(start) = left.iter().position(|&byte| byte != b'/') else {
            return Ok(at);
        };
        let left = left.get(start..).unwrap_or_default();
        let length = left.iter().position(|&byte| byte == b'/');
        let length = length.unwrap_or(left.len());
        let mut name = [0; NAME_MAX as usize + 1];
        let of_name = name.get_mut(..length).ok_or(LONG)?;
        of_name.copy_from_slice(left.get(..length).unwrap_or_default());
        let next = open(
            at.as_fd(),
            CStr::from_bytes_until_nul(&name).map_err(|_| LONG)?,
        )?;
        rest += start + length;
        match file_type(&stat(&next)?) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                links += 1;
                let is_magic = || {
                    Ok::<bool, Errno>(
                        is_in(&at, PROC_SUPER_MAGIC)? && stat(&at)?.st_ino != PROC_TOP,
                    )
                };
                if !follow || links > LINKS || is_magic()? {
                    return Err(Errno::LOOP);
                }
                let length = rustix::fs::readlinkat_raw(&next, c"", &mut link[..])?;
                let target = link
                    .get(..length)
                    .filter(|target| target.len() < link.len());
                let target = target.ok_or(LONG)?;
                if target.first() == Some(&b'/') {
                    at = open(CWD, c"/")?;
                }
                // What is left starts with its slash, or is nothing.
                let left = text.len() - rest;
                text.copy_within(rest.., 0);
                text.truncate(left);
                text.extend_from_slice(target).map_err(|_| LONG)?;
                text.rotate_left(left);
                rest = 0;
            }
            _ if rest < text.len() => return Err(Errno::NOTDIR),
            _ => return Ok(next),
        }
    }
}

/// The inode of procfs's top directory (`PROC_ROOT_INO`).
const PROC_TOP: u64 = 1;

/// Whether a descriptor is in a file system of this kind (`fstatfs(2)`).
fn is_in(fd: impl AsFd, magic: u32) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(fd)?.f_type as u64 == u64::from(magic))
}

/// Opens a file for reading; neither a FIFO nor a terminal makes it wait or changes the caller's terminal.
pub fn open_for_reading(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// What the descriptor refers to.
pub fn stat(fd: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(fd)
}

/// What is at a path, also if that is a symbolic link.
pub fn stat_path(path: &CStr) -> Result<Stat, Errno> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// The type in a `Stat`.
pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Reads into `buffer`, once; 0 at the end of the file.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::read(fd.as_fd(), &mut *buffer))
}

/// Reads a part of a file into `buffer`, once.
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::pread(fd.as_fd(), &mut *buffer, offset))
}

/// Writes, once.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::write(fd.as_fd(), bytes))
}

/// Reads a symbolic link's text into `buffer`. EINVAL: not a link; ENAMETOOLONG: it fills the buffer.
pub fn read_link<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let size = buffer.len();
    let text = read_link_start(path, buffer)?;
    if text.len() == size {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(text)
    }
}

/// Reads as much of a symbolic link's text as `buffer` has room for. EINVAL: not a link.
pub fn read_link_start<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let length = rustix::fs::readlinkat_raw(CWD, path, &mut *buffer)?;
    Ok(&buffer[..length])
}

/// Calls `each` with the name of every entry of a directory.
pub fn for_each_entry(
    at: impl AsFd,
    path: &CStr,
    mut each: impl FnMut(&CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let directory = open_directory(at, path)?;
    let mut buffer = [core::mem::MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        each(entry?.file_name())?;
    }
    Ok(())
}

/// Opens a directory, to name what is in it, to list it, or to lock it.
pub fn open_directory(at: impl AsFd, path: &CStr) -> Result<OwnedFd, Errno> {
    open_at(at, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Reads a file of the kernel's (of /proc or a cgroup) into `buffer`, to its end. EFBIG: it does not fit.
pub fn read_file<'a>(at: impl AsFd, path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let file = open_at(at, path, OFlags::RDONLY)?;
    let mut length = 0;
    loop {
        let rest = buffer.get_mut(length..).unwrap_or_default();
        if rest.is_empty() {
            return Err(Errno::FBIG);
        }
        match read(&file, rest)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(buffer.get(..length).unwrap_or_default())
}

/// Writes `bytes` to a file of the kernel's in one call, as it asks for.
pub fn write_file(at: impl AsFd, path: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    let file = open_at(at, path, OFlags::WRONLY)?;
    match write(&file, bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}

/// Opens something; no terminal becomes the controlling one.
pub fn open_at(at: impl AsFd, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    retry_on_intr(|| rustix::fs::openat(&at, path, flags, Mode::empty()))
}

/// Opens a file to append to it, made for its owner alone if it is not there, following no symbolic link anywhere. Writing to
/// it does not wait for room. ENXIO: a FIFO without a reader.
pub fn open_log(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    let (mode, resolve) = (Mode::from_raw_mode(0o600), ResolveFlags::NO_SYMLINKS);
    retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, mode, resolve))
}

/// Opens what a descriptor is of once more, so that writing to it does not wait; that is of the new one alone.
pub fn open_without_waiting(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    open_at(CWD, ProcPath::of_descriptor(fd).as_c_str(), flags)
}

/// Whether a descriptor may be written to.
pub fn is_open_for_writing(fd: impl AsFd) -> Result<bool, Errno> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(flags.intersects(OFlags::WRONLY | OFlags::RDWR) && !flags.contains(OFlags::PATH))
}

/// Makes a directory, which its owner alone may change and everybody may read, as far as the umask lets it.
pub fn make_directory(at: impl AsFd, name: &CStr) -> Result<(), Errno> {
    rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755))
}

/// Lets the owner change, and everybody read, a directory that this process has made, whatever the umask.
pub fn set_mode(at: impl AsFd, name: &CStr) -> Result<(), Errno> {
    rustix::fs::chmodat(at, name, Mode::from_raw_mode(0o755), AtFlags::empty())
}

/// Makes a file, which must not exist, and opens it for writing.
pub fn create(at: impl AsFd, name: &CStr, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::from_raw_mode(mode))
}

/// Removes a file.
pub fn remove_file(at: impl AsFd, name: &CStr) -> Result<(), Errno> {
    rustix::fs::unlinkat(at, name, AtFlags::empty())
}

/// Makes a file in memory, without any seal.
pub fn memory_file() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create(c"", MemfdFlags::CLOEXEC)
}

/// Asks a terminal for its size (`TIOCGWINSZ`). ENOTTY: it is none.
pub fn window_size(fd: impl AsFd) -> Result<(), Errno> {
    rustix::termios::tcgetwinsize(fd).map(drop)
}

/// Whether a descriptor stays open over an exec.
pub fn is_kept_over_exec(fd: impl AsFd) -> Result<bool, Errno> {
    Ok(!rustix::io::fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC))
}

/// Removes an empty directory.
pub fn remove_directory(at: impl AsFd, name: &CStr) -> Result<(), Errno> {
    rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)
}

/// Removes an empty directory by its path.
pub fn remove_path(path: &CStr) -> Result<(), Errno> {
    remove_directory(CWD, path)
}

/// Locks a file for this open description alone (`flock(2)`). False: somebody else has it.
pub fn try_lock(fd: impl AsFd) -> Result<bool, Errno> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether a descriptor is in a cgroup v2 file system.
pub fn is_cgroup2(fd: impl AsFd) -> Result<bool, Errno> {
    is_in(fd, CGROUP2_SUPER_MAGIC)
}

/// A counter that one reader can take once: the second gets EAGAIN (`eventfd(2)`).
pub fn token() -> Result<OwnedFd, Errno> {
    rustix::event::eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// A descriptor by its number: one that was inherited, named by somebody else.
pub fn inherited(number: i32) -> Result<BorrowedFd<'static>, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1. Nothing here owns or closes an inherited descriptor but `close_inherited`,
    // after which its number is not used again; a number that is not open is answered EBADF by every call.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Closes an inherited descriptor.
pub fn close_inherited(fd: BorrowedFd<'static>) -> Result<(), Errno> {
    // SAFETY: no owner of this descriptor exists in the process, see `inherited`.
    result(unsafe { syscall(__NR_close, [fd.as_raw_fd() as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Closes every descriptor from `first` to `last`, both included (`close_range(2)`, Linux 5.9). To be called before
/// this process opens anything: then all of them are inherited. Or in a process that never comes back to the owners of
/// the others, from which it was forked.
pub fn close_inherited_range(first: u32, last: u32) -> Result<(), Errno> {
    let args = [first as usize, last as usize, 0, 0, 0];
    // SAFETY: no owner of an inherited descriptor exists in the process, see `inherited`; or none is used or dropped any more.
    result(unsafe { syscall(__NR_close_range, args) }).map(drop)
}

/// Marks every descriptor from `first` up close-on-exec (`close_range(2)`, Linux 5.11).
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    let args = [first as usize, u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0];
    // SAFETY: the flag makes the call set close-on-exec and close nothing.
    result(unsafe { syscall(__NR_close_range, args) }).map(drop)
}

/// Whether this is a regular file without a name.
pub fn is_unlinked_file(stat: &Stat) -> bool {
    file_type(stat) == FileType::RegularFile && stat.st_nlink == 0
}

/// Whether a descriptor is a file that lives in memory alone (`memfd_create(2)`) and is sealed neither against
/// writing nor against being made executable.
pub fn is_open_memory_file(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = stat(fd)?;
    if !is_unlinked_file(&stat) {
        return Ok(false);
    }
    match rustix::fs::fcntl_get_seals(fd) {
        // A file without a name that has no seals lies on a disk.
        Err(Errno::INVAL) => return Ok(false),
        // O_PATH: it does not tell its seals, but /proc/self/fd opens it again for writing.
        Err(Errno::BADF) => return Ok(true),
        Err(errno) => return Err(errno),
        Ok(seals)
            if seals.intersects(SealFlags::WRITE | SealFlags::from_bits_retain(F_SEAL_EXEC)) =>
        {
            return Ok(false);
        }
        Ok(_) => {}
    }
    // A file without a name in a mounted tmpfs has seals too, but Landlock knows its directory. A memory file
    // is on the kernel's own mount.
    let own = memory_file()?;
    let tmpfs = rustix::fs::fstatfs(fd)?.f_type == rustix::fs::fstatfs(&own)?.f_type;
    Ok(!tmpfs || stat.st_dev == self::stat(&own)?.st_dev)
}

/// Makes copies of descriptors standard input, output and error, in whatever order they lie.
pub fn set_standard(numbers: [i32; 3]) -> Result<(), Errno> {
    if numbers == [0, 1, 2] {
        return Ok(());
    }
    // Out of the way of the three first.
    let copy = |number| inherited(number).and_then(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3));
    let [input, output, error] = numbers;
    let [input, output, error] = [copy(input)?, copy(output)?, copy(error)?];
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(error)
}

/// Lets the exec pass a descriptor on.
pub fn keep_over_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::io::fcntl_setfd(fd, FdFlags::empty())
}

/// Lets the exec close a descriptor. EBADF: it is not open.
pub fn close_on_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_openat2_every_path_leads_where_it_does_with_it() {
        let folder = std::env::temp_dir().join(std::format!("oarbank-walk-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).expect("a new folder");
        std::fs::write(folder.join("a/file"), "").expect("own folder");
        for (link, target) in [
            ("up", ".."),
            ("a/b/far", "../../up/."),
            ("chain", "a/b/far"),
            ("absolute", "/usr/../usr//"),
            ("loop", "loop"),
            ("dangling", "a/nothing"),
            ("to-file", "a/file"),
            ("magic", "/proc/self/cwd"),
            ("plain", "/proc/self"),
        ] {
            let made = std::os::unix::fs::symlink(target, folder.join(link));
            made.expect("own folder");
        }
        let own = folder.to_str().expect("text");
        let long = "x".repeat(256);
        let mut compared = 0;
        for path in [
            "/",
            "//",
            "/.",
            "/..",
            "/usr",
            "/usr/",
            "/usr/./..//usr/lib",
            "/nothing",
            "/nothing/x",
            "/proc/self",
            "/proc/self/",
            "/proc/self/cwd",
            "/proc/self/cwd/",
            "/proc/self/root/usr",
            "/proc/self/exe",
            "/proc/self/fd/0",
            "/proc/self/ns/net",
            "/proc/mounts",
            "/proc/thread-self/cwd",
            "/dev/fd",
            "/dev/stdin",
            "/dev/null",
            "/dev/null/",
            "@",
            "@/a/file",
            "@/a/file/",
            "@/a/file/.",
            "@/a/file/..",
            "@/up",
            "@/up/",
            "@/up/usr",
            "@/a/b/far",
            "@/chain",
            "@/chain/..",
            "@/absolute",
            "@/absolute/",
            "@/loop",
            "@/loop/x",
            "@/dangling",
            "@/dangling/",
            "@/to-file",
            "@/to-file/",
            "@/magic",
            "@/plain",
            "@/plain/cwd",
            "@/plain/status",
            "@/a/../a/./b//",
            "@/a/b/../../to-file",
            "@/%",
            "@/%/x",
        ] {
            let path = path.replace('@', own).replace('%', &long);
            let path = std::ffi::CString::new(path).expect("no NUL");
            let is = |found: Result<OwnedFd, Errno>| {
                let stat = stat(found?)?;
                Ok::<_, Errno>((stat.st_dev, stat.st_ino))
            };
            for (follow, resolve) in [
                (false, ResolveFlags::NO_SYMLINKS),
                (true, ResolveFlags::NO_MAGICLINKS),
            ] {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let with = rustix::fs::openat2(CWD, &*path, flags, Mode::empty(), resolve);
                if with.as_ref().err() == Some(&Errno::NOSYS) {
                    return;
                }
                assert_eq!(is(walk(&path, follow)), is(with), "{path:?}, {follow}");
                compared += 1;
            }
        }
        std::fs::remove_dir_all(&folder).expect("own folder");
        assert!(compared > 90);
    }
}
