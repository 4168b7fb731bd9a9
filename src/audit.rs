//! `sandbox-audit`: the exact system call surface, of the launcher and of a module.
//!
//! Everything is printed from the tables that the launch itself uses: [`surface`], the tables of [`seccomp`](crate::seccomp)
//! and the program that the kernel gets.

use core::fmt::{self, Display, Formatter};

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::bpf::{Instruction, Listing};
use crate::error::Error;
use crate::output::{Output, Piece, Shown};
use crate::seccomp::arguments::refused_commands;
use crate::seccomp::call::{Answer, Call, Group, NUMBERS, Verdict};
use crate::seccomp::filter::{TABLES, calls, find, in_mode, program};
use crate::seccomp::{Architecture, Mode};
use crate::surface::{self, Own, Row};

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For reading.
    Text,
    /// One JSON object.
    Json,
    /// The filter's program: an array of `struct sock_filter` in native byte order.
    Bpf,
}

const NATIVE: Architecture = Architecture::NATIVE;

/// What the filter answers to what is in no table.
const UNKNOWN: [(&str, &str); 3] = [
    ("other numbers", "ENOSYS"),
    ("x32 numbers (from 0x40000000)", "EPERM"),
    ("other architectures (int 0x80)", "the process is killed"),
];

/// Prints the surface in a mode. An error: it could not be written.
pub fn print(mode: Mode, format: Format, room: &mut Piece) -> Result<(), Error<'static>> {
    let mut output = Output::new();
    match format {
        Format::Text => text(&mut output, mode),
        Format::Json => json(&mut output, mode, room),
        Format::Bpf => bpf(&mut output, program(mode)),
    }
    output.finish()
}

/// The instructions as the kernel reads them (`struct sock_filter` of `include/uapi/linux/filter.h`).
fn bpf(output: &mut Output, program: &[Instruction]) {
    for &Instruction { code, jt, jf, k } in program {
        output.bytes(&code.to_ne_bytes());
        output.bytes(&[jt, jf]);
        output.bytes(&k.to_ne_bytes());
    }
}

/// The name of a number on this architecture.
fn name(number: u32) -> Option<&'static str> {
    find(NATIVE, number as usize).map(|(_, call)| call.name)
}

/// The number of one of the launcher's own calls.
fn number(own: &Own) -> Option<usize> {
    calls()
        .find(|call| call.name == own.name)
        .and_then(|call| call.number(NATIVE))
}

const fn errno(answer: Answer) -> &'static str {
    match answer {
        Answer::Eperm => "EPERM",
        Answer::Enosys => "ENOSYS",
        Answer::Eacces => "EACCES",
    }
}

fn text(output: &mut Output, mode: Mode) {
    let Mode {
        tcp,
        broker,
        exec_rw,
    } = mode;
    let architecture = NATIVE.name();
    output.text(format_args!(
        "architecture: {architecture}\nmode: tcp {tcp}, broker {broker}, exec_rw {exec_rw}\n"
    ));
    output.bytes(b"\nThe launcher's own system calls (sandbox-exec), in order\n");
    for (step, row) in (1..).zip(&surface::LAUNCH) {
        output.text(format_args!("\n{step}. {}: {}\n", row.name, row.why));
        own_calls(output, row);
    }
    let failure = &surface::FAILURE;
    output.text(format_args!("\n{}: {}\n", failure.name, failure.why));
    own_calls(output, failure);
    output.bytes(b"\nWhat the other commands make besides\n");
    for row in surface::OTHERS {
        output.text(format_args!("\n{}: {}\n", row.name, row.why));
        own_calls(output, row);
    }
    output.bytes(b"\nThe module's system calls\n");
    for group in TABLES.into_iter().flatten() {
        output.text(format_args!("\n{}: {}\n", group.name, group.reason));
        for call in group.calls {
            if let Some(number) = call.number(NATIVE) {
                let verdict = Plain(in_mode(call.verdict, mode));
                output.text(format_args!("  {number:>3} {:<24}{verdict}", call.name));
                if !call.reason.is_empty() {
                    output.text(format_args!(": {}", call.reason));
                }
                output.bytes(b"\n");
                let (commands, types) = refused_commands(call);
                for (command, reason) in commands {
                    output.text(format_args!("        not {command:#010x}: {reason}\n"));
                }
                for (kind, reason) in types {
                    output.text(format_args!("        not type {kind:#04x}: {reason}\n"));
                }
            }
        }
    }
    output.bytes(b"\nwhat is in no table\n");
    for (what, answer) in UNKNOWN {
        output.text(format_args!("  {what}: {answer}\n"));
    }
    let program = program(mode);
    let count = program.len();
    output.text(format_args!("\nThe filter, {count} instructions\n\n"));
    for line in Listing::new(program, &name).lines() {
        output.text(format_args!("{line}\n"));
    }
}

