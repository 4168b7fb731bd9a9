//! Trying each capability in a confined child.

use core::ffi::CStr;
use core::fmt::{self, Write};

use heapless::String;

use super::capability::{Capability, Status};
use super::{REASON, Reason};
use crate::error::{Cause, Error};
use crate::landlock::abi::{self, Abi};
use crate::landlock::access::Grant;
use crate::launch::{Memory, Sandbox};
use crate::policy::base_system::DEVICES;
use crate::sys::fs::{self, OFlags};
use crate::sys::net::{self, AddressFamily, SocketType};
use crate::sys::spawn::{self, End, Side};
use crate::sys::{self, AsRawFd, Errno, OwnedFd, process, signal};

/// Where a directory for trying can be made, the first that works.
const PLACES: [&CStr; 5] = [c"/tmp", c"/var/tmp", c"/run", c"/dev/shm", c"/"];

/// The port that stands for the proxy's, and another one. Nothing is sent, whoever listens there.
const PROXY: u16 = 9;
const OTHER: u16 = 10;
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const LINK_LOCAL: [u8; 4] = [169, 254, 0, 1];

/// A file in the directory that is there before, and one that is made by a try.
const FILE: &CStr = c"file";
const MADE: &CStr = c"made";

/// What came of a try; an error says what did not hold.
pub(super) type Tried<T = ()> = Result<T, Reason>;

/// A reason; what does not fit is cut.
pub(super) fn say(text: fmt::Arguments<'_>) -> Reason {
    struct Cut(Reason);
    impl Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            // A failure is the end of the room.
            let _ = text.chars().try_for_each(|letter| self.0.push(letter));
            Ok(())
        }
    }
    let mut cut = Cut(Reason::new());
    let _ = cut.write_fmt(text);
    cut.0
}

fn because(what: &str, errno: Errno) -> Reason {
    say(format_args!("{what}: {}", Cause::Errno(errno)))
}

/// An error without the name of the program.
pub(super) fn reason(error: &Error<'_>) -> Reason {
    say(format_args!("{}: {}", error.subject, error.cause))
}

/// What must be refused, and how.
fn refused<T>(what: &str, outcome: Result<T, Errno>, expected: Errno) -> Tried {
    match outcome {
        Err(errno) if errno == expected => Ok(()),
        Err(errno) => Err(because(what, errno)),
        Ok(_) => Err(say(format_args!("{what}: was not refused"))),
    }
}

/// What must be granted.
fn granted<T>(what: &str, outcome: Result<T, Errno>) -> Tried<T> {
    outcome.map_err(|errno| because(what, errno))
}

/// What the tries share.
pub(super) struct Scene<'m> {
    memory: &'m mut Memory,
    abi: Abi,
}

impl<'m> Scene<'m> {
    pub(super) const fn new(memory: &'m mut Memory, abi: Abi) -> Self {
        Scene { memory, abi }
    }

    /// Tries a capability at the kernel's ABI.
    pub(super) fn status(&mut self, capability: &Capability) -> (Status, Reason) {
        let Some(probe) = capability.probe else {
            return capability.unconditional();
        };
        let (needed, since) = (capability.since, abi::linux_of(capability.since));
        let found = self.abi.number();
        let outcome = if self.abi.has(needed) {
            probe(self)
        } else {
            let cause = Cause::NeedsAbi {
                needed,
                since,
                found,
            };
            Err(say(format_args!("{cause}")))
        };
        match outcome {
            Ok(()) => (Status::Enforced, Reason::new()),
            Err(reason) => (Status::Unavailable, reason),
        }
    }

    /// Tries something in a child that a policy confines.
    fn confined(&mut self, policy: &str, act: impl FnOnce() -> Tried) -> Tried {
        let sandbox = Sandbox::parse(policy.as_bytes(), self.memory).map_err(|e| reason(&e))?;
        in_child(|| {
            sandbox.enter_keeping(&[]).map_err(|error| reason(&error))?;
            act()
        })
    }
}

