//! `sandbox-run`: who watches whom.
//!
//! ```text
//! caller --- front --- keeper --- module --- ...
//! ```
//!
//! The front is the process that the caller started. It prepares all that can be prepared, forks the keeper, passes
//! signals on and gives the keeper's exit code. The keeper starts the module, verifies it, watches over it, and ends its
//! container. Both are subreapers: whatever a module leaves behind becomes the child of one of them. If the front is
//! killed, the keeper is told by the kernel and ends the container; if the keeper is killed, the front does. With
//! `--explain-denials` the front has another child, which writes the lines ([`crate::explain`]).

use core::ffi::CStr;

use super::cgroup::{self, Leaf, Limits};
use super::container::Container;
use super::event::{Event, Line, Status};
use super::spawn::{self, Buffer, Explained, Inherited, Order, Progress};
use super::verify;
use crate::descriptors::{self, Confined};
use crate::error::print::print;
use crate::error::{Cause, Error, Step, Subject, record};
use crate::explain::{self, Explain};
use crate::launch::{self, Sandbox};
use crate::output::{Shown, Text};
use crate::sys::signal::{
    self, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, Signals,
};
use crate::sys::spawn::{End, Helper, Side, fork, now, wait};
use crate::sys::{Errno, process};

/// Where the container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A leaf of this process's own cgroup; without limits and if that can't be, none.
    Auto,
    /// No cgroup.
    None,
    /// A leaf of this cgroup.
    At(&'static CStr),
}

/// What to run, and how.
pub struct Request {
    /// What to launch.
    pub launch: launch::Request,
    /// What it may use.
    pub limits: Limits,
    /// After how many nanoseconds it is asked to end.
    pub timeout: Option<u64>,
    /// How many nanoseconds after that it is killed.
    pub grace: u64,
    /// Where the container is.
    pub place: Place,
    /// The descriptor that is told what happens.
    pub status: Option<i32>,
    /// Where it is told what the module is denied.
    pub explain: Option<explain::Request>,
}

/// The memory of a run. The binary has one as a static.
pub struct Memory {
    /// That of the launch.
    pub launch: launch::Memory,
    cgroup: Cgroup,
    explain: explain::Memory,
    /// For one line or piece of JSON.
    pub line: Line,
    /// For what a child tells.
    pub record: Buffer,
}

/// The cgroup of a run, if it has one. Paths are large, and stay where they are.
struct Cgroup {
    base: Option<cgroup::Base>,
    leaf: Option<Leaf>,
}

