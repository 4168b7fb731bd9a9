//! The launcher's library: everything but start-up code, which belongs to the binary (`main.rs`, `rt.rs`).
//!
//! `no_std`, no allocator, no libc. The library is layered; a module uses lower layers or its own folder
//! only, and `tests/layers.rs` holds every `use crate::` line against the order of this list.
//!
//! | layer | module | what an auditor finds there |
//! |---|---|---|
//! | 0 | [`sys`] | the only unsafe code of the library: typed system calls |
//! | 1 | [`error`], [`limits`] | the one error shape with its exit codes and the errno names, the limits |
//! | 1 | [`near`] | the word that was probably meant |
//! | 1 | [`lines`] | lines of the kernel's files |
//! | 2 | [`output`] | standard output and JSON |
//! | 2 | [`bpf`] | classic BPF: instructions, assembler |
//! | 3 | [`policy`] | the JSON text, the checked policy, the base system table |
//! | 3 | [`seccomp`] | the table of calls, sockets, clone, the filter |
//! | 4 | [`landlock`] | rights by ABI, policy and ABI to rules, paths below writable roots |
//! | 4 | [`descriptors`], [`capabilities`] | what is inherited, what root loses |
//! | 5 | [`launch`] | the ordered steps |
//! | 5 | [`explain`] | what a module was denied: `--explain-denials` |
//! | 5 | [`surface`] | the system calls of each step, and of the other commands |
//! | 6 | [`supervise`] | the parent: spawn, verification, cgroup, `sandbox-run` |
//! | 7 | [`check`], [`report`] | `sandbox-check`: what a launch would do; `sandbox-report`: what is enforced |
//! | 7 | [`audit`] | `sandbox-audit`: the system call surface, from the tables |
//! | 8 | [`cli`] | arguments, usage, dispatch |
//!
//! Deciding functions are pure and take the ABI, the architecture and the mode as values; effects sit in
//! small `apply` functions and in `launch`.
//!
//! # As a library
//!
//! What an agent needs is at the top; the modules are open to the binary, the tests and the fuzz targets, and
//! change without notice. An agent that starts modules from `std`, some through [`Module::start`], which verifies
//! them before they run, some through its own `Command`:
//!
//! ```no_run
//! use std::ffi::CString;
//! use std::os::unix::process::CommandExt;
//! use std::sync::Mutex;
//!
//! use oarbank_agent::{Cgroup, Command, Limits, Memory, Module, Pointer, Room, Sandbox, Vector};
//!
//! // Two megabytes, for reading policies: a static, not the stack.
//! static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());
//!
//! fn main() -> Result<(), String> {
//!     // Made ready once; its descriptors are close-on-exec.
//!     let policy = br#"{"rw": ["/var/tmp"]}"#;
//!     let sandbox = {
//!         let mut memory = MEMORY.lock().map_err(|_| "a thread has panicked")?;
//!         Sandbox::parse(policy, &mut memory).map_err(|error| error.to_string())?
//!     };
//!
//!     // A container with limits, where this process's cgroup is delegated to it.
//!     let cgroup = Cgroup::of_this_process().map_err(|error| error.to_string())?;
//!     let limits = Limits { pids: Some(64), ..Limits::default() };
//!     let leaf = cgroup.leaf(&limits).map_err(|error| error.to_string())?;
//!
//!     // Confined, verified, and only then let into its exec.
//!     let argv = [c"/bin/sh", c"-c", c"echo confined"];
//!     let (mut pointers, mut none) = ([Pointer::NULL; 4], [Pointer::NULL; 1]);
//!     let command = Command {
//!         program: argv[0],
//!         argv: Vector::of(&argv, &mut pointers).ok_or("no room")?,
//!         environment: Vector::of(&[], &mut none).ok_or("no room")?,
//!         standard: [0, 1, 2],
//!         leaf: Some(&leaf),
//!     };
//!     let mut room = Room::new();
//!     let module = Module::start(&sandbox, command, &mut room).map_err(|error| error.to_string())?;
//!     let end = module.wait().map_err(|error| error.to_string())?;
//!     println!("{end:?}, {:?}", leaf.usage());
//!     // Whatever it left behind.
//!     leaf.kill().map_err(|error| error.to_string())?;
//!     leaf.remove().map_err(|error| error.to_string())?;
//!
//!     // The same confinement in a process that `std` makes.
//!     let mut command = std::process::Command::new("/bin/true");
//!     let enter = move || {
//!         let entered = sandbox.enter_keeping(&[]);
//!         entered.map_err(|error| std::io::Error::from_raw_os_error(error.raw_os_error()))
//!     };
//!     // SAFETY: `enter_keeping` makes system calls and nothing else.
//!     unsafe { command.pre_exec(enter) };
//!     let child = command.spawn().map_err(|error| error.to_string())?;
//!     let confinement = oarbank_agent::confinement(child.id() as i32);
//!     println!("{:?}", confinement.map(|confinement| confinement.holds()));
//!     Ok(())
//! }
//! ```

#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

#[doc(hidden)]
pub mod sys;

#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod lines;
#[doc(hidden)]
pub mod near;

#[doc(hidden)]
pub mod bpf;
#[doc(hidden)]
pub mod output;

#[doc(hidden)]
pub mod policy;
#[doc(hidden)]
pub mod seccomp;

#[doc(hidden)]
pub mod capabilities;
#[doc(hidden)]
pub mod descriptors;
#[doc(hidden)]
pub mod landlock;

#[doc(hidden)]
pub mod explain;
#[doc(hidden)]
pub mod launch;
#[doc(hidden)]
pub mod surface;

#[doc(hidden)]
pub mod supervise;

#[doc(hidden)]
pub mod audit;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod report;

#[doc(hidden)]
pub mod cli;

pub use error::{Cause, Error, Exit, Step, Subject};
pub use launch::{Memory, Sandbox};
pub use report::capability::{CAPABILITIES, Capability, Status};
pub use report::{Reason, Report, probe};
pub use supervise::cgroup::{Base as Cgroup, CPU_PERIOD, Leaf, Limits, Usage};
pub use supervise::module::{Command, Module, Room};
pub use supervise::verify::{Confinement, confinement};
pub use sys::Errno;
pub use sys::args::{Pointer, Vector};
pub use sys::spawn::End;
