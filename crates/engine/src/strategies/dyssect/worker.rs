//! A core's side: as a worker it has shards, as an offloader it steps parts of others' shards.
//!
//! What it does between two batches, in this order: it looks at the controller's signals, takes in shards and parts that
//! have come, answers recalls, and does what shards need next. Then it takes packets: those that have waited, and by turns
//! those of its own queue and those of a worker that it serves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use control::{
    BUCKETS, Event, Message, Migration, Offloading, Order, Orders, Route, Split, Todo, migration, offloading,
};
use io::{Frame, Port, Received};
use ring::{Consumer, Producer, ring};
use table::Watermark;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::moves::{Moves, OwnCounters};
use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::{Leaving, NOBODY, bucket_of};
use crate::path::receive::{Intake, IntakeCounters};
use crate::strategies::dyssect::card::Referring;
use crate::strategies::dyssect::counters::{
    BLOCKED, OFFLOADED_PACKETS, PARTS_LENT, REFERRED_PACKETS, WRONG_REFERENCES,
};
use crate::strategies::dyssect::meter::Meter;
use crate::strategies::dyssect::unit::{Unit, Which, WholeShard};

/// What the controller tells a core, when so many packets of the core's queue, from the first ever, have been worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) after: u64,
    pub(super) says: Says,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// This is what should be offloaded of a shard, which has gone from core to core so often.
    Ratio { shard: u16, split: Split, tenure: u32 },
    /// Who is to step what this core offloads.
    Offloader(Option<u16>),
}

/// Packets on their way from a worker to an offloader: Q^offloading.
const OFFLOADING_PACKETS: usize = 512;

/// Packets that may wait at a worker for a part of their shard before it takes no more from its queue: Q^pending and what
/// finds no room in Q^offloading.
const WAITING_PACKETS: usize = 2048;

/// Packets for which there is room from the beginning that wait for their shard: Q^held. There can be as many as there are
/// buffers, since a worker that took no packets would not come to those that other cores wait for.
const HELD_PACKETS: usize = 1024;

/// Orders and signals of each shard that a core may have that it has not looked at.
const IN_HAND: usize = 16;

/// Blocks that are looked at between two batches for flows that change parts: 8 KiB of entries.
const BLOCKS_PER_TURN: usize = 4096;

/// Flows that change parts between two batches. At some 200 ns each other flows wait as for one batch.
const FLOWS_PER_TURN: usize = 128;

/// Flows that go from one part of a shard to the other, as far as it has come.
#[derive(Clone, Copy)]
struct Arranging {
    shard: u16,
    /// What is in the offloaded part, and what will be: one has all buckets of the other.
    splits: (Split, Split),
    group: usize,
    /// The next block of the group to look at.
    block: usize,
}

/// Stands between a core's port and its chain under `dyssect`.
pub(super) struct Core {
    migration: Migration<Frame, WholeShard>,
    offloading: Offloading<Frame, Unit>,
    signals: Consumer<Signal>,
    /// Signals for shards that are yet to come.
    early: Vec<(u16, Split, u32)>,
    /// By shard, how often it had gone from core to core when it came here; `None` if it is elsewhere.
    tenures: Box<[Option<u32>]>,
    /// By shard, how it is split, where one of its parts is here.
    splits: Box<[Split]>,
    /// By shard, who gets it as soon as all of it is here.
    leaving: Box<[Option<u16>]>,
    /// What found no room in another core's mail.
    outgoing: VecDeque<(u16, Message<WholeShard>)>,
    arranging: VecDeque<Arranging>,
    /// By entry, whether its flows are among those that change parts now.
    changes_part: Box<[u16]>,
    /// Frames that have just been received.
    arrived: Vec<Frame>,
    /// Whether shards may have something to do.
    is_restless: bool,
    /// Whether other cores' packets are taken ahead of those of the own queue.
    serves_first: bool,
    /// Whether the own queue has ended.
    has_ended: bool,
    /// The latest time that this core has seen in its own queue.
    now_ns: u64,
    moves: Moves,
    /// How often a part of a shard was lent to this core.
    parts_lent: u64,
    /// Packets that were stepped here for another core.
    offloaded_packets: u64,
    /// Whether flows came, went or changed parts in the last turn.
    has_worked: bool,
    /// Where the controller wants to know.
    meter: Option<Arc<Meter>>,
    /// When the last batch was begun, and how many packets it has.
    begun: Option<(Instant, usize)>,
    /// Where a card looks flows up.
    card: Option<Referring>,
}