impl Memory {
    /// Empty memory.
    pub const fn new() -> Self {
        Memory {
            launch: launch::Memory::new(),
            cgroup: Cgroup {
                base: None,
                leaf: None,
            },
            explain: explain::Memory::new(),
            line: [0; size_of::<Line>()],
            record: [0; record::SIZE],
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// The exit code of a module that was asked to end by `--timeout`, as `timeout(1)` has it.
const TIMED_OUT: u8 = 124;

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

/// The signal that the keeper gets when the front ends: the last real-time signal, which nothing else here uses.
const FRONT_ENDED: u32 = 64;

/// The signals that ask the module to end.
const ENDING: [u32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

/// Runs a module to its end and returns the exit code; an error that it returns was told, but not yet printed.
#[inline(never)]
pub fn run(request: Request, memory: &'static mut Memory) -> Result<u8, Error<'static>> {
    let Memory {
        launch,
        cgroup,
        explain,
        line,
        record,
    } = memory;
    let mut status = Status::new(request.status, line)?;
    let outcome = front(request, launch, cgroup, explain, record, &mut status);
    if let Err(error) = &outcome {
        status.tell_failure(error);
    }
    outcome
}

/// What the caller had set for signals, which the module gets back.
#[derive(Clone, Copy)]
struct Caller {
    mask: Signals,
    ignores_children: bool,
    /// The signals that are acted upon: those that the caller does not ignore.
    acted: Signals,
}

impl Caller {
    /// Blocks all signals, which are taken one by one from here on.
    fn take() -> Result<Self, Error<'static>> {
        let mask = signal::block(Signals::ALL).map_err(failed("rt_sigprocmask"))?;
        let ignores_children = signal::set_default(SIGCHLD).map_err(failed("rt_sigaction"))?;
        let mut acted = Signals::of(&[
            SIGCHLD,
            SIGCONT,
            SIGTSTP,
            FRONT_ENDED,
            SIGTERM,
            SIGINT,
            SIGHUP,
            SIGQUIT,
        ]);
        for signal in ENDING.into_iter().chain([SIGTSTP]) {
            if signal::is_ignored(signal).map_err(failed("rt_sigaction"))? {
                acted = acted.without(signal);
            }
        }
        Ok(Caller {
            mask,
            ignores_children,
            acted,
        })
    }
}

/// The front: steps 1 to 3 of a launch, the container, the keeper.
fn front(
    request: Request,
    memory: &'static mut launch::Memory,
    cgroup: &'static mut Cgroup,
    explanations: &'static mut explain::Memory,
    record: &'static mut Buffer,
    status: &mut Status<'_>,
) -> Result<u8, Error<'static>> {
    let Request {
        launch,
        limits,
        timeout,
        grace,
        place,
        status: status_fd,
        explain,
    } = request;
    let launch::Request {
        policy,
        program,
        argv,
        mut environment,
    } = launch;
    let caller = Caller::take()?;
    let explain_fd = explain.and_then(|request| request.to.inherited());
    let own = [
        (status_fd, Step::Status, "--status-fd"),
        (explain_fd, Step::Output, "--explain-denials"),
    ];
    for (number, step, option) in own {
        if number.is_some_and(|number| descriptors::is_named(&environment, number)) {
            return Err(Error::refused(
                step,
                Subject::Name(option),
                Cause::Reason(
                    "a variable OARBANK_... names this descriptor too, but the module must not get it: use another number",
                ),
            ));
        }
    }
    let descriptors::Settled { confined, unlinked } = launch::settle(&mut environment)?;
    // The policy may lie at an inherited descriptor; its own was closed again.
    let (policy, space, _) = memory.policy(policy)?;
    let own = own.into_iter().filter_map(|(number, ..)| number);
    descriptors::close_others(&environment, confined, own)?;
    descriptors::fill_standard()?;
    let output = explain.map(explain::Output::open).transpose()?;
    let sandbox = Sandbox::prepare(&policy, space)?;
    descriptors::check_memory_files(&environment, unlinked, sandbox.exec_rw())?;
    let verify = verify::Base::of_this_thread()?;
    let (container, reason) = contain(place, &limits, cgroup)?;

    let id = process::id();
    let mut started = None;
    let side = process::become_subreaper()
        .map_err(failed("PR_SET_CHILD_SUBREAPER"))
        .and_then(|()| {
            // After `contain`, which may have moved this process to another cgroup.
            started = output.map(explain::Output::start).transpose()?;
            fork(None).map_err(failed("clone3"))
        });
    let (lines, writer) = started.unzip();
    match side {
        Ok(Side::Parent(keeper)) => {
            drop((sandbox, lines));
            descriptors::close_given(&environment, confined);
            let watched = watch(keeper, caller.acted);
            reap_writer(writer);
            // A keeper that was killed, or has failed, leaves to this process what it watched over.
            container.end(0, &mut None);
            if let Err(error) = container.remove() {
                print(&error);
            }
            watched
        }
        Ok(Side::Child) => {
            let order = Order {
                program,
                argv,
                environment,
                inherited: Inherited::Settled(confined),
                cgroup: container.leaf().map(Leaf::directory),
                mask: caller.mask,
                ignores_children: caller.ignores_children,
                dies_with_parent: true,
                explained: Explained::Nothing,
            };
            let mut keeper = Keeper {
                front: id,
                sandbox: Some(sandbox),
                confined,
                verify,
                container,
                reason,
                acted: caller.acted,
                timeout,
                grace,
                status,
                explain: None,
            };
            drop(writer);
            let lines = lines.map(|lines| (lines, explanations));
            let code = keeper
                .keep(order, lines, record)
                .unwrap_or_else(|exit| exit);
            process::exit(code.into())
        }
        Err(error) => {
            drop(lines);
            let _ = container.remove();
            reap_writer(writer);
            Err(error)
        }
    }
}

/// Reaps the process that writes lines, which ends when the keeper has, unless somebody holds what it writes to.
fn reap_writer(writer: Option<Helper>) {
    const MOMENT: u64 = 50_000_000;
    if let Some(writer) = writer {
        let _ = writer.reap(MOMENT);
    }
}

/// The container, and why it is no cgroup.
fn contain(
    place: Place,
    limits: &Limits,
    cgroup: &'static mut Cgroup,
) -> Result<(Container<'static>, Option<Error<'static>>), Error<'static>> {
    if place == Place::None {
        return if limits.any() {
            Err(Error::refused(
                Step::Cgroup,
                Subject::Name("--cgroup none"),
                Cause::Reason("a limit needs a cgroup: take the limits away, or --cgroup none"),
            ))
        } else {
            Ok((Container::Descendants, None))
        };
    }
    match make_leaf(place, limits, cgroup) {
        Ok(leaf) => Ok((Container::Leaf(leaf), None)),
        Err(reason) if place == Place::Auto && !limits.any() => {
            Ok((Container::Descendants, Some(reason)))
        }
        Err(error) => Err(error),
    }
}

/// A leaf. Paths are large: a frame of its own, which is gone when the fork copies the stack.
#[inline(never)]
fn make_leaf(
    place: Place,
    limits: &Limits,
    Cgroup { base, leaf }: &'static mut Cgroup,
) -> Result<&'static Leaf, Error<'static>> {
    let found = match place {
        Place::At(path) => cgroup::Base::at(path),
        _ => cgroup::Base::of_this_process(),
    };
    let made = base.insert(found?).leaf(limits)?;
    Ok(leaf.insert(made))
}

/// The front from then on.
fn watch(keeper: i32, acted: Signals) -> Result<u8, Error<'static>> {
    loop {
        let received = signal::wait(acted, None).map_err(failed("rt_sigtimedwait"))?;
        let Some(received) = received else { continue };
        if received.signal != SIGCHLD {
            // Who has ended is reaped by the next SIGCHLD.
            let _ = signal::send(keeper, received.signal);
            if received.signal == SIGTSTP && received.by_kernel {
                // A shell waits for its job to stop.
                signal::send(process::id(), SIGSTOP).map_err(failed("kill"))?;
            }
            continue;
        }
        match wait(Some(keeper), false).map_err(failed("wait4"))? {
            None => {}
            Some((_, End::Code(code))) => return Ok(code),
            Some((_, End::Signal(_))) => {
                return Err(Error::refused(
                    Step::Supervise,
                    Subject::Name("the keeper"),
                    Cause::Reason(
                        "it was killed, and the module with it: by the kernel for want of memory (see dmesg) or at RLIMIT_CPU, or by somebody",
                    ),
                ));
            }
        }
    }
}

/// What the keeper has.
struct Keeper<'a, 's> {
    front: i32,
    sandbox: Option<Sandbox>,
    confined: Option<Confined>,
    verify: verify::Base,
    container: Container<'a>,
    reason: Option<Error<'static>>,
    acted: Signals,
    timeout: Option<u64>,
    grace: u64,
    status: &'a mut Status<'s>,
    explain: Option<Explain<'static>>,
}

impl Keeper<'_, '_> {
    /// Starts the module, watches over it, and ends its container. `Err`: the exit code of an error that was told.
    fn keep<'a>(
        &mut self,
        mut order: Order<'a>,
        lines: Option<(explain::Lines, &'static mut explain::Memory)>,
        record: &'a mut Buffer,
    ) -> Result<u8, u8> {
        let leader = match self.start(&mut order, lines, record) {
            Ok(leader) => leader,
            Err(error) => {
                let _ = self.container.remove();
                return Err(self.fail(&error));
            }
        };
        // What the module has been given is the module's alone.
        self.sandbox = None;
        descriptors::close_given(&order.environment, self.confined);
        let watched = self.watch_over(leader);
        let (mut end, timed_out) = match &watched {
            Ok((end, timed_out)) => (Some(*end), *timed_out),
            Err(_) => (None, false),
        };
        self.container.end(leader, &mut end);
        if let Some(explain) = self.explain.take() {
            explain.finish();
        }
        let usage = self.container.usage();
        // Tried again by the front, if that lives; it says so if it can't be.
        let _ = self.container.remove();
        let end = match (watched, end) {
            (Err(error), _) => return Err(self.fail(&error)),
            (_, None) => return Err(self.fail(&failed("wait4")(Errno::CHILD))),
            (_, Some(end)) => end,
        };
        // The module has run and ended: its exit code stands, whatever can't be told or tidied any more.
        let told = usage.and_then(|usage| self.status.tell(&Event::exited(end, timed_out, usage)));
        if let Err(error) = told {
            print(&error);
        }
        Ok(match end {
            _ if timed_out => TIMED_OUT,
            End::Code(code) => code,
            End::Signal(signal) => SIGNALLED + signal,
        })
    }

