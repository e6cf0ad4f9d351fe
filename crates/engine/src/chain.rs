use std::any::TypeId;
use std::ops::Range;
use std::sync::Arc;

use io::Port;
use nf::FiveTuple;
use sequencer::Excerpt;
use serde::Deserialize;
use strategy::FunctionShape;
use table::{Horizon, MAX_FLOWS, OutOfMemory, PARTS_MAX, WhenFull};
use wire::{Fields, Headers, LinkType, Stamp};

use crate::Batch;
use crate::checksums::Checksums;
use crate::config::{self, ConfigError};
use crate::follow::Ends;
use crate::fragments::Fragments;
use crate::group_builder::{CorePools, GroupSize, Pool, Shared};
use crate::ingress::{self, Checks};
use crate::moving::{Leaving, PackedFlows};
use crate::registry::{Function, FunctionInfo, Registry};
use crate::run::Laps;
use crate::sides::Sides;
use crate::stage::{Group, Stage};

mod directions;
mod reads;
mod striped;

/// A chain of functions as its file states it: what to run, not yet running.
#[derive(Clone)]
pub struct Chain {
    /// The chain's name, for reports.
    pub name: String,
    /// What becomes of malformed packets.
    pub malformed: MalformedPolicy,
    /// Whether packets with wrong checksums count as malformed.
    pub checksums: Checksums,
    /// Which fragments count as malformed.
    pub fragments: Fragments,
    /// Seed of everything that functions draw.
    pub seed: u64,
    /// Seed of the tables' hashes, drawn anew when the chain is read, so that nobody can choose flows
    /// that collide. All cores share it.
    pub table_seed: u64,
    /// What is inside and what is outside, if the chain has two directions.
    pub sides: Option<Arc<Sides>>,
    /// The functions, in the order in which packets meet them: those from outside, if the chain has sides, in
    /// reverse.
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

/// Where functions keep their states.
pub(crate) enum Keeping<'a> {
    /// Each core has a table of its own.
    Own,
    /// All cores share the states of these functions.
    Shared {
        functions: &'a [usize],
        /// Whether what passes is to be collected.
        is_watched: bool,
    },
    /// All cores have one table for each group, in stripes.
    Striped {
        /// Whether what is promised is to be checked.
        is_watched: bool,
    },
    /// These functions answer what they answered in another run.
    Followed { functions: &'a [usize], ends: Arc<Ends> },
}

impl Keeping<'_> {
    fn shares(&self, index: usize) -> bool {
        matches!(self, Keeping::Shared { functions, .. } if functions.contains(&index))
    }
}

/// How packets come to cores.
pub(crate) struct Spread<'a> {
    pub(crate) cores: usize,
    /// To which core a packet with such headers comes.
    pub(crate) core_of: &'a dyn Fn(&Headers) -> usize,
    /// Where flows go from core to core.
    pub(crate) entries: Option<Entries<'a>>,
}

