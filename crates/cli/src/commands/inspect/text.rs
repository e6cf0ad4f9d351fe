//! The profile of a trace as people read it.

use std::collections::BTreeMap;
use std::path::Path;

use engine::ChecksumSample;
use traffic::Profile;

use super::chart;
use crate::input::name_of_input;
use crate::output::{ALL_MALFORMED, count, heading, percent, plural, table};

pub fn render(path: &Path, profile: &Profile, oddities: &[String], is_complete: bool) -> String {
    let cut = if is_complete { "" } else { " before it breaks off" };
    let name = name_of_input(path);
    let mut text = format!(
        "{name}: {}, {} bytes{}{cut}\n",
        plural(profile.packets, "packet"),
        count(profile.bytes),
        span(profile),
    );
    oddities.iter().for_each(|oddity| text += &format!("note: {oddity}\n"));
    if profile.packets == 0 {
        return text;
    }
    if profile.protocols.malformed == profile.packets {
        text += ALL_MALFORMED;
    }
    text += &flows(profile);
    if profile.packets_in_flows > 0 {
        text += &biggest(profile);
        text += &flow_sizes(profile);
    }
    text + &protocols(profile) + &malformed(profile) + &packet_sizes(profile)
}

/// How many checksums are right, and what a chain makes of that.
pub fn checksums(sample: &ChecksumSample) -> String {
    let rows = [
        ("right", sample.right),
        ("wrong", sample.wrong),
        ("of these left to the sender's card", sample.left_to_card),
        ("not to be verified", sample.sampled - sample.right - sample.wrong),
    ];
    let rows: Vec<_> = rows.iter().map(|(what, packets)| vec![(*what).to_owned(), count(*packets)]).collect();
    let what = if sample.verified { "verifies them" } else { "ignores them" };
    heading("Checksums of IPv4, TCP, UDP, ICMP")
        + &table(&["checksums", "packets"], &rows, 1)
        + &format!("a chain with checksums = \"auto\" {what}\n")
}

/// What a chain that follows datagrams makes of the capture's fragments; nothing if there are none.
pub fn fragments(all: u64, refused: &BTreeMap<String, u64>) -> String {
    if all == 0 {
        return String::new();
    }
    let rows: Vec<_> = refused.iter().map(|(why, packets)| vec![why.clone(), count(*packets)]).collect();
    let table = if rows.is_empty() { String::new() } else { table(&["malformed", "packets"], &rows, 1) };
    let sum = refused.values().sum();
    heading("Fragments")
        + &table
        + &format!(
            "a chain with fragments = \"track\" finds {} of {} malformed\n",
            count(sum),
            plural(all, "fragment")
        )
}

fn span(profile: &Profile) -> String {
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

fn flows(profile: &Profile) -> String {
    let row = |key: &str, flows: u64, top10_share: f64, ratios: [f64; 2]| {
        let packets_per_flow = profile.packets_in_flows as f64 / flows.max(1) as f64;
        let mut row = vec![key.to_owned(), count(flows), format!("{packets_per_flow:.1}")];
        row.extend([top10_share, ratios[0], ratios[1]].map(percent));
        row
    };
    let pair = &profile.address_pair;
    let rows = [
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
    ];
    let header = ["flows by", "flows", "packets/flow", "top-10 share", "conflict ratio", "at 64 B/cycle"];
    heading("Flows")
        + &table(&header, &rows, 1)
        + &format!(
            " flow: what goes one way between two ends; later fragments, without ports, are flows of their own.\n \
             packets in no flow: {}, which are not IP or malformed.\n \
             top-10 share: of all packets, those of the ten biggest flows.\n \
             conflict ratio: of all packets, those that come fewer than {} cycles after the one before of\n  \
             their flow, if all are fed back to back into a pipeline that takes one packet a cycle; in the\n  \
             last column 64 bytes a cycle, as RAPID counts (NSDI'24, section 2.3 and table 8). Such a\n  \
             packet may meet state not yet updated. --window sets the cycles.\n",
            count(profile.packets - profile.packets_in_flows),
            profile.conflict_window
        )
}

fn biggest(profile: &Profile) -> String {
    let rows: Vec<_> = profile
        .top10
        .iter()
        .map(|flow| vec![flow.flow.clone(), count(flow.packets), count(flow.bytes), percent(flow.share)])
        .collect();
    heading("Biggest flows by 5-tuple") + &table(&["flow", "packets", "bytes", "of all packets"], &rows, 1)
}

fn flow_sizes(profile: &Profile) -> String {
    let max = profile.flow_size_cdf.last().map_or(0, |point| point.packets);
    let chart = chart::draw(max, |packets| profile.share_of_flows_up_to(packets), "packets");
    let quantile = |share| profile.flow_size_quantile(share).map_or(0, |point| point.packets);
    let mut text = heading("Flow sizes: how many of the 5-tuple flows have at most so many packets") + &chart;
    text += &format!(
        " 50% of flows have at most {}, 90% at most {}, 99% at most {}; the biggest has {}.\n",
        plural(quantile(0.5), "packet"),
        count(quantile(0.9)),
        count(quantile(0.99)),
        count(max),
    );
    if let Some(point) = profile.flow_size_quantile(0.99).filter(|point| point.packets < max) {
        text += &format!(
            " Those of more than {} are {} of flows and carry {} of the packets in flows.\n",
            count(point.packets),
            percent(1.0 - point.flows_share),
            percent(1.0 - point.packets_share),
        );
    }
    text
}

fn protocols(profile: &Profile) -> String {
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
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|(layer, what, packets)| !layer.is_empty() || is_shown((what, *packets)))
        .map(|(layer, what, packets)| {
            vec![layer.to_owned(), what.to_owned(), count(packets), of(packets, profile)]
        })
        .collect();
    heading("Protocols, by the outermost headers") + &table(&["layer", "", "packets", "share"], &rows, 2)
}

