//! The binary as a file: static, no interpreter, nothing writable and executable, no executable stack.
//!
//! No libc: every symbol is of Rust or one of the few that `src/rt.rs` and the linker script define.
//!
//! `.ci/run` holds the release file against the same list with readelf, and its size against a limit.

use std::collections::BTreeSet;
use std::fs;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_GNU_STACK: u32 = 0x6474_e551;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(value)
}

/// Type and flags of every program header of a 64-bit ELF file (`elf(5)`).
fn headers(elf: &[u8]) -> Vec<(u32, u32)> {
    assert_eq!(&elf[..5], b"\x7fELF\x02");
    let offset = number::<8>(elf, 32) as usize;
    let size = number::<2>(elf, 54) as usize;
    let count = number::<2>(elf, 56) as usize;
    (0..count)
        .map(|index| offset + index * size)
        .map(|at| (number::<4>(elf, at) as u32, number::<4>(elf, at + 4) as u32))
        .collect()
}

#[test]
fn the_binary_is_static_and_has_no_writable_code() {
    let elf = fs::read(env!("CARGO_BIN_EXE_oarbank-agent")).expect("the binary");
    let headers = headers(&elf);
    let of = |wanted: u32| headers.iter().filter(move |(kind, _)| *kind == wanted);
    assert_eq!(of(PT_INTERP).count(), 0, "an interpreter");
    assert_eq!(of(PT_DYNAMIC).count(), 0, "a dynamic section");
    assert!(of(PT_LOAD).all(|(_, flags)| flags & (WRITE | EXECUTE) != WRITE | EXECUTE));
    assert!(of(PT_LOAD).any(|(_, flags)| flags & EXECUTE != 0));
    let stack: Vec<u32> = of(PT_GNU_STACK).map(|(_, flags)| *flags).collect();
    assert_eq!(stack, [6], "the stack must be readable and writable");
}

/// The names in the symbol table that are not Rust's, without files and sections (`elf(5)`).
fn foreign_symbols(elf: &[u8]) -> BTreeSet<String> {
    const SHT_SYMTAB: u64 = 2;
    let sections = number::<8>(elf, 40) as usize;
    let size = number::<2>(elf, 58) as usize;
    let section = |index: usize| sections + index * size;
    let place = |at: usize| {
        (
            number::<8>(elf, at + 24) as usize,
            number::<8>(elf, at + 32) as usize,
        )
    };
    let table = (0..number::<2>(elf, 60) as usize)
        .map(section)
        .find(|&at| number::<4>(elf, at + 4) == SHT_SYMTAB)
        .expect("a symbol table");
    let (start, length) = place(table);
    let (names, _) = place(section(number::<4>(elf, table + 40) as usize));
    (start..start + length)
        .step_by(24)
        .filter(|&at| elf[at + 4] & 0xf < 3)
        .map(|at| names + number::<4>(elf, at) as usize)
        .map(|at| elf[at..].split(|&byte| byte == 0).next().expect("a name"))
        .map(|name| String::from_utf8_lossy(name).into_owned())
        // Rust's own, mangled, and data that the compiler names itself.
        .filter(|name| !name.is_empty())
        .filter(|name| {
            !["_ZN", "_R", ".", "anon.", "DW.ref."]
                .iter()
                .any(|of| name.starts_with(of))
        })
        .collect()
}

#[test]
fn no_symbol_is_of_a_c_library() {
    let elf = fs::read(env!("CARGO_BIN_EXE_oarbank-agent")).expect("the binary");
    let own = [
        "_start",
        "bcmp",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "rust_eh_personality",
        "strlen",
    ];
    assert_eq!(foreign_symbols(&elf), own.map(str::to_owned).into());
    // The control: this test itself has many.
    let elf = fs::read("/proc/self/exe").expect("this test");
    assert!(
        foreign_symbols(&elf)
            .iter()
            .any(|name| name.contains("libc_start_main"))
    );
}

#[test]
fn the_check_sees_what_it_looks_for() {
    // This test itself is an ordinary program: it has an interpreter.
    let elf = fs::read("/proc/self/exe").expect("this test");
    assert!(headers(&elf).iter().any(|(kind, _)| *kind == PT_INTERP));
}