    /// Tells an error everywhere and returns its exit code.
    fn fail(&mut self, error: &Error<'_>) -> u8 {
        self.status.tell_failure(error);
        print(error);
        error.exit as u8
    }

    fn start<'a>(
        &mut self,
        order: &mut Order<'a>,
        lines: Option<(explain::Lines, &'static mut explain::Memory)>,
        record: &'a mut Buffer,
    ) -> Result<i32, Error<'a>> {
        // What a terminal sends is for the front. A session would cost more (with autogroups, a group of the scheduler).
        process::new_group().map_err(failed("setpgid"))?;
        process::die_with(self.front, FRONT_ENDED).map_err(failed("PR_SET_PDEATHSIG"))?;
        process::become_subreaper().map_err(failed("PR_SET_CHILD_SUBREAPER"))?;
        let sandbox = self
            .sandbox
            .as_ref()
            .ok_or(failed("sandbox")(Errno::INVAL))?;
        if let Some((lines, memory)) = lines {
            let mut explain = Explain::new(sandbox.mode(), lines, self.acted, memory)?;
            order.explained = if explain.look_for_records(sandbox.abi()) {
                Explained::CallsAndFiles
            } else {
                Explained::Calls
            };
            self.explain = Some(explain);
        }
        let (container, reason, status) = (self.container, &self.reason, &mut *self.status);
        let (leader, listener) = spawn::spawn(sandbox, order, self.verify, record, |progress| {
            status.tell(&match progress {
                Progress::Started(pid) => Event::Started {
                    pid,
                    cgroup: container.leaf().map(|leaf| Text(leaf.path())),
                    reason: reason.as_ref().map(|reason| Shown(reason)),
                },
                Progress::Verified(pid) => Event::Verified { pid },
            })
        })?;
        if let (Some(explain), Some(listener)) = (&mut self.explain, listener) {
            explain.attach(leader, listener);
        }
        Ok(leader)
    }

