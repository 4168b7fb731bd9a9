//! System calls without libc in between, so that every register arrives as the test wrote it.

use crate::Answer;

/// The error number of the last libc call.
pub(crate) fn last_error() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .expect("an error of the system")
}

/// The answer of a libc call that returns -1 on error.
pub(crate) fn answer(returned: i64) -> Answer {
    if returned == -1 {
        Err(last_error())
    } else {
        Ok(returned as u64)
    }
}

/// One system call with six registers. A call that makes a child ends the child at once: only the
/// parent reports.
pub(crate) fn system_call(number: i64, registers: [u64; 6]) -> Answer {
    let [a, b, c, d, e, f] = registers;
    let parent = std::process::id();
    // SAFETY: the pointers among the registers were made by `words` and live until the process ends;
    // a test gives no call that would change other memory of this process.
    let returned = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    // std::process::id asks the kernel each time.
    if std::process::id() != parent {
        // SAFETY: ends the copy of the process without running anything of it.
        unsafe { libc::_exit(0) };
    }
    answer(returned)
}

/// One call through the 32-bit entry, with three arguments.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80(number: u64, registers: [u64; 5]) -> Answer {
    let returned: u64;
    // SAFETY: rbx, which the compiler keeps for itself, is restored; the other registers that older
    // kernels clear are declared; the calls that the tests make take no pointers.
    unsafe {
        std::arch::asm!(
            "push rbx",
            "mov ebx, {first:e}",
            "int 0x80",
            "pop rbx",
            first = in(reg) registers[0],
            inlateout("rax") number => returned,
            in("rcx") registers[1],
            in("rdx") registers[2],
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    let returned = returned as u32 as i32;
    if (-4095..0).contains(&returned) {
        Err(-returned)
    } else {
        Ok(returned as u64)
    }
}

/// Other architectures have no such entry.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn int80(_number: u64, _registers: [u64; 5]) -> Answer {
    Err(libc::ENOSYS)
}
