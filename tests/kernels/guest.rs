//! The kernels, and how one is booted.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a kernel has of Landlock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landlock {
    /// This version.
    Abi(u32),
    /// Asked for the version it answers with this error.
    None(&'static str),
}

impl Landlock {
    /// Whether anything is launched.
    pub(crate) fn suffices(self) -> bool {
        matches!(self, Self::Abi(3..))
    }
}

impl fmt::Display for Landlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abi(abi) => abi.fmt(out),
            Self::None(errno) => errno.fmt(out),
        }
    }
}

/// A kernel in the emulator.
pub(crate) struct Guest {
    /// How its version starts.
    pub(crate) version: &'static str,
    /// More of its command line.
    more: &'static str,
    pub(crate) landlock: Landlock,
}

const fn guest(version: &'static str, more: &'static str, landlock: Landlock) -> Guest {
    Guest {
        version,
        more,
        landlock,
    }
}

/// Oldest first. `fetch.sh` is told these versions. A later kernel is one more line.
pub(crate) const GUESTS: [Guest; 9] = [
    guest("5.10", "", Landlock::None("ENOSYS")),
    guest("6.1", "", Landlock::Abi(2)),
    // Built in, but not among the modules that are turned on.
    guest("6.12", "lsm=lockdown,yama", Landlock::None("EOPNOTSUPP")),
    guest("6.12", "", Landlock::Abi(6)),
    guest("6.18", "", Landlock::Abi(7)),
    guest("7.0", "", Landlock::Abi(8)),
    guest("7.1", "", Landlock::Abi(9)),
    guest("7.2", "", Landlock::Abi(10)),
    guest("7.3", "", Landlock::Abi(11)),
];

impl fmt::Display for Guest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Linux {}", self.version)?;
        match self.more {
            "" => Ok(()),
            more => write!(out, " {more}"),
        }
    }
}

/// Time in the guest is counted in instructions, so the load of this machine does not show there, and sleeping takes none
/// here. A small machine without what no test needs boots in two seconds. Clearing memory byte by byte is slow in an emulator.
const MACHINE: &str = "-M pc,usb=off,smm=off,vmport=off -accel tcg,thread=single -icount shift=2,sleep=off -cpu max,-erms,-fsrm -smp 1 -m 768 \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot";

/// What is turned off only costs time: records of each denial, clearing of memory; and of the functions that are not called
/// at boot: certificates, random numbers of another kind, self tests.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 quiet loglevel=1 acpi=off audit=0 apparmor=0 init_on_alloc=0 cryptomgr.notests nokaslr mitigations=off initcall_blacklist=\
    load_system_certificate_list,jent_mod_init,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,crypto_kdf108_init";

impl Guest {
    /// Boots it with this file system and these suites, and returns what it printed and how it ended badly.
    pub(crate) fn boot(
        &self,
        cache: &Path,
        archive: &Path,
        suites: &[&str],
        left_out: &[&str],
        limit: u64,
    ) -> (String, Option<String>) {
        let root = cache.join("root");
        let file = |name: &str| root.join(name).into_os_string();
        let libraries = ["lib", "usr/lib"].map(|place| {
            let place = root.join(place).join("x86_64-linux-gnu");
            place.into_os_string().into_string().expect("text")
        });
        // The kernel makes what it does not know an environment variable of `/init`.
        let append = format!(
            "{COMMAND_LINE} {} OARBANK_EMULATED=1 \"OARBANK_SUITES={}\" \"OARBANK_LEFT_OUT={}\"",
            self.more,
            suites.join(" "),
            left_out.join(" ")
        );
        let output = Command::new("timeout")
            .args(["--signal=KILL", &limit.to_string()])
            .arg(file("lib64/ld-linux-x86-64.so.2"))
            .args(["--library-path", &libraries.join(":")])
            .arg(file("usr/bin/qemu-system-x86_64"))
            .args(["-L".into(), file("usr/share/qemu")])
            .args(["-L".into(), file("usr/share/seabios")])
            .args(MACHINE.split_whitespace())
            .arg("-kernel")
            .arg(cache.join("kernels").join(self.version).join("vmlinuz"))
            .arg("-initrd")
            .arg(archive)
            .args(["-append", &append])
            .env("QEMU_MODULE_DIR", file("usr/lib/x86_64-linux-gnu/qemu"))
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
