use core::fmt;
use core::ops::Range;

use super::{Edits, VlanEdit};
use crate::checksum::{Difference, crc32c_change};
use crate::parse::{extension_len, ip_protocol};
use crate::{Fields, Headers, LinkType, Marks, protocol};

/// Why edits could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// A VLAN tag is to be pushed and there is no room for it before or behind the frame.
    NoRoom,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::NoRoom => write!(f, "no room for a VLAN tag; leave 4 bytes before or behind frames"),
        }
    }
}

impl core::error::Error for ApplyError {}

/// Writes `edits` into the frame at `buffer[frame]`, whose parse gave `headers`, and mends checksums.
///
/// `headers` may have been through [`Edits::apply_to_headers`]. Never panics: where `headers` are those
/// of another frame, some bytes of this one change, none around it but those for a VLAN tag.
///
/// Pushing a VLAN tag takes 4 bytes before the frame if there are any, else 4 behind it, and moves
/// `frame`; removing one gives 4 back before it.
///
/// | checksum | what happens |
/// |---|---|
/// | IPv4 header, TCP, DCCP, UDP-Lite, ICMPv6 | changes by the difference (RFC 1624): right stays right, wrong stays wrong. DCCP's and UDP-Lite's cover ports and addresses whatever their coverage field says |
/// | UDP | likewise; 0 is no checksum and stays (RFC 768; RFC 6935 for IPv6), a sum that becomes 0 is sent as 0xffff |
/// | SCTP | the CRC32c changes by the difference, which its linearity gives without the payload; 0 is no checksum and stays (RFC 9653) |
/// | past the captured bytes | stays |
///
/// A first fragment has the whole datagram's transport checksum, so that is mended there; later ones
/// have payload only. Behind an IPv6 routing header that is not used up, the checksum is over the
/// final destination (RFC 8200 §8.1), so an edit of the present one leaves it.
///
/// Not handled: the packet inside an ICMP error, a tunnel's inside, IPv4 source routes and IPv6 home
/// addresses (RFC 6275 §6.3), authentication headers.
///
/// # Errors
/// [`ApplyError::NoRoom`]; then nothing has changed.
pub fn apply(
    edits: &Edits,
    headers: &Headers,
    link: LinkType,
    buffer: &mut [u8],
    frame: &mut Range<usize>,
) -> Result<(), ApplyError> {
    if edits.is_empty() {
        return Ok(());
    }
    let mut edits = edits.applicable_to(headers);
    if link != LinkType::Ethernet {
        edits.set.remove(Fields::VLAN | Fields::SRC_MAC | Fields::DST_MAC);
    }
    let is_push = edits.has(Fields::VLAN) && matches!(edits.vlan, Some(VlanEdit::Push(_)));
    if is_push && frame.start < TAG_LEN && buffer.len().saturating_sub(frame.end) < TAG_LEN {
        return Err(ApplyError::NoRoom);
    }
    let Some(bytes) = buffer.get_mut(frame.clone()) else { return Ok(()) };
    if bytes.len() < usize::from(headers.l3_offset) {
        return Ok(());
    }
    edits.write_macs(bytes);
    edits.write_ip(headers, bytes);
    if edits.has(Fields::VLAN) {
        edits.write_vlan(buffer, frame);
    }
    Ok(())
}

const TAG_LEN: usize = 4;
const MACS_LEN: usize = 12;

impl Edits {
    fn has(&self, field: Fields) -> bool {
        self.set.contains(field)
    }

    fn write_macs(&self, frame: &mut [u8]) {
        let Some(macs) = frame.first_chunk_mut::<MACS_LEN>() else { return };
        if self.has(Fields::DST_MAC) {
            macs[..6].copy_from_slice(&self.dst_mac);
        }
        if self.has(Fields::SRC_MAC) {
            macs[6..].copy_from_slice(&self.src_mac);
        }
    }

