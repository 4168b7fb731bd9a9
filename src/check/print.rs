//! What `sandbox-check` prints.

use core::ffi::CStr;

use serde::Serialize;

use super::Link;
use super::interpreter::Kind;
use super::warnings::Places;
use crate::descriptors;
use crate::error::errno::describe;
use crate::error::{Cause, Error, Step, Subject};
use crate::landlock::abi::Abi;
use crate::landlock::access::right_names;
use crate::landlock::ruleset::Seen;
use crate::launch;
use crate::limits::PATH_MAX;
use crate::near::nearest;
use crate::output::{Output, Piece, Shown, Text};
use crate::policy::{Net, Policy, reader};
use crate::seccomp::{Mode, filter};
use crate::sys::args::Vector;
use crate::sys::fs::{self, FileType, ProcPath};
use crate::sys::{Errno, OwnedFd, process};

/// Where a descriptor is, by the kernel's own account. `None` without /proc.
pub(super) fn resolved<'b>(fd: &OwnedFd, room: &'b mut [u8; PATH_MAX]) -> Option<&'b [u8]> {
    fs::read_link(ProcPath::of_descriptor(fd).as_c_str(), room).ok()
}

/// What is printed, as text or as one JSON object.
pub(super) struct Report<'a> {
    output: Output,
    room: &'a mut Piece,
    json: bool,
    /// Whether the JSON list that is being written has no value yet.
    first: bool,
}

#[derive(Serialize)]
struct Rule<'a> {
    rule: Shown<'a>,
    resolved: Option<Text<'a>>,
    directory: Option<bool>,
    grants: &'a str,
    rights: Rights,
}

/// Landlock rights, by name.
struct Rights(u64);

impl Serialize for Rights {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(right_names(self.0))
    }
}

#[derive(Serialize)]
struct SkippedField<'a> {
    name: Text<'a>,
    near: Option<&'static str>,
}

#[derive(Serialize)]
struct Filter {
    tcp: bool,
    broker: bool,
    exec_rw: bool,
    instructions: usize,
}

#[derive(Serialize)]
struct Program<'a> {
    path: Text<'a>,
    kind: Option<Kind>,
    executable: bool,
    errno: Option<&'static str>,
}

#[derive(Serialize)]
struct Warning<'a> {
    path: Text<'a>,
    warning: &'a str,
    other: Option<Text<'a>>,
}

#[derive(Serialize)]
struct Failure<'a> {
    step: &'a str,
    subject: Shown<'a>,
    errno: Option<&'static str>,
    message: Shown<'a>,
}

/// The most bytes of a skipped field's name that are printed.
const NAME: usize = 64;

fn errno_name(errno: Errno) -> Option<&'static str> {
    describe(errno.raw_os_error()).map(|(name, _)| name)
}

impl<'a> Report<'a> {
    pub(super) const fn new(json: bool, room: &'a mut Piece) -> Self {
        Report {
            output: Output::new(),
            room,
            json,
            first: true,
        }
    }

