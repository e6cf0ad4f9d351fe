//! All queues of an interface by AF_XDP, for one thread; or for each of several, which have sockets of their own.
//!
//! ```text
//!                               ┌─► core 0: its socket of queue 0, of queue 1 ...: a receive and a transmit ring each
//!   packet ──► XDP program ─────┤
//!                               └─► core 1: its socket of queue 0, of queue 1 ...
//!   each queue: one fill and one completion ring, used by whichever core comes by
//! ```
//!
//! Where packets are not spread, cores take them from the first one's receive rings, one core at a time, and each sends by
//! sockets of its own.

#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::{Frame, Lent, Pool};
use wire::{LinkType, Stamp, complete, parse};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::link::Link;
use crate::long::Long;
use crate::offload::LeftToCard;
use crate::packet_socket::sees_all;
use crate::parts::Parts;
use crate::xdp::{
    AttachMode, BusyPoll, Descriptor, LINK_BYTES, SocketOptions, Steering, Umem, XDP_HEADROOM, XdpProgram,
    XdpSocket, page_bytes,
};
use crate::{Interface, LiveError};

/// Packets taken from the kernel, or given to it, at a time.
const BATCH: usize = 64;
/// Entries of each ring.
const RING: u32 = 2_048;
/// Entries, at most, of the rings that all sockets of a queue share.
const LARGEST: u32 = 8 * RING;
/// The shortest frame that the kernel sends: an Ethernet header.
const SHORTEST: usize = 14;

/// How often in a row a core passes on where another one has the rings of a queue, before it waits for them.
const MISSES: u32 = 16;

/// The sockets of an interface, one for each queue, and the program that steers packets to them.
pub(crate) struct XdpLink {
    // Detached first: the host gets packets again before there is nobody else to take them.
    program: Arc<Mutex<XdpProgram>>,
    sockets: Vec<XdpSocket>,
    /// Packets of queues without a socket, as was noted last.
    unserved: Arc<AtomicU64>,
    /// Which core's sockets these are.
    core: usize,
    /// Whether all cores take packets from the first one's receive rings.
    takes_in_turns: bool,
    /// How many cores have sockets that are open.
    holders: Arc<AtomicUsize>,
    /// How often in a row another core had the rings of some queue.
    misses: u32,
    /// Keeps the interface open for packets to other addresses.
    _sees_all: Option<Arc<OwnedFd>>,
    /// The interface's number in its port: the pool knows by it what is lent here.
    number: u8,
    /// Chunks that each socket should have to receive into.
    filled: usize,
    /// Whether checksums that a sender left to a card have to be completed.
    completes: bool,
    /// Where frames may be longer than a page.
    parts: Option<Parts>,
    /// Where packets may be longer than the MTU, and have to be segmented.
    long: Option<Long>,
    /// By socket, how far its receive ring had come when that was noted last.
    marks: Vec<u32>,
    /// Which queue is received from next.
    next: usize,
    is_down: bool,
    counters: InterfaceCounters,
    descriptors: Vec<Descriptor>,
    chunks: Vec<u64>,
    unsent: Vec<Frame>,
}

/// How a link is opened, and what it has of its port's pool.
#[derive(Clone, Copy)]
pub(crate) struct LinkOptions {
    /// The interface's number in its port.
    pub(crate) number: u8,
    /// How many frames wait for packets of it.
    pub(crate) waiting: usize,
    /// How long a frame is, bytes.
    pub(crate) frame_bytes: usize,
    /// Whether some interface of the port has frames longer than a page.
    pub(crate) has_parts: bool,
    /// Whether frames to other addresses are wanted, too.
    pub(crate) sees_all: bool,
    /// Whether the thread that has the port also does the driver's work.
    pub(crate) polls_driver: bool,
    /// How many cores have sockets.
    pub(crate) cores: usize,
    /// Whether an interface is refused where packets may come that are to be segmented: another socket is told how.
    pub(crate) refuses_long: bool,
}

impl LinkOptions {
    /// How many chunks wait at each of so many queues.
    fn filled(&self, queues: u32) -> usize {
        (self.waiting / queues as usize).clamp(1, LARGEST as usize)
    }

