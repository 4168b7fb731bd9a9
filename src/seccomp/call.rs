//! What a line of the table is.

use super::architecture::{ARCHITECTURES, Architecture};

/// The number of a call that an architecture lacks.
pub const NONE: u16 = u16::MAX;

/// One past the highest number that the table knows: what comes from here on is answered ENOSYS.
pub const NUMBERS: usize = 470;

/// The answer to a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not permitted: the usual answer.
    Eperm,
    /// As if the kernel did not have the call; programs fall back.
    Enosys,
    /// As the kernel answers with sysctl `vm.memfd_noexec=2`.
    Eacces,
}

/// A call whose arguments decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// `clone(flags, ...)`
    Clone,
    /// `ioctl(fd, cmd, ...)`
    Ioctl,
    /// `memfd_create(name, flags)`
    Memfd,
    /// `mknod(path, mode, dev)`
    Mknod,
    /// `mknodat(dirfd, path, mode, dev)`
    Mknodat,
    /// `prlimit64(pid, resource, new, old)`
    Prlimit,
    /// `sendmmsg(fd, messages, count, flags)`
    Sendmmsg,
    /// `sendmsg(fd, message, flags)`
    Sendmsg,
    /// `sendto(fd, buffer, length, flags, ...)`
    Sendto,
    /// `setsockopt(fd, level, name, ...)`
    Setsockopt,
    /// `socket(family, type, protocol)`
    Socket,
    /// `socketpair(family, type, protocol, ...)`
    Socketpair,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed.
    Allow,
    /// Refused with this answer.
    Refuse(Answer),
    /// Decided by its arguments.
    Decide(Check),
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The name, as in `syscalls(2)`.
    pub name: &'static str,
    numbers: [u16; ARCHITECTURES],
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why, or for a checked call what is allowed; empty where the group's reason says it.
    pub reason: &'static str,
}

impl Call {
    pub(super) const fn allowed(name: &'static str, numbers: [u16; ARCHITECTURES]) -> Self {
        Call {
            name,
            numbers,
            verdict: Verdict::Allow,
            reason: "",
        }
    }

    pub(super) const fn refused(
        name: &'static str,
        numbers: [u16; ARCHITECTURES],
        answer: Answer,
        reason: &'static str,
    ) -> Self {
        Call {
            name,
            numbers,
            verdict: Verdict::Refuse(answer),
            reason,
        }
    }

    pub(super) const fn checked(
        name: &'static str,
        numbers: [u16; ARCHITECTURES],
        check: Check,
        reason: &'static str,
    ) -> Self {
        Call {
            name,
            numbers,
            verdict: Verdict::Decide(check),
            reason,
        }
    }

    /// The number on an architecture, if it has the call.
    pub const fn number(&self, architecture: Architecture) -> Option<usize> {
        let number = self.numbers[architecture as usize];
        if number == NONE {
            None
        } else {
            Some(number as usize)
        }
    }
}

/// Calls that share a reason.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The group's name.
    pub name: &'static str,
    /// Why they are treated as they are.
    pub reason: &'static str,
    /// The calls, sorted by name.
    pub calls: &'static [Call],
}

impl Group {
    /// Why a call of it is treated as it is; for one that is decided by its arguments, what is allowed.
    pub const fn reason_for(&self, call: &Call) -> &'static str {
        if call.reason.is_empty() {
            self.reason
        } else {
            call.reason
        }
    }
}
