//! Tests of the analysis, with packets by hand.

use proptest::prelude::*;
use wire::{Addr, Headers, Malformed, Marks, protocol};

use super::Analysis;
use crate::profile::{FlowCounts, FlowShare, Protocols};

/// A UDP packet of flow `flow`: 10.0.0.1 sends to 10.0.1.(flow / 10), from port 1000 + flow.
fn udp(flow: u16) -> Headers {
    Headers {
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 1, (flow / 10) as u8]),
        src_port: 1000 + flow,
        dst_port: 53,
        protocol: protocol::UDP,
        marks: Marks::IPV4,
        ..Headers::default()
    }
}

fn not_ip() -> Headers {
    Headers::default()
}

fn malformed(reason: Malformed) -> Headers {
    Headers { malformed_code: reason as u8, ..udp(0) }
}

/// Analyses packets of 64 bytes, a millisecond apart.
fn analyse(conflict_window: u64, packets: &[Headers]) -> Analysis {
    let mut analysis = Analysis::new(conflict_window);
    for (number, headers) in packets.iter().enumerate() {
        analysis.packet(headers, 64, number as u64 * 1_000_000);
    }
    analysis
}

#[test]
fn of_nothing_everything_is_zero() {
    let profile = Analysis::new(16).profile();
    assert_eq!((profile.packets, profile.bytes, profile.seconds), (0, 0, 0.0));
    assert_eq!((profile.top10_share, profile.conflict_ratio), (0.0, 0.0));
    assert_eq!((profile.top10, profile.flow_size_cdf), (vec![], vec![]));
    assert_eq!((profile.packet_sizes.min_bytes, profile.packet_sizes.mean_bytes), (0, 0.0));
}

#[test]
fn packets_conflict_below_the_window_not_at_it() {
    // Flow 1 at cycles 0, 1, 4, 8: distances 1, 3, 4.
    let packets = [1, 1, 2, 3, 1, 4, 5, 6, 1].map(udp);
    let ratio = |window| analyse(window, &packets).profile().conflict_ratio;
    assert_eq!([1, 2, 3, 4, 5, 16].map(ratio), [0.0, 1.0 / 9.0, 1.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0, 3.0 / 9.0]);
}

#[test]
fn a_coarser_key_conflicts_more() {
    // Four 5-tuples once each, of one address pair.
    let profile = analyse(2, &[1, 2, 3, 4].map(udp)).profile();
    assert_eq!(profile.flows, FlowCounts { five_tuple: 4, address_pair: 1 });
    assert_eq!((profile.conflict_ratio, profile.address_pair.conflict_ratio), (0.0, 0.75));
    assert_eq!(profile.address_pair.top10[0].flow, "10.0.0.1 -> 10.0.1.0");
}

#[test]
fn packets_without_a_flow_take_their_cycle_and_conflict_with_none() {
    let bad = malformed(Malformed::UdpLength);
    let profile = analyse(3, &[udp(1), not_ip(), bad, udp(1), not_ip(), udp(1)]).profile();
    // Distances 3 and 2; of six packets.
    assert_eq!(profile.conflict_ratio, 1.0 / 6.0);
    assert_eq!((profile.packets, profile.packets_in_flows, profile.flows.five_tuple), (6, 3, 1));
    assert_eq!(profile.top10_share, 0.5);
}

#[test]
fn long_packets_keep_the_next_ones_waiting() {
    // They take 2, 1, 16, 1 and 1 cycles, so flow 1 enters at cycles 0, 2, 19 and 20.
    let mut analysis = Analysis::new(17);
    for (flow, wire_len) in [(1, 65), (1, 64), (2, 1_024), (1, 0), (1, 60)] {
        analysis.packet(&udp(flow), wire_len, 0);
    }
    // Distances 2, 17, 1.
    assert_eq!(analysis.profile().conflict_ratio_by_length, 2.0 / 5.0);
    assert_eq!(analysis.profile().conflict_ratio, 3.0 / 5.0);
}

