//! What a tunnel carries, as far as it can be told from the packet alone: who completes checksums, and who segments, has to
//! go on to the header that the sender meant.
//!
//! ```text
//! IP in IP, 6in4            | IP | IP ...
//! GRE (RFC 2784, 2890)      | IP | GRE | IP, Ethernet (also ERSPAN), MPLS ...
//! VXLAN (RFC 7348), -GPE    | IP | UDP | 8 bytes | Ethernet, IP ...
//! Geneve (RFC 8926)         | IP | UDP | 8 bytes, options | Ethernet, IP ...
//! FOU, GUE variant 1, bare  | IP | UDP | IP ...
//! GTP-U (3GPP TS 29.281)    | IP | UDP | 8 or 12 bytes | IP ...
//! SRv6 (RFC 8986)           | IPv6, routing header | IP, Ethernet ...
//! MPLS, PPPoE               | Ethernet | labels, or 8 bytes | IP ...
//! ```

use crate::{Headers, LinkType, internet_checksum, parse, protocol};

/// A packet in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Where it begins in the frame around it.
    pub start: usize,
    /// Where it ends there: padding and the like is outside.
    pub end: usize,
    /// Its headers, as if it were a frame of its own: offsets count from `start`.
    pub headers: Headers,
}

/// Protocol numbers of what may have a packet inside (IANA).
pub(crate) mod carrier {
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const MPLS: u8 = 137;
    pub(crate) const ETHERNET: u8 = 143;
}

/// What a tunnel packet carries; `None` where `headers`, those of `frame`, are of no tunnel that is known by its headers.
/// In UDP the port says nothing: there the bytes have to be those of such a tunnel, with an IP packet inside that ends where
/// the datagram does. Reads headers alone. `headers` of another frame give any answer, and no panic.
#[inline]
pub fn inside(frame: &[u8], headers: &Headers) -> Option<Inside> {
    match headers.protocol {
        protocol::TCP | protocol::ICMP | protocol::ICMPV6 => None,
        _ => find(frame, headers),
    }
}

#[inline(never)]
fn find(frame: &[u8], headers: &Headers) -> Option<Inside> {
    if !headers.is_well_formed() || headers.is_fragment() {
        return None;
    }
    let l3 = usize::from(headers.l3_offset);
    if !headers.is_ip() {
        // The EtherType is the last thing of a link header.
        let kind = frame.get(l3.checked_sub(2)?..l3)?;
        let (link, at) = by_ethertype(u16::from_be_bytes([kind[0], kind[1]]), frame.get(l3..)?)?;
        return Some(of(frame, link, l3 + at, frame.len()));
    }
    let l4 = usize::from(headers.l4_offset);
    let end = match headers.l3_len {
        u16::MAX => frame.len(),
        len => frame.len().min(l3 + usize::from(len)),
    };
    let rest = frame.get(l4..end)?;
    let (link, at) = match headers.protocol {
        carrier::IPV4 | carrier::IPV6 => (LinkType::RawIp, 0),
        carrier::ETHERNET => (LinkType::Ethernet, 0),
        carrier::MPLS => behind_labels(rest)?,
        carrier::GRE => in_gre(rest)?,
        protocol::UDP => {
            let end = if headers.seq == 0 { end } else { end.min(l4 + headers.seq as usize) };
            let (link, at) = in_udp(frame.get(l4 + 8..end)?)?;
            return Some(of(frame, link, l4 + 8 + at, end)).filter(|inside| fills(frame, link, inside));
        }
        _ => return None,
    };
    Some(of(frame, link, l4 + at, end))
}

fn of(frame: &[u8], link: LinkType, start: usize, end: usize) -> Inside {
    let bytes = frame.get(start..end).unwrap_or_default();
    Inside { start, end: start + bytes.len(), headers: parse(link, bytes, bytes.len() as u32) }
}

/// Whether there is an IP packet that ends where the bytes end, and is right so far: chance makes no such bytes.
fn fills(frame: &[u8], link: LinkType, Inside { start, end, headers }: &Inside) -> bool {
    let bytes = frame.get(*start..*end).unwrap_or_default();
    if !headers.is_ip() || !headers.is_well_formed() {
        return false;
    }
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    let is_sound = headers.marks.contains(crate::Marks::IPV6)
        || bytes.get(l3..l4).is_some_and(|header| internet_checksum(&[header]) == [0, 0]);
    // The shortest Ethernet frame may be padded.
    let is_padded = link == LinkType::Ethernet && bytes.len() <= 60;
    is_sound && (headers.l3_len == u16::MAX || is_padded || l3 + usize::from(headers.l3_len) == bytes.len())
}

