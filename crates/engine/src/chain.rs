use std::sync::Arc;

use serde::Deserialize;
use strategy::FunctionShape;
use table::{OutOfMemory, WhenFull};
use wire::Stamp;

use crate::Batch;
use crate::config::{self, ConfigError};
use crate::registry::{Function, Registry};
use crate::run::{Lap, Laps};
use crate::stage::{Stage, StageSpec};

/// A chain of functions as its file states it: what to run, not yet running.
#[derive(Clone)]
pub struct Chain {
    /// The chain's name, for reports.
    pub name: String,
    /// What becomes of malformed packets.
    pub malformed: MalformedPolicy,
    /// Seed of everything that functions draw.
    pub seed: u64,
    /// Seed of the tables' hashes, drawn anew when the chain is read, so that nobody can choose flows
    /// that collide. All cores share it.
    pub table_seed: u64,
    /// The functions, in the order in which packets meet them.
    pub functions: Vec<FunctionSpec>,
}

/// What becomes of malformed packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MalformedPolicy {
    /// Dropped.
    #[default]
    Drop,
    /// Forwarded; no function sees them.
    Pass,
}

/// One function of a chain.
#[derive(Clone)]
pub struct FunctionSpec {
    /// What reports call it: the function's name, with `#2`, `#3` if the chain has it again.
    pub name: String,
    /// The function with its options.
    pub function: Arc<dyn Function>,
    /// Flows that each core's table holds.
    pub flows: usize,
    /// What happens when there are more.
    pub when_full: WhenFull,
}

impl Chain {
    /// Reads a chain from TOML. `source_name` is what errors call the file.
    ///
    /// # Errors
    /// [`ConfigError`] points at the line, says what is wrong, and names the valid choices.
    pub fn parse(source_name: &str, text: &str, registry: &Registry) -> Result<Chain, Box<ConfigError>> {
        config::parse(source_name, text, registry)
    }

    /// The chain as one core runs it, with empty tables. All memory is taken here.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough.
    pub fn core(&self) -> Result<ChainCore, OutOfMemory> {
        let stages = self.functions.iter().enumerate().map(|(index, spec)| {
            let FunctionSpec { function, flows, when_full, .. } = spec;
            function.stage(StageSpec {
                index: index as u8,
                flows: *flows,
                when_full: *when_full,
                seed: self.seed,
                table_seed: self.table_seed,
            })
        });
        let drop_malformed = self.malformed == MalformedPolicy::Drop;
        Ok(ChainCore { drop_malformed, stages: stages.collect::<Result<_, _>>()? })
    }

    /// Bytes of the tables of one core.
    pub fn table_bytes(&self) -> u64 {
        self.functions.iter().map(|spec| spec.function.table_bytes(spec.flows)).sum()
    }

    /// What sharding needs to know of the functions.
    pub fn shapes(&self) -> Vec<FunctionShape<'_>> {
        let shape = |spec: &FunctionSpec| {
            let info = spec.function.info();
            (info.sharding, info.edits)
        };
        let named = self.functions.iter().map(|spec| (spec.name.as_str(), shape(spec)));
        named.map(|(name, (sharding, edits))| FunctionShape { name, sharding, edits }).collect()
    }
}

/// A chain on one core: the functions with this core's flows.
pub struct ChainCore {
    drop_malformed: bool,
    stages: Vec<Box<dyn Stage>>,
}

impl ChainCore {
    /// Takes a batch with parsed headers through the chain.
    #[inline]
    pub fn process(&mut self, batch: &mut Batch, laps: &mut impl Laps) {
        batch.begin(self.drop_malformed);
        for (index, stage) in self.stages.iter_mut().enumerate() {
            stage.process(batch);
            laps.lap(Lap::Function(index), batch);
        }
    }

    /// Lets every dead flow go; for the end of a run.
    pub fn settle(&mut self, now: Stamp) {
        self.stages.iter_mut().for_each(|stage| stage.settle(now));
    }

    /// The functions on this core.
    pub fn stages(&self) -> &[Box<dyn Stage>] {
        &self.stages
    }
}
