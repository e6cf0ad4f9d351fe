//! The parsed header vector of a packet, and the numbers of protocols and TCP flags.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Addr, LinkType, Malformed};

/// The parsed header vector of one packet: one cache line of plain old data.
///
/// It holds every header field that a function's state may depend on, so that `project` needs
/// nothing else: a packet's history in another core is a subset of these bytes.
/// Multi-byte numbers are in host order. A field that a packet does not have is 0.
///
/// ```text
///  0           16         32          36    40     44         46         48       50     52
///  | src       | dst      | seq       | ack | sack | src_port | dst_port | window | vlan |
///  52       54          56         57          58    59    60          61          62      63               64
///  | l3_len | l4_offset | protocol | tcp_flags | ttl | tos | l3_offset | tcp_shape | marks | malformed_code |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Headers {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// TCP sequence number. For ICMP and ICMPv6 the header's type, code and identifier: see
    /// [`Headers::icmp`]. For UDP the header's length field, which [`Headers::payload_len`] obeys.
    pub seq: u32,
    /// TCP acknowledgment number, also where the ACK flag is not set. Of an ICMP error whose quote can be read, the destination that it
    /// quotes, as a [word](Headers::word_of).
    pub ack: u32,
    /// Highest right edge of the SACK blocks (RFC 2018) that lies after `ack`; `ack` where there is
    /// none, or no ACK flag.
    pub sack: u32,
    /// Source port of TCP, UDP, SCTP, DCCP; what ICMP has in its place, see
    /// [`IcmpPorts`](crate::IcmpPorts); 0 for others, and for later fragments that [follow](Headers::follow) no first one.
    pub src_port: u16,
    /// Destination port of TCP, UDP, SCTP, DCCP; what ICMP has in its place, see [`IcmpPorts`](crate::IcmpPorts); 0
    /// as [`Headers::src_port`] is.
    pub dst_port: u16,
    /// TCP window, not scaled.
    pub window: u16,
    /// Tag control information of the outermost VLAN tag; see [`Marks::VLAN`].
    pub vlan: u16,
    /// Bytes of the IP packet with its header, as the header says (RFC 2697 counts these); the count
    /// on the wire after the link header where IP says 0 (segmentation offload, jumbograms) and for
    /// what is not IP. 65,535 for all that is longer.
    pub l3_len: u16,
    /// Offset of the transport header in the frame, after IPv6 extension headers; of what follows the
    /// link header where there is no IP header. Never past the captured bytes.
    pub l4_offset: u16,
    /// IP protocol, after IPv6 extension headers; in a later fragment, which has none of those that
    /// the whole packet may have, what the fragment header says.
    pub protocol: u8,
    /// TCP flags: see [`tcp_flags`].
    pub tcp_flags: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service (DSCP and ECN), or traffic class.
    pub tos: u8,
    /// Offset of what follows the link header and its VLAN tags: of the IP header, if there is one.
    /// 14, 18 or 22 in an Ethernet frame, and only there.
    pub l3_offset: u8,
    /// High nibble: transport header length in 4-byte words. Low nibble: TCP window scale of a
    /// SYN, at most 14; 15 for TCP without one. Of ICMP, what the ports are: 0 none, 1 a request's,
    /// 2 a reply's, 4 to 7 those of what an error quotes (TCP, UDP, a request, a reply), with 8 added if the error
    /// does not come from the quoted destination; see [`Headers::icmp_ports`]. 0 for other protocols.
    pub tcp_shape: u8,
    /// What kind of packet this is.
    pub marks: Marks,
    /// 0 for a well-formed packet, else a [`Malformed`] code: see [`Headers::malformed`].
    pub malformed_code: u8,
}

const _: () = assert!(size_of::<Headers>() == 64);

/// What kind of packet this is, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Marks(u8);

bitflags! {
    impl Marks: u8 {
        /// An IPv4 packet.
        const IPV4 = 1 << 0;
        /// An IPv6 packet.
        const IPV6 = 1 << 1;
        /// The first fragment of several: has ports, and its payload ends early. With [`Marks::LATER_FRAGMENT`] a later fragment
        /// that has what its first said: see [`Headers::is_followed`].
        const FIRST_FRAGMENT = 1 << 2;
        /// A later fragment: has no transport header, hence no ports of its own.
        const LATER_FRAGMENT = 1 << 3;
        /// Has a VLAN tag.
        const VLAN = 1 << 4;
        /// Comes from outside, in a chain that has an inside; what parses packets for a chain decides it from the
        /// headers as received, and later from the interface. Nothing sets it here.
        const FROM_OUTSIDE = 1 << 5;
        /// The capture cut the frame (snap length); lengths are those of the wire.
        const SNAPPED = 1 << 6;
        /// A TCP SYN that permits selective acknowledgment (RFC 2018).
        const SACK_PERMITTED = 1 << 7;
    }
}

