//! What is shown and reported.

use super::support::{every_cycle, flow_of, run, updates};
use crate::programs::{Synthetic, SyntheticPhv};
use crate::{Model, Observer, RapidOptions, Snapshot, emulate};

/// Keeps what the registers hold in one cycle.
struct Look {
    cycle: u64,
    shown: String,
}

impl Observer<SyntheticPhv, u64> for Look {
    fn wants(&self, cycle: u64) -> bool {
        cycle == self.cycle
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.shown = snapshot.to_string();
    }
}

fn shown(cycle: u64) -> String {
    let mut look = Look { cycle, shown: String::new() };
    let mut packets = updates(&[1, 1]);
    packets.extend((0..45).map(|other| flow_of(2, false, other + 3)));
    packets.push(flow_of(1, false, 48));
    let model = Model::Rapid(RapidOptions::default());
    let options = crate::Options { stage_cycles: Some(6), ..every_cycle() };
    emulate(Synthetic::new(2), &model, &options, packets, &mut look).unwrap();
    look.shown
}

/// Packet 0 updates its flow and is out, packet 1 has read the old state: the new one and it are on the ring.
#[test]
fn a_cycle_shows_stages_and_ring() {
    assert_eq!(
        shown(14),
        "cycle 14\n  stage 0: 13 12 11 10 9 8\n  stage 1: 7 6 5 4 3 2\n  port: 14\n  ring 0 bus: 1 signals heartbeat\n  \
         ring 1 from pipeline: 1\n  ring 1 bus: heartbeat\n"
    );
    // Then the flow waits for its timer.
    assert_eq!(
        shown(22),
        "cycle 22\n  stage 0: 21 20 19 18 17 16\n  stage 1: 15 14 13 12 11 10\n  port: 22\n  ring 0 bus: heartbeat\n  \
         ring 1 bus: heartbeat\n  flows.rb: 1\n  flows.block: flow 1: 1 in rb, returned [], newer []\n"
    );
}

/// The names that other programs read.
#[test]
fn a_report_has_its_fields() {
    let model = Model::Rapid(RapidOptions::default());
    let (outcome, _) = run(&Synthetic::new(2), &model, &every_cycle(), &updates(&[1; 60])).unwrap();
    let json = serde_json::to_value(&outcome.report).unwrap();
    for field in [
        "cycles",
        "packets_in",
        "packets_out",
        "throughput",
        "latency_cycles",
        "drops",
        "resubmissions",
        "writebacks",
        "occupancy_max",
        "cycles_per_second",
        "stalls",
        "ring_utilisation",
    ] {
        assert!(json.get(field).is_some(), "{field}: {json}");
    }
    assert!(json["latency_cycles"]["p99"].as_u64() >= json["latency_cycles"]["p50"].as_u64());
    assert_eq!(json["occupancy_max"]["flows.rb"], 16);
    assert!(json["drops"]["resubmitted_buffer_full"].as_u64() > Some(0));
}
