//! The filter's program: a fixed prologue, a search tree over the call's number, the argument checks, the
//! answers.
//!
//! It is computed from the table by the compiler, one program for each mode; the launch only picks one.

use linux_raw_sys::errno::{EACCES, ENOSYS, EPERM};
use linux_raw_sys::ptrace::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};

use super::allowed::ALLOWED;
use super::architecture::Architecture;
use super::call::{Answer, Call, Check, Group, NUMBERS, Verdict};
use super::refused::{CHECKED, REFUSED};
use super::{arguments, clone, sockets, tree};
use crate::bpf::instruction::Test::Equal;
use crate::bpf::{Assembler, Instruction, Label};

/// What of the policy changes the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// `net` is `egress-allowlist`: TCP sockets.
    pub tcp: bool,
    /// There is a `broker_socket`: unix sockets.
    pub broker: bool,
    /// `exec_rw`: written files may be executed.
    pub exec_rw: bool,
}

/// How many modes there are.
pub const MODES: usize = 8;

impl Mode {
    /// That of a policy in which every field is missing.
    pub const OF_EMPTY_POLICY: Self = Self::from_index(0);

    /// The mode of a number below [`MODES`].
    pub const fn from_index(index: usize) -> Self {
        Mode {
            tcp: index & 4 != 0,
            broker: index & 2 != 0,
            exec_rw: index & 1 != 0,
        }
    }

    /// The number of a mode.
    pub const fn index(self) -> usize {
        (self.tcp as usize) << 2 | (self.broker as usize) << 1 | self.exec_rw as usize
    }
}

/// The offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`).
const NR: u32 = 0;
const ARCH: u32 = 4;

/// The offset of the low half of an argument.
pub(super) const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}

/// The offset of the high half of an argument.
pub(super) const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

// Every architecture of the table is little-endian: the low half of an argument comes first.
const _: () = assert!(cfg!(target_endian = "little"));

/// The answers at the end of the program.
pub(super) struct Tails {
    pub(super) allow: Label,
    pub(super) eperm: Label,
    pub(super) enosys: Label,
    pub(super) eacces: Label,
}

/// Assembles the filter of an architecture and a mode.
pub const fn assemble(architecture: Architecture, mode: Mode) -> Assembler {
    let mut a = Assembler::new();
    let kill = a.ret(SECCOMP_RET_KILL_PROCESS);
    let tails = Tails {
        eacces: a.ret(SECCOMP_RET_ERRNO | EACCES),
        enosys: a.ret(SECCOMP_RET_ERRNO | ENOSYS),
        eperm: a.ret(SECCOMP_RET_ERRNO | EPERM),
        allow: a.ret(SECCOMP_RET_ALLOW),
    };
    let targets = targets(&mut a, architecture, mode, &tails);
    let other_table = match architecture.other_table() {
        Some(bit) => Some((bit as usize, tails.eperm)),
        None => None,
    };
    let search = tree::search(&mut a, &targets, other_table);
    let number = a.load(NR, search);
    let native = a.jump(Equal(architecture.audit_arch()), number, kill);
    a.load(ARCH, native);
    a
}

/// Where each number of the table goes; the last entry is for all that the table doesn't know.
const fn targets(
    a: &mut Assembler,
    architecture: Architecture,
    mode: Mode,
    tails: &Tails,
) -> [Label; NUMBERS + 1] {
    let mut targets = [tails.enosys; NUMBERS + 1];
    let mut table = 0;
    while table < TABLES.len() {
        let mut group = 0;
        while group < TABLES[table].len() {
            let calls = TABLES[table][group].calls;
            let mut call = 0;
            while call < calls.len() {
                if let Some(number) = calls[call].number(architecture) {
                    targets[number] = match in_mode(calls[call].verdict, mode) {
                        Verdict::Allow => tails.allow,
                        Verdict::Refuse(Answer::Eperm) => tails.eperm,
                        Verdict::Refuse(Answer::Enosys) => tails.enosys,
                        Verdict::Refuse(Answer::Eacces) => tails.eacces,
                        Verdict::Decide(check) => decide(a, check, mode, tails),
                    };
                }
                call += 1;
            }
            group += 1;
        }
        table += 1;
    }
    targets
}

/// The whole table.
pub const TABLES: [&[Group]; 3] = [REFUSED, CHECKED, ALLOWED];

/// Every call of the table.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    TABLES.into_iter().flatten().flat_map(|group| group.calls)
}

/// The call of a number, with its group.
pub fn find(architecture: Architecture, number: usize) -> Option<(&'static Group, &'static Call)> {
    TABLES.into_iter().flatten().find_map(|group| {
        let mut calls = group.calls.iter();
        let call = calls.find(|call| call.number(architecture) == Some(number))?;
        Some((group, call))
    })
}

/// What becomes of a call in a mode: a check that the mode leaves nothing to ask is its answer.
pub const fn in_mode(verdict: Verdict, mode: Mode) -> Verdict {
    match verdict {
        Verdict::Decide(Check::Memfd) if mode.exec_rw => Verdict::Allow,
        Verdict::Decide(Check::Socket) if !mode.tcp && !mode.broker => {
            Verdict::Refuse(Answer::Eperm)
        }
        verdict => verdict,
    }
}

/// The instructions of a check.
const fn decide(a: &mut Assembler, check: Check, mode: Mode, tails: &Tails) -> Label {
    match check {
        Check::Clone => clone::clone(a, tails),
        Check::Ioctl => arguments::ioctl(a, tails),
        Check::Memfd => arguments::memfd_create(a, tails),
        Check::Mknod => arguments::mknod(a, 1, tails),
        Check::Mknodat => arguments::mknod(a, 2, tails),
        Check::Prlimit => arguments::prlimit(a, tails),
        Check::Sendmmsg => sockets::send_flags(a, 3, tails),
        Check::Sendmsg => sockets::send_flags(a, 2, tails),
        Check::Sendto => sockets::send_flags(a, 3, tails),
        Check::Setsockopt => sockets::setsockopt(a, tails),
        Check::Socket => sockets::socket(a, mode, tails),
        Check::Socketpair => sockets::socketpair(a, tails),
    }
}

/// The program of a mode on this architecture.
pub fn program(mode: Mode) -> &'static [Instruction] {
    PROGRAMS[mode.index()]
}

/// The program of a mode, exactly as long as it is.
macro_rules! made {
    ($index:literal) => {{
        const ASSEMBLED: Assembler = assemble(Architecture::NATIVE, Mode::from_index($index));
        static CODE: [Instruction; ASSEMBLED.len()] = ASSEMBLED.program();
        &CODE
    }};
}

/// One program for each mode, made by the compiler.
static PROGRAMS: [&[Instruction]; MODES] = [
    made!(0),
    made!(1),
    made!(2),
    made!(3),
    made!(4),
    made!(5),
    made!(6),
    made!(7),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_and_its_index_agree() {
        for index in 0..MODES {
            assert_eq!(Mode::from_index(index).index(), index);
        }
    }
}
