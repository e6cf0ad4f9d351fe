//! `ddos`: refuses sources that send too many packets.
//!
//! SCR (NSDI'25) Table 1, "DDoS mitigator": key source IP, state a count. The count is of packets
//! in a sliding window ([`SlidingCount`]), so that it can go down again, and a source that goes
//! over the threshold is blocked for a while.
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `threshold_packets` | packets | 10000 | a source may send this many in a window |
//! | `window_ms` | ms | 1000 | length of the window |
//! | `block_ms` | ms | 60000 | how long a source over the threshold is refused; at least `window_ms` |
//! | `extend` | | false | packets of a blocked source start its block anew |
//! | `allow` | prefixes | none | sources never counted nor blocked |
//! | `when_full` | | `"pass"` | packets of new sources while the table is full |
//!
//! # What it promises
//!
//! With threshold *T*, for a source not in `allow`:
//! - In any interval as long as the window at most 2*T* of its packets pass: those that pass keep the
//!   estimate at or below *T*, and the estimate is below the exact count by at most the previous
//!   window's count, itself at most *T*. For a source that sends evenly it is *T*, to within one
//!   packet. A block lasts no less than a window, so what passed before it is out of the interval.
//! - A source that sends at most *T*/2 packets in each such interval is never blocked.
//!
//! The packet that goes over the threshold is the first to be refused. When the block ends, the
//! source begins anew, as one never seen.
//!
//! A source is one address. Sources that are forged, a new one with each packet, stay below any
//! threshold: what helps against them is not a count per source. Every IP packet counts, fragments
//! and all; what is not IP passes.
//!
//! # Drops, events, expiry, full table
//!
//! - `source-blocked`: from a blocked source. `table-full`: see below.
//! - Events: `sources-blocked` counts blocks, `packets-refused` the packets that met one.
//! - A source is forgotten after two windows without a packet, a blocked one after `block_ms`
//!   without a packet: by then nothing that is known of it matters, so expiry changes no verdict.
//! - When the table is full a new source is not counted; its packets pass, or with
//!   `when_full = "drop"` are dropped as `table-full`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Cx, EndedOf, Extras, FlowKey, Flows, FullTable, FunctionReport, InPlace, Leap, NetworkFunction,
    OptionDoc, OptionError, Reload, Reports, SrcAddr, StateValue, Verdict,
};
use serde::Deserialize;
use wire::{Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::common::{PassOrDrop, REPORT_ROWS, keep_top, ms_text, ns_from_ms};
use crate::prefix::PrefixSet;
use crate::window::SlidingCount;

const SOURCE_BLOCKED: u8 = 0;
const TABLE_FULL: u8 = 1;

const SOURCES_BLOCKED: usize = 0;
const PACKETS_REFUSED: usize = 1;

/// Refuses sources that send too many packets: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Ddos {
    threshold_packets: u64,
    window_ns: u64,
    block_ns: u64,
    extend: bool,
    allow: PrefixSet,
    when_full: PassOrDrop,
}

/// Options of [`Ddos`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A source may send this many packets in a window.
    pub threshold_packets: u64,
    /// Length of the window, ms.
    pub window_ms: u64,
    /// How long a source over the threshold is refused, ms.
    pub block_ms: u64,
    /// Whether packets of a blocked source start its block anew.
    pub extend: bool,
    /// Prefixes of sources that are never counted nor blocked.
    pub allow: Vec<String>,
    /// What happens to packets of new sources while the table is full.
    pub when_full: PassOrDrop,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threshold_packets: 10_000,
            window_ms: 1_000,
            block_ms: 60_000,
            extend: false,
            allow: Vec::new(),
            when_full: PassOrDrop::Pass,
        }
    }
}

/// What is known of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Its packets. While it is blocked the current window does not end, and goes on counting.
    pub packets: SlidingCount,
    /// When its block ends, ns; 0 if it is not blocked.
    pub blocked_until_ns: u64,
}

