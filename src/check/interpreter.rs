//! What a program needs to be executed: an interpreter, a loader.

use core::ffi::CStr;

use heapless::Vec;
use serde::Serialize;

use crate::limits::PATH_MAX;
use crate::sys::fs;

/// How a program takes part in an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The interpreter in the first line of a script.
    Script,
    /// The loader of a dynamically linked program (ELF's PT_INTERP).
    Loader,
}

/// A path with its NUL.
pub(super) type Name = Vec<u8, PATH_MAX>;

/// What a program needs to be executed, by its first bytes.
pub(super) fn interpreter(program: &CStr) -> Option<(Kind, Name)> {
    let file = fs::open_for_reading(program).ok()?;
    let mut head = [0; 4096];
    let length = fs::read_at(&file, &mut head, 0).ok()?;
    let head = head.get(..length)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return script(line).map(|name| (Kind::Script, name));
    }
    let (offset, length) = loader(head)?;
    let mut name = [0; PATH_MAX];
    let part = name.get_mut(..length)?;
    if fs::read_at(&file, part, offset).ok()? != length {
        return None;
    }
    let name = CStr::from_bytes_until_nul(part).ok()?;
    Some((
        Kind::Loader,
        Name::from_slice(name.to_bytes_with_nul()).ok()?,
    ))
}

/// The interpreter in a script's first line (`execve(2)`, "Interpreter scripts").
fn script(line: &[u8]) -> Option<Name> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|byte| b" \t\0".contains(byte))
        .filter(|word| !word.is_empty());
    let mut name = Name::from_slice(words.next()?).ok()?;
    name.push(0).ok()?;
    Some(name)
}

/// Where the name of an ELF file's loader is in it, and its length with the NUL (`elf(5)`).
fn loader(head: &[u8]) -> Option<(u64, usize)> {
    const PT_INTERP: u64 = 3;
    const CLASS_64: u8 = 2;
    let ident = head.strip_prefix(b"\x7fELF")?;
    let wide = *ident.first()? == CLASS_64;
    let field = |at: usize, length: usize| {
        let bytes = head.get(at..at.checked_add(length)?)?;
        // Every architecture here is little-endian.
        Some(
            bytes
                .iter()
                .rev()
                .fold(0_u64, |value, &byte| value << 8 | u64::from(byte)),
        )
    };
    let (table, size, count) = if wide {
        (field(32, 8)?, field(54, 2)?, field(56, 2)?)
    } else {
        (field(28, 4)?, field(42, 2)?, field(44, 2)?)
    };
    (0..count).find_map(|index| {
        let entry = usize::try_from(table.checked_add(index * size)?).ok()?;
        if field(entry, 4)? != PT_INTERP {
            return None;
        }
        let (offset, length) = if wide {
            (field(entry + 8, 8)?, field(entry + 32, 8)?)
        } else {
            (field(entry + 4, 4)?, field(entry + 16, 4)?)
        };
        Some((offset, usize::try_from(length).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let name = |line: &str| {
            script(line.as_bytes())
                .map(|name| std::string::String::from_utf8_lossy(&name).into_owned())
        };
        for (line, expected) in [
            ("/bin/sh\n", Some("/bin/sh\0")),
            (" \t/bin/sh -e\nx", Some("/bin/sh\0")),
            ("/usr/bin/env python3\n", Some("/usr/bin/env\0")),
            ("sh", Some("sh\0")),
            ("\n/bin/sh", None),
            ("  \n", None),
            ("", None),
        ] {
            assert_eq!(name(line).as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn whatever_a_file_holds_its_loader_is_found_or_not() {
        let mut head = std::vec![0_u8; 4096];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        // The table at 64, entries of 56 bytes, two of them, the second is PT_INTERP.
        head[32] = 64;
        head[54] = 56;
        head[56] = 2;
        head[64 + 56] = 3;
        head[64 + 56 + 8] = 0x70;
        head[64 + 56 + 32] = 28;
        assert_eq!(loader(&head), Some((0x70, 28)));
        // Every byte wrong in turn, and every length: no panic, and nothing outside the file.
        for at in 0..head.len() {
            let byte = core::mem::replace(&mut head[at], 0xff);
            let _ = loader(&head);
            head[at] = byte;
            let _ = loader(&head[..at]);
        }
    }
}
