//! The memory functions of the binary (`src/rt_x86_64.s`) against the standard library's.
//!
//! They are assembled under other names into a library of their own: in a test their real names are libc's.

mod support;

use std::ffi::{CString, c_int, c_void};
use std::process::Command;

use support::{TempDir, skip};

const NAMES: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];

type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
type Fill = unsafe extern "C" fn(*mut u8, c_int, usize) -> *mut u8;
type Compare = unsafe extern "C" fn(*const u8, *const u8, usize) -> c_int;
type Length = unsafe extern "C" fn(*const u8) -> usize;

/// The functions by their names, or `None` where there is no assembler.
fn functions() -> Option<[*mut c_void; 6]> {
    let mut source = include_str!("../src/rt_x86_64.s").to_owned();
    for name in NAMES {
        source = source.replace(&format!(".globl {name}\n"), &format!(".globl own_{name}\n"));
        source = source.replace(&format!("\n{name}:\n"), &format!("\nown_{name}:\n"));
    }
    let directory = TempDir::new();
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("own.s"), format!(".intel_syntax noprefix\n{source}")).expect("a file");
    let gcc = Command::new("gcc")
        .args(["-shared", "-nostdlib", "-o"])
        .arg(file("own.so"))
        .arg(file("own.s"))
        .status();
    let Ok(status) = gcc else {
        skip("no gcc");
        return None;
    };
    assert!(status.success());
    let path = CString::new(file("own.so").to_str().expect("text")).expect("no NUL");
    // SAFETY: the library has no initialisers; names end in a zero byte.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    Some(NAMES.map(|name| {
        let name = CString::new(format!("own_{name}")).expect("no NUL");
        // SAFETY: as above; the library is never closed.
        let function = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?}");
        function
    }))
}

/// Bytes that differ from each other and hold no zero.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251 + 1) as u8).collect()
}

#[test]
fn the_memory_functions_do_what_libc_says() {
    let Some([memcpy, memmove, memset, memcmp, bcmp, strlen]) = functions() else {
        return;
    };
    // SAFETY: the signatures are those of the C standard; every range below is inside its buffer.
    unsafe {
        let copy: Copy = std::mem::transmute(memcpy);
        let shift: Copy = std::mem::transmute(memmove);
        let fill: Fill = std::mem::transmute(memset);
        let length: Length = std::mem::transmute(strlen);
        for size in (0..70).chain([4095, 4096, 4097]) {
            let from = pattern(size);
            let mut to = vec![0; size + 2];
            assert_eq!(
                copy(to.as_mut_ptr().add(1), from.as_ptr(), size),
                to.as_mut_ptr().add(1)
            );
            assert_eq!((to[0], &to[1..=size], to[size + 1]), (0, &from[..], 0));
            for value in [0, 0x5a, 0x1ff] {
                assert_eq!(
                    fill(to.as_mut_ptr().add(1), value, size),
                    to.as_mut_ptr().add(1)
                );
                assert!(to[1..=size].iter().all(|byte| *byte == value as u8));
                assert_eq!((to[0], to[size + 1]), (0, 0));
            }
            let text = [from, vec![0, 7]].concat();
            assert_eq!(length(text.as_ptr()), size);
            for (source, target) in [(0, 0), (0, 1), (1, 0), (0, 16), (16, 0), (3, 40), (40, 3)] {
                let mut buffer = pattern(size + 80);
                let mut expected = buffer.clone();
                expected.copy_within(source..source + size, target);
                let start = buffer.as_mut_ptr();
                assert_eq!(
                    shift(start.add(target), start.add(source), size),
                    start.add(target)
                );
                assert_eq!(buffer, expected, "{size} bytes from {source} to {target}");
            }
        }
        for compare in [memcmp, bcmp] {
            let compare: Compare = std::mem::transmute(compare);
            for size in 0..40 {
                let one = pattern(size);
                assert_eq!(compare(one.as_ptr(), one.clone().as_ptr(), size), 0);
                for at in 0..size {
                    let mut other = one.clone();
                    other[at] = 0xff;
                    assert!(compare(one.as_ptr(), other.as_ptr(), size) < 0);
                    assert!(compare(other.as_ptr(), one.as_ptr(), size) > 0);
                    // What differs after the end does not count.
                    assert_eq!(compare(one.as_ptr(), other.as_ptr(), at), 0);
                }
            }
        }
    }
}
