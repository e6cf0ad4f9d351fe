//! Rings between a core that has ports and cores behind it that have none.
//!
//! ```text
//!   interfaces ──► the front's port ──► Relay ──► ring ──► RelayPort ──► core 0
//!        ▲                                │  ▲               │
//!        └──────── transmit ◄─────────────┼──┴──── ring ◄────┘
//!                                         └──────► ring ──► RelayPort ──► core 1 ...
//! ```
//!
//! Frames go to a core and come back with their fates; bytes stay where they are. A ring to a core takes as many as its
//! share, and the front waits beyond that; the ring back has room for all frames, so a core never waits for the front.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ring::{Consumer, Producer, ring};

use crate::receive::Receive;
use crate::{
    Closed, Fate, Foreign, Frame, Pool, Port, QUEUE_FRAMES_MAX, Queue, Received, Reference, StampClock,
    Waiting,
};

/// Frames on their way to one core, at most: as in a run over a capture.
const RING_FRAMES: usize = QUEUE_FRAMES_MAX / 2;

/// Frames after which all cores are woken that have one queue: they step what others took.
const WAKE_FRAMES: u64 = 1_024;

/// How long a core sleeps at most, if nobody wakes it.
const SLEEP: Duration = Duration::from_millis(5);

/// A core that may sleep while its ring is empty.
#[derive(Default)]
struct Sleeper {
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The front's end. Gone with it, the cores' packets end.
pub struct Relay {
    to: Vec<Producer<Frame>>,
    back: Vec<Consumer<(Frame, Fate)>>,
    /// By core, frames passed on so far.
    sent: Vec<u64>,
    /// By core, frames that were passed on to it, less those that it sent back: it may send another core's.
    out: Vec<isize>,
    is_broken: bool,
    /// Where all cores have one queue: whether one of them is gone with frames in its hands.
    common: Option<Arc<AtomicBool>>,
    /// Whether something was passed on that any of them may take.
    is_for_any: Cell<bool>,
    /// By core, whether it sleeps, and whether there is something for it since that was last looked at.
    sleepers: Vec<(Arc<CachePadded<Sleeper>>, Cell<bool>)>,
}

/// A core's end: what the front passes on is received, and what is sent goes back to the front.
pub struct RelayPort {
    pool: Pool,
    receive: Receive,
    held: Held,
    back: Producer<(Frame, Fate)>,
    received: u64,
    waited: usize,
    sleeper: Arc<CachePadded<Sleeper>>,
    clock: Option<StampClock>,
}

/// Frames that a core has, and who is told when it goes with them.
#[derive(Default)]
struct Held {
    frames: isize,
    is_broken: Arc<AtomicBool>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.frames > 0 {
            self.is_broken.store(true, Ordering::Release);
        }
    }
}

impl Relay {
    /// For the cores that have these pools, guests of a pool with so many `frames`.
    ///
    /// # Panics
    /// If there are no frames.
    pub fn new(guests: Vec<Pool>, frames: usize) -> (Relay, Vec<RelayPort>) {
        let (to, receives): (Vec<_>, Vec<_>) = guests.iter().map(|_| ring(RING_FRAMES)).unzip();
        Relay::through(to, receives.into_iter().map(Receive::Own).collect(), (guests, frames))
    }

    /// A relay whose cores all take frames from one queue: those that are passed on to core 0.
    ///
    /// # Panics
    /// If there are no frames.
    pub fn one_queue(guests: Vec<Pool>, frames: usize) -> (Relay, Vec<RelayPort>) {
        let (to, queue) = ring(RING_FRAMES);
        let receives = Receive::common(queue, guests.len());
        let (mut relay, mut ports) = Relay::through(vec![to], receives, (guests, frames));
        let is_broken = Arc::new(AtomicBool::new(false));
        ports.iter_mut().for_each(|port| port.held.is_broken = Arc::clone(&is_broken));
        relay.common = Some(is_broken);
        (relay, ports)
    }

    fn through(
        to: Vec<Producer<Frame>>,
        receives: Vec<Receive>,
        (guests, frames): (Vec<Pool>, usize),
    ) -> (Relay, Vec<RelayPort>) {
        let cores = guests.len();
        let (sent, out) = (vec![0; cores], vec![0; cores]);
        let (back, sleepers) = (Vec::new(), Vec::new());
        let mut relay = Relay {
            to,
            back,
            sent,
            out,
            is_broken: false,
            common: None,
            is_for_any: Cell::new(false),
            sleepers,
        };
        let port = |(pool, receive)| {
            let (back, at_front) = ring(frames);
            relay.back.push(at_front);
            let sleeper = Arc::<CachePadded<Sleeper>>::default();
            relay.sleepers.push((Arc::clone(&sleeper), Cell::new(false)));
            let (held, received, waited, clock) = (Held::default(), 0, 0, None);
            RelayPort { pool, receive, held, back, received, waited, sleeper, clock }
        };
        let ports = guests.into_iter().zip(receives).map(port).collect();
        (relay, ports)
    }

