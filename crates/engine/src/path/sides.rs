//! The two sides of a chain: which packets come from inside, and which from outside.
//!
//! What comes from inside meets the functions in the order of the chain file, what comes from outside in reverse. So
//! each function sees the addresses of its own place both times: with `conntrack` before `nat` in the file, the
//! tracker sees inside addresses in both directions.
//!
//! The side is decided once, from the headers as received ([`Sides::mark`]), and rides in
//! [`Marks::FROM_OUTSIDE`]: the dispatcher, history, and every function see the same. A live port will know it from
//! the interface, and set the mark itself.

use nf::prefix::PrefixSet;
use wire::{Headers, Marks};

use crate::path::batch::Batch;
use crate::path::packets::bits;

/// Which packets come from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    pub(crate) inside: PrefixSet,
    /// Addresses that functions of the chain have outside: what is sent to them is for hosts inside.
    pub(crate) external: PrefixSet,
    /// Whether packets are spread by their inside end, as they are beside a function that stands between the sides: then
    /// errors of routers outside come to the core of the connection that they are about.
    pub(crate) spreads_by_inside: bool,
}

impl Sides {
    /// Notes in the headers of a packet, as it was received, which side it comes from.
    #[inline]
    pub fn mark(&self, headers: &mut Headers) {
        let is_from_outside = headers.is_ip() && !self.inside.contains(headers.src);
        headers.marks.set(Marks::FROM_OUTSIDE, is_from_outside);
        if !self.spreads_by_inside {
            headers.forget_quoted_destination();
        }
    }

    /// Whether a packet, as it was received, goes from one side to the other.
    #[inline]
    pub fn crosses(&self, headers: &Headers) -> bool {
        match headers.marks.contains(Marks::FROM_OUTSIDE) {
            true => self.inside.contains(headers.dst) || self.external.contains(headers.dst),
            false => !self.inside.contains(headers.dst),
        }
    }

    /// The packet as its connection looks from inside: of one from outside, source and destination are exchanged.
    /// Both directions of a connection that does not cross look alike, too.
    pub(crate) fn seen_from_inside(&self, headers: &Headers) -> Headers {
        let Headers { src, dst, src_port, dst_port, marks, .. } = *headers;
        let is_mirrored = match self.crosses(headers) {
            true => marks.contains(Marks::FROM_OUTSIDE),
            false => (src, src_port) > (dst, dst_port),
        };
        match is_mirrored {
            true => Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers },
            false => *headers,
        }
    }

    /// Of the live packets of a batch, as they were received: those from outside, and those that cross.
    pub(crate) fn of(&self, batch: &Batch) -> (u64, u64) {
        bits(batch.live).fold((0, 0), |(outside, crossing), packet| {
            let headers = &batch.headers[packet];
            let is_from_outside = headers.marks.contains(Marks::FROM_OUTSIDE);
            let crosses = self.crosses(headers);
            (outside | u64::from(is_from_outside) << packet, crossing | u64::from(crosses) << packet)
        })
    }

    /// What is inside, for people: `10.0.0.0/8, 2001:db8::/32`.
    pub fn inside(&self) -> String {
        self.inside.to_string()
    }
}
