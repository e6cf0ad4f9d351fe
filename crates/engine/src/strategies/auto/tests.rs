//! Flows between phases: wherever they were, all of them are there afterwards, each on the core that gets its packets. Planted,
//! flows that are left behind show.

use io::Frame;
use strategy::Assign;
use wire::{Addr, Headers, Marks, Stamp};

use crate::chain::Chain;
use crate::chain::registry::Registry;
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::no_packets::NoPackets;
use crate::strategies::AUTO;
use crate::strategies::auto::candidates::owners;
use crate::strategies::auto::spares::{OfHybrid, Set, Spares};
use crate::strategies::auto::transfer::Flows;
use crate::strategies::hybrid::Hybrid;
use crate::strategies::plan::{Plan, Strategy};

const CORES: usize = 3;

const FLOWS: u64 = 200;

const SHARDS: usize = 4;

const END: Stamp = Stamp { seq: 10 * FLOWS, time_ns: 10 * FLOWS };

fn chain() -> Chain {
    let toml = "[[function]]\nuse = \"source-statistics\"\nflows = 512\n[[function]]\nuse = \"flow-statistics\"\nflows = 512";
    Chain::parse("test.toml", toml, &Registry::of_tests()).expect("a chain")
}

/// Three cores under `auto`, and one beside them that has all packets.
struct Bench {
    plan: Plan,
    values: Box<dyn Assign>,
    cores: Vec<ChainCore>,
    alone: ChainCore,
    flows: Flows,
    next: u64,
}

impl Bench {
    fn new() -> Bench {
        let chain = chain();
        let plan = Plan::new(&chain, AUTO, CORES).expect("a plan");
        let (values, cores) = (plan.assign(&chain), plan.cores_of(&chain).expect("memory"));
        let of_shards = Set::of_shards(&cores, SHARDS).expect("memory");
        let spares = Spares { of_hybrid: OfHybrid::new(&cores).expect("memory"), of_shards };
        let alone = chain.core().expect("memory");
        Bench { values, cores, plan, alone, flows: Flows::new(spares), next: 0 }
    }

    /// One packet of each flow, each on the core that `owners` says.
    fn step(&mut self, owners: &[u16]) {
        for flow in 0..FLOWS {
            let src = Addr::v4([10, 0, (flow % 7) as u8, (flow % 50) as u8]);
            let headers = Headers { marks: Marks::IPV4, protocol: 17, src, ..Headers::default() };
            let stamp = Stamp { seq: self.next, time_ns: self.next };
            let entry = self.values.entry(&headers);
            let owner = owners.get(usize::from(entry) & (owners.len() - 1)).copied();
            let owner = usize::from(owner.expect("an entry has an owner"));
            for core in [&mut self.cores[owner], &mut self.alone] {
                let mut batch = Batch::new();
                batch.frames.push(Frame::without_bytes(stamp));
                batch.frames[0].entry = entry;
                (batch.headers[0], batch.live) = (headers, 1);
                core.process(&mut batch, &NoPackets::ended(), &mut ());
            }
            self.next += 1;
        }
    }

    fn last(&self) -> Stamp {
        Stamp { seq: self.next, time_ns: self.next }
    }

    fn divide(&mut self) -> Vec<u16> {
        let (owners, last) = (owners(&self.plan, CORES), self.last());
        self.flows.divide(&mut self.cores, &owners, last);
        owners
    }

    fn replicate(&mut self) {
        let last = self.last();
        self.flows.replicate(&mut self.cores, (CORES, self.plan.indirection_entries), last);
    }

    /// As under `hybrid`, with nothing promoted.
    fn divide_beside_replicas(&mut self) -> Vec<u16> {
        let (owners, last) = (owners(&self.plan, CORES), self.last());
        self.flows.divide_beside_replicas(&mut self.cores, &owners, CORES, last);
        owners
    }

    /// As under `dyssect`.
    fn shard(&mut self) -> Vec<u16> {
        let last = self.last();
        let owners: Vec<u16> = (0..SHARDS as u16).map(|shard| shard % CORES as u16).collect();
        self.flows.shard(&mut self.cores, &owners, (CORES, SHARDS), last);
        owners
    }

    /// Whether the cores have together what one has alone, and each flow where its packets come.
    fn is_whole(&mut self) -> bool {
        let owners = self.divide();
        self.step(&owners);
        let digests = |core: &ChainCore| core.stages().map(|stage| stage.digest(END)).collect::<Vec<_>>();
        let sum = |sum: Vec<u64>, of: Vec<u64>| {
            sum.into_iter().zip(of).map(|(sum, of)| sum.wrapping_add(of)).collect()
        };
        let all = self.cores.iter().map(digests).reduce(sum);
        all == Some(digests(&self.alone))
    }
}

/// From each place that flows can be in to each other one, and packets in between.
#[test]
fn flows_are_all_there_wherever_they_were() {
    let mut bench = Bench::new();
    let places: [fn(&mut Bench); 4] = [
        |bench| {
            let owners = bench.divide();
            bench.step(&owners);
        },
        |bench| {
            let owners = bench.divide_beside_replicas();
            bench.step(&owners);
        },
        |bench| {
            let owners = bench.shard();
            bench.step(&owners);
        },
        |bench| bench.replicate(),
    ];
    for from in places {
        for to in places {
            from(&mut bench);
            to(&mut bench);
        }
    }
    assert!(bench.is_whole());
}

/// Planted: flows that are left in a core's table for flows of its own, or in its replica of those that were promoted.
#[test]
fn planted_flows_left_in_another_table_are_found() {
    for part in [0, 1] {
        let mut bench = Bench::new();
        bench.step(&owners(&bench.plan, CORES));
        let owners = bench.divide_beside_replicas();
        bench.step(&owners);
        let core = &mut bench.cores[1];
        for (_, by_shard) in core.shard_tables() {
            let own = by_shard.take(0).expect("it is here");
            let replica = by_shard.take(1).expect("it is here");
            by_shard.put(0, replica);
            // It goes nowhere, or is taken for the replica.
            if part == 1 {
                by_shard.put(1, own);
            }
        }
        assert!(!bench.is_whole(), "flows are left in part {part}");
    }
}

/// What `hybrid` takes for the value of a packet's hash and `auto` keeps beside flows has the entry of any smaller table in it.
#[test]
fn values_have_the_entries_of_smaller_tables() {
    let bench = Bench::new();
    assert_eq!(bench.plan.entries(), 1 << 16);
    let of_hybrid =
        Plan { states: Hybrid.layout(&chain(), 2).expect("it runs").states, ..bench.plan.clone() };
    let by_value = Hybrid.owners(&of_hybrid).expect("flows move");
    let by_entry = owners(&bench.plan, CORES);
    assert!((0..by_value.len()).all(|value| by_value[value] == by_entry[value & (by_entry.len() - 1)]));
}
