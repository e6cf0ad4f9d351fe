//! `flow-statistics`, `source-statistics`: keep a record of each flow, or of each source.
//!
//! | function | key | written from |
//! |---|---|---|
//! | `flow-statistics` | 5-tuple | FAJITA (CoNEXT'24) App. A.1, "Flow Statistics Counter" |
//! | `source-statistics` | source address | the same, "Source IP Statistics Counter" |
//!
//! A record holds what IPFIX (RFC 7011, RFC 7012) calls
//!
//! | report | information element | |
//! |---|---|---|
//! | `packets` | `packetDeltaCount` | packets of the record |
//! | `bytes` | `octetDeltaCount` | bytes of IP packets with their headers |
//! | `duration_ms` | `flowStartNanoseconds`, `flowEndNanoseconds` | from its first packet to its last |
//! | `mean_gap_us` | | the mean time between two of its packets |
//! | `min_bytes`, `max_bytes` | `minimumIpTotalLength`, `maximumIpTotalLength` | shortest and longest packet |
//! | `tcp_flags` | `tcpControlBits` | every flag that one of its packets had: `CEUAPRSF` |
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `idle_ms` | ms | 60000 | a record without packets for so long has ended |
//! | `active_ms` | ms | 1800000 | a packet so long after its record's first one begins a new record; 0 = never |
//! | `top_by` | | `"bytes"` | what the report sorts by: `"bytes"` or `"packets"` |
//! | `top_k` | rows | 10 | how many records the report shows |
//!
//! The two time-outs are IPFIX's `flowIdleTimeout` and `flowActiveTimeout`: counts are since the record
//! began. Nothing exports records yet; the report is of all records of the run: those that are live at its end, and
//! those that ended before.
//!
//! The report shows the largest records, and how many have 1, 2 to 3, 4 to 7, ... packets. Of the records that ended
//! each core keeps `top_k` whole and of the others the sums, so memory does not grow with the run; rows do not depend
//! on the number of cores, as long as no table was full.
//!
//! Each direction is a flow. Later fragments have no ports, so to `flow-statistics` they are flows of
//! their own, with ports 0. What is not IP is not measured.
//!
//! # What it costs
//!
//! A record is 40 bytes. Beside a 5-tuple of 40 bytes and the table's 16 no useful record fits in the
//! first cache line, and all of it lies in the second; so 40 bytes cost no more than 16 would. Beside an
//! address 24 bytes would fit in the first line: two counters and a time, without all the rest.
//!
//! # Drops, events, expiry, full table
//!
//! - It drops nothing.
//! - Events: `active-timeouts` counts records that `active_ms` ended.
//! - A record ends after `idle_ms` without a packet, or to make room in a full table. Later packets are a new
//!   record. The report counts both.
//! - When the table is full, new flows or sources are not measured and pass.
//! - Where cores share the records, each packet is in exactly one record of its source, and packets and
//!   bytes add up; when a record begins and ends may differ by how far the cores are apart.

use core::fmt::Debug;
use core::marker::PhantomData;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Cx, Ended, EndedOf, Extras, FiveTuple, Flows, FunctionReport, Guarantees, InPlace,
    NetworkFunction, OptionDoc, OptionError, Records, Reload, Reports, SizeClass, SrcAddr, StateValue,
    Verdict, WhenShared,
};
use serde::Deserialize;
use wire::{Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::common::{CompactKey, ms_text, ns_from_ms, ns_from_ms_or_never, percent_text};

const ACTIVE_TIMEOUTS: usize = 0;

const TOP_K_MAX: u32 = 10_000;
/// The letters of the TCP flags, from the highest bit on.
const FLAG_LETTERS: &str = "CEUAPRSF";

/// Keeps a record of each `K`: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Statistics<K: Recorded> {
    idle_ns: u64,
    active_ns: u64,
    top_by: TopBy,
    top_k: usize,
    key: PhantomData<fn() -> K>,
}

/// `flow-statistics`: see the [module's page](self).
pub type FlowStatistics = Statistics<FiveTuple>;

/// `source-statistics`: see the [module's page](self).
pub type SourceStatistics = Statistics<SrcAddr>;

/// A key by which records are kept.
pub trait Recorded: CompactKey {
    /// The function's name.
    const NAME: &'static str;
    /// What it does, in one line.
    const SUMMARY: &'static str;
    /// What it is written from.
    const SPEC: &'static str;
    /// What reports call the key; with an s at its end, several.
    const COLUMN: &'static str;
}

impl Recorded for FiveTuple {
    const NAME: &'static str = "flow-statistics";
    const SUMMARY: &'static str = "keeps a record of each flow: packets, bytes, times, flags";
    const SPEC: &'static str = "FAJITA (CoNEXT'24) App. A.1: flow statistics counter; RFC 7012";
    const COLUMN: &'static str = "flow";
}