    /// Until the leader has ended: how, and whether it had been timed out.
    fn watch_over(&mut self, leader: i32) -> Result<(End, bool), Error<'static>> {
        let clock = || now().map_err(failed("clock_gettime"));
        let mut timeout = match self.timeout {
            Some(timeout) => Some(clock()?.saturating_add(timeout)),
            None => None,
        };
        let mut timed_out = false;
        let mut kill_at = None;
        loop {
            // Without a deadline nobody looks at the clock.
            let deadline = timeout.into_iter().chain(kill_at).min();
            let left = match deadline {
                Some(deadline) => Some(deadline.saturating_sub(clock()?)),
                None => None,
            };
            let received = match &mut self.explain {
                None => signal::wait(self.acted, left).map_err(failed("rt_sigtimedwait"))?,
                Some(explain) => explain.wait(left)?,
            };
            let asked = match received.map(|received| received.signal) {
                Some(SIGCHLD) => {
                    if let Some(end) = reap(leader)? {
                        return Ok((end, timed_out));
                    }
                    None
                }
                // Who was asked to end goes on with that.
                Some(SIGTSTP) if kill_at.is_some() => None,
                Some(SIGTSTP) => {
                    self.container.freeze(leader, true)?;
                    None
                }
                Some(SIGCONT) => {
                    self.container.freeze(leader, false)?;
                    None
                }
                Some(FRONT_ENDED) => {
                    self.container.kill(leader)?;
                    None
                }
                asked => asked,
            };
            let time = match deadline {
                Some(_) => clock()?,
                None => 0,
            };
            let timed_out_now = timeout.is_some_and(|timeout| time >= timeout);
            if timed_out_now {
                timed_out = true;
                timeout = None;
            }
            if let Some(signal) = asked.or(timed_out_now.then_some(SIGTERM)) {
                // ESRCH: the leader has just ended, and nobody else is in its group.
                let _ = signal::send(-leader, signal);
                // Who is frozen acts on it now, before anything else.
                self.container.freeze(leader, false)?;
                kill_at = match kill_at {
                    None => Some(clock()?.saturating_add(self.grace)),
                    running => running,
                };
            }
            if kill_at.is_some_and(|kill_at| time >= kill_at) {
                self.container.kill(leader)?;
                // Its end is only a matter of the kernel's time now.
                kill_at = None;
                timeout = None;
            }
        }
    }
}

/// Reaps all that have ended; how the leader ended, if it has.
fn reap(leader: i32) -> Result<Option<End>, Error<'static>> {
    let mut leader_end = None;
    loop {
        match wait(None, false) {
            Ok(Some((pid, end))) if pid == leader => leader_end = Some(end),
            Ok(Some(_)) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(leader_end),
            Err(errno) => return Err(failed("wait4")(errno)),
        }
    }
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Error<'static> {
    move |errno| Error::call(Step::Supervise, call, errno)
}
