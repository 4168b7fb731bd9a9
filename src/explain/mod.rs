//! `sandbox-run --explain-denials`: what a module was denied, why, and which field of the policy would allow it.
//!
//! A refused call waits for the keeper's answer, which is the error that the ordinary filter answers: the keeper runs that
//! filter on what the kernel copied of the registers, and says nothing else, whatever it can't tell anybody. What
//! Landlock denies is read from the kernel's audit, where that can be read.
//!
//! Read [`call`] and [`record`] for what is read of a call and of a record, and [`event`] for what is said.

mod audit;
pub mod call;
pub mod event;
pub mod output;
pub mod record;

use core::hash::Hash;
use core::ops::ControlFlow;

use heapless::index_map::FnvIndexMap;
use heapless::{HistoryBuf, Vec};
use linux_raw_sys::errno::EPERM;
use linux_raw_sys::ptrace::{
    SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ALLOW, SECCOMP_RET_DATA, SECCOMP_RET_ERRNO,
};

use crate::bpf;
use crate::error::{Error, Step};
use crate::landlock::abi::Abi;
use crate::lines;
use crate::output::{Shown, Text};
use crate::seccomp::{Mode, filter};
use crate::sys::fs::{self, ProcPath};
use crate::sys::poll::{self, Ready};
use crate::sys::seccomp::{answer_on_one_processor, receive, refuse, seccomp_data};
use crate::sys::signal::{self, Received, Signals};
use crate::sys::spawn::now;
use crate::sys::{AsFd, Errno, OwnedFd, net};
use audit::Records;
use call::Call;
use event::{Event, Fields, Hexadecimal};
pub use output::{Output, Request, To};
use record::{Denied, Record};

/// How many kinds of refused calls, and as many of denied accesses, are told apart; those that come after are only counted.
pub const KINDS: usize = 512;

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
const PATH: usize = 4096;

/// The memory that this needs. The binary has one as a static.
pub struct Memory {
    kinds: Kinds,
    message: [u8; MESSAGE],
    path: [u8; PATH],
    /// What was denied by domains that may turn out to be the module's; the last ones.
    pending: HistoryBuf<Pending, PENDING>,
    launcher: [u8; PATH],
}

