//! A synthetic program, of any number of stages and share of updates.

use crate::program::{Consistency, Program, TableSpec};

/// A function of any number of stages in which each packet says whether it updates its flow's state: for
/// figures by update rate, and for tests, because the state tells which packets it has seen and in what order.
#[derive(Clone, Debug)]
pub struct Synthetic {
    tables: [TableSpec; 1],
    stages: usize,
    recorded: Recorded,
}

/// What the state of a [`Synthetic`] flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A hash of all packets that updated it, in order.
    Order,
    /// The tag of the last packet that updated it.
    LastWriter,
}

/// What a packet of [`Synthetic`] carries: key, whether it updates, tag, state read, new state.
pub type SyntheticPhv = [u64; 5];

const KEY: usize = 0;
const UPDATES: usize = 1;
const TAG: usize = 2;
const STATE: usize = 3;
const NEXT: usize = 4;

impl Synthetic {
    /// A function of `stages` stages, strictly consistent, which records the order.
    pub fn new(stages: usize) -> Synthetic {
        let table = TableSpec::new("flows", 0, stages - 1);
        Synthetic { tables: [table], stages, recorded: Recorded::Order }
    }

    /// With another consistency.
    pub fn consistency(mut self, consistency: Consistency) -> Synthetic {
        self.tables[0].consistency = consistency;
        self
    }

    /// With another state.
    pub fn recording(mut self, recorded: Recorded) -> Synthetic {
        self.recorded = recorded;
        self
    }

    /// Its span: stages `read` to `write` of its own.
    pub fn between(mut self, read: usize, write: usize) -> Synthetic {
        (self.tables[0].read_stage, self.tables[0].write_stage) = (read, write);
        self
    }

    /// With room for so many flows.
    pub fn flows(mut self, size: usize) -> Synthetic {
        self.tables[0].size = size;
        self
    }

    /// A packet. Tags should differ, and not be 0.
    pub fn packet(key: u64, updates: bool, tag: u64) -> SyntheticPhv {
        [key, updates.into(), tag, 0, 0]
    }
}

impl Program for Synthetic {
    type Phv = SyntheticPhv;
    type State = u64;

    fn name(&self) -> &str {
        "synthetic"
    }

    fn stages(&self) -> usize {
        self.stages
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, _: usize, phv: &SyntheticPhv) -> Option<u64> {
        Some(phv[KEY])
    }

    fn read(&self, _: usize, state: &u64, phv: &mut SyntheticPhv) {
        phv[STATE] = *state;
    }

    fn step(&self, stage: usize, phv: &mut SyntheticPhv) {
        if stage == self.tables[0].write_stage {
            phv[NEXT] = match (phv[UPDATES], self.recorded) {
                (0, _) => phv[STATE],
                (_, Recorded::LastWriter) => phv[TAG],
                (_, Recorded::Order) => (phv[STATE] ^ phv[TAG]).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            };
        }
    }

    fn write(&self, _: usize, phv: &SyntheticPhv) -> Option<u64> {
        Some(phv[NEXT])
    }

    fn output(&self, phv: &SyntheticPhv) -> u64 {
        phv[STATE]
    }
}
