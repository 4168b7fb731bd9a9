//! `sandbox-check`: what a launch would do.
//!
//! Nothing is guessed: the ruleset is made as a launch makes it, and a child enters the sandbox and, with a program, its
//! exec, where it is held by `ptrace(2)` and killed before the program's first instruction.

use core::ffi::CStr;

use heapless::Vec;
use serde::Serialize;

use crate::descriptors;
use crate::error::errno::describe;
use crate::error::{Cause, Error, Step, Subject, record};
use crate::landlock::abi::{self, Abi};
use crate::landlock::access::{Grant, right_names};
use crate::landlock::resolve::Space;
use crate::landlock::ruleset::Seen;
use crate::launch::{self, Memory, Sandbox};
use crate::limits::PATH_MAX;
use crate::output::{Output, Piece, Shown, Text};
use crate::policy::{Net, Policy};
use crate::seccomp::{Mode, filter};
use crate::sys::args::{Pointer, Vector};
use crate::sys::fs::{self, FileType};
use crate::sys::signal::{self, SIGKILL};
use crate::sys::spawn::{self, Side};
use crate::sys::trace::{self, Held};
use crate::sys::{AsRawFd, Errno, OwnedFd, process};

/// What to check.
pub struct Request {
    /// The policy file.
    pub policy: &'static CStr,
    /// The program and its arguments.
    pub program: Option<(&'static CStr, Vector<'static>)>,
    /// The caller's environment.
    pub environment: Vector<'static>,
    /// Whether to print JSON.
    pub json: bool,
}

/// The most programs that take part in an exec besides the first: the interpreters of scripts, of which the kernel
/// follows four, and a loader (`execve(2)`).
const INTERPRETERS: usize = 5;

/// Checks and prints. `Err`: that of the launch, or of the output.
pub fn check<'a>(
    request: Request,
    memory: &'a mut Memory,
    room: &mut Piece,
    record: &'a mut Record,
) -> Result<(), Error<'a>> {
    let mut report = Report {
        output: Output::new(),
        room,
        json: request.json,
        first: true,
    };
    report.begin(request.policy);
    let outcome = launch(request, memory, record, &mut report);
    report.end(outcome.as_ref().err());
    report.output.finish()?;
    outcome
}

/// What a child says of a failure.
pub type Record = [u8; record::SIZE];

/// What a launch does, up to its exec.
fn launch<'a>(
    request: Request,
    memory: &'a mut Memory,
    record: &'a mut Record,
    report: &mut Report<'_>,
) -> Result<(), Error<'a>> {
    let Request {
        policy: path,
        program,
        mut environment,
        ..
    } = request;
    // Who is to be told of the confinement is not: nothing is confined.
    let descriptors::Settled { unlinked, .. } = descriptors::apply(&mut environment)?;
    let (policy, space, arena) = memory.policy(path)?;
    descriptors::check_memory_files(&environment, unlinked, policy.exec_rw)?;
    let mut places = Places {
        arena,
        used: 0,
        list: Vec::new(),
        all: true,
    };
    let abi = abi::probe()?;
    report.member("landlock_abi", &abi.number());
    report.begin_list("rules");
    let prepared =
        Sandbox::prepare_seeing(&policy, space, &mut |seen| report.rule(&seen, &mut places));
    report.end_list();
    let sandbox = prepared?;
    report.rest(&policy, abi, &environment);
    let outcome = match program {
        None => trial(&sandbox, None, record),
        Some((program, argv)) => {
            let links = links(program, &policy, space, &environment)?;
            let outcome = trial(&sandbox, Some((program, &argv, &environment)), record);
            report.program(program, outcome.as_ref().err(), &links);
            outcome
        }
    };
    warn(report, path, &environment, &places);
    outcome
}

/// The programs that a program needs, each with the error of its own exec.
fn links<'a>(
    program: &CStr,
    policy: &Policy<'a>,
    space: &mut Space,
    environment: &Vector<'_>,
) -> Result<Vec<Link, INTERPRETERS>, Error<'a>> {
    let mut links: Vec<Link, INTERPRETERS> = Vec::new();
    let mut next = interpreter(program);
    while let Some((kind, interpreter)) = next {
        // A sandbox with gpu confines one process.
        let sandbox = Sandbox::prepare(policy, space)?;
        let path = CStr::from_bytes_until_nul(&interpreter).unwrap_or(c"");
        next = match kind {
            Kind::Script => self::interpreter(path),
            Kind::Loader => None,
        };
        let strings = [path];
        let mut pointers = [Pointer::NULL; 2];
        let errno = match Vector::of(&strings, &mut pointers) {
            Some(argv) => trial(
                &sandbox,
                Some((path, &argv, environment)),
                &mut [0; record::SIZE],
            )
            .err()
            .map(|error| error.cause.errno().unwrap_or(Errno::IO)),
            None => Some(Errno::TOOBIG),
        };
        let link = Link {
            kind,
            path: interpreter,
            errno,
        };
        if links.push(link).is_err() {
            break;
        }
    }
    Ok(links)
}

