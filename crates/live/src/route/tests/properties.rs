//! What holds for all packets.

use proptest::prelude::*;

use super::lab::*;
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
