//! The process itself: privileges, signals, exec, exit.

use core::ffi::CStr;

use linux_raw_sys::general::{
    __NR_execve, __NR_exit_group, __NR_prctl, __NR_rt_sigprocmask, SIG_BLOCK, SIG_SETMASK, SIGPIPE,
    SIGXFSZ,
};
use linux_raw_sys::prctl::{PR_CAPBSET_DROP, PR_CAPBSET_READ};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::arch::syscall;
use super::args::Vector;
use super::{Errno, fs, result};

/// Sets no_new_privs (`PR_SET_NO_NEW_PRIVS(2const)`): no exec gains privileges any more.
pub fn set_no_new_privs() -> Result<(), Errno> {
    rustix::thread::set_no_new_privs(true)
}

/// The effective user id.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether `CAP_SETPCAP` is effective: the bounding set can be dropped.
pub fn may_drop_bounding_set() -> Result<bool, Errno> {
    Ok(rustix::thread::capabilities(None)?
        .effective
        .contains(CapabilitySet::SETPCAP))
}

/// Empties the ambient set.
pub fn clear_ambient_set() -> Result<(), Errno> {
    rustix::thread::clear_ambient_capability_set()
}

/// Empties the effective, permitted and inheritable sets.
pub fn clear_capability_sets() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets)
}

/// Drops one capability, by number, from the bounding set. EINVAL: the kernel has no such capability.
pub fn drop_from_bounding_set(capability: u32) -> Result<(), Errno> {
    prctl(PR_CAPBSET_DROP, capability).map(drop)
}

/// Whether a capability is in the bounding set. EINVAL: the kernel has no such capability.
pub fn is_in_bounding_set(capability: u32) -> Result<bool, Errno> {
    prctl(PR_CAPBSET_READ, capability).map(|answer| answer != 0)
}

/// A `prctl(2)` operation that takes one number.
fn prctl(operation: u32, number: u32) -> Result<usize, Errno> {
    // SAFETY: the two operations used here take a number and touch no memory.
    result(unsafe { syscall(__NR_prctl, [operation as usize, number as usize, 0, 0, 0]) })
}

/// The kernel's signal set: one bit a signal, signal 1 lowest.
type SignalSet = u64;

/// Runs `write` with the signals blocked that a write can raise, so that a pipe without a reader is EPIPE, a
/// file at RLIMIT_FSIZE is EFBIG, and neither is the end of the launcher.
///
/// The mask is restored when `write` succeeds; after a failure the launcher ends, and a pending signal
/// must not end it before its message.
pub fn without_write_signals<T>(write: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let blocked: SignalSet = 1 << (SIGPIPE - 1) | 1 << (SIGXFSZ - 1);
    let mut before: SignalSet = 0;
    sigprocmask(SIG_BLOCK, &blocked, Some(&mut before))?;
    let value = write()?;
    sigprocmask(SIG_SETMASK, &before, None)?;
    Ok(value)
}

fn sigprocmask(how: u32, set: &SignalSet, old: Option<&mut SignalSet>) -> Result<(), Errno> {
    let old = old.map_or(0, |old| core::ptr::from_mut(old).expose_provenance());
    let set = core::ptr::from_ref(set).expose_provenance();
    let args = [how as usize, set, old, size_of::<SignalSet>(), 0];
    // SAFETY: the kernel reads one set at `set` and writes one at `old`, unless that is NULL.
    result(unsafe { syscall(__NR_rt_sigprocmask, args) }).map(drop)
}

/// Becomes the program at `path`; returns only the error.
pub fn execve(path: &CStr, argv: &Vector, envp: &Vector) -> Errno {
    let args = [
        path.as_ptr().expose_provenance(),
        argv.as_ptr().expose_provenance(),
        envp.as_ptr().expose_provenance(),
        0,
        0,
    ];
    // SAFETY: three NULL-terminated arrays, by the types' promises; on success nothing of this program is left.
    match result(unsafe { syscall(__NR_execve, args) }) {
        Err(errno) => errno,
        // execve returns only to say that it failed.
        Ok(_) => Errno::IO,
    }
}

/// Writes all of `bytes` to an inherited descriptor.
pub fn write_all(descriptor: i32, mut bytes: &[u8]) -> Result<(), Errno> {
    let fd = fs::inherited(descriptor)?;
    while !bytes.is_empty() {
        match fs::write(fd, bytes)? {
            0 => return Err(Errno::IO),
            written => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: the call takes a number and does not return.
        unsafe { syscall(__NR_exit_group, [code as usize, 0, 0, 0, 0]) };
    }
}
