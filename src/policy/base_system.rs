//! What every module may use of the host: the table.

use core::ffi::CStr;

/// What a merged `/usr` makes of a directory (`file-hierarchy(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Nothing.
    None,
    /// The others are merged into it.
    Target,
    /// It is usually a link to a directory in the target.
    Link,
}

/// Read and execute. What does not exist on a host is skipped.
pub const SYSTEM: [(&CStr, Merge); 10] = [
    (c"/usr", Merge::Target),
    (c"/lib", Merge::Link),
    (c"/lib32", Merge::Link),
    (c"/lib64", Merge::Link),
    (c"/bin", Merge::Link),
    (c"/sbin", Merge::Link),
    (c"/etc", Merge::None),
    (c"/opt", Merge::None),
    (c"/proc", Merge::None),
    (c"/sys/devices/system/cpu", Merge::None),
];

/// Read and write. What does not exist on a host is skipped.
pub const DEVICES: [&CStr; 5] = [
    c"/dev/null",
    c"/dev/zero",
    c"/dev/random",
    c"/dev/urandom",
    c"/dev/full",
];

/// With `gpu`: read, write and control, and every node of [`GPU_DIRECTORY`] whose name starts with [`GPU_PREFIX`].
pub const GPU_NODES: [&CStr; 2] = [c"/dev/dri", c"/dev/kfd"];

/// Where the nodes with the prefix are.
pub const GPU_DIRECTORY: &CStr = c"/dev";

/// `/dev/nvidia0`, `/dev/nvidiactl`, `/dev/nvidia-uvm`, `/dev/nvidia-caps` and whatever comes.
pub const GPU_PREFIX: &[u8] = b"nvidia";

/// With `gpu`: CUDA names its threads by writing `/proc/self/task/TID/comm`; without it cuInit fails (304).
pub const GPU_TASKS: &CStr = c"/proc/self/task";
