//! An AF_XDP socket: one receive and one transmit queue of an interface.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::Duration;

use super::mapping::Mapping;
use super::ring::{Consumer, Producer};
use super::umem::Umem;
use crate::{Interface, LiveError};

/// Ethernet header and two VLAN tags, bytes: a frame is as much longer than the MTU.
const LINK_BYTES: usize = 14 + 2 * 4;

/// How often a queue is asked for that the kernel has not quite let go of, and how long between.
const BIND_TRIES: u32 = 25;
const BIND_WAIT: Duration = Duration::from_millis(20);

/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h, since Linux 6.17.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// How a socket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Entries of the fill ring: chunks that wait for packets. A power of two, as with the other rings.
    pub fill: u32,
    /// Entries of the receive ring.
    pub receive: u32,
    /// Entries of the transmit ring.
    pub transmit: u32,
    /// Entries of the completion ring: chunks that were sent. The kernel sends nothing while it is full.
    pub completion: u32,
    /// With or without zero-copy.
    pub mode: Mode,
    /// The thread that uses the socket does the driver's work, too, and the driver raises no interrupts.
    pub busy_poll: Option<BusyPoll>,
}

/// How packets get from the driver into the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By zero-copy where the driver can, by a copy elsewhere.
    Best,
    /// By zero-copy, or not at all.
    ZeroCopy,
    /// By a copy: every driver can.
    Copy,
}

/// How a socket polls its driver. Only worth it with `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface
/// set, see the kernel's Documentation/networking/af_xdp.rst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long one poll lasts at most, microseconds.
    pub micros: u32,
    /// How many packets one poll takes at most.
    pub budget: u32,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            fill: 4_096,
            receive: 2_048,
            transmit: 2_048,
            completion: 2_048,
            mode: Mode::Best,
            busy_poll: None,
        }
    }
}

/// A packet in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Where it begins, from the start of the memory.
    pub address: u64,
    /// How long it is, bytes.
    pub len: u32,
}

/// What the kernel counts of a socket (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets lost because they are longer than a chunk has room for, or for want of memory.
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
    fill: Producer<u64>,
    receive: Consumer<libc::xdp_desc>,
    transmit: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// Chunks that the kernel holds to put packets into.
    to_receive: usize,
    /// Chunks that the kernel holds to send.
    to_send: usize,
    is_zero_copy: bool,
    polls: bool,
    queue: u32,
    interface: Interface,
    // In this order: the kernel lets go of the memory before it is let go here.
    fd: OwnedFd,
    _mappings: [Mapping; 4],
    umem: Umem,
}

impl XdpSocket {
    /// Opens the socket of one queue. Packets arrive once chunks are [filled](XdpSocket::fill) in and the interface's
    /// program [has the socket](crate::xdp::XdpProgram::insert); the program should be attached first, since some
    /// drivers have zero-copy only then.
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
        check(umem, interface, queue, options)?;
        let fd = socket(name)?;
        let what = |what: &str| format!("cannot {what} for queue {queue} of interface `{name}`");
        let set = |option, value: &u32, of: &str| {
            set(&fd, libc::SOL_XDP, option, value).map_err(|error| LiveError::of(what(of), error))
        };
        set_umem(&fd, umem).map_err(|error| registration_failed(what("register packet memory"), error))?;
        set(libc::XDP_UMEM_FILL_RING, &options.fill, "make a fill ring")?;
        set(libc::XDP_UMEM_COMPLETION_RING, &options.completion, "make a completion ring")?;
        set(libc::XDP_RX_RING, &options.receive, "make a receive ring")?;
        set(libc::XDP_TX_RING, &options.transmit, "make a transmit ring")?;

        let mapped = |error| LiveError::of(what("map the rings"), error);
        let at: libc::xdp_mmap_offsets = get(&fd, libc::XDP_MMAP_OFFSETS).map_err(mapped)?;
        let (fill_map, fill) =
            Mapping::ring(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, &at.fr, options.fill).map_err(mapped)?;
        let (completion_map, completion) =
            Mapping::ring(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, options.completion)
                .map_err(mapped)?;
        let (receive_map, receive) =
            Mapping::ring(&fd, libc::XDP_PGOFF_RX_RING as u64, &at.rx, options.receive).map_err(mapped)?;
        let (transmit_map, transmit) =
            Mapping::ring(&fd, libc::XDP_PGOFF_TX_RING as u64, &at.tx, options.transmit).map_err(mapped)?;

