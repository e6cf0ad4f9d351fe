//! The reasons for which a packet is malformed, and the layer that each is about.

/// Why a packet is malformed: which header could not be believed.
///
/// The order is stable: reports index by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// The frame ends inside its link header (Ethernet, VLAN tag, cooked, loopback).
    LinkTruncated = 1,
    /// More than two VLAN tags.
    TooManyVlanTags,
    /// The IP version nibble contradicts the link header, or is neither 4 nor 6.
    IpVersion,
    /// The frame ends inside the IPv4 header.
    Ipv4Truncated,
    /// The IPv4 header length is below 20 bytes.
    Ipv4HeaderLength,
    /// The IPv4 total length is below the header length, or beyond the frame.
    Ipv4TotalLength,
    /// The frame ends inside the IPv6 header.
    Ipv6Truncated,
    /// The IPv6 payload length is beyond the frame.
    Ipv6PayloadLength,
    /// The frame ends inside an IPv6 extension header.
    Ipv6ExtensionTruncated,
    /// More IPv6 extension headers than [`Malformed::MAX_IPV6_EXTENSIONS`].
    TooManyIpv6Extensions,
    /// A fragment whose offset and length go past 65,535 bytes ("ping of death"); where datagrams are followed, a later
    /// one of that datagram, too.
    FragmentOverflow,
    /// The packet ends inside the TCP header.
    TcpTruncated,
    /// The TCP data offset is below 20 bytes, or beyond the packet.
    TcpDataOffset,
    /// The packet ends inside the UDP header.
    UdpTruncated,
    /// The UDP length is below 8, or beyond the packet.
    UdpLength,
    /// The packet ends inside the ICMP or ICMPv6 header.
    IcmpTruncated,
    /// The packet ends before both ports of an SCTP or DCCP header.
    PortsTruncated,
    /// An IPv6 header with an IPv4-mapped address, which must not be on a wire (RFC 6890 §2.2.3). It
    /// would be one address with the IPv4 one here, and another to every card that hashes it.
    MappedAddress,
    /// The checksum of the IPv4 header is wrong. Like those below, found by [`verify`](crate::verify) alone.
    Ipv4Checksum,
    /// The TCP checksum is wrong.
    TcpChecksum,
    /// The UDP checksum is wrong, or missing in IPv6.
    UdpChecksum,
    /// The ICMP or ICMPv6 checksum is wrong.
    IcmpChecksum,
    /// A fragment, and the chain drops all of them. Like those below, found by who follows datagrams, not by
    /// [`parse`](fn@crate::parse).
    Fragment,
    /// A fragment without data, or with more to come behind data whose length is not a multiple of 8 (RFC 8200 §4.5).
    FragmentLength,
    /// A fragment of a fragment: an IPv6 packet with two fragment headers.
    FragmentNested,
    /// A later fragment of a datagram whose first fragment did not come before it, or was refused.
    FragmentWithoutFirst,
    /// A fragment whose bytes were all in one that came before it: a receiver ignores it.
    FragmentDuplicate,
    /// A fragment that overlaps another of its datagram, or a later one of that datagram (RFC 5722 §3).
    FragmentOverlap,
    /// A fragment that contradicts another about where their datagram ends, or a later one of that datagram.
    FragmentEnd,
    /// A fragment of a datagram with more fragments than are followed.
    TooManyFragments,
    /// The source address belongs to the other side than the interface by which the packet came (RFC 2827, RFC 3704). Found
    /// where a packet's chain has two sides.
    Spoofed,
}

impl Malformed {
    /// How many IPv6 extension headers a packet may have; more are malformed, so parsing is bounded.
    pub const MAX_IPV6_EXTENSIONS: usize = 8;

    /// Every reason, in order.
    pub const ALL: [Malformed; 31] = [
        Malformed::LinkTruncated,
        Malformed::TooManyVlanTags,
        Malformed::IpVersion,
        Malformed::Ipv4Truncated,
        Malformed::Ipv4HeaderLength,
        Malformed::Ipv4TotalLength,
        Malformed::Ipv6Truncated,
        Malformed::Ipv6PayloadLength,
        Malformed::Ipv6ExtensionTruncated,
        Malformed::TooManyIpv6Extensions,
        Malformed::FragmentOverflow,
        Malformed::TcpTruncated,
        Malformed::TcpDataOffset,
        Malformed::UdpTruncated,
        Malformed::UdpLength,
        Malformed::IcmpTruncated,
        Malformed::PortsTruncated,
        Malformed::MappedAddress,
        Malformed::Ipv4Checksum,
        Malformed::TcpChecksum,
        Malformed::UdpChecksum,
        Malformed::IcmpChecksum,
        Malformed::Fragment,
        Malformed::FragmentLength,
        Malformed::FragmentNested,
        Malformed::FragmentWithoutFirst,
        Malformed::FragmentDuplicate,
        Malformed::FragmentOverlap,
        Malformed::FragmentEnd,
        Malformed::TooManyFragments,
        Malformed::Spoofed,
    ];

