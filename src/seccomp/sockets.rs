//! Which sockets may be made, and what may be done with them.
//!
//! `socket(2)` and `socketpair(2)` take three `int`s and the send calls an `unsigned int` of flags: the kernel
//! looks at the low 32 bits of the argument, and so does the filter; the high half means nothing to either.

use linux_raw_sys::net::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM, TCP_ULP,
};

use super::filter::{Mode, Tails, low};
use crate::bpf::instruction::Test::{AnyBit, Equal};
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

/// `setsockopt(fd, level, name, ...)`, two `int`s: not TCP_ULP, with which a TCP socket becomes one of SMC
/// (`net/smc`, "smc" upper layer protocol) after `socket` was checked.
pub(super) const fn setsockopt(a: &mut Assembler, tails: &Tails) -> Label {
    let name = a.jump(Equal(TCP_ULP), tails.eperm, tails.allow);
    let name = a.load(low(2), name);
    let level = a.jump(Equal(IPPROTO_TCP as u32), name, tails.allow);
    a.load(low(1), level)
}
