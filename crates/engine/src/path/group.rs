//! What a group of functions can do on one core: one virtual call per batch.

use std::any::Any;
use std::sync::Arc;

use io::Port;
use table::{OutOfMemory, Watermark};
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::StageCounters;
use crate::path::items::Items;
use crate::path::laps::Laps;
use crate::path::look::Look;
use crate::path::parcel::{Leaving, PackedFlows, Pool, ShardTables, Table};
use crate::path::portion::{Place, Portion};
use crate::path::turned_away::{Notes, Told};

/// Neighbours in a chain that are run together, on one core: one virtual call per batch.
pub(crate) trait Group: Send + Any {
    /// Takes every live packet of the batch through the functions, in order.
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps);

    /// Takes every live item through the functions, in order: own packets, which are in the batch, and those of other
    /// cores.
    fn replay(&mut self, _items: &mut Items<'_>, _batch: &mut Batch, _port: &dyn Port, _laps: &mut dyn Laps) {
        unreachable!("only replicas have history, and these have tables of their own");
    }

    /// Lets every flow go whose deadline has passed by the end of a run.
    fn settle(&mut self, end: Watermark);

    /// See [`Stage::digest`].
    fn digest(&self, member: usize, now: Stamp) -> u64;

    /// See [`Stage::audit`].
    fn audit(&self, member: usize, now: Stamp) -> u64;

    /// What a function knows of a packet with these headers as of `now_ns`, to be told by a trace.
    fn look(&self, _member: usize, _headers: &Headers, _now_ns: u64) -> Look {
        Look::default()
    }

    /// Puts live flows of a function into `portion`, from a place on, as many as one portion has; says where the next one begins. Of
    /// flows that cores share, or of which all have a replica, one core has them.
    fn list(&self, _member: usize, _from: Place, _portion: &mut Portion) -> Option<Place> {
        None
    }

    /// How often each rule of a function decided on this core's packets.
    fn rules(&self, member: usize) -> &[u64] {
        self.counters(member).rules
    }

    /// How many flows have come from other cores so far.
    fn moved_in(&self) -> u64 {
        0
    }

    /// Takes the flow with this key from a function, between two packets; what it took from a pool goes back. Says whether there
    /// was one.
    fn remove(&mut self, _member: usize, _key: &[u8]) -> bool {
        false
    }

    /// See [`Stage::counters`].
    fn counters(&self, member: usize) -> StageCounters<'_>;

    /// Packs flows that are to go to other cores, from block number `from` on: returns where to go on, `None` if
    /// there are no more blocks, and what is packed, with the core that gets it.
    fn pack(&mut self, _from: usize, _leaving: &mut Leaving<'_>) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        (None, Vec::new())
    }

    /// Takes in flows that another core packed, and makes room for them as of `watermark`; `now_ns` is the latest time that
    /// this core has seen.
    fn unpack(&mut self, _flows: PackedFlows, _watermark: Watermark, _now_ns: u64) {}

    /// Has it note what it turns away from here on. `own` is one of its functions whose states are in its own table, if
    /// there is one.
    fn note(&mut self, _notes: &Arc<Notes>, _own: Option<usize>) {}

    /// Packets before number `seq` are stepped, wherever they came. From there on, whether each of its tables steps those that
    /// come to it in the order of their numbers.
    fn note_since(&mut self, _seq: u64, _is_in_step: bool) {}

    /// Has it turn away what it is told to, and nothing else. `function` is one of its own.
    fn tell(&mut self, _told: &Arc<Told>, _function: usize) {}

    /// Whether a flow with this key has a state here.
    fn has_flow(&self, _key: &[u8]) -> bool {
        false
    }

    /// The pool of an entry that goes to another core, if the function has one for each.
    fn take_pool(&mut self, _member: usize, _entry: u16) -> Option<Pool> {
        None
    }

    /// Puts the pool of an entry that has come from another core.
    fn put_pool(&mut self, _member: usize, _entry: u16, _pool: Pool) {}

    /// An empty table that can be [put](ShardTables::put) among the tables by shard of this group on any core, if it has such: for as many flows as
    /// `flows` says where this core's table holds the given number. O(capacity).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    fn spare(&self, _flows: &dyn Fn(usize) -> usize) -> Result<Option<Table>, OutOfMemory> {
        Ok(None)
    }

    /// Has tables by shard from here on, of so many shards: none is here yet. The table that it had stays at hand, and is to be empty while
    /// packets come. O(shards).
    fn split_by_shard(&mut self, _shards: usize) {}

    /// Has the one table at hand again. Flows that nobody has taken out of the others are gone.
    fn join_shards(&mut self) {}

    /// Its tables by shard, if it has such.
    fn shard_tables(&mut self) -> Option<&mut dyn ShardTables> {
        None
    }

    /// Takes over what the same group on another core, of which both are replicas, has stepped to: flows and pools.
    /// What this core counted of its own packets stays.
    fn copy_from(&mut self, _other: &dyn Group) {
        unreachable!("only replicas are rebuilt, and these have tables of their own");
    }

    /// From here on this group alone has what `other`, the same group on another core, had: `other` is left without flows,
    /// and without what it counted of them. A replica has counted the same, and the flows of another core have been
    /// [packed](Group::pack) before.
    fn absorb(&mut self, _other: &mut dyn Group, _is_replica: bool) {}

    /// Goes on with the flows, pools and counters of the same functions in a chain that this one's replaces. `other`, of the
    /// same core, has steps behind it and none before it; this one has none behind it.
    fn take_over(&mut self, other: &mut dyn Group);
}

/// One function of a chain on one core, to be looked at.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    pub(crate) group: &'a dyn Group,
    /// Which function of the group.
    pub(crate) member: usize,
}

impl<'a> Stage<'a> {
    /// Hash of all flows alive at `now` that does not depend on their order: the sum of each flow's. So
    /// the digests of shards add up to the digest of the whole. O(capacity).
    pub fn digest(&self, now: Stamp) -> u64 {
        self.group.digest(self.member, now)
    }

    /// Hash of what [`Stage::digest`] leaves out and replicas must agree in all the same: when each flow
    /// alive at `now` will die, and how each flow that is gone left. A sum, too. Comparable once settled,
    /// when all the dead are gone. O(capacity).
    pub fn audit(&self, now: Stamp) -> u64 {
        self.group.audit(self.member, now)
    }

    /// What happened so far.
    pub fn counters(&self) -> StageCounters<'a> {
        self.group.counters(self.member)
    }
}

/// What a function on a core is made from.
#[derive(Clone, Copy, Debug)]
pub struct StageSpec {
    /// Index in the chain.
    pub index: u8,
    /// Whether it is the chain's last function.
    pub is_last: bool,
    /// The chain's seed, for what functions draw.
    pub seed: u64,
}
