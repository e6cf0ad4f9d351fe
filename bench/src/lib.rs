//! What the benchmarks in `benches/` work on: frames of the kinds that networks carry.
//!
//! Addresses and ports differ from packet to packet, so that nothing is known before it is read.

use wire::{Addr, Edits, Headers, LinkType, parse};

/// Packets in each benchmark: two whole batches. `./x bench instructions` divides by it.
pub const PACKETS: usize = 128;

/// A kind of packet.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// 60 bytes of UDP over IPv4.
    Udp,
    /// TCP over IPv4, no options.
    Tcp,
    /// TCP over IPv4 with timestamps (RFC 7323), as established connections have them.
    TcpTimestamps,
    /// UDP over IPv4, with one VLAN tag.
    Vlan,
    /// UDP over IPv6.
    Ipv6,
}

impl Kind {
    /// Frame number `number` of this kind. Checksums are any, as no parser looks at them.
    pub fn frame(self, number: u16) -> Vec<u8> {
        // Not the number itself: that would leave every packet one hash under a symmetric key, with the address.
        let ports = [1024 + 5 * number, 53].map(u16::to_be_bytes).concat();
        let udp = [&ports[..], &[0, 26, 0xaa, 0xbb], &[0; 18]].concat();
        let tcp = |words: u8, options: &[u8]| {
            let rest = [0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x10, 1, 0, 0xaa, 0xbb, 0, 0];
            [&ports[..], &rest, options, &[0; 18]].concat()
        };
        let (ethertypes, packet) = match self {
            Kind::Udp => (&[0x08, 0x00][..], ipv4(number, 17, &udp)),
            Kind::Tcp => (&[0x08, 0x00][..], ipv4(number, 6, &tcp(5, &[]))),
            Kind::TcpTimestamps => {
                let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
                (&[0x08, 0x00][..], ipv4(number, 6, &tcp(8, &timestamps)))
            }
            Kind::Vlan => (&[0x81, 0x00, 0, 5, 0x08, 0x00][..], ipv4(number, 17, &udp)),
            Kind::Ipv6 => (&[0x86, 0xdd][..], ipv6(number, 17, &udp)),
        };
        [&[0x02; 12][..], ethertypes, &packet].concat()
    }
}

fn ipv4(number: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let [a, b] = number.to_be_bytes();
    let header = [0x45, 0, high, low, 0, 1, 0x40, 0, 64, protocol, 0xcc, 0xdd, 10, 0, a, b, 192, 0, 2, 1];
    [&header[..], payload].concat()
}

fn ipv6(number: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let (mut src, dst) = ([0xfd; 16], [0xfe; 16]);
    src[14..].copy_from_slice(&number.to_be_bytes());
    [&[0x60, 0, 0, 0, high, low, protocol, 64][..], &src, &dst, payload].concat()
}

/// A batch on its way, each part in an array of its own as in the engine.
#[derive(Debug)]
pub struct Batch {
    /// The packets.
    pub frames: Vec<Vec<u8>>,
    /// Their headers, parsed.
    pub headers: Vec<Headers>,
    /// No edits, or what [`balance`] sets.
    pub edits: Vec<Edits>,
}

impl Batch {
    /// Packets of one kind, without edits.
    pub fn new(kind: Kind) -> Batch {
        let frames: Vec<_> = (0..PACKETS as u16).map(|number| kind.frame(number)).collect();
        let headers = frames.iter().map(|frame| parse(LinkType::Ethernet, frame, 0)).collect();
        Batch { frames, headers, edits: vec![Edits::NONE; PACKETS] }
    }

    /// Packets of one kind, with a load balancer's edits.
    pub fn balanced(kind: Kind) -> Batch {
        let mut batch = Batch::new(kind);
        batch.edits.iter_mut().enumerate().for_each(|(number, edits)| balance(edits, number as u8));
        batch
    }
}

/// What a load balancer edits: the destination's addresses and port.
#[inline]
pub fn balance(edits: &mut Edits, backend: u8) {
    edits.set_dst(Addr::v4([10, 1, 0, backend]));
    edits.set_dst_port(8080);
    edits.set_dst_mac([0x02, 0, 0, 0, 0, backend]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_what_it_says() {
        for kind in [Kind::Udp, Kind::Tcp, Kind::TcpTimestamps, Kind::Vlan, Kind::Ipv6] {
            for headers in Batch::new(kind).headers {
                assert!(headers.is_well_formed() && headers.dst_port == 53, "{kind:?}: {headers:?}");
            }
        }
    }
}
