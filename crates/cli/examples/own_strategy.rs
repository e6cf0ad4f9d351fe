//! A strategy of your own, and a program that has it with every command of `paceline`:
//!
//! ```sh
//! cargo run -p paceline --example own_strategy -- run examples/edge.toml --pcap captures/edge.pcap --strategy blocks --cores 3
//! cargo run -p paceline --example own_strategy -- verify examples/edge.toml --pcap captures/edge.pcap --strategy blocks --cores 4
//! ```
//!
//! `blocks` is receive-side scaling with another first table: neighbouring entries go to one core, not every n-th. Each
//! core counts packets that came in a full batch, which reports and metrics show by its name. `--tune full=16` says what is full, and
//! `paceline ctl tune full=8` changes it on interfaces. A model of its rate lets `plan` and `auto` choose it:
//!
//! ```sh
//! cargo run -p paceline --example own_strategy -- plan examples/edge.toml --pcap captures/edge.pcap
//! ```

use std::process::ExitCode;

use engine::strategies::rates::{Learning, RateModel};
use engine::strategies::{Layout, Strategy, StrategyInfo, Team, sharded};
use engine::{
    BATCH_PACKETS, Batch, Chain, ChainCore, Counter, Intake, IntakeCounters, Moves, OwnCounters, Plan,
    PlanError,
};
use io::{Port, Received};
use paceline::Program;
use strategy::{Assign, Rss, Tunable, Tunables};

fn main() -> ExitCode {
    program().main()
}

/// `paceline` with one strategy more that command lines may name.
pub fn program() -> Program {
    let mut program = Program::stock();
    program.strategies.push(&Blocks);
    program
}

/// What it counts: the name, one of it, and how the sentence of a report goes on.
static FULL_BATCHES: Counter =
    Counter { name: "full_batches", unit: "batch", help: "came with as many packets as fit" };

/// What its user may set: here while it runs, too.
static FULL: Tunable = Tunable {
    name: "full",
    help: "packets that make a batch full",
    default: BATCH_PACKETS as u64,
    range: 1..=BATCH_PACKETS as u64,
    is_live: true,
};

/// A hash picks the core, so the busiest core bounds the rate; and no flow moves.
static RATES: RateModel = RateModel {
    name: "blocks",
    learning: Learning::Packets,
    mpps: |load, cores| {
        let owners = blocks(load.packets.len(), cores);
        load.costs.sharded_mpps(load.busiest_share(&owners, cores))
    },
};

/// The core of each of so many entries.
fn blocks(entries: usize, cores: usize) -> Vec<u16> {
    (0..entries).map(|entry| (entry * cores / entries) as u16).collect()
}

static INFO: StrategyInfo = StrategyInfo {
    counters: &[&FULL_BATCHES],
    rates: Some(&RATES),
    tunables: &[&FULL],
    ..StrategyInfo::new("blocks", "receive-side scaling; neighbouring entries of the table go to one core")
};

/// Receive-side scaling by blocks of entries.
pub struct Blocks;

impl Strategy for Blocks {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    /// Each core has the states of its own packets, so every key must stay on one core.
    fn layout(&self, chain: &Chain, _cores: usize) -> Result<Layout, PlanError> {
        sharded(chain, self.name())
    }

    fn assign(&self, _chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        let fields = plan.hash_fields.expect("`sharded` hashes");
        let mut rss = Rss::new(fields, plan.cores, plan.indirection_entries);
        rss.indirection_mut().copy_from_slice(&blocks(plan.indirection_entries, plan.cores));
        Box::new(rss)
    }

    /// A card could spread packets so; and under `auto` flows go to these cores ahead of their packets.
    fn table(&self, plan: &Plan) -> Option<Vec<u16>> {
        Some(blocks(plan.indirection_entries, plan.cores))
    }

    /// One dispatcher, and before each core's chain something that counts.
    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let counting = || Counting { full: 0, tunables: plan.tunables.clone() };
        let intake = |_| -> Box<dyn Intake> { Box::new(counting()) };
        Team {
            dispatcher: Box::new(self.assign(chain, plan)),
            intakes: (0..plan.cores).map(intake).collect(),
        }
    }
}

/// Takes what comes, and counts.
struct Counting {
    full: u64,
    tunables: Tunables,
}

impl Intake for Counting {
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = port.receive(&mut batch.frames, BATCH_PACKETS);
        self.full += u64::from(batch.frames.len() as u64 >= self.tunables.get(&FULL));
        received
    }

    fn counters(&self) -> IntakeCounters {
        let own = OwnCounters::new([(&FULL_BATCHES, self.full)]);
        IntakeCounters { moves: Moves { own, ..Moves::default() }, ..IntakeCounters::default() }
    }
}
