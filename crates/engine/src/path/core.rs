//! A chain on one core.

use std::sync::Arc;

use io::Port;
use table::{OutOfMemory, Watermark};
use wire::{Malformed, Marks, Stamp};

use crate::path::batch::Batch;
use crate::path::checks::Checks;
use crate::path::group::{Group, Stage};
use crate::path::items::Items;
use crate::path::laps::Laps;
use crate::path::packets::{below_first, bits};
use crate::path::parcel::{Leaving, PackedFlows, Pool, ShardTables, Table};
use crate::path::portion::Listed;
use crate::path::tracing::Tracer;

/// A chain on one core: the functions with this core's flows.
pub struct ChainCore {
    pub(crate) drop_malformed: bool,
    pub(crate) checks: Checks,
    pub(crate) groups: Vec<Box<dyn Group>>,
    /// By group: whether it stands between the sides. Empty if no order of the functions makes a difference.
    pub(crate) between: Vec<bool>,
    /// Where each function of the chain is.
    pub(crate) places: Vec<Place>,
    /// Traces packets, on a core that can be asked to.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// Where it is asked for its flows, on a core that can be.
    pub(crate) listed: Option<Listed>,
}

/// Where a function of the chain is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) member: usize,
}

impl ChainCore {
    /// Takes a batch with parsed headers through the chain. Payloads are read from `port`.
    #[inline]
    pub fn process(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        batch.begin(self.drop_malformed);
        self.process_begun(batch, port, laps);
    }

    /// Takes the live packets of a batch that has begun through the chain.
    #[inline]
    pub(crate) fn process_begun(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        match self.tracer.as_mut().is_some_and(|tracer| tracer.is_on()) {
            false => self.pass(batch, port, laps),
            true => self.process_traced(batch, port, laps),
        }
    }

    /// Takes the live packets of a batch through the functions.
    #[inline]
    pub(super) fn pass(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        match self.between.is_empty() {
            true => self.groups.iter_mut().for_each(|group| group.process(batch, port, laps)),
            false => self.process_both_ways(batch, port, laps),
        }
    }

    /// Begins a batch whose packets are among items: see [`ChainCore::replay`].
    pub(crate) fn begin(&self, batch: &mut Batch) {
        batch.begin(self.drop_malformed);
    }

    /// Takes items through the chain: packets of the batch, which has begun, and those of other cores.
    #[inline]
    pub(crate) fn replay(
        &mut self,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        match self.tracer.as_mut().is_some_and(|tracer| tracer.is_on()) {
            false => self.replay_all(items, batch, port, laps),
            true => self.replay_traced(items, batch, port, laps),
        }
    }

    /// Takes the live items through the functions.
    #[inline]
    pub(super) fn replay_all(
        &mut self,
        items: &mut Items<'_>,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        self.groups.iter_mut().for_each(|group| group.replay(items, batch, port, laps));
    }

    /// Lets every dead flow go; for the end of a run.
    pub fn settle(&mut self, now: Stamp) {
        // No packet comes any more.
        let end = Watermark::claim(now.time_ns);
        self.groups.iter_mut().for_each(|group| group.settle(end));
    }

    /// A chain of no functions, in place of one that is elsewhere.
    pub(crate) fn nothing() -> ChainCore {
        let (groups, between, places) = (Vec::new(), Vec::new(), Vec::new());
        let (checks, tracer, listed) = (Checks::default(), None, None);
        ChainCore { drop_malformed: false, checks, groups, between, places, tracer, listed }
    }

    /// Takes over all flows and pools of another replica, as they are between two batches: from here on both step
    /// alike. What this core counted of its own packets stays. O(capacity of the tables).
    pub(crate) fn copy_from(&mut self, other: &ChainCore) {
        self.groups.iter_mut().zip(&other.groups).for_each(|(group, other)| group.copy_from(&**other));
    }

    /// From here on this core alone has what `other` had: see [`Group::absorb`].
    pub(crate) fn absorb(&mut self, other: &mut ChainCore, is_replica: bool) {
        let groups = self.groups.iter_mut().zip(&mut other.groups);
        groups.for_each(|(group, of_other)| group.absorb(&mut **of_other, is_replica));
    }

