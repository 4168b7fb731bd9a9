//! Steps that need more than one call.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::Answer;
use crate::files::open;
use crate::raw::answer;
use crate::words::number;

/// Runs the step; `None` for a verb of someone else's.
pub(crate) fn run(verb: &str, rest: &[&str]) -> Option<Answer> {
    let text = |index: usize| CString::new(rest[index]).expect("text");
    Some(match verb {
        "fds" => Ok(print_descriptors()),
        "memfd-exec" => memfd_exec(number(rest[0])),
        "tmpfile-exec" => tmpfile_exec(&text(0)),
        "fd-exec" => execute_descriptor(number(rest[0]) as i32),
        "name-thread" => name_thread(),
        "name-child" => in_child(name_thread),
        "child-signal" => child_signal(),
        "bomb" => bomb(rest == ["sessions"]),
        "flood" => Ok(flood(number(rest[0]), number(rest[1]), number(rest[2]))),
        "hold-pipe" => hold_pipe(number(rest[0]) as i32),
        "thread" => Ok(std::thread::spawn(|| 7).join().expect("the thread ends")),
        _ => return None,
    })
}

/// Every open descriptor, on one line.
fn print_descriptors() -> u64 {
    let open: Vec<String> = (0..4096)
        // SAFETY: asks for the flags of a descriptor number, open or not.
        .filter(|descriptor| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } != -1)
        .map(|descriptor| descriptor.to_string())
        .collect();
    println!("{}", open.join(" "));
    open.len() as u64
}

/// Replaces this process by `ARGV`, with exactly the given environment: names may come twice.
pub(crate) fn exec_env(arguments: &[OsString]) -> Answer {
    let words: Vec<CString> = arguments
        .iter()
        .map(|word| CString::new(word.as_bytes()).expect("no zero byte"))
        .collect();
    let split = words
        .iter()
        .position(|word| word.as_bytes() == b"--")
        .expect("`--` before ARGV");
    let pointers = |words: &[CString]| {
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    let (environment, argv) = (pointers(&words[..split]), pointers(&words[split + 1..]));
    // SAFETY: both lists hold zero-ended strings and end in a null pointer.
    answer(i64::from(unsafe {
        libc::execve(argv[0], argv.as_ptr(), environment.as_ptr())
    }))
}

/// A child that couldn't do its work ends with this and the error number; programs end below.
const FAILED: i32 = 128;

/// Runs the work in a forked child and brings its answer back; work that becomes a program gives
/// the program's exit code.
fn in_child(work: impl FnOnce() -> Answer) -> Answer {
    // SAFETY: the probe has one thread, so the child may do anything.
    let child = answer(i64::from(unsafe { libc::fork() }))? as i32;
    if child == 0 {
        let code = work().map_or_else(|errno| FAILED + errno, |_| 0);
        // SAFETY: ends the child; the errors in question are below 128.
        unsafe { libc::_exit(code) };
    }
    match wait_for(child)? {
        code @ 128..256 => Err(code as i32 - FAILED),
        code => Ok(code),
    }
}

/// The exit code of the child, or 1000 and the signal that killed it.
fn wait_for(child: i32) -> Answer {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    answer(i64::from(unsafe { libc::waitpid(child, &mut status, 0) }))?;
    let killed = libc::WIFSIGNALED(status);
    Ok(if killed {
        1000 + libc::WTERMSIG(status) as u64
    } else {
        libc::WEXITSTATUS(status) as u64
    })
}

/// The error of `exec` in a child, which calls it and returns only if it failed.
fn exec_in_child(exec: impl FnOnce(*const *const libc::c_char)) -> Answer {
    let argv = [c"probe-child".as_ptr(), std::ptr::null()];
    in_child(|| {
        exec(argv.as_ptr());
        Err(crate::raw::last_error())
    })
}

/// Executes the file in a child: `ok 0` if it ran and ended well.
pub(crate) fn execute(path: &CStr) -> Answer {
    // SAFETY: the path and the names end in a zero byte, the lists in a null pointer.
    exec_in_child(|argv| unsafe {
        libc::execve(path.as_ptr(), argv, argv.add(1));
    })
}

/// Executes what the descriptor refers to.
fn execute_descriptor(descriptor: i32) -> Answer {
    exec_in_child(|argv| {
        // SAFETY: as in `execute`; the empty path means the descriptor itself.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                descriptor,
                c"".as_ptr(),
                argv,
                argv.add(1),
                libc::AT_EMPTY_PATH,
            );
        }
    })
}