/// Tries something in a child.
fn in_child(act: impl FnOnce() -> Tried) -> Tried {
    let (told, tell) = granted("pipe2", spawn::pipe())?;
    let child = match granted("clone3", spawn::fork(None))? {
        Side::Parent(child) => child,
        Side::Child => {
            if let Err(reason) = act() {
                let _ = fs::write(&tell, reason.as_bytes());
            }
            process::exit(0)
        }
    };
    drop(tell);
    let mut text = [0; REASON];
    let length = fs::read(&told, &mut text);
    let ended = granted("wait4", spawn::wait(Some(child), true))?;
    match granted("read", length)? {
        0 if matches!(ended, Some((_, End::Code(0)))) => Ok(()),
        0 => Err(say(format_args!("the trying process was killed"))),
        length => {
            let text = text.get(..length).unwrap_or_default();
            Err(say(format_args!("{}", crate::output::Text(text))))
        }
    }
}

/// A directory with one file, removed in the end.
struct Scratch {
    directory: OwnedFd,
    parent: OwnedFd,
    name: String<32>,
    path: String<64>,
}

impl Scratch {
    fn new() -> Tried<Self> {
        PLACES
            .into_iter()
            .find_map(|place| Self::make(place).ok())
            .ok_or_else(|| say(format_args!("no place for a file to try it with: /tmp, /var/tmp, /run, /dev/shm and / can't be written")))
    }

    fn make(place: &CStr) -> Result<Self, Errno> {
        let parent = fs::open_directory(fs::CWD, place)?;
        let mut name: String<32> = String::new();
        write!(name, "oarbank-report-{}\0", process::id()).map_err(|_| Errno::NAMETOOLONG)?;
        fs::make_directory(&parent, c_str(&name))?;
        let directory = fs::open_directory(&parent, c_str(&name))?;
        let mut path: String<64> = String::new();
        let place = place.to_str().unwrap_or_default();
        let name_alone = name.trim_end_matches('\0');
        write!(path, "{place}/{name_alone}").map_err(|_| Errno::NAMETOOLONG)?;
        let scratch = Scratch {
            directory,
            parent,
            name,
            path,
        };
        // Not empty, so that an exec that is let through is an exec format error, whatever the file system is.
        let file = fs::create(&scratch.directory, FILE, 0o755)?;
        fs::write(&file, b"\0\0\0\0")?;
        Ok(scratch)
    }

    fn file(&self, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        fs::open_at(&self.directory, name, flags)
    }

    /// Executes the file; returns only the error.
    fn exec(&self) -> Result<(), Errno> {
        let mut path: String<80> = String::new();
        write!(path, "{}/file\0", self.path).map_err(|_| Errno::NAMETOOLONG)?;
        Err(process::execve_alone(c_str(&path)))
    }

    /// A policy that grants the directory in a list.
    fn policy(&self, list: &str, more: &str) -> String<160> {
        let mut policy = String::new();
        // The longest place, name and list are shorter.
        let _ = write!(policy, "{{\"{list}\": [\"{}\"]{more}}}", self.path);
        policy
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in [FILE, MADE] {
            let _ = fs::remove_file(&self.directory, name);
        }
        let _ = fs::remove_directory(&self.parent, c_str(&self.name));
    }
}

fn c_str(text: &str) -> &CStr {
    CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or(c"")
}

/// Opening `/` is refused, which the parent can do.
pub(super) fn filesystem(scene: &mut Scene<'_>) -> Tried {
    let open = || fs::open_directory(fs::CWD, c"/");
    drop(granted("open / unconfined", open())?);
    scene.confined("{}", || refused("open /", open(), Errno::ACCESS))
}

/// Neither family makes a socket.
pub(super) fn net_none(scene: &mut Scene<'_>) -> Tried {
    scene.confined("{}", || {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            for kind in [SocketType::STREAM, SocketType::DGRAM] {
                refused("socket", net::socket(family, kind), Errno::PERM)?;
            }
        }
        Ok(())
    })
}

