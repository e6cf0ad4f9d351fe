//! Flows that go from core to core: how they are packed, sent, and taken in. The protocol is `control`'s.

use std::collections::VecDeque;
use std::sync::Arc;

use control::{Message, Migration as Protocol, Order};
use io::{Frame, Port, Received};
use table::Watermark;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::moves::Moves;
use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::{Leaving, NOBODY, PackedFlows, Pool};
use crate::path::receive::{Intake, IntakeCounters};
use crate::strategies::rsspp::own::Own;
use crate::strategies::rsspp::updates::Updates;

/// Blocks that are looked at between two batches for flows that go: 8 KiB of entries.
const BLOCKS_PER_TURN: usize = 4096;

/// Flows that are packed between two batches. At some 200 ns each the core's other flows wait as for one batch.
const FLOWS_PER_TURN: usize = 128;

/// What goes from core to core at once.
#[derive(Default)]
pub(crate) struct Parcel {
    /// With the group's number.
    flows: Option<(usize, PackedFlows)>,
    /// With the function's number in the chain.
    pools: Vec<(usize, Pool)>,
    /// The latest time that the core has seen.
    now_ns: u64,
}

/// Handing over, as far as it has come.
struct Round {
    orders: Vec<Order>,
    to: Vec<u16>,
    group: usize,
    /// The next block of the group to look at.
    block: usize,
}

/// Stands between a core's port and its chain where flows move: see [`control::Migration`].
pub struct Mover {
    protocol: Protocol<Frame, Parcel>,
    round: Option<Round>,
    /// What found no room in another core's mail.
    outgoing: VecDeque<(u16, Message<Parcel>)>,
    arrived: Vec<Frame>,
    /// The latest time that this core has seen.
    now_ns: u64,
    entries: usize,
    moves: Moves,
    /// Whether flows came or went in the last turn.
    has_worked: bool,
    updates: Option<Arc<Updates>>,
    /// Where the core has a port of its own.
    own: Option<Own>,
}

/// Held packets for which there is room from the beginning.
const HELD: usize = 1024;

impl Mover {
    /// One for each core; `owners` says which core has each entry at first.
    pub fn for_cores(owners: &[u16], cores: usize) -> (control::Orders, Vec<Mover>) {
        let (orders, protocols) = control::migration(owners, cores, 2 * owners.len());
        let mover = |mut protocol: Protocol<Frame, Parcel>| {
            protocol.reserve(HELD);
            Mover {
                protocol,
                round: None,
                outgoing: VecDeque::new(),
                arrived: Vec::with_capacity(BATCH_PACKETS),
                now_ns: 0,
                entries: owners.len(),
                moves: Moves::default(),
                has_worked: false,
                updates: None,
                own: None,
            }
        };
        (orders, protocols.into_iter().map(mover).collect())
    }

    /// Tells when entries have come here.
    pub(crate) fn timed(self, updates: Arc<Updates>) -> Mover {
        Mover { updates: Some(updates), ..self }
    }

    /// Says that so many orders will come: see [`control::Migration::announce`].
    pub fn announce(&mut self, orders: usize) {
        self.protocol.announce(orders);
    }

    /// For a core that has a port of its own.
    pub(crate) fn at_own_port(self, own: Own) -> Mover {
        Mover { own: Some(own), ..self }
    }

    /// One of the orders announced: see [`control::Migration::order`].
    pub fn order(&mut self, order: Order) {
        self.protocol.order(order);
    }

    /// Sends what waits to be sent; `true` if nothing does any more.
    fn flush(&mut self) -> bool {
        while let Some((to, message)) = self.outgoing.pop_front() {
            if let Err(message) = self.protocol.send(to, message) {
                self.outgoing.push_front((to, message));
                return false;
            }
        }
        true
    }

    /// How far this core has come with the packets that came to it.
    fn worked_off(&mut self, port: &mut dyn Port) -> u64 {
        match &self.own {
            None => port.consumed(),
            // Whatever was in its queues.
            Some(own) if own.has_ended => u64::MAX,
            Some(_) => {
                if self.protocol.has_unmarked() {
                    self.protocol.mark(port.mark());
                }
                port.passed()
            }
        }
    }

    /// Packs and sends some of the flows that are to migrate.
    fn hand_over(&mut self, chain: &mut ChainCore, worked_off: u64) {
        if !self.flush() {
            return;
        }
        if self.round.is_none() {
            self.round = self.next_round(worked_off);
        }
        let Some(mut round) = self.round.take() else { return };
        self.has_worked = true;
        let mut leaving =
            Leaving { to: &round.to, blocks_left: BLOCKS_PER_TURN, flows_left: FLOWS_PER_TURN, only: None };
        while round.group < chain.groups() && leaving.blocks_left > 0 && leaving.flows_left > 0 {
            let (next, packed) = chain.pack(round.group, round.block, &mut leaving);
            for (to, flows) in packed {
                let flows = Some((round.group, flows));
                self.outgoing.push_back((
                    to,
                    Message::Flows(Parcel { flows, pools: Vec::new(), now_ns: self.now_ns }),
                ));
            }
            (round.group, round.block) = match next {
                Some(block) => (round.group, block),
                None => (round.group + 1, 0),
            };
        }
        if round.group < chain.groups() {
            self.round = Some(round);
        } else {
            for Order { entry, to, .. } in round.orders {
                let pools = chain.take_pools(entry);
                self.outgoing.push_back((
                    to,
                    Message::Last(entry, Parcel { flows: None, pools, now_ns: self.now_ns }),
                ));
                self.moves.entries_out += 1;
            }
        }
        self.flush();
    }

