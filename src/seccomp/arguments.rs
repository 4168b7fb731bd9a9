//! The other calls that are decided by an argument. Each names the argument's width in the kernel and what
//! becomes of the other half.

use linux_raw_sys::general::{MFD_NOEXEC_SEAL, S_IFBLK, S_IFCHR, S_IFMT};
use linux_raw_sys::ioctl::{TIOCLINUX, TIOCSTI};

use super::call::{Call, Check, Verdict};
use super::filter::{Tails, high, low};
use crate::bpf::instruction::Test::{AnyBit, Equal};
use crate::bpf::{Assembler, Label};

/// The `ioctl` commands that are refused, with the reason.
pub const IOCTLS: [(u32, &str); 13] = [
    (TIOCSTI, "types into the caller's terminal"),
    (TIOCLINUX, "types into the caller's terminal"),
    (
        0x5423,
        "TIOCSETD: loads line disciplines and takes the caller's terminal from it",
    ),
    (
        0x4008_6602,
        "FS_IOC_SETFLAGS: inode flags, by a descriptor opened for reading",
    ),
    (0x4004_6602, "FS_IOC32_SETFLAGS: as FS_IOC_SETFLAGS"),
    (
        0x401c_5820,
        "FS_IOC_FSSETXATTR: inode flags and project ids",
    ),
    (
        0x4080_6685,
        "FS_IOC_ENABLE_VERITY: makes a file unwritable for good",
    ),
    (
        0x800c_6613,
        "FS_IOC_SET_ENCRYPTION_POLICY: changes a directory opened for reading",
    ),
    (
        0xc050_6617,
        "FS_IOC_ADD_ENCRYPTION_KEY: keys of the file system",
    ),
    (
        0xc040_6618,
        "FS_IOC_REMOVE_ENCRYPTION_KEY: keys of the file system",
    ),
    (
        0xc040_6619,
        "FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS: keys of the file system",
    ),
    (
        0x4004_7211,
        "FAT_IOCTL_SET_ATTRIBUTES: attributes, by a descriptor opened for reading",
    ),
    (0x4008_7602, "FS_IOC_SETVERSION: the inode's version"),
];

/// The command types (bits 8 to 15) of file systems that make, snapshot and remove directories by `ioctl` on a
/// directory opened for reading, past every Landlock hook.
pub const IOCTL_TYPES: [(u32, &str); 2] = [
    (
        0x94,
        "btrfs: every command but FICLONE, FICLONERANGE, FIDEDUPERANGE",
    ),
    (0xbc, "bcachefs: every command"),
];

/// The commands of the type of btrfs that every file system has and that ask for descriptors opened accordingly:
/// FICLONE, FICLONERANGE, FIDEDUPERANGE (`cp --reflink`).
const CLONES: [u32; 3] = [0x4004_9409, 0x4020_940d, 0xc018_9436];

/// Numbers, each with the reason why it is refused.
pub type Refused = &'static [(u32, &'static str)];

/// The commands of `ioctl` that are refused, one by one and by their types; other calls have none.
pub const fn refused_commands(call: &Call) -> (Refused, Refused) {
    match call.verdict {
        Verdict::Decide(Check::Ioctl) => (&IOCTLS, &IOCTL_TYPES),
        _ => (&[], &[]),
    }
}

/// `ioctl(fd, unsigned int cmd, ...)`: the low half is the command, the high half is not looked at.
pub(super) const fn ioctl(a: &mut Assembler, tails: &Tails) -> Label {
    let mut next = tails.allow;
    let mut index = 0;
    while index < IOCTL_TYPES.len() {
        next = a.jump(Equal(IOCTL_TYPES[index].0 << 8), tails.eperm, next);
        index += 1;
    }
    next = a.and(0xff00, next);
    index = 0;
    while index < CLONES.len() {
        next = a.jump(Equal(CLONES[index]), tails.allow, next);
        index += 1;
    }
    index = 0;
    while index < IOCTLS.len() {
        next = a.jump(Equal(IOCTLS[index].0), tails.eperm, next);
        index += 1;
    }
    a.load(low(1), next)
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