        tune(&fd, options).map_err(|error| LiveError::of(what("set up busy polling"), error))?;
        bind(&fd, interface, queue, options.mode)?;
        let flags: libc::xdp_options = get(&fd, libc::XDP_OPTIONS).map_err(mapped)?;
        Ok(XdpSocket {
            // SAFETY: the parts lie in mappings that live as long as the socket, and this is their side of it alone;
            // for the other side the kernel keeps the rules.
            fill: unsafe { Producer::new(fill) },
            // SAFETY: as above.
            receive: unsafe { Consumer::new(receive) },
            // SAFETY: as above.
            transmit: unsafe { Producer::new(transmit) },
            // SAFETY: as above.
            completion: unsafe { Consumer::new(completion) },
            to_receive: 0,
            to_send: 0,
            is_zero_copy: flags.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            polls: options.busy_poll.is_some(),
            queue,
            interface: interface.clone(),
            fd,
            _mappings: [fill_map, receive_map, transmit_map, completion_map],
            umem: umem.clone(),
        })
    }

    /// Gives the kernel chunks to put packets into: those at the end of `chunks`, as many as there is room for, and
    /// says how many. Any address in a chunk stands for it.
    #[inline]
    pub fn fill(&mut self, chunks: &mut Vec<u64>) -> usize {
        let count = self.fill.room(chunks.len());
        let from = chunks.len() - count;
        let filled = self.fill.push(chunks.drain(from..));
        self.to_receive += filled;
        filled
    }

    /// Appends up to `max` packets that arrived, in order, and says how many. Their chunks are the caller's; an
    /// [address](Descriptor::address) lies in the chunk where the packet begins, and
    /// [`Umem::chunk_of`] gives the chunk. Allocates only if `packets` has no room for them.
    #[inline]
    pub fn receive(&mut self, max: usize, packets: &mut Vec<Descriptor>) -> usize {
        let received = self.receive.pop_into(max, packets, |at| Descriptor { address: at.addr, len: at.len });
        self.to_receive = self.to_receive.saturating_sub(received);
        received
    }

    /// Gives the kernel packets to send: those at the start, as many as there is room for, and says how many. They leave
    /// after the next [`XdpSocket::kick`]; their chunks come back by [`XdpSocket::complete`].
    ///
    /// Each packet has to lie in one chunk and be no shorter than an Ethernet header: the kernel never gives back a
    /// chunk that breaks this, and counts it as [`Statistics::transmit_invalid`].
    #[inline]
    pub fn transmit(&mut self, packets: &[Descriptor]) -> usize {
        debug_assert!(
            packets.iter().all(|packet| self.umem.holds(packet.address, packet.len)),
            "{packets:?}"
        );
        let sent = self.transmit.push(packets.iter().map(|packet| libc::xdp_desc {
            addr: packet.address,
            len: packet.len,
            options: 0,
        }));
        self.to_send += sent;
        sent
    }

    /// Appends the chunks of all packets that were sent, by their starts, and says how many. Allocates only if `chunks`
    /// has no room for them.
    #[inline]
    pub fn complete(&mut self, chunks: &mut Vec<u64>) -> usize {
        let mask = !u64::from(self.umem.chunk_bytes() - 1);
        let completed = self.completion.pop_into(usize::MAX, chunks, |address| address & mask);
        self.to_send = self.to_send.saturating_sub(completed);
        completed
    }

    /// Has the kernel send what it was given, if it has to be told. What it could not send now, for want of room at the
    /// interface, waits for the next call.
    ///
    /// # Errors
    /// [`LiveError`] if the interface went down or is gone.
    #[inline]
    pub fn kick(&mut self) -> Result<(), LiveError> {
        if self.to_send == 0 || !self.transmit.needs_wakeup() {
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
        if !self.polls && !self.fill.needs_wakeup() {
            return Ok(());
        }
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

    /// How many chunks the kernel holds to put packets into, those of packets that wait to be received included.
    pub fn to_receive(&self) -> usize {
        self.to_receive
    }

    /// How many chunks the kernel holds to send, those that wait to be [completed](XdpSocket::complete) included.
    pub fn to_send(&self) -> usize {
        self.to_send
    }

    /// How many packets wait to be received.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.receive.waiting() as usize
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

/// Refuses what the kernel would refuse with a bare EINVAL, or take and then drop packets.
fn check(umem: &Umem, interface: &Interface, queue: u32, options: &SocketOptions) -> Result<(), LiveError> {
    let name = &interface.name;
    if queue >= interface.queues {
        let (queues, last) = (interface.queues, interface.queues.saturating_sub(1));
        return Err(LiveError::refused(
            format!("interface `{name}` has no queue {queue}: it has {queues}"),
            format!("Use a queue from 0 to {last}, or give it more: ethtool -L {name} combined N"),
        ));
    }
    let frame = interface.mtu + LINK_BYTES;
    let room = umem.longest_packet();
    if frame > room {
        return Err(LiveError::refused(
            format!("frames of interface `{name}` have up to {frame} bytes, and a chunk has room for {room}"),
            format!(
                "Use longer chunks, or a smaller MTU: ip link set dev {name} mtu {}",
                room.saturating_sub(LINK_BYTES)
            ),
        ));
    }
    for size in [options.fill, options.receive, options.transmit, options.completion] {
        if !size.is_power_of_two() || size > 1 << 20 {
            return Err(LiveError::refused(
                format!("AF_XDP has no rings of {size} entries"),
                "Use a power of two up to 1048576.",
            ));
        }
    }
    Ok(())
}

fn socket(name: &str) -> Result<OwnedFd, LiveError> {
    // SAFETY: the arguments are plain numbers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd >= 0 {
        // SAFETY: it was just opened, and nobody else knows it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let (what, error) =
        (format!("cannot open an AF_XDP socket for interface `{name}`"), io::Error::last_os_error());
    Err(match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            LiveError::helped(what, error, "This kernel was built without XDP_SOCKETS: use AF_PACKET.")
        }
        _ => LiveError::of(what, error),
    })
}

