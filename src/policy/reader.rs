//! From JSON text to a checked [`Policy`]: serde-json-core takes the text apart, every value is checked here.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU16;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json_core::de::Deserializer as Json;

use super::json;
use super::text::{LoneSurrogate, decode};
use super::{List, Listed, Net, Policy, Span};
use crate::error::{Cause, Error, Step, Subject};
use crate::limits::PATH_MAX;

/// A field of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Module,
    Ro,
    Rw,
    Rd,
    Wo,
    Net,
    ProxyPort,
    BrokerSocket,
    Gpu,
    ExecRw,
    Kind,
    Exe,
}

/// Every field with its name and what it must hold.
const FIELDS: [(Field, &str, &str); 12] = [
    (Field::Module, "module", STRING),
    (Field::Ro, "ro", STRINGS),
    (Field::Rw, "rw", STRINGS),
    (Field::Rd, "rd", STRINGS),
    (Field::Wo, "wo", STRINGS),
    (Field::Net, "net", STRING),
    (Field::ProxyPort, "proxy_port", PORT),
    (Field::BrokerSocket, "broker_socket", STRING_OR_NULL),
    (Field::Gpu, "gpu", BOOL),
    (Field::ExecRw, "exec_rw", BOOL),
    (Field::Kind, "kind", STRING),
    (Field::Exe, "exe", STRING_OR_NULL),
];

const STRING: &str = "must be a string";
const STRINGS: &str = "must be a list of strings, as [\"/a\", \"/b\"]";
const STRING_OR_NULL: &str = "must be a string or null";
const BOOL: &str = "must be true or false";
const PORT: &str = "must be an integer from 1 to 65535 or null";
const NOT_TEXT: &str = "half a surrogate pair (\\ud800 to \\udfff alone), which is no text";

/// Where reading is, and so what an error is about.
#[derive(Clone, Copy, Default)]
struct Position {
    field: Option<Field>,
    index: Option<usize>,
    text: Option<Span>,
}

/// The name of every field.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().map(|(_, name, _)| name)
}

/// What was read so far.
struct Reader<'a, 'u> {
    /// Decoded strings, each with a NUL.
    text: &'a mut [u8],
    used: usize,
    at: Position,
    /// A rule of this file that a value broke; without it an error of serde-json-core means the wrong type.
    broken: Option<&'static str>,
    /// The fields that were there, one bit each.
    seen: u32,
    lists: &'a mut Listed,
    allowlist: bool,
    proxy_port: Option<NonZeroU16>,
    broker_socket: Option<Span>,
    exe: Option<Span>,
    gpu: bool,
    exec_rw: bool,
    /// Is told the name of each field that is skipped.
    skipped: &'u mut dyn FnMut(&[u8]),
}

/// Reads a policy. `text` takes the decoded paths; as many bytes as `json` has are enough. `lists` takes the rest.
pub fn read<'a>(
    json: &[u8],
    text: &'a mut [u8],
    lists: &'a mut Listed,
) -> Result<Policy<'a>, Error<'a>> {
    read_seeing(json, text, lists, &mut |_| {})
}

