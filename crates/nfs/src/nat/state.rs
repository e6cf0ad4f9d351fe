//! What the NAT reads of a packet and what it keeps of a mapping.

use nf::SrcEndpoint;
use wire::{Headers, IcmpPorts, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use super::endpoint::{External, Taken};

/// The header fields that the NAT reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    pub(super) src: [u8; 4],
    pub(super) dst: [u8; 4],
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    /// That of the mapping which the packet is of: of an ICMP error, what it quotes.
    pub(super) protocol: u8,
    pub(super) tcp_flags: u8,
    pub(super) fragment: Piece,
    pub(super) message: Message,
}

/// Which piece of its datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(u8)]
pub(super) enum Piece {
    /// All of it.
    Whole,
    /// The first fragment of several.
    First,
    /// A later fragment with what its first said of their flow.
    Followed,
    /// A later fragment, without ports.
    Lone,
}

/// What an ICMP message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(u8)]
pub(super) enum Message {
    /// It is no ICMP.
    None,
    Request,
    Reply,
    /// An error from the destination of the packet that it quotes.
    ErrorFromHost,
    /// An error from a router.
    ErrorFromRouter,
    /// What is not translated.
    Other,
}

/// A mapping; its inside endpoint is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Outbound packets; no more than 4,294,967,295.
    pub packets: u32,
    /// TCP: the address that the last connection to open goes to.
    pub peer: [u8; 4],
    /// Its port.
    pub peer_port: u16,
    /// The external port.
    pub port: u16,
    /// Which external address, counted in ascending order.
    pub address: u8,
    /// How far it is.
    pub phase: Phase,
    /// TCP: 1 if packets went to others than the peer.
    pub has_other_peers: u8,
    /// Which of the mappings this is that have had the port one after the other, modulo 256.
    pub generation: u8,
    /// From the last step to the deadline: the phase's time-out, and less if the step was not to refresh the
    /// mapping.
    pub left_ns: u64,
}

const _: () = assert!(size_of::<Meta>() == 16 && size_of::<State>() == 24);

/// How far a mapping is; decides its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub enum Phase {
    /// UDP.
    Datagrams,
    /// ICMP.
    Query,
    /// TCP, one packet or SYNs alone.
    Opening,
    /// TCP, more than that.
    Established,
    /// TCP, after a FIN or RST to its only peer.
    Closing,
}

impl State {
    pub(super) fn new(taken: Taken, phase: Phase, meta: &Meta) -> State {
        let Taken { external, generation } = taken;
        let is_tcp = meta.protocol == protocol::TCP;
        let (peer, peer_port) = if is_tcp { (meta.dst, meta.dst_port) } else { Default::default() };
        State {
            packets: 1,
            peer,
            peer_port,
            port: external.port,
            address: external.address,
            phase,
            has_other_peers: 0,
            generation,
            left_ns: 0,
        }
    }

    /// Another outbound packet.
    #[inline]
    pub(super) fn follow(&mut self, meta: &Meta) {
        self.packets = self.packets.saturating_add(1);
        // Of a later fragment nothing is known that its first did not tell.
        if meta.protocol == protocol::TCP && meta.fragment != Piece::Followed {
            self.follow_tcp(meta);
        }
    }

    #[inline]
    fn follow_tcp(&mut self, meta: &Meta) {
        let is_to_peer = (self.peer, self.peer_port) == (meta.dst, meta.dst_port);
        if self.phase == Phase::Closing && meta.opens() {
            (self.peer, self.peer_port) = (meta.dst, meta.dst_port);
            self.phase = Phase::Opening;
            return;
        }
        if !is_to_peer && meta.ends() {
            // Most likely it refuses a stranger, who must not make the mapping last.
            return;
        }
        self.has_other_peers |= u8::from(!is_to_peer);
        let has_one_peer = self.has_other_peers == 0;
        self.phase = match self.phase {
            Phase::Closing if has_one_peer => Phase::Closing,
            _ if meta.ends() && has_one_peer => Phase::Closing,
            Phase::Opening if meta.opens() => Phase::Opening,
            _ => Phase::Established,
        };
    }

    #[inline]
    pub(super) fn external(&self, protocol: u8) -> External {
        External { address: self.address, protocol, port: self.port }
    }

    /// What the mapping took from the pool.
    pub(super) fn taken(&self, protocol: u8) -> Taken {
        Taken { external: self.external(protocol), generation: self.generation }
    }
}

impl Phase {
    /// That of a mapping which this packet makes.
    pub(super) fn begin(meta: &Meta) -> Phase {
        match meta {
            _ if meta.protocol == protocol::ICMP => Phase::Query,
            _ if meta.protocol != protocol::TCP => Phase::Datagrams,
            _ if meta.ends() => Phase::Closing,
            _ => Phase::Opening,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Datagrams => "datagrams",
            Phase::Query => "query",
            Phase::Opening => "opening",
            Phase::Established => "established",
            Phase::Closing => "closing",
        }
    }
}

impl Meta {
    /// The protocol of the sender's endpoint: see [`SrcEndpoint`].
    #[inline]
    pub(super) fn src_protocol(&self) -> u8 {
        match self.message {
            Message::None | Message::Request | Message::ErrorFromHost => self.protocol,
            Message::Reply | Message::ErrorFromRouter | Message::Other => SrcEndpoint::NO_PROTOCOL,
        }
    }

    /// The port that the packet is for, given which external address it is for.
    #[inline]
    pub(super) fn destination(&self, address: u8) -> External {
        External { address, protocol: self.protocol, port: self.dst_port }
    }

    /// Begins a connection, or answers that the other end did (RFC 9293 §3.5).
    #[inline]
    pub(super) fn opens(&self) -> bool {
        self.tcp_flags & tcp_flags::SYN != 0
    }

    #[inline]
    pub(super) fn ends(&self) -> bool {
        self.tcp_flags & (tcp_flags::FIN | tcp_flags::RST) != 0
    }
}

impl Piece {
    /// The piece that these headers are of.
    #[inline]
    pub(super) fn of(headers: &Headers) -> Piece {
        match headers {
            _ if !headers.is_fragment() => Piece::Whole,
            _ if headers.is_followed() => Piece::Followed,
            _ if headers.is_first_fragment() => Piece::First,
            _ => Piece::Lone,
        }
    }
}

impl Message {
    /// What an ICMP message is, and the protocol of the mapping that it is of.
    #[cold]
    pub(super) fn of(headers: &Headers) -> (Message, u8) {
        match headers.icmp_ports() {
            Some(IcmpPorts::Request) => (Message::Request, protocol::ICMP),
            Some(IcmpPorts::Reply) => (Message::Reply, protocol::ICMP),
            Some(IcmpPorts::Error { protocol, is_from_destination: true }) => {
                (Message::ErrorFromHost, protocol)
            }
            Some(IcmpPorts::Error { protocol, is_from_destination: false }) => {
                (Message::ErrorFromRouter, protocol)
            }
            None => (Message::Other, protocol::ICMP),
        }
    }
}
