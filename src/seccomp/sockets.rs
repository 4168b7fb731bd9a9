//! Which sockets may be made, and what may be done with them.
//!
//! `socket(2)` and `socketpair(2)` take three `int`s and the send calls an `unsigned int` of flags: the kernel
//! looks at the low 32 bits of the argument, and so does the filter; the high half means nothing to either.

use linux_raw_sys::net::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPV6_ADD_MEMBERSHIP,
    IPV6_JOIN_ANYCAST, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM, TCP_ULP,
};

use super::filter::{Mode, Tails, low};
use crate::bpf::instruction::Test::{AnyBit, AtLeast, Equal};
use crate::bpf::{Assembler, Label};

/// The bits of a socket's type that are the type and not a flag (`SOCK_TYPE_MASK` of `linux/net.h`).
const TYPE_MASK: u32 = 0xf;

/// Of the kernel's `include/linux/socket.h`, which linux-raw-sys 0.12 lacks.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// The protocol "the family's own one".
const DEFAULT: u32 = 0;

/// `socket(family, type, protocol)`: unix stream, datagram and seqpacket with a broker; inet and inet6 streams
/// of TCP alone with `egress-allowlist`, since Landlock's rules see no other protocol (MPTCP, SCTP, SMC).
pub(super) const fn socket(a: &mut Assembler, mode: Mode, tails: &Tails) -> Label {
    let inet = if mode.tcp {
        let tcp = a.jump(Equal(IPPROTO_TCP as u32), tails.allow, tails.eperm);
        let protocol = a.jump(Equal(DEFAULT), tails.allow, tcp);
        let protocol = a.load(low(2), protocol);
        let stream = a.jump(Equal(SOCK_STREAM), protocol, tails.eperm);
        load_type(a, stream)
    } else {
        tails.eperm
    };
    let unix = if mode.broker {
        let seqpacket = a.jump(Equal(SOCK_SEQPACKET), tails.allow, tails.eperm);
        let datagram = a.jump(Equal(SOCK_DGRAM), tails.allow, seqpacket);
        let stream = a.jump(Equal(SOCK_STREAM), tails.allow, datagram);
        load_type(a, stream)
    } else {
        tails.eperm
    };
    let family = a.jump(Equal(AF_INET6), inet, tails.eperm);
    let family = a.jump(Equal(AF_INET), inet, family);
    let family = a.jump(Equal(AF_UNIX), unix, family);
    a.load(low(0), family)
}

/// `socketpair(family, type, protocol, pair)`: unix, stream or seqpacket. A datagram (or raw) pair could be
/// re-addressed to any socket by `connect` or `sendto`.
pub(super) const fn socketpair(a: &mut Assembler, tails: &Tails) -> Label {
    let seqpacket = a.jump(Equal(SOCK_SEQPACKET), tails.allow, tails.eperm);
    let stream = a.jump(Equal(SOCK_STREAM), tails.allow, seqpacket);
    let kind = load_type(a, stream);
    let family = a.jump(Equal(AF_UNIX), kind, tails.eperm);
    a.load(low(0), family)
}

const fn load_type(a: &mut Assembler, next: Label) -> Label {
    let mask = a.and(TYPE_MASK, next);
    a.load(low(1), mask)
}

/// The flags of `sendto`, `sendmsg` and `sendmmsg`, at `argument`: not MSG_FASTOPEN, which connects
/// without Landlock's connect hook.
pub(super) const fn send_flags(a: &mut Assembler, argument: u32, tails: &Tails) -> Label {
    let flags = a.jump(AnyBit(MSG_FASTOPEN), tails.eperm, tails.allow);
    a.load(low(argument), flags)
}

/// The first and the last of the multicast options of the IP level: IP_ADD_MEMBERSHIP to MCAST_MSFILTER.
const IP_MULTICAST: (u32, u32) = (35, 48);

/// Those of the IPv6 level: MCAST_JOIN_GROUP to MCAST_MSFILTER, and two older joins.
const IPV6_MULTICAST: (u32, u32) = (42, 48);

/// `setsockopt(fd, level, name, ...)`, two `int`s: not TCP_ULP, with which a TCP socket becomes one of SMC
/// (`net/smc`, "smc" upper layer protocol) after `socket` was checked; no multicast group, which the kernel
/// announces on the network also for a TCP socket.
pub(super) const fn setsockopt(a: &mut Assembler, tails: &Tails) -> Label {
    let ulp = a.jump(Equal(TCP_ULP), tails.eperm, tails.allow);
    let ulp = a.load(low(2), ulp);
    let ip = multicast(a, IP_MULTICAST, tails);
    let ip = a.load(low(2), ip);
    let ipv6 = multicast(a, IPV6_MULTICAST, tails);
    let ipv6 = a.jump(Equal(IPV6_JOIN_ANYCAST), tails.eperm, ipv6);
    let ipv6 = a.jump(Equal(IPV6_ADD_MEMBERSHIP), tails.eperm, ipv6);
    let ipv6 = a.load(low(2), ipv6);
    let level = a.jump(Equal(IPPROTO_IPV6 as u32), ipv6, tails.allow);
    let level = a.jump(Equal(IPPROTO_IP as u32), ip, level);
    let level = a.jump(Equal(IPPROTO_TCP as u32), ulp, level);
    a.load(low(1), level)
}

const fn multicast(a: &mut Assembler, (first, last): (u32, u32), tails: &Tails) -> Label {
    let to = a.jump(AtLeast(last + 1), tails.allow, tails.eperm);
    a.jump(AtLeast(first), to, tails.allow)
}
