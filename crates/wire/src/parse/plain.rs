//! The fast path of the parser: TCP or UDP over IPv4 in untagged Ethernet.

use super::bytes::{be16, be32};
use super::tcp_options;
use crate::{Addr, Headers, Marks, protocol};

/// Parses what most packets are: Ethernet without tags, IPv4 without options, not a fragment, TCP or
/// UDP, lengths that agree. `false` for all others, and then nothing has changed.
///
/// ```text
/// 12 EtherType | 14 IPv4 header | 34 UDP header | 42
///                               | 34 TCP header | 54
/// ```
///
/// Gives what [`parse_by_layers`](super::parse_by_layers) gives, in a third of the instructions:
/// every offset is known, and each field is written once. Tests hold the two together.
#[inline(always)]
pub(super) fn parse_plain(frame: &[u8], wire_len: u32, headers: &mut Headers) -> bool {
    let wire_len = usize::try_from(wire_len).unwrap_or(usize::MAX);
    // Twice the same code: a frame of which all was captured has one length, and its marks are known.
    if wire_len <= frame.len() {
        parse_frame(frame, frame.len(), Marks::IPV4, headers)
    } else {
        parse_frame(frame, wire_len, Marks::IPV4.union(Marks::SNAPPED), headers)
    }
}

#[inline(always)]
fn parse_frame(frame: &[u8], wire_len: usize, marks: Marks, headers: &mut Headers) -> bool {
    let Some(start) = frame.first_chunk::<42>() else { return false };
    let is_ipv4 = be16(start, 12) == 0x0800 && start[14] == 0x45;
    // The flag for more fragments and the fragment offset (RFC 791 §3.1).
    let is_fragment = be16(start, 20) & 0x3fff != 0;
    let end = 14 + usize::from(be16(start, 16));
    if !is_ipv4 || is_fragment || end > wire_len {
        return false;
    }
    match start[23] {
        protocol::UDP => {
            let len = be16(start, 38);
            if len < 8 || 34 + usize::from(len) > end {
                return false;
            }
            write(start, u32::from(len), 2 << 4, marks, headers);
            true
        }
        protocol::TCP => {
            let Some(tcp) = frame.first_chunk::<54>() else { return false };
            let header_end = 34 + usize::from(tcp[46] >> 4) * 4;
            let Some(options) = frame.get(54..header_end) else { return false };
            if header_end > end {
                return false;
            }
            let shape = tcp[46] & 0xf0 | Headers::NO_WINDOW_SCALE;
            write(start, be32(tcp, 38), shape, marks, headers);
            headers.ack = be32(tcp, 42);
            headers.sack = headers.ack;
            headers.window = be16(tcp, 48);
            headers.tcp_flags = tcp[47];
            tcp_options::parse_options(options, headers);
            true
        }
        _ => false,
    }
}

/// Writes every field, those that TCP alone has as 0. In the order in which they lie, so that the
/// compiler makes one store of neighbours.
#[inline(always)]
fn write(start: &[u8; 42], seq: u32, tcp_shape: u8, marks: Marks, headers: &mut Headers) {
    headers.src = Addr::v4([start[26], start[27], start[28], start[29]]);
    headers.dst = Addr::v4([start[30], start[31], start[32], start[33]]);
    headers.seq = seq;
    headers.ack = 0;
    headers.sack = 0;
    headers.src_port = be16(start, 34);
    headers.dst_port = be16(start, 36);
    headers.window = 0;
    headers.vlan = 0;
    headers.l3_len = be16(start, 16);
    headers.l4_offset = 34;
    headers.protocol = start[23];
    headers.tcp_flags = 0;
    headers.ttl = start[22];
    headers.tos = start[15];
    headers.l3_offset = 14;
    headers.tcp_shape = tcp_shape;
    headers.marks = marks;
    headers.malformed_code = 0;
}
