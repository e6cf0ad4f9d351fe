//! Flow migration: how the flows of an indirection-table entry go from one core to another.
//!
//! ```text
//!  dispatcher                         core A                               core B
//!  entry e moves to B
//!    ── order: e to B after n ──►  steps its first n packets,
//!    packets of e to B ─────────────────────────────────────────────►  holds them
//!                                  sends the flows of e ───────────►  takes them in
//!                                                                     steps what it held, in order
//! ```
//!
//! **No packet out of order.** A packet of e that came before the move is among A's first n packets. A sends the flows
//! after those, and B steps no packet of e before it has all flows. So whatever happened to e's flows on A happens
//! before whatever happens to them on B. An entry may come back to A while A still has packets of e from before the
//! move in its queue. A tells them apart by sequence number, and holds the later ones.
//!
//! **No deadlock.** The dispatcher gives an order before it sends any later packet, and an order waits for earlier
//! packets alone. Of the packets in flight, the earliest can always be stepped, or its entry's flows are in flight.
//! That holds as long as a core can hold as many packets as there are.
//!
//! **Where a table outside steers**, such as one that a card or an XDP program looks up, nobody sees all packets in one
//! order, and no number says which of them come before a move. So the dispatcher changes the table first, waits until
//! all packets that were steered by the table before are in A's queues, and gives the order then ([`Order::UNMARKED`]).
//! A [marks](Migration::mark) how far its queues have come, and sends the flows when it has stepped all up to there:
//!
//! ```text
//!  dispatcher                         core A                               core B
//!  table: e is B's                    packets of e, in its queues          gets packets of e, holds them
//!  waits for a grace period
//!    ── order: e to B ────────────►   marks how far its queues have come
//!                                     steps all up to there
//!                                     sends the flows of e ───────────►    as above
//! ```
//!
//! A gets no packet of e behind its mark before the entry comes back, and the dispatcher moves no entry that is on its way
//! ([`Orders::are_carried_out`]). So whatever A has of e when the flows are gone is of its return.
//!
//! **Nothing is shared** but the rings and one counter, which changes when an entry moves. Each core keeps its own list
//! of the entries that it has. So a packet costs one look into an array, and a batch one look at each ring.

use std::collections::VecDeque;

use ring::{Consumer, Producer, ring};

use crate::sync::{Arc, AtomicUsize, Ordering};

/// Messages in flight from one core to another. A core that finds no room tries again later.
const MAIL: usize = 16;

/// A move order: the old core sends the flows of an entry to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which entry.
    pub entry: u16,
    /// The core that gets them.
    pub to: u16,
    /// How many of the packets of this core's queue, from the first ever, come before; or a mark of the core's own
    /// queues, which is [`Order::UNMARKED`] until the core has [made](Migration::mark) it.
    pub after: u64,
    /// The number, over all queues, from which on packets of the entry go to the other core.
    pub since_seq: u64,
    /// The time of that packet, ns: none of the entry's later packets is older.
    pub since_ns: u64,
}

impl Order {
    /// Which packets come before is for the old core to say: those that are in its queues when it sees the order.
    pub const UNMARKED: u64 = u64::MAX;
}

/// What one core sends another.
#[derive(Debug)]
pub enum Message<P> {
    /// Flows, of any of the entries that move between these two.
    Flows(P),
    /// All flows of this entry have been sent, and with them whatever else is the entry's.
    Last(u16, P),
}

/// The dispatcher's side: it gives the orders.
#[derive(Debug)]
pub struct Orders {
    to_cores: Vec<Producer<Order>>,
    outstanding: Arc<AtomicUsize>,
}

impl Orders {
    /// Tells core `from` to send the flows. Comes before the first packet that `order.to` gets because of it. Gives the
    /// order back if the core has not looked at so many others: it will, whatever else it waits for.
    ///
    /// # Errors
    /// The order.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn give(&mut self, from: usize, order: Order) -> Result<(), Order> {
        self.announce(1);
        self.give_announced(from, order).inspect_err(|_| {
            self.outstanding.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Says that so many orders will come. Nothing is settled before they are carried out.
    pub fn announce(&mut self, orders: usize) {
        self.outstanding.fetch_add(orders, Ordering::Relaxed);
    }

    /// Gives one of the orders announced, as [`Orders::give`].
    ///
    /// # Errors
    /// The order.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn give_announced(&mut self, from: usize, order: Order) -> Result<(), Order> {
        self.to_cores[from].push(order)
    }

    /// Whether each entry is on the core to which it was given last, with all its flows.
    pub fn are_carried_out(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) == 0
    }
}

