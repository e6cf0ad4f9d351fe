//! Where a frame goes next: the decision, which looks at the snapshot and the frame alone and changes nothing.
//!
//! The order is the kernel's: what is for the host goes there; then the route is looked up, the time to live checked, the
//! length, and at last the neighbour.

use wire::{Addr, Headers, Marks, internet_checksum};

use super::ask::Ask;
use super::icmp::Error;
use super::reason::RouteDrop;
use super::snapshot::{Link, Neighbour, Path, Route, Snapshot, hash_of};

/// Where a frame goes.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// To the host.
    Host,
    /// Out.
    Out {
        link: &'a Link,
        /// The next hop's Ethernet address.
        address: [u8; 6],
        /// The kernel is to confirm the neighbour.
        confirm: Option<Ask>,
    },
    /// Out, once the neighbour's Ethernet address is known.
    Unresolved(Ask),
    /// Nowhere.
    Refused(Refusal),
}

/// Why not, and what else is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) reason: RouteDrop,
    /// What the sender may be told.
    pub(super) error: Option<Error>,
    /// Bytes of the packet with its header, where an error may quote it.
    pub(super) packet_len: usize,
    /// A neighbour to be resolved.
    pub(super) resolve: Option<Ask>,
}

impl<'a> From<RouteDrop> for Next<'a> {
    /// Refused without a word.
    fn from(reason: RouteDrop) -> Next<'a> {
        Next::Refused(Refusal { reason, error: None, packet_len: 0, resolve: None })
    }
}

/// What the IP header says that the [`Headers`] do not.
struct Packet {
    /// With its header.
    len: usize,
    ttl: u8,
}

/// Where an Ethernet frame that came by interface `from` goes. `headers` are those of the frame as it is now.
#[inline]
pub(super) fn next<'a>(snapshot: &'a Snapshot, frame: &[u8], headers: &Headers, from: u32) -> Next<'a> {
    let Some(ethernet) = frame.first_chunk::<14>() else { return RouteDrop::NotIp.into() };
    let packet = match [ethernet[12], ethernet[13]] {
        [0x08, 0x00] if headers.marks.contains(Marks::IPV4) => ipv4(&frame[14..]),
        [0x86, 0xdd] if headers.marks.contains(Marks::IPV6) => ipv6(&frame[14..]),
        [0x08, 0x00] | [0x86, 0xdd] => None,
        // The kernel speaks it.
        [0x08, 0x06] => return Next::Host,
        [0x81, 0x00] | [0x88, 0xa8] => return RouteDrop::Tagged.into(),
        _ => return RouteDrop::NotIp.into(),
    };
    let Some(packet) = packet else { return RouteDrop::BadHeader.into() };
    let [a, b, c, d, e, f, ..] = *ethernet;
    let station = [a, b, c, d, e, f];
    let is_group = a & 1 != 0;
    let is_mine = is_group
        || snapshot.link(from).is_some_and(|link| link.address == station)
        || snapshot.is_own(station);
    if !is_mine {
        return RouteDrop::OtherHost.into();
    }
    // An IPv4 address in an IPv6 header is on no wire (RFC 6890 §2.2.3), and is not to be looked up as one.
    let is_ipv4 = headers.marks.contains(Marks::IPV4);
    if [headers.src, headers.dst].iter().any(|address| address.to_v4().is_some() != is_ipv4) {
        return RouteDrop::Martian.into();
    }
    match kind(headers.dst) {
        // Groups are the host's affair: multicast is not routed here.
        Kind::Group => return Next::Host,
        Kind::Nobody => return RouteDrop::Martian.into(),
        Kind::Host | Kind::Link => {}
    }
    let route = snapshot.route(headers.dst);
    if matches!(route, Route::Host | Route::Broadcast) {
        return Next::Host;
    }
    if is_group || kind(headers.dst) == Kind::Link || kind(headers.src) != Kind::Host {
        return RouteDrop::Martian.into();
    }
    onward(snapshot, route, &packet, headers)
}

