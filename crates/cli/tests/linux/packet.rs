//! Packets of both worlds: what one says, and its bytes, built here from the RFCs and not by the code that is under test.

use std::fmt;
use std::net::IpAddr;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;

pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
}

/// Where a packet comes from, and an interface of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Inside,
    Outside,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        }
    }
}

/// An address and a port, or the identifier of a query.
pub type End = (IpAddr, u16);

/// A packet as hosts inside see it: with the addresses that they have there.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: Side,
    pub src: End,
    pub dst: End,
    pub id: u16,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Tcp {
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        options: Vec<u8>,
        len: usize,
    },
    /// In fragments that carry so many bytes of the datagram each, if it is longer than one of them.
    Udp {
        len: usize,
        fragment: Option<Cut>,
    },
    Echo {
        is_request: bool,
        len: usize,
    },
    Other {
        protocol: u8,
        len: usize,
    },
    /// An ICMP error with as many bytes of the packet that it quotes.
    Error {
        kind: u8,
        code: u8,
        rest: [u8; 4],
        quoted: Box<Packet>,
        quoted_len: usize,
    },
}

/// How a datagram is cut into fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A multiple of 8.
    pub bytes: usize,
    /// Whether the last one comes first.
    pub is_reversed: bool,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { from, src, dst, id, body } = self;
        write!(f, "{from:?} {src:?} > {dst:?} id {id} {body:?}")
    }
}

