//! Start-up without libc: `_start`, the argument vectors, the panic handler, the memory functions.
//!
//! What it promises: `main` is called once, with the vectors that the kernel put on the stack and the one
//! memory of the launch; no system call is made before it.

#![allow(unsafe_code)]

use core::arch::global_asm;
use core::ffi::c_char;
use core::panic::PanicInfo;
use core::ptr::NonNull;

use oarbank_agent::launch::Memory;
use oarbank_agent::sys::args::Vector;
use oarbank_agent::sys::process;

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
    let _ = process::without_write_signals(|| {
        process::write_all(
            2,
            b"oarbank-agent: internal: panic: a fault of the launcher, please report it\n",
        )?;
        // Leaves the signals blocked until the exit.
        Err::<(), _>(oarbank_agent::sys::Errno::CANCELED)
    });
    process::exit(70)
}

// What the compiler calls for copies, fills and comparisons. `rep movsb` and `rep stosb` are fast from
// Ivy Bridge (2012) on; the direction flag is clear by the ABI.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:", // The target starts inside the source: from the end.
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    "memcmp:",
    ".globl bcmp",
    "bcmp:",
    "mov rcx, rdx",
    "xor eax, eax",
    "test rcx, rcx",
    "jz 2f",
    "repe cmpsb",
    "je 2f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "2:",
    "ret",
    ".globl strlen",
    "strlen:",
    "xor eax, eax",
    "2:",
    "cmp byte ptr [rdi + rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3:",
    "ret",
);
