//! The launch: the ordered steps, each of which is applied in full or ends it.

use core::ffi::CStr;
use core::mem::ManuallyDrop;

use crate::error::{Cause, Error, Exit, Step, Subject};
use crate::landlock::abi::{self, Abi};
use crate::landlock::resolve::Space;
use crate::landlock::ruleset::{self, Ruleset, Seen};
use crate::policy::file::{self, File};
use crate::policy::{Listed, Net, Policy, reader};
use crate::seccomp::{self, Mode};
use crate::sys::args::Vector;
use crate::sys::{OwnedFd, process};
use crate::{capabilities, descriptors};
use descriptors::Settled;

/// The memory of a launch: there is no allocator. The binary has one as a static. From the start of a page on and in this
/// order, so that a usual launch touches two pages of it.
#[repr(C, align(4096))]
pub struct Memory {
    /// A usual policy file and its decoded strings.
    brief: [u8; 2048],
    lists: Listed,
    space: Space,
    /// A larger policy file and its decoded strings, then what is free.
    text: [u8; file::LARGEST + FREE],
}

/// What is free beside a policy of any size.
const FREE: usize = 64 * 1024;

impl Memory {
    /// Empty memory.
    pub const fn new() -> Self {
        Memory {
            brief: [0; 2048],
            lists: Listed::new(),
            space: Space::new(),
            text: [0; file::LARGEST + FREE],
        }
    }
}

impl Memory {
    /// Reads and checks a policy file. What is left of the memory: that for making it ready, and what is free.
    pub fn policy<'a>(
        &'a mut self,
        path: &'a CStr,
    ) -> Result<(Policy<'a>, &'a mut Space, &'a mut [u8]), Error<'a>> {
        self.policy_seeing(path, &mut |_| {})
    }

    /// The same; `skipped` is told the name of each field that is none of this version.
    pub fn policy_seeing<'a>(
        &'a mut self,
        path: &'a CStr,
        skipped: &mut dyn FnMut(&[u8]),
    ) -> Result<(Policy<'a>, &'a mut Space, &'a mut [u8]), Error<'a>> {
        let Memory {
            brief,
            lists,
            space,
            text,
        } = self;
        let file = File::open(path)?;
        let (place, free) = if file.room() <= brief.len() {
            (&mut brief[..], &mut text[..])
        } else {
            text.split_at_mut(file.room())
        };
        let (json, strings) = file.read(place)?;
        let policy = reader::read_seeing(json, strings, lists, skipped)?;
        Ok((policy, space, free))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// What to launch.
pub struct Request {
    /// The policy file.
    pub policy: &'static CStr,
    /// The module's program: the first of its arguments, absolute.
    pub program: &'static CStr,
    /// The module's arguments.
    pub argv: Vector<'static>,
    /// The caller's environment.
    pub environment: Vector<'static>,
}

/// A confinement that is ready: all of a policy that can be done before the process that it confines exists.
pub struct Sandbox {
    ruleset: Ruleset,
    mode: Mode,
}

/// Confines this process and becomes the module; returns only if that fails, and then nothing of the module has run.
#[inline(never)]
pub fn launch<'a>(request: Request, memory: &'a mut Memory) -> Error<'a> {
    let Request {
        policy,
        program,
        argv,
        mut environment,
    } = request;
    match confine(policy, &mut environment, memory) {
        // 9. exec: all that is left of the launcher is what it applied.
        Ok(()) => exec(program, &argv, &environment),
        Err(error) => error,
    }
}

/// Steps 1 to 8.
fn confine<'a>(
    policy: &'a CStr,
    environment: &mut Vector<'a>,
    memory: &'a mut Memory,
) -> Result<(), Error<'a>> {
    // 1. Descriptors, before the launcher opens any: what is open now is the caller's.
    let Settled { confined, unlinked } = settle(environment)?;

    // 2 and 3. What these open is closed by the exec.
    let (policy, space, _) = memory.policy(policy)?;
    let sandbox = ManuallyDrop::new(Sandbox::prepare_seeing(&policy, space, &mut |_| {})?);
    descriptors::check_memory_files(environment, unlinked, sandbox.mode.exec_rw)?;

    // 4 to 7.
    sandbox.enter()?;

    // 8. The point of no return: the sandbox holds, and who asked for it is told.
    match confined {
        Some(confined) => confined.tell(),
        None => Ok(()),
    }
}

