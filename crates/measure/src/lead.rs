//! Who stands in front of the cores of a trial, a sequencer or a card with a dispatcher in it, and virtual cores behind it.

use std::sync::atomic::AtomicBool;
use std::thread;

use engine::strategies::Dispatcher;
use engine::{Chain, Plan, pin};
use io::nic::{
    BEHIND_PACKETS, Behind, Clock as NicClock, Dealt, VirtualClock, dealing, front, steered_front,
};

use crate::executor::{Outcomes, State, VirtualCore, VirtualSequencer, run_virtual};
use crate::offered::BenchError;
use crate::sequencer_core::SequencerCore;
use crate::station::{Seat, Station, Terms};
use crate::stopwatch::Meter;
use crate::trial::TrialError;

/// Whether `cores` virtual cores would say what as many real ones do.
///
/// # Errors
/// [`BenchError::Common`] where the cores have memory in common.
pub fn check_virtual(chain: &Chain, plan: &Plan) -> Result<(), BenchError> {
    let what = if plan.is_striped() {
        "strategy `shared`".to_owned()
    } else if plan.shared.is_empty() || plan.cores == 1 {
        return Ok(());
    } else {
        format!("the shared states of `{}`", plan.shared_names(chain).join("` and `"))
    };
    Err(BenchError::Common { what })
}

/// What a sequencer needs to know of its trial.
pub(crate) struct Lead<'a> {
    pub(crate) chain: &'a Chain,
    pub(crate) terms: &'a Terms,
    pub(crate) count: u32,
    pub(crate) cores: usize,
}

impl Lead<'_> {
    /// The sequencer, and the queues behind it.
    pub(crate) fn sequencer<C: NicClock>(
        &self,
        dispatcher: Box<dyn Dispatcher>,
        clock: C,
    ) -> (SequencerCore<C>, Vec<Behind>) {
        let Lead { chain, terms, count, cores } = *self;
        let (front, behind) =
            front(terms.offer.clone(), count, terms.descriptors, (cores, BEHIND_PACKETS), clock);
        (SequencerCore::new(chain, front, dispatcher, count), behind)
    }

    /// A card that has the dispatcher in it and a queue for each core, and those queues.
    pub(crate) fn card(
        &self,
        dispatcher: Box<dyn Dispatcher>,
        clock: VirtualClock,
    ) -> (SequencerCore<VirtualClock>, Vec<Dealt>) {
        let Lead { chain, terms, count, cores } = *self;
        let (front, queues) = dealing(terms.offer.clone(), count, terms.descriptors, cores, clock);
        let queues = queues.into_iter().map(|queue| queue.warm_until(terms.warm_ns));
        (SequencerCore::new(chain, front, dispatcher, count).card(), queues.collect())
    }

    /// A sequencer to which `arrivals` come, and the others to the cores.
    pub(crate) fn steered<C: NicClock>(
        &self,
        dispatcher: Box<dyn Dispatcher>,
        arrivals: Vec<u32>,
        clock: C,
    ) -> (SequencerCore<C>, Vec<Behind>) {
        let Lead { chain, terms, count, cores } = *self;
        let behind = (cores, BEHIND_PACKETS);
        let (front, behind) = steered_front(terms.offer.clone(), arrivals, terms.descriptors, behind, clock);
        (SequencerCore::new(chain, front, dispatcher, count).steered(), behind)
    }
}

/// On one pinned thread of its own, so that the caller's stays free to run anywhere. The last meter is the sequencer's.
pub(crate) fn virtually<M: Meter>(
    terms: &Terms,
    seats: Vec<Seat<'_>>,
    first: Option<(SequencerCore<VirtualClock>, VirtualClock)>,
    meters: &mut [M],
    slice_ns: u64,
    stop: &AtomicBool,
) -> Result<Outcomes, TrialError> {
    let work = || {
        pin(0);
        let (of_cores, of_first) = meters.split_at_mut(seats.len());
        let core = |(seat, meter)| {
            let clock = VirtualClock::default();
            VirtualCore { station: Station::new(terms, seat, clock.clone()), clock, meter }
        };
        let cores = seats.into_iter().zip(of_cores).map(core).collect();
        let first = first.zip(of_first.first_mut()).map(|((core, clock), meter)| VirtualSequencer {
            core,
            clock,
            meter,
            state: State::default(),
            steps: 0,
            looks: 0,
        });
        run_virtual(cores, first, slice_ns, stop)
    };
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
