//! ICMP errors about packets that are not forwarded (RFC 792, RFC 4443).

use wire::{Addr, Headers, IcmpError, IcmpErrorKind};

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
    fn kind(self) -> IcmpErrorKind {
        let (ipv4, ipv6) = match self {
            Error::TimeExceeded => ([11, 0], [3, 0]),
            Error::TooBig { .. } => ([3, 4], [2, 0]),
            Error::NoRoute => ([3, 0], [1, 0]),
            Error::Unreachable => ([3, 1], [1, 3]),
            // RFC 1812 §5.2.7.1.
            Error::Prohibited => ([3, 13], [1, 1]),
        };
        // The MTU (RFC 1191 §4, RFC 4443 §3.2), or nothing.
        let rest = if let Error::TooBig { mtu } = self { mtu.to_be_bytes() } else { [0; 4] };
        IcmpErrorKind { ipv4, ipv6, rest }
    }

    /// The error about a packet that so many bytes of headers were put before: with them it has to fit. No host believes that a way has
    /// less than the least MTU (RFC 791 §3.2, RFC 8200 §5).
    pub(super) fn less(self, bytes: u32, is_ipv4: bool) -> Error {
        match self {
            Error::TooBig { mtu } => {
                Error::TooBig { mtu: mtu.saturating_sub(bytes).max(if is_ipv4 { 68 } else { 1_280 }) }
            }
            other => other,
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

impl Reply {
    const LONGEST: usize = ETHERNET + 1_280;

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
        let error = IcmpError::about(packet, headers.tos, from, headers.src, error.kind());
        let [head, quoted] = [error.head(), &packet[..error.quoted()]];
        let ether_type = if head[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        self.bytes[12..ETHERNET].copy_from_slice(&ether_type);
        let quoted_at = ETHERNET + head.len();
        self.bytes[ETHERNET..quoted_at].copy_from_slice(head);
        self.len = quoted_at + quoted.len();
        self.bytes[quoted_at..self.len].copy_from_slice(quoted);
    }
}