/// Enters the sandbox in a child, and with a program its exec too, of which no instruction runs.
fn trial<'a>(
    sandbox: &Sandbox,
    program: Option<(&'a CStr, &Vector<'_>, &Vector<'_>)>,
    record: &'a mut Record,
) -> Result<(), Error<'a>> {
    let failed = |call| move |errno| Error::call(Step::Check, call, errno);
    let (told, tell) = spawn::pipe().map_err(failed("pipe2"))?;
    let child = match spawn::fork(None).map_err(failed("clone3"))? {
        Side::Child => tried(sandbox, program, &tell),
        Side::Parent(child) => child,
    };
    drop(tell);
    let held = hold(child);
    // An end by itself, or this: whatever happened, the program does not run.
    let _ = signal::send(child, SIGKILL);
    let _ = spawn::wait(Some(child), true);
    if held.map_err(failed("ptrace"))? {
        return Ok(());
    }
    let length = fs::read(&told, record).map_err(failed("read"))?;
    match record::decode(record.get(..length).unwrap_or_default()) {
        Some(error) => Err(match program {
            // In the parent's own words: the child's may have been cut.
            Some((program, ..)) if error.step == Step::Exec => Error {
                subject: Subject::Text(program.to_bytes()),
                ..error
            },
            _ => error,
        }),
        None if length == 0 && program.is_none() => Ok(()),
        None => Err(Error::refused(
            Step::Check,
            Subject::Name("the tried process"),
            Cause::Reason("it ended before its exec"),
        )),
    }
}

/// Whether a tried child comes to its exec; it is held there.
fn hold(child: i32) -> Result<bool, Errno> {
    loop {
        match trace::wait(child)? {
            Held::Begun => trace::hold_at_exec(child)?,
            Held::AtExec => return Ok(true),
            Held::Signalled(signal) => trace::go_on(child, signal)?,
            Held::Ended => return Ok(false),
        }
    }
}

/// The child of a trial.
fn tried(
    sandbox: &Sandbox,
    program: Option<(&CStr, &Vector<'_>, &Vector<'_>)>,
    tell: &OwnedFd,
) -> ! {
    let failed = |errno| Error::call(Step::Check, "PTRACE_TRACEME", errno);
    let outcome = trace::begin()
        .map_err(failed)
        .and_then(|()| sandbox.enter())
        .and_then(|()| match program {
            Some((program, argv, environment)) => Err(launch::exec(program, argv, environment)),
            None => Ok(()),
        });
    if let Err(error) = outcome {
        let _ = fs::write(tell, &record::encode(&error));
    }
    process::exit(0)
}

/// How a program takes part in an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The interpreter in the first line of a script.
    Script,
    /// The loader of a dynamically linked program (ELF's PT_INTERP).
    Loader,
}

/// A path with its NUL.
type Name = Vec<u8, PATH_MAX>;

/// One program that another one needs.
struct Link {
    kind: Kind,
    path: Name,
    errno: Option<Errno>,
}

/// What a program needs to be executed, by its first bytes.
fn interpreter(program: &CStr) -> Option<(Kind, Name)> {
    let file = fs::open_for_reading(program).ok()?;
    let mut head = [0; 4096];
    let length = fs::read_at(&file, &mut head, 0).ok()?;
    let head = head.get(..length)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return script(line).map(|name| (Kind::Script, name));
    }
    let (offset, length) = loader(head)?;
    let mut name = [0; PATH_MAX];
    let part = name.get_mut(..length)?;
    if fs::read_at(&file, part, offset).ok()? != length {
        return None;
    }
    let name = CStr::from_bytes_until_nul(part).ok()?;
    Some((
        Kind::Loader,
        Name::from_slice(name.to_bytes_with_nul()).ok()?,
    ))
}

