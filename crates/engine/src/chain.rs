use std::ops::Range;
use std::sync::Arc;

use io::Port;
use serde::Deserialize;
use strategy::FunctionShape;
use table::{OutOfMemory, PARTS_MAX, WhenFull};
use wire::{Headers, Stamp};

use crate::Batch;
use crate::config::{self, ConfigError};
use crate::group_builder::{GroupBuilder, GroupSize, Pool};
use crate::registry::{Function, FunctionInfo, Registry};
use crate::run::Laps;
use crate::stage::{Group, Stage, StageSpec};

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

    /// The chain as each of `cores` cores runs it, with empty tables. All memory is taken here. `core_of`
    /// says to which core a packet with such headers comes.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough.
    pub fn cores(
        &self,
        cores: usize,
        core_of: &dyn Fn(&Headers) -> usize,
    ) -> Result<Vec<ChainCore>, OutOfMemory> {
        let mut pools: Vec<_> =
            self.functions.iter().map(|spec| spec.function.pools(cores, core_of).into_iter()).collect();
        let core = |_| {
            let mut groups = Vec::new();
            let mut places = Vec::new();
            for range in self.groups() {
                let FunctionSpec { flows, when_full, .. } = self.functions[range.start];
                let mut pool = |index: usize| pools[index].next().expect("a pool for each core");
                let builder = self.builder(range.clone(), &mut pool);
                places.extend((0..range.len()).map(|member| Place { group: groups.len(), member }));
                groups.push(builder.build(flows, when_full, self.table_seed)?);
            }
            Ok(ChainCore { drop_malformed: self.malformed == MalformedPolicy::Drop, groups, places })
        };
        (0..cores).map(core).collect()
    }

    /// The chain as a single core runs it.
    ///
    /// # Errors
    /// As [`Chain::cores`].
    pub fn core(&self) -> Result<ChainCore, OutOfMemory> {
        Ok(self.cores(1, &|_| 0)?.remove(0))
    }

    /// Bytes of the tables of one core.
    pub fn table_bytes(&self) -> u64 {
        let bytes = |range: Range<usize>| {
            let mut size = GroupSize::new();
            self.functions[range.clone()].iter().for_each(|spec| spec.function.reserve(&mut size));
            size.bytes(self.functions[range.start].flows)
        };
        self.groups().into_iter().map(bytes).sum()
    }

    /// Neighbours that share a table, one block for each flow: those with the same key, `flows` and
    /// `when_full`, where none before edits what the key is made of, and none steps in order.
    pub fn groups(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (index, spec) in self.functions.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if self.joins(&self.functions[group.clone()], spec) => group.end = index + 1,
                _ => groups.push(index..index + 1),
            }
        }
        groups
    }

    fn joins(&self, group: &[FunctionSpec], spec: &FunctionSpec) -> bool {
        let info = spec.function.info();
        !info.sharding.is_stateless()
            && group.len() < PARTS_MAX
            && group.iter().chain([spec]).all(|member| !member.function.steps_in_order())
            && group.iter().all(|member| {
                let before = member.function.info();
                before.key == info.key
                    && !before.edits.intersects(info.sharding.fields)
                    && (member.flows, member.when_full) == (spec.flows, spec.when_full)
            })
    }

    fn builder(&self, range: Range<usize>, pool: &mut dyn FnMut(usize) -> Pool) -> GroupBuilder {
        let mut group = None;
        for index in range {
            let is_last = index + 1 == self.functions.len();
            let spec = StageSpec { index: index as u8, is_last, seed: self.seed };
            group = Some(self.functions[index].function.join(group, spec, pool(index)));
        }
        group.expect("a group has a function")
    }

    /// What sharding needs to know of the functions.
    pub fn shapes(&self) -> Vec<FunctionShape<'_>> {
        let shape = |spec: &'_ FunctionSpec| {
            let FunctionInfo { sharding, edits, has_sides, .. } = spec.function.info();
            FunctionShape { name: "", sharding, edits, has_sides }
        };
        self.functions.iter().map(|spec| FunctionShape { name: &spec.name, ..shape(spec) }).collect()
    }
}

/// A chain on one core: the functions with this core's flows.
pub struct ChainCore {
    drop_malformed: bool,
    groups: Vec<Box<dyn Group>>,
    /// Where each function of the chain is.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    group: usize,
    member: usize,
}

impl ChainCore {
    /// Takes a batch with parsed headers through the chain. Payloads are read from `port`.
    #[inline]
    pub fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        batch.begin(self.drop_malformed);
        self.groups.iter_mut().for_each(|group| group.process(batch, port, laps));
    }

    /// Lets every dead flow go; for the end of a run.
    pub fn settle(&mut self, now: Stamp) {
        self.groups.iter_mut().for_each(|group| group.settle(now));
    }

    /// The function with this index in the chain.
    ///
    /// # Panics
    /// If there is none.
    pub fn stage(&self, index: usize) -> Stage<'_> {
        let Place { group, member } = self.places[index];
        Stage { group: &*self.groups[group], member }
    }

    /// The functions on this core, in the order of the chain.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        (0..self.places.len()).map(|index| self.stage(index))
    }
}
