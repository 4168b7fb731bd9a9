//! The instructions that a filter here is made of: load a word, AND, compare, jump, return.
//!
//! The kernel answers calls from a bitmap, without running the filter, only where it finds nothing else on
//! their path (`seccomp_is_const_allow` in `kernel/seccomp.c`).

use linux_raw_sys::ptrace::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET,
    BPF_W,
};

/// One instruction, as the kernel reads it.
pub use linux_raw_sys::ptrace::sock_filter as Instruction;

/// The codes.
pub(super) const LOAD: u16 = code(BPF_LD | BPF_W | BPF_ABS);
pub(super) const AND: u16 = code(BPF_ALU | BPF_AND | BPF_K);
pub(super) const ALWAYS: u16 = code(BPF_JMP | BPF_JA);
pub(super) const EQUAL: u16 = code(BPF_JMP | BPF_JEQ | BPF_K);
pub(super) const AT_LEAST: u16 = code(BPF_JMP | BPF_JGE | BPF_K);
pub(super) const ANY_BIT: u16 = code(BPF_JMP | BPF_JSET | BPF_K);
pub(crate) const RET: u16 = code(BPF_RET | BPF_K);

const fn code(code: u32) -> u16 {
    assert!(code <= u16::MAX as u32);
    code as u16
}

/// `A = the 32-bit word of seccomp_data at offset`, in bytes.
pub const fn load(offset: u32) -> Instruction {
    make(LOAD, 0, 0, offset)
}

/// `A = A & mask`.
pub const fn and(mask: u32) -> Instruction {
    make(AND, 0, 0, mask)
}

/// Skip `offset` instructions.
pub const fn always(offset: u32) -> Instruction {
    make(ALWAYS, 0, 0, offset)
}

/// What a conditional jump asks about A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// A is the number.
    Equal(u32),
    /// A is the number or greater, unsigned.
    AtLeast(u32),
    /// A has any of the number's bits.
    AnyBit(u32),
}

/// Skip `yes` instructions if the test holds, `no` if not.
pub const fn jump(test: Test, yes: u8, no: u8) -> Instruction {
    match test {
        Test::Equal(k) => make(EQUAL, yes, no, k),
        Test::AtLeast(k) => make(AT_LEAST, yes, no, k),
        Test::AnyBit(k) => make(ANY_BIT, yes, no, k),
    }
}

/// Answer the call.
pub const fn ret(answer: u32) -> Instruction {
    make(RET, 0, 0, answer)
}

const fn make(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}
