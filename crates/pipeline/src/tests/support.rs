//! What the tests have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use proptest::prelude::*;
use traffic::Share;

use crate::emulation::emulate_with;
use crate::kernel::Observer;
use crate::packets::Packet;
use crate::port::{Arrival, Line, Pacing};
use crate::program::{Program, TableSpec};
use crate::programs::{Synthetic, SyntheticPhv};
use crate::rapid::{Faults, Sound};
use crate::report::{DropCause, Lost};
use crate::{EmulateError, Model, Options, Outcome, RapidOptions, Reference, WhenFull};

/// What came out, in order, and what was lost.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number, output, and the cycle of departure.
    pub departures: Vec<(u64, u64, u64)>,
    pub lost: BTreeMap<u64, DropCause>,
}

/// Watches a program's packets.
pub struct Watch<'a, P> {
    pub program: &'a P,
    pub seen: Seen,
}

impl<P: Program> Observer<P::Phv, P::State> for Watch<'_, P> {
    fn departed(&mut self, packet: &Packet<P::Phv, P::State>, cycle: u64) {
        self.seen.departures.push((packet.number, self.program.output(&packet.phv), cycle));
    }

    fn dropped(&mut self, lost: &Lost) {
        self.seen.lost.insert(lost.number, lost.cause);
    }
}

pub fn arrivals<Phv: Copy>(packets: &[(Phv, u32)]) -> Vec<Arrival<Phv>> {
    packets.iter().map(|&(phv, bytes)| Arrival { phv, bytes, time_ns: 0, port: 0 }).collect()
}

pub fn run<P: Program>(
    program: &P,
    model: &Model,
    options: &Options,
    packets: &[Arrival<P::Phv>],
) -> Result<(Outcome<P::State>, Seen), EmulateError> {
    run_with::<P, Sound>(program, model, options, packets)
}

/// Runs a program over packets with a defect in the model.
pub fn run_with<P: Program, F: Faults>(
    program: &P,
    model: &Model,
    options: &Options,
    packets: &[Arrival<P::Phv>],
) -> Result<(Outcome<P::State>, Seen), EmulateError> {
    let mut watch = Watch { program, seen: Seen::default() };
    let outcome = emulate_with::<_, F>(program, model, options, packets.iter().copied(), &mut watch)?;
    Ok((outcome, watch.seen))
}

/// What differs from the reference: outputs and final states of the packets that were not lost, and that each
/// packet came out or was lost once. Order within a flow too, by the key of table 0.
pub fn difference<P: Program>(
    program: &P,
    packets: &[Arrival<P::Phv>],
    outcome: &Outcome<P::State>,
    seen: &Seen,
) -> Option<String> {
    let mut reference = Reference::new(program);
    let mut expected = BTreeMap::new();
    for (number, packet) in packets.iter().enumerate() {
        if !seen.lost.contains_key(&(number as u64)) {
            expected.insert(number as u64, reference.output(packet.phv));
        }
    }
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut out = BTreeSet::new();
    for &(number, output, cycle) in &seen.departures {
        if !out.insert(number) {
            return Some(format!("packet {number} came out twice"));
        }
        match expected.get(&number) {
            None => return Some(format!("packet {number} was lost and came out")),
            Some(right) if *right != output => {
                return Some(format!("packet {number}: {output:x}, not {right:x}, in cycle {cycle}"));
            }
            _ => {}
        }
        if let Some(key) = program.key(0, &packets[number as usize].phv)
            && let Some(before) = last.insert(key, number)
            && before > number
        {
            return Some(format!("packet {number} behind {before} of its flow"));
        }
    }
    if out.len() != expected.len() {
        return Some(format!("{} packets came out, not {}", out.len(), expected.len()));
    }
    let differs = reference.tables() != outcome.tables;
    differs.then(|| format!("tables {:?}, not {:?}", outcome.tables, reference.tables()))
}

pub fn every_cycle() -> Options {
    Options {
        line: Line { pacing: Pacing::EveryCycle, ..Line::default() },
        patience_cycles: 20_000,
        ..Options::default()
    }
}

/// A packet of the synthetic program.
pub fn flow_of(key: u64, updates: bool, tag: u64) -> Arrival<SyntheticPhv> {
    Arrival { phv: Synthetic::packet(key, updates, tag), bytes: 64, time_ns: 0, port: 0 }
}

/// Packets of these flows, all of which update.
pub fn updates(keys: &[u64]) -> Vec<Arrival<SyntheticPhv>> {
    keys.iter().enumerate().map(|(tag, &key)| flow_of(key, true, tag as u64 + 1)).collect()
}

/// A RAPID pipeline and its traffic.
#[derive(Clone, Debug)]
pub struct Case {
    pub program: Synthetic,
    pub model: Model,
    pub options: Options,
    pub packets: Vec<Arrival<SyntheticPhv>>,
}

