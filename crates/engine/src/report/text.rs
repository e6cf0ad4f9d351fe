//! Reports as text, for people: what `paceline run` prints.

use std::fmt;
use std::iter;

use crate::path::checks::Fragments;
use crate::report::changes::ChangesReport;
use crate::report::history::{CoreHistory, HistoryReport, ReorderingReport};
use crate::report::moves::MovesReport;
use crate::report::words::percent;
use crate::report::words::{ALL_MALFORMED, count, heading, plural, table};
use crate::report::{
    ChecksumReport, CoreReport, FragmentReport, FunctionSummary, InterfaceReport, RoutingReport, RunReport,
    SharedFunction, Verdicts,
};

impl RunReport {
    /// What `paceline run` prints; `written` says to which file it wrote the packets that left.
    pub fn text(&self, written: Option<&str>) -> String {
        let how = match (self.interfaces.as_slice(), written) {
            ([], None) => format!(", {:.2} Mpps with reading (measured)", self.mpps),
            ([], Some(_)) => format!(", {:.2} Mpps with reading and writing (measured)", self.mpps),
            (interfaces, _) => {
                let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
                format!(" on {}", names.join(" and "))
            }
        };
        let mut text = format!(
            "{}: {} ({} bytes) in {:.3} s{how}, strategy {} on {}\n",
            self.chain,
            plural(self.packets, "packet"),
            count(self.bytes),
            self.seconds,
            self.strategy,
            plural(self.cores.len() as u64, "core"),
        );
        if let Some(sides) = &self.sides {
            text += &format!(
                "two directions: {} from inside ({}) in the order of the file, {} from outside in reverse\n",
                plural(self.packets - sides.packets_from_outside, "packet"),
                sides.inside,
                count(sides.packets_from_outside),
            );
        }
        if !self.hash_fields.is_empty() {
            let fields = self.hash_fields.join(", ");
            text += &format!("cores are picked by a hash of {fields} (derived from the functions' keys)\n");
        }
        if !self.shared_functions.is_empty() {
            text += &shared(&self.shared_functions, &self.strategy);
        }
        text += &self.seed.text();
        text += &checksums(self);
        text += &fragments(self.fragments);
        if let Some(written) = written {
            text += &format!("{written}\n");
        }
        if let Some(error) = &self.error {
            text += &format!("INCOMPLETE, this is the report so far: {error}\n");
        }
        self.reloads.iter().for_each(|reload| text += &reload.text());
        text += &self.changes.as_ref().map(ChangesReport::text).unwrap_or_default();
        text += &notes(self);
        text += &interfaces(&self.interfaces);
        text += &self.routing.as_ref().map(routing).unwrap_or_default();
        text += &verdicts(self);
        text += &functions(self);
        text += &cores(self);
        let moves = self.moves.iter().map(MovesReport::text).filter(|moves| !moves.is_empty());
        moves.for_each(|moves| text += &format!("\n{moves}\n"));
        if let Some(report) = &self.egress.reordering {
            text += &reordering(report);
        }
        if let Some(report) = &self.history {
            text += &history(report);
        }
        for function in &self.functions {
            text += &own_reports(function);
        }
        text + &format!("\ndigest of all flows: {}\n", self.digest)
    }
}

/// What `paceline run` prints, without the end of the last line.
impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(None).trim_end())
    }
}

/// A table under its heading.
impl fmt::Display for ReorderingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reordering(self))
    }
}

/// Tables under their headings.
impl fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&history(self))
    }
}

/// Whether they were verified, and what could not be.
fn checksums(report: &RunReport) -> String {
    let ChecksumReport { sample, unverifiable, .. } = &report.checksums;
    let mut text = match report.interfaces.is_empty() || sample.verified {
        true => format!("checksums: {}\n", sample.describe()),
        false => {
            "checksums: not verified (cards and kernels do; `checksums = \"verify\"` has it done here)\n"
                .to_owned()
        }
    };
    if *unverifiable > 0 {
        text += &format!(
            "{} passed unverified: the capture cut them, or they are fragments\n",
            plural(*unverifiable, "packet")
        );
    }
    text
}

/// What became of fragments, where they do not just pass.
fn fragments(FragmentReport { policy, refused }: FragmentReport) -> String {
    match policy {
        Fragments::Pass => String::new(),
        Fragments::Drop => format!("fragments: all malformed ({})\n", plural(refused, "packet")),
        Fragments::Track => format!("fragments: tracked, {} malformed\n", count(refused)),
    }
}

/// What interfaces received and sent.
fn interfaces(all: &[InterfaceReport]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |interface: &InterfaceReport| {
        let lost = interface.lost.iter().map(|(reason, count)| format!("{reason} {}", self::count(*count)));
        let lost: Vec<String> = lost.collect();
        vec![
            interface.name.clone(),
            count(interface.received),
            count(interface.received_bytes),
            count(interface.sent),
            count(interface.sent_bytes),
            if lost.is_empty() { "none".to_owned() } else { lost.join(", ") },
        ]
    };
    let header = ["interface", "received", "bytes", "sent", "bytes", "lost"];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let completed = all.iter().filter(|interface| interface.completed > 0);
    let completed = completed.map(|of| format!("{} of {}", count(of.completed), of.name));
    let completed = match completed.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!("checksums left to a card and computed here: {some}\n"),
    };
    format!("\n{}{completed}", table(&header, &rows, 1))
}

/// What a router did.
fn routing(report: &RoutingReport) -> String {
    let mut text = format!("routed: {} sent on", plural(report.sent, "packet"));
    if report.hairpins > 0 {
        text += &format!(" ({} by the interface that they came by)", count(report.hairpins));
    }
    text += &format!(", {} for this host", count(report.host));
    let dropped = report.dropped.iter().map(|(reason, packets)| format!(", {} {reason}", count(*packets)));
    text += &dropped.collect::<String>();
    text += &format!("; {} sent", plural(report.icmp_errors, "ICMP error"));
    if report.icmp_errors_limited > 0 {
        text += &format!(", {} held back by a rate limit", count(report.icmp_errors_limited));
    }
    text + "\n"
}

/// What is shared, and what is promised of it no more.
fn shared(functions: &[SharedFunction], strategy: &str) -> String {
    let each = |function: &SharedFunction| {
        let holds = match function.promise.as_str() {
            "bound" => "never passes more than it may; which packets, and how many less, is not promised",
            "none" => "nothing is promised: packets of one flow are stepped in no order",
            _ => "records add up; when one begins and ends is not exact",
        };
        format!("`{}` ({holds})", function.function)
    };
    let each: Vec<String> = functions.iter().map(each).collect();
    let why = match strategy {
        "shared" => "packets are sprayed over the cores",
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
    for function in &report.functions {
        if let Some(hint) = &function.hint {
            text += &format!("note: {}: {hint}\n", function.name);
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
    let is_passed = |why: &String| !report.drops.contains_key(&format!("malformed/{why}"));
    if malformed > 0 && report.malformed.keys().any(is_passed) {
        let passed = report.malformed.iter().filter(|(why, _)| is_passed(why));
        let rows: Vec<_> = passed.map(|(why, n)| vec![why.clone(), count(*n)]).collect();
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
    let row = |core: &CoreReport| {
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
fn reordering(report: &ReorderingReport) -> String {
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
fn history(report: &HistoryReport) -> String {
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
