//! The listing of a program: one instruction a line, with labels for the targets of jumps and names for what numbers mean.
//!
//! ```text
//!               if A == 56 goto clone else ALLOW
//! clone:        A = low(args[0])
//!               if A & 0x7e028080 goto EPERM else ALLOW
//! ```
//!
//! An answer's label is its name, the first instruction of a check has that of its system call (of the first if several
//! share it), other targets are numbered; `next` is the following line.

use core::fmt::{self, Display, Formatter};

use linux_raw_sys::ptrace::{
    SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ALLOW, SECCOMP_RET_DATA, SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS,
};

use super::assembler::CAPACITY;
use super::instruction::{ALWAYS, AND, ANY_BIT, AT_LEAST, EQUAL, Instruction, LOAD, RET};
use crate::error::errno;

/// One past the highest system call number that is looked for: the kernel's tables end far below it.
const NUMBERS: u32 = 1024;

/// What stands before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    None,
    /// An answer, which is its own name.
    Answer,
    /// The check of a system call, by its number.
    Check(u16),
    Numbered(u16),
}

/// A program of [`CAPACITY`] instructions at most, ready to be listed.
pub struct Listing<'a> {
    code: &'a [Instruction],
    /// The name of a system call number.
    name: &'a dyn Fn(u32) -> Option<&'a str>,
    labels: [Label; CAPACITY],
}

impl<'a> Listing<'a> {
    /// Of a program, with the names of the system calls.
    pub fn new(code: &'a [Instruction], name: &'a dyn Fn(u32) -> Option<&'a str>) -> Self {
        let mut labels = [Label::None; CAPACITY];
        let mut mark = |at: usize, label| {
            if let Some(free) = labels.get_mut(at).filter(|label| **label == Label::None) {
                *free = label;
            }
        };
        for number in (0..NUMBERS).filter(|&number| name(number).is_some()) {
            if let Some(at) = check_of(code, number) {
                mark(at, Label::Check(number as u16));
            }
        }
        for (at, instruction) in code.iter().enumerate() {
            for target in targets(at, instruction).into_iter().flatten() {
                if code.get(target).is_some_and(|target| target.code == RET) {
                    mark(target, Label::Answer);
                } else if target != at + 1 {
                    mark(target, Label::Numbered(0));
                }
            }
        }
        let numbered = labels
            .iter_mut()
            .filter(|label| matches!(label, Label::Numbered(_)));
        for (number, label) in (1..).zip(numbered) {
            *label = Label::Numbered(number);
        }
        Listing { code, name, labels }
    }

    /// The lines, first to last.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_, 'a>> {
        (0..self.code.len()).map(move |at| Line { listing: self, at })
    }

    /// What a jump to an instruction is written as.
    fn target(&self, at: usize) -> Name<'_, 'a> {
        Name { listing: self, at }
    }

    /// Whether the accumulator holds the system call number before an instruction: the search for it stands in one piece.
    fn is_about_number(&self, at: usize) -> bool {
        let before = self.code.get(..at).unwrap_or_default();
        let load = before.iter().rfind(|before| before.code == LOAD);
        load.is_some_and(|load| load.k == NR)
    }
}

/// The offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`); the arguments follow in halves, low half first.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Where a jump may go.
fn targets(at: usize, instruction: &Instruction) -> [Option<usize>; 2] {
    let &Instruction { code, jt, jf, k } = instruction;
    let after = |distance: usize| Some(at + 1 + distance);
    match code {
        ALWAYS => [after(k as usize), None],
        EQUAL | AT_LEAST | ANY_BIT => [after(jt.into()), after(jf.into())],
        _ => [None, None],
    }
}

/// The instruction that first loads an argument of a system call of the native architecture.
fn check_of(code: &[Instruction], number: u32) -> Option<usize> {
    let mut at = 0;
    let mut loaded = ARCH;
    loop {
        let instruction = code.get(at)?;
        let [yes, no] = targets(at, instruction);
        let holds = match instruction.code {
            LOAD if instruction.k >= ARGUMENTS => return Some(at),
            LOAD => {
                loaded = instruction.k;
                at += 1;
                continue;
            }
            ALWAYS => true,
            EQUAL => loaded == ARCH || number == instruction.k,
            AT_LEAST => number >= instruction.k,
            _ => return None,
        };
        at = if holds { yes? } else { no? };
    }
}

/// A label, or `next`.
struct Name<'l, 'a> {
    listing: &'l Listing<'a>,
    at: usize,
}

impl Display for Name<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Name { listing, at } = self;
        match listing.labels.get(*at) {
            Some(Label::Answer) => match listing.code.get(*at) {
                Some(ret) => Answer(ret.k).fmt(f),
                None => Ok(()),
            },
            Some(&Label::Check(number)) => f.pad((listing.name)(number.into()).unwrap_or_default()),
            Some(Label::Numbered(number)) => write!(f, "L{number}"),
            Some(Label::None) | None => f.write_str("next"),
        }
    }
}