/// IP protocol numbers that Paceline parses (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// Transmission Control Protocol.
    pub const TCP: u8 = 6;
    /// User Datagram Protocol.
    pub const UDP: u8 = 17;
    /// Datagram Congestion Control Protocol.
    pub const DCCP: u8 = 33;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// Stream Control Transmission Protocol.
    pub const SCTP: u8 = 132;

    const NAMES: [(&str, u8); 6] =
        [("tcp", TCP), ("udp", UDP), ("icmp", ICMP), ("icmpv6", ICMPV6), ("sctp", SCTP), ("dccp", DCCP)];

    /// The number of a protocol among these, by its name in lower case.
    pub fn by_name(name: &str) -> Option<u8> {
        NAMES.iter().find(|(own, _)| *own == name).map(|(_, number)| *number)
    }

    /// The name of a protocol among these, in lower case.
    pub fn name_of(number: u8) -> Option<&'static str> {
        NAMES.iter().find(|(_, own)| *own == number).map(|(name, _)| *name)
    }
}

/// TCP flags (RFC 9293 §3.1), as bits of [`Headers::tcp_flags`].
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// The first four bytes of meaning in an ICMP or ICMPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type of message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Identifier, of requests and replies for echo and, over IPv4, time stamps; 0 for other types.
    pub identifier: u16,
}

impl Headers {
    /// Low nibble of `tcp_shape` of TCP that offers no window scale.
    pub(crate) const NO_WINDOW_SCALE: u8 = 15;

    /// Why the packet is malformed, if it is.
    #[inline]
    pub fn malformed(&self) -> Option<Malformed> {
        Malformed::from_code(self.malformed_code)
    }

    /// Whether every header was whole and made sense.
    #[inline]
    pub fn is_well_formed(&self) -> bool {
        self.malformed_code == 0
    }

    /// Whether each field has the place that it has in most packets: TCP or UDP, not a fragment, over IPv4 without options,
    /// in an Ethernet frame (`link`) without tags.
    #[inline]
    pub fn is_plain(&self, link: LinkType) -> bool {
        // On Ethernet 14 + 20 alone: with a tag or options the transport header begins later.
        link == LinkType::Ethernet && self.l4_offset == 34 && self.is_plain_ipv4()
    }

    /// Whether this is well-formed TCP or UDP over IPv4, not a fragment and without tags.
    #[inline]
    pub(crate) fn is_plain_ipv4(&self) -> bool {
        const OF_NO_MATTER: Marks = Marks::SNAPPED.union(Marks::SACK_PERMITTED).union(Marks::FROM_OUTSIDE);
        self.marks.difference(OF_NO_MATTER) == Marks::IPV4
            && self.is_well_formed()
            && matches!(self.protocol, protocol::TCP | protocol::UDP)
    }

    /// Whether this is an IP packet, version 4 or 6.
    #[inline]
    pub fn is_ip(&self) -> bool {
        self.marks.intersects(Marks::IPV4.union(Marks::IPV6))
    }

    /// Whether the transport header is here to be read: well-formed IP, and not a later fragment.
    #[inline]
    pub fn has_transport(&self) -> bool {
        self.is_ip() && self.is_well_formed() && !self.marks.contains(Marks::LATER_FRAGMENT)
    }

    /// Whether this is TCP with its header here to be read.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        self.protocol == protocol::TCP && self.has_transport()
    }

    /// Whether the frame has two VLAN tags (802.1ad QinQ), of which `vlan` is the outer one. `false` for two tags
    /// behind a Linux cooked header of version 1, which end where one tag behind version 2 does.
    #[inline]
    pub fn has_two_tags(&self) -> bool {
        // Ethernet, SLL2.
        self.marks.contains(Marks::VLAN) && matches!(self.l3_offset, 22 | 28)
    }

    /// Whether the packet is a fragment, first or later.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.marks.intersects(Marks::FIRST_FRAGMENT.union(Marks::LATER_FRAGMENT))
    }

    /// Length of the transport header, bytes: 20 to 60 for TCP, 8 for UDP and ICMP, else 0.
    #[inline]
    pub fn l4_header_len(&self) -> u16 {
        u16::from(self.tcp_shape >> 4) * 4
    }

    /// Offset of what follows the transport header in the frame.
    #[inline]
    pub fn payload_offset(&self) -> u16 {
        self.l4_offset.saturating_add(self.l4_header_len())
    }

    /// Bytes on the wire after the transport header, without link padding: to the end of the IP
    /// packet, or of the UDP datagram where that ends earlier. Of a fragment, what this packet carries.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        let headers_len = self.payload_offset().saturating_sub(u16::from(self.l3_offset));
        let len = self.l3_len.saturating_sub(headers_len);
        let is_whole_udp =
            self.protocol == protocol::UDP && self.has_transport() && !self.is_fragment() && self.seq != 0;
        if is_whole_udp { len.min(self.seq.saturating_sub(8) as u16) } else { len }
    }

    /// TCP window scale (RFC 7323) that a SYN offers; `None` without the option.
    #[inline]
    pub fn window_scale(&self) -> Option<u8> {
        let scale = self.tcp_shape & 0x0f;
        (self.is_tcp() && scale != Headers::NO_WINDOW_SCALE).then_some(scale)
    }

    /// The ICMP or ICMPv6 header, of a [followed](Headers::is_followed) fragment that of its first; `None` for other packets.
    #[inline]
    pub fn icmp(&self) -> Option<Icmp> {
        let is_icmp = matches!(self.protocol, protocol::ICMP | protocol::ICMPV6) && self.has_flow();
        is_icmp.then(|| {
            let [kind, code, high, low] = self.seq.to_be_bytes();
            Icmp { kind, code, identifier: u16::from_be_bytes([high, low]) }
        })
    }
}
