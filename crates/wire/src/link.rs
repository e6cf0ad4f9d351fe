//! Link types, by their numbers in pcap files.

/// What a frame begins with. The numbers are those of the pcap link-type registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LinkType {
    /// Ethernet II (1).
    #[default]
    Ethernet,
    /// BSD loopback, address family in the recording host's byte order (0).
    Null,
    /// OpenBSD loopback, address family in network byte order (108).
    Loop,
    /// No link header: IPv4 or IPv6 by the version nibble (101; also 12, 14, 228, 229).
    RawIp,
    /// Linux cooked capture, version 1 (113).
    LinuxSll,
    /// Linux cooked capture, version 2 (276).
    LinuxSll2,
}

impl LinkType {
    /// The link type for a pcap link-type number; `None` if Paceline cannot parse it.
    pub fn from_pcap(number: u32) -> Option<LinkType> {
        Some(match number {
            0 => LinkType::Null,
            1 => LinkType::Ethernet,
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            108 => LinkType::Loop,
            113 => LinkType::LinuxSll,
            276 => LinkType::LinuxSll2,
            _ => return None,
        })
    }

    /// The number to write into a pcap file.
    pub fn to_pcap(self) -> u32 {
        match self {
            LinkType::Null => 0,
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
            LinkType::Loop => 108,
            LinkType::LinuxSll => 113,
            LinkType::LinuxSll2 => 276,
        }
    }
}
