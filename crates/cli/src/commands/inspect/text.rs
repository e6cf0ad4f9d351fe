//! The profile of a trace as people read it.

use std::collections::BTreeMap;
use std::path::Path;

use engine::ChecksumSample;
use traffic::Profile;

use super::{chart, rows};
use crate::input::name_of_input;
use crate::output::{ALL_MALFORMED, count, heading, plural, table, wrapped};

/// Flows that are listed where not all is asked for.
const FEW_FLOWS: usize = 5;

/// What stands at the end where not all is asked for.
pub const MORE: &str =
    "\n-v shows more flows, protocols, sizes of flows and packets, checksums, and what the words mean\n";

/// The profile: the most important lines, or with `verbose` all of them.
pub fn render(
    path: &Path,
    profile: &Profile,
    oddities: &[String],
    (is_complete, verbose): (bool, bool),
) -> String {
    let cut = if is_complete { "" } else { " before it breaks off" };
    let name = name_of_input(path);
    let mut text = format!(
        "{name}: {}, {} bytes{}{cut}\n",
        plural(profile.packets, "packet"),
        count(profile.bytes),
        rows::span(profile),
    );
    oddities.iter().for_each(|oddity| text += &format!("note: {oddity}\n"));
    if profile.packets == 0 {
        return text;
    }
    if profile.protocols.malformed == profile.packets {
        text += ALL_MALFORMED;
    }
    text += &flows(profile);
    if verbose {
        text += &words(profile);
    }
    if profile.packets_in_flows > 0 {
        text += &biggest(profile, if verbose { usize::MAX } else { FEW_FLOWS });
        text += &flow_sizes(profile, verbose);
    }
    match verbose {
        true => text + &protocols(profile) + &malformed(profile) + &packet_sizes(profile),
        false => text + &shares(profile) + &malformed(profile),
    }
}

/// The share of each protocol, in a sentence.
fn shares(profile: &Profile) -> String {
    let share = |row: &Vec<String>| format!("{} {}", row[1], row[3]);
    let shares: Vec<String> = rows::protocols(profile).iter().map(share).collect();
    "\n".to_owned() + &wrapped(&format!("{}: {}", rows::PROTOCOLS, shares.join(", ")), "", "  ")
}

/// How many checksums are right, and what a chain makes of that.
pub fn checksums(sample: &ChecksumSample) -> String {
    let what = if sample.verified { "verifies them" } else { "ignores them" };
    heading(rows::CHECKSUMS)
        + &table(&["checksums", "packets"], &rows::checksums(sample), 1)
        + &format!("a chain with checksums = \"auto\" {what}\n")
}

/// What a chain that follows datagrams makes of the capture's fragments; nothing if there are none.
pub fn fragments(all: u64, refused: &BTreeMap<String, u64>) -> String {
    if all == 0 {
        return String::new();
    }
    let rows = rows::fragments(refused);
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

fn flows(profile: &Profile) -> String {
    heading("Flows") + &table(&rows::FLOWS, &rows::flows(profile), 1)
}

/// What the words of the table of flows mean.
fn words(profile: &Profile) -> String {
    format!(
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

fn biggest(profile: &Profile, most: usize) -> String {
    let mut rows = rows::biggest(profile);
    rows.truncate(most);
    heading(rows::BIGGEST) + &table(&["flow", "packets", "bytes", "of all packets"], &rows, 1)
}

fn flow_sizes(profile: &Profile, is_drawn: bool) -> String {
    let max = profile.flow_size_cdf.last().map_or(0, |point| point.packets);
    let chart = || chart::draw(max, |packets| profile.share_of_flows_up_to(packets), "packets");
    let mut text = if is_drawn { heading(rows::FLOW_SIZES) + &chart() } else { "\n".to_owned() };
    rows::flow_sizes(profile).iter().for_each(|sentence| text += &format!(" {sentence}\n"));
    text
}

fn protocols(profile: &Profile) -> String {
    heading(rows::PROTOCOLS) + &table(&["layer", "", "packets", "share"], &rows::protocols(profile), 2)
}

fn malformed(profile: &Profile) -> String {
    if profile.malformed.is_empty() {
        return String::new();
    }
    heading(rows::MALFORMED) + &table(&["reason", "packets", "share"], &rows::malformed(profile), 1)
}

fn packet_sizes(profile: &Profile) -> String {
    heading(&rows::sizes_title(profile)) + &table(&["bytes", "packets", "share"], &rows::sizes(profile), 1)
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
        let text = render(Path::new("a.pcap"), &analysis.profile(), &[], (true, true));
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

    /// Ten flows, each of which has a malformed packet of another kind: what is said at first is 40 lines of 100 columns at most.
    #[test]
    fn what_is_said_at_first_is_short() {
        let mut analysis = Analysis::new(16);
        for flow in 0..10 {
            (0..=flow).for_each(|_| analysis.packet(&udp(flow), 100, 0));
            analysis.packet(&Headers { malformed_code: 1 + flow as u8, ..udp(flow) }, 100, 0);
        }
        let profile = analysis.profile();
        let text = render(Path::new("a.pcap"), &profile, &[], (true, false)) + MORE;
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(text.matches(" -> 10.0.0.2:53 ").count(), FEW_FLOWS, "{text}");
        assert!(text.contains("UDP ") && text.contains(rows::MALFORMED), "{text}");
        assert!(!text.contains("conflict ratio:"), "{text}");
        let all = render(Path::new("a.pcap"), &profile, &[], (true, true));
        assert_eq!(all.matches(" -> 10.0.0.2:53 ").count(), 10, "{all}");
        assert!(all.contains("conflict ratio:"), "{all}");
    }

    #[test]
    fn a_capture_without_flows_or_packets_is_said_to_be_so() {
        let mut analysis = Analysis::new(16);
        assert_eq!(
            render(Path::new("-"), &analysis.profile(), &[], (true, true)),
            "standard input: 0 packets, 0 bytes\n"
        );
        analysis.packet(&Headers::default(), 60, 0);
        let text = render(Path::new("-"), &analysis.profile(), &[], (false, true));
        assert!(text.starts_with("standard input: 1 packet, 60 bytes before it breaks off\n"), "{text}");
        assert!(text.contains(" not IP (ARP, ...)          |       1 | 100.0%\n"), "{text}");
        assert!(!text.contains("Biggest") && !text.contains("Flow sizes"), "{text}");
    }
}