/// A written file is not executed, nor one in memory made that could be.
pub(super) fn exec_writable_deny(scene: &mut Scene<'_>) -> Tried {
    let scratch = Scratch::new()?;
    // Only an exec that gets as far as the file's first bytes shows that the file could be executed.
    scene.confined(&scratch.policy("rw", ", \"exec_rw\": true"), || {
        refused("execve with exec_rw", scratch.exec(), Errno::NOEXEC)
    })?;
    scene.confined(&scratch.policy("rw", ""), || {
        granted("open for writing", scratch.file(FILE, OFlags::WRONLY))?;
        refused("execve", scratch.exec(), Errno::ACCESS)?;
        refused("memfd_create", fs::memory_file(), Errno::ACCESS)
    })
}

/// A device that is granted as a GPU node is can be controlled, another one can't, or not be opened at all.
pub(super) fn gpu_compute(scene: &mut Scene<'_>) -> Tried {
    let abi = scene.abi;
    let mut found = DEVICES
        .into_iter()
        .filter_map(|path| fs::open_location_following(path).ok().map(|fd| (path, fd)));
    let (Some((granted_path, gpu)), Some((other_path, other))) = (found.next(), found.next())
    else {
        return Err(say(format_args!(
            "no two of the base system's devices are here to try it with"
        )));
    };
    in_child(|| {
        granted("PR_SET_NO_NEW_PRIVS", process::set_no_new_privs())?;
        let ruleset = granted(
            "landlock_create_ruleset",
            sys::landlock::create_ruleset(&abi.ruleset_attr(), abi.attr_size()),
        )?;
        for (device, grant) in [(&gpu, Grant::Gpu), (&other, Grant::Device)] {
            let rights = grant.file_rights(abi);
            granted(
                "landlock_add_rule",
                sys::landlock::add_path_beneath(&ruleset, device, rights),
            )?;
        }
        granted(
            "landlock_restrict_self",
            sys::landlock::restrict_self(&ruleset, 0),
        )?;
        let open = |path| fs::open_at(fs::CWD, path, OFlags::RDWR);
        let gpu = granted("open a granted device", open(granted_path))?;
        // No terminal, so this is what the device itself answers.
        refused(
            "ioctl on a granted device",
            fs::window_size(&gpu),
            Errno::NOTTY,
        )?;
        if abi.has(abi::IOCTL) {
            let other = granted("open a device", open(other_path))?;
            refused("ioctl on a device", fs::window_size(&other), Errno::ACCESS)?;
        }
        refused("open /", fs::open_directory(fs::CWD, c"/"), Errno::ACCESS)
    })
}

/// What is read can't be written or executed.
pub(super) fn folders_read(scene: &mut Scene<'_>) -> Tried {
    let scratch = Scratch::new()?;
    scene.confined(&scratch.policy("rd", ""), || {
        granted("open for reading", scratch.file(FILE, OFlags::RDONLY))?;
        refused(
            "open for writing",
            scratch.file(FILE, OFlags::WRONLY),
            Errno::ACCESS,
        )?;
        refused("execve", scratch.exec(), Errno::ACCESS)
    })
}

/// What is written can't be read or removed.
pub(super) fn folders_write(scene: &mut Scene<'_>) -> Tried {
    let scratch = Scratch::new()?;
    scene.confined(&scratch.policy("wo", ""), || {
        granted("make a file", fs::create(&scratch.directory, MADE, 0o600))?;
        refused(
            "open for reading",
            scratch.file(MADE, OFlags::RDONLY),
            Errno::ACCESS,
        )?;
        refused(
            "unlink",
            fs::remove_file(&scratch.directory, MADE),
            Errno::ACCESS,
        )
    })
}

/// A named pipe end stays open over an exec, the other one does not, and a directory can't be named.
pub(super) fn endpoints(scene: &mut Scene<'_>) -> Tried {
    let sandbox = Sandbox::parse(b"{}", scene.memory).map_err(|error| reason(&error))?;
    let (one, other) = granted("pipe2", spawn::pipe())?;
    let directory = granted("open / unconfined", fs::open_directory(fs::CWD, c"/"))?;
    in_child(|| {
        if sandbox.enter_keeping(&[directory.as_raw_fd()]).is_ok() {
            return Err(say(format_args!("a directory: was not refused")));
        }
        sandbox
            .enter_keeping(&[one.as_raw_fd()])
            .map_err(|error| reason(&error))?;
        if granted("F_GETFD", fs::is_kept_over_exec(&one))?
            && !granted("F_GETFD", fs::is_kept_over_exec(&other))?
        {
            Ok(())
        } else {
            Err(say(format_args!(
                "not the named descriptor alone is passed on"
            )))
        }
    })
}

