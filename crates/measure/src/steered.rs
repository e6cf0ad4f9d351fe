//! Behind a card that steers: some packets come to a sequencer, and all others to their core.
//!
//! ```text
//!   card ──► queue of core k ─────────────────────┐
//!     └────► queue of the sequencer ──► ring ─────┴──► core k
//! ```
//!
//! The card counts packets and acts by its table; so who decides on changes looks at nothing but arrivals, as under `rsspp`, and where each packet
//! of a trial goes is told ahead. Flows that were replicated at a trial's end are so at the next one's beginning: the team lives on.

use std::sync::{Arc, Mutex};

use engine::Intake;
use engine::strategies::{Dispatcher, Queues, Steer, Steered, SteeredTeam};
use io::nic::Pace;
use io::{Closed, Frame, Packets};
use wire::{Headers, Stamp};

/// A team that lives from trial to trial.
pub(crate) struct Team {
    card: Box<dyn Steer>,
    sequencer: Arc<Mutex<Option<Box<dyn Dispatcher>>>>,
    intakes: Vec<Box<dyn Intake>>,
}

/// What comes to each queue of the card in one trial, by number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub(crate) by_core: Vec<Vec<u32>>,
    pub(crate) sequencer: Vec<u32>,
    /// Whether it was decided meanwhile who is promoted.
    pub(crate) is_decided: bool,
}

impl Arrivals {
    /// Packets that come to their core past the sequencer.
    pub(crate) fn straight(&self) -> u64 {
        self.by_core.iter().map(|arrivals| arrivals.len() as u64).sum()
    }
}

impl Team {
    pub(crate) fn new(SteeredTeam { card, sequencer, intakes }: SteeredTeam) -> Team {
        Team { card, sequencer: Arc::new(Mutex::new(Some(sequencer))), intakes }
    }

    /// Puts another card in this one's place.
    #[cfg(test)]
    pub(crate) fn tamper(&mut self, tamper: impl FnOnce(Box<dyn Steer>) -> Box<dyn Steer>) {
        /// Steers nothing.
        struct Nobody;
        impl Steer for Nobody {
            fn steer(&mut self, _: u16, _: Stamp, _: &[u64]) -> Steered {
                unreachable!("nobody asks")
            }
        }
        self.card = tamper(std::mem::replace(&mut self.card, Box::new(Nobody)));
    }

    /// Steers the first `count` arrivals, whose packets are `packets` over and over, with the stamps that the card will give them.
    pub(crate) fn steer(&mut self, packets: &Packets, pace: &Pace, origin: Stamp, count: u32) -> Arrivals {
        let cores = self.intakes.len();
        let room = count as usize / cores + count as usize / 8;
        let by_core = (0..cores).map(|_| Vec::with_capacity(room)).collect();
        let mut arrivals = Arrivals { by_core, sequencer: Vec::new(), is_decided: false };
        let (mut sent, mut index) = (vec![0; cores], 0);
        for number in 0..count {
            let stamp = Stamp {
                seq: origin.seq + u64::from(number),
                time_ns: origin.time_ns + pace.arrival_ns(number),
            };
            let Steered { place, is_decided } = self.card.steer(packets.entry(index), stamp, &sent);
            arrivals.is_decided |= is_decided;
            match place {
                Ok(core) => {
                    arrivals.by_core[core].push(number);
                    sent[core] += 1;
                }
                Err(_) => arrivals.sequencer.push(number),
            }
            index = if index + 1 == packets.len() { 0 } else { index + 1 };
        }
        arrivals
    }

    /// The sequencer's dispatcher for one trial, at the end of which it is dropped.
    pub(crate) fn sequencer(&self) -> Box<dyn Dispatcher> {
        let home = Arc::clone(&self.sequencer);
        let dispatcher = lock(&home).take().expect("one trial at a time");
        Box::new(LentDispatcher { dispatcher: Some(dispatcher), home })
    }

    /// By core, what stands before its chain in one trial.
    pub(crate) fn intakes(&mut self) -> impl Iterator<Item = Box<dyn Intake + '_>> {
        self.intakes.iter_mut().map(|intake| -> Box<dyn Intake + '_> { Box::new(&mut **intake) })
    }
}

type Home = Mutex<Option<Box<dyn Dispatcher>>>;

/// A thread that panics ends the bench, whatever it leaves here.
fn lock(home: &Home) -> std::sync::MutexGuard<'_, Option<Box<dyn Dispatcher>>> {
    home.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A dispatcher that goes back when the trial has ended.
struct LentDispatcher {
    dispatcher: Option<Box<dyn Dispatcher>>,
    home: Arc<Home>,
}

impl LentDispatcher {
    #[inline]
    fn get(&mut self) -> &mut dyn Dispatcher {
        self.dispatcher.as_deref_mut().expect("it goes when this is dropped")
    }
}

impl Drop for LentDispatcher {
    fn drop(&mut self) {
        *lock(&self.home) = self.dispatcher.take();
    }
}

impl Dispatcher for LentDispatcher {
    fn reads_headers(&self) -> bool {
        self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.reads_headers())
    }

    fn tells_headers(&self) -> bool {
        self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.tells_headers())
    }

    fn attend(&mut self, stamp: Stamp) {
        self.get().attend(stamp);
    }

    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        self.get().tell(headers, frames, queues)
    }

    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        self.get().dispatch(headers, frame, queues)
    }
}