    /// Goes on where `other`, of a chain that this one replaces, has ended: with what these groups have, each by its
    /// number there. O(1) but for states that cores share.
    pub(crate) fn take_over(&mut self, other: &mut ChainCore, kept: impl Iterator<Item = (usize, usize)>) {
        for (group, of_other) in kept {
            self.groups[group].take_over(&mut *other.groups[of_other]);
        }
    }

    /// Takes the flow with this key from a function: see [`Group::remove`].
    pub(crate) fn remove(&mut self, function: usize, key: &[u8]) -> bool {
        let Place { group, member } = self.places[function];
        self.groups[group].remove(member, key)
    }

    /// Says from where on tables step packets in order, where they note what they turn away: see [`Group::note_since`].
    pub(crate) fn note_since(&mut self, seq: u64, is_in_step: bool) {
        self.groups.iter_mut().for_each(|group| group.note_since(seq, is_in_step));
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
    pub(crate) fn unpack(&mut self, group: usize, flows: PackedFlows, watermark: Watermark, now_ns: u64) {
        self.groups[group].unpack(flows, watermark, now_ns);
    }

    /// An empty table of each group that can have others beside its own, with the group's number: see [`Group::spare`].
    pub(crate) fn spares(&self, flows: &dyn Fn(usize) -> usize) -> Result<Vec<(usize, Table)>, OutOfMemory> {
        let spares = self.groups.iter().map(|group| group.spare(flows)).enumerate();
        spares
            .filter_map(|(number, spare)| Some((number, spare.transpose()?)))
            .map(|(number, spare)| Ok((number, spare?)))
            .collect()
    }

    /// Each group has tables by shard from here on: see [`Group::split_by_shard`].
    pub(crate) fn split_by_shard(&mut self, shards: usize) {
        self.groups.iter_mut().for_each(|group| group.split_by_shard(shards));
    }

    /// Each group has one table again: see [`Group::join_shards`].
    pub(crate) fn join_shards(&mut self) {
        self.groups.iter_mut().for_each(|group| group.join_shards());
    }

    /// The tables by shard of each group that has such, with the group's number.
    pub(crate) fn shard_tables(&mut self) -> impl Iterator<Item = (usize, &mut dyn ShardTables)> {
        let by_shard = self.groups.iter_mut().enumerate();
        by_shard.filter_map(|(number, group)| Some((number, group.shard_tables()?)))
    }

    /// Those of one group.
    pub(crate) fn shard_tables_of(&mut self, group: usize) -> Option<&mut dyn ShardTables> {
        self.groups[group].shard_tables()
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

    /// Notes in the headers of a core's own packets which side they come from; says how many come from outside.
    #[inline]
    pub(crate) fn mark_sides(&self, batch: &mut Batch) -> u64 {
        let Some(sides) = &self.checks.sides else { return 0 };
        let mut from_outside = 0;
        for packet in bits(batch.own()) {
            let headers = &mut batch.headers[packet];
            sides.mark_by(self.checks.side_of(&batch.frames[packet]), headers);
            from_outside += u64::from(headers.marks.contains(Marks::FROM_OUTSIDE));
            if headers.malformed_code == Malformed::Spoofed as u8 {
                batch.find_spoofed(packet);
            }
        }
        from_outside
    }

    /// Takes a batch through a chain with sides, in runs of packets from one side: every function steps packets in
    /// the order in which they came, so that nothing depends on where batches are cut. A live port receives from one
    /// interface, which is one run.
    fn process_both_ways(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(sides) = self.checks.sides.as_ref().map(Arc::clone) else { return };
        let (outside, crossing) = sides.of(batch);
        let mut rest = batch.live;
        while rest != 0 {
            let is_outside = outside >> rest.trailing_zeros() & 1 == 1;
            let others = rest & if is_outside { !outside } else { outside };
            let run = rest & below_first(others);
            rest &= !run;
            batch.is_reversed = is_outside;
            for index in 0..self.groups.len() {
                let index = if is_outside { self.groups.len() - 1 - index } else { index };
                // What stays on its side does not come to a function between the two.
                let theirs = if self.between[index] { run & crossing } else { run };
                let aside = batch.live & !theirs;
                batch.live &= theirs;
                self.groups[index].process(batch, port, laps);
                batch.live |= aside;
            }
        }
        batch.is_reversed = false;
    }
}
