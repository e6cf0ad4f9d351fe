//! What several functions share.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nf::{FiveTuple, FlowKey};
use serde::Deserialize;
use wire::{Addr, Headers};
use zerocopy::{Immutable, IntoBytes};

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

/// The header fields that functions which meter flows read: 5-tuple, length, type of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Metered {
    src: Addr,
    dst: Addr,
    src_port: u16,
    dst_port: u16,
    /// Bytes of the IP packet with its header.
    pub l3_len: u16,
    protocol: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
}

impl Metered {
    /// The fields of an IP packet; `None` for others.
    #[inline]
    pub fn of(headers: &Headers) -> Option<Metered> {
        headers.is_ip().then_some(Metered {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            l3_len: headers.l3_len,
            protocol: headers.protocol,
            tos: headers.tos,
        })
    }

    /// The flow that the packet belongs to.
    #[inline]
    pub fn flow(&self) -> FiveTuple {
        FiveTuple {
            src: self.src,
            dst: self.dst,
            src_port: self.src_port,
            dst_port: self.dst_port,
            protocol: self.protocol,
            zero: [0; 3],
        }
    }
}

/// Milliseconds as nanoseconds; more than 584 years is for ever.
pub(crate) fn ns_from_ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// The same for options in which 0 means never.
pub(crate) fn ns_from_ms_or_never(ms: u64) -> u64 {
    if ms == 0 { u64::MAX } else { ns_from_ms(ms) }
}

/// Nanoseconds as whole milliseconds for a report, rounded up so that a rest is never 0.
pub(crate) fn ms_text(ns: u64) -> String {
    ns.div_ceil(1_000_000).to_string()
}

/// Sorts flows by `amount`, greatest first, and keeps `rows` of them. Equal amounts are in the order
/// of the keys' bytes, so that the result does not depend on the order in which flows came.
pub(crate) fn keep_top<K: FlowKey, S>(flows: &mut Vec<(&K, &S)>, rows: usize, amount: impl Fn(&S) -> u64) {
    flows.sort_unstable_by(|(a_key, a), (b_key, b)| {
        amount(b).cmp(&amount(a)).then_with(|| a_key.as_bytes().cmp(b_key.as_bytes()))
    });
    flows.truncate(rows);
}
