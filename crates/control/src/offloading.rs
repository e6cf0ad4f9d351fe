//! Offloading: a worker has some of a shard's flows stepped by another core (Dyssect, INFOCOM'22, §II-B).
//!
//! ```text
//!  worker W                                              offloader O
//!    lends the shard's offloaded part ──────────────────►  takes it in
//!    packets of offloaded buckets ──────────────────────►  steps them
//!  the ratio changes
//!    recall ────────────────────────────────────────────►  steps what came before,
//!    packets of buckets that may change cores wait       ◄── returns the part
//!    moves flows between the two parts
//!    lends the part, sends what waited for O ───────────►  takes it in, steps them
//!    steps what waited for itself
//! ```
//!
//! A *bucket* is a share of a shard's hash values; a shard has [`BUCKETS`]. A [`Split`] says which buckets are the shard's
//! offloaded part; the others are its kept part. Each part has a table of its own, and is on one core at any time.
//!
//! **No packet out of order.** The ring from W to O is first in, first out. A recall is behind all packets that were
//! sent, and O returns the part after it has stepped these. While the part is on its way, and until W has
//! arranged it anew, packets of all buckets that may change cores wait at W. They are released in order of arrival, and
//! a packet of such a bucket waits as long as an earlier one does.
//!
//! **No deadlock.** A core that serves others never waits for them: it steps packets, and returns parts as soon as there
//! is room. So every recall is answered, and every ring is emptied.
//!
//! **Everything is bounded** but for the packets that wait, of which there are no more than buffers. A full ring makes a
//! packet wait at the worker, is counted, and loses nothing.

use std::collections::VecDeque;

use ring::{Consumer, Producer, ring};

use crate::split::{BUCKETS, Split};
use crate::sync::{Arc, AtomicUsize, Ordering};

/// What one core sends another.
#[derive(Debug)]
enum Item<T, U> {
    /// A packet to be stepped.
    Packet(T),
    /// The offloaded part of a shard, for the offloader.
    Lend(u16, U),
    /// The worker wants the part back.
    Recall(u16),
    /// The part, for its worker.
    Return(u16, U),
}

/// Where a packet is to be stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// On this core.
    Here,
    /// On this core's offloader: see [`Offloading::send`].
    Offloader(u16),
    /// Nowhere yet: see [`Offloading::wait`].
    Wait,
}

/// What has come from another core, to be dealt with before any packet.
#[derive(Debug)]
pub enum Event<U> {
    /// This core steps the part of the shard for another.
    Lent(u16, U),
    /// Another core wants the part of a shard back: take it, and [return](Offloading::give_back) it.
    Recalled {
        /// Which shard.
        shard: u16,
        /// Who wants it.
        to: u16,
    },
    /// A part of this core's own shard is back.
    Returned(u16, U),
}

/// What a worker has to do for a shard between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Move flows between the parts, so that `to` is offloaded where `from` was; then say [`Offloading::arranged`]. One has
    /// all buckets of the other: both have one mask.
    Arrange {
        /// What was offloaded.
        from: Split,
        /// What will be.
        to: Split,
    },
    /// Take the offloaded part and [lend](Offloading::lend) it to this core.
    Lend(u16),
    /// The shard is to leave this core, and all of it is here: hand it over, and say [`Offloading::left`].
    Leave,
}

/// Where the offloaded part of a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Here,
    At(u16),
    Recalled,
}

/// A shard, as its worker sees it.
#[derive(Clone, Copy, Debug)]
struct Shard {
    is_here: bool,
    is_leaving: bool,
    part: Part,
    /// What is in the offloaded part.
    split: Split,
    /// What should be.
    wanted: Split,
    /// While flows move between the parts: what will be in the offloaded one.
    arranging: Option<Split>,
    /// Packets of buckets whose places are below wait, while anything changes or earlier ones wait.
    border: u8,
    /// Packets that wait.
    waiting: u32,
}

impl Shard {
    fn is_changing(&self) -> bool {
        self.part == Part::Recalled || self.arranging.is_some()
    }

