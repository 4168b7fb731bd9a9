//! A refused call as it is written: `socket(AF_UNIX, SOCK_STREAM, 0)`.
//!
//! What is written comes from the registers, as the filter saw them; no memory of the module is read. Arguments that say
//! nothing without it, its pointers, are left out, and what stands behind them has its name before it: `memfd_create(flags 0)`.

use core::fmt::{self, Display, Formatter};

use linux_raw_sys::general::*;
use linux_raw_sys::net::*;
use linux_raw_sys::ptrace::seccomp_data;

use crate::seccomp::arguments::IOCTLS;
use crate::seccomp::{Architecture, filter};

/// How an argument is written.
#[derive(Clone, Copy)]
enum Kind {
    /// A signed number: a descriptor, a process, a count.
    Number,
    /// By the names of what it is made of.
    Names(&'static [Name]),
    /// A command of `ioctl`.
    Ioctl,
}

/// The name of a value, or of some of its bits.
struct Name {
    mask: u32,
    value: u32,
    name: &'static str,
}

/// A value as a whole.
const fn whole(value: u32, name: &'static str) -> Name {
    part(u32::MAX, value, name)
}

/// A value of some bits.
const fn part(mask: u32, value: u32, name: &'static str) -> Name {
    Name { mask, value, name }
}

/// One bit.
const fn bit(value: u32, name: &'static str) -> Name {
    part(value, value, name)
}

/// An argument: which, its name, and how it is written.
type Argument = (usize, &'static str, Kind);

/// The arguments that are written, by the call.
const WRITTEN: &[(&str, &[Argument])] = &[
    ("bpf", &[(0, "command", Kind::Number)]),
    ("clone", &[(0, "", Kind::Names(CLONE))]),
    ("fanotify_init", &[(0, "flags", Kind::Names(&[]))]),
    ("ioctl", &[(0, "", Kind::Number), (1, "", Kind::Ioctl)]),
    ("io_uring_enter", &[(0, "", Kind::Number)]),
    (
        "io_uring_register",
        &[(0, "", Kind::Number), (1, "", Kind::Number)],
    ),
    ("io_uring_setup", &[(0, "", Kind::Number)]),
    ("kcmp", &[(0, "", Kind::Number), (1, "", Kind::Number)]),
    ("keyctl", &[(0, "operation", Kind::Number)]),
    ("listen", &[(0, "", Kind::Number), (1, "", Kind::Number)]),
    ("memfd_create", &[(1, "flags", Kind::Names(MFD))]),
    ("migrate_pages", &[(0, "", Kind::Number)]),
    ("mknod", &[(1, "mode", Kind::Names(MODE))]),
    (
        "mknodat",
        &[(0, "", Kind::Names(AT)), (2, "mode", Kind::Names(MODE))],
    ),
    ("mount", &[(3, "flags", Kind::Names(&[]))]),
    ("move_pages", &[(0, "", Kind::Number)]),
    ("msgget", &[(0, "", Kind::Number)]),
    (
        "open_tree",
        &[(0, "", Kind::Names(AT)), (2, "flags", Kind::Names(&[]))],
    ),
    (
        "perf_event_open",
        &[(1, "process", Kind::Number), (2, "cpu", Kind::Number)],
    ),
    (
        "pidfd_getfd",
        &[(0, "", Kind::Number), (1, "", Kind::Number)],
    ),
    (
        "prlimit64",
        &[(0, "", Kind::Number), (1, "", Kind::Names(RLIMIT))],
    ),
    ("process_madvise", &[(0, "", Kind::Number)]),
    ("process_mrelease", &[(0, "", Kind::Number)]),
    ("process_vm_readv", &[(0, "", Kind::Number)]),
    ("process_vm_writev", &[(0, "", Kind::Number)]),
    (
        "ptrace",
        &[(0, "", Kind::Names(PTRACE)), (1, "", Kind::Number)],
    ),
    ("reboot", &[(2, "command", Kind::Names(&[]))]),
    ("semget", &[(0, "", Kind::Number), (1, "", Kind::Number)]),
    (
        "sendmmsg",
        &[(0, "", Kind::Number), (3, "flags", Kind::Names(MSG))],
    ),
    (
        "sendmsg",
        &[(0, "", Kind::Number), (2, "flags", Kind::Names(MSG))],
    ),
    (
        "sendto",
        &[(0, "", Kind::Number), (3, "flags", Kind::Names(MSG))],
    ),
    (
        "setns",
        &[(0, "", Kind::Number), (1, "", Kind::Names(CLONE))],
    ),
    (
        "setsockopt",
        &[
            (0, "", Kind::Number),
            (1, "", Kind::Names(LEVEL)),
            (2, "option", Kind::Number),
        ],
    ),
    ("shmget", &[(0, "", Kind::Number), (1, "", Kind::Number)]),
    (
        "socket",
        &[
            (0, "", Kind::Names(FAMILY)),
            (1, "", Kind::Names(TYPE)),
            (2, "", Kind::Number),
        ],
    ),
    (
        "socketpair",
        &[
            (0, "", Kind::Names(FAMILY)),
            (1, "", Kind::Names(TYPE)),
            (2, "", Kind::Number),
        ],
    ),
    ("syslog", &[(0, "", Kind::Number)]),
    ("umount2", &[(1, "flags", Kind::Names(&[]))]),
    ("unshare", &[(0, "", Kind::Names(CLONE))]),
    ("userfaultfd", &[(0, "flags", Kind::Names(&[]))]),
];

const CLONE: &[Name] = &[
    bit(CLONE_NEWNS, "CLONE_NEWNS"),
    bit(CLONE_NEWCGROUP, "CLONE_NEWCGROUP"),
    bit(CLONE_NEWUTS, "CLONE_NEWUTS"),
    bit(CLONE_NEWIPC, "CLONE_NEWIPC"),
    bit(CLONE_NEWUSER, "CLONE_NEWUSER"),
    bit(CLONE_NEWPID, "CLONE_NEWPID"),
    bit(CLONE_NEWNET, "CLONE_NEWNET"),
    bit(CLONE_NEWTIME, "CLONE_NEWTIME"),
    bit(CLONE_PARENT, "CLONE_PARENT"),
    bit(CLONE_VM, "CLONE_VM"),
    bit(CLONE_VFORK, "CLONE_VFORK"),
    bit(CLONE_FS, "CLONE_FS"),
    bit(CLONE_FILES, "CLONE_FILES"),
    bit(CLONE_SIGHAND, "CLONE_SIGHAND"),
    bit(CLONE_THREAD, "CLONE_THREAD"),
    // What is left of the exit signal's byte.
    part(0x7f, SIGCHLD, "SIGCHLD"),
];

const MFD: &[Name] = &[
    bit(MFD_CLOEXEC, "MFD_CLOEXEC"),
    bit(MFD_ALLOW_SEALING, "MFD_ALLOW_SEALING"),
    bit(MFD_HUGETLB, "MFD_HUGETLB"),
    bit(MFD_EXEC, "MFD_EXEC"),
];

const MODE: &[Name] = &[
    part(S_IFMT, S_IFCHR, "S_IFCHR"),
    part(S_IFMT, S_IFBLK, "S_IFBLK"),
];

const AT: &[Name] = &[whole(AT_FDCWD.cast_unsigned(), "AT_FDCWD")];

const FAMILY: &[Name] = &[
    whole(AF_UNIX, "AF_UNIX"),
    whole(AF_INET, "AF_INET"),
    whole(AF_INET6, "AF_INET6"),
    whole(AF_NETLINK, "AF_NETLINK"),
    whole(AF_PACKET, "AF_PACKET"),
    whole(AF_ALG, "AF_ALG"),
    whole(AF_VSOCK, "AF_VSOCK"),
    whole(AF_XDP, "AF_XDP"),
    whole(AF_BLUETOOTH, "AF_BLUETOOTH"),
];

const TYPE: &[Name] = &[
    part(0xf, SOCK_STREAM, "SOCK_STREAM"),
    part(0xf, SOCK_DGRAM, "SOCK_DGRAM"),
    part(0xf, SOCK_RAW, "SOCK_RAW"),
    part(0xf, SOCK_SEQPACKET, "SOCK_SEQPACKET"),
    bit(O_CLOEXEC, "SOCK_CLOEXEC"),
    bit(O_NONBLOCK, "SOCK_NONBLOCK"),
];

/// Of the kernel's `include/linux/socket.h`, which linux-raw-sys 0.12 lacks.
const MSG: &[Name] = &[
    bit(0x2000_0000, "MSG_FASTOPEN"),
    bit(0x4000, "MSG_NOSIGNAL"),
    bit(0x40, "MSG_DONTWAIT"),
];

const LEVEL: &[Name] = &[
    whole(IPPROTO_IP as u32, "IPPROTO_IP"),
    whole(IPPROTO_TCP as u32, "IPPROTO_TCP"),
    whole(IPPROTO_IPV6 as u32, "IPPROTO_IPV6"),
];

const RLIMIT: &[Name] = &[
    whole(RLIMIT_CPU, "RLIMIT_CPU"),
    whole(RLIMIT_FSIZE, "RLIMIT_FSIZE"),
    whole(RLIMIT_CORE, "RLIMIT_CORE"),
    whole(RLIMIT_NPROC, "RLIMIT_NPROC"),
    whole(RLIMIT_NOFILE, "RLIMIT_NOFILE"),
    whole(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"),
    whole(RLIMIT_AS, "RLIMIT_AS"),
];

/// Of `include/uapi/linux/ptrace.h`.
const PTRACE: &[Name] = &[
    whole(0, "PTRACE_TRACEME"),
    whole(16, "PTRACE_ATTACH"),
    whole(0x4206, "PTRACE_SEIZE"),
];

/// The arguments of a call that are written, and its name; `None`: no call of the table has its number.
fn written(number: usize) -> (Option<&'static str>, &'static [Argument]) {
    let name = filter::find(Architecture::NATIVE, number).map(|(_, call)| call.name);
    let written = WRITTEN.iter().find(|(call, _)| Some(*call) == name);
    (name, written.map_or(&[], |(_, arguments)| arguments))
}

/// A call, as far as it is written: what is not, is zero, so that calls that read the same are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its number.
    pub number: u32,
    arguments: [u32; 6],
}

impl Call {
    /// That of what the filter saw.
    pub fn of(data: &seccomp_data) -> Self {
        let number = data.nr.cast_unsigned();
        let mut arguments = [0; 6];
        for &(index, ..) in written(number as usize).1 {
            if let (Some(to), Some(from)) = (arguments.get_mut(index), data.args.get(index)) {
                // The kernel looks at the low half of each of these, and so does the filter.
                *to = *from as u32;
            }
        }
        Call { number, arguments }
    }

    /// The call's name, as in `syscalls(2)`. `None`: the filter does not know it.
    pub fn name(&self) -> Option<&'static str> {
        written(self.number as usize).0
    }

    /// An argument that is written.
    pub fn argument(&self, index: usize) -> u32 {
        self.arguments.get(index).copied().unwrap_or(0)
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, written) = written(self.number as usize);
        let number = self.number as i32;
        match (name, Architecture::NATIVE.other_table()) {
            (Some(name), _) => f.write_str(name)?,
            (None, Some(other)) if number >= 0 && self.number & other != 0 => {
                write!(f, "call {} of x32", self.number & !other)?
            }
            (None, _) => write!(f, "call {number}")?,
        }
        if written.is_empty() {
            return f.write_str("(...)");
        }
        for (index, &(argument, name, kind)) in written.iter().enumerate() {
            f.write_str(if index == 0 { "(" } else { ", " })?;
            if !name.is_empty() {
                write!(f, "{name} ")?;
            }
            let value = self.argument(argument);
            match kind {
                Kind::Number => write!(f, "{}", value.cast_signed())?,
                Kind::Names(names) => write_names(f, value, names)?,
                Kind::Ioctl => match ioctl_name(value) {
                    Some(name) => f.write_str(name)?,
                    None => write!(f, "{value:#x}")?,
                },
            }
        }
        f.write_str(")")
    }
}

