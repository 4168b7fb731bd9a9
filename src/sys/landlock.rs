//! `landlock_create_ruleset(2)`, `landlock_add_rule(2)`, `landlock_restrict_self(2)`.

use core::mem::size_of;

use linux_raw_sys::general::{
    __NR_landlock_add_rule, __NR_landlock_create_ruleset, __NR_landlock_restrict_self,
};
use linux_raw_sys::landlock::{
    LANDLOCK_CREATE_RULESET_ERRATA, LANDLOCK_CREATE_RULESET_VERSION, landlock_net_port_attr,
    landlock_path_beneath_attr, landlock_rule_type, landlock_ruleset_attr,
};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::arch::syscall;
use super::{Errno, result};

// The sizes that the kernel knows the structures by (`include/uapi/linux/landlock.h`).
const _: () = assert!(size_of::<landlock_ruleset_attr>() == 24);
const _: () = assert!(size_of::<landlock_path_beneath_attr>() == 12);
const _: () = assert!(size_of::<landlock_net_port_attr>() == 16);

/// The Landlock ABI of this kernel. ENOSYS: the kernel has no Landlock; EOPNOTSUPP: it is built in but not enabled.
pub fn abi_version() -> Result<u32, Errno> {
    // SAFETY: a NULL attribute of size 0 is how the version is asked for; the kernel reads nothing.
    let answer = unsafe {
        syscall(
            __NR_landlock_create_ruleset,
            [0, 0, LANDLOCK_CREATE_RULESET_VERSION as usize, 0, 0],
        )
    };
    result(answer).map(|version| version as u32)
}

/// Which faults of this kernel's Landlock are fixed, one bit each (Linux 6.15, and what it was carried back to).
pub fn errata() -> Result<u32, Errno> {
    let args = [0, 0, LANDLOCK_CREATE_RULESET_ERRATA as usize, 0, 0];
    // SAFETY: as for the version, the kernel reads nothing.
    let answer = unsafe { syscall(__NR_landlock_create_ruleset, args) };
    result(answer).map(|errata| errata as u32)
}

/// Makes a ruleset. `size` is the part of `attr` that the kernel's ABI has, in bytes, 24 at most.
/// The descriptor is close-on-exec.
pub fn create_ruleset(attr: &landlock_ruleset_attr, size: usize) -> Result<OwnedFd, Errno> {
    let size = size.min(size_of::<landlock_ruleset_attr>());
    // SAFETY: the kernel reads `size` bytes at `attr`, no more than the structure has.
    let answer = unsafe {
        syscall(
            __NR_landlock_create_ruleset,
            [core::ptr::from_ref(attr).expose_provenance(), size, 0, 0, 0],
        )
    };
    // SAFETY: on success the answer is a new descriptor that nobody else owns.
    result(answer).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Grants `access` on the file, or beneath the directory, that `parent` refers to.
pub fn add_path_beneath(ruleset: &OwnedFd, parent: impl AsFd, access: u64) -> Result<(), Errno> {
    let parent_fd = parent.as_fd().as_raw_fd();
    let attr = landlock_path_beneath_attr {
        allowed_access: access,
        parent_fd,
    };
    add_rule(
        ruleset,
        landlock_rule_type::LANDLOCK_RULE_PATH_BENEATH,
        &attr,
    )
}

/// Grants `access` on a TCP port.
pub fn add_net_port(ruleset: &OwnedFd, port: u16, access: u64) -> Result<(), Errno> {
    let attr = landlock_net_port_attr {
        allowed_access: access,
        port: u64::from(port),
    };
    add_rule(ruleset, landlock_rule_type::LANDLOCK_RULE_NET_PORT, &attr)
}

/// The attribute of a rule, which the kernel knows the size of by the rule's type.
trait RuleAttr {}
impl RuleAttr for landlock_path_beneath_attr {}
impl RuleAttr for landlock_net_port_attr {}

fn add_rule<A: RuleAttr>(
    ruleset: &OwnedFd,
    kind: landlock_rule_type,
    attr: &A,
) -> Result<(), Errno> {
    let args = [
        ruleset.as_raw_fd() as usize,
        kind as usize,
        core::ptr::from_ref(attr).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: the two callers pair the type with its own attribute, which the kernel reads.
    result(unsafe { syscall(__NR_landlock_add_rule, args) }).map(drop)
}

/// Confines this thread (the process has one) and all it will start. `flags`: `LANDLOCK_RESTRICT_SELF_...`.
pub fn restrict_self(ruleset: &OwnedFd, flags: u32) -> Result<(), Errno> {
    let args = [ruleset.as_raw_fd() as usize, flags as usize, 0, 0, 0];
    // SAFETY: no memory is passed.
    result(unsafe { syscall(__NR_landlock_restrict_self, args) }).map(drop)
}