impl Core {
    /// One for each core; `owners[shard]` has the shard at first.
    pub(super) fn all(
        owners: &[u16],
        cores: usize,
        meter: Option<&Arc<Meter>>,
        links: Vec<Option<Referring>>,
    ) -> (Orders, Vec<Producer<Signal>>, Vec<Core>) {
        let (orders, migrations) = migration(owners, cores, IN_HAND * owners.len());
        let offloadings = offloading(owners, cores, OFFLOADING_PACKETS);
        let mut signals = Vec::new();
        let mut all = Vec::new();
        let protocols = migrations.into_iter().zip(offloadings).zip(links);
        for (number, ((mut migration, mut offloading), card)) in protocols.enumerate() {
            migration.reserve(HELD_PACKETS);
            offloading.reserve(WAITING_PACKETS + BATCH_PACKETS);
            let (to_core, of_controller) = ring(IN_HAND * owners.len());
            signals.push(to_core);
            all.push(Core {
                migration,
                offloading,
                signals: of_controller,
                early: Vec::new(),
                tenures: owners.iter().map(|owner| (usize::from(*owner) == number).then_some(0)).collect(),
                splits: vec![Split::NONE; owners.len()].into(),
                leaving: vec![None; owners.len()].into(),
                outgoing: VecDeque::new(),
                arranging: VecDeque::with_capacity(owners.len()),
                changes_part: vec![NOBODY; owners.len() * usize::from(BUCKETS)].into(),
                arrived: Vec::with_capacity(BATCH_PACKETS),
                is_restless: false,
                serves_first: false,
                has_ended: false,
                now_ns: 0,
                moves: Moves::default(),
                parts_lent: 0,
                offloaded_packets: 0,
                has_worked: false,
                meter: meter.cloned(),
                begun: None,
                card,
            });
        }
        (orders, signals, all)
    }

    fn shards(&self) -> usize {
        self.tenures.len()
    }

    /// The controller's signals (Algorithm 1, line 17).
    fn look_at_signals(&mut self, worked_off: u64) {
        while self.signals.peek().is_some_and(|signal| signal.after <= worked_off) {
            let Some(Signal { says, .. }) = self.signals.pop() else { return };
            self.is_restless = true;
            match says {
                Says::Offloader(core) => self.offloading.offload_to(core),
                Says::Ratio { shard, split, tenure } => match self.tenures[usize::from(shard)] {
                    Some(here) if here == tenure => self.offloading.want(shard, split),
                    _ => self.early.push((shard, split, tenure)),
                },
            }
        }
    }

    /// Shards, and parts of shards, that have come, and parts that are wanted back.
    fn take_in(&mut self, chain: &mut ChainCore) {
        if let Some((Some(shard), WholeShard { unit, ratio, tenure })) = self.migration.receive() {
            (self.is_restless, self.has_worked) = (true, true);
            self.moves.entries_in += 1;
            self.put(shard, unit, chain);
            self.offloading.arrived(shard, ratio);
            self.tenures[usize::from(shard)] = Some(tenure);
            // In the order in which they were given: the last one counts.
            for (_, split, _) in self.early.extract_if(.., |(of, _, when)| (*of, *when) == (shard, tenure)) {
                self.offloading.want(shard, split);
            }
        }
        self.offloading.flush();
        while let Some(event) = self.offloading.event() {
            (self.is_restless, self.has_worked) = (true, true);
            match event {
                Event::Lent(shard, unit) => {
                    self.parts_lent += 1;
                    self.put(shard, unit, chain);
                }
                Event::Returned(shard, unit) => self.put(shard, unit, chain),
                Event::Recalled { shard, to } => {
                    let unit = self.take(shard, Which::Offloaded, chain);
                    self.offloading.give_back(to, shard, unit);
                }
            }
        }
    }

    fn put(&mut self, shard: u16, unit: Unit, chain: &mut ChainCore) {
        self.splits[usize::from(shard)] = unit.split;
        unit.put(chain);
    }

    fn take(&self, shard: u16, which: Which, chain: &mut ChainCore) -> Unit {
        Unit::take(chain, self.shards(), shard, which, self.splits[usize::from(shard)])
    }

    /// What shards need next (Algorithm 3).
    fn look_after_shards(&mut self, chain: &mut ChainCore, worked_off: u64) {
        while let Some(Order { entry, to, .. }) = self.migration.next_order(worked_off) {
            // What the controller said before it gave the order is here, too.
            self.look_at_signals(worked_off);
            self.is_restless = true;
            self.leaving[usize::from(entry)] = Some(to);
            self.offloading.leave(entry);
        }
        self.arrange(chain);
        if self.is_restless {
            for shard in 0..self.shards() as u16 {
                if let Some(todo) = self.offloading.todo(shard) {
                    self.start(todo, shard, chain);
                }
            }
            self.is_restless = !self.offloading.is_content();
        }
        while let Some((to, message)) = self.outgoing.pop_front() {
            if let Err(message) = self.migration.send(to, message) {
                self.outgoing.push_front((to, message));
                break;
            }
        }
    }

