//! Checksums that a sender left to its network card, computed in the card's place.
//!
//! A packet has one such checksum at most, in whichever of its headers: in a tunnel mostly the innermost, and the sums
//! around it are right as soon as that one is (the kernel's Documentation/networking/checksum-offloads.rst, "LCO").

use crate::checksum::{crc32c, fold, sum};
use crate::inside::carrier::GRE;
use crate::inside::inside;
use crate::verify::{Covered, covered, field_at};
use crate::{Headers, protocol};

/// Tunnels in tunnels that are looked into.
const DEEPEST: usize = 4;
/// Where SCTP's checksum is, a CRC32c of four bytes; no other protocol has its checksum there.
const SCTP_FIELD: usize = 8;
/// Where GRE's is, if the first bit of the header says that there is one.
const GRE_FIELD: usize = 4;
const GRE_HAS_CHECKSUM: u8 = 0x80;

/// Does what a network card was to do: where the transport's checksum holds nothing but the sum of its pseudo-header,
/// as a system leaves it to its card, computes the whole one; also of a packet inside a tunnel that [`inside`] knows. SCTP
/// and GRE have no pseudo-header: there the field holds 0. Says whether it did. A packet whose right checksum happens
/// to be what such a field holds stays as it is. Reads headers alone where there is nothing to do.
///
/// A caller that is told by the system what was left uses [`complete_at`]: no header has to be recognised then.
#[inline]
pub fn complete(frame: &mut [u8], headers: &Headers) -> bool {
    match headers.protocol {
        protocol::TCP => complete_own(frame, headers),
        _ => complete_inside_out(frame, headers, DEEPEST),
    }
}

/// Innermost first: before that one is complete those around it are neither right nor left to a card.
#[inline(never)]
fn complete_inside_out(frame: &mut [u8], headers: &Headers, depth: usize) -> bool {
    let is_inside = depth > 0
        && inside(frame, headers).is_some_and(|inside| {
            let bytes = frame.get_mut(inside.start..inside.end).unwrap_or_default();
            complete_inside_out(bytes, &inside.headers, depth - 1)
        });
    is_inside || complete_own(frame, headers)
}

/// Completes the sum of the outermost transport header.
#[inline]
fn complete_own(frame: &mut [u8], headers: &Headers) -> bool {
    if !headers.is_ip() || !headers.is_well_formed() {
        return false;
    }
    let l3_offset = usize::from(headers.l3_offset);
    let packet = frame.get(l3_offset..).unwrap_or_default();
    let transport_offset = usize::from(headers.l4_offset).saturating_sub(l3_offset);
    if matches!(headers.protocol, protocol::SCTP | GRE) {
        return complete_unseeded(frame, headers);
    }
    let (checksum, field) = match covered(packet, transport_offset, headers) {
        Ok(Covered { segment, field, pseudo, is_pseudo: true, .. })
            if u16::from_ne_bytes(field) == fold(pseudo) =>
        {
            // The field holds the pseudo-header's sum already.
            match !fold(sum(segment)) {
                // A sum of 0 would say that there is none (RFC 768).
                0 if headers.protocol == protocol::UDP => (0xffff, field),
                checksum => (checksum, field),
            }
        }
        _ => return false,
    };
    let at = l3_offset + transport_offset + field_at(headers.protocol);
    frame[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());
    checksum.to_ne_bytes() != field
}

/// Completes a sum without a pseudo-header, of SCTP or GRE.
#[cold]
fn complete_unseeded(frame: &mut [u8], headers: &Headers) -> bool {
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    let Some(bytes) = frame.get_mut(l4..l3 + usize::from(headers.l3_len)) else { return false };
    if headers.is_fragment() || headers.l3_len == u16::MAX {
        return false;
    }
    let field = match (headers.protocol, &*bytes) {
        (protocol::SCTP, [_, _, _, _, _, _, _, _, 0, 0, 0, 0, ..]) => SCTP_FIELD,
        (GRE, [flags, 0, _, _, 0, 0, ..]) if flags & GRE_HAS_CHECKSUM != 0 => GRE_FIELD,
        _ => return false,
    };
    complete_at(bytes, 0, field)
}

/// Computes a checksum that a system says it left to the card (`csum_start` and `csum_offset` of `struct virtio_net_hdr`,
/// virtio 1.2 §5.1.6): the sum of all bytes from `start` to the end of `frame`, whose place is `offset` bytes behind
/// `start` and holds what else is to be added. `false` if that is not in the frame.
pub fn complete_at(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(bytes) = frame.get_mut(start..) else { return false };
    if offset == SCTP_FIELD {
        let Some(Some(field)) = bytes.get_mut(offset..).map(<[u8]>::first_chunk_mut::<4>) else {
            return false;
        };
        *field = [0; 4];
        let crc = crc32c(bytes).to_le_bytes();
        bytes[offset..offset + 4].copy_from_slice(&crc);
        return true;
    }
    let checksum = match !fold(sum(bytes)) {
        // As all systems do, whether the protocol is UDP or not: both are right.
        0 => 0xffff,
        checksum => checksum,
    };
    let Some(field) = bytes.get_mut(offset..offset.saturating_add(2)) else { return false };
    field.copy_from_slice(&checksum.to_ne_bytes());
    true
}

/// Computes the checksum of the outermost transport header (TCP, UDP, or GRE) anew, whatever it held; none where UDP or
/// GRE has none. `headers` say the lengths. For headers that were written anew around part of a packet.
pub fn renew(frame: &mut [u8], headers: &Headers) {
    let (l3, l4) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    if headers.protocol == GRE {
        let bytes = frame.get_mut(l4..l3 + usize::from(headers.l3_len)).unwrap_or_default();
        let has_checksum = bytes.len() >= 8 && bytes[0] & GRE_HAS_CHECKSUM != 0;
        if has_checksum {
            bytes[GRE_FIELD..GRE_FIELD + 2].fill(0);
            complete_at(bytes, 0, GRE_FIELD);
        }
        return;
    }
    let packet = frame.get(l3..).unwrap_or_default();
    let Ok(Covered { segment, field, pseudo, is_pseudo: true, .. }) =
        covered(packet, l4.saturating_sub(l3), headers)
    else {
        return;
    };
    // What the field holds is taken out of the sum.
    let checksum = match !fold(pseudo + sum(segment) + u64::from(!u16::from_ne_bytes(field))) {
        0 if headers.protocol == protocol::UDP => 0xffff,
        checksum => checksum,
    };
    let at = l4 + field_at(headers.protocol);
    frame[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());
}
