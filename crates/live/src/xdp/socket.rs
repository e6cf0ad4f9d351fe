//! An AF_XDP socket: one receive and one transmit queue of an interface.
//!
//! Several sockets may have one queue. Then each has a receive and a transmit ring of its own, and all of them have one fill
//! and one completion ring: a thread that comes by uses these, once a batch, and passes on where another socket's thread does.
//! Or all packets come by the receive ring of one of them, and the threads of the others take packets from it, too.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ::io::Lent;

use super::mapping::Mapping;
use super::options::SocketOptions;
use super::ring::{Consumer, Parts, Producer};
use super::setup::{self, get};
use super::umem::Umem;
use crate::{Interface, LiveError};

/// A packet in the memory, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Where it begins, from the start of the memory.
    pub address: u64,
    /// How long it is, bytes.
    pub len: u32,
    /// Whether the next descriptor has more of the same packet. Only where the socket was opened for
    /// [parts](SocketOptions::takes_parts).
    pub goes_on: bool,
}

impl From<Lent> for Descriptor {
    fn from(Lent { address, len }: Lent) -> Descriptor {
        Descriptor { address, len, goes_on: false }
    }
}

/// Bit of `options` in a descriptor of the kernel's: the packet goes on in the next one.
const GOES_ON: u32 = libc::XDP_PKT_CONTD;

/// What the kernel counts of a socket (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets lost because a chunk had no room for them, or because there was no chunk: the latter are counted as
    /// [`Statistics::fill_ring_empty`], too.
    pub receive_dropped: u64,
    /// Packets lost because the receive ring was full.
    pub receive_ring_full: u64,
    /// Packets lost because the fill ring was empty.
    pub fill_ring_empty: u64,
    /// Chunks lost because the fill ring named what is no chunk.
    pub fill_invalid: u64,
    /// Chunks lost because the transmit ring named a packet that does not lie in a chunk.
    pub transmit_invalid: u64,
    /// How often the transmit ring was found empty.
    pub transmit_ring_empty: u64,
}

/// An AF_XDP socket. One thread uses it at a time; it may move to another.
pub struct XdpSocket {
    /// Its own, or that of a socket beside it.
    receive: Arc<Mutex<Receive>>,
    transmit: Producer<libc::xdp_desc>,
    /// What all sockets of the queue have in common.
    common: Arc<Common>,
    is_zero_copy: bool,
    takes_parts: bool,
    polls: bool,
    queue: u32,
    interface: Interface,
    // In this order: the kernel lets go of the memory before it is let go here.
    fd: Arc<OwnedFd>,
    _transmit_map: Mapping,
    umem: Umem,
}

/// A receive ring, which the threads of several sockets may take packets from.
struct Receive {
    ring: Consumer<libc::xdp_desc>,
    _map: Mapping,
    // In this order, as above: the socket stays open as long as a thread takes packets from its ring.
    fd: Arc<OwnedFd>,
    _umem: Umem,
}

impl Receive {
    fn new(
        parts: Parts<libc::xdp_desc>,
        map: Mapping,
        fd: &Arc<OwnedFd>,
        umem: &Umem,
    ) -> Arc<Mutex<Receive>> {
        // SAFETY: the parts lie in the mapping, which lives as long as this value, and this is their side of it alone;
        // for the other side the kernel keeps the rules.
        let ring = unsafe { Consumer::new(parts) };
        Arc::new(Mutex::new(Receive { ring, _map: map, fd: Arc::clone(fd), _umem: umem.clone() }))
    }
}

/// What all sockets of a queue have in common.
struct Common {
    rings: Mutex<Rings>,
    /// Chunks that the kernel holds to put packets into, and to send. One socket may count what another did shortly before
    /// that one does, so a sum may be below 0 for a moment.
    to_receive: AtomicIsize,
    to_send: AtomicIsize,
}

/// The rings that all sockets of a queue have.
struct Rings {
    fill: Producer<u64>,
    completion: Consumer<u64>,
    _mappings: [Mapping; 2],
}

