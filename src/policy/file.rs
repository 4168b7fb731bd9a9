//! Reading the policy file.

use core::ffi::CStr;

use crate::error::{Cause, Error, Step, Subject};
use crate::limits::POLICY_BYTES;
use crate::sys::fs::{self, FileType};
use crate::sys::{Errno, OwnedFd};

/// A policy file's bytes, and one more to see that it is too long.
pub type Buffer = [u8; POLICY_BYTES + 1];

/// Reads the whole file, once, into `space`, which is larger than a [`Buffer`], and returns it and the rest of `space`. It
/// must be a regular file of 1 MiB at most, and as long at the end of the read as it was at its start.
pub fn read<'a, 'b>(
    path: &'a CStr,
    space: &'b mut [u8],
) -> Result<(&'b [u8], &'b mut [u8]), Error<'a>> {
    let refused = |cause| Error::refused(Step::Policy, Subject::Text(path.to_bytes()), cause);
    let file = fs::open_for_reading(path).map_err(|errno| refused(Cause::Errno(errno)))?;
    let stat = fs::stat(&file).map_err(|errno| refused(Cause::Errno(errno)))?;
    match fs::file_type(&stat) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(refused(Cause::Errno(Errno::ISDIR))),
        _ => {
            return Err(refused(Cause::Explained(
                Errno::INVAL,
                "not a regular file",
            )));
        }
    }
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    let buffer = space.first_chunk_mut::<{ size_of::<Buffer>() }>();
    let buffer = buffer.ok_or(refused(Cause::Errno(Errno::NOMEM)))?;
    let length = read_to_end(&file, buffer, size).map_err(|errno| refused(Cause::Errno(errno)))?;
    if length > POLICY_BYTES {
        return Err(refused(Cause::Explained(
            Errno::FBIG,
            "a policy has 1048576 bytes at most",
        )));
    }
    if length != size {
        return Err(refused(Cause::Explained(
            Errno::AGAIN,
            "it changed while it was read: replace it by a rename, never in place",
        )));
    }
    let (json, rest) = space.split_at_mut(length);
    Ok((json, rest))
}

/// Reads until `size` bytes have come, the end of the file, or that of the buffer. A read that had room for more and ended at
/// `size` has seen the end there.
fn read_to_end(file: &OwnedFd, buffer: &mut Buffer, size: usize) -> Result<usize, Errno> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match fs::read(file, rest)? {
            0 => break,
            read => length += read,
        }
        if length == size {
            break;
        }
    }
    Ok(length)
}