    /// What is to be in the offloaded part next. Buckets are put in another order where all of them are kept.
    fn next(&self) -> Split {
        match self.wanted.mask == self.split.mask {
            true => self.wanted,
            false => Split { buckets: 0, ..self.split },
        }
    }

    /// Packets of buckets that the next change may concern wait from here on.
    fn draw_border(&mut self) {
        let border = if self.waiting > 0 { self.border } else { 0 };
        self.border = border.max(self.split.buckets).max(self.next().buckets);
    }
}

#[derive(Debug)]
struct Waiting<T> {
    shard: u16,
    bucket: u8,
    packet: T,
}

/// One core's side of offloading, as a worker and as an offloader. `T` is a packet, `U` the offloaded part of a shard.
#[derive(Debug)]
pub struct Offloading<T, U> {
    /// By core; a core sends nothing to itself.
    outboxes: Vec<Option<Producer<Item<T, U>>>>,
    inboxes: Vec<Option<Consumer<Item<T, U>>>>,
    shards: Box<[Shard]>,
    /// Who steps this core's offloaded flows.
    offloader: Option<u16>,
    /// Packets that wait at this worker, in order of arrival.
    waiting: VecDeque<Waiting<T>>,
    /// Parts that find no room on their way back.
    returning: VecDeque<(u16, u16, U)>,
    /// The core whose packets are served next.
    next: usize,
    /// Cores that send no more packets.
    finished: Arc<AtomicUsize>,
    is_finished: bool,
    /// How often the ring to the offloader was full.
    blocked: u64,
    /// What is done wrong, for the model checker to find.
    #[cfg(test)]
    fault: Fault,
}

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "planted by the model alone")]
enum Fault {
    #[default]
    None,
    /// A part counts as back as soon as it is wanted.
    NoRecall,
    /// Packets do not wait for a part that is on its way.
    NobodyWaits,
    /// Buckets are put in another order while some packets wait in the old one.
    OrderUnderWaiting,
    /// Events are looked at while packets are half done: planted by the caller.
    HalfDone,
}

/// The offloading protocol of `cores` cores for `owners.len()` shards: `owners[shard]` has the shard at first, with both
/// parts and nothing offloaded. `room` is how many packets can be on their way from one core to another.
///
/// # Panics
/// If an owner is not a core.
pub fn offloading<T, U>(owners: &[u16], cores: usize, room: usize) -> Vec<Offloading<T, U>> {
    assert!(owners.iter().all(|owner| usize::from(*owner) < cores), "an owner that is not a core");
    let finished = Arc::new(AtomicUsize::new(0));
    let mut all: Vec<Offloading<T, U>> = (0..cores)
        .map(|core| Offloading {
            outboxes: (0..cores).map(|_| None).collect(),
            inboxes: (0..cores).map(|_| None).collect(),
            shards: owners.iter().map(|owner| Shard::new(usize::from(*owner) == core)).collect(),
            offloader: None,
            waiting: VecDeque::new(),
            returning: VecDeque::with_capacity(owners.len()),
            next: 0,
            finished: Arc::clone(&finished),
            is_finished: false,
            blocked: 0,
            #[cfg(test)]
            fault: Fault::None,
        })
        .collect();
    for from in 0..cores {
        for to in (0..cores).filter(|to| *to != from) {
            let (outbox, inbox) = ring(room);
            all[from].outboxes[to] = Some(outbox);
            all[to].inboxes[from] = Some(inbox);
        }
    }
    all
}

impl Shard {
    fn new(is_here: bool) -> Shard {
        Shard {
            is_here,
            is_leaving: false,
            part: Part::Here,
            split: Split::NONE,
            wanted: Split::NONE,
            arranging: None,
            border: 0,
            waiting: 0,
        }
    }
}

/// As a worker.
impl<T, U> Offloading<T, U> {
    /// Room for so many packets that wait, so that waiting allocates nothing.
    pub fn reserve(&mut self, packets: usize) {
        self.waiting.reserve(packets);
    }

