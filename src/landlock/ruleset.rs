//! The rules of a policy at an ABI (pure), and their application.

use core::ffi::CStr;

use heapless::Vec;
use linux_raw_sys::landlock::{
    LANDLOCK_ACCESS_NET_CONNECT_TCP, LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON,
};

use super::abi::{self, Abi};
use super::access::Grant;
use super::resolve::{Failure, Identity, Opened, Space};
use crate::error::{Cause, Error, Step, Subject};
use crate::policy::base_system::{
    DEVICES, GPU_DIRECTORY, GPU_NODES, GPU_PREFIX, GPU_TASKS, Merge, SYSTEM,
};
use crate::policy::{Entry, List, Net, Policy};
use crate::sys::fs::{self, FileType};
use crate::sys::landlock as call;
use crate::sys::{Errno, OwnedFd};

/// A path of the host, skipped where it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRule<'p> {
    /// The path.
    pub path: &'p CStr,
    /// What is granted.
    pub grant: Grant,
    merge: Merge,
}

/// What a policy grants of the host itself, but for the GPU nodes that are found by their prefix.
pub fn host_rules(policy: &Policy<'_>) -> impl Iterator<Item = HostRule<'static>> {
    let gpu = policy.gpu;
    let rule = |grant| {
        move |path| HostRule {
            path,
            grant,
            merge: Merge::None,
        }
    };
    SYSTEM
        .into_iter()
        .map(|(path, merge)| HostRule {
            path,
            grant: Grant::Program,
            merge,
        })
        .chain(DEVICES.into_iter().map(rule(Grant::Device)))
        .chain(
            GPU_NODES
                .into_iter()
                .filter(move |_| gpu)
                .map(rule(Grant::Gpu)),
        )
}

/// What a list of the policy grants.
pub const fn list_grant(list: List, exec_rw: bool) -> Grant {
    match list {
        List::Ro => Grant::Program,
        List::Rw => Grant::Work { exec_rw },
        List::Rd => Grant::Input,
        List::Wo => Grant::Outbox,
    }
}

/// The TCP port to which the module may connect. `Err`: this ABI can't hold it to that.
pub fn proxy_port(policy: &Policy<'_>, abi: Abi) -> Result<Option<u16>, Error<'static>> {
    match policy.net {
        Net::None => Ok(None),
        Net::Proxy(port) if abi.has(abi::TCP) => Ok(Some(port.get())),
        Net::Proxy(_) => {
            let subject = Subject::Field {
                name: "net",
                index: None,
                text: Some(b"egress-allowlist"),
            };
            let (needed, since) = (abi::TCP, abi::linux_of(abi::TCP));
            Err(Error::refused(
                Step::Landlock,
                subject,
                Cause::NeedsAbi {
                    needed,
                    since,
                    found: abi.number(),
                },
            ))
        }
    }
}

/// The ruleset of a policy, made but not yet applied.
pub struct Ruleset {
    fd: OwnedFd,
    abi: Abi,
    /// With `gpu`: taken by the one process whose own tasks a rule may grant.
    tasks: Option<OwnedFd>,
}

/// What is seen while a ruleset is made.
pub enum Seen<'s> {
    /// A rule, or with no rights a path that needs none.
    Rule {
        /// What grants it: a field of the policy, or the path itself if every policy does.
        subject: Subject<'s>,
        /// What it is on, opened.
        at: &'s OwnedFd,
        /// What is granted.
        grant: Grant,
        /// The rights of the rule at this ABI.
        rights: u64,
    },
    /// A path of the host that does not exist.
    Missing(&'s CStr),
    /// A path that ends where programs may be executed anyway.
    Covered(Subject<'s>),
}

/// Makes the ruleset of a policy at this kernel's ABI. `see` is told of each rule when it was added.
pub fn make<'a>(
    policy: &Policy<'a>,
    abi: Abi,
    space: &mut Space,
    see: &mut dyn FnMut(Seen<'_>),
) -> Result<Ruleset, Error<'a>> {
    let port = proxy_port(policy, abi)?;
    let ruleset = call::create_ruleset(&abi.ruleset_attr(), abi.attr_size())
        .map_err(|errno| Error::call(Step::Landlock, "landlock_create_ruleset", errno))?;
    let mut rules = Rules {
        policy,
        abi,
        ruleset,
        space,
        see,
        places: Vec::new(),
        usr: None,
    };
    // The space may have served another policy.
    rules.space.clear();
    rules.writable_roots()?;
    rules.host()?;
    rules.others()?;
    if let Some(port) = port {
        call::add_net_port(&rules.ruleset, port, LANDLOCK_ACCESS_NET_CONNECT_TCP.into())
            .map_err(|errno| Error::call(Step::Landlock, "proxy_port", errno))?;
    }
    let fd = rules.ruleset;
    let tasks = if policy.gpu {
        let token = fs::token().map_err(|errno| Error::call(Step::Landlock, "eventfd", errno))?;
        Some(token)
    } else {
        None
    };
    Ok(Ruleset { fd, abi, tasks })
}

impl Ruleset {
    /// The ABI that it was made for.
    pub const fn abi(&self) -> Abi {
        self.abi
    }

    /// Confines this process, which must be the module's own.
    ///
    /// With `gpu` that is possible once: the rule for the process's own tasks would otherwise grant them to the
    /// processes that are confined later. EAGAIN: it was done before.
    ///
    /// `log`: the kernel's audit logs what is denied after the next exec (ABI 7).
    pub fn apply(&self, log: bool) -> Result<(), Error<'static>> {
        if let Some(token) = &self.tasks {
            fs::read(token, &mut [0; 8]).map_err(|errno| {
                let cause = match errno {
                    Errno::AGAIN => {
                        Cause::Explained(errno, "with gpu it confines one process only")
                    }
                    errno => Cause::Errno(errno),
                };
                Error::refused(Step::Landlock, Subject::Name("sandbox"), cause)
            })?;
            self.grant_own_tasks()
                .map_err(|errno| host_refused(GPU_TASKS, errno))?;
        }
        let flags = if log {
            LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
        } else {
            0
        };
        call::restrict_self(&self.fd, flags)
            .map_err(|errno| Error::call(Step::Landlock, "landlock_restrict_self", errno))
    }

    fn grant_own_tasks(&self) -> Result<(), Errno> {
        // A link of the kernel's own, to this process.
        match fs::open_location_following(GPU_TASKS) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
            Ok(fd) => call::add_path_beneath(&self.fd, fd, Grant::Tasks.rights(self.abi)),
        }
    }
}

