//! What each Landlock ABI handles: the table (`Documentation/userspace-api/landlock.rst`).

use linux_raw_sys::landlock::*;

use crate::error::{Cause, Error, Step, Subject};
use crate::sys::{self, Errno};

/// Look up pathname unix sockets, ABI 9 (not in linux-raw-sys 0.12).
pub const RESOLVE_UNIX: u64 = 1 << 16;
/// Bind UDP sockets, ABI 10 (not in linux-raw-sys 0.12).
pub const BIND_UDP: u64 = 1 << 2;
/// Connect UDP sockets, or send to an address, ABI 10 (not in linux-raw-sys 0.12).
pub const CONNECT_SEND_UDP: u64 = 1 << 3;

/// The oldest ABI with which a launch is possible: truncation is handled from there on.
pub const OLDEST: u32 = 3;
/// The newest ABI known here; a newer kernel is used at this one.
pub const NEWEST: u32 = 11;
/// The first ABI that handles TCP ports.
pub const TCP: u32 = 4;
/// The first ABI that handles device ioctl.
pub const IOCTL: u32 = 5;
/// The first ABI with which the kernel's audit can log what is denied.
pub const LOG: u32 = 7;
/// The first ABI that handles pathname unix sockets.
pub const UNIX: u32 = 9;

/// What an ABI added, or in [`HANDLED`] what it handles.
#[derive(Clone, Copy)]
struct Row {
    linux: &'static str,
    fs: u64,
    net: u64,
    scoped: u64,
}

/// One row an ABI, the first is ABI 1.
const ROWS: [Row; NEWEST as usize] = [
    row("5.13", FIRST, 0, 0),
    row("5.19", LANDLOCK_ACCESS_FS_REFER as u64, 0, 0),
    row("6.2", LANDLOCK_ACCESS_FS_TRUNCATE as u64, 0, 0),
    row(
        "6.7",
        0,
        (LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP) as u64,
        0,
    ),
    row("6.10", LANDLOCK_ACCESS_FS_IOCTL_DEV as u64, 0, 0),
    row(
        "6.12",
        0,
        0,
        (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL) as u64,
    ),
    row("6.15", 0, 0, 0),
    row("7.0", 0, 0, 0),
    row("7.1", RESOLVE_UNIX, 0, 0),
    row("7.2", 0, BIND_UDP | CONNECT_SEND_UDP, 0),
    row("7.3", 0, 0, 0),
];

/// What each ABI handles: what it added, and all that came before.
const HANDLED: [Row; NEWEST as usize] = {
    let mut rows = ROWS;
    let mut index = 1;
    while index < rows.len() {
        rows[index].fs |= rows[index - 1].fs;
        rows[index].net |= rows[index - 1].net;
        rows[index].scoped |= rows[index - 1].scoped;
        index += 1;
    }
    rows
};

/// The rights of ABI 1.
const FIRST: u64 = (LANDLOCK_ACCESS_FS_EXECUTE
    | LANDLOCK_ACCESS_FS_WRITE_FILE
    | LANDLOCK_ACCESS_FS_READ_FILE
    | LANDLOCK_ACCESS_FS_READ_DIR
    | LANDLOCK_ACCESS_FS_REMOVE_DIR
    | LANDLOCK_ACCESS_FS_REMOVE_FILE
    | LANDLOCK_ACCESS_FS_MAKE_CHAR
    | LANDLOCK_ACCESS_FS_MAKE_DIR
    | LANDLOCK_ACCESS_FS_MAKE_REG
    | LANDLOCK_ACCESS_FS_MAKE_SOCK
    | LANDLOCK_ACCESS_FS_MAKE_FIFO
    | LANDLOCK_ACCESS_FS_MAKE_BLOCK
    | LANDLOCK_ACCESS_FS_MAKE_SYM) as u64;

const fn row(linux: &'static str, fs: u64, net: u64, scoped: u64) -> Row {
    Row {
        linux,
        fs,
        net,
        scoped,
    }
}

/// A Landlock ABI from [`OLDEST`] to [`NEWEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(u32);

