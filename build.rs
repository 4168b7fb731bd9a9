//! Links the binary without libc: no start files, no standard libraries, one static ET_EXEC file.
//!
//! The arguments go to the binary alone (`-bins`): tests and the library link as usual.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let script = format!("{dir}/ld/static.ld");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-nodefaultlibs",
        "-static",
        // Position-independent code linked as ET_EXEC needs no relocation at start.
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,--gc-sections",
        "-Wl,-z,noexecstack",
        // As an argument of its own: a comma in the path would break `-Wl,-T,PATH`.
        &format!("-T{script}"),
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rerun-if-changed=build.rs");
}
