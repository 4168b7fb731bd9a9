//! What the kernel's audit says of Landlock (`Documentation/admin-guide/LSM/landlock.rst`).
//!
//! ```text
//! audit(1729738800.268:30): domain=195ba459b blockers=fs.refer path="/usr/bin" dev="vda2" ino=351
//! audit(1729738800.268:30): domain=195ba459b status=allocated mode=enforcing pid=300 uid=0 exe="/x" comm="x"
//! audit(1729738800.268:31): domain=195ba459b status=deallocated denials=3
//! ```

use crate::landlock::abi::{Abi, NEWEST};
use crate::landlock::access::{Grant, right_names};
use crate::lines::decimal;

/// `AUDIT_LANDLOCK_ACCESS` and `AUDIT_LANDLOCK_DOMAIN` of `include/uapi/linux/audit.h`.
const ACCESS: u16 = 1423;
const DOMAIN: u16 = 1424;

/// A record that tells something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'r> {
    /// A domain has denied something.
    Access {
        /// The domain.
        domain: u64,
        /// What was denied, with its name before the first space.
        denied: &'r [u8],
    },
    /// A domain, at its first denial: who has made it.
    Domain {
        /// The domain.
        domain: u64,
        /// The process, as the first pid namespace numbers it.
        creator: i32,
        /// The program that it had; see [`is_path`].
        program: &'r [u8],
    },
    /// A domain that has denied something has ended.
    End {
        /// The domain.
        domain: u64,
        /// How much it has denied.
        denials: u64,
    },
}

/// Reads a record by its type.
pub fn parse(kind: u16, text: &[u8]) -> Option<Record<'_>> {
    let domain =
        u64::from_str_radix(core::str::from_utf8(field(text, b"domain=")?).ok()?, 16).ok()?;
    match kind {
        ACCESS => {
            const NAME: &[u8] = b" blockers=";
            let at = text.windows(NAME.len()).position(|window| window == NAME)?;
            let denied = text.get(at + NAME.len()..)?;
            // Older kernels end a record with a NUL.
            let denied = denied.strip_suffix(b"\0").unwrap_or(denied);
            Some(Record::Access { domain, denied })
        }
        DOMAIN => {
            if let Some(denials) = field(text, b"denials=") {
                let denials = decimal(denials)?;
                return Some(Record::End { domain, denials });
            }
            let creator = i32::try_from(decimal(field(text, b"pid=")?)?).ok()?;
            let program = field(text, b"exe=")?;
            Some(Record::Domain {
                domain,
                creator,
                program,
            })
        }
        _ => None,
    }
}

/// The value of a field; no value has a space in it.
fn field<'r>(text: &'r [u8], name: &[u8]) -> Option<&'r [u8]> {
    text.split(|&byte| byte == b' ' || byte == 0)
        .find_map(|word| word.strip_prefix(name))
}

/// A hash of what was denied, to know it again (FNV-1a): rights and object, not the number of a file, which is another for
/// each that is made anew.
pub fn hash(denied: &[u8]) -> u64 {
    const NAME: &[u8] = b" dev=";
    let end = denied.windows(NAME.len()).position(|window| window == NAME);
    let known = denied.get(..end.unwrap_or(denied.len()));
    let bytes = known.unwrap_or_default().iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied<'r> {
    /// The missing rights and scopes by the kernel's names, as `fs.read_file,fs.truncate`.
    pub rights: &'r str,
    /// The file, or an abstract unix name, which starts with a NUL.
    pub path: Option<&'r [u8]>,
    /// The port.
    pub port: Option<u16>,
    /// The other process.
    pub process: Option<i32>,
}

impl<'r> Denied<'r> {
    /// Reads what a record says; `room` is for a path that is written in hexadecimal, what does not fit is cut off.
    pub fn read(denied: &'r [u8], room: &'r mut [u8]) -> Self {
        let word = denied
            .split(|&byte| byte == b' ')
            .next()
            .unwrap_or_default();
        let path = field(denied, b"path=").or(field(denied, b"name="));
        let number = |name: &[u8]| field(denied, name).and_then(decimal);
        let port = number(b"dest=").or(number(b"src="));
        Denied {
            rights: core::str::from_utf8(word).unwrap_or("?"),
            path: path.map(|path| untrusted(path, room)),
            port: port.and_then(|port| port.try_into().ok()),
            process: number(b"opid=").and_then(|process| process.try_into().ok()),
        }
    }

