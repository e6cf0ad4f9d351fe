//! Headers that are put before a packet: IP in IP, and IP in UDP.
//!
//! ```text
//!  | link | IPv4, 20 | the packet                 IP in IP: RFC 2003, RFC 4213 (IPv6 in IPv4)
//!  | link | IPv6, 40 | the packet                 RFC 2473
//!  | link | IPv4, 20 | UDP, 8 | the packet        GUE, variant 1: draft-ietf-intarea-gue-09 §4
//!  | link | IPv6, 40 | UDP, 8 | the packet
//! ```
//!
//! No byte of the packet inside changes. The outer header:
//!
//! | field | what it is |
//! |---|---|
//! | DSCP and ECN | those of the packet inside (RFC 2983 §3.1, the uniform model; RFC 6040 §4.1, normal mode) |
//! | TTL, hop limit | 64 |
//! | IPv4 DF | set, whatever the packet inside says (RFC 2003 §3.1 allows it), and so the identification is 0 (RFC 6864 §4.1) |
//! | IPv6 flow label | 20 bits of a hash of the flow inside (RFC 6438) |
//! | UDP source port | 49,152 to 65,535, by the same hash, so that routers spread flows over paths |
//! | UDP checksum | over IPv4 0, which is none; over IPv6 that of all bytes, and 0 where a capture has cut some of them |

use core::fmt;
use core::ops::Range;

use crate::icmp_error::{ip_header, transport_checksum};
use crate::{Addr, Headers, LinkType, Marks, protocol};

/// The outer headers of a tunnel. Both addresses are of one family, which need not be that of the packet inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Where it begins.
    pub src: Addr,
    /// Where it ends.
    pub dst: Addr,
    /// What is between the outer IP header and the packet.
    pub via: TunnelVia,
}

/// What a tunnel has between its IP header and the packet inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelVia {
    /// Nothing.
    Ip,
    /// A UDP header with this destination port. The packet follows it at once, as in GUE's variant 1.
    Udp(u16),
}

const UDP: usize = 8;
/// IPv6 and UDP.
const LONGEST: usize = 40 + UDP;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;

impl Tunnel {
    pub(crate) const NONE: Tunnel =
        Tunnel { src: Addr::UNSPECIFIED, dst: Addr::UNSPECIFIED, via: TunnelVia::Ip };

    /// How many bytes longer a packet becomes.
    pub fn overhead(&self) -> usize {
        let ip = if self.is_ipv4() { 20 } else { 40 };
        ip + if let TunnelVia::Udp(_) = self.via { UDP } else { 0 }
    }

    fn is_ipv4(&self) -> bool {
        self.src.to_v4().is_some() && self.dst.to_v4().is_some()
    }

    /// Whether a packet of this length may go through it: with the outer header its length has to fit into 16 bits.
    pub(crate) fn has_room_for(&self, headers: &Headers) -> bool {
        usize::from(headers.l3_len) + self.overhead() < usize::from(u16::MAX)
    }

