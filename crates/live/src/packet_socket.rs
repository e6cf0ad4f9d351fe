//! AF_PACKET: a socket that sees what an interface receives, and sends from it. Works with every driver.
//!
//! Each packet is copied twice, and the kernel's own stack sees it as well: it is for interfaces that have no address
//! here, for listening, and for machines that allow nothing better. What is left to a card by a sender on the same
//! machine arrives whole, with a note (`struct virtio_net_hdr`): it is segmented and its checksums are completed here, in
//! tunnels, too: the note says where. A
//! VLAN tag that the kernel took off is put back.

#![allow(unsafe_code)]

use std::io::Error;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use caps::Capability;
use io::{Frame, Pool};
use wire::{LinkType, Stamp, complete_at};

use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::link::Link;
use crate::segment::segment;
use crate::{Interface, LiveError};

/// Packets taken from the kernel, or given to it, by one call.
const BATCH: usize = 64;
/// The longest packet that a sender leaves to its card to be segmented, with its headers.
const LONGEST_BYTES: usize = 65_536 + 22;
/// Packets and segments that wait to be handed out, at most: those of 64 of the longest packets, where segments are of an
/// ordinary length.
pub(crate) const WAITING: usize = 8_192;
/// Before each received packet, for a tag that is put back.
const TAG_BYTES: usize = 4;
/// Room in the kernel for packets that wait.
const QUEUE_BYTES: libc::c_int = 16 << 20;

/// `struct virtio_net_hdr` of linux/virtio_net.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offload {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const NEEDS_CHECKSUM: u8 = 1;

/// `struct tpacket_auxdata` of linux/if_packet.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Aux {
    status: u32,
    len: u32,
    captured: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

const VLAN_VALID: u32 = 1 << 4;
const VLAN_TPID_VALID: u32 = 1 << 6;

/// Room for one control message with an [`Aux`].
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// A socket on one interface.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    counters: InterfaceCounters,
    received: Messages,
    sent: Messages,
    /// By message, room for a packet of any length.
    packets: Box<[u8]>,
    /// One segment.
    segment: Vec<u8>,
    /// Packets that were taken from the kernel and not yet handed out, without numbers: one call may bring many segments.
    waiting: Vec<Frame>,
}

/// What the kernel reads for one call: each message has two parts, the note and the packet.
struct Messages {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[[libc::iovec; 2]]>,
    offloads: Box<[Offload]>,
    controls: Box<[Control]>,
}

// SAFETY: all pointers lead to boxes that belong to the same socket, and are written anew before each call.
unsafe impl Send for Messages {}

impl Messages {
    fn new() -> Messages {
        // SAFETY: all bytes 0 is a valid value of these structures of C.
        let (header, part) = unsafe { (mem::zeroed::<libc::mmsghdr>(), mem::zeroed::<libc::iovec>()) };
        Messages {
            headers: vec![header; BATCH].into(),
            parts: vec![[part; 2]; BATCH].into(),
            offloads: vec![Offload::default(); BATCH].into(),
            controls: vec![Control([0; 64]); BATCH].into(),
        }
    }

    /// Message number `at` has its packet at `packet`.
    fn set(&mut self, at: usize, packet: *mut u8, len: usize, has_control: bool) {
        let note = (&raw mut self.offloads[at]).cast();
        self.parts[at] = [
            libc::iovec { iov_base: note, iov_len: size_of::<Offload>() },
            libc::iovec { iov_base: packet.cast(), iov_len: len },
        ];
        let header = &mut self.headers[at].msg_hdr;
        header.msg_iov = self.parts[at].as_mut_ptr();
        header.msg_iovlen = 2;
        if has_control {
            header.msg_control = (&raw mut self.controls[at]).cast();
            // Its type is the C library's to say, as that of flags is below.
            header.msg_controllen = size_of::<Control>() as _;
        }
    }

    /// The tag that the kernel took off message number `at`.
    fn tag(&self, at: usize) -> Option<[u8; 4]> {
        let header = &self.headers[at].msg_hdr;
        // SAFETY: the kernel filled in as much of the control buffer as `msg_controllen` says.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: it is not null, and in the buffer.
            let found = unsafe { *message };
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                // SAFETY: data of this type is an `Aux`; it need not be aligned.
                let aux = unsafe { libc::CMSG_DATA(message).cast::<Aux>().read_unaligned() };
                if aux.status & VLAN_VALID == 0 {
                    return None;
                }
                let tpid = if aux.status & VLAN_TPID_VALID == 0 { 0x8100 } else { aux.vlan_tpid };
                let ([a, b], [c, d]) = (tpid.to_be_bytes(), aux.vlan_tci.to_be_bytes());
                return Some([a, b, c, d]);
            }
            // SAFETY: as above.
            message = unsafe { libc::CMSG_NXTHDR(header, message) };
        }
        None
    }
}

