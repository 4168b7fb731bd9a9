//! Arguments, usage, dispatch.

use core::ffi::CStr;
use core::fmt::{self, Write};

use heapless::Vec;

use crate::error::{Cause, Error, Exit, Step, Subject};
use crate::launch::{Memory, Request, launch};
use crate::sys::args::Vector;
use crate::sys::process;

/// `--help`.
const HELP: &str = "\
Usage: oarbank-agent COMMAND ...
       oarbank-agent --help | --version

Confines a program with Landlock, seccomp and no_new_privs, then becomes it.

Commands:
  sandbox-exec POLICY.json -- ARGV...   run ARGV under the policy

`oarbank-agent COMMAND --help` tells more.
";

/// `sandbox-exec --help`.
const HELP_EXEC: &str = "\
Usage: oarbank-agent sandbox-exec POLICY.json -- ARGV...
       oarbank-agent sandbox-exec --help | --version

Applies the policy to this process, then becomes ARGV. ARGV[0] is an absolute path.
What can't be applied in full ends the launch; nothing of the program has run then.

Policy, one JSON object (every field may be missing):
  module         string           a label
  ro             list of paths    read and execute
  rw             list of paths    every file right; execute only with exec_rw
  rd             list of paths    read files and list
  wo             list of paths    make files and directories, write, truncate
  net            string           \"none\" (default) or \"egress-allowlist\"
  proxy_port     1-65535 or null  the one TCP port of egress-allowlist
  broker_socket  path or null     the one unix socket to connect to
  gpu            bool             GPU device nodes
  exec_rw        bool             files in rw may be executed
  kind           string           a label
  exe            path or null     a program file: read and execute

Environment:
  OARBANK_CONFINED=N   descriptor N (above 2) gets one byte once the sandbox holds
  OARBANK_...=fd:N     descriptor N (socket, pipe or regular file) is passed on;
                       every other one from 3 up is closed

Exit status: that of ARGV, or
  64  usage
  70  something could not be applied in full
  71  everything was applied, and the exec failed
";

/// `--version`.
const VERSION: &str = concat!("oarbank-agent ", env!("CARGO_PKG_VERSION"), "\n");

/// What the arguments ask for.
enum Command {
    Print(&'static str),
    Launch(Request),
}

/// Does what the arguments say and ends the process, or becomes the module.
pub fn run(arguments: Vector, environment: Vector, memory: &mut Memory) -> ! {
    let error = match parse(arguments, environment) {
        Ok(Command::Launch(request)) => launch(request, memory),
        Ok(Command::Print(text)) => match process::write_all(STDOUT, text.as_bytes()) {
            Ok(()) => process::exit(0),
            Err(errno) => Error::call(Step::Usage, "write", errno),
        },
        Err(error) => error,
    };
    fail(&error)
}

const STDOUT: i32 = 1;
const STDERR: i32 = 2;

/// Prints an error and ends the process with its code, also where nobody can read it.
pub fn fail(error: &Error<'_>) -> ! {
    let _ = process::without_write_signals(|| {
        let mut line = Line(Vec::new());
        let _ = writeln!(line, "{error}");
        line.flush();
        // An error keeps the signals blocked: nothing may end the process before its exit code.
        Err::<(), _>(crate::sys::Errno::CANCELED)
    });
    process::exit(error.exit as i32)
}

/// Text for standard error, written in one piece unless it is very long.
struct Line(Vec<u8, 4096>);

impl Line {
    fn flush(&mut self) {
        let _ = process::write_all(STDERR, &self.0);
        self.0.clear();
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.0.push(byte).is_err() {
                self.flush();
                self.0.push(byte).map_err(|_| fmt::Error)?;
            }
        }
        Ok(())
    }
}

fn parse(arguments: Vector, environment: Vector) -> Result<Command, Error<'static>> {
    let mut words = arguments.iter().skip(1);
    match words.next().map(CStr::to_bytes) {
        Some(b"--help") => alone(words, HELP),
        Some(b"--version") => alone(words, VERSION),
        Some(b"sandbox-exec") => {
            drop(words);
            parse_exec(arguments, environment)
        }
        Some(word) if word.starts_with(b"-") => {
            Err(usage(word, "no such option; see oarbank-agent --help"))
        }
        Some(word) => Err(usage(word, "no such command; see oarbank-agent --help")),
        None => Err(wrong("no command; see oarbank-agent --help")),
    }
}

/// `sandbox-exec POLICY.json -- ARGV...`
fn parse_exec(arguments: Vector, environment: Vector) -> Result<Command, Error<'static>> {
    const MORE: usize = 2;
    let mut words = arguments.iter().skip(MORE);
    let policy = match words.next() {
        Some(word) if word == c"--help" => return alone(words, HELP_EXEC),
        Some(word) if word == c"--version" => return alone(words, VERSION),
        Some(word) if word == c"--" => return Err(wrong("no policy before \"--\"")),
        Some(word) if word.to_bytes().starts_with(b"-") => {
            return Err(usage(
                word.to_bytes(),
                "no such option; see oarbank-agent sandbox-exec --help",
            ));
        }
        Some(word) => word,
        None => return Err(wrong("no policy; see oarbank-agent sandbox-exec --help")),
    };
    match words.next() {
        Some(word) if word == c"--" => {}
        Some(word) => return Err(usage(word.to_bytes(), "expected \"--\" after the policy")),
        None => return Err(wrong("no \"--\" after the policy")),
    }
    let program = words.next().ok_or(wrong("no program after \"--\""))?;
    if !program.to_bytes().starts_with(b"/") {
        return Err(usage(
            program.to_bytes(),
            "the program's path must be absolute",
        ));
    }
    drop(words);
    let argv = arguments
        .skip(MORE + 2)
        .ok_or(wrong("no program after \"--\""))?;
    Ok(Command::Launch(Request {
        policy,
        program,
        argv,
        environment,
    }))
}

/// An option that nothing may follow.
fn alone(
    mut words: impl Iterator<Item = &'static CStr>,
    text: &'static str,
) -> Result<Command, Error<'static>> {
    match words.next() {
        None => Ok(Command::Print(text)),
        Some(word) => Err(usage(
            word.to_bytes(),
            "nothing may follow --help or --version",
        )),
    }
}

fn wrong(reason: &'static str) -> Error<'static> {
    Error {
        exit: Exit::Usage,
        step: Step::Usage,
        subject: Subject::Name("sandbox-exec"),
        cause: Cause::Reason(reason),
    }
}

fn usage(word: &'static [u8], reason: &'static str) -> Error<'static> {
    Error {
        exit: Exit::Usage,
        step: Step::Usage,
        subject: Subject::Text(word),
        cause: Cause::Reason(reason),
    }
}
