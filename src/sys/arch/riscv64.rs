//! 64-bit RISC-V: `syscall(2)`, section "Architecture calling conventions".

use core::arch::asm;

/// Makes the system call `nr` and returns the kernel's raw answer.
///
/// # Safety
///
/// The arguments must be what the call `nr` expects: every pointer among them valid for what the kernel
/// reads or writes through it, and the effect on descriptors and memory one that Rust's owners of them allow.
#[inline(always)]
pub unsafe fn syscall(nr: u32, args: [usize; 5]) -> isize {
    let answer;
    // SAFETY: the instruction changes no register but the answer's, and whatever memory the call writes, which the
    // caller vouches for.
    unsafe {
        asm!(
            "ecall",
            in("a7") nr as usize,
            inlateout("a0") args[0] => answer,
            in("a1") args[1],
            in("a2") args[2],
            in("a3") args[3],
            in("a4") args[4],
            options(nostack),
        );
    }
    answer
}