/// The fill and the completion ring of a queue, which nobody else has meanwhile: see [`XdpSocket::rings`].
pub struct QueueRings<'a> {
    rings: MutexGuard<'a, Rings>,
    common: &'a Common,
    chunk_bytes: u32,
}

impl QueueRings<'_> {
    /// As [`XdpSocket::fill`].
    #[inline]
    pub fn fill(&mut self, chunks: &mut Vec<u64>) -> usize {
        let count = self.rings.fill.room(chunks.len());
        let from = chunks.len() - count;
        let filled = self.rings.fill.push(chunks.drain(from..));
        self.common.to_receive.fetch_add(filled as isize, Ordering::Relaxed);
        filled
    }

    /// As [`XdpSocket::complete`].
    #[inline]
    pub fn complete(&mut self, chunks: &mut Vec<u64>) -> usize {
        let mask = !u64::from(self.chunk_bytes - 1);
        let completed = self.rings.completion.pop_into(usize::MAX, chunks, |address| address & mask);
        if completed > 0 {
            self.common.to_send.fetch_sub(completed as isize, Ordering::Relaxed);
        }
        completed
    }

    /// Whether the driver has to be told to look at the fill ring.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.rings.fill.needs_wakeup()
    }

    /// As [`XdpSocket::to_receive`].
    #[inline]
    pub fn to_receive(&self) -> usize {
        count_of(&self.common.to_receive)
    }
}

fn count_of(count: &AtomicIsize) -> usize {
    usize::try_from(count.load(Ordering::Relaxed)).unwrap_or(0)
}

impl XdpSocket {
    /// Opens the socket of one queue. Attach the [program](crate::xdp::XdpProgram) first: some drivers have zero-copy
    /// only with one. Packets arrive once the socket has [chunks](XdpSocket::fill) and was
    /// [inserted](crate::xdp::XdpProgram::insert) into the program.
    ///
    /// If another socket has the queue, this waits up to half a second for it: the kernel releases a queue some time
    /// after its socket was closed.
    ///
    /// # Errors
    /// [`LiveError`] if there is no such queue, another socket has it, packets of the interface's MTU do not fit into a
    /// chunk, or the kernel refuses for another reason, which it then names.
    pub fn open(
        umem: &Umem,
        interface: &Interface,
        queue: u32,
        options: &SocketOptions,
    ) -> Result<XdpSocket, LiveError> {
        let name = &interface.name;
        setup::check(umem, interface, queue, options)?;
        let fd = setup::socket(name)?;
        let of = Of { name, queue };
        setup::register(&fd, umem, || of.what("register packet memory"))?;
        of.set(&fd, libc::XDP_UMEM_FILL_RING, options.fill, "make a fill ring")?;
        of.set(&fd, libc::XDP_UMEM_COMPLETION_RING, options.completion, "make a completion ring")?;
        let ([receive_map, transmit_map], receive, transmit) = of.own_rings(&fd, options)?;
        let mapped = |error| LiveError::of(of.what("map the rings"), error);
        let at: libc::xdp_mmap_offsets = get(&fd, libc::XDP_MMAP_OFFSETS).map_err(mapped)?;
        let (fill_map, fill) =
            Mapping::ring(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, &at.fr, options.fill).map_err(mapped)?;
        let (completion_map, completion) =
            Mapping::ring(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, options.completion)
                .map_err(mapped)?;
        let rings = Rings {
            // SAFETY: the parts lie in mappings that live as long as this value, and this is their side of it alone;
            // for the other side the kernel keeps the rules.
            fill: unsafe { Producer::new(fill) },
            // SAFETY: as above.
            completion: unsafe { Consumer::new(completion) },
            _mappings: [fill_map, completion_map],
        };
        setup::tune(&fd, options).map_err(|error| LiveError::of(of.what("set up busy polling"), error))?;
        setup::bind(&fd, interface, queue, options)?;
        let flags: libc::xdp_options = get(&fd, libc::XDP_OPTIONS).map_err(mapped)?;
        let common = Common {
            rings: Mutex::new(rings),
            to_receive: AtomicIsize::new(0),
            to_send: AtomicIsize::new(0),
        };
        let fd = Arc::new(fd);
        Ok(XdpSocket {
            receive: Receive::new(receive, receive_map, &fd, umem),
            // SAFETY: the parts lie in a mapping that lives as long as the socket, and this is their side of it alone;
            // for the other side the kernel keeps the rules.
            transmit: unsafe { Producer::new(transmit) },
            common: Arc::new(common),
            is_zero_copy: flags.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            takes_parts: options.takes_parts,
            polls: options.busy_poll.is_some(),
            queue,
            interface: interface.clone(),
            fd,
            _transmit_map: transmit_map,
            umem: umem.clone(),
        })
    }

