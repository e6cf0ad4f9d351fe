//! The host at the inside end of a packet, with the direction: a key for limits of each host behind a gateway.

use core::fmt::{self, Display};

use nf::{FlowKey, KeyParts, Sharding};
use wire::{Addr, Fields, Headers, Marks};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::common::CompactKey;

/// What a host inside sends, or what it is sent: the source of a packet from inside, the destination of one from outside.
///
/// A packet from inside to another host inside is of the one that sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InsideHost {
    /// The host's address.
    pub addr: Addr,
    /// 1 for what it is sent from outside, 0 for what it sends.
    pub is_sent: u8,
}

impl FlowKey for InsideHost {
    const SHARDING: Sharding = Sharding { fields: Fields::ADDRS.union(Fields::MARKS), symmetric: false };

    #[inline]
    fn of(headers: &Headers) -> InsideHost {
        match headers.marks.contains(Marks::FROM_OUTSIDE) {
            true => InsideHost { addr: headers.dst, is_sent: 1 },
            false => InsideHost { addr: headers.src, is_sent: 0 },
        }
    }

    fn parts(&self) -> KeyParts {
        KeyParts { addrs: [Some(self.addr), None], ..KeyParts::default() }
    }
}

impl CompactKey for InsideHost {
    type Fields = InsideHost;

    #[inline]
    fn fields(headers: &Headers) -> InsideHost {
        InsideHost::of(headers)
    }

    #[inline]
    fn from_fields(fields: InsideHost) -> InsideHost {
        fields
    }
}

/// `from 10.0.0.1`, `to 10.0.0.1`
impl Display for InsideHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.is_sent == 0 { "from" } else { "to" };
        write!(f, "{way} {}", self.addr)
    }
}