impl PacketSocket {
    /// Opens a socket that sees the packets of the interface; with `sees_all` whomever they are for.
    ///
    /// # Errors
    /// [`LiveError`] says what is missing.
    pub(crate) fn open(interface: &Interface, sees_all: bool) -> Result<PacketSocket, LiveError> {
        let name = &interface.name;
        let fd = unbound(interface)?;
        let set = |level, option, value: libc::c_int, what: &str| {
            set(&fd, level, option, &value, format!("cannot {what} on `{name}`"))
        };
        set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1, "ask for notes on offloads")?;
        set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1, "ask for VLAN tags")?;
        set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1, "leave out packets that are sent")?;
        // A larger queue than the system's limit takes a right; without it the limit holds.
        if set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE_BYTES, "make the queue longer").is_err() {
            set(libc::SOL_SOCKET, libc::SO_RCVBUF, QUEUE_BYTES, "make the queue longer")?;
        }
        if sees_all {
            see_all(&fd, interface)?;
        }
        // SAFETY: all bytes 0 is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface.index as libc::c_int;
        // SAFETY: the address is as long as is said.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        if bound != 0 {
            return Err(LiveError::last(format!("cannot bind an AF_PACKET socket to `{name}`")));
        }
        Ok(PacketSocket {
            fd,
            counters: InterfaceCounters::default(),
            received: Messages::new(),
            sent: Messages::new(),
            packets: vec![0; BATCH * (TAG_BYTES + LONGEST_BYTES)].into(),
            segment: Vec::with_capacity(LONGEST_BYTES),
            waiting: Vec::with_capacity(WAITING),
        })
    }

    /// Takes a packet that the kernel has put behind room for a tag.
    fn take(&mut self, pool: &mut Pool, (at, len): (usize, usize)) {
        let Offload { flags, gso_type, gso_size, checksum_start, checksum_offset, .. } =
            self.received.offloads[at];
        let begin = at * (TAG_BYTES + LONGEST_BYTES);
        let packet = &mut self.packets[begin..begin + TAG_BYTES + len];
        let (packet, tag_bytes) = match self.received.tag(at) {
            Some(tag) if len >= 12 => {
                packet.copy_within(TAG_BYTES..TAG_BYTES + 12, 0);
                packet[12..16].copy_from_slice(&tag);
                (packet, TAG_BYTES)
            }
            _ => (&mut packet[TAG_BYTES..], 0),
        };
        self.counters.received += 1;
        self.counters.received_bytes += packet.len() as u64;
        // The kernel counts without the tag.
        let start = usize::from(checksum_start) + tag_bytes;
        let is_left = flags & NEEDS_CHECKSUM != 0;
        let (counters, waiting) = (&mut self.counters, &mut self.waiting);
        if gso_type != 0 && packet.len() > usize::from(gso_size) {
            let transport = is_left.then_some(start);
            let mut take = |part: &mut [u8]| {
                counters.completed += 1;
                fill(pool, part, counters, waiting);
            };
            if !segment(packet, usize::from(gso_size), transport, &mut self.segment, &mut take) {
                counters.lose(Lost::NotSegmented);
            }
            return;
        }
        if is_left && complete_at(packet, start, usize::from(checksum_offset)) {
            counters.completed += 1;
        }
        fill(pool, packet, counters, waiting);
    }
}

/// Puts a packet that the kernel has given whole into a frame of the pool.
pub(crate) fn fill(
    pool: &mut Pool,
    packet: &[u8],
    counters: &mut InterfaceCounters,
    frames: &mut Vec<Frame>,
) {
    if packet.len() > pool.longest_bytes() {
        return counters.lose(Lost::TooLong);
    }
    if pool.free() == 0 || frames.len() >= WAITING {
        return counters.lose(Lost::NoBuffer);
    }
    frames.extend(pool.fill(Stamp::default(), LinkType::Ethernet, packet.len() as u32, packet));
}

