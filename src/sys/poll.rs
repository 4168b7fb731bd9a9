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
    /// Something.
    Something,
    /// An error, which a read may tell, or not: a listener's lock that is held.
    Failed,
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
        if found.contains(PollFlags::IN) {
            Ready::Something
        } else if found.contains(PollFlags::ERR) {
            Ready::Failed
        } else if found.is_empty() {
            Ready::No
        } else {
            Ready::Ended
        }
    }))
}

/// Waits until something can be written, `nanoseconds` at most.
pub fn write(fd: BorrowedFd<'_>, nanoseconds: u64) -> Result<(), Errno> {
    poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(nanoseconds))
}

/// Waits until something can be written, or the other end of a socket is closed: whether it is.
pub fn room(fd: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut polled = [
        PollFd::new(&fd, PollFlags::OUT),
        PollFd::new(&socket, PollFlags::empty()),
    ];
    poll(&mut polled, None)?;
    Ok(polled[1].revents().contains(PollFlags::HUP))
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
/// For room, that is (`RWF_NOWAIT`, for pipes since Linux 6.5; else it is asked before, and who fills it between the question
/// and the write makes it wait). A lock of the file that somebody else holds is waited for all the same.
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
        // XFS and btrfs answer that for a file's time alone; there is always room in a file, or an error.
        Err(Errno::AGAIN) if fs::file_type(&fs::stat(&fd)?) == fs::FileType::RegularFile => {
            fs::write(fd, bytes)
        }
        written => written,
    }
}