    /// Passes a frame on to a core. It is to be [woken](Relay::wake) after some of them.
    ///
    /// # Errors
    /// The frame, if there is no room now: [collect](Relay::collect) and try again.
    ///
    /// # Panics
    /// If there is no such core.
    #[inline]
    pub fn pass(&mut self, core: usize, frame: Frame) -> Result<(), Frame> {
        self.to[core].push(frame)?;
        self.sent[core] += 1;
        self.out[core] += 1;
        match self.common {
            None => self.wake_soon(core),
            // All have to step it, some time soon.
            Some(_) if self.sent[core].is_multiple_of(WAKE_FRAMES) => self.wake_soon_all(),
            Some(_) => self.is_for_any.set(true),
        }
        Ok(())
    }

    /// Has the next [`wake`](Relay::wake) wake a core, whatever it was told.
    #[inline]
    pub fn wake_soon(&self, core: usize) {
        self.sleepers[core].1.set(true);
    }

    /// Wakes all cores that sleep.
    pub fn wake_all(&mut self) {
        self.wake_soon_all();
        self.wake();
    }

    fn wake_soon_all(&self) {
        (0..self.sleepers.len()).for_each(|core| self.wake_soon(core));
    }

    /// Wakes cores that sleep though frames were passed on to them. A core that falls asleep meanwhile sees them first.
    #[inline]
    pub fn wake(&mut self) {
        // Frames are passed on before it is asked who sleeps; a core says that it sleeps before it looks for frames. So
        // one of the two sees the other.
        fence(Ordering::SeqCst);
        // Whichever does not sleep takes it.
        let is_asleep =
            |(sleeper, _): &(Arc<CachePadded<Sleeper>>, _)| sleeper.is_asleep.load(Ordering::Relaxed);
        if self.is_for_any.take() && self.sleepers.iter().all(is_asleep) {
            self.wake_soon(0);
        }
        for (sleeper, is_due) in &self.sleepers {
            if is_due.take() && sleeper.is_asleep.load(Ordering::Relaxed) {
                sleeper.thread.get().into_iter().for_each(Thread::unpark);
            }
        }
    }

    /// Appends what cores have done, up to `most` frames of each.
    #[inline]
    pub fn collect(&mut self, most: usize, done: &mut Vec<(Frame, Fate)>) {
        for (back, out) in self.back.iter_mut().zip(&mut self.out) {
            // Before the ring is looked at: what came before the end is seen then.
            let is_gone = back.is_abandoned();
            let count = back.pop_into(done, most);
            *out -= count as isize;
            self.is_broken |= self.common.is_none() && is_gone && count == 0 && *out > 0;
        }
        self.is_broken |= self.common.as_ref().is_some_and(|is_broken| is_broken.load(Ordering::Acquire));
    }

    /// By core, frames passed on so far.
    pub fn sent(&self, core: usize) -> u64 {
        self.sent[core]
    }

    /// Frames that were passed on and have not been collected.
    pub fn out(&self) -> usize {
        self.out.iter().sum::<isize>().unsigned_abs()
    }

    /// Whether a core is gone with frames that it had, as [collecting](Relay::collect) found.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nothing more is passed on: cores see the end behind the last frame.
    pub fn end(&mut self) {
        self.to.clear();
    }
}

impl RelayPort {
    /// Has this clock stamp packets at the front.
    pub fn with_clock(self, clock: Option<StampClock>) -> RelayPort {
        RelayPort { clock, ..self }
    }

    /// The core's pool, for another relay, once this one has ended and all that it passed on is back.
    pub fn into_pool(self) -> Pool {
        self.pool
    }
}

