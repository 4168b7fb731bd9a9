//! `sandbox-report`: what is enforced here, probed now.
//!
//! [`capability`] is the table of what is promised from which Landlock ABI, `probes` tries each of them in a confined
//! child. Nothing is called enforced that was not seen to be refused, and where it is a grant, granted.

#![expect(
    clippy::result_large_err,
    reason = "a reason is text, and there is no allocator"
)]

pub mod capability;
mod print;
mod probes;

use heapless::String;
use linux_raw_sys::ptrace::SECCOMP_RET_ERRNO;

use crate::landlock::abi;
use crate::launch::Memory;
use crate::sys;
use capability::{CAPABILITIES, COUNT, Status};

pub use print::print;

/// A reason, in words; what does not fit is cut.
pub type Reason = String<REASON>;

/// The most bytes of a reason.
const REASON: usize = 240;

/// What was probed.
pub struct Report {
    /// The Landlock ABI that the kernel answers, if it has one.
    pub landlock_abi: Option<u32>,
    /// Why there is no backend. `None`: there is one.
    pub no_backend: Option<Reason>,
    /// The status of each of [`CAPABILITIES`], with the reason where it is not enforced.
    pub statuses: [(Status, Reason); COUNT],
}

/// Probes this kernel, from this process: the children and the directory that this takes are gone afterwards.
pub fn probe(memory: &mut Memory) -> Report {
    let backend = abi::probe()
        .map_err(|error| probes::reason(&error))
        .and_then(|abi| {
            let filters = sys::seccomp::may_answer(SECCOMP_RET_ERRNO);
            if filters == Ok(true) {
                Ok(abi)
            } else {
                Err(Reason::try_from(NO_FILTERS).unwrap_or_default())
            }
        });
    let mut report = Report {
        landlock_abi: sys::landlock::abi_version().ok(),
        no_backend: backend.as_ref().err().cloned(),
        statuses: core::array::from_fn(|_| (Status::Unavailable, Reason::new())),
    };
    for (capability, status) in CAPABILITIES.iter().zip(&mut report.statuses) {
        *status = match (&backend, &report.no_backend) {
            (Ok(abi), None) => probes::Scene::new(memory, *abi).status(capability),
            (_, Some(reason)) if capability.probe.is_some() => {
                (Status::Unavailable, reason.clone())
            }
            _ => capability.unconditional(),
        };
        // Without confined files there is no sandbox.
        if capability.name == capability::FILESYSTEM && status.0 != Status::Enforced {
            report.no_backend.get_or_insert_with(|| status.1.clone());
        }
    }
    report
}

const NO_FILTERS: &str = "this kernel has no seccomp filters";
