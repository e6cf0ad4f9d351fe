//! Builds a chain whose groups have one table each for all cores, in stripes.

use std::ops::Range;

use table::OutOfMemory;

use crate::chain::Chain;
use crate::chain::keeping::Keeping;
use crate::chain::registry::Function;
use crate::path::core::{ChainCore, Place};
use crate::path::group::Group;
use crate::path::parcel::{CorePools, Mobility, Pool};
use crate::store::build::GroupSize;
use crate::store::striped::{StripedBuilder, TableShape, division};

impl Chain {
    /// As [`Chain::cores`] with one table of each group for all cores, in stripes: `keeping` is [`Keeping::Striped`].
    pub(super) fn cores_striped(
        &self,
        cores: usize,
        keeping: &Keeping<'_>,
    ) -> Result<Vec<ChainCore>, OutOfMemory> {
        let is_watched = matches!(keeping, Keeping::Striped { is_watched: true, .. });
        let mut groups_of: Vec<Vec<Box<dyn Group>>> = (0..cores).map(|_| Vec::new()).collect();
        let mut places = Vec::new();
        for range in self.groups_keeping(keeping) {
            let mut groups = match self.is_stateless(range.start) {
                true => self.stateless(range.start, cores)?,
                false => self.striped(range.clone(), cores, is_watched)?,
            };
            groups.iter_mut().for_each(|group| keeping.prepare(&mut **group, range.clone()));
            let group_index = groups_of[0].len();
            places.extend((0..range.len()).map(|member| Place { group: group_index, member }));
            groups_of.iter_mut().zip(groups).for_each(|(groups_of, group)| groups_of.push(group));
        }
        Ok(groups_of.into_iter().map(|groups| self.core_of(groups, places.clone())).collect())
    }

    /// Functions that have flows, by index.
    pub(crate) fn keyed(&self) -> Vec<usize> {
        (0..self.functions.len()).filter(|index| !self.is_stateless(*index)).collect()
    }

    /// Bytes of the tables that all cores share, whatever their number.
    pub fn striped_bytes(&self) -> u64 {
        let bytes = |range: Range<usize>| {
            let mut size = GroupSize::new();
            range.clone().for_each(|index| self.functions[index].function.reserve(&mut size));
            size.add_clock();
            let (stripes, capacity) =
                division(self.functions[range.start].flows, self.steps_in_order(&range));
            stripes as u64 * size.bytes(capacity)
        };
        let groups = self.groups_keeping(&Keeping::Striped { is_watched: false, notes: None }).into_iter();
        groups.filter(|range| !self.is_stateless(range.start)).map(bytes).sum()
    }

    fn stateless(&self, index: usize, cores: usize) -> Result<Vec<Box<dyn Group>>, OutOfMemory> {
        let function = &self.functions[index].function;
        let pools = function.pools(cores, &|_| 0).into_iter();
        pools
            .map(|pool| {
                function.join(None, self.spec(index), CorePools::One(pool)).build(
                    1,
                    Default::default(),
                    0,
                    Mobility::Fixed,
                )
            })
            .collect()
    }

    fn striped(
        &self,
        range: Range<usize>,
        cores: usize,
        is_watched: bool,
    ) -> Result<Vec<Box<dyn Group>>, OutOfMemory> {
        let mut group: Option<StripedBuilder> = None;
        for index in range.clone() {
            let function = &self.functions[index].function;
            let pools = shared_pools(&**function, cores);
            group = Some(function.join_striped(group, self.spec(index), pools, is_watched));
        }
        let first = &self.functions[range.start];
        let shape = TableShape { flows: first.flows, when_full: first.when_full, seed: self.table_seed };
        group.expect("a group has a function").build(&shape)
    }

    fn is_stateless(&self, index: usize) -> bool {
        self.functions[index].function.info().sharding.is_stateless()
    }

    fn steps_in_order(&self, range: &Range<usize>) -> bool {
        range.clone().any(|index| self.functions[index].function.steps_in_order())
    }
}

/// The pools of a function whose flows all cores share. Where flows meet in the pool there is one for all, with
/// all that there is to give, and what the cores hold meanwhile has nothing.
fn shared_pools(function: &dyn Function, cores: usize) -> Vec<Pool> {
    let shared = usize::from(function.steps_in_order());
    function.pools(cores + shared, &|_| 0)
}
