//! The assembler: a program is emitted from its end to its start, so every target of a jump exists before the
//! jump does, and no distance is ever written by hand.
//!
//! All of it is `const`: the launcher's programs are made by the compiler, and one that can't be made (too
//! long, a jump too far) is a compile error and not a launch that fails.

use super::instruction::{self, Instruction, Test};

/// The most instructions of one program. The kernel takes 4,096 (`BPF_MAXINSNS`).
pub const CAPACITY: usize = 512;

const _: () = assert!(CAPACITY <= linux_raw_sys::ptrace::BPF_MAXINSNS as usize);

/// An instruction that exists: the number of instructions from it to the end of the program, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

impl Label {
    /// Whether both are the same instruction (`==`, in `const`).
    pub const fn is(self, other: Label) -> bool {
        self.0 == other.0
    }
}

/// A program in the making.
pub struct Assembler {
    /// Filled from the end.
    code: [Instruction; CAPACITY],
    /// How many are filled.
    len: usize,
}

impl Assembler {
    /// An empty program.
    pub const fn new() -> Self {
        Assembler {
            code: [instruction::ret(0); CAPACITY],
            len: 0,
        }
    }

    /// How many instructions there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The instructions, first to last. `N` must be [`Self::len`].
    pub const fn program<const N: usize>(&self) -> [Instruction; N] {
        assert!(N == self.len);
        let mut program = [instruction::ret(0); N];
        let mut index = 0;
        while index < N {
            program[index] = self.code[CAPACITY - N + index];
            index += 1;
        }
        program
    }

    /// The instructions, first to last.
    pub fn as_slice(&self) -> &[Instruction] {
        &self.code[CAPACITY - self.len..]
    }

    /// Answers the call.
    pub const fn ret(&mut self, answer: u32) -> Label {
        self.emit(instruction::ret(answer))
    }

    /// Loads the word at `offset`, then goes on at `next`.
    pub const fn load(&mut self, offset: u32, next: Label) -> Label {
        self.step(instruction::load(offset), next)
    }

    /// Keeps the bits of `mask`, then goes on at `next`.
    pub const fn and(&mut self, mask: u32, next: Label) -> Label {
        self.step(instruction::and(mask), next)
    }

    const fn step(&mut self, step: Instruction, next: Label) -> Label {
        if let Some(same) = self.find(step, next, next) {
            return same;
        }
        // It must be the instruction that follows.
        if self.distance(next) != 0 {
            self.bridge(next);
        }
        self.emit(step)
    }

    /// Goes on at `yes` if the test holds, else at `no`.
    pub const fn jump(&mut self, test: Test, yes: Label, no: Label) -> Label {
        if let Some(same) = self.find(instruction::jump(test, 0, 0), yes, no) {
            return same;
        }
        // A bridge for one side moves the other side one further away; two bridges are always near enough.
        let (mut yes, mut no) = (yes, no);
        if self.distance(yes) > u8::MAX as usize {
            yes = self.bridge(yes);
        }
        if self.distance(no) > u8::MAX as usize {
            no = self.bridge(no);
        }
        if self.distance(yes) > u8::MAX as usize {
            yes = self.bridge(yes);
        }
        let jt = near(self.distance(yes));
        let jf = near(self.distance(no));
        self.emit(instruction::jump(test, jt, jf))
    }

    /// The instructions to skip from one that would be emitted now.
    const fn distance(&self, to: Label) -> usize {
        self.len - to.0
    }

    /// An instruction that is there already, does this and goes on at the same ones. (A step has no distances: it goes on
    /// at the next one.)
    const fn find(&self, what: Instruction, yes: Label, no: Label) -> Option<Label> {
        let mut at = 1;
        while at <= self.len {
            let Instruction { code, jt, jf, k } = self.code[CAPACITY - at];
            if code == what.code
                && k == what.k
                && yes.0 + jt as usize + 1 == at
                && no.0 + jf as usize + 1 == at
            {
                return Some(Label(at));
            }
            at += 1;
        }
        None
    }

    /// An unconditional jump, whose distance has 32 bits.
    const fn bridge(&mut self, to: Label) -> Label {
        let offset = self.distance(to);
        assert!(offset <= CAPACITY);
        self.emit(instruction::always(offset as u32))
    }

    const fn emit(&mut self, instruction: Instruction) -> Label {
        assert!(self.len < CAPACITY, "the program is too long");
        self.len += 1;
        self.code[CAPACITY - self.len] = instruction;
        Label(self.len)
    }
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new()
    }
}

/// A conditional jump's distance, which has 8 bits.
const fn near(distance: usize) -> u8 {
    assert!(
        distance <= u8::MAX as usize,
        "a conditional jump is too far"
    );
    distance as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(assembler: &Assembler) -> std::vec::Vec<(u16, u8, u8, u32)> {
        assembler
            .as_slice()
            .iter()
            .map(|i| (i.code, i.jt, i.jf, i.k))
            .collect()
    }

    #[test]
    fn a_program_reads_from_its_first_instruction() {
        let mut a = Assembler::new();
        let no = a.ret(1);
        let yes = a.ret(2);
        let test = a.jump(Test::Equal(7), yes, no);
        a.load(0, test);
        assert_eq!(
            listing(&a),
            [
                (0x20, 0, 0, 0),
                (0x15, 0, 1, 7),
                (0x06, 0, 0, 2),
                (0x06, 0, 0, 1)
            ]
        );
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let mut a = Assembler::new();
        let no = a.ret(1);
        let yes = a.ret(2);
        let test = a.jump(Test::Equal(7), yes, no);
        let loaded = a.load(16, test);
        assert_eq!(a.jump(Test::Equal(7), yes, no), test);
        assert_eq!(a.load(16, test), loaded);
        assert_eq!(a.len(), 4);
        // What does something else is made.
        assert_ne!(a.jump(Test::Equal(7), no, yes), test);
        assert_ne!(a.jump(Test::Equal(8), yes, no), test);
        assert_ne!(a.jump(Test::AtLeast(7), yes, no), test);
        assert_eq!(a.len(), 7);
        assert_ne!(a.load(20, test), loaded);
        assert_ne!(a.and(16, test), loaded);
        // Each with the jump to what follows.
        assert_eq!(a.len(), 11);
    }

    #[test]
    fn what_follows_elsewhere_gets_a_jump() {
        let mut a = Assembler::new();
        let far = a.ret(1);
        a.ret(2);
        a.load(4, far);
        assert_eq!(
            listing(&a),
            [
                (0x20, 0, 0, 4),
                (0x05, 0, 0, 1),
                (0x06, 0, 0, 2),
                (0x06, 0, 0, 1)
            ]
        );
    }

    #[test]
    fn conditional_jumps_reach_any_distance() {
        for filler in 250..260 {
            let mut a = Assembler::new();
            let no = a.ret(1);
            let yes = a.ret(2);
            for _ in 0..filler {
                a.ret(3);
            }
            a.jump(Test::AtLeast(7), yes, no);
            let program = a.as_slice();
            let end = |taken: u8| {
                let mut at = 1 + taken as usize;
                while program[at].code == 0x05 {
                    at += 1 + program[at].k as usize;
                }
                program[at].k
            };
            assert_eq!(
                (end(program[0].jt), end(program[0].jf)),
                (2, 1),
                "filler {filler}"
            );
        }
    }
}
