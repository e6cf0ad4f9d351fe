use std::any::Any;

use io::Port;
use table::Horizon;
use wire::Stamp;

use crate::Batch;
use crate::group_builder::Pool;
use crate::moving::{Leaving, PackedFlows};
use crate::run::Laps;

/// Neighbours in a chain that are run together, on one core: one virtual call per batch.
pub(crate) trait Group: Send {
    /// Takes every live packet of the batch through the functions, in order.
    fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps);

    /// Lets every flow go whose deadline has passed by the end of a run.
    fn settle(&mut self, end: Horizon);

    /// See [`Stage::digest`].
    fn digest(&self, member: usize, now: Stamp) -> u64;

    /// See [`Stage::audit`].
    fn audit(&self, member: usize, now: Stamp) -> u64;

    /// See [`Stage::counters`].
    fn counters(&self, member: usize) -> StageCounters<'_>;

    /// Packs flows that are to go to other cores, from block number `from` on: returns where to go on, `None` if
    /// there are no more blocks, and what is packed, with the core that gets it.
    fn pack(&mut self, _from: usize, _leaving: &mut Leaving<'_>) -> (Option<usize>, Vec<(u16, PackedFlows)>) {
        (None, Vec::new())
    }

    /// Takes in flows that another core packed, and makes room for them as of `horizon`; `now_ns` is the latest time that
    /// this core has seen.
    fn unpack(&mut self, _flows: PackedFlows, _horizon: Horizon, _now_ns: u64) {}

    /// The pool of an entry that goes to another core, if the function has one for each.
    fn take_pool(&mut self, _member: usize, _entry: u16) -> Option<Pool> {
        None
    }

    /// The same where it has come.
    fn put_pool(&mut self, _member: usize, _entry: u16, _pool: Pool) {}

    /// Takes over what the same group on another core, of which both are replicas, has stepped to: flows and pools.
    /// What this core counted of its own packets stays.
    fn copy_from(&mut self, _other: &dyn Group) {
        unreachable!("only replicas are rebuilt, and these have tables of their own");
    }

    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
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

/// What a stage counted.
#[derive(Clone, Copy, Debug)]
pub struct StageCounters<'a> {
    /// Packets that the function took as its business.
    pub packets: u64,
    /// Of these: forwarded.
    pub forward: u64,
    /// Of these: sent back.
    pub transmit_back: u64,
    /// Of these: passed to the host.
    pub host: u64,
    /// Of these: dropped, by index of the function's drop reasons; the last entry is for indices
    /// that the function does not name.
    pub drops: &'a [u64],
    /// By index of the function's events.
    pub events: &'a [u64],
    /// A number that the function used without declaring it.
    pub undeclared: Option<Undeclared>,
    /// Flows that came and went.
    pub flows: FlowCounters,
    /// Flows that have a state now, dead ones that were not swept yet included.
    pub live: usize,
    /// Flows that the table can hold; functions with one key share a table. 0: there is none.
    pub capacity: usize,
}

/// A number that a function used without a name for it: a defect of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// Of [`Verdict::Drop`](nf::Verdict::Drop), not an index into
    /// [`DROP_REASONS`](nf::About::drop_reasons).
    Drop(u8),
    /// Of [`Cx::count`](nf::Cx::count), not an index into [`EVENTS`](nf::About::events).
    Event(usize),
}

/// Flows that came and went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowCounters {
    /// Flows that began.
    pub created: u64,
    /// Flows that ended by a step.
    pub removed: u64,
    /// Flows whose deadline passed.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows refused because the table was full.
    pub rejected: u64,
    /// Flows that came from another core.
    pub moved_in: u64,
    /// Flows that went to another core.
    pub moved_out: u64,
}

impl FlowCounters {
    /// Flows that have a state now. Of one of several cores that share their flows it means nothing: flows
    /// that one core created another may have removed.
    pub fn live(&self) -> usize {
        // Of flows that cores share the counters are read one by one while others count on.
        let gone = self.removed + self.expired + self.evicted + self.moved_out;
        (self.created + self.moved_in).saturating_sub(gone) as usize
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
