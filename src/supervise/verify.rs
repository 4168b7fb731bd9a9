//! Seeing that a process is confined: `/proc/PID/status` (`proc_pid_status(5)`).

use core::ffi::CStr;
use core::ops::ControlFlow;

use crate::error::{Cause, Error, Step, Subject};
use crate::lines;
use crate::sys::fs::{self, ProcPath};
use crate::sys::{Errno, process};

/// What the kernel says of a process's confinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// `NoNewPrivs: 1`.
    pub no_new_privs: bool,
    /// `Seccomp: 2`: filters.
    pub seccomp_filter: bool,
    /// How many filters there are (`Seccomp_filters`).
    pub filters: u32,
}

impl Confinement {
    /// Both of what only the launcher sets before the exec.
    pub const fn holds(self) -> bool {
        self.no_new_privs && self.seccomp_filter
    }
}

/// Asks the kernel about a process.
///
/// A process that was confined by somebody else, the caller's own filter among them, shows the same two lines;
/// [`Base`] tells these apart for a child.
pub fn confinement(pid: i32) -> Result<Confinement, Error<'static>> {
    read(ProcPath::of_process(pid, "status").as_c_str())
}

fn read(path: &CStr) -> Result<Confinement, Error<'static>> {
    let mut fields = Fields::default();
    // More than the lines before those that are looked for have, as a rule.
    let mut buffer = [0; 2048];
    let found = lines::find(fs::CWD, path, &mut buffer, |line| fields.take(line));
    found.map_err(|errno| match errno {
        Errno::NOENT => error(Cause::Explained(
            errno,
            "no such process, or /proc is not mounted: see ps -e",
        )),
        errno => error(Cause::Errno(errno)),
    })?;
    fields.confinement().ok_or(error(Cause::Reason(
        "this kernel does not name both NoNewPrivs and Seccomp: see sandbox-report --text",
    )))
}

fn error(cause: Cause<'static>) -> Error<'static> {
    Error::refused(Step::Verify, Subject::Name("/proc/PID/status"), cause)
}

#[derive(Default)]
struct Fields {
    no_new_privs: Option<bool>,
    seccomp: Option<bool>,
    filters: u32,
}

impl Fields {
    fn take(&mut self, line: &[u8]) -> ControlFlow<()> {
        let value = |name: &[u8]| line.strip_prefix(name);
        if let Some(value) = value(b"NoNewPrivs:\t") {
            self.no_new_privs = Some(value == b"1");
        } else if let Some(value) = value(b"Seccomp:\t") {
            self.seccomp = Some(value == b"2");
        } else if let Some(value) = value(b"Seccomp_filters:\t") {
            self.filters = lines::decimal(value).unwrap_or(0) as u32;
            // The last of the three.
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn confinement(&self) -> Option<Confinement> {
        Some(Confinement {
            no_new_privs: self.no_new_privs?,
            seccomp_filter: self.seccomp?,
            filters: self.filters,
        })
    }
}

/// What a child inherits, so that the launcher's own filter can be told from it.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    filters: u32,
}

impl Base {
    /// That of this thread.
    pub fn of_this_thread() -> Result<Self, Error<'static>> {
        let failed = |errno| Error::call(Step::Verify, "PR_GET_SECCOMP", errno);
        let filters = if process::has_filter().map_err(failed)? {
            read(c"/proc/thread-self/status")?.filters
        } else {
            0
        };
        Ok(Base { filters })
    }

    /// Sees that a child of this process is confined, by a filter more than it inherited.
    pub fn verify(self, pid: i32) -> Result<(), Error<'static>> {
        let confinement = confinement(pid)?;
        if confinement.holds() && confinement.filters > self.filters {
            Ok(())
        } else {
            Err(Error::refused(
                Step::Verify,
                Subject::Name("the module's process"),
                Cause::Reason(
                    "not confined (NoNewPrivs: 1 and a filter of its own are missing), and so it was killed: see sandbox-report --text",
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Confinement> {
        let mut fields = Fields::default();
        let _ = text
            .lines()
            .try_for_each(|line| fields.take(line.as_bytes()));
        fields.confinement()
    }

    #[test]
    fn both_lines_are_read_as_they_stand() {
        let status = |no_new_privs, seccomp| {
            let text = std::format!(
                "Name:\tSeccomp:\\t2\nNoNewPrivs:\t{no_new_privs}\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n"
            );
            parse(&text).expect("both").holds()
        };
        assert!(status("1", "2"));
        for (no_new_privs, seccomp) in [("0", "2"), ("1", "0"), ("1", "1"), ("1", "22"), ("", "2")]
        {
            assert!(!status(no_new_privs, seccomp), "{no_new_privs} {seccomp}");
        }
        assert_eq!(parse("Name:\tx\nSeccomp:\t2\n"), None);
        assert_eq!(parse(""), None);
    }
}
