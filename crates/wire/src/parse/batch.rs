//! Many packets at once, with the instructions that this processor has.

use super::parse_into;
use crate::{Headers, LinkType};

#[cfg(target_arch = "x86_64")]
cpufeatures::new!(has_avx, "avx");

/// A packet's link type, its bytes as captured, and how many there were on the wire.
pub type Raw<'a> = (LinkType, &'a [u8], u32);

/// What [`parse_batch`] says of its packets. Bit *i* is of packet *i*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParsedBatch {
    /// Is [plain](Headers::is_plain). Not all that are need be known.
    pub plain: u64,
    /// Is well-formed. All that are plain are.
    pub well_formed: u64,
}

/// [`parse_into`](super::parse_into()) for each of up to 64 packets: `headers[i]` are of `packets[i]`, and `raw` says where a
/// packet's bytes are. Packets whose bit is in `skipped` are left out, as are their headers; `raw` is not asked of them.
///
/// On x86-64 with AVX plain packets are parsed by permutations of bytes, in three quarters of the instructions.
///
/// # Panics
/// If there are more packets than headers, or than 64.
#[inline]
pub fn parse_batch<'a, P>(
    packets: &'a [P],
    skipped: u64,
    headers: &mut [Headers],
    raw: impl Fn(&'a P) -> Raw<'a>,
) -> ParsedBatch {
    #[cfg(target_arch = "x86_64")]
    if has_avx::get() {
        // SAFETY: the processor has AVX, and the system saves its registers.
        #[allow(unsafe_code)]
        return unsafe { parse_batch_avx(packets, skipped, headers, raw) };
    }
    parse_each(packets, skipped, headers, raw, parse_into)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
fn parse_batch_avx<'a, P, R: Fn(&'a P) -> Raw<'a>>(
    packets: &'a [P],
    skipped: u64,
    headers: &mut [Headers],
    raw: R,
) -> ParsedBatch {
    // As `parse_into`. Written out: handed to one function that both call, the permutations are not inlined (25 instructions a packet).
    parse_each(packets, skipped, headers, raw, |link, frame, wire_len, headers| {
        let is_plain =
            link == LinkType::Ethernet && super::permute::parse_plain::<R>(frame, wire_len, headers);
        if !is_plain {
            super::parse_by_layers(link, frame, wire_len, headers);
        }
        is_plain
    })
}

#[inline(always)]
fn parse_each<'a, P>(
    packets: &'a [P],
    skipped: u64,
    headers: &mut [Headers],
    raw: impl Fn(&'a P) -> Raw<'a>,
    parse: impl Fn(LinkType, &'a [u8], u32, &mut Headers) -> bool,
) -> ParsedBatch {
    assert!(packets.len() <= headers.len().min(64), "64 packets at most, and headers for each");
    let (mut plain, mut others, mut bit) = (0, 0, 1_u64);
    for (packet, headers) in packets.iter().zip(headers) {
        if skipped & bit == 0 {
            let (link, frame, wire_len) = raw(packet);
            if parse(link, frame, wire_len, headers) {
                plain |= bit;
            } else if headers.is_well_formed() {
                others |= bit;
            }
        }
        bit = bit.wrapping_shl(1);
    }
    ParsedBatch { plain, well_formed: plain | others }
}