/// Pipelines of all shapes with few flows, mostly in runs, so that speculation fails often.
pub fn case() -> impl Strategy<Value = Case> {
    let shape = (2_usize..5, 0_usize..3, 0_usize..2, 2_usize..7);
    let size = || prop_oneof![Just(1_usize), 2_usize..6, Just(64)];
    let sizes = (size(), size(), size(), size(), size(), prop_oneof![Just(None), (0_u32..5).prop_map(Some)]);
    let run = (0_u64..4, 1_usize..12, 0_u32..4, 1_u32..5);
    let traffic = prop::collection::vec(run, 1..40);
    let rest = (any::<bool>(), prop_oneof![Just(0), 0_u32..600_000], any::<u64>(), any::<bool>());
    (shape, sizes, traffic, rest).prop_map(|((span, before, behind, stage_cycles), sizes, traffic, rest)| {
        let (
            resubmitted_buffer,
            dirty_table,
            phv_buffer,
            ring_from_pipeline,
            ring_from_ring,
            blocking_threshold,
        ) = sizes;
        let (stalls, busy, seed, every_cycle) = rest;
        let stages = before + span + behind;
        let program = Synthetic::new(stages).between(before, before + span - 1);
        let model = Model::Rapid(RapidOptions {
            resubmitted_buffer,
            dirty_table,
            phv_buffer,
            ring_from_pipeline,
            ring_from_ring,
            blocking_threshold,
            ..RapidOptions::default()
        });
        let pacing = if every_cycle { Pacing::EveryCycle } else { Pacing::Load { percent: 80 } };
        let options = Options {
            // As short as the ring allows.
            stage_cycles: Some(stage_cycles.max((stages - span + 4).div_ceil(span))),
            when_full: if stalls { WhenFull::Stall } else { WhenFull::Drop },
            egress_busy: Share::from_millionths(busy).expect("a share"),
            seed,
            line: Line { pacing, ..Line::default() },
            patience_cycles: 20_000,
            ..Options::default()
        };
        let mut packets = Vec::new();
        for (flow, length, update_share, cycles) in traffic {
            for _ in 0..length {
                let tag = packets.len() as u64 + 1;
                let draw = nf::hash_bytes(&tag.to_le_bytes(), seed);
                let key = if draw >> 8 & 3 == 0 { draw >> 10 & 7 } else { flow };
                let bytes = cycles * 64;
                packets.push(Arrival { bytes, ..flow_of(key, draw & 3 < u64::from(update_share), tag) });
            }
        }
        Case { program, model, options, packets }
    })
}

/// Two functions of two stages each, one behind the other: they share the ring.
#[derive(Clone, Debug)]
pub struct TwoTables;

/// A packet of both functions: keys, whether it updates, tag, states read, new states, output.
pub type TwoPhv = [u64; 9];

pub fn two(first: u64, second: u64, updates: bool, tag: u64) -> Arrival<TwoPhv> {
    Arrival { phv: [first, second, updates.into(), tag, 0, 0, 0, 0, 0], bytes: 64, time_ns: 0, port: 0 }
}

impl Program for TwoTables {
    type Phv = TwoPhv;
    type State = u64;

    fn name(&self) -> &str {
        "two-tables"
    }

    fn stages(&self) -> usize {
        4
    }

    fn tables(&self) -> &[TableSpec] {
        static TABLES: OnceLock<[TableSpec; 2]> = OnceLock::new();
        TABLES.get_or_init(|| [TableSpec::new("first", 0, 1), TableSpec::new("second", 2, 3)])
    }

    fn key(&self, table: usize, phv: &TwoPhv) -> Option<u64> {
        Some(phv[table])
    }

    fn read(&self, table: usize, state: &u64, phv: &mut TwoPhv) {
        phv[4 + table] = *state;
    }

    fn step(&self, stage: usize, phv: &mut TwoPhv) {
        if stage % 2 == 1 {
            let table = stage / 2;
            let (state, tag) = (phv[4 + table], phv[3]);
            phv[6 + table] =
                if phv[2] == 1 { (state ^ tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 } else { state };
        }
    }

    fn write(&self, table: usize, phv: &TwoPhv) -> Option<u64> {
        Some(phv[6 + table])
    }

    fn output(&self, phv: &TwoPhv) -> u64 {
        phv[4] ^ phv[5].rotate_left(1)
    }
}

/// All buffers of one size.
pub fn with_buffers_of(size: usize) -> RapidOptions {
    RapidOptions {
        resubmitted_buffer: size,
        dirty_table: size,
        phv_buffer: size,
        ring_from_pipeline: size,
        ring_from_ring: size,
        ..RapidOptions::default()
    }
}
