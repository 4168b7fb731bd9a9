//! Decoding the escapes of JSON strings (RFC 8259, section 7), which serde-json-core leaves as they are.

#![forbid(unsafe_code)]

use core::str::Chars;

/// A surrogate without its other half: no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneSurrogate;

/// The characters of a JSON string, given between its quotes, whose grammar [`super::json::check`] has seen.
pub fn decode(raw: &str) -> impl Iterator<Item = Result<char, LoneSurrogate>> + '_ {
    let mut rest = raw.chars();
    core::iter::from_fn(move || {
        let c = rest.next()?;
        Some(if c == '\\' { escaped(&mut rest) } else { Ok(c) })
    })
}

fn escaped(rest: &mut Chars<'_>) -> Result<char, LoneSurrogate> {
    Ok(match rest.next().ok_or(LoneSurrogate)? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode(rest),
        // A quote, a backslash or a slash stands for itself.
        c => c,
    })
}

fn unicode(rest: &mut Chars<'_>) -> Result<char, LoneSurrogate> {
    let first = hex(rest).ok_or(LoneSurrogate)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).ok_or(LoneSurrogate);
    }
    let second = match (rest.next(), rest.next()) {
        (Some('\\'), Some('u')) => hex(rest).ok_or(LoneSurrogate)?,
        _ => return Err(LoneSurrogate),
    };
    if !(0xdc00..0xe000).contains(&second) {
        return Err(LoneSurrogate);
    }
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(LoneSurrogate)
}

fn hex(rest: &mut Chars<'_>) -> Option<u32> {
    let mut value = 0;
    for _ in 0..4 {
        value = value << 4 | rest.next()?.to_digit(16)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn decoded(raw: &str) -> Result<String, LoneSurrogate> {
        decode(raw).collect()
    }

    #[test]
    fn every_escape() {
        assert_eq!(
            decoded(r#"a\"\\\/\b\f\n\r\té"#).as_deref(),
            Ok("a\"\\/\u{8}\u{c}\n\r\té")
        );
        assert_eq!(
            decoded(r"\u0041\u00e9\uFFFD\u0000").as_deref(),
            Ok("Aé\u{fffd}\0")
        );
        assert_eq!(
            decoded(r"\ud83d\ude00\uDBFF\uDFFF").as_deref(),
            Ok("\u{1f600}\u{10ffff}")
        );
        assert_eq!(decoded(r"\\u0041").as_deref(), Ok(r"\u0041"));
    }

    #[test]
    fn lone_surrogates_are_no_text() {
        for raw in [
            r"\ud83d",
            r"\ude00",
            r"\ud83dx",
            r"\ud83d\n",
            r"\ud83d\u0041",
            r"\ud83d\ud83d",
            r"\ude00\ud83d",
        ] {
            assert_eq!(decoded(raw), Err(LoneSurrogate), "{raw}");
        }
    }
}
