//! A child that is held at its exec, by `ptrace(2)`.

use linux_raw_sys::general::{__NR_ptrace, __NR_wait4, SIGSTOP, SIGTRAP, WUNTRACED};
use linux_raw_sys::ptrace::{
    PTRACE_CONT, PTRACE_EVENT_EXEC, PTRACE_O_EXITKILL, PTRACE_O_TRACEEXEC, PTRACE_SETOPTIONS,
    PTRACE_TRACEME,
};

use super::arch::syscall;
use super::{Errno, process, result, signal};

/// In the child: lets the parent trace it, and waits for the parent to have set its options.
pub fn begin() -> Result<(), Errno> {
    request(PTRACE_TRACEME, 0, 0)?;
    signal::send(process::id(), SIGSTOP)
}

/// Where a traced child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It stopped in [`begin`].
    Begun,
    /// Its exec has succeeded; no instruction of the program has run.
    AtExec,
    /// It got this signal.
    Signalled(u32),
    /// It has ended.
    Ended,
}

/// Waits until a child stops or ends.
pub fn wait(child: i32) -> Result<Held, Errno> {
    let mut status: i32 = 0;
    let args = [
        child as usize,
        core::ptr::from_mut(&mut status).expose_provenance(),
        WUNTRACED as usize,
        0,
        0,
    ];
    // SAFETY: the kernel writes one status.
    while let Err(errno) = result(unsafe { syscall(__NR_wait4, args) }) {
        if errno != Errno::INTR {
            return Err(errno);
        }
    }
    // `wait(2)`: the low byte tells a stop, the next its signal, the ones above it the event.
    let [low, stop, event, _] = status.to_le_bytes();
    Ok(match (low, u32::from(stop), u32::from(event)) {
        (0x7f, SIGTRAP, PTRACE_EVENT_EXEC) => Held::AtExec,
        (0x7f, SIGSTOP, _) => Held::Begun,
        (0x7f, signal, _) => Held::Signalled(signal),
        _ => Held::Ended,
    })
}

/// Sets that a stopped child is held at its exec, and is killed if this process ends; lets it go on.
pub fn hold_at_exec(child: i32) -> Result<(), Errno> {
    let options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC;
    request(PTRACE_SETOPTIONS, child, options as usize)?;
    go_on(child, 0)
}

/// Lets a stopped child go on, with a signal or none (0).
pub fn go_on(child: i32, signal: u32) -> Result<(), Errno> {
    request(PTRACE_CONT, child, signal as usize)
}

fn request(request: u32, child: i32, data: usize) -> Result<(), Errno> {
    let args = [request as usize, child as usize, 0, data, 0];
    // SAFETY: the three requests used here pass no memory.
    result(unsafe { syscall(__NR_ptrace, args) }).map(drop)
}
