//! Lines of the kernel's files.

use core::ffi::CStr;
use core::ops::ControlFlow;

use heapless::Vec;

use crate::sys::fs::{self, OFlags};
use crate::sys::{AsFd, Errno};

/// The longest line that is looked at, in bytes; nothing that is looked for here is longer. A longer one (the groups
/// of `/proc/PID/status`, the options of a mount) is skipped.
const LONGEST: usize = 8192;

/// Calls `each` with the lines of a file, without their ends, until it breaks.
pub(super) fn find<T>(
    at: impl AsFd,
    path: &CStr,
    mut each: impl FnMut(&[u8]) -> ControlFlow<T>,
) -> Result<Option<T>, Errno> {
    let file = fs::open_at(at, path, OFlags::RDONLY)?;
    let mut chunk = [0; 1024];
    let mut line: Vec<u8, LONGEST> = Vec::new();
    let mut too_long = false;
    loop {
        let length = fs::read(&file, &mut chunk)?;
        for &byte in chunk.get(..length).unwrap_or_default() {
            if byte != b'\n' {
                too_long |= line.push(byte).is_err();
                continue;
            }
            if !too_long && let ControlFlow::Break(found) = each(&line) {
                return Ok(Some(found));
            }
            line.clear();
            too_long = false;
        }
        if length == 0 {
            // Every line of these files has an end.
            return Ok(None);
        }
    }
}

/// The number after a name in lines of the form `NAME NUMBER`, as in `cpu.stat`. `None`: there is no such line.
pub(super) fn number(at: impl AsFd, path: &CStr, name: &[u8]) -> Result<Option<u64>, Errno> {
    find(at, path, |line| {
        match line
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(b" "))
        {
            Some(digits) => ControlFlow::Break(decimal(digits)),
            None => ControlFlow::Continue(()),
        }
    })
    .map(Option::flatten)
}

/// A number in decimal digits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}
