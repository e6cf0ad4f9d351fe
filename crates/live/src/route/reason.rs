//! Why packets were not forwarded, and how many.

/// Why a packet was not forwarded. The order is stable: reports index by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RouteDrop {
    /// No route leads to the destination.
    NoRoute,
    /// The route says so: `blackhole`, `unreachable`, `prohibit`.
    Refused,
    /// The next hop did not answer; or nobody knew its Ethernet address as long as the packet waited, or until a later packet
    /// took its place.
    NoNeighbour,
    /// The time to live, or the hop limit, ends here.
    TtlExpired,
    /// The packet is longer than the MTU of the way out.
    TooBig,
    /// An address that no packet between networks has (RFC 1812 §5.3.7), or a broadcast frame around a packet for one
    /// host (RFC 1812 §5.3.4).
    Martian,
    /// The frame is for another station's Ethernet address.
    OtherHost,
    /// Neither IPv4 nor IPv6, nor ARP.
    NotIp,
    /// A VLAN tag: route mode takes a VLAN as an interface of its own.
    Tagged,
    /// The IP header contradicts itself or the frame, or its checksum is wrong (RFC 1812 §5.2.2).
    BadHeader,
    /// The interface that the route names is down, has no carrier, or is gone.
    LinkDown,
    /// The interface that the route names carries no Ethernet frames.
    NotEthernet,
    /// The source address is one of this host, or a broadcast address of a network here, and the packet came from elsewhere
    /// (RFC 1812 §5.3.7). Found before the chain.
    OwnSource,
    /// The sender chose the way: an IPv4 option for a loose or strict source route (RFC 7126 §4.3, §4.4; RFC 1812 §5.3.13.4),
    /// or an IPv6 routing header of type 0 (RFC 5095). Found before the chain.
    SourceRoute,
}

impl RouteDrop {
    /// Every reason, in order.
    pub const ALL: [RouteDrop; 14] = [
        RouteDrop::NoRoute,
        RouteDrop::Refused,
        RouteDrop::NoNeighbour,
        RouteDrop::TtlExpired,
        RouteDrop::TooBig,
        RouteDrop::Martian,
        RouteDrop::OtherHost,
        RouteDrop::NotIp,
        RouteDrop::Tagged,
        RouteDrop::BadHeader,
        RouteDrop::LinkDown,
        RouteDrop::NotEthernet,
        RouteDrop::OwnSource,
        RouteDrop::SourceRoute,
    ];

    /// A stable name for reports, such as `no-route`.
    pub fn name(self) -> &'static str {
        match self {
            RouteDrop::NoRoute => "no-route",
            RouteDrop::Refused => "route-refuses",
            RouteDrop::NoNeighbour => "no-neighbour",
            RouteDrop::TtlExpired => "ttl-expired",
            RouteDrop::TooBig => "above-mtu",
            RouteDrop::Martian => "martian",
            RouteDrop::OtherHost => "other-host",
            RouteDrop::NotIp => "not-ip",
            RouteDrop::Tagged => "vlan-tag",
            RouteDrop::BadHeader => "bad-ip-header",
            RouteDrop::LinkDown => "link-down",
            RouteDrop::NotEthernet => "not-ethernet",
            RouteDrop::OwnSource => "own-source",
            RouteDrop::SourceRoute => "source-route",
        }
    }

    /// One line for people.
    pub fn summary(self) -> &'static str {
        match self {
            RouteDrop::NoRoute => "no route to the destination",
            RouteDrop::Refused => "the route is a blackhole, unreachable or prohibited",
            RouteDrop::NoNeighbour => "the next hop's Ethernet address is not known",
            RouteDrop::TtlExpired => "the TTL or hop limit ended here",
            RouteDrop::TooBig => "longer than the MTU of the way out",
            RouteDrop::Martian => "an address that is not routed, or a broadcast frame",
            RouteDrop::OtherHost => "the frame is for another station",
            RouteDrop::NotIp => "neither IPv4 nor IPv6",
            RouteDrop::Tagged => "a VLAN tag; give the VLAN's own interface instead",
            RouteDrop::BadHeader => "the IP header is wrong, or its checksum",
            RouteDrop::LinkDown => "the way out is down",
            RouteDrop::NotEthernet => "the way out is not Ethernet",
            RouteDrop::OwnSource => "the source is an address of this host, or a broadcast",
            RouteDrop::SourceRoute => "the sender chose the way (source route)",
        }
    }
}

/// What became of the packets of one [`Forwarder`](super::Forwarder): each packet is in exactly one of `sent`, `host`,
/// the drops and `unresolved`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RouteCounters {
    /// Packets to be sent.
    pub sent: u64,
    /// Packets among `sent` that leave by the interface that they came by.
    pub hairpins: u64,
    /// Packets for this host.
    pub host: u64,
    /// Packets that wait for a neighbour now.
    pub unresolved: u64,
    /// Packets dropped, by [`RouteDrop`].
    pub drops: [u64; RouteDrop::ALL.len()],
    /// ICMP errors built about dropped packets.
    pub replies: u64,
    /// ICMP errors that a rate limit held back.
    pub replies_limited: u64,
    /// Requests for neighbours that found the ring to the control thread full.
    pub asks_lost: u64,
}

impl RouteCounters {
    /// How many packets were dropped for a reason.
    pub fn dropped(&self, reason: RouteDrop) -> u64 {
        self.drops[reason as usize]
    }

    /// The counters of two forwarders together.
    pub fn plus(mut self, other: &RouteCounters) -> RouteCounters {
        let RouteCounters { sent, hairpins, host, unresolved, drops, replies, replies_limited, asks_lost } =
            other;
        self.sent += sent;
        self.hairpins += hairpins;
        self.host += host;
        self.unresolved += unresolved;
        self.drops.iter_mut().zip(drops).for_each(|(sum, count)| *sum += count);
        self.replies += replies;
        self.replies_limited += replies_limited;
        self.asks_lost += asks_lost;
        self
    }

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.sent + self.host + self.unresolved + self.drops.iter().sum::<u64>()
    }
}
