//! The process that writes the lines.
//!
//! To write can wait: a module that shares the file can hold a lock of it for as long as it likes (a `splice(2)` into a pipe
//! that waits for a socket, a long `read(2)` of the description), and nothing but the end of that wakes the writer, not even
//! SIGKILL. So the keeper, which ends the module, writes to nothing that a module can hold: it sends lines over a socket of
//! its own to this process, without waiting. This one is nobody's child, has no other descriptor, and ends with the keeper.

use super::event::LINE;
use super::output::File;
use crate::error::{Error, Step};
use crate::sys::fs;
use crate::sys::spawn::{self, End, Side, fork};
use crate::sys::{AsFd, AsRawFd, BorrowedFd, Errno, OwnedFd, net, poll, process};

/// Asks how many lines are lost; it is no line.
pub(super) const QUESTION: &[u8] = b"\n";

/// The last packet: it looks as the end of the keeper does.
pub(super) const END: &[u8] = b"";

/// Starts the process: the socket for it.
pub(super) fn start(file: File) -> Result<OwnedFd, Error<'static>> {
    let failed = |call| move |errno| Error::call(Step::Output, call, errno);
    let (socket, its_end) = net::packet_pair().map_err(failed("socketpair"))?;
    let child = match fork(None).map_err(failed("clone3"))? {
        Side::Parent(child) => child,
        // Its parent ends at once: it is no descendant of the front, which waits for all of those.
        Side::Child => {
            drop(socket);
            process::exit(match fork(None) {
                Ok(Side::Parent(_)) => 0,
                Ok(Side::Child) => {
                    Writer::new(its_end, file).run();
                    0
                }
                Err(_) => 1,
            })
        }
    };
    match spawn::wait(Some(child), true).map_err(failed("wait4"))? {
        Some((_, End::Code(0))) => Ok(socket),
        _ => Err(failed("clone3")(Errno::AGAIN)),
    }
}

struct Writer {
    socket: OwnedFd,
    file: File,
    /// Whether the last line was cut off.
    cut: bool,
    /// Lines that could not be written.
    lost: u64,
    /// Whether the keeper has ended: nobody waits for room any more.
    ended: bool,
}

impl Writer {
    fn new(socket: OwnedFd, file: File) -> Self {
        Writer {
            socket,
            file,
            cut: false,
            lost: 0,
            ended: false,
        }
    }

    /// Until the keeper has ended, or said [`END`].
    fn run(mut self) {
        if self.close_others().is_err() {
            return;
        }
        let mut line = [0; LINE];
        while let Ok(length @ 1..) = net::receive_packet(&self.socket, &mut line) {
            match line.get(..length).unwrap_or_default() {
                QUESTION => {
                    let _ = net::send_now(&self.socket, &self.lost.to_ne_bytes());
                }
                line => self.write_line(line),
            }
        }
    }

    /// What the module's or the caller's others wait for the end of must not stay open here.
    fn close_others(&self) -> Result<(), Errno> {
        let (socket, file) = (self.socket.as_raw_fd(), self.file.as_fd().as_raw_fd());
        let (low, high) = (socket.min(file) as u32, socket.max(file) as u32);
        if let Some(last) = low.checked_sub(1) {
            fs::close_inherited_range(0, last)?;
        }
        if low + 1 < high {
            fs::close_inherited_range(low + 1, high - 1)?;
        }
        fs::close_inherited_range(high + 1, u32::MAX)
    }

    fn write_line(&mut self, line: &[u8]) {
        // What follows a line that was cut off is a line of its own, or nothing.
        if !self.cut || self.write(b"\n") == 1 {
            let written = self.write(line);
            self.cut = 0 < written && written < line.len();
            self.lost += u64::from(written < line.len());
        } else {
            self.lost += 1;
        }
    }

    /// Writes as much as there is room for, or comes to be. A failed write may leave its signal pending, which stays
    /// blocked: every signal is.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while let Some(rest @ [_, ..]) = bytes.get(written..) {
            match poll::write_now(self.file.as_fd(), rest) {
                Ok(length @ 1..) => written += length,
                Err(Errno::AGAIN) if !self.ended => {
                    match poll::room(self.file.as_fd(), self.socket.as_fd()) {
                        Ok(peer_ended) => self.ended = peer_ended,
                        Err(_) => break,
                    }
                }
                _ => break,
            }
        }
        written
    }
}

impl File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            File::Inherited(fd) => *fd,
            File::Own(fd) => fd.as_fd(),
        }
    }
}
