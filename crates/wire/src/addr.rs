//! An IP address of either family in 16 bytes; IPv4 is mapped into IPv6.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An IP address: 16 bytes in network order, IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
///
/// One representation for both families keeps keys plain bytes of one length.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Addr(pub [u8; 16]);

/// `::ffff:0:0`, read least significant byte first.
const MAPPED: u128 = 0xffff << 80;

impl Addr {
    /// No address: what a packet that is not IP has.
    pub const UNSPECIFIED: Addr = Addr([0; 16]);

    /// The IPv4 address `a.b.c.d`, mapped.
    #[inline]
    pub const fn v4(octets: [u8; 4]) -> Addr {
        // As one number, here and below: a pattern of 16 bytes is compared byte by byte.
        Addr((MAPPED | (u32::from_le_bytes(octets) as u128) << 96).to_le_bytes())
    }

    /// The four octets if this is a mapped IPv4 address.
    #[inline]
    pub const fn to_v4(self) -> Option<[u8; 4]> {
        let ([low, high], _) = self.0.as_chunks::<8>() else { return None };
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        let is_mapped = low == MAPPED as u64 && high as u32 == (MAPPED >> 64) as u32;
        if is_mapped { Some(((high >> 32) as u32).to_le_bytes()) } else { None }
    }

    /// The last four octets: all of an IPv4 address.
    #[inline]
    pub fn last4(self) -> [u8; 4] {
        let [.., a, b, c, d] = self.0;
        [a, b, c, d]
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Addr {
        match ip {
            IpAddr::V4(v4) => Addr::v4(v4.octets()),
            IpAddr::V6(v6) => Addr(v6.octets()),
        }
    }
}

impl From<Addr> for IpAddr {
    fn from(addr: Addr) -> IpAddr {
        match addr.to_v4() {
            Some(octets) => IpAddr::V4(Ipv4Addr::from(octets)),
            None => IpAddr::V6(Ipv6Addr::from(addr.0)),
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&IpAddr::from(*self), f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Addresses of which a chain with two sides knows where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidePrefix {
    /// The first of them.
    pub address: IpAddr,
    /// How many bits all of them have in common.
    pub bits: u32,
    /// Whether they are inside.
    pub is_inside: bool,
    /// Whether they stand, outside, for hosts inside.
    pub is_external: bool,
}

/// A side of a chain that has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the hosts are that the chain is for.
    Inside,
    /// Where everybody else is.
    Outside,
}
