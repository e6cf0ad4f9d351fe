//! All queues of an interface by AF_XDP, for one thread.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::{Frame, Lent, Pool};
use wire::{LinkType, Stamp, complete, parse};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::link::Link;
use crate::packet_socket::sees_all;
use crate::xdp::{Descriptor, SocketOptions, Steering, Umem, XdpProgram, XdpSocket};
use crate::{Interface, LiveError};

/// Packets taken from the kernel, or given to it, at a time.
const BATCH: usize = 64;
/// Entries of each ring.
const RING: u32 = 2_048;
/// The shortest frame that the kernel sends: an Ethernet header.
const SHORTEST: usize = 14;
/// Drivers whose senders leave checksums to a card that never comes: the sender is on this machine.
const WITHOUT_CARD: [&str; 4] = ["veth", "virtio_net", "tun", "dummy"];

/// The sockets of an interface, one for each queue, and the program that steers packets to them.
pub(crate) struct XdpLink {
    // Detached first: the host gets packets again before there is nobody else to take them.
    program: Arc<Mutex<XdpProgram>>,
    sockets: Vec<XdpSocket>,
    /// Keeps the interface open for packets to other addresses.
    _sees_all: Option<OwnedFd>,
    /// The interface's number in its port: the pool knows by it what is lent here.
    number: u8,
    /// Chunks that each socket should have to receive into.
    filled: usize,
    /// Whether checksums that a sender left to a card have to be completed.
    completes: bool,
    /// Which queue is received from next.
    next: usize,
    is_down: bool,
    counters: InterfaceCounters,
    descriptors: Vec<Descriptor>,
    chunks: Vec<u64>,
    unsent: Vec<Frame>,
}

/// The memory of a pool of chunks, as AF_XDP knows it.
///
/// # Errors
/// [`LiveError`] if the kernel takes no such chunks.
pub(crate) fn umem(pool: &Pool) -> Result<Umem, LiveError> {
    let (start, bytes) = pool.memory();
    // SAFETY: the owner keeps the memory; the pool gives no access to a chunk from `lend` and `lend_frame` on until
    // `receive_lent` or `take_back`, and that is when sockets hold it.
    unsafe { Umem::new(start, bytes, pool.chunk_bytes() as u32, 0, pool.owner()) }
}

impl XdpLink {
    /// Opens a socket for each queue. No packets are steered to them yet. `chunks` are how many of the pool's chunks wait
    /// for packets of this interface, which has this number in its port.
    ///
    /// # Errors
    /// [`LiveError`] says what is missing, or what is in the way. Everything is as before then.
    pub(crate) fn open(
        interface: &Interface,
        steering: &Steering,
        umem: &Umem,
        (number, chunks): (u8, usize),
        sees_all: bool,
    ) -> Result<XdpLink, LiveError> {
        let program = XdpProgram::attach(interface, steering)?;
        let sees_all = sees_all.then(|| self::sees_all(interface)).transpose()?;
        let filled = (chunks / interface.queues as usize).clamp(1, RING as usize);
        let options = SocketOptions {
            fill: RING,
            receive: RING,
            transmit: RING,
            completion: RING,
            ..SocketOptions::default()
        };
        let open = |queue| XdpSocket::open(umem, interface, queue, &options);
        let sockets = (0..interface.queues).map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(XdpLink {
            program: Arc::new(Mutex::new(program)),
            sockets,
            number,
            _sees_all: sees_all,
            filled,
            completes: WITHOUT_CARD.contains(&interface.driver.as_str()),
            next: 0,
            is_down: false,
            counters: InterfaceCounters::default(),
            descriptors: Vec::with_capacity(RING as usize),
            chunks: Vec::with_capacity(RING as usize),
            unsent: Vec::with_capacity(BATCH),
        })
    }