    /// Whether a packet that is longer than a chunk comes in several.
    pub fn takes_parts(&self) -> bool {
        self.takes_parts
    }

    /// Opens another socket of this one's queue, for another thread. Both have one memory, one fill and one completion ring:
    /// a packet goes to whichever of them the program steers it to.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub fn beside(&self, options: &SocketOptions) -> Result<XdpSocket, LiveError> {
        let (interface, queue) = (&self.interface, self.queue);
        let fd = setup::socket(&interface.name)?;
        let of = Of { name: &interface.name, queue };
        let ([receive_map, transmit_map], receive, transmit) = of.own_rings(&fd, options)?;
        setup::tune(&fd, options).map_err(|error| LiveError::of(of.what("set up busy polling"), error))?;
        setup::bind_beside(&fd, interface, queue, &self.fd)?;
        let fd = Arc::new(fd);
        Ok(XdpSocket {
            receive: Receive::new(receive, receive_map, &fd, &self.umem),
            // SAFETY: as in `open`.
            transmit: unsafe { Producer::new(transmit) },
            common: Arc::clone(&self.common),
            is_zero_copy: self.is_zero_copy,
            takes_parts: options.takes_parts,
            polls: options.busy_poll.is_some(),
            queue,
            interface: interface.clone(),
            fd,
            _transmit_map: transmit_map,
            umem: self.umem.clone(),
        })
    }

    /// Has this socket's thread take packets from the receive ring of `other`, a socket of the same queue, as that one's does,
    /// and no more from its own. A packet comes to whichever thread [receives](XdpSocket::receive) next.
    ///
    /// # Panics
    /// If the other one is of another queue.
    pub fn take_from(&mut self, other: &XdpSocket) {
        assert!(Arc::ptr_eq(&self.common, &other.common), "sockets of one queue");
        self.receive = Arc::clone(&other.receive);
    }

    /// Locks the receive ring, of this socket or of the one it takes packets from. No thread panics while it has
    /// it.
    fn receive_ring(&self) -> MutexGuard<'_, Receive> {
        self.receive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rings that all sockets of the queue have, for this thread alone as long as the answer is held; `None` while
    /// another thread has them. It is said to wait for that one where it was so for long.
    #[inline]
    pub fn rings(&self, waits: bool) -> Option<QueueRings<'_>> {
        let rings = match self.common.rings.try_lock() {
            Ok(rings) => rings,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if waits => self.lock(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(QueueRings { rings, common: &self.common, chunk_bytes: self.umem.chunk_bytes() })
    }

    /// Locks the rings. No thread panics while it has them.
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.common.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_rings(&self) -> QueueRings<'_> {
        QueueRings { rings: self.lock(), common: &self.common, chunk_bytes: self.umem.chunk_bytes() }
    }

    /// Gives the kernel chunks to put packets into: those at the end of `chunks`, as many as there is room for, and
    /// says how many. Any address in a chunk stands for it.
    #[inline]
    pub fn fill(&mut self, chunks: &mut Vec<u64>) -> usize {
        self.all_rings().fill(chunks)
    }

    /// Appends up to `max` packets that arrived, in order, and says how many. Their chunks are the caller's; an
    /// [address](Descriptor::address) lies in the chunk where the packet begins, and
    /// [`Umem::chunk_of`] gives the chunk. Allocates only if `packets` has no room for them. None while another socket's
    /// thread [takes](XdpSocket::take_from) packets from the ring.
    #[inline]
    pub fn receive(&mut self, max: usize, packets: &mut Vec<Descriptor>) -> usize {
        let Ok(mut receive) = self.receive.try_lock() else { return 0 };
        let received = receive.ring.pop_into(max, packets, |at| Descriptor {
            address: at.addr,
            len: at.len,
            goes_on: at.options & GOES_ON != 0,
        });
        drop(receive);
        if received > 0 {
            self.common.to_receive.fetch_sub(received as isize, Ordering::Relaxed);
        }
        received
    }

    /// Gives the kernel packets to send: those at the start, as many as there is room for, and says how many descriptors
    /// those are. A packet of several parts is taken as a whole. They leave after the next [`XdpSocket::kick`]; their
    /// chunks come back by [`XdpSocket::complete`].
    ///
    /// Each packet, or part of one, has to lie in one chunk, and a packet is no shorter than an Ethernet header: the kernel
    /// never gives back a chunk that breaks this, and counts it as [`Statistics::transmit_invalid`].
    #[inline]
    pub fn transmit(&mut self, packets: &[Descriptor]) -> usize {
        debug_assert!(
            packets.iter().all(|packet| self.umem.holds(packet.address, packet.len)),
            "{packets:?}"
        );
        let mut room = self.transmit.room(packets.len());
        while room > 0 && packets[room - 1].goes_on {
            room -= 1;
        }
        let sent = self.transmit.push(packets[..room].iter().map(|packet| libc::xdp_desc {
            addr: packet.address,
            len: packet.len,
            options: if packet.goes_on { GOES_ON } else { 0 },
        }));
        self.common.to_send.fetch_add(sent as isize, Ordering::Relaxed);
        sent
    }

    /// Appends the chunks of all packets that were sent, by their starts, and says how many. Allocates only if `chunks`
    /// has no room for them.
    #[inline]
    pub fn complete(&mut self, chunks: &mut Vec<u64>) -> usize {
        self.all_rings().complete(chunks)
    }

    /// Has the kernel send what it was given, if it has to be told. What it could not send now, for want of room at the
    /// interface, waits for the next call.
    ///
    /// # Errors
    /// [`LiveError`] if the interface went down or is gone.
    #[inline]
    pub fn kick(&mut self) -> Result<(), LiveError> {
        if self.to_send() == 0 || !self.transmit.needs_wakeup() {
            return Ok(());
        }
        match self.is_zero_copy {
            true => self.wake_transmit().map(|_| ()),
            false => self.send_copies(),
        }
    }

    /// Without zero-copy each call sends some packets, and then says whether there are more. It ends when a call sends
    /// none.
    fn send_copies(&mut self) -> Result<(), LiveError> {
        let mut left = self.transmit.unread();
        while left > 0 && self.wake_transmit()? {
            let now = self.transmit.unread();
            if now >= left {
                break;
            }
            left = now;
        }
        Ok(())
    }

    /// Has the driver look at the fill ring and the receive queue, if it has to be told.
    ///
    /// # Errors
    /// [`LiveError`] if the interface went down or is gone.
    #[inline]
    pub fn wake_receive(&mut self) -> Result<(), LiveError> {
        match !self.polls && !self.all_rings().needs_wakeup() {
            true => Ok(()),
            false => self.wake_driver(),
        }
    }

    /// Whether its thread does the driver's work.
    pub(crate) fn polls(&self) -> bool {
        self.polls
    }

    /// Has the driver look at the fill ring and the receive queue.
    ///
    /// # Errors
    /// [`LiveError`] if the interface went down or is gone.
    #[cold]
    pub(crate) fn wake_driver(&self) -> Result<(), LiveError> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no buffer is given, and none is written.
        let done = unsafe {
            libc::recvfrom(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut())
        };
        self.outcome(done).map(|_| ())
    }

    /// Whether the kernel says that there is more to do.
    fn wake_transmit(&self) -> Result<bool, LiveError> {
        // SAFETY: no buffer is given, and none is read.
        let done =
            unsafe { libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        self.outcome(done)
    }

    fn outcome(&self, done: isize) -> Result<bool, LiveError> {
        if done >= 0 {
            return Ok(false);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // It has sent as many as it does at a time, or a packet met a full queue: there may be more.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(true),
            Some(libc::EOPNOTSUPP) => Ok(false),
            _ => Err(LiveError::helped(
                format!(
                    "queue {} of interface `{}` sends and receives no more",
                    self.queue, self.interface.name
                ),
                error,
                "The interface went down or was removed. Take it up, and start again.",
            )),
        }
    }

    /// How many chunks the kernel holds to put packets into for this queue, those of packets that wait to be received included.
    pub fn to_receive(&self) -> usize {
        count_of(&self.common.to_receive)
    }

    /// How many chunks the kernel holds to send by this queue, those that wait to be [completed](XdpSocket::complete) included.
    pub fn to_send(&self) -> usize {
        count_of(&self.common.to_send)
    }

    /// How many packets wait to be received.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.receive_ring().ring.waiting() as usize
    }

    /// How far the kernel has put packets into the receive ring: for [`XdpSocket::is_past`].
    pub(crate) fn mark(&self) -> u32 {
        self.receive_ring().ring.mark()
    }

    /// Whether all packets up to a mark were received.
    #[inline]
    pub(crate) fn is_past(&self, mark: u32) -> bool {
        self.receive_ring().ring.is_past(mark)
    }

    /// Descriptors that were transmitted and that the kernel has not taken yet.
    pub(crate) fn unsent(&mut self) -> usize {
        self.transmit.unread() as usize
    }

    /// Whether the driver writes packets straight into the memory.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Its queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Its interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// To wait for packets by `poll`: readable when one has arrived, writable when half the transmit ring is free.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Descriptor of the socket whose receive ring its thread [takes](XdpSocket::take_from) packets from, for
    /// `poll`.
    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_ring().fd.as_raw_fd()
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    /// [`LiveError`] if it does not say.
    pub fn statistics(&self) -> Result<Statistics, LiveError> {
        let counted: libc::xdp_statistics = get(&self.fd, libc::XDP_STATISTICS).map_err(|error| {
            LiveError::of(format!("cannot read the counters of interface `{}`", self.interface.name), error)
        })?;
        Ok(Statistics {
            receive_dropped: counted.rx_dropped,
            receive_ring_full: counted.rx_ring_full,
            fill_ring_empty: counted.rx_fill_ring_empty_descs,
            fill_invalid: counted.rx_invalid_descs,
            transmit_invalid: counted.tx_invalid_descs,
            transmit_ring_empty: counted.tx_ring_empty_descs,
        })
    }
}