    /// The fields of the policy each of which would grant all of it.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        let rights = self.rights;
        FIELDS
            .into_iter()
            .filter(move |(_, grants)| grants.all(rights))
            .map(|(name, _)| name)
    }
}

/// A string of which the kernel writes any odd byte, and then all, as two digits.
fn untrusted<'r>(text: &'r [u8], room: &'r mut [u8]) -> &'r [u8] {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        return quoted.strip_suffix(b"\"").unwrap_or(quoted);
    }
    let mut length = 0;
    for (to, pair) in room.iter_mut().zip(text.chunks_exact(2)) {
        match byte(pair) {
            Some(byte) => *to = byte,
            // `(null)` and the like.
            None => return text,
        }
        length += 1;
    }
    room.get(..length).unwrap_or_default()
}

/// Two hexadecimal digits.
fn byte(pair: &[u8]) -> Option<u8> {
    u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()
}

/// Whether a string that the kernel writes so is this path.
pub fn is_path(text: &[u8], path: &[u8]) -> bool {
    match text.strip_prefix(b"\"") {
        Some(quoted) => quoted.strip_suffix(b"\"") == Some(path),
        None => text.chunks(2).map(byte).eq(path.iter().copied().map(Some)),
    }
}

/// What a field grants.
#[derive(Clone, Copy)]
enum Grants {
    Files(Grant),
    /// Files, too, but only what `rw` alone does not.
    WrittenPrograms,
    Port,
}

/// The fields, the narrowest first.
const FIELDS: [(&str, Grants); 7] = [
    ("rd", Grants::Files(Grant::Input)),
    ("ro", Grants::Files(Grant::Program)),
    ("wo", Grants::Files(Grant::Outbox)),
    ("rw", Grants::Files(Grant::Work { exec_rw: false })),
    ("rw with exec_rw", Grants::WrittenPrograms),
    ("broker_socket", Grants::Files(Grant::Broker)),
    ("proxy_port", Grants::Port),
];

impl Grants {
    /// Whether all of these are granted.
    fn all(self, rights: &str) -> bool {
        let mut names = rights.split(',');
        match self {
            Grants::Files(grant) => names.all(|name| grants_file(grant, name)),
            Grants::WrittenPrograms => {
                let grant = |exec_rw| Grant::Work { exec_rw };
                names.clone().all(|name| grants_file(grant(true), name))
                    && !names.all(|name| grants_file(grant(false), name))
            }
            Grants::Port => names.all(|name| name == "net.connect_tcp"),
        }
    }
}