/// The interpreter in a script's first line (`execve(2)`, "Interpreter scripts").
fn script(line: &[u8]) -> Option<Name> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|byte| b" \t\0".contains(byte))
        .filter(|word| !word.is_empty());
    let mut name = Name::from_slice(words.next()?).ok()?;
    name.push(0).ok()?;
    Some(name)
}

/// Where the name of an ELF file's loader is in it, and its length with the NUL (`elf(5)`).
fn loader(head: &[u8]) -> Option<(u64, usize)> {
    const PT_INTERP: u64 = 3;
    const CLASS_64: u8 = 2;
    let ident = head.strip_prefix(b"\x7fELF")?;
    let wide = *ident.first()? == CLASS_64;
    let field = |at: usize, length: usize| {
        let bytes = head.get(at..at.checked_add(length)?)?;
        // Every architecture here is little-endian.
        Some(
            bytes
                .iter()
                .rev()
                .fold(0_u64, |value, &byte| value << 8 | u64::from(byte)),
        )
    };
    let (table, size, count) = if wide {
        (field(32, 8)?, field(54, 2)?, field(56, 2)?)
    } else {
        (field(28, 4)?, field(42, 2)?, field(44, 2)?)
    };
    (0..count).find_map(|index| {
        let entry = usize::try_from(table.checked_add(index * size)?).ok()?;
        if field(entry, 4)? != PT_INTERP {
            return None;
        }
        let (offset, length) = if wide {
            (field(entry + 8, 8)?, field(entry + 32, 8)?)
        } else {
            (field(entry + 4, 4)?, field(entry + 16, 4)?)
        };
        Some((offset, usize::try_from(length).ok()?))
    })
}

/// Where the rules are, to be compared.
struct Places<'a> {
    arena: &'a mut [u8],
    used: usize,
    list: Vec<Place, 2048>,
    /// Whether there was room for all.
    all: bool,
}

struct Place {
    start: usize,
    end: usize,
    writable: bool,
    executable: bool,
}

impl Places<'_> {
    fn add(&mut self, path: &[u8], grant: Grant) {
        let (start, end) = (self.used, self.used + path.len());
        let place = Place {
            start,
            end,
            writable: matches!(grant, Grant::Work { .. } | Grant::Outbox),
            executable: matches!(grant, Grant::Program),
        };
        match self.arena.get_mut(start..end) {
            Some(room) if !self.list.is_full() => {
                room.copy_from_slice(path);
                self.used = end;
                let _ = self.list.push(place);
            }
            _ => self.all = false,
        }
    }

    fn path(&self, place: &Place) -> &[u8] {
        self.arena.get(place.start..place.end).unwrap_or_default()
    }
}

/// Whether a path is another, or beneath it.
fn is_beneath(path: &[u8], place: &[u8]) -> bool {
    let place = place.strip_suffix(b"/").unwrap_or(place);
    path.strip_prefix(place)
        .is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
}

/// Whether a path is a home directory: HOME's, root's, or one of /home.
fn is_home(path: &[u8], home: Option<&[u8]>) -> bool {
    let user = path.strip_prefix(b"/home/");
    path == b"/root"
        || home == Some(path)
        || user.is_some_and(|user| !user.is_empty() && !user.contains(&b'/'))
}

/// What is likely wrong.
fn warn(report: &mut Report<'_>, policy: &CStr, environment: &Vector<'_>, places: &Places<'_>) {
    let home = environment
        .iter()
        .find_map(|variable| variable.to_bytes().strip_prefix(b"HOME="));
    let mut room = [0; PATH_MAX];
    let policy = fs::open_location_following(policy)
        .ok()
        .and_then(|fd| resolved(&fd, &mut room));
    report.begin_list("warnings");
    for place in &places.list {
        let path = places.path(place);
        if path == b"/" {
            report.warning(path, "the whole file system is granted", None);
        } else if is_home(path, home) {
            report.warning(path, "a home directory is granted", None);
        }
        if !place.writable {
            continue;
        }
        if let Some(policy) = policy.filter(|policy| is_beneath(policy, path)) {
            report.warning(path, "the module can change its own policy", Some(policy));
        }
        for inner in places.list.iter().filter(|inner| inner.executable) {
            let inner = places.path(inner);
            if is_beneath(inner, path) {
                report.warning(
                    path,
                    "the module can change what it may execute",
                    Some(inner),
                );
            }
        }
    }
    if !places.all {
        report.warning(b"", "there are too many rules to compare all", None);
    }
    report.end_list();
}