/// A value by the names of its parts, and what has none as a number.
fn write_names(f: &mut Formatter<'_>, mut value: u32, names: &[Name]) -> fmt::Result {
    let mut any = false;
    for Name {
        mask,
        value: of_name,
        name,
    } in names
    {
        if value & mask == *of_name {
            write!(f, "{}{name}", if any { "|" } else { "" })?;
            value &= !mask;
            any = true;
        }
    }
    match (any, value) {
        (true, 0) => Ok(()),
        (true, rest) => write!(f, "|{rest:#x}"),
        (false, value @ 0..10) => write!(f, "{value}"),
        (false, value) => write!(f, "{value:#x}"),
    }
}

/// The name of a command, if the table of refused ones says it.
fn ioctl_name(command: u32) -> Option<&'static str> {
    match command {
        linux_raw_sys::ioctl::TIOCSTI => Some("TIOCSTI"),
        linux_raw_sys::ioctl::TIOCLINUX => Some("TIOCLINUX"),
        _ => IOCTLS
            .iter()
            .find(|(refused, _)| *refused == command)
            .and_then(|(_, why)| why.split_once(": "))
            .map(|(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn call(name: &str, args: [u64; 6]) -> std::string::String {
        let number = filter::calls()
            .find(|call| call.name == name)
            .and_then(|call| call.number(Architecture::NATIVE));
        let data = seccomp_data {
            nr: number.expect("a call of the table") as i32,
            arch: 0,
            instruction_pointer: 0,
            args,
        };
        Call::of(&data).to_string()
    }

    #[test]
    fn arguments_are_written_by_their_names() {
        for (name, args, expected) in [
            (
                "socket",
                [1, 1, 0, 0, 0, 0],
                "socket(AF_UNIX, SOCK_STREAM, 0)",
            ),
            (
                "socket",
                [2, 0o2000002, 17, 0, 0, 0],
                "socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 17)",
            ),
            ("socket", [99, 7, 0, 0, 0, 0], "socket(0x63, 7, 0)"),
            (
                "memfd_create",
                [0xdead, 0, 0, 0, 0, 0],
                "memfd_create(flags 0)",
            ),
            (
                "memfd_create",
                [0, 0x11, 0, 0, 0, 0],
                "memfd_create(flags MFD_CLOEXEC|MFD_EXEC)",
            ),
            (
                "clone",
                [0x1000_0011, 0, 0, 0, 0, 0],
                "clone(CLONE_NEWUSER|SIGCHLD)",
            ),
            (
                "unshare",
                [0x2000_0000, 0, 0, 0, 0, 0],
                "unshare(CLONE_NEWPID)",
            ),
            ("ioctl", [0, 0x5412, 0, 0, 0, 0], "ioctl(0, TIOCSTI)"),
            (
                "ioctl",
                [3, 0x4008_6602, 0, 0, 0, 0],
                "ioctl(3, FS_IOC_SETFLAGS)",
            ),
            ("ioctl", [3, 0xdead, 0, 0, 0, 0], "ioctl(3, 0xdead)"),
            (
                "mknodat",
                [u64::MAX - 99, 0, 0o20600, 0, 0, 0],
                "mknodat(AT_FDCWD, mode S_IFCHR|0x180)",
            ),
            ("ptrace", [16, 7, 0, 0, 0, 0], "ptrace(PTRACE_ATTACH, 7)"),
            (
                "prlimit64",
                [1, 7, 0xbeef, 0, 0, 0],
                "prlimit64(1, RLIMIT_NOFILE)",
            ),
            ("bpf", [5, 0, 0, 0, 0, 0], "bpf(command 5)"),
            ("chroot", [0xdead, 0, 0, 0, 0, 0], "chroot(...)"),
        ] {
            assert_eq!(call(name, args), expected);
        }
    }

    #[test]
    fn calls_that_the_table_lacks_have_their_number() {
        let call = |nr| {
            Call {
                number: nr,
                arguments: [0; 6],
            }
            .to_string()
        };
        assert_eq!(call(999), "call 999(...)");
        assert_eq!(call(u32::MAX), "call -1(...)");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(call(0x4000_0007), "call 7 of x32(...)");
        }
    }

    #[test]
    fn every_written_call_is_one_that_can_be_refused() {
        use crate::seccomp::call::Verdict;
        for (name, arguments) in WRITTEN {
            let call = filter::calls().find(|call| call.name == *name);
            assert!(
                !matches!(call.expect(name).verdict, Verdict::Allow),
                "{name}"
            );
            assert!(!arguments.is_empty() && arguments.iter().all(|(index, ..)| *index < 6));
        }
    }
}
