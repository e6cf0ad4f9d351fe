//! What selects a flow's state. Each key knows the header fields it is made of, so that a
//! sharding strategy derives what to hash and never asks.

use core::fmt::{self, Debug, Display};
use core::hint::select_unpredictable;

use wire::{Addr, Fields, Headers, IcmpPorts, Marks, protocol};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hash_bytes;

/// A key: plain bytes without padding, made of header fields.
pub trait FlowKey:
    Copy + Eq + Debug + Display + FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static
{
    /// The header fields that decide the key.
    const SHARDING: Sharding;

    /// The key of a packet. Depends on nothing but the fields of [`FlowKey::SHARDING`].
    fn of(headers: &Headers) -> Self;

    /// 16 bytes that stand for the key where a table compares it. A key of at most 16 bytes stands for
    /// itself; a longer one says how it is written shorter, or has its hash here and is compared whole.
    #[inline]
    fn short(&self) -> Short {
        Short::of_bytes(self.as_bytes())
    }

    /// What stands for the key of a packet, where the key itself is not asked for: [`FlowKey::short`] of
    /// [`FlowKey::of`], which a key may know a shorter way to.
    #[inline]
    fn short_of(headers: &Headers) -> Short {
        Self::of(headers).short()
    }

    /// [`FlowKey::short_of`] where both addresses are IPv4, which a key may know a shorter way to. Of others it may be
    /// what stands for another key.
    #[inline]
    fn short_of_ipv4(headers: &Headers) -> Short {
        Self::short_of(headers)
    }

    /// What people look for a flow by. A key that does not say is found by its function alone.
    fn parts(&self) -> KeyParts {
        KeyParts::default()
    }
}

/// Addresses, ports and protocol that a key holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyParts {
    /// Addresses, whichever end they are of.
    pub addrs: [Option<Addr>; 2],
    /// The ports of these ends.
    pub ports: [Option<u16>; 2],
    /// IP protocol.
    pub protocol: Option<u8>,
}

/// What stands for a key: see [`FlowKey::short`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Keys that differ here differ.
    pub bits: u128,
    /// Whether keys that are alike here are alike.
    pub is_exact: bool,
}

impl Short {
    /// Set in what stands for a key of more than 16 bytes without holding all of it; clear in what
    /// does, so that the two are never taken for each other.
    const HASHED: u128 = 1 << 127;

    /// Stands for plain bytes: holds them if they fit, else a hash.
    #[inline]
    pub fn of_bytes(bytes: &[u8]) -> Short {
        if bytes.len() <= 16 {
            let mut short = [0; 16];
            short[..bytes.len()].copy_from_slice(bytes);
            return Short { bits: u128::from_le_bytes(short), is_exact: true };
        }
        Short { bits: u128::from(hash_bytes(bytes, 0)) | Short::HASHED, is_exact: false }
    }

    /// Stands for two addresses, two ports and a protocol: holds them if the addresses are IPv4.
    ///
    /// Takes numbers, not the key: a key whose bytes are read has to be in memory.
    #[inline]
    fn of_ends(ends: [(Addr, u16); 2], protocol: u8) -> Short {
        let [(a, a_port), (b, b_port)] = ends;
        match (a.to_v4(), b.to_v4()) {
            (Some(a), Some(b)) => Short::of_ipv4_ends([(a, a_port), (b, b_port)], protocol),
            _ => {
                let rest = Short::rest([a_port, b_port], protocol);
                Short::of_hash(u128::from_le_bytes(a.0), u128::from_le_bytes(b.0), rest)
            }
        }
    }

    /// Does what [`of_ends`](Self::of_ends) does for ends that are known to be IPv4.
    #[inline]
    fn of_ipv4_ends(ends: [([u8; 4], u16); 2], protocol: u8) -> Short {
        let [(a, a_port), (b, b_port)] = ends;
        let addrs = u64::from(u32::from_le_bytes(a)) | u64::from(u32::from_le_bytes(b)) << 32;
        let rest = Short::rest([a_port, b_port], protocol);
        Short { bits: u128::from(addrs) | u128::from(rest) << 64, is_exact: true }
    }

    #[inline]
    fn rest([a_port, b_port]: [u16; 2], protocol: u8) -> u64 {
        u64::from(a_port) | u64::from(b_port) << 16 | u64::from(protocol) << 32
    }

