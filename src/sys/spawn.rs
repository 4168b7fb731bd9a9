//! Making a process, and learning how it ended.

use linux_raw_sys::general::{
    __NR_clock_gettime, __NR_clone3, __NR_getrusage, __WALL, __kernel_timespec, CLOCK_MONOTONIC,
    CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP, CLONE_PIDFD, RUSAGE_CHILDREN, SIGCHLD, clone_args,
    rusage,
};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::arch::syscall;
use super::signal::{self, SIGCONT};
use super::{Errno, poll, result};

/// Where a process that was just made finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the new process.
    Child,
    /// In the old one, with the new one's pid.
    Parent(i32),
}

/// Makes a process like `fork(2)`: a copy, in which signals that had a handler have their default action. With
/// `cgroup`, a directory of cgroup v2, it is born there (`clone3(2)`, CLONE_INTO_CGROUP, Linux 5.7).
///
/// In a process with several threads the child has only the calling one, and whatever the others held is locked there
/// for ever: until its exec it may only make system calls.
pub fn fork(cgroup: Option<&OwnedFd>) -> Result<Side, Errno> {
    clone(&clone_args {
        flags: cgroup.map_or(0, |_| CLONE_INTO_CGROUP),
        exit_signal: u64::from(SIGCHLD),
        cgroup: cgroup.map_or(0, |directory| directory.as_raw_fd() as u64),
        ..NOTHING
    })
}

/// A child that [`wait`] does not see, and of whose end no signal tells.
pub struct Helper {
    pid: i32,
    process: OwnedFd,
}

/// Makes such a child, like `fork(2)`. `None`: this is the child.
pub fn fork_helper() -> Result<Option<Helper>, Errno> {
    let mut process = -1_i32;
    let side = clone(&clone_args {
        flags: CLONE_PIDFD.into(),
        pidfd: core::ptr::from_mut(&mut process).expose_provenance() as u64,
        exit_signal: 0,
        ..NOTHING
    })?;
    Ok(match side {
        Side::Child => None,
        Side::Parent(pid) => {
            // SAFETY: the kernel has made this descriptor for this process just now, close-on-exec.
            let process = unsafe { OwnedFd::from_raw_fd(process) };
            Some(Helper { pid, process })
        }
    })
}

impl Helper {
    /// Reaps it, if it ends within some nanoseconds; somebody may have stopped it.
    pub fn reap(self, nanoseconds: u64) -> Result<(), Errno> {
        signal::send(self.pid, SIGCONT)?;
        poll::read([Some(self.process.as_fd())], Some(nanoseconds))?;
        let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(__WALL);
        rustix::process::waitpid(Pid::from_raw(self.pid), options).map(drop)
    }
}

const NOTHING: clone_args = clone_args {
    flags: 0,
    pidfd: 0,
    child_tid: 0,
    parent_tid: 0,
    exit_signal: 0,
    stack: 0,
    stack_size: 0,
    tls: 0,
    set_tid: 0,
    set_tid_size: 0,
    cgroup: 0,
};

fn clone(arguments: &clone_args) -> Result<Side, Errno> {
    let arguments = clone_args {
        flags: arguments.flags | CLONE_CLEAR_SIGHAND,
        ..*arguments
    };
    let args = [
        core::ptr::from_ref(&arguments).expose_provenance(),
        size_of::<clone_args>(),
        0,
        0,
        0,
    ];
    // SAFETY: without CLONE_VM the child has its own copy of all memory, the stack among it, and goes on here.
    match result(unsafe { syscall(__NR_clone3, args) })? {
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid as i32)),
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

/// Reaps a child, or any child. `None`: none has ended, and `block` was false. ECHILD: there is none.
pub fn wait(child: Option<i32>, block: bool) -> Result<Option<(i32, End)>, Errno> {
    let options = if block {
        WaitOptions::empty()
    } else {
        WaitOptions::NOHANG
    };
    let waited = loop {
        let waited = match child {
            Some(child) => {
                let pid = Pid::from_raw(child).ok_or(Errno::CHILD)?;
                rustix::process::waitpid(Some(pid), options)
            }
            None => rustix::process::wait(options),
        };
        match waited {
            Err(Errno::INTR) => {}
            waited => break waited?,
        }
    };
    Ok(waited.map(|(pid, status)| (pid.as_raw_nonzero().get(), end(status))))
}

fn end(status: WaitStatus) -> End {
    match status.terminating_signal() {
        Some(signal) => End::Signal(signal as u8),
        None => End::Code(status.exit_status().unwrap_or(0) as u8),
    }
}

/// The processor time of all children that were reaped, and of all that these have reaped, in microseconds.
pub fn children_cpu_usec() -> Result<u64, Errno> {
    let mut usage = core::mem::MaybeUninit::<rusage>::zeroed();
    let args = [
        RUSAGE_CHILDREN as usize,
        usage.as_mut_ptr().expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes one `rusage`, of which zero is a value too.
    let usage = unsafe {
        result(syscall(__NR_getrusage, args))?;
        usage.assume_init()
    };
    let (user, system) = (usage.ru_utime, usage.ru_stime);
    let seconds = (user.tv_sec + system.tv_sec).cast_unsigned();
    let microseconds = (user.tv_usec + system.tv_usec).cast_unsigned();
    Ok(seconds * 1_000_000 + microseconds)
}

/// The time since some point in the past, in nanoseconds; it does not jump (`clock_gettime(2)`).
pub fn now() -> Result<u64, Errno> {
    let mut time = __kernel_timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let args = [
        CLOCK_MONOTONIC as usize,
        core::ptr::from_mut(&mut time).expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes one time.
    result(unsafe { syscall(__NR_clock_gettime, args) })?;
    Ok(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// A pipe: the end to read from and the end to write to, both close-on-exec.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
}
