//! The seccomp filter: one table of calls, one program.
//!
//! Read [`refused`] first (what is refused, and what is decided by arguments), then [`sockets`], [`clone`]
//! and [`arguments`] (how arguments are read), [`allowed`] (everything else that is known), and [`filter`]
//! (how the program is laid out).

pub mod allowed;
pub mod architecture;
pub mod arguments;
pub mod call;
pub mod clone;
pub mod filter;
pub mod refused;
pub mod sockets;
mod tree;

pub use architecture::Architecture;
pub use filter::{Mode, assemble};

use linux_raw_sys::ptrace::{SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF};

use crate::bpf::Instruction;
use crate::bpf::assembler::CAPACITY;
use crate::bpf::instruction;
use crate::error::{Cause, Error, Step, Subject};
use crate::sys::{self, Errno, OwnedFd};

/// Installs the filter of a mode.
pub fn apply(mode: Mode) -> Result<(), Error<'static>> {
    sys::seccomp::set_mode_filter(filter::program(mode))
        .map_err(|errno| Error::call(Step::Seccomp, "seccomp(SECCOMP_SET_MODE_FILTER)", errno))
}

/// Installs it with each error that it answers replaced by a question to the listener, which must give that error
/// (`bpf::run`); whoever closes the listener lets the kernel answer ENOSYS.
#[inline(never)]
pub fn apply_with_listener(mode: Mode) -> Result<OwnedFd, Error<'static>> {
    const CALL: &str = "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)";
    let mut room = [instruction::ret(0); CAPACITY];
    let ordinary = filter::program(mode);
    let asking = room.get_mut(..ordinary.len()).unwrap_or_default();
    for (to, from) in asking.iter_mut().zip(ordinary) {
        *to = asking_instead(*from);
    }
    sys::seccomp::set_mode_filter_with_listener(asking).map_err(|errno| match errno {
        Errno::BUSY => Error::refused(
            Step::Seccomp,
            Subject::Name(CALL),
            Cause::Explained(errno, "this process has a listener already, as in some containers: run it without --explain-denials"),
        ),
        errno => Error::call(Step::Seccomp, CALL, errno),
    })
}

/// An answer that is an error, as a question to the listener; any other instruction as it is.
fn asking_instead(instruction: Instruction) -> Instruction {
    let Instruction { code, k, .. } = instruction;
    if code == instruction::RET && k & SECCOMP_RET_ACTION_FULL == SECCOMP_RET_ERRNO {
        instruction::ret(SECCOMP_RET_USER_NOTIF)
    } else {
        instruction
    }
}
