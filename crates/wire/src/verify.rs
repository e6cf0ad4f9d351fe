//! Verifies the checksums of a frame.

use crate::checksum::{fold, sum};
use crate::edits::has_segments_left;
use crate::parse::{extension_len, ip_protocol};
use crate::{Headers, Malformed, Marks, protocol};

/// What a packet's checksums say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// All that there are could be computed, and are right. UDP in IPv4 need not have one (RFC 768).
    Right,
    /// One is wrong.
    Wrong {
        /// Which one: a reason whose name ends in `-checksum`.
        reason: Malformed,
        /// Whether the field holds what the system writes there when the network card is to do the rest: the sum of the
        /// pseudo-header, or 0 in an IPv4 header. So it is in captures of the sending machine.
        is_left_to_card: bool,
    },
    /// The transport's sum takes bytes that are not here: the capture cut the packet, or it is a fragment, or a routing
    /// header of an unknown kind hides the final destination. An IPv4 header is right nevertheless.
    Unverifiable,
    /// There is none to verify: not IP, malformed, or IPv6 with another transport.
    Absent,
}

/// Verifies the checksums of a frame with its headers: of an IPv4 header (RFC 791 §3.1, RFC 1812 §5.2.2), TCP (RFC 9293
/// §3.1), UDP (RFC 768; required in IPv6, RFC 8200 §8.1), ICMP (RFC 792), ICMPv6 (RFC 4443 §2.3). Reads all of the
/// packet. `headers` are what [`parse`](fn@crate::parse) gives for `frame`; others may give any answer, and no panic.
#[inline]
pub fn verify(frame: &[u8], headers: &Headers) -> Checksums {
    if !headers.is_ip() || !headers.is_well_formed() {
        return Checksums::Absent;
    }
    let packet = frame.get(usize::from(headers.l3_offset)..).unwrap_or_default();
    let transport_offset = usize::from(headers.l4_offset).saturating_sub(usize::from(headers.l3_offset));
    let is_ipv4 = headers.marks.contains(Marks::IPV4);
    if is_ipv4 {
        let header = packet.get(..transport_offset).unwrap_or_default();
        if fold(sum(header)) != 0xffff {
            return wrong(Malformed::Ipv4Checksum, header.get(10..12) == Some(&[0, 0]));
        }
    }
    let covered = match covered(packet, transport_offset, headers) {
        Ok(covered) => covered,
        Err(checksums) => return checksums,
    };
    let Covered { reason, segment, field, pseudo, is_pseudo } = covered;
    match fold(pseudo + sum(segment)) {
        0xffff => Checksums::Right,
        _ => wrong(reason, is_pseudo && u16::from_ne_bytes(field) == fold(pseudo)),
    }
}

/// What a transport's checksum is about.
pub(crate) struct Covered<'a> {
    reason: Malformed,
    /// The transport header and all behind it.
    pub(crate) segment: &'a [u8],
    /// What the checksum is now.
    pub(crate) field: [u8; 2],
    /// The sum of the pseudo-header; 0 where there is none.
    pub(crate) pseudo: u64,
    pub(crate) is_pseudo: bool,
}

/// What the transport's checksum of a well-formed IP packet is about; or what there is to say without it.
#[inline]
pub(crate) fn covered<'a>(
    packet: &'a [u8],
    transport_offset: usize,
    headers: &Headers,
) -> Result<Covered<'a>, Checksums> {
    let is_ipv4 = headers.marks.contains(Marks::IPV4);
    let (reason, is_pseudo) = match (headers.protocol, is_ipv4) {
        (protocol::TCP, _) => (Malformed::TcpChecksum, true),
        (protocol::UDP, _) => (Malformed::UdpChecksum, true),
        (protocol::ICMP, true) => (Malformed::IcmpChecksum, false),
        (protocol::ICMPV6, false) => (Malformed::IcmpChecksum, true),
        _ if is_ipv4 => return Err(Checksums::Right),
        _ => return Err(Checksums::Absent),
    };
    // A length of 65,535 may stand for more: see `Headers::l3_len`.
    let len = match headers.protocol {
        protocol::UDP if headers.seq == 0 => return Err(Checksums::Unverifiable),
        protocol::UDP => headers.seq as usize,
        _ => usize::from(headers.l3_len).saturating_sub(transport_offset),
    };
    let Some(segment) = packet.get(transport_offset..transport_offset + len) else {
        return Err(Checksums::Unverifiable);
    };
    if headers.is_fragment() || headers.l3_len == u16::MAX {
        return Err(Checksums::Unverifiable);
    }
    let Some(&field) = segment.get(field_at(headers.protocol)..).and_then(<[u8]>::first_chunk::<2>) else {
        return Err(Checksums::Unverifiable);
    };
    if headers.protocol == protocol::UDP && field == [0, 0] {
        return Err(if is_ipv4 { Checksums::Right } else { wrong(reason, false) });
    }
    let pseudo = match is_pseudo {
        false => 0,
        true if is_ipv4 => sum(packet.get(12..20).unwrap_or_default()) + sum(&lengths(len, headers.protocol)),
        true if has_segments_left(packet, transport_offset) => {
            let destination = final_destination(packet, transport_offset).ok_or(Checksums::Unverifiable)?;
            let source = packet.get(8..24).unwrap_or_default();
            sum(source) + sum(destination) + sum(&lengths(len, headers.protocol))
        }
        true => sum(packet.get(8..40).unwrap_or_default()) + sum(&lengths(len, headers.protocol)),
    };
    Ok(Covered { reason, segment, field, pseudo, is_pseudo })
}

/// Where an IPv6 packet with hops to come is going in the end, whose address the pseudo-header has (RFC 8200 §8.1). `None`
/// if it has several routing headers, or one of a kind that hides it.
#[cold]
fn final_destination(packet: &[u8], transport_offset: usize) -> Option<&[u8]> {
    let (mut kind, mut offset) = (*packet.get(6)?, 40);
    let mut found = None;
    while offset < transport_offset {
        let &[next, len, routing, segments_left, ..] = packet.get(offset..)? else { return None };
        let end = offset + extension_len(kind, len)?;
        if kind == ip_protocol::ROUTING && segments_left > 0 {
            let first = offset + 8;
            let at = match routing {
                // RFC 8754 §2, with the last segment first; RFC 6275 §6.4, with one.
                4 | 2 => first,
                // RFC 2460 §4.4, with the last one last.
                0 => end.checked_sub(16)?,
                _ => return None,
            };
            if found.is_some() || at < first || at + 16 > end {
                return None;
            }
            found = packet.get(at..at + 16);
        }
        (kind, offset) = (next, end);
    }
    found
}

/// Where the checksum is in a transport header.
pub(crate) fn field_at(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => 2,
    }
}

/// [`verify`], and writes down what is wrong: the packet is malformed then.
#[inline]
pub fn verify_into(frame: &[u8], headers: &mut Headers) -> Checksums {
    let checksums = verify(frame, headers);
    if let Checksums::Wrong { reason, .. } = checksums {
        headers.malformed_code = reason as u8;
    }
    checksums
}

fn wrong(reason: Malformed, is_left_to_card: bool) -> Checksums {
    Checksums::Wrong { reason, is_left_to_card }
}

/// The end of a pseudo-header: the transport's length, and its protocol.
fn lengths(len: usize, protocol: u8) -> [u8; 8] {
    let [a, b, c, d] = (len as u32).to_be_bytes();
    [a, b, c, d, 0, 0, 0, protocol]
}
