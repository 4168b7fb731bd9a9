//! The policy: what a module is granted.

pub mod base_system;
pub mod file;
pub mod json;
pub mod reader;
pub mod text;

use core::ffi::CStr;
use core::num::NonZeroU16;

use heapless::Vec;

use crate::limits::PATHS;

/// A list of paths in the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Read and execute.
    Ro,
    /// Every file right; execute only with `exec_rw`.
    Rw,
    /// Read files and list.
    Rd,
    /// Make, write, truncate.
    Wo,
}

impl List {
    /// The field's name.
    pub const fn name(self) -> &'static str {
        match self {
            List::Ro => "ro",
            List::Rw => "rw",
            List::Rd => "rd",
            List::Wo => "wo",
        }
    }

    /// Whether the module can change what lies beneath.
    pub const fn is_writable(self) -> bool {
        matches!(self, List::Rw | List::Wo)
    }
}

/// Network access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// None.
    #[default]
    None,
    /// TCP connections to the agent's proxy port.
    Proxy(NonZeroU16),
}

/// Where a decoded path lies in the policy's text.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    /// With the NUL.
    end: usize,
}

/// The paths of `ro`, `rw`, `rd` and `wo` in the order of the policy. Large: the binary has it in a static.
#[derive(Debug, Default)]
pub struct Listed(Vec<(List, Span), PATHS>);

impl Listed {
    /// None.
    pub const fn new() -> Self {
        Listed(Vec::new())
    }
}

/// A path of the policy with the field it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The field's name.
    pub field: &'static str,
    /// The index in a list.
    pub index: Option<usize>,
    /// The path as given, decoded.
    pub path: &'a CStr,
}

/// A checked policy. Paths are absolute, not empty, without NUL or `..`, under PATH_MAX.
#[derive(Debug)]
pub struct Policy<'a> {
    text: &'a [u8],
    lists: &'a [(List, Span)],
    broker_socket: Option<Span>,
    exe: Option<Span>,
    /// Network access.
    pub net: Net,
    /// GPU device nodes.
    pub gpu: bool,
    /// Whether files in `rw` may be executed.
    pub exec_rw: bool,
}

impl<'a> Policy<'a> {
    fn path(&self, span: Span) -> &'a CStr {
        self.text
            .get(span.start..span.end)
            .and_then(|bytes| CStr::from_bytes_with_nul(bytes).ok())
            .unwrap_or(c"")
    }

    /// The paths of every list, in the order of the policy.
    pub fn entries(&self) -> impl Iterator<Item = (List, Entry<'a>)> + '_ {
        let mut counts = [0; 4];
        self.lists.iter().map(move |&(list, span)| {
            let index = counts[list as usize];
            counts[list as usize] += 1;
            (
                list,
                Entry {
                    field: list.name(),
                    index: Some(index),
                    path: self.path(span),
                },
            )
        })
    }

    /// The path with a number of [`Self::entries`], which counts from 0.
    pub fn list_path(&self, number: usize) -> &'a CStr {
        self.lists
            .get(number)
            .map_or(c"", |&(_, span)| self.path(span))
    }

    /// The broker's socket.
    pub fn broker_socket(&self) -> Option<Entry<'a>> {
        let span = self.broker_socket?;
        Some(Entry {
            field: "broker_socket",
            index: None,
            path: self.path(span),
        })
    }

    /// The module's program file.
    pub fn exe(&self) -> Option<Entry<'a>> {
        let span = self.exe?;
        Some(Entry {
            field: "exe",
            index: None,
            path: self.path(span),
        })
    }
}
