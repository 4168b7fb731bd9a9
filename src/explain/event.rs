//! What is said: one line each, text or a JSON object.

use core::fmt::{self, Display, Formatter, Write};

use heapless::Vec;
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::call::Call;
use super::record::Denied;
use crate::error::Subject;
use crate::error::errno::describe;
use crate::output::{Shown, Text};
use crate::seccomp::arguments::{Refused, refused_commands};
use crate::seccomp::{Architecture, filter};

/// The most bytes of a line: a write to a pipe is then all or nothing (`PIPE_BUF`, `pipe(7)`).
pub const LINE: usize = 4096;

/// What is said. `id` numbers what was denied, from 1.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// A system call was refused, by the filter.
    Call {
        /// Its number here.
        id: u32,
        /// The process that made it first; null: it was killed, or is not to be seen from here.
        pid: Option<i32>,
        /// The process's name, which it gives itself.
        process: Option<Text<'a>>,
        /// The call.
        call: Shown<'a>,
        /// Its name; null: the filter does not know it.
        name: Option<&'static str>,
        /// Its number.
        number: i32,
        /// The address it was made from, in hexadecimal.
        address: Shown<'a>,
        /// What the module was answered.
        errno: &'static str,
        /// Why.
        reason: &'static str,
        /// The field of the policy that would allow it; null: none does.
        grant: Option<&'static str>,
    },
    /// An access was denied, by Landlock.
    Access {
        /// Its number here.
        id: u32,
        /// The rights and scopes that were missing, by the kernel's names.
        rights: &'a str,
        /// The file, or the directory for what is in it.
        path: Option<Text<'a>>,
        /// The port.
        port: Option<u16>,
        /// The other process.
        pid: Option<i32>,
        /// The fields of the policy each of which would grant it, on this path or for this port.
        grants: Fields<'a>,
    },
    /// Files and connections, which Landlock denies: whether that is seen here, where there is something to say of it.
    Files {
        /// Whether it may be.
        seen: bool,
        /// Why, or when.
        reason: Shown<'a>,
    },
    /// At the end: what was denied more than once.
    Again {
        /// Its number here.
        id: u32,
        /// How often in all.
        count: u64,
    },
    /// The last line.
    Summary {
        /// Refused calls in all.
        calls: u64,
        /// Denied accesses in all.
        accesses: u64,
        /// How many of both were of a kind that is not told: there was no room for more.
        untold: u64,
        /// Lines that could not be written.
        lost_lines: u64,
        /// How many denied accesses the kernel has counted and were not read; if its count did not come, how often it had
        /// records that were not read in time.
        lost_records: u64,
    },
}

/// Names of fields, as a list.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a Denied<'a>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for field in self.0.fields() {
            list.serialize_element(field)?;
        }
        list.end()
    }
}

/// What the module's author is told of a refused call: why, from the filter's table.
pub fn reason(call: &Call) -> &'static str {
    let Some((group, line)) = filter::find(Architecture::NATIVE, call.number as usize) else {
        return "this filter does not know the call";
    };
    let command = call.argument(1);
    let (commands, types) = refused_commands(line);
    let of = |list: Refused, number| list.iter().find(|(refused, _)| *refused == number);
    of(commands, command)
        .or(of(types, command >> 8 & 0xff))
        .map_or(group.reason_for(line), |(_, why)| why)
}

/// The name of an error that the filter answers.
pub fn errno_name(errno: i32) -> &'static str {
    describe(errno).map_or("?", |(name, _)| name)
}

/// A number in hexadecimal.
pub struct Hexadecimal(pub u64);

