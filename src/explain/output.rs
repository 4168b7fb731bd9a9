//! Where lines go.

use core::ffi::CStr;

use super::event::{self, Event};
use crate::error::{Cause, Error, Step, Subject};
use crate::sys::fs::{self, FileType};
use crate::sys::{AsFd, BorrowedFd, Errno, OwnedFd, poll};

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Standard error.
    StandardError,
    /// An inherited descriptor.
    Inherited(i32),
    /// A file, to which they are appended.
    File(&'static CStr),
}

impl To {
    /// The number of an inherited descriptor, which the module does not get.
    pub const fn inherited(self) -> Option<i32> {
        match self {
            To::Inherited(number) => Some(number),
            To::StandardError | To::File(_) => None,
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where lines go.
    pub to: To,
    /// Whether they are JSON.
    pub json: bool,
}

/// Where lines go, opened.
pub struct Output {
    file: File,
    json: bool,
    /// Whether the last line was cut off.
    cut: bool,
    /// Lines that could not be written.
    pub(super) lost: u64,
}

enum File {
    Inherited(BorrowedFd<'static>),
    Own(OwnedFd),
}

impl Output {
    /// Opens it.
    pub fn open(request: Request) -> Result<Self, Error<'static>> {
        let failed =
            |subject| move |errno| Error::refused(Step::Output, subject, Cause::Errno(errno));
        let option = Subject::Name("--explain-denials");
        let inherited = |number| {
            let fd = fs::inherited(number).map_err(failed(option))?;
            let stat = fs::stat(fd).map_err(failed(option))?;
            if fs::file_type(&stat) != FileType::CharacterDevice {
                return Ok(File::Inherited(fd));
            }
            // A terminal that is stopped or full makes every write wait, unless it was opened like this.
            fs::open_without_waiting(fd).map(File::Own).map_err(|errno| {
                Error::refused(
                    Step::Output,
                    option,
                    Cause::Explained(
                        errno,
                        "this terminal or device can't be opened again, so that writing to it would not wait: use =FILE",
                    ),
                )
            })
        };
        let file = match request.to {
            // One that was closed loses every line, which changes nothing for the module.
            To::StandardError => inherited(2)?,
            To::Inherited(number) => inherited(number)?,
            To::File(path) => {
                let subject = Subject::Text(path.to_bytes());
                fs::open_log(path).map(File::Own).map_err(|errno| match errno {
                    Errno::LOOP => Error::refused(
                        Step::Output,
                        subject,
                        Cause::Explained(errno, "a symbolic link on the way, which a module may have made: look at it with namei -l"),
                    ),
                    Errno::NOSYS => Error::refused(
                        Step::Output,
                        subject,
                        Cause::Explained(errno, "openat2 is hidden by a filter of this host, as that of systemd's RestrictSUIDSGID=: use fd:N"),
                    ),
                    errno => failed(subject)(errno),
                })?
            }
        };
        Ok(Output {
            file,
            json: request.json,
            cut: false,
            lost: 0,
        })
    }

    /// Says something, if that can be said without waiting for anybody. False: the line would be too long.
    pub(super) fn say(&mut self, event: &Event<'_>) -> bool {
        let Some(line) = event::line(event, self.json) else {
            return false;
        };
        let fd = match &self.file {
            File::Inherited(fd) => *fd,
            File::Own(fd) => fd.as_fd(),
        };
        let write = |bytes: &[u8]| {
            // A failed write may leave its signal pending, which stays blocked: every signal is.
            matches!(poll::write_now(fd, bytes), Ok(written) if written == bytes.len())
        };
        if self.cut && write(b"\n") {
            self.cut = false;
        }
        match poll::write_now(fd, &line) {
            Ok(written) if written == line.len() => {}
            written => {
                self.cut |= matches!(written, Ok(1..));
                self.lost += 1;
            }
        }
        true
    }
}