    pub(super) fn finish(self) -> Result<(), Error<'static>> {
        self.output.finish()
    }

    pub(super) fn begin(&mut self, policy: &CStr) {
        let policy = policy.to_bytes();
        if self.json {
            self.output.bytes(b"{\"policy\":");
            self.output.json(&Text(policy), self.room);
        } else {
            self.output
                .text(format_args!("policy: {}\n", Subject::Text(policy)));
        }
    }

    pub(super) fn abi(&mut self, abi: Abi) {
        self.member("landlock_abi", &abi.number());
        if !self.json {
            self.output
                .text(format_args!("landlock: ABI {}\n", abi.number()));
        }
    }

    /// A member of the object, which is not the first.
    fn member(&mut self, name: &str, value: &impl Serialize) {
        if self.json {
            self.output.text(format_args!(",\"{name}\":"));
            self.output.json(value, self.room);
        }
    }

    pub(super) fn begin_list(&mut self, name: &str) {
        self.first = true;
        if self.json {
            self.output.text(format_args!(",\"{name}\":["));
        } else {
            self.output.text(format_args!("{name}:\n"));
        }
    }

    fn item(&mut self, value: &impl Serialize) {
        if !self.first {
            self.output.bytes(b",");
        }
        self.first = false;
        self.output.json(value, self.room);
    }

    pub(super) fn end_list(&mut self) {
        if self.json {
            self.output.bytes(b"]");
        } else if self.first {
            self.output.bytes(b"  none\n");
        }
    }

    /// A field that is none of this version: a newer one's, or a slip.
    pub(super) fn skipped(&mut self, name: &[u8]) {
        let near = nearest(name, reader::names());
        // The start of a name that is too long to be one.
        let name = name.get(..NAME).unwrap_or(name);
        if self.json {
            let name = Text(name);
            self.item(&SkippedField { name, near });
            return;
        }
        self.first = false;
        self.output.text(format_args!("  {}", Subject::Text(name)));
        match near {
            Some(near) => self
                .output
                .text(format_args!(": no such field, did you mean {near}?\n")),
            None => self.output.bytes(b": no such field in this version\n"),
        }
    }

    pub(super) fn rule(&mut self, seen: &Seen<'_>, places: &mut Places<'_>) {
        let mut room = [0; PATH_MAX];
        let (subject, resolved, directory, grants, rights) = match *seen {
            Seen::Rule {
                subject,
                at,
                grant,
                rights,
            } => {
                let directory =
                    fs::stat(at).is_ok_and(|stat| fs::file_type(&stat) == FileType::Directory);
                let resolved = resolved(at, &mut room);
                if let Some(path) = resolved {
                    places.add(path, grant);
                }
                let words = if rights == 0 {
                    "nothing: this kernel's Landlock can't tell unix sockets apart"
                } else {
                    grant.words()
                };
                (subject, resolved, Some(directory), words, rights)
            }
            Seen::Missing(path) => {
                let subject = Subject::Text(path.to_bytes());
                (subject, None, None, "nothing: it does not exist", 0)
            }
            Seen::Covered(subject) => {
                let words = "nothing more: it ends where programs may be executed";
                (subject, None, None, words, 0)
            }
        };
        if self.json {
            self.item(&Rule {
                rule: Shown(&subject),
                resolved: resolved.map(Text),
                directory,
                grants,
                rights: Rights(rights),
            });
            return;
        }
        self.first = false;
        self.output.text(format_args!("  {subject}"));
        if let Some(path) = resolved {
            self.output
                .text(format_args!(" -> {}", Subject::Text(path)));
        }
        self.output.text(format_args!(": {grants}\n"));
    }

    /// What does not depend on paths.
    pub(super) fn rest(&mut self, policy: &Policy<'_>, abi: Abi, environment: &Vector<'_>) {
        let (net, port) = match policy.net {
            Net::None => ("none", None),
            Net::Proxy(port) => ("egress-allowlist", Some(port.get())),
        };
        let scoped = abi.scoped() != 0;
        let mode = launch::mode(policy);
        let instructions = filter::program(mode).len();
        let bounding = process::Capabilities::get().is_ok_and(|held| held.may_drop_bounding_set());
        if self.json {
            self.member("net", &net);
            self.member("proxy_port", &port);
            self.member("scopes", &scoped);
            let Mode {
                tcp,
                broker,
                exec_rw,
            } = mode;
            let filter = Filter {
                tcp,
                broker,
                exec_rw,
                instructions,
            };
            self.member("filter", &filter);
            self.member("drops_bounding_set", &bounding);
        } else {
            let output = &mut self.output;
            match port {
                Some(port) => output.text(format_args!("net: TCP to port {port} alone\n")),
                None => output.bytes(b"net: none\n"),
            }
            output.bytes(if scoped {
                b"scopes: abstract unix sockets and signals stay inside\n"
            } else {
                b"scopes: none, this kernel's Landlock has no scopes: signals and abstract unix sockets get out\n"
            });
            output.text(format_args!(
                "filter: {instructions} instructions, for tcp {}, broker {}, exec_rw {}\n",
                mode.tcp, mode.broker, mode.exec_rw
            ));
            output.text(format_args!(
                "capabilities: all dropped, bounding set {}\n",
                if bounding {
                    "too"
                } else {
                    "kept (no CAP_SETPCAP)"
                }
            ));
        }
        self.begin_list("descriptors");
        for variable in environment
            .iter()
            .filter(|variable| descriptors::keeps(variable))
        {
            let text = Subject::Text(variable.to_bytes());
            if self.json {
                self.item(&Text(variable.to_bytes()));
            } else {
                self.first = false;
                self.output.text(format_args!("  {text}\n"));
            }
        }
        self.end_list();
    }

    /// A program, and what it needs.
    pub(super) fn program(&mut self, path: &CStr, error: Option<&Error<'_>>, links: &[Link]) {
        let own = (
            None,
            path.to_bytes(),
            error.and_then(|error| error.cause.errno()),
        );
        let others = links.iter().map(|link| {
            let path = link.path.strip_suffix(b"\0").unwrap_or(&link.path);
            (Some(link.kind), path, link.errno)
        });
        // An error that is none of the exec's says nothing about the program.
        if error.is_some_and(|error| error.step != Step::Exec) {
            return;
        }
        self.begin_list("program");
        for (kind, path, errno) in core::iter::once(own).chain(others) {
            let name = errno.and_then(errno_name);
            if self.json {
                self.item(&Program {
                    path: Text(path),
                    kind,
                    executable: errno.is_none(),
                    errno: name,
                });
                continue;
            }
            self.first = false;
            let role = match kind {
                None => "",
                Some(Kind::Script) => "needs its interpreter ",
                Some(Kind::Loader) => "needs the loader ",
            };
            let path = Subject::Text(path);
            self.output.text(format_args!("  {role}{path}: "));
            match errno {
                None => self.output.bytes(b"can be executed\n"),
                Some(errno) => self.output.text(format_args!("{}\n", Cause::Errno(errno))),
            }
        }
        self.end_list();
    }

    pub(super) fn warning(&mut self, path: &[u8], warning: &str, other: Option<&[u8]>) {
        if self.json {
            self.item(&Warning {
                path: Text(path),
                warning,
                other: other.map(Text),
            });
            return;
        }
        self.first = false;
        self.output
            .text(format_args!("  {}: {warning}", Subject::Text(path)));
        if let Some(other) = other {
            self.output.text(format_args!(": {}", Subject::Text(other)));
        }
        self.output.bytes(b"\n");
    }

    pub(super) fn end(&mut self, error: Option<&Error<'_>>) {
        let exit = error.map_or(0, |error| error.exit as u8);
        if self.json {
            let failure = error.map(|error| Failure {
                step: error.step.name(),
                subject: Shown(&error.subject),
                errno: error.cause.errno().and_then(errno_name),
                message: Shown(error),
            });
            self.member("error", &failure);
            self.member("exit", &exit);
            self.output.bytes(b"}\n");
        } else {
            self.output.text(format_args!("exit: {exit}\n"));
        }
    }
}
