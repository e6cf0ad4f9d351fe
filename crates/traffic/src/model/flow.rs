//! The ends of flows: addresses and ports by number, each pair of ends once.

use nf::hash_bytes;

/// The two ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub addrs: Addrs,
    pub src_port: u16,
    pub dst_port: u16,
}

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addrs {
    V4([u8; 4], [u8; 4]),
    V6([u8; 16], [u8; 16]),
}

impl Ends {
    /// The ends of a packet the other way round.
    pub fn back(self) -> Ends {
        let addrs = match self.addrs {
            Addrs::V4(src, dst) => Addrs::V4(dst, src),
            Addrs::V6(src, dst) => Addrs::V6(dst, src),
        };
        Ends { addrs, src_port: self.dst_port, dst_port: self.src_port }
    }

    /// Bytes of the Ethernet and IP headers.
    pub fn header_bytes(self) -> usize {
        14 + match self.addrs {
            Addrs::V4(..) => 20,
            Addrs::V6(..) => 40,
        }
    }
}

/// The ends of flow `number`, from 10.0.0.0/8 to the addresses for benchmarks (RFC 2544, RFC 5180), in no
/// order that hash tables would like. No two numbers below 2 to the power of 32 share them.
pub(super) fn flow(number: u64, is_ipv6: bool) -> Ends {
    // A bijection of 32 bits: no two flows share it.
    let id = (number as u32).wrapping_mul(0x9e37_79b1);
    let [a, b, c, d] = id.to_be_bytes();
    let noise = hash_bytes(&number.to_le_bytes(), 0).to_le_bytes();
    let host = [18 + (noise[0] & 1), noise[1], noise[2]];
    let addrs = match is_ipv6 {
        false => Addrs::V4([10, a, b, c], [198, host[0], host[1], host[2]]),
        true => Addrs::V6(ipv6(1, [0, a, b, c]), ipv6(2, [0, host[0], host[1], host[2]])),
    };
    Ends {
        addrs,
        src_port: 1024 + (u16::from(d) << 7 | u16::from(noise[3] & 0x7f)),
        dst_port: u16::from_le_bytes([noise[4], noise[5]]) | 1,
    }
}

/// Connection `number` to the one service that is under attack.
pub(super) fn to_service(number: u64, is_ipv6: bool) -> Ends {
    Ends { addrs: with_service(flow(number, is_ipv6).addrs), dst_port: SERVICE_PORT, ..flow(number, is_ipv6) }
}

/// Source `number` of a flood against the service: an address anywhere from 11.0.0.0 to 126.255.255.255.
pub(super) fn spoofed(number: u64, is_ipv6: bool, seed: u64) -> Ends {
    let noise = hash_bytes(&number.to_le_bytes(), seed);
    let [b, c, d, e, f, ..] = noise.to_le_bytes();
    let a = 11 + (((noise >> 40) * 116) >> 24) as u8;
    let addrs = match is_ipv6 {
        false => Addrs::V4([a, b, c, d], [0; 4]),
        true => Addrs::V6(ipv6(3, [a, b, c, d]), [0; 16]),
    };
    Ends {
        addrs: with_service(addrs),
        src_port: u16::from_le_bytes([e, f]).max(1_024),
        dst_port: SERVICE_PORT,
    }
}

const SERVICE_PORT: u16 = 443;

fn with_service(addrs: Addrs) -> Addrs {
    match addrs {
        Addrs::V4(src, _) => Addrs::V4(src, [198, 18, 0, 1]),
        Addrs::V6(src, _) => Addrs::V6(src, ipv6(2, [0, 18, 0, 1])),
    }
}

/// Probe `number` of scanner `scanner`, an address of 100.64.0.0/10: ports 1 to 1,024 of a host, then the
/// next host's.
pub(super) fn probe(scanner: u32, number: u64, is_ipv6: bool, seed: u64) -> Ends {
    const PORTS: u64 = 1_024;
    let first_host = hash_bytes(&scanner.to_le_bytes(), seed);
    let host = (first_host.wrapping_add(number / PORTS) as u32 & 0x1_ffff).to_be_bytes();
    let [_, a, b, c] = scanner.to_be_bytes();
    let src = [100, 64 + (a & 63), b, c];
    let dst = [198, 18 + host[1], host[2], host[3]];
    let addrs = match is_ipv6 {
        false => Addrs::V4(src, dst),
        true => Addrs::V6(ipv6(1, src), ipv6(2, [0, dst[1], dst[2], dst[3]])),
    };
    Ends { addrs, src_port: 40_000 + (scanner % 20_000) as u16, dst_port: 1 + (number % PORTS) as u16 }
}

/// An address in a network of 2001:2::/48.
fn ipv6(network: u8, host: [u8; 4]) -> [u8; 16] {
    let mut addr = [0; 16];
    addr[..8].copy_from_slice(&[0x20, 0x01, 0, 2, 0, 0, 0, network]);
    addr[12..].copy_from_slice(&host);
    addr
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn flows_are_all_different() {
        let mut seen = HashSet::new();
        for number in 0..100_000 {
            for is_ipv6 in [false, true] {
                assert!(seen.insert(format!("{:?}", flow(number, is_ipv6))), "flow {number}");
            }
        }
        for (scanner, number) in [(0, 0), (0, 1), (0, 1_024), (1, 0), (1, 1)] {
            assert!(seen.insert(format!("{:?}", probe(scanner, number, false, 1))));
        }
    }

    #[test]
    fn ends_are_where_they_should_be() {
        let ends = probe(5, 1_030, false, 9);
        let Addrs::V4(src, dst) = ends.addrs else { panic!("IPv4 was asked for") };
        assert_eq!((src, ends.dst_port), ([100, 64, 0, 5], 7));
        assert!(dst[0] == 198 && (18..=19).contains(&dst[1]));
        for number in 0..10_000 {
            let Addrs::V4(src, dst) = spoofed(number, false, 7).addrs else { panic!("IPv4 was asked for") };
            assert!((11..=126).contains(&src[0]), "{src:?}");
            assert_eq!(dst, [198, 18, 0, 1]);
        }
        let ends = flow(3, true);
        assert_eq!(ends.back().back(), ends);
        assert_ne!(ends.back(), ends);
    }
}
