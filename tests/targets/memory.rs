//! The memory functions of a target (`src/rt_*.s`) against plain loops: a program without a library for the emulator, which ends
//! with 0, or with the number of the check that failed. `tests/targets.sh` builds and runs it; `tests/memory.rs` is the same for
//! the machine's own.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::ffi::c_int;
use core::hint::black_box;

#[cfg(target_arch = "aarch64")]
global_asm!(
    include_str!("../../src/rt_aarch64.s"),
    ".globl _start",
    "_start: bl {start}",
    start = sym start
);
#[cfg(target_arch = "riscv64")]
global_asm!(
    include_str!("../../src/rt_riscv64.s"),
    ".globl _start",
    "_start: call {start}",
    start = sym start
);
#[cfg(target_arch = "x86_64")]
global_asm!(
    include_str!("../../src/rt_x86_64.s"),
    ".globl _start",
    "_start: call {start}",
    start = sym start
);

unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8;
    fn memset(to: *mut u8, value: c_int, length: usize) -> *mut u8;
    fn memcmp(one: *const u8, other: *const u8, length: usize) -> c_int;
    fn bcmp(one: *const u8, other: *const u8, length: usize) -> c_int;
    fn strlen(text: *const u8) -> usize;
}

const ROOM: usize = 4_300;
static mut ONE: [u8; ROOM] = [0; ROOM];
static mut OTHER: [u8; ROOM] = [0; ROOM];

/// Bytes that differ from their neighbours, none of them 0; `black_box` keeps the compiler from making it a memory function.
fn fill(bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = black_box((index % 251 + 1) as u8);
    }
}

fn pattern(index: usize) -> u8 {
    (index % 251 + 1) as u8
}

/// Whether every byte is what it should be.
fn all(bytes: &[u8], should: impl Fn(usize) -> u8) -> bool {
    let mut good = true;
    for (index, byte) in bytes.iter().enumerate() {
        good &= black_box(*byte) == should(index);
    }
    good
}

/// 0, or which check failed.
///
/// # Safety
/// To be called once; every range is inside its array.
unsafe fn check(one: &mut [u8], other: &mut [u8]) -> c_int {
    for size in (0..40).chain([63, 64, 65, 127, 4_095, 4_096, 4_097]) {
        for (from, to) in [(0, 0), (0, 1), (1, 0), (3, 5), (7, 8), (8, 7)] {
            fill(one);
            fill(other);
            // SAFETY: both ranges are inside.
            let end = unsafe { memcpy(one.as_mut_ptr().add(to), other.as_ptr().add(from), size) };
            let copied = |index: usize| match index.checked_sub(to) {
                Some(at) if at < size => pattern(at + from),
                _ => pattern(index),
            };
            if end != one[to..].as_mut_ptr() || !all(one, copied) {
                return 1;
            }
        }
        for (from, to) in [(0, 0), (0, 1), (1, 0), (0, 8), (8, 0), (3, 40), (40, 3), (90, 0)] {
            fill(one);
            let start = one.as_mut_ptr();
            // SAFETY: both ranges are inside.
            let end = unsafe { memmove(start.add(to), start.add(from), size) };
            let moved = |index: usize| match index.checked_sub(to) {
                Some(at) if at < size => pattern(at + from),
                _ => pattern(index),
            };
            if end != one[to..].as_mut_ptr() || !all(one, moved) {
                return 2;
            }
        }
        for value in [0, 0x5a, 0x1ff] {
            fill(one);
            // SAFETY: the range is inside.
            unsafe { memset(one.as_mut_ptr().add(3), value, size) };
            let set = |index: usize| match index.checked_sub(3) {
                Some(at) if at < size => value as u8,
                _ => pattern(index),
            };
            if !all(one, set) {
                return 3;
            }
        }
        fill(one);
        one[size + 5] = 0;
        // SAFETY: a zero byte ends it.
        if unsafe { strlen(one.as_ptr().add(5)) } != size {
            return 4;
        }
        for at in (0..size).step_by(1 + size / 40) {
            fill(one);
            fill(other);
            one[at] = 0xff;
            let [one, other] = [one.as_ptr(), other.as_ptr()];
            // SAFETY: both ranges are inside.
            let good = unsafe {
                memcmp(one, other, size) > 0
                    && memcmp(other, one, size) < 0
                    && memcmp(one, other, at) == 0
                    && bcmp(one, other, size) != 0
                    && bcmp(one, other, at) == 0
            };
            if !good {
                return 5;
            }
        }
    }
    0
}

extern "C" fn start() -> ! {
    // SAFETY: this is the only place that names them, and runs once.
    let code = unsafe { check(&mut *&raw mut ONE, &mut *&raw mut OTHER) };
    // SAFETY: exit_group does not return.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", in("x8") 94, in("x0") code, options(noreturn));
        #[cfg(target_arch = "riscv64")]
        asm!("ecall", in("a7") 94, in("a0") code, options(noreturn));
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn));
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
