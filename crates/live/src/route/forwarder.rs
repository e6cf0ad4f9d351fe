//! What a thread that forwards packets calls, for each of them.

use std::sync::Arc;

use io::Unedited;
use ring::Producer;
use wire::{Addr, Headers, LinkType, Marks};

use super::ask::Ask;
use super::board::{Board, Reader};
use super::icmp::{self, Reply};
use super::limit::{ErrorLimit, Recent};
use super::next::{Next, Refusal, is_one_host, next};
use super::reason::{RouteCounters, RouteDrop};
use super::screen::screen;
use super::snapshot::{Link, Snapshot, hash_of};

/// What is to be done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it: its time to live, checksum and Ethernet addresses are changed already.
    Send {
        /// Index of the interface.
        interface: u32,
    },
    /// It is for this host: give it to the kernel as it is.
    Host,
    /// Drop it, and send [`Forwarder::reply`], an ICMP error.
    Reply {
        /// Index of the interface that the reply leaves by, which is that of the frame.
        interface: u32,
        /// Why the frame is dropped.
        reason: RouteDrop,
    },
    /// The next hop's Ethernet address is not known yet, and the kernel is asked for it. Have the frame, which is as it was,
    /// wait in an [`Unresolved`](super::Unresolved); or drop it and say so: [`Forwarder::give_up`].
    Unresolved,
    /// Drop it.
    Drop(RouteDrop),
}

/// How a frame came. An interface's index says it of one that was not edited since.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// Index of the interface.
    pub by: u32,
    /// What the packet was, if it has been edited: an error is about the packet that its sender sent.
    pub unedited: Option<Unedited<'a>>,
    /// Whether the chain put it into a tunnel: it lies behind the outer headers, as it was received.
    pub is_inside: bool,
}

impl From<u32> for Came<'_> {
    fn from(by: u32) -> Self {
        Came { by, unedited: None, is_inside: false }
    }
}

/// Forwards the packets of one thread. [`Tables::forwarder`](super::Tables::forwarder) makes it.
pub struct Forwarder {
    reader: Reader,
    pub(super) now_ns: u64,
    limit: ErrorLimit,
    recent: Recent,
    asks: Producer<Ask>,
    reply: Reply,
    /// Whose address the latest [`Decision::Unresolved`] lacked.
    pub(super) neighbour: Ask,
    counters: RouteCounters,
}

/// How long a forwarder does not ask again for a neighbour that is unknown. The control thread and the kernel have
/// longer pauses of their own; this one keeps the ring free.
const RESOLVE_PAUSE_NS: u64 = 100_000_000;
/// And for one whose entry is stale.
const CONFIRM_PAUSE_NS: u64 = 1_000_000_000;

impl Forwarder {
    pub(super) fn new(board: Arc<Board>, asks: Producer<Ask>) -> Forwarder {
        Forwarder {
            reader: Reader::new(board),
            now_ns: 0,
            limit: ErrorLimit::new(),
            recent: Recent::new(),
            asks,
            reply: Reply::new(),
            neighbour: Ask { interface: 0, neighbour: Addr::UNSPECIFIED },
            counters: RouteCounters::default(),
        }
    }

    /// Takes the newest snapshot, if there is a new one. To be called once a batch, with a time that does not run back.
    #[inline]
    pub fn refresh(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.reader.refresh();
    }

