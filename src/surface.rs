//! The launcher's own system calls: the table that `sandbox-audit` prints.
//!
//! `tests/fail_closed.rs` holds [`LAUNCH`] against traces of every way to launch, and `tests/audit.rs` holds the whole table
//! against every `syscall` instruction of the release file: a call that is made and not listed fails, and so does one that is
//! listed and not made.

use crate::error::Step;

/// A system call of the launcher's.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The name, as in `syscalls(2)`.
    pub name: &'static str,
    /// Its operations or flags, where it has them: each call has one of these.
    pub with: &'static [&'static str],
    /// Whether every launch makes it exactly once in its step; else the policy and the host say whether, and how often.
    pub once: bool,
}

/// Made exactly once.
const fn once(name: &'static str, with: &'static [&'static str]) -> Own {
    Own {
        name,
        with,
        once: true,
    }
}

/// Made as often as there is something to be done.
const fn any(name: &'static str, with: &'static [&'static str]) -> Own {
    Own {
        name,
        with,
        once: false,
    }
}

/// A step, or what else calls are made for.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name, which is that of the step in messages, where there is one.
    pub name: &'static str,
    /// What the calls do.
    pub why: &'static str,
    /// The calls: those made once in their order, the others where they may first come.
    pub calls: &'static [Own],
}

/// What `sandbox-exec` does between its own start and the module's: the numbered steps of `launch.rs`. The first call of
/// a step is none of the step before.
pub const LAUNCH: [Row; 9] = [
    Row {
        name: Step::Descriptors.name(),
        why: "what is inherited: looked at, marked close-on-exec, the named ones kept",
        calls: &[
            any("fcntl", &["F_SETFD"]),
            any("fstat", &[]),
            once("close_range", &["CLOSE_RANGE_CLOEXEC"]),
        ],
    },
    Row {
        name: Step::Policy.name(),
        why: "the policy file, read once",
        calls: &[
            once("openat", &["O_RDONLY|O_NOCTTY|O_NONBLOCK"]),
            once("fstat", &[]),
            any("read", &[]),
            once("close", &[]),
        ],
    },
    Row {
        name: Step::Landlock.name(),
        why: "the ruleset is made: every path opened as a location, its links walked where it lies in or about a writable root; memory files that are passed in are recognised",
        calls: &[
            any(
                "landlock_create_ruleset",
                &["LANDLOCK_CREATE_RULESET_VERSION", "handled_access_fs"],
            ),
            any("openat2", &["RESOLVE_NO_SYMLINKS", "RESOLVE_NO_MAGICLINKS"]),
            any("fstat", &[]),
            any("readlinkat", &[]),
            any("newfstatat", &["AT_SYMLINK_NOFOLLOW"]),
            any("landlock_add_rule", &[]),
            any("close", &[]),
            any("openat", &["O_DIRECTORY", "O_NOFOLLOW|O_CLOEXEC|O_PATH"]),
            any("getdents64", &[]),
            any("eventfd2", &["EFD_CLOEXEC"]),
            any("fcntl", &["F_GET_SEALS"]),
            any("memfd_create", &["MFD_CLOEXEC"]),
            any("fstatfs", &[]),
        ],
    },
    Row {
        name: Step::NoNewPrivs.name(),
        why: "no exec gains privileges from here on",
        calls: &[once("prctl", &["PR_SET_NO_NEW_PRIVS"])],
    },
    Row {
        name: Step::Landlock.name(),
        why: "the ruleset is applied; with gpu the process's own /proc/self/task is granted first, once for each ruleset",
        calls: &[
            any("read", &[]),
            any("openat", &["O_PATH"]),
            any("landlock_add_rule", &["LANDLOCK_RULE_PATH_BENEATH"]),
            any("close", &[]),
            once("landlock_restrict_self", &[]),
        ],
    },
    Row {
        name: Step::Capabilities.name(),
        why: "every set that is not empty is emptied; the bounding set where that is allowed, else root's must be empty",
        calls: &[
            any(
                "prctl",
                &[
                    "PR_CAP_AMBIENT_CLEAR_ALL",
                    "PR_CAPBSET_DROP",
                    "PR_CAPBSET_READ",
                ],
            ),
            once("capget", &[]),
            any("geteuid", &[]),
            any("capset", &[]),
        ],
    },
    Row {
        name: Step::Seccomp.name(),
        why: "the filter",
        calls: &[once("seccomp", &["SECCOMP_SET_MODE_FILTER"])],
    },
    Row {
        name: Step::Confined.name(),
        why: "OARBANK_CONFINED is told: one byte, then the end",
        calls: &[
            any("rt_sigprocmask", &["SIG_BLOCK", "SIG_SETMASK"]),
            any("write", &[]),
            any("close", &[]),
        ],
    },
    Row {
        name: Step::Exec.name(),
        why: "the module",
        calls: &[once("execve", &[])],
    },
];

/// How a launch ends that fails, at whatever step.
pub const FAILURE: Row = Row {
    name: "failure",
    why: "the one line on standard error and the exit code",
    calls: &[
        once("rt_sigprocmask", &["SIG_BLOCK"]),
        any("write", &[]),
        once("exit_group", &[]),
    ],
};

/// What the other commands make besides.
pub const OTHERS: &[Row] = &[
    Row {
        name: "processes",
        why: "made, waited for, signalled, timed: sandbox-run, and the children in which sandbox-check and sandbox-report try things",
        calls: &[
            any("clock_gettime", &[]),
            any("clone3", &[]),
            any("dup2", &[]),
            any("getpid", &[]),
            any("getppid", &[]),
            any("getrusage", &[]),
            any("kill", &[]),
            any("pipe2", &[]),
            any("rt_sigaction", &[]),
            any("rt_sigtimedwait", &[]),
            any("setpgid", &[]),
            any("setsid", &[]),
            any("wait4", &[]),
        ],
    },
    Row {
        name: "cgroups",
        why: "the leaf of sandbox-run, and what is read of it",
        calls: &[
            any("fchmodat", &[]),
            any("flock", &[]),
            any("mkdirat", &[]),
            any("pread64", &[]),
            any("unlinkat", &[]),
        ],
    },
    Row {
        name: "denials",
        why: "sandbox-run --explain-denials: refused calls are received and answered (ioctl on the filter's listener), the kernel's audit is read (netlink), lines go to a process of their own (a socket pair), which writes them",
        calls: &[
            any("bind", &[]),
            any("ioctl", &[]),
            any("ppoll", &[]),
            any("pwritev2", &[]),
            any("recvfrom", &[]),
            any("recvmsg", &[]),
            any("sendmsg", &[]),
            any("sendto", &[]),
            any("setsockopt", &[]),
            any("signalfd4", &[]),
            any("socket", &[]),
            any("socketpair", &[]),
        ],
    },
    Row {
        name: "probes",
        why: "what sandbox-report tries, in confined children, and with which kernel",
        calls: &[
            any("bind", &[]),
            any("connect", &[]),
            any("listen", &[]),
            any("socket", &[]),
            any("socketpair", &[]),
            any("uname", &[]),
        ],
    },
    Row {
        name: "tracing",
        why: "sandbox-check holds its child at the exec",
        calls: &[any("ptrace", &[])],
    },
    Row {
        name: "terminal",
        why: "whether sandbox-report prints to one",
        calls: &[any("ioctl", &[])],
    },
];
