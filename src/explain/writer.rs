//! The process that writes the lines.
//!
//! To write can wait: a module that shares the file can hold a lock of it for as long as it likes (a `splice(2)` into a pipe
//! that waits for a socket, a long `read(2)` of the description), and nothing but the end of that wakes the writer, not even
//! SIGKILL. So the keeper, which ends the module, writes to nothing that a module can hold: it sends lines over a socket of
//! its own to this process, without waiting. This one has no other descriptor, and ends when the keeper has, but for such a
//! lock. It is a child of the front, which waits for its end for a moment only.

use super::event::{self, Event, LINE};
use super::output::Output;
use crate::error::{Error, Step};
use crate::sys::fs;
use crate::sys::spawn::{Helper, fork_helper, now};
use crate::sys::{AsFd, AsRawFd, BorrowedFd, Errno, OwnedFd, net, poll, process};

/// How long the last lines may wait for their reader in all, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// What the last line says, in a packet of its own kind: how many calls and accesses, how many of these untold, how many
/// lines lost by the keeper, how many records lost.
type Sums = [u64; 5];

/// What no line begins with.
const SUMS: u8 = 0;

/// The lines, where they are said.
pub struct Lines {
    /// To the process that writes them.
    socket: OwnedFd,
    json: bool,
    /// How long lines may yet wait for their reader, in nanoseconds.
    patience: u64,
    /// Lines that could not be sent.
    lost: u64,
}

impl Output {
    /// Starts the process that writes to it.
    pub fn start(self) -> Result<(Lines, Helper), Error<'static>> {
        let failed = |call| move |errno| Error::call(Step::Output, call, errno);
        let (socket, its_end) = net::packet_pair().map_err(failed("socketpair"))?;
        let json = self.json;
        match fork_helper().map_err(failed("clone3"))? {
            Some(helper) => {
                let lines = Lines {
                    socket,
                    json,
                    patience: 0,
                    lost: 0,
                };
                Ok((lines, helper))
            }
            None => {
                drop(socket);
                let writer = Writer {
                    socket: its_end,
                    output: self,
                    cut: false,
                    lost: 0,
                    ended: false,
                };
                process::exit(writer.run().is_err().into())
            }
        }
    }
}

impl Lines {
    /// Says something, without waiting for anybody. False: the line would be too long.
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

    /// Says the last line, and waits until all are written, while there is patience.
    pub(super) fn end(mut self, [calls, accesses, untold, lost_records]: [u64; 4]) {
        let sums: Sums = [calls, accesses, untold, self.lost, lost_records];
        let mut packet = [SUMS; 1 + size_of::<Sums>()];
        for (bytes, number) in packet[1..].chunks_exact_mut(8).zip(sums) {
            bytes.copy_from_slice(&number.to_ne_bytes());
        }
        // A queue of lines that nobody has read in time is no reason not to say how many of them are lost.
        let sent = self.send(&packet) || net::make_room(&self.socket).is_ok() && self.send(&packet);
        if sent {
            // The end of the other side.
            self.wait(|socket, patience| poll::read([Some(socket)], Some(patience)).map(drop));
        }
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        loop {
            match net::send_now(&self.socket, packet) {
                Err(Errno::AGAIN) if self.wait(poll::write) => {}
                sent => return sent.is_ok(),
            }
        }
    }

    /// Waits, and takes the time from what there is. False: it is used up.
    fn wait(&mut self, wait: impl FnOnce(BorrowedFd<'_>, u64) -> Result<(), Errno>) -> bool {
        if self.patience == 0 {
            return false;
        }
        let waited = || {
            let start = now()?;
            wait(self.socket.as_fd(), self.patience)?;
            Ok::<_, Errno>(now()? - start)
        };
        self.patience = waited().map_or(0, |waited| self.patience.saturating_sub(waited));
        self.patience > 0
    }
}

struct Writer {
    socket: OwnedFd,
    output: Output,
    /// Whether the last line was cut off.
    cut: bool,
    /// Lines that could not be written.
    lost: u64,
    /// Whether the keeper has ended: nobody waits for room any more.
    ended: bool,
}

impl Writer {
    /// Until the last line, or the end of the keeper.
    fn run(mut self) -> Result<(), Errno> {
        // What stops the front's group does not stop the lines.
        process::new_group()?;
        self.close_others()?;
        let mut packet = [0; LINE];
        loop {
            let length = net::receive_packet(&self.socket, &mut packet)?;
            match packet.get(..length).unwrap_or_default() {
                [] => return Ok(()),
                [SUMS, sums @ ..] => {
                    self.sum_up(sums);
                    return Ok(());
                }
                line => self.write_line(line),
            }
        }
    }

    /// Closes all but its own two: somebody may wait for the end of what this process has a copy of.
    fn close_others(&self) -> Result<(), Errno> {
        let (socket, file) = (
            self.socket.as_raw_fd(),
            self.output.file.as_fd().as_raw_fd(),
        );
        let (low, high) = (socket.min(file) as u32, socket.max(file) as u32);
        if let Some(last) = low.checked_sub(1) {
            fs::close_inherited_range(0, last)?;
        }
        if low + 1 < high {
            fs::close_inherited_range(low + 1, high - 1)?;
        }
        fs::close_inherited_range(high + 1, u32::MAX)
    }

    fn sum_up(&mut self, bytes: &[u8]) {
        let mut numbers: Sums = Sums::default();
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        let [calls, accesses, untold, lost, lost_records] = numbers;
        let last = Event::Summary {
            calls,
            accesses,
            untold,
            lost_lines: self.lost + lost,
            lost_records,
        };
        if let Some(line) = event::line(&last, self.output.json) {
            self.write_line(&line);
        }
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
            match poll::write_now(self.output.file.as_fd(), rest) {
                Ok(length @ 1..) => written += length,
                Err(Errno::AGAIN) if !self.ended => {
                    match poll::room(self.output.file.as_fd(), self.socket.as_fd()) {
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
