//! Reading the policy file.

use core::ffi::CStr;

use crate::error::{Cause, Error, Step, Subject};
use crate::limits::POLICY_BYTES;
use crate::sys::fs::{self, FileType};
use crate::sys::{Errno, OwnedFd};

/// A policy file that was opened.
pub struct File<'a> {
    path: &'a CStr,
    fd: OwnedFd,
    /// Its size in bytes, 1 MiB at most.
    size: usize,
}

/// The room that the largest policy takes.
pub const LARGEST: usize = room(POLICY_BYTES);

/// A file, one byte to see that it has become longer, and its strings: one is decoded to no more bytes than it has, and its
/// NUL takes less than its quotes.
const fn room(size: usize) -> usize {
    size + 1 + size
}

impl<'a> File<'a> {
    /// Opens a regular file of 1 MiB at most.
    pub fn open(path: &'a CStr) -> Result<Self, Error<'a>> {
        let fd = fs::open_for_reading(path).map_err(|errno| refused(path, Cause::Errno(errno)))?;
        let stat = fs::stat(&fd).map_err(|errno| refused(path, Cause::Errno(errno)))?;
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        let cause = match fs::file_type(&stat) {
            FileType::RegularFile if size <= POLICY_BYTES => return Ok(File { path, fd, size }),
            FileType::RegularFile => {
                Cause::Explained(Errno::FBIG, "a policy has 1048576 bytes at most")
            }
            FileType::Directory => Cause::Errno(Errno::ISDIR),
            _ => Cause::Explained(Errno::INVAL, "not a regular file"),
        };
        Err(refused(path, cause))
    }

    /// The room that it takes, in bytes.
    pub const fn room(&self) -> usize {
        room(self.size)
    }

    /// Reads the whole file, once, into `space`, which has [`Self::room`]: the file, and the room for its strings. It must be
    /// as long at the end of the read as it was when it was opened.
    pub fn read<'b>(self, space: &'b mut [u8]) -> Result<(&'b [u8], &'b mut [u8]), Error<'a>> {
        let File { path, fd, size } = self;
        let (file, strings) = space
            .split_at_mut_checked(size + 1)
            .ok_or(refused(path, Cause::Errno(Errno::NOMEM)))?;
        let length = read_to_end(&fd, file).map_err(|errno| refused(path, Cause::Errno(errno)))?;
        if length != size {
            let why = "it changed while it was read: replace it by a rename, never in place";
            return Err(refused(path, Cause::Explained(Errno::AGAIN, why)));
        }
        Ok((&file[..size], strings))
    }
}

/// Reads until the file's end, or until the buffer is full, which has room for one byte too many. A read that had room for
/// that byte and did not bring it has seen the end.
fn read_to_end(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match fs::read(file, rest)? {
            0 => break,
            read => length += read,
        }
        if length + 1 == buffer.len() {
            break;
        }
    }
    Ok(length)
}

fn refused<'a>(path: &'a CStr, cause: Cause<'a>) -> Error<'a> {
    Error::refused(Step::Policy, Subject::Text(path.to_bytes()), cause)
}
