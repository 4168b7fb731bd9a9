//! Trying a launch in a child.

use core::ffi::CStr;

use super::Record;
use crate::error::{Cause, Error, Step, Subject, record};
use crate::launch::{self, Sandbox};
use crate::sys::args::Vector;
use crate::sys::signal::{self, SIGKILL};
use crate::sys::spawn::{self, Side};
use crate::sys::trace::{self, Held};
use crate::sys::{Errno, OwnedFd, fs, process};

/// Enters the sandbox in a child, and with a program its exec too, of which no instruction runs.
pub(super) fn trial<'a>(
    sandbox: &Sandbox,
    program: Option<(&'a CStr, &Vector<'_>, &Vector<'_>)>,
    record: &'a mut Record,
) -> Result<(), Error<'a>> {
    let failed = |call| move |errno| Error::call(Step::Check, call, errno);
    let (told, tell) = spawn::pipe().map_err(failed("pipe2"))?;
    let child = match spawn::fork(None).map_err(failed("clone3"))? {
        Side::Child => tried(sandbox, program, &tell),
        Side::Parent(child) => child,
    };
    drop(tell);
    let held = hold(child);
    // An end by itself, or this: whatever happened, the program does not run.
    let _ = signal::send(child, SIGKILL);
    let _ = spawn::wait(Some(child), true);
    if held.map_err(failed("ptrace"))? {
        return Ok(());
    }
    let length = fs::read(&told, record).map_err(failed("read"))?;
    match record::decode(record.get(..length).unwrap_or_default()) {
        Some(error) => Err(match program {
            // In the parent's own words: the child's may have been cut.
            Some((program, ..)) if error.step == Step::Exec => Error {
                subject: Subject::Text(program.to_bytes()),
                ..error
            },
            _ => error,
        }),
        None if length == 0 && program.is_none() => Ok(()),
        None => Err(Error::refused(
            Step::Check,
            Subject::Name("the tried process"),
            Cause::Reason("it ended before its exec, and did not say why: see dmesg"),
        )),
    }
}

/// Whether a tried child comes to its exec; it is held there.
fn hold(child: i32) -> Result<bool, Errno> {
    loop {
        match trace::wait(child)? {
            Held::Begun => trace::hold_at_exec(child)?,
            Held::AtExec => return Ok(true),
            Held::Signalled(signal) => trace::go_on(child, signal)?,
            Held::Ended => return Ok(false),
        }
    }
}

/// The child of a trial.
fn tried(
    sandbox: &Sandbox,
    program: Option<(&CStr, &Vector<'_>, &Vector<'_>)>,
    tell: &OwnedFd,
) -> ! {
    let failed = |errno| Error::call(Step::Check, "PTRACE_TRACEME", errno);
    let outcome = trace::begin()
        .map_err(failed)
        .and_then(|()| sandbox.enter())
        .and_then(|()| match program {
            Some((program, argv, environment)) => Err(launch::exec(program, argv, environment)),
            None => Ok(()),
        });
    if let Err(error) = outcome {
        let _ = fs::write(tell, &record::encode(&error));
    }
    process::exit(0)
}
