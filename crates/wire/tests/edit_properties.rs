//! Edits: packets whose checksums were right have right ones after, computed in full by etherparse;
//! all others are as wrong as before; headers and frame agree.

use crate::invariants;
use crate::packets;

use invariants::PLAN_LEN;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::{Addr, Edits, Fields, Headers, LinkType, Marks, apply, parse, protocol};
use zerocopy::FromBytes;

fn plan() -> impl Strategy<Value = [u8; PLAN_LEN]> {
    vec(any::<u8>(), PLAN_LEN).prop_map(|plan| plan.try_into().unwrap())
}

fn room() -> impl Strategy<Value = (usize, usize)> {
    (0..6_usize, 0..6_usize)
}

proptest! {
    #![proptest_config(crate::cases(10_000))]

    #[test]
    fn right_checksums_stay_right(packet in packets::packet(), plan in plan(), room in room()) {
        let is_v4 = packet.headers.marks.contains(Marks::IPV4);
        let edits = invariants::edits_of(&plan, is_v4);
        let wire_len = packet.frame.len() as u32;
        let edited = invariants::check_edits(&edits, packet.link, &packet.frame, wire_len, room);
        for frame in [&packet.frame, &edited] {
            let headers = parse(packet.link, frame, frame.len() as u32);
            let l3 = usize::from(headers.l3_offset);
            let end = l3 + usize::from(headers.l3_len);
            let l4 = usize::from(headers.l4_offset) - l3;
            packets::check_checksums(&frame[l3..end], l4, &headers);
        }
    }

    #[test]
    fn mangled_and_cut_packets_are_as_wrong_as_before(
        packet in packets::packet(),
        changes in vec((any::<Index>(), any::<u8>()), 0..4),
        captured in any::<Index>(),
        plan in plan(),
        is_v4 in any::<bool>(),
        room in room(),
    ) {
        let mut frame = packet.frame;
        for (index, byte) in changes {
            *index.get_mut(&mut frame) = byte;
        }
        let wire_len = frame.len() as u32;
        frame.truncate(captured.index(frame.len() * 2));
        let edits = invariants::edits_of(&plan, is_v4);
        invariants::check_edits(&edits, packet.link, &frame, wire_len, room);
        invariants::check_edits(&edits, packet.link, &frame, 0, room);
    }

    /// Addresses of either family come before and after those of the other, too, also where one replaces the other.
    #[test]
    fn edits_are_appended_as_if_they_were_made_one_by_one(
        packet in packets::packet(),
        plans in (plan(), plan()),
        are_v4 in any::<(bool, bool)>(),
        room in room(),
    ) {
        let first = invariants::edits_of(&plans.0, are_v4.0);
        let mut one_by_one = first;
        invariants::add_edits(&mut one_by_one, &plans.1, are_v4.1);
        let mut appended = first;
        appended.append(&invariants::edits_of(&plans.1, are_v4.1));
        prop_assert_eq!(appended, one_by_one);
        prop_assert!(Fields::all().contains(appended.fields()));
        let wire_len = packet.frame.len() as u32;
        let [by_append, by_one] = [appended, one_by_one]
            .map(|edits| invariants::check_edits(&edits, packet.link, &packet.frame, wire_len, room));
        prop_assert_eq!(by_append, by_one);
    }

    #[test]
    fn headers_of_other_frames_do_no_harm(
        headers in vec(any::<u8>(), 64),
        plan in plan(),
        link in select(&invariants::LINKS),
        buffer in vec(any::<u8>(), 0..120),
        start in 0..130_usize,
        end in 0..130_usize,
    ) {
        let is_v4 = plan[63] & 1 != 0;
        let mut headers = Headers::read_from_bytes(&headers).unwrap();
        // Few bytes say Ethernet, well-formed, near offsets: most of these do.
        headers.malformed_code = [0, 0, 12, headers.malformed_code][usize::from(plan[62] % 4)];
        headers.l3_offset = [0, 14, 18, 22][usize::from(plan[61] % 4)];
        headers.l4_offset %= 128;
        headers.protocol = [6, 17, 58, 132][usize::from(plan[60] % 4)];
        let edits = invariants::edits_of(&plan, is_v4);
        invariants::check_mismatched(&edits, &headers, link, &buffer, start..end);
    }
}

