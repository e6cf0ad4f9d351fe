//! A chain becomes cores: which functions share a table, how large it is, and how pools are divided.

use std::any::TypeId;
use std::ops::Range;

use nf::FiveTuple;
use table::{OutOfMemory, PARTS_MAX, WhenFull};
use wire::{Fields, Headers};

use crate::chain::keeping::{Keeping, Spread};
use crate::chain::{Chain, FunctionSpec};
use crate::path::core::{ChainCore, Place};
use crate::store::build::{GroupSize, Shared};

impl Chain {
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

    /// The chain as each core runs it, where some functions keep their states elsewhere than in their core's
    /// tables, or flows go from core to core.
    pub(crate) fn cores_keeping(
        &self,
        spread: &Spread<'_>,
        keeping: &Keeping<'_>,
    ) -> Result<Vec<ChainCore>, OutOfMemory> {
        let cores = spread.cores;
        if let Keeping::Striped { .. } = keeping {
            return self.cores_striped(cores, keeping);
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
        let core = |core: usize| {
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
                        (Keeping::Shared { has_auxiliary_tables, is_watched, .. }, Some(shared)) => {
                            let on = shared.on(core, *has_auxiliary_tables, *is_watched);
                            function.join_sharing(group, spec, pool, &on)
                        }
                        (Keeping::Followed { functions, ends, .. }, _) if functions.contains(&index) => {
                            function.follow(spec, pool, ends)
                        }
                        _ => function.join(group, spec, pool),
                    });
                }
                places.extend((0..range.len()).map(|member| Place { group: groups.len(), member }));
                let group = group.expect("a group has a function");
                let mut group = spread.with_mobility(core, |mobility| {
                    group.build(keeping.room_for(flows), when_full, self.table_seed, mobility)
                })?;
                keeping.prepare(&mut *group, range);
                groups.push(group);
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
        let keeping =
            Keeping::Shared { functions: shared, has_auxiliary_tables: true, is_watched: false, notes: None };
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

    pub(crate) fn groups_keeping(&self, keeping: &Keeping<'_>) -> Vec<Range<usize>> {
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
}
