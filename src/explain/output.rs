//! Where lines go.

use core::ffi::CStr;

use super::event::{self, Event};
use crate::error::{Cause, Error, Step, Subject};
use crate::sys::fs::{self, FileType};
use crate::sys::spawn::now;
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
    /// How long lines may yet wait for their reader, in nanoseconds.
    patience: u64,
    /// Lines that could not be written.
    pub(super) lost: u64,
}

/// How long the last lines may wait for their reader in all, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

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
            patience: 0,
            lost: 0,
        })
    }

    /// The module has ended: from here on there is a little time for the reader.
    pub(super) fn be_patient(&mut self) {
        self.patience = PATIENCE;
    }

    /// Says something, if that can be said without waiting for anybody. False: the line would be too long.
    pub(super) fn say(&mut self, event: &Event<'_>) -> bool {
        let Some(line) = event::line(event, self.json) else {
            return false;
        };
        // What follows a line that was cut off is a line of its own, or nothing.
        if !self.cut || self.write(b"\n") == 1 {
            let written = self.write(&line);
            self.cut = 0 < written && written < line.len();
            self.lost += u64::from(written < line.len());
        } else {
            self.lost += 1;
        }
        true
    }

    /// Writes as much as there is room for, or as comes to be while there is patience. A failed write may leave its signal
    /// pending, which stays blocked: every signal is.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let fd = match &self.file {
            File::Inherited(fd) => *fd,
            File::Own(fd) => fd.as_fd(),
        };
        let (mut written, patience) = (0, &mut self.patience);
        while let Some(rest @ [_, ..]) = bytes.get(written..) {
            match poll::write_now(fd, rest) {
                Ok(length @ 1..) => written += length,
                Err(Errno::AGAIN) if waits_for_room(fd, patience) => {}
                _ => break,
            }
        }
        written
    }
}

/// Waits for room, and takes the time from what there is. False: it is used up.
fn waits_for_room(fd: BorrowedFd<'_>, patience: &mut u64) -> bool {
    if *patience == 0 {
        return false;
    }
    let waited = || {
        let start = now()?;
        poll::write(fd, *patience)?;
        Ok::<_, Errno>(now()? - start)
    };
    *patience = waited().map_or(0, |waited| patience.saturating_sub(waited));
    *patience > 0
}
