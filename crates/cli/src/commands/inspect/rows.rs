//! The figures of a profile in rows of words, for the terminal and for the page.

use std::collections::BTreeMap;

use engine::ChecksumSample;
use traffic::{FlowShare, Profile, SizeClass};

use crate::output::{count, percent, plural};

pub const CHECKSUMS: &str = "Checksums of IPv4, TCP, UDP, ICMP";
pub const BIGGEST: &str = "Biggest flows by 5-tuple";
pub const FLOW_SIZES: &str = "Flow sizes: how many of the 5-tuple flows have at most so many packets";
pub const PROTOCOLS: &str = "Protocols, by the outermost headers";
pub const MALFORMED: &str = "Malformed, by the header that cannot be believed";
/// The columns of [`flows`].
pub const FLOWS: [&str; 6] =
    ["flows by", "flows", "packets/flow", "top-10 share", "conflict ratio", "at 64 B/cycle"];

pub fn checksums(sample: &ChecksumSample) -> Vec<Vec<String>> {
    let rows = [
        ("right", sample.right),
        ("wrong", sample.wrong),
        ("of these left to the sender's card", sample.left_to_card),
        ("not to be verified", sample.sampled - sample.right - sample.wrong),
    ];
    rows.iter().map(|(what, packets)| vec![(*what).to_owned(), count(*packets)]).collect()
}

pub fn fragments(refused: &BTreeMap<String, u64>) -> Vec<Vec<String>> {
    refused.iter().map(|(why, packets)| vec![why.clone(), count(*packets)]).collect()
}

/// How long the capture is, and how much it has in a second; nothing if that is no time.
pub fn span(profile: &Profile) -> String {
    if profile.seconds <= 0.0 {
        return String::new();
    }
    let bits_per_second = profile.bytes as f64 * 8.0 / profile.seconds;
    format!(
        " in {:.3} s ({} packets/s, {}bit/s)",
        profile.seconds,
        count((profile.packets as f64 / profile.seconds).round() as u64),
        scaled(bits_per_second),
    )
}

/// `1234567.0` as `1.23 M`, for a unit to follow.
fn scaled(number: f64) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.iter().find(|(scale, _)| number >= *scale) {
        Some((scale, prefix)) => format!("{:.2} {prefix}", number / scale),
        None => format!("{number:.0} "),
    }
}

pub fn flows(profile: &Profile) -> Vec<Vec<String>> {
    let row = |key: &str, flows: u64, top10_share: f64, ratios: [f64; 2]| {
        let packets_per_flow = profile.packets_in_flows as f64 / flows.max(1) as f64;
        let mut row = vec![key.to_owned(), count(flows), format!("{packets_per_flow:.1}")];
        row.extend([top10_share, ratios[0], ratios[1]].map(percent));
        row
    };
    let pair = &profile.address_pair;
    vec![
        row(
            "5-tuple",
            profile.flows.five_tuple,
            profile.top10_share,
            [profile.conflict_ratio, profile.conflict_ratio_by_length],
        ),
        row(
            "address pair",
            profile.flows.address_pair,
            pair.top10_share,
            [pair.conflict_ratio, pair.conflict_ratio_by_length],
        ),
    ]
}

pub fn biggest(profile: &Profile) -> Vec<Vec<String>> {
    let row = |flow: &FlowShare| {
        vec![flow.flow.clone(), count(flow.packets), count(flow.bytes), percent(flow.share)]
    };
    profile.top10.iter().map(row).collect()
}

/// How many packets flows have, in sentences.
pub fn flow_sizes(profile: &Profile) -> Vec<String> {
    let max = profile.flow_size_cdf.last().map_or(0, |point| point.packets);
    let quantile = |share| profile.flow_size_quantile(share).map_or(0, |point| point.packets);
    let mut sentences = vec![format!(
        "50% of flows have at most {}, 90% at most {}, 99% at most {}; the biggest has {}.",
        plural(quantile(0.5), "packet"),
        count(quantile(0.9)),
        count(quantile(0.99)),
        count(max),
    )];
    if let Some(point) = profile.flow_size_quantile(0.99).filter(|point| point.packets < max) {
        sentences.push(format!(
            "Those of more than {} are {} of flows and carry {} of the packets in flows.",
            count(point.packets),
            percent(1.0 - point.flows_share),
            percent(1.0 - point.packets_share),
        ));
    }
    sentences
}

pub fn protocols(profile: &Profile) -> Vec<Vec<String>> {
    let protocols = &profile.protocols;
    let rows = [
        ("network", "IPv4", protocols.ipv4),
        ("", "IPv6", protocols.ipv6),
        ("", "not IP (ARP, ...)", protocols.not_ip),
        ("", "malformed", protocols.malformed),
        ("transport", "TCP", protocols.tcp),
        ("", "UDP", protocols.udp),
        ("", "ICMP", protocols.icmp),
        ("", "ICMPv6", protocols.icmpv6),
        ("", "other", protocols.other),
        ("", "none: later fragment", protocols.later_fragments),
        ("of all", "fragments, first and later", protocols.fragments),
        ("", "VLAN-tagged", protocols.vlan),
        ("", "tagged twice (QinQ)", protocols.qinq),
        ("", "cut by the capture", protocols.snapped),
    ];
    let is_shown =
        |(what, packets): (&str, u64)| packets > 0 || ["IPv4", "IPv6", "TCP", "UDP"].contains(&what);
    rows.into_iter()
        .filter(|(layer, what, packets)| !layer.is_empty() || is_shown((what, *packets)))
        .map(|(layer, what, packets)| {
            vec![layer.to_owned(), what.to_owned(), count(packets), of(packets, profile)]
        })
        .collect()
}

pub fn malformed(profile: &Profile) -> Vec<Vec<String>> {
    let row =
        |(reason, packets): (&String, &u64)| vec![reason.clone(), count(*packets), of(*packets, profile)];
    profile.malformed.iter().map(row).collect()
}

pub fn sizes_title(profile: &Profile) -> String {
    let sizes = &profile.packet_sizes;
    let most = count(sizes.max_bytes.into());
    format!(
        "Packet sizes on the wire: {} to {most} bytes, {:.1} on average",
        sizes.min_bytes, sizes.mean_bytes
    )
}

pub fn sizes(profile: &Profile) -> Vec<Vec<String>> {
    let class = |from_bytes: u32, to_bytes: Option<u32>| match (from_bytes, to_bytes) {
        (0, Some(to)) => format!("up to {to}"),
        (from, Some(to)) => format!("{} to {}", count(from.into()), count(to.into())),
        (from, None) => format!("{} and more", count(from.into())),
    };
    let row = |size: &SizeClass| {
        vec![class(size.from_bytes, size.to_bytes), count(size.packets), of(size.packets, profile)]
    };
    profile.packet_sizes.classes.iter().map(row).collect()
}

/// The share of all packets; what there is never reads as nothing.
fn of(packets: u64, profile: &Profile) -> String {
    match packets as f64 / profile.packets.max(1) as f64 {
        share if packets > 0 && share < 0.0005 => "<0.1%".to_owned(),
        share => percent(share),
    }
}
