//! Signals: masks, dispositions, waiting, sending.

use core::ffi::c_int;

use linux_raw_sys::general::{
    __NR_kill, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigtimedwait, __NR_signalfd4,
    __kernel_timespec, O_CLOEXEC, SIG_BLOCK, SIG_SETMASK, SIGPIPE, SIGXFSZ,
};
pub use linux_raw_sys::general::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP,
};

use rustix::fd::FromRawFd;

use super::arch::syscall;
use super::{Errno, OwnedFd, result, seconds};

/// A set of signals as the kernel has it: one bit a signal, signal 1 lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals(u64);

impl Signals {
    /// Every signal. SIGKILL and SIGSTOP can't be blocked (`signal(7)`).
    pub const ALL: Self = Signals(u64::MAX);

    /// These signals.
    pub const fn of(signals: &[u32]) -> Self {
        let mut set = 0;
        let mut index = 0;
        while index < signals.len() {
            set |= bit(signals[index]);
            index += 1;
        }
        Signals(set)
    }

    /// The set without one of its signals.
    pub const fn without(self, signal: u32) -> Self {
        Signals(self.0 & !bit(signal))
    }
}

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Blocks `signals` besides those that are blocked, and returns which were.
pub fn block(signals: Signals) -> Result<Signals, Errno> {
    let mut before = Signals(0);
    sigprocmask(SIG_BLOCK, &signals, Some(&mut before))?;
    Ok(before)
}

/// Blocks exactly these.
pub fn set_mask(signals: Signals) -> Result<(), Errno> {
    sigprocmask(SIG_SETMASK, &signals, None)
}

fn sigprocmask(how: u32, set: &Signals, old: Option<&mut Signals>) -> Result<(), Errno> {
    let old = old.map_or(0, |old| core::ptr::from_mut(old).expose_provenance());
    let set = core::ptr::from_ref(set).expose_provenance();
    let args = [how as usize, set, old, size_of::<Signals>(), 0];
    // SAFETY: the kernel reads one set at `set` and writes one at `old`, unless that is NULL.
    result(unsafe { syscall(__NR_rt_sigprocmask, args) }).map(drop)
}

/// Runs `write` with the signals blocked that a write can raise, so that a pipe without a reader is EPIPE, a
/// file at RLIMIT_FSIZE is EFBIG, and neither is the end of the launcher.
///
/// The mask is restored when `write` succeeds; after a failure the launcher ends, and a pending signal
/// must not end it before its message.
pub fn without_write_signals<T>(write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let before = block(Signals::of(&[SIGPIPE, SIGXFSZ]))?;
    let value = write()?;
    set_mask(before)?;
    Ok(value)
}

/// The start of the kernel's `struct sigaction`, which is all of it that is used here; the rest (flags, restorer,
/// mask) is zero in what is passed and not looked at in what is returned.
#[repr(C)]
struct Action {
    handler: usize,
    rest: [usize; 3],
}

/// `SIG_DFL` and `SIG_IGN` of `include/uapi/asm-generic/signal-defs.h`.
const DEFAULT: usize = 0;
const IGNORE: usize = 1;

/// Whether the process ignores a signal.
pub fn is_ignored(signal: u32) -> Result<bool, Errno> {
    sigaction(signal, None).map(|handler| handler == IGNORE)
}

/// Gives a signal its default action; returns whether it was ignored.
pub fn set_default(signal: u32) -> Result<bool, Errno> {
    sigaction(signal, Some(DEFAULT)).map(|handler| handler == IGNORE)
}

/// Ignores a signal.
pub fn ignore(signal: u32) -> Result<(), Errno> {
    sigaction(signal, Some(IGNORE)).map(drop)
}

fn sigaction(signal: u32, handler: Option<usize>) -> Result<usize, Errno> {
    let action = |handler| Action {
        handler,
        rest: [0; 3],
    };
    let new = handler.map(action);
    let mut old = action(DEFAULT);
    let args = [
        signal as usize,
        new.as_ref()
            .map_or(0, |new| core::ptr::from_ref(new).expose_provenance()),
        core::ptr::from_mut(&mut old).expose_provenance(),
        size_of::<Signals>(),
        0,
    ];
    // SAFETY: both structures are as large as the largest of any architecture, the new one is all that the kernel
    // reads, and it names no handler.
    result(unsafe { syscall(__NR_rt_sigaction, args) })?;
    Ok(old.handler)
}

/// A signal that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: u32,
    /// Whether the kernel sent it, as a terminal's driver makes it do, and not a process.
    pub by_kernel: bool,
}

/// The part of `siginfo_t` that is used: 128 bytes in all, the code at the third word (`sigaction(2)`).
#[repr(C, align(8))]
struct Info {
    head: [i32; 3],
    rest: [i32; 29],
}

/// `SI_KERNEL` of `include/uapi/asm-generic/siginfo.h`.
const SI_KERNEL: i32 = 0x80;

/// Waits for one of `signals`, which must be blocked, and takes it; `nanoseconds` at most. `None`: none came.
pub fn wait(signals: Signals, nanoseconds: Option<u64>) -> Result<Option<Received>, Errno> {
    let time = nanoseconds.map(|nanoseconds| {
        let (tv_sec, tv_nsec) = seconds(nanoseconds);
        __kernel_timespec { tv_sec, tv_nsec }
    });
    let mut info = Info {
        head: [0; 3],
        rest: [0; 29],
    };
    let args = [
        core::ptr::from_ref(&signals).expose_provenance(),
        core::ptr::from_mut(&mut info).expose_provenance(),
        time.as_ref()
            .map_or(0, |time| core::ptr::from_ref(time).expose_provenance()),
        size_of::<Signals>(),
        0,
    ];
    // SAFETY: the kernel reads the set and the time, unless that is NULL, and writes one `siginfo_t`.
    match result(unsafe { syscall(__NR_rt_sigtimedwait, args) }) {
        Ok(signal) => Ok(Some(Received {
            signal: signal as u32,
            by_kernel: info.head[2] == SI_KERNEL,
        })),
        // EINTR: a stop and a continuation; the caller looks at its clock again.
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A descriptor that can be read when one of `signals` waits to be taken (`signalfd(2)`); [`wait`] takes it. It is
/// close-on-exec.
pub fn descriptor(signals: Signals) -> Result<OwnedFd, Errno> {
    const NONE: usize = usize::MAX;
    let args = [
        NONE,
        core::ptr::from_ref(&signals).expose_provenance(),
        size_of::<Signals>(),
        O_CLOEXEC as usize,
        0,
    ];
    // SAFETY: the kernel reads the set, and gives a new descriptor that nobody else owns.
    unsafe {
        let descriptor = result(syscall(__NR_signalfd4, args))?;
        Ok(OwnedFd::from_raw_fd(descriptor as i32))
    }
}

/// Sends a signal to a process, or to the process group of a negative number. ESRCH: there is none.
pub fn send(process: i32, signal: u32) -> Result<(), Errno> {
    // Never 0 or -1, which mean the own group and everybody.
    if process == 0 || process == -1 {
        return Err(Errno::SRCH);
    }
    let args = [process as c_int as usize, signal as usize, 0, 0, 0];
    // SAFETY: no memory is passed.
    result(unsafe { syscall(__NR_kill, args) }).map(drop)
}
