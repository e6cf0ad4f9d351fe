//! A core in front of others: all packets come to its queue of the card, and it passes each on to the queue of
//! another core, as a dispatcher in software does.
//!
//! ```text
//!   card ──► descriptors ──► Front ──► ring ──► NicPort::behind ──► core 0
//!              (drops)         │
//!                              └─────► ring ──► NicPort::behind ──► core 1
//! ```
//!
//! The card drops where the front has no descriptor free, and nowhere else: a full ring makes the front wait. So sequence
//! numbers, which the front gives, have no gaps. What is passed on is where the packet is, not its bytes.
//!
//! A card that steers sends the front some packets, and the others to queues that the cores have beside their ring
//! ([`NicPort::beside`](super::NicPort::beside)). Then each packet has the number of its arrival at the card.
//!
//! Or the front is no core but the card itself ([`dealing`](super::dealing)): then it has no descriptors and waits for nobody, and the card drops
//! behind it, where the queue of a core is full.

use std::sync::mpsc::{Receiver, Sender, channel};

use ring::{Consumer, Producer, ring};
use wire::Stamp;

use super::clock::Clock;
use super::offer::{AHEAD_PACKETS, Offer};
use super::queue::Queue;
use crate::frame::Place;
use crate::packets::Arrival;
use crate::{Frame, Note, Packets, Received, Reference};

/// Packets between the front and one core behind it: as many as in a run over a capture.
pub const BEHIND_PACKETS: usize = crate::QUEUE_FRAMES_MAX / 2;

/// Room for packets of one core between receiving and passing on: a batch.
const STAGED: usize = 64;

/// A packet as it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// When it was passed on, by the front's clock: a core whose clock is behind that does not see it yet.
    pub(super) ready_ns: u64,
    pub(super) stamp: Stamp,
    /// Among the trial's arrivals.
    pub(super) number: u32,
    pub(super) entry: u16,
    pub(super) note: Note,
    /// What a card that looks flows up said.
    pub(super) reference: Reference,
}

/// The queue of a core in front of others.
pub struct Front<C> {
    offer: Offer,
    clock: C,
    queue: Queue,
    received: u64,
    /// Whether packets have the numbers of their arrivals, since others do not come here.
    is_steered: bool,
    /// By core, the way to its queue, where this is the card itself.
    wires: Vec<Sender<Passed>>,
    /// By core behind, what was received and not yet passed on.
    staged: Vec<Vec<Passed>>,
    /// By core behind; empty once nothing more is to be passed on.
    ends: Vec<Producer<Passed>>,
    /// By core behind, packets passed on.
    sent: Vec<u64>,
}

/// The queue of a core behind a front.
pub struct Behind {
    pub(super) end: Consumer<Passed>,
    pub(super) taken: u64,
}

/// A front to which the first `count` packets of `offer` come, where `descriptors` of them can wait, and the queues of
/// `cores` cores behind it, with room for `room` packets each.
///
/// # Panics
/// If there are no descriptors, no room, or no memory.
pub fn front<C: Clock>(
    offer: Offer,
    count: u32,
    descriptors: usize,
    (cores, room): (usize, usize),
    clock: C,
) -> (Front<C>, Vec<Behind>) {
    in_front(offer, ((0..count).collect(), false), descriptors, (cores, room), clock)
}

/// A [`front`] behind a card that steers: the packets with the numbers `arrivals`, ascending, come to the front.
///
/// # Panics
/// As [`front`].
pub fn steered_front<C: Clock>(
    offer: Offer,
    arrivals: Vec<u32>,
    descriptors: usize,
    (cores, room): (usize, usize),
    clock: C,
) -> (Front<C>, Vec<Behind>) {
    in_front(offer, (arrivals, true), descriptors, (cores, room), clock)
}

fn in_front<C: Clock>(
    offer: Offer,
    (arrivals, is_steered): (Vec<u32>, bool),
    descriptors: usize,
    (cores, room): (usize, usize),
    clock: C,
) -> (Front<C>, Vec<Behind>) {
    assert!(descriptors > 0, "a queue without descriptors");
    let queue = Queue::new(arrivals, descriptors);
    let (ends, behind) = (0..cores)
        .map(|_| {
            let (sender, end) = ring(room);
            (sender, Behind { end, taken: 0 })
        })
        .unzip();
    let sent = vec![0; cores];
    let staged = (0..cores).map(|_| Vec::with_capacity(STAGED)).collect();
    (Front { offer, clock, queue, received: 0, is_steered, wires: Vec::new(), staged, ends, sent }, behind)
}

impl<C: Clock> Front<C> {
    /// As the card itself, which waits for no core, with the ways to its queues.
    pub(super) fn dealing(self) -> (Front<C>, Vec<Receiver<Passed>>) {
        let (wires, queues) = self.ends.iter().map(|_| channel()).unzip();
        (Front { ends: Vec::new(), wires, ..self }, queues)
    }

    /// The clock, to be set before the trial starts.
    pub fn clock_mut(&mut self) -> &mut C {
        &mut self.clock
    }

