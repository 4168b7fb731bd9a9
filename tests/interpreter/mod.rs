//! Classic BPF as seccomp runs it (`kernel/seccomp.c`, `net/core/filter.c`), for a program that is to be proved.
//!
//! It knows only what the launcher's filter may be made of; anything else is a fault, and so is what the
//! kernel would refuse: a jump or a load out of range, a program that does not end in an answer.

use linux_raw_sys::ptrace::sock_filter;

/// What a filter looks at (`struct seccomp_data`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) nr: u32,
    pub(crate) arch: u32,
    pub(crate) args: [u64; 6],
}

impl Data {
    /// The 32-bit word at an offset in bytes; the machine is little-endian.
    fn word(&self, offset: u32) -> Result<u32, Fault> {
        match offset {
            0 => Ok(self.nr),
            4 => Ok(self.arch),
            8 | 12 => Ok(0xdead_beef),
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.args[(offset as usize - 16) / 8];
                Ok((argument >> (offset % 8 * 8)) as u32)
            }
            _ => Err(Fault::Load(offset)),
        }
    }
}

/// Why a program is no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Unknown(u16),
    Load(u32),
    End,
}

/// What the kernel asks of a program before it takes it, of every instruction and also of those that no run
/// reaches (`bpf_check_classic`, `seccomp_check_filter`): its length, known codes, loads and jumps in range, a
/// return at the end.
// The fuzz targets only run programs.
#[allow(dead_code)]
pub(crate) fn check(program: &[sock_filter]) -> Result<(), Fault> {
    for (at, &sock_filter { code, jt, jf, k }) in program.iter().enumerate() {
        let reaches = |distance: usize| {
            if at + 1 + distance < program.len() {
                Ok(())
            } else {
                Err(Fault::End)
            }
        };
        match code {
            0x20 => Data::default().word(k).map(drop)?,
            0x54 | 0x06 => {}
            0x05 => reaches(k as usize)?,
            0x15 | 0x35 | 0x45 => reaches(usize::from(jt)).and(reaches(usize::from(jf)))?,
            other => return Err(Fault::Unknown(other)),
        }
    }
    match program.last() {
        Some(last) if last.code == 0x06 && program.len() <= 4096 => Ok(()),
        _ => Err(Fault::End),
    }
}

/// An answer, and whether it was found by `nr` and `arch` alone: such calls the kernel answers from a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: u32,
    pub(crate) by_number: bool,
}

/// Runs a program; `visit` is told each instruction that is reached.
pub(crate) fn run(
    program: &[sock_filter],
    data: &Data,
    mut visit: impl FnMut(usize),
) -> Result<Outcome, Fault> {
    let (mut at, mut a, mut by_number) = (0_usize, 0_u32, true);
    loop {
        let instruction = program.get(at).ok_or(Fault::End)?;
        visit(at);
        at += 1;
        let sock_filter { code, jt, jf, k } = *instruction;
        // Every jump is forward, so this ends.
        let branch = |condition| usize::from(if condition { jt } else { jf });
        match code {
            0x20 => {
                a = data.word(k)?;
                by_number &= k == 0 || k == 4;
            }
            0x54 => a &= k,
            0x05 => at += k as usize,
            0x15 => at += branch(a == k),
            0x35 => at += branch(a >= k),
            0x45 => at += branch(a & k != 0),
            0x06 => {
                return Ok(Outcome {
                    answer: k,
                    by_number,
                });
            }
            other => return Err(Fault::Unknown(other)),
        }
    }
}
