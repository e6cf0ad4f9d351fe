//! What the balancer reads of a packet and what it keeps of a flow.

use nf::{Connection, FiveTuple, FlowKey, hash_bytes};
use wire::{Addr, Headers, IcmpPorts, Marks, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// Any number; the same everywhere, so that balancers agree.
const FLOW_HASH_SEED: u64 = 0x6d61_676c_6576;

/// The header fields that the balancer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    pub(super) src: Addr,
    pub(super) dst: Addr,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) protocol: u8,
    pub(super) tcp_flags: u8,
    /// [`FIRST_FRAGMENT`], [`OF_CONNECTION`], [`PING`], [`FOLLOWED`].
    pub(super) marks: u8,
    /// The protocol that an ICMP error quotes, TCP or UDP; 0 for other packets.
    pub(super) about: u8,
    /// The destination that such an error quotes: [`Headers::word_of`].
    pub(super) quoted: u32,
}

/// What is kept of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Packets to the backend.
    pub packets: u64,
    /// The backend, by a hash of its address, port and MAC address, and of its service's address, port and protocol.
    pub backend_id: u32,
    /// Where in the service's list it was found.
    pub backend: u16,
    /// How far the flow is.
    pub phase: Phase,
    /// Where in the list of services its service was found.
    pub service: u8,
}

/// A ping: an echo request that is no fragment.
pub(super) const PING: u8 = 1;
/// An ICMP error that counts as a packet of the connection that it quotes: see [`Connection::quoted`].
pub(super) const OF_CONNECTION: u8 = 2;
/// The first of several fragments; with [`FOLLOWED`] a later one. Both are where [`Marks`] have them, so that nothing is asked.
pub(super) const FIRST_FRAGMENT: u8 = Marks::FIRST_FRAGMENT.bits();
/// A later fragment with the ports of its first.
pub(super) const FOLLOWED: u8 = Marks::LATER_FRAGMENT.bits();

const _: () = assert!((FIRST_FRAGMENT | FOLLOWED) & (PING | OF_CONNECTION) == 0);

/// [`State::service`] of what a client sends to a backend itself, past every service.
const NO_SERVICE: u8 = u8::MAX;

const _: () = assert!(size_of::<Meta>() == 44 && size_of::<State>() == 16);

impl State {
    /// A connection that a client opens to a backend itself, with this packet. What is kept of the two ends is which of
    /// them the client is.
    pub(super) fn direct(meta: &Meta) -> State {
        let (backend, phase) = (meta.is_from_low().into(), meta.next_phase(None));
        State { packets: 1, backend_id: 0, backend, phase, service: NO_SERVICE }
    }

    #[inline]
    pub(super) fn is_direct(&self) -> bool {
        self.service == NO_SERVICE
    }

    /// Whether the packet of a direct connection comes from its client.
    pub(super) fn is_from_client(&self, meta: &Meta) -> bool {
        self.backend == u16::from(meta.is_from_low())
    }
}

/// What the balancer follows: a key that tells flows apart.
pub trait Followed: FlowKey {
    /// Whether answers have the key of what they answer.
    const BOTH_WAYS: bool;

    /// The key of a packet that was read so.
    fn of_meta(meta: &Meta) -> Self;

    /// Addresses and ports to which its packets may go.
    fn ends(&self) -> [(Addr, u16); 2];

    /// IP protocol.
    fn protocol(&self) -> u8;
}

impl Followed for FiveTuple {
    const BOTH_WAYS: bool = false;

    #[inline]
    fn of_meta(meta: &Meta) -> FiveTuple {
        meta.flow()
    }

    fn ends(&self) -> [(Addr, u16); 2] {
        [(self.dst, self.dst_port); 2]
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }
}

impl Followed for Connection {
    const BOTH_WAYS: bool = true;

    #[inline]
    fn of_meta(meta: &Meta) -> Connection {
        Connection::of(&meta.headers())
    }

    fn ends(&self) -> [(Addr, u16); 2] {
        [(self.low, self.low_port), (self.high, self.high_port)]
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }
}

/// How far a flow is; decides its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub enum Phase {
    /// TCP, one packet or SYNs alone.
    Opening,
    /// TCP, more than that.
    Open,
    /// TCP, after a FIN or RST.
    Closing,
    /// UDP.
    Datagrams,
}

/// An address as far as ICMP errors tell it in [`Headers::ack`]: IPv4 whole, of IPv6 its word alone.
#[inline]
pub(super) fn known(address: Addr) -> Addr {
    match address.to_v4() {
        Some(_) => address,
        None => of_word(Headers::word_of(address)),
    }
}

fn of_word(word: u32) -> Addr {
    Addr(u128::from(word).to_be_bytes())
}

#[inline]
pub(super) fn hash_of_flow(flow: &FiveTuple) -> u64 {
    hash_bytes(flow.as_bytes(), FLOW_HASH_SEED)
}

