//! One module's process: forked, confined, seen to be confined, and only then let into its exec.
//!
//! The child tells over one pipe that it is confined, or why not, and waits at the other for leave to go on. That the
//! exec has happened is seen by the end of the first pipe, which closes then.

use core::ffi::CStr;

use super::verify::Base;
use crate::descriptors::{self, Confined};
use crate::error::{Cause, Error, Step, Subject, record};
use crate::launch::{self, Sandbox};
use crate::sys::args::Vector;
use crate::sys::signal::{self, SIGCHLD, SIGKILL, Signals};
use crate::sys::spawn::{self, End, Side};
use crate::sys::{Errno, OwnedFd, fs, net, process};

/// What the child says when it is confined.
const READY: &[u8] = b"1";
/// What the parent answers.
const GO: &[u8] = b"1";
/// As a parent death signal: none.
const NO_SIGNAL: u32 = 0;

/// Which descriptors the module gets.
pub enum Inherited {
    /// They were settled, before this process opened any.
    Settled(Option<Confined>),
    /// The child settles them: the standard ones are copies of these, the others are named by its environment.
    InChild {
        /// What becomes 0, 1 and 2.
        standard: [i32; 3],
    },
}

/// What to start.
pub struct Order<'a> {
    /// The program, absolute.
    pub program: &'a CStr,
    /// Its arguments.
    pub argv: Vector<'a>,
    /// Its environment.
    pub environment: Vector<'a>,
    /// Its descriptors.
    pub inherited: Inherited,
    /// The cgroup to be born in.
    pub cgroup: Option<&'a OwnedFd>,
    /// The signals that it has blocked.
    pub mask: Signals,
    /// Whether it ignores SIGCHLD.
    pub ignores_children: bool,
    /// Whether it ends with the thread that starts it.
    pub dies_with_parent: bool,
    /// What of its denials is explained.
    pub explained: Explained,
}

/// What of a module's denials is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// Nothing.
    Nothing,
    /// Refused calls: who starts it gets a listener, and must answer them.
    Calls,
    /// What Landlock denies, too: the kernel's audit logs it.
    CallsAndFiles,
}

/// Room for what a child tells.
pub type Buffer = [u8; record::SIZE];

/// How far a module has come; it has not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its process exists, with this pid.
    Started(i32),
    /// It was seen to be confined.
    Verified(i32),
}

/// Starts a module: its pid, and the listener if it is explained. `tell_progress` is called as it comes along; if that fails
/// the module does not run. After an error the process was killed and reaped.
pub fn spawn<'a>(
    sandbox: &Sandbox,
    order: &mut Order<'a>,
    base: Base,
    buffer: &'a mut Buffer,
    mut tell_progress: impl FnMut(Progress) -> Result<(), Error<'static>>,
) -> Result<(i32, Option<OwnedFd>), Error<'a>> {
    let failed = |call| move |errno| Error::call(Step::Spawn, call, errno);
    let (told, tell) = spawn::pipe().map_err(failed("pipe2"))?;
    let (wait, go) = spawn::pipe().map_err(failed("pipe2"))?;
    let explained = match order.explained {
        Explained::Nothing => None,
        explained => {
            let (take, to) = net::stream_pair().map_err(failed("socketpair"))?;
            let log = explained == Explained::CallsAndFiles;
            Some((take, Hand { to, log }))
        }
    };
    let parent = process::id();
    // A handler of the caller's must not run in the child, nor a signal end it before it has told.
    let before = signal::block(Signals::ALL).map_err(failed("rt_sigprocmask"))?;
    let side = spawn::fork(order.cgroup);
    if side == Ok(Side::Child) {
        drop((told, go));
        let hand = explained.map(|(_, hand)| hand);
        child(sandbox, order, parent, &tell, &wait, hand.as_ref())
    }
    let restored = signal::set_mask(before).map_err(failed("rt_sigprocmask"));
    let pid = match side.map_err(failed("clone3"))? {
        Side::Parent(pid) => pid,
        Side::Child => return Err(failed("clone3")(Errno::CHILD)),
    };
    drop((tell, wait));
    let mut listener = None;

    let mut let_run = || {
        restored.map_err(Failure::Own)?;
        tell_progress(Progress::Started(pid)).map_err(Failure::Own)?;
        hear(&told, buffer, true)?;
        if let Some((take, _)) = &explained {
            let taken = net::receive_descriptor(take).map_err(failed("recvmsg"));
            listener = Some(taken.map_err(Failure::Own)?);
        }
        base.verify(pid).map_err(Failure::Own)?;
        tell_progress(Progress::Verified(pid)).map_err(Failure::Own)?;
        signal::without_write_signals(|| fs::write(&go, GO)).map_err(|errno| match errno {
            // It ended while it waited.
            Errno::PIPE => Failure::Told(0),
            errno => Failure::Own(failed("write")(errno)),
        })?;
        hear(&told, buffer, false)
    };
    let Err(failure) = let_run() else {
        return Ok((pid, listener));
    };
    // Nothing of the module has run, so there is nobody else to kill.
    let _ = signal::send(pid, SIGKILL);
    let ended = spawn::wait(Some(pid), true);
    let program = order.program;
    Err(match failure {
        Failure::Own(error) => error,
        Failure::Told(length) => match record::decode(buffer.get(..length).unwrap_or_default()) {
            // Said with the parent's own words: the child's may have been cut.
            Some(error) if error.step == Step::Exec => Error {
                subject: Subject::Text(program.to_bytes()),
                ..error
            },
            Some(error) => error,
            None => vanished(ended),
        },
    })
}