    /// Writes into an Ethernet frame of at least `l3_offset` bytes, which has the tags that the edit
    /// needs.
    fn write_vlan(&self, buffer: &mut [u8], frame: &mut Range<usize>) {
        match self.vlan {
            Some(VlanEdit::Rewrite(tci)) => {
                let at = frame.start + MACS_LEN + 2;
                buffer[at..at + 2].copy_from_slice(&tci.to_be_bytes());
            }
            Some(VlanEdit::Push(tci)) => {
                if let Some(start) = frame.start.checked_sub(TAG_LEN) {
                    buffer.copy_within(frame.start..frame.start + MACS_LEN, start);
                    frame.start = start;
                } else {
                    let behind_macs = frame.start + MACS_LEN;
                    buffer.copy_within(behind_macs..frame.end, behind_macs + TAG_LEN);
                    frame.end += TAG_LEN;
                }
                let [high, low] = tci.to_be_bytes();
                let at = frame.start + MACS_LEN;
                buffer[at..at + TAG_LEN].copy_from_slice(&[0x81, 0x00, high, low]);
            }
            Some(VlanEdit::Pop) => {
                let start = frame.start + TAG_LEN;
                buffer.copy_within(frame.start..frame.start + MACS_LEN, start);
                frame.start = start;
            }
            None => {}
        }
    }

    fn write_ip(&self, headers: &Headers, frame: &mut [u8]) {
        let in_ip = Fields::TTL | Fields::TOS | Fields::ADDRS | Fields::SRC_PORT | Fields::DST_PORT;
        let start = usize::from(headers.l3_offset);
        let Some(packet) = frame.get_mut(start..) else { return };
        if !self.set.intersects(in_ip) {
            return;
        }
        let transport_offset = usize::from(headers.l4_offset).saturating_sub(start);
        let addresses = if headers.marks.contains(Marks::IPV4) {
            self.write_ipv4(packet)
        } else {
            self.write_ipv6(packet, transport_offset)
        };
        // A later fragment's first bytes are payload.
        if headers.marks.contains(Marks::LATER_FRAGMENT) {
            return;
        }
        // Padding behind the packet is not its transport header, however short that is.
        let end = match headers.l3_len {
            u16::MAX => packet.len(),
            len => packet.len().min(usize::from(len)),
        };
        if let Some(transport) = packet.get_mut(transport_offset..end) {
            self.write_transport(headers, transport, addresses);
        }
    }

    /// Returns what changed in the pseudo-header.
    fn write_ipv4(&self, packet: &mut [u8]) -> Difference {
        let mut addresses = Difference::default();
        let Some(header) = packet.first_chunk_mut::<20>() else { return addresses };
        let mut others = Difference::default();
        if self.has(Fields::TOS) {
            let version = header[0];
            others.write(&mut header[0..2], &[version, self.tos]);
        }
        if self.has(Fields::TTL) {
            let protocol = header[9];
            others.write(&mut header[8..10], &[self.ttl, protocol]);
        }
        if self.has(Fields::SRC_ADDR) {
            addresses.write(&mut header[12..16], &self.src.0[12..]);
        }
        if self.has(Fields::DST_ADDR) {
            addresses.write(&mut header[16..20], &self.dst.0[12..]);
        }
        mend(&mut header[10..12], others.and(addresses));
        addresses
    }

    /// Returns what changed in the pseudo-header.
    fn write_ipv6(&self, packet: &mut [u8], transport_offset: usize) -> Difference {
        let mut addresses = Difference::default();
        let is_on_its_way = has_segments_left(packet, transport_offset);
        let Some(header) = packet.first_chunk_mut::<40>() else { return addresses };
        if self.has(Fields::TOS) {
            header[0] = header[0] & 0xf0 | self.tos >> 4;
            header[1] = header[1] & 0x0f | self.tos << 4;
        }
        if self.has(Fields::TTL) {
            header[7] = self.ttl;
        }
        if self.has(Fields::SRC_ADDR) {
            addresses.write(&mut header[8..24], &self.src.0);
        }
        if self.has(Fields::DST_ADDR) {
            let mut hop = Difference::default();
            hop.write(&mut header[24..40], &self.dst.0);
            if !is_on_its_way {
                addresses = addresses.and(hop);
            }
        }
        addresses
    }