    /// Entries of the rings that all sockets of a queue have: as many as those that each has for itself together, and room
    /// for all that may wait.
    fn ring_of_all(&self, filled: usize) -> u32 {
        let of_cores = RING * (self.cores as u32).next_power_of_two().min(LARGEST / RING);
        of_cores.max(filled.next_power_of_two() as u32)
    }
}

/// Opens the sockets of these queues: by core, one for each queue. Where packets are to be segmented they take packets in
/// several chunks, if the kernel can.
fn open_sockets(
    interface: &Interface,
    queues: Range<u32>,
    umem: &Umem,
    (is_spread, segments): (bool, bool),
    options: LinkOptions,
) -> Result<Vec<Vec<XdpSocket>>, LiveError> {
    let LinkOptions { has_parts, polls_driver, cores, .. } = options;
    let rings = if is_spread { cores } else { 1 };
    let filled = options.filled(interface.queues);
    let of_all = options.ring_of_all(filled);
    // A core that lags behind does not keep all that waits for packets: others go on.
    let of_one = if cores == 1 { of_all } else { RING };
    let mut options = SocketOptions {
        fill: of_all,
        receive: of_one.min((2 * filled / rings).next_power_of_two() as u32).max(BATCH as u32),
        transmit: RING,
        completion: of_all,
        takes_parts: has_parts || segments,
        busy_poll: polls_driver.then_some(POLL),
        ..SocketOptions::default()
    };
    let open = |options: &SocketOptions| {
        let open = |queue| XdpSocket::open(umem, interface, queue, options);
        queues.clone().map(open).collect::<Result<Vec<_>, _>>()
    };
    let first = match open(&options) {
        // Before Linux 6.6 long packets are lost, and counted as too long.
        Err(_) if segments && !has_parts => {
            options.takes_parts = false;
            open(&options)?
        }
        first => first?,
    };
    let beside = |socket: &XdpSocket| {
        let mut beside = socket.beside(&options)?;
        if rings == 1 {
            beside.take_from(socket);
        }
        Ok(beside)
    };
    let all_beside = |_| first.iter().map(beside).collect::<Result<Vec<_>, LiveError>>();
    let others = (1..cores).map(all_beside).collect::<Result<Vec<_>, _>>()?;
    Ok(std::iter::once(first).chain(others).collect())
}

/// A call of the driver takes as long as a few packets, and takes a batch of them.
const POLL: BusyPoll = BusyPoll { micros: 20, budget: BATCH as u32 };

/// The memory of a pool of chunks, as AF_XDP knows it: in pages where chunks are longer.
///
/// # Errors
/// [`LiveError`] if the kernel takes no such chunks.
pub(crate) fn umem(pool: &Pool) -> Result<Umem, LiveError> {
    let (start, bytes) = pool.memory();
    let chunk_bytes = pool.chunk_bytes().min(page_bytes()) as u32;
    // SAFETY: the owner keeps the memory; the pool gives no access to a chunk from `lend` and `lend_frame` on until
    // `receive_lent` or `take_back`, and that is when sockets hold it.
    unsafe { Umem::new(start, bytes, chunk_bytes, 0, pool.owner()) }
}

