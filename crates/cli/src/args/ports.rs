//! Which port a packet comes in by, told from where it is from: a capture does not say.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ::p4::stf::mac;
use wire::{LinkType, Marks};

use crate::failure::Failure;

/// Ports are 0 to this; the next one drops in v1model.
const PORT_MAX: u16 = 510;

/// Where the source address is in an Ethernet frame.
const SRC_MAC: std::ops::Range<usize> = 6..12;

type Mac = [u8; 6];

/// `WHAT=PORT` of `--port-of`: what is from there comes in by that port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOf {
    from: From,
    port: u16,
}

/// Sources that share a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Prefix(Prefix),
    Mac(Mac),
}

/// Addresses of one family that begin with the same bits; an address alone is all of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    bits: u32,
}

/// The port of each source.
#[derive(Clone, Debug)]
pub struct Ports {
    macs: HashMap<Mac, u16>,
    /// The longest first.
    prefixes: Vec<(Prefix, u16)>,
    others: u16,
}

impl Ports {
    /// Packets from nowhere in `list` come in by `others`.
    ///
    /// # Errors
    /// A source that is given twice.
    pub fn new(others: u16, list: &[PortOf]) -> Result<Ports, Failure> {
        let mut ports = Ports { macs: HashMap::new(), prefixes: Vec::new(), others };
        for (place, PortOf { from, port }) in list.iter().enumerate() {
            if let Some(before) = list[..place].iter().find(|before| before.from == *from) {
                let message = format!("--port-of {from}={port}: port {} has {from} already", before.port);
                return Err(Failure::usage(format!("{message}\nGive each source one port.")));
            }
            match *from {
                From::Mac(mac) => _ = ports.macs.insert(mac, *port),
                From::Prefix(prefix) => ports.prefixes.push((prefix, *port)),
            }
        }
        ports.prefixes.sort_by_key(|(prefix, _)| Reverse(prefix.bits));
        Ok(ports)
    }

    /// The port of an Ethernet frame: that of its source MAC address, else of the longest prefix that its source
    /// address is in, else the one for all others. `O(prefixes)`.
    pub fn of(&self, frame: &[u8], wire_len: u32) -> u16 {
        let mac = frame.get(SRC_MAC).and_then(|mac| self.macs.get(mac));
        mac.copied().or_else(|| self.of_address(source(frame, wire_len)?)).unwrap_or(self.others)
    }

    fn of_address(&self, address: IpAddr) -> Option<u16> {
        self.prefixes.iter().find(|(prefix, _)| prefix.has(address)).map(|(_, port)| *port)
    }
}

/// The source address of an IP packet.
fn source(frame: &[u8], wire_len: u32) -> Option<IpAddr> {
    let headers = wire::parse(LinkType::Ethernet, frame, wire_len);
    // An IPv6 packet may be from an address that stands for one of IPv4, and is of IPv6 all the same.
    match headers.marks.contains(Marks::IPV6) {
        true => Some(Ipv6Addr::from(headers.src.0).into()),
        false => headers.is_ip().then(|| headers.src.into()),
    }
}

impl Prefix {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && network(address, self.bits) == self.address
    }
}

/// The address with all behind its first `bits` cleared.
fn network(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & !u32::MAX.checked_shr(bits).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::MAX.checked_shr(bits).unwrap_or(0)).into()),
    }
}

impl FromStr for PortOf {
    type Err = String;

