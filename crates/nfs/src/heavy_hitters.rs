//! `heavy-hitters`: measures flows and finds the large ones.
//!
//! SCR (NSDI'25) Table 1, "Heavy hitter monitor": key 5-tuple, state the flow's size. Each direction
//! is a flow. Sizes are bytes of IP packets with their headers.
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `threshold_bytes` | bytes | 10000000 | a flow with more than this in a window is heavy |
//! | `window_ms` | ms | 1000 | length of the window; 0 = the flow's whole life |
//! | `over_threshold` | | `"pass"` | what happens to packets that find their flow heavy |
//! | `top_k` | flows | 10 | how many flows the report shows |
//! | `idle_ms` | ms | 60000 | a flow without packets for so long has ended |
//!
//! The window slides: see [`SlidingCount`] for how exact it is. With `window_ms = 0` the count is
//! exact. What arrives counts, whether it is dropped or not; so with `over_threshold = "drop"` and a
//! window, a flow passes again once it *sends* less, and without a window it stays shut for its life.
//!
//! Later fragments have no ports, so they are flows of their own, with ports 0. What is not IP is
//! not measured. Where cores share its flows, packets and bytes of each flow add up; which packet goes over
//! the threshold is not promised.
//!
//! # Drops, events, expiry, full table
//!
//! - `over-threshold`: with `over_threshold = "drop"`, a packet that finds its flow heavy, itself counted.
//! - Events: `heavy-flows` counts flows that went over the threshold, each once in its life;
//!   `packets-over-threshold` counts packets that found their flow heavy.
//! - A flow ends after `idle_ms` without a packet, and no sooner than after two windows without one, or to make room
//!   in a full table. Later packets are a new flow, which counts from 0. The report is of all flows of the run: those
//!   that are live at its end and those that ended before, of which each core keeps `top_k`.
//! - When the table is full, new flows are not measured and pass.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Cx, EndedOf, Extras, FiveTuple, Flows, FunctionReport, Guarantees, InPlace, Leap, NetworkFunction,
    OptionDoc, OptionError, Records, Reload, Reports, StateValue, Verdict, WhenShared,
};
use serde::Deserialize;
use wire::{Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::common::{Metered, PassOrDrop, ms_text, ns_from_ms, ns_from_ms_or_never, percent_text, rate_text};
use crate::window::SlidingCount;

const OVER_THRESHOLD: u8 = 0;

const HEAVY_FLOWS: usize = 0;
const PACKETS_OVER_THRESHOLD: usize = 1;

const TOP_K_MAX: u32 = 10_000;

/// Measures flows and finds the large ones: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct HeavyHitters {
    threshold_bytes: u64,
    window_ns: u64,
    over_threshold: PassOrDrop,
    top_k: usize,
    idle_ns: u64,
}

/// Options of [`HeavyHitters`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A flow with more bytes than this in a window is heavy.
    pub threshold_bytes: u64,
    /// Length of the window, ms; 0 is the flow's whole life.
    pub window_ms: u64,
    /// What happens to packets that find their flow heavy.
    pub over_threshold: PassOrDrop,
    /// How many flows the report shows.
    pub top_k: u32,
    /// A flow without packets for so long has ended, ms.
    pub idle_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threshold_bytes: 10_000_000,
            window_ms: 1_000,
            over_threshold: PassOrDrop::Pass,
            top_k: 10,
            idle_ms: 60_000,
        }
    }
}

/// What is known of one flow. Counts saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Bytes in the current window and the one before.
    pub recent_bytes: SlidingCount,
    /// Bytes in its life.
    pub bytes: u64,
    /// Packets in its life.
    pub packets: u64,
    /// Packets that found it heavy, themselves counted.
    pub packets_over: u64,
    /// When its first packet came, ns.
    pub first_ns: u64,
    /// When its last packet came, ns.
    pub last_ns: u64,
}