impl Recorded for SrcAddr {
    const NAME: &'static str = "source-statistics";
    const SUMMARY: &'static str = "keeps a record of each source: packets, bytes, times, flags";
    const SPEC: &'static str = "FAJITA (CoNEXT'24) App. A.1: source IP statistics counter; RFC 7012";
    const COLUMN: &'static str = "source";
}

/// What the report sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopBy {
    /// Bytes of the record.
    Bytes,
    /// Packets of the record.
    Packets,
}

/// Options of [`Statistics`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A record without packets for so long has ended, ms.
    pub idle_ms: u64,
    /// A packet so long after its record's first one begins a new record, ms; 0 is never.
    pub active_ms: u64,
    /// What the report sorts by.
    pub top_by: TopBy,
    /// How many records the report shows.
    pub top_k: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { idle_ms: 60_000, active_ms: 1_800_000, top_by: TopBy::Bytes, top_k: 10 }
    }
}

/// The header fields that a record needs: key, length, TCP flags.
#[derive(Clone, Copy, Debug, PartialEq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed)]
pub struct Meta<K: CompactKey> {
    fields: K::Fields,
    l3_len: u16,
    tcp_flags: u8,
}

/// One record. Counts saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first one came, ns.
    pub first_ns: u64,
    /// When the last one came, ns.
    pub last_ns: u64,
    /// The shortest one's length.
    pub min_bytes: u16,
    /// The longest one's length.
    pub max_bytes: u16,
    /// Every TCP flag that one of them had.
    pub tcp_flags: u8,
    /// Zero: states have no padding.
    pub zero: [u8; 3],
}

impl<K: Recorded> NetworkFunction for Statistics<K> {
    const ABOUT: About = About {
        name: K::NAME,
        summary: K::SUMMARY,
        spec: K::SPEC,
        options: &[
            OptionDoc {
                name: "idle_ms",
                default: "60000",
                help: "a record without packets for so long has ended",
            },
            OptionDoc {
                name: "active_ms",
                default: "1800000",
                help: "a packet so long after its record's first one begins a new record; 0 = never",
            },
            OptionDoc {
                name: "top_by",
                default: "\"bytes\"",
                help: "what the report sorts by: \"bytes\" or \"packets\"",
            },
            OptionDoc { name: "top_k", default: "10", help: "how many records the report shows" },
        ],
        events: &["active-timeouts"],
        ..About::NONE
    };
    const READS: Fields =
        K::SHARDING.fields.union(Fields::L3_LEN).union(Fields::TCP_FLAGS).union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow or source",
        records: Records {
            totals: Self::totals,
            begin_anew: true,
            keep: Self::keeps_ended,
            rank: Self::rank,
        },
        guarantees: Guarantees { when_shared: Some(WhenShared::Totals), ..Guarantees::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload::ANY,
        in_place: InPlace::Flow(Self::in_place),
        ..Extras::NONE
    };

