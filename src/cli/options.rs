//! Options and their values.

use core::ffi::CStr;

use super::{help, unknown, wrong_word};
use crate::error::Error;
use crate::sys::args::Vector;

/// The words of a command line that are left.
pub(super) struct Words(Vector<'static>);

impl Words {
    /// All after the program's own name.
    pub(super) fn new(mut arguments: Vector<'static>) -> Self {
        let _ = arguments.take_first();
        Words(arguments)
    }

    pub(super) fn next(&mut self) -> Option<&'static CStr> {
        self.0.take_first()
    }

    /// The next word, if it is an option and not `--`, with the value that stands behind its `=`.
    pub(super) fn option(&mut self) -> Option<Given> {
        let word = self.0.first()?;
        if !word.to_bytes().starts_with(b"-") || word == c"--" {
            return None;
        }
        let _ = self.0.take_first();
        let equals = word.to_bytes().iter().position(|&byte| byte == b'=');
        let (name, value) = match equals {
            None => (word.to_bytes(), None),
            Some(at) => {
                let (name, value) = word.to_bytes_with_nul().split_at(at);
                (
                    name,
                    CStr::from_bytes_with_nul(value.get(1..).unwrap_or_default()).ok(),
                )
            }
        };
        Some(Given { word, name, value })
    }

    /// The value of an option: behind its `=`, or the next word.
    pub(super) fn value(&mut self, given: &Given) -> Result<&'static CStr, Error<'static>> {
        match given.value {
            Some(value) => Ok(value),
            None => self.next().ok_or(wrong_word(given.word, "needs a value")),
        }
    }

    /// The value of an option, as a number of its kind.
    pub(super) fn number<T>(
        &mut self,
        given: &Given,
        read: impl Fn(&[u8]) -> Option<T>,
        expected: &'static str,
    ) -> Result<T, Error<'static>> {
        let value = self.value(given)?;
        read(value.to_bytes()).ok_or(wrong_word(value, expected))
    }

    /// No word may follow.
    pub(super) fn end(&mut self) -> Result<(), Error<'static>> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(wrong_word(word, "nothing may follow here; see --help")),
        }
    }

    /// What is left, as a program's arguments.
    pub(super) fn rest(self) -> Vector<'static> {
        self.0
    }
}

/// An option on the command line.
pub(super) struct Given {
    pub(super) word: &'static CStr,
    pub(super) name: &'static [u8],
    pub(super) value: Option<&'static CStr>,
}

impl Given {
    /// It is no option of this command, whose help is `text`.
    pub(super) fn unknown(&self, command: &'static str, text: &'static str) -> Error<'static> {
        let (kind, command) = if help::words(help::RUN).any(|of| of.as_bytes() == self.name)
            && !help::words(text).any(|of| of.as_bytes() == self.name)
        {
            ("option of this command, but of sandbox-run", "sandbox-run")
        } else {
            ("option", command)
        };
        unknown(self.word, self.name, kind, command, text)
    }
}

/// A decimal number, `12` or `1.5`, in units of a power of ten: `scale` digits after the point count, more are refused.
pub(super) fn scaled(text: &[u8], scale: usize) -> Option<u64> {
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        None => (text, &b""[..]),
        Some(at) => (text.get(..at)?, text.get(at + 1..)?),
    };
    if whole.is_empty() || fraction.len() > scale || text.ends_with(b".") {
        return None;
    }
    let zeros = core::iter::repeat_n(&b'0', scale - fraction.len());
    whole
        .iter()
        .chain(fraction)
        .chain(zeros)
        .try_fold(0_u64, |value, &byte| {
            let digit = char::from(byte).to_digit(10)?;
            value.checked_mul(10)?.checked_add(digit.into())
        })
}

/// A number of bytes: digits, with K, M, G or T for a power of 1,024.
pub(super) fn size(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text {
        [digits @ .., b'K'] => (digits, 10),
        [digits @ .., b'M'] => (digits, 20),
        [digits @ .., b'G'] => (digits, 30),
        [digits @ .., b'T'] => (digits, 40),
        digits => (digits, 0),
    };
    scaled(digits, 0)?.checked_mul(1 << shift)
}

/// The number of a descriptor that is not a standard one.
pub(super) fn above_standard(text: &[u8]) -> Option<i32> {
    small(text).filter(|&number| number > 2)
}

/// A descriptor's number, or a pid.
pub(super) fn small(text: &[u8]) -> Option<i32> {
    scaled(text, 0)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        for (text, scale, expected) in [
            ("1", 0, Some(1)),
            ("1", 3, Some(1_000)),
            ("1.5", 3, Some(1_500)),
            ("0.001", 3, Some(1)),
            ("0.0001", 3, None),
            ("", 3, None),
            (".5", 3, None),
            ("5.", 3, None),
            ("1.2.3", 3, None),
            ("-1", 3, None),
            ("+1", 3, None),
            ("1e3", 3, None),
            (" 1", 3, None),
            ("18446744073709551615", 0, Some(u64::MAX)),
            ("18446744073709551616", 0, None),
            ("18446744073709551615", 1, None),
        ] {
            assert_eq!(scaled(text.as_bytes(), scale), expected, "{text}");
        }
    }

    #[test]
    fn sizes_have_a_unit_of_1024() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("64K", Some(64 << 10)),
            ("1M", Some(1 << 20)),
            ("2G", Some(2 << 30)),
            ("1T", Some(1 << 40)),
            ("K", None),
            ("1k", None),
            ("1MB", None),
            ("1.5G", None),
            ("16777216T", None),
        ] {
            assert_eq!(size(text.as_bytes()), expected, "{text}");
        }
    }
}