/// The queue of a socket that is opened, for what is said of it.
struct Of<'a> {
    name: &'a str,
    queue: u32,
}

/// A ring that is mapped, and its parts.
type Mapped = ([Mapping; 2], Parts<libc::xdp_desc>, Parts<libc::xdp_desc>);

impl Of<'_> {
    fn what(&self, what: &str) -> String {
        format!("cannot {what} for queue {} of interface `{}`", self.queue, self.name)
    }

    fn set(&self, fd: &OwnedFd, option: libc::c_int, value: u32, what: &str) -> Result<(), LiveError> {
        let set = setup::set(fd, libc::SOL_XDP, option, &value);
        set.map_err(|error| LiveError::of(self.what(what), error))
    }

    /// Makes and maps the rings that each socket has for itself: to receive, and to transmit.
    fn own_rings(&self, fd: &OwnedFd, options: &SocketOptions) -> Result<Mapped, LiveError> {
        self.set(fd, libc::XDP_RX_RING, options.receive, "make a receive ring")?;
        self.set(fd, libc::XDP_TX_RING, options.transmit, "make a transmit ring")?;
        let mapped = |error| LiveError::of(self.what("map the rings"), error);
        let at: libc::xdp_mmap_offsets = get(fd, libc::XDP_MMAP_OFFSETS).map_err(mapped)?;
        let (receive_map, receive) =
            Mapping::ring(fd, libc::XDP_PGOFF_RX_RING as u64, &at.rx, options.receive).map_err(mapped)?;
        let (transmit_map, transmit) =
            Mapping::ring(fd, libc::XDP_PGOFF_TX_RING as u64, &at.tx, options.transmit).map_err(mapped)?;
        Ok(([receive_map, transmit_map], receive, transmit))
    }
}
