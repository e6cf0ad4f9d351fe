//! Tests of the traffic models.

use std::collections::{BTreeMap, HashMap};

use nf::{FiveTuple, FlowKey, NetworkFunction};
use wire::{Headers, LinkType};

use super::*;
use crate::{Analysis, Profile};

mod bytes;
mod connections;
mod options;
mod properties;

fn model(text: &str) -> Model {
    Model::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// All packets, with their times.
fn packets(text: &str) -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    model(text).generate(|time_ns, frame| packets.push((time_ns, frame.to_vec())));
    packets
}

fn parse(frame: &[u8]) -> Headers {
    wire::parse(LinkType::Ethernet, frame, frame.len() as u32)
}

fn profile(text: &str) -> Profile {
    let mut analysis = Analysis::new(1);
    model(text).generate(|time_ns, frame| analysis.packet(&parse(frame), frame.len() as u32, time_ns));
    analysis.profile()
}

/// Packets of each flow, those with the most first.
fn flow_sizes(text: &str) -> Vec<u64> {
    let mut counts: HashMap<FiveTuple, u64> = HashMap::new();
    model(text).generate(|_, frame| *counts.entry(FiveTuple::of(&parse(frame))).or_default() += 1);
    let mut sizes: Vec<u64> = counts.into_values().collect();
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    sizes
}

#[test]
fn uniform_flows_are_alike_and_zipf_flows_are_not() {
    let uniform = flow_sizes("uniform:flows=100,packets=20000");
    assert_eq!(uniform.len(), 100);
    assert!(uniform.iter().all(|count| (120..280).contains(count)), "200 expected: {uniform:?}");

    let zipf = flow_sizes("zipf:flows=1000,a=1,packets=20000");
    // The harmonic number of 1,000 is 7.49: the first flow has 13.4% of packets, the second half of that.
    assert!((2_400..2_950).contains(&zipf[0]), "{}", zipf[0]);
    assert!((1_150..1_550).contains(&zipf[1]), "{}", zipf[1]);
}

#[test]
fn an_elephant_has_its_share() {
    let profile = profile("elephant:flows=101,share=0.3,packets=100000");
    assert!((profile.top10[0].share - 0.3).abs() < 0.01, "{}", profile.top10[0].share);
    // The others have 0.7 / 100 each.
    assert!((profile.top10[1].share - 0.007).abs() < 0.001, "{}", profile.top10[1].share);
    assert_eq!((profile.packets, profile.flows.five_tuple), (100_000, 101));
}

#[test]
fn a_share_of_the_flows_is_ipv6() {
    for text in ["uniform:flows=1000,packets=50000", "datacenter:flows=1000,packets=50000"] {
        let profile = profile(&format!("{text},ipv6-share=0.25"));
        let share = profile.protocols.ipv6 as f64 / profile.packets as f64;
        assert!((share - 0.25).abs() < 0.1, "{text}: {share}");
        assert_eq!(profile.protocols.ipv4 + profile.protocols.ipv6, profile.packets);
    }
    let flood = profile("syn-flood:packets=10000,ipv6-share=0.1");
    assert_eq!(flood.protocols.ipv6, 1_000);
    let all = profile("port-scan:packets=10000,ipv6-share=1,scanners=2");
    assert_eq!(all.protocols.ipv6, all.packets);
}

/// Lengths of runs of one flow, either direction.
fn mean_run(text: &str) -> f64 {
    let keys: Vec<nf::Connection> =
        packets(text).iter().map(|(_, frame)| nf::Connection::of(&parse(frame))).collect();
    let runs = 1 + keys.windows(2).filter(|pair| pair[0] != pair[1]).count();
    keys.len() as f64 / runs as f64
}

#[test]
fn bursts_are_trains_of_one_flow_and_keep_the_rate() {
    for (text, least, most) in [
        // One train in 1,000 is followed by one of the same flow.
        ("uniform:flows=1000,packets=40000,burst=8", 7.5, 8.5),
        ("uniform:flows=1000,packets=40000", 0.99, 1.02),
        // A connection's end cuts its last train.
        ("university:packets=40000,burst=8", 6.0, 12.0),
    ] {
        let mean = mean_run(text);
        assert!((least..most).contains(&mean), "{text}: {mean}");
        let last_ns = packets(text).last().expect("packets").0;
        assert!((3_990_000..4_010_000).contains(&last_ns), "{text}: 40,000 packets at 100 ns: {last_ns}");
    }
}

#[test]
fn a_mix_of_sizes_has_its_weights() {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    let text = "uniform:packets=12000,sizes=60x7+590x4+1514";
    packets(text).iter().for_each(|(_, frame)| *counts.entry(frame.len()).or_default() += 1);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [60, 590, 1_514]);
    assert!(counts[&60].abs_diff(7_000) < 200 && counts[&1_514].abs_diff(1_000) < 150, "{counts:?}");
    // IMIX has frames that IPv6 cannot have; they are as short as it can.
    let shortest =
        packets("uniform:packets=100,sizes=imix,ipv6-share=1").iter().map(|(_, frame)| frame.len()).min();
    assert_eq!(shortest, Some(62));
}

#[test]
fn an_attack_has_the_share_that_is_left() {
    let legit = |text: &str| {
        let is_attack = |frame: &[u8]| {
            let headers = parse(frame);
            let is_data = headers.payload_len() > 0;
            (headers.tcp_flags == wire::tcp_flags::SYN, is_data)
        };
        let kinds: Vec<_> = packets(text).iter().map(|(_, frame)| is_attack(frame)).collect();
        (kinds.len() as u64, kinds.iter().filter(|(is_syn, _)| *is_syn).count() as u64)
    };
    assert_eq!(legit("syn-flood:packets=5000"), (5_000, 5_000));
    // 2,500 SYNs, and those of the 10 connections.
    let (all, syns) = legit("syn-flood:packets=5000,legit=0.5,flows=10");
    assert!((5_000..5_010).contains(&all));
    assert_eq!(syns, 2_510);
    // 1,000 packets of the scan, half of them probes.
    assert_eq!(legit("port-scan:packets=5000,share=0.2,flows=20").1, 520);
    let few = profile("syn-flood:packets=5000,sources=10");
    assert_eq!(few.flows.five_tuple, 10);
}

#[test]
fn the_detector_finds_the_scanners_and_nobody_else() {
    let mut rig = nf::Rig::new(nfs::PortScan::new(nfs::port_scan::Options::default()).expect("defaults"));
    for (time_ns, frame) in packets("port-scan:packets=20000,share=0.1,scanners=3,gap-ns=1000") {
        rig.packet(time_ns, &parse(&frame));
    }
    assert_eq!(rig.event("scanners-found"), 3);
}
