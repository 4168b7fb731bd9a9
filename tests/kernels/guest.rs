//! The kernels, and how one is booted.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::suites;

/// What a kernel has of Landlock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landlock {
    /// This version.
    Abi(u32),
    /// Asked for the version it answers with this error.
    None(&'static str),
}

impl fmt::Display for Landlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abi(abi) => abi.fmt(out),
            Self::None(errno) => errno.fmt(out),
        }
    }
}

/// What is in a guest's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// A static shell, on this architecture.
    Amd64,
    Arm64,
    /// Besides it systemd, which is the first process (amd64).
    Systemd,
}

impl System {
    /// The architecture, as Debian calls it.
    pub(crate) const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 | Self::Systemd => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A kernel in the emulator.
pub(crate) struct Guest {
    pub(crate) system: System,
    /// How its version starts.
    pub(crate) version: &'static str,
    /// More of its command line.
    more: &'static str,
    pub(crate) landlock: Landlock,
    pub(crate) suites: &'static [&'static str],
}

const fn guest(system: System, version: &'static str, landlock: Landlock) -> Guest {
    // Nothing is launched by less.
    let suites = match landlock {
        Landlock::Abi(3..) => suites::ALL,
        _ => suites::REFUSED,
    };
    Guest {
        system,
        version,
        more: "",
        landlock,
        suites,
    }
}

/// With the kernel's audit.
const fn audited(system: System, version: &'static str, landlock: Landlock) -> Guest {
    Guest {
        suites: suites::AUDITED,
        ..guest(system, version, landlock)
    }
}

/// The newest first: what takes longest begins first. `fetch.sh` is told these versions. A later kernel is one more line.
pub(crate) const GUESTS: [Guest; 16] = [
    Guest {
        suites: suites::ONCE,
        ..guest(System::Amd64, "7.3", Landlock::Abi(11))
    },
    guest(System::Amd64, "7.3", Landlock::Abi(11)),
    guest(System::Amd64, "7.2", Landlock::Abi(10)),
    guest(System::Amd64, "7.1", Landlock::Abi(9)),
    guest(System::Amd64, "7.0", Landlock::Abi(8)),
    guest(System::Amd64, "6.18", Landlock::Abi(7)),
    guest(System::Amd64, "6.12", Landlock::Abi(6)),
    guest(System::Arm64, "7.3", Landlock::Abi(11)),
    audited(System::Amd64, "7.3", Landlock::Abi(11)),
    audited(System::Amd64, "6.18", Landlock::Abi(7)),
    audited(System::Arm64, "7.3", Landlock::Abi(11)),
    Guest {
        suites: suites::SYSTEMD,
        ..guest(System::Systemd, "7.3", Landlock::Abi(11))
    },
    // Built in, but not among the modules that are turned on.
    Guest {
        more: "lsm=lockdown,yama",
        ..guest(System::Amd64, "6.12", Landlock::None("EOPNOTSUPP"))
    },
    guest(System::Amd64, "6.1", Landlock::Abi(2)),
    guest(System::Arm64, "6.1", Landlock::Abi(2)),
    guest(System::Amd64, "5.10", Landlock::None("ENOSYS")),
];

impl fmt::Display for Guest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = self.system.architecture();
        write!(out, "Linux {} {architecture}", self.version)?;
        if self.system == System::Systemd {
            write!(out, " systemd")?;
        }
        match self.suites {
            suites::ONCE => write!(out, " once")?,
            suites::AUDITED => write!(out, " audit")?,
            _ => {}
        }
        match self.more {
            "" => Ok(()),
            more => write!(out, " {more}"),
        }
    }
}

/// Time in the guest is counted in instructions, so the load of this machine does not show there, and sleeping takes none
/// here.
const CLOCK: &str = "-accel tcg,thread=single -icount shift=2,sleep=off -smp 1 -m 768 \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot";

/// A small machine without what no test needs boots in two seconds. Clearing memory byte by byte is slow in an emulator, and
/// so is what guards a kernel against its programs.
const AMD64: &str =
    "-M pc,usb=off,smm=off,vmport=off -cpu max,-erms,-fsrm,-la57,-smap,-smep,-umip,-pku";
const ARM64: &str = "-M virt -cpu cortex-a53";

/// What is turned off only costs time: records of each denial, clearing of memory; and of the functions that are not called
/// at boot: certificates, random numbers of another kind, self tests.
const COMMAND_LINE: &str = "panic=-1 quiet loglevel=1 acpi=off apparmor=0 init_on_alloc=0 cryptomgr.notests nokaslr mitigations=off initcall_blacklist=\
    load_system_certificate_list,jent_mod_init,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,crypto_kdf108_init";

impl Guest {
    /// Where its kernel is among the others.
    pub(crate) fn kernel(&self) -> String {
        format!("{}/{}", self.system.architecture(), self.version)
    }

    /// Boots it with this file system, and returns what it printed and how it ended badly.
    pub(crate) fn boot(
        &self,
        cache: &Path,
        archive: &Path,
        left_out: &[&str],
        limit: u64,
    ) -> (String, Option<String>) {
        let root = cache.join("emulator/usr");
        let file = |name: &str| root.join(name).into_os_string();
        let (emulator, machine, console) = match self.system {
            System::Amd64 | System::Systemd => ("bin/qemu-system-x86_64", AMD64, "ttyS0"),
            System::Arm64 => ("bin/qemu-system-aarch64", ARM64, "ttyAMA0"),
        };
        let init = match self.system {
            System::Systemd => {
                "rdinit=/usr/lib/systemd/systemd systemd.unit=suites.service systemd.show_status=false"
            }
            _ => "",
        };
        // Once off it stays so, whatever comes after.
        let audit = match self.suites {
            suites::AUDITED => "audit=1 OARBANK_AUDIT=on",
            _ => "audit=0",
        };
        // The kernel makes what it does not know an environment variable of the first process.
        let append = format!(
            "console={console} {COMMAND_LINE} {audit} {} {init} OARBANK_EMULATED=1 \"OARBANK_SUITES={}\" \"OARBANK_LEFT_OUT={}\"",
            self.more,
            self.suites.join(" "),
            left_out.join(" ")
        );
        let output = Command::new("timeout")
            .args(["--signal=KILL", &limit.to_string()])
            .arg(file("lib64/ld-linux-x86-64.so.2"))
            .arg("--library-path")
            .arg(file("lib/x86_64-linux-gnu"))
            .arg(file(emulator))
            .args(["-L".into(), file("share/qemu")])
            .args(["-L".into(), file("share/seabios")])
            .args(machine.split_whitespace())
            .args(CLOCK.split_whitespace())
            .arg("-kernel")
            .arg(cache.join("kernels").join(self.kernel()).join("vmlinuz"))
            .arg("-initrd")
            .arg(archive)
            .args(["-append", &append])
            .env("QEMU_MODULE_DIR", file("lib/x86_64-linux-gnu/qemu"))
            .stdin(Stdio::null())
            .output()
            .expect("timeout of coreutils");
        let failed = (!output.status.success()).then(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("the emulator: {} {errors}", output.status)
        });
        let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        (printed, failed)
    }
}