    /// `transport` is the transport header and what follows it in the packet, as far as captured.
    fn write_transport(&self, headers: &Headers, transport: &mut [u8], addresses: Difference) {
        let mut difference = addresses;
        if self.set.intersects(Fields::SRC_PORT | Fields::DST_PORT)
            && let Some(ports) = transport.first_chunk_mut::<4>()
        {
            let before = *ports;
            if self.has(Fields::SRC_PORT) {
                difference.write(&mut ports[..2], &self.src_port.to_be_bytes());
            }
            if self.has(Fields::DST_PORT) {
                difference.write(&mut ports[2..], &self.dst_port.to_be_bytes());
            }
            if headers.protocol == protocol::SCTP {
                let change = core::array::from_fn(|index| before[index] ^ ports[index]);
                mend_sctp(headers, transport, change);
            }
        }
        if let Some(field) = transport_checksum(headers, transport) {
            mend(field, difference);
            if headers.protocol == protocol::UDP && *field == [0, 0] {
                // RFC 768: 0 would say that there is no checksum.
                field.copy_from_slice(&[0xff, 0xff]);
            }
        }
    }
}

/// Whether an IPv6 packet has a routing header with hops to come.
fn has_segments_left(packet: &[u8], transport_offset: usize) -> bool {
    let (Some(&next_header), mut offset) = (packet.get(6), 40) else { return false };
    let mut kind = next_header;
    while offset < transport_offset {
        let Some(&[next, len, _, segments_left, ..]) = packet.get(offset..) else { return false };
        let Some(len) = extension_len(kind, len) else { return false };
        if kind == ip_protocol::ROUTING && segments_left > 0 {
            return true;
        }
        kind = next;
        offset += len;
    }
    false
}

/// The checksum field of a protocol whose checksum is a one's complement sum with a pseudo-header;
/// `None` where it was not captured, or there is no checksum in it.
fn transport_checksum<'a>(headers: &Headers, transport: &'a mut [u8]) -> Option<&'a mut [u8]> {
    const UDP_LITE: u8 = 136;
    let offset = match headers.protocol {
        protocol::TCP => 16,
        protocol::UDP | protocol::DCCP | UDP_LITE => 6,
        // ICMP for IPv4 has no pseudo-header.
        protocol::ICMPV6 if headers.marks.contains(Marks::IPV6) => 2,
        _ => return None,
    };
    let field = transport.get_mut(offset..offset + 2)?;
    let is_absent = headers.protocol == protocol::UDP && *field == [0, 0];
    (!is_absent).then_some(field)
}

fn mend(field: &mut [u8], difference: Difference) {
    if let [high, low] = field
        && !difference.is_none()
    {
        [*high, *low] = difference.mend(u16::from_be_bytes([*high, *low])).to_be_bytes();
    }
}

/// RFC 9260 §6.8: the CRC32c is over the whole SCTP packet, its own field taken as 0, and is stored
/// least significant byte first.
fn mend_sctp(headers: &Headers, transport: &mut [u8], change: [u8; 4]) {
    let offset = headers.l4_offset.saturating_sub(u16::from(headers.l3_offset));
    let len = headers.l3_len.saturating_sub(offset);
    let Some(field) = transport.get_mut(8..).and_then(|rest| rest.first_chunk_mut::<4>()) else { return };
    let crc = u32::from_le_bytes(*field);
    if crc != 0 {
        *field = (crc ^ crc32c_change(change, len)).to_le_bytes();
    }
}
