//! Reports as text, for people: what `paceline run` prints.

use std::fmt;
use std::iter;

use crate::path::checks::Fragments;
use crate::report::columns::humane;
use crate::report::history::{CoreHistory, HistoryReport, ReorderingReport};
use crate::report::moves::MovesReport;
use crate::report::section::{Detail, Rank, SUMMARY_LINES, Section, fit, height};
use crate::report::words::{ALL_MALFORMED, bytes, count, duration, percent, plural};
use crate::report::{
    AnswersReport, ChecksumReport, CoreReport, FragmentReport, FunctionSummary, InterfaceReport,
    RoutingReport, RunReport, SharedFunction, Verdicts,
};

impl RunReport {
    /// What `paceline run` prints; `written` says to which file it wrote the packets that left. Lines of a table are at
    /// most [`WIDTH`](crate::text::WIDTH) wide; sentences are not broken into lines.
    pub fn text(&self, written: Option<&str>, detail: Detail) -> String {
        let lead = self.lead(written, detail);
        let about = format!("\n{}digest of all flows: {}\n", self.about(), self.digest);
        let sections = self.sections(detail);
        if detail == Detail::Full {
            let sections: String = sections.iter().map(Section::full).collect();
            return lead + &sections + &about;
        }
        let all: usize = sections.iter().map(|section| height(&section.full())).sum();
        // Two lines say what is left out.
        let room = SUMMARY_LINES.saturating_sub(height(&lead) + height(&about) + 2);
        let (sections, left_out) = fit(sections, room);
        let more = match left_out.as_slice() {
            [] if height(&sections) == all => "-v shows more: each core\n".to_owned(),
            [] => "-v shows more: each core, all rows and columns\n".to_owned(),
            names => format!("-v shows more: each core; {}\n", names.join("; ")),
        };
        lead + &sections + &about + &more
    }

    /// What was run, what became of the packets, and what a reader should know before the numbers, in lines.
    pub fn lead(&self, written: Option<&str>, detail: Detail) -> String {
        let how = match (self.interfaces.as_slice(), written) {
            ([], None) => format!(", {:.2} Mpps with reading (measured)", self.mpps),
            ([], Some(_)) => format!(", {:.2} Mpps with reading and writing (measured)", self.mpps),
            (interfaces, _) => {
                let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
                format!(" on {}", names.join(" and "))
            }
        };
        let mut text = format!(
            "{}: {} ({}) in {}{how}, {} on {}\n",
            self.chain,
            plural(self.packets, "packet"),
            bytes(self.bytes as f64),
            duration(self.seconds),
            self.strategy,
            plural(self.cores.len() as u64, "core"),
        );
        if let Some(error) = &self.error {
            text += &format!("INCOMPLETE, this is the report so far: {error}\n");
        }
        text += &verdicts(self);
        if detail == Detail::Summary {
            text += &cores_in_short(self);
        }
        if let Some(written) = written {
            text += &format!("{written}\n");
        }
        if !self.shared_functions.is_empty() {
            text += &shared(&self.shared_functions, &self.strategy);
        }
        let earlier = match detail {
            Detail::Summary => self.reloads.len().saturating_sub(RELOADS),
            Detail::Full => 0,
        };
        if earlier > 0 {
            text += &format!("{} before these\n", plural(earlier as u64, "reload"));
        }
        self.reloads[earlier..].iter().for_each(|reload| text += &reload.text());
        let changes = self.changes.as_ref().map(|changes| match detail {
            Detail::Summary if changes.phases.len() > PHASES => changes.summary(),
            _ => changes.text(),
        });
        text + &changes.unwrap_or_default() + &notes(self)
    }

    /// How packets came, were spread and checked, in lines.
    pub fn about(&self) -> String {
        let mut text = String::new();
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
        text + &self.seed.text() + &checksums(self) + &fragments(self.fragments)
    }

