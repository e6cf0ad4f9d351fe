//! What is read of a packet.

use bitflags::bitflags;
use nf::Connection;
use wire::{Addr, Fields, Headers, IcmpPorts, Marks, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use super::part::{Other, Part};
use super::tcp::Kind;

/// The fields of a packet that the tracker reads: 54 bytes.
///
/// ```text
///  0     16      32         34          36    40    44     48       50            52      53      54
///  | src | dst   | src_port | dst_port  | seq | ack | sack | window | payload_len | flags | shape |
/// ```
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed(2))]
pub struct Meta {
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Right edge of the highest SACK block, or `ack`.
    sack: u32,
    /// Not scaled. Of what is not TCP the protocol.
    window: u16,
    payload_len: u16,
    /// In place of CWR, which says nothing here: [`FROM_OUTSIDE`].
    pub(crate) tcp_flags: u8,
    shape: Shape,
}

/// In [`Meta::tcp_flags`]: the packet comes from outside.
const FROM_OUTSIDE: u8 = tcp_flags::CWR;

const _: () = assert!(size_of::<Meta>() == 54);

impl Meta {
    /// The header fields that it is made of; the offsets and lengths are those of the payload's length.
    pub(crate) const READS: Fields = Fields::FIVE_TUPLE
        .union(Fields::MARKS)
        .union(Fields::SEQ)
        .union(Fields::ACK)
        .union(Fields::SACK)
        .union(Fields::WINDOW)
        .union(Fields::TCP_FLAGS)
        .union(Fields::TCP_SHAPE)
        .union(Fields::L3_OFFSET)
        .union(Fields::L3_LEN)
        .union(Fields::L4_OFFSET);

    #[inline]
    pub(super) fn of(headers: &Headers) -> Option<Meta> {
        match headers.is_tcp() {
            true => Some(Meta::of_ip(headers)),
            false => Meta::of_other(headers),
        }
    }

    /// The fields of a packet that is not TCP with its header here. An ICMP error is a packet of the connection that it is about. `None`: of no
    /// connection that can be known.
    #[inline(never)]
    fn of_other(headers: &Headers) -> Option<Meta> {
        if !headers.has_flow() {
            return None;
        }
        let quoted;
        let (headers, part) = match headers.protocol {
            protocol::ICMP | protocol::ICMPV6 => match Connection::quoted(headers) {
                Some(answer) => {
                    quoted = answer;
                    (&quoted, Part::Error)
                }
                None => (headers, part_of_query(headers)?),
            },
            _ => (headers, Part::Any),
        };
        let part = if headers.is_followed() && part != Part::Error { Part::Later } else { part };
        let Meta { src, dst, src_port, dst_port, tcp_flags, shape, .. } = Meta::of_ip(headers);
        Some(Meta {
            src,
            dst,
            src_port,
            dst_port,
            seq: 0,
            ack: 0,
            sack: 0,
            window: headers.protocol.into(),
            payload_len: 0,
            tcp_flags: tcp_flags & FROM_OUTSIDE,
            shape: (shape & Shape::FROM_LOW) | Shape::from_bits_retain(part as u8),
        })
    }

    /// What it is if it is not TCP, or a later fragment: there is no offer, and yet a scale.
    #[inline(always)]
    pub(super) fn other(&self) -> Option<Other> {
        let part = match (self.shape & Shape::SCALE.union(Shape::SCALE_OFFERED)).bits() {
            0 | 16.. => return None,
            1 => Part::Any,
            2 => Part::Request,
            3 => Part::Reply,
            5 => Part::Later,
            _ => Part::Error,
        };
        Some(Other { protocol: self.window as u8, part })
    }

    /// The protocol of its connection.
    #[inline(always)]
    pub(super) fn protocol(&self) -> u8 {
        let is_other = self.shape.intersects(Shape::SCALE) && !self.shape.contains(Shape::SCALE_OFFERED);
        if is_other { self.window as u8 } else { protocol::TCP }
    }

    /// The fields of any IP packet. Of what is not TCP the ends, [`Meta::seq`], and the side say something.
    // Always: a call copies the fields twice, which is nine instructions for a packet that is only hashed.
    #[inline(always)]
    pub(crate) fn of_ip(headers: &Headers) -> Meta {
        let mut shape = Shape::empty();
        shape.set(Shape::FROM_LOW, Connection::is_from_low(headers));
        shape.set(Shape::FIRST_FRAGMENT, headers.is_first_fragment());
        if headers.tcp_flags & tcp_flags::SYN != 0 {
            shape.set(Shape::SACK_PERMITTED, headers.marks.contains(Marks::SACK_PERMITTED));
            shape.set_scale(headers.window_scale());
        }
        let Headers { src, dst, src_port, dst_port, seq, ack, sack, window, mut tcp_flags, .. } = *headers;
        tcp_flags &= !FROM_OUTSIDE;
        if headers.marks.contains(Marks::FROM_OUTSIDE) {
            tcp_flags |= FROM_OUTSIDE;
        }
        let payload_len = headers.payload_len();
        Meta { src, dst, src_port, dst_port, seq, ack, sack, window, payload_len, tcp_flags, shape }
    }