impl Abi {
    /// The ABI to use on a kernel that answers `version`; `None` below [`OLDEST`].
    pub const fn of_kernel(version: u32) -> Option<Self> {
        if version < OLDEST {
            None
        } else if version > NEWEST {
            Some(Abi(NEWEST))
        } else {
            Some(Abi(version))
        }
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether this ABI is `needed` or newer.
    pub const fn has(self, needed: u32) -> bool {
        self.0 >= needed
    }

    const fn handled(self) -> Row {
        HANDLED[self.0 as usize - 1]
    }

    /// Every filesystem right that the ABI knows: all are handled.
    pub const fn fs(self) -> u64 {
        self.handled().fs
    }

    /// Every network right that the ABI knows: all are handled.
    pub const fn net(self) -> u64 {
        self.handled().net
    }

    /// Every scope that the ABI knows: all are used.
    pub const fn scoped(self) -> u64 {
        self.handled().scoped
    }

    /// The size in bytes of the ABI's `landlock_ruleset_attr`, as far as it is used here.
    pub const fn attr_size(self) -> usize {
        match self.0 {
            0..4 => 8,
            4..6 => 16,
            _ => 24,
        }
    }

    /// The attributes of this ABI's ruleset.
    pub fn ruleset_attr(self) -> landlock_ruleset_attr {
        landlock_ruleset_attr {
            handled_access_fs: self.fs(),
            handled_access_net: self.net(),
            scoped: self.scoped(),
        }
    }
}

/// The Linux version that brought an ABI.
pub const fn linux_of(abi: u32) -> &'static str {
    if abi == 0 || abi > NEWEST {
        "newer"
    } else {
        ROWS[abi as usize - 1].linux
    }
}

/// What a launch makes of the kernel's answer to the version query.
pub fn judge(answer: Result<u32, Errno>) -> Result<Abi, Error<'static>> {
    let cause = match answer {
        Ok(version) => match Abi::of_kernel(version) {
            Some(abi) => return Ok(abi),
            None => Cause::NeedsAbi {
                needed: OLDEST,
                since: linux_of(OLDEST),
                found: version,
            },
        },
        Err(Errno::NOSYS) => Cause::Explained(
            Errno::NOSYS,
            "this kernel has no Landlock: Linux 6.2 or newer with CONFIG_SECURITY_LANDLOCK is needed",
        ),
        Err(Errno::OPNOTSUPP) => Cause::Explained(
            Errno::OPNOTSUPP,
            "built in but not enabled: boot with landlock in lsm=, see /sys/kernel/security/lsm",
        ),
        Err(errno) => Cause::Errno(errno),
    };
    Err(Error::refused(
        Step::Landlock,
        Subject::Name("version"),
        cause,
    ))
}

/// Asks this kernel.
pub fn probe() -> Result<Abi, Error<'static>> {
    judge(sys::landlock::abi_version())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn every_abi_handles_what_its_kernel_documents() {
        // (ABI, last filesystem bit, network rights, scopes, attribute size)
        let documented = [
            (3, 14, 0, 0, 8),
            (4, 14, 2, 0, 16),
            (5, 15, 2, 0, 16),
            (6, 15, 2, 2, 24),
            (7, 15, 2, 2, 24),
            (8, 15, 2, 2, 24),
            (9, 16, 2, 2, 24),
            (10, 16, 4, 2, 24),
            (11, 16, 4, 2, 24),
        ];
        for (number, last, net, scopes, size) in documented {
            let abi = Abi::of_kernel(number).unwrap();
            assert_eq!(abi.fs(), (1 << (last + 1)) - 1, "ABI {number}");
            assert_eq!(abi.net(), (1 << net) - 1, "ABI {number}");
            assert_eq!(abi.scoped(), (1 << scopes) - 1, "ABI {number}");
            assert_eq!(abi.attr_size(), size, "ABI {number}");
        }
    }

    #[test]
    fn a_newer_kernel_is_used_at_the_newest_abi_known() {
        assert_eq!(Abi::of_kernel(12), Abi::of_kernel(NEWEST));
        assert_eq!(Abi::of_kernel(u32::MAX), Abi::of_kernel(NEWEST));
    }

    #[test]
    fn what_is_too_old_absent_or_off_has_a_message_of_its_own() {
        let message = |answer| format!("{}", judge(answer).unwrap_err());
        assert_eq!(
            message(Ok(2)),
            "oarbank-agent: landlock: version: needs Landlock ABI 3 (Linux 6.2), this kernel has ABI 2"
        );
        assert!(message(Ok(1)).ends_with("has ABI 1"));
        assert!(message(Err(Errno::NOSYS)).contains("ENOSYS (this kernel has no Landlock: "));
        assert!(message(Err(Errno::OPNOTSUPP)).contains("EOPNOTSUPP (built in but not enabled"));
    }
}
