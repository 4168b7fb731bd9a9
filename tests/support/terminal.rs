//! A terminal for a program.

use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::check;

/// A terminal, and the end that programs have.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let terminal = File::options().read(true).write(true).open("/dev/ptmx");
    let terminal = terminal.expect("a terminal");
    let unlocked = 0;
    // SAFETY: the kernel reads a number; the second answer is a descriptor that nobody else owns.
    let its_end = unsafe {
        let number = terminal.as_raw_fd();
        check(libc::ioctl(number, libc::TIOCSPTLCK, &raw const unlocked)).expect("unlocked");
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let its_end = libc::ioctl(number, libc::TIOCGPTPEER, flags);
        check(its_end).expect("its end");
        OwnedFd::from_raw_fd(its_end)
    };
    (terminal, its_end)
}
