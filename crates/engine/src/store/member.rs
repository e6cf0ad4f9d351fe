//! One function of a group whose flows are in a table, and what it steps with.

use std::any::Any;
use std::sync::Arc;

use io::Port;
use nf::{FlowKey, Short};
use table::{FlowTable, Parcel, Slot, Wanted, Watermark, count_of_first};
use wire::{Headers, Stamp};

use crate::path::batch::Batch;
use crate::path::counters::StageCounters;
use crate::path::items::Items;
use crate::path::look::Look;
use crate::path::packets::BATCH_PACKETS;
use crate::path::packets::bits;
use crate::path::parcel::Pool;
use crate::path::portion::Portion;
use crate::path::turned_away::Notes;

/// A flow's block, and the entry of the indirection table that brings the flow's packets here.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) slot: Slot,
    pub(crate) entry: u16,
}

/// From core to core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// A batch on its way through a group: what the group's functions step with.
pub(crate) struct Steps<'a, K> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) table: &'a mut FlowTable<K>,
    pub(crate) located: &'a Located,
    pub(crate) port: &'a dyn Port,
}

/// One function of a group, whose flows are kept in the group's table.
pub(crate) trait Member<K>: Send + Any {
    /// Its number in the chain.
    fn index(&self) -> usize;

    /// Asks for memory that the steps of these packets will read.
    fn prefetch(&self, packets: u64, steps: &Steps<'_, K>);

    /// Steps these packets in order, all of flows that have a block.
    fn hits(&mut self, packets: u64, steps: &mut Steps<'_, K>);

    /// Steps these live items in order, all of flows that have a block. Own packets among them go their whole way through
    /// the function.
    fn replay_hits(
        &mut self,
        _packets: u64,
        _runs: Runs<'_>,
        _items: &mut Items<'_>,
        _steps: &mut Steps<'_, K>,
    ) {
        unreachable!("only replicas have history, and these have tables of their own");
    }

    /// Steps live items of other cores, of flows that have no block, in order and as long as they leave no state; says which.
    fn replay_misses(&mut self, _packets: u64, _items: &mut Items<'_>) -> u64 {
        unreachable!("as above");
    }

    /// Steps one live item of another core, whose flow has no block. `true`: it left a state that needs one; then
    /// [`Member::replay_place`] comes next.
    fn replay_miss(&mut self, _item: usize, _items: &mut Items<'_>) -> bool {
        unreachable!("as above");
    }

    /// Puts the state of the step before into the flow's new block, if there was room for one.
    fn replay_place(&mut self, _item: usize, _slot: Slot, _items: &mut Items<'_>, _table: &mut FlowTable<K>) {
        unreachable!("as above");
    }

    /// The key of an item that is its business.
    fn replay_key(&self, _item: usize, _items: &Items<'_>) -> Option<K> {
        unreachable!("as above");
    }

    /// Steps one live packet, whose flow has no block. `true`: it left a state that needs one; then
    /// [`Member::place`] comes next.
    fn miss(&mut self, packet: usize, steps: &mut Steps<'_, K>) -> bool;

    /// Puts the state of the step before into the flow's new block, if there was room for one.
    fn place(&mut self, packet: usize, steps: &mut Steps<'_, K>);

    /// The block is to be another flow's: takes the state from it, if there is one. What is not dead as of the watermark
    /// is evicted.
    fn leave(&mut self, block: Block, watermark: Watermark, table: &mut FlowTable<K>);

    /// Takes the state from the block if it is dead as of the watermark.
    fn expire(&mut self, block: Block, watermark: Watermark, table: &mut FlowTable<K>);

    /// The block, with the state in it, is about to go to another core, or has just come from one.
    fn moves(&mut self, _slot: Slot, _way: Way, _table: &FlowTable<K>) {}

    /// So many flows with a state have gone to another core, or have come from one, with their table.
    fn moved(&mut self, _way: Way, _states: u64) {}

    /// Puts what was counted of flows aside, and goes on with what was put aside before: the first time with nothing.
    fn swap_accounts(&mut self) {}

    /// How many flows more have come to the group's tables than have gone, as far as it was counted here.
    fn net_flows(&self) -> i64 {
        0
    }

    /// A flow that another core packed finds no room: its state is gone.
    fn lose(&mut self, _parcel: &Parcel<K>, _index: usize, _entry: u16, _table: &FlowTable<K>) {}

    /// The key of a flow that another core packed, if it has a state here.
    fn packed_key(&self, _parcel: &Parcel<K>, _index: usize, _table: &FlowTable<K>) -> Option<K> {
        None
    }

    /// When the state dies that it has in a flow's block; 0 if it has none there.
    fn lives_until(&self, _slot: Slot, _table: &FlowTable<K>) -> u64 {
        0
    }

    /// Has it note what it turns away where it has states of its own, not in the group's table.
    fn note(&mut self, _notes: &Arc<Notes>) {}

    /// Drops a live packet for this reason, and steps nothing.
    fn refuse(&mut self, _packet: usize, _reason: u8, _steps: &mut Steps<'_, K>) {
        unreachable!("only one core with tables of its own is told what to drop");
    }

    /// The pool of an entry that goes to another core, if it has one of its own.
    fn take_pool(&mut self, _entry: u16) -> Option<Pool> {
        None
    }

    /// Puts the pool of an entry that has come from another core.
    fn put_pool(&mut self, _entry: u16, _pool: Pool) {}

    /// Exchanges its pool for `pool`: before and after steps in a pool that cores share.
    fn swap_pool(&mut self, _pool: &mut Option<Pool>) {}

    /// The end of a run, after [`Member::expire`] for every block.
    fn settle(&mut self, _end: Watermark) {}

    /// Flows that have a state in the table, dead ones included. O(capacity).
    fn live(&self, table: &FlowTable<K>) -> usize;

    fn digest(&self, table: &FlowTable<K>, now: Stamp) -> u64;

    fn audit(&self, table: &FlowTable<K>, now: Stamp) -> u64;

    fn counters(&self) -> StageCounters<'_>;

    /// What it knows of a packet with these headers, whose flow's block is here, if it has one: see
    /// [`Group::look`](crate::path::group::Group::look).
    fn look(&self, headers: &Headers, slot: Slot, table: &FlowTable<K>, now_ns: u64) -> Look;

    /// Puts live flows into `portion`, from block number `from` on, as many as one portion has; says which block comes next.
    fn list(&self, _from: u32, _table: &FlowTable<K>, _portion: &mut Portion) -> Option<u32> {
        None
    }

    /// Takes the state from the flow with this key, between two packets; what it took from a pool goes back. Says whether there
    /// was one. `block` is the flow's, if one of its group's tables has the flow.
    fn remove(&mut self, _key: &[u8], _block: Block, _table: &mut FlowTable<K>) -> bool {
        false
    }

    /// Takes over what the same function of another replica has beside the table.
    fn copy_from(&mut self, _other: &dyn Member<K>) {
        unreachable!("only replicas are rebuilt, and these have states of their own");
    }

    /// Takes what the same function on another core has counted of flows, which forgets it. Of a replica, which has counted
    /// the same, it is dropped: see [`Group::absorb`](crate::path::group::Group::absorb).
    fn absorb(&mut self, _other: &mut dyn Member<K>, _is_replica: bool) {
        unreachable!("only flows in tables of their own core go over to another strategy");
    }

    /// Goes on with what the same function of a chain that this one's replaces has beside the table: see
    /// [`Group::take_over`](crate::path::group::Group::take_over).
    fn take_over(&mut self, other: &mut dyn Member<K>);

    /// Whether the pool of such another goes on, too.
    fn keeps_pool(&self, _other: &dyn Member<K>) -> bool {
        true
    }
}

/// Runs of items that have one key, and where these find their flows. An item that is no leader is in the run of the one
/// before it.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    /// Bit *i*: item *i* is the first of a run.
    pub(crate) leaders: u64,
    /// By leader.
    pub(crate) slots: &'a [Slot; BATCH_PACKETS],
}

/// What a packet is looked up by. Inlined into both loops over a batch.
#[inline(always)]
fn wanted_of(
    headers: &Headers,
    short: &impl Fn(&Headers) -> Short,
    hash: &impl Fn(Short, &Headers) -> u32,
) -> Wanted {
    let short = short(headers);
    Wanted::new(short, hash(short, headers))
}

/// Where each packet of a batch finds its flow.
pub(crate) struct Located {
    pub(crate) wanted: [Wanted; BATCH_PACKETS],
    pub(crate) slots: [Slot; BATCH_PACKETS],
}

impl Located {
    pub(crate) fn new() -> Box<Located> {
        Box::new(Located { wanted: [Wanted::NONE; BATCH_PACKETS], slots: [Slot::NONE; BATCH_PACKETS] })
    }

    /// Notes what the packets are looked up by, of which `hash` makes the hash.
    #[inline(always)]
    pub(crate) fn find_keys<K: FlowKey>(
        &mut self,
        packets: u64,
        batch: &Batch,
        hash: impl Fn(Short, &Headers) -> u32,
    ) {
        // Plain packets are IPv4, and stay so whatever edits them.
        debug_assert!(bits(packets & batch.plain).all(|packet| {
            let Headers { src, dst, .. } = batch.headers[packet];
            src.to_v4().is_some() && dst.to_v4().is_some()
        }));
        self.note_keys(packets & batch.plain, batch, K::short_of_ipv4, &hash);
        if packets & !batch.plain != 0 {
            self.note_other_keys::<K>(packets & !batch.plain, batch, &hash);
        }
    }

    /// Not inlined, so that the loop over plain packets has the registers.
    #[inline(never)]
    fn note_other_keys<K: FlowKey>(
        &mut self,
        packets: u64,
        batch: &Batch,
        hash: &impl Fn(Short, &Headers) -> u32,
    ) {
        self.note_keys(packets, batch, K::short_of, hash);
    }

    #[inline(always)]
    fn note_keys(
        &mut self,
        packets: u64,
        batch: &Batch,
        short: impl Fn(&Headers) -> Short,
        hash: &impl Fn(Short, &Headers) -> u32,
    ) {
        let headers = &*batch.headers;
        match count_of_first(packets) {
            Some(count) => {
                let all = headers.iter().zip(&mut self.wanted).take(count);
                all.for_each(|(headers, to)| *to = wanted_of(headers, &short, hash));
            }
            None => bits(packets)
                .for_each(|packet| self.wanted[packet] = wanted_of(&headers[packet], &short, hash)),
        }
    }

    #[inline]
    pub(crate) fn slot(&self, packet: usize) -> Slot {
        self.slots[packet]
    }
}

/// Notes which entry brings the packets of a block's flow here.
#[inline]
pub(crate) fn note_entry(entries: &mut [u16], slot: Slot, entry: u16) {
    if slot.is_some() && !entries.is_empty() {
        entries[slot.index()] = entry;
    }
}

/// A block with its entry.
#[inline]
pub(crate) fn block(entries: &[u16], slot: Slot) -> Block {
    Block { slot, entry: entries.get(slot.index()).copied().unwrap_or(0) }
}