/// One core's side: which entries it has, and the packets that it holds until it has theirs.
///
/// `T` is a packet, `P` a parcel of flows.
#[derive(Debug)]
pub struct Migration<T, P> {
    orders: Consumer<Order>,
    /// Orders that are not carried out yet, in the order in which they were given.
    pending: VecDeque<Order>,
    /// By entry.
    entries: Box<[Entry]>,
    /// Packets of entries that are not here yet, and those behind them, in order of arrival.
    held: VecDeque<Held<T>>,
    /// Whether some of these may be worked on.
    is_some_ready: bool,
    /// By core; a core sends nothing to itself.
    outboxes: Vec<Option<Producer<Message<P>>>>,
    inboxes: Vec<Option<Consumer<Message<P>>>>,
    /// Orders that are not carried out to the end, over all cores.
    outstanding: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    is_here: bool,
    /// How many of its packets are held.
    held: u32,
    /// As the first of its pending orders says; `u64::MAX` if there is none.
    since_seq: u64,
}

#[derive(Debug)]
struct Held<T> {
    entry: u16,
    seq: u64,
    packet: T,
}

/// The migration protocol of `owners.len()` entries for `cores` cores: `owners[entry]` has it at first. `in_hand` is how many
/// orders each core may have that it has not looked at.
///
/// # Panics
/// If an owner is not a core.
pub fn migration<T, P>(owners: &[u16], cores: usize, in_hand: usize) -> (Orders, Vec<Migration<T, P>>) {
    assert!(owners.iter().all(|owner| usize::from(*owner) < cores), "an owner that is not a core");
    let outstanding = Arc::new(AtomicUsize::new(0));
    let mut to_cores = Vec::new();
    let mut all: Vec<Migration<T, P>> = Vec::new();
    for core in 0..cores {
        let (to_core, orders) = ring(in_hand);
        to_cores.push(to_core);
        let has = |owner: &u16| Entry { is_here: usize::from(*owner) == core, held: 0, since_seq: u64::MAX };
        all.push(Migration {
            orders,
            pending: VecDeque::with_capacity(in_hand),
            entries: owners.iter().map(has).collect(),
            held: VecDeque::new(),
            is_some_ready: false,
            outboxes: (0..cores).map(|_| None).collect(),
            inboxes: (0..cores).map(|_| None).collect(),
            outstanding: Arc::clone(&outstanding),
        });
    }
    for from in 0..cores {
        for to in (0..cores).filter(|to| *to != from) {
            let (outbox, inbox) = ring(MAIL);
            all[from].outboxes[to] = Some(outbox);
            all[to].inboxes[from] = Some(inbox);
        }
    }
    (Orders { to_cores, outstanding }, all)
}

impl<T, P> Migration<T, P> {
    /// Says that so many orders will come, of this core's own. Nothing is settled before they are carried out.
    pub fn announce(&mut self, orders: usize) {
        self.outstanding.fetch_add(orders, Ordering::Relaxed);
    }

    /// One of the orders announced, before any packet that came after it is looked at.
    pub fn order(&mut self, order: Order) {
        self.note(order);
    }

    fn note(&mut self, order: Order) {
        let entry = &mut self.entries[usize::from(order.entry)];
        // Those for one entry come in their order.
        entry.since_seq = entry.since_seq.min(order.since_seq);
        self.pending.push_back(order);
    }

    /// Room for so many held packets, so that holding allocates nothing.
    pub fn reserve(&mut self, packets: usize) {
        self.held.reserve(packets);
    }

    /// An order that can be carried out now that this core has worked off the first `worked_off` packets of its
    /// queue: the core no longer has the entry, and must now [`send`](Migration::send) what there is of it, its
    /// [`Message::Last`] at the end.
    #[inline]
    pub fn next_order(&mut self, worked_off: u64) -> Option<Order> {
        self.look();
        if self.pending.is_empty() {
            return None;
        }
        // Of two orders for one entry the later comes later in its queue, too, and is not ready before.
        let (entries, held) = (&self.entries, &self.held);
        let is_ready = |order: &Order| {
            let entry = entries[usize::from(order.entry)];
            let is_before = |held: &Held<T>| held.entry == order.entry && held.seq < order.since_seq;
            entry.is_here && order.after <= worked_off && (entry.held == 0 || !held.iter().any(is_before))
        };
        let ready = self.pending.iter().position(is_ready)?;
        let order = self.pending.remove(ready)?;
        let mut others = self.pending.iter().filter(|other| other.entry == order.entry);
        let entry = &mut self.entries[usize::from(order.entry)];
        entry.is_here = false;
        entry.since_seq = others.next().map_or(u64::MAX, |next| next.since_seq);
        Some(order)
    }

