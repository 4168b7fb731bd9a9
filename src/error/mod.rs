//! The one error shape: `oarbank-agent: <step>: <subject>: <cause>`, and the exit codes.

pub mod errno;
mod hint;
pub mod print;
pub mod record;

use core::fmt::{self, Display, Formatter, Write};

use crate::sys::Errno;
use errno::describe;
use hint::hint;

/// How the launcher ends when the module has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 64: the command line is wrong (`EX_USAGE` of `sysexits.h`).
    Usage = 64,
    /// 70: something could not be applied in full (`EX_SOFTWARE`).
    Refused = 70,
    /// 71: everything was applied and the exec itself failed (`EX_OSERR`).
    Exec = 71,
}

/// The step of the launch that failed, as it stands in the message and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The command line.
    Usage,
    /// Inherited descriptors, and the variables that name them.
    Descriptors,
    /// The policy file and what it says.
    Policy,
    /// `prctl(PR_SET_NO_NEW_PRIVS)`.
    NoNewPrivs,
    /// The Landlock ruleset.
    Landlock,
    /// Capability sets.
    Capabilities,
    /// The seccomp filter.
    Seccomp,
    /// The byte to the descriptor in `OARBANK_CONFINED`.
    Confined,
    /// `execve(2)` of the module.
    Exec,
    /// The cgroup of a container, or its limits.
    Cgroup,
    /// Making the module's process.
    Spawn,
    /// Seeing in `/proc/PID/status` that it is confined.
    Verify,
    /// Telling `--status-fd`.
    Status,
    /// Watching over the module.
    Supervise,
    /// What a command prints.
    Output,
    /// Trying what a launch would do.
    Check,
}

impl Step {
    /// Every step, in the order of their numbers.
    pub const ALL: [Step; 16] = [
        Step::Usage,
        Step::Descriptors,
        Step::Policy,
        Step::NoNewPrivs,
        Step::Landlock,
        Step::Capabilities,
        Step::Seccomp,
        Step::Confined,
        Step::Exec,
        Step::Cgroup,
        Step::Spawn,
        Step::Verify,
        Step::Status,
        Step::Supervise,
        Step::Output,
        Step::Check,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Usage => "usage",
            Step::Descriptors => "descriptors",
            Step::Policy => "policy",
            Step::NoNewPrivs => "no_new_privs",
            Step::Landlock => "landlock",
            Step::Capabilities => "capabilities",
            Step::Seccomp => "seccomp",
            Step::Confined => "confined",
            Step::Exec => "exec",
            Step::Cgroup => "cgroup",
            Step::Spawn => "spawn",
            Step::Verify => "verify",
            Step::Status => "status",
            Step::Supervise => "supervise",
            Step::Output => "output",
            Step::Check => "check",
        }
    }
}

/// What a step failed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A name: a call, a protection.
    Name(&'a str),
    /// A path or another text that came from outside; printed quoted, with everything odd escaped.
    Text(&'a [u8]),
    /// A field of the policy, with its index in a list and the text it holds, where there are any.
    Field {
        /// The field's name.
        name: &'static str,
        /// The index in a list, from 0.
        index: Option<usize>,
        /// The field's text.
        text: Option<&'a [u8]>,
    },
    /// A place in the policy file, both counted from 1; columns are bytes.
    Place {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
}

/// Why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// A system call's error.
    Errno(Errno),
    /// A system call's error, and what it means here.
    Explained(Errno, &'a str),
    /// A rule of this project.
    Reason(&'a str),
    /// Landlock is older than what is asked for.
    NeedsAbi {
        /// The first ABI that can enforce it.
        needed: u32,
        /// The kernel version that brought it.
        since: &'static str,
        /// This kernel's ABI.
        found: u32,
    },
    /// A path below a writable root resolves to a place outside it.
    LeavesRoot(&'a [u8]),
    /// A command or an option that there is not.
    Unknown {
        /// What the word should be: `option`.
        kind: &'static str,
        /// The one that was probably meant.
        near: Option<&'static str>,
        /// Where they are told: the command whose `--help` that is, or empty.
        command: &'static str,
    },
}

impl Cause<'_> {
    /// The system call's error, if it was one.
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Cause::Errno(errno) | Cause::Explained(errno, _) => Some(*errno),
            Cause::LeavesRoot(_) => Some(Errno::XDEV),
            Cause::Reason(_) | Cause::NeedsAbi { .. } | Cause::Unknown { .. } => None,
        }
    }
}

/// A failed step. On every one of these nothing of the module has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// The exit code.
    pub exit: Exit,
    /// The step that failed.
    pub step: Step,
    /// What it failed on.
    pub subject: Subject<'a>,
    /// Why.
    pub cause: Cause<'a>,
}

