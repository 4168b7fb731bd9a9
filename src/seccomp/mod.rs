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

use crate::error::{Error, Step};
use crate::sys;

/// Installs the filter of a mode.
pub fn apply(mode: Mode) -> Result<(), Error<'static>> {
    sys::seccomp::set_mode_filter(filter::program(mode))
        .map_err(|errno| Error::call(Step::Seccomp, "seccomp(SECCOMP_SET_MODE_FILTER)", errno))
}
