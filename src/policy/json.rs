//! Whether a text is JSON by RFC 8259, from the first byte to the last.
//!
//! serde-json-core deserializes; it lets through what is not JSON, above all inside skipped fields, so a policy
//! comes here first. The grammar alone is checked: what a field may hold is [`super::reader`]'s matter.

#![forbid(unsafe_code)]

use crate::limits::NESTING;

/// What is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The offset in bytes.
    pub at: usize,
    /// What is wrong there.
    pub why: &'static str,
}

impl Wrong {
    /// Line and column of the place, both from 1; columns are bytes.
    pub fn place(&self, text: &[u8]) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before
            .iter()
            .rev()
            .take_while(|&&byte| byte != b'\n')
            .count()
            + 1;
        (line, column)
    }
}

/// Checks that `text` is one JSON object, in UTF-8, with white space around it at most.
pub fn check(text: &[u8]) -> Result<(), Wrong> {
    if let Err(error) = core::str::from_utf8(text) {
        return Err(Wrong {
            at: error.valid_up_to(),
            why: "not UTF-8: save it with that encoding",
        });
    }
    let mut scanner = Scanner { text, at: 0 };
    scanner.space();
    match scanner.peek() {
        Some(b'{') => scanner.value(NESTING)?,
        None => return scanner.wrong("the policy is empty"),
        Some(_) => {
            return scanner
                .expected("a policy is a JSON object, which starts with {, and nothing before it");
        }
    }
    scanner.space();
    if scanner.at < text.len() {
        scanner.expected("something follows the object, after its last }")
    } else {
        Ok(())
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn wrong<T>(&self, why: &'static str) -> Result<T, Wrong> {
        Err(Wrong { at: self.at, why })
    }

    /// Outside of strings: something else was expected than what stands here.
    fn expected<T>(&self, why: &'static str) -> Result<T, Wrong> {
        self.wrong(match self.peek() {
            Some(b'/' | b'#') => "JSON has no comments",
            Some(b'\'') => "JSON has double quotes, no single ones",
            _ => why,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Takes the next byte if it is `byte`.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// A value; `levels` is how many arrays and objects may still be opened.
    fn value(&mut self, levels: usize) -> Result<(), Wrong> {
        match self.peek() {
            Some(b'{' | b'[') if levels == 0 => self.wrong("nested too deeply (64 levels at most)"),
            Some(b'{') => self.members(b'}', levels - 1, |scanner, levels| {
                scanner.string()?;
                scanner.space();
                if !scanner.take(b':') {
                    return scanner.expected("expected : between a name and its value");
                }
                scanner.space();
                scanner.value(levels)
            }),
            Some(b'[') => self.members(b']', levels - 1, Self::value),
            Some(b'"') => self.string(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.expected(
                "expected a value: a string in double quotes, a number, true, false, null, a list or an object",
            ),
        }
    }

    /// What an array or an object holds, brackets included.
    fn members(
        &mut self,
        close: u8,
        levels: usize,
        member: impl Fn(&mut Self, usize) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        self.at += 1;
        self.space();
        if self.take(close) {
            return Ok(());
        }
        loop {
            member(self, levels)?;
            self.space();
            if self.take(close) {
                return Ok(());
            }
            if !self.take(b',') {
                return self.expected(if close == b']' {
                    "expected , or ]"
                } else {
                    "expected , or }"
                });
            }
            self.space();
            if self.peek() == Some(close) {
                return self.wrong("the last one has a comma behind it, which JSON does not allow");
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Wrong> {
        for &byte in word {
            if !self.take(byte) {
                return self.wrong("expected true, false or null");
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Wrong> {
        if !self.take(b'"') {
            return self.expected("expected a name in double quotes");
        }
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = |&byte: &u8| byte >= b' ' && byte != b'"' && byte != b'\\';
            let special = rest.iter().position(|byte| !plain(byte));
            self.at += special.unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => {
                    return self.wrong("a control character in a string must be escaped, as \\n or \\u0001; or its closing quote is missing");
                }
                None => return self.wrong("the string does not end: its closing quote is missing"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.peek() {
                        Some(b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.at += 1,
                        _ => return self.wrong("\\u takes four hexadecimal digits"),
                    }
                }
            }
            _ => return self.wrong("no such escape: a backslash itself is written twice"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Wrong> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Wrong> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.wrong("expected a digit: numbers are written as 1, -1, 1.5 or 1e9");
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;

    fn in_a_field(value: &str) -> Result<(), Wrong> {
        check(format!("{{\"x\": {value} }}").as_bytes())
    }

    #[test]
    fn json_passes() {
        for value in [
            "0",
            "-0",
            "10",
            "1.5",
            "1e5",
            "1E+5",
            "-1.25e-07",
            "true",
            "false",
            "null",
            "\"\"",
            "[]",
            "{}",
            "[ ]",
            "{ }",
            "[1,2]",
            "[[],{}]",
            r#"{"a":{"b":[null]},"a":1}"#,
            r#""\"\\\/\b\f\n\r\t\u00fF""#,
            "\"é😀\u{7f}\"",
            r#""\ud800""#,
        ] {
            assert_eq!(in_a_field(value), Ok(()), "{value}");
        }
        assert_eq!(check(b" \t\r\n{} \n"), Ok(()));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for value in [
            "",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "1e+",
            "0x1",
            "1 hello",
            "nul",
            "nulll",
            "True",
            "NaN",
            "Infinity",
            "'a'",
            "\"",
            "\"a",
            "[,1]",
            "[1,]",
            "[1 2]",
            "[",
            "]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+0e9\"",
            "\"\t\"",
            "\"\n\"",
            "\"\0\"",
            "1,",
            "// c",
            "/* c */ 1",
            "\u{a0}1",
        ] {
            assert!(in_a_field(value).is_err(), "{value}");
        }
        for text in [
            "",
            " ",
            "[]",
            "\"\"",
            "1",
            "null",
            "{} {}",
            "{},",
            "{}\0",
            "\u{feff}{}",
            "{",
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(
            check(b"{\"\xff\":1}"),
            Err(Wrong {
                at: 2,
                why: "not UTF-8: save it with that encoding"
            })
        );
    }

    #[test]
    fn nesting_ends() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(in_a_field(&nested(NESTING - 1)), Ok(()));
        assert!(in_a_field(&nested(NESTING)).is_err());
        assert!(in_a_field(&"[".repeat(100_000)).is_err());
        assert!(in_a_field(&"{\"a\":".repeat(100_000)).is_err());
        // Beside each other is not inside each other.
        let beside: String = (0..1000).map(|_| "[[]],").collect();
        assert_eq!(in_a_field(&format!("[{beside}1]")), Ok(()));
    }

    #[test]
    fn the_place_is_one_that_an_editor_finds() {
        let text = b"{\n  \"a\": 1\n  \"b\": 2\n}";
        assert_eq!(check(text).map_err(|wrong| wrong.place(text)), Err((3, 3)));
    }
}
