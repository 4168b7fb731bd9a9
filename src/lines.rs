//! Lines of the kernel's files.

use core::ffi::CStr;
use core::ops::ControlFlow;

use crate::sys::fs::{self, OFlags};
use crate::sys::{AsFd, Errno};

/// Calls `each` with the lines of a file, without their ends, until it breaks. A line that is longer than `buffer` (the
/// groups of `/proc/PID/status`, the options of a mount) is skipped.
pub fn find<T>(
    at: impl AsFd,
    path: &CStr,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]) -> ControlFlow<T>,
) -> Result<Option<T>, Errno> {
    let file = fs::open_at(at, path, OFlags::RDONLY)?;
    // What of the buffer is the start of a line, and whether that is the rest of one that is skipped.
    let mut filled = 0;
    let mut too_long = false;
    loop {
        let length = fs::read(&file, buffer.get_mut(filled..).unwrap_or_default())?;
        if length == 0 {
            // Every line of these files has an end.
            return Ok(None);
        }
        filled += length;
        let mut start = 0;
        while let Some(rest) = buffer.get(start..filled)
            && let Some(end) = rest.iter().position(|&byte| byte == b'\n')
        {
            let line = rest.get(..end).unwrap_or_default();
            if !core::mem::take(&mut too_long)
                && let ControlFlow::Break(found) = each(line)
            {
                return Ok(Some(found));
            }
            start += end + 1;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
        if filled == buffer.len() {
            too_long = true;
            filled = 0;
        }
    }
}

/// The number after a name in lines of the form `NAME NUMBER`, as in `cpu.stat`. `None`: there is no such line.
pub fn number(at: impl AsFd, path: &CStr, name: &[u8]) -> Result<Option<u64>, Errno> {
    find(at, path, &mut [0; 256], |line| {
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
pub fn decimal(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn lines_of_any_length_are_read_or_skipped_whole() {
        let path = std::env::temp_dir().join(std::format!("oarbank-lines-{}", std::process::id()));
        let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        for length in 0..40 {
            let long = "x".repeat(length);
            std::fs::write(&path, std::format!("a\n{long}\n\nb{long}\nend\n")).expect("written");
            let mut buffer = [0; 16];
            let mut lines: Vec<String> = Vec::new();
            let found = find(fs::CWD, &name, &mut buffer, |line| {
                lines.push(String::from_utf8_lossy(line).into_owned());
                match line {
                    b"end" => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            assert_eq!(found, Ok(Some(())));
            let expected = ["a", &long, "", &std::format!("b{long}"), "end"];
            let expected = expected.into_iter().filter(|line| line.len() < 16);
            assert!(expected.eq(lines.iter()), "{length}: {lines:?}");
        }
        let _ = std::fs::remove_file(&path);
    }
}
