//! What holds for all packets.

use proptest::prelude::*;

use netlink_packet_core::NetlinkPayload;

use super::lab::*;
use crate::route::message::change;
use crate::route::mirror::{How, Mirror};
use crate::route::netlink::Message;
use crate::route::{Decision, RouteDrop};

proptest! {
    /// The updated checksum is the computed one, for every header.
    #[test]
    fn the_checksum_is_the_computed_one(
        id in any::<[u8; 2]>(), tos in any::<u8>(), ttl in 2_u8.., source in any::<u32>(), payload in 0..64_usize,
        protocol in any::<u8>(), bits in any::<[u8; 2]>(),
    ) {
        let mut lab = Lab::new();
        let mut frame = udp("10.0.2.9", "8.8.8.8", ttl, payload);
        frame[15] = tos;
        frame[18..20].copy_from_slice(&id);
        frame[20..22].copy_from_slice(&bits);
        frame[23] = protocol;
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        frame[24..26].fill(0);
        let checksum = wire::internet_checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&checksum);
        let is_host = matches!(source >> 24, 1..=126 | 128..=223);
        match lab.forward(&mut frame) {
            Decision::Send { interface } => {
                prop_assert!(is_host);
                prop_assert_eq!(interface, OUTSIDE);
                let updated = [frame[24], frame[25]];
                frame[24..26].fill(0);
                prop_assert_eq!(updated, wire::internet_checksum(&[&frame[14..34]]));
                prop_assert_eq!(frame[22], ttl - 1);
            }
            other => prop_assert!(!is_host && other == Decision::Drop(RouteDrop::Martian), "{other:?}"),
        }
    }

    /// Nothing panics on any bytes, with the frame's own headers or any others; each packet is counted once.
    #[test]
    fn any_bytes(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
        from in 0..8_u32, shape in 0..4_u8,
    ) {
        let mut lab = Lab::new();
        let mut last = wire::Headers::default();
        for (index, frame) in frames.iter().enumerate() {
            let mut frame = frame.clone();
            // Some of them look like IP to this router.
            if shape != 0 && frame.len() > 40 {
                frame[..6].copy_from_slice(&station(from));
                let (kind, first) = if shape == 1 { ([0x08, 0], 0x45) } else { ([0x86, 0xdd], 0x60) };
                frame[12..14].copy_from_slice(&kind);
                frame[14] = first;
                if shape == 1 {
                    frame[16..18].copy_from_slice(&[0, 30]);
                    frame[24..26].fill(0);
                    let checksum = wire::internet_checksum(&[&frame[14..34]]);
                    frame[24..26].copy_from_slice(&checksum);
                } else {
                    frame[18..20].fill(0);
                }
            }
            let own = headers(&frame);
            lab.forwarder.forward(&mut frame, &own, from);
            lab.forwarder.forward(&mut frame, &last, from);
            prop_assert!(lab.forwarder.reply().len() <= 1_294);
            last = own;
            prop_assert_eq!(lab.forwarder.counters().packets(), 2 * (index as u64 + 1));
        }
    }

    /// Nothing panics on what comes from a netlink socket, though it is always the kernel that speaks there.
    #[test]
    fn any_netlink_message(
        kind in prop::sample::select(vec![16_u16, 17, 20, 21, 24, 25, 28, 29]), flags in any::<u16>(),
        family in prop::sample::select(vec![0_u8, 2, 10, 7]), mut body in prop::collection::vec(any::<u8>(), 0..120),
        attributes in prop::collection::vec((0_u16..32, prop::collection::vec(any::<u8>(), 0..24)), 0..6),
    ) {
        if let Some(first) = body.first_mut() {
            *first = family;
        }
        // Half of them with attributes behind a header of the right length.
        if flags & 1 == 0 {
            body.resize(match kind { 16 | 17 => 16, 20 | 21 => 8, _ => 12 }, 0);
            if let (24 | 25, [_, len, source_len, tos, table, _, _, kind, ..]) = (kind, body.as_mut_slice()) {
                (*source_len, *tos, *table) = (0, 0, 254 | *table);
                (*len, *kind) = (*len % 140, *kind % 10);
            }
            for (number, value) in attributes {
                body.extend((value.len() as u16 + 4).to_ne_bytes());
                body.extend(number.to_ne_bytes());
                body.extend(&value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
        }
        let mut bytes = (body.len() as u32 + 16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        let mut mirror = Mirror::default();
        if let Ok(Message { payload: NetlinkPayload::InnerMessage(message), .. }) = Message::deserialize(&bytes)
            && let Some(change) = change(message)
        {
            mirror.apply(change, How::Added);
        }
        compiled(&mirror);
    }

    /// Mutated packets: headers near the truth.
    #[test]
    fn packets_with_flipped_bits(at in 0..60_usize, bit in 0..8_u8, at2 in 0..60_usize, is_ipv6 in any::<bool>(), ttl in 0..3_u8) {
        let mut lab = Lab::new();
        let mut frame = match is_ipv6 {
            true => udp("2001:db8:2::9", "2600::1", ttl, 30),
            false => udp("10.0.2.9", "8.8.8.8", ttl, 30),
        };
        let end = frame.len() - 1;
        frame[at.min(end)] ^= 1 << bit;
        frame[at2.min(end)] ^= 0x81;
        frame.truncate(frame.len() - at2 % 7);
        lab.forward(&mut frame);
        prop_assert_eq!(lab.forwarder.counters().packets(), 1);
    }
}