/// Functions of a chain, one behind the other: the edits of each, and what it reads.
fn functions() -> impl Strategy<Value = Vec<([u8; PLAN_LEN], Fields)>> {
    // One field in eight: where many are read, they include what edits need.
    let few = any::<[u32; 3]>().prop_map(|[a, b, c]| Fields::from_bits_truncate(a & b & c));
    vec((plan(), few), 1..4)
}

/// The header fields that must be right at first for each function to read what it would.
fn needed(functions: &[([u8; PLAN_LEN], Fields)]) -> Fields {
    functions.iter().rev().fold(Fields::empty(), |needed, (plan, read)| {
        *read | Edits::needs(invariants::edits_of(plan, true).fields(), needed)
    })
}

/// The first function that does not read the same of headers of which only `kept` was kept.
fn reads_otherwise(
    packet: &Headers,
    rest: &Headers,
    kept: Fields,
    functions: &[([u8; PLAN_LEN], Fields)],
    is_v4: bool,
) -> Option<usize> {
    let (mut whole, mut partial, mut edits) = (*packet, *rest, Edits::NONE);
    partial.copy_fields(kept, packet);
    functions.iter().position(|(plan, read)| {
        let is_alike = whole.only(*read) == partial.only(*read);
        invariants::add_edits(&mut edits, plan, is_v4);
        edits.apply_to_headers(&mut whole);
        edits.apply_to_headers(&mut partial);
        !is_alike
    })
}

proptest! {
    #![proptest_config(crate::cases(20_000))]

    #[test]
    fn headers_alike_in_what_edits_need_are_alike_after_them(
        packet in packets::packet(),
        changes in vec((any::<Index>(), any::<u8>()), 0..3),
        rest in prop_oneof![Just(vec![0; 64]), vec(any::<u8>(), 64)],
        functions in functions(),
        is_v4 in any::<bool>(),
        is_long in any::<bool>(),
    ) {
        let mut frame = packet.frame;
        for (index, byte) in changes {
            *index.get_mut(&mut frame) = byte;
        }
        let mut headers = parse(packet.link, &frame, frame.len() as u32);
        if is_long {
            headers.l3_len = u16::MAX;
        }
        let rest = Headers::read_from_bytes(&rest).unwrap();
        let otherwise = reads_otherwise(&headers, &rest, needed(&functions), &functions, is_v4);
        prop_assert_eq!(otherwise, None, "{:?} of {:?}", functions, headers);
    }
}

