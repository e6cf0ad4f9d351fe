//! ICMP errors about packets that are not forwarded (RFC 792, RFC 4443).
//!
//! ```text
//!  0          14                 34                42
//!  | Ethernet | IPv4 header      | ICMP, 8 bytes   | the packet, up to 548 bytes: 576 in all (RFC 1812 §4.3.2.3)
//!  0          14                 54                62
//!  | Ethernet | IPv6 header      | ICMPv6, 8 bytes | the packet, up to 1,232 bytes: 1,280 in all (RFC 4443 §3.1)
//! ```

use wire::{Addr, Headers, internet_checksum, protocol};

use super::snapshot::{Route, Snapshot};

/// What the sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    TimeExceeded,
    TooBig { mtu: u32 },
    NoRoute,
    Unreachable,
    Prohibited,
}

impl Error {
    /// Type and code of ICMP.
    fn ipv4(self) -> [u8; 2] {
        match self {
            Error::TimeExceeded => [11, 0],
            Error::TooBig { .. } => [3, 4],
            Error::NoRoute => [3, 0],
            Error::Unreachable => [3, 1],
            // RFC 1812 §5.2.7.1.
            Error::Prohibited => [3, 13],
        }
    }

    /// Type and code of ICMPv6.
    fn ipv6(self) -> [u8; 2] {
        match self {
            Error::TimeExceeded => [3, 0],
            Error::TooBig { .. } => [2, 0],
            Error::NoRoute => [1, 0],
            Error::Unreachable => [1, 3],
            Error::Prohibited => [1, 1],
        }
    }

    /// What follows the checksum: the MTU (RFC 1191 §4, RFC 4443 §3.2), or nothing.
    fn rest(self) -> [u8; 4] {
        match self {
            Error::TooBig { mtu } => mtu.to_be_bytes(),
            _ => [0; 4],
        }
    }

    pub(super) fn is_path_mtu(self) -> bool {
        matches!(self, Error::TooBig { .. })
    }
}

/// Whether its sender, as it was received, is another host that can be told (RFC 1122 §3.2.2): no group of stations, no
/// broadcast address, and not this host, from where nothing comes in.
pub(super) fn may_be_told(snapshot: &Snapshot, frame: &[u8], headers: &Headers) -> bool {
    frame.get(6).is_some_and(|first| first & 1 == 0)
        && !matches!(snapshot.route(headers.src), Route::Broadcast | Route::Host)
}

/// The frame of an error.
pub(super) struct Reply {
    bytes: Box<[u8; Reply::LONGEST]>,
    len: usize,
}

const ETHERNET: usize = 14;
const ICMP: usize = 8;

impl Reply {
    const LONGEST: usize = ETHERNET + 1_280;
    const LONGEST_IPV4: usize = ETHERNET + 576;

    pub(super) fn new() -> Reply {
        Reply { bytes: Box::new([0; Reply::LONGEST]), len: 0 }
    }

    pub(super) fn frame(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Builds an error about `packet`, an IP packet without link padding, from an address of this host.
    pub(super) fn build(
        &mut self,
        error: Error,
        packet: &[u8],
        headers: &Headers,
        from: Addr,
        stations: [[u8; 6]; 2],
    ) {
        let [to_station, from_station] = stations;
        self.bytes[..6].copy_from_slice(&to_station);
        self.bytes[6..12].copy_from_slice(&from_station);
        match (from.to_v4(), headers.src.to_v4()) {
            (Some(from), Some(to)) => self.ipv4(error, packet, headers.tos, from, to),
            _ => self.ipv6(error, packet, from, headers.src),
        }
    }

    fn ipv4(&mut self, error: Error, packet: &[u8], tos: u8, from: [u8; 4], to: [u8; 4]) {
        let icmp_at = ETHERNET + 20;
        self.len = self.message(icmp_at, Reply::LONGEST_IPV4, error.ipv4(), error.rest(), packet);
        let (head, icmp) = self.bytes[..self.len].split_at_mut(icmp_at);
        let checksum = internet_checksum(&[icmp]);
        icmp[2..4].copy_from_slice(&checksum);
        head[12..14].copy_from_slice(&[0x08, 0x00]);
        let ip = &mut head[ETHERNET..];
        // Precedence 6, the TOS of the packet (RFC 1812 §4.3.2.5), and no ECN.
        ip[..2].copy_from_slice(&[0x45, (tos & 0x1c) | 0xc0]);
        ip[2..4].copy_from_slice(&((20 + icmp.len()) as u16).to_be_bytes());
        // Not to be fragmented, so that it needs no identification (RFC 6864 §4.1).
        ip[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, protocol::ICMP, 0, 0]);
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        let checksum = internet_checksum(&[ip]);
        ip[10..12].copy_from_slice(&checksum);
    }

    fn ipv6(&mut self, error: Error, packet: &[u8], from: Addr, to: Addr) {
        let icmp_at = ETHERNET + 40;
        self.len = self.message(icmp_at, Reply::LONGEST, error.ipv6(), error.rest(), packet);
        let (head, icmp) = self.bytes[..self.len].split_at_mut(icmp_at);
        head[12..14].copy_from_slice(&[0x86, 0xdd]);
        let ip = &mut head[ETHERNET..];
        ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
        ip[4..6].copy_from_slice(&(icmp.len() as u16).to_be_bytes());
        ip[6..8].copy_from_slice(&[protocol::ICMPV6, 64]);
        ip[8..24].copy_from_slice(&from.0);
        ip[24..40].copy_from_slice(&to.0);
        let [high, low] = (icmp.len() as u16).to_be_bytes();
        // The pseudo-header (RFC 8200 §8.1).
        let checksum = internet_checksum(&[&ip[8..40], &[0, 0, high, low, 0, 0, 0, protocol::ICMPV6], icmp]);
        icmp[2..4].copy_from_slice(&checksum);
    }

    /// Writes the ICMP message without its checksum, and returns where the frame ends.
    fn message(&mut self, at: usize, longest: usize, kind: [u8; 2], rest: [u8; 4], packet: &[u8]) -> usize {
        let quoted = packet.len().min(longest - at - ICMP);
        let end = at + ICMP + quoted;
        let message = &mut self.bytes[at..end];
        message[..4].copy_from_slice(&[kind[0], kind[1], 0, 0]);
        message[4..ICMP].copy_from_slice(&rest);
        message[ICMP..].copy_from_slice(&packet[..quoted]);
        end
    }
}
