//! The page of a comparison: what was found, what was compared, and what was not.

use super::report::{JudgedFunction, VerifyReport};
use super::words;
use crate::output::{count, plural};
use crate::page::markup::{Element, element};
use crate::page::{data, page, paragraph, section, table};

/// A whole page, with the comparison's JSON in it. `text` is what the terminal gets: its first lines are the findings.
pub fn render(report: &VerifyReport, text: &str) -> String {
    let mut sentences = text.lines().take_while(|line| !line.is_empty());
    let title = sentences.next().unwrap_or_default();
    // What hangs in further is shown in a table of its own.
    let findings =
        sentences.filter(|line| !line.starts_with("  ")).map(|line| element("li").text(line.trim()));
    let simulated = report.simulated.map_or_else(String::new, |seed| format!(", simulated with seed {seed}"));
    let lead = format!(
        "Each packet went through single on one core and through {} on {}{simulated}. Compared: {}, by verdict and by every byte \
         sent, and the states at the end.",
        report.strategy,
        plural(report.cores as u64, "core"),
        plural(report.packets, "packet")
    );
    let header = element("header")
        .child(element("h1").text(title))
        .child(element("ul").class("findings").children(findings))
        .child(paragraph("lead", &lead));
    let main = element("main").children(parts(report));
    page(title, report.paceline, element("body").child(header).child(main).child(data("verify", report)))
}

/// A section for each part that the comparison has.
fn parts(report: &VerifyReport) -> Vec<Element> {
    let first = report.first.iter().flat_map(|first| {
        [("single", &first.single), (report.strategy, &first.other)].map(|(run, answer)| {
            let flow = first.flow.clone().unwrap_or_else(|| "not IP, or malformed".to_owned());
            vec![run.to_owned(), answer.clone(), count(first.packet), flow]
        })
    });
    let states = report.digests.iter().map(|digests| {
        let same = if digests.single == digests.other { "same" } else { "DIFFERENT" };
        vec![digests.function.clone(), same.to_owned(), digests.single.clone(), digests.other.clone()]
    });
    let shared = report.shared.iter().map(|shared| {
        let found = words::found(shared.failure.as_deref(), shared.excused.as_deref());
        vec![shared.function.clone(), found.unwrap_or_else(|| shared.promise.clone())]
    });
    let events = report.allocation_events.iter().map(|counted| {
        vec![counted.function.clone(), counted.event.to_owned(), count(counted.single), count(counted.other)]
    });
    let history = report.history.iter().flat_map(|history| {
        history.report.cores.iter().map(|core| {
            let mut row = vec![core.core.to_string()];
            row.extend([core.replayed, core.rejected, core.flushes].map(count));
            row
        })
    });
    // A title, columns, which of them have words, and rows.
    type Part<'a> = (&'a str, &'a [&'a str], &'a [usize], Vec<Vec<String>>);
    let strategy = report.strategy;
    let parts: [Part; 6] = [
        (
            "The first packet with another answer",
            &["run", "answer", "packet", "flow"],
            &[1, 3],
            first.collect(),
        ),
        ("States at the end", &["state of", "", "single", strategy], &[], states.collect()),
        ("Shared by all cores", &["function", "what holds"], &[1], shared.collect()),
        (
            "Functions that allocate, before a judge of each run",
            &["function", "what was judged", "packets"],
            &[1],
            report.judged.iter().flat_map(judged).collect(),
        ),
        (
            "Events that depend on each core's share of a pool",
            &["function", "event", "single", strategy],
            &[1],
            events.collect(),
        ),
        ("History before packets", &["core", "replayed", "rejected", "flushes"], &[], history.collect()),
    ];
    parts
        .into_iter()
        .filter(|(_, _, _, rows)| !rows.is_empty())
        .map(|(title, header, words, rows)| section(title).child(table(header, words, rows)))
        .collect()
}

/// A row for each thing that was found of a function that allocates.
fn judged(judged: &JudgedFunction) -> Vec<Vec<String>> {
    let kinds = [
        (words::RENAMED, judged.renamed),
        (words::ALONE, judged.alone),
        (words::TOUCHED, judged.touched),
        (words::IN_FLIGHT, judged.in_flight),
        (words::REFUSED, judged.refused),
        (words::UNATTRIBUTED, judged.unattributed),
    ];
    let rows = kinds.into_iter().filter(|(_, packets)| *packets > 0);
    let rows = rows.map(|(what, packets)| vec![judged.function.clone(), what.to_owned(), count(packets)]);
    let wrong = judged.wrong.iter().map(|wrong| format!("WRONG {wrong}"));
    let not_judged = judged.not_judged.iter().map(|why| format!("not judged, because {why}"));
    let words = wrong.chain(not_judged).map(|what| vec![judged.function.clone(), what, String::new()]);
    words.chain(rows).collect()
}
