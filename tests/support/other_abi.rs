//! Landlock ABIs that this machine's kernel doesn't have, but could have had: a thread, and all that it starts, whose Landlock calls
//! are looked at first (`seccomp_unotify(2)`). What an older kernel would refuse is refused, the rest is this kernel's own.

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use super::{Who, check};

/// What the kernel answers when it is asked for its ABI: a number or an errno.
pub(crate) type Answer = Result<u32, i32>;

/// A Landlock call that was passed on to the kernel, or refused as one that the ABI does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Ruleset {
        fs: u64,
        net: u64,
        scoped: u64,
    },
    PathRule {
        access: u64,
    },
    PortRule {
        access: u64,
    },
    Restrict,
    /// With the errno.
    Refused(&'static str, i32),
}

/// Does something as on a kernel of this ABI, and returns the Landlock calls that were made, but for questions.
pub(crate) fn with_abi(answer: Answer, test: impl FnOnce() + Send) -> Vec<Call> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (tell, told) = mpsc::channel::<OwnedFd>();
    let record = Arc::clone(&calls);
    // Not waited for: it ends when the last process that it looks after has ended.
    thread::spawn(move || {
        if let Ok(listener) = told.recv() {
            supervise(&listener, answer, &record);
        }
    });
    thread::scope(|scope| {
        let own = thread::current();
        let builder = thread::Builder::new().name(own.name().unwrap_or("?").to_owned());
        let watched = builder.spawn_scoped(scope, || {
            tell.send(install().expect("a filter"))
                .expect("a supervisor");
            test();
        });
        // A test that fails has said why.
        if let Err(failure) = watched.expect("a thread").join() {
            std::panic::resume_unwind(failure);
        }
    });
    calls.lock().expect("no panic").clone()
}

/// Makes the three Landlock calls of this thread, and of all that it starts, wait for the descriptor's owner.
fn install() -> io::Result<OwnedFd> {
    let jump = |code: u32, k: u32, jt, jf| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let first = libc::SYS_landlock_create_ruleset as u32;
    let last = libc::SYS_landlock_restrict_self as u32;
    let filter = [
        // The number of the call. Other call tables don't matter: the launcher uses none.
        jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        jump(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, first, 0, 2),
        jump(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, last, 1, 0),
        jump(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_USER_NOTIF,
            0,
            0,
        ),
        jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call; the descriptor is owned by what is returned.
    unsafe {
        if !Who::current().is_root() {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        }
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        let listener = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) as i32;
        check(listener)?;
        Ok(OwnedFd::from_raw_fd(listener))
    }
}

/// Answers until nobody is left who could ask.
fn supervise(listener: &OwnedFd, answer: Answer, record: &Mutex<Vec<Call>>) {
    let descriptor = listener.as_raw_fd();
    loop {
        let mut poll = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one element, which outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        if poll.revents & libc::POLLIN == 0 {
            return;
        }
        // SAFETY: plain numbers, which the kernel wants zeroed and fills in.
        let mut asked: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: a notification of the kernel's size, which outlives the call.
        if unsafe { libc::ioctl(descriptor, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } < 0 {
            // Whoever asked was killed.
            continue;
        }
        let mut response = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: 0,
            flags: 0,
        };
        match judge(&asked, answer) {
            Ok(Verdict::Version(version)) => response.val = version.into(),
            Ok(Verdict::Continue(call)) => {
                record.lock().expect("no panic").push(call);
                response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            }
            Err((name, errno)) => {
                if !name.is_empty() {
                    let call = Call::Refused(name, errno);
                    record.lock().expect("no panic").push(call);
                }
                response.error = -errno;
            }
        }
        // SAFETY: a response of the kernel's size. It fails when whoever asked was killed.
        unsafe {
            libc::ioctl(
                descriptor,
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            )
        };
    }
}

enum Verdict {
    Version(u32),
    Continue(Call),
}

/// What a kernel of this ABI would say before anything else (`security/landlock/syscalls.c`). An error without a name is the
/// answer to a question.
fn judge(asked: &libc::seccomp_notif, answer: Answer) -> Result<Verdict, (&'static str, i32)> {
    let [first, second, third, fourth, ..] = asked.data.args;
    let number = i64::from(asked.data.nr);
    let question = number == libc::SYS_landlock_create_ruleset && first == 0 && third != 0;
    let abi = match answer {
        Ok(abi) => abi,
        Err(errno) if question => return Err(("", errno)),
        Err(errno) => return Err(("a call without Landlock", errno)),
    };
    let refuse = |name, wrong: bool| {
        if wrong {
            Err((name, libc::EINVAL))
        } else {
            Ok(())
        }
    };
    let memory =
        || File::open(format!("/proc/{}/mem", asked.pid)).map_err(|_| ("memory", libc::EFAULT));
    let read = |address: u64| -> Result<u64, (&'static str, i32)> {
        let mut bytes = [0; 8];
        let read = memory()?.read_exact_at(&mut bytes, address);
        read.map_err(|_| ("memory", libc::EFAULT))?;
        Ok(u64::from_ne_bytes(bytes))
    };
    if question {
        // Of the questions, that for the version is the only one before ABI 7.
        refuse("", third != 1)?;
        return Ok(Verdict::Version(abi));
    }
    Ok(Verdict::Continue(match number {
        libc::SYS_landlock_create_ruleset => {
            refuse("flags of a ruleset", third != 0)?;
            refuse("a short ruleset", second < 8)?;
            // What the ABI does not know must be zero.
            let mut fields = [0; 3];
            for (field, start) in fields.iter_mut().zip((0..).step_by(8)) {
                if start < second {
                    *field = read(first + start)?;
                }
            }
            let [fs, net, scoped] = fields;
            for (known, field) in [(4, net), (6, scoped)] {
                if abi < known && field != 0 {
                    return Err(("a longer ruleset", libc::E2BIG));
                }
            }
            refuse("file rights", fs >> file_rights(abi) != 0)?;
            refuse("network rights", net >> 2 != 0)?;
            refuse("scopes", scoped >> 2 != 0)?;
            Call::Ruleset { fs, net, scoped }
        }
        libc::SYS_landlock_add_rule => {
            refuse("flags of a rule", fourth != 0)?;
            let access = read(third)?;
            match second {
                1 => {
                    refuse("file rights of a rule", access >> file_rights(abi) != 0)?;
                    Call::PathRule { access }
                }
                2 if abi >= 4 => {
                    refuse("network rights of a rule", access >> 2 != 0)?;
                    Call::PortRule { access }
                }
                _ => return Err(("a kind of rule", libc::EINVAL)),
            }
        }
        _ => {
            refuse("flags of a restriction", second != 0)?;
            Call::Restrict
        }
    }))
}

/// How many file rights an ABI below 7 has.
fn file_rights(abi: u32) -> u32 {
    match abi {
        0 | 1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    }
}
