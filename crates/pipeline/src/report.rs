//! What is counted, and what is said in the end.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use crate::program::MAX_TABLES;

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// A flow queue before a blocking function was full.
    QueueFull,
    /// No room in RAPID's buffer for packets that were sent back.
    ResubmittedBufferFull,
    /// No room in RAPID's PHV buffer.
    PhvBufferFull,
    /// No room in a ring node for a packet to be sent back.
    RingBufferFull,
    /// A packet updates its flow's state, and no dirty flow could be registered any more.
    DirtyTableFull,
}

impl DropCause {
    /// All of them.
    pub const ALL: [DropCause; 5] = [
        DropCause::QueueFull,
        DropCause::ResubmittedBufferFull,
        DropCause::PhvBufferFull,
        DropCause::RingBufferFull,
        DropCause::DirtyTableFull,
    ];

    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            DropCause::QueueFull => "queue_full",
            DropCause::ResubmittedBufferFull => "resubmitted_buffer_full",
            DropCause::PhvBufferFull => "phv_buffer_full",
            DropCause::RingBufferFull => "ring_buffer_full",
            DropCause::DirtyTableFull => "dirty_table_full",
        }
    }
}

/// A packet that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its number by arrival, from 0.
    pub number: u64,
    /// Why.
    pub cause: DropCause,
    /// Tables of the program whose state it had changed by then, one bit each.
    pub changed: u64,
}

/// What is counted while a model runs.
#[derive(Debug)]
pub struct Stats {
    /// Packets taken in.
    pub packets_in: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Lost packets by [`DropCause`].
    pub drops: [u64; DropCause::ALL.len()],
    /// Lost packets that had changed the state of a table, by table.
    pub lost_behind: [u64; MAX_TABLES],
    /// Cycles in which the first stage could not advance.
    pub stalls: u64,
    /// Times that a packet was sent back.
    pub resubmissions: u64,
    /// New states that were written to tables behind a function.
    pub writebacks: u64,
    /// Cycles in which a ring node sent a packet or a control signal.
    pub ring_busy: u64,
    /// Cycles from arrival to departure.
    pub latency: Histogram<u64>,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            packets_in: 0,
            packets_out: 0,
            drops: [0; DropCause::ALL.len()],
            lost_behind: [0; MAX_TABLES],
            stalls: 0,
            resubmissions: 0,
            writebacks: 0,
            ring_busy: 0,
            latency: Histogram::new_with_bounds(1, MAX_LATENCY_CYCLES, 3).expect("bounds that make sense"),
        }
    }
}

/// Longer latencies are recorded as this one.
const MAX_LATENCY_CYCLES: u64 = 1 << 32;

/// What a model did with a trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// `rapid`, `blocking`, `flowblaze`, `banzai`, `pisa`.
    pub model: &'static str,
    /// Name of the program.
    pub program: String,
    /// From the first packet in to the last packet out.
    pub cycles: u64,
    /// Packets that were taken in.
    pub packets_in: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Packets out per cycle.
    pub throughput: f64,
    /// Packets per cycle that were offered: as long as they arrived, and had nothing ever stalled.
    pub offered: f64,
    /// Cycles from a packet's arrival to its departure.
    pub latency_cycles: Latency,
    /// Lost packets, by cause; causes that did not occur are absent.
    pub drops: BTreeMap<&'static str, u64>,
    /// Lost packets that had already changed the state of a table, by table; absent where none had.
    pub lost_after_write: BTreeMap<String, u64>,
    /// Cycles in which the first stage could not advance.
    pub stalls: u64,
    /// Times that a packet was sent back through the ring.
    pub resubmissions: u64,
    /// New states written to the tables of functions.
    pub writebacks: u64,
    /// By buffer, the most that it held: `FUNCTION.BUFFER`, or `ring.NODE.BUFFER`.
    pub occupancy_max: BTreeMap<String, u64>,
    /// Share of ring nodes and cycles in which a packet or a control signal was sent; heartbeats alone do not
    /// count. 0 without a ring.
    pub ring_utilisation: f64,
    /// New keys that a full state table refused, by table; absent where none was.
    pub states_refused: BTreeMap<String, u64>,
    /// Cycles that were computed one by one: all but those in which the pipeline was empty.
    pub cycles_simulated: u64,
    /// Simulated cycles per second of the machine's time.
    pub cycles_per_second: f64,
}

/// Latencies in cycles; of packets that came out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half of the packets took at most this.
    pub p50: u64,
    /// 99% took at most this.
    pub p99: u64,
    /// All took at most this.
    pub max: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        Latency {
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

impl Report {
    /// Lost packets, all causes together.
    pub fn lost(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Share of the packets taken in that was lost.
    pub fn loss(&self) -> f64 {
        self.lost() as f64 / self.packets_in.max(1) as f64
    }
}