/// The indirection table as it is at first.
pub(crate) struct Entries<'a> {
    pub(crate) owners: &'a [u16],
    /// To which entry a packet with such headers points.
    pub(crate) entry_of: &'a dyn Fn(&Headers) -> usize,
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

    /// The same chain with tables of one size: `flows` on each core, and `when_full` for what becomes of more.
    ///
    /// # Panics
    /// If `flows` is not from 1 to [`table::MAX_FLOWS`].
    pub fn with_flows(mut self, flows: usize, when_full: WhenFull) -> Chain {
        assert!((1..=MAX_FLOWS).contains(&flows), "a table for {flows} flows");
        self.functions.iter_mut().for_each(|spec| (spec.flows, spec.when_full) = (flows, when_full));
        self
    }

    /// The headers of a packet as every core of this chain sees them if there is nothing wrong with its checksums or
    /// fragments: parsed, and marked with the side that the packet comes from, if the chain has sides.
    pub fn headers(&self, link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
        ingress::parse(self.sides.as_deref(), link, frame, wire_len)
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
        self.cores_keeping(&Spread { cores, core_of, entries: None }, &Keeping::Own)
    }

    /// The same where some functions keep their states elsewhere than in their core's tables, or flows go from
    /// core to core.
    pub(crate) fn cores_keeping(
        &self,
        spread: &Spread<'_>,
        keeping: &Keeping<'_>,
    ) -> Result<Vec<ChainCore>, OutOfMemory> {
        let cores = spread.cores;
        if let Keeping::Striped { is_watched } = keeping {
            return self.cores_striped(cores, *is_watched);
        }
        let mut pools: Vec<_> =
            self.functions.iter().map(|spec| spread.pools(&*spec.function).into_iter()).collect();
        let share = |(index, spec): (usize, &FunctionSpec)| match keeping {
            Keeping::Shared { functions, .. } if functions.contains(&index) => {
                spec.function.share(spec.flows, cores, self.table_seed).map(Some)
            }
            _ => Ok(None),
        };
        let shared: Vec<Option<Shared>> =
            self.functions.iter().enumerate().map(share).collect::<Result<_, _>>()?;
        let core = |core| {
            let mut groups = Vec::new();
            let mut places = Vec::new();
            for range in self.groups_keeping(keeping) {
                let (flows, when_full) = self.table_of(range.clone(), keeping);
                let mut group = None;
                for index in range.clone() {
                    let spec = self.spec(index);
                    let pool = pools[index].next().expect("a pool for each core");
                    let function = &self.functions[index].function;
                    group = Some(match (keeping, &shared[index]) {
                        (Keeping::Shared { is_watched, .. }, Some(shared)) => {
                            function.join_sharing(group, spec, pool, &shared.on(core, *is_watched))
                        }
                        (Keeping::Followed { functions, ends }, _) if functions.contains(&index) => {
                            function.follow(spec, pool, ends)
                        }
                        _ => function.join(group, spec, pool),
                    });
                }
                places.extend((0..range.len()).map(|member| Place { group: groups.len(), member }));
                let group = group.expect("a group has a function");
                groups.push(group.build(flows, when_full, self.table_seed, spread.entries.is_some())?);
            }
            Ok(self.core_of(groups, places))
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

    /// Bytes of the tables of `cores` cores that share the states of the functions `shared`, by index.
    pub fn table_bytes(&self, cores: usize, shared: &[usize]) -> u64 {
        let keeping = Keeping::Shared { functions: shared, is_watched: false };
        let bytes = |range: Range<usize>| {
            let mut size = GroupSize::new();
            for index in range.clone() {
                let function = &self.functions[index].function;
                match shared.contains(&index) {
                    true => size.add_reference(),
                    false => function.reserve(&mut size),
                }
            }
            size.bytes(self.table_of(range, &keeping).0)
        };
        let each: u64 = self.groups_keeping(&keeping).into_iter().map(bytes).sum();
        let all = shared.iter().map(|index| &self.functions[*index]);
        let all: u64 = all.map(|spec| spec.function.shared_bytes(spec.flows)).sum();
        each.saturating_mul(cores as u64).saturating_add(all)
    }

    /// Neighbours that share a table, one block for each flow: those with the same key, `flows` and
    /// `when_full`, where none before edits what the key is made of, and none steps in order. In a chain with sides
    /// each is before the others in one direction.
    pub fn groups(&self) -> Vec<Range<usize>> {
        self.groups_keeping(&Keeping::Own)
    }

    fn groups_keeping(&self, keeping: &Keeping<'_>) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for index in 0..self.functions.len() {
            match groups.last_mut() {
                Some(group) if self.joins(group.clone(), index, keeping) => group.end = index + 1,
                _ => groups.push(index..index + 1),
            }
        }
        groups
    }

    fn joins(&self, mut group: Range<usize>, index: usize, keeping: &Keeping<'_>) -> bool {
        let spec = &self.functions[index];
        let Some((key, fields)) = self.key_of(index, keeping) else { return false };
        // From outside it comes before the others.
        if self.sides.is_some() && spec.function.info().edits.intersects(fields) {
            return false;
        }
        // A table in stripes has a part for its clock.
        let parts_max = PARTS_MAX - usize::from(matches!(keeping, Keeping::Striped { .. }));
        group.len() < parts_max
            && !spec.function.steps_in_order()
            && group.all(|before| {
                let member = &self.functions[before];
                let is_reference = keeping.shares(before) || keeping.shares(index);
                !member.function.steps_in_order()
                    && self.key_of(before, keeping).is_some_and(|(before, _)| before == key)
                    && !member.function.info().edits.intersects(fields)
                    && (is_reference || (member.flows, member.when_full) == (spec.flows, spec.when_full))
            })
    }

    /// The key of a function's group and the fields that it is made of; `None` for a group of its own.
    fn key_of(&self, index: usize, keeping: &Keeping<'_>) -> Option<(TypeId, Fields)> {
        let info = self.functions[index].function.info();
        match keeping {
            Keeping::Followed { functions, .. } if functions.contains(&index) => None,
            _ if info.sharding.is_stateless() => None,
            _ if keeping.shares(index) => Some((TypeId::of::<FiveTuple>(), Fields::FIVE_TUPLE)),
            _ => Some((info.key, info.sharding.fields)),
        }
    }

    /// How large a group's table is, and what it does when it is full. References adapt to what they share
    /// it with; alone, any of them may go to make room.
    fn table_of(&self, group: Range<usize>, keeping: &Keeping<'_>) -> (usize, WhenFull) {
        let specs = || self.functions[group.clone()].iter();
        match group.clone().find(|index| !keeping.shares(*index)) {
            Some(index) => (self.functions[index].flows, self.functions[index].when_full),
            None => (specs().map(|spec| spec.flows).max().unwrap_or(1), WhenFull::EvictOldest),
        }
    }

    /// The bytes of [`Headers`] that an item of history holds: bit *i* for byte *i*.
    pub fn history_bytes(&self) -> u64 {
        self.reads().header_bytes()
    }

    /// What a core has to know of a packet that it did not get, and what makes the key of it, where there is one.
    pub fn excerpt(&self) -> Excerpt {
        let key = match &self.functions[..] {
            [spec] => spec.function.info().sharding.fields,
            _ => Fields::all(),
        };
        Excerpt::new(self.history_bytes(), key.header_bytes() & self.history_bytes())
    }

    /// Whether packets that are alike in what the chain reads differ in nothing but their steps, so that history
    /// that repeats itself need not be looked up again: a function alone, whose flows do not meet.
    pub(crate) fn can_run(&self) -> bool {
        let [spec] = &self.functions[..] else { return false };
        !spec.function.info().sharding.is_stateless() && !spec.function.steps_in_order()
    }

    /// What sharding needs to know of the functions.
    pub fn shapes(&self) -> Vec<FunctionShape<'_>> {
        let shape = |spec: &'_ FunctionSpec| {
            let FunctionInfo { sharding, edits, .. } = spec.function.info();
            FunctionShape { name: "", sharding, edits, has_sides: spec.function.sides().is_some() }
        };
        self.functions.iter().map(|spec| FunctionShape { name: &spec.name, ..shape(spec) }).collect()
    }
}