    fn from_str(text: &str) -> Result<PortOf, String> {
        let (from, port) =
            text.rsplit_once('=').ok_or("the port is missing; write one like 10.0.0.0/8=1".to_owned())?;
        let port = port.parse().ok().filter(|port| *port <= PORT_MAX);
        let port = port.ok_or_else(|| format!("the port must be a number from 0 to {PORT_MAX}"))?;
        let from = match mac(from) {
            Some(mac) => From::Mac(mac),
            None => From::Prefix(from.parse()?),
        };
        Ok(PortOf { from, port })
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(at, bits)| (at, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| {
            format!(
                "`{text}` is neither a prefix nor an address; write one like 10.0.0.0/8, 2001:db8::/32 or \
                 02:00:00:00:00:01"
            )
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = length.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most));
        let bits = bits.ok_or_else(|| format!("the length of `{text}` must be a number from 0 to {most}"))?;
        match network(address, bits) {
            network if network == address => Ok(Prefix { address, bits }),
            network => Err(format!("`{text}` has bits set behind its length; write {network}/{bits}")),
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            From::Prefix(Prefix { address, bits }) => write!(f, "{address}/{bits}"),
            From::Mac([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An Ethernet frame from 02:00:00:00:00:01 with an IP header and nothing behind it.
    fn frame(from: &str) -> Vec<u8> {
        let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
        match from.parse().expect("an address") {
            IpAddr::V4(v4) => {
                frame.extend([0x08, 0x00, 0x45, 0, 0, 20, 0, 1, 0, 0, 64, 59, 0, 0]);
                frame.extend(v4.octets().into_iter().chain([192, 0, 2, 1]));
            }
            IpAddr::V6(v6) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64]);
                frame.extend(v6.octets().into_iter().chain([0; 16]));
            }
        }
        frame
    }

    fn ports(others: u16, list: &[&str]) -> Ports {
        let list: Vec<PortOf> = list.iter().map(|text| text.parse().expect("a source")).collect();
        Ports::new(others, &list).ok().expect("each source once")
    }

    fn of(ports: &Ports, frame: &[u8]) -> u16 {
        ports.of(frame, frame.len() as u32)
    }

    #[test]
    fn the_longest_prefix_counts() {
        let ports =
            ports(9, &["10.0.0.0/8=1", "10.1.2.3=3", "0.0.0.0/0=4", "10.1.0.0/16=2", "2001:db8::/32=5"]);
        let cases = [
            ("10.200.0.1", 1),
            ("10.1.200.1", 2),
            ("10.1.2.3", 3),
            ("10.1.2.4", 2),
            ("11.0.0.1", 4),
            ("2001:db8:ffff::1", 5),
            ("2001:db9::1", 9),
        ];
        for (from, port) in cases {
            assert_eq!(of(&ports, &frame(from)), port, "{from}");
        }
    }

    #[test]
    fn families_keep_apart() {
        let v4 = ports(9, &["0.0.0.0/0=1"]);
        let v6 = ports(9, &["::/0=2", "::ffff:0:0/96=3"]);
        assert_eq!((of(&v4, &frame("10.0.0.1")), of(&v6, &frame("10.0.0.1"))), (1, 9));
        // An address of IPv4 in a packet of IPv6, put there by hand.
        let mut mapped = frame("2001:db8::1");
        mapped[22..38].copy_from_slice(&std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets());
        assert_eq!((of(&v4, &mapped), of(&v6, &mapped)), (9, 3));
    }

    #[test]
    fn a_mac_address_goes_before_prefixes() {
        let ports = ports(9, &["10.0.0.1=1", "02:00:00:00:00:01=2", "02:00:00:00:00:0A=3"]);
        let mut frame = frame("10.0.0.1");
        assert_eq!(of(&ports, &frame), 2);
        frame[11] = 0x0a;
        assert_eq!(of(&ports, &frame), 3);
        frame[11] = 0x0b;
        assert_eq!(of(&ports, &frame), 1);
    }

    #[test]
    fn tags_are_passed_over() {
        let ports = ports(9, &["10.0.0.0/8=1"]);
        let mut tagged = frame("10.0.0.1");
        tagged.splice(12..12, [0x81, 0x00, 0, 100]);
        assert_eq!(of(&ports, &tagged), 1);
    }

    #[test]
    fn what_has_no_source_comes_in_by_the_port_of_all_others() {
        let ports = ports(9, &["0.0.0.0/0=1", "::/0=2", "00:00:00:00:00:00=3"]);
        let arp = [0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0];
        for frame in [&arp[..], &arp[..11], &[]] {
            assert_eq!(of(&ports, frame), 9, "{frame:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("10.0.0.0/8", "the port is missing"),
            ("10.0.0.0/8=", "0 to 510"),
            ("10.0.0.0/8=511", "0 to 510"),
            ("10.0.0.0/8=-1", "0 to 510"),
            ("10.0.0.0/33=1", "0 to 32"),
            ("2001:db8::/129=1", "0 to 128"),
            ("10.1.2.3/8=1", "write 10.0.0.0/8"),
            ("2001:db8::1/32=1", "write 2001:db8::/32"),
            ("10.0.0=1", "neither a prefix nor an address"),
            ("02:00:00:00:00=1", "neither a prefix nor an address"),
            ("02:00:00:00:00:001=1", "neither a prefix nor an address"),
            ("02:00:00:00:00:01/48=1", "neither a prefix nor an address"),
            ("=1", "neither a prefix nor an address"),
        ];
        for (text, said) in cases {
            let error = text.parse::<PortOf>().expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
        let twice = ["10.0.0.1=1", "10.0.0.1/32=2"].map(|text| text.parse().expect("a source"));
        let error = Ports::new(0, &twice).expect_err("twice").to_string();
        assert!(error.contains("--port-of 10.0.0.1/32=2: port 1 has"), "{error}");
    }

    proptest! {
        /// Against the definition: the first bits are equal, and no longer prefix's are.
        #[test]
        fn agrees_with_the_definition(
            prefixes in proptest::collection::btree_set((any::<u8>(), 0_u32..=8), 0..8),
            probe: u8,
        ) {
            let masked = |(byte, bits): (u8, u32)| (u32::from(byte) >> (8 - bits) << (8 - bits), 24 + bits);
            let different: std::collections::BTreeSet<_> = prefixes.into_iter().map(masked).collect();
            let text = |((byte, bits), port): ((u32, u32), u16)| format!("10.0.0.{byte}/{bits}={port}");
            let texts = different.into_iter().zip(0..).map(text);
            let list: Vec<PortOf> = texts.map(|text| text.parse().expect("a source")).collect();
            let ports = Ports::new(500, &list).ok().expect("each source once");
            let mut expected = (0, 500);
            for PortOf { from, port } in &list {
                let From::Prefix(Prefix { address: IpAddr::V4(v4), bits }) = from else { continue };
                let differing = v4.octets()[3] ^ probe;
                if differing.leading_zeros() + 24 >= *bits && *bits > expected.0 {
                    expected = (*bits, *port);
                }
            }
            let frame = frame(&format!("10.0.0.{probe}"));
            prop_assert_eq!(of(&ports, &frame), expected.1);
        }
    }
}