impl NetworkFunction for Ddos {
    const ABOUT: About = About {
        name: "ddos",
        summary: "refuses sources that send too many packets",
        spec: "SCR (NSDI'25) Table 1: DDoS mitigator; sliding window counter (Cloudflare, 2017)",
        options: &[
            OptionDoc {
                name: "threshold_packets",
                default: "10000",
                help: "packets that a source may send in a window",
            },
            OptionDoc { name: "window_ms", default: "1000", help: "length of the window" },
            OptionDoc {
                name: "block_ms",
                default: "60000",
                help: "how long a source over the threshold is refused",
            },
            OptionDoc {
                name: "extend",
                default: "false",
                help: "whether packets of a blocked source start its block anew",
            },
            OptionDoc {
                name: "allow",
                default: "[]",
                help: "prefixes of sources never counted nor blocked, such as [\"10.0.0.0/8\"]",
            },
            OptionDoc {
                name: "when_full",
                default: "\"pass\"",
                help: "packets of new sources while the table is full: \"pass\" or \"drop\"",
            },
        ],
        drop_reasons: &["source-blocked", "table-full"],
        events: &["sources-blocked", "packets-refused"],
    };
    const READS: Fields = Fields::SRC_ADDR.union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new source",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        in_place: InPlace::Flow(Self::in_place),
        leap: Some(Self::leap),
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = SrcAddr;
    type Meta = SrcAddr;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        for (option, value) in [
            ("threshold_packets", options.threshold_packets),
            ("window_ms", options.window_ms),
            ("block_ms", options.block_ms),
        ] {
            if value == 0 {
                return Err(OptionError { option, message: "must be at least 1".into() });
            }
        }
        if options.block_ms < options.window_ms {
            let message = format!("must be at least window_ms, {}", options.window_ms);
            return Err(OptionError { option: "block_ms", message });
        }
        Ok(Ddos {
            threshold_packets: options.threshold_packets,
            window_ns: ns_from_ms(options.window_ms),
            block_ns: ns_from_ms(options.block_ms),
            extend: options.extend,
            allow: PrefixSet::parse("allow", &options.allow)?,
            when_full: options.when_full,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<SrcAddr> {
        headers.is_ip().then(|| SrcAddr::of(headers))
    }

    #[inline]
    fn key(meta: &SrcAddr) -> SrcAddr {
        *meta
    }

    // Into the engine's loop, where the state need not be written to memory and read back.
    #[inline(always)]
    fn step(&self, flow: &mut Option<State>, source: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        if flow.is_none() && self.allow.contains(source.0) {
            return Verdict::Forward;
        }
        let state = match flow {
            Some(state) if !state.block_has_ended(now_ns) => state,
            _ => flow.insert(State::starting_at(now_ns)),
        };
        if state.is_blocked() {
            if self.extend {
                state.blocked_until_ns = now_ns.saturating_add(self.block_ns);
            }
            state.packets.add(1);
        } else {
            state.packets.roll(now_ns, self.window_ns);
            state.packets.add(1);
            if !state.packets.exceeds(self.threshold_packets, now_ns, self.window_ns) {
                return Verdict::Forward;
            }
            state.blocked_until_ns = now_ns.saturating_add(self.block_ns);
            cx.count(SOURCES_BLOCKED);
        }
        cx.count(PACKETS_REFUSED);
        Verdict::Drop(SOURCE_BLOCKED)
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        if state.is_blocked() { self.block_ns } else { self.window_ns.saturating_mul(2) }
    }
}

impl Ddos {
    /// A source below the threshold.
    #[inline(always)]
    fn in_place(&self, state: &mut State, _: &SrcAddr, stamp: Stamp, _: &mut Edits) -> bool {
        !state.is_blocked()
            && state.packets.add_within(1, self.threshold_packets, stamp.time_ns, self.window_ns)
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let State { packets: SlidingCount { start_ns, previous, current }, blocked_until_ns } = state;
        let mut values: Vec<(&'static str, StateValue)> = vec![
            ("packets_in_window", (*current).into()),
            ("packets_in_window_before", (*previous).into()),
            ("window_began", StateValue::TimeNs(*start_ns)),
        ];
        if *blocked_until_ns > 0 {
            values.push(("blocked_until", StateValue::TimeNs(*blocked_until_ns)));
        }
        values
    }

    #[inline]
    fn leap(&self, flow: &mut Option<State>, _: &SrcAddr, times_ns: &[u64]) -> Leap {
        let (Some(state), Some(&last_ns)) = (flow, times_ns.last()) else { return Leap::NONE };
        let count = times_ns.len() as u64;
        let SlidingCount { current, .. } = state.packets;
        let can_leap = if state.is_blocked() {
            !self.extend && last_ns < state.blocked_until_ns
        } else {
            let last = current.saturating_add(count);
            let exceeds = state.packets.exceeds_throughout(self.threshold_packets, current + 1, last);
            state.packets.has(last_ns, self.window_ns) && exceeds == Some(false)
        };
        if !can_leap {
            return Leap::NONE;
        }
        state.packets.add(count);
        Leap { steps: times_ns.len(), passes: !state.is_blocked() }
    }

    fn rejected(&self, _: &State, _: &SrcAddr, _: &mut Cx<'_, ()>) -> Verdict {
        self.when_full.verdict(TABLE_FULL)
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        let mut blocked: Vec<_> = flows.filter(|(_, state)| state.blocked_until_ns > now.time_ns).collect();
        let total = blocked.len();
        keep_top(&mut blocked, REPORT_ROWS, |state| state.packets.current);
        let row = |(source, state): &(&SrcAddr, &State)| {
            let left_ns = state.blocked_until_ns - now.time_ns;
            vec![source.to_string(), state.packets.current.to_string(), ms_text(left_ns)]
        };
        vec![FunctionReport {
            title: format!("Sources blocked now: {total}"),
            columns: vec!["source", "packets", "left_ms"],
            rows: blocked.iter().map(row).collect(),
        }]
    }
}

impl State {
    fn starting_at(now_ns: u64) -> State {
        State { packets: SlidingCount::starting_at(now_ns), blocked_until_ns: 0 }
    }

    fn is_blocked(&self) -> bool {
        self.blocked_until_ns != 0
    }

    fn block_has_ended(&self, now_ns: u64) -> bool {
        self.is_blocked() && self.blocked_until_ns <= now_ns
    }
}

#[cfg(test)]
mod tests;
