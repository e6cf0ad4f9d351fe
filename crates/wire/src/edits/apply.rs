//! Applies edits to a frame, layer by layer, and updates its checksums.

mod mss;
mod plain;

use core::fmt;
use core::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Edits, VlanEdit};
use crate::checksum::{Difference, crc32c_change};
use crate::parse::{extension_len, ip_protocol};
use crate::{Fields, Headers, LinkType, Marks, protocol};

/// Why edits could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// A VLAN tag, or headers of a tunnel, are to be put before the packet, and there is no room for them before or behind the
    /// frame; or the packet is too long for the tunnel.
    NoRoom,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::NoRoom => {
                write!(f, "no room for a VLAN tag or a tunnel; leave 52 bytes before or behind frames")
            }
        }
    }
}

impl core::error::Error for ApplyError {}

/// Writes `edits` into the frame at `buffer[frame]`, whose parse gave `headers`, and updates checksums incrementally (RFC 1624).
///
/// `headers` may have been through [`Edits::apply_to_headers`]. Never panics: where `headers` are those
/// of another frame, some bytes of this one change, none around it but those for a VLAN tag and a tunnel.
///
/// Pushing a VLAN tag takes 4 bytes before the frame if there are any, else 4 behind it, and moves
/// `frame`; removing one gives 4 back before it. Headers of a tunnel take their room so, too.
///
/// | checksum | what happens |
/// |---|---|
/// | IPv4 header, TCP, DCCP, UDP-Lite, ICMPv6 | changes by the difference (RFC 1624): right stays right, wrong stays wrong. DCCP's and UDP-Lite's cover ports and addresses whatever their coverage field says |
/// | UDP | changes by the difference; 0 is no checksum and stays (RFC 768; RFC 6935 for IPv6), a sum that becomes 0 is sent as 0xffff |
/// | SCTP | the CRC32c changes by the difference, which its linearity gives without the payload; 0 is no checksum and stays (RFC 9653) |
/// | ICMP over IPv4; in an error also that of the quoted IPv4 header, and the quoted transport's where it is quoted, as in an ICMPv6 error | changes by the difference |
/// | past the captured bytes | stays |
///
/// A first fragment has the whole datagram's transport checksum, so that is mended there; later ones
/// have payload only. Behind an IPv6 routing header that is not used up, the checksum is over the
/// final destination (RFC 8200 §8.1), so an edit of the present one leaves it.
///
/// Not handled: a tunnel's inside, IPv4 source routes and IPv6 home
/// addresses (RFC 6275 §6.3), authentication headers.
///
/// # Errors
/// [`ApplyError::NoRoom`]; then nothing has changed.
#[inline]
pub fn apply(
    edits: &Edits,
    headers: &Headers,
    link: LinkType,
    buffer: &mut [u8],
    frame: &mut Range<usize>,
) -> Result<(), ApplyError> {
    let is_done = edits.is_empty()
        || headers.is_plain(link)
            && buffer.get_mut(frame.clone()).is_some_and(|frame| apply_plain(edits, headers, frame));
    if is_done { Ok(()) } else { apply_by_layers(edits, headers, link, buffer, frame) }
}

/// [`apply`] for most packets, those whose headers [are plain](Headers::is_plain): each field is written where it is then.
/// `false` where that will not do (a VLAN tag, a tunnel, an MSS, an IPv6 address), and then nothing has changed. Where headers are those of another
/// frame, or not plain, some bytes of this one change that should not.
#[inline(always)]
pub fn apply_plain(edits: &Edits, headers: &Headers, frame: &mut [u8]) -> bool {
    edits.apply_plain(headers.protocol == protocol::UDP, frame)
}

/// [`apply`] for any edits and any packet; [`apply_plain`] is held to it.
///
/// # Errors
/// As [`apply`].
#[inline(never)]
pub fn apply_by_layers(
    edits: &Edits,
    headers: &Headers,
    link: LinkType,
    buffer: &mut [u8],
    frame: &mut Range<usize>,
) -> Result<(), ApplyError> {
    let mut set = edits.applicable_to(headers);
    if link != LinkType::Ethernet {
        set.remove(Fields::VLAN | Fields::SRC_MAC | Fields::DST_MAC);
    }
    let is_vlan = set.contains(Fields::VLAN);
    if set.intersects(Fields::VLAN | Fields::TUNNEL) && !edits.has_room(set, headers, buffer, frame) {
        return Err(ApplyError::NoRoom);
    }
    let Some(bytes) = buffer.get_mut(frame.clone()) else { return Ok(()) };
    let Some((link_header, packet)) = bytes.split_at_mut_checked(usize::from(headers.l3_offset)) else {
        return Ok(());
    };
    if let Ok(([dst, src], _)) = <[[u8; 6]; 2]>::mut_from_prefix(link_header) {
        edits.write_macs(set, dst, src);
    }
    edits.write_ip(set, headers, packet);
    if set.contains(Fields::TUNNEL) {
        edits.write_tunnel(headers, link, buffer, frame);
    }
    if is_vlan {
        edits.write_vlan(buffer, frame);
    }
    Ok(())
}

