//! Whether what Landlock denies can be read, from the kernel's audit.

use core::fmt::{self, Display, Formatter};

use super::event::errno_name;
use crate::landlock::abi::{self, Abi};
use crate::sys::net::Audit;
use crate::sys::{Errno, OwnedFd, fs, net};

/// Why not, or when only.
pub(super) enum Reason {
    /// A fact.
    Fact(&'static str),
    /// A system call's error, and what it means.
    Call(Errno, &'static str),
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Fact(fact) => f.write_str(fact),
            Reason::Call(errno, what) => {
                write!(f, "{what} ({})", errno_name(errno.raw_os_error()))
            }
        }
    }
}

/// The first pid namespace, whose numbers the records have (`PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h`).
const FIRST_PIDS: &[u8] = b"pid:[4026531836]";

/// The records.
pub(super) struct Records {
    pub(super) socket: OwnedFd,
    /// The length of the launcher's path, as the records have it.
    pub(super) launcher: usize,
    /// What is doubtful.
    pub(super) doubt: Option<Reason>,
}

/// The records; `launcher` is for the launcher's path.
pub(super) fn records(abi: Abi, launcher: &mut [u8]) -> Result<Records, Reason> {
    if !abi.has(abi::LOG) {
        return Err(Reason::Fact(
            "this kernel's Landlock does not log what it denies, which ABI 7 (Linux 6.15) brought",
        ));
    }
    let socket = net::audit_records().map_err(|errno| match errno {
        Errno::PROTONOSUPPORT => Reason::Call(errno, "this kernel has no audit, CONFIG_AUDIT"),
        Errno::PERM | Errno::CONNREFUSED => Reason::Call(
            errno,
            "to read the kernel's audit takes CAP_AUDIT_READ in the first user namespace",
        ),
        errno => Reason::Call(errno, "the kernel's audit can't be read"),
    })?;
    let (mut own, mut first) = ([0; 40], [0; 40]);
    if fs::read_link_start(c"/proc/self/ns/pid", &mut own) != Ok(FIRST_PIDS) {
        return Err(Reason::Fact(
            "the kernel's audit numbers processes as the first pid namespace does, and this is another",
        ));
    }
    let own = fs::read_link_start(c"/proc/self/ns/net", &mut own);
    let first = fs::read_link_start(c"/proc/1/ns/net", &mut first);
    // Who may not look at process 1 is told nothing of it.
    if let (Ok(own), Ok(first)) = (own, first)
        && own != first
    {
        return Err(Reason::Fact(
            "the kernel's audit is told in the first network namespace only, and this is another",
        ));
    }
    let launcher = fs::read_link_start(c"/proc/self/exe", launcher)
        .map_err(|errno| Reason::Call(errno, "the launcher's own path can't be read"))?
        .len();
    let doubt = match net::audit_status() {
        Ok(Audit { on: false, .. }) => {
            return Err(Reason::Fact(
                "the kernel's audit is off: auditctl -e 1, or audit=1 at boot",
            ));
        }
        Ok(Audit { limited: false, .. }) => None,
        Ok(Audit { limited: true, .. }) => Some(Reason::Fact(
            "seen as far as the rate limit of the kernel's audit allows (auditctl -r); none if that drops the first",
        )),
        Err(errno) => Some(Reason::Call(
            errno,
            "seen if the kernel's audit is on, which can't be told without CAP_AUDIT_CONTROL",
        )),
    };
    Ok(Records {
        socket,
        launcher,
        doubt,
    })
}