/// The same; `skipped` is told the name of each field that is none of this version.
pub fn read_seeing<'a>(
    json: &[u8],
    text: &'a mut [u8],
    lists: &'a mut Listed,
    skipped: &mut dyn FnMut(&[u8]),
) -> Result<Policy<'a>, Error<'a>> {
    if let Err(wrong) = json::check(json) {
        let (line, column) = wrong.place(json);
        let subject = Subject::Place { line, column };
        return Err(Error::refused(
            Step::Policy,
            subject,
            Cause::Reason(wrong.why),
        ));
    }
    lists.0.clear();
    let mut reader = Reader {
        text,
        used: 0,
        at: Position::default(),
        broken: None,
        seen: 0,
        lists,
        allowlist: false,
        proxy_port: None,
        broker_socket: None,
        exe: None,
        gpu: false,
        exec_rw: false,
        skipped,
    };
    let mut source = Json::new(json, None);
    let result = (&mut reader)
        .deserialize(&mut source)
        .and_then(|()| source.end().map(drop));
    if result.is_err() {
        return Err(reader.into_error());
    }
    let net = match (reader.allowlist, reader.proxy_port) {
        (false, _) => Net::None,
        (true, Some(port)) => Net::Proxy(port),
        (true, None) => {
            reader.at = Position {
                field: Some(Field::ProxyPort),
                ..Position::default()
            };
            reader.broken = Some("missing: \"egress-allowlist\" of net needs the proxy's port");
            return Err(reader.into_error());
        }
    };
    Ok(Policy {
        text: reader.text,
        lists: &reader.lists.0,
        broker_socket: reader.broker_socket,
        exe: reader.exe,
        net,
        gpu: reader.gpu,
        exec_rw: reader.exec_rw,
    })
}

impl<'a> Reader<'a, '_> {
    fn into_error(self) -> Error<'a> {
        let text: &'a [u8] = self.text;
        let Some((_, name, expected)) = FIELDS.into_iter().find(|row| Some(row.0) == self.at.field)
        else {
            let cause = Cause::Reason(self.broken.unwrap_or("not a policy"));
            return Error::refused(Step::Policy, Subject::Name("field"), cause);
        };
        let reason = self.broken.unwrap_or(if self.at.index.is_some() {
            STRING
        } else {
            expected
        });
        let text = self.at.text.and_then(|span| text.get(span.start..span.end));
        let subject = Subject::Field {
            name,
            index: self.at.index,
            text,
        };
        Error::refused(Step::Policy, subject, Cause::Reason(reason))
    }

    /// Notes a broken rule; the serde error only carries it out.
    fn broken<E: serde::de::Error>(&mut self, rule: &'static str) -> E {
        self.broken = Some(rule);
        E::custom(rule)
    }

    /// Reads the value of a field.
    fn field<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        self.at = Position {
            field: Some(field),
            ..Position::default()
        };
        if self.seen & 1 << field as u32 != 0 {
            return Err(self.broken("stands in the policy twice: keep one"));
        }
        self.seen |= 1 << field as u32;
        match field {
            Field::Module | Field::Kind => {
                let raw = map.next_value()?;
                self.label(raw)?;
            }
            Field::Ro => map.next_value_seed(Paths {
                reader: self,
                list: List::Ro,
            })?,
            Field::Rw => map.next_value_seed(Paths {
                reader: self,
                list: List::Rw,
            })?,
            Field::Rd => map.next_value_seed(Paths {
                reader: self,
                list: List::Rd,
            })?,
            Field::Wo => map.next_value_seed(Paths {
                reader: self,
                list: List::Wo,
            })?,
            Field::Net => {
                let raw = map.next_value()?;
                self.allowlist = self.net(raw)?;
            }
            Field::ProxyPort => self.proxy_port = map.next_value()?,
            Field::BrokerSocket => self.broker_socket = self.optional_path(map.next_value()?)?,
            Field::Gpu => self.gpu = map.next_value()?,
            Field::ExecRw => self.exec_rw = map.next_value()?,
            Field::Exe => self.exe = self.optional_path(map.next_value()?)?,
        }
        self.at = Position::default();
        Ok(())
    }

    fn label<E: serde::de::Error>(&mut self, raw: &str) -> Result<(), E> {
        if decode(raw).any(|c| c.is_err()) {
            Err(self.broken(NOT_TEXT))
        } else {
            Ok(())
        }
    }

    /// Whether `net` is `egress-allowlist`.
    fn net<E: serde::de::Error>(&mut self, raw: &str) -> Result<bool, E> {
        let is = |name: &str| decode(raw).eq(name.chars().map(Ok));
        if is("none") {
            Ok(false)
        } else if is("egress-allowlist") {
            Ok(true)
        } else if is("egress-any") {
            Err(self.broken(
                "\"egress-any\" is unavailable: Landlock filters ports, not addresses, so loopback and link-local can't be refused; use \"egress-allowlist\" with a proxy",
            ))
        } else {
            Err(self.broken("must be \"none\" or \"egress-allowlist\""))
        }
    }

    /// Tells the name of a field that is skipped.
    fn skip<E: serde::de::Error>(&mut self, raw: &str) -> Result<(), E> {
        let start = self.used;
        for c in decode(raw).flatten() {
            self.push::<E>(c.encode_utf8(&mut [0; 4]).as_bytes())?;
        }
        (self.skipped)(self.text.get(start..self.used).unwrap_or_default());
        self.used = start;
        Ok(())
    }

    fn optional_path<E: serde::de::Error>(&mut self, raw: Option<&str>) -> Result<Option<Span>, E> {
        raw.map(|raw| self.path(raw)).transpose()
    }

    /// Decodes a path and holds it against the rules for paths.
    fn path<E: serde::de::Error>(&mut self, raw: &str) -> Result<Span, E> {
        let start = self.used;
        // Before its first escape a string is what it says; a NUL has to be escaped.
        let plain = raw.bytes().position(|byte| byte == b'\\');
        let (plain, rest) = raw.split_at(plain.unwrap_or(raw.len()));
        self.push(plain.as_bytes())?;
        for c in decode(rest) {
            match c {
                Err(LoneSurrogate) => return Err(self.broken(NOT_TEXT)),
                Ok('\0') => return Err(self.broken("a path can't hold a NUL")),
                Ok(c) => self.push::<E>(c.encode_utf8(&mut [0; 4]).as_bytes())?,
            }
        }
        let end = self.used;
        self.at.text = Some(Span { start, end });
        self.push::<E>(b"\0")?;
        match rule_broken(&self.text[start..end]) {
            Some(rule) => Err(self.broken(rule)),
            None => {
                self.at.text = None;
                Ok(Span {
                    start,
                    end: self.used,
                })
            }
        }
    }

    fn push<E: serde::de::Error>(&mut self, bytes: &[u8]) -> Result<(), E> {
        let Some(place) = self.text.get_mut(self.used..self.used + bytes.len()) else {
            return Err(self.broken("the policy is too long"));
        };
        place.copy_from_slice(bytes);
        self.used += bytes.len();
        Ok(())
    }
}

