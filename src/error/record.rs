//! An error on its way from a child to its parent: bytes in a pipe.

use core::fmt::Write;

use heapless::String;

use super::{Cause, Error, Exit, Step, Subject};
use crate::sys::Errno;

/// The bytes before the texts: exit, step, errno (two, lowest first), length of the subject (two, lowest first).
const HEAD: usize = 6;

/// The most bytes of an encoded error; a pipe takes that many in one piece (`PIPE_BUF`, `pipe(7)`).
pub const SIZE: usize = 1024;

/// The bytes of an error. Texts that are too long are cut.
pub fn encode(error: &Error<'_>) -> heapless::Vec<u8, SIZE> {
    let mut subject: Text = Text(String::new());
    let mut cause: Text = Text(String::new());
    // Neither fails: `Text` takes all and drops what is too much.
    let _ = write!(subject, "{}", error.subject);
    let _ = match error.cause {
        Cause::Errno(_) => Ok(()),
        Cause::Explained(_, why) => cause.write_str(why),
        other => write!(cause, "{other}"),
    };
    let errno = error.cause.errno().map_or(0, Errno::raw_os_error);
    let [exit, step] = [error.exit as u8, error.step as u8];
    let [errno, length] = [errno as u16, subject.0.len() as u16].map(u16::to_le_bytes);
    let mut bytes = heapless::Vec::new();
    for part in [
        &[exit, step, errno[0], errno[1], length[0], length[1]],
        subject.0.as_bytes(),
        cause.0.as_bytes(),
    ] {
        // The head and two texts fit, see `Text`.
        let _ = bytes.extend_from_slice(part);
    }
    bytes
}

/// The error in bytes that [`encode`] made. `None`: it did not.
pub fn decode(bytes: &[u8]) -> Option<Error<'_>> {
    let (head, texts) = bytes.split_first_chunk::<HEAD>()?;
    let [exit, step, errno @ .., low, high] = *head;
    let exit = [Exit::Usage, Exit::Refused, Exit::Exec]
        .into_iter()
        .find(|known| *known as u8 == exit)?;
    let step = *Step::ALL.get(usize::from(step))?;
    let (subject, cause) = core::str::from_utf8(texts)
        .ok()?
        .split_at_checked(u16::from_le_bytes([low, high]).into())?;
    let cause = match (u16::from_le_bytes(errno), cause) {
        (0, reason) => Cause::Reason(reason),
        (errno, "") => Cause::Errno(Errno::from_raw_os_error(errno.into())),
        (errno, why) => Cause::Explained(Errno::from_raw_os_error(errno.into()), why),
    };
    Some(Error {
        exit,
        step,
        subject: Subject::Name(subject),
        cause,
    })
}

/// Text up to half of what a record has room for.
struct Text(String<{ (SIZE - HEAD) / 2 }>);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for letter in text.chars() {
            if self.0.push(letter).is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_parent_reads_what_the_child_wrote() {
        for (number, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, number, "ALL is in order");
            for cause in [
                Cause::Errno(Errno::PERM),
                Cause::Explained(Errno::ACCESS, "a reason"),
                Cause::Reason("another"),
            ] {
                for exit in [Exit::Usage, Exit::Refused, Exit::Exec] {
                    let error = Error {
                        exit,
                        step,
                        subject: Subject::Text(b"/a\n\xffb"),
                        cause,
                    };
                    let bytes = encode(&error);
                    let read = decode(&bytes).expect("an error");
                    assert_eq!(read.to_string(), error.to_string());
                    assert_eq!((read.exit, read.step), (error.exit, error.step));
                    assert_eq!(read.cause.errno(), error.cause.errno());
                }
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let long = "é".repeat(SIZE);
        let error = Error::refused(Step::Spawn, Subject::Name(&long), Cause::Reason(&long));
        let bytes = encode(&error);
        let read = decode(&bytes).expect("an error").to_string();
        assert!(read.contains("éé: éé"), "{read}");
    }

    #[test]
    fn other_bytes_are_no_error() {
        for bytes in [
            &b""[..],
            b"70",
            b"\x46\xff\0\0\0\0",
            b"\x46\0\0\0\x05\0abc",
            b"\0\0\0\0\0\0",
        ] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