/// To whom the listener of a module that is explained is handed.
struct Hand {
    to: OwnedFd,
    log: bool,
}

/// Why a module did not run.
enum Failure {
    /// Something of the parent's.
    Own(Error<'static>),
    /// The child's record, with its length; 0 if it ended without one.
    Told(usize),
}

/// Hears from the child that it is ready (or else, that its exec has closed the pipe).
fn hear(told: &OwnedFd, buffer: &mut Buffer, ready: bool) -> Result<(), Failure> {
    let length = fs::read(told, buffer)
        .map_err(|errno| Failure::Own(Error::call(Step::Spawn, "read", errno)))?;
    let expected = if ready { READY } else { b"" };
    if buffer.get(..length) == Some(expected) {
        Ok(())
    } else {
        Err(Failure::Told(length))
    }
}

/// The child ended and said nothing.
fn vanished(ended: Result<Option<(i32, End)>, Errno>) -> Error<'static> {
    let cause = match ended {
        Ok(Some((_, End::Signal(9)))) => Cause::Reason(
            "it was killed before its exec, by the kernel for want of memory (see dmesg, --memory-max) or at RLIMIT_CPU, or by somebody",
        ),
        Ok(_) => Cause::Reason("it ended before its exec: see what sandbox-check says"),
        Err(errno) => Cause::Errno(errno),
    };
    Error::refused(Step::Spawn, Subject::Name("the module's process"), cause)
}

/// The new process: becomes the module, or tells why not and ends.
fn child(
    sandbox: &Sandbox,
    order: &mut Order<'_>,
    parent: i32,
    tell: &OwnedFd,
    wait: &OwnedFd,
    hand: Option<&Hand>,
) -> ! {
    let error = match confine(sandbox, order, parent, tell, wait, hand) {
        Ok(()) => launch::exec(order.program, &order.argv, &order.environment),
        Err(error) => error,
    };
    let exit = error.exit;
    // A parent that does not listen any more is gone.
    let _ = fs::write(tell, &record::encode(&error));
    process::exit(exit as i32)
}

fn confine<'a>(
    sandbox: &Sandbox,
    order: &mut Order<'a>,
    parent: i32,
    tell: &OwnedFd,
    wait: &OwnedFd,
    hand: Option<&Hand>,
) -> Result<(), Error<'a>> {
    let failed = |call| move |errno| Error::call(Step::Spawn, call, errno);
    process::new_session().map_err(failed("setsid"))?;
    // Until it may go on, in any case: a copy of the parent that another thread has made may hold the other ends of
    // both pipes open, so that their end would not be seen.
    process::die_with(parent, SIGKILL).map_err(failed("PR_SET_PDEATHSIG"))?;
    let confined = match order.inherited {
        Inherited::Settled(confined) => confined,
        Inherited::InChild { standard } => {
            fs::set_standard(standard).map_err(failed("dup2"))?;
            let settled = descriptors::apply(&mut order.environment)?;
            let descriptors::Settled { confined, unlinked } = settled;
            descriptors::check_memory_files(&order.environment, unlinked, sandbox.exec_rw())?;
            confined
        }
    };
    match hand {
        None => sandbox.enter()?,
        Some(hand) => {
            let listener = sandbox.enter_explained(hand.log)?;
            net::send_descriptor(&hand.to, &listener).map_err(failed("sendmsg"))?;
        }
    }
    fs::write(tell, READY).map_err(failed("write"))?;
    let mut answer = [0; GO.len()];
    if fs::read(wait, &mut answer).map_err(failed("read"))? != GO.len() {
        return Err(failed("read")(Errno::PIPE));
    }
    if !order.dies_with_parent {
        process::die_with(parent, NO_SIGNAL).map_err(failed("PR_SET_PDEATHSIG"))?;
    }
    if let Some(confined) = confined {
        confined.tell()?;
    }
    if order.ignores_children {
        signal::ignore(SIGCHLD).map_err(failed("rt_sigaction"))?;
    }
    signal::set_mask(order.mask).map_err(failed("rt_sigprocmask"))
}