impl XdpLink {
    /// Opens a socket for each queue and core. Packets are [spread](Steering::spread) over the cores, or cores take them in
    /// turns. No packets are steered to them yet.
    ///
    /// # Errors
    /// [`LiveError`] says what is missing, or what is in the way. Everything is as before then. Where there are several
    /// cores, the program has to run in the driver: elsewhere the kernel may run it on several processors at once for one
    /// queue, and older ones then mix up what sockets have in common.
    pub(crate) fn open_each(
        interface: &Interface,
        steering: &Steering,
        umem: &Umem,
        options: LinkOptions,
    ) -> Result<Vec<XdpLink>, LiveError> {
        let LinkOptions { number, frame_bytes, has_parts, sees_all, cores, refuses_long, .. } = options;
        if has_parts {
            check_room(interface, frame_bytes)?;
        }
        let program = XdpProgram::attach_for(interface, steering, has_parts)?;
        if cores > 1 && program.mode() == AttachMode::Generic {
            return Err(LiveError::refused(
                format!("the driver of interface `{}` runs no XDP programs", interface.name),
                "Have one thread in front of all cores: --front.",
            ));
        }
        let left = LeftToCard::by(interface, program.mode());
        if left.segments && refuses_long {
            return Err(LiveError::refused(
                format!(
                    "packets come to interface `{}` as senders on this machine, or the kernel below it, merged them, and AF_XDP \
                     does not tell how to segment them",
                    interface.name
                ),
                "Nothing is lost by AF_PACKET, which tells it. --socket xdp segments TCP to the MTU, and loses merged datagrams.",
            ));
        }
        let sees_all = sees_all.then(|| self::sees_all(interface)).transpose()?.map(Arc::new);
        let filled = options.filled(interface.queues);
        let all = open_sockets(
            interface,
            0..interface.queues,
            umem,
            (steering.spread.is_some(), left.segments),
            options,
        )?;
        let unserved = program.unserved();
        let program = Arc::new(Mutex::new(program));
        let holders = Arc::new(AtomicUsize::new(cores));
        let link = |(core, sockets): (usize, Vec<XdpSocket>)| XdpLink {
            program: Arc::clone(&program),
            unserved: Arc::clone(&unserved),
            marks: sockets.iter().map(XdpSocket::mark).collect(),
            sockets,
            core,
            takes_in_turns: cores > 1 && steering.spread.is_none(),
            holders: Arc::clone(&holders),
            misses: 0,
            number,
            _sees_all: sees_all.clone(),
            filled,
            completes: left.sums,
            parts: has_parts.then(|| Parts::new(umem, frame_bytes, interface.queues)),
            long: left.segments.then(|| Long::new(interface.mtu, interface.queues)),
            next: 0,
            is_down: false,
            counters: InterfaceCounters::default(),
            descriptors: Vec::with_capacity(RING as usize),
            chunks: Vec::with_capacity(options.ring_of_all(filled) as usize),
            unsent: Vec::with_capacity(BATCH),
        };
        Ok(all.into_iter().enumerate().map(link).collect())
    }

    /// Opens sockets at queues that the interface of this program has got, and has their packets come to them: by core, one
    /// for each queue, and how many chunks are to wait at each queue from then on. They are [taken](Link::widen) by the links
    /// of the cores.
    ///
    /// # Errors
    /// [`LiveError`] says what is in the way. The queues have no sockets then.
    pub(crate) fn open_more(
        interface: &Interface,
        queues: Range<u32>,
        (program, steering): (&Mutex<XdpProgram>, &Steering),
        umem: &Umem,
        options: LinkOptions,
    ) -> Result<(Vec<Vec<XdpSocket>>, usize), LiveError> {
        let has_own = steering.spread.is_some();
        let mut program = lock(program);
        let segments = LeftToCard::by(interface, program.mode()).segments;
        let all = open_sockets(interface, queues, umem, (has_own, segments), options)?;
        program.install_again()?;
        for (core, sockets) in all.iter().enumerate().filter(|(core, _)| *core == 0 || has_own) {
            sockets.iter().try_for_each(|socket| program.insert_for(core, socket))?;
        }
        // What waits at the queues before stays there until packets come: all of them together are not to take all frames.
        Ok((all, (options.filled(interface.queues) / 2).max(1)))
    }

    /// Whether packets that are longer than the MTU may come, and are segmented.
    pub(crate) fn segments(&self) -> bool {
        self.long.is_some()
    }

    /// Has packets come to the sockets. Those that come before they have chunks are lost.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub(crate) fn steer(&mut self) -> Result<(), LiveError> {
        if self.takes_in_turns && self.core > 0 {
            return Ok(());
        }
        let mut program = lock(&self.program);
        self.sockets.iter().try_for_each(|socket| program.insert_for(self.core, socket))?;
        program.begin();
        Ok(())
    }

    /// The program at the interface, to be told of addresses by another thread.
    pub(crate) fn program(&self) -> Arc<Mutex<XdpProgram>> {
        Arc::clone(&self.program)
    }

    /// Notes whether the interface still works: where it does not, the kernel says so at each call.
    fn note(&mut self, done: Result<(), LiveError>) {
        self.is_down = done.is_err();
    }

    /// Takes back what was sent by a queue, and gives the kernel chunks for packets to come, as many as it should have. Where
    /// another core does that just now, says so and leaves it at that.
    fn tend(&mut self, pool: &mut Pool, queue: usize) -> bool {
        let socket = &self.sockets[queue];
        let Some(mut rings) = socket.rings(self.misses >= MISSES) else { return false };
        self.chunks.clear();
        rings.complete(&mut self.chunks);
        for chunk in self.chunks.drain(..) {
            if self.parts.as_mut().is_none_or(|parts| parts.is_sent(chunk)) {
                pool.take_back(chunk);
            }
        }
        let missing = self.filled.saturating_sub(rings.to_receive());
        // Not for every packet one.
        if missing >= BATCH.min(self.filled) {
            pool.lend(self.number, missing, &mut self.chunks);
            rings.fill(&mut self.chunks);
            for chunk in self.chunks.drain(..) {
                pool.take_back(chunk);
            }
        }
        let is_due = socket.polls() || rings.needs_wakeup();
        drop(rings);
        let woken = if is_due { socket.wake_driver() } else { Ok(()) };
        self.note(woken);
        true
    }
}