/// Fills the descriptor with a program that ends well, and makes it executable.
fn fill_with_program(descriptor: i32) -> Answer {
    let program = std::fs::read("/bin/true").expect("a program of the base system");
    // SAFETY: the buffer holds as many bytes as are given.
    let written =
        answer(unsafe { libc::write(descriptor, program.as_ptr().cast(), program.len()) } as i64)?;
    assert_eq!(written, program.len() as u64);
    // A memfd with the no-exec seal refuses this, which the exec after it will show.
    // SAFETY: changes the mode of an own descriptor.
    unsafe { libc::fchmod(descriptor, 0o755) };
    Ok(written)
}

/// Opened again for reading alone: the kernel refuses to execute a file that is open for writing.
fn reopen(descriptor: i32) -> Result<i32, i32> {
    let again = open(&path_of(descriptor), libc::O_RDONLY)?;
    // SAFETY: the descriptor is an own one and not used again.
    unsafe { libc::close(descriptor) };
    Ok(again)
}

fn path_of(descriptor: i32) -> CString {
    CString::new(format!("/proc/self/fd/{descriptor}")).expect("no zero byte")
}

/// Makes a file in memory with the flags, writes a program to it and executes it.
fn memfd_exec(flags: u64) -> Answer {
    // SAFETY: the name ends in a zero byte.
    let made = unsafe { libc::syscall(libc::SYS_memfd_create, c"probe".as_ptr(), flags) };
    let descriptor = answer(made)? as i32;
    fill_with_program(descriptor)?;
    execute_descriptor(reopen(descriptor)?)
}

/// The same with a file that has no name, in the directory.
fn tmpfile_exec(directory: &CStr) -> Answer {
    let descriptor = open(&directory.to_owned(), libc::O_TMPFILE | libc::O_RDWR)?;
    fill_with_program(descriptor)?;
    execute_descriptor(reopen(descriptor)?)
}

/// Names the thread as CUDA does, by the file.
fn name_thread() -> Answer {
    // SAFETY: asks for a number.
    let thread = unsafe { libc::gettid() };
    let path = CString::new(format!("/proc/self/task/{thread}/comm")).expect("no zero byte");
    let descriptor = open(&path, libc::O_WRONLY | libc::O_TRUNC)?;
    // SAFETY: the buffer holds as many bytes as are given.
    answer(unsafe { libc::write(descriptor, b"renamed".as_ptr().cast(), 7) } as i64)
}

/// Every process makes more of them for ever, each in a session of its own if asked; the caller limits how many.
fn bomb(sessions: bool) -> ! {
    loop {
        // SAFETY: the probe has one thread.
        unsafe {
            if libc::fork() == 0 && sessions {
                libc::setsid();
            }
        }
    }
}

/// Sockets that no policy allows, of some families, as often in each of some threads: how many were refused with EPERM.
fn flood(threads: u64, calls: u64, families: u64) -> u64 {
    let refused = move || {
        let mut refused = 0;
        for call in 0..calls {
            // SAFETY: no pointers.
            let made = unsafe { libc::syscall(libc::SYS_socket, 100 + call % families, 9, 0) };
            refused += u64::from(answer(made) == Err(libc::EPERM));
        }
        refused
    };
    let threads: Vec<_> = (0..threads).map(|_| std::thread::spawn(refused)).collect();
    let each = threads.into_iter().map(|thread| thread.join());
    each.map(|refused| refused.expect("the thread ends")).sum()
}

/// Holds the lock of a pipe until this process ends, so that everybody waits who writes to it, and floods a little.
fn hold_pipe(pipe: i32) -> Answer {
    let mut pair = [-1; 2];
    // SAFETY: room for two descriptors.
    answer(i64::from(unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr())
    }))?;
    let silent = pair[0];
    std::thread::spawn(move || {
        let null = std::ptr::null_mut();
        // SAFETY: no offsets; it waits, with the pipe, for a socket that nobody writes to.
        unsafe { libc::splice(silent, null, pipe, null, 1, 0) }
    });
    let moment = std::time::Duration::from_millis(200);
    std::thread::sleep(moment);
    let write = std::thread::spawn(move || {
        // SAFETY: one byte.
        unsafe { libc::write(pipe, b"\n".as_ptr().cast(), 1) }
    });
    std::thread::sleep(moment);
    assert!(!write.is_finished(), "the pipe is not held");
    println!("held {}", flood(1, 10, 10));
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// Ends an own child by a signal: `ok 1015` is death by SIGTERM.
fn child_signal() -> Answer {
    // SAFETY: the probe has one thread; the child only waits.
    let child = answer(i64::from(unsafe { libc::fork() }))? as i32;
    if child == 0 {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the child is an own one and not yet waited for.
    answer(i64::from(unsafe { libc::kill(child, libc::SIGTERM) }))?;
    wait_for(child)
}
