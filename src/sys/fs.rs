//! Opening, reading and describing files. Every descriptor made here is close-on-exec.

use core::ffi::CStr;

use linux_raw_sys::general::{__NR_close, __NR_close_range};
use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, RawDir, ResolveFlags, SealFlags};
use rustix::io::{FdFlags, retry_on_intr};

pub use rustix::fs::{FileType, Stat};

use super::arch::syscall;
use super::{AsFd, BorrowedFd, Errno, OwnedFd, result};

/// Of `include/uapi/linux/fcntl.h` (Linux 6.3), which rustix 1.1 lacks.
const F_SEAL_EXEC: u32 = 0x20;

/// Of `include/uapi/linux/close_range.h`, which linux-raw-sys 0.12 lacks.
const CLOSE_RANGE_CLOEXEC: usize = 1 << 2;

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
    retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve))
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

/// Writes, once.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::write(fd.as_fd(), bytes))
}

/// Reads a symbolic link's text into `buffer`. EINVAL: not a link; ENAMETOOLONG: it fills the buffer.
pub fn read_link<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let length = rustix::fs::readlinkat_raw(CWD, path, &mut *buffer)?;
    if length == buffer.len() {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(&buffer[..length])
    }
}

/// Calls `each` with the name of every entry of a directory.
pub fn for_each_entry(
    path: &CStr,
    mut each: impl FnMut(&CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
    let mut buffer = [core::mem::MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        each(entry?.file_name())?;
    }
    Ok(())
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

/// Marks every descriptor from `first` up close-on-exec (`close_range(2)`, Linux 5.11).
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    let args = [first as usize, u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0];
    // SAFETY: the flag makes the call set close-on-exec and close nothing.
    result(unsafe { syscall(__NR_close_range, args) }).map(drop)
}

/// Whether a descriptor is a file that lives in memory alone (`memfd_create(2)`) and is sealed neither against
/// writing nor against being made executable.
pub fn is_open_memory_file(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = stat(fd)?;
    if file_type(&stat) != FileType::RegularFile || stat.st_nlink != 0 {
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
    let own = rustix::fs::memfd_create(c"", MemfdFlags::CLOEXEC)?;
    let tmpfs = rustix::fs::fstatfs(fd)?.f_type == rustix::fs::fstatfs(&own)?.f_type;
    Ok(!tmpfs || stat.st_dev == self::stat(&own)?.st_dev)
}

/// Lets the exec pass a descriptor on.
pub fn keep_over_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::io::fcntl_setfd(fd, FdFlags::empty())
}

/// Lets the exec close a descriptor. EBADF: it is not open.
pub fn close_on_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)
}