impl Memory {
    /// Empty memory.
    pub const fn new() -> Self {
        Memory {
            kinds: Kinds {
                calls: FnvIndexMap::new(),
                accesses: FnvIndexMap::new(),
            },
            message: [0; MESSAGE],
            path: [0; PATH],
            pending: HistoryBuf::new(),
            launcher: [0; PATH],
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// What was denied, by its kind.
struct Kinds {
    calls: Counts<Place>,
    /// By the hash of what the record says.
    accesses: Counts<u64>,
}

/// How often something of a kind was denied.
type Counts<K> = FnvIndexMap<K, Count, KINDS>;

struct Count {
    id: u32,
    count: u64,
}

/// A kind of refused calls, and the place they come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    call: Call,
    /// The address within its page, which is the same in every process that has the same code, wherever that was mapped.
    within_page: u64,
}

impl Place {
    /// The smallest page of any architecture.
    const PAGE: u64 = 4096;

    const fn of(call: Call, address: u64) -> Self {
        Place {
            call,
            within_page: address % Self::PAGE,
        }
    }
}

/// The sums.
#[derive(Default)]
struct Sums {
    calls: u64,
    accesses: u64,
    untold: u64,
    /// How often the kernel said that records were lost.
    overruns: u64,
    /// The last number that was given to a kind.
    last: u32,
}

impl Sums {
    /// Counts one more of a kind: its number, if it is the first of it and there is room to know it again.
    fn count<K: Hash + Eq>(&mut self, counts: &mut Counts<K>, kind: K) -> Option<u32> {
        if let Some(count) = counts.get_mut(&kind) {
            count.count += 1;
            return None;
        }
        let id = self.last + 1;
        match counts.insert(kind, Count { id, count: 1 }) {
            Ok(_) => {
                self.last = id;
                Some(id)
            }
            Err(_) => {
                self.untold += 1;
                None
            }
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

/// Explains what a module is denied.
pub struct Explain<'m> {
    mode: Mode,
    output: Output,
    acted: Signals,
    signals: OwnedFd,
    listener: Option<OwnedFd>,
    leader: i32,
    /// What Landlock denies, where that is seen.
    records: Option<OwnedFd>,
    /// The length of the launcher's path in the memory.
    launcher: usize,
    /// The module's domain, once it is known: the oldest that its leader has made with the launcher's program.
    own: Option<Own>,
    sums: Sums,
    memory: &'m mut Memory,
}

impl<'m> Explain<'m> {
    /// Makes ready to explain, in the process that will wait. `acted`: the signals that are waited for, all of which must
    /// be blocked, as SIGPIPE must.
    pub fn new(
        mode: Mode,
        output: Output,
        acted: Signals,
        memory: &'m mut Memory,
    ) -> Result<Self, Error<'static>> {
        Ok(Explain {
            mode,
            output,
            acted,
            signals: signal::descriptor(acted).map_err(failed("signalfd4"))?,
            listener: None,
            leader: 0,
            records: None,
            launcher: 0,
            own: None,
            sums: Sums::default(),
            memory,
        })
    }

    /// Looks whether what Landlock denies can be seen, with this ABI. False: the kernel need not log it, and why is said.
    pub fn look_for_records(&mut self, abi: Abi) -> bool {
        let (records, reason) = match audit::records(abi, &mut self.memory.launcher) {
            Ok(Records {
                socket,
                launcher,
                doubt,
            }) => {
                self.launcher = launcher;
                (Some(socket), doubt)
            }
            Err(reason) => (None, Some(reason)),
        };
        let seen = records.is_some();
        self.records = records;
        if let Some(reason) = reason {
            self.output.say(&Event::Files {
                seen,
                reason: Shown(&reason),
            });
        }
        seen
    }

    /// From here on calls are answered: those of `leader` and all that it starts.
    pub fn attach(&mut self, leader: i32, listener: OwnedFd) {
        self.leader = leader;
        // On an older kernel it is slower, and the same.
        let _ = answer_on_one_processor(&listener);
        self.listener = Some(listener);
    }

    /// Answers what waits, until a signal comes or for some nanoseconds, but not for ever. `None`: no signal came.
    pub fn wait(&mut self, nanoseconds: Option<u64>) -> Result<Option<Received>, Error<'static>> {
        let waiting = [
            Some(self.signals.as_fd()),
            self.listener.as_ref().map(AsFd::as_fd),
            self.records.as_ref().map(AsFd::as_fd),
        ];
        let [signal, call, record] = poll::read(waiting, nanoseconds).map_err(failed("poll"))?;
        if signal != Ready::No {
            return signal::wait(self.acted, Some(0)).map_err(failed("rt_sigtimedwait"));
        }
        match call {
            Ready::No => {}
            Ready::Something => self.answer()?,
            // Nobody is left who could call.
            Ready::Ended => self.listener = None,
        }
        if record != Ready::No {
            self.read_records();
        }
        Ok(None)
    }

    /// Answers a call, and then says what it was.
    fn answer(&mut self) -> Result<(), Error<'static>> {
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        let waiting = match receive(listener) {
            // It was killed meanwhile.
            Err(Errno::NOENT | Errno::INTR) => return Ok(()),
            received => received.map_err(failed("SECCOMP_IOCTL_NOTIF_RECV"))?,
        };
        let data = &waiting.data;
        let errno = answer(self.mode, data);
        let call = Call::of(data);
        let address = data.instruction_pointer;
        let place = Place::of(call, address);
        let id = self.sums.count(&mut self.memory.kinds.calls, place);
        self.sums.calls += 1;
        // While it waits, its thread has its number.
        let process = id.and_then(|_| Process::of(waiting.thread));
        match refuse(listener, &waiting, errno) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("SECCOMP_IOCTL_NOTIF_SEND")(errno)),
        }
        if let Some(id) = id {
            self.output.say(&Event::Call {
                id,
                pid: process.as_ref().map(|process| process.pid),
                process: process.as_ref().map(|process| Text(&process.name)),
                call: Shown(&call),
                name: call.name(),
                number: call.number as i32,
                address: Shown(&Hexadecimal(address)),
                errno: event::errno_name(errno),
                reason: event::reason(&call),
                grant: grant(self.mode, data),
            });
        }
        Ok(())
    }

    /// Reads what the kernel has logged.
    fn read_records(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(socket) = &self.records else {
                return;
            };
            let Memory {
                kinds,
                message,
                path,
                pending,
                launcher,
            } = &mut *self.memory;
            let record = match net::receive_message(socket, message) {
                Ok(None) => return,
                Ok(Some((kind, text))) => record::parse(kind, text),
                Err(_) => {
                    self.sums.overruns += 1;
                    None
                }
            };
            let mut tell = |denied: &[u8]| {
                self.sums.accesses += 1;
                let kind = record::hash(denied);
                let Some(id) = self.sums.count(&mut kinds.accesses, kind) else {
                    return;
                };
                let denied = Denied::read(denied, path);
                let said = |path| Event::Access {
                    id,
                    rights: denied.rights,
                    path,
                    port: denied.port,
                    pid: denied.process,
                    grants: Fields(&denied),
                };
                if !self.output.say(&said(denied.path.map(Text))) {
                    self.output.say(&said(Some(Text(b"too long for a line"))));
                }
            };
            let launcher = launcher.get(..self.launcher).unwrap_or_default();
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
                ) if creator == self.leader
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

    /// When everything of the module has ended: what was denied more than once, and the sums.
    pub fn finish(mut self) {
        self.read_last_records();
        self.output.be_patient();

        let Kinds { calls, accesses } = &self.memory.kinds;
        for &Count { id, count } in calls.values().chain(accesses.values()) {
            if count > 1 {
                self.output.say(&Event::Again { id, count });
            }
        }
        let Sums {
            calls,
            accesses,
            untold,
            overruns,
            ..
        } = self.sums;
        let lost_records = match self.own {
            Some(Own {
                read,
                all: Some(all),
                ..
            }) => all.saturating_sub(read),
            _ => overruns,
        };
        self.output.say(&Event::Summary {
            calls,
            accesses,
            untold,
            lost_lines: self.output.lost,
            lost_records,
        });
    }

    /// Reads what the kernel has yet to log.
    fn read_last_records(&mut self) {
        let Ok(start) = now() else { return };
        while let Some(socket) = &self.records {
            let patience = match self.own {
                None => LATE,
                Some(Own { all: None, .. }) => ENDING,
                Some(_) => return,
            };
            let left = now().map_or(0, |now| (start + patience).saturating_sub(now));
            match poll::read([Some(socket.as_fd())], Some(left)) {
                Ok([Ready::Something]) if left > 0 => self.read_records(),
                _ => return,
            }
        }
    }
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Error<'static> {
    move |errno| Error::call(Step::Supervise, call, errno)
}

