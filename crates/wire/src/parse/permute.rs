//! Plain packets by permutation: one compare of all that has to be as it is in plain packets, and one permutation of bytes for
//! each quarter of [`Headers`], instead of a load, a swap and a store for each field.
//!
//! ```text
//! bytes of the frame      12 ........ 28          26 ........ 42      34 ........ 50
//!                         EtherType, IPv4 header  addresses, UDP      TCP
//! quarters of Headers     lengths, TTL, marks     src; dst; ports     ports, numbers; window, flags
//! ```

use core::arch::x86_64::{
    __m128i, _mm_or_si128, _mm_setr_epi8, _mm_shuffle_epi8, _mm_testz_si128, _mm_xor_si128,
};

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned, transmute, transmute_ref};

use super::bytes::be16;
use super::tcp_options;
use crate::{Headers, Marks, protocol};

/// A byte of 0, in a permutation.
const NONE: i8 = -1;

/// [`Headers`] in quarters.
type Quarters = [[u8; 16]; 4];

/// 16 bytes of a frame that begin at `BEGIN`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct At<const BEGIN: usize, const REST: usize> {
    before: [u8; BEGIN],
    bytes: [u8; 16],
    rest: [u8; REST],
}

/// As [`parse_plain`](super::plain::parse_plain), which tests hold it to.
#[expect(
    clippy::extra_unused_type_parameters,
    reason = "each caller has one of its own, inlined into its loop"
)]
#[target_feature(enable = "avx")]
#[inline]
pub(super) fn parse_plain<Caller>(frame: &[u8], wire_len: u32, headers: &mut Headers) -> bool {
    let Some(start) = frame.first_chunk::<42>() else { return false };
    let from_ethertype: &At<12, 14> = transmute_ref!(start);
    let from_ethertype: __m128i = transmute!(from_ethertype.bytes);
    // EtherType; version and header length; the flag for more fragments and the fragment offset (RFC 791 §3.1).
    let fixed = _mm_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0x3f, -1, 0, 0, 0, 0, 0, 0);
    let expected = _mm_setr_epi8(0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    let is_ipv4 = _mm_testz_si128(_mm_xor_si128(from_ethertype, expected), fixed) == 1;
    let wire_len = usize::try_from(wire_len).unwrap_or(usize::MAX);
    let end = 14 + usize::from(be16(start, 16));
    if !is_ipv4 || end > frame.len() && end > wire_len {
        return false;
    }
    let from_addrs: &At<26, 0> = transmute_ref!(start);
    let from_addrs = transmute!(from_addrs.bytes);
    let addrs = [src(from_addrs), dst(from_addrs)];
    match start[23] {
        protocol::UDP => {
            let len = usize::from(be16(start, 38));
            if len < 8 || 34 + len > end {
                return false;
            }
            let places = _mm_setr_epi8(
                13, 12, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 9, 8, 11, 10,
            );
            let len_and_ports = _mm_shuffle_epi8(from_addrs, places);
            write(addrs, len_and_ports, rest(from_ethertype, 2 << 4), headers);
        }
        protocol::TCP => {
            let Some(tcp) = frame.first_chunk::<54>() else { return false };
            let header_end = 34 + usize::from(tcp[46] >> 4) * 4;
            let Some(options) = frame.get(54..header_end) else { return false };
            if header_end > end {
                return false;
            }
            let from_ports: &At<34, 4> = transmute_ref!(tcp);
            let from_ports = transmute!(from_ports.bytes);
            // The acknowledgment number twice: options may say more of SACK.
            let places = _mm_setr_epi8(7, 6, 5, 4, 11, 10, 9, 8, 11, 10, 9, 8, 1, 0, 3, 2);
            let numbers_and_ports = _mm_shuffle_epi8(from_ports, places);
            let places = _mm_setr_epi8(
                15, 14, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 13, NONE, NONE, NONE, 12, NONE, NONE,
            );
            let window_flags_and_len = _mm_shuffle_epi8(from_ports, places);
            // The lower half of the byte with the header's length is overwritten: no option has said a window scale yet.
            const { assert!(Headers::NO_WINDOW_SCALE == 0x0f) }
            let rest = rest(from_ethertype, Headers::NO_WINDOW_SCALE);
            write(addrs, numbers_and_ports, _mm_or_si128(rest, window_flags_and_len), headers);
            tcp_options::parse_options(options, headers);
        }
        _ => return false,
    }
    if wire_len > frame.len() {
        headers.marks |= Marks::SNAPPED;
    }
    true
}

/// The source address, mapped.
#[target_feature(enable = "avx")]
#[inline]
fn src(from_addrs: __m128i) -> __m128i {
    mapped(
        from_addrs,
        _mm_setr_epi8(NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 0, 1, 2, 3),
    )
}

/// The destination address, mapped.
#[target_feature(enable = "avx")]
#[inline]
fn dst(from_addrs: __m128i) -> __m128i {
    mapped(
        from_addrs,
        _mm_setr_epi8(NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 4, 5, 6, 7),
    )
}

#[target_feature(enable = "avx")]
#[inline]
fn mapped(from_addrs: __m128i, places: __m128i) -> __m128i {
    let prefix = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0);
    _mm_or_si128(_mm_shuffle_epi8(from_addrs, places), prefix)
}

/// The last quarter, without window and flags.
#[target_feature(enable = "avx")]
#[inline]
fn rest(from_ethertype: __m128i, tcp_shape: u8) -> __m128i {
    let places =
        _mm_setr_epi8(NONE, NONE, NONE, NONE, 5, 4, NONE, NONE, 11, NONE, 10, 3, NONE, NONE, NONE, NONE);
    let (shape, marks) = (tcp_shape as i8, const { Marks::IPV4.bits() as i8 });
    let known = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 0, 0, 14, shape, marks, 0);
    _mm_or_si128(_mm_shuffle_epi8(from_ethertype, places), known)
}

#[inline(always)]
fn write(addrs: [__m128i; 2], numbers: __m128i, rest: __m128i, headers: &mut Headers) {
    let [src, dst] = addrs;
    let quarters: Quarters = transmute!([src, dst, numbers, rest]);
    *headers = transmute!(quarters);
}
