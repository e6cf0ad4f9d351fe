//! A strategy of your own, and a program that has it with every command of `paceline`:
//!
//! ```sh
//! cargo run -p paceline --example own_strategy -- run examples/edge.toml --pcap captures/edge.pcap --strategy blocks --cores 3
//! cargo run -p paceline --example own_strategy -- verify examples/edge.toml --pcap captures/edge.pcap --strategy blocks --cores 4
//! ```
//!
//! `blocks` is receive-side scaling with another first table: neighbouring entries go to one core, not every n-th. Each
//! core counts packets that came in a full batch, which reports and metrics show by its name.

use std::process::ExitCode;

use engine::strategies::{Layout, Strategy, StrategyInfo, Team, sharded};
use engine::{
    BATCH_PACKETS, Batch, Chain, ChainCore, Counter, Intake, IntakeCounters, Moves, OwnCounters, Plan,
    PlanError,
};
use io::{Port, Received};
use paceline::Program;
use strategy::{Assign, Rss};

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

static INFO: StrategyInfo = StrategyInfo {
    counters: &[&FULL_BATCHES],
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
        for (entry, core) in rss.indirection_mut().iter_mut().enumerate() {
            *core = (entry * plan.cores / plan.indirection_entries) as u16;
        }
        Box::new(rss)
    }

    /// One dispatcher, and before each core's chain something that counts.
    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let intake = |_| -> Box<dyn Intake> { Box::new(Counting { full: 0 }) };
        Team {
            dispatcher: Box::new(self.assign(chain, plan)),
            intakes: (0..plan.cores).map(intake).collect(),
        }
    }
}

/// Takes what comes, and counts.
struct Counting {
    full: u64,
}

impl Intake for Counting {
    fn receive(&mut self, port: &mut dyn Port, _: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = port.receive(&mut batch.frames, BATCH_PACKETS);
        self.full += u64::from(batch.frames.len() == BATCH_PACKETS);
        received
    }

    fn counters(&self) -> IntakeCounters {
        let own = OwnCounters::new([(&FULL_BATCHES, self.full)]);
        IntakeCounters { moves: Moves { own, ..Moves::default() }, ..IntakeCounters::default() }
    }
}
