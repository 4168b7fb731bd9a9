//! Sockets, for trying what is refused.

use core::net::{Ipv4Addr, SocketAddrV4};

pub use rustix::net::{AddressFamily, SocketType};
use rustix::net::{SocketAddrUnix, SocketFlags};

use super::{Errno, OwnedFd};

/// Makes a socket that nobody waits on.
pub fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None)
}

/// Makes a pair of unix stream sockets.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Connects to an IPv4 address, or begins to: EINPROGRESS.
pub fn connect(socket: &OwnedFd, address: [u8; 4], port: u16) -> Result<(), Errno> {
    rustix::net::connect(socket, &SocketAddrV4::new(Ipv4Addr::from(address), port))
}

/// Binds to a port of the loopback interface; 0 is any.
pub fn bind(socket: &OwnedFd, port: u16) -> Result<(), Errno> {
    rustix::net::bind(socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// Listens.
pub fn listen(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::listen(socket, 1)
}

/// Binds to an abstract unix name (`unix(7)`).
pub fn bind_abstract(socket: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(name)?)
}

/// Connects to an abstract unix name.
pub fn connect_abstract(socket: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    rustix::net::connect(socket, &SocketAddrUnix::new_abstract_name(name)?)
}
