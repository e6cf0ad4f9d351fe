//! `policer`: holds each flow to a rate with a token bucket.
//!
//! SCR (NSDI'25) Table 1, "Token bucket policer": key 5-tuple, state the tokens and the time of the
//! last packet. The bucket and what it counts are those of RFC 2697, colour-blind and with one bucket
//! (excess burst 0): bytes of IP packets with their headers, a packet conforms if the bucket holds
//! all of its bytes, and a packet that does not takes none.
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `rate_bytes_per_s` | bytes/s | 1250000 | how fast the bucket fills (10 Mbit/s) |
//! | `burst_bytes` | bytes | 125000 | how much it holds; a new flow finds it full |
//! | `action` | | `"drop"` | what happens to packets over the rate: `"drop"` or `"mark"` |
//! | `mark_dscp` | DSCP | 1 | what `"mark"` writes; ECN bits stay (RFC 3168) |
//! | `when_full` | | `"pass"` | packets of new flows while the table is full |
//!
//! A packet longer than `burst_bytes` never conforms: give at least the largest packet's length.
//! DSCP 1 is Lower Effort (RFC 8622). Routers may queue it apart, and so reorder the flow; traffic
//! that has to stay in order wants a drop precedence of its own class, such as 14, AF13 (RFC 2597).
//! Each direction is a flow. Later fragments have no ports, so they are flows of their own, with
//! ports 0. What is not IP passes.
//!
//! # Exact, and why
//!
//! The state holds the *debt*: what the bucket lacks to be full, in nanobytes, 10⁻⁹ byte. A rate of
//! *R* bytes a second is then *R* nanobytes a nanosecond: no division, no remainder, no drift at
//! 1 byte/s nor at 1 Tbit/s. A debt that would fall below 0 is 0, and a packet conforms only if debt
//! and its bytes together are at most the burst *B*. Hence 0 ≤ debt ≤ *B* at all times, and:
//!
//! - *Never more*: a packet that passes raises the debt by its length, and time lowers it by at most
//!   *R*. So in any interval of length *T* what passes is at most debt(end) - debt(start) + *R T*
//!   ≤ *B + R T*.
//! - *Never less*: between two refused packets, *T* apart, with the debt above 0 throughout (the flow
//!   is backlogged), time lowers it by exactly *R*. The later one, of length *L*, was refused because
//!   debt(end) > *B - L*; and debt(start) ≤ *B*. So what passed is debt(end) - debt(start) + *R T*
//!   > *R T - L*.
//!
//! # Drops, events, expiry, full table
//!
//! - `over-rate`: with `action = "drop"`, a packet that does not conform. `table-full`: see below.
//! - Events: `packets-over-rate`, dropped or marked.
//! - A flow is forgotten once its bucket is full again (but kept 10 ms at least, so that fast
//!   flows are not made anew with each packet). A full bucket is a new flow's, so expiry changes no
//!   verdict.
//! - When the table is full a new flow is not policed; its packets pass, or with
//!   `when_full = "drop"` are dropped as `table-full`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{Cx, FiveTuple, FunctionReport, NetworkFunction, OptionDoc, OptionError, Verdict};
use serde::Deserialize;
use wire::{Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::common::{Metered, PassOrDrop, REPORT_ROWS, keep_top, ms_text};

const OVER_RATE: u8 = 0;
const TABLE_FULL: u8 = 1;

const PACKETS_OVER_RATE: usize = 0;

const NANOBYTES_PER_BYTE: u64 = 1_000_000_000;
/// A bucket of this many bytes is the largest whose nanobytes fit in 64 bits.
const BURST_BYTES_MAX: u64 = u64::MAX / NANOBYTES_PER_BYTE;
const DSCP_MAX: u8 = 63;
/// ECN is the low two bits of the type of service, DSCP the others (RFC 3168 §5).
const ECN_MASK: u8 = 0b11;
/// A flow is kept at least this long.
const KEPT_NS: u64 = 10_000_000;

/// Holds each flow to a rate with a token bucket: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Policer {
    rate_nanobytes_per_ns: u64,
    burst_nanobytes: u64,
    action: Action,
    mark_dscp: u8,
    when_full: PassOrDrop,
}

/// What happens to packets over the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They are dropped.
    Drop,
    /// They pass with another DSCP.
    Mark,
}

/// Options of [`Policer`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How fast the bucket fills, bytes/s.
    pub rate_bytes_per_s: u64,
    /// How much the bucket holds.
    pub burst_bytes: u64,
    /// What happens to packets over the rate.
    pub action: Action,
    /// The DSCP that [`Action::Mark`] writes.
    pub mark_dscp: u8,
    /// What happens to packets of new flows while the table is full.
    pub when_full: PassOrDrop,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rate_bytes_per_s: 1_250_000,
            burst_bytes: 125_000,
            action: Action::Drop,
            mark_dscp: 1,
            when_full: PassOrDrop::Pass,
        }
    }
}

/// One flow's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// What the bucket lacked to be full after the last packet: never 0, never above the burst.
    pub debt_nanobytes: u64,
    /// When the last packet came, ns.
    pub last_ns: u64,
}

