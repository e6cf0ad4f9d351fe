//! The core in front of the others under a strategy whose dispatcher tells them what all packets are: the sequencer of
//! state-compute replication in software, with the strategy's own dispatcher and the engine's ingress.
//!
//! ```text
//!   receive ──► parse ──► tell (writes the history) ──► dispatch ──► pass on
//! ```
//!
//! A turn begins with passing on what the turn before received. So no packet is seen by its core before its history was
//! written, nor, on virtual cores, before the time was charged that this took.

use engine::strategies::{Dispatcher, Ingress, Queues};
use engine::{BATCH_PACKETS, Chain};
use io::nic::{Clock, Front, Full};
use io::{Frame, Received, Reference};
use wire::Stamp;

use crate::trial::CoreTrial;

/// The sequencer of a trial.
pub(crate) struct SequencerCore<C> {
    pub(crate) front: Front<C>,
    ingress: Ingress,
    /// `None` at the end of the packets.
    dispatcher: Option<Box<dyn Dispatcher>>,
    /// Whether a card steers, which the dispatcher is told of.
    pub(crate) is_steered: bool,
    /// Whether it is the card itself, what it does takes no core's time.
    pub(crate) is_card: bool,
    /// Whether the card's dispatcher had more to tell a core than there is room for.
    pub(crate) is_mute: bool,
    /// Between the card and the dispatcher: where there was no room in the history, until there is.
    arrived: Vec<Frame>,
    arrivals: u64,
    pub(crate) busy_ns: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) slow_batches: u64,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequenced {
    /// So many packets were received, and have their history.
    Packets(u64),
    /// None had arrived.
    Idle,
    /// The queue of this core has no room: the sequencer waits.
    Full(usize),
    /// Some core has not come far enough in the history for it to go on: the sequencer waits.
    Untold,
    /// All packets were passed on.
    End,
}

/// How many packets each core was sent.
struct Sent<'a> {
    by_core: &'a [u64],
    /// No core takes packets while the sequencer runs: it must not wait for one.
    is_virtual: bool,
}

impl Sent<'_> {
    fn of<C: Clock>(front: &Front<C>) -> Sent<'_> {
        Sent { by_core: front.sent(), is_virtual: C::IS_VIRTUAL }
    }
}

impl Queues for Sent<'_> {
    fn sent(&self, core: usize) -> u64 {
        self.by_core[core]
    }

    fn is_closed(&self) -> bool {
        self.is_virtual
    }
}

impl<C: Clock> SequencerCore<C> {
    /// For `arrivals` packets of `chain`, which come to `front`.
    pub(crate) fn new(
        chain: &Chain,
        front: Front<C>,
        dispatcher: Box<dyn Dispatcher>,
        arrivals: u32,
    ) -> SequencerCore<C> {
        SequencerCore {
            front,
            ingress: Ingress::new(chain, &*dispatcher),
            dispatcher: Some(dispatcher),
            is_steered: false,
            is_card: false,
            is_mute: false,
            arrived: Vec::with_capacity(BATCH_PACKETS),
            arrivals: arrivals.into(),
            busy_ns: 0,
            elapsed_ns: 0,
            slow_batches: 0,
        }
    }

    /// Behind a card that steers.
    pub(crate) fn steered(self) -> SequencerCore<C> {
        SequencerCore { is_steered: true, ..self }
    }

    /// As a part of the card, which takes no core's time, and says where flows are.
    pub(crate) fn card(self) -> SequencerCore<C> {
        SequencerCore { is_card: true, ..self }
    }

    /// Passes on what was received last, and receives.
    #[inline]
    pub(crate) fn turn(&mut self) -> Sequenced {
        if self.is_steered && self.arrived.is_empty() {
            self.attend(self.front.attended());
        }
        match self.front.pass_on() {
            Ok(()) => {}
            Err(Full { is_gone: true, .. }) => return self.end(),
            Err(Full { core, is_gone: false }) => return Sequenced::Full(core),
        }
        if !self.arrived.is_empty() {
            return self.dispatch();
        }
        match self.front.receive(&mut self.arrived, BATCH_PACKETS) {
            Received::Frames => {
                // Its frames have no buffers yet.
                self.ingress.batch(&mut self.arrived, &mut self.front, Front::bytes, |_, _, _| false);
                self.dispatch()
            }
            Received::Idle => Sequenced::Idle,
            Received::End => self.end(),
        }
    }

    /// Tells of what was received, and picks the cores.
    #[inline]
    fn dispatch(&mut self) -> Sequenced {
        let SequencerCore { front, ingress, dispatcher, arrived, is_card, is_mute, .. } = self;
        let Some(dispatcher) = dispatcher else { return Sequenced::End };
        let packets = arrived.len() as u64;
        let headers = ingress.last(arrived.len());
        if dispatcher.tell(headers, arrived, &Sent::of(front)).is_err() {
            *is_mute |= *is_card;
            return Sequenced::Untold;
        }
        for (mut frame, headers) in arrived.drain(..).zip(headers) {
            let reference = if *is_card { dispatcher.refer(headers) } else { Reference::NONE };
            let core = dispatcher.dispatch(headers, &mut frame, &Sent::of(front));
            *is_mute |= *is_card && core.is_err();
            let core = core.unwrap_or(0);
            front.stage_referred(core, frame, reference);
        }
        Sequenced::Packets(packets)
    }

    /// The history ends before the cores see that their queues do.
    pub(crate) fn end(&mut self) -> Sequenced {
        if self.is_steered {
            self.attend(Stamp { seq: u64::MAX, time_ns: u64::MAX });
        }
        self.dispatcher = None;
        self.front.close();
        Sequenced::End
    }

    fn attend(&mut self, stamp: Stamp) {
        if let Some(dispatcher) = &mut self.dispatcher {
            dispatcher.attend(stamp);
        }
    }

    pub(crate) fn outcome(self) -> CoreTrial {
        CoreTrial {
            arrived: self.arrivals,
            received: self.front.received(),
            dropped: self.front.dropped(),
            busy_ns: self.busy_ns,
            elapsed_ns: self.elapsed_ns,
            slow_batches: self.slow_batches,
        }
    }
}
