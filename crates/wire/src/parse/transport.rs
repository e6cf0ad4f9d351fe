//! Parses transport headers: TCP, UDP, DCCP, SCTP and ICMP.

use super::bytes::{be16, be32};
use super::ip::Packet;
use super::tcp_options;
use crate::icmp::{QUOTE_OFFSET, Quote, Quoted, Shape};
use crate::{Addr, Headers, Malformed, Marks, protocol};

/// Parses the transport header at `headers.l4_offset`.
pub(super) fn parse_transport(frame: &[u8], packet: Packet, headers: &mut Headers) -> Result<(), Malformed> {
    let start = usize::from(headers.l4_offset);
    let bytes = frame.get(start..packet.end.min(frame.len())).unwrap_or_default();
    let wire_len = packet.end.saturating_sub(start);
    match headers.protocol {
        protocol::TCP => parse_tcp(bytes, wire_len, headers),
        protocol::UDP => parse_udp(bytes, wire_len, packet.is_jumbogram, headers),
        protocol::ICMP | protocol::ICMPV6 => parse_icmp_message(bytes, headers),
        protocol::SCTP | protocol::DCCP => {
            let ports = bytes.first_chunk::<4>().ok_or(Malformed::PortsTruncated)?;
            headers.src_port = be16(ports, 0);
            headers.dst_port = be16(ports, 2);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// RFC 9293 §3.1.
///
/// ```text
/// 0 source port | 2 destination port | 4 sequence number | 8 acknowledgment number
/// 12 data offset | 13 flags | 14 window | 16 checksum | 18 urgent pointer | 20 options
/// ```
fn parse_tcp(bytes: &[u8], wire_len: usize, headers: &mut Headers) -> Result<(), Malformed> {
    let header = bytes.first_chunk::<20>().ok_or(Malformed::TcpTruncated)?;
    headers.src_port = be16(header, 0);
    headers.dst_port = be16(header, 2);
    headers.seq = be32(header, 4);
    headers.ack = be32(header, 8);
    headers.sack = headers.ack;
    headers.tcp_flags = header[13];
    headers.window = be16(header, 14);
    headers.tcp_shape = Headers::NO_WINDOW_SCALE;
    let words = header[12] >> 4;
    let header_len = usize::from(words) * 4;
    if header_len < 20 || header_len > wire_len {
        return Err(Malformed::TcpDataOffset);
    }
    let options = bytes.get(20..header_len).ok_or(Malformed::TcpTruncated)?;
    headers.tcp_shape |= words << 4;
    tcp_options::parse_options(options, headers);
    Ok(())
}

/// RFC 768: `0 source port | 2 destination port | 4 length | 6 checksum | 8`.
fn parse_udp(
    bytes: &[u8],
    wire_len: usize,
    is_jumbogram: bool,
    headers: &mut Headers,
) -> Result<(), Malformed> {
    let header = bytes.first_chunk::<8>().ok_or(Malformed::UdpTruncated)?;
    headers.src_port = be16(header, 0);
    headers.dst_port = be16(header, 2);
    let len = be16(header, 4);
    headers.seq = u32::from(len);
    headers.tcp_shape = 2 << 4;
    // RFC 2675 §4: a jumbogram's UDP length is 0. Elsewhere 0 is as wrong as 1.
    if len == 0 && is_jumbogram {
        return Ok(());
    }
    // A first fragment's length is that of the whole datagram. A length shorter than the IP payload
    // is allowed: the rest is not UDP's (RFC 9868 puts options there).
    let is_beyond = usize::from(len) > wire_len && !headers.marks.contains(Marks::FIRST_FRAGMENT);
    if len < 8 || is_beyond {
        return Err(Malformed::UdpLength);
    }
    Ok(())
}

/// Apart, for the sake of the registers that other packets' parse has.
#[cold]
#[inline(never)]
fn parse_icmp_message(bytes: &[u8], headers: &mut Headers) -> Result<(), Malformed> {
    if headers.protocol == protocol::ICMP {
        parse_icmp(bytes, [0, 8, 13, 14], headers)?;
        parse_icmp_ports(bytes, headers);
    } else {
        parse_icmp(bytes, [128, 129, 128, 129], headers)?;
        parse_icmpv6_ports(bytes, headers);
    }
    Ok(())
}

/// RFC 792, RFC 4443: `0 type | 1 code | 2 checksum | 4 identifier of a query | 8`. Every message that
/// is defined has these 8 bytes.
fn parse_icmp(bytes: &[u8], queries: [u8; 4], headers: &mut Headers) -> Result<(), Malformed> {
    let header = bytes.first_chunk::<8>().ok_or(Malformed::IcmpTruncated)?;
    headers.seq = u32::from(be16(header, 0)) << 16;
    if queries.contains(&header[0]) {
        headers.seq |= u32::from(be16(header, 4));
    }
    headers.tcp_shape = 2 << 4;
    Ok(())
}

/// What a message over IPv4 has in place of ports: see [`IcmpPorts`](crate::IcmpPorts).
fn parse_icmp_ports(message: &[u8], headers: &mut Headers) {
    let (Some(header), true) = (message.first_chunk::<8>(), headers.marks.contains(Marks::IPV4)) else {
        return;
    };
    let shape = match Shape::of_query(header[0]) {
        Some(query) => {
            let identifier = be16(header, 4);
            match query {
                Shape::Request => headers.src_port = identifier,
                _ => headers.dst_port = identifier,
            }
            query
        }
        None => match parse_quote(message, headers) {
            Some(error) => error,
            None => return,
        },
    };
    headers.tcp_shape |= shape.nibble();
}

/// The ports of the packet that an error quotes, the other way round.
fn parse_quote(message: &[u8], headers: &mut Headers) -> Option<Shape> {
    let Quote { transport, quoted } = Quote::find(message)?;
    let ip = message.get(QUOTE_OFFSET..)?.first_chunk::<20>()?;
    let transport = message.get(transport..)?.first_chunk::<8>()?;
    let [src, dst] = [12, 16].map(|at| Addr::v4([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]));
    // RFC 792: errors go to the source of what they quote.
    if src != headers.dst {
        return None;
    }
    let (src_port, dst_port) = match quoted {
        Quoted::Tcp | Quoted::Udp => (be16(transport, 0), be16(transport, 2)),
        Quoted::Request => (be16(transport, 4), 0),
        Quoted::Reply => (0, be16(transport, 4)),
    };
    (headers.src_port, headers.dst_port) = (dst_port, src_port);
    headers.ack = u32::from_be_bytes(dst.last4());
    Some(Shape::Error { quoted, is_from_destination: dst == headers.src })
}

/// What an ICMPv6 error has in place of ports.
fn parse_icmpv6_ports(message: &[u8], headers: &mut Headers) {
    if !headers.marks.contains(Marks::IPV6) {
        return;
    }
    if let Some(error) = parse_quote_v6(message, headers) {
        headers.tcp_shape |= error.nibble();
    }
}

fn parse_quote_v6(message: &[u8], headers: &mut Headers) -> Option<Shape> {
    let Quote { transport, quoted } = Quote::find_v6(message)?;
    let ip = message.get(QUOTE_OFFSET..)?.first_chunk::<40>()?;
    let transport = message.get(transport..)?.first_chunk::<8>()?;
    let address = |at: usize| ip[at..].first_chunk().copied().map(Addr);
    let (src, dst) = (address(8)?, address(24)?);
    // RFC 4443 §2.2: errors go to the source of what they quote.
    if src != headers.dst {
        return None;
    }
    (headers.src_port, headers.dst_port) = (be16(transport, 2), be16(transport, 0));
    headers.ack = Headers::word_of(dst);
    Some(Shape::Error { quoted, is_from_destination: dst == headers.src })
}