    /// The controller's word: this share of the shard should be offloaded (Algorithm 1, line 8). Of a shard that is
    /// not here nothing is noted.
    ///
    /// # Panics
    /// If there are not so many buckets.
    pub fn want(&mut self, shard: u16, split: Split) {
        assert!(split.buckets <= BUCKETS && split.mask < BUCKETS, "{split:?}");
        let shard = &mut self.shards[usize::from(shard)];
        if shard.is_here {
            shard.wanted = split;
        }
    }

    /// The controller's word: this core's offloaded flows are to be stepped by another core, or by itself (Algorithm 1,
    /// line 16).
    ///
    /// # Panics
    /// If it is this core itself, or none.
    pub fn offload_to(&mut self, core: Option<u16>) {
        assert!(core.is_none_or(|core| self.outboxes[usize::from(core)].is_some()), "not another core");
        self.offloader = core;
    }

    /// The shard is to leave this core as soon as all of it is here: see [`Todo::Leave`].
    pub fn leave(&mut self, shard: u16) {
        self.shards[usize::from(shard)].is_leaving = true;
    }

    /// The shard has left. Returns how it is split between worker and offloader, and how it should be.
    pub fn left(&mut self, shard: u16) -> (Split, Split) {
        let shard = &mut self.shards[usize::from(shard)];
        debug_assert!(shard.waiting == 0 && shard.part == Part::Here, "something of it is elsewhere");
        let Shard { split, wanted, .. } = *shard;
        *shard = Shard::new(false);
        (split, wanted)
    }

    /// The shard has come, with what [`left`](Offloading::left) said.
    pub fn arrived(&mut self, shard: u16, (split, wanted): (Split, Split)) {
        self.shards[usize::from(shard)] = Shard { split, wanted, ..Shard::new(true) };
    }

    /// Where the next packet of this bucket is to be stepped (Algorithm 2, lines 9 to 15).
    #[inline]
    pub fn route(&self, shard: u16, bucket: u8) -> Route {
        let shard = &self.shards[usize::from(shard)];
        let place = shard.split.place(bucket);
        if place < shard.border && (shard.waiting > 0 || shard.is_changing()) && !self.has(Fault::NobodyWaits)
        {
            return Route::Wait;
        }
        match shard.part {
            Part::At(core) if place < shard.split.buckets => Route::Offloader(core),
            _ => Route::Here,
        }
    }

    /// Sends a packet to the offloader, if [there is room](Offloading::has_room). If not, it has to
    /// [wait](Offloading::wait).
    ///
    /// # Errors
    /// The packet, if there was no room.
    #[inline]
    pub fn send(&mut self, core: u16, packet: T) -> Result<(), T> {
        let outbox = self.outboxes[usize::from(core)].as_mut().expect("another core");
        match outbox.push(Item::Packet(packet)) {
            Ok(()) => Ok(()),
            Err(Item::Packet(packet)) => Err(packet),
            Err(_) => unreachable!("a packet was sent"),
        }
    }

    /// Keeps a packet until it can be stepped somewhere.
    pub fn wait(&mut self, shard: u16, bucket: u8, packet: T) {
        let of = &mut self.shards[usize::from(shard)];
        if of.split.place(bucket) >= of.border {
            // The ring was full: those behind wait, too.
            of.border = of.border.max(of.split.buckets);
        }
        of.waiting += 1;
        self.waiting.push_back(Waiting { shard, bucket, packet });
    }