    #[inline(never)]
    fn of_hash(a: u128, b: u128, rest: u64) -> Short {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&a.to_le_bytes());
        bytes[16..32].copy_from_slice(&b.to_le_bytes());
        bytes[32..].copy_from_slice(&rest.to_le_bytes());
        Short::of_bytes(&bytes)
    }
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
///
/// An ICMP or ICMPv6 error is of the connection whose packet it quotes, as an answer to that packet would be: see
/// [`Connection::quoted`].
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

/// One end of a flow, the sending one: what a NAT maps (RFC 4787 §4.1).
///
/// A request of ICMP over IPv4 has as its end the sender with the query's identifier, and protocol ICMP (RFC 5508
/// §3.1).
/// An error from the destination of the packet that it quotes is of the end that the quoted packet was for, with
/// the quoted protocol. What else ICMP has is of no end: its protocol is [`SrcEndpoint::NO_PROTOCOL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SrcEndpoint {
    /// Source address.
    pub addr: Addr,
    /// Source port.
    pub port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Zero: keys have no padding.
    pub zero: u8,
}

/// The key of a function that keeps no state: it has no table, and any core will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Stateless;

impl FlowKey for FiveTuple {
    const SHARDING: Sharding = Sharding { fields: Fields::FIVE_TUPLE, symmetric: false };

    #[inline]
    fn of(headers: &Headers) -> FiveTuple {
        FiveTuple {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            zero: [0; 3],
        }
    }

    #[inline]
    fn short(&self) -> Short {
        let ends = [(self.src, self.src_port), (self.dst, self.dst_port)];
        Short::of_ends(ends, self.protocol)
    }

    #[inline]
    fn short_of_ipv4(headers: &Headers) -> Short {
        let ends = [(headers.src.last4(), headers.src_port), (headers.dst.last4(), headers.dst_port)];
        Short::of_ipv4_ends(ends, headers.protocol)
    }

    fn parts(&self) -> KeyParts {
        KeyParts::of_ends([(self.src, self.src_port), (self.dst, self.dst_port)], self.protocol)
    }
}

impl FlowKey for Connection {
    const SHARDING: Sharding = Sharding {
        fields: Fields::FIVE_TUPLE.union(Fields::TCP_SHAPE).union(Fields::MARKS).union(Fields::ACK),
        symmetric: true,
    };

    #[inline]
    fn of(headers: &Headers) -> Connection {
        let answer;
        let headers = match headers.protocol {
            protocol::ICMP | protocol::ICMPV6 => {
                answer = Connection::quoted(headers).unwrap_or(*headers);
                &answer
            }
            _ => headers,
        };
        Connection::between(headers)
    }

    #[inline]
    fn short(&self) -> Short {
        let ends = [(self.low, self.low_port), (self.high, self.high_port)];
        Short::of_ends(ends, self.protocol)
    }

    #[inline]
    fn short_of(headers: &Headers) -> Short {
        match (headers.src.to_v4(), headers.dst.to_v4()) {
            (Some(src), Some(dst)) if headers.protocol != protocol::ICMP => {
                Connection::short_between([src, dst], headers)
            }
            _ => Connection::short_of_others(headers),
        }
    }

    #[inline]
    fn short_of_ipv4(headers: &Headers) -> Short {
        Connection::short_between([headers.src.last4(), headers.dst.last4()], headers)
    }

    fn parts(&self) -> KeyParts {
        KeyParts::of_ends([(self.low, self.low_port), (self.high, self.high_port)], self.protocol)
    }
}

impl FlowKey for SrcAddr {
    const SHARDING: Sharding = Sharding { fields: Fields::SRC_ADDR, symmetric: false };

    #[inline]
    fn of(headers: &Headers) -> SrcAddr {
        SrcAddr(headers.src)
    }

    fn parts(&self) -> KeyParts {
        KeyParts { addrs: [Some(self.0), None], ..KeyParts::default() }
    }
}

impl FlowKey for DstAddr {
    const SHARDING: Sharding = Sharding { fields: Fields::DST_ADDR, symmetric: false };

    #[inline]
    fn of(headers: &Headers) -> DstAddr {
        DstAddr(headers.dst)
    }

    fn parts(&self) -> KeyParts {
        KeyParts { addrs: [Some(self.0), None], ..KeyParts::default() }
    }
}

impl FlowKey for AddrPair {
    const SHARDING: Sharding = Sharding { fields: Fields::ADDRS, symmetric: false };

    #[inline]
    fn of(headers: &Headers) -> AddrPair {
        AddrPair { src: headers.src, dst: headers.dst }
    }