    /// All orders that can be carried out now.
    fn next_round(&mut self, worked_off: u64) -> Option<Round> {
        let first = self.protocol.next_order(worked_off)?;
        let mut round = Round { orders: Vec::new(), to: vec![NOBODY; self.entries], group: 0, block: 0 };
        let mut next = Some(first);
        while let Some(order) = next {
            round.to[usize::from(order.entry)] = order.to;
            round.orders.push(order);
            next = self.protocol.next_order(worked_off);
        }
        Some(round)
    }

    /// Takes in what other cores have sent.
    fn take_in(&mut self, chain: &mut ChainCore) {
        if let Some((entry, Parcel { flows, pools, now_ns })) = self.protocol.receive() {
            self.has_worked = true;
            if self.own.is_some() {
                // What waits for these flows is stepped as of then, or later.
                self.now_ns = self.now_ns.max(now_ns);
            }
            if let Some((group, flows)) = flows {
                // Packets that wait for these flows, and for others, are older than the newest that came.
                let watermark = Watermark::claim(self.now_ns.min(self.oldest_ns()));
                chain.unpack(group, flows, watermark, self.now_ns);
            }
            if let Some(entry) = entry {
                self.moves.entries_in += 1;
                pools.into_iter().for_each(|(function, pool)| chain.put_pool(function, entry, pool));
                self.updates.iter().for_each(|updates| updates.act(entry));
            }
        }
    }

    /// No packet of any flow that is here, or that waits here for its flow, will come that is older than this and
    /// than those of the batch. A flow that has to go may still be stepped elsewhere, as of then.
    fn oldest_ns(&self) -> u64 {
        if self.own.is_some() {
            // What waits has the time at which it is let go on, and so have packets of flows that go.
            return u64::MAX;
        }
        let going = self.round.iter().flat_map(|round| &round.orders).chain(self.protocol.pending());
        let held = self.protocol.held().map(|frame| frame.stamp.time_ns);
        going.map(|order| order.since_ns).chain(held).min().unwrap_or(u64::MAX)
    }

    /// Leaves in the batch what can be worked on now, and holds the rest.
    fn sort(&mut self, batch: &mut Batch, from: usize) {
        // An order that was given before one of these packets was sent is here, too.
        self.protocol.look();
        // A frame may have more bits of the hash.
        let lowest = (self.entries - 1) as u16;
        let is_here = |frame: &Frame| self.protocol.has(frame.entry & lowest, frame.stamp.seq);
        if batch.frames[from..].iter().all(is_here) {
            return;
        }
        batch.parsed = 0;
        self.arrived.extend(batch.frames.drain(from..));
        for frame in self.arrived.drain(..) {
            let entry = frame.entry & lowest;
            if self.protocol.has(entry, frame.stamp.seq) {
                batch.frames.push(frame);
            } else {
                self.moves.waited_packets += 1;
                self.protocol.hold(entry, frame.stamp.seq, frame);
            }
        }
    }
}

impl Intake for Mover {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        self.has_worked = false;
        // What comes in first: an entry may have to go on at once.
        self.take_in(chain);
        let worked_off = self.worked_off(port);
        self.hand_over(chain, worked_off);
        self.protocol.release(BATCH_PACKETS, &mut batch.frames);
        let released = batch.frames.len();
        let received = port.receive(&mut batch.frames, BATCH_PACKETS - released);
        if let Some(own) = &mut self.own {
            own.has_ended |= received == Received::End;
            Own::have_come_now(&mut batch.frames[..released], self.now_ns);
            own.note(port, &chain.checks, batch, released);
        }
        if let Some(last) = batch.frames.get(released..).and_then(<[Frame]>::last) {
            self.now_ns = last.stamp.time_ns;
        }
        self.sort(batch, released);
        if !batch.frames.is_empty() {
            batch.oldest_ns = self.oldest_ns();
        }
        match received {
            _ if !batch.frames.is_empty() => Received::Frames,
            Received::End if self.protocol.is_settled() || self.protocol.is_broken() => Received::End,
            // What waits now waits for ever: it came to a core that nobody had told of its entry.
            Received::End if self.own.is_some() && !self.protocol.is_under_way() => Received::End,
            _ => Received::Idle,
        }
    }

    fn counters(&self) -> IntakeCounters {
        let moves = Moves { held_packets: self.protocol.held().len() as u64, ..self.moves };
        IntakeCounters { moves, ..IntakeCounters::default() }
    }

    fn is_busy(&self) -> bool {
        // An order comes soon, and nobody wakes a core for it: none goes to sleep meanwhile.
        let is_awake = self.own.is_some() && self.protocol.is_under_way();
        is_awake || self.round.is_some() || !self.outgoing.is_empty() || self.protocol.held().len() > 0
    }

    fn has_worked(&self) -> bool {
        self.has_worked
    }
}