/// Settles the inherited descriptors. What a kernel is too old for here is not what there is to say of it, if it is also too
/// old for Landlock.
pub fn settle<'a>(environment: &mut Vector<'a>) -> Result<Settled, Error<'a>> {
    descriptors::apply(environment).or_else(|error| abi::probe().and(Err(error)))
}

impl Sandbox {
    /// Reads a policy file and makes it ready.
    pub fn read<'a>(path: &'a CStr, memory: &'a mut Memory) -> Result<Self, Error<'a>> {
        // 2. The policy: read once, checked to its last byte before anything of it is used.
        let (policy, space, _) = memory.policy(path)?;
        Self::prepare(&policy, space)
    }

    /// Makes a policy ready.
    pub fn prepare<'a>(policy: &Policy<'a>, space: &mut Space) -> Result<Self, Error<'a>> {
        let prepared = Self::prepare_seeing(policy, space, &mut |_| {});
        space.clear();
        prepared
    }

    /// Makes a policy ready; `see` is told of each rule. Some descriptors are left open in `space`.
    pub fn prepare_seeing<'a>(
        policy: &Policy<'a>,
        space: &mut Space,
        see: &mut dyn FnMut(Seen<'_>),
    ) -> Result<Self, Error<'a>> {
        // 3. The ruleset, at this kernel's ABI. Paths are opened with the caller's privileges.
        let ruleset = ruleset::make(policy, abi::probe()?, space, see)?;
        let mode = mode(policy);
        Ok(Sandbox { ruleset, mode })
    }

    /// Reads a policy from its text and makes it ready.
    pub fn parse<'a>(json: &'a [u8], memory: &'a mut Memory) -> Result<Self, Error<'a>> {
        let Memory {
            text, lists, space, ..
        } = memory;
        let policy = reader::read(json, text, lists)?;
        Self::prepare(&policy, space)
    }

    /// Confines this process, and lets its next exec keep no descriptor from 3 up but the named ones, which must be
    /// sockets, pipes or regular files. System calls and nothing else: to be called between fork and exec
    /// (`std::os::unix::process::CommandExt::pre_exec`), by the only thread of the process.
    ///
    /// After an error the process must not go on: what was applied before it stays.
    pub fn enter_keeping(&self, descriptors: &[i32]) -> Result<(), Error<'static>> {
        descriptors::keep_only(descriptors, self.mode.exec_rw)?;
        self.enter()
    }

    /// Confines this process: system calls and nothing else.
    pub(crate) fn enter(&self) -> Result<(), Error<'static>> {
        self.enter_unfiltered(false)?;
        // 7. The filter, last of what confines: it refuses what the steps before it use.
        seccomp::apply(self.mode)
    }

    /// The same, with a listener that is asked for the answer to each call that the filter refuses. `log_files`: the
    /// kernel's audit logs what Landlock denies (ABI 7).
    pub(crate) fn enter_explained(&self, log_files: bool) -> Result<OwnedFd, Error<'static>> {
        self.enter_unfiltered(log_files)?;
        seccomp::apply_with_listener(self.mode)
    }

    /// Steps 4 to 6.
    fn enter_unfiltered(&self, log_files: bool) -> Result<(), Error<'static>> {
        // 4. no_new_privs: no exec gains privileges from here on; Landlock and seccomp ask for it.
        process::set_no_new_privs()
            .map_err(|errno| Error::call(Step::NoNewPrivs, "PR_SET_NO_NEW_PRIVS", errno))?;

        // 5. Landlock.
        self.ruleset.apply(log_files)?;

        // 6. Capabilities: all of them, before the filter, which may refuse what a later kernel would need for it.
        capabilities::drop_all()
    }

    /// The Landlock ABI that is used.
    pub(crate) const fn abi(&self) -> Abi {
        self.ruleset.abi()
    }

    /// What of the policy changes the filter.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether written files may be executed.
    pub const fn exec_rw(&self) -> bool {
        self.mode.exec_rw
    }
}

/// Becomes the module; returns only if that fails.
pub fn exec<'a>(program: &'a CStr, argv: &Vector<'_>, environment: &Vector<'_>) -> Error<'a> {
    Error {
        exit: Exit::Exec,
        step: Step::Exec,
        subject: Subject::Text(program.to_bytes()),
        cause: Cause::Errno(process::execve(program, argv, environment)),
    }
}

/// What of a policy changes the filter.
pub fn mode(policy: &Policy<'_>) -> Mode {
    Mode {
        tcp: policy.net != Net::None,
        broker: policy.broker_socket().is_some(),
        exec_rw: policy.exec_rw,
    }
}
