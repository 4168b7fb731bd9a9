//! Sockets: for trying what is refused, for handing a descriptor over, and those of the kernel's audit.

use core::mem::MaybeUninit;
use core::net::{Ipv4Addr, SocketAddrV4};

use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::netlink::{self, SocketAddrNetlink};
pub use rustix::net::{AddressFamily, SocketType};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
};

use super::poll::{self, Ready};
use super::{AsFd, Errno, OwnedFd};

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

/// Makes a pair of unix sockets that keep packets apart.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Sends a packet. EAGAIN: there is no room.
pub fn send_now(socket: &OwnedFd, packet: &[u8]) -> Result<(), Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(socket, packet, flags).map(drop)
}

/// Makes room for more packets to be sent, as much as the host allows (`net.core.wmem_max`).
pub fn make_room(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::sockopt::set_socket_send_buffer_size(socket, i32::MAX as usize / 2)
}

/// Waits for a packet: its length, or 0 for an empty one and when the other end is closed.
pub fn receive_packet(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()))
        .map(|received| received.0)
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

/// Sends a descriptor over a unix socket (`SCM_RIGHTS`, `unix(7)`), with one byte.
pub fn send_descriptor(socket: &OwnedFd, descriptor: &OwnedFd) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    // There is room for one.
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let data = [IoSlice::new(b"1")];
    rustix::net::sendmsg(socket, &data, &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Takes a descriptor that was sent over a unix socket; it is close-on-exec. EAGAIN: none was sent.
pub fn receive_descriptor(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut data = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut data, &mut control, flags)?;
    control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
        .ok_or(Errno::AGAIN)
}

/// The part of the audit messages that is read here (`include/uapi/linux/audit.h`): the readers' multicast group, by its
/// bit, and the question for the status.
const READERS: u32 = 1 << 0;
const AUDIT_GET: u16 = 1000;

fn audit_socket(groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::AUDIT);
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Listens to what the kernel's audit logs. EPROTONOSUPPORT: the kernel has no audit; EPERM: without CAP_AUDIT_READ in the
/// first user namespace.
pub fn audit_records() -> Result<OwnedFd, Errno> {
    audit_socket(READERS)
}

/// What the kernel's audit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Whether it logs anything.
    pub on: bool,
    /// Whether it drops what is more than so much in a second.
    pub limited: bool,
}

/// The status of the kernel's audit. EPERM: without CAP_AUDIT_CONTROL, or not in the first pid namespace.
pub fn audit_status() -> Result<Audit, Errno> {
    /// NLM_F_REQUEST and NLM_F_ACK of `include/uapi/linux/netlink.h`.
    const FLAGS: u16 = 1 | 4;
    /// How long a kernel thread may take for the answer.
    const PATIENCE: u64 = 1_000_000_000;
    let socket = audit_socket(0)?;
    let mut question = [0; HEADER];
    let header = [
        &(HEADER as u32).to_ne_bytes()[..],
        &AUDIT_GET.to_ne_bytes(),
        &FLAGS.to_ne_bytes(),
    ];
    for (to, from) in question.iter_mut().zip(header.into_iter().flatten()) {
        *to = *from;
    }
    rustix::net::send(&socket, &question, SendFlags::empty())?;
    let mut buffer = [0; 256];
    loop {
        if poll::read([Some(socket.as_fd())], Some(PATIENCE))? == [Ready::No] {
            return Err(Errno::TIMEDOUT);
        }
        let Some((kind, body)) = receive_message(&socket, &mut buffer)? else {
            continue;
        };
        let word = |index: usize| -> Option<[u8; 4]> {
            body.get(4 * index..4 * index + 4)?.try_into().ok()
        };
        match kind {
            // `enabled` and `rate_limit` of `struct audit_status`.
            AUDIT_GET => {
                let is_set = |index| word(index).is_some_and(|word| word != [0; 4]);
                let (on, limited) = (is_set(1), is_set(4));
                return Ok(Audit { on, limited });
            }
            // 0 is only the acknowledgement.
            NLMSG_ERROR => match i32::from_ne_bytes(word(0).unwrap_or_default()) {
                0 => {}
                error => return Err(Errno::from_raw_os_error(-error)),
            },
            _ => {}
        }
    }
}

/// The size of `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER: usize = 16;
/// An error, or with 0 an acknowledgement.
const NLMSG_ERROR: u16 = 2;

/// Takes a netlink message: its type and what is in it. `None`: there is none. ENOBUFS: some were lost.
pub fn receive_message<'b>(
    socket: &OwnedFd,
    buffer: &'b mut [u8],
) -> Result<Option<(u16, &'b [u8])>, Errno> {
    let length = match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => return Ok(None),
        received => received?.0,
    };
    let message = buffer.get(..length).unwrap_or_default();
    let kind = message.get(4..6).and_then(|kind| kind.try_into().ok());
    Ok(kind.map(|kind| {
        let body = message.get(HEADER..).unwrap_or_default();
        (u16::from_ne_bytes(kind), body)
    }))
}