    #[inline]
    fn short(&self) -> Short {
        Short::of_ends([(self.src, 0), (self.dst, 0)], 0)
    }

    #[inline]
    fn short_of_ipv4(headers: &Headers) -> Short {
        Short::of_ipv4_ends([(headers.src.last4(), 0), (headers.dst.last4(), 0)], 0)
    }

    fn parts(&self) -> KeyParts {
        KeyParts { addrs: [Some(self.src), Some(self.dst)], ..KeyParts::default() }
    }
}

impl FlowKey for SrcEndpoint {
    const SHARDING: Sharding = Sharding {
        fields: Fields::SRC_ADDR
            .union(Fields::SRC_PORT)
            .union(Fields::PROTOCOL)
            .union(Fields::TCP_SHAPE)
            .union(Fields::MARKS),
        symmetric: false,
    };

    #[inline]
    fn of(headers: &Headers) -> SrcEndpoint {
        let Headers { src: addr, src_port: port, .. } = *headers;
        let protocol = match headers.protocol {
            protocol::ICMP => SrcEndpoint::protocol_of_icmp(headers),
            other => other,
        };
        SrcEndpoint { addr, port, protocol, zero: 0 }
    }

    #[inline]
    fn short(&self) -> Short {
        // The same address twice: whether it is IPv4 is asked once.
        Short::of_ends([(self.addr, self.port), (self.addr, 0)], self.protocol)
    }

    #[inline]
    fn short_of_ipv4(headers: &Headers) -> Short {
        let SrcEndpoint { addr, port, protocol, .. } = SrcEndpoint::of(headers);
        Short::of_ipv4_ends([(addr.last4(), port), (addr.last4(), 0)], protocol)
    }

    fn parts(&self) -> KeyParts {
        let protocol = (self.protocol != SrcEndpoint::NO_PROTOCOL).then_some(self.protocol);
        KeyParts { addrs: [Some(self.addr), None], ports: [Some(self.port), None], protocol }
    }
}

impl FlowKey for Stateless {
    const SHARDING: Sharding = Sharding { fields: Fields::empty(), symmetric: false };

    #[inline]
    fn of(_: &Headers) -> Stateless {
        Stateless
    }
}

impl KeyParts {
    fn of_ends([(a, a_port), (b, b_port)]: [(Addr, u16); 2], protocol: u8) -> KeyParts {
        KeyParts { addrs: [Some(a), Some(b)], ports: [Some(a_port), Some(b_port)], protocol: Some(protocol) }
    }
}

impl SrcEndpoint {
    /// The protocol of ICMP messages that are of no end: a number that is reserved (IANA).
    pub const NO_PROTOCOL: u8 = 255;

    #[cold]
    fn protocol_of_icmp(headers: &Headers) -> u8 {
        match headers.icmp_ports() {
            Some(IcmpPorts::Request) => protocol::ICMP,
            Some(IcmpPorts::Error { protocol, is_from_destination: true }) => protocol,
            _ => SrcEndpoint::NO_PROTOCOL,
        }
    }
}

impl Sharding {
    /// Whether there is no state to keep on one core.
    pub fn is_stateless(&self) -> bool {
        self.fields.is_empty()
    }
}

impl FiveTuple {
    /// The 5-tuple of packets in the other direction.
    pub fn reversed(self) -> FiveTuple {
        FiveTuple { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }
}

impl Connection {
    /// An answer to the packet that an ICMP error quotes, as far as the key needs it, if the error is of that
    /// packet's connection: where the quoted destination sent it or, over IPv4, a router outside to an inside end that talks to one
    /// outside, in a chain whose packets are spread by their inside end ([`Marks::FROM_OUTSIDE`](wire::Marks::FROM_OUTSIDE)).
    /// Elsewhere an error of a router may come to another core than the connection. IPv4 addresses in an IPv6 packet are of no
    /// connection here.
    #[cold]
    pub fn quoted(headers: &Headers) -> Option<Headers> {
        let Some(IcmpPorts::Error { protocol, is_from_destination }) = headers.icmp_ports() else {
            return None;
        };
        if !is_from_destination && !headers.marks.contains(Marks::FROM_OUTSIDE) {
            return None;
        }
        // What stands for a key between IPv4 addresses is found without a look at what ICMPv6 quotes.
        if headers.protocol == protocol::ICMPV6 && headers.src.to_v4().is_some() {
            return None;
        }
        Some(Headers { src: headers.quoted_destination()?, protocol, ..*headers })
    }

