use crate::checksum::{fold, sum};
use crate::edits::has_segments_left;
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
        /// pseudo-header. So it is in captures of the sending machine.
        is_left_to_card: bool,
    },
    /// The transport's sum takes bytes that are not here: the capture cut the packet, or it is a fragment, or source
    /// routing hides the final destination. An IPv4 header is right nevertheless.
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
            return wrong(Malformed::Ipv4Checksum, false);
        }
    }
    let (reason, at, is_pseudo) = match (headers.protocol, is_ipv4) {
        (protocol::TCP, _) => (Malformed::TcpChecksum, 16, true),
        (protocol::UDP, _) => (Malformed::UdpChecksum, 6, true),
        (protocol::ICMP, true) => (Malformed::IcmpChecksum, 2, false),
        (protocol::ICMPV6, false) => (Malformed::IcmpChecksum, 2, true),
        _ if is_ipv4 => return Checksums::Right,
        _ => return Checksums::Absent,
    };
    // A length of 65,535 may stand for more: see `Headers::l3_len`.
    let len = match headers.protocol {
        protocol::UDP if headers.seq == 0 => return Checksums::Unverifiable,
        protocol::UDP => headers.seq as usize,
        _ => usize::from(headers.l3_len).saturating_sub(transport_offset),
    };
    let Some(segment) = packet.get(transport_offset..transport_offset + len) else {
        return Checksums::Unverifiable;
    };
    if headers.is_fragment() || headers.l3_len == u16::MAX {
        return Checksums::Unverifiable;
    }
    let Some(&field) = segment.get(at..).and_then(<[u8]>::first_chunk::<2>) else {
        return Checksums::Unverifiable;
    };
    if headers.protocol == protocol::UDP && field == [0, 0] {
        return if is_ipv4 { Checksums::Right } else { wrong(reason, false) };
    }
    let pseudo = match is_pseudo {
        false => 0,
        true if is_ipv4 => sum(packet.get(12..20).unwrap_or_default()) + sum(&lengths(len, headers.protocol)),
        true if has_segments_left(packet, transport_offset) => return Checksums::Unverifiable,
        true => sum(packet.get(8..40).unwrap_or_default()) + sum(&lengths(len, headers.protocol)),
    };
    match fold(pseudo + sum(segment)) {
        0xffff => Checksums::Right,
        _ => wrong(reason, is_pseudo && u16::from_ne_bytes(field) == fold(pseudo)),
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
