//! The denied accesses of the module's domain, from the kernel's audit.

use heapless::{HistoryBuf, Vec};

use super::audit::{self, Reason, Records};
use super::record::{self, Record};
use crate::landlock::abi::Abi;
use crate::sys::poll::{self, Ready};
use crate::sys::spawn::now;
use crate::sys::{AsFd, BorrowedFd, OwnedFd, net};

/// How many accesses may be denied before it is known that the domain is the module's.
const PENDING: usize = 8;

/// How many records are read at once, before signals are looked at.
const AT_ONCE: u32 = 64;

/// How long the kernel may take for its last records, in nanoseconds.
const LATE: u64 = 20_000_000;

/// How long it may take to tell of a domain's end, which comes after some of its grace periods (RCU).
const ENDING: u64 = 300_000_000;

/// The longest message of the kernel's audit is 8,970 bytes (`MAX_AUDIT_MESSAGE_LENGTH`), with its header.
const MESSAGE: usize = 9216;

/// The longest path, with its end (`PATH_MAX`).
pub(super) const PATH: usize = 4096;

/// The memory that this needs.
pub(super) struct Memory {
    message: [u8; MESSAGE],
    /// The launcher's path.
    launcher: [u8; PATH],
    /// What was denied by domains that may turn out to be the module's; the last ones.
    pending: HistoryBuf<Pending, PENDING>,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Memory {
            message: [0; MESSAGE],
            launcher: [0; PATH],
            pending: HistoryBuf::new(),
        }
    }
}

/// An access that some domain has denied.
struct Pending {
    domain: u64,
    denied: Vec<u8, MESSAGE>,
}

/// The module's domain.
struct Own {
    domain: u64,
    /// How many of its denials were read.
    read: u64,
    /// How many there were, which the kernel tells at its end.
    all: Option<u64>,
}

/// What Landlock denies the module.
pub(super) struct Accesses {
    socket: OwnedFd,
    /// The length of the launcher's path in the memory.
    launcher: usize,
    /// The module's domain, once it is known: the oldest that its leader has made with the launcher's program.
    own: Option<Own>,
    /// How often the kernel said that records were lost.
    overruns: u64,
}

impl Accesses {
    /// Listens, and says what is doubtful; or why it can't.
    pub(super) fn listen(abi: Abi, memory: &mut Memory) -> Result<(Self, Option<Reason>), Reason> {
        let Records {
            socket,
            launcher,
            doubt,
        } = audit::records(abi, &mut memory.launcher)?;
        let accesses = Accesses {
            socket,
            launcher,
            own: None,
            overruns: 0,
        };
        Ok((accesses, doubt))
    }

    /// Where records come from.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what the kernel has logged, and tells each access that `leader`'s domain has denied.
    pub(super) fn read(&mut self, leader: i32, memory: &mut Memory, mut tell: impl FnMut(&[u8])) {
        let Memory {
            message,
            launcher,
            pending,
        } = memory;
        let launcher = launcher.get(..self.launcher).unwrap_or_default();
        for _ in 0..AT_ONCE {
            let record = match net::receive_message(&self.socket, message) {
                Ok(None) => return,
                Ok(Some((kind, text))) => record::parse(kind, text),
                Err(_) => {
                    self.overruns += 1;
                    None
                }
            };
            // Domains are numbered upwards; one that a module makes for itself is younger than its own.
            let known = self.own.as_ref().map(|own| own.domain);
            let may_be_own = |domain| known.is_none_or(|own| domain < own);
            match (record, &mut self.own) {
                (Some(Record::Access { domain, denied }), Some(own)) if own.domain == domain => {
                    own.read += 1;
                    tell(denied);
                }
                (Some(Record::Access { domain, denied }), _) if may_be_own(domain) => {
                    // No record is longer.
                    let denied = Vec::from_slice(denied).unwrap_or_default();
                    pending.write(Pending { domain, denied });
                }
                (
                    Some(Record::Domain {
                        domain,
                        creator,
                        program,
                    }),
                    _,
                ) if creator == leader
                    && may_be_own(domain)
                    && record::is_path(program, launcher) =>
                {
                    let mut read = 0;
                    for pending in pending.oldest_ordered() {
                        if pending.domain == domain {
                            read += 1;
                            tell(&pending.denied);
                        }
                    }
                    let all = None;
                    self.own = Some(Own { domain, read, all });
                }
                (Some(Record::End { domain, denials }), Some(own)) if own.domain == domain => {
                    own.all = Some(denials);
                }
                _ => {}
            }
        }
    }

    /// Reads what the kernel has yet to log of a module that has ended.
    pub(super) fn read_last(
        &mut self,
        leader: i32,
        memory: &mut Memory,
        mut tell: impl FnMut(&[u8]),
    ) {
        let Ok(start) = now() else { return };
        loop {
            let patience = match self.own {
                None => LATE,
                Some(Own { all: None, .. }) => ENDING,
                Some(_) => return,
            };
            let left = now().map_or(0, |now| (start + patience).saturating_sub(now));
            match poll::read([Some(self.socket())], Some(left)) {
                Ok([Ready::Something | Ready::Failed]) if left > 0 => {
                    self.read(leader, memory, &mut tell)
                }
                _ => return,
            }
        }
    }

    /// How many were not read: by the kernel's count, if that has come.
    pub(super) fn lost(&self) -> u64 {
        match self.own {
            Some(Own {
                read,
                all: Some(all),
                ..
            }) => all.saturating_sub(read),
            _ => self.overruns,
        }
    }
}
