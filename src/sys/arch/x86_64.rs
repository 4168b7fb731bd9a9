//! x86_64: `syscall(2)`, section "Architecture calling conventions".

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
    // SAFETY: the instruction clobbers rcx and r11 (said below) and whatever memory the call writes, which
    // the caller vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => answer,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}
