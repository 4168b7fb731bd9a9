//! `seccomp(2)`.

use linux_raw_sys::general::__NR_seccomp;
use linux_raw_sys::ptrace::{
    SECCOMP_GET_ACTION_AVAIL, SECCOMP_SET_MODE_FILTER, sock_filter, sock_fprog,
};

use super::arch::syscall;
use super::{Errno, result};

/// Installs a filter for this thread (the process has one) and all it will start.
/// EINVAL: the program is empty, over 4,096 instructions, or wrong.
pub fn set_mode_filter(program: &[sock_filter]) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let fprog = sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    let args = [
        SECCOMP_SET_MODE_FILTER as usize,
        0,
        core::ptr::from_ref(&fprog).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the kernel reads `fprog` and the `len` instructions it points to, and writes neither.
    result(unsafe { syscall(__NR_seccomp, args) }).map(drop)
}

/// Whether this kernel has an action that filters may return.
pub fn may_answer(action: u32) -> Result<bool, Errno> {
    let args = [
        SECCOMP_GET_ACTION_AVAIL as usize,
        0,
        core::ptr::from_ref(&action).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the kernel reads one number.
    match result(unsafe { syscall(__NR_seccomp, args) }) {
        Err(Errno::OPNOTSUPP) => Ok(false),
        answer => answer.map(|_| true),
    }
}
