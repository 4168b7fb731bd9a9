//! Links the binary without libc: no start files, no standard libraries, one static ET_EXEC file.
//!
//! The arguments go to the binary alone (`-bins`): tests and the library link as usual.

use std::path::Path;

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let script = format!("{dir}/ld/static.ld");
    // Cargo names the linker if somebody chose one. A bare lld takes its own options, a compiler passes them on.
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
    let name = Path::new(&linker).file_stem().unwrap_or_default();
    let is_lld = name.to_str().is_some_and(|name| name.ends_with("lld"));
    let (for_compiler, prefix): (&[&str], &str) = if is_lld {
        (&[], "")
    } else {
        (&["-nostartfiles", "-nostdlib", "-nodefaultlibs"], "-Wl,")
    };
    for argument in for_compiler {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    println!("cargo:rustc-link-arg-bins=-static");
    // Position-independent code linked as ET_EXEC needs no relocation at start.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    for argument in ["--build-id=none", "--gc-sections"] {
        println!("cargo:rustc-link-arg-bins={prefix}{argument}");
    }
    // A comma in the path would break `-Wl,-T,PATH`; this all of them take.
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rerun-if-changed=build.rs");
}
