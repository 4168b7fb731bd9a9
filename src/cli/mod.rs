//! Arguments, usage, dispatch.

mod help;
mod options;

use core::ffi::CStr;

use crate::audit::{self, Format};
use crate::check;
use crate::error::print::print;
use crate::error::{Cause, Error, Exit, Step, Subject};
use crate::explain;
use crate::launch::{self, launch};
use crate::near::nearest;
use crate::output::{self, Output};
use crate::report;
use crate::seccomp::Mode;
use crate::supervise::cgroup::{CPU_PERIOD, Limits};
use crate::supervise::run::{self, Memory, Place};
use crate::supervise::verify;
use crate::sys::args::Vector;
use crate::sys::process;
use options::{Given, Words};

/// What the arguments ask for.
enum Command {
    Print(&'static str),
    Launch(launch::Request),
    Run(run::Request),
    Verify(i32),
    Check(check::Request),
    Report { json: bool },
    Audit(Option<&'static CStr>, Format),
}

/// Does what the arguments say and ends the process, or becomes the module.
pub fn run(
    arguments: Vector<'static>,
    environment: Vector<'static>,
    memory: &'static mut Memory,
) -> ! {
    let code = perform(arguments, environment, memory).unwrap_or_else(|error| {
        print(&error);
        error.exit as u8
    });
    process::exit(code.into())
}

/// The exit code of a command. Each has a stack frame of its own (`inline(never)`): a frame for all would be as large as the
/// largest, and a launch would touch every page of it.
fn perform(
    arguments: Vector<'static>,
    environment: Vector<'static>,
    memory: &'static mut Memory,
) -> Result<u8, Error<'static>> {
    match parse(arguments, environment)? {
        Command::Launch(request) => Err(launch(request, &mut memory.launch)),
        Command::Run(request) => run::run(request, memory),
        Command::Verify(pid) => {
            verify::confinement(pid).map(|confinement| u8::from(!confinement.holds()))
        }
        Command::Check(request) => check(request, memory),
        Command::Report { json } => report(json, memory),
        Command::Audit(policy, format) => audit(policy, format, memory),
        Command::Print(text) => show(text),
    }
}

#[inline(never)]
fn check(request: check::Request, memory: &'static mut Memory) -> Result<u8, Error<'static>> {
    let Memory {
        launch,
        line,
        record,
        ..
    } = memory;
    check::check(request, launch, line, record).map(|()| 0)
}

#[inline(never)]
fn report(json: bool, memory: &mut Memory) -> Result<u8, Error<'static>> {
    let found = report::probe(&mut memory.launch);
    report::print(&found, json, &mut memory.line).map(|()| u8::from(found.no_backend.is_some()))
}

#[inline(never)]
fn audit(
    policy: Option<&'static CStr>,
    format: Format,
    memory: &'static mut Memory,
) -> Result<u8, Error<'static>> {
    let mode = match policy {
        Some(policy) => launch::mode(&memory.launch.policy(policy)?.0),
        None => Mode::OF_EMPTY_POLICY,
    };
    audit::print(mode, format, &mut memory.line).map(|()| 0)
}

#[inline(never)]
fn show(text: &str) -> Result<u8, Error<'static>> {
    let mut output = Output::new();
    output.bytes(text.as_bytes());
    output.finish().map(|()| 0)
}

fn parse(
    arguments: Vector<'static>,
    environment: Vector<'static>,
) -> Result<Command, Error<'static>> {
    let mut words = Words::new(arguments);
    let name = words
        .next()
        .ok_or(wrong("no command; see oarbank-agent --help"))?;
    match name.to_bytes() {
        b"--help" => print_alone(words, help::ALL),
        b"--version" => print_alone(words, help::VERSION),
        b"sandbox-exec" => parse_exec(words, environment),
        b"sandbox-run" => parse_run(words, environment),
        b"sandbox-verify" => parse_verify(words),
        b"sandbox-report" => parse_report(words),
        b"sandbox-check" => parse_check(words, environment),
        b"sandbox-audit" => parse_audit(words),
        word if word.starts_with(b"-") => Err(unknown(name, word, "option", "", help::ALL)),
        word => Err(unknown(name, word, "command", "", help::ALL)),
    }
}

