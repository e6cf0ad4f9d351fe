//! A queue of the card from which several cores take packets, each the next that nobody has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wire::Stamp;

use super::offer::Offer;
use super::queue::Queue;

/// A queue that several ports have. Clones are the same queue.
///
/// A core that takes packets holds a lock. On virtual cores, which never meet there, the time that one spent in it is time in
/// which others find it taken.
#[derive(Clone)]
pub struct Common(Arc<Mutex<State>>);

/// The longest that a core has the queue for each packet that it takes, and beside that, ns: what takes longer was interrupted by
/// the system, which a core of its own would not be.
const LONGEST_NS: (u64, u64) = (30, 1_000);

struct State {
    queue: Queue,
    /// Given to the next packet that is taken: numbers have no gaps where the card drops.
    next_seq: u64,
    /// Until when, by their clocks, virtual cores find it taken, ns.
    free_ns: u64,
}

impl Common {
    /// The first `count` packets of `offer` come to it, and `descriptors` of them can wait.
    ///
    /// # Panics
    /// If there are no descriptors.
    pub fn new(offer: &Offer, count: u32, descriptors: usize) -> Common {
        assert!(descriptors > 0, "a queue without descriptors");
        let queue = Queue::new((0..count).collect(), descriptors);
        Common(Arc::new(Mutex::new(State { queue, next_seq: offer.origin.seq, free_ns: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out up to `max` packets that have arrived by `now_ns`: `take` gets the number of each among the arrivals, and its
    /// stamp. Says whether more may come.
    pub(super) fn take(
        &self,
        offer: &Offer,
        mut max: usize,
        (now_ns, is_virtual): (u64, bool),
        mut take: impl FnMut(u32, Stamp),
    ) -> bool {
        let mut state = self.state();
        let State { queue, next_seq, free_ns } = &mut *state;
        if is_virtual && now_ns < *free_ns {
            return true;
        }
        let (begin, before) = (is_virtual.then(Instant::now), *next_seq);
        queue.arrive(offer.pace.is_due(now_ns));
        while let Some(positions) = queue.take(max) {
            max -= positions.len();
            for number in &queue.arrivals()[positions] {
                let time_ns = offer.origin.time_ns + offer.pace.arrival_ns(*number);
                take(*number, Stamp { seq: *next_seq, time_ns });
                *next_seq += 1;
            }
        }
        let longest_ns = LONGEST_NS.0 * (*next_seq - before) + LONGEST_NS.1;
        *free_ns = now_ns + begin.map_or(0, |begin| (begin.elapsed().as_nanos() as u64).min(longest_ns));
        !queue.is_over()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.state().queue.dropped()
    }

    /// When packets can be taken next, ns; `None` if none will come.
    pub(super) fn next_ns(&self, offer: &Offer) -> Option<u64> {
        let state = self.state();
        let arrival_ns = match state.queue.is_empty() {
            true => state.queue.next().map(|number| offer.pace.arrival_ns(number)),
            false => Some(0),
        };
        arrival_ns.map(|arrival_ns| arrival_ns.max(state.free_ns))
    }

    /// Whether packets can be taken now that had come when it was last looked at.
    pub(super) fn is_waiting(&self, now_ns: u64) -> bool {
        let state = self.state();
        !state.queue.is_empty() && state.free_ns <= now_ns
    }
}
