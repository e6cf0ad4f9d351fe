//! What clients send to: an address and a port, or every one of a range.

use core::fmt;
use core::net::IpAddr;

use alloc::format;
use alloc::string::String;

use nf::hash_bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use wire::Addr;
use zerocopy::IntoBytes;

use crate::prefix::parse_prefix;

/// The addresses that clients send to, as `192.0.2.80` or `198.18.0.0/15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Vip {
    /// The address, or the first of them.
    pub address: IpAddr,
    /// How many of its bits the others share.
    pub length: u32,
}

impl Vip {
    /// Whether it is a single address.
    pub(super) fn is_one(&self) -> bool {
        self.length == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The bits that all of its addresses share, set; of an [`Addr`], where IPv4 is mapped.
    fn mask(&self) -> u128 {
        let length = if self.address.is_ipv4() { 96 + self.length } else { self.length };
        u128::MAX.checked_shl(128 - length).unwrap_or(0)
    }
}

impl TryFrom<String> for Vip {
    type Error = String;

    fn try_from(text: String) -> Result<Vip, String> {
        let (address, length) = parse_prefix(&text).map_err(|wrong| format!("vip {wrong}"))?;
        let vip = Vip { address, length };
        let mapped = u128::from_be_bytes(Addr::v4([0; 4]).0);
        if address.is_ipv6() && mapped & vip.mask() == u128::from_be_bytes(Addr::from(address).0) {
            return Err(format!(
                "vip has the prefix \"{text}\", which holds more than IPv6's addresses; write \"2000::/3\" for \
                 all of the Internet"
            ));
        }
        Ok(vip)
    }
}

impl fmt::Display for Vip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_one() {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.length),
        }
    }
}

/// The port that clients send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicePort {
    /// This one.
    One(u16),
    /// Whichever they like.
    Any,
}

impl<'de> Deserialize<'de> for ServicePort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PortVisitor;

        impl Visitor<'_> for PortVisitor {
            type Value = ServicePort;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port from 1 to 65535, or \"any\"")
            }

            fn visit_i64<E: Error>(self, port: i64) -> Result<ServicePort, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(port), &self);
                u16::try_from(port).map(ServicePort::One).map_err(wrong)
            }

            fn visit_u64<E: Error>(self, port: u64) -> Result<ServicePort, E> {
                self.visit_i64(i64::try_from(port).unwrap_or(i64::MAX))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ServicePort, E> {
                match text {
                    "any" => Ok(ServicePort::Any),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(PortVisitor)
    }
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServicePort::One(port) => write!(f, "{port}"),
            ServicePort::Any => f.write_str("any"),
        }
    }
}

/// A service's address, port and protocol as bits to compare with a packet's, and which of them matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    addr: u128,
    addr_mask: u128,
    port_and_protocol: u32,
    port_and_protocol_mask: u32,
}

impl End {
    pub(super) fn new(vip: Vip, port: ServicePort, protocol: u8) -> End {
        let mask = match port {
            ServicePort::One(_) => u32::MAX,
            ServicePort::Any => port_and_protocol(0, u8::MAX),
        };
        let port = if let ServicePort::One(port) = port { port } else { 0 };
        End {
            addr: u128::from_ne_bytes(Addr::from(vip.address).0),
            addr_mask: u128::from_ne_bytes(vip.mask().to_be_bytes()),
            port_and_protocol: port_and_protocol(port, protocol),
            port_and_protocol_mask: mask,
        }
    }

    /// Differs between services.
    pub(super) fn hash(&self) -> u64 {
        let rest = u64::from(self.port_and_protocol) | u64::from(self.port_and_protocol_mask) << 32;
        hash_bytes([self.addr, self.addr_mask, rest.into()].as_bytes(), 0)
    }

    /// Whether packets to there are the service's.
    #[inline]
    pub(super) fn has(&self, addr: &Addr, port: u16, protocol: u8) -> bool {
        let wrong = (u128::from_ne_bytes(addr.0) ^ self.addr) & self.addr_mask;
        let wrong_rest =
            (port_and_protocol(port, protocol) ^ self.port_and_protocol) & self.port_and_protocol_mask;
        wrong == 0 && wrong_rest == 0
    }
}

#[inline]
fn port_and_protocol(port: u16, protocol: u8) -> u32 {
    u32::from(port) | u32::from(protocol) << 16
}
