//! Typed system calls: the only unsafe code of the library.
//!
//! What it promises: every function here is safe to call with any argument that its type admits. A
//! descriptor is borrowed or owned (`rustix::fd`), a path is a `CStr`, a buffer is a slice with its
//! length, and the raw pointers of the process's initial stack are wrapped by [`args`].
//!
//! rustix makes the calls it has (it uses the kernel directly, without libc); Landlock, seccomp, execve, exit,
//! `clone3`, signals, some of `prctl` and the few calls on inherited descriptor numbers are made by [`arch::syscall`].

#![allow(unsafe_code)]

pub mod arch;
pub mod args;
pub mod fs;
pub mod landlock;
pub mod net;
pub mod poll;
pub mod process;
pub mod seccomp;
pub mod signal;
pub mod spawn;
pub mod trace;

pub use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
pub use rustix::io::Errno;

/// Whole seconds and the nanoseconds that are left, as a `timespec` has them.
const fn seconds(nanoseconds: u64) -> (i64, i64) {
    const SECOND: u64 = 1_000_000_000;
    (
        (nanoseconds / SECOND).cast_signed(),
        (nanoseconds % SECOND).cast_signed(),
    )
}

/// Splits a raw return value: -4095 to -1 are errors (`syscall(2)`).
fn result(value: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&value) {
        Err(Errno::from_raw_os_error(-value as i32))
    } else {
        Ok(value as usize)
    }
}