    /// Looks at the orders that have come. Those that came before a packet was sent here are among them, if this
    /// is called after the packet is received.
    #[inline]
    pub fn look(&mut self) {
        while let Some(order) = self.orders.pop() {
            self.note(order);
        }
    }

    /// Looks, and says whether orders are there whose core has to say which packets come before: see [`Migration::mark`].
    #[inline]
    pub fn has_unmarked(&mut self) -> bool {
        self.look();
        self.pending.iter().any(|order| self.is_unmarked(order))
    }

    /// Packets that are held are received already: a mark stands for those behind them.
    fn is_unmarked(&self, order: &Order) -> bool {
        let entry = &self.entries[usize::from(order.entry)];
        order.after == Order::UNMARKED && entry.is_here && entry.held == 0
    }

    /// Orders that are [there](Migration::has_unmarked) wait for the packets that this core's queues have up to this
    /// mark, made after that. [`next_order`](Migration::next_order) is told of the last mark that was come to.
    pub fn mark(&mut self, mark: u64) {
        for at in 0..self.pending.len() {
            if self.is_unmarked(&self.pending[at]) {
                self.pending[at].after = mark;
            }
        }
    }

    /// Orders that cannot be carried out yet, as of the last [`look`](Migration::look).
    pub fn pending(&self) -> impl Iterator<Item = &Order> {
        self.pending.iter()
    }

    /// Sends to another core; gives the message back if there is no room now.
    ///
    /// # Errors
    /// The message.
    ///
    /// # Panics
    /// If `to` is no other core.
    pub fn send(&mut self, to: u16, message: Message<P>) -> Result<(), Message<P>> {
        self.outboxes[usize::from(to)].as_mut().expect("another core").push(message)
    }

    /// The next parcel that another core has sent, if there is one, with the entry if it is its last: that is this
    /// core's now, and the parcel is to be taken in before anything else is done.
    #[inline]
    pub fn receive(&mut self) -> Option<(Option<u16>, P)> {
        let message = self.inboxes.iter_mut().flatten().find_map(Consumer::pop)?;
        Some(match message {
            Message::Flows(parcel) => (None, parcel),
            Message::Last(number, parcel) => {
                let entry = &mut self.entries[usize::from(number)];
                entry.is_here = true;
                self.is_some_ready |= entry.held > 0;
                self.outstanding.fetch_sub(1, Ordering::Release);
                (Some(number), parcel)
            }
        })
    }

    /// Whether packet number `seq` of this entry can be worked on as it comes, after a [`look`](Migration::look).
    #[inline]
    pub fn has(&self, entry: u16, seq: u64) -> bool {
        let entry = self.entries[usize::from(entry)];
        entry.is_here && entry.held == 0 && seq < entry.since_seq
    }

    /// Keeps a packet until its entry is here, or until those before it are worked on.
    pub fn hold(&mut self, entry: u16, seq: u64, packet: T) {
        let of = &mut self.entries[usize::from(entry)];
        of.held += 1;
        self.is_some_ready |= of.is_here;
        self.held.push_back(Held { entry, seq, packet });
    }

    /// Held packets.
    pub fn held(&self) -> impl ExactSizeIterator<Item = &T> {
        self.held.iter().map(|held| &held.packet)
    }

    /// Gives up to `max` held packets that can be worked on now to `out`, in order of arrival. O(held) if there are
    /// any.
    #[inline]
    pub fn release(&mut self, max: usize, out: &mut Vec<T>) {
        if !self.is_some_ready {
            return;
        }
        let mut left = max;
        // Once around: what stays keeps its order.
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { break };
            let of = &mut self.entries[usize::from(held.entry)];
            if left > 0 && of.is_here && held.seq < of.since_seq {
                left -= 1;
                of.held -= 1;
                out.push(held.packet);
            } else {
                self.held.push_back(held);
            }
        }
        self.is_some_ready = left == 0;
    }

    /// Whether nothing is on its way to this core or waits in it, once no more orders are given: no entry has to
    /// be handed over by any core.
    pub fn is_settled(&self) -> bool {
        self.held.is_empty() && self.outstanding.load(Ordering::Acquire) == 0
    }

    /// Whether some entry is on its way, or about to go, wherever it is.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) > 0
    }

    /// Whether some core went away before everything was settled: what it had will not come.
    pub fn is_broken(&self) -> bool {
        let is_gone = self.outboxes.iter().flatten().any(Producer::is_abandoned);
        // In this order: a core goes when all is settled, and is seen gone after that.
        is_gone && self.outstanding.load(Ordering::Acquire) > 0
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
