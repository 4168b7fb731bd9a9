//! What runs where.

use std::collections::BTreeSet;

use crate::guest::System;

/// What runs under a Landlock that launches nothing.
pub(crate) const REFUSED: &[&str] = &["kernel"];

/// What runs where something is launched: all of the sandbox, and what needs the controllers of cgroup v2.
pub(crate) const ALL: &[&str] = &[
    "kernel",
    "check",
    "filter_kernel",
    "grants",
    "escapes",
    "launch",
    "limits",
    "records",
];

/// Of these what an ABI of Landlock makes a difference for.
pub(crate) const LANDLOCK: &[&str] = &["check", "grants", "escapes", "launch"];

/// What runs on one kernel: the parent's work, most of which is waiting.
pub(crate) const ONCE: &[&str] = &["run"];

/// What runs where the kernel's audit is on.
pub(crate) const AUDITED: &[&str] = &["explain", "records"];

/// What runs under systemd.
pub(crate) const SYSTEMD: &[&str] = &["systemd"];

/// What is built for a guest: all of it on one architecture, and on the other what runs there.
pub(crate) fn built(system: System) -> BTreeSet<&'static str> {
    let lists = match system {
        System::Arm64 => [ALL, AUDITED, &[], &[]],
        System::Amd64 | System::Systemd => [ALL, AUDITED, ONCE, SYSTEMD],
    };
    lists.into_iter().flatten().copied().collect()
}

/// Tests that take more than a thousand launches, too many for an emulator. Those of links are about the launcher's own
/// reading of names; what it asks of the kernel is in the other tests on links too.
pub(crate) const LEFT_OUT: &[&str] = &[
    "a_writable_root_is_recognised_by_any_of_its_names",
    "a_link_out_of_a_writable_root_is_refused",
    "a_link_that_stays_below_its_writable_root_is_followed",
    "a_thousand_runs_and_fifty_at_once_leave_nothing",
];

/// Tests that see the supervisor of another ABI instead: its filter in a status, and what strace can't change under it.
pub(crate) const SEE_SUPERVISOR: &[&str] = &[
    "the_status_shows_what_the_parent_verifies",
    "a_panic_ends_in_70",
];
