//! `clone(2)`: processes and threads, but no namespaces and no children for the parent.

use linux_raw_sys::general::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWTIME,
    CLONE_NEWUSER, CLONE_NEWUTS, CLONE_PARENT,
};

use super::filter::{Tails, low};
use crate::bpf::instruction::Test::AnyBit;
use crate::bpf::{Assembler, Label};

/// Every namespace flag, and CLONE_PARENT: the agent would get children, and zombies, that it never started.
///
/// CLONE_NEWTIME lies in the exit signal's byte, where `clone` can't mean it; no signal
/// has that bit, so it is refused with the others.
pub const REFUSED_FLAGS: u32 = CLONE_NEWCGROUP
    | CLONE_NEWIPC
    | CLONE_NEWNET
    | CLONE_NEWNS
    | CLONE_NEWPID
    | CLONE_NEWTIME
    | CLONE_NEWUSER
    | CLONE_NEWUTS
    | CLONE_PARENT;

/// The flags, an `unsigned long` of which the kernel takes the low 32 bits (`kernel/fork.c`); on every
/// architecture of the table they are the first argument.
pub(super) const fn clone(a: &mut Assembler, tails: &Tails) -> Label {
    let flags = a.jump(AnyBit(REFUSED_FLAGS), tails.eperm, tails.allow);
    a.load(low(0), flags)
}