/// Refuses an interface whose frames have no room in those of the pool: it is a new one, with a larger MTU.
fn check_room(Interface { name, mtu, .. }: &Interface, frame_bytes: usize) -> Result<(), LiveError> {
    let room = frame_bytes - XDP_HEADROOM as usize;
    if mtu + LINK_BYTES <= room {
        return Ok(());
    }
    Err(LiveError::refused(
        format!(
            "frames of interface `{name}` have up to {} bytes, and there is room for {room}",
            mtu + LINK_BYTES
        ),
        format!("Use a smaller MTU: ip link set dev {name} mtu {}", room - LINK_BYTES),
    ))
}

/// Locks a program. No thread panics while it has it.
pub(crate) fn lock(program: &Mutex<XdpProgram>) -> MutexGuard<'_, XdpProgram> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link for XdpLink {
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>) {
        let begin = frames.len();
        if let Some(long) = &mut self.long
            && clock.hand_out(&mut long.waiting, max, frames) > 0
        {
            return;
        }
        for _ in 0..self.sockets.len() {
            let queue = self.next;
            self.next = (self.next + 1) % self.sockets.len();
            self.descriptors.clear();
            if self.sockets[queue].receive(max, &mut self.descriptors) == 0 {
                continue;
            }
            if let Some(long) = &mut self.long {
                long.receive(pool, queue, &mut self.descriptors, &mut self.counters);
                clock.hand_out(&mut long.waiting, max, frames);
            }
            for Descriptor { address, len, goes_on } in self.descriptors.drain(..) {
                let lent = Lent { address, len };
                let part = pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent);
                let whole = match &mut self.parts {
                    None => Some(part.ok_or(Lost::Refused)),
                    Some(parts) => parts.join(pool, queue, part, goes_on),
                };
                let mut frame = match whole {
                    Some(Ok(frame)) => frame,
                    Some(Err(why)) => {
                        self.counters.lose(why);
                        continue;
                    }
                    None => continue,
                };
                let len = frame.len() as u32;
                frame.stamp = clock.stamp();
                self.counters.received += 1;
                self.counters.received_bytes += u64::from(len);
                frames.push(frame);
            }
            if frames.len() > begin {
                return;
            }
        }
    }

    fn fetch(&mut self, pool: &mut Pool, frames: &mut [Frame]) {
        if !self.completes {
            return;
        }
        for frame in frames {
            let (data, len) = (frame.data(), frame.len() as u32);
            let bytes = &mut pool.buffer_mut(frame)[data];
            let headers = parse(LinkType::Ethernet, bytes, len);
            self.counters.completed += u64::from(complete(bytes, &headers));
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        while !frames.is_empty() {
            let count = frames.len().min(BATCH);
            self.descriptors.clear();
            for frame in frames.drain(..count) {
                // The kernel would never give back what is shorter than a header.
                let lost = if self.is_down { Some(Lost::LinkDown) } else { None };
                let lost = if frame.len() < SHORTEST { Some(Lost::Refused) } else { lost };
                match lost {
                    Some(why) => {
                        self.counters.lose(why);
                        pool.give_back([frame].into_iter());
                    }
                    None => {
                        let lent = pool.lend_frame(self.number, frame);
                        match &mut self.parts {
                            None => self.descriptors.push(lent.into()),
                            Some(parts) => parts.split(lent, &mut self.descriptors),
                        }
                    }
                }
            }
            let sent = self.sockets[0].transmit(&self.descriptors);
            let bytes = self.descriptors[..sent].iter().map(|sent| u64::from(sent.len));
            self.counters.sent_bytes += bytes.sum::<u64>();
            self.counters.sent += match self.parts {
                None => sent,
                Some(_) => self.descriptors[..sent].iter().filter(|sent| !sent.goes_on).count(),
            } as u64;
            let mut unsent = self.descriptors.drain(..).skip(sent);
            while let Some(first) = unsent.next() {
                let lent = match &mut self.parts {
                    None => Lent { address: first.address, len: first.len },
                    Some(parts) => parts.unsplit(first, &mut unsent),
                };
                self.unsent.extend(pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent));
            }
            if !self.unsent.is_empty() {
                frames.splice(..0, self.unsent.drain(..));
                return;
            }
        }
    }

    fn turn(&mut self, pool: &mut Pool) {
        let mut is_tended = true;
        for queue in 0..self.sockets.len() {
            let kicked = self.sockets[queue].kick();
            self.note(kicked);
            is_tended &= self.tend(pool, queue);
        }
        self.misses = if is_tended { 0 } else { self.misses + 1 };
    }

    fn mark(&mut self) {
        self.sockets.iter().zip(&mut self.marks).for_each(|(socket, mark)| *mark = socket.mark());
    }

    fn is_past_mark(&self) -> bool {
        self.long.as_ref().is_none_or(|long| long.waiting.is_empty())
            && self.sockets.iter().zip(&self.marks).all(|(socket, mark)| socket.is_past(*mark))
    }

    fn unsent(&mut self) -> usize {
        // All leave by the first queue's; none any more where the interface is down.
        let sends = self.sockets.first_mut().filter(|_| !self.is_down);
        sends.map_or(0, XdpSocket::unsent)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(XdpSocket::receive_fd).collect()
    }

    fn shares_with_host(&self) -> bool {
        false
    }

    fn borrowed(&self) -> usize {
        let chunks: usize = self.sockets.iter().map(|socket| socket.to_receive() + socket.to_send()).sum();
        chunks.saturating_sub(self.parts.as_ref().map_or(0, Parts::further))
    }

    fn widen(&mut self, sockets: Vec<XdpSocket>, filled: usize) {
        self.filled = filled;
        for socket in sockets {
            self.marks.push(socket.mark());
            self.parts.iter_mut().for_each(Parts::add_queue);
            self.long.iter_mut().for_each(Long::add_queue);
            self.sockets.push(socket);
        }
    }

    fn note_counters(&mut self) {
        lock(&self.program).note_unserved();
    }

    fn close(&mut self, pool: &mut Pool) {
        self.parts.iter_mut().for_each(|parts| parts.close(pool));
        self.long.iter_mut().for_each(|long| long.close(pool));
    }

    fn let_go(&mut self) -> bool {
        self.sockets.clear();
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn outlive(&mut self, outlives: bool) {
        lock(&self.program).outlive(outlives);
    }

    fn counters(&mut self) -> InterfaceCounters {
        let mut counters = self.counters;
        // All cores have one program: the first one tells of it.
        if self.core == 0 {
            counters.lost[Lost::NoSocket as usize] += self.unserved.load(Ordering::Relaxed);
        }
        for socket in &self.sockets {
            let Ok(statistics) = socket.statistics() else { continue };
            counters.lost[Lost::QueueFull as usize] += statistics.receive_ring_full;
            // The kernel counts both as one; where it fills several chunks, nothing is too long for them.
            let no_chunk = match socket.takes_parts() {
                true => statistics.receive_dropped,
                false => statistics.receive_dropped.min(statistics.fill_ring_empty),
            };
            counters.lost[Lost::NoBuffer as usize] += no_chunk;
            counters.lost[Lost::TooLong as usize] += statistics.receive_dropped - no_chunk;
        }
        counters
    }

    fn describe(&self) -> String {
        let copies = match self.sockets.iter().all(XdpSocket::is_zero_copy) {
            true => "zero copy",
            false => "copy mode (the driver has no zero copy)",
        };
        let parts = match (&self.parts, &self.long) {
            (Some(_), None) => ", several buffers a frame",
            (_, Some(_)) => ", long packets segmented",
            (None, None) => "",
        };
        format!("AF_XDP {copies}{parts}, XDP {}", lock(&self.program).mode())
    }
}