impl NetworkFunction for Policer {
    const NAME: &'static str = "policer";
    const SUMMARY: &'static str = "holds each flow to a rate with a token bucket";
    const SPEC: &'static str = "SCR (NSDI'25) Table 1: token bucket policer; RFC 2697";
    const OPTIONS: &'static [OptionDoc] = &[
        OptionDoc { name: "rate_bytes_per_s", default: "1250000", help: "how fast a flow's bucket fills" },
        OptionDoc { name: "burst_bytes", default: "125000", help: "how much a bucket holds" },
        OptionDoc {
            name: "action",
            default: "\"drop\"",
            help: "packets over the rate: \"drop\" or \"mark\"",
        },
        OptionDoc { name: "mark_dscp", default: "1", help: "the DSCP that \"mark\" writes, 0 to 63" },
        OptionDoc {
            name: "when_full",
            default: "\"pass\"",
            help: "packets of new flows while the table is full: \"pass\" or \"drop\"",
        },
    ];
    const DROP_REASONS: &'static [&'static str] = &["over-rate", "table-full"];
    const EVENTS: &'static [&'static str] = &["packets-over-rate"];
    const EDITS: Fields = Fields::TOS;

    type Key = FiveTuple;
    type Meta = Metered;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |option, message: String| Err(OptionError { option, message });
        if options.rate_bytes_per_s == 0 {
            return error("rate_bytes_per_s", "must be at least 1".into());
        }
        if !(1..=BURST_BYTES_MAX).contains(&options.burst_bytes) {
            let message = format!("must be from 1 to {BURST_BYTES_MAX}, and at least the largest packet");
            return error("burst_bytes", message);
        }
        if options.mark_dscp > DSCP_MAX {
            return error("mark_dscp", format!("must be from 0 to {DSCP_MAX}"));
        }
        Ok(Policer {
            rate_nanobytes_per_ns: options.rate_bytes_per_s,
            burst_nanobytes: options.burst_bytes * NANOBYTES_PER_BYTE,
            action: options.action,
            mark_dscp: options.mark_dscp,
            when_full: options.when_full,
        })
    }

    fn pool(&self) {}

    #[inline]
    fn project(headers: &Headers) -> Option<Metered> {
        Metered::of(headers)
    }

    #[inline]
    fn key(meta: &Metered) -> FiveTuple {
        meta.flow()
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Metered, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        let mut debt_nanobytes = flow.map_or(0, |state| self.debt_at(&state, now_ns));
        let cost_nanobytes = u64::from(meta.l3_len) * NANOBYTES_PER_BYTE;
        let conforms = cost_nanobytes <= self.burst_nanobytes - debt_nanobytes;
        if conforms {
            debt_nanobytes += cost_nanobytes;
        }
        // A full bucket is a new flow's: nothing to remember.
        *flow = (debt_nanobytes > 0).then_some(State { debt_nanobytes, last_ns: now_ns });
        if conforms {
            return Verdict::Forward;
        }
        cx.count(PACKETS_OVER_RATE);
        match self.action {
            Action::Drop => Verdict::Drop(OVER_RATE),
            Action::Mark => {
                cx.edits.set_tos((self.mark_dscp << 2) | (meta.tos & ECN_MASK));
                Verdict::Forward
            }
        }
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.ns_to_full(state.debt_nanobytes).max(KEPT_NS)
    }

    fn rejected(&self, _: &State, _: &Metered, _: &mut Cx<'_, ()>) -> Verdict {
        match self.when_full {
            PassOrDrop::Pass => Verdict::Forward,
            PassOrDrop::Drop => Verdict::Drop(TABLE_FULL),
        }
    }

    fn report<'a>(
        &self,
        flows: &mut dyn Iterator<Item = (&'a FiveTuple, &'a State)>,
        now: Stamp,
    ) -> Vec<FunctionReport> {
        let debt_now = |state: &State| self.debt_at(state, now.time_ns);
        let mut in_debt: Vec<_> = flows.filter(|(_, state)| debt_now(state) > 0).collect();
        let total = in_debt.len();
        keep_top(&mut in_debt, REPORT_ROWS, debt_now);
        let row = |(flow, state): &(&FiveTuple, &State)| {
            let debt_nanobytes = debt_now(state);
            let left_bytes = (self.burst_nanobytes - debt_nanobytes) / NANOBYTES_PER_BYTE;
            vec![flow.to_string(), left_bytes.to_string(), ms_text(self.ns_to_full(debt_nanobytes))]
        };
        vec![FunctionReport {
            title: format!("Buckets not full now: {total}, emptiest first"),
            columns: vec!["flow", "left_bytes", "full_in_ms"],
            rows: in_debt.iter().map(row).collect(),
        }]
    }
}

impl Policer {
    /// What the bucket lacks at `now_ns`. Products and differences that leave 64 bits are beyond
    /// every burst, so saturating is exact.
    #[inline]
    fn debt_at(&self, state: &State, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(state.last_ns);
        state.debt_nanobytes.saturating_sub(self.rate_nanobytes_per_ns.saturating_mul(elapsed_ns))
    }

    /// How long until such a debt is paid.
    #[inline]
    fn ns_to_full(&self, debt_nanobytes: u64) -> u64 {
        debt_nanobytes.div_ceil(self.rate_nanobytes_per_ns)
    }
}

#[cfg(test)]
mod tests;
