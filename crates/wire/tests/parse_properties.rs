//! Parsing: packets read as they were made, mangled packets as etherparse reads them, and nothing
//! whatever does harm.

use crate::invariants;
use crate::oracle;
use crate::packets;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::{LinkType, parse};

proptest! {
    #![proptest_config(crate::cases(4_000))]

    #[test]
    fn a_packet_reads_as_it_was_made(packet in packets::packet()) {
        let headers = parse(packet.link, &packet.frame, packet.frame.len() as u32);
        prop_assert_eq!(headers, packet.headers);
        prop_assert_eq!(usize::from(headers.payload_len()), packet.payload_len);
        let disagreement = oracle::compare(packet.link, &packet.frame).err();
        prop_assert_eq!(disagreement, None);
    }

}

proptest! {
    #![proptest_config(crate::cases(60_000))]

    // Most length fields are one small byte: only many small changes get at their bounds.
    #[test]
    fn a_mangled_packet_reads_as_etherparse_reads_it(
        packet in packets::packet(),
        changes in vec((any::<Index>(), change()), 1..4),
        len in any::<Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut frame = packet.frame;
        for (index, (kept, added)) in changes {
            let byte = index.get_mut(&mut frame);
            *byte = (*byte & kept).wrapping_add(added);
        }
        if is_cut {
            frame.truncate(len.index(frame.len() + 1));
        }
        let disagreement = oracle::compare(packet.link, &frame).err();
        prop_assert_eq!(disagreement, None);
        invariants::check_parse(packet.link, &frame, 0);
    }

}

proptest! {
    #![proptest_config(crate::cases(4_000))]

    #[test]
    fn what_the_snap_length_leaves_whole_reads_the_same(
        packet in packets::packet(),
        captured in any::<Index>(),
        beyond in 0..3_u32,
    ) {
        let captured = captured.index(packet.frame.len() + 1);
        let wire_len = packet.frame.len() as u32 + beyond;
        invariants::check_snapped(packet.link, &packet.frame, captured, wire_len);
    }

    #[test]
    fn any_bytes_do_no_harm(
        link in select(&invariants::LINKS),
        bytes in vec(any::<u8>(), 0..200),
        wire_len in any::<u32>(),
        captured in any::<Index>(),
    ) {
        invariants::check_parse(link, &bytes, wire_len);
        invariants::check_snapped(link, &bytes, captured.index(bytes.len() + 1), wire_len);
    }
}

/// Which bits of a byte stay, and what is added: any byte, a small number, a little more or less.
fn change() -> impl Strategy<Value = (u8, u8)> {
    prop_oneof![
        any::<u8>().prop_map(|byte| (0, byte)),
        (0..24_u8).prop_map(|byte| (0, byte)),
        select(&[1, 4, 8, 252, 255]).prop_map(|step| (0xff, step)),
    ]
}

#[test]
fn packets_with_every_length_of_frame_are_read() {
    // Longer than any length field can say, and than the offsets that headers hold.
    for len in [65_535, 65_536, 65_549, 65_550, 200_000] {
        for first in [0x45, 0x60, 0x00] {
            let mut frame = vec![0; len];
            frame[0] = first;
            let headers = invariants::check_parse(LinkType::RawIp, &frame, 0);
            assert_eq!(headers.l3_len, 65_535);
        }
    }
}
