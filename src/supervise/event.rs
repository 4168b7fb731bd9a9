//! What `--status-fd` is told: one JSON object a line.

use super::cgroup::Usage;
use crate::error::errno::describe;
use crate::error::{Error, Step, Subject};
use crate::output::{Shown, Text};
use crate::sys::spawn::End;
use crate::sys::{BorrowedFd, Errno, fs, process};

/// Room for one line: a path of PATH_MAX bytes fits, however its bytes are written.
pub type Line = [u8; 32 * 1024];

/// What happens to a module, in this order: `Started`, `Verified`, `Exited`; or `Failed` instead of the next.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// Its process exists. Nothing of the module has run.
    Started {
        /// The process.
        pid: i32,
        /// Its cgroup; null: the container is the process group and all descendants.
        cgroup: Option<Text<'a>>,
        /// Why there is no cgroup, if one was looked for.
        reason: Option<Shown<'a>>,
    },
    /// It was seen to be confined.
    Verified {
        /// The process.
        pid: i32,
    },
    /// It has ended, and all of its container.
    Exited {
        /// Its exit code; null after a signal.
        code: Option<u8>,
        /// The signal that ended it.
        signal: Option<u8>,
        /// Whether `--timeout` ended it.
        timeout: bool,
        /// Whether the kernel killed something of it for want of memory.
        oom: bool,
        /// Processor time of the whole container, in microseconds.
        cpu_usec: u64,
        /// The most memory at a time in bytes; null without the memory controller.
        memory_peak: Option<u64>,
    },
    /// Nothing of the module has run, or nobody watches over it any more and it was killed.
    Failed {
        /// The step, as in the message.
        step: &'static str,
        /// On what.
        subject: Shown<'a>,
        /// The error's name; null for a rule of this project.
        errno: Option<&'static str>,
        /// The whole message.
        message: Shown<'a>,
        /// The exit code.
        exit: u8,
    },
}

impl<'a> Event<'a> {
    /// The end of a module.
    pub fn exited(end: End, timeout: bool, usage: Usage) -> Self {
        let (code, signal) = match end {
            End::Code(code) => (Some(code), None),
            End::Signal(signal) => (None, Some(signal)),
        };
        let Usage {
            cpu_usec,
            memory_peak,
            oom,
        } = usage;
        Event::Exited {
            code,
            signal,
            timeout,
            oom,
            cpu_usec,
            memory_peak,
        }
    }

    /// A failure.
    pub fn failed(error: &'a Error<'a>) -> Self {
        Event::Failed {
            step: error.step.name(),
            subject: Shown(&error.subject),
            errno: error
                .cause
                .errno()
                .and_then(|errno| describe(errno.raw_os_error()))
                .map(|(name, _)| name),
            message: Shown(error),
            exit: error.exit as u8,
        }
    }
}

/// Who is told.
pub struct Status<'a> {
    fd: Option<BorrowedFd<'static>>,
    line: &'a mut Line,
}

impl<'a> Status<'a> {
    /// The reader of a descriptor, or nobody. EBADF: it is not open.
    pub fn new(number: Option<i32>, line: &'a mut Line) -> Result<Self, Error<'static>> {
        let failed = |errno| Error::call(Step::Status, "--status-fd", errno);
        let fd = number.map(fs::inherited).transpose().map_err(failed)?;
        if let Some(fd) = fd {
            fs::stat(fd).map_err(failed)?;
        }
        Ok(Status { fd, line })
    }

    /// Tells a failure, as far as that can be told; the error itself is said on standard error.
    pub fn tell_failure(&mut self, error: &Error<'_>) {
        if self.tell(&Event::failed(error)).is_err() {
            // A text from outside may be too long for a line.
            let subject = Subject::Name("too long to be told");
            let _ = self.tell(&Event::failed(&Error { subject, ..*error }));
        }
    }

    /// Tells an event, in one piece.
    pub fn tell(&mut self, event: &Event<'_>) -> Result<(), Error<'static>> {
        let Some(fd) = self.fd else { return Ok(()) };
        let failed = |errno| Error::call(Step::Status, "--status-fd", errno);
        let length =
            serde_json_core::to_slice(event, self.line).map_err(|_| failed(Errno::FBIG))?;
        *self.line.get_mut(length).ok_or(failed(Errno::FBIG))? = b'\n';
        let line = self.line.get(..=length).unwrap_or_default();
        process::write_all_to(fd, line).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;

    fn json(event: &Event<'_>) -> std::string::String {
        let mut line = [0; 32 * 1024];
        let length = serde_json_core::to_slice(event, &mut line).expect("it fits");
        std::string::String::from_utf8(line[..length].to_vec()).expect("text")
    }

    #[test]
    fn every_event_is_one_object() {
        let started = Event::Started {
            pid: 7,
            cgroup: Some(Text("/a \"\n\u{9b}\u{202e}é".as_bytes())),
            reason: None,
        };
        assert_eq!(
            json(&started),
            "{\"event\":\"started\",\"pid\":7,\"cgroup\":\"/a \\\"\\n\u{fffd}\u{fffd}é\",\"reason\":null}"
        );
        let usage = Usage {
            cpu_usec: 12,
            memory_peak: None,
            oom: true,
        };
        assert_eq!(
            json(&Event::exited(End::Signal(9), false, usage)),
            "{\"event\":\"exited\",\"code\":null,\"signal\":9,\"timeout\":false,\"oom\":true,\"cpu_usec\":12,\"memory_peak\":null}"
        );
        let error = Error::refused(
            Step::Exec,
            Subject::Text(b"/x\""),
            Cause::Errno(Errno::NOTDIR),
        );
        assert_eq!(
            json(&Event::failed(&error)),
            "{\"event\":\"failed\",\"step\":\"exec\",\"subject\":\"\\\"/x\\\\\\\"\\\"\",\"errno\":\"ENOTDIR\",\
             \"message\":\"oarbank-agent: exec: \\\"/x\\\\\\\"\\\": ENOTDIR (not a directory)\",\"exit\":70}"
        );
    }

    #[test]
    fn the_longest_subject_fits() {
        let path = [0xff; 4096];
        let error = Error::refused(Step::Exec, Subject::Text(&path), Cause::Reason(""));
        // Twice in a line, five bytes a byte: too long for one line, so it must be refused, not cut.
        let mut line = [0; 32 * 1024];
        let length = serde_json_core::to_slice(&Event::failed(&error), &mut line);
        assert!(length.is_err());
    }
}
