//! The system call instruction of each architecture.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::syscall;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("this architecture has no system call layer yet");