#[inline]
pub(super) fn fragment_mark(headers: &Headers) -> u8 {
    headers.marks.bits() & (FIRST_FRAGMENT | FOLLOWED)
}

impl Meta {
    #[inline]
    pub(super) fn flow(&self) -> FiveTuple {
        FiveTuple {
            src: self.src,
            dst: self.dst,
            src_port: self.src_port,
            dst_port: self.dst_port,
            protocol: self.protocol,
            zero: [0; 3],
        }
    }

    /// An ICMP error about a packet that may have gone by here.
    #[cold]
    pub(super) fn of_error(headers: &Headers) -> Option<Meta> {
        let IcmpPorts::Error { protocol: about, .. } = headers.icmp_ports()? else { return None };
        matches!(about, protocol::TCP | protocol::UDP).then_some(Meta {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            tcp_flags: 0,
            marks: match Connection::quoted(headers) {
                Some(_) => OF_CONNECTION | fragment_mark(headers),
                None => fragment_mark(headers),
            },
            about,
            quoted: headers.ack,
        })
    }

    /// A ping to anybody.
    #[cold]
    pub(super) fn of_ping(headers: &Headers) -> Option<Meta> {
        let (kind, code) = headers.icmp().map(|icmp| (icmp.kind, icmp.code))?;
        let is_request = match headers.protocol {
            protocol::ICMP => kind == 8 && headers.marks.contains(Marks::IPV4),
            _ => kind == 128 && headers.marks.contains(Marks::IPV6),
        };
        (is_request && code == 0 && !headers.is_fragment()).then_some(Meta {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            tcp_flags: 0,
            marks: PING,
            about: 0,
            quoted: 0,
        })
    }

    /// Whether it is a ping.
    #[inline]
    pub(super) fn is_ping(&self) -> bool {
        self.marks & PING != 0
    }

    /// As far as a [`Connection`] is made of them.
    #[inline]
    fn headers(&self) -> Headers {
        let (src, protocol) = match self.marks & OF_CONNECTION {
            0 => (self.src, self.protocol),
            _ => (self.dst.to_v4().map_or(self.src, |_| self.quoted_destination()), self.about),
        };
        let Meta { dst, src_port, dst_port, .. } = *self;
        Headers { src, dst, src_port, dst_port, protocol, ..Headers::default() }
    }

    /// Whether the packet goes from the lesser end of its connection to the other.
    fn is_from_low(&self) -> bool {
        Connection::is_from_low(&self.headers())
    }

    #[inline]
    pub(super) fn is_first_fragment(&self) -> bool {
        self.marks & (FIRST_FRAGMENT | FOLLOWED) == FIRST_FRAGMENT
    }

    /// Whether it is a later fragment, of which flags are not known.
    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        self.marks & FOLLOWED != 0
    }

    /// Where the packet went that an error quotes, as [`known`] has it.
    pub(super) fn quoted_destination(&self) -> Addr {
        match self.dst.to_v4() {
            Some(_) => Addr::v4(self.quoted.to_be_bytes()),
            None => of_word(self.quoted),
        }
    }

    /// What decides which backend takes a flow, where nothing else does: the 5-tuple of its packets to the service. The client is known
    /// as an error from its side, which quotes what the service sent to it, knows it.
    #[inline]
    pub(super) fn hashed(&self) -> FiveTuple {
        match self.about {
            0 => FiveTuple { src: known(self.src), ..self.flow() },
            protocol => FiveTuple { src: self.quoted_destination(), protocol, ..self.flow() },
        }
    }

    #[inline]
    pub(super) fn hash(&self) -> u64 {
        hash_of_flow(&self.hashed())
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.protocol == protocol::TCP && self.tcp_flags & flag != 0
    }

    /// A SYN that opens a connection (RFC 9293 §3.5).
    #[inline]
    pub(super) fn is_tcp_opening(&self) -> bool {
        self.has(tcp_flags::SYN) && !self.has(tcp_flags::ACK)
    }

    /// Whether the packet begins another connection than the one in `phase`.
    #[inline]
    pub(super) fn reopens(&self, phase: Phase) -> bool {
        phase == Phase::Closing && self.is_tcp_opening()
    }

    /// Whether a flow may begin with this packet.
    #[inline]
    pub(super) fn is_opening(&self) -> bool {
        (self.protocol != protocol::TCP || self.is_tcp_opening()) && !self.is_followed()
    }

    /// Where the packet leads a flow that was in `phase`, if it was.
    #[inline]
    pub(super) fn next_phase(&self, phase: Option<Phase>) -> Phase {
        match phase {
            Some(phase) if self.is_followed() => phase,
            _ if self.protocol != protocol::TCP => Phase::Datagrams,
            _ if self.has(tcp_flags::FIN | tcp_flags::RST) => Phase::Closing,
            None => Phase::Opening,
            Some(Phase::Opening) if !self.has(tcp_flags::SYN) => Phase::Open,
            Some(phase) => phase,
        }
    }
}
