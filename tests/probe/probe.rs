//! What the tests run inside the sandbox, and outside of it as the control: single system calls,
//! exactly as given, and a few longer tricks.
//!
//! `probe STEP [then STEP]...` prints one line for each step: `ok VALUE`, or the name of the error. Without a step it does
//! nothing, as `true`.
//!
//! | step | does |
//! |---|---|
//! | `sys CALL WORD...` | one system call by name or number ([`words`] reads the arguments) |
//! | `int80 NUMBER WORD...` | one call by the 32-bit table |
//! | `read PATH`, `mkdir PATH`, `rename OLD NEW`... | one file operation ([`files`]) |
//! | `memfd-exec FLAGS`, `child-signal`... | see [`tricks`] |
//! | `args WORD...`, `exec-env NAME=VALUE... -- ARGV...` | the rest of the line is theirs |

#![no_main]

mod files;
mod names;
mod raw;
mod tricks;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// The value of a call, or its error number.
type Answer = Result<u64, i32>;

/// Called by the C library: what the standard library does before its `main` takes longer than most steps.
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    // As it would have done: a broken pipe is an answer like another.
    // SAFETY: no function of ours is named.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("args") => print_arguments(&arguments[1..]),
        Some("exec-env") => report(tricks::exec_env(&arguments[1..])),
        None => {}
        _ => run_steps(&arguments),
    }
    0
}

fn run_steps(arguments: &[OsString]) {
    let words: Vec<&str> = arguments
        .iter()
        .map(|word| word.to_str().expect("the words of a step are text"))
        .collect();
    let mut state = words::State::default();
    for step in words.split(|word| *word == "then") {
        let answer = run_step(step, &mut state);
        report(answer);
        state.answers.push(answer.unwrap_or(u64::MAX));
    }
}

fn run_step(step: &[&str], state: &mut words::State) -> Answer {
    let (verb, rest) = step.split_first().expect("a step has a verb");
    match *verb {
        "sys" => {
            let (call, arguments) = rest.split_first().expect("sys needs a call");
            raw::system_call(names::call_number(call), state.registers(arguments))
        }
        "int80" => {
            let [number, registers @ ..] = state.registers(rest);
            raw::int80(number, registers)
        }
        _ => tricks::run(verb, rest)
            .or_else(|| files::run(verb, rest))
            .unwrap_or_else(|| panic!("no such step: {verb}")),
    }
}

/// One line at once, so that a step that kills the process leaves what came before.
fn report(answer: Answer) {
    let line = match answer {
        Ok(value) => format!("ok {value}\n"),
        Err(errno) => format!("{}\n", names::error_name(errno)),
    };
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("standard output takes a line");
}

/// The arguments as they arrived, each ended by a zero byte.
fn print_arguments(arguments: &[OsString]) {
    let mut out = Vec::new();
    for argument in arguments {
        out.extend_from_slice(argument.as_bytes());
        out.push(0);
    }
    let mut stdout = std::io::stdout();
    stdout
        .write_all(&out)
        .and_then(|()| stdout.flush())
        .expect("standard output takes the arguments");
}