/// `--help` and `--version`, which stand alone.
fn print_alone(mut words: Words, text: &'static str) -> Result<Command, Error<'static>> {
    words.end()?;
    Ok(Command::Print(text))
}

/// `sandbox-exec POLICY.json -- ARGV...`
fn parse_exec(mut words: Words, environment: Vector<'static>) -> Result<Command, Error<'static>> {
    match words.option() {
        None => {}
        Some(given) => match given.name {
            b"--help" => return print_alone(words, help::EXEC),
            b"--version" => return print_alone(words, help::VERSION),
            _ => return Err(given.unknown("sandbox-exec", help::EXEC)),
        },
    }
    parse_launch(words, environment).map(Command::Launch)
}

/// `POLICY.json -- ARGV...`
fn parse_launch(
    mut words: Words,
    environment: Vector<'static>,
) -> Result<launch::Request, Error<'static>> {
    let policy = parse_policy(&mut words)?;
    match words.next() {
        Some(word) if word == c"--" => {}
        Some(word) => return Err(no_dashes(word)),
        None => return Err(wrong("no \"--\" after the policy: POLICY.json -- ARGV...")),
    }
    let (program, argv) = parse_program(words)?;
    Ok(launch::Request {
        policy,
        program,
        argv,
        environment,
    })
}

/// A word that stands where `--` should.
fn no_dashes(word: &'static CStr) -> Error<'static> {
    wrong_word(
        word,
        if word.to_bytes().starts_with(b"-") {
            "options stand before the policy, and \"--\" before the program"
        } else {
            "\"--\" must stand before the program: POLICY.json -- ARGV..."
        },
    )
}

/// `POLICY.json`
fn parse_policy(words: &mut Words) -> Result<&'static CStr, Error<'static>> {
    match words.next() {
        Some(word) if word == c"--" => {
            Err(wrong("no policy before \"--\": POLICY.json -- ARGV..."))
        }
        Some(word) => Ok(word),
        None => Err(wrong("no policy: POLICY.json, then -- and the program")),
    }
}

/// `ARGV...`
fn parse_program(words: Words) -> Result<(&'static CStr, Vector<'static>), Error<'static>> {
    let argv = words.rest();
    let program = argv.first().ok_or(wrong("no program after \"--\""))?;
    if !program.to_bytes().starts_with(b"/") {
        return Err(wrong_word(
            program,
            "the program's path must be absolute, it is not looked up in PATH",
        ));
    }
    Ok((program, argv))
}

/// `sandbox-run [OPTIONS] POLICY.json -- ARGV...`
#[inline(never)]
fn parse_run(mut words: Words, environment: Vector<'static>) -> Result<Command, Error<'static>> {
    /// Digits of a second and of a core that are read: nanoseconds, microseconds.
    const NANO: usize = 9;
    const MICRO: usize = 6;
    const GRACE: u64 = 10_000_000_000;
    /// The least that the kernel takes for `cpu.max`, in microseconds a period.
    const LEAST_QUOTA: u64 = 1_000;
    let mut limits = Limits::default();
    let mut timeout = None;
    let mut grace = GRACE;
    let mut place = Place::Auto;
    let mut status = None;
    let mut explain = None;
    let mut json = false;
    while let Some(given) = words.option() {
        let seconds = |text: &[u8]| options::scaled(text, NANO);
        let positive = |value: Option<u64>| value.filter(|&value| value > 0);
        match given.name {
            b"--help" => return print_alone(words, help::RUN),
            b"--version" => return print_alone(words, help::VERSION),
            b"--cpu-max" => {
                let quota = |text: &[u8]| {
                    let cores = options::scaled(text, MICRO)?;
                    Some(cores.checked_mul(CPU_PERIOD)? / 1_000_000).filter(|&q| q >= LEAST_QUOTA)
                };
                let expected = "must be a number of cores, 0.01 or more";
                limits.cpu = Some(words.number(&given, quota, expected)?);
            }
            b"--memory-max" => {
                let expected = "must be a number of bytes above 0, or one with K, M, G or T";
                let size = |text: &[u8]| positive(options::size(text));
                limits.memory = Some(words.number(&given, size, expected)?);
            }
            b"--pids-max" => {
                let expected = "must be a number above 0";
                let count = |text: &[u8]| positive(options::scaled(text, 0));
                limits.pids = Some(words.number(&given, count, expected)?);
            }
            b"--timeout" => {
                let expected = "must be a number of seconds above 0";
                let seconds = |text: &[u8]| positive(seconds(text));
                timeout = Some(words.number(&given, seconds, expected)?);
            }
            b"--grace" => {
                grace = words.number(&given, seconds, "must be a number of seconds")?;
            }
            b"--cgroup" => {
                place = match words.value(&given)? {
                    word if word == c"auto" => Place::Auto,
                    word if word == c"none" => Place::None,
                    directory => Place::At(directory),
                };
            }
            b"--status-fd" => {
                let expected = "must be the number of a descriptor above 2";
                status = Some(words.number(&given, options::above_standard, expected)?);
            }
            b"--explain-denials" => explain = Some(parse_place(&given)?),
            b"--json" if given.value.is_none() => json = true,
            _ => return Err(given.unknown("sandbox-run", help::RUN)),
        }
    }
    let explain = match explain {
        Some(to) => Some(explain::Request { to, json }),
        None if json => return Err(wrong("--json is for --explain-denials")),
        None => None,
    };
    Ok(Command::Run(run::Request {
        launch: parse_launch(words, environment)?,
        limits,
        timeout,
        grace,
        place,
        status,
        explain,
    }))
}

/// `--explain-denials`, `--explain-denials=FILE`, `--explain-denials=fd:N`
fn parse_place(given: &Given) -> Result<explain::To, Error<'static>> {
    let Some(value) = given.value else {
        return Ok(explain::To::StandardError);
    };
    match value.to_bytes() {
        b"" => Err(wrong_word(
            given.word,
            "needs a file or fd:N after its =, or no =",
        )),
        text => match text.strip_prefix(b"fd:") {
            None => Ok(explain::To::File(value)),
            Some(number) => options::above_standard(number)
                .map(explain::To::Inherited)
                .ok_or(wrong_word(
                    value,
                    "must be fd: and the number of a descriptor above 2",
                )),
        },
    }
}

/// `sandbox-verify PID`
fn parse_verify(mut words: Words) -> Result<Command, Error<'static>> {
    if let Some(given) = words.option() {
        return match given.name {
            b"--help" => print_alone(words, help::VERIFY),
            b"--version" => print_alone(words, help::VERSION),
            _ => Err(given.unknown("sandbox-verify", help::VERIFY)),
        };
    }
    let word = words
        .next()
        .ok_or(wrong("no PID: the number of a process"))?;
    let pid = options::small(word.to_bytes())
        .filter(|&pid| pid > 0)
        .ok_or(wrong_word(word, "must be the number of a process"))?;
    words.end()?;
    Ok(Command::Verify(pid))
}