    /// Packets that wait.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &T> {
        self.waiting.iter().map(|waiting| &waiting.packet)
    }

    /// Takes up to `max` packets that can be stepped here now to `out`, and sends those that are the offloader's
    /// (Algorithm 3, lines 5 and 7). O(packets that wait).
    ///
    /// `hand_over` is told of each packet that is sent, before it is.
    pub fn release(&mut self, max: usize, out: &mut Vec<T>, mut hand_over: impl FnMut(&T)) {
        let mut left = max;
        let mut is_full = false;
        // Once around: what stays keeps its order. Where one packet has to stay, all later ones of its bucket do: the
        // offloader may make room in the middle.
        for _ in 0..self.waiting.len() {
            let Some(Waiting { shard, bucket, packet }) = self.waiting.pop_front() else { break };
            let of = self.shards[usize::from(shard)];
            let stays = match of.part {
                _ if of.is_changing() => Some(packet),
                Part::At(core) if of.split.has(bucket) => {
                    is_full = is_full || !self.has_room(core);
                    match is_full {
                        true => Some(packet),
                        false => {
                            hand_over(&packet);
                            self.send(core, packet).err()
                        }
                    }
                }
                _ if left > 0 => {
                    left -= 1;
                    out.push(packet);
                    None
                }
                _ => Some(packet),
            };
            match stays {
                Some(packet) => self.waiting.push_back(Waiting { shard, bucket, packet }),
                None => self.shards[usize::from(shard)].waiting -= 1,
            }
        }
    }

    /// What is to be done for a shard now, if anything is: first its ratio, then its offloader, then its leaving
    /// (Algorithm 3: the functions are called in this order). Recalls its offloaded part where that is needed.
    pub fn todo(&mut self, number: u16) -> Option<Todo> {
        let (offloader, has_no_recall) = (self.offloader, self.has(Fault::NoRecall));
        let under_waiting = self.has(Fault::OrderUnderWaiting);
        let shard = &mut self.shards[usize::from(number)];
        if self.is_finished || !shard.is_here || shard.arranging.is_some() {
            return None;
        }
        match shard.part {
            Part::Recalled => None,
            Part::At(core) => {
                let stays = shard.split == shard.wanted && offloader == Some(core) && !shard.is_leaving;
                if !stays && has_no_recall {
                    shard.part = Part::Here;
                    return None;
                }
                let outbox = self.outboxes[usize::from(core)].as_mut().expect("another core");
                if !stays && outbox.push(Item::Recall(number)).is_ok() {
                    shard.draw_border();
                    shard.part = Part::Recalled;
                }
                None
            }
            Part::Here if shard.split != shard.wanted => {
                if shard.split.buckets == 0 && shard.split.mask != shard.wanted.mask {
                    // What waits was held back by its place in the old order.
                    if shard.waiting > 0 && !under_waiting {
                        return None;
                    }
                    (shard.split.mask, shard.border) = (shard.wanted.mask, 0);
                    return self.todo(number);
                }
                let (from, to) = (shard.split, shard.next());
                shard.draw_border();
                shard.arranging = Some(to);
                Some(Todo::Arrange { from, to })
            }
            Part::Here if shard.is_leaving => (shard.waiting == 0).then_some(Todo::Leave),
            Part::Here if shard.split.buckets > 0 => offloader.map(Todo::Lend),
            Part::Here => None,
        }
    }

    /// Flows have moved between the parts as [`Todo::Arrange`] asked.
    pub fn arranged(&mut self, shard: u16) {
        let shard = &mut self.shards[usize::from(shard)];
        shard.split = shard.arranging.take().unwrap_or(shard.split);
    }

    /// Lends the offloaded part of a shard to its offloader, ahead of packets.
    ///
    /// # Errors
    /// The part, if there is no room now.
    pub fn lend(&mut self, shard: u16, core: u16, part: U) -> Result<(), U> {
        let outbox = self.outboxes[usize::from(core)].as_mut().expect("another core");
        match outbox.push(Item::Lend(shard, part)) {
            Ok(()) => {
                self.shards[usize::from(shard)].part = Part::At(core);
                Ok(())
            }
            Err(Item::Lend(_, part)) => Err(part),
            Err(_) => unreachable!("a part was lent"),
        }
    }

    /// Whether what is sent to this core now would find room. If not, that is counted.
    #[inline]
    pub fn has_room(&mut self, core: u16) -> bool {
        let outbox = self.outboxes[usize::from(core)].as_mut();
        let has_room = outbox.is_some_and(|outbox| outbox.room_for(1) > 0);
        self.blocked += u64::from(!has_room);
        has_room
    }

    /// How often the ring to an offloader was full so far.
    pub fn blocked(&self) -> u64 {
        self.blocked
    }

    /// Whether this is done wrong.
    #[inline(always)]
    fn has(&self, fault: Fault) -> bool {
        #[cfg(test)]
        return self.fault == fault;
        #[cfg(not(test))]
        {
            let _ = fault;
            false
        }
    }

    /// Whether all shards are as they should be, so that none has anything [to do](Offloading::todo).
    pub fn is_content(&self) -> bool {
        let content = |shard: &Shard| match shard.part {
            _ if !shard.is_here => true,
            _ if shard.is_leaving || shard.is_changing() || shard.split != shard.wanted => false,
            Part::At(core) => self.offloader == Some(core),
            _ => shard.split.buckets == 0 || self.offloader.is_none(),
        };
        self.shards.iter().all(content)
    }

    /// Whether none of this core's packets waits, and no part of its shards is on its way.
    pub fn is_at_rest(&self) -> bool {
        self.waiting.is_empty() && self.shards.iter().all(|shard| !shard.is_changing())
    }
}