fn registration_failed(what: String, error: io::Error) -> LiveError {
    match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => LiveError::helped(
            what,
            error,
            "The kernel may not lock that much memory: ulimit -l unlimited, or run as root.",
        ),
        _ => LiveError::of(what, error),
    }
}

fn set_umem(fd: &OwnedFd, umem: &Umem) -> io::Result<()> {
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem.registration())
}

fn tune(fd: &OwnedFd, options: &SocketOptions) -> io::Result<()> {
    // As much in one call as the ring has, and as much on its way. Kernels that know no such bound have others.
    let _ = set(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &options.transmit);
    let in_flight = options.transmit.saturating_mul(4_096).min(i32::MAX as u32);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &in_flight);
    let Some(BusyPoll { micros, budget }) = options.busy_poll else { return Ok(()) };
    set(fd, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1u32)?;
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros)?;
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget)
}

fn bind(fd: &OwnedFd, interface: &Interface, queue: u32, mode: Mode) -> Result<(), LiveError> {
    let how = match mode {
        // The kernel tries zero-copy itself, and then goes on with a copy.
        Mode::Best => 0,
        Mode::ZeroCopy => libc::XDP_ZEROCOPY,
        Mode::Copy => libc::XDP_COPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: how | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let mut tries = 0;
    loop {
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is the kernel's structure for this family, of this length.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        tries += 1;
        // The kernel lets go of a queue some time after its socket was closed.
        if error.raw_os_error() != Some(libc::EBUSY) || tries >= BIND_TRIES {
            return Err(bind_failed(error, &interface.name, queue, mode));
        }
        thread::sleep(BIND_WAIT);
    }
}

fn bind_failed(error: io::Error, name: &str, queue: u32, mode: Mode) -> LiveError {
    let what = format!("cannot take queue {queue} of interface `{name}`");
    // ENOTSUPP, which some drivers give for EOPNOTSUPP, has no name outside the kernel.
    const ENOTSUPP: i32 = 524;
    match error.raw_os_error() {
        Some(libc::EBUSY) => LiveError::helped(
            format!("{what}: another AF_XDP socket has it"),
            error,
            "`ss --xdp --processes` names its program: end that, or use another queue.",
        ),
        Some(libc::EOPNOTSUPP | ENOTSUPP) if mode == Mode::ZeroCopy => LiveError::helped(
            format!("{what}: its driver has no zero-copy"),
            error,
            "Let the kernel choose, or ask for a copy.",
        ),
        Some(libc::EOPNOTSUPP | ENOTSUPP) => {
            LiveError::helped(what, error, "This interface cannot have AF_XDP sockets: use AF_PACKET.")
        }
        Some(libc::EINVAL) => LiveError::helped(
            what,
            error,
            format!(
                "Its driver refuses it. `ethtool -l {name}` shows its queues; AF_PACKET works with all of them."
            ),
        ),
        Some(libc::ENETDOWN | libc::ENODEV) => {
            LiveError::helped(what, error, format!("Take it up first: ip link set {name} up"))
        }
        _ => LiveError::of(what, error),
    }
}

fn set<T>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is read for its length, and outlives the call.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A structure of numbers.
///
/// # Safety
/// All bytes 0 is a valid value, and so is whatever the kernel writes.
unsafe trait Numbers: Copy {}
// SAFETY: these are structures of numbers.
unsafe impl Numbers for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Numbers for libc::xdp_options {}
// SAFETY: as above.
unsafe impl Numbers for libc::xdp_statistics {}

/// The value of an option of AF_XDP; what an older kernel does not fill in is 0.
fn get<T: Numbers>(fd: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: all bytes 0 is a valid value.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes up to `len` bytes of the value, which outlives the call.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, to, &mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
