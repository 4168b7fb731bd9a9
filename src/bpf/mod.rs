//! Classic BPF as seccomp runs it (`Documentation/userspace-api/seccomp_filter.rst`, `bpf(4)` of the BSDs).

pub mod assembler;
pub mod instruction;
pub mod listing;
pub mod run;

pub use assembler::{Assembler, Label};
pub use instruction::Instruction;
pub use listing::Listing;
pub use run::run;
