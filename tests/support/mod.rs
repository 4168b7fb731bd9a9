//! What all suites share: a temporary directory, a policy, and a program run in it or outside.
//!
//! Every denial is held against a control: the same steps of the same probe without the launcher.
//! A test that can't be made here prints why; with `OARBANK_NO_SKIP=1` it fails instead.

// Each suite uses a part.
#![allow(dead_code, unused_imports)]

mod explained;
pub(crate) mod other_abi;
mod policy;
mod run;
mod scene;
mod supervised;
mod temp;
mod terminal;

pub(crate) use explained::{Explained, explain, log};
pub(crate) use policy::Policy;
pub(crate) use run::{Outcome, Run, Running, check};
pub(crate) use scene::{Process, Scene, Who, as_each, as_root, assert_lines};
pub(crate) use supervised::{
    Cgroup, STATUS, Trial, field, in_each_container, members, parent, processes, processes_with,
    state, wait_for, written,
};
pub(crate) use temp::TempDir;
pub(crate) use terminal::terminal;

use std::io::Write as _;

/// Says that a test, or a part of it, can't be made here.
pub(crate) fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    assert_ne!(
        std::env::var("OARBANK_NO_SKIP").as_deref(),
        Ok("1"),
        "SKIPPED {test}: {reason}"
    );
    // Not `eprintln`: the test harness would keep it from the reader of a passed test.
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}

/// Whether this runs in an emulator, where a launch takes long.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("OARBANK_EMULATED").is_some()
}

/// Whether strace is there; says that the test is skipped if not.
pub(crate) fn strace_is_here() -> bool {
    let here = std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_ok();
    if !here {
        skip("no strace");
    }
    here
}

/// Whether this program is there; says that what needs it is skipped if not.
pub(crate) fn is_here(program: &str) -> bool {
    let here = std::path::Path::new(program).exists();
    if !here {
        skip(&format!("no {program}"));
    }
    here
}

/// Whether a proxy can be granted; says that what needs it is skipped if not.
pub(crate) fn egress_is_here() -> bool {
    let here = landlock_abi() >= 4;
    if !here {
        skip("egress-allowlist needs Landlock ABI 4");
    }
    here
}

/// Makes `openat2` answer ENOSYS in this process and all that it starts; safe after fork.
pub(crate) fn hide_openat2() -> std::io::Result<()> {
    let step = |code: u32, k: u32, jf| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_openat2 as u32,
            1,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
            0,
        ),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    add_filter(&filter)
}

/// Installs a filter for this process and all that it starts; safe after fork.
pub(crate) fn add_filter(filter: &[libc::sock_filter]) -> std::io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: two calls that are safe after fork; the program lives until the second returns.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        ))
    }
}

/// The Landlock ABI of this kernel.
pub(crate) fn landlock_abi() -> i64 {
    // SAFETY: asks for the version; no pointers.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, 1_u32) }
}
