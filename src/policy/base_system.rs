//! What every module may use of the host: the table.

use core::ffi::CStr;

/// Read and execute. What does not exist on a host is skipped.
pub const SYSTEM: [&CStr; 10] = [
    c"/usr",
    c"/lib",
    c"/lib32",
    c"/lib64",
    c"/bin",
    c"/sbin",
    c"/etc",
    c"/opt",
    c"/proc",
    c"/sys/devices/system/cpu",
];

/// Those of [`SYSTEM`] that are usually links into [`MERGED_INTO`] (a merged `/usr`, `file-hierarchy(7)`).
pub const MERGED: [&CStr; 5] = [c"/lib", c"/lib32", c"/lib64", c"/bin", c"/sbin"];

/// Where a merged `/usr` has its directories.
pub const MERGED_INTO: &CStr = c"/usr";

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
