//! What each kind of grant means in Landlock rights: the table.

use linux_raw_sys::landlock::*;

use super::abi::{Abi, RESOLVE_UNIX};

/// A kind of grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `ro`, `exe` and the base system: read and execute.
    Program,
    /// `rw`: every right; execute only with `exec_rw`.
    Work {
        /// Whether written files may be executed.
        exec_rw: bool,
    },
    /// `rd`: read and list.
    Input,
    /// `wo`: make files and directories, write, truncate.
    Outbox,
    /// A device node of the base system: read and write.
    Device,
    /// A GPU device node: read, write, list and, where it is handled, control.
    Gpu,
    /// The module's own tasks, with `gpu`.
    Tasks,
    /// The broker's socket.
    Broker,
}

impl Grant {
    /// The rights on a directory and what is beneath it, at an ABI.
    pub fn rights(self, abi: Abi) -> u64 {
        let rights = match self {
            Grant::Program => EXECUTE | READ_FILE | READ_DIR,
            // Not RESOLVE_UNIX: it is the broker's alone.
            Grant::Work { exec_rw: true } => !RESOLVE_UNIX,
            Grant::Work { exec_rw: false } => !RESOLVE_UNIX & !EXECUTE,
            Grant::Input => READ_FILE | READ_DIR,
            Grant::Outbox => MAKE_REG | MAKE_DIR | WRITE_FILE | TRUNCATE,
            Grant::Device => READ_FILE | WRITE_FILE,
            Grant::Gpu => READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV,
            Grant::Tasks => WRITE_FILE | TRUNCATE,
            Grant::Broker => RESOLVE_UNIX,
        };
        rights & abi.fs()
    }

    /// The rights on a single file: those that only a directory can have are left out.
    pub fn file_rights(self, abi: Abi) -> u64 {
        self.rights(abi) & (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX)
    }
}

/// The names of filesystem rights, from the lowest bit (`LANDLOCK_ACCESS_FS_*`).
const NAMES: [&str; 17] = [
    "execute",
    "write_file",
    "read_file",
    "read_dir",
    "remove_dir",
    "remove_file",
    "make_char",
    "make_dir",
    "make_reg",
    "make_sock",
    "make_fifo",
    "make_block",
    "make_sym",
    "refer",
    "truncate",
    "ioctl_dev",
    "resolve_unix",
];

/// The names of the rights in a set.
pub fn right_names(rights: u64) -> impl Iterator<Item = &'static str> {
    NAMES
        .into_iter()
        .enumerate()
        .filter(move |(bit, _)| rights & (1 << bit) != 0)
        .map(|(_, name)| name)
}

impl Grant {
    /// What it means, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Grant::Program => "read and execute",
            Grant::Work { exec_rw: true } => "every file right",
            Grant::Work { exec_rw: false } => "every file right but execute",
            Grant::Input => "read files and list",
            Grant::Outbox => "make files and directories, write, truncate",
            Grant::Device => "read and write",
            Grant::Gpu => "read, write, list, device ioctl",
            Grant::Tasks => "write the process's own tasks",
            Grant::Broker => "connect to this unix socket",
        }
    }
}

const EXECUTE: u64 = LANDLOCK_ACCESS_FS_EXECUTE as u64;
const READ_FILE: u64 = LANDLOCK_ACCESS_FS_READ_FILE as u64;
const READ_DIR: u64 = LANDLOCK_ACCESS_FS_READ_DIR as u64;
const WRITE_FILE: u64 = LANDLOCK_ACCESS_FS_WRITE_FILE as u64;
const TRUNCATE: u64 = LANDLOCK_ACCESS_FS_TRUNCATE as u64;
const MAKE_REG: u64 = LANDLOCK_ACCESS_FS_MAKE_REG as u64;
const MAKE_DIR: u64 = LANDLOCK_ACCESS_FS_MAKE_DIR as u64;
const IOCTL_DEV: u64 = LANDLOCK_ACCESS_FS_IOCTL_DEV as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn abis() -> impl Iterator<Item = Abi> {
        (3..=11).filter_map(Abi::of_kernel)
    }

    #[test]
    fn no_grant_has_a_right_that_the_abi_lacks() {
        let grants = [
            Grant::Program,
            Grant::Work { exec_rw: true },
            Grant::Work { exec_rw: false },
            Grant::Input,
            Grant::Outbox,
            Grant::Device,
            Grant::Gpu,
            Grant::Tasks,
            Grant::Broker,
        ];
        for abi in abis() {
            for grant in grants {
                assert_eq!(grant.rights(abi) & !abi.fs(), 0, "{grant:?} at {abi:?}");
                assert_eq!(
                    grant.file_rights(abi) & !grant.rights(abi),
                    0,
                    "{grant:?} at {abi:?}"
                );
            }
        }
    }

    #[test]
    fn rights_that_came_later_are_granted_where_they_exist() {
        let numbers = |grant: Grant, bit: u64| -> Vec<u32> {
            abis()
                .filter(|&abi| grant.rights(abi) & bit != 0)
                .map(Abi::number)
                .collect()
        };
        let from = |first: u32| -> Vec<u32> { (first..=11).collect() };
        assert_eq!(numbers(Grant::Gpu, 1 << 15), from(5));
        assert_eq!(numbers(Grant::Work { exec_rw: false }, 1 << 15), from(5));
        assert_eq!(numbers(Grant::Broker, 1 << 16), from(9));
        assert_eq!(numbers(Grant::Work { exec_rw: true }, 1 << 16), []);
        assert_eq!(numbers(Grant::Work { exec_rw: true }, 1), from(3));
        assert_eq!(numbers(Grant::Work { exec_rw: false }, 1), []);
    }

    #[test]
    fn written_files_are_not_executable_unless_granted() {
        for abi in abis() {
            for grant in [
                Grant::Work { exec_rw: false },
                Grant::Input,
                Grant::Outbox,
                Grant::Device,
                Grant::Tasks,
            ] {
                assert_eq!(grant.rights(abi) & 1, 0, "{grant:?}");
            }
            // Nothing but the five ways of making and writing is in an outbox.
            assert_eq!(
                Grant::Outbox.rights(abi),
                1 << 1 | 1 << 7 | 1 << 8 | 1 << 14
            );
        }
    }
}
