//! What a filter answers, found outside the kernel (`kernel/seccomp.c`, `net/core/filter.c`).

use linux_raw_sys::ptrace::seccomp_data;

use super::instruction::{ALWAYS, AND, ANY_BIT, AT_LEAST, EQUAL, Instruction, LOAD, RET};

/// Runs a program made by the assembler. `None`: it is none of these.
pub fn run(program: &[Instruction], data: &seccomp_data) -> Option<u32> {
    let mut a = 0;
    let mut at = 0_usize;
    // Every jump is forward, so this ends.
    loop {
        let &Instruction { code, jt, jf, k } = program.get(at)?;
        let branch = |holds| usize::from(if holds { jt } else { jf });
        let skipped = match code {
            LOAD => {
                a = word(data, k)?;
                0
            }
            AND => {
                a &= k;
                0
            }
            ALWAYS => k as usize,
            EQUAL => branch(a == k),
            AT_LEAST => branch(a >= k),
            ANY_BIT => branch(a & k != 0),
            RET => return Some(k),
            _ => return None,
        };
        at = at.checked_add(1)?.checked_add(skipped)?;
    }
}

/// The 32-bit word at an offset in bytes; every architecture here is little-endian.
fn word(data: &seccomp_data, offset: u32) -> Option<u32> {
    let double = match offset {
        0 => return Some(data.nr.cast_unsigned()),
        4 => return Some(data.arch),
        8 | 12 => data.instruction_pointer,
        _ => *data.args.get(offset.checked_sub(16)? as usize / 8)?,
    };
    match offset % 8 {
        0 => Some(double as u32),
        4 => Some((double >> 32) as u32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruction::{Test, and, jump, load, ret};
    use super::*;

    #[test]
    fn words_are_those_of_the_structure() {
        let data = seccomp_data {
            nr: -1,
            arch: 2,
            instruction_pointer: 0x4_0000_0003,
            args: core::array::from_fn(|index| (index as u64) << 32 | 0x10 | index as u64),
        };
        for (offset, expected) in [
            (0, Some(u32::MAX)),
            (4, Some(2)),
            (8, Some(3)),
            (12, Some(4)),
            (16, Some(0x10)),
            (20, Some(0)),
            (56, Some(0x15)),
            (60, Some(5)),
            (2, None),
            (18, None),
            (64, None),
            (u32::MAX, None),
        ] {
            assert_eq!(run(&[load(offset), ret(7)], &data), expected.map(|_| 7));
            assert_eq!(word(&data, offset), expected, "{offset}");
        }
    }

    #[test]
    fn what_does_not_end_in_an_answer_has_none() {
        let data = seccomp_data {
            nr: 5,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        };
        let test = jump(Test::AnyBit(4), 1, 0);
        assert_eq!(run(&[load(0), test, ret(1), ret(2)], &data), Some(2));
        assert_eq!(
            run(&[load(0), and(3), test, ret(1), ret(2)], &data),
            Some(1)
        );
        assert_eq!(run(&[load(0), test], &data), None);
        assert_eq!(run(&[], &data), None);
        let other = Instruction {
            code: 0x16,
            jt: 0,
            jf: 0,
            k: 0,
        };
        assert_eq!(run(&[other, ret(1)], &data), None);
    }
}