    /// Has packets come to the sockets. Those that come before they have chunks are lost.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub(crate) fn steer(&mut self) -> Result<(), LiveError> {
        let mut program = lock(&self.program);
        self.sockets.iter().try_for_each(|socket| program.insert(socket))
    }

    /// The program at the interface, to be told of addresses by another thread.
    pub(crate) fn program(&self) -> Arc<Mutex<XdpProgram>> {
        Arc::clone(&self.program)
    }

    /// Notes whether the interface still works: where it does not, the kernel says so at each call.
    fn note(&mut self, done: Result<(), LiveError>) {
        self.is_down = done.is_err();
    }

    /// Gives the kernel chunks for packets to come, as many as it should have.
    fn fill(&mut self, pool: &mut Pool, queue: usize) {
        let socket = &mut self.sockets[queue];
        let missing = self.filled.saturating_sub(socket.to_receive());
        // Not for every packet one.
        if missing >= BATCH.min(self.filled) {
            self.chunks.clear();
            pool.lend(self.number, missing, &mut self.chunks);
            socket.fill(&mut self.chunks);
            for chunk in self.chunks.drain(..) {
                pool.take_back(chunk);
            }
        }
        let woken = socket.wake_receive();
        self.note(woken);
    }
}

/// Nobody panics who has it.
pub(crate) fn lock(program: &Mutex<XdpProgram>) -> MutexGuard<'_, XdpProgram> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link for XdpLink {
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>) {
        for _ in 0..self.sockets.len() {
            let queue = self.next;
            self.next = (self.next + 1) % self.sockets.len();
            self.descriptors.clear();
            if self.sockets[queue].receive(max, &mut self.descriptors) == 0 {
                continue;
            }
            for Descriptor { address, len } in self.descriptors.drain(..) {
                let lent = Lent { address, len };
                let Some(mut frame) = pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent) else {
                    self.counters.lose(Lost::Refused);
                    continue;
                };
                frame.stamp = clock.stamp();
                self.counters.received += 1;
                self.counters.received_bytes += u64::from(len);
                if self.completes {
                    let data = frame.data();
                    let bytes = &mut pool.buffer_mut(&mut frame)[data];
                    let headers = parse(LinkType::Ethernet, bytes, len);
                    complete(bytes, &headers);
                }
                frames.push(frame);
            }
            return;
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
                        let Lent { address, len } = pool.lend_frame(self.number, frame);
                        self.descriptors.push(Descriptor { address, len });
                    }
                }
            }
            let sent = self.sockets[0].transmit(&self.descriptors);
            self.counters.sent += sent as u64;
            self.counters.sent_bytes +=
                self.descriptors[..sent].iter().map(|sent| u64::from(sent.len)).sum::<u64>();
            for Descriptor { address, len } in self.descriptors.drain(..).skip(sent) {
                let lent = Lent { address, len };
                self.unsent.extend(pool.receive_lent(Stamp::default(), LinkType::Ethernet, lent));
            }
            if !self.unsent.is_empty() {
                frames.splice(..0, self.unsent.drain(..));
                return;
            }
        }
    }

    fn turn(&mut self, pool: &mut Pool) {
        for queue in 0..self.sockets.len() {
            let socket = &mut self.sockets[queue];
            let kicked = socket.kick();
            self.chunks.clear();
            socket.complete(&mut self.chunks);
            for chunk in self.chunks.drain(..) {
                pool.take_back(chunk);
            }
            self.note(kicked);
            self.fill(pool, queue);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(|socket| socket.fd().as_raw_fd()).collect()
    }

    fn shares_with_host(&self) -> bool {
        false
    }

    fn borrowed(&self) -> usize {
        self.sockets.iter().map(|socket| socket.to_receive() + socket.to_send()).sum()
    }

    fn outlive(&mut self, outlives: bool) {
        lock(&self.program).outlive(outlives);
    }

    fn counters(&mut self) -> InterfaceCounters {
        let mut counters = self.counters;
        for socket in &self.sockets {
            let Ok(statistics) = socket.statistics() else { continue };
            counters.lost[Lost::QueueFull as usize] += statistics.receive_ring_full;
            counters.lost[Lost::NoBuffer as usize] += statistics.receive_dropped;
        }
        counters
    }

    fn describe(&self) -> String {
        let copies = match self.sockets.iter().all(XdpSocket::is_zero_copy) {
            true => "zero copy",
            false => "copy mode (the driver has no zero copy)",
        };
        format!("AF_XDP {copies}, XDP {}", lock(&self.program).mode())
    }
}
