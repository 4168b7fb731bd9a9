//! What the commands print: standard output, as text or as JSON.

use core::fmt::{self, Display, Formatter, Write};

use heapless::Vec;
use serde::ser::{Serialize, Serializer};

use crate::error::{Error, Step};
use crate::sys::{Errno, fs, process, signal};

const STDOUT: i32 = 1;

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    fs::inherited(STDOUT).is_ok_and(|fd| fs::window_size(fd).is_ok())
}

/// Room for one piece of JSON.
pub type Piece = [u8; 32 * 1024];

/// Standard output. What can't be written is reported at the end; nothing is written after a failure.
pub struct Output {
    buffer: Vec<u8, 4096>,
    failure: Option<Errno>,
}

impl Output {
    /// Nothing written yet.
    pub const fn new() -> Self {
        Output {
            buffer: Vec::new(),
            failure: None,
        }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.buffer.is_full() {
                self.flush();
            }
            // There is room after a flush.
            let _ = self.buffer.push(byte);
        }
    }

    /// Writes text; `write!` with no failure to look at.
    pub fn text(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.write_fmt(text);
    }

    /// Writes a value as JSON; `room` is for building it. A value that does not fit is a failure.
    pub fn json(&mut self, value: &impl Serialize, room: &mut Piece) {
        match serde_json_core::to_slice(value, room) {
            Ok(length) => self.bytes(room.get(..length).unwrap_or_default()),
            Err(_) => self.failure = self.failure.or(Some(Errno::FBIG)),
        }
    }

    /// Writes a list as a JSON array, each value as [`Self::json`] does.
    pub fn list<T: Serialize>(&mut self, values: impl Iterator<Item = T>, room: &mut Piece) {
        self.bytes(b"[");
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.bytes(b",");
            }
            self.json(&value, room);
        }
        self.bytes(b"]");
    }

    /// Writes what is left. An error: not everything was written.
    pub fn finish(mut self) -> Result<(), Error<'static>> {
        self.flush();
        match self.failure {
            None => Ok(()),
            Some(errno) => Err(Error::call(Step::Output, "standard output", errno)),
        }
    }

    fn flush(&mut self) {
        if self.failure.is_none() {
            let write = || process::write_all(STDOUT, &self.buffer);
            self.failure = signal::without_write_signals(write).err();
        }
        self.buffer.clear();
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Something as it stands in a message, as a JSON string.
#[derive(Clone, Copy)]
pub struct Shown<'a>(pub &'a dyn Display);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// Bytes as text, as a JSON string; what is not UTF-8, and what a terminal might act on and JSON does not escape, becomes
/// U+FFFD.
#[derive(Clone, Copy)]
pub struct Text<'a>(pub &'a [u8]);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                f.write_char(match c {
                    // DEL and C1, and what turns the direction of writing.
                    '\u{7f}'..='\u{9f}'
                    | '\u{200e}'
                    | '\u{200f}'
                    | '\u{202a}'..='\u{202e}'
                    | '\u{2066}'..='\u{2069}'
                    | '\u{2028}'
                    | '\u{2029}'
                    | '\u{061c}' => char::REPLACEMENT_CHARACTER,
                    c => c,
                })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
