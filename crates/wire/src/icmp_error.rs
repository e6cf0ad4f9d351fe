//! ICMP errors about packets (RFC 792, RFC 4443), and the IP header and checksum of what is made here.
//!
//! ```text
//!  | IPv4, 20 | ICMP, 8   | the packet, up to 548 bytes: 576 in all (RFC 1812 §4.3.2.3)
//!  | IPv6, 40 | ICMPv6, 8 | the packet, up to 1,232 bytes: 1,280 in all (RFC 4443 §2.4 c)
//!  |<-- IcmpError::head() -->|
//! ```

use crate::{Addr, internet_checksum, protocol};

pub(crate) const ICMP: usize = 8;

/// What an ICMP error says: type and code for each family, and what follows its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpErrorKind {
    /// Type and code of ICMP.
    pub ipv4: [u8; 2],
    /// Type and code of ICMPv6.
    pub ipv6: [u8; 2],
    /// What follows the checksum, such as an MTU (RFC 1191 §4, RFC 4443 §3.2).
    pub rest: [u8; 4],
}

/// An ICMP error about a packet: the headers, behind which the packet's first bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    head: [u8; IcmpError::HEAD_MAX],
    head_len: u8,
    quoted: u16,
}

impl IcmpError {
    /// The most bytes that its headers have: IPv6 and ICMPv6.
    pub const HEAD_MAX: usize = 40 + ICMP;

    /// The error about `packet`, an IP packet without link padding and with service `tos`, to its sender `to`. It is of IPv4 where
    /// both addresses are.
    pub fn about(packet: &[u8], tos: u8, from: Addr, to: Addr, kind: IcmpErrorKind) -> IcmpError {
        let is_ipv4 = is_ipv4(from, to);
        let (number, [kind_of, code], all) = match is_ipv4 {
            true => (protocol::ICMP, kind.ipv4, 576 - 20),
            false => (protocol::ICMPV6, kind.ipv6, 1_280 - 40),
        };
        let quoted = &packet[..packet.len().min(all - ICMP)];
        // Precedence 6 and the packet's own service (RFC 1812 §4.3.2.5), without ECN.
        let (ip, ip_len) = ip_header(from, to, number, tos & 0x1c | 0xc0, ICMP + quoted.len());
        let mut icmp = [kind_of, code, 0, 0, kind.rest[0], kind.rest[1], kind.rest[2], kind.rest[3]];
        let checksum = transport_checksum(from, to, number, [&icmp, quoted]);
        icmp[2..4].copy_from_slice(&checksum);
        let mut head = [0; IcmpError::HEAD_MAX];
        head[..ip_len].copy_from_slice(&ip[..ip_len]);
        head[ip_len..ip_len + ICMP].copy_from_slice(&icmp);
        IcmpError { head, head_len: (ip_len + ICMP) as u8, quoted: quoted.len() as u16 }
    }

    /// Its IP and ICMP headers.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    /// How many bytes of the packet follow its headers.
    pub fn quoted(&self) -> usize {
        self.quoted.into()
    }
}

fn is_ipv4(from: Addr, to: Addr) -> bool {
    from.to_v4().is_some() && to.to_v4().is_some()
}

/// The IP header of a packet with so many bytes behind it, and how long the header is. Of IPv6 it has no traffic class.
pub(crate) fn ip_header(from: Addr, to: Addr, number: u8, tos: u8, len: usize) -> ([u8; 40], usize) {
    let mut head = [0; 40];
    match (from.to_v4(), to.to_v4()) {
        (Some(from), Some(to)) => {
            let [high, low] = ((20 + len) as u16).to_be_bytes();
            // Not to be fragmented, so that it needs no identification (RFC 6864 §4.1).
            head[..12].copy_from_slice(&[0x45, tos, high, low, 0, 0, 0x40, 0, 64, number, 0, 0]);
            head[12..16].copy_from_slice(&from);
            head[16..20].copy_from_slice(&to);
            let checksum = internet_checksum(&[&head[..20]]);
            head[10..12].copy_from_slice(&checksum);
            (head, 20)
        }
        _ => {
            let [high, low] = (len as u16).to_be_bytes();
            head[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, number, 64]);
            head[8..24].copy_from_slice(&from.0);
            head[24..40].copy_from_slice(&to.0);
            (head, 40)
        }
    }
}

/// The checksum of a transport, which is in two parts: over a pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1), but for ICMP.
pub(crate) fn transport_checksum(from: Addr, to: Addr, number: u8, [first, second]: [&[u8]; 2]) -> [u8; 2] {
    let lengths = ((first.len() + second.len()) as u32).to_be_bytes();
    let pseudo = [lengths[0], lengths[1], lengths[2], lengths[3], 0, 0, 0, number];
    match (from.to_v4(), to.to_v4()) {
        _ if number == protocol::ICMP => internet_checksum(&[first, second]),
        (Some(from), Some(to)) => internet_checksum(&[&from, &to, &pseudo, first, second]),
        _ => internet_checksum(&[&from.0, &to.0, &pseudo, first, second]),
    }
}