impl NetworkFunction for HeavyHitters {
    const ABOUT: About = About {
        name: "heavy-hitters",
        summary: "measures flows and finds the large ones",
        spec: "SCR (NSDI'25) Table 1: heavy hitter monitor",
        options: &[
            OptionDoc {
                name: "threshold_bytes",
                default: "10000000",
                help: "a flow with more bytes than this in a window is heavy",
            },
            OptionDoc {
                name: "window_ms",
                default: "1000",
                help: "length of the window; 0 = the flow's whole life",
            },
            OptionDoc {
                name: "over_threshold",
                default: "\"pass\"",
                help: "packets that find their flow heavy: \"pass\" or \"drop\"",
            },
            OptionDoc { name: "top_k", default: "10", help: "how many flows the report shows" },
            OptionDoc {
                name: "idle_ms",
                default: "60000",
                help: "a flow without packets for so long has ended",
            },
        ],
        drop_reasons: &["over-threshold"],
        events: &["heavy-flows", "packets-over-threshold"],
    };
    const READS: Fields = Metered::<FiveTuple>::READS;
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow or source",
        records: Records { totals: Self::totals, keep: Self::keeps_ended, rank: Self::rank, ..Records::NONE },
        guarantees: Guarantees { when_shared: Some(WhenShared::Totals), ..Guarantees::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        in_place: InPlace::Flow(Self::in_place),
        leap: Some(Self::leap),
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = FiveTuple;
    type Meta = Metered;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |option, message: String| Err(OptionError { option, message });
        if options.threshold_bytes == 0 {
            return error("threshold_bytes", "must be at least 1".into());
        }
        if !(1..=TOP_K_MAX).contains(&options.top_k) {
            return error("top_k", format!("must be from 1 to {TOP_K_MAX}"));
        }
        if options.idle_ms == 0 {
            return error("idle_ms", "must be at least 1, or flows would end as they begin".into());
        }
        Ok(HeavyHitters {
            threshold_bytes: options.threshold_bytes,
            window_ns: ns_from_ms_or_never(options.window_ms),
            over_threshold: options.over_threshold,
            top_k: options.top_k as usize,
            // Expiry must not forget a window that still counts.
            idle_ns: ns_from_ms(options.idle_ms).max(ns_from_ms(options.window_ms).saturating_mul(2)),
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Metered> {
        Metered::of(headers)
    }

    #[inline]
    fn key(meta: &Metered) -> FiveTuple {
        meta.flow()
    }

    // Into the engine's loop, where the state need not be written to memory and read back.
    #[inline(always)]
    fn step(&self, flow: &mut Option<State>, meta: &Metered, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        let state = flow.get_or_insert(State::starting_at(now_ns));
        let len = u64::from(meta.l3_len);
        state.bytes = state.bytes.saturating_add(len);
        state.packets = state.packets.saturating_add(1);
        state.last_ns = now_ns;
        state.recent_bytes.roll(now_ns, self.window_ns);
        state.recent_bytes.add(len);
        if !state.recent_bytes.exceeds(self.threshold_bytes, now_ns, self.window_ns) {
            return Verdict::Forward;
        }
        if state.packets_over == 0 {
            cx.count(HEAVY_FLOWS);
        }
        cx.count(PACKETS_OVER_THRESHOLD);
        state.packets_over = state.packets_over.saturating_add(1);
        self.over_threshold.verdict(OVER_THRESHOLD)
    }

    #[inline]
    fn idle_timeout_ns(&self, _: &State) -> u64 {
        self.idle_ns
    }
}

impl HeavyHitters {
    /// A flow below the threshold.
    #[inline(always)]
    fn in_place(&self, state: &mut State, meta: &Metered, stamp: Stamp, _: &mut Edits) -> bool {
        let len = u64::from(meta.l3_len);
        let is_within =
            state.recent_bytes.add_within(len, self.threshold_bytes, stamp.time_ns, self.window_ns);
        if is_within {
            state.bytes = state.bytes.saturating_add(len);
            state.packets = state.packets.saturating_add(1);
            state.last_ns = stamp.time_ns;
        }
        is_within
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let State { recent_bytes, bytes, packets, packets_over, first_ns, last_ns } = state;
        let SlidingCount { start_ns, previous, current } = recent_bytes;
        vec![
            ("packets", (*packets).into()),
            ("bytes", (*bytes).into()),
            ("bytes_in_window", (*current).into()),
            ("bytes_in_window_before", (*previous).into()),
            ("packets_over", (*packets_over).into()),
            ("window_began", StateValue::TimeNs(*start_ns)),
            ("first", StateValue::TimeNs(*first_ns)),
            ("last", StateValue::TimeNs(*last_ns)),
        ]
    }

    #[inline]
    fn leap(&self, flow: &mut Option<State>, meta: &Metered, times_ns: &[u64]) -> Leap {
        let (Some(state), Some(&last_ns)) = (flow, times_ns.last()) else { return Leap::NONE };
        let (count, len) = (times_ns.len() as u64, u64::from(meta.l3_len));
        // Fewer packets than 2^32 of less than 2^16 bytes.
        let bytes = count * len;
        let recent = &mut state.recent_bytes;
        let lives_on = last_ns.saturating_sub(state.last_ns) < self.idle_ns;
        let sums = [recent.current, state.bytes].map(|sum| sum.checked_add(bytes));
        let ([Some(last), Some(all)], true, true) = (sums, lives_on, recent.has(last_ns, self.window_ns))
        else {
            return Leap::NONE;
        };
        let exceeds = recent.exceeds_throughout(self.threshold_bytes, recent.current + len, last);
        let Some(exceeds) = exceeds else { return Leap::NONE };
        recent.current = last;
        state.bytes = all;
        state.packets = state.packets.saturating_add(count);
        state.packets_over = state.packets_over.saturating_add(if exceeds { count } else { 0 });
        state.last_ns = last_ns;
        Leap { steps: times_ns.len(), passes: !exceeds }
    }

    #[inline]
    fn totals(&self, state: &State) -> [u64; 2] {
        [state.packets, state.bytes]
    }

    fn keeps_ended(&self) -> usize {
        self.top_k
    }

    fn rank(&self, state: &State) -> u64 {
        state.bytes
    }

    fn report(&self, flows: Flows<'_, '_, Self>, ended: &EndedOf<Self>, _: Stamp) -> Vec<FunctionReport> {
        let mut all = ended.clone();
        flows.for_each(|(key, state)| all.add(self.rank(state), self.totals(state), key, state));
        let [_, total_bytes] = all.totals();
        let flows = all.largest();
        let row = |(flow, state): &(&FiveTuple, &State)| {
            let duration_ns = state.last_ns.saturating_sub(state.first_ns);
            vec![
                flow.to_string(),
                state.bytes.to_string(),
                state.packets.to_string(),
                percent_text(state.bytes, total_bytes),
                ms_text(duration_ns),
                rate_text(state.bytes, duration_ns),
                state.packets_over.to_string(),
            ]
        };
        vec![FunctionReport {
            title: format!(
                "Top {} of {} flows by bytes, {} of which ended before the run did",
                flows.len(),
                all.records(),
                ended.records()
            ),
            columns: vec![
                "flow",
                "bytes",
                "packets",
                "share_percent",
                "duration_ms",
                "rate_bytes_per_s",
                "packets_over",
            ],
            rows: flows.iter().map(row).collect(),
        }]
    }
}

impl State {
    fn starting_at(now_ns: u64) -> State {
        State {
            recent_bytes: SlidingCount::starting_at(now_ns),
            bytes: 0,
            packets: 0,
            packets_over: 0,
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }
}

#[cfg(test)]
mod tests;
