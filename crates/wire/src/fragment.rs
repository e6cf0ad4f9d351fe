//! Reads which part of which datagram a fragment carries.

use crate::parse::{extension_len, ip_protocol};
use crate::{Addr, Headers, Marks};

/// What a fragment says of its datagram, and which part of it it carries.
///
/// ```text
/// IPv4 (RFC 791 §3.1)   4 identification | 6 flags, offset / 8 | ... | 9 protocol
/// IPv6 (RFC 8200 §4.5)  0 next header | 1 - | 2 offset / 8, flag | 4 identification | 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Which datagram it belongs to.
    pub datagram: Datagram,
    /// Where its data begins in the datagram's, bytes: a multiple of 8, 0 in a first fragment.
    pub offset: u32,
    /// Bytes of data that it carries.
    pub len: u32,
    /// Whether more data follows behind it.
    pub has_more: bool,
    /// Bytes that the whole datagram's length field counts beside its data: in IPv4 the header, in IPv6 the extension
    /// headers before the fragment header.
    pub header_len: u32,
    /// Whether a second fragment header follows, which makes a fragment of a fragment. No system sends that.
    pub is_nested: bool,
}

/// What tells the fragments of one datagram from those of others: in IPv4 both addresses, protocol and identification
/// (RFC 791 §2.3), in IPv6 both addresses and identification (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// The identification, 16 bits in IPv4 and 32 in IPv6.
    pub id: u32,
    /// The protocol of IPv4; 0 for IPv6, where fragments of one datagram may differ in it.
    pub protocol: u8,
}

impl Fragment {
    /// Where its data ends in the datagram's, bytes.
    #[inline]
    pub fn end(&self) -> u32 {
        self.offset + self.len
    }
}

/// Reads what makes a packet a fragment. `None` for whole packets, atomic fragments of IPv6 among them (RFC 6946), and
/// for malformed ones. `headers` are what [`parse`](fn@crate::parse) gives for `frame`; others may give any answer, and
/// no panic. Lengths are those on the wire, also where the capture cut the frame.
pub fn fragment(frame: &[u8], headers: &Headers) -> Option<Fragment> {
    if !headers.is_fragment() || !headers.is_well_formed() {
        return None;
    }
    let packet = frame.get(usize::from(headers.l3_offset)..)?;
    let headers_end = headers.l4_offset.checked_sub(u16::from(headers.l3_offset))?;
    match headers.marks.contains(Marks::IPV4) {
        true => fragment_v4(packet, headers_end, headers),
        false => fragment_v6(packet, headers_end, headers),
    }
}

fn fragment_v4(packet: &[u8], header_len: u16, headers: &Headers) -> Option<Fragment> {
    let [id_high, id_low, high, low] = *packet.get(4..)?.first_chunk::<4>()?;
    let field = u16::from_be_bytes([high, low]);
    let id = u16::from_be_bytes([id_high, id_low]);
    let Headers { src, dst, protocol, .. } = *headers;
    Some(Fragment {
        datagram: Datagram { src, dst, id: id.into(), protocol },
        offset: u32::from(field & 0x1fff) * 8,
        len: u32::from(headers.l3_len.saturating_sub(header_len)),
        has_more: field & 0x2000 != 0,
        header_len: header_len.into(),
        is_nested: false,
    })
}

/// Goes through the extension headers once more, to the fragment header that is not of an atomic fragment.
fn fragment_v6(packet: &[u8], headers_end: u16, headers: &Headers) -> Option<Fragment> {
    let fixed = packet.first_chunk::<40>()?;
    // The length field, since `l3_len` does not hold the 40 bytes of the header beside the longest payload.
    let payload_len = match u16::from_be_bytes([fixed[4], fixed[5]]) {
        0 => u32::from(headers.l3_len).saturating_sub(40),
        len => len.into(),
    };
    let mut found: Option<Fragment> = None;
    let (mut kind, mut at) = (fixed[6], 40);
    while at < usize::from(headers_end) {
        let extension = packet.get(at..)?.first_chunk::<8>()?;
        let end = at + extension_len(kind, extension[1])?;
        if kind == ip_protocol::FRAGMENT {
            let [_, _, high, low, id @ ..] = *extension;
            let field = u16::from_be_bytes([high, low]);
            let (offset, has_more) = (u32::from(field & 0xfff8), field & 1 != 0);
            match &mut found {
                _ if offset == 0 && !has_more => {}
                Some(first) => first.is_nested = true,
                None => {
                    let (src, dst, id) = (headers.src, headers.dst, u32::from_be_bytes(id));
                    found = Some(Fragment {
                        datagram: Datagram { src, dst, id, protocol: 0 },
                        offset,
                        len: (payload_len + 40).saturating_sub(end as u32),
                        has_more,
                        header_len: at as u32 - 40,
                        is_nested: false,
                    });
                }
            }
        }
        (kind, at) = (extension[0], end);
    }
    found
}
