//! The core in front of others: it has the port, picks packets' cores, and sends what they are done with.

use std::thread;

use io::{Closed, Fate, Frame, Port, Received, Relay, Waiting};

use crate::path::packets::BATCH_PACKETS;
use crate::strategies::dispatch::{Dispatcher, Queues};
use crate::strategies::egress::Egress;
use crate::strategies::ingress::{Ingress, put_first};

/// What a front makes room for.
pub(crate) struct Room {
    /// In which order packets leave.
    pub(crate) egress: Egress,
    /// How many can be out.
    pub(crate) frames: usize,
    /// The number of the first packet that comes.
    pub(crate) first: u64,
}

/// Turns without packets after which cores that sleep are woken while others have packets: one may wait for what another
/// sends it, which nobody woke it for.
const WAKE_TURNS: u32 = 64;

/// Dispatches packets until the port ends, and sends all that come back. Says how many did.
pub(crate) fn front(
    port: &mut impl Port,
    ingress: &mut Ingress,
    mut dispatcher: Box<dyn Dispatcher>,
    relay: Relay,
    Room { egress, frames, first }: Room,
) -> u64 {
    let mut back = Back {
        relay,
        done: Vec::with_capacity(frames),
        window: Window::new(egress, frames, first),
        frames: Vec::with_capacity(frames),
        fates: Vec::with_capacity(frames),
        sent: 0,
        is_closed: false,
    };
    let mut arrived = Vec::with_capacity(BATCH_PACKETS);
    let (waiting, mut idle_turns) = (Waiting::default(), 0_u32);
    loop {
        match port.receive(&mut arrived, BATCH_PACKETS) {
            Received::Frames => waiting.over(),
            Received::Idle if back.turn(port) => waiting.over(),
            Received::Idle if back.is_over() => break,
            // What cores have in hand comes back at any time: a sleep would add to the time that it takes.
            Received::Idle if back.relay.out() > 0 => {
                idle_turns += 1;
                if idle_turns % WAKE_TURNS == 0 {
                    back.relay.wake_all();
                }
                thread::yield_now();
            }
            Received::Idle => port.idle(&waiting),
            Received::End => break,
        }
        port.hand_over(&arrived);
        let headers = ingress.batch(&mut arrived, port, Port::bytes, put_first);
        // Nobody takes frames any more where there is no telling: they end here.
        let _ = dispatcher.tell(headers, &arrived, &back);
        for (mut frame, headers) in arrived.drain(..).zip(headers) {
            let Ok(core) = dispatcher.dispatch(headers, &mut frame, &back) else { continue };
            back.pass(port, core, frame);
        }
        back.relay.wake();
        back.turn(port);
    }
    // The history ends before the cores see that their queues do.
    drop(dispatcher);
    back.relay.end();
    while back.relay.out() > 0 && !back.is_over() {
        match back.turn(port) {
            true => waiting.over(),
            false => waiting.wait(),
        }
    }
    back.sent
}

/// The way back: from the cores to the port.
struct Back {
    relay: Relay,
    done: Vec<(Frame, Fate)>,
    window: Window,
    /// In the order in which they leave.
    frames: Vec<Frame>,
    fates: Vec<Fate>,
    sent: u64,
    /// Nobody will ever take frames again.
    is_closed: bool,
}

impl Back {
    /// Passes a frame on; while there is no room, sends what comes back. Frames of a core that is gone are lost with it.
    #[inline]
    fn pass(&mut self, port: &mut impl Port, core: usize, mut frame: Frame) {
        let waiting = Waiting::default();
        while let Err(not_passed) = self.relay.pass(core, frame) {
            if self.is_over() {
                return;
            }
            frame = not_passed;
            self.relay.wake();
            if !self.turn(port) {
                waiting.wait();
            }
        }
    }

    /// Sends what the cores are done with, as far as it is its turn. Says whether there was any.
    fn turn(&mut self, port: &mut impl Port) -> bool {
        self.relay.collect(BATCH_PACKETS, &mut self.done);
        if self.done.is_empty() {
            return false;
        }
        self.window.order(&mut self.done, &mut self.frames, &mut self.fates);
        if !self.frames.is_empty() {
            self.sent += self.frames.len() as u64;
            let ours = port.take_over(&self.frames);
            debug_assert!(ours.is_ok(), "these are frames that the port handed over");
            self.is_closed |= port.send(&mut self.frames, &self.fates) == Err(Closed);
            self.fates.clear();
        }
        true
    }

    /// Whether a core is gone, or the port: then nothing more comes of it.
    fn is_over(&self) -> bool {
        self.is_closed || self.relay.is_broken()
    }
}

impl Queues for Back {
    fn sent(&self, core: usize) -> u64 {
        self.relay.sent(core)
    }

    fn is_closed(&self) -> bool {
        self.is_over()
    }

    fn wake(&self, core: usize) {
        self.relay.wake_soon(core);
    }
}

/// Puts packets back into the order in which they came, where they are to leave so.
struct Window {
    /// By number, modulo their count, packets that are done ahead of an earlier one. No more numbers can be on their way
    /// than there are frames.
    slots: Box<[Option<(Frame, Fate)>]>,
    /// The number that leaves next.
    next: u64,
}

impl Window {
    fn new(egress: Egress, frames: usize, first: u64) -> Window {
        let slots = match egress {
            Egress::Ordered => (0..frames.next_power_of_two()).map(|_| None).collect(),
            Egress::AsReady => Box::default(),
        };
        Window { slots, next: first }
    }

    /// Moves packets that are done to those that leave, as far as it is their turn.
    fn order(&mut self, done: &mut Vec<(Frame, Fate)>, frames: &mut Vec<Frame>, fates: &mut Vec<Fate>) {
        let mut leave = |(frame, fate)| {
            frames.push(frame);
            fates.push(fate);
        };
        let Some(mask) = self.slots.len().checked_sub(1) else {
            return done.drain(..).for_each(leave);
        };
        for (frame, fate) in done.drain(..) {
            let slot = frame.stamp.seq as usize & mask;
            self.slots[slot] = Some((frame, fate));
        }
        while let Some(next) = self.slots[self.next as usize & mask].take() {
            self.next += 1;
            leave(next);
        }
    }
}