/// The error that the filter of a mode answers. Only such calls are asked about; whatever else comes is not permitted.
fn answer(mode: Mode, data: &seccomp_data) -> i32 {
    match bpf::run(filter::program(mode), data) {
        Some(answer) if answer & SECCOMP_RET_ACTION_FULL == SECCOMP_RET_ERRNO => {
            (answer & SECCOMP_RET_DATA) as i32
        }
        _ => EPERM as i32,
    }
}

/// The field of the policy with which the filter would allow a call that it refuses: its program is run as well.
fn grant(mode: Mode, data: &seccomp_data) -> Option<&'static str> {
    [
        ("net", Mode { tcp: true, ..mode }),
        (
            "broker_socket",
            Mode {
                broker: true,
                ..mode
            },
        ),
        (
            "exec_rw",
            Mode {
                exec_rw: true,
                ..mode
            },
        ),
    ]
    .into_iter()
    .find(|(_, with)| bpf::run(filter::program(*with), data) == Some(SECCOMP_RET_ALLOW))
    .map(|(field, _)| field)
}

/// Who has made a call.
struct Process {
    pid: i32,
    /// As `/proc/PID/status` writes it: a process names itself.
    name: Vec<u8, 64>,
}

impl Process {
    /// That of a thread (`proc_pid_status(5)`). `None`: it is not to be seen from here.
    fn of(thread: u32) -> Option<Self> {
        let path = ProcPath::of_process(thread, "status");
        let mut name = Vec::new();
        let pid = lines::find(fs::CWD, path.as_c_str(), &mut [0; 512], |line| {
            if let Some(text) = line.strip_prefix(b"Name:\t") {
                name = text.iter().copied().take(64).collect();
            }
            match line.strip_prefix(b"Tgid:\t") {
                Some(digits) => ControlFlow::Break(lines::decimal(digits)),
                None => ControlFlow::Continue(()),
            }
        });
        let pid = i32::try_from(pid.ok()???).ok()?;
        Some(Process { pid, name })
    }
}
