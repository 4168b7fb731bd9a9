//! An error on standard error.

use core::fmt::{self, Write};

use heapless::Vec;

use super::Error;
use crate::sys::{Errno, process, signal};

const STDERR: i32 = 2;

/// Prints an error, also where nobody can read it. The signals that a write can raise stay blocked: nothing may end
/// the process before its exit code.
#[inline(never)]
pub fn print(error: &Error<'_>) {
    let _ = signal::without_write_signals(|| {
        let mut line = Line(Vec::new());
        let _ = writeln!(line, "{error}");
        line.flush();
        Err::<(), _>(Errno::CANCELED)
    });
}

/// Text for standard error, written in one piece unless it is very long.
struct Line(Vec<u8, 4096>);

impl Line {
    fn flush(&mut self) {
        let _ = process::write_all(STDERR, &self.0);
        self.0.clear();
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.0.push(byte).is_err() {
                self.flush();
                self.0.push(byte).map_err(|_| fmt::Error)?;
            }
        }
        Ok(())
    }
}
