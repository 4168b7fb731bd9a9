//! The entry of `oarbank-agent`: hands what the kernel gave to the library.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod rt;

use oarbank_agent::supervise::run::Memory;
use oarbank_agent::sys::args::Vector;

/// Called once, by `rt`.
fn main(
    arguments: Vector<'static>,
    environment: Vector<'static>,
    memory: &'static mut Memory,
) -> ! {
    oarbank_agent::cli::run(arguments, environment, memory)
}