impl Link for PacketSocket {
    fn receive(&mut self, pool: &mut Pool, clock: &mut Clock, max: usize, frames: &mut Vec<Frame>) {
        let max = max - clock.hand_out(&mut self.waiting, max, frames);
        let count = max.min(BATCH).min(pool.free());
        if count == 0 {
            return;
        }
        let packets = self.packets.chunks_exact_mut(TAG_BYTES + LONGEST_BYTES);
        for (at, packet) in packets.take(count).enumerate() {
            self.received.set(at, packet[TAG_BYTES..].as_mut_ptr(), LONGEST_BYTES, true);
        }
        // SAFETY: `count` messages were set up, whose parts outlive the call.
        let received = unsafe {
            let headers = self.received.headers.as_mut_ptr();
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers,
                count as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        for at in 0..usize::try_from(received).unwrap_or(0) {
            let len = (self.received.headers[at].msg_len as usize).saturating_sub(size_of::<Offload>());
            self.take(pool, (at, len.min(LONGEST_BYTES)));
        }
        clock.hand_out(&mut self.waiting, max, frames);
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        while !frames.is_empty() {
            let count = frames.len().min(BATCH);
            for (at, frame) in frames[..count].iter_mut().enumerate() {
                let data = frame.data();
                let packet = &mut pool.buffer_mut(frame)[data];
                self.sent.set(at, packet.as_mut_ptr(), packet.len(), false);
            }
            // SAFETY: `count` messages were set up, whose parts outlive the call; the kernel only reads them.
            let sent = unsafe {
                let headers = self.sent.headers.as_mut_ptr();
                libc::sendmmsg(self.fd.as_raw_fd(), headers, count as u32, libc::MSG_DONTWAIT as _)
            };
            let done = match usize::try_from(sent) {
                Ok(sent) => {
                    self.counters.sent += sent as u64;
                    self.counters.sent_bytes +=
                        frames[..sent].iter().map(|frame| frame.len() as u64).sum::<u64>();
                    sent
                }
                Err(_) => match refused(&Error::last_os_error()) {
                    None => return,
                    Some(why) => {
                        self.counters.lose(why);
                        1
                    }
                },
            };
            pool.give_back(frames.drain(..done));
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.fd.as_raw_fd()]
    }

    fn shares_with_host(&self) -> bool {
        true
    }

    fn close(&mut self, pool: &mut Pool) {
        pool.give_back(self.waiting.drain(..));
    }

    fn counters(&mut self) -> InterfaceCounters {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the value is as long as is said.
        let asked = unsafe {
            let value = (&raw mut statistics).cast();
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &mut len)
        };
        if asked == 0 {
            // The kernel counts from the last time that it was asked.
            self.counters.lost[Lost::QueueFull as usize] += u64::from(statistics.tp_drops);
        }
        self.counters
    }

    fn describe(&self) -> String {
        "AF_PACKET, each packet copied; the kernel's own stack sees packets as well".to_owned()
    }
}

/// Why a packet could not be sent; `None` if it can be later.
fn refused(error: &Error) -> Option<Lost> {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => None,
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Some(Lost::LinkDown),
        Some(libc::EMSGSIZE) => Some(Lost::TooLong),
        _ => Some(Lost::Refused),
    }
}

/// A socket that gets nothing until it is bound.
fn unbound(interface: &Interface) -> Result<OwnedFd, LiveError> {
    // SAFETY: the arguments are plain numbers.
    let fd = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
    };
    if fd < 0 {
        let what = format!("cannot open an AF_PACKET socket for `{}`", interface.name);
        return Err(LiveError::of_rights(what, Error::last_os_error(), &[Capability::CAP_NET_RAW]));
    }
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens an interface for packets to other addresses, as long as what it returns is held.
///
/// # Errors
/// [`LiveError`] says what is missing.
pub(crate) fn sees_all(interface: &Interface) -> Result<OwnedFd, LiveError> {
    let fd = unbound(interface)?;
    see_all(&fd, interface)?;
    Ok(fd)
}

/// Asks for packets to other addresses, too, as long as the socket is open.
fn see_all(fd: &OwnedFd, interface: &Interface) -> Result<(), LiveError> {
    let member = libc::packet_mreq {
        mr_ifindex: interface.index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let what = format!("cannot ask `{}` for packets to other addresses", interface.name);
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member, what)
}

fn set<T>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
    what: String,
) -> Result<(), LiveError> {
    // SAFETY: the value is as long as is said, and the kernel copies it.
    let done = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(fd.as_raw_fd(), level, option, value, size_of::<T>() as u32)
    };
    if done == 0 { Ok(()) } else { Err(LiveError::last(what)) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::rights::keep;

    /// On a thread of its own: what it gives up, it alone lacks. A user without rights lacks it from the start.
    #[test]
    fn who_may_not_open_a_socket_is_told_what_is_missing() {
        let interface = Interface::open("lo").expect("each namespace has one");
        let error = thread::scope(|scope| {
            let without = scope.spawn(|| {
                keep(&[]).expect("anybody may give up");
                PacketSocket::open(&interface, false).err().expect("it takes a right")
            });
            without.join().expect("no panic")
        });
        let text = error.to_string();
        assert!(
            text.starts_with("cannot open an AF_PACKET socket for `lo`: Operation not permitted"),
            "{text}"
        );
        assert!(text.contains("lacks CAP_NET_RAW:") && !text.contains("CAP_BPF"), "{text}");
    }
}
