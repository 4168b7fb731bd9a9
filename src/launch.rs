//! The launch: the ordered steps, each of which is applied in full or ends it.

use core::ffi::CStr;

use crate::error::{Cause, Error, Exit, Step, Subject};
use crate::landlock::resolve::Space;
use crate::landlock::{abi, ruleset};
use crate::policy::file::{self, Buffer};
use crate::policy::{Listed, Net, Policy, reader};
use crate::seccomp::{self, Mode};
use crate::sys::args::Vector;
use crate::sys::process;
use crate::{capabilities, descriptors};

/// The memory of a launch: there is no allocator. The binary has one as a static.
pub struct Memory {
    file: Buffer,
    text: Buffer,
    lists: Listed,
    space: Space,
}

impl Memory {
    /// Empty memory.
    pub const fn new() -> Self {
        Memory {
            file: [0; size_of::<Buffer>()],
            text: [0; size_of::<Buffer>()],
            lists: Listed::new(),
            space: Space::new(),
        }
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
    pub argv: Vector,
    /// The caller's environment.
    pub environment: Vector,
}

/// Confines this process and becomes the module; returns only if that fails, and then nothing of the module has run.
pub fn launch<'a>(request: Request, memory: &'a mut Memory) -> Error<'a> {
    let program = request.program;
    let (argv, environment) = match confine(request, memory) {
        Ok(ready) => ready,
        Err(error) => return error,
    };
    // 8. exec: all that is left of the launcher is what it applied.
    let errno = process::execve(program, &argv, &environment);
    let subject = Subject::Text(program.to_bytes());
    Error {
        exit: Exit::Exec,
        step: Step::Exec,
        subject,
        cause: Cause::Errno(errno),
    }
}

/// Steps 1 to 7.
fn confine(request: Request, memory: &mut Memory) -> Result<(Vector, Vector), Error<'_>> {
    let Request {
        policy,
        argv,
        mut environment,
        ..
    } = request;

    // 1. Descriptors, before the launcher opens any: what is open now is the caller's.
    let confined = descriptors::apply(&mut environment)?;

    // 2. The policy: read once, checked to its last byte before anything of it is used.
    let json = file::read(policy, &mut memory.file)?;
    let policy = reader::read(json, &mut memory.text, &mut memory.lists)?;
    descriptors::check_memory_files(&environment, policy.exec_rw)?;

    // 3. no_new_privs: no exec gains privileges from here on; Landlock and seccomp ask for it.
    process::set_no_new_privs()
        .map_err(|errno| Error::call(Step::NoNewPrivs, "PR_SET_NO_NEW_PRIVS", errno))?;

    // 4. Landlock, at this kernel's ABI. Paths are opened with the caller's privileges, so before they go.
    ruleset::apply(&policy, abi::probe()?, &mut memory.space)?;

    // 5. Capabilities: all of them, before the filter, which may refuse what a later kernel would need for it.
    capabilities::drop_all()?;

    // 6. The filter, last of what confines: it refuses what the steps before it use.
    seccomp::apply(mode(&policy))?;

    // 7. The point of no return: the sandbox holds, and who asked for it is told.
    if let Some(confined) = confined {
        confined.tell()?;
    }
    Ok((argv, environment))
}

/// What of a policy changes the filter.
pub fn mode(policy: &Policy<'_>) -> Mode {
    Mode {
        tcp: policy.net != Net::None,
        broker: policy.broker_socket().is_some(),
        exec_rw: policy.exec_rw,
    }
}
