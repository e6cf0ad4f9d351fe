//! The collector: where packets leave a replay port, and in which order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ring::Consumer;
use wire::Stamp;

use super::arena::{Arena, Returns};
use crate::simulation::give_turn;
use crate::{Done, Fate, Waiting};

/// Where packets leave.
pub struct Collector {
    arena: Arc<Arena>,
    broken: Arc<AtomicBool>,
    from_queues: Vec<Consumer<Done>>,
    next_seq: u64,
    /// The queue that had the last packet: packets come in trains.
    likely: usize,
    blocked: Arc<AtomicU64>,
    order: Order,
}

/// In which order packets leave.
///
/// Where it is that in which they entered, a packet that is ready ahead of its turn waits. That is bounded by the
/// queues' rings where each queue sends in order: the core whose ring is full waits, and the packet that all wait for
/// is another core's, which does not. Where cores may wait for each other, none may be made to wait for another's
/// packet; so the collector empties the rings, and the bound is the arena: the feeder waits, and the cores go on.
pub(super) enum Order {
    /// As they entered; queues send theirs so.
    ByQueue,
    /// As they entered, by number; queues send in any order. From the next packet on, what came early.
    ByNumber(VecDeque<Option<Done>>),
    /// As they entered, whatever numbers queues give them: by the place in memory, of which each frame has one of
    /// its own.
    ByPlace(HashMap<u32, Done>),
    /// As queues sent them.
    AsReady(AsReady),
}

impl Order {
    pub(super) fn by_number(_: &Arc<Arena>) -> Order {
        Order::ByNumber(VecDeque::new())
    }

    pub(super) fn by_place(_: &Arc<Arena>) -> Order {
        Order::ByPlace(HashMap::new())
    }

    pub(super) fn as_ready(arena: &Arc<Arena>) -> Order {
        Order::AsReady(AsReady { returns: Returns::new(Arc::clone(arena)), queue: 0, run: 0, before: 0 })
    }
}

/// Packets leave as queues send them.
pub(super) struct AsReady {
    returns: Returns,
    /// The queue whose packets are taken.
    queue: usize,
    /// How many may be before the others are looked at again.
    run: usize,
    /// Only such as were sent before this one.
    before: u64,
}

impl Collector {
    pub(super) fn new(
        arena: Arc<Arena>,
        broken: Arc<AtomicBool>,
        from_queues: Vec<Consumer<Done>>,
        blocked: Arc<AtomicU64>,
    ) -> Collector {
        Collector { arena, broken, from_queues, next_seq: 0, likely: 0, blocked, order: Order::ByQueue }
    }

    /// With packets that leave in another order.
    pub(super) fn in_order(self, order: fn(&Arc<Arena>) -> Order) -> Collector {
        Collector { order: order(&self.arena), ..self }
    }

    /// Where packets come from number `first` on.
    pub fn starting_at(self, first: u64) -> Collector {
        Collector { next_seq: first, ..self }
    }

    /// The next packet; waits for it. `None` when every queue has ended.
    ///
    /// A queue that went away with packets in its hands ends the collection there, since its packets
    /// will never come: the count of packets tells.
    pub fn collect(&mut self) -> Option<Done> {
        give_turn();
        let waiting = Waiting::default();
        loop {
            if let Some(done) = self.pop_next() {
                return Some(done);
            }
            let is_broken = self.broken.load(Ordering::Acquire);
            let ended = is_broken || self.from_queues.iter().all(Consumer::is_abandoned);
            if ended {
                // What the last queue sent just before it ended.
                return self.pop_next();
            }
            waiting.wait();
        }
    }

    /// The packet's bytes.
    pub fn bytes<'a>(&'a self, done: &'a Done) -> &'a [u8] {
        self.arena.bytes(&done.frame.place)
    }

    /// Gives the packet's memory back.
    pub fn release(&mut self, done: Done) -> (Stamp, Fate) {
        let Done { frame, fate, .. } = done;
        match &mut self.order {
            Order::AsReady(ready) => ready.returns.give_back(frame.place),
            Order::ByQueue | Order::ByNumber(_) | Order::ByPlace(_) => self.arena.give_back(frame.place),
        }
        (frame.stamp, fate)
    }

    /// How many batches had to wait so far, on any core, since the way out was full: where packets leave in order,
    /// for an earlier packet of a slower core; under any order, for the thread that takes packets here.
    pub fn blocked_batches(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// The next packet, if it is there.
    pub(super) fn pop_next(&mut self) -> Option<Done> {
        let done = match &mut self.order {
            Order::ByQueue => self.pop_from_queue(),
            Order::ByNumber(early) => {
                for queue in &mut self.from_queues {
                    while let Some(done) = queue.pop() {
                        let ahead = (done.frame.stamp.seq - self.next_seq) as usize;
                        debug_assert!(ahead < self.arena.frames_max(), "no more is out than the arena holds");
                        if early.len() <= ahead {
                            early.resize_with(ahead + 1, || None);
                        }
                        early[ahead] = Some(done);
                    }
                }
                early.front_mut()?.take().inspect(|_| {
                    early.pop_front();
                })
            }
            Order::ByPlace(early) => {
                for queue in &mut self.from_queues {
                    while let Some(done) = queue.pop() {
                        early.insert(done.frame.place.first_line, done);
                    }
                }
                early.remove(&self.arena.next_back())
            }
            Order::AsReady(ready) => ready.pop(&mut self.from_queues),
        }?;
        self.next_seq += 1;
        Some(done)
    }

    fn pop_from_queue(&mut self) -> Option<Done> {
        let queues = self.from_queues.len();
        for queue in (self.likely..queues).chain(0..self.likely) {
            let is_next = |done: &Done| done.frame.stamp.seq == self.next_seq;
            if self.from_queues[queue].peek().is_some_and(is_next) {
                self.likely = queue;
                return self.from_queues[queue].pop();
            }
        }
        None
    }
}

impl AsReady {
    /// Takes the packet that was sent first, of all that are there.
    ///
    /// So flows that go from core to core stay in order: a core that sends a flow's packet has heard of all that
    /// were sent before it, and the thread that sees that packet here sees those.
    #[inline]
    fn pop(&mut self, queues: &mut [Consumer<Done>]) -> Option<Done> {
        loop {
            if self.run > 0 {
                self.run -= 1;
                let before = self.before;
                let queue = &mut queues[self.queue];
                if queue.peek().is_some_and(|done| done.sent < before) {
                    return queue.pop();
                }
                self.run = 0;
            }
            self.begin_run(queues)?;
        }
    }

    /// Picks the queue to go on with. Packets that nobody has seen yet may have been sent before some that are here
    /// by then, but not before those counted in the first pass, which are all that this run takes.
    fn begin_run(&mut self, queues: &mut [Consumer<Done>]) -> Option<()> {
        let (queue, _, run) = queues
            .iter_mut()
            .enumerate()
            .filter_map(|(index, queue)| {
                let ready = queue.len();
                queue.peek().filter(|_| ready > 0).map(|done| (index, done.sent, ready))
            })
            .min_by_key(|(_, sent, _)| *sent)?;
        let others = queues.iter_mut().enumerate().filter(|(index, _)| *index != queue);
        let next = others.filter_map(|(_, queue)| queue.peek().map(|done| done.sent)).min();
        (self.queue, self.run, self.before) = (queue, run, next.unwrap_or(u64::MAX));
        Some(())
    }
}
