use std::iter;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::report::{
    CoreHistory, FunctionSummary, HistoryReport, ReorderingReport, RunReport, SharedFunction, Verdicts,
};
use engine::{
    ExternalInput, Input, Plan, Registry, RunError, RunOutcome, Seen, Speed, replay_capture, replay_external,
};
use io::Fate;
use io::capture::CaptureWriter;
use strategy::Strategy;
use wire::LinkType;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output::{ALL_MALFORMED, Reports, count, heading, percent, plural, table};
use crate::packets::{self, Packets, Setting};
use crate::session::{self, Bar, INTERRUPTED};
use crate::tables::TableArgs;

pub fn command(args: &RunArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let Setting { chain, mut plan, packets } = packets::prepare(
        &args.chain,
        &args.history,
        args.strategy.0,
        &args.card,
        &TableArgs::default(),
        registry,
    )?;
    plan.egress = args.egress.0;
    let inputs = [vec![args.chain.chain.as_path()], packets.paths()].concat();
    let reports = Reports::open(&inputs, args.out.as_deref(), args.json.as_deref())?;
    let source = Source::open(&packets, args.speed)?;
    let telemetry = args.metrics.as_ref().map(|_| Arc::new(plan.telemetry(&chain)));
    let server = args.metrics.as_ref().zip(telemetry.as_ref());
    // Ends with the run.
    let _server = server.map(|(address, telemetry)| session::serve(address, telemetry)).transpose()?;
    let progress = session::interruptible(telemetry);
    let bar = Bar::new(&chain.name, source.size_bytes());
    let mut out = args.out.as_deref().map(Output::new);
    let mut see = |seen: &Seen<'_>| {
        bar.packet(seen.stamp.seq, &progress);
        match &mut out {
            Some(out) => out.packet(seen),
            None => Ok(()),
        }
    };
    let outcome = match source {
        Source::Capture(input) => replay_capture(&chain, &plan, input, &progress, &mut see),
        Source::External(input) => replay_external(&chain, &plan, input, &progress, &mut see),
    };
    drop(bar);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            if let Some(kept) = out.and_then(Output::keep) {
                eprintln!("note: {kept}");
            }
            return Err(match error {
                RunError::Seen(failure) => failure,
                memory @ RunError::OutOfMemory { .. } => Failure::usage(memory),
                error => Failure::defect(error),
            });
        }
    };
    if outcome.packets == 0 && outcome.input_error.is_some() {
        // Not one packet could be read: there is nothing to report.
        return outcome.input_error.map_or(Ok(ExitCode::SUCCESS), |error| Err(Failure::usage(error)));
    }
    let written = match out {
        None => None,
        // The output is for whole answers: an older one is not overwritten by a part of one.
        Some(out) if outcome.input_error.is_some() || outcome.stopped => out.keep(),
        Some(out) => Some(out.finish()?),
    };

    let report = RunReport::new(&chain, &plan, &outcome);
    if let Some(written) = written.as_ref().filter(|_| !reports.shows_text() && !report.complete) {
        eprintln!("note: {written}");
    }
    reports.write(&report, &render(&report, &plan, written.as_deref()))?;
    exit_status(outcome)
}

