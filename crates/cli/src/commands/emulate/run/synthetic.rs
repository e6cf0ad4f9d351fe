//! The built-in program: a share of the packets, drawn at random, updates its flow's state.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::programs::{Synthetic, SyntheticPhv, field, fields};
use pipeline::{Arrival, Lost, Observer, Packet, Program, Reference, Snapshot, emulate};

use super::args::RunArgs;
use super::report::{Compared, Departures, Run};
use crate::args::Source;
use crate::failure::Failure;
use crate::progress::go_on;

/// What updates are drawn with.
const SEED: u64 = 1;

/// Stages, if none are asked for.
const STAGES: usize = 2;

/// Packets that update, in percent, if nothing else is asked for.
const UPDATE_PERCENT: u64 = 30;

pub fn run(args: &RunArgs, source: &Source, stop: &AtomicBool) -> Result<Run, Failure> {
    let arrivals = arrivals(args, source);
    let flows = arrivals.iter().map(|arrival| arrival.phv[0]).collect::<HashSet<_>>().len();
    let program = Synthetic::new(args.stages.unwrap_or(STAGES)).flows(flows.max(1));
    let mut watching = Watching {
        program: &program,
        outputs: BTreeMap::new(),
        checks: args.check,
        cycles: args.trace_cycles.clone().unwrap_or_default(),
        trace: String::new(),
    };
    let packets = arrivals.iter().copied().take_while(|_| !stop.load(Ordering::Relaxed));
    let outcome =
        emulate(&program, &args.model(), &args.options(), packets, &mut watching).map_err(Failure::usage)?;
    go_on(stop)?;
    let check = args.check.then(|| compared(&program, &arrivals, &watching.outputs, &outcome.tables));
    Ok(Run {
        latency: outcome.latency,
        tables: program.tables().to_vec(),
        program_stages: program.stages(),
        // It sends all that comes out.
        departures: Departures {
            packets_sent: outcome.report.packets_out,
            copies_sent: outcome.report.packets_out,
            ..Departures::default()
        },
        warnings: Vec::new(),
        check,
        trace: watching.trace,
        report: outcome.report,
    })
}

fn arrivals(args: &RunArgs, source: &Source) -> Vec<Arrival<SyntheticPhv>> {
    let count = source.trace.len().min(args.packets.unwrap_or(usize::MAX));
    let percent = args.update_rate.unwrap_or(UPDATE_PERCENT);
    let mut time_ns = 0;
    let arrival = |number: usize| {
        let record = source.trace.packet(number);
        time_ns = record.time_ns.max(time_ns);
        let number = number as u64;
        let updates = nf::hash_bytes(&number.to_le_bytes(), SEED) % 100 < percent;
        // Tags begin with 1.
        let phv = Synthetic::packet(fields(&record)[field::FLOW], updates, number + 1);
        Arrival { phv, bytes: record.wire_len, time_ns, port: 0 }
    };
    (0..count).map(arrival).collect()
}

/// What left, by number; nothing of a packet that was lost.
struct Watching<'a> {
    program: &'a Synthetic,
    outputs: BTreeMap<u64, Option<u64>>,
    checks: bool,
    cycles: Range<u64>,
    trace: String,
}

impl Observer<SyntheticPhv, u64> for Watching<'_> {
    fn departed(&mut self, packet: &Packet<SyntheticPhv, u64>, _: u64) {
        if self.checks {
            self.outputs.insert(packet.number, Some(self.program.output(&packet.phv)));
        }
    }

    fn dropped(&mut self, lost: &Lost) {
        if self.checks {
            self.outputs.insert(lost.number, None);
        }
    }

    fn wants(&self, cycle: u64) -> bool {
        self.cycles.contains(&cycle)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.trace += &snapshot.to_string();
    }
}

fn compared(
    program: &Synthetic,
    arrivals: &[Arrival<SyntheticPhv>],
    outputs: &BTreeMap<u64, Option<u64>>,
    tables: &[BTreeMap<u64, u64>],
) -> Compared {
    let mut reference = Reference::new(program);
    let mut found = Compared { packets: 0, differ: 0, first: None, state: None };
    for (number, arrival) in (0..).zip(arrivals) {
        let output = outputs.get(&number).copied();
        if output == Some(None) {
            continue;
        }
        found.packets += 1;
        let expected = reference.output(arrival.phv);
        if output.flatten() != Some(expected) {
            found.differ += 1;
            found.first.get_or_insert(format!("packet {number} read another state than in the reference"));
        }
    }
    if reference.tables() != tables {
        found.state = Some("the states of flows are not those of the reference".to_owned());
    }
    found
}