/// `sandbox-check [--json] POLICY.json [-- ARGV...]`
fn parse_check(mut words: Words, environment: Vector<'static>) -> Result<Command, Error<'static>> {
    let mut json = false;
    while let Some(given) = words.option() {
        match given.word.to_bytes() {
            b"--help" => return print_alone(words, help::CHECK),
            b"--version" => return print_alone(words, help::VERSION),
            b"--json" => json = true,
            _ => return Err(given.unknown("sandbox-check", help::CHECK)),
        }
    }
    let policy = parse_policy(&mut words)?;
    let program = match words.next() {
        None => None,
        Some(word) if word == c"--" => Some(parse_program(words)?),
        Some(word) => return Err(no_dashes(word)),
    };
    Ok(Command::Check(check::Request {
        policy,
        program,
        environment,
        json,
    }))
}

/// `sandbox-report [--json | --text]`
fn parse_report(mut words: Words) -> Result<Command, Error<'static>> {
    let mut json = None;
    while let Some(given) = words.option() {
        let asked = match given.word.to_bytes() {
            b"--help" => return print_alone(words, help::REPORT),
            b"--version" => return print_alone(words, help::VERSION),
            b"--json" => true,
            b"--text" => false,
            _ => return Err(given.unknown("sandbox-report", help::REPORT)),
        };
        if json.is_some_and(|json| json != asked) {
            return Err(wrong("--json and --text exclude each other"));
        }
        json = Some(asked);
    }
    words.end()?;
    let json = json.unwrap_or_else(|| !output::is_terminal());
    Ok(Command::Report { json })
}

/// `sandbox-audit [--text | --json | --bpf] [POLICY.json]`
fn parse_audit(mut words: Words) -> Result<Command, Error<'static>> {
    let mut format = None;
    while let Some(given) = words.option() {
        let asked = match given.word.to_bytes() {
            b"--help" => return print_alone(words, help::AUDIT),
            b"--version" => return print_alone(words, help::VERSION),
            b"--text" => Format::Text,
            b"--json" => Format::Json,
            b"--bpf" => Format::Bpf,
            _ => return Err(given.unknown("sandbox-audit", help::AUDIT)),
        };
        if format.replace(asked).is_some() {
            return Err(wrong("only one of --text, --json and --bpf may be given"));
        }
    }
    let policy = words.next();
    if policy == Some(c"--") {
        return Err(wrong(
            "nothing is run here: a policy alone may follow, no \"--\"",
        ));
    }
    words.end()?;
    Ok(Command::Audit(policy, format.unwrap_or(Format::Text)))
}

fn wrong(reason: &'static str) -> Error<'static> {
    usage(Subject::Name("command line"), reason)
}

fn wrong_word(word: &'static CStr, reason: &'static str) -> Error<'static> {
    usage(Subject::Text(word.to_bytes()), reason)
}

/// A word that is none of those in `text`, which is the help of `command`.
fn unknown(
    whole: &'static CStr,
    word: &[u8],
    kind: &'static str,
    command: &'static str,
    text: &'static str,
) -> Error<'static> {
    let option = word.starts_with(b"-");
    let known = help::words(text).filter(|known| !option || known.starts_with('-'));
    Error {
        exit: Exit::Usage,
        step: Step::Usage,
        subject: Subject::Text(whole.to_bytes()),
        cause: Cause::Unknown {
            kind,
            near: nearest(word, known),
            command,
        },
    }
}

fn usage(subject: Subject<'static>, reason: &'static str) -> Error<'static> {
    Error {
        exit: Exit::Usage,
        step: Step::Usage,
        subject,
        cause: Cause::Reason(reason),
    }
}