impl Port for RelayPort {
    #[inline]
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        // Before the ring is looked at: what came before the end is seen then.
        let before = frames.len();
        let (is_over, waited, count) = self.receive.with(|queue| {
            let (is_over, waited) = (queue.is_abandoned(), queue.len());
            (is_over, waited, queue.pop_into(frames, max))
        });
        self.waited = waited;
        self.received += count as u64;
        self.held.frames += count as isize;
        let of_front = self.pool.take_over(&frames[before..]);
        debug_assert!(of_front.is_ok(), "the front passes on frames of its pool");
        match count {
            0 if is_over => Received::End,
            0 => Received::Idle,
            _ => Received::Frames,
        }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn clock(&self) -> Option<StampClock> {
        self.clock
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    #[inline]
    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.pool.references(frames, references);
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    #[inline]
    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        if self.back.is_abandoned() {
            return Err(Closed);
        }
        let taken = self.back.room_for(frames.len()).min(frames.len());
        self.pool.hand_over(&frames[..taken]);
        self.held.frames -= taken as isize;
        self.back.push_from(&mut frames.drain(..taken).zip(fates.iter().copied()));
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }

    /// Sleeps until the front passes something on, once spinning has not helped.
    fn idle(&mut self, waiting: &Waiting) {
        // A core whose queue has ended waits for other cores, which may need its processor.
        if !waiting.is_long() || self.receive.with(|queue| queue.is_abandoned()) {
            return waiting.wait();
        }
        self.sleeper.thread.get_or_init(thread::current);
        self.sleeper.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.receive.with(|queue| queue.is_empty() && !queue.is_abandoned()) {
            thread::park_timeout(SLEEP);
        }
        self.sleeper.is_asleep.store(false, Ordering::Relaxed);
    }