/// The policy of the three that follow.
const ALLOWLIST: &str = "{\"net\": \"egress-allowlist\", \"proxy_port\": 9}";
const _: () = assert!(PROXY == 9);

fn stream() -> Tried<OwnedFd> {
    granted(
        "socket",
        net::socket(AddressFamily::INET, SocketType::STREAM),
    )
}

/// The proxy's port is let through, another is not, and nobody binds, listens or sends datagrams.
pub(super) fn net_egress_allowlist(scene: &mut Scene<'_>) -> Tried {
    scene.confined(ALLOWLIST, || {
        // Whether anybody listens there, or there is a way, is another matter.
        if let Err(errno @ (Errno::ACCESS | Errno::PERM)) =
            net::connect(&stream()?, LOOPBACK, PROXY)
        {
            return Err(because("connect to the proxy's port", errno));
        }
        refused(
            "connect to another port",
            net::connect(&stream()?, LOOPBACK, OTHER),
            Errno::ACCESS,
        )?;
        refused("bind", net::bind(&stream()?, OTHER), Errno::ACCESS)?;
        refused("listen", net::listen(&stream()?), Errno::PERM)?;
        let datagrams = net::socket(AddressFamily::INET, SocketType::DGRAM);
        refused("socket for datagrams", datagrams, Errno::PERM)
    })
}

/// The loopback interface, but for the proxy's port.
pub(super) fn no_loopback(scene: &mut Scene<'_>) -> Tried {
    scene.confined(ALLOWLIST, || {
        let to_loopback = net::connect(&stream()?, LOOPBACK, OTHER);
        refused("connect to loopback", to_loopback, Errno::ACCESS)
    })
}

/// Addresses of the link.
pub(super) fn no_link_local(scene: &mut Scene<'_>) -> Tried {
    scene.confined(ALLOWLIST, || {
        let to_link = net::connect(&stream()?, LINK_LOCAL, OTHER);
        refused("connect to a link-local address", to_link, Errno::ACCESS)
    })
}

/// No unix sockets, no signals; and Landlock alone, as with a broker, refuses abstract names.
pub(super) fn ipc(scene: &mut Scene<'_>) -> Tried {
    let unix = || net::socket(AddressFamily::UNIX, SocketType::DGRAM);
    let parent = process::id();
    scene.confined("{}", || {
        refused("socket(AF_UNIX)", unix(), Errno::PERM)?;
        granted("socketpair", net::stream_pair())?;
        // Signal 0 is not delivered, but permitted or not as any other.
        refused("kill", signal::send(parent, 0), Errno::PERM)
    })?;
    let mut name: String<32> = String::new();
    // The name and ten digits.
    let _ = write!(name, "oarbank-report-{parent}");
    let outside = granted("socket(AF_UNIX) unconfined", unix())?;
    granted(
        "bind unconfined",
        net::bind_abstract(&outside, name.as_bytes()),
    )?;
    let connect = || {
        net::connect_abstract(&granted("socket(AF_UNIX)", unix())?, name.as_bytes())
            .map_err(|errno| because("connect to an abstract socket unconfined", errno))
    };
    connect()?;
    let abi = scene.abi;
    in_child(|| {
        granted("PR_SET_NO_NEW_PRIVS", process::set_no_new_privs())?;
        let ruleset = granted(
            "landlock_create_ruleset",
            sys::landlock::create_ruleset(&abi.ruleset_attr(), abi.attr_size()),
        )?;
        granted(
            "landlock_restrict_self",
            sys::landlock::restrict_self(&ruleset, 0),
        )?;
        let socket = granted("socket(AF_UNIX)", unix())?;
        let connected = net::connect_abstract(&socket, name.as_bytes());
        refused("connect to an abstract socket", connected, Errno::PERM)
    })
}
