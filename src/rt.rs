//! Start-up without libc: `_start`, the argument vectors, the panic handler, the memory functions.
//!
//! What it promises: `main` is called once, with the vectors that the kernel put on the stack and the one
//! memory of the launch; no system call is made before it.

#![allow(unsafe_code)]

use core::arch::global_asm;
use core::ffi::c_char;
use core::panic::PanicInfo;
use core::ptr::NonNull;

use oarbank_agent::supervise::run::Memory;
use oarbank_agent::sys::args::Vector;
use oarbank_agent::sys::{process, signal};

// The kernel enters here with argc, argv, NULL, envp, NULL at the stack pointer (System V ABI, section 3.4.1).
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

// The same (Procedure Call Standard for the Arm 64-bit Architecture, "The Stack": 16 bytes aligned, as the kernel left it).
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {start}",
    "brk #1",
    start = sym start,
);

// The same (RISC-V calling convention). The global pointer is not used: the linker script defines none to relax to.
#[cfg(target_arch = "riscv64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mv a0, sp",
    "andi sp, sp, -16",
    "call {start}",
    "ebreak",
    start = sym start,
);

/// The memory of the launch, in .bss: pages that are not touched cost nothing.
static mut MEMORY: Memory = Memory::new();

unsafe extern "C" fn start(stack: NonNull<usize>) -> ! {
    // SAFETY: the kernel put argc here, argc pointers and a NULL after it, then the environment's pointers
    // and a NULL. All of it is writable, lives as long as the process, and is used by nobody else.
    let (arguments, environment) = unsafe {
        let argc = *stack.as_ptr();
        let argv = stack.add(1).cast::<*const c_char>();
        (Vector::new(argv), Vector::new(argv.add(argc + 1)))
    };
    // SAFETY: `start` runs once and is the only place that names MEMORY.
    #[allow(clippy::deref_addrof)]
    // A plain `&mut MEMORY` is what the static_mut_refs lint is against.
    let memory = unsafe { &mut *&raw mut MEMORY };
    crate::main(arguments, environment, memory)
}

/// A panic is a fault of the launcher: exit 70, and nothing of the module has run.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    let _ = signal::without_write_signals(|| {
        process::write_all(
            2,
            b"oarbank-agent: internal: panic: a fault of the launcher, please report it\n",
        )?;
        // Leaves the signals blocked until the exit.
        Err::<(), _>(oarbank_agent::sys::Errno::CANCELED)
    });
    process::exit(70)
}

// The memory functions.
#[cfg(target_arch = "x86_64")]
global_asm!(include_str!("rt_x86_64.s"));
#[cfg(target_arch = "aarch64")]
global_asm!(include_str!("rt_aarch64.s"));
#[cfg(target_arch = "riscv64")]
global_asm!(include_str!("rt_riscv64.s"));
