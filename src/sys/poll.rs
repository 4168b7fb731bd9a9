//! Waiting for descriptors, and writing without waiting.

use heapless::Vec;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{IoSlice, ReadWriteFlags};

use super::{AsFd, BorrowedFd, Errno, fs, seconds};

/// What a descriptor has for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Nothing yet.
    No,
    /// Something, or an error that a read will tell.
    Something,
    /// Nothing, and nothing more will come.
    Ended,
}

/// Waits until there is something to be read somewhere, `nanoseconds` at most (`poll(2)`).
pub fn read<const N: usize>(
    descriptors: [Option<BorrowedFd<'_>>; N],
    nanoseconds: Option<u64>,
) -> Result<[Ready; N], Errno> {
    let mut polled: Vec<PollFd<'_>, N> = Vec::new();
    for fd in descriptors.into_iter().flatten() {
        // There is room for all of them.
        let _ = polled.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    poll(&mut polled, nanoseconds)?;
    let mut polled = polled.iter().map(PollFd::revents);
    Ok(descriptors.map(|fd| {
        let found = fd.and_then(|_| polled.next()).unwrap_or(PollFlags::empty());
        if found.intersects(PollFlags::IN | PollFlags::ERR) {
            Ready::Something
        } else if found.is_empty() {
            Ready::No
        } else {
            Ready::Ended
        }
    }))
}

/// Waits until something can be written, `nanoseconds` at most.
pub fn write(fd: impl AsFd, nanoseconds: u64) -> Result<(), Errno> {
    poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(nanoseconds))
}

fn poll(polled: &mut [PollFd<'_>], nanoseconds: Option<u64>) -> Result<(), Errno> {
    let time = nanoseconds.map(|nanoseconds| {
        let (tv_sec, tv_nsec) = seconds(nanoseconds);
        Timespec { tv_sec, tv_nsec }
    });
    match rustix::event::poll(polled, time.as_ref()) {
        // A stop and a continuation; the caller looks at its clock again.
        Err(Errno::INTR) => Ok(()),
        polled => polled.map(drop),
    }
}

/// Writes bytes if that can be done without waiting, all of them or, to a file, what fits. EAGAIN: it would wait.
///
/// Who shares the description of a pipe or socket can't make this wait (`RWF_NOWAIT`, for pipes since Linux 6.5). Else it
/// is asked before, and who fills it between the question and the write can.
pub fn write_now(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    /// The offset that means that of the description, as in `write(2)`.
    const OWN: u64 = u64::MAX;
    let pieces = [IoSlice::new(bytes)];
    match rustix::io::pwritev2(&fd, &pieces, OWN, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP | Errno::INVAL) => {
            let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
            poll(&mut polled, Some(0))?;
            if polled[0].revents().contains(PollFlags::OUT) {
                fs::write(fd, bytes)
            } else {
                Err(Errno::AGAIN)
            }
        }
        // XFS and btrfs answer that for a file's time alone; nobody makes a write to a file wait.
        Err(Errno::AGAIN) if fs::file_type(&fs::stat(&fd)?) == fs::FileType::RegularFile => {
            fs::write(fd, bytes)
        }
        written => written,
    }
}