/// Where a descriptor is, by the kernel's own account. `None` without /proc.
fn resolved<'b>(fd: &OwnedFd, room: &'b mut [u8; PATH_MAX]) -> Option<&'b [u8]> {
    use core::fmt::Write;
    let mut link: heapless::String<32> = heapless::String::new();
    write!(link, "/proc/self/fd/{}\0", fd.as_raw_fd()).ok()?;
    fs::read_link(CStr::from_bytes_with_nul(link.as_bytes()).ok()?, room).ok()
}

/// What is printed, as text or as one JSON object.
struct Report<'a> {
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

fn errno_name(errno: Errno) -> Option<&'static str> {
    describe(errno.raw_os_error()).map(|(name, _)| name)
}

impl Report<'_> {
    fn begin(&mut self, policy: &CStr) {
        let policy = policy.to_bytes();
        if self.json {
            self.output.bytes(b"{\"policy\":");
            self.output.json(&Text(policy), self.room);
        } else {
            self.output
                .text(format_args!("policy: {}\n", Subject::Text(policy)));
        }
    }

    /// A member of the object, which is not the first.
    fn member(&mut self, name: &str, value: &impl Serialize) {
        if self.json {
            self.output.text(format_args!(",\"{name}\":"));
            self.output.json(value, self.room);
        }
    }

    fn begin_list(&mut self, name: &str) {
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

    fn end_list(&mut self) {
        if self.json {
            self.output.bytes(b"]");
        } else if self.first {
            self.output.bytes(b"  none\n");
        }
    }

    fn rule(&mut self, seen: &Seen<'_>, places: &mut Places<'_>) {
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
    fn rest(&mut self, policy: &Policy<'_>, abi: Abi, environment: &Vector<'_>) {
        let (net, port) = match policy.net {
            Net::None => ("none", None),
            Net::Proxy(port) => ("egress-allowlist", Some(port.get())),
        };
        let scoped = abi.scoped() != 0;
        let mode = launch::mode(policy);
        let instructions = filter::program(mode).len();
        let bounding = process::may_drop_bounding_set().unwrap_or(false);
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
    fn program(&mut self, path: &CStr, error: Option<&Error<'_>>, links: &[Link]) {
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

    fn warning(&mut self, path: &[u8], warning: &str, other: Option<&[u8]>) {
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

    fn end(&mut self, error: Option<&Error<'_>>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let name = |line: &str| {
            script(line.as_bytes())
                .map(|name| std::string::String::from_utf8_lossy(&name).into_owned())
        };
        for (line, expected) in [
            ("/bin/sh\n", Some("/bin/sh\0")),
            (" \t/bin/sh -e\nx", Some("/bin/sh\0")),
            ("/usr/bin/env python3\n", Some("/usr/bin/env\0")),
            ("sh", Some("sh\0")),
            ("\n/bin/sh", None),
            ("  \n", None),
            ("", None),
        ] {
            assert_eq!(name(line).as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn a_path_is_beneath_itself_and_its_directories() {
        for (path, place, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("/", "/", true),
        ] {
            assert_eq!(
                is_beneath(path.as_bytes(), place.as_bytes()),
                expected,
                "{path} {place}"
            );
        }
    }

    #[test]
    fn home_directories_are_known() {
        for (path, expected) in [
            ("/root", true),
            ("/home/a", true),
            ("/srv/me", true),
            ("/home", false),
            ("/home/", false),
            ("/home/a/b", false),
            ("/rooted", false),
        ] {
            assert_eq!(
                is_home(path.as_bytes(), Some(b"/srv/me")),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn whatever_a_file_holds_its_loader_is_found_or_not() {
        let mut head = std::vec![0_u8; 4096];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        // The table at 64, entries of 56 bytes, two of them, the second is PT_INTERP.
        head[32] = 64;
        head[54] = 56;
        head[56] = 2;
        head[64 + 56] = 3;
        head[64 + 56 + 8] = 0x70;
        head[64 + 56 + 32] = 28;
        assert_eq!(loader(&head), Some((0x70, 28)));
        // Every byte wrong in turn, and every length: no panic, and nothing outside the file.
        for at in 0..head.len() {
            let byte = core::mem::replace(&mut head[at], 0xff);
            let _ = loader(&head);
            head[at] = byte;
            let _ = loader(&head[..at]);
        }
    }
}