#[test]
fn directions_are_flows_of_their_own() {
    let there = udp(1);
    let back = Headers {
        src: there.dst,
        dst: there.src,
        src_port: there.dst_port,
        dst_port: there.src_port,
        ..there
    };
    let profile = analyse(16, &[there, back, there, back]).profile();
    assert_eq!(profile.flows, FlowCounts { five_tuple: 2, address_pair: 2 });
}

#[test]
fn the_biggest_ten_are_listed_and_ties_go_by_bytes_then_age() {
    let mut analysis = Analysis::new(16);
    // Flow 30 has three packets, 0 to 11 one each; 7 more bytes than its equals.
    for flow in (0..12).rev().chain([30, 30, 30]) {
        analysis.packet(&udp(flow), if flow == 7 { 100 } else { 64 }, 0);
    }
    let profile = analysis.profile();
    let ports: Vec<_> = profile.top10.iter().map(|flow| flow.flow.as_str()).collect();
    let expected = [30, 7, 11, 10, 9, 8, 6, 5, 4, 3]
        .map(|flow| format!("udp 10.0.0.1:{} -> 10.0.1.{}:53", 1000 + flow, flow / 10));
    assert_eq!(ports, expected);
    let biggest = FlowShare { flow: expected[0].clone(), packets: 3, bytes: 192, share: 0.2 };
    assert_eq!(profile.top10[0], biggest);
    assert_eq!(profile.top10_share, 12.0 / 15.0);
}

#[test]
fn the_cdf_has_a_point_for_each_size() {
    // Sizes 1, 1, 2, 4.
    let profile = analyse(16, &[1, 2, 3, 3, 4, 4, 4, 4].map(udp)).profile();
    let points: Vec<_> = profile
        .flow_size_cdf
        .iter()
        .map(|point| (point.packets, point.flows_share, point.packets_share))
        .collect();
    assert_eq!(points, [(1, 0.5, 0.25), (2, 0.75, 0.5), (4, 1.0, 1.0)]);
    assert_eq!([0, 1, 3, 4, 9].map(|size| profile.share_of_flows_up_to(size)), [0.0, 0.5, 0.75, 1.0, 1.0]);
    let quantile = |share| profile.flow_size_quantile(share).map(|point| point.packets);
    assert_eq!([0.0, 0.5, 0.51, 0.76, 1.0].map(quantile), [1, 1, 2, 4, 4].map(Some));
}

#[test]
fn protocols_add_up() {
    let with = |marks, protocol| Headers { marks, protocol, ..udp(1) };
    let packets = [
        with(Marks::IPV4, protocol::TCP),
        with(Marks::IPV4 | Marks::VLAN, protocol::UDP),
        with(Marks::IPV4 | Marks::FIRST_FRAGMENT, protocol::UDP),
        with(Marks::IPV4 | Marks::LATER_FRAGMENT, protocol::UDP),
        with(Marks::IPV4, protocol::ICMP),
        with(Marks::IPV6, protocol::ICMPV6),
        with(Marks::IPV6 | Marks::SNAPPED, protocol::SCTP),
        Headers { marks: Marks::VLAN, l3_offset: 22, ..not_ip() },
        malformed(Malformed::TcpTruncated),
        malformed(Malformed::TcpTruncated),
        malformed(Malformed::LinkTruncated),
    ];
    let profile = analyse(16, &packets).profile();
    let expected = Protocols {
        ipv4: 5,
        ipv6: 2,
        not_ip: 1,
        malformed: 3,
        tcp: 1,
        udp: 2,
        icmp: 1,
        icmpv6: 1,
        other: 1,
        later_fragments: 1,
        fragments: 2,
        vlan: 2,
        qinq: 1,
        snapped: 1,
    };
    assert_eq!(profile.protocols, expected);
    let malformed: Vec<_> =
        profile.malformed.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(malformed, [("link-truncated", 1), ("tcp-truncated", 2)]);
}