/// What a filter answers.
struct Answer(u32);

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data = (self.0 & SECCOMP_RET_DATA).cast_signed();
        match (self.0, errno::describe(data)) {
            (SECCOMP_RET_ALLOW, _) => f.write_str("ALLOW"),
            (SECCOMP_RET_KILL_PROCESS, _) => f.write_str("KILL_PROCESS"),
            (answer, Some((name, _))) if answer & SECCOMP_RET_ACTION_FULL == SECCOMP_RET_ERRNO => {
                f.write_str(name)
            }
            (answer, _) => write!(f, "{answer:#x}"),
        }
    }
}

/// One line of a listing, without its end.
pub struct Line<'l, 'a> {
    listing: &'l Listing<'a>,
    at: usize,
}

/// The width of the labels' column: the longest of them, its colon and a space.
const COLUMN: usize = 14;

impl Display for Line<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Line { listing, at } = *self;
        let Some(instruction) = listing.code.get(at) else {
            return Ok(());
        };
        let mut width = Width(0);
        if listing.labels.get(at) != Some(&Label::None) {
            let name = listing.target(at);
            let _ = fmt::write(&mut width, format_args!("{name}:"));
            write!(f, "{name}:")?;
        }
        write!(f, "{:1$}", "", COLUMN.saturating_sub(width.0))?;
        let k = instruction.k;
        let operator = match instruction.code {
            LOAD => return write!(f, "A = {}", Word(k)),
            AND => return write!(f, "A &= {k:#x}"),
            RET => return write!(f, "return {}", Answer(k)),
            EQUAL => "==",
            AT_LEAST => ">=",
            ANY_BIT => "&",
            _ => "",
        };
        match targets(at, instruction) {
            [Some(to), None] => write!(f, "goto {}", listing.target(to)),
            [Some(yes), Some(no)] => {
                let (yes, no) = (listing.target(yes), listing.target(no));
                if k >= NUMBERS || !listing.is_about_number(at) {
                    return write!(f, "if A {operator} {k:#x} goto {yes} else {no}");
                }
                write!(f, "if A {operator} {k} goto {yes} else {no}")?;
                match (listing.name)(k) {
                    Some(name) => write!(f, "   # {name}"),
                    None => Ok(()),
                }
            }
            _ => write!(f, "{:#x} {k:#x}", instruction.code),
        }
    }
}

/// How many bytes are written.
struct Width(usize);

impl fmt::Write for Width {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// A word of `struct seccomp_data`, by its offset.
struct Word(u32);

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            NR => f.write_str("nr"),
            ARCH => f.write_str("arch"),
            offset @ ARGUMENTS.. => {
                let half = if offset % 8 == 0 { "low" } else { "high" };
                write!(f, "{half}(args[{}])", (offset - ARGUMENTS) / 8)
            }
            offset => write!(f, "data[{offset}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::instruction::Test::{AnyBit, AtLeast, Equal};
    use crate::bpf::{Assembler, instruction};
    use std::string::ToString;
    use std::vec::Vec;

    fn lines(code: &[Instruction]) -> Vec<std::string::String> {
        let name = |number| match number {
            7 => Some("seven"),
            9 => Some("nine"),
            _ => None,
        };
        let listing = Listing::new(code, &name);
        listing.lines().map(|line| line.to_string()).collect()
    }

    #[test]
    fn each_instruction_has_its_line() {
        let mut a = Assembler::new();
        let kill = a.ret(SECCOMP_RET_KILL_PROCESS);
        let refuse = a.ret(SECCOMP_RET_ERRNO | 1);
        let allow = a.ret(SECCOMP_RET_ALLOW);
        let check = a.jump(AnyBit(7), refuse, allow);
        let check = a.and(0xf, check);
        let check = a.load(20, check);
        let number = a.jump(Equal(9), allow, refuse);
        let number = a.jump(Equal(7), check, number);
        let number = a.jump(AtLeast(0x4000_0000), refuse, number);
        let number = a.load(NR, number);
        let arch = a.jump(Equal(62), number, kill);
        a.load(ARCH, arch);
        assert_eq!(
            lines(a.as_slice()),
            [
                "              A = arch",
                "              if A == 0x3e goto next else KILL_PROCESS",
                "              A = nr",
                "              if A >= 0x40000000 goto EPERM else next",
                "              if A == 7 goto seven else next   # seven",
                "              if A == 9 goto ALLOW else EPERM   # nine",
                "seven:        A = high(args[0])",
                "              A &= 0xf",
                "              if A & 0x7 goto EPERM else ALLOW",
                "ALLOW:        return ALLOW",
                "EPERM:        return EPERM",
                "KILL_PROCESS: return KILL_PROCESS",
            ]
        );
    }

    #[test]
    fn what_is_unusual_is_listed_too() {
        let code = [
            instruction::always(1),
            Instruction {
                code: 0x07,
                jt: 0,
                jf: 0,
                k: 3,
            },
            instruction::load(8),
            instruction::ret(0x7ffc_0000),
        ];
        assert_eq!(
            lines(&code),
            [
                "              goto L1",
                "              0x7 0x3",
                "L1:           A = data[8]",
                "              return 0x7ffc0000",
            ]
        );
        assert_eq!(lines(&[]).len(), 0);
        // Beyond what an assembler makes: no labels, but every line.
        assert_eq!(
            lines(&[instruction::ret(0); CAPACITY + 1]).len(),
            CAPACITY + 1
        );
    }
}
