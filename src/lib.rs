//! The launcher's library: everything but start-up code, which belongs to the binary (`main.rs`, `rt.rs`).
//!
//! `no_std`, no allocator, no libc. The library is layered; a module uses lower layers or its own folder
//! only, and `tests/layers.rs` holds every `use crate::` line against the order of this list.
//!
//! | layer | module | what an auditor finds there |
//! |---|---|---|
//! | 0 | [`sys`] | the only unsafe code of the library: typed system calls |
//! | 1 | [`error`], [`limits`] | the one error shape with its exit codes and the errno names, the limits |
//! | 2 | [`output`] | standard output and JSON |
//! | 2 | [`bpf`] | classic BPF: instructions, assembler |
//! | 3 | [`policy`] | the JSON text, the checked policy, the base system table |
//! | 3 | [`seccomp`] | the table of calls, sockets, clone, the filter |
//! | 4 | [`landlock`] | rights by ABI, policy and ABI to rules, paths below writable roots |
//! | 4 | [`descriptors`], [`capabilities`] | what is inherited, what root loses |
//! | 5 | [`launch`] | the ordered steps |
//! | 6 | [`supervise`] | the parent: spawn, verification, cgroup, `sandbox-run` |
//! | 7 | [`check`], [`report`] | `sandbox-check`: what a launch would do; `sandbox-report`: what is enforced |
//! | 8 | [`cli`] | arguments, usage, dispatch |
//!
//! Deciding functions are pure and take the ABI, the architecture and the mode as values; effects sit in
//! small `apply` functions and in `launch`.

#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod sys;

pub mod error;
pub mod limits;

pub mod bpf;
pub mod output;

pub mod policy;
pub mod seccomp;

pub mod capabilities;
pub mod descriptors;
pub mod landlock;

pub mod launch;

pub mod supervise;

pub mod check;
pub mod report;

pub mod cli;