fn exit_status(outcome: RunOutcome) -> Result<ExitCode, Failure> {
    match outcome.input_error {
        Some(error) => Err(Failure::cut_short(error)),
        None if outcome.stopped => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Opened packets.
enum Source {
    Capture(Input),
    External(ExternalInput),
}

impl Source {
    fn open(packets: &Packets, speed: Option<Speed>) -> Result<Source, Failure> {
        Ok(match packets {
            Packets::Capture(path) => Source::Capture(Input { reader: session::open(path)?, speed }),
            Packets::External(external) => Source::External(external.open(speed).map_err(Failure::usage)?),
        })
    }

    fn size_bytes(&self) -> Option<u64> {
        match self {
            Source::Capture(input) => input.reader.size_bytes(),
            Source::External(input) => packets::size_bytes(input),
        }
    }
}

/// The capture of packets that leave.
struct Output<'a> {
    path: &'a Path,
    writer: Option<(CaptureWriter, LinkType)>,
    packets: u64,
}

impl<'a> Output<'a> {
    fn new(path: &'a Path) -> Output<'a> {
        Output { path, writer: None, packets: 0 }
    }

    fn packet(&mut self, seen: &Seen<'_>) -> Result<(), Failure> {
        let (writer, link) = match &mut self.writer {
            Some(opened) => opened,
            none => {
                none.insert((CaptureWriter::create(self.path, seen.link).map_err(Failure::usage)?, seen.link))
            }
        };
        if !matches!(seen.fate, Fate::Forward | Fate::TransmitBack) {
            return Ok(());
        }
        if *link != seen.link {
            return Err(Failure::usage(format!(
                "packet {} has link type {:?} and those before it {link:?}: a pcap file holds one\n\
                 Split the input by interface first, or run without --out.",
                seen.stamp.seq + 1,
                seen.link
            )));
        }
        writer.write(seen.stamp.time_ns, seen.wire_len, seen.bytes).map_err(Failure::usage)?;
        self.packets += 1;
        Ok(())
    }

    /// Gives the output its name, and says what was written.
    fn finish(self) -> Result<String, Failure> {
        let writer = match self.writer {
            Some((writer, _)) => writer,
            None => CaptureWriter::create(self.path, LinkType::Ethernet).map_err(Failure::usage)?,
        };
        writer.finish().map_err(Failure::usage)?;
        Ok(format!("{} written to {}", plural(self.packets, "packet"), name_of_output(self.path)))
    }

    /// Leaves the output as it was and the packets of a run that did not reach its end beside it, and
    /// says where. `None` where nothing was begun, or has failed and told so itself.
    fn keep(self) -> Option<String> {
        let (mut writer, _) = self.writer?;
        writer.flush().ok()?;
        let packets = plural(self.packets, "packet");
        let name = name_of_output(self.path);
        Some(match writer.partial() {
            None => format!("{packets} written to {name}"),
            Some(_) if self.packets == 0 => format!("no packet for {name}, which is left as it was"),
            Some(partial) => format!("{packets} kept in {}; {name} is left as it was", partial.display()),
        })
    }
}

fn name_of_output(path: &Path) -> String {
    if path == "-" { "standard output".to_owned() } else { path.display().to_string() }
}

fn render(report: &RunReport, plan: &Plan, written: Option<&str>) -> String {
    let mut text = format!(
        "{}: {} ({} bytes) in {:.3} s, {:.2} Mpps with reading{} (measured), strategy {} on {}\n",
        report.chain,
        plural(report.packets, "packet"),
        count(report.bytes),
        report.seconds,
        report.mpps,
        if written.is_some() { " and writing" } else { "" },
        report.strategy,
        plural(report.cores.len() as u64, "core"),
    );
    if let Some(fields) = plan.hash_fields {
        text += &format!("cores are picked by a hash of {fields} (derived from the functions' keys)\n");
    }
    if !report.shared_functions.is_empty() {
        text += &shared(&report.shared_functions, plan);
    }
    if let Some(written) = written {
        text += &format!("{written}\n");
    }
    if let Some(error) = &report.error {
        text += &format!("INCOMPLETE, this is the report so far: {error}\n");
    }
    text += &notes(report);
    text += &verdicts(report);
    text += &functions(report);
    text += &cores(report);
    if let Some(report) = &report.egress.reordering {
        text += &reordering(report);
    }
    if let Some(report) = &report.history {
        text += &history(report);
    }
    for function in &report.functions {
        text += &own_reports(function);
    }
    text + &format!("\ndigest of all flows: {}\n", report.digest)
}

/// What is shared, and what is promised of it no more.
fn shared(functions: &[SharedFunction], plan: &Plan) -> String {
    let each = |function: &SharedFunction| {
        let holds = match function.promise.as_str() {
            "bound" => "never passes more than it may; which packets, and how many less, is not promised",
            "none" => "nothing is promised: packets of one flow are stepped in no order",
            _ => "records add up; when one begins and ends is not exact",
        };
        format!("`{}` ({holds})", function.function)
    };
    let each: Vec<String> = functions.iter().map(each).collect();
    let why = match plan.strategy {
        Strategy::Shared => "packets are sprayed over the cores",
        _ => "no hash keeps their keys on one core",
    };
    format!("cores share the states of {}: {why}\n", each.join(" and "))
}

/// What a reader should know before the numbers.
fn notes(report: &RunReport) -> String {
    let mut text = String::new();
    if report.packets > 0 && report.malformed.values().sum::<u64>() == report.packets {
        text += ALL_MALFORMED;
    } else if report.packets > 0
        && report.functions.iter().all(|function| function.packets == 0)
        && report.has_ip
    {
        text += "note: no packet was any function's business\n";
    }
    if let Some(history) = &report.history {
        let rejected: u64 = history.rejected.values().sum();
        if report.packets == 0 && rejected > 0 {
            text += "note: every packet was dropped for its history; see the reasons below\n";
        }
        if history.cores.iter().any(|core| core.missed > 0) {
            text += "note: cores missed packets and went on without them: replicas may differ, and verdicts from one \
                     core's state\n";
        }
    }
    for oddity in &report.oddities {
        text += &format!("note: {oddity}\n");
    }
    text
}

fn verdicts(report: &RunReport) -> String {
    let share = |packets: u64| percent(packets as f64 / report.packets.max(1) as f64);
    let Verdicts { forward, drop, transmit_back, host } = report.verdicts;
    let named = [("forward", forward), ("drop", drop), ("transmit back", transmit_back), ("host", host)];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, packets) in named {
        if packets > 0 || matches!(name, "forward" | "drop") {
            rows.push(vec![name.to_owned(), count(packets), share(packets)]);
        }
    }
    let mut text = heading("Verdicts") + &table(&["verdict", "packets", "share"], &rows, 1);
    if !report.drops.is_empty() {
        let row = |(reason, packets): (&String, &u64)| vec![reason.clone(), count(*packets), share(*packets)];
        let mut rows: Vec<_> = report.drops.iter().collect();
        rows.sort_by_key(|(reason, packets)| (std::cmp::Reverse(**packets), (*reason).clone()));
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        text += &(heading("Drops") + &table(&["function/reason", "packets", "share"], &rows, 1));
    }
    let malformed: u64 = report.malformed.values().sum();
    if malformed > 0 && !report.drops.keys().any(|reason| reason.starts_with("malformed/")) {
        let rows: Vec<_> = report.malformed.iter().map(|(why, n)| vec![why.clone(), count(*n)]).collect();
        text += &(heading("Malformed, passed") + &table(&["reason", "packets"], &rows, 1));
    }
    text
}

fn functions(report: &RunReport) -> String {
    let row = |function: &FunctionSummary| {
        let FunctionSummary { name, packets, verdicts, flows, .. } = function;
        let mut row = vec![name.clone()];
        row.extend([*packets, verdicts.forward, verdicts.drop].map(count));
        let ended = flows.removed + flows.expired;
        row.extend([flows.live, flows.created, ended, flows.evicted, flows.rejected].map(count));
        row.push(percent(flows.load));
        row
    };
    let header = [
        "function",
        "packets",
        "forward",
        "drop",
        "flows live",
        "created",
        "ended",
        "evicted",
        "rejected",
        "table load",
    ];
    let rows: Vec<_> = report.functions.iter().map(row).collect();
    heading("Functions") + &table(&header, &rows, 1)
}

fn cores(report: &RunReport) -> String {
    let row = |core: &engine::report::CoreReport| {
        let mut row = vec![core.core.to_string()];
        row.extend(
            [core.packets, core.bytes, core.verdicts.forward, core.verdicts.drop, core.flows].map(count),
        );
        let ns = core.busy_seconds * 1e9 / core.packets.max(1) as f64;
        row.extend([percent(core.share), format!("{ns:.0}")]);
        row
    };
    let header = ["core", "packets", "bytes", "forward", "drop", "flows live", "share", "ns/packet"];
    let rows: Vec<_> = report.cores.iter().map(row).collect();
    heading("Cores") + &table(&header, &rows, 1)
}

/// How far packets left out of order.
pub fn reordering(report: &ReorderingReport) -> String {
    let counts = [report.packets, report.reordered];
    let mut row: Vec<String> = counts.map(count).into();
    row.push(percent(report.ratio));
    // Beyond three TCP takes packets for lost.
    let n3 = report.n_reordered.get(2).copied().unwrap_or(0);
    let extents = [report.extent_p50, report.extent_p99, report.extent_max];
    row.extend([n3, report.reordered_in_flow].into_iter().chain(extents).map(count));
    let header =
        ["left", "reordered", "share", "3-reordered", "in their flow", "extent p50", "p99", "largest"];
    let mut text = heading("Reordering at the egress (RFC 4737)") + &table(&header, &[row], 0);
    if report.extent_at_least > 0 {
        text += &format!(" extents of {} are at least that\n", plural(report.extent_at_least, "packet"));
    }
    text
}

/// What became of packets because of their history.
pub fn history(report: &HistoryReport) -> String {
    let mut text = String::new();
    if !report.rejected.is_empty() {
        let row = |(reason, packets): (&String, &u64)| vec![reason.clone(), count(*packets)];
        let rows: Vec<_> = report.rejected.iter().map(row).collect();
        text += &(heading("Dropped for their history") + &table(&["reason", "packets"], &rows, 1));
    }
    let was_rebuilt = report.cores.iter().any(|core| core.rebuilt > 0);
    let losses: &[&str] = match report.recovery {
        true if was_rebuilt => &["recovered", "lost to all", "rebuilt", "skipped", "overtaken"],
        true => &["recovered", "lost to all"],
        false => &["missed"],
    };
    let row = |core: &CoreHistory| {
        let CoreHistory { recovered, lost_to_all, rebuilt, skipped, overtaken, .. } = *core;
        let lost = match report.recovery {
            true => vec![recovered, lost_to_all, rebuilt, skipped, overtaken],
            false => vec![core.missed],
        };
        let counts = [core.replayed, core.rejected, core.flushes].into_iter().chain(lost);
        iter::once(core.core.to_string()).chain(counts.take(3 + losses.len()).map(count)).collect()
    };
    let header = [&["core", "replayed", "rejected", "flushes"], losses].concat();
    let rows: Vec<Vec<String>> = report.cores.iter().map(row).collect();
    text += &(heading("History") + &table(&header, &rows, 1));
    if was_rebuilt {
        text += " rebuilt: lagged by more than the logs hold, and went on with the state of another core\n";
        text += " skipped: packets that this state had; overtaken: those of them that came, dropped without a verdict\n";
    }
    if report.lost > 0 {
        text += &format!(" {} and flushes lost on purpose\n", plural(report.lost, "packet"));
    }
    text
}

fn own_reports(function: &FunctionSummary) -> String {
    let mut text = String::new();
    let events: Vec<_> = function.events.iter().filter(|(_, n)| **n > 0).collect();
    if !events.is_empty() {
        let rows: Vec<_> = events.into_iter().map(|(event, n)| vec![event.clone(), count(*n)]).collect();
        text += &(heading(&format!("{}: events", function.name)) + &table(&["event", "count"], &rows, 1));
    }
    for report in function.reports.iter().filter(|report| !report.rows.is_empty()) {
        let header: Vec<&str> = report.columns.iter().map(String::as_str).collect();
        text += &heading(&format!("{}: {}", function.name, report.title));
        text += &table(&header, &report.rows, 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn core(core: usize, rebuilt: u64) -> CoreHistory {
        let (skipped, overtaken) = (900 * rebuilt, 250 * rebuilt);
        CoreHistory {
            core,
            replayed: 2_000,
            rejected: 0,
            flushes: 1,
            recovered: 40,
            lost_to_all: 3,
            rebuilt,
            skipped,
            overtaken,
            missed: 7,
        }
    }

    fn report(recovery: bool, rebuilt: u64) -> String {
        let cores = vec![core(0, 0), core(1, rebuilt)];
        history(&HistoryReport { recovery, lost: 0, rejected: BTreeMap::new(), cores })
    }

    /// What did not happen has no columns.
    #[test]
    fn rebuilt_cores_are_told() {
        let text = report(true, 2);
        let row = ["1", "2,000", "0", "1", "40", "3", "2", "1,800", "500"];
        let last = text.lines().find(|line| line.trim_start().starts_with("1 ")).expect("core 1");
        assert_eq!(last.split([' ', '|']).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(), row, "{text}");
        assert!(text.contains("dropped without a verdict"), "{text}");
        assert!(!report(true, 0).contains("rebuilt") && report(true, 0).contains("lost to all"));
        assert!(!report(false, 0).contains("recovered") && report(false, 0).contains("missed"));
    }
}
