//! The process itself: privileges, session, exec, exit.

use core::ffi::CStr;

use linux_raw_sys::general::{__NR_execve, __NR_exit_group, __NR_prctl};
use linux_raw_sys::prctl::{
    PR_CAPBSET_DROP, PR_CAPBSET_READ, PR_GET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::arch::syscall;
use super::args::{Pointer, Vector};
use super::{AsFd, Errno, fs, result};

/// Sets no_new_privs (`PR_SET_NO_NEW_PRIVS(2const)`): no exec gains privileges any more.
pub fn set_no_new_privs() -> Result<(), Errno> {
    rustix::thread::set_no_new_privs(true)
}

/// The effective user id.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective, permitted and inheritable sets of this process.
pub struct Capabilities(CapabilitySets);

impl Capabilities {
    /// Asks for them (`capget(2)`).
    pub fn get() -> Result<Self, Errno> {
        rustix::thread::capabilities(None).map(Capabilities)
    }

    /// Whether `CAP_SETPCAP` is effective: the bounding set can be dropped.
    pub fn may_drop_bounding_set(&self) -> bool {
        self.0.effective.contains(CapabilitySet::SETPCAP)
    }

    /// Whether all three are empty; the ambient set is then empty too: what it has is also permitted and inheritable
    /// (`capabilities(7)`).
    pub fn are_empty(&self) -> bool {
        let Capabilities(sets) = self;
        (sets.effective | sets.permitted | sets.inheritable).is_empty()
    }
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
    // SAFETY: the operations used here take a number and touch no memory.
    result(unsafe { syscall(__NR_prctl, [operation as usize, number as usize, 0, 0, 0]) })
}

/// Gives the process a session and a process group of its own.
pub fn new_session() -> Result<(), Errno> {
    rustix::process::setsid().map(drop)
}

/// Gives the process a process group of its own.
pub fn new_group() -> Result<(), Errno> {
    rustix::process::setpgid(None, None)
}

/// The pid of this process.
pub fn id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The pid of the parent; 0 when it is not visible from here.
pub fn parent_id() -> i32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// Makes this process the parent of what its descendants leave behind (`PR_SET_CHILD_SUBREAPER(2const)`).
pub fn become_subreaper() -> Result<(), Errno> {
    prctl(PR_SET_CHILD_SUBREAPER, 1).map(drop)
}

/// Asks for a signal when the parent ends (`PR_SET_PDEATHSIG(2const)`), and sees that it has not ended yet. ESRCH: it has.
pub fn die_with(parent: i32, signal: u32) -> Result<(), Errno> {
    prctl(PR_SET_PDEATHSIG, signal)?;
    if parent_id() == parent {
        Ok(())
    } else {
        Err(Errno::SRCH)
    }
}

/// Whether a seccomp filter is on this thread already.
pub fn has_filter() -> Result<bool, Errno> {
    prctl(PR_GET_SECCOMP, 0).map(|mode| mode != 0)
}

/// Becomes the program at `path`; returns only the error.
pub fn execve(path: &CStr, argv: &Vector<'_>, envp: &Vector<'_>) -> Errno {
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

/// Becomes the program at `path`, without arguments and environment; returns only the error.
pub fn execve_alone(path: &CStr) -> Errno {
    let strings = [path];
    let mut argv = [Pointer::NULL; 2];
    let mut envp = [Pointer::NULL; 1];
    match (Vector::of(&strings, &mut argv), Vector::of(&[], &mut envp)) {
        (Some(argv), Some(envp)) => execve(path, &argv, &envp),
        _ => Errno::TOOBIG,
    }
}

/// The kernel's release (`uname(2)`), as `6.12.0`.
pub fn with_kernel_release<T>(use_it: impl FnOnce(&CStr) -> T) -> T {
    use_it(rustix::system::uname().release())
}

/// Writes all of `bytes` to an inherited descriptor by its number.
pub fn write_all(descriptor: i32, bytes: &[u8]) -> Result<(), Errno> {
    write_all_to(fs::inherited(descriptor)?, bytes)
}

/// Writes all of `bytes`.
pub fn write_all_to(fd: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match fs::write(&fd, bytes)? {
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
