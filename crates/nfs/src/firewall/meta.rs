//! What is read of a packet.

use nf::Connection;
use wire::{Addr, Fields, Headers, IcmpPorts, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use super::rule::{Judged, States};
use crate::common::is_neighbor_discovery;
use crate::conntrack;
use crate::selector::Packet;

/// The fields of a packet that the firewall reads: 56 bytes.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    /// The ends are the packet's; those of an ICMP error are the ends of the connection that it is about. Over IPv4 `ack` is its
    /// sender, which may be a router; over IPv6 the sender is the end that it comes from.
    pub(super) packet: conntrack::Meta,
    pub(super) protocol: u8,
    /// [`FLOW`], [`LATER_FRAGMENT`], [`ERROR`], [`UNTRACKED`] or [`FOLLOWED`].
    pub(super) kind: u8,
}

const _: () = assert!(size_of::<Meta>() == 56);

/// A packet of a connection.
pub(super) const FLOW: u8 = 0;
/// A later fragment without ports.
pub(super) const LATER_FRAGMENT: u8 = 1;
/// An ICMP error about a packet whose connection can be looked up.
pub(super) const ERROR: u8 = 2;
/// An ICMP message that is of no connection, or whose connection cannot be looked up.
pub(super) const UNTRACKED: u8 = 3;
/// A later fragment of a connection, with the ports of its first.
pub(super) const FOLLOWED: u8 = 4;

const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

impl Meta {
    /// The header fields that it is made of; `TTL` tells neighbour discovery.
    pub(super) const READS: Fields = conntrack::Meta::READS.union(Fields::TTL);

    /// The fields of an IP packet; `None` for others, and for neighbour discovery.
    #[inline]
    pub(super) fn of(headers: &Headers) -> Option<Meta> {
        if !headers.is_ip() || is_neighbor_discovery(headers) {
            return None;
        }
        if matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6) {
            return Some(Meta::of_icmp(headers));
        }
        Some(Meta {
            packet: conntrack::Meta::of_ip(headers),
            protocol: headers.protocol,
            kind: match (headers.is_lone_fragment(), headers.is_followed()) {
                (true, _) => LATER_FRAGMENT,
                (_, true) => FOLLOWED,
                _ => FLOW,
            },
        })
    }

    #[cold]
    fn of_icmp(headers: &Headers) -> Meta {
        if let Some(quoted) = Connection::quoted(headers) {
            let mut packet = conntrack::Meta::of_ip(&quoted);
            if headers.protocol == protocol::ICMP {
                packet.ack = u32::from_be_bytes(headers.src.last4());
            }
            return Meta { packet, protocol: quoted.protocol, kind: ERROR };
        }
        let kind = match (headers.icmp_ports(), headers.icmp()) {
            _ if headers.is_lone_fragment() => LATER_FRAGMENT,
            (Some(IcmpPorts::Request | IcmpPorts::Reply), _) => FLOW,
            (_, Some(icmp)) if headers.protocol == protocol::ICMPV6 => match icmp.kind {
                ECHO_REQUEST_V6 | ECHO_REPLY_V6 => FLOW,
                _ => UNTRACKED,
            },
            _ => UNTRACKED,
        };
        let kind = if kind == FLOW && headers.is_followed() { FOLLOWED } else { kind };
        Meta { packet: conntrack::Meta::of_ip(headers), protocol: headers.protocol, kind }
    }

    pub(super) fn connection(&self) -> Connection {
        self.packet.connection(self.protocol)
    }

    /// The packet as rules look at it.
    pub(super) fn judged(&self, state: States) -> Judged {
        let conntrack::Meta { src, dst, src_port, dst_port, seq, ack, tcp_flags, .. } = self.packet;
        let is_error = self.kind == ERROR;
        let packet = match is_error {
            true => {
                let (src, protocol) = match dst.to_v4() {
                    Some(_) => (Addr::v4(ack.to_be_bytes()), protocol::ICMP),
                    None => (src, protocol::ICMPV6),
                };
                Packet { src, dst, src_port: 0, dst_port: 0, protocol }
            }
            false => Packet { src, dst, src_port, dst_port, protocol: self.protocol },
        };
        Judged {
            packet,
            state,
            is_from_outside: self.packet.is_from_outside(),
            icmp_type: (seq >> 24) as u8,
            // The bit of CWR says which side the packet comes from.
            tcp_flags: tcp_flags & !tcp_flags::CWR,
        }
    }

    pub(super) fn is_icmp(&self) -> bool {
        matches!(self.protocol, protocol::ICMP | protocol::ICMPV6)
    }

    /// Whether an ICMP query is a request, not a reply.
    pub(super) fn is_request(&self) -> bool {
        let icmp_type = (self.packet.seq >> 24) as u8;
        match self.protocol {
            protocol::ICMP => matches!(icmp_type, 8 | 13),
            _ => icmp_type == ECHO_REQUEST_V6,
        }
    }
}
