//! `sandbox-check`: what a launch would do.
//!
//! Nothing is guessed: the ruleset is made as a launch makes it, and a child enters the sandbox and, with a program, its
//! exec, where it is held by `ptrace(2)` and killed before the program's first instruction.

mod interpreter;
mod print;
mod trial;
mod warnings;

use core::ffi::CStr;

use heapless::Vec;

use crate::descriptors;
use crate::error::{Error, record};
use crate::landlock::abi;
use crate::landlock::resolve::Space;
use crate::launch::{self, Memory, Sandbox};
use crate::output::Piece;
use crate::policy::Policy;
use crate::sys::Errno;
use crate::sys::args::{Pointer, Vector};
use interpreter::{Kind, Name, interpreter};
use print::Report;
use trial::trial;
use warnings::{Places, warn};

/// What to check.
pub struct Request {
    /// The policy file.
    pub policy: &'static CStr,
    /// The program and its arguments.
    pub program: Option<(&'static CStr, Vector<'static>)>,
    /// The caller's environment.
    pub environment: Vector<'static>,
    /// Whether to print JSON.
    pub json: bool,
}

/// The most programs that take part in an exec besides the first: the interpreters of scripts, of which the kernel
/// follows four, and a loader (`execve(2)`).
const INTERPRETERS: usize = 5;

/// Checks and prints. `Err`: that of the launch, or of the output.
pub fn check<'a>(
    request: Request,
    memory: &'a mut Memory,
    room: &mut Piece,
    record: &'a mut Record,
) -> Result<(), Error<'a>> {
    let mut report = Report::new(request.json, room);
    report.begin(request.policy);
    let outcome = launch(request, memory, record, &mut report);
    report.end(outcome.as_ref().err());
    report.finish()?;
    outcome
}

/// What a child says of a failure.
pub type Record = [u8; record::SIZE];

/// What a launch does, up to its exec.
fn launch<'a>(
    request: Request,
    memory: &'a mut Memory,
    record: &'a mut Record,
    report: &mut Report<'_>,
) -> Result<(), Error<'a>> {
    let Request {
        policy: path,
        program,
        mut environment,
        ..
    } = request;
    // Who is to be told of the confinement is not: nothing is confined.
    let descriptors::Settled { unlinked, .. } = launch::settle(&mut environment)?;
    report.begin_list("skipped");
    let read = memory.policy_seeing(path, &mut |name| report.skipped(name));
    report.end_list();
    let (policy, space, arena) = read?;
    descriptors::check_memory_files(&environment, unlinked, policy.exec_rw)?;
    let mut places = Places::new(arena);
    let abi = abi::probe()?;
    report.abi(abi);
    report.begin_list("rules");
    let prepared =
        Sandbox::prepare_seeing(&policy, space, &mut |seen| report.rule(&seen, &mut places));
    report.end_list();
    let sandbox = prepared?;
    report.rest(&policy, abi, &environment);
    let outcome = match program {
        None => trial(&sandbox, None, record),
        Some((program, argv)) => {
            let links = links(program, &policy, space, &environment)?;
            let outcome = trial(&sandbox, Some((program, &argv, &environment)), record);
            report.program(program, outcome.as_ref().err(), &links);
            outcome
        }
    };
    warn(report, path, &environment, &places);
    outcome
}

/// The programs that a program needs, each with the error of its own exec.
fn links<'a>(
    program: &CStr,
    policy: &Policy<'a>,
    space: &mut Space,
    environment: &Vector<'_>,
) -> Result<Vec<Link, INTERPRETERS>, Error<'a>> {
    let mut links: Vec<Link, INTERPRETERS> = Vec::new();
    let mut next = interpreter(program);
    while let Some((kind, interpreter)) = next {
        // A sandbox with gpu confines one process.
        let sandbox = Sandbox::prepare(policy, space)?;
        let path = CStr::from_bytes_until_nul(&interpreter).unwrap_or(c"");
        next = match kind {
            Kind::Script => self::interpreter(path),
            Kind::Loader => None,
        };
        let strings = [path];
        let mut pointers = [Pointer::NULL; 2];
        let errno = match Vector::of(&strings, &mut pointers) {
            Some(argv) => trial(
                &sandbox,
                Some((path, &argv, environment)),
                &mut [0; record::SIZE],
            )
            .err()
            .map(|error| error.cause.errno().unwrap_or(Errno::IO)),
            None => Some(Errno::TOOBIG),
        };
        let link = Link {
            kind,
            path: interpreter,
            errno,
        };
        if links.push(link).is_err() {
            break;
        }
    }
    Ok(links)
}

/// One program that another one needs.
struct Link {
    kind: Kind,
    path: Name,
    errno: Option<Errno>,
}
