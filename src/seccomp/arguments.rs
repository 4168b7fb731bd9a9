//! The other calls that are decided by an argument. Each names the argument's width in the kernel and what
//! becomes of the other half.

use linux_raw_sys::general::{MFD_NOEXEC_SEAL, S_IFBLK, S_IFCHR, S_IFMT};
use linux_raw_sys::ioctl::{TIOCLINUX, TIOCSTI};

use super::filter::{Tails, high, low};
use crate::bpf::instruction::Test::{AnyBit, Equal};
use crate::bpf::{Assembler, Label};

/// `ioctl(fd, unsigned int cmd, ...)`: the low half is the command, the high half is not looked at.
pub(super) const fn ioctl(a: &mut Assembler, tails: &Tails) -> Label {
    let linux = a.jump(Equal(TIOCLINUX), tails.eperm, tails.allow);
    let sti = a.jump(Equal(TIOCSTI), tails.eperm, linux);
    a.load(low(1), sti)
}

/// `prlimit64(pid_t pid, unsigned int resource, const struct rlimit64 *new, ...)`: the low half of the pid is
/// 0 (oneself), or both halves of the pointer are (only reading).
pub(super) const fn prlimit(a: &mut Assembler, tails: &Tails) -> Label {
    let new = a.jump(Equal(0), tails.allow, tails.eperm);
    let new = a.load(high(2), new);
    let new = a.jump(Equal(0), new, tails.eperm);
    let new = a.load(low(2), new);
    let oneself = a.jump(Equal(0), tails.allow, new);
    a.load(low(0), oneself)
}

/// The mode of `mknod` and `mknodat`, at `argument`: the low 16 bits (`umode_t`), of which the filter looks
/// at the type. No character device (also not the one of overlay whiteouts) and no block device.
pub(super) const fn mknod(a: &mut Assembler, argument: u32, tails: &Tails) -> Label {
    let block = a.jump(Equal(S_IFBLK), tails.eperm, tails.allow);
    let character = a.jump(Equal(S_IFCHR), tails.eperm, block);
    let kind = a.and(S_IFMT, character);
    a.load(low(argument), kind)
}

/// `memfd_create(name, unsigned int flags)`: the low half must have MFD_NOEXEC_SEAL.
pub(super) const fn memfd_create(a: &mut Assembler, tails: &Tails) -> Label {
    let sealed = a.jump(AnyBit(MFD_NOEXEC_SEAL), tails.allow, tails.eacces);
    a.load(low(1), sealed)
}