impl Spread<'_> {
    /// A function's pools, by core. Where flows move, what a pool has belongs to an entry and goes with it.
    fn pools(&self, function: &dyn Function) -> Vec<CorePools> {
        let Some(Entries { owners, entry_of }) = &self.entries else {
            let pools = function.pools(self.cores, self.core_of);
            return pools.into_iter().map(CorePools::One).collect();
        };
        if !function.steps_in_order() {
            let pools = function.pools(self.cores, self.core_of);
            return pools.into_iter().map(CorePools::One).collect();
        }
        let none = || (0..owners.len()).map(|_| None).collect::<Vec<_>>();
        let mut by_core: Vec<Vec<Option<Pool>>> = (0..self.cores).map(|_| none()).collect();
        let pools = function.pools(owners.len(), entry_of);
        for (entry, (pool, owner)) in pools.into_iter().zip(*owners).enumerate() {
            by_core[usize::from(*owner)][entry] = Some(pool);
        }
        by_core.into_iter().map(CorePools::ByEntry).collect()
    }
}

/// A chain on one core: the functions with this core's flows.
pub struct ChainCore {
    drop_malformed: bool,
    pub(crate) checks: Checks,
    groups: Vec<Box<dyn Group>>,
    /// By group: whether it stands between the sides. Empty if no order of the functions makes a difference.
    between: Vec<bool>,
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
        match self.between.is_empty() {
            true => self.groups.iter_mut().for_each(|group| group.process(batch, port, laps)),
            false => self.process_both_ways(batch, port, laps),
        }
    }

    /// Lets every dead flow go; for the end of a run.
    pub fn settle(&mut self, now: Stamp) {
        // No packet comes any more.
        let end = Horizon::claim(now.time_ns);
        self.groups.iter_mut().for_each(|group| group.settle(end));
    }

    /// A chain of no functions, in place of one that is elsewhere.
    pub(crate) fn nothing() -> ChainCore {
        let (groups, between, places) = (Vec::new(), Vec::new(), Vec::new());
        ChainCore { drop_malformed: false, checks: Checks::default(), groups, between, places }
    }

    /// Takes over all flows and pools of another replica, as they are between two batches: from here on both step
    /// alike. What this core counted of its own packets stays. O(capacity of the tables).
    pub(crate) fn copy_from(&mut self, other: &ChainCore) {
        self.groups.iter_mut().zip(&other.groups).for_each(|(group, other)| group.copy_from(&**other));
    }

    /// How many groups of functions there are.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Packs flows of a group that are to go to other cores, from block number `from` on: see [`Group::pack`].
    pub(crate) fn pack(
        &mut self,
        group: usize,
        from: usize,
        leaving: &mut Leaving<'_>,
    ) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        self.groups[group].pack(from, leaving)
    }

    /// Takes in flows that this group packed on another core: see [`Group::unpack`].
    pub(crate) fn unpack(&mut self, group: usize, flows: PackedFlows, horizon: Horizon, now_ns: u64) {
        self.groups[group].unpack(flows, horizon, now_ns);
    }

    /// The pools of an entry that goes to another core, with their functions' numbers.
    pub(crate) fn take_pools(&mut self, entry: u16) -> Vec<(usize, Pool)> {
        let Self { groups, places, .. } = self;
        let pool = |(index, place): (usize, &Place)| {
            Some((index, groups[place.group].take_pool(place.member, entry)?))
        };
        places.iter().enumerate().filter_map(pool).collect()
    }

    /// The pool of an entry that has come from another core.
    pub(crate) fn put_pool(&mut self, function: usize, entry: u16, pool: Pool) {
        let Place { group, member } = self.places[function];
        self.groups[group].put_pool(member, entry, pool);
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
