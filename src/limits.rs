//! The limits, in one place. Each is documented in the README and refuses clearly.

/// The largest policy file, in bytes.
pub const POLICY_BYTES: usize = 1 << 20;

/// The most paths in `ro`, `rw`, `rd` and `wo` together.
pub const PATHS: usize = 1024;

/// The most levels of arrays and objects inside a policy, its own object included.
pub const NESTING: usize = 64;

/// The longest path in bytes, its NUL included (`PATH_MAX` of `linux/limits.h`).
pub const PATH_MAX: usize = 4096;

/// The most symbolic links followed for one path (`MAXSYMLINKS` of the kernel's `namei.h`).
pub const SYMLINKS: usize = 40;