    #[inline]
    fn between(headers: &Headers) -> Connection {
        let Headers { src, dst, .. } = headers;
        let Headers { src_port, dst_port, protocol, .. } = *headers;
        let is_from_low = Connection::is_from_low(headers);
        let ports = u32::from(src_port) << 16 | u32::from(dst_port);
        let ports = select_unpredictable(is_from_low, ports, ports.rotate_left(16));
        Connection {
            low: either(is_from_low, *src, *dst),
            high: either(is_from_low, *dst, *src),
            low_port: (ports >> 16) as u16,
            high_port: ports as u16,
            protocol,
            zero: [0; 3],
        }
    }

    /// Stands for a packet between two IPv4 addresses, source and destination: each end is one number, and the ends
    /// are ordered as numbers. What
    /// stands for both is then one rotation of addresses and one of ports away from how the packet has them.
    #[inline]
    fn short_between(addrs: [[u8; 4]; 2], headers: &Headers) -> Short {
        let end = |addr, port| u64::from(u32::from_be_bytes(addr)) << 16 | u64::from(port);
        let [src, dst] = addrs;
        let is_from_low = end(src, headers.src_port) <= end(dst, headers.dst_port);
        let ends = [(src, headers.src_port), (dst, headers.dst_port)];
        let Short { bits, is_exact } = Short::of_ipv4_ends(ends, 0);
        let (addrs, ports) = (bits as u64, (bits >> 64) as u32);
        let addrs = select_unpredictable(is_from_low, addrs, addrs.rotate_left(32));
        let ports = select_unpredictable(is_from_low, ports, ports.rotate_left(16));
        let rest = u64::from(ports) | Short::rest([0, 0], headers.protocol);
        Short { bits: u128::from(addrs) | u128::from(rest) << 64, is_exact }
    }

    #[inline(never)]
    fn short_of_others(headers: &Headers) -> Short {
        Connection::of(headers).short()
    }

    /// Whether the packet goes from the key's `low` end to its `high` end.
    #[inline]
    pub fn is_from_low(headers: &Headers) -> bool {
        // As numbers. No branch but on what is alike: half of the packets would take one on which is less.
        let halves = |addr: Addr| {
            let bits = u128::from_be_bytes(addr.0);
            [(bits >> 64) as u64, bits as u64]
        };
        let ([src_high, src], [dst_high, dst]) = (halves(headers.src), halves(headers.dst));
        if src_high != dst_high {
            return src_high < dst_high;
        }
        if src != dst {
            return src < dst;
        }
        headers.src_port <= headers.dst_port
    }
}

/// `a` if `is_a`, else `b`. In halves, as there is no conditional move of more.
#[inline]
fn either(is_a: bool, a: Addr, b: Addr) -> Addr {
    let halves = |addr: Addr| {
        let bits = u128::from_le_bytes(addr.0);
        [bits as u64, (bits >> 64) as u64]
    };
    let ([a_low, a_high], [b_low, b_high]) = (halves(a), halves(b));
    let low = select_unpredictable(is_a, a_low, b_low);
    let high = select_unpredictable(is_a, a_high, b_high);
    Addr((u128::from(low) | u128::from(high) << 64).to_le_bytes())
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

/// `udp 10.0.0.1:4000`; `icmp of no endpoint, from 192.0.2.1` for what has [`SrcEndpoint::NO_PROTOCOL`].
impl Display for SrcEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.protocol == SrcEndpoint::NO_PROTOCOL {
            return write!(f, "icmp of no endpoint, from {}", self.addr);
        }
        write_protocol(f, self.protocol)?;
        write_end(f, (self.addr, self.port))
    }
}

impl Display for Stateless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
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
    write_protocol(f, protocol)?;
    write_end(f, from)?;
    write!(f, " {arrow} ")?;
    write_end(f, to)
}

