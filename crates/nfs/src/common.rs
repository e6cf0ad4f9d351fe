//! What several functions share.

use core::fmt::Debug;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nf::{DstAddr, FiveTuple, FlowKey, SrcAddr, Verdict};
use serde::Deserialize;
use wire::{Addr, Fields, Headers, protocol};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// How many rows a report has where no option says otherwise.
pub(crate) const REPORT_ROWS: usize = 20;

/// What an option lets a function do with a packet: `"pass"` or `"drop"` in chain files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassOrDrop {
    /// Forward it.
    Pass,
    /// Drop it.
    Drop,
}

impl PassOrDrop {
    /// The verdict that it stands for, if need be with the reason.
    #[inline]
    pub(crate) fn verdict(self, reason: u8) -> Verdict {
        match self {
            PassOrDrop::Pass => Verdict::Forward,
            PassOrDrop::Drop => Verdict::Drop(reason),
        }
    }
}

/// The hop limit of neighbour discovery: what a router passed on has less (RFC 4861 §7.1).
const ON_LINK_HOP_LIMIT: u8 = 255;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Whether a packet is to IPv6 what ARP is to IPv4: a neighbour solicitation or advertisement from the link.
#[inline]
pub(crate) fn is_neighbor_discovery(headers: &Headers) -> bool {
    headers.protocol == protocol::ICMPV6
        && headers.ttl == ON_LINK_HOP_LIMIT
        && headers
            .icmp()
            .is_some_and(|icmp| matches!(icmp.kind, NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT))
}

/// A key that one function can be made for as well as for another, in no more bytes of metadata than
/// its fields have.
pub trait CompactKey: FlowKey {
    /// The key's fields: a [`FiveTuple`] without its zeros.
    type Fields: Copy + Debug + PartialEq + IntoBytes + TryFromBytes + Immutable + Send + Sync + 'static;

    /// The fields of a packet.
    fn fields(headers: &Headers) -> Self::Fields;

    /// The key that has these fields.
    fn from_fields(fields: Self::Fields) -> Self;
}

/// The fields of a [`FiveTuple`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed)]
pub struct FiveTupleFields {
    src: Addr,
    dst: Addr,
    src_port: u16,
    dst_port: u16,
    protocol: u8,
}

impl CompactKey for FiveTuple {
    type Fields = FiveTupleFields;

    #[inline]
    fn fields(headers: &Headers) -> FiveTupleFields {
        let FiveTuple { src, dst, src_port, dst_port, protocol, .. } = FiveTuple::of(headers);
        FiveTupleFields { src, dst, src_port, dst_port, protocol }
    }

    #[inline]
    fn from_fields(fields: FiveTupleFields) -> FiveTuple {
        let FiveTupleFields { src, dst, src_port, dst_port, protocol } = fields;
        FiveTuple { src, dst, src_port, dst_port, protocol, zero: [0; 3] }
    }
}

impl CompactKey for SrcAddr {
    type Fields = SrcAddr;

    #[inline]
    fn fields(headers: &Headers) -> SrcAddr {
        SrcAddr::of(headers)
    }

    #[inline]
    fn from_fields(fields: SrcAddr) -> SrcAddr {
        fields
    }
}

impl CompactKey for DstAddr {
    type Fields = DstAddr;

    #[inline]
    fn fields(headers: &Headers) -> DstAddr {
        DstAddr::of(headers)
    }

    #[inline]
    fn from_fields(fields: DstAddr) -> DstAddr {
        fields
    }
}

/// The header fields that functions which meter flows read: key and length.
#[derive(Clone, Copy, Debug, PartialEq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed)]
pub struct Metered<K: CompactKey = FiveTuple> {
    fields: K::Fields,
    /// Bytes of the IP packet with its header.
    pub l3_len: u16,
}

impl<K: CompactKey> Metered<K> {
    /// The header fields that it is made of, and what says whether a packet is IP.
    pub const READS: Fields = K::SHARDING.fields.union(Fields::L3_LEN).union(Fields::MARKS);

    /// The fields of an IP packet; `None` for others.
    #[inline]
    pub fn of(headers: &Headers) -> Option<Metered<K>> {
        headers.is_ip().then(|| Metered { fields: K::fields(headers), l3_len: headers.l3_len })
    }

    /// The flow that the packet belongs to.
    #[inline]
    pub fn flow(&self) -> K {
        K::from_fields(self.fields)
    }
}

/// Milliseconds as nanoseconds; more than 584 years is for ever.
pub(crate) fn ns_from_ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// Milliseconds as nanoseconds, for options in which 0 means never.
pub(crate) fn ns_from_ms_or_never(ms: u64) -> u64 {
    if ms == 0 { u64::MAX } else { ns_from_ms(ms) }
}

/// Nanoseconds as whole milliseconds for a report, rounded up so that a rest is never 0.
pub(crate) fn ms_text(ns: u64) -> String {
    ns.div_ceil(1_000_000).to_string()
}

/// `part` of `total` in percent with one decimal, rounded down.
pub(crate) fn percent_text(part: u64, total: u128) -> String {
    let permille = (u128::from(part) * 1_000).checked_div(total).unwrap_or(0);
    format!("{}.{}", permille / 10, permille % 10)
}

/// Bytes per second, rounded down; `-` for a flow that lasted no time.
pub(crate) fn rate_text(bytes: u64, duration_ns: u64) -> String {
    match (u128::from(bytes) * 1_000_000_000).checked_div(u128::from(duration_ns)) {
        Some(rate) => rate.to_string(),
        None => "-".into(),
    }
}

/// Sorts flows by `amount`, greatest first, and keeps `rows` of them. Equal amounts are in the order
/// of the keys' bytes, so that the result does not depend on the order in which flows came.
pub(crate) fn keep_top<K: FlowKey, S>(flows: &mut Vec<(&K, &S)>, rows: usize, amount: impl Fn(&S) -> u64) {
    flows.sort_unstable_by(|(a_key, a), (b_key, b)| {
        amount(b).cmp(&amount(a)).then_with(|| a_key.as_bytes().cmp(b_key.as_bytes()))
    });
    flows.truncate(rows);
}

/// Billionths as a number, without zeros at its end.
pub(crate) fn decimal_text(billionths: u64) -> String {
    let (whole, rest) = (billionths / 1_000_000_000, billionths % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
