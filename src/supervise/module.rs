//! A module started by an agent that is its parent.

use core::ffi::CStr;

use super::cgroup::Leaf;
use super::spawn::{self, Buffer, Explained, Inherited, Order};
use super::verify;
use crate::error::{Error, Step, record};
use crate::launch::Sandbox;
use crate::sys::args::Vector;
use crate::sys::signal::{self, SIGCHLD};
use crate::sys::spawn::{End, wait};
use crate::sys::{Errno, signal::Signals};

/// What to start: a program with its arguments and environment, standard descriptors, and a leaf.
pub struct Command<'a> {
    /// The program's file. It is not searched for.
    pub program: &'a CStr,
    /// Its arguments, the first of which is by custom its name.
    pub argv: Vector<'a>,
    /// Its whole environment. `OARBANK_CONFINED=N` and `OARBANK_...=fd:N` mean what they mean to `sandbox-exec`.
    pub environment: Vector<'a>,
    /// What becomes its standard input, output and error. The caller's own three must be open.
    pub standard: [i32; 3],
    /// The cgroup that it is born in.
    pub leaf: Option<&'a Leaf>,
}

/// Room for what a child says of a failure.
pub struct Room(Buffer);

impl Room {
    /// Empty room.
    pub const fn new() -> Self {
        Room([0; record::SIZE])
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

/// A running module. Dropping it changes nothing: whoever starts a module waits for it.
#[derive(Debug)]
pub struct Module {
    pid: i32,
}

impl Module {
    /// Starts a module, in a session and a process group of its own, confined, and seen to be confined before its
    /// first instruction. Signals that the calling thread has blocked are blocked in it.
    ///
    /// Errors are those of `sandbox-exec`, of making the process, and of the verification (`/proc` is needed). After
    /// one of them nothing of the module has run, and no process is left.
    ///
    /// The process is a copy of the calling thread alone, which only makes system calls until the exec; other threads
    /// may go on meanwhile. If the caller ignores SIGCHLD, nobody can wait for the module.
    pub fn start<'a>(
        sandbox: &Sandbox,
        command: Command<'a>,
        room: &'a mut Room,
    ) -> Result<Self, Error<'a>> {
        let failed = |call| move |errno| Error::call(Step::Spawn, call, errno);
        let Command {
            program,
            argv,
            environment,
            standard,
            leaf,
        } = command;
        let mut order = Order {
            program,
            argv,
            environment,
            inherited: Inherited::InChild { standard },
            cgroup: leaf.map(Leaf::directory),
            mask: signal::block(Signals::of(&[])).map_err(failed("rt_sigprocmask"))?,
            ignores_children: signal::is_ignored(SIGCHLD).map_err(failed("rt_sigaction"))?,
            dies_with_parent: false,
            explained: Explained::Nothing,
        };
        let base = verify::Base::of_this_thread()?;
        spawn::spawn(sandbox, &mut order, base, &mut room.0, |_| Ok(()))
            .map(|(pid, _)| Module { pid })
    }

    /// Its process, which is also the number of its process group and session.
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to its process group. ESRCH: all of it has ended.
    pub fn signal(&self, signal: u32) -> Result<(), Error<'static>> {
        signal::send(-self.pid, signal).map_err(|errno| Error::call(Step::Supervise, "kill", errno))
    }

    /// Waits for its end. What it leaves behind goes on: a leaf's `kill` ends that.
    pub fn wait(self) -> Result<End, Error<'static>> {
        let failed = |errno| Error::call(Step::Supervise, "wait4", errno);
        let ended = wait(Some(self.pid), true).map_err(failed)?;
        ended.map(|(_, end)| end).ok_or(failed(Errno::CHILD))
    }
}
