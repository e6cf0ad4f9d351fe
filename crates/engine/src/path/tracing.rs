//! Tracing: the way of single packets through the chain, as VPP's `trace` and Cilium's `monitor` show it.
//!
//! ```text
//!   a batch        0 1 2 (3) 4 5 (6) 7          (): packets that match the filter
//!   goes as        0 1 2 | 3 | 4 5 | 6 | 7      each of them alone, group by group
//!                          │
//!                          └─ each function is asked before and after: key, state, what it counted
//! ```
//!
//! What comes out does not depend on where batches are cut. So a core that traces cuts its batches around the packets that
//! are to be traced, and the steps themselves know nothing of it: without a trace a batch pays two tests. What a core makes
//! for a traced packet it allocates; how many at once is bounded ([`Tracing::start`]). Beyond that packets go their way
//! and are counted as missed, so that a reader who is slow stalls nobody.
//!
//! Under `scr` a packet is traced by the core whose own it is; history is not. Where cores share states, another core may
//! step a flow between the look before a step and the look after it.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use io::Port;
use io::filter::Filter;

use crate::path::batch::Batch;
use crate::path::packets::bits;
use crate::path::traced::{Traced, TracedNames};

/// Where packets are asked for, and cores look whether any are. One for all cores of a run.
#[derive(Default)]
pub struct Tracing {
    /// Changes with what is asked for.
    generation: AtomicU64,
    active: Mutex<Option<Arc<Active>>>,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// Another trace is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another trace is on\nWait until it ends, or end it.")]
pub struct Busy;

/// What is asked for.
struct Active {
    filter: Filter,
    /// The most packets of each core.
    limit: usize,
    /// The most packets that are traced and not read yet.
    room: usize,
    waiting: AtomicUsize,
    matched: AtomicU64,
    missed: AtomicU64,
    sender: SyncSender<Box<Traced>>,
}

/// Packets that are traced, as long as this is held.
pub struct Traces {
    tracing: Arc<Tracing>,
    active: Arc<Active>,
    receiver: Receiver<Box<Traced>>,
}

impl Tracing {
    /// Has cores trace packets that match: each core its first `limit`, and no more than `room` that were not read.
    ///
    /// # Errors
    /// [`Busy`] while others trace.
    pub fn start(self: &Arc<Self>, filter: Filter, limit: usize, room: usize) -> Result<Traces, Busy> {
        let (sender, receiver) = sync_channel(room);
        let mut place = lock(&self.active);
        if place.is_some() {
            return Err(Busy);
        }
        let (waiting, matched, missed) = Default::default();
        let active = Arc::new(Active { filter, limit, room, waiting, matched, missed, sender });
        *place = Some(Arc::clone(&active));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(Traces { tracing: Arc::clone(self), active, receiver })
    }
}

impl Traces {
    /// The next packet, if one is there within `patience`. Packets of a core come in its order.
    pub fn next(&self, patience: Duration) -> Option<Traced> {
        let traced = match self.receiver.recv_timeout(patience) {
            Ok(traced) => traced,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        };
        self.active.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(*traced)
    }

    /// Packets that matched so far.
    pub fn matched(&self) -> u64 {
        self.active.matched.load(Ordering::Relaxed)
    }

    /// How many of the packets that matched were not traced, since those before had not been read.
    pub fn missed(&self) -> u64 {
        self.active.missed.load(Ordering::Relaxed)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        *lock(&self.tracing.active) = None;
        self.tracing.generation.fetch_add(1, Ordering::Release);
    }
}

/// One core's part of it.
pub(crate) struct Tracer {
    tracing: Arc<Tracing>,
    pub(super) core: usize,
    pub(super) names: Arc<TracedNames>,
    generation: u64,
    active: Option<Arc<Active>>,
    /// Packets traced since it began.
    traced: usize,
    /// Packets of the batch, by index, whose fate is not known yet.
    pub(super) pending: Vec<(usize, Traced)>,
}

impl Tracer {
    pub(crate) fn new(tracing: &Arc<Tracing>, core: usize, names: &Arc<TracedNames>) -> Tracer {
        Tracer {
            tracing: Arc::clone(tracing),
            core,
            names: Arc::clone(names),
            generation: 0,
            active: None,
            traced: 0,
            pending: Vec::new(),
        }
    }

    /// Whether anything is to be traced.
    #[inline]
    pub(crate) fn is_on(&mut self) -> bool {
        if self.tracing.generation.load(Ordering::Relaxed) != self.generation {
            self.look();
        }
        self.active.is_some()
    }

    #[cold]
    fn look(&mut self) {
        let active = lock(&self.tracing.active);
        self.generation = self.tracing.generation.load(Ordering::Acquire);
        self.active = active.clone();
        self.traced = 0;
    }

    /// Which of these packets of the batch are to be traced.
    pub(super) fn choose(&mut self, packets: u64, batch: &Batch, port: &dyn Port) -> u64 {
        let Some(active) = &self.active else { return 0 };
        let mut chosen = 0;
        for packet in bits(packets) {
            let frame = &batch.frames[packet];
            if !active.filter.matches(frame.link, port.bytes(frame), frame.wire_len) {
                continue;
            }
            active.matched.fetch_add(1, Ordering::Relaxed);
            if self.traced == active.limit {
                continue;
            }
            let place = active.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < active.room).then_some(waiting + 1)
            });
            match place {
                Ok(_) => {
                    self.traced += 1;
                    chosen |= 1 << packet;
                }
                Err(_) => _ = active.missed.fetch_add(1, Ordering::Relaxed),
            }
        }
        chosen
    }

    /// Tells what became of packets.
    #[cold]
    pub(super) fn tell(&mut self, batch: &Batch) {
        let Some(active) = &self.active else { return self.pending.clear() };
        for (packet, traced) in self.pending.drain(..) {
            // There is room, as its place was taken; or nobody reads any more.
            let _ = active.sender.try_send(Box::new(Traced { fate: batch.fates[packet], ..traced }));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
