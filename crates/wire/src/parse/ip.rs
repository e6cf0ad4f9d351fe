//! Parses IPv4 and IPv6 headers, extension headers included.

use super::bytes::{be16, saturate};
use crate::{Addr, Headers, Malformed, Marks};

/// IP protocol numbers of extension headers (IANA, "IPv6 Extension Header Types"). ESP is one too,
/// but what follows it is encrypted.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const MOBILITY: u8 = 135;
    pub(crate) const HIP: u8 = 139;
    pub(crate) const SHIM6: u8 = 140;
}

/// An IP packet's extent, from its length field.
#[derive(Clone, Copy)]
pub(super) struct Packet {
    /// Where it ends in the frame on the wire: before padding, perhaps after the captured bytes.
    pub end: usize,
    /// IPv6 that leaves its length to an option, so that UDP may too.
    pub is_jumbogram: bool,
}

/// Parses an IPv4 header at `headers.l3_offset` (RFC 791 §3.1).
///
/// ```text
/// 0 version, header length | 1 TOS | 2 total length | 4 identification | 6 flags, fragment offset
/// 8 TTL | 9 protocol | 10 checksum | 12 source | 16 destination | 20 options
/// ```
// Whether the compiler inlines it by itself differs by build.
#[inline(always)]
pub(super) fn parse_ipv4(frame: &[u8], wire_len: usize, headers: &mut Headers) -> Result<Packet, Malformed> {
    let start = usize::from(headers.l3_offset);
    let bytes = frame.get(start..).unwrap_or_default();
    if bytes.first().is_some_and(|first| first >> 4 != 4) {
        return Err(Malformed::IpVersion);
    }
    headers.marks |= Marks::IPV4;
    let header = bytes.first_chunk::<20>().ok_or(Malformed::Ipv4Truncated)?;
    headers.tos = header[1];
    headers.ttl = header[8];
    headers.protocol = header[9];
    headers.src = Addr::v4([header[12], header[13], header[14], header[15]]);
    headers.dst = Addr::v4([header[16], header[17], header[18], header[19]]);
    // Segmentation offload: packets too long for the field are captured before they are cut.
    let len = match be16(header, 2) {
        0 => wire_len - start,
        total_len => usize::from(total_len),
    };
    headers.l3_len = saturate(len);
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header_len < 20 {
        return Err(Malformed::Ipv4HeaderLength);
    }
    if header_len > bytes.len() {
        return Err(Malformed::Ipv4Truncated);
    }
    headers.l4_offset = (start + header_len) as u16;
    let end = start + len;
    if len < header_len || end > wire_len {
        return Err(Malformed::Ipv4TotalLength);
    }
    let fragment = be16(header, 6);
    let offset = usize::from(fragment & 0x1fff) * 8;
    mark_fragment(offset, fragment & 0x2000 != 0, headers);
    // The datagram has at least this fragment's header before `offset`, and no more than 65,535
    // bytes (RFC 791 §3.1).
    if offset > 0 && offset + len > usize::from(u16::MAX) {
        return Err(Malformed::FragmentOverflow);
    }
    Ok(Packet { end, is_jumbogram: false })
}

/// Parses an IPv6 header at `headers.l3_offset`, and extension headers (RFC 8200 §3, §4).
///
/// ```text
/// 0 version, traffic class, flow label | 4 payload length | 6 next header | 7 hop limit
/// 8 source | 24 destination | 40
/// ```
#[inline(always)]
pub(super) fn parse_ipv6(frame: &[u8], wire_len: usize, headers: &mut Headers) -> Result<Packet, Malformed> {
    let start = usize::from(headers.l3_offset);
    let bytes = frame.get(start..).unwrap_or_default();
    if bytes.first().is_some_and(|first| first >> 4 != 6) {
        return Err(Malformed::IpVersion);
    }
    headers.marks |= Marks::IPV6;
    let (header, _) = bytes.split_first_chunk::<40>().ok_or(Malformed::Ipv6Truncated)?;
    headers.tos = (be16(header, 0) >> 4) as u8;
    headers.protocol = header[6];
    headers.ttl = header[7];
    headers.src = address(header, 8);
    headers.dst = address(header, 24);
    // A jumbogram (RFC 2675 §3), or segmentation offload. A packet that truly ends here reads the
    // same: nothing but padding follows.
    let payload_len = be16(header, 4);
    let len = if payload_len == 0 { wire_len - start } else { 40 + usize::from(payload_len) };
    headers.l3_len = saturate(len);
    headers.l4_offset = (start + 40) as u16;
    let end = start + len;
    if end > wire_len {
        return Err(Malformed::Ipv6PayloadLength);
    }
    if headers.src.to_v4().is_some() || headers.dst.to_v4().is_some() {
        return Err(Malformed::MappedAddress);
    }
    if extension_len(headers.protocol, 0).is_some() {
        parse_extensions(&frame[..end.min(frame.len())], len, headers)?;
    }
    Ok(Packet { end, is_jumbogram: payload_len == 0 })
}