/// What an EtherType says of the bytes behind it, and where it begins.
fn by_ethertype(kind: u16, rest: &[u8]) -> Option<(LinkType, usize)> {
    match kind {
        0x0800 | 0x86dd => Some((LinkType::RawIp, 0)),
        // Transparent Ethernet bridging (RFC 1701).
        0x6558 => Some((LinkType::Ethernet, 0)),
        0x8847 | 0x8848 => behind_labels(rest),
        // PPPoE of a session (RFC 2516 §4), with PPP's numbers of IPv4 and IPv6.
        0x8864 => match rest {
            [0x11, 0, _, _, _, _, 0, 0x21 | 0x57, ..] => Some((LinkType::RawIp, 8)),
            _ => None,
        },
        _ => None,
    }
}

/// Behind the last of up to 8 MPLS labels (RFC 3032 §2.1) an IP packet begins with its version, and a pseudowire's control
/// word with 0 (RFC 4448 §4.6).
fn behind_labels(rest: &[u8]) -> Option<(LinkType, usize)> {
    const IS_LAST: u8 = 1;
    let last = rest.chunks_exact(4).take(8).position(|label| label[2] & IS_LAST != 0)?;
    let at = 4 * (last + 1);
    match rest.get(at)? >> 4 {
        4 | 6 => Some((LinkType::RawIp, at)),
        0 => Some((LinkType::Ethernet, at + 4)),
        _ => None,
    }
}

/// ```text
/// 0 C - K S (bits 0, 2, 3), version (bits 13 to 15) | 2 EtherType | 4 checksum, 0 (C) | key (K) | sequence number (S)
/// ```
fn in_gre(rest: &[u8]) -> Option<(LinkType, usize)> {
    let &[flags, version, kind, kind_low, ..] = rest else { return None };
    // Neither source routes, nor PPTP's version.
    if flags & 0x4f != 0 || version != 0 {
        return None;
    }
    let at = 4 + 4 * (flags & 0xb0).count_ones() as usize;
    match u16::from_be_bytes([kind, kind_low]) {
        // ERSPAN type II has a header where there is a sequence number, type III has more of it where its last bit says so.
        0x88be if flags & 0x10 == 0 => Some((LinkType::Ethernet, at)),
        0x88be => Some((LinkType::Ethernet, at + 8)),
        0x22eb => Some((LinkType::Ethernet, at + if rest.get(at + 11)? & 1 == 0 { 12 } else { 20 })),
        kind => by_ethertype(kind, rest.get(at..)?).map(|(link, behind)| (link, at + behind)),
    }
}

/// What tunnel in UDP the payload could be of.
fn in_udp(payload: &[u8]) -> Option<(LinkType, usize)> {
    match *payload.first_chunk::<8>()? {
        // VXLAN with its group policy, if any. With remote checksum offload (0x20 in the second byte) the sum is the receiver's.
        [0x08 | 0x88, reserved, _, _, .., 0] if reserved & 0x20 == 0 => Some((LinkType::Ethernet, 8)),
        // VXLAN-GPE names what it carries.
        [0x0c, 0, 0, 1 | 2, .., 0] => Some((LinkType::RawIp, 8)),
        [0x0c, 0, 0, 3, .., 0] => Some((LinkType::Ethernet, 8)),
        // Geneve, with its options' length in words.
        [words @ 0..0x40, flags, 0x65, 0x58, .., 0] if flags & 0x3f == 0 => {
            Some((LinkType::Ethernet, 8 + 4 * usize::from(words)))
        }
        [words @ 0..0x40, flags, 0x08, 0x00, .., 0] | [words @ 0..0x40, flags, 0x86, 0xdd, .., 0]
            if flags & 0x3f == 0 =>
        {
            Some((LinkType::RawIp, 8 + 4 * usize::from(words)))
        }
        // GTP-U's message 255, with a sequence number and the like, or without.
        [0x30, 0xff, ..] => Some((LinkType::RawIp, 8)),
        [0x31..=0x33, 0xff, ..] => Some((LinkType::RawIp, 12)),
        [first, ..] if matches!(first >> 4, 4 | 6) => Some((LinkType::RawIp, 0)),
        _ => None,
    }
}