const TAG_LEN: usize = 4;
const MACS_LEN: usize = 12;

/// RFC 791 §3.1, in pieces that are edited and summed. No options.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv4 {
    version_and_tos: [u8; 2],
    lengths_and_fragment: [u8; 6],
    ttl_and_protocol: [u8; 2],
    pub(super) checksum: [u8; 2],
    pub(super) src: [u8; 4],
    pub(super) dst: [u8; 4],
}

/// RFC 8200 §3, in pieces that are edited and summed. No extension headers.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv6 {
    version_class_flow: [u8; 4],
    length_and_next_header: [u8; 3],
    hop_limit: u8,
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
}

// What is written where: `set` is what applies of `self`.
impl Edits {
    /// Whether there is room for what makes the frame longer, each of it before the frame or behind it.
    #[cold]
    fn has_room(&self, set: Fields, headers: &Headers, buffer: &[u8], frame: &Range<usize>) -> bool {
        let (mut before, mut behind) = (frame.start, buffer.len().saturating_sub(frame.end));
        let mut take = |bytes: usize| {
            let side = if before >= bytes { &mut before } else { &mut behind };
            side.checked_sub(bytes).map(|left| *side = left).is_some()
        };
        let is_push = set.contains(Fields::VLAN) && matches!(self.line.vlan, VlanEdit::Push(_));
        let is_tunnel = set.contains(Fields::TUNNEL);
        (!is_tunnel || self.tunnel.has_room_for(headers) && take(self.tunnel.overhead()))
            && (!is_push || take(TAG_LEN))
    }

    /// Puts the headers of the tunnel between the link header and the packet. There is room.
    #[cold]
    fn write_tunnel(&self, headers: &Headers, link: LinkType, buffer: &mut [u8], frame: &mut Range<usize>) {
        let (link_len, len) = (usize::from(headers.l3_offset), self.tunnel.overhead());
        if let Some(start) = frame.start.checked_sub(len) {
            buffer.copy_within(frame.start..frame.start + link_len, start);
            frame.start = start;
        } else {
            let packet = frame.start + link_len;
            buffer.copy_within(packet..frame.end, packet + len);
            frame.end += len;
        }
        // As the packet leaves: other edits have been written.
        let mut inside = *headers;
        self.apply_to_headers(&mut inside);
        self.tunnel.write(&inside, link, &mut buffer[frame.clone()], link_len..link_len + len);
    }

    #[inline]
    fn write_macs(&self, set: Fields, dst: &mut [u8; 6], src: &mut [u8; 6]) {
        if set.contains(Fields::DST_MAC) {
            *dst = self.line.dst_mac;
        }
        if set.contains(Fields::SRC_MAC) {
            *src = self.line.src_mac;
        }
    }