fn grants_file(grant: Grant, name: &str) -> bool {
    let rights = Abi::of_kernel(NEWEST).map_or(0, |abi| grant.rights(abi));
    name.strip_prefix("fs.")
        .is_some_and(|name| right_names(rights).any(|granted| granted == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const FIRST: &[u8] =
        b"audit(1729738800.268:30): domain=195ba459b blockers=fs.refer path=\"/usr/bin\" dev=\"vda2\" ino=351";

    #[test]
    fn both_records_are_read() {
        let Some(Record::Access {
            domain: 0x1_95ba_459b,
            denied,
        }) = parse(ACCESS, FIRST)
        else {
            panic!("{:?}", parse(ACCESS, FIRST));
        };
        let mut room = [0; 16];
        let denied = Denied::read(denied, &mut room);
        assert_eq!(
            (denied.rights, denied.path),
            ("fs.refer", Some(&b"/usr/bin"[..]))
        );
        let second = b"audit(1.2:30): domain=1a status=allocated mode=enforcing pid=300 uid=0 exe=\"/x\" comm=\"x\"";
        let creator = Record::Domain {
            domain: 0x1a,
            creator: 300,
            program: b"\"/x\"",
        };
        assert_eq!(parse(DOMAIN, second), Some(creator));
        let last = b"audit(1.2:30): domain=1a status=deallocated denials=3";
        let end = Record::End {
            domain: 0x1a,
            denials: 3,
        };
        assert_eq!(parse(DOMAIN, last), Some(end));
    }

    #[test]
    fn accesses_are_told_apart_by_rights_and_object() {
        let long = |end: &str| {
            std::format!(
                "fs.read_file path=\"/{}{end}\" dev=\"a\" ino=1",
                "x".repeat(3000)
            )
        };
        let kinds = [
            "fs.read_file path=\"/a\" dev=\"vda\" ino=1",
            "fs.write_file path=\"/a\" dev=\"vda\" ino=1",
            "fs.read_file path=\"/b\" dev=\"vda\" ino=1",
            "net.connect_tcp daddr=127.0.0.1 dest=80",
            "net.connect_tcp daddr=127.0.0.1 dest=81",
            &long("a"),
            &long("b"),
            "",
        ];
        let hashes: std::collections::BTreeSet<u64> =
            kinds.iter().map(|text| hash(text.as_bytes())).collect();
        assert_eq!(hashes.len(), kinds.len());
        let again = b"fs.read_file path=\"/a\" dev=\"vdb\" ino=77";
        assert_eq!(hash(again), hash(kinds[0].as_bytes()));
    }

    #[test]
    fn what_is_no_such_record_tells_nothing() {
        let end = b"audit(1.2:30): domain=1a status=deallocated denials=x";
        for (kind, text) in [
            (1300, FIRST),
            (ACCESS, &b"audit(1.2:30): domain=xyz blockers=fs.refer"[..]),
            (ACCESS, b"audit(1.2:30): domain=1"),
            (ACCESS, b""),
            (DOMAIN, end),
            (
                DOMAIN,
                b"domain=1 status=allocated pid=99999999999 exe=\"/x\"",
            ),
            (DOMAIN, b"domain=1 status=allocated pid=9"),
        ] {
            assert_eq!(parse(kind, text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn what_was_denied_is_a_path_a_port_or_a_process() {
        let mut room = [0; 4];
        let read = |text| {
            let mut room = [0; 4];
            let denied = Denied::read(text, &mut room);
            (denied.path.map(Vec::from), denied.port, denied.process)
        };
        assert_eq!(
            read(b"fs.x path=2F0A dev=\"a\""),
            (Some(b"/\n".into()), None, None)
        );
        assert_eq!(
            read(b"fs.x path=414243444546"),
            (Some(b"ABCD".into()), None, None)
        );
        assert_eq!(
            read(b"fs.x path=(null)"),
            (Some(b"(null)".into()), None, None)
        );
        assert_eq!(read(b"fs.x path="), (Some(Vec::new()), None, None));
        assert_eq!(
            read(b"net.connect_tcp daddr=127.0.0.1 dest=80"),
            (None, Some(80), None)
        );
        assert_eq!(read(b"net.bind_tcp src=99999"), (None, None, None));
        assert_eq!(
            read(b"scope.signal opid=7 ocomm=\"a\""),
            (None, None, Some(7))
        );
        assert_eq!(Denied::read(b"\xff", &mut room).rights, "?");
    }

    #[test]
    fn a_program_is_known_by_its_path_as_it_is_written() {
        for (text, path, same) in [
            (&b"\"/x\""[..], &b"/x"[..], true),
            (b"\"/x\"", b"/x\"", false),
            (b"\"/x", b"/x", false),
            (b"2F78", b"/x", true),
            (b"2f7820", b"/x ", true),
            (b"2F782", b"/x", false),
            (b"2F", b"/x", false),
            (b"2F78zz", b"/x", false),
            (b"\"\"", b"", true),
            (b"(null)", b"/x", false),
        ] {
            assert_eq!(is_path(text, path), same, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn the_fields_are_those_that_grant_all_of_it() {
        let fields = |rights| {
            Denied {
                rights,
                path: None,
                port: None,
                process: None,
            }
            .fields()
            .collect::<Vec<_>>()
        };
        assert_eq!(fields("fs.read_file"), ["rd", "ro", "rw"]);
        assert_eq!(fields("fs.write_file"), ["wo", "rw"]);
        assert_eq!(fields("fs.read_file,fs.write_file"), ["rw"]);
        assert_eq!(fields("fs.execute"), ["ro", "rw with exec_rw"]);
        assert_eq!(fields("fs.remove_file"), ["rw"]);
        assert_eq!(fields("fs.resolve_unix"), ["broker_socket"]);
        assert_eq!(fields("net.connect_tcp"), ["proxy_port"]);
        for none in [
            "net.bind_tcp",
            "scope.signal",
            "ptrace",
            "fs.change_topology",
            "fs.unheard_of",
            "",
        ] {
            assert_eq!(fields(none), [""; 0], "{none}");
        }
    }
}
