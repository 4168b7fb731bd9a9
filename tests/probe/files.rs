//! One file operation a step, each with exactly the rights that its name says.

use std::ffi::CString;

use crate::Answer;
use crate::raw::answer;
use crate::tricks;

/// Runs the step; `None` for a verb of someone else's.
pub(crate) fn run(verb: &str, rest: &[&str]) -> Option<Answer> {
    let paths: Vec<CString> = rest
        .iter()
        .map(|word| CString::new(*word).expect("a path"))
        .collect();
    let path = paths.first()?.as_ptr();
    let second = paths.get(1).map_or(path, |path| path.as_ptr());
    // SAFETY: each call takes only the paths above, which end in a zero byte and outlive it.
    let returned = unsafe {
        match verb {
            "read" => return Some(read(&paths[0])),
            "list" => return Some(list(&paths[0])),
            "write" => return Some(write(&paths[0], libc::O_WRONLY)),
            "append" => return Some(write(&paths[0], libc::O_WRONLY | libc::O_APPEND)),
            "replace" => return Some(write(&paths[0], libc::O_WRONLY | libc::O_TRUNC)),
            "redirect" => {
                return Some(write(
                    &paths[0],
                    libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
                ));
            }
            "create" => {
                return Some(write(
                    &paths[0],
                    libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
                ));
            }
            "execute" => return Some(tricks::execute(&paths[0])),
            "truncate" => libc::truncate(path, 0),
            "stat" => libc::access(path, libc::F_OK),
            "mkdir" => libc::mkdir(path, 0o755),
            "rmdir" => libc::rmdir(path),
            "unlink" => libc::unlink(path),
            "rename" => libc::rename(path, second),
            "link" => libc::link(path, second),
            "symlink" => libc::symlink(path, second),
            "chdir" => libc::chdir(path),
            "mkfifo" => libc::mknod(path, libc::S_IFIFO | 0o600, 0),
            "mksock" => libc::mknod(path, libc::S_IFSOCK | 0o600, 0),
            "mkchar" => libc::mknod(path, libc::S_IFCHR | 0o600, libc::makedev(1, 3)),
            "mkblock" => libc::mknod(path, libc::S_IFBLK | 0o600, libc::makedev(7, 0)),
            _ => return None,
        }
    };
    Some(answer(i64::from(returned)))
}

/// Opens the file; the caller closes nothing, the process ends soon.
pub(crate) fn open(path: &CString, flags: i32) -> Result<i32, i32> {
    // SAFETY: the path ends in a zero byte.
    let returned = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644) };
    answer(i64::from(returned)).map(|descriptor| descriptor as i32)
}

fn read(path: &CString) -> Answer {
    let descriptor = open(path, libc::O_RDONLY)?;
    let mut bytes = [0_u8; 64];
    // SAFETY: the buffer holds as many bytes as are asked for.
    answer(unsafe { libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len()) } as i64)
}

fn write(path: &CString, flags: i32) -> Answer {
    let descriptor = open(path, flags)?;
    // SAFETY: the buffer holds the one byte.
    answer(unsafe { libc::write(descriptor, b"x".as_ptr().cast(), 1) } as i64)
}

fn list(path: &CString) -> Answer {
    // SAFETY: the path ends in a zero byte.
    let directory = unsafe { libc::opendir(path.as_ptr()) };
    if directory.is_null() {
        Err(crate::raw::last_error())
    } else {
        Ok(0)
    }
}