    /// Does what a shard needs, or begins it.
    fn start(&mut self, todo: Todo, shard: u16, chain: &mut ChainCore) {
        match todo {
            Todo::Arrange { from, to } => {
                self.arranging.push_back(Arranging { shard, splits: (from, to), group: 0, block: 0 });
            }
            Todo::Lend(core) if self.offloading.has_room(core) => {
                let unit = self.take(shard, Which::Offloaded, chain);
                let lent = self.offloading.lend(shard, core, unit);
                debug_assert!(lent.is_ok(), "there was room");
            }
            Todo::Lend(_) => (),
            Todo::Leave => {
                let unit = self.take(shard, Which::Both, chain);
                let ratio = self.offloading.left(shard);
                let tenure = self.tenures[usize::from(shard)].take().unwrap_or(0) + 1;
                if let Some(to) = self.leaving[usize::from(shard)].take() {
                    let whole = WholeShard { unit, ratio, tenure };
                    self.outgoing.push_back((to, Message::Last(shard, whole)));
                    self.moves.entries_out += 1;
                }
            }
        }
    }

    /// Moves some of the flows that are to change parts.
    fn arrange(&mut self, chain: &mut ChainCore) {
        let Some(mut at) = self.arranging.pop_front() else { return };
        self.has_worked = true;
        let (from, to) = at.splits;
        let (low, high, first) = (from.buckets.min(to.buckets), from.buckets.max(to.buckets), at.group);
        let (kept, offloaded) = (2 * usize::from(at.shard), 2 * usize::from(at.shard) + 1);
        let parts = if from.buckets < to.buckets { (kept, offloaded) } else { (offloaded, kept) };
        let entry = |place: u8| usize::from(to.place(place)) * self.tenures.len() + usize::from(at.shard);
        (low..high).for_each(|place| self.changes_part[entry(place)] = 0);
        // Packets that wait for these flows are older than the newest that came.
        let watermark = Watermark::claim(self.now_ns.min(self.oldest_ns()));
        let mut leaving = Leaving {
            to: &self.changes_part,
            blocks_left: BLOCKS_PER_TURN,
            flows_left: FLOWS_PER_TURN,
            only: None,
        };
        for (group, by_shard) in chain.shard_tables().skip_while(|(group, _)| *group < first) {
            let block = if group == at.group { at.block } else { 0 };
            let next = by_shard.arrange(parts, block, &mut leaving, watermark, self.now_ns);
            (at.group, at.block) = next.map_or((group + 1, 0), |block| (group, block));
            if next.is_some() {
                break;
            }
        }
        (low..high).for_each(|place| self.changes_part[entry(place)] = NOBODY);
        if chain.shard_tables().any(|(group, _)| group >= at.group) {
            return self.arranging.push_front(at);
        }
        chain.shard_tables().for_each(|(_, by_shard)| by_shard.split(at.shard.into(), to));
        self.splits[usize::from(at.shard)] = to;
        self.offloading.arranged(at.shard);
        self.is_restless = true;
    }

    /// No packet will come to this core that is older than this and than those of the batch.
    fn oldest_ns(&self) -> u64 {
        let waiting = self.migration.held().chain(self.offloading.waiting());
        waiting.map(|frame| frame.stamp.time_ns).min().unwrap_or(u64::MAX)
    }

    /// Takes packets from the own queue (Algorithm 2, lines 5 to 15): at most as many as the batch has room for.
    fn take_own(&mut self, port: &mut dyn Port, batch: &mut Batch) {
        if self.offloading.waiting().len() >= WAITING_PACKETS {
            return;
        }
        let room = BATCH_PACKETS - batch.frames.len();
        match port.receive(&mut self.arrived, room) {
            Received::End => self.has_ended = true,
            Received::Frames | Received::Idle => (),
        }
        let Some(last) = self.arrived.last() else { return };
        self.now_ns = self.now_ns.max(last.stamp.time_ns);
        // An order that was given before one of these packets was sent is here, too.
        self.migration.look();
        let mut arrived = std::mem::take(&mut self.arrived);
        for frame in arrived.drain(..) {
            let shard = frame.entry & (self.shards() - 1) as u16;
            if self.migration.has(shard, frame.stamp.seq) {
                let waits = self.route(frame, port, batch);
                self.moves.waited_packets += u64::from(waits);
            } else {
                self.moves.waited_packets += 1;
                self.migration.hold(shard, frame.stamp.seq, frame);
            }
        }
        self.arrived = arrived;
    }

    /// Packets that waited for their shard (Algorithm 2, lines 2 to 4).
    fn take_held(&mut self, port: &mut dyn Port, batch: &mut Batch) {
        let mut released = std::mem::take(&mut self.arrived);
        self.migration.release(BATCH_PACKETS - batch.frames.len(), &mut released);
        for frame in released.drain(..) {
            // It has waited, whether it goes on waiting or not.
            self.route(frame, port, batch);
        }
        self.arrived = released;
    }

