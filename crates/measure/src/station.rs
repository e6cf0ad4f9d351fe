//! One core of a trial, at its queue.

use std::time::Duration;

use engine::{
    BATCH_PACKETS, Batch, ChainCore, CoreCounters, Forgotten, Intake, IntakeCounters, Mover, Order, turn,
};
use hdrhistogram::Histogram;
use io::nic::{Behind, Clock, Common, Dealt, Early, NicPort, Offer};
use io::{Pool, Port, Received};

use crate::trial::CoreTrial;

/// What holds of all cores of a trial.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) offer: Offer,
    pub(crate) descriptors: usize,
    pub(crate) frames: usize,
    pub(crate) has_latency: bool,
    pub(crate) dispatch_ns: u64,
    /// What virtual cores do ahead of this, ns from the start, counts for nothing in the time that they spend on packets.
    pub(crate) warm_ns: u64,
}

/// What comes to a core in a trial.
pub(crate) enum Coming {
    /// Packets from the card, by number, ascending.
    Scheduled(Vec<u32>),
    /// What the core in front passes on.
    Passed(Behind),
    /// What the core in front passes on, into a pool that shares its memory with other cores', to which packets may
    /// be handed on.
    Shared(Behind, Pool),
    /// What a card deals as it arrives, into such a pool.
    Dealt(Dealt, Pool),
    /// Both, by two queues.
    Both(Vec<u32>, Behind),
    /// What the core takes from a queue that all have; one of them counts what the card drops.
    Taken { common: Common, counts: bool },
}

/// A core and what belongs to it, about to start.
pub(crate) struct Seat<'a> {
    pub(crate) chain: &'a mut ChainCore,
    pub(crate) intake: Box<dyn Intake + 'a>,
    pub(crate) coming: Coming,
}

/// What a core of a trial leaves behind.
pub(crate) struct CoreOutcome {
    pub(crate) trial: CoreTrial,
    pub(crate) latency: Option<Histogram<u64>>,
    /// Where it found no history, if it did.
    pub(crate) forgotten: Option<Forgotten>,
    /// Packets that the core took from its own queue; what others hand it is not among them.
    pub(crate) taken: u64,
    /// What came to its queue during the warm-up, where a card deals.
    pub(crate) early: Early,
    /// Entries or shards that it gave away.
    pub(crate) moves: u64,
}

/// One core of a trial.
pub(crate) struct Station<'a, C> {
    pub(crate) port: NicPort<C>,
    chain: &'a mut ChainCore,
    pub(crate) intake: Box<dyn Intake + 'a>,
    dispatch_ns: u64,
    pub(crate) warm_ns: u64,
    batch: Batch,
    pub(crate) counters: CoreCounters,
    /// Packets that come from the card; `None` where that is not known ahead.
    arrivals: Option<u64>,
    pub(crate) busy_ns: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) slow_batches: u64,
}

impl<'a, C: Clock> Station<'a, C> {
    pub(crate) fn new(terms: &Terms, seat: Seat<'a>, clock: C) -> Station<'a, C> {
        let Seat { chain, intake, coming } = seat;
        let offer = terms.offer.clone();
        let (arrivals, port) = match coming {
            Coming::Scheduled(arrivals) => {
                let count = arrivals.len() as u64;
                (Some(count), NicPort::new(offer, arrivals, terms.descriptors, terms.frames, clock))
            }
            Coming::Both(arrivals, behind) => {
                let count = arrivals.len() as u64;
                let port = NicPort::new(offer, arrivals, terms.descriptors, terms.frames, clock);
                (Some(count), port.beside(behind))
            }
            Coming::Passed(behind) => (None, NicPort::behind(offer, behind, terms.frames, clock)),
            Coming::Shared(behind, pool) => (None, NicPort::behind_in_pool(offer, behind, pool, clock)),
            Coming::Dealt(dealt, pool) => (None, NicPort::dealt(offer, dealt, pool, clock)),
            Coming::Taken { common, counts } => {
                (None, NicPort::common(offer, common, counts, terms.frames, clock))
            }
        };
        let port = if terms.has_latency { port.with_latency(terms.warm_ns) } else { port };
        Station {
            port,
            chain,
            intake,
            dispatch_ns: terms.dispatch_ns,
            warm_ns: terms.warm_ns,
            batch: Batch::new(),
            counters: CoreCounters::default(),
            arrivals,
            busy_ns: 0,
            elapsed_ns: 0,
            slow_batches: 0,
        }
    }

    /// A batch, or none.
    #[inline]
    pub(crate) fn turn(&mut self) -> Received {
        let Station { port, chain, intake, batch, counters, .. } = self;
        // A simulated card always takes frames back.
        turn(port, chain, batch, &mut (), &mut **intake, counters).unwrap_or(Received::End)
    }

    /// Packets stepped so far, those of other cores included.
    pub(crate) fn steps(&self) -> u64 {
        self.counters.packets + self.intake.counters().replayed
    }

    /// What receiving and sending the packets since there were `packets` would take beside what it does.
    #[inline]
    pub(crate) fn dispatch(&self, packets: u64) -> Duration {
        Duration::from_nanos(self.dispatch_ns * (self.counters.packets - packets))
    }

    pub(crate) fn outcome(mut self) -> CoreOutcome {
        // What came to a core that was rebuilt, and found its step done, is as lost as what the card dropped.
        let overtaken = self.intake.counters().overtaken;
        let trial = CoreTrial {
            arrived: match self.arrivals {
                Some(from_card) => from_card + self.port.received_beside(),
                None => self.port.received() + self.port.dropped(),
            },
            // Counted by the core, not by the card: the two have to agree.
            received: self.counters.packets,
            dropped: self.port.dropped() + overtaken,
            busy_ns: self.busy_ns,
            elapsed_ns: self.elapsed_ns,
            slow_batches: self.slow_batches,
        };
        let (taken, early) = (self.port.received(), self.port.early());
        let moves = self.intake.counters().moves.entries_out;
        let forgotten = self.intake.finish().forgotten;
        CoreOutcome { trial, latency: self.port.into_latency(), forgotten, taken, early, moves }
    }
}

/// What a core hands over in a trial, known ahead.
pub(crate) struct Moving<'a> {
    mover: &'a mut Mover,
    orders: std::vec::IntoIter<Order>,
}

impl<'a> Moving<'a> {
    pub(crate) fn new(mover: &'a mut Mover, orders: Vec<Order>) -> Moving<'a> {
        mover.announce(orders.len());
        Moving { mover, orders: orders.into_iter() }
    }

    /// Gives the orders that concern the next batch: no earlier, as if they had just been decided.
    #[inline]
    fn order(&mut self, consumed: u64) {
        let is_due = |order: &Order| order.after <= consumed + BATCH_PACKETS as u64;
        while let Some(order) = self.orders.as_slice().first().copied().filter(is_due) {
            self.mover.order(order);
            self.orders.next();
        }
    }
}

impl Intake for Moving<'_> {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        self.order(port.consumed());
        self.mover.receive(port, chain, batch)
    }

    fn counters(&self) -> IntakeCounters {
        self.mover.counters()
    }

    fn is_busy(&self) -> bool {
        self.mover.is_busy()
    }
}