    /// The front waits while the ring is full: nothing is lost here.
    fn queue(&self) -> Queue {
        Queue { depth: Some(self.waited as u32), lost: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use wire::{LinkType, Stamp};

    use super::*;
    use crate::contract::{Lab, port_contract};

    /// A front that fills frames itself, and the two cores behind it.
    struct Front {
        pool: Pool,
        relay: Option<Relay>,
        ports: Vec<RelayPort>,
        seq: u64,
        left: u64,
        frames: usize,
    }

    impl Front {
        fn new() -> Front {
            let (mut pool, guests) = Pool::chunks(1, 1 << 16, 2);
            let frames = pool.free();
            let (relay, ports) = Relay::new(guests, frames);
            Front { pool, relay: Some(relay), ports, seq: 0, left: 0, frames }
        }
    }

    impl Lab for Front {
        fn port(&mut self, number: usize) -> &mut dyn Port {
            &mut self.ports[number]
        }

        fn arrive(&mut self, number: usize, packets: usize) {
            let Some(relay) = &mut self.relay else { return };
            for _ in 0..packets {
                let stamp = Stamp { seq: self.seq, time_ns: self.seq };
                let Some(frame) = self.pool.fill(stamp, LinkType::Ethernet, 60, &[self.seq as u8; 60]) else {
                    return;
                };
                self.seq += 1;
                relay.pass(number, frame).expect("room for a pool");
            }
        }

        fn left(&mut self) -> u64 {
            let mut done = Vec::new();
            self.relay.iter_mut().for_each(|relay| relay.collect(usize::MAX, &mut done));
            self.left += done.len() as u64;
            self.pool.give_back(done.into_iter().map(|(frame, _)| frame));
            self.left
        }

        fn counts_drops(&self) -> bool {
            true
        }

        fn frames(&self) -> usize {
            self.frames
        }

        fn close(&mut self, _: usize) -> bool {
            self.relay = None;
            true
        }
    }

    #[test]
    fn it_keeps_the_contract() {
        port_contract(Front::new);
    }

    #[test]
    fn a_core_sees_the_end_behind_the_last_frame() {
        let mut front = Front::new();
        front.arrive(0, 3);
        front.relay.iter_mut().for_each(Relay::end);
        let mut frames = Vec::new();
        assert_eq!(front.ports[0].receive(&mut frames, 64), Received::Frames);
        assert_eq!(front.ports[0].receive(&mut frames, 64), Received::End);
        assert_eq!(front.ports[1].receive(&mut frames, 64), Received::End);
        assert_eq!((front.ports[0].send(&mut frames, &[Fate::Forward; 3]), front.left()), (Ok(()), 3));
        assert_eq!(front.relay.as_ref().map(Relay::out), Some(0));
    }

    /// Falls asleep whenever nothing has come.
    fn work(mut port: RelayPort) {
        let (mut frames, waiting) = (Vec::new(), Waiting::default());
        loop {
            match port.receive(&mut frames, 64) {
                Received::Frames => port.send(&mut frames, &[Fate::Forward]).expect("it is there"),
                Received::Idle if waiting.is_long() => port.idle(&waiting),
                Received::Idle => waiting.wait(),
                Received::End => return,
            }
        }
    }

    /// Nobody waits for the end of a sleep: each of many frames, passed on one at a time, comes back soon.
    #[test]
    fn a_core_that_sleeps_is_woken() {
        const FRAMES: u32 = 200;
        for (cores, new) in [(1, Relay::new as fn(_, _) -> _), (1, Relay::one_queue), (3, Relay::one_queue)] {
            let (mut pool, guests) = Pool::chunks(1, 1 << 16, cores);
            let (mut relay, ports) = new(guests, pool.free());
            thread::scope(|scope| {
                ports.into_iter().for_each(|port| drop(scope.spawn(move || work(port))));
                let begin = std::time::Instant::now();
                let mut done = Vec::new();
                for number in 0..FRAMES {
                    let stamp = Stamp { seq: number.into(), time_ns: 0 };
                    let frame = pool.fill(stamp, LinkType::Ethernet, 60, &[0; 60]).expect("one is free");
                    relay.pass(0, frame).expect("room");
                    relay.wake();
                    while done.is_empty() {
                        thread::yield_now();
                        relay.collect(1, &mut done);
                    }
                    pool.give_back(done.drain(..).map(|(frame, _)| frame));
                }
                assert!(begin.elapsed() < SLEEP * FRAMES / 2, "{:?}", begin.elapsed());
                relay.end();
            });
        }
    }

    #[test]
    fn a_core_that_is_gone_with_frames_of_a_common_queue_is_noticed() {
        let (mut pool, guests) = Pool::chunks(1, 1 << 16, 3);
        let (mut relay, mut ports) = Relay::one_queue(guests, pool.free());
        for seq in 0..2 {
            let stamp = Stamp { seq, time_ns: 0 };
            let frame = pool.fill(stamp, LinkType::Ethernet, 60, &[0; 60]).expect("one is free");
            relay.pass(0, frame).expect("room");
        }
        let is_broken = |relay: &mut Relay| {
            relay.collect(64, &mut Vec::new());
            relay.is_broken()
        };
        let mut frames = Vec::new();
        assert_eq!(ports[1].receive(&mut frames, 1), Received::Frames);
        assert_eq!(ports[1].send(&mut frames, &[Fate::Forward]), Ok(()));
        ports.truncate(2);
        assert!(!is_broken(&mut relay), "it had none");
        assert_eq!(ports[0].receive(&mut frames, 1), Received::Frames);
        assert!(!is_broken(&mut relay));
        ports.clear();
        assert!(is_broken(&mut relay));
    }

    /// A core that sleeps is also woken for what it is told that is no frame.
    #[test]
    fn a_core_that_sleeps_is_woken_for_what_is_no_frame() {
        const TIMES: u32 = 200;
        let (mut pool, guests) = Pool::chunks(1, 1 << 16, 1);
        let (mut relay, mut ports) = Relay::new(guests, pool.free());
        let mut port = ports.remove(0);
        let (told, seen) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let waiting = Waiting::default();
                while port.receive(&mut Vec::new(), 64) != Received::End {
                    seen.store(told.load(Ordering::Acquire), Ordering::Release);
                    if waiting.is_long() { port.idle(&waiting) } else { waiting.wait() }
                }
            });
            let begin = std::time::Instant::now();
            for time in 1..=TIMES {
                told.store(time, Ordering::Release);
                while seen.load(Ordering::Acquire) < time {
                    relay.wake_all();
                    thread::yield_now();
                }
            }
            assert!(begin.elapsed() < SLEEP * TIMES / 2, "{:?}", begin.elapsed());
            relay.end();
        });
    }

    #[test]
    fn a_core_that_is_gone_is_noticed() {
        let mut front = Front::new();
        let is_broken = |front: &mut Front| {
            front.left();
            front.relay.as_ref().map(Relay::is_broken)
        };
        front.arrive(0, 1);
        front.arrive(1, 1);
        let (mut done, mut frames) = (front.ports.remove(0), Vec::new());
        done.receive(&mut frames, 1);
        assert_eq!((done.send(&mut frames, &[Fate::Forward]), is_broken(&mut front)), (Ok(()), Some(false)));
        drop(done);
        assert_eq!(is_broken(&mut front), Some(false), "it is gone, and had nothing");
        front.ports.clear();
        assert_eq!(is_broken(&mut front), Some(true), "its frame is gone with it");
    }
}
