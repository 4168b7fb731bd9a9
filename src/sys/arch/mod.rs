//! The system call instruction of each architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::syscall;
#[cfg(target_arch = "riscv64")]
pub use riscv64::syscall;
#[cfg(target_arch = "x86_64")]
pub use x86_64::syscall;

#[cfg(not(any(
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "x86_64"
)))]
compile_error!("this architecture has no system call layer");
