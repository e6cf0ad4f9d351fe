//! What the balancer reads of a packet and what it keeps of a flow.

use nf::{FiveTuple, hash_bytes};
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
    /// 1 for the first of several fragments.
    pub(super) is_first_fragment: u8,
    /// Of an ICMP error that quotes TCP or UDP, which of them; 0 of other packets.
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

const _: () = assert!(size_of::<Meta>() == 44 && size_of::<State>() == 16);

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
            is_first_fragment: headers.marks.contains(Marks::FIRST_FRAGMENT).into(),
            about,
            quoted: headers.ack,
        })
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
        hash_bytes(self.hashed().as_bytes(), FLOW_HASH_SEED)
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
        self.protocol != protocol::TCP || self.is_tcp_opening()
    }

    /// Where the packet leads a flow that was in `phase`, if it was.
    #[inline]
    pub(super) fn next_phase(&self, phase: Option<Phase>) -> Phase {
        match phase {
            _ if self.protocol != protocol::TCP => Phase::Datagrams,
            _ if self.has(tcp_flags::FIN | tcp_flags::RST) => Phase::Closing,
            None => Phase::Opening,
            Some(Phase::Opening) if !self.has(tcp_flags::SYN) => Phase::Open,
            Some(phase) => phase,
        }
    }
}
