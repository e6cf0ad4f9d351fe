//! What the tests have in common.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::Observer;
use crate::packets::Packet;
use crate::port::Arrival;
use crate::program::Program;
use crate::report::DropCause;
use crate::{EmulateError, Model, Options, Outcome, Reference, emulate};

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

    fn dropped(&mut self, number: u64, cause: DropCause) {
        self.seen.lost.insert(number, cause);
    }
}

pub fn arrivals<Phv: Copy>(packets: &[(Phv, u32)]) -> Vec<Arrival<Phv>> {
    packets.iter().map(|&(phv, bytes)| Arrival { phv, bytes, time_ns: 0 }).collect()
}

pub fn run<P: Program>(
    program: &P,
    model: &Model,
    options: &Options,
    packets: &[Arrival<P::Phv>],
) -> Result<(Outcome<P::State>, Seen), EmulateError> {
    let mut watch = Watch { program, seen: Seen::default() };
    let outcome = emulate(program, model, options, packets.iter().copied(), &mut watch)?;
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
