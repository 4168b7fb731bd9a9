//! Where lines go.

use core::ffi::CStr;

use super::event::{self, Event};
use super::writer;
use crate::error::{Cause, Error, Step, Subject};
use crate::sys::fs::{self, FileType};
use crate::sys::spawn::now;
use crate::sys::{AsFd, BorrowedFd, Errno, OwnedFd, net, poll};

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
    /// To the process that writes them.
    socket: OwnedFd,
    json: bool,
    /// How long lines may yet wait for their reader, in nanoseconds.
    patience: u64,
    /// Lines that could not be written.
    lost: u64,
}

/// How long the last lines may wait for their reader in all, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

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
            socket: writer::start(file)?,
            json: request.json,
            patience: 0,
            lost: 0,
        })
    }

    /// Says something, if that can be said without waiting for anybody. False: the line would be too long.
    pub(super) fn say(&mut self, event: &Event<'_>) -> bool {
        let Some(line) = event::line(event, self.json) else {
            return false;
        };
        let sent = self.send(&line);
        self.lost += u64::from(!sent);
        true
    }

    /// The module has ended: from here on there is a little time for the reader.
    pub(super) fn be_patient(&mut self) {
        self.patience = PATIENCE;
    }

    /// How many lines could not be written by now.
    pub(super) fn lost(&mut self) -> u64 {
        let mut answer = [0; size_of::<u64>()];
        if self.send(writer::QUESTION)
            && self.wait(For::Answer)
            && net::receive_packet_now(&self.socket, &mut answer) == Ok(answer.len())
        {
            self.lost += u64::from_ne_bytes(answer);
        }
        self.lost
    }

    /// Nothing more will be said: waits until all of it is written, while there is patience.
    pub(super) fn end(mut self) {
        if self.send(writer::END) {
            self.wait(For::Answer);
        }
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        loop {
            match net::send_now(&self.socket, packet) {
                Err(Errno::AGAIN) if self.wait(For::Room) => {}
                sent => return sent.is_ok(),
            }
        }
    }

    /// Waits, and takes the time from what there is. False: it is used up.
    fn wait(&mut self, what: For) -> bool {
        if self.patience == 0 {
            return false;
        }
        let waited = || {
            let (start, socket) = (now()?, self.socket.as_fd());
            match what {
                For::Room => poll::write(socket, self.patience)?,
                For::Answer => poll::read([Some(socket)], Some(self.patience)).map(drop)?,
            }
            Ok::<_, Errno>(now()? - start)
        };
        self.patience = waited().map_or(0, |waited| self.patience.saturating_sub(waited));
        self.patience > 0
    }
}

/// What is waited for.
#[derive(Clone, Copy)]
enum For {
    /// To send one more packet.
    Room,
    /// An answer, or the end.
    Answer,
}
