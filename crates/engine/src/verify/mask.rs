//! Masks and renames the header fields of packets in which two runs may differ.

use wire::{Addr, Edits, Fields, VlanEdit};

use crate::executor::seen::Seen;

/// The packet's bytes with `edits` made, so that they do not depend on what was in these fields.
pub(crate) fn renamed(seen: &Seen<'_>, edits: &Edits) -> Vec<u8> {
    let bytes = seen.bytes.to_vec();
    edited([filled(edits.fields(), 0xff, &bytes, seen), *edits], bytes, seen)
}

/// The packet's bytes with some fields at 0 and checksums mended: what two answers have in common that may
/// differ in these fields.
pub(crate) fn masked(seen: &Seen<'_>, fields: Fields) -> Vec<u8> {
    let mut bytes = seen.bytes.to_vec();
    let mut wire_len = seen.wire_len;
    if fields.contains(Fields::TUNNEL) {
        // All that there are: a packet may have come in one.
        while let Some(begin) =
            wire::leave_tunnel(&wire::parse(seen.link, &bytes, wire_len), seen.link, &mut bytes)
        {
            bytes.drain(..begin);
            wire_len -= begin as u32;
        }
    }
    let seen = &Seen { wire_len, ..*seen };
    edited([filled(fields, 0xff, &bytes, seen), filled(fields, 0, &bytes, seen)], bytes, seen)
}

/// Twice, so that something changes in any case: a mended checksum never has the other form of 0.
fn edited(twice: [Edits; 2], mut bytes: Vec<u8>, seen: &Seen<'_>) -> Vec<u8> {
    for edits in twice {
        let headers = wire::parse(seen.link, &bytes, seen.wire_len);
        let mut frame = 0..bytes.len();
        // Nothing grows, so there is room.
        let _ = wire::apply(&edits, &headers, seen.link, &mut bytes, &mut frame);
    }
    bytes
}

/// Edits that write `byte` all over the fields.
fn filled(fields: Fields, byte: u8, bytes: &[u8], seen: &Seen<'_>) -> Edits {
    let is_v4 = wire::parse(seen.link, bytes, seen.wire_len).marks.contains(wire::Marks::IPV4);
    let addr = if is_v4 { Addr::v4([byte; 4]) } else { Addr([byte; 16]) };
    let port = u16::from_be_bytes([byte; 2]);
    let mut edits = Edits::NONE;
    let mut set = |field, set: &dyn Fn(&mut Edits)| {
        if fields.contains(field) {
            set(&mut edits);
        }
    };
    set(Fields::SRC_ADDR, &|edits| edits.set_src(addr));
    set(Fields::DST_ADDR, &|edits| edits.set_dst(addr));
    set(Fields::SRC_PORT, &|edits| edits.set_src_port(port));
    set(Fields::DST_PORT, &|edits| edits.set_dst_port(port));
    set(Fields::TTL, &|edits| edits.set_ttl(byte));
    set(Fields::TOS, &|edits| edits.set_tos(byte));
    set(Fields::VLAN, &|edits| edits.set_vlan(VlanEdit::Rewrite(port)));
    set(Fields::SRC_MAC, &|edits| edits.set_src_mac([byte; 6]));
    set(Fields::DST_MAC, &|edits| edits.set_dst_mac([byte; 6]));
    // It can be lowered alone: to 1, and then to 0.
    set(Fields::MSS, &|edits| edits.lower_mss(u16::from(byte & 1)));
    edits
}

#[cfg(test)]
mod tests {
    use io::Fate;
    use wire::{LinkType, Stamp};

    use super::*;

    /// IPv4 and UDP from 10.0.0.1:5 to 10.0.0.2:7 with this type of service; checksums right.
    fn packet(tos: u8, src_port: u16) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 5, 0, 7, 0, 8, 0xeb, 0xd0]);
        let mut edits = Edits::NONE;
        edits.set_tos(tos);
        edits.set_src_port(src_port);
        let headers = wire::parse(LinkType::Ethernet, &bytes, 42);
        let mut frame = 0..bytes.len();
        wire::apply(&edits, &headers, LinkType::Ethernet, &mut bytes, &mut frame).expect("room");
        bytes
    }

    fn mask(bytes: &[u8], fields: Fields) -> Vec<u8> {
        let (stamp, wire_len) = (Stamp::default(), bytes.len() as u32);
        let link = LinkType::Ethernet;
        masked(
            &Seen { stamp, fate: Fate::Forward, bytes, wire_len, link, refused: None, entry: 0, sent: 0 },
            fields,
        )
    }

    /// A SYN over IPv4 that announces this segment size; checksums right.
    fn syn(mss: u16) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([
            0, 5, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0x85, 0xfa, 0, 0, 2, 4, 0x05, 0xb4,
        ]);
        let mut edits = Edits::NONE;
        edits.lower_mss(mss);
        let headers = wire::parse(LinkType::Ethernet, &bytes, 58);
        let mut frame = 0..bytes.len();
        wire::apply(&edits, &headers, LinkType::Ethernet, &mut bytes, &mut frame).expect("room");
        bytes
    }

    /// What one run sends through a tunnel and another does not is alike where tunnels are masked, and differs where not.
    #[test]
    fn tunnels_are_masked() {
        let [a, b] = [1, 2].map(|last| Addr::v4([192, 0, 2, last]));
        let plain = packet(0, 5);
        for via in [wire::TunnelVia::Ip, wire::TunnelVia::Udp(6080)] {
            let mut edits = Edits::NONE;
            edits.set_tunnel(wire::Tunnel { src: a, dst: b, via });
            let headers = wire::parse(LinkType::Ethernet, &plain, 42);
            let mut bytes = [&[0; 64][..], &plain].concat();
            let mut frame = 64..bytes.len();
            wire::apply(&edits, &headers, LinkType::Ethernet, &mut bytes, &mut frame).expect("room");
            let sent = &bytes[frame];
            assert_eq!(mask(sent, Fields::TUNNEL), mask(&plain, Fields::TUNNEL), "{via:?}");
            assert_ne!(mask(sent, Fields::TOS), mask(&plain, Fields::TOS), "{via:?}");
            assert_ne!(mask(sent, Fields::TUNNEL), mask(&packet(0, 6), Fields::TUNNEL), "{via:?}");
        }
    }

    #[test]
    fn segment_sizes_are_masked() {
        assert_ne!(syn(1_400), syn(1_300));
        assert_eq!(mask(&syn(1_400), Fields::MSS), mask(&syn(1_300), Fields::MSS));
        assert_eq!(mask(&syn(1_460), Fields::MSS), mask(&syn(536), Fields::MSS));
        assert_ne!(mask(&syn(1_400), Fields::TOS), mask(&syn(1_300), Fields::TOS));
    }

    #[test]
    fn what_differs_in_masked_fields_alone_is_alike() {
        for tos in 0..=255 {
            assert_eq!(mask(&packet(tos, 5), Fields::TOS), mask(&packet(0, 5), Fields::TOS), "{tos}");
        }
        for port in 0..=u16::MAX {
            let fields = Fields::TOS | Fields::SRC_PORT;
            assert_eq!(mask(&packet(3, port), fields), mask(&packet(0, 5), fields), "{port}");
        }
        assert_ne!(mask(&packet(0, 6), Fields::TOS), mask(&packet(0, 5), Fields::TOS));
        // A wrong checksum stays wrong by as much.
        let mut wrong = packet(9, 5);
        wrong[24] ^= 1;
        assert_ne!(mask(&wrong, Fields::TOS), mask(&packet(9, 5), Fields::TOS));
    }
}
