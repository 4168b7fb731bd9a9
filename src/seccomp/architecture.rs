//! The architectures that the table has numbers for.

use linux_raw_sys::ptrace::{AUDIT_ARCH_AARCH64, AUDIT_ARCH_RISCV64, AUDIT_ARCH_X86_64};

/// How many architectures there are.
pub const ARCHITECTURES: usize = 3;

/// An architecture; its value is its column in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86_64.
    X86_64 = 0,
    /// 64-bit ARM.
    Aarch64 = 1,
    /// 64-bit RISC-V.
    Riscv64 = 2,
}

impl Architecture {
    /// Every architecture, in the order of the table's columns.
    pub const ALL: [Architecture; ARCHITECTURES] = [
        Architecture::X86_64,
        Architecture::Aarch64,
        Architecture::Riscv64,
    ];

    /// The one that this file is compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Architecture = Architecture::X86_64;
    /// The one that this file is compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Architecture = Architecture::Aarch64;
    /// The one that this file is compiled for.
    #[cfg(target_arch = "riscv64")]
    pub const NATIVE: Architecture = Architecture::Riscv64;

    /// The name (`uname -m`).
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            Architecture::Riscv64 => "riscv64",
        }
    }

    /// The `arch` of its `seccomp_data` (`include/uapi/linux/audit.h`).
    pub const fn audit_arch(self) -> u32 {
        match self {
            Architecture::X86_64 => AUDIT_ARCH_X86_64,
            Architecture::Aarch64 => AUDIT_ARCH_AARCH64,
            Architecture::Riscv64 => AUDIT_ARCH_RISCV64,
        }
    }

    /// The bit that marks another call table under the same `arch`: x32 (`__X32_SYSCALL_BIT`).
    pub const fn other_table(self) -> Option<u32> {
        match self {
            Architecture::X86_64 => Some(0x4000_0000),
            Architecture::Aarch64 | Architecture::Riscv64 => None,
        }
    }
}
