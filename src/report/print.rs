//! A report, as text or as JSON.

use linux_raw_sys::ptrace::{
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
    SECCOMP_RET_LOG, SECCOMP_RET_TRACE, SECCOMP_RET_TRAP, SECCOMP_RET_USER_NOTIF,
};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::capability::{CAPABILITIES, Status};
use super::{Reason, Report, probes};
use crate::error::Error;
use crate::output::{Output, Piece, Text};
use crate::seccomp::Architecture;
use crate::supervise::cgroup::{Base, Limits};
use crate::sys;

/// What a filter may return, by the names of `/proc/sys/kernel/seccomp/actions_avail`.
const ACTIONS: [(&str, u32); 8] = [
    ("kill_process", SECCOMP_RET_KILL_PROCESS),
    ("kill_thread", SECCOMP_RET_KILL_THREAD),
    ("trap", SECCOMP_RET_TRAP),
    ("errno", SECCOMP_RET_ERRNO),
    ("user_notif", SECCOMP_RET_USER_NOTIF),
    ("trace", SECCOMP_RET_TRACE),
    ("log", SECCOMP_RET_LOG),
    ("allow", SECCOMP_RET_ALLOW),
];

/// The actions that this kernel has.
fn actions() -> impl Iterator<Item = &'static str> {
    ACTIONS
        .into_iter()
        .filter(|&(_, action)| sys::seccomp::may_answer(action) == Ok(true))
        .map(|(name, _)| name)
}

/// What modules could be limited by.
struct Cgroup {
    /// Whether a leaf can be made; if not, why.
    undelegated: Option<Reason>,
    controllers: [u8; 256],
    length: usize,
}

impl Cgroup {
    fn probe() -> Self {
        let mut controllers = [0; 256];
        let mut length = 0;
        let made = Base::of_this_process()
            .map_err(|error| probes::reason(&error))
            .and_then(|base| {
                length = base
                    .controllers(&mut controllers)
                    .map_err(|error| probes::reason(&error))?
                    .len();
                let leaf = base
                    .leaf(&Limits::default())
                    .map_err(|error| probes::reason(&error))?;
                leaf.remove().map_err(|error| probes::reason(&error))
            });
        Cgroup {
            undelegated: made.err(),
            controllers,
            length,
        }
    }

    fn controllers(&self) -> impl Iterator<Item = Text<'_>> {
        self.controllers
            .get(..self.length)
            .unwrap_or_default()
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .map(Text)
    }
}

/// Prints a report. An error: it could not be written.
pub fn print(report: &Report, json: bool, room: &mut Piece) -> Result<(), Error<'static>> {
    let mut output = Output::new();
    let cgroup = Cgroup::probe();
    let architecture = Architecture::NATIVE.name();
    let errata = sys::landlock::errata().ok();
    if json {
        output.json(
            &Object {
                report,
                architecture,
                errata,
                cgroup,
            },
            room,
        );
        output.bytes(b"\n");
    } else {
        text(&mut output, report, architecture, errata, &cgroup);
    }
    output.finish()
}

fn text(
    output: &mut Output,
    report: &Report,
    architecture: &str,
    errata: Option<u32>,
    cgroup: &Cgroup,
) {
    match &report.no_backend {
        None => output.bytes(b"backend: landlock\n"),
        Some(reason) => output.text(format_args!("backend: none ({reason})\n")),
    }
    match report.landlock_abi {
        Some(abi) => output.text(format_args!("landlock abi: {abi}\n")),
        None => output.bytes(b"landlock abi: none\n"),
    }
    for (capability, (status, reason)) in CAPABILITIES.iter().zip(&report.statuses) {
        let (name, status) = (capability.name, status.name());
        output.text(format_args!("  {name:<21} {status}"));
        if !reason.is_empty() {
            output.text(format_args!(" ({reason})"));
        }
        output.bytes(b"\n");
    }
    sys::process::with_kernel_release(|release| {
        let release = Text(release.to_bytes());
        output.text(format_args!("kernel: {release} {architecture}\n"));
    });
    match errata {
        Some(errata) => output.text(format_args!("landlock errata: {errata:#x}\n")),
        None => output.bytes(b"landlock errata: not told by this kernel\n"),
    }
    output.bytes(b"seccomp actions:");
    actions().for_each(|action| output.text(format_args!(" {action}")));
    output.bytes(b"\ncgroup: ");
    match &cgroup.undelegated {
        None => output.bytes(b"delegated; controllers:"),
        Some(reason) => output.text(format_args!("not delegated ({reason}); controllers:")),
    }
    if cgroup.length == 0 {
        output.bytes(b" none");
    }
    for controller in cgroup.controllers() {
        output.text(format_args!(" {controller}"));
    }
    output.bytes(b"\n");
}

/// The report as one object.
struct Object<'a> {
    report: &'a Report,
    architecture: &'static str,
    errata: Option<u32>,
    cgroup: Cgroup,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report {
            landlock_abi,
            no_backend,
            ..
        } = self.report;
        let mut map = serializer.serialize_map(None)?;
        let backend = no_backend.is_none().then_some("landlock");
        map.serialize_entry("backend", &backend)?;
        map.serialize_entry("landlock_abi", landlock_abi)?;
        map.serialize_entry("enforcement", &Enforcement(self.report))?;
        map.serialize_entry("reasons", &Reasons(self.report))?;
        map.serialize_entry("no_backend", &no_backend.as_ref().map(Reason::as_str))?;
        sys::process::with_kernel_release(|release| {
            map.serialize_entry("kernel", &Text(release.to_bytes()))
        })?;
        map.serialize_entry("architecture", self.architecture)?;
        map.serialize_entry("landlock_errata", &self.errata)?;
        map.serialize_entry("seccomp_actions", &Actions)?;
        map.serialize_entry("cgroup", &self.cgroup)?;
        map.end()
    }
}

struct Enforcement<'a>(&'a Report);

impl Serialize for Enforcement<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let statuses = self.0.statuses.iter().map(|(status, _)| status.name());
        serializer.collect_map(CAPABILITIES.iter().map(|row| row.name).zip(statuses))
    }
}

/// Why what is not enforced is not.
struct Reasons<'a>(&'a Report);

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reasons = self.0.statuses.iter();
        let rows = CAPABILITIES
            .iter()
            .zip(reasons)
            .filter(|(_, (status, _))| *status != Status::Enforced);
        serializer.collect_map(rows.map(|(row, (_, reason))| (row.name, reason.as_str())))
    }
}

struct Actions;

impl Serialize for Actions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        actions().try_for_each(|action| list.serialize_element(action))?;
        list.end()
    }
}

impl Serialize for Cgroup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Controllers<'a>(&'a Cgroup);
        impl Serialize for Controllers<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.controllers())
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("delegated", &self.undelegated.is_none())?;
        map.serialize_entry("controllers", &Controllers(self))?;
        map.serialize_entry("reason", &self.undelegated.as_ref().map(Reason::as_str))?;
        map.end()
    }
}