/// As an offloader.
impl<T, U> Offloading<T, U> {
    /// What has come that is no packet, if it is next. To be called when nothing is half done: a recall is
    /// answered by a part that has seen all packets before it.
    pub fn event(&mut self) -> Option<Event<U>> {
        for from in 0..self.inboxes.len() {
            let Some(inbox) = &mut self.inboxes[from] else { continue };
            if matches!(inbox.peek(), None | Some(Item::Packet(_))) {
                continue;
            }
            return match inbox.pop()? {
                Item::Packet(_) => unreachable!("it was looked at"),
                Item::Lend(shard, part) => Some(Event::Lent(shard, part)),
                Item::Recall(shard) => Some(Event::Recalled { shard, to: from as u16 }),
                Item::Return(shard, part) => {
                    self.shards[usize::from(shard)].part = Part::Here;
                    Some(Event::Returned(shard, part))
                }
            };
        }
        None
    }

    /// Returns a part that was [recalled](Event::Recalled).
    pub fn give_back(&mut self, to: u16, shard: u16, part: U) {
        self.returning.push_back((to, shard, part));
        self.flush();
    }

    /// Sends what waits to be returned.
    pub fn flush(&mut self) {
        while let Some((to, shard, part)) = self.returning.pop_front() {
            let outbox = self.outboxes[usize::from(to)].as_mut().expect("another core");
            if let Err(Item::Return(shard, part)) = outbox.push(Item::Return(shard, part)) {
                return self.returning.push_front((to, shard, part));
            }
        }
    }

    /// Takes up to `max` packets of the next core that has some: one batch from each in turn (§II-B). Says how many.
    pub fn serve(&mut self, max: usize, out: &mut Vec<T>) -> usize {
        let cores = self.inboxes.len();
        for _ in 0..cores {
            let from = self.next;
            self.next = (from + 1) % cores;
            let Some(inbox) = &mut self.inboxes[from] else { continue };
            let mut taken = 0;
            while taken < max && matches!(inbox.peek(), Some(Item::Packet(_))) {
                if let Some(Item::Packet(packet)) = inbox.pop() {
                    out.push(packet);
                    taken += 1;
                }
            }
            if taken > 0 {
                return taken;
            }
        }
        0
    }

    /// Says once that this core will send no more packets to others, and recall nothing.
    pub fn finish(&mut self) {
        if !self.is_finished {
            self.is_finished = true;
            self.finished.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether no core will send anything any more, and all that was sent is dealt with.
    pub fn is_over(&mut self) -> bool {
        // In this order: what was sent before a core finished is seen after that.
        self.finished.load(Ordering::Acquire) == self.inboxes.len()
            && self.returning.is_empty()
            && self.inboxes.iter_mut().flatten().all(Consumer::is_empty)
    }

    /// Whether some core went away before all had finished: what it had will not come.
    pub fn is_broken(&self) -> bool {
        let is_gone = self.outboxes.iter().flatten().any(Producer::is_abandoned);
        // In this order: a core goes when all have finished, and is seen gone after that.
        is_gone && self.finished.load(Ordering::Acquire) < self.inboxes.len()
    }
}

#[cfg(all(test, feature = "loom"))]
mod model;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
