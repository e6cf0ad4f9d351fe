//! `rate-limiter`: lets each flow send so many packets a second, and no more.
//!
//! FAJITA (CoNEXT'24) §3, "flow rate limiter": key 5-tuple, state a token bucket. What
//! [`policer`](crate::policer) does with bytes this does with packets: small packets cost a server as
//! much as large ones. The arithmetic is exact, and the same: see [`TokenBucket`].
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `rate_packets_per_s` | packets/s | 1000 | what a flow may send in the long run |
//! | `burst_packets` | packets | 100 | what it may send at once; a new flow may |
//! | `when_full` | | `"pass"` | packets of new flows while the table is full |
//!
//! So in any interval of *T* seconds at most `burst_packets` + `rate_packets_per_s` *T* packets of a
//! flow pass; and while it sends more, no fewer than `rate_packets_per_s` *T* - 1. A packet that is
//! dropped takes nothing. Each direction is a flow. Later fragments have no ports, so they are flows of
//! their own, with ports 0. What is not IP passes. Where cores share its flows, a packet comes as of the latest time that
//! its flow has seen, and both bounds hold by these times.
//!
//! # Drops, events, expiry, full table
//!
//! - `over-rate`: a packet that found less than one token. `table-full`: see below.
//! - Events: none; the drops are counted.
//! - A flow is forgotten once its bucket is full again, but kept 10 ms at least. A full bucket is a new
//!   flow's, so expiry changes no verdict.
//! - When the table is full a new flow is not limited; its packets pass, or with
//!   `when_full = "drop"` are dropped as `table-full`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use nf::{
    About, Cx, EndedOf, Extras, FiveTuple, FlowKey, Flows, FullTable, FunctionReport, Guarantees, InPlace,
    Leap, NetworkFunction, OptionDoc, OptionError, Reload, Reports, StateValue, Verdict, WhenShared,
};
use serde::Deserialize;
use wire::{Edits, Fields, Headers, Stamp};

use crate::common::PassOrDrop;
use crate::common::decimal_text;
use crate::token_bucket::{BURST_MAX, Debt, TokenBucket};

const OVER_RATE: u8 = 0;
const TABLE_FULL: u8 = 1;

/// Lets each flow send so many packets a second: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct RateLimiter {
    bucket: TokenBucket,
    when_full: PassOrDrop,
}

/// Options of [`RateLimiter`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What a flow may send in the long run, packets/s.
    pub rate_packets_per_s: u64,
    /// What it may send at once.
    pub burst_packets: u64,
    /// What happens to packets of new flows while the table is full.
    pub when_full: PassOrDrop,
}

impl Default for Options {
    fn default() -> Self {
        Options { rate_packets_per_s: 1_000, burst_packets: 100, when_full: PassOrDrop::Pass }
    }
}

impl NetworkFunction for RateLimiter {
    const ABOUT: About = About {
        name: "rate-limiter",
        summary: "lets each flow send so many packets a second",
        spec: "FAJITA (CoNEXT'24) §3: flow rate limiter; RFC 2697",
        options: &[
            OptionDoc {
                name: "rate_packets_per_s",
                default: "1000",
                help: "what a flow may send in the long run",
            },
            OptionDoc { name: "burst_packets", default: "100", help: "what a flow may send at once" },
            OptionDoc {
                name: "when_full",
                default: "\"pass\"",
                help: "packets of new flows while the table is full: \"pass\" or \"drop\"",
            },
        ],
        drop_reasons: &["over-rate", "table-full"],
        ..About::NONE
    };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        guarantees: Guarantees {
            when_shared: Some(WhenShared::Bound { over: None }),
            amount: Self::amount,
            bound: Self::bound,
            ..Guarantees::NONE
        },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        in_place: InPlace::Flow(Self::in_place),
        leap: Some(Self::leap),
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = Debt;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        if options.rate_packets_per_s == 0 {
            return Err(OptionError { option: "rate_packets_per_s", message: "must be at least 1".into() });
        }
        if !(1..=BURST_MAX).contains(&options.burst_packets) {
            let message = format!("must be from 1 to {BURST_MAX}");
            return Err(OptionError { option: "burst_packets", message });
        }
        Ok(RateLimiter {
            bucket: TokenBucket::new(options.rate_packets_per_s, options.burst_packets),
            when_full: options.when_full,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<FiveTuple> {
        headers.is_ip().then(|| FiveTuple::of(headers))
    }

    #[inline]
    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    #[inline]
    fn step(&self, flow: &mut Option<Debt>, _: &FiveTuple, cx: &mut Cx<'_, ()>) -> Verdict {
        match self.bucket.take(flow, 1, cx.stamp.time_ns) {
            true => Verdict::Forward,
            false => Verdict::Drop(OVER_RATE),
        }
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &Debt) -> u64 {
        self.bucket.idle_timeout_ns(state)
    }
}

impl RateLimiter {
    /// A packet within the rate.
    #[inline(always)]
    fn in_place(&self, state: &mut Debt, _: &FiveTuple, stamp: Stamp, _: &mut Edits) -> bool {
        self.bucket.take_in_place(state, 1, stamp.time_ns)
    }

    fn state(&self, debt: &Debt) -> Vec<(&'static str, StateValue)> {
        vec![
            ("debt_packets", decimal_text(debt.nanotokens).into()),
            ("last", StateValue::TimeNs(debt.last_ns)),
        ]
    }

    #[inline]
    fn leap(&self, flow: &mut Option<Debt>, _: &FiveTuple, times_ns: &[u64]) -> Leap {
        self.bucket.take_each(flow, 1, times_ns)
    }

    fn rejected(&self, _: &Debt, _: &FiveTuple, _: &mut Cx<'_, ()>) -> Verdict {
        self.when_full.verdict(TABLE_FULL)
    }

    #[inline]
    fn amount(_: &FiveTuple) -> u64 {
        1
    }

    fn bound(&self, elapsed_ns: u64) -> u128 {
        self.bucket.most(elapsed_ns)
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        self.bucket.report(["flow", "left_packets"], flows, now.time_ns)
    }
}

#[cfg(test)]
mod tests;
