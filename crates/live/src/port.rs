//! A port on interfaces: where packets come in, and where those that leave go.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use io::{Closed, Fate, Foreign, Frame, Pool, Port, Queue, Received};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::link::Link;
use crate::packet_socket::PacketSocket;
use crate::{Interface, LiveError};

/// How packets go between interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Out of the other one of two, unchanged but for the chain's edits.
    Bridge,
    /// Nowhere: packets are looked at.
    Mirror,
    /// Out of the one that they came from.
    OneArmed,
}

/// Frames that wait for an interface, at most. More of them keep the port from taking any.
const STAGED: usize = 256;
/// How long an interface may take no packet before those that wait for it are dropped.
const STALL: Duration = Duration::from_millis(10);

/// One or two interfaces as a port. Receives from each in turn.
pub struct LivePort {
    pool: Pool,
    mode: Mode,
    clock: Clock,
    sides: Vec<Side>,
    /// By chunk of the pool: the interface by which its packet came in.
    origins: Box<[u8]>,
    /// Whose turn it is to be received from.
    next: usize,
}

/// An interface, and what waits for it.
struct Side {
    interface: Interface,
    link: Box<dyn Link>,
    staged: Vec<Frame>,
    /// Since when it has taken nothing, though something waits.
    stalled: Option<Instant>,
    /// What the port counts beside the link.
    lost: InterfaceCounters,
}

impl LivePort {
    /// Opens sockets on interfaces: one for [`Mode::Mirror`] and [`Mode::OneArmed`], two for [`Mode::Bridge`]. `pool` is a
    /// pool of [chunks](Pool::chunks).
    ///
    /// # Errors
    /// [`LiveError`] says what is missing. Nothing stays open then.
    ///
    /// # Panics
    /// If there are not as many interfaces as the mode takes.
    pub fn open(interfaces: &[Interface], mode: Mode, mut pool: Pool) -> Result<LivePort, LiveError> {
        assert_eq!(interfaces.len(), if mode == Mode::Bridge { 2 } else { 1 }, "interfaces for {mode:?}");
        let side = |interface: &Interface| {
            Ok(Side {
                interface: interface.clone(),
                link: Box::new(PacketSocket::open(interface)?),
                staged: Vec::with_capacity(STAGED),
                stalled: None,
                lost: InterfaceCounters::default(),
            })
        };
        let sides = interfaces.iter().map(side).collect::<Result<Vec<_>, LiveError>>()?;
        let origins = vec![0; pool.free()].into();
        Ok(LivePort { pool, mode, clock: Clock::new(), sides, origins, next: 0 })
    }

    /// How long the chunks of a pool have to be for interfaces with this MTU: room for two VLAN tags, and before the
    /// packet for what the kernel puts there and for headers to grow.
    pub fn chunk_bytes(mtu: usize) -> usize {
        const HEADROOM: usize = 256 + 64;
        const ETHERNET: usize = 14 + 2 * 4;
        (HEADROOM + ETHERNET + mtu).next_power_of_two().clamp(2_048, 1 << 16)
    }

    /// The interfaces, what was chosen for each, and what it counts.
    pub fn interfaces(&mut self) -> Vec<(Interface, String, InterfaceCounters)> {
        let of = |Side { interface, link, lost, .. }: &mut Side| {
            let mut counters = link.counters();
            counters.lost.iter_mut().zip(lost.lost).for_each(|(sum, count)| *sum += count);
            (interface.clone(), link.describe(), counters)
        };
        self.sides.iter_mut().map(of).collect()
    }

    /// What becomes readable when packets arrive.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.sides.iter().map(|side| side.link.descriptor()).collect()
    }

    /// Frames of the pool that nobody has, and those that are lent: all of them, when nothing is on its way.
    pub fn at_home(&mut self) -> usize {
        self.pool.free() + self.pool.lent()
    }

    /// All frames of the pool.
    pub fn frames(&self) -> usize {
        self.origins.len()
    }

    /// Where a frame is to leave by.
    #[inline]
    fn way_out(&self, frame: &Frame, fate: Fate) -> Result<usize, Option<Lost>> {
        let from = usize::from(self.origins[self.pool.chunk_of(frame)]);
        match (fate, self.mode) {
            (Fate::DropBy { .. } | Fate::Drop(_), _) | (_, Mode::Mirror) => Err(None),
            (Fate::Host, _) => Err(Some(Lost::ForHost)),
            (Fate::Forward, Mode::Bridge) => Ok(1 - from),
            (Fate::TransmitBack, _) | (Fate::Forward, Mode::OneArmed) => Ok(from),
        }
    }

    /// Frames that may come to wait, all for one interface.
    fn room(&self) -> usize {
        self.sides.iter().map(|side| STAGED - side.staged.len()).min().unwrap_or(0)
    }

    /// Sends what waits. What waits for an interface that has taken nothing for some time is dropped: packets for others
    /// go on.
    fn flush(&mut self) {
        for side in &mut self.sides {
            if !side.staged.is_empty() {
                let before = side.staged.len();
                side.link.send(&mut self.pool, &mut side.staged);
                match side.staged.len() {
                    0 => side.stalled = None,
                    left if left < before => side.stalled = Some(Instant::now()),
                    left => {
                        let since = *side.stalled.get_or_insert_with(Instant::now);
                        if since.elapsed() > STALL {
                            side.lost.lost[Lost::RingFull as usize] += left as u64;
                            self.pool.give_back(side.staged.drain(..));
                        }
                    }
                }
            }
            side.link.turn(&mut self.pool);
        }
    }
}

impl Port for LivePort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        self.flush();
        self.clock.read();
        let begin = frames.len();
        for _ in 0..self.sides.len() {
            let from = self.next;
            self.next = (self.next + 1) % self.sides.len();
            let side = &mut self.sides[from];
            side.link.receive(&mut self.pool, &mut self.clock, max, frames);
            if frames.len() > begin {
                // A batch is of one interface.
                for frame in &frames[begin..] {
                    self.origins[self.pool.chunk_of(frame)] = from as u8;
                }
                return Received::Frames;
            }
        }
        Received::Idle
    }

    fn consumed(&self) -> u64 {
        self.clock.stamped()
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        // Whichever interface they are for.
        let mut taken = self.room().min(frames.len());
        if taken < frames.len() {
            self.flush();
            taken = self.room().min(frames.len());
        }
        for (frame, fate) in frames.drain(..taken).zip(fates) {
            match self.way_out(&frame, *fate) {
                Ok(to) => self.sides[to].staged.push(frame),
                Err(why) => {
                    if let Some(why) = why {
                        let from = usize::from(self.origins[self.pool.chunk_of(&frame)]);
                        self.sides[from].lost.lose(why);
                    }
                    self.pool.give_back([frame].into_iter());
                }
            }
        }
        self.flush();
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }

    fn queue(&self) -> Queue {
        Queue::default()
    }
}
