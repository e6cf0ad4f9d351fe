//! Where a chain's functions keep their states, and how packets come to cores.

use std::ops::Range;
use std::sync::Arc;

use wire::Headers;

use crate::chain::registry::Function;
use crate::path::group::Group;
use crate::path::parcel::{CorePools, Mobility, Pool, ShardsHere};
use crate::path::turned_away::{Notes, Told};
use crate::store::follow::Ends;

/// Where functions keep their states.
#[derive(Clone)]
pub(crate) enum Keeping<'a> {
    /// Each core has a table of its own.
    Own,
    /// All cores share the states of these functions.
    Shared {
        functions: &'a [usize],
        /// Whether a flow's block keeps where the shared state is.
        has_auxiliary_tables: bool,
        /// Whether what passes is to be collected.
        is_watched: bool,
        /// Where tables note what they turn away, if they are to.
        notes: Option<Arc<Notes>>,
    },
    /// All cores have one table for each group, in stripes.
    Striped {
        /// Whether what is promised is to be checked.
        is_watched: bool,
        /// Where tables note what they turn away, if they are to.
        notes: Option<Arc<Notes>>,
    },
    /// These functions answer what they answered in another run.
    Followed {
        functions: &'a [usize],
        ends: Arc<Ends>,
        /// What the tables of all others are told to turn away, if they do not decide that.
        told: Option<Arc<Told>>,
    },
}

impl Keeping<'_> {
    /// A number for the place where a function's states are: two functions with the same number keep them alike.
    pub(super) fn place_of(&self, index: usize) -> u8 {
        match self {
            Keeping::Shared { functions, .. } if functions.contains(&index) => 1,
            Keeping::Striped { .. } => 2,
            Keeping::Followed { functions, .. } if functions.contains(&index) => 3,
            Keeping::Own | Keeping::Shared { .. } | Keeping::Followed { .. } => 0,
        }
    }

    /// Has tables note what they turn away, where they can.
    pub(crate) fn noting(self, to: &Arc<Notes>) -> Self {
        let notes = Some(Arc::clone(to));
        match self {
            Keeping::Shared { functions, has_auxiliary_tables, is_watched, .. } => {
                Keeping::Shared { functions, has_auxiliary_tables, is_watched, notes }
            }
            Keeping::Striped { is_watched, .. } => Keeping::Striped { is_watched, notes },
            other => other,
        }
    }

    /// Has a group of these functions begin to note what it turns away, or to do as told.
    pub(super) fn prepare(&self, group: &mut dyn Group, functions: Range<usize>) {
        match self {
            Keeping::Shared { notes: Some(notes), .. } | Keeping::Striped { notes: Some(notes), .. } => {
                group.note(notes, functions.clone().find(|index| !self.shares(*index)));
            }
            Keeping::Followed { told: Some(told), .. } => group.tell(told, functions.start),
            _ => {}
        }
    }

    /// For how many flows a table needs room that holds `flows` where it decides what it turns away.
    pub(super) fn room_for(&self, flows: usize) -> usize {
        match self {
            Keeping::Followed { told: Some(told), .. } => told.flows(),
            _ => flows,
        }
    }

    pub(super) fn shares(&self, index: usize) -> bool {
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
    /// How many shards there are, where a core has a table for each: an entry's lowest bits are its shard.
    pub(crate) shards: Option<usize>,
    /// Whether every core has a table for every shard.
    pub(crate) is_everywhere: bool,
}

impl Entries<'_> {
    fn is_of(&self, shard: usize, core: usize) -> bool {
        self.is_everywhere || usize::from(self.owners[shard]) == core
    }
}

impl Spread<'_> {
    /// Has `build` make a group for this core.
    pub(super) fn with_mobility<R>(&self, core: usize, build: impl FnOnce(Mobility<'_>) -> R) -> R {
        match &self.entries {
            None => build(Mobility::Fixed),
            Some(Entries { shards: None, .. }) => build(Mobility::ByEntry),
            Some(entries @ Entries { shards: Some(shards), .. }) => {
                let is_here = |shard: usize| entries.is_of(shard, core);
                build(Mobility::ByShard(ShardsHere { shards: *shards, is_here: &is_here }))
            }
        }
    }

    /// A function's pools, by core. Where flows move, what a pool has belongs to an entry and goes with it.
    pub(super) fn pools(&self, function: &dyn Function) -> Vec<CorePools> {
        let Some(Entries { owners, entry_of, .. }) = &self.entries else {
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