    /// Puts a packet of a shard that is here where it is stepped, or where it waits: says whether it does.
    #[inline]
    fn route(&mut self, frame: Frame, port: &mut dyn Port, batch: &mut Batch) -> bool {
        let shards = self.shards();
        let (shard, bucket) =
            (frame.entry & (shards - 1) as u16, bucket_of(frame.entry.into(), shards) as u8);
        match self.offloading.route(shard, bucket) {
            Route::Here => batch.frames.push(frame),
            Route::Offloader(core) if self.offloading.has_room(core) => {
                port.hand_over(std::slice::from_ref(&frame));
                let sent = self.offloading.send(core, frame);
                debug_assert!(sent.is_ok(), "there was room");
            }
            Route::Offloader(_) | Route::Wait => {
                self.offloading.wait(shard, bucket, frame);
                return true;
            }
        }
        false
    }

    /// Takes packets of one worker that this core serves.
    fn take_others(&mut self, port: &mut dyn Port, batch: &mut Batch) {
        let before = batch.frames.len();
        let taken = self.offloading.serve(BATCH_PACKETS - before, &mut batch.frames);
        self.offloaded_packets += taken as u64;
        let ours = port.take_over(&batch.frames[before..]);
        debug_assert!(ours.is_ok(), "the ports of a run reach each other's frames");
    }

    /// Packets that wait for flows on their way.
    fn held(&self) -> usize {
        self.migration.held().len() + self.offloading.waiting().len()
    }

    /// Whether this core is done, and all others are.
    fn is_over(&mut self) -> bool {
        let is_done = self.has_ended
            && self.migration.is_settled()
            && self.offloading.is_at_rest()
            && self.outgoing.is_empty();
        if is_done {
            self.offloading.finish();
        }
        self.offloading.is_over() || self.migration.is_broken() || self.offloading.is_broken()
    }
}

impl Intake for Core {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        if let (Some(meter), Some((begin, packets))) = (&self.meter, self.begun.take()) {
            meter.add(begin.elapsed().as_nanos() as u64, packets as u64);
        }
        self.has_worked = false;
        self.look_at_signals(port.consumed());
        self.take_in(chain);
        self.look_after_shards(chain, port.consumed());
        if self.offloading.waiting().len() > 0 {
            self.offloading.release(BATCH_PACKETS, &mut batch.frames, |frame| {
                port.hand_over(std::slice::from_ref(frame));
            });
        }
        self.take_held(port, batch);
        if self.serves_first && batch.frames.is_empty() {
            self.take_others(port, batch);
        }
        if batch.frames.is_empty() || !self.serves_first {
            self.take_own(port, batch);
        }
        if batch.frames.is_empty() && !self.serves_first {
            self.take_others(port, batch);
        }
        self.serves_first = !self.serves_first;
        batch.oldest_ns = self.oldest_ns();
        // While there is nothing to do a core sleeps: that is no time of service.
        let is_timed = self.meter.is_some() && !batch.frames.is_empty();
        self.begun = is_timed.then(|| (Instant::now(), batch.frames.len()));
        if let (Some(meter), Some((begin, packets)), Some(clock)) = (&self.meter, self.begun, port.clock()) {
            // The first has waited longest, or nearly so.
            meter.add_wait(clock.waited_ns(batch.frames[0].stamp.time_ns, begin), packets as u64);
        }
        match batch.frames.is_empty() {
            false => Received::Frames,
            true if self.is_over() => Received::End,
            true => Received::Idle,
        }
    }

    fn step(&mut self, chain: &mut ChainCore, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        match &mut self.card {
            None => chain.process(batch, port, laps),
            Some(card) => card.step(chain, batch, port, laps),
        }
    }

    fn took(&mut self, busy_ns: u64, packets: u64) {
        self.begun = None;
        if let Some(meter) = &self.meter {
            meter.add(busy_ns, packets);
        }
    }

    fn counters(&self) -> IntakeCounters {
        let (right, wrong) = self.card.as_ref().map_or((0, 0), |card| (card.right, card.wrong));
        let own = OwnCounters::new([
            (&PARTS_LENT, self.parts_lent),
            (&OFFLOADED_PACKETS, self.offloaded_packets),
            (&BLOCKED, self.offloading.blocked()),
            (&REFERRED_PACKETS, right),
            (&WRONG_REFERENCES, wrong),
        ]);
        let moves = Moves { held_packets: self.held() as u64, own, ..self.moves };
        IntakeCounters { moves, ..IntakeCounters::default() }
    }

    fn has_worked(&self) -> bool {
        self.has_worked
    }

    fn is_busy(&self) -> bool {
        !self.arranging.is_empty() || !self.outgoing.is_empty() || self.held() > 0
    }
}