impl<'a> Error<'a> {
    /// Exit 70: a step that could not be applied in full.
    pub const fn refused(step: Step, subject: Subject<'a>, cause: Cause<'a>) -> Self {
        Error {
            exit: Exit::Refused,
            step,
            subject,
            cause,
        }
    }

    /// The number of the system call's error; EPERM for what is none.
    pub const fn raw_os_error(&self) -> i32 {
        match self.cause.errno() {
            Some(errno) => errno.raw_os_error(),
            None => Errno::PERM.raw_os_error(),
        }
    }

    /// Exit 70 after a failed system call.
    pub const fn call(step: Step, call: &'a str, errno: Errno) -> Self {
        Error::refused(step, Subject::Name(call), Cause::Errno(errno))
    }
}

impl Display for Error<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "oarbank-agent: {}: {}: {}",
            self.step.name(),
            self.subject,
            self.cause
        )?;
        match self.cause {
            Cause::Errno(errno) => match hint(self.step, errno) {
                Some(hint) => write!(f, "; {hint}"),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Display for Subject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Subject::Name(name) => f.write_str(name),
            Subject::Text(text) => quote(f, text),
            Subject::Place { line, column } => write!(f, "line {line} column {column}"),
            Subject::Field { name, index, text } => {
                f.write_str(name)?;
                if let Some(index) = index {
                    write!(f, "[{index}]")?;
                }
                if let Some(text) = text {
                    f.write_char(' ')?;
                    quote(f, text)?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Cause<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::Errno(errno) => match describe(errno.raw_os_error()) {
                Some((name, text)) => write!(f, "{name} ({text})"),
                None => write!(f, "errno {}", errno.raw_os_error()),
            },
            Cause::Explained(errno, why) => match describe(errno.raw_os_error()) {
                Some((name, _)) => write!(f, "{name} ({why})"),
                None => write!(f, "errno {} ({why})", errno.raw_os_error()),
            },
            Cause::Reason(reason) => f.write_str(reason),
            Cause::NeedsAbi {
                needed,
                since,
                found,
            } => {
                write!(
                    f,
                    "needs Landlock ABI {needed} (Linux {since}), this kernel has ABI {found}"
                )
            }
            Cause::LeavesRoot(root) => {
                f.write_str("EXDEV (leads out of the writable root ")?;
                quote(f, root)?;
                f.write_str(", by a link that a module may have made: look at it with namei -l)")
            }
            Cause::Unknown {
                kind,
                near,
                command,
            } => {
                write!(f, "no such {kind}")?;
                if let Some(near) = near {
                    write!(f, ", did you mean {near}?")?;
                }
                f.write_str("; see oarbank-agent ")?;
                if !command.is_empty() {
                    write!(f, "{command} ")?;
                }
                f.write_str("--help")
            }
        }
    }
}

/// Writes bytes in double quotes: text as it is, and whatever a terminal might act on, or a reader might
/// take for something else, escaped.
fn quote(f: &mut Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\'' {
                f.write_char(c)?
            } else {
                write!(f, "{}", c.escape_debug())?
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_message_names_step_subject_and_errno() {
        let subject = Subject::Field {
            name: "rw",
            index: Some(2),
            text: Some(b"/data/x"),
        };
        let error = Error::refused(Step::Landlock, subject, Cause::Errno(Errno::NOENT));
        assert_eq!(
            error.to_string(),
            "oarbank-agent: landlock: rw[2] \"/data/x\": ENOENT (no such file or directory)"
        );
    }

    #[test]
    fn a_hint_follows_where_there_is_more_to_say() {
        let error = Error::call(Step::Spawn, "clone3", Errno::AGAIN);
        assert_eq!(
            error.to_string(),
            "oarbank-agent: spawn: clone3: EAGAIN (resource temporarily unavailable); too many processes: \
             see ulimit -u and pids.max"
        );
    }

    #[test]
    fn nothing_a_terminal_acts_on_is_printed() {
        let odd = "a\n\u{1b}[2J\"\\\u{9b}\u{202e}é".as_bytes();
        let text = Subject::Text(odd).to_string();
        assert_eq!(text, "\"a\\n\\u{1b}[2J\\\"\\\\\\u{9b}\\u{202e}é\"");
        assert_eq!(Subject::Text(b"\xff'").to_string(), "\"\\xff'\"");
    }
}