    /// Writes into an Ethernet frame of at least `l3_offset` bytes, which has the tags that the edit
    /// needs.
    #[cold]
    fn write_vlan(&self, buffer: &mut [u8], frame: &mut Range<usize>) {
        match self.line.vlan {
            VlanEdit::Rewrite(tci) => {
                let at = frame.start + MACS_LEN + 2;
                buffer[at..at + 2].copy_from_slice(&tci.to_be_bytes());
            }
            VlanEdit::Push(tci) => {
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
            VlanEdit::Pop => {
                let start = frame.start + TAG_LEN;
                buffer.copy_within(frame.start..frame.start + MACS_LEN, start);
                frame.start = start;
            }
        }
    }

    #[inline]
    fn write_ip(&self, set: Fields, headers: &Headers, packet: &mut [u8]) {
        let in_ip =
            Fields::TTL | Fields::TOS | Fields::ADDRS | Fields::SRC_PORT | Fields::DST_PORT | Fields::MSS;
        if !set.intersects(in_ip) {
            return;
        }
        let transport_offset = usize::from(headers.l4_offset).saturating_sub(usize::from(headers.l3_offset));
        let addresses = if headers.marks.contains(Marks::IPV4) {
            Ipv4::mut_from_prefix(packet)
                .map_or_else(|_| Difference::default(), |(header, _)| self.write_ipv4(set, header))
        } else {
            self.write_ipv6(set, packet, transport_offset)
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
            self.write_transport(set, headers, transport, addresses);
        }
    }

    /// Returns what changed in the pseudo-header.
    #[inline]
    fn write_ipv4(&self, set: Fields, header: &mut Ipv4) -> Difference {
        let mut addresses = Difference::default();
        if set.contains(Fields::SRC_ADDR) {
            addresses.write4(&mut header.src, self.line.src.last4());
        }
        if set.contains(Fields::DST_ADDR) {
            addresses.write4(&mut header.dst, self.line.dst.last4());
        }
        addresses.mend(&mut header.checksum);
        self.write_tos_and_ttl(set, &mut header.version_and_tos, &mut header.ttl_and_protocol)
            .mend(&mut header.checksum);
        addresses
    }

    /// Returns what changed. Apart, since few functions edit these: for the others no registers are saved.
    #[inline(never)]
    fn write_tos_and_ttl(
        &self,
        set: Fields,
        version_and_tos: &mut [u8; 2],
        ttl_and_protocol: &mut [u8; 2],
    ) -> Difference {
        let mut difference = Difference::default();
        if set.contains(Fields::TOS) {
            let [version, _] = *version_and_tos;
            difference.write2(version_and_tos, [version, self.line.tos]);
        }
        if set.contains(Fields::TTL) {
            let [_, protocol] = *ttl_and_protocol;
            difference.write2(ttl_and_protocol, [self.line.ttl, protocol]);
        }
        difference
    }

    /// Returns what changed in the pseudo-header.
    fn write_ipv6(&self, set: Fields, packet: &mut [u8], transport_offset: usize) -> Difference {
        let mut addresses = Difference::default();
        let is_on_its_way = has_segments_left(packet, transport_offset);
        let Ok((header, _)) = Ipv6::mut_from_prefix(packet) else { return addresses };
        if set.contains(Fields::TOS) {
            let [first, second, ..] = &mut header.version_class_flow;
            *first = *first & 0xf0 | self.line.tos >> 4;
            *second = *second & 0x0f | self.line.tos << 4;
        }
        if set.contains(Fields::TTL) {
            header.hop_limit = self.line.ttl;
        }
        if set.contains(Fields::SRC_ADDR) {
            addresses.write16(&mut header.src, self.line.src.0);
        }
        if set.contains(Fields::DST_ADDR) {
            let mut hop = Difference::default();
            hop.write16(&mut header.dst, self.line.dst.0);
            if !is_on_its_way {
                addresses = addresses.and(hop);
            }
        }
        addresses
    }

    /// `transport` is the transport header and what follows it in the packet, as far as captured.
    #[inline]
    fn write_transport(&self, set: Fields, headers: &Headers, transport: &mut [u8], addresses: Difference) {
        if headers.protocol == protocol::ICMP {
            return self.write_icmp(set, headers, transport);
        }
        if headers.protocol == protocol::ICMPV6 {
            return self.write_icmpv6(set, headers, transport, addresses);
        }
        let mut difference = addresses;
        if set.intersects(Fields::SRC_PORT | Fields::DST_PORT)
            && let Ok((ports, _)) = <[[u8; 2]; 2]>::mut_from_prefix(transport)
        {
            let before = *ports;
            let [src, dst] = ports;
            self.write_ports(set, src, dst, &mut difference);
            if headers.protocol == protocol::SCTP {
                mend_sctp(headers, transport, before);
            }
        }
        if set.contains(Fields::MSS) {
            mss::lower(self.line.mss, transport, &mut difference);
        }
        match transport_checksum(headers, transport) {
            Some(checksum) if headers.protocol == protocol::UDP => difference.mend_udp(checksum),
            Some(checksum) => difference.mend(checksum),
            None => (),
        }
    }

    /// Adds to `difference` what changed.
    #[inline]
    fn write_ports(&self, set: Fields, src: &mut [u8; 2], dst: &mut [u8; 2], difference: &mut Difference) {
        if set.contains(Fields::SRC_PORT) {
            difference.write2(src, self.line.src_port.to_be_bytes());
        }
        if set.contains(Fields::DST_PORT) {
            difference.write2(dst, self.line.dst_port.to_be_bytes());
        }
    }
}

/// Whether an IPv6 packet has a routing header with hops to come.
pub(crate) fn has_segments_left(packet: &[u8], transport_offset: usize) -> bool {
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
/// `None` where it was not captured.
#[inline]
fn transport_checksum<'a>(headers: &Headers, transport: &'a mut [u8]) -> Option<&'a mut [u8; 2]> {
    const UDP_LITE: u8 = 136;
    let offset = match headers.protocol {
        protocol::TCP => 16,
        protocol::UDP | protocol::DCCP | UDP_LITE => 6,
        _ => return None,
    };
    transport.get_mut(offset..)?.first_chunk_mut()
}

/// RFC 9260 §6.8: the CRC32c is over the whole SCTP packet, its own field taken as 0, and is stored
/// least significant byte first. `before` are the ports that were in the packet.
#[cold]
fn mend_sctp(headers: &Headers, transport: &mut [u8], before: [[u8; 2]; 2]) {
    let offset = headers.l4_offset.saturating_sub(u16::from(headers.l3_offset));
    let len = headers.l3_len.saturating_sub(offset);
    let Some((after, rest)) = transport.split_first_chunk_mut::<8>() else { return };
    let Some(field) = rest.first_chunk_mut::<4>() else { return };
    let change = core::array::from_fn(|index| before.as_flattened()[index] ^ after[index]);
    let crc = u32::from_le_bytes(*field);
    if crc != 0 {
        *field = (crc ^ crc32c_change(change, len)).to_le_bytes();
    }
}