    /// A stable name for reports, such as `tcp-data-offset`.
    pub fn name(self) -> &'static str {
        match self {
            Malformed::LinkTruncated => "link-truncated",
            Malformed::TooManyVlanTags => "too-many-vlan-tags",
            Malformed::IpVersion => "ip-version",
            Malformed::Ipv4Truncated => "ipv4-truncated",
            Malformed::Ipv4HeaderLength => "ipv4-header-length",
            Malformed::Ipv4TotalLength => "ipv4-total-length",
            Malformed::Ipv6Truncated => "ipv6-truncated",
            Malformed::Ipv6PayloadLength => "ipv6-payload-length",
            Malformed::Ipv6ExtensionTruncated => "ipv6-extension-truncated",
            Malformed::TooManyIpv6Extensions => "too-many-ipv6-extensions",
            Malformed::FragmentOverflow => "fragment-overflow",
            Malformed::TcpTruncated => "tcp-truncated",
            Malformed::TcpDataOffset => "tcp-data-offset",
            Malformed::UdpTruncated => "udp-truncated",
            Malformed::UdpLength => "udp-length",
            Malformed::IcmpTruncated => "icmp-truncated",
            Malformed::PortsTruncated => "ports-truncated",
            Malformed::MappedAddress => "mapped-address",
            Malformed::Ipv4Checksum => "ipv4-checksum",
            Malformed::TcpChecksum => "tcp-checksum",
            Malformed::UdpChecksum => "udp-checksum",
            Malformed::IcmpChecksum => "icmp-checksum",
            Malformed::Fragment => "fragment",
            Malformed::FragmentLength => "fragment-length",
            Malformed::FragmentNested => "fragment-nested",
            Malformed::FragmentWithoutFirst => "fragment-without-first",
            Malformed::FragmentDuplicate => "fragment-duplicate",
            Malformed::FragmentOverlap => "fragment-overlap",
            Malformed::FragmentEnd => "fragment-end",
            Malformed::TooManyFragments => "too-many-fragments",
            Malformed::Spoofed => "spoofed",
        }
    }

    /// Whether it takes other packets to find this reason: the check of fragments finds it, which has their
    /// datagrams. So it is
    /// found where packets enter, and goes with the packet from there.
    pub fn is_of_datagrams(self) -> bool {
        matches!(
            self,
            Malformed::FragmentOverflow
                | Malformed::FragmentLength
                | Malformed::FragmentNested
                | Malformed::FragmentWithoutFirst
                | Malformed::FragmentDuplicate
                | Malformed::FragmentOverlap
                | Malformed::FragmentEnd
                | Malformed::TooManyFragments
        )
    }

    /// Whether a checksum is wrong, which [`parse`](fn@crate::parse) does not find.
    pub fn is_of_checksums(self) -> bool {
        matches!(
            self,
            Malformed::Ipv4Checksum
                | Malformed::TcpChecksum
                | Malformed::UdpChecksum
                | Malformed::IcmpChecksum
        )
    }

    /// The reason with number `code`, the inverse of `self as u8`; `None` for 0 (well-formed).
    pub fn from_code(code: u8) -> Option<Malformed> {
        Malformed::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// A layer of headers, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Link,
    Ip,
    Transport,
}

impl Malformed {
    /// The layer whose header could not be believed; those before it are whole.
    pub(crate) fn layer(self) -> Layer {
        match self {
            Malformed::LinkTruncated | Malformed::TooManyVlanTags => Layer::Link,
            Malformed::IpVersion
            | Malformed::Ipv4Truncated
            | Malformed::Ipv4HeaderLength
            | Malformed::Ipv4TotalLength
            | Malformed::Ipv6Truncated
            | Malformed::Ipv6PayloadLength
            | Malformed::Ipv6ExtensionTruncated
            | Malformed::TooManyIpv6Extensions
            | Malformed::FragmentOverflow
            | Malformed::MappedAddress
            | Malformed::Ipv4Checksum => Layer::Ip,
            Malformed::TcpTruncated
            | Malformed::TcpDataOffset
            | Malformed::UdpTruncated
            | Malformed::UdpLength
            | Malformed::IcmpTruncated
            | Malformed::PortsTruncated
            | Malformed::TcpChecksum
            | Malformed::UdpChecksum
            | Malformed::IcmpChecksum
            | Malformed::Fragment
            | Malformed::FragmentLength
            | Malformed::FragmentNested
            | Malformed::FragmentWithoutFirst
            | Malformed::FragmentDuplicate
            | Malformed::FragmentOverlap
            | Malformed::FragmentEnd
            | Malformed::TooManyFragments
            | Malformed::Spoofed => Layer::Transport,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_reasons_agree() {
        for (index, reason) in Malformed::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index + 1);
            assert_eq!(Malformed::from_code(reason as u8), Some(reason));
        }
        assert_eq!(Malformed::from_code(0), None);
        assert_eq!(Malformed::from_code(Malformed::ALL.len() as u8 + 1), None);
    }
}
