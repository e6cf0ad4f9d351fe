//! `paceline inspect`: what is in a capture.

mod chart;
mod inspection;
mod page;
mod rows;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use engine::report::{TimeRanBack, skipped};
use engine::{ChecksumSample, Checksums, FragmentTracker, Oddities, Progress, Registry};
use io::capture::{CaptureError, CaptureReader};
use traffic::{Analysis, Beyond, Profile};
use wire::{Malformed, Stamper};

pub use self::inspection::Inspection;
use crate::failure::Failure;
use crate::input::open_capture;
use crate::output::{self, Reports};
use crate::progress::{Bar, go_on, interruptible};

#[derive(Args)]
pub struct InspectArgs {
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: PathBuf,
    /// Packets of one flow conflict if fewer than this many cycles apart, one packet a cycle
    #[arg(long, short = 'n', value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// Show all: ten flows, protocols, sizes of flows and packets, checksums, and what the words mean
    #[arg(long, short)]
    pub verbose: bool,
    /// Write the result as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with findings, charts and tables. One file that needs no other, with the JSON in it
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

pub fn command(args: &InspectArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let documents = [("--json", args.json.as_deref()), ("--report", args.report.as_deref())];
    let reports = Reports::open_documents(&[&args.pcap], &documents)?;
    let mut reader = open_capture(&args.pcap)?;
    let progress = interruptible(None);
    let ChecksumSample { verified, decided_by, .. } = Checksums::Auto.decide(&mut reader);
    let Analysed { profile, oddities, checksums, fragments, error: input_error } =
        analyse(reader, args.window, verified, &progress)?;
    let input_error = match input_error {
        Some(error) if profile.packets == 0 => return Err(Failure::usage(error)),
        other => other,
    };
    let sentences = [oddities.sentences(), too_many(&profile)].concat();
    let inspection = Inspection {
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        profile,
        oddities: sentences,
        skipped: skipped(&oddities.remarks),
        time_ran_back: TimeRanBack::new(oddities.ran_back),
        checksums: ChecksumSample { verified, decided_by, ..checksums },
        fragments,
        complete: input_error.is_none(),
        error: input_error.as_ref().map(CaptureError::to_string),
    };
    let shown = (inspection.complete, args.verbose);
    let mut text = text::render(&args.pcap, &inspection.profile, &inspection.oddities, shown);
    if args.verbose || inspection.checksums.wrong > 0 {
        text += &text::checksums(&inspection.checksums);
    }
    text += &text::fragments(inspection.profile.protocols.fragments, &inspection.fragments);
    if !args.verbose && inspection.profile.packets > 0 {
        text += text::MORE;
    }
    let json = output::json(&inspection)?;
    reports.write_documents(&[&|| json.clone(), &|| page::render(&args.pcap, &inspection)], &text)?;
    match input_error {
        Some(error) => Err(Failure::cut_short(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What is not exact since there are more flows than are kept, in a sentence for each key.
fn too_many(profile: &Profile) -> Vec<String> {
    let keys = [("5-tuple", profile.flows_beyond), ("address pair", profile.address_pair.flows_beyond)];
    let sentence = |(key, beyond): (&str, Option<Beyond>)| {
        let Beyond { kept, packets } = beyond?;
        let kept_packets = profile.packets_in_flows - packets;
        Some(format!(
            "more than {kept} flows by {key}: how many there are is an estimate, within some 2%; biggest flows, flow sizes and \
             conflicts are those of the {kept} that came first, which have {kept_packets} of {} packets in flows",
            profile.packets_in_flows
        ))
    };
    keys.into_iter().filter_map(sentence).collect()
}

/// What a capture's packets come to.
struct Analysed {
    profile: Profile,
    oddities: Oddities,
    checksums: ChecksumSample,
    /// By reason: see [`Inspection::fragments`].
    fragments: BTreeMap<String, u64>,
    /// Why there are no more, if not because the capture ends.
    error: Option<CaptureError>,
}

/// Looks at every whole packet of the capture, unless it is told to stop. `verifies` says whether packets with wrong checksums count as malformed.
fn analyse(
    mut reader: CaptureReader,
    conflict_window: u64,
    verifies: bool,
    progress: &Progress,
) -> Result<Analysed, Failure> {
    let bar = Bar::new("inspecting", reader.size_bytes());
    let mut analysis = Analysis::new(conflict_window);
    let (mut stamper, mut oddities) = (Stamper::default(), Oddities::default());
    let mut checksums = ChecksumSample::default();
    let (mut tracker, mut fragments) = (FragmentTracker::new(), BTreeMap::new());
    let mut packets = 0;
    let error = loop {
        match reader.next() {
            Ok(Some(record)) => {
                let headers = wire::parse(record.link, record.data, record.wire_len);
                let verified = wire::verify(record.data, &headers);
                checksums.add(verified);
                analysis.packet(&headers, record.wire_len, record.time_ns);
                let stamp = stamper.stamp(record.time_ns);
                let is_believed = !verifies || !matches!(verified, wire::Checksums::Wrong { .. });
                if is_believed && let Some(fragment) = wire::fragment(record.data, &headers) {
                    let refused = tracker.check(&fragment, stamp.time_ns);
                    refused.iter().for_each(|why| *fragments.entry(why.name().to_owned()).or_default() += 1);
                }
                oddities.has_ip |= headers.is_ip() || !headers.is_well_formed();
                oddities.mapped += u64::from(headers.malformed_code == Malformed::MappedAddress as u8);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        progress.read_bytes.store(reader.position_bytes(), Ordering::Relaxed);
        bar.packet(packets, progress);
        go_on(&progress.stop)?;
        packets += 1;
    };
    oddities = Oddities { packets, remarks: reader.remarks(), ran_back: stamper.ran_back(), ..oddities };
    Ok(Analysed { profile: analysis.profile(), oddities, checksums, fragments, error })
}

#[cfg(test)]
mod tests {
    use wire::{Addr, Headers, Marks, protocol};

    use super::*;

    #[test]
    fn more_flows_than_are_kept_are_said_to_be() {
        let mut analysis = Analysis::with_flows(16, 4);
        for flow in 0..9 {
            let (protocol, marks) = (protocol::UDP, Marks::IPV4);
            let src = Addr::v4([10, 0, 0, 1]);
            analysis.packet(
                &Headers { src, dst: src, src_port: flow, protocol, marks, ..Headers::default() },
                64,
                0,
            );
        }
        let said = too_many(&analysis.profile());
        assert_eq!(said.len(), 1, "there is one address pair");
        assert!(
            said[0].starts_with("more than 4 flows by 5-tuple") && said[0].contains("4 of 9 packets"),
            "{said:?}"
        );
    }
}
