//! Parses frames into headers: one pass, from the link header to the transport's.

mod batch;
mod bytes;
mod ip;
mod link;
#[cfg(target_arch = "x86_64")]
mod permute;
mod plain;
mod tcp_options;
mod transport;

pub use batch::{ParsedBatch, Raw, parse_batch};
pub(crate) use ip::{extension_len, protocol as ip_protocol};

use crate::{Headers, LinkType, Malformed, Marks};
use bytes::saturate;
use link::Network;

/// Parses a frame: one pass, no allocation, never panics, reads nothing outside `frame`.
///
/// `frame` is what was captured, `wire_len` how many bytes there were on the wire; less than
/// `frame.len()` counts as `frame.len()`. Where the capture cut the frame ([`Marks::SNAPPED`]),
/// lengths in headers are judged by the wire, and a header that the cut goes through is truncated.
///
/// A malformed packet keeps the fields of the headers before the defect, and those of the defective
/// header that could be read. A tunnel is what it is outside. What is not IP is well-formed.
#[inline]
pub fn parse(link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
    let mut headers = Headers::default();
    parse_into(link, frame, wire_len, &mut headers);
    headers
}

/// [`parse()`], into where the headers are to be: all of `headers` is written, whatever was in it. `true`: they are
/// [plain](Headers::is_plain), as those of most packets; `false` leaves it open.
#[inline(always)]
pub fn parse_into(link: LinkType, frame: &[u8], wire_len: u32, headers: &mut Headers) -> bool {
    let is_plain = link == LinkType::Ethernet && plain::parse_plain(frame, wire_len, headers);
    if !is_plain {
        parse_by_layers(link, frame, wire_len, headers);
    }
    is_plain
}

/// [`parse_into`] for any frame, layer by layer. Public for tests, which hold the short way to it.
#[doc(hidden)]
#[inline(never)]
pub fn parse_by_layers(link: LinkType, frame: &[u8], wire_len: u32, headers: &mut Headers) {
    let wire_len = usize::try_from(wire_len).unwrap_or(usize::MAX).max(frame.len());
    *headers = Headers::default();
    headers.marks.set(Marks::SNAPPED, wire_len > frame.len());
    if let Err(reason) = parse_layers(link, frame, wire_len, headers) {
        headers.malformed_code = reason as u8;
    }
}

fn parse_layers(
    link: LinkType,
    frame: &[u8],
    wire_len: usize,
    headers: &mut Headers,
) -> Result<(), Malformed> {
    let network = link::parse_link(link, frame, headers);
    headers.l4_offset = u16::from(headers.l3_offset);
    headers.l3_len = saturate(wire_len - usize::from(headers.l3_offset));
    let packet = match network? {
        Network::Ipv4 => ip::parse_ipv4(frame, wire_len, headers)?,
        Network::Ipv6 => ip::parse_ipv6(frame, wire_len, headers)?,
        Network::NotIp => return Ok(()),
    };
    if headers.marks.contains(Marks::LATER_FRAGMENT) {
        return Ok(());
    }
    transport::parse_transport(frame, packet, headers)
}