impl Display for Hexadecimal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Display for Event<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("oarbank-agent: denied: ")?;
        match *self {
            Event::Call {
                id,
                pid,
                process,
                call: Shown(call),
                errno,
                reason,
                grant,
                ..
            } => {
                write!(f, "{id}. {call}: {errno} ({reason}); ")?;
                match grant {
                    Some(field) => write!(f, "{field} would allow it")?,
                    None => f.write_str("no field allows it")?,
                }
                if let (Some(pid), Some(Text(name))) = (pid, process) {
                    write!(f, "; by {pid} {}", Subject::Text(name))?;
                }
                Ok(())
            }
            Event::Access {
                id,
                rights,
                path,
                port,
                pid,
                grants: Fields(denied),
            } => {
                write!(f, "{id}. {rights}")?;
                if let Some(Text(path)) = path {
                    write!(f, " on {}", Subject::Text(path))?;
                }
                if let Some(port) = port {
                    write!(f, " port {port}")?;
                }
                if let Some(pid) = pid {
                    write!(f, " on process {pid}")?;
                }
                let mut any = false;
                for field in denied.fields() {
                    f.write_str(if any { " or " } else { "; " })?;
                    f.write_str(field)?;
                    any = true;
                }
                f.write_str(if any {
                    " would grant it"
                } else {
                    "; no field grants it"
                })
            }
            Event::Files {
                seen,
                reason: Shown(reason),
            } => {
                let seen = if seen { "" } else { "not seen here: " };
                write!(f, "files and connections: {seen}{reason}")
            }
            Event::Again { id, count } => write!(f, "{id}. was denied {count} times"),
            Event::Summary {
                calls,
                accesses,
                untold,
                lost_lines,
                lost_records,
            } => {
                write!(f, "{calls} calls, {accesses} accesses in all")?;
                if untold > 0 {
                    write!(f, ", {untold} of them of more kinds than are told")?;
                }
                if lost_lines > 0 {
                    write!(f, "; {lost_lines} lines could not be written")?;
                }
                if lost_records > 0 {
                    write!(
                        f,
                        "; at least {lost_records} records of the kernel were lost"
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// A line, with its end. `None`: it is too long.
pub fn line(event: &Event<'_>, json: bool) -> Option<Vec<u8, LINE>> {
    let mut line = Vec::new();
    if json {
        line.resize_default(LINE).ok()?;
        let length = serde_json_core::to_slice(event, &mut line).ok()?;
        line.truncate(length);
    } else {
        write!(Bytes(&mut line), "{event}").ok()?;
    }
    line.push(b'\n').ok()?;
    Some(line)
}

/// Text into bytes.
struct Bytes<'v>(&'v mut Vec<u8, LINE>);

impl Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0
            .extend_from_slice(text.as_bytes())
            .map_err(|_| fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn written(event: &Event<'_>, json: bool) -> Option<String> {
        let line = line(event, json)?;
        Some(String::from_utf8(line.to_vec()).expect("UTF-8"))
    }

    fn access<'a>(denied: &'a Denied<'a>) -> Event<'a> {
        Event::Access {
            id: 7,
            rights: denied.rights,
            path: denied.path.map(Text),
            port: denied.port,
            pid: denied.process,
            grants: Fields(denied),
        }
    }

    #[test]
    fn an_access_is_said_with_its_object_and_the_fields_that_grant_it() {
        let mut denied = Denied {
            rights: "fs.read_file",
            path: Some(b"/a \"\\\x1b\x07\xff\n\xc2\x9b"),
            port: None,
            process: None,
        };
        assert_eq!(
            written(&access(&denied), true).as_deref(),
            Some(
                "{\"event\":\"access\",\"id\":7,\"rights\":\"fs.read_file\",\
                 \"path\":\"/a \\\"\\\\\\u001B\\u0007\u{fffd}\\n\u{fffd}\",\
                 \"port\":null,\"pid\":null,\"grants\":[\"rd\",\"ro\",\"rw\"]}\n"
            )
        );
        assert_eq!(
            written(&access(&denied), false).as_deref(),
            Some(
                "oarbank-agent: denied: 7. fs.read_file on \"/a \\\"\\\\\\u{1b}\\u{7}\\xff\\n\\u{9b}\"; \
                 rd or ro or rw would grant it\n"
            )
        );
        denied.path = None;
        for (rights, port, process, expected) in [
            (
                "net.connect_tcp",
                Some(80),
                None,
                "net.connect_tcp port 80; proxy_port would grant it",
            ),
            (
                "scope.signal",
                None,
                Some(9),
                "scope.signal on process 9; no field grants it",
            ),
        ] {
            let denied = Denied {
                rights,
                port,
                process,
                ..denied
            };
            let expected = std::format!("oarbank-agent: denied: 7. {expected}\n");
            assert_eq!(written(&access(&denied), false), Some(expected));
        }
    }

    #[test]
    fn a_line_is_whole_or_not_said() {
        // With every letter written as six, and as ten.
        for (json, letter, fits) in [(true, 1, 600), (false, 0x7f, 600)] {
            let path = [letter; LINE];
            let said = |length: usize| {
                let denied = Denied {
                    rights: "fs.read_file",
                    path: path.get(..length),
                    port: None,
                    process: None,
                };
                written(&access(&denied), json)
            };
            let ends = if json { "]}\n" } else { "grant it\n" };
            let longest = (0..LINE)
                .take_while(|&length| said(length).is_some())
                .last();
            let longest = longest.expect("an empty path fits");
            assert!(longest > fits, "{longest}");
            assert!(said(longest).is_some_and(|line| line.len() <= LINE && line.ends_with(ends)));
            assert!(
                (longest + 5..LINE)
                    .step_by(50)
                    .all(|length| said(length).is_none())
            );
        }
    }

    #[test]
    fn the_sums_are_said_as_far_as_there_is_something_to_say() {
        let summary = |untold, lost_lines, lost_records| Event::Summary {
            calls: 3,
            accesses: 2,
            untold,
            lost_lines,
            lost_records,
        };
        assert_eq!(
            written(&summary(0, 0, 0), false).as_deref(),
            Some("oarbank-agent: denied: 3 calls, 2 accesses in all\n")
        );
        assert_eq!(
            written(&summary(1, 4, 5), false).as_deref(),
            Some(
                "oarbank-agent: denied: 3 calls, 2 accesses in all, 1 of them of more kinds than are told; \
                 4 lines could not be written; at least 5 records of the kernel were lost\n"
            )
        );
        assert_eq!(
            written(&summary(1, 4, 5), true).as_deref(),
            Some(
                "{\"event\":\"summary\",\"calls\":3,\"accesses\":2,\"untold\":1,\"lost_lines\":4,\"lost_records\":5}\n"
            )
        );
    }
}