/// For a packet that is not for the host.
#[inline]
fn onward<'a>(snapshot: &'a Snapshot, route: Route<'a>, packet: &Packet, headers: &Headers) -> Next<'a> {
    let refused =
        |reason, error| Next::Refused(Refusal { reason, error, packet_len: packet.len, resolve: None });
    let Some(path) = route.path(|| flow_hash(headers)) else {
        return match route {
            Route::Blackhole => refused(RouteDrop::Refused, None),
            Route::Unreachable => refused(RouteDrop::Refused, Some(Error::Unreachable)),
            Route::Prohibit => refused(RouteDrop::Refused, Some(Error::Prohibited)),
            _ => refused(RouteDrop::NoRoute, Some(Error::NoRoute)),
        };
    };
    if packet.ttl <= 1 {
        return refused(RouteDrop::TtlExpired, Some(Error::TimeExceeded));
    }
    let link = match snapshot.link(path.interface) {
        Some(link) if link.is_up => link,
        _ => return refused(RouteDrop::LinkDown, None),
    };
    if !link.is_ethernet {
        return refused(RouteDrop::NotEthernet, None);
    }
    let mtu = path.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
    if packet.len > mtu as usize {
        return refused(RouteDrop::TooBig, Some(Error::TooBig { mtu }));
    }
    neighbour(snapshot, link, path, packet, headers)
}

#[inline]
fn neighbour<'a>(
    snapshot: &'a Snapshot,
    link: &'a Link,
    path: &Path,
    packet: &Packet,
    headers: &Headers,
) -> Next<'a> {
    let ask = Ask { interface: link.index, neighbour: path.gateway.unwrap_or(headers.dst) };
    match snapshot.neighbour(ask.interface, ask.neighbour) {
        Some(Neighbour::Known { address, is_stale }) => {
            Next::Out { link, address, confirm: is_stale.then_some(ask) }
        }
        None => Next::Unresolved(ask),
        Some(Neighbour::Failed) => Next::Refused(Refusal {
            reason: RouteDrop::NoNeighbour,
            // RFC 1812 §5.2.7.1.
            error: Some(Error::Unreachable),
            packet_len: packet.len,
            resolve: Some(ask),
        }),
    }
}

/// Which of several paths: the same for all packets of a flow, and for all fragments of a datagram, of which only the
/// first one has ports.
#[inline]
fn flow_hash(headers: &Headers) -> u32 {
    let (source, destination) = match headers.is_fragment() {
        true => (0, 0),
        false => (headers.src_port, headers.dst_port),
    };
    let ports = u64::from(source) << 32 | u64::from(destination) << 16 | u64::from(headers.protocol);
    hash_of(headers.src, headers.dst, ports) as u32
}

/// RFC 1812 §5.2.2. The bytes behind the Ethernet header; `None` if the header is wrong.
#[inline]
fn ipv4(bytes: &[u8]) -> Option<Packet> {
    let header_len = usize::from(bytes.first()? & 0x0f) * 4;
    let header = bytes.get(..header_len)?;
    let start = header.first_chunk::<20>()?;
    let len = usize::from(u16::from_be_bytes([start[2], start[3]]));
    let is_right = start[0] >> 4 == 4
        && (header_len..=bytes.len()).contains(&len)
        && internet_checksum(&[header]) == [0, 0];
    is_right.then_some(Packet { len, ttl: start[8] })
}

#[inline]
fn ipv6(bytes: &[u8]) -> Option<Packet> {
    let header = bytes.first_chunk::<40>()?;
    let len = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    (header[0] >> 4 == 6 && len <= bytes.len()).then_some(Packet { len, ttl: header[7] })
}

/// What an address can name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A host.
    Host,
    /// A host on this link (RFC 4291 §2.5.6).
    Link,
    /// A multicast group, or everyone on the link.
    Group,
    /// No host in any network (RFC 1812 §5.3.7, RFC 6890, RFC 4291 §2.5).
    Nobody,
}

/// Whether an address names one host, in whatever network.
pub(super) fn is_one_host(address: Addr) -> bool {
    kind(address) == Kind::Host
}

#[inline]
fn kind(address: Addr) -> Kind {
    match address.to_v4() {
        Some([0 | 127, ..]) => Kind::Nobody,
        Some([255, 255, 255, 255] | [224..=239, ..]) => Kind::Group,
        Some([240..=255, ..]) => Kind::Nobody,
        Some(_) => Kind::Host,
        None => match address.0 {
            [0xff, ..] => Kind::Group,
            [0xfe, 0x80..=0xbf, ..] => Kind::Link,
            // `::` and `::1`.
            bytes if u128::from_be_bytes(bytes) <= 1 => Kind::Nobody,
            _ => Kind::Host,
        },
    }
}
