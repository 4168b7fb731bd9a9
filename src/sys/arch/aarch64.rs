//! 64-bit ARM: `syscall(2)`, section "Architecture calling conventions".

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
            "svc 0",
            in("x8") nr as usize,
            inlateout("x0") args[0] => answer,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            options(nostack),
        );
    }
    answer
}
