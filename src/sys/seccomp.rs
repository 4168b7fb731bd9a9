//! `seccomp(2)` and `seccomp_unotify(2)`.

use linux_raw_sys::general::{__NR_ioctl, __NR_seccomp};
pub use linux_raw_sys::ptrace::seccomp_data;
use linux_raw_sys::ptrace::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    SECCOMP_GET_ACTION_AVAIL, SECCOMP_SET_MODE_FILTER, seccomp_notif, seccomp_notif_resp,
    sock_filter, sock_fprog,
};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::arch::syscall;
use super::{Errno, result};

/// `SECCOMP_IOCTL_NOTIF_RECV` and `..._SEND` of `include/uapi/linux/seccomp.h`, which linux-raw-sys 0.12
/// lacks: `_IOWR('!', 0, struct seccomp_notif)`, `_IOWR('!', 1, struct seccomp_notif_resp)`.
const RECV: usize = 0xc050_2100;
const SEND: usize = 0xc018_2101;
/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`, `_IOW('!', 4, __u64)`, and `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
const SET_FLAGS: usize = 0x4008_2104;
const SYNC_WAKE_UP: usize = 1;

// The sizes that these numbers hold, in their bits from 16 up.
const _: () = assert!(size_of::<seccomp_notif>() == RECV >> 16 & 0x3fff);
const _: () = assert!(size_of::<seccomp_notif_resp>() == SEND >> 16 & 0x3fff);

/// Installs a filter for this thread (the process has one) and all it will start.
/// EINVAL: the program is empty, over 4,096 instructions, or wrong.
pub fn set_mode_filter(program: &[sock_filter]) -> Result<(), Errno> {
    install(program, 0).map(drop)
}

/// The same for a program that answers SECCOMP_RET_USER_NOTIF; gives the listener, which is close-on-exec. A call that was
/// received waits for its answer and can be ended by fatal signals only (Linux 5.19). EBUSY: the process has a listener.
pub fn set_mode_filter_with_listener(program: &[sock_filter]) -> Result<OwnedFd, Errno> {
    let flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = install(program, flags)?;
    // SAFETY: with this flag the answer is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

fn install(program: &[sock_filter], flags: u32) -> Result<usize, Errno> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let fprog = sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    let args = [
        SECCOMP_SET_MODE_FILTER as usize,
        flags as usize,
        core::ptr::from_ref(&fprog).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the kernel reads `fprog` and the `len` instructions it points to, and writes neither.
    result(unsafe { syscall(__NR_seccomp, args) })
}

/// Lets a call and its answer change places on one processor instead of waking another (Linux 6.6): several times faster
/// where processors sleep. EINVAL: the kernel is older.
pub fn answer_on_one_processor(listener: &OwnedFd) -> Result<(), Errno> {
    let args = [listener.as_raw_fd() as usize, SET_FLAGS, SYNC_WAKE_UP, 0, 0];
    // SAFETY: no memory is passed: the flags are the argument itself.
    result(unsafe { syscall(__NR_ioctl, args) }).map(drop)
}

/// A call that waits for its answer.
pub struct Waiting {
    id: u64,
    /// The thread that has made it, as this process's pid namespace numbers it; 0: it is not in there.
    pub thread: u32,
    /// What the filter saw of it.
    pub data: seccomp_data,
}

/// Takes the next call that waits. It does not block where `poll(2)` said that there is one. ENOENT: its thread was killed.
pub fn receive(listener: &OwnedFd) -> Result<Waiting, Errno> {
    let mut taken = core::mem::MaybeUninit::<seccomp_notif>::zeroed();
    let address = taken.as_mut_ptr().expose_provenance();
    let args = [listener.as_raw_fd() as usize, RECV, address, 0, 0];
    // SAFETY: the kernel writes one `seccomp_notif`, of which zero is a value too, and asks that it be zero before.
    let taken = unsafe {
        result(syscall(__NR_ioctl, args))?;
        taken.assume_init()
    };
    Ok(Waiting {
        id: taken.id,
        thread: taken.pid,
        data: taken.data,
    })
}

/// Answers it with an error. ENOENT: its thread was killed.
pub fn refuse(listener: &OwnedFd, waiting: &Waiting, errno: i32) -> Result<(), Errno> {
    let mut answer = seccomp_notif_resp {
        id: waiting.id,
        val: 0,
        error: -errno,
        flags: 0,
    };
    let address = core::ptr::from_mut(&mut answer).expose_provenance();
    let args = [listener.as_raw_fd() as usize, SEND, address, 0, 0];
    // SAFETY: the kernel reads one `seccomp_notif_resp`.
    result(unsafe { syscall(__NR_ioctl, args) }).map(drop)
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
