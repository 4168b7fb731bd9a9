//! What the fuzz targets check, so that the replay of the corpus (`tests/replay.rs`) checks the same.
//!
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz policy -- -dict=tests/fuzz/policy.dict` (from the repository's
//! root) looks for more; `cargo test` in this folder replays what is kept.

// The minimum version of the package itself lacks what clippy would have there.
#[allow(clippy::manual_is_multiple_of)]
#[path = "../../interpreter/mod.rs"]
mod interpreter;
mod judge;
pub mod policy;
pub mod ruleset;