    /// Writes the outer headers into the room that was made for them, `room` bytes behind `start` of the frame, where the link
    /// header ends. `headers` are those of the packet inside, as it leaves.
    pub(crate) fn write(&self, headers: &Headers, link: LinkType, frame: &mut [u8], room: Range<usize>) {
        let Some((before, inside)) = frame.split_at_mut_checked(room.end) else { return };
        let Some((link_header, outer)) = before.split_at_mut_checked(room.start) else { return };
        let len = usize::from(headers.l3_len);
        let hash = hash_of(headers);
        let is_udp = matches!(self.via, TunnelVia::Udp(_));
        let number = match headers.marks.contains(Marks::IPV4) {
            _ if is_udp => protocol::UDP,
            true => IPV4_IN_IP,
            false => IPV6_IN_IP,
        };
        let tos = match *inside {
            [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
            [_, second, ..] => second,
            _ => 0,
        };
        let udp_len = if is_udp { UDP } else { 0 };
        let (mut ip, ip_len) = ip_header(self.src, self.dst, number, tos, udp_len + len);
        if ip_len == 40 {
            let first = 6 << 28 | u32::from(tos) << 20 | hash & 0xf_ffff;
            ip[..4].copy_from_slice(&first.to_be_bytes());
        }
        let mut head = [0; LONGEST];
        head[..ip_len].copy_from_slice(&ip[..ip_len]);
        if let TunnelVia::Udp(port) = self.via {
            let udp = self.udp(port, hash, inside.get(..len), len);
            head[ip_len..ip_len + UDP].copy_from_slice(&udp);
        }
        if let Some(outer) = outer.get_mut(..ip_len + udp_len) {
            outer.copy_from_slice(&head[..ip_len + udp_len]);
        }
        set_family(link, link_header, ip_len == 20);
    }

    /// The UDP header before a packet of this length, whose bytes are `inside` if all of them are here.
    fn udp(&self, port: u16, hash: u32, inside: Option<&[u8]>, len: usize) -> [u8; UDP] {
        let [a, b] = (0xc000 | (hash >> 18) as u16).to_be_bytes();
        let [c, d] = port.to_be_bytes();
        let [e, f] = ((UDP + len) as u16).to_be_bytes();
        let mut udp = [a, b, c, d, e, f, 0, 0];
        if let Some(inside) = inside.filter(|_| !self.is_ipv4()) {
            let sum = transport_checksum(self.src, self.dst, protocol::UDP, [&udp, inside]);
            // A sum of 0 is sent as its other form: 0 says that there is none (RFC 768).
            let sum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
            udp[6..].copy_from_slice(&sum);
        }
        udp
    }
}

/// Takes a packet out of the tunnel that it is in: the link header moves behind the outer headers, and says of
/// which IP version the packet inside is. Returns where the frame begins then. `None`, and nothing changes, where no packet lies in it:
/// it is neither IP in IP nor UDP with an IP packet of just that length, or it is malformed, or a fragment.
///
/// `headers` are the frame's.
pub fn leave_tunnel(headers: &Headers, link: LinkType, frame: &mut [u8]) -> Option<usize> {
    if !headers.is_ip() || !headers.is_well_formed() || headers.is_fragment() {
        return None;
    }
    let (outer, transport) = (usize::from(headers.l3_offset), usize::from(headers.l4_offset));
    let inside = match headers.protocol {
        IPV4_IN_IP | IPV6_IN_IP => transport,
        protocol::UDP => transport + UDP,
        _ => return None,
    };
    let overhead = inside.checked_sub(outer)?;
    let ip = frame.get(inside..)?;
    let word = |at: usize| Some(usize::from(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
    let (is_ipv4, len) = match ip.first()? >> 4 {
        4 => (true, word(2)?),
        6 => (false, word(4)? + 40),
        _ => return None,
    };
    if len + overhead != usize::from(headers.l3_len) {
        return None;
    }
    frame.copy_within(..outer, overhead);
    set_family(link, &mut frame[overhead..inside], is_ipv4);
    Some(overhead)
}

/// `IP in IP from 192.0.2.1 to 198.51.100.7`, `UDP port 6080 from 192.0.2.1 to 198.51.100.7`
impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            TunnelVia::Ip => write!(f, "IP in IP")?,
            TunnelVia::Udp(port) => write!(f, "UDP port {port}")?,
        }
        write!(f, " from {} to {}", self.src, self.dst)
    }
}

/// A hash of the packet's 5-tuple, the same on all machines. A sender that chooses ports chooses it, which does
/// no harm: it only spreads flows over paths.
fn hash_of(headers: &Headers) -> u32 {
    let folded = |Addr(bytes): Addr| {
        let bits = u128::from_be_bytes(bytes);
        (bits >> 64) as u64 ^ bits as u64
    };
    let ports =
        u64::from(headers.src_port) << 32 | u64::from(headers.dst_port) << 16 | u64::from(headers.protocol);
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    let hash = [folded(headers.src), folded(headers.dst), ports].into_iter().fold(0, mix);
    (mix(hash, 0) >> 32) as u32
}

/// Has the link header say that IPv4 or IPv6 follows it.
fn set_family(link: LinkType, header: &mut [u8], is_ipv4: bool) {
    let ethertype = if is_ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    let field = match (link, header.len()) {
        (LinkType::RawIp, _) => return,
        (LinkType::LinuxSll2, 20) => header.first_chunk_mut(),
        (LinkType::Null | LinkType::Loop, _) => return set_address_family(header, is_ipv4),
        // It is the last of all tags, too.
        _ => header.last_chunk_mut(),
    };
    if let Some(field) = field {
        *field = ethertype;
    }
}

/// The family of a loopback capture, in whatever byte order it is. One that is right stays: IPv6 has several numbers.
fn set_address_family(header: &mut [u8], is_ipv4: bool) {
    const IPV4: u8 = 2;
    const IPV6: u8 = 30;
    let Some(family) = header.iter_mut().find(|byte| **byte != 0) else { return };
    if (*family == IPV4) != is_ipv4 {
        *family = if is_ipv4 { IPV4 } else { IPV6 };
    }
}