impl Packet {
    pub fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => TCP,
            Body::Udp { .. } => UDP,
            Body::Other { protocol, .. } => protocol,
            Body::Echo { .. } | Body::Error { .. } if self.src.0.is_ipv4() => ICMP,
            Body::Echo { .. } | Body::Error { .. } => ICMPV6,
        }
    }

    /// The ends of the connection that it is of, the inside one first; of an error, those of the packet that it quotes.
    pub fn connection(&self) -> (u8, End, End) {
        match (&self.body, self.from) {
            (Body::Error { quoted, .. }, _) => quoted.connection(),
            (_, Side::Inside) => (self.protocol(), self.src, self.dst),
            (_, Side::Outside) => (self.protocol(), self.dst, self.src),
        }
    }

    /// Whether it is an error of a router, not of the host that the quoted packet was for.
    pub fn is_of_router(&self) -> bool {
        matches!(&self.body, Body::Error { quoted, .. } if quoted.dst.0 != self.src.0)
    }

    /// Whether it is an error about a protocol that has neither ports nor identifiers.
    pub fn is_about_other(&self) -> bool {
        matches!(&self.body, Body::Error { quoted, .. } if matches!(quoted.body, Body::Other { .. }))
    }

    /// Whether it is an ICMPv6 error about a query.
    pub fn is_about_query_v6(&self) -> bool {
        matches!(&self.body, Body::Error { quoted, .. } if quoted.protocol() == ICMPV6)
    }

    /// Whether it is a query of ICMPv6, or a reply.
    pub fn is_query_v6(&self) -> bool {
        matches!(self.body, Body::Echo { .. }) && self.protocol() == ICMPV6
    }

    /// Whether it is sent in fragments.
    pub fn is_cut(&self) -> bool {
        matches!(self.body, Body::Udp { len, fragment: Some(cut) } if len + 8 > cut.bytes)
    }

    /// Whether its last fragment is sent first.
    pub fn is_reversed(&self) -> bool {
        self.is_cut() && matches!(self.body, Body::Udp { fragment: Some(Cut { is_reversed: true, .. }), .. })
    }

    /// As it is seen outside of a NAT that gives the inside end of its connection this external end.
    pub fn seen_outside(&self, external: End) -> Packet {
        let mut seen = self.clone();
        if let Body::Error { quoted, .. } = &mut seen.body {
            **quoted = quoted.seen_outside(external);
            // The port of an error is none. Routers inside hide behind the address, too (RFC 5508 REQ-5).
            let end = if self.from == Side::Inside { &mut seen.src } else { &mut seen.dst };
            end.0 = external.0;
            return seen;
        }
        match self.from {
            Side::Inside => seen.src = external,
            Side::Outside => seen.dst = external,
        }
        if let Body::Echo { .. } = self.body {
            // One identifier is in both places.
            (seen.src.1, seen.dst.1) = (external.1, external.1);
        }
        seen
    }

    /// Its bytes, from the IP header on: one packet, or its fragments in the order in which they are sent.
    pub fn bytes(&self, ttl: u8) -> Vec<Vec<u8>> {
        let whole = self.transport();
        match self.body {
            Body::Udp { fragment: Some(cut), .. } if whole.len() > cut.bytes => {
                let pieces = whole.chunks(cut.bytes).enumerate();
                let last = (whole.len() - 1) / cut.bytes;
                let mut frames: Vec<Vec<u8>> = pieces
                    .map(|(index, piece)| self.ip(ttl, piece, Some((index * cut.bytes, index < last))))
                    .collect();
                if cut.is_reversed {
                    frames.reverse();
                }
                frames
            }
            _ => vec![self.whole(ttl)],
        }
    }

    /// Its bytes as one packet, also where it is sent in fragments.
    pub fn whole(&self, ttl: u8) -> Vec<u8> {
        self.ip(ttl, &self.transport(), None)
    }

    fn transport(&self) -> Vec<u8> {
        let payload = |len: usize| (0..len).map(|index| (index as u8).wrapping_mul(7) ^ self.id as u8);
        let (mut bytes, checksum_at) = match &self.body {
            Body::Tcp { seq, ack, flags, window, options, len } => {
                let mut bytes = [self.src.1.to_be_bytes(), self.dst.1.to_be_bytes()].concat();
                bytes.extend(seq.to_be_bytes());
                bytes.extend(ack.to_be_bytes());
                bytes.extend([((20 + options.len()) / 4 * 16) as u8, *flags]);
                bytes.extend(window.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(options);
                bytes.extend(payload(*len));
                (bytes, 16)
            }
            Body::Udp { len, .. } => {
                let mut bytes = [self.src.1, self.dst.1, 8 + *len as u16, 0].map(u16::to_be_bytes).concat();
                bytes.extend(payload(*len));
                (bytes, 6)
            }
            Body::Echo { is_request, len } => {
                let kind = match (self.src.0.is_ipv4(), is_request) {
                    (true, true) => 8,
                    (true, false) => 0,
                    (false, true) => 128,
                    (false, false) => 129,
                };
                let mut bytes = vec![kind, 0, 0, 0];
                bytes.extend([self.src.1, self.id].map(u16::to_be_bytes).concat());
                bytes.extend(payload(*len));
                (bytes, 2)
            }
            Body::Other { len, .. } => return payload(*len).collect(),
            Body::Error { kind, code, rest, quoted, quoted_len } => {
                let mut bytes = vec![*kind, *code, 0, 0];
                bytes.extend(rest);
                let quote = &quoted.bytes(60)[0];
                bytes.extend(&quote[..quote.len().min(*quoted_len)]);
                (bytes, 2)
            }
        };
        let protocol = self.protocol();
        let mut sum = match (protocol, self.src.0, self.dst.0) {
            (ICMP, ..) => 0,
            (_, IpAddr::V4(src), IpAddr::V4(dst)) => {
                sum_of(&src.octets()) + sum_of(&dst.octets()) + u64::from(protocol) + bytes.len() as u64
            }
            (_, src, dst) => {
                let octets = |ip: IpAddr| match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                    IpAddr::V6(v6) => v6.octets(),
                };
                sum_of(&octets(src)) + sum_of(&octets(dst)) + u64::from(protocol) + bytes.len() as u64
            }
        };
        sum += sum_of(&bytes);
        let checksum = match (folded(sum), protocol) {
            (0, UDP) => 0xffff,
            (checksum, _) => checksum,
        };
        bytes[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// An IP packet around a piece of the datagram, with the piece's offset and whether more follow, if it is cut.
    fn ip(&self, ttl: u8, piece: &[u8], fragment: Option<(usize, bool)>) -> Vec<u8> {
        let protocol = self.protocol();
        match (self.src.0, self.dst.0) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (offset, more) = fragment.unwrap_or((0, false));
                let word = (offset / 8) as u16 | u16::from(more) << 13;
                let mut header = vec![0x45, 0];
                header.extend([20 + piece.len() as u16, self.id, word].map(u16::to_be_bytes).concat());
                header.extend([ttl, protocol, 0, 0]);
                header.extend(src.octets());
                header.extend(dst.octets());
                let checksum = folded(sum_of(&header));
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                [&header, piece].concat()
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let extension = fragment.map(|(offset, more)| {
                    let word = (offset as u16) | u16::from(more);
                    let mut bytes = vec![protocol, 0];
                    bytes.extend(word.to_be_bytes());
                    bytes.extend(u32::from(self.id).to_be_bytes());
                    bytes
                });
                let extension = extension.unwrap_or_default();
                let next = if extension.is_empty() { protocol } else { 44 };
                let mut header = vec![0x60, 0, 0, 0];
                header.extend(((extension.len() + piece.len()) as u16).to_be_bytes());
                header.extend([next, ttl]);
                header.extend(src.octets());
                header.extend(dst.octets());
                [&header, &extension, piece].concat()
            }
            _ => unreachable!("both ends are of one family"),
        }
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether the checksums of an IP packet are right: that of its header, and of TCP, UDP and ICMP in it if it is whole.
pub fn has_right_checksums(packet: &[u8]) -> bool {
    let (protocol, header, pseudo) = match packet[0] >> 4 {
        4 => (packet[9], 20, sum_of(&packet[12..20])),
        _ => (packet[6], 40, sum_of(&packet[8..40])),
    };
    let transport = &packet[header..];
    let pseudo = if protocol == ICMP { 0 } else { pseudo + u64::from(protocol) + transport.len() as u64 };
    (header == 40 || folded(sum_of(&packet[..20])) == 0) && folded(pseudo + sum_of(transport)) == 0
}