fn write_protocol(f: &mut fmt::Formatter<'_>, protocol: u8) -> fmt::Result {
    match protocol {
        protocol::ICMP => write!(f, "icmp "),
        protocol::TCP => write!(f, "tcp "),
        protocol::UDP => write!(f, "udp "),
        protocol::DCCP => write!(f, "dccp "),
        protocol::ICMPV6 => write!(f, "icmpv6 "),
        protocol::SCTP => write!(f, "sctp "),
        other => write!(f, "proto-{other} "),
    }
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

    /// An error about a packet from 10.0.0.2:80 to 10.0.0.9:4000.
    fn error(src: [u8; 4], shape: u8, marks: Marks) -> Headers {
        Headers {
            src: Addr::v4(src),
            protocol: protocol::ICMP,
            ack: u32::from_be_bytes([10, 0, 0, 9]),
            tcp_shape: shape,
            marks: Marks::IPV4 | marks,
            ..headers()
        }
    }

    #[test]
    fn an_error_is_of_the_connection_that_it_quotes() {
        const FROM_ROUTER: u8 = 8;
        const TCP: u8 = 4;
        let of_connection = Headers { marks: Marks::IPV4, ..headers() };
        for (error, is_of_it) in [
            (error([10, 0, 0, 9], TCP, Marks::empty()), true),
            (error([192, 0, 2, 1], TCP | FROM_ROUTER, Marks::FROM_OUTSIDE), true),
            (error([192, 0, 2, 1], TCP | FROM_ROUTER, Marks::empty()), false),
            (error([192, 0, 2, 1], TCP | 1 | FROM_ROUTER, Marks::FROM_OUTSIDE), false),
            (error([10, 0, 0, 9], 0, Marks::FROM_OUTSIDE), false),
            (Headers { ack: 0, ..error([192, 0, 2, 1], TCP | FROM_ROUTER, Marks::FROM_OUTSIDE) }, false),
        ] {
            assert_eq!(Connection::of(&error) == Connection::of(&of_connection), is_of_it, "{error:?}");
            assert_eq!(Connection::short_of(&error), Connection::of(&error).short());
        }
    }

    /// Over IPv6 the destination itself has to have sent it: headers have no room for a router's address and the destination's.
    #[test]
    fn an_icmpv6_error_is_of_the_connection_that_it_quotes() {
        let addr = |last| Addr([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        let packet = Headers { src: addr(9), dst: addr(2), marks: Marks::IPV6, ..headers() };
        for (last, shape, protocol, is_of_it) in [
            (9, 4, protocol::TCP, true),
            (9, 5, protocol::UDP, true),
            (9, 5, protocol::TCP, false),
            (7, 4 | 8, protocol::TCP, false),
            (9, 0, protocol::TCP, false),
        ] {
            let marks = Marks::IPV6 | Marks::FROM_OUTSIDE;
            let error =
                Headers { src: addr(last), tcp_shape: shape, protocol: protocol::ICMPV6, marks, ..packet };
            let of_connection = Headers { protocol, ..packet };
            assert_eq!(Connection::of(&error) == Connection::of(&of_connection), is_of_it, "{error:?}");
            assert_eq!(Connection::short_of(&error), Connection::of(&error).short());
        }
        // Addresses that IPv6 packets should not have.
        let mapped = Headers { src: Addr::v4([10, 0, 0, 9]), dst: Addr::v4([10, 0, 0, 2]), ..packet };
        let mapped = Headers { tcp_shape: 4, protocol: protocol::ICMPV6, ..mapped };
        assert_eq!(Connection::short_of(&mapped), Connection::of(&mapped).short());
    }

    #[test]
    fn what_is_of_no_endpoint_says_so() {
        let error = error([192, 0, 2, 1], 4 | 8, Marks::FROM_OUTSIDE);
        assert_eq!(SrcEndpoint::of(&error).to_string(), "icmp of no endpoint, from 192.0.2.1");
    }

    fn ipv4_too<K: FlowKey>(headers: &Headers) {
        assert_eq!(K::short_of_ipv4(headers), K::of(headers).short(), "{headers:?}");
    }

    /// The short way gives what the long one does, whichever end is lower, and for addresses of both families.
    #[test]
    fn what_stands_for_a_key_is_found_the_short_way_too() {
        let v4 = [[10, 0, 0, 9], [9, 0, 0, 10], [10, 0, 0, 9], [0, 0, 0, 0], [255, 1, 0, 255]].map(Addr::v4);
        let v6 = [[0; 16], [0xfe; 16]].map(Addr);
        let addrs: alloc::vec::Vec<Addr> = v4.into_iter().chain(v6).collect();
        let ports = [0, 1, 0x0100, 0x00ff, u16::MAX];
        for (src, dst) in addrs.iter().flat_map(|src| addrs.iter().map(move |dst| (*src, *dst))) {
            for (src_port, dst_port) in ports.iter().flat_map(|src| ports.map(|dst| (*src, dst))) {
                let headers = Headers { src, dst, src_port, dst_port, ..headers() };
                assert_eq!(Connection::short_of(&headers), Connection::of(&headers).short(), "{headers:?}");
                assert_eq!(FiveTuple::short_of(&headers), FiveTuple::of(&headers).short());
                if let (Some(_), Some(_)) = (src.to_v4(), dst.to_v4()) {
                    ipv4_too::<Connection>(&headers);
                    ipv4_too::<FiveTuple>(&headers);
                    ipv4_too::<AddrPair>(&headers);
                    ipv4_too::<SrcAddr>(&headers);
                    ipv4_too::<SrcEndpoint>(&headers);
                }
            }
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

    /// Digests rest on which end is the lower one: by address, byte by byte, then by port.
    #[test]
    fn the_lower_end_is_lower_by_its_bytes() {
        let addrs = [[0; 16], [0xff; 16], [0x01; 16], Addr::v4([10, 0, 0, 9]).0];
        let mut ends = alloc::vec::Vec::new();
        for addr in addrs {
            for (at, value, port) in [(0, 0x80, 80), (7, 1, 4000), (8, 2, 80), (15, 3, 0), (15, 3, 0xffff)] {
                let mut end = (Addr(addr), port);
                end.0.0[at] = value;
                ends.push(end);
            }
        }
        for (src, src_port) in &ends {
            for (dst, dst_port) in &ends {
                let (src_port, dst_port) = (*src_port, *dst_port);
                let headers = Headers { src: *src, dst: *dst, src_port, dst_port, ..headers() };
                let key = Connection::of(&headers);
                let by_bytes = [(src.0, src_port), (dst.0, dst_port)];
                let is_from_low = by_bytes[0] <= by_bytes[1];
                let [low, high] = if is_from_low { by_bytes } else { [by_bytes[1], by_bytes[0]] };
                assert_eq!(Connection::is_from_low(&headers), is_from_low, "{src} {dst}");
                assert_eq!([(key.low.0, key.low_port), (key.high.0, key.high_port)], [low, high]);
            }
        }
    }

    /// What stands for keys differs wherever the keys do, IPv4 or not.
    #[test]
    fn what_stands_for_a_key_tells_keys_apart() {
        let v4 = headers();
        let v6 = Headers { src: Addr([0xfd; 16]), dst: Addr([0xfe; 16]), ..v4 };
        let half = Headers { src: Addr([0xfd; 16]), ..v4 };
        let mut shorts = alloc::vec::Vec::new();
        for base in [v4, v6, half] {
            let mut variants = alloc::vec![base];
            for byte in 0..16 {
                for dst in [false, true] {
                    let mut other = base;
                    let addr = if dst { &mut other.dst } else { &mut other.src };
                    addr.0[byte] ^= 0x55;
                    variants.push(other);
                }
            }
            variants.push(Headers { src_port: base.src_port ^ 1, ..base });
            variants.push(Headers { dst_port: base.dst_port ^ 1, ..base });
            variants.push(Headers { protocol: protocol::UDP, ..base });
            variants.push(Headers { src_port: base.dst_port, dst_port: base.src_port, ..base });
            shorts.extend(variants.iter().map(|headers| (FiveTuple::of(headers), *headers)));
        }
        for (i, (a, _)) in shorts.iter().enumerate() {
            for (b, _) in &shorts[i + 1..] {
                assert!(a != b && a.short().bits != b.short().bits, "{a} and {b}");
            }
        }
        assert!(FiveTuple::of(&v4).short().is_exact && AddrPair::of(&v4).short().is_exact);
        assert!(SrcAddr::of(&v6).short().is_exact, "16 bytes stand for themselves");
        assert!(!FiveTuple::of(&v6).short().is_exact && !FiveTuple::of(&half).short().is_exact);
        assert!(SrcEndpoint::of(&v4).short().is_exact && !SrcEndpoint::of(&v6).short().is_exact);
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
        assert_eq!(SrcAddr::of(&headers()).to_string(), "10.0.0.9");
        assert_eq!(DstAddr::of(&headers()).to_string(), "10.0.0.2");
        assert_eq!(AddrPair::of(&headers()).to_string(), "10.0.0.9 -> 10.0.0.2");
        assert_eq!(SrcEndpoint::of(&headers()).to_string(), "tcp 10.0.0.9:4000");
        assert_eq!(Stateless::of(&headers()).to_string(), "-");
        assert!(Stateless::SHARDING.is_stateless() && !SrcAddr::SHARDING.is_stateless());
    }
}