    /// Receives up to `max` packets, in order of arrival.
    pub fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        self.queue.arrive(self.offer.pace.is_due(self.clock.now_ns()));
        let Front { offer: Offer { packets, pace, origin }, queue, is_steered, received, .. } = self;
        let mut wanted = max;
        while let Some(positions) = queue.take(wanted) {
            wanted -= positions.len();
            for position in positions {
                // Without a card that steers, each arrival is at the position of its number.
                let number = if *is_steered { queue.arrivals()[position] } else { position as u32 };
                match *is_steered {
                    true => ahead(packets, &queue.arrivals()[position..]),
                    false => packets.ahead(position),
                }
                let in_turn = if *is_steered { number.into() } else { *received };
                let stamp =
                    Stamp { seq: origin.seq + in_turn, time_ns: origin.time_ns + pace.arrival_ns(number) };
                let Arrival { wire_len, link, entry, .. } = *packets.of_number(number);
                frames.push(Frame { wire_len, link, entry, ..Frame::of_arrival(stamp, number) });
                *received += 1;
            }
        }
        match wanted == max {
            false => Received::Frames,
            true if self.queue.is_over() => Received::End,
            true => Received::Idle,
        }
    }

    /// The packet of a frame that was received here.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let packets = &self.offer.packets;
        packets.bytes(packets.of_number(frame.place.first_line))
    }

    /// Sends a packet to a core: it waits here until [`Front::pass_on`].
    ///
    /// # Panics
    /// If there is no such core.
    #[inline]
    pub fn stage(&mut self, core: usize, frame: Frame) {
        self.stage_referred(core, frame, Reference::NONE);
    }

    /// Sends a packet to a core with what a card said of the packet's flow: it waits here until [`Front::pass_on`].
    ///
    /// # Panics
    /// If there is no such core.
    #[inline]
    pub fn stage_referred(&mut self, core: usize, frame: Frame, reference: Reference) {
        let Frame { stamp, entry, note, place: Place { first_line: number, .. }, .. } = frame;
        self.sent[core] += 1;
        self.staged[core].push(Passed { ready_ns: 0, stamp, number, entry, note, reference });
    }

    /// Passes on what was received, to each core in order.
    ///
    /// # Errors
    /// [`Full`] with a core that has no room: the rest of its packets waits. There is none from a card that deals.
    pub fn pass_on(&mut self) -> Result<(), Full> {
        let ready_ns = self.clock.now_ns();
        let mut full = Ok(());
        for (core, (end, staged)) in self.ends.iter_mut().zip(&mut self.staged).enumerate() {
            let count = staged.len().min(end.room_for(staged.len()));
            let mut passed = staged.drain(..count).map(|passed| Passed { ready_ns, ..passed });
            end.push_from(&mut passed);
            drop(passed);
            if !staged.is_empty() {
                full = Err(Full { core, is_gone: end.is_abandoned() });
            }
        }
        for (wire, staged) in self.wires.iter().zip(&mut self.staged) {
            // A core that is gone takes nothing, as it takes nothing from a card.
            for passed in staged.drain(..) {
                let _ = wire.send(passed);
            }
        }
        full
    }

    /// No more will be passed on.
    pub fn close(&mut self) {
        self.ends.clear();
        self.wires.clear();
    }

    /// Whether it is the card itself, which has packets to deal to its queues.
    pub fn deals(&self) -> bool {
        !self.wires.is_empty()
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Packets dropped because no descriptor was free.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// By core behind, packets that were sent there.
    pub fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// The first stamp that may still come, and no later than now: all packets with lower numbers were received or dropped. Where a
    /// card steers.
    pub fn attended(&self) -> Stamp {
        let origin = self.offer.origin;
        let next = self.queue.arrivals().get(self.queue.consumed());
        let seq = next.map_or(u64::MAX, |number| origin.seq + u64::from(*number));
        Stamp { seq, time_ns: origin.time_ns + self.clock.now_ns() }
    }

    /// When the next packet arrives, ns from the start; `None` if none will.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.queue.next().map(|number| self.offer.pace.arrival_ns(number))
    }
}

/// As [`Packets::ahead`], where not all numbers come here.
fn ahead(packets: &Packets, numbers: &[u32]) {
    if let (Some(far), Some(near)) = (numbers.get(2 * AHEAD_PACKETS), numbers.get(AHEAD_PACKETS)) {
        Packets::prefetch_arrival(packets.of_number(*far), 0);
        packets.prefetch_bytes(packets.of_number(*near), 0);
    }
}

impl Behind {
    /// When the next was passed on, ns from the start.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        self.end.peek().map(|passed| passed.ready_ns)
    }

    /// Takes up to `max` of those passed on by `now_ns`.
    #[inline]
    pub(super) fn take(&mut self, passed: &mut Vec<Passed>, max: usize, now_ns: u64) {
        let ready = self.end.count_while(max, |passed| passed.ready_ns <= now_ns);
        self.taken += self.end.pop_into(passed, ready) as u64;
    }
}

/// A core behind a front has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Which.
    pub core: usize,
    /// Whether it will never have any again.
    pub is_gone: bool,
}