/// A ruleset in the making.
struct Rules<'p, 'a> {
    policy: &'p Policy<'a>,
    abi: Abi,
    ruleset: OwnedFd,
    space: &'p mut Space,
    see: &'p mut dyn FnMut(Seen<'_>),
    /// Directories of the base system that no link leads to, and that have their rule.
    places: Vec<&'static CStr, { SYSTEM.len() }>,
    /// What `/usr` is, once it has its rule.
    usr: Option<Identity>,
}

impl<'a> Rules<'_, 'a> {
    /// The roots that the module may change come first: what is below them is resolved with care.
    fn writable_roots(&mut self) -> Result<(), Error<'a>> {
        for (number, (list, entry)) in self.policy.entries().enumerate() {
            if list.is_writable() {
                let opened = self.space.add_root(number, entry.path);
                if let Some(fd) = opened.map_err(|errno| refused(entry, Cause::Errno(errno)))? {
                    self.add(entry, fd, list_grant(list, self.policy.exec_rw), None)?;
                }
            }
        }
        Ok(())
    }

    /// The base system and the GPU.
    fn host(&mut self) -> Result<(), Error<'a>> {
        for rule in host_rules(self.policy) {
            let is_place = self
                .host_rule(rule)
                .map_err(|errno| host_refused(rule.path, errno))?;
            if is_place {
                // As many as there are.
                let _ = self.places.push(rule.path);
            }
        }
        if self.policy.gpu {
            self.gpu_nodes()
                .map_err(|errno| host_refused(GPU_DIRECTORY, errno))?;
        }
        Ok(())
    }

    // With a stack frame of its own, as large as a page's half.
    #[inline(never)]
    fn gpu_nodes(&mut self) -> Result<(), Errno> {
        let listed = fs::for_each_entry(fs::CWD, GPU_DIRECTORY, |name| {
            if !name.to_bytes().starts_with(GPU_PREFIX) {
                return Ok(());
            }
            // A name has 255 bytes at most (NAME_MAX).
            let mut path: Vec<u8, 288> = Vec::new();
            for part in [GPU_DIRECTORY.to_bytes(), b"/", name.to_bytes_with_nul()] {
                path.extend_from_slice(part)
                    .map_err(|_| Errno::NAMETOOLONG)?;
            }
            let path = CStr::from_bytes_with_nul(&path).map_err(|_| Errno::INVAL)?;
            self.host_rule(HostRule {
                path,
                grant: Grant::Gpu,
                merge: Merge::None,
            })
            .map(drop)
        });
        // A host without /dev has no GPU.
        if listed == Err(Errno::NOENT) {
            Ok(())
        } else {
            listed
        }
    }

    /// Whether programs may now be executed beneath this very path: a directory of the base system that no link leads to.
    fn host_rule(&mut self, rule: HostRule<'_>) -> Result<bool, Errno> {
        let HostRule { path, grant, merge } = rule;
        let subject = Subject::Text(path.to_bytes());
        // The links of a merged /usr lead to what its rule covers. This makes no rule, whatever was linked.
        if merge == Merge::Link && self.usr.is_some() {
            match parent(path) {
                Ok(parent) if self.usr == Some(parent) => {
                    (self.see)(Seen::Covered(subject));
                    return Ok(false);
                }
                Err(Errno::NOENT) => {
                    (self.see)(Seen::Missing(path));
                    return Ok(false);
                }
                // Somewhere else, a directory that nobody may look into, or a file: whatever it is, it is opened.
                Ok(_) | Err(Errno::ACCESS | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        let opened = match self.space.open(path) {
            Err(Failure::Errno(Errno::NOENT)) => {
                (self.see)(Seen::Missing(path));
                return Ok(false);
            }
            Err(Failure::Errno(errno)) => return Err(errno),
            Err(Failure::Leaves(_)) => return Err(Errno::XDEV),
            Ok(opened) => opened,
        };
        if grant == Grant::Program && self.space.ends_beneath(path, opened.linked, &self.places) {
            self.space.hold(opened.fd);
            (self.see)(Seen::Covered(subject));
            return Ok(false);
        }
        let Opened { fd, linked } = opened;
        let identity = match merge {
            Merge::Target => Some(fs::stat(&fd)?.into()),
            _ => None,
        };
        let is_directory = self.add_rights(subject, fd, grant, None)?;
        self.usr = self.usr.or(identity);
        Ok(grant == Grant::Program && is_directory && !linked)
    }

    /// What is left of the policy: the lists, `exe` and the broker.
    fn others(&mut self) -> Result<(), Error<'a>> {
        for (number, (list, entry)) in self.policy.entries().enumerate() {
            if !self.space.is_root_without_links(number) {
                let fd = self.open(entry)?;
                self.add(entry, fd, list_grant(list, self.policy.exec_rw), None)?;
            }
        }
        if let Some(entry) = self.policy.exe() {
            self.exe(entry)?;
        }
        match self.policy.broker_socket() {
            Some(entry) => self.broker(entry),
            None => Ok(()),
        }
    }

    /// What is granted already needs no rule, wherever a link below a writable root leads to it.
    fn exe(&mut self, entry: Entry<'a>) -> Result<(), Error<'a>> {
        match self.space.open(entry.path) {
            Ok(opened) => {
                let Opened { fd, linked } = opened;
                let covered = self.space.ends_beneath(entry.path, linked, &self.places);
                let kind = file_type(entry, &fd)?;
                if kind == FileType::Directory {
                    return Err(refused(entry, Cause::Errno(Errno::ISDIR)));
                }
                if !covered {
                    return self.add(entry, fd, Grant::Program, Some(kind));
                }
                self.space.hold(fd);
            }
            Err(Failure::Leaves(_)) if self.ends_in_a_program_place() => {}
            Err(failure) => return Err(self.refusal(entry, failure)),
        }
        (self.see)(Seen::Covered(subject(entry)));
        Ok(())
    }

    /// Below ABI 9 there is no right to grant, but the path must be a socket all the same.
    fn broker(&mut self, entry: Entry<'a>) -> Result<(), Error<'a>> {
        let fd = self.open(entry)?;
        let kind = file_type(entry, &fd)?;
        if kind != FileType::Socket {
            return Err(refused(
                entry,
                Cause::Explained(Errno::NOTSOCK, "not a socket: is the broker running?"),
            ));
        }
        self.add(entry, fd, Grant::Broker, Some(kind))
    }

    fn open(&mut self, entry: Entry<'a>) -> Result<OwnedFd, Error<'a>> {
        match self.space.open(entry.path) {
            Ok(opened) => Ok(opened.fd),
            Err(failure) => Err(self.refusal(entry, failure)),
        }
    }

    /// Whether the path that just left its writable root ended in the base system or in `ro`.
    fn ends_in_a_program_place(&mut self) -> bool {
        let ro = self
            .policy
            .entries()
            .filter(|(list, _)| *list == List::Ro)
            .map(|(_, entry)| entry.path);
        let system = SYSTEM.into_iter().map(|(path, _)| path);
        self.space.ended_beneath(system.chain(ro))
    }

    fn add(
        &mut self,
        entry: Entry<'a>,
        fd: OwnedFd,
        grant: Grant,
        kind: Option<FileType>,
    ) -> Result<(), Error<'a>> {
        self.add_rights(subject(entry), fd, grant, kind)
            .map(drop)
            .map_err(|errno| refused(entry, Cause::Errno(errno)))
    }

    /// Adds a rule; what `kind` the file is of needs not be known. Whether it was made for a directory; also false if that
    /// makes no difference.
    fn add_rights(
        &mut self,
        subject: Subject<'_>,
        fd: OwnedFd,
        grant: Grant,
        kind: Option<FileType>,
    ) -> Result<bool, Errno> {
        let file_rights = grant.file_rights(self.abi);
        let rights = match kind {
            None | Some(FileType::Directory) => grant.rights(self.abi),
            Some(_) => file_rights,
        };
        let add = |rights| match rights {
            // The broker's below ABI 9: what is not handled can't be granted.
            0 => Ok(()),
            rights => call::add_path_beneath(&self.ruleset, &fd, rights),
        };
        let added = match add(rights) {
            // A file, and some right that only a directory can have.
            Err(Errno::INVAL) if rights != file_rights => {
                if fs::file_type(&fs::stat(&fd)?) == FileType::Directory {
                    return Err(Errno::INVAL);
                }
                add(file_rights)?;
                file_rights
            }
            added => {
                added?;
                rights
            }
        };
        (self.see)(Seen::Rule {
            subject,
            at: &fd,
            grant,
            rights: added,
        });
        self.space.hold(fd);
        Ok(added != file_rights)
    }

    fn refusal(&self, entry: Entry<'a>, failure: Failure) -> Error<'a> {
        let cause = match failure {
            Failure::Errno(errno) => Cause::Errno(errno),
            Failure::Leaves(root) => Cause::LeavesRoot(self.policy.list_path(root).to_bytes()),
        };
        refused(entry, cause)
    }
}

/// The directory in which a directory lies, wherever links lead to it.
fn parent(path: &CStr) -> Result<Identity, Errno> {
    let mut above: Vec<u8, 16> = Vec::new();
    for part in [path.to_bytes(), c"/..".to_bytes_with_nul()] {
        above
            .extend_from_slice(part)
            .map_err(|_| Errno::NAMETOOLONG)?;
    }
    let above = CStr::from_bytes_with_nul(&above).map_err(|_| Errno::INVAL)?;
    fs::stat_path(above).map(Identity::from)
}

fn file_type<'a>(entry: Entry<'a>, fd: &OwnedFd) -> Result<FileType, Error<'a>> {
    fs::stat(fd)
        .map(|stat| fs::file_type(&stat))
        .map_err(|errno| refused(entry, Cause::Errno(errno)))
}

fn refused<'a>(entry: Entry<'a>, cause: Cause<'a>) -> Error<'a> {
    Error::refused(Step::Landlock, subject(entry), cause)
}

fn subject(entry: Entry<'_>) -> Subject<'_> {
    let Entry { field, index, path } = entry;
    Subject::Field {
        name: field,
        index,
        text: Some(path.to_bytes()),
    }
}

fn host_refused(path: &'static CStr, errno: Errno) -> Error<'static> {
    Error::refused(
        Step::Landlock,
        Subject::Text(path.to_bytes()),
        Cause::Errno(errno),
    )
}