/// [`Edits::needs`] names nothing too much: for each field that it names there is a packet that shows the need.
#[test]
fn edits_need_no_less() {
    let tcp = Headers {
        protocol: protocol::TCP,
        marks: Marks::IPV4,
        l3_offset: 14,
        l4_offset: 34,
        l3_len: 40,
        tcp_shape: 0x5f,
        ..Headers::default()
    };
    let sctp = Headers { protocol: protocol::SCTP, ..tcp };
    let long = Headers { l3_len: u16::MAX, ..sctp };
    let malformed = Headers { malformed_code: 1, ..tcp };
    // From a router, about a TCP packet to 0.0.0.1.
    let error = Headers { protocol: protocol::ICMP, tcp_shape: 0x2c, ack: 1, ..tcp };
    let edit = |bits: u8, vlan: u8| {
        let mut plan = [7; PLAN_LEN];
        (plan[0], plan[1]) = (bits, vlan);
        plan
    };
    const NO_VLAN: u8 = 3;
    let cases = [
        (edit(1 << 0, NO_VLAN), Fields::SRC_ADDR, Fields::MARKS, tcp),
        (edit(1 << 1, NO_VLAN), Fields::DST_ADDR, Fields::MALFORMED, malformed),
        (edit(1 << 0, NO_VLAN), Fields::ACK, Fields::TCP_SHAPE, error),
        (edit(1 << 0, NO_VLAN), Fields::ACK, Fields::PROTOCOL, error),
        (edit(1 << 4, NO_VLAN), Fields::TTL, Fields::MARKS, tcp),
        (edit(1 << 5, NO_VLAN), Fields::TOS, Fields::MALFORMED, malformed),
        (edit(1 << 2, NO_VLAN), Fields::SRC_PORT, Fields::PROTOCOL, tcp),
        (edit(1 << 2, NO_VLAN), Fields::SRC_PORT, Fields::MARKS, tcp),
        (edit(1 << 3, NO_VLAN), Fields::DST_PORT, Fields::MALFORMED, malformed),
        (edit(1 << 3, NO_VLAN), Fields::DST_PORT, Fields::L3_LEN, long),
        (edit(0, 0), Fields::VLAN, Fields::L3_OFFSET, tcp),
        (edit(0, 0), Fields::MARKS, Fields::L3_OFFSET, tcp),
        (edit(0, 0), Fields::VLAN, Fields::MALFORMED, malformed),
        (edit(0, 0), Fields::VLAN, Fields::VLAN, Headers { vlan: 9, ..malformed }),
    ];
    for (plan, wanted, left_out, headers) in cases {
        let functions = [(plan, Fields::empty()), ([0xff; PLAN_LEN], wanted)];
        let kept = needed(&functions);
        assert_eq!(
            reads_otherwise(&headers, &Headers::default(), kept, &functions, true),
            None,
            "{wanted:?}"
        );
        assert!(kept.contains(left_out), "{wanted:?} needs {left_out:?}");
        let otherwise = reads_otherwise(&headers, &Headers::default(), kept - left_out, &functions, true);
        assert_eq!(otherwise, Some(1), "{wanted:?} without {left_out:?}");
    }
}