#[test]
fn sizes_and_times_span_all_packets_whatever_their_order() {
    let mut analysis = Analysis::new(16);
    for (wire_len, time_ns) in [(64, 5_000_000_000), (65, 2_000_000_000), (1_518, 3_500_000_000), (1_519, 4)]
    {
        analysis.packet(&udp(1), wire_len, time_ns);
    }
    let profile = analysis.profile();
    assert_eq!(profile.seconds, 4.999999996);
    let sizes = profile.packet_sizes;
    assert_eq!((sizes.min_bytes, sizes.mean_bytes, sizes.max_bytes), (64, 791.5, 1_519));
    let counts: Vec<_> = sizes.classes.iter().map(|class| class.packets).collect();
    assert_eq!(counts, [1, 1, 0, 0, 0, 1, 1]);
    assert_eq!(sizes.classes.last().map(|class| (class.from_bytes, class.to_bytes)), Some((1_519, None)));
}

/// Conflicts by the words of the definition: for each packet, look back for one of its flow.
fn naive_conflicts<K: PartialEq>(packets: &[(Option<K>, u64)], window: u64) -> u64 {
    let entry = |number: usize| packets[..number].iter().map(|(_, cycles)| cycles).sum::<u64>();
    let conflicts = |number: &usize| {
        let (key, _) = &packets[*number];
        let previous = (0..*number).rev().find(|earlier| key.is_some() && packets[*earlier].0 == *key);
        previous.is_some_and(|previous| entry(*number) - entry(previous) < window)
    };
    (0..packets.len()).filter(conflicts).count() as u64
}

proptest! {
    #[test]
    fn conflicts_are_those_of_the_naive_model(
        packets in prop::collection::vec((prop::option::weighted(0.9, 0_u16..25), 1_u32..600), 1..120),
        window in 1_u64..40,
    ) {
        let mut analysis = Analysis::new(window);
        for (flow, wire_len) in &packets {
            analysis.packet(&flow.map_or_else(not_ip, udp), *wire_len, 0);
        }
        let model = |cycles: fn(u32) -> u64, key: fn(u16) -> u16| {
            let timed: Vec<_> = packets.iter().map(|(flow, len)| (flow.map(key), cycles(*len))).collect();
            naive_conflicts(&timed, window) as f64 / packets.len() as f64
        };
        let one_cycle = |_| 1;
        let by_length = |len| u64::from(len).div_ceil(64);
        let profile = analysis.profile();
        prop_assert_eq!(profile.conflict_ratio, model(one_cycle, |flow| flow));
        prop_assert_eq!(profile.conflict_ratio_by_length, model(by_length, |flow| flow));
        prop_assert_eq!(profile.address_pair.conflict_ratio, model(one_cycle, |flow| flow / 10));
        prop_assert_eq!(profile.address_pair.conflict_ratio_by_length, model(by_length, |flow| flow / 10));
    }
}

/// The flows that came first are exact; of the others it is known how many there are, roughly, and no more.
#[test]
fn more_flows_than_are_kept_are_estimated() {
    let mut analysis = Analysis::with_flows(16, 100);
    let mut all = Analysis::new(16);
    for round in 0..3 {
        for flow in 0..1_000 {
            analysis.packet(&udp(flow), 64, 0);
            if flow < 100 {
                all.packet(&udp(flow), 64, round);
            }
        }
    }
    let (profile, exact) = (analysis.profile(), all.profile());
    assert_eq!(profile.flows_beyond.map(|beyond| (beyond.kept, beyond.packets)), Some((100, 2_700)));
    assert!((980..=1_020).contains(&profile.flows.five_tuple), "{:?}", profile.flows);
    assert_eq!((profile.packets, profile.packets_in_flows), (3_000, 3_000));
    assert_eq!(profile.flow_size_cdf, exact.flow_size_cdf);
    assert_eq!((exact.flows_beyond, profile.address_pair.flows_beyond), (None, None), "100 pairs are kept");
    let packets =
        |profile: &crate::Profile| profile.top10.iter().map(|flow| flow.packets).collect::<Vec<_>>();
    assert_eq!(packets(&profile), packets(&exact));
}
