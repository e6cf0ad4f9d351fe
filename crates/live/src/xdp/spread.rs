//! How packets of a queue are spread over cores that have a socket each: bpf/spread.h.

use std::net::IpAddr;

use wire::{Fields, SidePrefix};

/// Entries of the largest table.
const ENTRIES: usize = 512;
/// Sockets that the program knows, at an interface.
const SOCKETS: usize = 4_096;

// As in bpf/spread.h.
const HASHED: [(Fields, u32); 4] =
    [(Fields::SRC_ADDR, 1), (Fields::DST_ADDR, 2), (Fields::SRC_PORT, 4), (Fields::DST_PORT, 8)];

/// Which core gets a packet, as the XDP program finds it: the hash of its headers points to an entry of a table, and that
/// names the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many cores there are.
    pub cores: usize,
    /// Which fields are hashed: addresses and ports.
    pub fields: Fields,
    /// What a 16-bit word of these adds to the hash, by the value of its first byte and of its second. All words count
    /// alike: the hash is that of a key whose period is 16 bits.
    pub hash: Box<[[u32; 256]; 2]>,
    /// Where the chain stands between two sides, as with a NAT: which addresses are on which. Packets from outside are then
    /// hashed as they look from inside.
    pub sides: Option<Vec<SidePrefix>>,
    /// By entry, the core that gets its packets. As many as a power of two, up to 512.
    pub owners: Vec<u16>,
}

/// The prefix's bits as the program has them, and what it says of them.
pub(super) fn side_entry(prefix: &SidePrefix) -> (u32, [u8; 16], u8) {
    let SidePrefix { address, bits, is_inside, is_external } = prefix;
    let bits = if address.is_ipv4() { 96 + bits } else { *bits };
    (bits, address_key(address), u8::from(*is_inside) | u8::from(*is_external) << 1)
}

impl Spread {
    /// Why the program cannot spread packets so over sockets of an interface with so many queues, if it cannot.
    pub(super) fn refusal(&self, queues: u32) -> Option<String> {
        let entries = self.owners.len();
        match () {
            () if self.cores * queues as usize > SOCKETS => {
                Some(format!("{queues} queues and {} cores are more than {SOCKETS} sockets", self.cores))
            }
            () if !entries.is_power_of_two() || entries > ENTRIES => {
                Some(format!("a table of {entries} entries: a power of two up to {ENTRIES} is needed"))
            }
            () if self.owners.iter().any(|owner| usize::from(*owner) >= self.cores) => {
                Some("an entry of a core that there is not".to_owned())
            }
            () => None,
        }
    }

    /// The fields as the program has them.
    pub(super) fn hashed(&self) -> u32 {
        HASHED.iter().filter(|(field, _)| self.fields.contains(*field)).map(|(_, bit)| bit).sum()
    }
}

/// An address as the program looks it up: one of IPv4 as IPv6 has it.
pub(super) fn address_key(address: &IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