proptest! {
    #![proptest_config(crate::cases(40_000))]

    // Those that `apply` has a short way for, and those that nearly are: with a byte changed, or cut.
    #[test]
    fn plain_packets(
        packet in packets::plain(),
        change in proptest::option::of((any::<Index>(), any::<u8>())),
        cut in prop_oneof![Just(0), 0..60_usize],
        checksum in prop_oneof![Just(None), select(&[0_u16, 0xffff, 1, 0xfffe]).prop_map(Some)],
        plan in plan(),
        is_v4 in prop_oneof![4 => Just(true), 1 => Just(false)],
    ) {
        let mut frame = packet.frame;
        let wire_len = frame.len() as u32;
        if let Some((index, byte)) = change {
            *index.get_mut(&mut frame) = byte;
        }
        let l4 = usize::from(packet.headers.l4_offset);
        let at = l4 + if packet.headers.protocol == protocol::TCP { 16 } else { 6 };
        if let Some(checksum) = checksum {
            frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        frame.truncate(frame.len() - cut.min(frame.len()));
        let mut plan = plan;
        plan[1] |= 2; // Half without a VLAN edit.
        let edits = invariants::edits_of(&plan, is_v4);
        invariants::check_edits(&edits, packet.link, &frame, wire_len, (4, 0));
    }
}

proptest! {
    // Two of three packets cannot be cut so.
    #![proptest_config(ProptestConfig { cases: 3_000, max_global_rejects: 100_000, ..Default::default() })]

    #[test]
    fn a_datagram_edited_in_fragments_is_the_datagram_edited(
        packet in packets::any_ip(),
        plan in plan(),
        words in 2..20_usize,
    ) {
        let headers = packet.headers;
        let l4 = usize::from(headers.l4_offset);
        let cut = words * 8;
        let is_v4 = headers.marks.contains(Marks::IPV4);
        // The first fragment has the transport header whole: else its ports cannot be edited. SCTP's
        // never are.
        prop_assume!(is_v4 && cut >= usize::from(headers.l4_header_len()));
        prop_assume!(l4 + cut < packet.frame.len() && headers.protocol != protocol::SCTP);
        let edits = invariants::edits_of(&plan, is_v4);
        let mut fragments = [packet.frame[..l4 + cut].to_vec(), packet.frame.clone()];
        fragments[1].drain(l4..l4 + cut);
        for (fragment, field) in fragments.iter_mut().zip([0x2000, words as u16]) {
            let len = fragment.len() as u16;
            fragment[2..4].copy_from_slice(&len.to_be_bytes());
            fragment[6..8].copy_from_slice(&field.to_be_bytes());
            apply_to(&edits, fragment);
        }
        let mut whole = packet.frame;
        apply_to(&edits, &mut whole);
        let reassembled = [&fragments[0][l4..], &fragments[1][l4..]].concat();
        prop_assert_eq!(&whole[l4..], reassembled);
        prop_assert_eq!(&whole[12..20], &fragments[1][12..20]);
    }
}

fn apply_to(edits: &Edits, packet: &mut [u8]) {
    let headers = parse(LinkType::RawIp, packet, packet.len() as u32);
    let mut range = 0..packet.len();
    apply(edits, &headers, LinkType::RawIp, packet, &mut range).unwrap();
}

/// Edits with every field set.
fn all_set(plan: &[u8; PLAN_LEN]) -> Edits {
    let mut plan = *plan;
    (plan[0], plan[1]) = (0xff, 0);
    invariants::edits_of(&plan, true)
}

proptest! {
    #[test]
    fn cleared_edits_are_none(plan in plan()) {
        let mut edits = all_set(&plan);
        edits.clear();
        prop_assert!(edits.is_empty());
        prop_assert_eq!(edits, Edits::NONE);
        prop_assert_eq!(format!("{edits:?}"), "Edits");
    }

    /// What is left in a field that is not set counts for nothing.
    #[test]
    fn edits_are_what_they_set(plan in plan(), other in plan(), is_v4 in any::<bool>()) {
        let mut once_used = all_set(&other);
        once_used.clear();
        let edits = invariants::edits_of(&plan, is_v4);
        invariants::add_edits(&mut once_used, &plan, is_v4);
        prop_assert_eq!(once_used, edits);
        prop_assert_eq!(format!("{once_used:?}"), format!("{edits:?}"));
    }

    #[test]
    fn undone_edits_are_those_at_the_mark(before in plan(), after in plan(), is_v4 in any::<bool>()) {
        let mut edits = invariants::edits_of(&before, is_v4);
        let (mark, expected) = (edits.mark(), edits);
        invariants::add_edits(&mut edits, &after, !is_v4);
        edits.undo_to(&mark);
        prop_assert_eq!(edits, expected);
    }
}

/// Every single field makes two edits differ, and one of another field does not make them alike.
#[test]
fn edits_that_differ_are_not_equal() {
    let mut plan = [0; PLAN_LEN];
    plan[0] = 0xff;
    let edits = invariants::edits_of(&plan, true);
    for at in 2..54 {
        let mut changed = plan;
        changed[at] = 1;
        let is_value = !matches!(at, 6..18 | 22..34);
        assert_eq!(edits != invariants::edits_of(&changed, true), is_value, "byte {at} of the plan");
    }
    let (mut dst, mut src) = (Edits::NONE, Edits::NONE);
    dst.set_dst(Addr::v4([1, 2, 3, 4]));
    src.set_src(Addr::v4([1, 2, 3, 4]));
    assert_ne!(dst, src);
    assert_eq!((dst.fields(), src.fields()), (Fields::DST_ADDR, Fields::SRC_ADDR));
}