    type Key = K;
    type Meta = Meta<K>;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        if options.idle_ms == 0 {
            let message = "must be at least 1, or records would end as they begin".into();
            return Err(OptionError { option: "idle_ms", message });
        }
        if !(1..=TOP_K_MAX).contains(&options.top_k) {
            let message = format!("must be from 1 to {TOP_K_MAX}");
            return Err(OptionError { option: "top_k", message });
        }
        Ok(Statistics {
            idle_ns: ns_from_ms(options.idle_ms),
            active_ns: ns_from_ms_or_never(options.active_ms),
            top_by: options.top_by,
            top_k: options.top_k as usize,
            key: PhantomData,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta<K>> {
        headers.is_ip().then(|| Meta {
            fields: K::fields(headers),
            l3_len: headers.l3_len,
            tcp_flags: headers.tcp_flags,
        })
    }

    #[inline]
    fn key(meta: &Meta<K>) -> K {
        K::from_fields(meta.fields)
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta<K>, cx: &mut Cx<'_, ()>) -> Verdict {
        let goes_on = flow.as_mut().is_some_and(|state| self.in_place(state, meta, cx.stamp, cx.edits));
        if !goes_on {
            if flow.is_some() {
                cx.count(ACTIVE_TIMEOUTS);
            }
            let now_ns = cx.stamp.time_ns;
            flow.insert(State::starting_at(now_ns)).add(meta.l3_len, meta.tcp_flags, now_ns);
        }
        Verdict::Forward
    }

    #[inline]
    fn idle_timeout_ns(&self, _: &State) -> u64 {
        self.idle_ns
    }
}

impl<K: Recorded> Statistics<K> {
    /// Unless the record has ended.
    #[inline]
    fn in_place(&self, state: &mut State, meta: &Meta<K>, stamp: Stamp, _: &mut Edits) -> bool {
        let goes_on = stamp.time_ns.saturating_sub(state.first_ns) < self.active_ns;
        if goes_on {
            state.add(meta.l3_len, meta.tcp_flags, stamp.time_ns);
        }
        goes_on
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let State { packets, bytes, first_ns, last_ns, min_bytes, max_bytes, tcp_flags, .. } = state;
        vec![
            ("packets", (*packets).into()),
            ("bytes", (*bytes).into()),
            ("min_bytes", (*min_bytes).into()),
            ("max_bytes", (*max_bytes).into()),
            ("tcp_flags", format!("{tcp_flags:#04x}").into()),
            ("first", StateValue::TimeNs(*first_ns)),
            ("last", StateValue::TimeNs(*last_ns)),
        ]
    }

    #[inline]
    fn totals(&self, state: &State) -> [u64; 2] {
        [state.packets, state.bytes]
    }

    fn keeps_ended(&self) -> usize {
        self.top_k
    }

    fn rank(&self, state: &State) -> u64 {
        match self.top_by {
            TopBy::Bytes => state.bytes,
            TopBy::Packets => state.packets,
        }
    }

    fn report(&self, flows: Flows<'_, '_, Self>, ended: &EndedOf<Self>, _: Stamp) -> Vec<FunctionReport> {
        let mut all = ended.clone();
        flows.for_each(|(key, state)| all.add(self.rank(state), self.totals(state), key, state));
        vec![self.largest(&all, ended.records()), sizes(&all)]
    }

    fn largest(&self, all: &Ended<K, State>, ended: u64) -> FunctionReport {
        let [_, total_bytes] = all.totals();
        let by = match self.top_by {
            TopBy::Bytes => "bytes",
            TopBy::Packets => "packets",
        };
        let records = all.largest();
        let row = |(key, state): &(&K, &State)| {
            vec![
                key.to_string(),
                state.packets.to_string(),
                state.bytes.to_string(),
                percent_text(state.bytes, total_bytes),
                ms_text(state.duration_ns()),
                state.mean_gap_text(),
                state.min_bytes.to_string(),
                state.max_bytes.to_string(),
                flags_text(state.tcp_flags),
            ]
        };
        FunctionReport {
            title: format!(
                "Top {} of {} {} records by {by}, {ended} of which ended before the run did",
                records.len(),
                all.records(),
                K::COLUMN
            ),
            columns: vec![
                K::COLUMN,
                "packets",
                "bytes",
                "bytes_percent",
                "duration_ms",
                "mean_gap_us",
                "min_bytes",
                "max_bytes",
                "tcp_flags",
            ],
            rows: records.iter().map(row).collect(),
        }
    }
}

impl State {
    fn starting_at(now_ns: u64) -> State {
        State {
            packets: 0,
            bytes: 0,
            first_ns: now_ns,
            last_ns: now_ns,
            min_bytes: u16::MAX,
            max_bytes: 0,
            tcp_flags: 0,
            zero: [0; 3],
        }
    }

    #[inline]
    fn add(&mut self, len: u16, tcp_flags: u8, now_ns: u64) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len.into());
        self.last_ns = now_ns;
        self.min_bytes = self.min_bytes.min(len);
        self.max_bytes = self.max_bytes.max(len);
        self.tcp_flags |= tcp_flags;
    }

    fn duration_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// Microseconds, rounded down; `-` for a single packet.
    fn mean_gap_text(&self) -> String {
        match self.duration_ns().checked_div(self.packets - 1) {
            Some(gap_ns) => (gap_ns / 1_000).to_string(),
            None => "-".into(),
        }
    }
}

/// How many records have so many packets, in powers of two.
fn sizes<K: Recorded>(all: &Ended<K, State>) -> FunctionReport {
    let used = all.sizes().iter().enumerate().filter(|(_, class)| class.records > 0);
    let row = |(class, SizeClass { records, totals: [packets, bytes] }): (usize, &SizeClass)| {
        let from = 1_u64 << class;
        let to = from - 1 + from;
        vec![
            if from == to { from.to_string() } else { format!("{from} to {to}") },
            records.to_string(),
            percent_text(*records, all.records().into()),
            packets.to_string(),
            bytes.to_string(),
        ]
    };
    let [packets, bytes] = all.totals();
    FunctionReport {
        title: format!("{} {} records by size: {packets} packets, {bytes} bytes", all.records(), K::COLUMN),
        columns: vec!["size_packets", "records", "records_percent", "packets", "bytes"],
        rows: used.map(row).collect(),
    }
}

/// As nfdump and others write them, a point for a flag that no packet had: `...AP.SF`.
fn flags_text(flags: u8) -> String {
    let letter = |(i, letter)| if flags & (0x80_u8 >> i) == 0 { '.' } else { letter };
    FLAG_LETTERS.chars().enumerate().map(letter).collect()
}

#[cfg(test)]
mod tests;