    /// Tables, in the order in which they are shown.
    pub fn sections(&self, detail: Detail) -> Vec<Section> {
        let mut sections = Vec::new();
        sections.extend(interfaces(&self.interfaces));
        sections.extend(
            self.routing.as_ref().map(|report| Section::lines("Routing", routing(report), Rank::Essential)),
        );
        sections.extend(drops(self));
        let answers = self.answers.as_ref().map(answers);
        sections.extend(answers.map(|text| Section::lines("Answers", text, Rank::Essential)));
        sections.extend(malformed(self));
        sections.push(functions(self, detail));
        if detail == Detail::Full {
            sections.push(cores(self));
        }
        let moves = self.moves.iter().map(MovesReport::text).filter(|moves| !moves.is_empty());
        sections
            .extend(moves.map(|moves| Section::lines("Moves between cores", moves + "\n", Rank::Finding)));
        sections.extend(self.egress.reordering.as_ref().map(reordering));
        sections.extend(self.history.iter().flat_map(history));
        sections.extend(self.functions.iter().flat_map(|function| own_reports(function, detail)));
        sections.extend(events(&self.functions));
        sections
    }
}

/// Reloads that a summary tells of, the last ones.
const RELOADS: usize = 2;

/// Phases of strategies that change, up to which a summary has them all.
const PHASES: usize = 3;

/// The whole report, without the end of the last line.
impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(None, Detail::Full).trim_end())
    }
}

/// A table under its heading.
impl fmt::Display for ReorderingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reordering(self).full())
    }
}

/// Tables under their headings.
impl fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        history(self).iter().try_for_each(|section| f.write_str(&section.full()))
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
        Fragments::Follow => format!("fragments: tracked and followed, {} malformed\n", count(refused)),
    }
}

/// What interfaces received and sent.
fn interfaces(all: &[InterfaceReport]) -> Option<Section> {
    let row = |interface: &InterfaceReport| {
        let lost = interface.lost.iter().map(|(reason, count)| format!("{reason} {}", self::count(*count)));
        let lost: Vec<String> = lost.collect();
        vec![
            interface.name.clone(),
            count(interface.received),
            bytes(interface.received_bytes as f64),
            count(interface.sent),
            bytes(interface.sent_bytes as f64),
            if lost.is_empty() { "none".to_owned() } else { lost.join(", ") },
        ]
    };
    let header = ["interface", "received", "bytes", "sent", "bytes", "lost"];
    let completed = all.iter().filter(|interface| interface.completed > 0);
    let completed = completed.map(|of| format!("{} of {}", count(of.completed), of.name));
    let completed = match completed.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!("checksums left to a card and computed here: {some}\n"),
    };
    let section = Section::table("Interfaces", &header, all.iter().map(row).collect(), Rank::Essential);
    (!all.is_empty()).then(|| section.below(completed))
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

