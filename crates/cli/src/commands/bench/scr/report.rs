//! What was measured of the figures.

use measure::{Comparison, HistoryCost};
use schemars::JsonSchema;
use serde::Serialize;

/// The figures, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct ScrBench {
    /// Version of Paceline.
    pub paceline: &'static str,
    /// The command line, to be run again.
    pub command: String,
    /// Where it was measured.
    pub machine: String,
    /// Dispatch added to what it costs here, ns a packet.
    pub dispatch_ns: u64,
    /// Whether all that was asked for was done; not so after an interruption.
    pub complete: bool,
    /// In the paper's order.
    pub figures: Vec<FigureReport>,
}

/// One of the paper's figures.
#[derive(Serialize, JsonSchema)]
pub struct FigureReport {
    /// Its number in the paper.
    pub figure: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// A chart each. In figure 9 the series are amounts of compute, under `scr`; in figure 10b they are losses, with
    /// recovery off and on; in figure 11 they are what the model predicts for `scr` and what was measured.
    pub charts: Vec<Chart>,
}

/// One program over one trace.
#[derive(Serialize, JsonSchema)]
pub struct Chart {
    /// What it is of.
    pub name: String,
    /// The figures.
    pub comparison: Comparison,
    /// Figure 10a: what a link would let through with the history in each packet; else empty.
    pub links: Vec<LinkPoint>,
    /// Figure 10b: what a packet and an item of its history cost where history is in a log, in packets, and in packets
    /// and recorded for recovery, none being lost; else empty.
    pub history: Vec<HistoryCost>,
}

impl Chart {
    /// Takes the series of another chart into this one.
    pub fn add(&mut self, other: Chart) {
        self.comparison.complete &= other.comparison.complete;
        self.comparison.series.extend(other.comparison.series);
    }
}

/// What a link of 100 Gbit/s would let through if packets brought their history over it. Computed, not measured.
#[derive(Serialize, JsonSchema)]
pub struct LinkPoint {
    /// Cores under `scr`.
    pub cores: usize,
    /// Bytes of a packet with its history, the outer Ethernet header and the frame check sequence.
    pub frame_bytes: usize,
    /// Million packets per second, with preamble and gap between frames.
    pub link_mpps: f64,
}
