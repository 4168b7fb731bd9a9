//! What to do about a system call's error, or where to look: for who reads it at night.
//!
//! Where the subject and the error's own text say it all (a path that does not exist), there is no hint.

use super::Step;
use crate::sys::Errno;

const OUTER: &str =
    "an outer sandbox or container may refuse it: see oarbank-agent sandbox-report --text";

/// By step and error; the first row that fits counts. No step: any. No errors: any.
const HINTS: &[(Option<Step>, &[Errno], &str)] = &[
    (
        Some(Step::Descriptors),
        &[Errno::ISDIR],
        "a module could list it: pass a file or /dev/null instead",
    ),
    (
        Some(Step::Descriptors),
        &[Errno::BADF],
        "it is not open: whoever starts the launcher must leave it open",
    ),
    (
        Some(Step::Landlock),
        &[Errno::LOOP],
        "links in a circle, or one of the kernel's own as in /proc/self/cwd: name the place itself",
    ),
    (
        Some(Step::Landlock),
        &[Errno::ACCESS],
        "the launcher's own user can't get there: see namei -l, and with which user it runs",
    ),
    (
        Some(Step::Landlock),
        &[Errno::TOOBIG],
        "there are 16 Landlock sandboxes around this process already: start it outside of some",
    ),
    (
        Some(Step::Landlock),
        &[Errno::PERM, Errno::NOSYS, Errno::INVAL],
        OUTER,
    ),
    (Some(Step::NoNewPrivs), &[], OUTER),
    (Some(Step::Capabilities), &[], OUTER),
    (
        Some(Step::Confined),
        &[Errno::PIPE],
        "nobody reads it any more: see who holds the other end",
    ),
    (
        Some(Step::Exec),
        &[Errno::ACCESS],
        "not granted (exe, ro, or rw with exec_rw) or not executable, or its interpreter or loader is not: see sandbox-check \
         POLICY.json -- PROGRAM",
    ),
    (
        Some(Step::Exec),
        &[Errno::NOENT],
        "the program, or the interpreter or loader that it names: see sandbox-check POLICY.json -- PROGRAM",
    ),
    (
        Some(Step::Exec),
        &[Errno::NOEXEC],
        "no program of this machine's kind, and no script with #! in its first line: see file(1)",
    ),
    (
        Some(Step::Exec),
        &[Errno::TOOBIG],
        "arguments and environment are too long: see ulimit -s",
    ),
    (
        Some(Step::Exec),
        &[Errno::TXTBSY],
        "somebody has it open for writing: see fuser(1)",
    ),
    (
        Some(Step::Cgroup),
        &[Errno::ACCESS, Errno::PERM, Errno::ROFS],
        "not delegated to this user: Delegate=yes in the unit, or another one with --cgroup DIR",
    ),
    (
        Some(Step::Cgroup),
        &[Errno::AGAIN],
        "see cgroup.max.descendants and cgroup.max.depth, also of the cgroups above it",
    ),
    (
        Some(Step::Spawn),
        &[Errno::AGAIN],
        "too many processes: see ulimit -u and pids.max",
    ),
    (
        Some(Step::Verify),
        &[Errno::ACCESS, Errno::NOENT],
        "/proc must be mounted and readable: see its hidepid",
    ),
    (
        Some(Step::Status),
        &[Errno::BADF],
        "it is not open: 5>FILE with --status-fd 5, say",
    ),
    (
        Some(Step::Status),
        &[Errno::PIPE],
        "nobody reads it any more",
    ),
    (
        Some(Step::Output),
        &[Errno::BADF],
        "it is closed: pass a file or a pipe",
    ),
    (
        Some(Step::Output),
        &[Errno::PIPE],
        "nobody reads it any more",
    ),
    (None, &[Errno::MFILE], "too many descriptors: see ulimit -n"),
    (
        None,
        &[Errno::NFILE],
        "too many on this host: see fs.file-max of sysctl(8)",
    ),
    (
        None,
        &[Errno::NOMEM],
        "see memory.max of the cgroup, ulimit -v, and dmesg",
    ),
    (Some(Step::Seccomp), &[], OUTER),
    (Some(Step::Spawn), &[], OUTER),
    (Some(Step::Check), &[], OUTER),
    (Some(Step::Supervise), &[], OUTER),
];

/// The hint for an error of a step, if there is one.
pub(super) fn hint(step: Step, errno: Errno) -> Option<&'static str> {
    let found = HINTS.iter().find(|(of, errnos, _)| {
        of.is_none_or(|of| of == step) && (errnos.is_empty() || errnos.contains(&errno))
    });
    found.map(|(.., hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_found() {
        for (number, (step, errnos, text)) in HINTS.iter().enumerate() {
            let steps = match step {
                Some(step) => core::slice::from_ref(step),
                None => &Step::ALL,
            };
            let any = [Errno::IO];
            let errnos = if errnos.is_empty() { &any } else { *errnos };
            for errno in errnos {
                assert!(
                    steps.iter().any(|&step| hint(step, *errno) == Some(*text)),
                    "row {number}: {errno:?} is taken by another row"
                );
            }
        }
    }

    #[test]
    fn what_says_all_itself_has_no_hint() {
        for (step, errno) in [
            (Step::Policy, Errno::NOENT),
            (Step::Policy, Errno::ACCESS),
            (Step::Landlock, Errno::NOENT),
            (Step::Landlock, Errno::NOTDIR),
            (Step::Output, Errno::NOSPC),
        ] {
            assert_eq!(hint(step, errno), None, "{step:?}");
        }
    }
}
