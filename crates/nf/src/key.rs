//! What selects a flow's state. Each key knows the header fields it is made of, so that a
//! sharding strategy derives what to hash and never asks.

use core::fmt::{self, Debug, Display};

use wire::{Addr, Fields, Headers, protocol};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A key: plain bytes without padding, made of header fields.
pub trait FlowKey:
    Copy + Eq + Debug + Display + FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static
{
    /// The header fields that decide the key.
    const SHARDING: Sharding;
}

/// The header fields that a key is a function of: two packets alike in them have one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Decide the key.
    pub fields: Fields,
    /// The key is the same for both directions: source and destination may be exchanged.
    pub symmetric: bool,
}

/// The 5-tuple, one direction. Later fragments and protocols without ports have ports 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FiveTuple {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Zero: keys have no padding.
    pub zero: [u8; 3],
}

/// The 5-tuple with both directions as one: the lesser (address, port) comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Connection {
    /// The end with the lesser (address, port).
    pub low: Addr,
    /// The other end.
    pub high: Addr,
    /// Port of `low`.
    pub low_port: u16,
    /// Port of `high`.
    pub high_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Zero: keys have no padding.
    pub zero: [u8; 3],
}

/// The source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SrcAddr(pub Addr);

/// The destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct DstAddr(pub Addr);

/// Source and destination address, one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AddrPair {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
}

impl FlowKey for FiveTuple {
    const SHARDING: Sharding = Sharding { fields: Fields::FIVE_TUPLE, symmetric: false };
}

impl FlowKey for Connection {
    const SHARDING: Sharding = Sharding { fields: Fields::FIVE_TUPLE, symmetric: true };
}

impl FlowKey for SrcAddr {
    const SHARDING: Sharding = Sharding { fields: Fields::SRC_ADDR, symmetric: false };
}

impl FlowKey for DstAddr {
    const SHARDING: Sharding = Sharding { fields: Fields::DST_ADDR, symmetric: false };
}

impl FlowKey for AddrPair {
    const SHARDING: Sharding = Sharding { fields: Fields::ADDRS, symmetric: false };
}

impl FiveTuple {
    /// The 5-tuple of a packet.
    #[inline]
    pub fn of(headers: &Headers) -> FiveTuple {
        FiveTuple {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            zero: [0; 3],
        }
    }

    /// The 5-tuple of packets in the other direction.
    pub fn reversed(self) -> FiveTuple {
        FiveTuple { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }
}

impl Connection {
    /// The connection that a packet belongs to.
    #[inline]
    pub fn of(headers: &Headers) -> Connection {
        let FiveTuple { src, dst, src_port, dst_port, protocol, zero } = FiveTuple::of(headers);
        if Connection::is_from_low(headers) {
            Connection { low: src, high: dst, low_port: src_port, high_port: dst_port, protocol, zero }
        } else {
            Connection { low: dst, high: src, low_port: dst_port, high_port: src_port, protocol, zero }
        }
    }

    /// Whether the packet goes from the key's `low` end to its `high` end.
    #[inline]
    pub fn is_from_low(headers: &Headers) -> bool {
        (headers.src, headers.src_port) <= (headers.dst, headers.dst_port)
    }
}

impl SrcAddr {
    /// The source address of a packet.
    #[inline]
    pub fn of(headers: &Headers) -> SrcAddr {
        SrcAddr(headers.src)
    }
}

impl DstAddr {
    /// The destination address of a packet.
    #[inline]
    pub fn of(headers: &Headers) -> DstAddr {
        DstAddr(headers.dst)
    }
}

impl AddrPair {
    /// The address pair of a packet.
    #[inline]
    pub fn of(headers: &Headers) -> AddrPair {
        AddrPair { src: headers.src, dst: headers.dst }
    }
}

/// `tcp 10.0.0.1:4000 -> 10.0.0.2:80`
impl Display for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flow(f, self.protocol, (self.src, self.src_port), "->", (self.dst, self.dst_port))
    }
}

/// `tcp 10.0.0.1:4000 <-> 10.0.0.2:80`
impl Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flow(f, self.protocol, (self.low, self.low_port), "<->", (self.high, self.high_port))
    }
}

impl Display for SrcAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Display for DstAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Display for AddrPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.src, self.dst)
    }
}

fn write_flow(
    f: &mut fmt::Formatter<'_>,
    protocol: u8,
    from: (Addr, u16),
    arrow: &str,
    to: (Addr, u16),
) -> fmt::Result {
    match protocol {
        protocol::ICMP => write!(f, "icmp ")?,
        protocol::TCP => write!(f, "tcp ")?,
        protocol::UDP => write!(f, "udp ")?,
        protocol::DCCP => write!(f, "dccp ")?,
        protocol::ICMPV6 => write!(f, "icmpv6 ")?,
        protocol::SCTP => write!(f, "sctp ")?,
        other => write!(f, "proto-{other} ")?,
    }
    write_end(f, from)?;
    write!(f, " {arrow} ")?;
    write_end(f, to)
}

fn write_end(f: &mut fmt::Formatter<'_>, (addr, port): (Addr, u16)) -> fmt::Result {
    match (port, addr.to_v4()) {
        (0, _) => write!(f, "{addr}"),
        (_, Some(_)) => write!(f, "{addr}:{port}"),
        (_, None) => write!(f, "[{addr}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn headers() -> Headers {
        Headers {
            src: Addr::v4([10, 0, 0, 9]),
            dst: Addr::v4([10, 0, 0, 2]),
            src_port: 4000,
            dst_port: 80,
            protocol: protocol::TCP,
            ..Headers::default()
        }
    }

    #[test]
    fn both_directions_are_one_connection() {
        let there = headers();
        let back = Headers {
            src: there.dst,
            dst: there.src,
            src_port: there.dst_port,
            dst_port: there.src_port,
            ..there
        };
        assert_eq!(Connection::of(&there), Connection::of(&back));
        assert_ne!(Connection::is_from_low(&there), Connection::is_from_low(&back));
        assert_eq!(FiveTuple::of(&there).reversed(), FiveTuple::of(&back));
        assert_ne!(FiveTuple::of(&there), FiveTuple::of(&back));
    }

    #[test]
    fn flows_are_written_as_people_write_them() {
        assert_eq!(FiveTuple::of(&headers()).to_string(), "tcp 10.0.0.9:4000 -> 10.0.0.2:80");
        assert_eq!(Connection::of(&headers()).to_string(), "tcp 10.0.0.2:80 <-> 10.0.0.9:4000");
        let v6 = Headers { src: Addr([0xfd; 16]), src_port: 53, protocol: protocol::UDP, ..headers() };
        assert_eq!(
            FiveTuple::of(&v6).to_string(),
            "udp [fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:53 -> 10.0.0.2:80"
        );
    }
}