/// What the senders of rejected packets and of pings were told.
fn answers(report: &AnswersReport) -> String {
    let AnswersReport { resets, icmp_errors, echo_replies, unanswerable, limited } = *report;
    let mut text = match (resets + icmp_errors, echo_replies) {
        (0, 1..) => String::from("packets answered:"),
        _ => format!(
            "rejected packets answered: by {} and {}",
            plural(resets, "TCP reset"),
            plural(icmp_errors, "ICMP error")
        ),
    };
    if echo_replies > 0 {
        let and = if text.ends_with(':') { "" } else { ";" };
        text += &format!("{and} {}", plural(echo_replies, "ping"));
    }
    if unanswerable > 0 {
        text += &format!("; {} are not to be answered", count(unanswerable));
    }
    if limited > 0 {
        text += &format!("; {} not answered, beyond the rate limit", count(limited));
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

/// `Verdicts: forward 118 (2.2%), drop 5,314 (97.8%)`.
fn verdicts(report: &RunReport) -> String {
    let Verdicts { forward, drop, transmit_back, host } = report.verdicts;
    let named = [("forward", forward), ("drop", drop), ("transmit back", transmit_back), ("host", host)];
    let shown =
        named.into_iter().filter(|(name, packets)| *packets > 0 || matches!(*name, "forward" | "drop"));
    let shown =
        shown.map(|(name, packets)| format!("{name} {} ({})", count(packets), share(report, packets)));
    format!("Verdicts: {}\n", shown.collect::<Vec<_>>().join(", "))
}

/// So many of a run's packets, as a share.
fn share(report: &RunReport, packets: u64) -> String {
    percent(packets as f64 / report.packets.max(1) as f64)
}

/// Why packets were dropped, the most frequent reason first.
fn drops(report: &RunReport) -> Option<Section> {
    let mut drops: Vec<_> = report.drops.iter().collect();
    drops.sort_by_key(|(_, packets)| std::cmp::Reverse(**packets));
    let row =
        |(reason, packets): (&String, &u64)| vec![reason.clone(), count(*packets), share(report, *packets)];
    let rows: Vec<_> = drops.into_iter().map(row).collect();
    let header = ["function/reason", "packets", "share"];
    (!rows.is_empty()).then(|| Section::table("Drops", &header, rows, Rank::Essential))
}

/// Malformed packets that are not among the drops.
fn malformed(report: &RunReport) -> Option<Section> {
    let is_passed = |(why, _): &(&String, &u64)| !report.drops.contains_key(&format!("malformed/{why}"));
    let passed = report.malformed.iter().filter(is_passed);
    let rows: Vec<_> = passed.map(|(why, packets)| vec![why.clone(), count(*packets)]).collect();
    (!rows.is_empty())
        .then(|| Section::table("Malformed, passed", &["reason", "packets"], rows, Rank::Finding))
}

/// What functions did. A summary has no column for what none of them did.
fn functions(report: &RunReport, detail: Detail) -> Section {
    let row = |function: &FunctionSummary| {
        let FunctionSummary { name, packets, verdicts, flows, .. } = function;
        let mut row = vec![name.clone()];
        row.extend([*packets, verdicts.forward, verdicts.drop].map(count));
        let ended = flows.removed + flows.expired;
        row.extend([flows.live, flows.created, ended, flows.evicted, flows.rejected].map(count));
        row.push(percent(flows.load));
        row
    };
    let mut header = vec![
        "function", "packets", "forward", "drop", "flows", "created", "ended", "evicted", "rejected", "load",
    ];
    let mut rows: Vec<Vec<String>> = report.functions.iter().map(row).collect();
    if detail == Detail::Summary {
        for column in (2..header.len() - 1).rev() {
            if rows.iter().all(|row| row[column] == "0") {
                header.remove(column);
                rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
    }
    Section::table("Functions", &header, rows, Rank::Essential)
}

/// `Cores: 24.1% to 26.0% of the packets each, 310 to 332 ns a packet`.
fn cores_in_short(report: &RunReport) -> String {
    let range = |values: &mut dyn Iterator<Item = f64>, show: fn(f64) -> String| {
        let (least, most) = values
            .fold((f64::MAX, 0.0), |(least, most): (f64, f64), value| (least.min(value), most.max(value)));
        let (least, most) = (show(least.min(most)), show(most));
        if least == most { most } else { format!("{least} to {most}") }
    };
    let ns = range(&mut report.cores.iter().filter(|core| core.packets > 0).map(ns_a_packet), |ns| {
        count(ns.round() as u64)
    });
    match report.cores.as_slice() {
        [_] => format!("Cores: 1, {ns} ns a packet\n"),
        cores => {
            let shares = range(&mut cores.iter().map(|core| core.share), percent);
            format!("Cores: {}, {shares} of the packets each, {ns} ns a packet\n", cores.len())
        }
    }
}

/// Time that a core spent on each of its packets.
fn ns_a_packet(core: &CoreReport) -> f64 {
    core.busy_seconds * 1e9 / core.packets.max(1) as f64
}

/// How packets were spread.
fn cores(report: &RunReport) -> Section {
    let row = |core: &CoreReport| {
        vec![
            core.core.to_string(),
            count(core.packets),
            percent(core.share),
            bytes(core.bytes as f64),
            count(core.verdicts.forward),
            count(core.verdicts.drop),
            count(core.flows),
            count(ns_a_packet(core).round() as u64),
        ]
    };
    let header = ["core", "packets", "share", "bytes", "forward", "drop", "flows", "ns/packet"];
    Section::table("Cores", &header, report.cores.iter().map(row).collect(), Rank::Finding)
}

/// How far packets left out of order.
fn reordering(report: &ReorderingReport) -> Section {
    let counts = [report.packets, report.reordered];
    let mut row: Vec<String> = counts.map(count).into();
    row.push(percent(report.ratio));
    // Beyond three TCP takes packets for lost.
    let n3 = report.n_reordered.get(2).copied().unwrap_or(0);
    let extents = [report.extent_p50, report.extent_p99, report.extent_max];
    row.extend([n3, report.reordered_in_flow].into_iter().chain(extents).map(count));
    let header =
        ["left", "reordered", "share", "3-reordered", "in their flow", "extent p50", "p99", "largest"];
    let below = match report.extent_at_least {
        0 => String::new(),
        packets => format!(" extents of {} are at least that\n", plural(packets, "packet")),
    };
    let title = "Reordering at the egress (RFC 4737)";
    Section::table(title, &header, vec![row], Rank::Finding).below(below)
}

/// What became of packets because of their history.
fn history(report: &HistoryReport) -> Vec<Section> {
    let mut sections = Vec::new();
    if !report.rejected.is_empty() {
        let row = |(reason, packets): (&String, &u64)| vec![reason.clone(), count(*packets)];
        let rows: Vec<_> = report.rejected.iter().map(row).collect();
        let header = ["reason", "packets"];
        sections.push(Section::table("Dropped for their history", &header, rows, Rank::Essential));
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
    let mut below = String::new();
    if was_rebuilt {
        below += " rebuilt: lagged by more than the logs hold, and went on with the state of another core\n";
        below += " skipped: packets that this state had; overtaken: those of them that came, dropped without a verdict\n";
    }
    if report.lost > 0 {
        below += &format!(" {} and flushes lost on purpose\n", plural(report.lost, "packet"));
    }
    let rows = report.cores.iter().map(row).collect();
    sections.push(Section::table("History", &header, rows, Rank::Finding).below(below));
    sections
}

/// What a function reports of its own. A summary has no row for what did not happen.
fn own_reports(function: &FunctionSummary, detail: Detail) -> Vec<Section> {
    let mut sections = Vec::new();
    for report in &function.reports {
        let is_shown = |row: &&Vec<String>| {
            detail == Detail::Full
                || row.iter().skip(1).any(|cell| !matches!(cell.as_str(), "0" | "0.0" | "-" | ""))
        };
        let rows: Vec<Vec<String>> = report.rows.iter().filter(is_shown).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        let (header, rows) = humane(&report.columns, &rows);
        let title = format!("{}: {}", function.name, report.title);
        sections.push(Section { title, header, rows, below: String::new(), rank: Rank::Finding });
    }
    sections
}

/// What functions counted, the most frequent first.
fn events(functions: &[FunctionSummary]) -> Option<Section> {
    let row = |function: &FunctionSummary| {
        let mut events: Vec<_> = function.events.iter().filter(|(_, n)| **n > 0).collect();
        events.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let events: Vec<String> =
            events.into_iter().map(|(event, n)| format!("{event} {}", count(*n))).collect();
        (!events.is_empty()).then(|| vec![function.name.clone(), events.join(", ")])
    };
    let rows: Vec<_> = functions.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Section::table("Events", &["function", "counted"], rows, Rank::Detail))
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
        HistoryReport { recovery, lost: 0, rejected: BTreeMap::new(), cores }.to_string()
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
