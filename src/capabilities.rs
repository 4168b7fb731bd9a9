//! What root loses: every capability of every set.
//!
//! no_new_privs keeps an exec from giving any back; the bounding set is emptied all the same, so that
//! `/proc/PID/status` shows a process that has nothing and can get nothing.

use crate::error::{Cause, Error, Step, Subject};
use crate::sys::Errno;
use crate::sys::process::{self, Capabilities};

/// Empties the bounding set where that is allowed, the ambient set, and the others, as far as they are not empty already.
///
/// Dropping from the bounding set takes CAP_SETPCAP. Who lacks it is a plain user, whose bounding set
/// stays as it is, or root in a container, whose bounding set must then be empty already.
pub fn drop_all() -> Result<(), Error<'static>> {
    let failed = |call| move |errno| Error::call(Step::Capabilities, call, errno);
    let held = Capabilities::get().map_err(failed("capget"))?;
    if held.may_drop_bounding_set() {
        for_each_capability(process::drop_from_bounding_set).map_err(failed("PR_CAPBSET_DROP"))?;
    } else if process::effective_uid() == 0 {
        for_each_capability(
            |capability| match process::is_in_bounding_set(capability)? {
                true => Err(Errno::PERM),
                false => Ok(()),
            },
        )
        .map_err(|errno| {
            let cause = match errno {
                Errno::PERM => Cause::Explained(
                    errno,
                    "root without CAP_SETPCAP can't drop it: run as a plain user, or with that capability",
                ),
                errno => Cause::Errno(errno),
            };
            Error::refused(Step::Capabilities, Subject::Name("bounding set"), cause)
        })?;
    }
    if held.are_empty() {
        return Ok(());
    }
    process::clear_ambient_set().map_err(failed("PR_CAP_AMBIENT_CLEAR_ALL"))?;
    process::clear_capability_sets().map_err(failed("capset"))
}

/// The last capability of every kernel with Landlock (Linux 5.9): an EINVAL up to it is a failure, not the end.
const LAST_KNOWN: u32 = linux_raw_sys::general::CAP_CHECKPOINT_RESTORE;

/// A capability set has 64 bits (`capget(2)`).
const BITS: u32 = 64;

/// Calls `each` with every capability that the kernel has: numbers from 0, until it answers EINVAL.
fn for_each_capability(each: impl Fn(u32) -> Result<(), Errno>) -> Result<(), Errno> {
    for capability in 0..BITS {
        match each(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) if capability > LAST_KNOWN => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