fn malformed(profile: &Profile) -> String {
    if profile.malformed.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = profile
        .malformed
        .iter()
        .map(|(reason, packets)| vec![reason.clone(), count(*packets), of(*packets, profile)])
        .collect();
    heading("Malformed, by the header that cannot be believed")
        + &table(&["reason", "packets", "share"], &rows, 1)
}

fn packet_sizes(profile: &Profile) -> String {
    let sizes = &profile.packet_sizes;
    let class = |from_bytes: u32, to_bytes: Option<u32>| match (from_bytes, to_bytes) {
        (0, Some(to)) => format!("up to {to}"),
        (from, Some(to)) => format!("{} to {}", count(from.into()), count(to.into())),
        (from, None) => format!("{} and more", count(from.into())),
    };
    let rows: Vec<_> = sizes
        .classes
        .iter()
        .map(|size| {
            vec![class(size.from_bytes, size.to_bytes), count(size.packets), of(size.packets, profile)]
        })
        .collect();
    heading(&format!(
        "Packet sizes on the wire: {} to {} bytes, {:.1} on average",
        sizes.min_bytes,
        count(sizes.max_bytes.into()),
        sizes.mean_bytes
    )) + &table(&["bytes", "packets", "share"], &rows, 1)
}

/// The share of all packets; what there is never reads as nothing.
fn of(packets: u64, profile: &Profile) -> String {
    match packets as f64 / profile.packets.max(1) as f64 {
        share if packets > 0 && share < 0.0005 => "<0.1%".to_owned(),
        share => percent(share),
    }
}

#[cfg(test)]
mod tests {
    use traffic::Analysis;
    use wire::{Addr, Headers, Malformed, Marks, protocol};

    use super::*;

    fn udp(src_port: u16) -> Headers {
        let (src, dst) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        Headers {
            src,
            dst,
            src_port,
            dst_port: 53,
            protocol: protocol::UDP,
            marks: Marks::IPV4,
            ..Headers::default()
        }
    }

    #[test]
    fn every_number_has_its_word() {
        let mut analysis = Analysis::new(16);
        let malformed = Headers { malformed_code: Malformed::UdpLength as u8, ..udp(1) };
        for (seconds, headers) in [udp(1), udp(1), udp(2), malformed].iter().enumerate() {
            analysis.packet(headers, 100, seconds as u64 * 1_000_000_000);
        }
        let text = render(Path::new("a.pcap"), &analysis.profile(), &[], true);
        for line in [
            "a.pcap: 4 packets, 400 bytes in 3.000 s (1 packets/s, 1.07 kbit/s)\n",
            "  5-tuple      |     2 |          1.5 |        75.0% |          25.0% |         25.0%\n",
            "  address pair |     1 |          3.0 |        75.0% |          50.0% |         50.0%\n",
            " packets in no flow: 1, which are not IP or malformed.\n",
            "  udp 10.0.0.1:1 -> 10.0.0.2:53 |       2 |   200 |          50.0%\n",
            " 50% of flows have at most 1 packet, 90% at most 2, 99% at most 2; the biggest has 2.\n",
            "  udp-length |       1 | 25.0%\n",
            "  65 to 127      |       4 | 100.0%\n",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn a_capture_without_flows_or_packets_is_said_to_be_so() {
        let mut analysis = Analysis::new(16);
        assert_eq!(
            render(Path::new("-"), &analysis.profile(), &[], true),
            "standard input: 0 packets, 0 bytes\n"
        );
        analysis.packet(&Headers::default(), 60, 0);
        let text = render(Path::new("-"), &analysis.profile(), &[], false);
        assert!(text.starts_with("standard input: 1 packet, 60 bytes before it breaks off\n"), "{text}");
        assert!(text.contains(" not IP (ARP, ...)          |       1 | 100.0%\n"), "{text}");
        assert!(!text.contains("Biggest") && !text.contains("Flow sizes"), "{text}");
    }
}