    pub(crate) fn connection(&self, protocol: u8) -> Connection {
        let Meta { src, dst, src_port, dst_port, .. } = *self;
        let [(low, low_port), (high, high_port)] = match self.is_from_low() {
            true => [(src, src_port), (dst, dst_port)],
            false => [(dst, dst_port), (src, src_port)],
        };
        Connection { low, high, low_port, high_port, protocol, zero: [0; 3] }
    }

    /// Whether the segment goes on in later fragments.
    pub(super) fn is_fragment(&self) -> bool {
        self.shape.contains(Shape::FIRST_FRAGMENT)
    }

    pub(crate) fn is_from_outside(&self) -> bool {
        self.tcp_flags & FROM_OUTSIDE != 0
    }

    /// Whether its flags are those of [`Kind::Ack`].
    #[inline(always)]
    pub(super) fn is_plain_ack(&self) -> bool {
        use tcp_flags::{ACK, FIN, RST, SYN};
        self.tcp_flags & (ACK | FIN | RST | SYN) == ACK
    }

    #[inline(always)]
    pub(crate) fn is_from_low(&self) -> bool {
        self.shape.contains(Shape::FROM_LOW)
    }
}

/// Whether an ICMP message is a request or a reply: ICMPv6 has no ports in place of the identifier, so the type says it.
fn part_of_query(headers: &Headers) -> Option<Part> {
    match (headers.icmp_ports(), headers.icmp()?.kind) {
        (Some(IcmpPorts::Request), _) => Some(Part::Request),
        (Some(IcmpPorts::Reply), _) => Some(Part::Reply),
        (_, 128) if headers.protocol == protocol::ICMPV6 => Some(Part::Request),
        (_, 129) if headers.protocol == protocol::ICMPV6 => Some(Part::Reply),
        _ => None,
    }
}

/// A byte with a window scale in its low bits, and flags: of a packet, of one half of a connection,
/// or of a SYN that was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(transparent)]
pub(super) struct Shape(u8);

bitflags! {
    impl Shape: u8 {
        /// Window scale (RFC 7323 §2.2), 0 to 14; without [`Shape::SCALE_OFFERED`] it is 0 in TCP. Packet that is not
        /// TCP: a [`Part`].
        const SCALE = 0x0f;
        /// The SYN had the window scale option.
        const SCALE_OFFERED = 1 << 4;
        /// The SYN permitted selective acknowledgment (RFC 2018 §2).
        const SACK_PERMITTED = 1 << 5;
        /// Packet: goes from the key's low end to its high end.
        const FROM_LOW = 1 << 6;
        /// Packet: a first fragment; the segment goes on in later ones.
        const FIRST_FRAGMENT = 1 << 7;
        /// Last offer: [`State::last`](super::State) is a segment that was refused as out of the window.
        const REFUSED = 1 << 6;
        /// Half: it sent an ACK, so that `max_ack` says something.
        const ACKED = 1 << 6;
        /// Half: it sent data that waits for its acknowledgment.
        const UNACKNOWLEDGED = 1 << 7;
    }
}

impl Shape {
    /// What a SYN says of its sender: scale and permissions.
    const OFFER: Shape = Shape::SCALE.union(Shape::SCALE_OFFERED).union(Shape::SACK_PERMITTED);

    pub(super) fn scale(self) -> u32 {
        u32::from(self.bits() & Shape::SCALE.bits())
    }

    pub(super) fn offer(self) -> Shape {
        self & Shape::OFFER
    }

    fn set_scale(&mut self, offered: Option<u8>) {
        if let Some(scale) = offered {
            // RFC 7323 §2.3: more than 14 is to be taken as 14.
            *self |= Shape::SCALE_OFFERED | Shape::from_bits_retain(scale.min(14));
        }
    }
}

/// A packet as a connection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(super) kind: Kind,
    pub(super) seq: u32,
    /// One past its last sequence number; SYN and FIN take one each (RFC 9293 §3.4).
    pub(super) end: u32,
    pub(super) ack: u32,
    pub(super) sack: u32,
    pub(super) window: u16,
    pub(super) offer: Shape,
    pub(super) has_ack: bool,
    pub(super) is_fragment: bool,
}

impl Segment {
    #[inline(always)]
    pub(crate) fn new(meta: &Meta, kind: Kind) -> Segment {
        let flag = |flag: u8| u32::from(meta.tcp_flags & flag != 0);
        let len = u32::from(meta.payload_len) + flag(tcp_flags::SYN) + flag(tcp_flags::FIN);
        Segment {
            kind,
            seq: meta.seq,
            end: meta.seq.wrapping_add(len),
            ack: meta.ack,
            sack: meta.sack,
            window: meta.window,
            offer: meta.shape.offer(),
            has_ack: meta.tcp_flags & tcp_flags::ACK != 0,
            is_fragment: meta.shape.contains(Shape::FIRST_FRAGMENT),
        }
    }

    pub(super) fn is_syn(&self) -> bool {
        matches!(self.kind, Kind::Syn | Kind::SynAck)
    }
}
