//! What is signalled, frozen and ended together: a module's leaf, or its process group and descendants.

use super::cgroup::{Leaf, Usage};
use crate::error::{Error, Step};
use crate::lines;
use crate::sys::fs::{self, ProcPath};
use crate::sys::signal::{self, SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, Signals};
use crate::sys::spawn::{self, End};
use crate::sys::{Errno, process};

/// A module's container, as its keeper has it: a process that has no other children, is their subreaper, and has
/// SIGCHLD blocked. So is the front once its keeper has ended.
#[derive(Clone, Copy)]
pub enum Container<'a> {
    /// A cgroup leaf.
    Leaf(&'a Leaf),
    /// The process group and whatever descends from the keeper: `/proc`, by which the module was seen to be confined, tells.
    Descendants,
}

/// How many generations are looked at; deeper ones are reached as those above them end.
const DEEPEST: u32 = 64;

/// How often it is looked whether all have stopped.
const ROUNDS: u32 = 100;

/// How long to wait before looking again whether more processes have come, in nanoseconds.
const PAUSE: u64 = 10_000_000;

impl<'a> Container<'a> {
    /// The leaf, if it is one.
    pub const fn leaf(&self) -> Option<&'a Leaf> {
        match self {
            Container::Leaf(leaf) => Some(leaf),
            Container::Descendants => None,
        }
    }

    /// Stops everything in it, or lets it go on. Without a leaf that is SIGSTOP and SIGCONT: who is born meanwhile is
    /// looked for again, and a module whose processes continue each other escapes it.
    pub fn freeze(&self, leader: i32, frozen: bool) -> Result<(), Error<'static>> {
        let signal = if frozen { SIGSTOP } else { SIGCONT };
        match self {
            Container::Leaf(leaf) => leaf.freeze(frozen),
            Container::Descendants => {
                let _ = signal::send(-leader, signal);
                for _ in 0..ROUNDS {
                    let mut running = false;
                    for_each_descendant(|process, stopped| {
                        running |= !stopped;
                        let _ = signal::send(process, signal);
                    });
                    if !frozen || !running {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Ends all of it. `leader`: the leader while it was not reaped, or 0; its number may be another's afterwards.
    pub fn kill(&self, leader: i32) -> Result<(), Error<'static>> {
        // ESRCH: all of them have ended.
        let _ = signal::send(-leader, SIGKILL);
        match self {
            Container::Leaf(leaf) => leaf.kill(),
            Container::Descendants => {
                for_each_descendant(|process, _| {
                    let _ = signal::send(process, SIGKILL);
                });
                Ok(())
            }
        }
    }

    /// Ends all of it and reaps it, however often that has to be tried. `leader_end`, if it was not reaped before, is
    /// told how the leader ended.
    ///
    /// Whatever a killed process leaves becomes the keeper's child, so nothing lives when there is none.
    pub fn end(&self, leader: i32, leader_end: &mut Option<End>) {
        loop {
            loop {
                match spawn::wait(None, false) {
                    Err(Errno::CHILD) => return,
                    Ok(Some((pid, end))) if pid == leader => *leader_end = Some(end),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
            let group = if leader_end.is_none() { leader } else { 0 };
            // A failure (there may be no memory for it now) is one of many tries.
            let _ = self.kill(group);
            let _ = signal::wait(Signals::of(&[SIGCHLD]), Some(PAUSE));
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
            Container::Leaf(leaf) => {
                // Somebody else may have moved a process into it.
                let _ = leaf.kill();
                leaf.remove()
            }
            Container::Descendants => Ok(()),
        }
    }
}

/// Calls `each` with every descendant of this process and whether it runs no more (stopped, or ended): the processes
/// whose parents lead here, in the order of their numbers. Who is born meanwhile has a higher one, as a rule, and is met
/// too: a fork bomb does not outrun this.
fn for_each_descendant(mut each: impl FnMut(i32, bool)) {
    let own = process::id();
    let _ = fs::for_each_entry(fs::CWD, c"/proc", |name| {
        let Some(pid) = lines::decimal(name.to_bytes()).and_then(|pid| i32::try_from(pid).ok())
        else {
            return Ok(());
        };
        let mut line = [0; 512];
        let Some((state, mut parent)) = state(pid, &mut line) else {
            return Ok(());
        };
        for _ in 0..DEEPEST {
            if parent == own {
                each(pid, matches!(state, b'T' | b't' | b'Z' | b'X'));
                break;
            }
            match self::state(parent, &mut line) {
                Some((_, next)) if parent > 1 => parent = next,
                _ => break,
            }
        }
        Ok(())
    });
}

/// State and parent of a process (`proc_pid_stat(5)`): `PID (NAME) STATE PARENT ...`, where a name may hold anything.
fn state(pid: i32, line: &mut [u8; 512]) -> Option<(u8, i32)> {
    let path = ProcPath::of_process(pid, "stat");
    let file = fs::open_at(fs::CWD, path.as_c_str(), fs::OFlags::RDONLY).ok()?;
    let length = fs::read(&file, line).ok()?;
    parse_state(line.get(..length)?)
}

fn parse_state(line: &[u8]) -> Option<(u8, i32)> {
    let after = line.rsplit(|&byte| byte == b')').next()?;
    let mut fields = after.split(|&byte| byte == b' ').skip(1);
    let state = *fields.next()?.first()?;
    let parent = lines::decimal(fields.next()?)?;
    Some((state, i32::try_from(parent).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_looks_like_more_fields() {
        assert_eq!(parse_state(b"7 (a) S 1 7 7 0\n"), Some((b'S', 1)));
        assert_eq!(parse_state(b"7 (a) S 1 (b) T 23 7"), Some((b'T', 23)));
        assert_eq!(parse_state(b"7 () Z 0 0"), Some((b'Z', 0)));
        for line in [&b""[..], b"7", b"7 (a)", b"7 (a) S", b"7 (a) S x"] {
            assert_eq!(parse_state(line), None);
        }
    }
}
