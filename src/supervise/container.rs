//! What is signalled, frozen and ended together: a module's leaf, or its process group and descendants.

use super::cgroup::{Leaf, Usage};
use super::lines;
use crate::error::{Error, Step};
use crate::sys::signal::{self, SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, Signals};
use crate::sys::spawn::{self, End};
use crate::sys::{Errno, fs};

/// A module's container, as its keeper has it: a process that has no other children, is their subreaper, and has
/// SIGCHLD blocked.
#[expect(clippy::large_enum_variant, reason = "there is one, and no allocator")]
pub enum Container {
    /// A cgroup leaf.
    Leaf(Leaf),
    /// The process group and whatever descends from the keeper.
    Descendants,
}

/// The children of this thread (`proc_pid_task(5)`, a kernel with CONFIG_PROC_CHILDREN).
const CHILDREN: &core::ffi::CStr = c"/proc/thread-self/children";

/// How long to wait before looking again whether more processes have come, in nanoseconds.
const PAUSE: u64 = 10_000_000;

impl Container {
    /// Without a leaf: sees that the kernel tells who the children are.
    pub fn of_descendants() -> Result<Self, Error<'static>> {
        for_each_child(|_| Ok(()))
            .map_err(|errno| Error::call(Step::Supervise, "/proc/thread-self/children", errno))?;
        Ok(Container::Descendants)
    }

    /// The leaf, if it is one.
    pub const fn leaf(&self) -> Option<&Leaf> {
        match self {
            Container::Leaf(leaf) => Some(leaf),
            Container::Descendants => None,
        }
    }

    /// Stops everything in it, or lets it go on.
    pub fn freeze(&self, leader: i32, frozen: bool) -> Result<(), Error<'static>> {
        match self {
            Container::Leaf(leaf) => leaf.freeze(frozen),
            Container::Descendants => {
                let signal = if frozen { SIGSTOP } else { SIGCONT };
                signal_all(leader, signal);
                Ok(())
            }
        }
    }

    /// Ends all of it.
    pub fn kill(&self, leader: i32) -> Result<(), Error<'static>> {
        signal_all(leader, SIGKILL);
        match self {
            Container::Leaf(leaf) => leaf.kill(),
            Container::Descendants => Ok(()),
        }
    }

    /// Ends all of it and reaps it. `leader`, if it was not reaped before, is told how it ended.
    ///
    /// A killed process makes no child any more, and its children become the keeper's: whoever lives is reached
    /// within as many rounds as the tree is deep.
    pub fn end(&self, leader: i32, leader_end: &mut Option<End>) -> Result<(), Error<'static>> {
        let failed = |errno| Error::call(Step::Supervise, "wait4", errno);
        loop {
            self.kill(leader)?;
            loop {
                match spawn::wait(None, false) {
                    Err(Errno::CHILD) => return Ok(()),
                    Ok(None) => break,
                    Ok(Some((pid, end))) if pid == leader => *leader_end = Some(end),
                    ended => drop(ended.map_err(failed)?),
                }
            }
            signal::wait(Signals::of(&[SIGCHLD]), Some(PAUSE)).map_err(failed)?;
        }
    }

    /// What was used by all that was reaped.
    pub fn usage(&self) -> Result<Usage, Error<'static>> {
        match self {
            Container::Leaf(leaf) => leaf.usage(),
            Container::Descendants => Ok(Usage {
                cpu_usec: spawn::children_cpu_usec()
                    .map_err(|errno| Error::call(Step::Supervise, "getrusage", errno))?,
                ..Usage::default()
            }),
        }
    }

    /// Removes what is left of it when all has ended.
    pub fn remove(&self) -> Result<(), Error<'static>> {
        match self {
            Container::Leaf(leaf) => leaf.remove(),
            Container::Descendants => Ok(()),
        }
    }
}

/// Sends a signal to the module's process group and to the keeper's children. Who has ended in the meantime gets none.
fn signal_all(leader: i32, signal: u32) {
    let _ = signal::send(-leader, signal);
    let _ = for_each_child(|child| {
        let _ = signal::send(child, signal);
        Ok(())
    });
}

fn for_each_child(mut each: impl FnMut(i32) -> Result<(), Errno>) -> Result<(), Errno> {
    let file = fs::open_at(fs::CWD, CHILDREN, fs::OFlags::RDONLY)?;
    let mut chunk = [0; 1024];
    let mut digits: heapless::Vec<u8, 12> = heapless::Vec::new();
    loop {
        let length = fs::read(&file, &mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        for &byte in chunk.get(..length).unwrap_or_default() {
            if byte != b' ' {
                digits.push(byte).map_err(|_| Errno::INVAL)?;
                continue;
            }
            if let Some(child) = lines::decimal(&digits) {
                each(child as i32)?;
            }
            digits.clear();
        }
    }
}
