//! The parent: a module's process, seen to be confined before it runs, in a container that ends as a whole.
//!
//! Read [`run`] first (who watches whom), then [`spawn`] (the fork, the verification, the exec), [`container`] and
//! [`cgroup`] (what is killed, frozen and limited together), [`verify`], and [`event`] (what is told).

pub mod cgroup;
pub mod container;
pub mod event;
pub mod module;
pub mod run;
pub mod spawn;
pub mod verify;
