//! Where lines go.

use core::ffi::CStr;

use crate::error::{Cause, Error, Step, Subject};
use crate::sys::fs::{self, FileType};
use crate::sys::{AsFd, BorrowedFd, Errno, OwnedFd};

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
    pub(super) file: File,
    pub(super) json: bool,
}

pub(super) enum File {
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
            let kind = fs::file_type(&stat);
            if matches!(
                kind,
                FileType::RegularFile | FileType::Fifo | FileType::Socket
            ) {
                return match fs::is_open_for_writing(fd).map_err(failed(option))? {
                    true => Ok(File::Inherited(fd)),
                    false => Err(failed(option)(Errno::BADF)),
                };
            }
            if kind != FileType::CharacterDevice {
                let reason = "must be a file, a pipe, a socket or a terminal";
                let cause = Cause::Explained(Errno::INVAL, reason);
                return Err(Error::refused(Step::Output, option, cause));
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
        })
    }
}

impl File {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            File::Inherited(fd) => *fd,
            File::Own(fd) => fd.as_fd(),
        }
    }
}
