//! The way of single packets through the chain, for whoever asks: VPP's `trace`, Cilium's `monitor`.
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
use wire::Headers;

use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::laps::Laps;
use crate::path::look::Look;
use crate::path::packets::{all_bits, bits};
use crate::path::traced::{Traced, TracedNames, TracedStep, edits_between, steps_of};

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

/// Somebody traces already.
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

    /// Of these, packets that were not traced, since those before had not been read.
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
    core: usize,
    names: Arc<TracedNames>,
    generation: u64,
    active: Option<Arc<Active>>,
    /// Packets traced since it began.
    traced: usize,
    /// Packets of the batch, by index, whose fate is not known yet.
    pending: Vec<(usize, Traced)>,
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

    /// The packets of the batch that are to be traced.
    fn choose(&mut self, batch: &Batch, port: &dyn Port) -> u64 {
        let Some(active) = &self.active else { return 0 };
        let mut chosen = 0;
        for packet in bits(batch.own()) {
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
    fn tell(&mut self, batch: &Batch) {
        let Some(active) = &self.active else { return self.pending.clear() };
        for (packet, traced) in self.pending.drain(..) {
            // There is room, as its place was taken; or nobody reads any more.
            let _ = active.sender.try_send(Box::new(Traced { fate: batch.fates[packet], ..traced }));
        }
    }
}

impl ChainCore {
    /// Has this core, with this number, trace what is asked for.
    pub(crate) fn trace(&mut self, tracing: &Arc<Tracing>, core: usize, names: &Arc<TracedNames>) {
        self.tracer = Some(Box::new(Tracer::new(tracing, core, names)));
    }

    /// The same as [`ChainCore::process`] where packets may have to be traced.
    #[cold]
    pub(crate) fn process_traced(&mut self, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let Some(mut tracer) = self.tracer.take() else { return };
        let mut rest = all_bits(batch.len());
        for packet in bits(tracer.choose(batch, port)) {
            self.pass_some(rest & all_bits(packet), batch, port, laps);
            rest &= !all_bits(packet + 1);
            let steps = self.trace_one(packet, &tracer.names, batch, port, laps);
            let (frame, headers) = (&batch.frames[packet], steps.1);
            let traced = Traced {
                stamp: frame.stamp,
                core: tracer.core,
                headers,
                wire_len: frame.wire_len,
                steps: steps.0,
                fate: batch.fates[packet],
                names: Arc::clone(&tracer.names),
            };
            tracer.pending.push((packet, traced));
        }
        self.pass_some(rest, batch, port, laps);
        self.tracer = Some(tracer);
    }

    /// Tells of the packets of the batch that were traced, once their fate is known.
    #[inline]
    pub(crate) fn tell_traced(&mut self, batch: &Batch) {
        if let Some(tracer) = &mut self.tracer
            && !tracer.pending.is_empty()
        {
            tracer.tell(batch);
        }
    }

    /// Takes some packets of the batch through the chain.
    fn pass_some(&mut self, packets: u64, batch: &mut Batch, port: &dyn Port, laps: &mut dyn Laps) {
        let aside = batch.live & !packets;
        batch.live &= packets;
        if batch.live != 0 {
            self.pass(batch, port, laps);
        }
        batch.live |= aside;
    }

    /// Takes one packet through the chain, group by group. Also says what its headers were.
    fn trace_one(
        &mut self,
        packet: usize,
        names: &TracedNames,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) -> (Vec<TracedStep>, Headers) {
        let received = batch.headers[packet];
        let mut steps = Vec::new();
        let aside = batch.live & !(1 << packet);
        batch.live &= 1 << packet;
        let is_met = batch.live != 0;
        let (outside, crossing) = match &self.checks.sides {
            Some(sides) if !self.between.is_empty() => sides.of(batch),
            _ => (0, u64::MAX),
        };
        let followers = batch.runs.put_aside(packet);
        batch.is_reversed = outside != 0;
        for index in 0..self.groups.len() {
            let index = if batch.is_reversed { self.groups.len() - 1 - index } else { index };
            let is_past = self.between.get(index).is_some_and(|is_between| *is_between) && crossing == 0;
            if batch.live == 0 || is_past {
                continue;
            }
            let now_ns = batch.frames[packet].stamp.time_ns;
            let (headers, edits) = (batch.headers[packet], batch.edits[packet]);
            let members = self.places.iter().enumerate().filter(|(_, place)| place.group == index);
            let mut members: Vec<(usize, usize)> =
                members.map(|(function, place)| (function, place.member)).collect();
            if batch.is_reversed {
                members.reverse();
            }
            let group = &mut self.groups[index];
            let before: Vec<Look> =
                members.iter().map(|(_, member)| group.look(*member, &headers, now_ns)).collect();
            group.process(batch, port, laps);
            let after = members.iter().map(|(_, member)| group.look(*member, &headers, now_ns));
            let edited = edits_between(&received, &edits, &batch.edits[packet]);
            let functions = members.iter().map(|(function, _)| *function);
            steps_of(functions.zip(before.into_iter().zip(after)), edited, names, &mut steps);
        }
        batch.is_reversed = false;
        if followers > 0 && is_met {
            // History behind it that shares its entry; the packet's own fate is decided.
            let live = batch.live;
            batch.runs.put_back(packet, followers);
            batch.live = 1 << packet;
            self.pass(batch, port, laps);
            batch.live = live;
        }
        batch.live |= aside;
        (steps, received)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