fn address(header: &[u8; 40], offset: usize) -> Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[offset..offset + 16]);
    Addr(octets)
}

/// Moves `protocol` and `l4_offset` past the extension headers in `readable`, the frame up to the
/// packet's end. `packet_len` is the packet's length with its header.
#[inline(never)]
fn parse_extensions(readable: &[u8], packet_len: usize, headers: &mut Headers) -> Result<(), Malformed> {
    for count in 0.. {
        let kind = headers.protocol;
        let rest = readable.get(usize::from(headers.l4_offset)..).unwrap_or_default();
        let len = match (extension_len(kind, 0), rest) {
            (None, _) => break,
            (Some(_), _) if count == Malformed::MAX_IPV6_EXTENSIONS => {
                return Err(Malformed::TooManyIpv6Extensions);
            }
            (Some(_), [_, len, ..]) => *len,
            (Some(_), _) => return Err(Malformed::Ipv6ExtensionTruncated),
        };
        let extension = extension_len(kind, len).and_then(|len| rest.get(..len));
        let extension = extension.ok_or(Malformed::Ipv6ExtensionTruncated)?;
        headers.protocol = extension[0];
        headers.l4_offset += extension.len() as u16;
        if kind == protocol::FRAGMENT {
            parse_fragment(extension, packet_len, headers)?;
            if headers.marks.contains(Marks::LATER_FRAGMENT) {
                break;
            }
        }
    }
    Ok(())
}

// 8 extension headers of at most 2,048 bytes behind the longest link header: offsets fit.
const _: () = assert!(28 + 40 + Malformed::MAX_IPV6_EXTENSIONS * 2_048 <= u16::MAX as usize);

/// Length in bytes of the extension header `kind` with length field `len`; `None` for other protocols.
pub(crate) fn extension_len(kind: u8, len: u8) -> Option<usize> {
    match kind {
        protocol::HOP_BY_HOP
        | protocol::ROUTING
        | protocol::DESTINATION_OPTIONS
        | protocol::MOBILITY
        | protocol::HIP
        | protocol::SHIM6 => Some((usize::from(len) + 1) * 8),
        // RFC 8200 §4.5: the field is reserved.
        protocol::FRAGMENT => Some(8),
        // RFC 4302 §2.2: in 4-byte words, minus 2.
        protocol::AUTHENTICATION => Some((usize::from(len) + 2) * 4),
        _ => None,
    }
}

fn parse_fragment(extension: &[u8], packet_len: usize, headers: &mut Headers) -> Result<(), Malformed> {
    let &[_, _, high, low, ..] = extension else { return Ok(()) };
    let fragment = u16::from_be_bytes([high, low]);
    let offset = usize::from(fragment & 0xfff8);
    mark_fragment(offset, fragment & 1 != 0, headers);
    // RFC 8200 §4.5: the payload length of the whole, which has neither this header (40) nor the
    // fragment header (8), must not exceed 65,535.
    if offset > 0 && offset + packet_len > usize::from(u16::MAX) + 48 {
        return Err(Malformed::FragmentOverflow);
    }
    Ok(())
}

/// Offset 0 without more to come is a whole packet (RFC 6946, "atomic fragment").
fn mark_fragment(offset: usize, more: bool, headers: &mut Headers) {
    if offset > 0 {
        // Behind a second fragment header, the later position is the one that counts.
        headers.marks.remove(Marks::FIRST_FRAGMENT);
        headers.marks |= Marks::LATER_FRAGMENT;
    } else if more {
        headers.marks |= Marks::FIRST_FRAGMENT;
    }
}