/// The rule for paths that this one breaks.
fn rule_broken(path: &[u8]) -> Option<&'static str> {
    if path.is_empty() {
        Some("empty path: take it out")
    } else if path[0] != b'/' {
        Some("the path must be absolute: start with /, neither ~ nor variables are expanded")
    } else if path.len() >= PATH_MAX {
        Some("ENAMETOOLONG (a path has 4095 bytes at most)")
    } else if path
        .split(|&byte| byte == b'/')
        .any(|component| component == b"..")
    {
        Some("the path must not contain \"..\": name the place itself")
    } else {
        None
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(raw) = map.next_key::<&str>()? {
            if decode(raw).any(|c| c.is_err()) {
                return Err(self.broken(NOT_TEXT));
            }
            match FIELDS
                .iter()
                .find(|row| decode(raw).eq(row.1.chars().map(Ok)))
            {
                Some(&(field, ..)) => self.field(field, &mut map)?,
                None => {
                    self.skip(raw)?;
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// One of the four lists.
struct Paths<'r, 'a, 'u> {
    reader: &'r mut Reader<'a, 'u>,
    list: List,
}

impl<'de> DeserializeSeed<'de> for Paths<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Paths<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STRINGS)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.reader.at.index = Some(index);
            let Some(raw) = seq.next_element()? else {
                break;
            };
            let span = self.reader.path(raw)?;
            if self.reader.lists.0.push((self.list, span)).is_err() {
                return Err(self
                    .reader
                    .broken("too many paths (1024 in ro, rw, rd and wo together): name a folder around them"));
            }
        }
        self.reader.at.index = None;
        Ok(())
    }
}
