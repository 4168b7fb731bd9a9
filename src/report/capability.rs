//! What is promised, and from which Landlock ABI: the table.

use super::Reason;
use super::probes::{self, Scene, Tried};

/// What is said of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was tried, and held.
    Enforced,
    /// It can't be enforced here.
    Unavailable,
    /// It is not promised anywhere.
    NotPromised,
}

impl Status {
    /// The word in reports, which agents read.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Enforced => "enforced",
            Status::Unavailable => "unavailable",
            Status::NotPromised => "not promised",
        }
    }
}

/// Tries something in a confined child.
pub(super) type Probe = fn(&mut Scene<'_>) -> Tried;

/// A line of the table.
pub struct Capability {
    /// The name, which agents read.
    pub name: &'static str,
    /// The first Landlock ABI with it.
    pub since: u32,
    /// How it is tried; `None`: it is not to be had.
    pub(super) probe: Option<Probe>,
    /// What it is, or why it is not to be had.
    pub what: &'static str,
}

impl Capability {
    /// The status of what no kernel enforces.
    pub(super) fn unconditional(&self) -> (Status, Reason) {
        let status = if self.name == HIDE_EXISTENCE {
            Status::NotPromised
        } else {
            Status::Unavailable
        };
        (status, Reason::try_from(self.what).unwrap_or_default())
    }
}

/// The capability without which there is no backend.
pub const FILESYSTEM: &str = "filesystem";
/// The one that is not promised.
const HIDE_EXISTENCE: &str = "hide_existence";

/// How many there are.
pub const COUNT: usize = 13;

/// All, in the order of the report.
pub const CAPABILITIES: [Capability; COUNT] = [
    tried(
        FILESYSTEM,
        3,
        probes::filesystem,
        "files outside the grants can't be opened",
    ),
    tried("net.none", 3, probes::net_none, "no IPv4 and IPv6 sockets"),
    tried(
        "exec_writable_deny",
        3,
        probes::exec_writable_deny,
        "written files can't be executed",
    ),
    tried(
        "gpu.compute",
        3,
        probes::gpu_compute,
        "device nodes can be used, with device ioctl where that is handled",
    ),
    tried(
        "folders.read",
        3,
        probes::folders_read,
        "input folders: read, no write, no execute",
    ),
    tried(
        "folders.write",
        3,
        probes::folders_write,
        "outboxes: make and write, no read, no removal",
    ),
    tried(
        "endpoints",
        3,
        probes::endpoints,
        "inherited channels that are named, and no others",
    ),
    tried(
        "net.egress-allowlist",
        4,
        probes::net_egress_allowlist,
        "TCP to the proxy's port alone",
    ),
    tried(
        "no_loopback",
        4,
        probes::no_loopback,
        "no connection to other loopback ports",
    ),
    tried(
        "no_link_local",
        4,
        probes::no_link_local,
        "no connection to link-local addresses",
    ),
    tried(
        "ipc",
        6,
        probes::ipc,
        "no signals, abstract unix sockets or unix sockets to the outside",
    ),
    never(
        "net.egress-any",
        "Landlock filters ports, not addresses, so loopback and link-local can't be refused",
    ),
    never(HIDE_EXISTENCE, "Landlock does not restrict stat"),
];

const fn tried(name: &'static str, since: u32, probe: Probe, what: &'static str) -> Capability {
    Capability {
        name,
        since,
        probe: Some(probe),
        what,
    }
}

const fn never(name: &'static str, why: &'static str) -> Capability {
    Capability {
        name,
        since: u32::MAX,
        probe: None,
        what: why,
    }
}
