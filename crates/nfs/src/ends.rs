//! What a packet says of its two ends, read from its bytes: addresses, ports and identifiers, and those of the packet that
//! an ICMP error quotes.

use core::fmt;
use core::net::Ipv4Addr;

use wire::{Addr, LinkType, protocol};

/// An IPv4 address with a port, or the identifier of an ICMP query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) addr: [u8; 4],
    pub(crate) port: u16,
}

impl Endpoint {
    pub(crate) fn wire_addr(self) -> Addr {
        Addr::v4(self.addr)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Ipv4Addr::from(self.addr), self.port)
    }
}

/// Both ends of a packet. What has no port has 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    /// Source and destination of the packet that an ICMP error quotes.
    pub(crate) quoted: Option<(Endpoint, Endpoint)>,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.src, self.dst)?;
        match &self.quoted {
            Some((src, dst)) => write!(f, ", quoting {src} to {dst}"),
            None => Ok(()),
        }
    }
}

impl Ends {
    /// Those of a frame with an IPv4 packet; `None` if it is cut before its ends.
    pub(crate) fn of(link: LinkType, frame: &[u8], wire_len: u32) -> Option<Ends> {
        let ip = ip(link, frame, wire_len)?;
        let (mut ends, transport) = of_ip(ip)?;
        if ip[9] == protocol::ICMP && !is_later(ip)? && matches!(transport.first()?, 3 | 4 | 11 | 12) {
            ends.quoted = transport.get(8..).and_then(of_ip).map(|(ends, _)| (ends.src, ends.dst));
        }
        Some(ends)
    }
}

/// The frame from its IP header on.
fn ip(link: LinkType, frame: &[u8], wire_len: u32) -> Option<&[u8]> {
    frame.get(usize::from(wire::parse(link, frame, wire_len).l3_offset)..)
}

/// Whether an IPv4 packet is a later fragment, whose first bytes are payload.
fn is_later(ip: &[u8]) -> Option<bool> {
    Some(u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff != 0)
}

/// Both ends of an IPv4 packet, and what follows its header.
fn of_ip(ip: &[u8]) -> Option<(Ends, &[u8])> {
    let transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    let addr = |at: usize| ip.get(at..at + 4)?.try_into().ok();
    let is_later_fragment = is_later(ip)?;
    let word = |at: usize| {
        let bytes = transport.get(at..at + 2).filter(|_| !is_later_fragment);
        bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let (src_port, dst_port) = match *ip.get(9)? {
        protocol::TCP | protocol::UDP => (word(0), word(2)),
        protocol::ICMP => match transport.first()? {
            8 | 13 => (word(4), 0),
            0 | 14 => (0, word(4)),
            _ => (0, 0),
        },
        _ => (0, 0),
    };
    let (src, dst) =
        (Endpoint { addr: addr(12)?, port: src_port }, Endpoint { addr: addr(16)?, port: dst_port });
    Some((Ends { src, dst, quoted: None }, transport))
}

/// Whether the checksums of an IPv4 packet's header and of its TCP, UDP or ICMP are right; `None` of a packet that is not
/// whole.
pub(crate) fn sums_are_right(link: LinkType, frame: &[u8], wire_len: u32) -> Option<bool> {
    let ip = ip(link, frame, wire_len)?;
    let header_len = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let is_fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff != 0;
    let (header, transport) = (ip.get(..header_len)?, ip.get(header_len..total)?);
    if is_fragment {
        return None;
    }
    let pseudo = |sum: u32| sum + add(&header[12..20]) + u32::from(header[9]) + transport.len() as u32;
    let right = match header[9] {
        protocol::ICMP => is_all_ones(add(transport)),
        protocol::TCP => is_all_ones(pseudo(add(transport))),
        protocol::UDP if transport.get(6..8)? != [0, 0] => is_all_ones(pseudo(add(transport))),
        _ => true,
    };
    Some(right && is_all_ones(add(header)))
}

/// The sum of 16-bit words (RFC 1071); at most 65,535 bytes, so that it does not overflow.
fn add(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

/// Whether a sum is that of right data with its checksum.
fn is_all_ones(sum: u32) -> bool {
    sum > 0 && sum.is_multiple_of(0xffff)
}