fn own_calls(output: &mut Output, row: &Row) {
    for own in row.calls {
        let (name, once) = (own.name, if own.once { " once" } else { "" });
        match number(own) {
            Some(number) => output.text(format_args!("  {number:>3} {name}{once}")),
            None => output.text(format_args!("    - {name}{once}")),
        }
        for (index, with) in own.with.iter().enumerate() {
            let before = if index == 0 { ": " } else { ", " };
            output.text(format_args!("{before}{with}"));
        }
        output.bytes(b"\n");
    }
}

/// A verdict for reading.
struct Plain(Verdict);

impl Display for Plain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Verdict::Allow => "allowed",
            Verdict::Refuse(answer) => errno(answer),
            Verdict::Decide(_) => "by arguments",
        })
    }
}

/// One member after the other: the whole is larger than any room for it.
fn json(output: &mut Output, mode: Mode, room: &mut Piece) {
    let program = program(mode);
    let listing = Listing::new(program, &name);
    output.bytes(b"{\"architecture\":");
    output.json(&NATIVE.name(), room);
    output.bytes(b",\"mode\":");
    output.json(&Modes(mode), room);
    output.bytes(b",\"launcher\":");
    let steps = (1..).zip(&surface::LAUNCH);
    output.list(steps.map(|(step, row)| Step(Some(step), row)), room);
    output.bytes(b",\"failure\":");
    output.json(&Step(None, &surface::FAILURE), room);
    output.bytes(b",\"other_commands\":");
    output.list(surface::OTHERS.iter().map(|row| Step(None, row)), room);
    output.bytes(b",\"syscalls\":");
    let known = (0..NUMBERS).filter_map(|number| Some((number, find(NATIVE, number)?)));
    let syscalls = known.map(|(number, (group, call))| Syscall {
        number,
        group,
        call,
        verdict: in_mode(call.verdict, mode),
    });
    output.list(syscalls, room);
    output.bytes(b",\"unknown\":");
    output.json(&Unknown, room);
    output.text(format_args!(",\"instructions\":{}", program.len()));
    output.bytes(b",\"filter\":[");
    for (index, line) in listing.lines().enumerate() {
        output.bytes(if index == 0 { b"" } else { b"," });
        output.json(&Shown(&line), room);
    }
    output.bytes(b"]}\n");
}

struct Modes(Mode);

impl Serialize for Modes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Mode {
            tcp,
            broker,
            exec_rw,
        } = self.0;
        serializer.collect_map([("tcp", tcp), ("broker", broker), ("exec_rw", exec_rw)])
    }
}

/// A row of the launcher's own calls; the number, if it is a step.
struct Step(Option<u32>, &'static Row);

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Calls(&'static [Own]);
        impl Serialize for Calls {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(OwnCall))
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("step", &self.0)?;
        map.serialize_entry("name", self.1.name)?;
        map.serialize_entry("calls", &Calls(self.1.calls))?;
        map.serialize_entry("reason", self.1.why)?;
        map.end()
    }
}

struct OwnCall(&'static Own);

impl Serialize for OwnCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.0.name)?;
        map.serialize_entry("number", &number(self.0))?;
        map.serialize_entry("with", self.0.with)?;
        map.serialize_entry("once", &self.0.once)?;
        map.end()
    }
}

struct Syscall {
    number: usize,
    group: &'static Group,
    call: &'static Call,
    verdict: Verdict,
}

impl Serialize for Syscall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reason = self.group.reason_for(self.call);
        let (verdict, errno, allows) = match self.verdict {
            Verdict::Allow => ("allowed", None, None),
            Verdict::Refuse(answer) => ("refused", Some(errno(answer)), None),
            Verdict::Decide(_) => ("by arguments", None, Some(reason)),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.call.name)?;
        map.serialize_entry("number", &self.number)?;
        map.serialize_entry("verdict", verdict)?;
        map.serialize_entry("errno", &errno)?;
        map.serialize_entry("allows", &allows)?;
        map.serialize_entry("group", self.group.name)?;
        map.serialize_entry("reason", allows.map_or(reason, |_| self.group.reason))?;
        let (commands, types) = refused_commands(self.call);
        if !commands.is_empty() {
            map.serialize_entry("refused_commands", commands)?;
            map.serialize_entry("refused_types", types)?;
        }
        map.end()
    }
}

struct Unknown;

impl Serialize for Unknown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(UNKNOWN)
    }
}