    /// Decides on an Ethernet frame, and makes it ready to be sent.
    ///
    /// `headers` are those of the frame as it is now, after the chain's edits: the new destination is looked up. They are
    /// trusted for addresses and ports; lengths are read from the frame. Headers of another frame may give any decision,
    /// and no panic. IPv4 options are left alone.
    ///
    /// With [`Decision::Reply`] the frame is again what it was before its edits.
    #[inline]
    pub fn forward<'a>(
        &mut self,
        frame: &mut [u8],
        headers: &Headers,
        came: impl Into<Came<'a>>,
    ) -> Decision {
        let came = came.into();
        let Forwarder { reader, now_ns, recent, asks, counters, .. } = self;
        match next(reader.snapshot(), frame, headers, came.by) {
            Next::Out { link, address, confirm } => {
                counters.sent += 1;
                counters.hairpins += u64::from(link.index == came.by);
                if let Some(which) = confirm {
                    counters.asks_lost += ask(asks, recent, *now_ns, which, CONFIRM_PAUSE_NS);
                }
                readdress(frame, address, link.address);
                age(frame, headers.marks.contains(Marks::IPV4));
                Decision::Send { interface: link.index }
            }
            Next::Host => {
                counters.host += 1;
                Decision::Host
            }
            Next::Unresolved(which) => self.wait_for(which),
            Next::Refused(refusal) => self.refuse(frame, headers, came, refusal),
        }
    }

    /// Why an Ethernet frame, as it was received, is dropped before the chain sees it, if it is; counts it then.
    #[inline]
    pub fn screen(&mut self, frame: &[u8]) -> Option<RouteDrop> {
        let reason = screen(self.reader.snapshot(), frame)?;
        self.counters.drops[reason as usize] += 1;
        Some(reason)
    }

    /// [Decides](Forwarder::forward) again on a frame of [`Decision::Unresolved`], which has waited. It does not wait a second
    /// time.
    pub fn again<'a>(&mut self, frame: &mut [u8], headers: &Headers, came: impl Into<Came<'a>>) -> Decision {
        self.counters.unresolved -= 1;
        match self.forward(frame, headers, came) {
            Decision::Unresolved => Decision::Drop(self.give_up()),
            decision => decision,
        }
    }

    /// A frame of [`Decision::Unresolved`] is dropped, for this reason.
    pub fn give_up(&mut self) -> RouteDrop {
        self.counters.unresolved -= 1;
        self.counters.drops[RouteDrop::NoNeighbour as usize] += 1;
        RouteDrop::NoNeighbour
    }

    #[cold]
    fn wait_for(&mut self, which: Ask) -> Decision {
        self.counters.unresolved += 1;
        self.counters.asks_lost +=
            ask(&mut self.asks, &mut self.recent, self.now_ns, which, RESOLVE_PAUSE_NS);
        self.neighbour = which;
        Decision::Unresolved
    }

    /// The version of the tables by which frames are decided on.
    pub(super) fn version(&self) -> u64 {
        self.reader.version()
    }

    /// Whether these tables know a neighbour, or that it does not answer.
    pub(super) fn has_heard_of(&self, which: Ask) -> bool {
        self.reader.snapshot().neighbour(which.interface, which.neighbour).is_some()
    }

    #[cold]
    fn refuse(&mut self, frame: &mut [u8], headers: &Headers, came: Came<'_>, refusal: Refusal) -> Decision {
        self.counters.drops[refusal.reason as usize] += 1;
        if let Some(which) = refusal.resolve {
            let lost = ask(&mut self.asks, &mut self.recent, self.now_ns, which, RESOLVE_PAUSE_NS);
            self.counters.asks_lost += lost;
        }
        match self.answer(frame, headers, came, refusal) {
            None => Decision::Drop(refusal.reason),
            Some(interface) => {
                self.counters.replies += 1;
                Decision::Reply { interface, reason: refusal.reason }
            }
        }
    }

    /// Builds the error, if there is one to be sent, about the packet as it was received. Returns its interface.
    fn answer(
        &mut self,
        frame: &mut [u8],
        headers: &Headers,
        came: Came<'_>,
        refusal: Refusal,
    ) -> Option<u32> {
        let mut error = refusal.error?;
        let snapshot = self.reader.snapshot();
        let received_by = snapshot.link(came.by)?;
        // Of a packet in a tunnel the sender is told as if it had left without (RFC 2003 §4, RFC 2473 §8).
        let outer = if came.is_inside { tunnel_bytes(headers) } else { 0 };
        let begin = 14 + outer;
        let mut restored = *headers;
        if let Some(unedited) = came.unedited {
            unedited.restore(headers, frame);
            restored = wire::parse(LinkType::Ethernet, frame, frame.len() as u32);
        } else if came.is_inside {
            let inside = frame.get(begin..)?;
            restored = wire::parse(LinkType::RawIp, inside, inside.len() as u32);
            error = error.less(outer as u32, restored.marks.contains(Marks::IPV4));
        }
        let headers = &restored;
        if !wire::may_be_answered(headers)
            || !is_one_host(headers.src)
            || !icmp::may_be_told(snapshot, frame, headers)
        {
            return None;
        }
        let packet = frame.get(begin..)?.get(..refusal.packet_len.checked_sub(outer)?)?;
        let hash = hash_of(headers.src, Addr::UNSPECIFIED, 0);
        if !self.limit.permits(self.now_ns, hash, error.is_path_mtu()) {
            self.counters.replies_limited += 1;
            return None;
        }
        let own = source(snapshot, received_by, headers.src)?;
        let stations = [*frame.get(6..)?.first_chunk::<6>()?, received_by.address];
        let interface = received_by.index;
        self.reply.build(error, packet, headers, own, stations);
        Some(interface)
    }

    /// The ICMP error of the latest [`Decision::Reply`], an Ethernet frame without padding.
    #[inline]
    pub fn reply(&self) -> &[u8] {
        self.reply.frame()
    }

    /// What became of packets so far.
    pub fn counters(&self) -> &RouteCounters {
        &self.counters
    }
}

