//! `sandbox-run --explain-denials`: what a module was denied, why, and which field of the policy would allow it.
//!
//! A refused call waits for the keeper's answer, which is the error that the ordinary filter answers: the keeper runs that
//! filter on what the kernel copied of the registers, and says nothing else, whatever it can't tell anybody. What
//! Landlock denies is read from the kernel's audit, where that can be read.
//!
//! To write a line may wait for whoever shares the file, and the keeper must not: a process of its own writes them.
//!
//! Read [`call`] and [`record`] for what is read of a call and of a record, and [`event`] for what is said.

mod accesses;
mod audit;
pub mod call;
pub mod event;
pub mod output;
pub mod record;
mod writer;

use core::hash::Hash;
use core::ops::ControlFlow;

use heapless::Vec;
use heapless::index_map::FnvIndexMap;
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
use crate::sys::{AsFd, Errno, OwnedFd};
use accesses::Accesses;
use call::Call;
use event::{Event, Fields, Hexadecimal};
pub use output::{Output, Request, To};
use record::Denied;
pub use writer::Lines;

/// How many kinds of refused calls, and as many of denied accesses, are told apart; those that come after are only counted.
pub const KINDS: usize = 512;

/// The memory that this needs. The binary has one as a static.
pub struct Memory {
    kinds: Kinds,
    accesses: accesses::Memory,
    path: [u8; accesses::PATH],
}

impl Memory {
    /// Empty memory.
    pub const fn new() -> Self {
        Memory {
            kinds: Kinds {
                calls: FnvIndexMap::new(),
                accesses: FnvIndexMap::new(),
            },
            accesses: accesses::Memory::new(),
            path: [0; accesses::PATH],
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

/// Explains what a module is denied.
pub struct Explain<'m> {
    mode: Mode,
    lines: Lines,
    acted: Signals,
    signals: OwnedFd,
    listener: Option<OwnedFd>,
    leader: i32,
    /// What Landlock denies, where that is seen.
    accesses: Option<Accesses>,
    sums: Sums,
    memory: &'m mut Memory,
}

impl<'m> Explain<'m> {
    /// Makes ready to explain, in the process that will wait. `acted`: the signals that are waited for, all of which must
    /// be blocked.
    pub fn new(
        mode: Mode,
        lines: Lines,
        acted: Signals,
        memory: &'m mut Memory,
    ) -> Result<Self, Error<'static>> {
        Ok(Explain {
            mode,
            lines,
            acted,
            signals: signal::descriptor(acted).map_err(failed("signalfd4"))?,
            listener: None,
            leader: 0,
            accesses: None,
            sums: Sums::default(),
            memory,
        })
    }

    /// Looks whether what Landlock denies can be seen, with this ABI. False: the kernel need not log it, and why is said.
    pub fn look_for_records(&mut self, abi: Abi) -> bool {
        let (accesses, reason) = match Accesses::listen(abi, &mut self.memory.accesses) {
            Ok((accesses, doubt)) => (Some(accesses), doubt),
            Err(reason) => (None, Some(reason)),
        };
        let seen = accesses.is_some();
        self.accesses = accesses;
        if let Some(reason) = reason {
            self.lines.say(&Event::Files {
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
            self.accesses.as_ref().map(Accesses::socket),
        ];
        let [signal, call, record] = poll::read(waiting, nanoseconds).map_err(failed("poll"))?;
        if signal != Ready::No {
            return signal::wait(self.acted, Some(0)).map_err(failed("rt_sigtimedwait"));
        }
        if call == Ready::Something {
            self.answer()?;
        } else if call == Ready::Ended {
            // Nobody is left who could call.
            self.listener = None;
        }
        if record != Ready::No {
            self.read_accesses(false);
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
        let mut process = id.and_then(|_| Process::of(waiting.thread));
        match refuse(listener, &waiting, errno) {
            Ok(()) => {}
            // It was killed before it was looked at, perhaps: its number may have been another's.
            Err(Errno::NOENT) => process = None,
            Err(errno) => return Err(failed("SECCOMP_IOCTL_NOTIF_SEND")(errno)),
        }
        if let Some(id) = id {
            self.lines.say(&Event::Call {
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

    /// Tells what Landlock has denied by now; `last`: or denies yet.
    fn read_accesses(&mut self, last: bool) {
        let Some(accesses) = &mut self.accesses else {
            return;
        };
        let Memory {
            kinds,
            accesses: memory,
            path,
        } = &mut *self.memory;
        let tell = |denied: &[u8]| {
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
            if !self.lines.say(&said(denied.path.map(Text))) {
                self.lines.say(&said(Some(Text(b"too long for a line"))));
            }
        };
        if last {
            accesses.read_last(self.leader, memory, tell);
        } else {
            accesses.read(self.leader, memory, tell);
        }
    }

    /// When everything of the module has ended: what was denied more than once, and the sums.
    pub fn finish(mut self) {
        self.read_accesses(true);
        self.lines.be_patient();
        let Kinds { calls, accesses } = &self.memory.kinds;
        for &Count { id, count } in calls.values().chain(accesses.values()) {
            if count > 1 {
                self.lines.say(&Event::Again { id, count });
            }
        }
        let Sums {
            calls,
            accesses,
            untold,
            ..
        } = self.sums;
        let lost_records = self.accesses.as_ref().map_or(0, Accesses::lost);
        self.lines.end([calls, accesses, untold, lost_records]);
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
