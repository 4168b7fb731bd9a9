//! Landlock: rights by ABI ([`abi`], [`access`]), the rules of a policy ([`ruleset`]), and the paths that
//! need care because a module may have changed what they mean ([`resolve`]).

pub mod abi;
pub mod access;
pub mod resolve;
pub mod ruleset;