/// Asks the control thread, if that was not done a short while ago. Returns how many asks were lost.
#[cold]
fn ask(asks: &mut Producer<Ask>, recent: &mut Recent, now_ns: u64, which: Ask, pause_ns: u64) -> u64 {
    let hash = hash_of(which.neighbour, Addr::UNSPECIFIED, u64::from(which.interface) << 32 | pause_ns);
    let is_due = recent.is_due(now_ns, hash, pause_ns);
    u64::from(is_due && asks.push(which).is_err())
}

/// The address that an error to a sender comes from: one of the interface that it leaves by (RFC 1812 §4.3.2.4), which is the one
/// that the packet came by (RFC 4443 §2.2), in the network of the next hop; else any of this host. Linux takes it from its route to the sender,
/// which leads to the same one as long as there and back are one way.
pub(super) fn source(snapshot: &Snapshot, received_by: &Link, sender: Addr) -> Option<Addr> {
    let next = match snapshot.route(sender).path(|| 0) {
        Some(path) if path.interface == received_by.index => path.gateway.unwrap_or(sender),
        _ => sender,
    };
    // A gateway may be of the other family.
    let next = if next.to_v4().is_some() == sender.to_v4().is_some() { next } else { sender };
    received_by.source(next).or_else(|| snapshot.any_address(sender.to_v4().is_some()))
}

/// How many bytes the outer headers of a tunnel have.
fn tunnel_bytes(headers: &Headers) -> usize {
    let ip = usize::from(headers.l4_offset.saturating_sub(headers.l3_offset.into()));
    ip + if headers.protocol == wire::protocol::UDP { 8 } else { 0 }
}

#[inline]
fn readdress(frame: &mut [u8], to: [u8; 6], from: [u8; 6]) {
    if let Some(ethernet) = frame.first_chunk_mut::<12>() {
        ethernet[..6].copy_from_slice(&to);
        ethernet[6..].copy_from_slice(&from);
    }
}

/// Takes one from the time to live, or the hop limit, which is more than that.
#[inline]
fn age(frame: &mut [u8], is_ipv4: bool) {
    let Some(packet) = frame.get_mut(14..) else { return };
    if !is_ipv4 {
        if let Some(hop_limit) = packet.get_mut(7) {
            *hop_limit = hop_limit.wrapping_sub(1);
        }
    } else if let Some(header) = packet.first_chunk_mut::<20>() {
        header[8] = header[8].wrapping_sub(1);
        // RFC 1624 eqn. 3 for a word that is 0x0100 less: HC' = ~(~HC + ~m + m').
        let sum = u32::from(!u16::from_be_bytes([header[10], header[11]])) + 0xfeff;
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}
