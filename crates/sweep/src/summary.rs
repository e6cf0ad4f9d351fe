//! The summary of a sweep, and the defects that it found.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Capture, Limits, Outcome, Prepared, Question, Row, kinds, smallest, try_once};

/// The most reasons that are told apart; the rest are counted together.
const MAX_REASONS: usize = 1_000;

/// How often a difference is asked for again before it is said to come and go.
const AGAIN: usize = 5;

/// Outcomes of comparisons in which something was compared.
const COMPARED: [&str; 3] = ["equal", "equal-up-to", "different"];

/// What a sweep found, as JSON: `docs/sweep.schema.json`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Summary {
    /// Version of Paceline.
    pub paceline: String,
    /// Whether all comparisons were made.
    pub complete: bool,
    /// Comparisons, those of captures that could not be read included.
    pub runs: u64,
    /// Packets compared, over all comparisons.
    pub packets: u64,
    /// Comparisons of captures that could be read only in part.
    pub cut_short: u64,
    /// Comparisons in which something was compared.
    pub compared: u64,
    /// Those of them in which every answer, byte and state was compared, and none left out or excused: given which flows full
    /// tables, and which packets empty pools, turned away.
    pub exact: u64,
    /// Comparisons by outcome; every outcome is here.
    pub outcomes: BTreeMap<String, u64>,
    /// Reasons of outcomes that need more words: how many outcomes for each, most first.
    pub reasons: Vec<Count>,
    /// Each kind of defect, with a case of it.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    by_reason: BTreeMap<(&'static str, String), u64>,
}

/// Comparisons that came out alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Count {
    /// The outcome.
    pub outcome: String,
    /// More words.
    pub about: String,
    /// How many.
    pub runs: u64,
}

/// One kind of defect.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// How often it was seen.
    pub runs: u64,
    /// The case that differs after the fewest packets.
    pub example: Row,
    /// A small capture that shows it; null until it is made.
    pub reproducer: Option<Reproducer>,
}

/// A capture that shows a defect.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reproducer {
    /// The file.
    pub capture: String,
    /// Its packets.
    pub packets: usize,
    /// What shows the defect.
    pub command: String,
    /// What to know besides, such as that it comes and goes; empty for nothing.
    pub note: String,
}

impl Summary {
    /// The summary of no comparison yet.
    pub fn new() -> Summary {
        Summary {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            outcomes: kinds().into_iter().map(|kind| (kind.to_owned(), 0)).collect(),
            ..Summary::default()
        }
    }

    /// Counts one comparison.
    pub fn add(&mut self, row: &Row) {
        self.runs += row.runs;
        self.packets += row.packets;
        self.cut_short += u64::from(row.cut_short.is_some());
        self.exact += if row.exact { row.runs } else { 0 };
        let kind = row.outcome.kind();
        self.compared += if COMPARED.contains(&kind) { row.runs } else { 0 };
        *self.outcomes.entry(kind.to_owned()).or_default() += row.runs;
        if row.outcome.is_finding() {
            return self.find(row);
        }
        let about = row.outcome.about();
        if !about.is_empty() {
            let is_new = !self.by_reason.contains_key(&(kind, about.to_owned()));
            let about = if is_new && self.by_reason.len() >= MAX_REASONS { "other reasons" } else { about };
            *self.by_reason.entry((kind, about.to_owned())).or_default() += row.runs;
        }
    }

    fn find(&mut self, row: &Row) {
        let signature =
            |row: &Row| (row.outcome.kind(), row.setting.strategy.clone(), row.outcome.about().to_owned());
        let known = self.findings.iter().position(|finding| signature(&finding.example) == signature(row));
        match known {
            Some(known) => {
                let finding = &mut self.findings[known];
                finding.runs += row.runs;
                if depth(row) < depth(&finding.example) {
                    finding.example = row.clone();
                }
            }
            None if self.findings.len() < MAX_REASONS => {
                self.findings.push(Finding { runs: row.runs, example: row.clone(), reproducer: None });
            }
            None => {}
        }
    }

    /// Whether there is no defect.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Puts what was counted in order, most first.
    pub fn finish(&mut self, complete: bool) {
        self.complete = complete;
        let counts = self.by_reason.iter().map(|((outcome, about), runs)| Count {
            outcome: (*outcome).to_owned(),
            about: about.clone(),
            runs: *runs,
        });
        self.reasons = counts.collect();
        self.reasons.sort_by_key(|count| std::cmp::Reverse(count.runs));
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.runs));
    }

    /// Makes a reproducer of each finding in `folder`, within `time` for each, until `stop`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reproduce(
        &mut self,
        question: &Question,
        limits: &Limits,
        time: Duration,
        folder: &Path,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Finding),
    ) -> std::io::Result<()> {
        for (number, finding) in self.findings.iter_mut().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some((prepared, chain)) = prepared(question, &finding.example) else { continue };
            fs::create_dir_all(folder)?;
            let (capture, note) = reduced(&prepared, &finding.example, limits, time, stop);
            let name = format!("{:02}-{}", number + 1, finding.example.setting.strategy);
            let path = capture.save(&folder.join(name))?;
            let command = command(&chain, &path, &prepared);
            fs::write(path.with_extension("txt"), format!("{command}\n"))?;
            let capture_name = path.display().to_string();
            let packets = capture.packets();
            finding.reproducer = Some(Reproducer { capture: capture_name, packets, command, note });
            each(finding);
        }
        Ok(())
    }
}

/// After how many packets a case shows.
fn depth(row: &Row) -> (u64, usize) {
    let packets = match row.outcome {
        Outcome::Different { first: Some(first), .. } => first,
        _ => row.packets,
    };
    (packets, row.setting.flows.unwrap_or(usize::MAX))
}

/// What a row was made from; `None` if the question does not have it, or the capture is gone.
fn prepared(question: &Question, row: &Row) -> Option<(Prepared, String)> {
    let at = question.find(row)?;
    let whole = question.sources[at.source].load(question.most_packets).ok()?;
    let capture = question.mutated(&whole, at.source, at.mutation).ok()?;
    let named = &question.chains[at.chain];
    let setting = question.setting(at);
    Some((Prepared { capture, chain: Arc::clone(&named.chain), setting }, named.name.clone()))
}

/// The smallest capture that still shows the finding, and what to know of it.
fn reduced(
    prepared: &Prepared,
    row: &Row,
    limits: &Limits,
    time: Duration,
    stop: &AtomicBool,
) -> (Capture, String) {
    let whole = || Capture::clone(&prepared.capture);
    if row.outcome == Outcome::TimedOut {
        return (whole(), "not made smaller: it does not end".to_owned());
    }
    let kind = row.outcome.kind();
    let shows = |capture: Arc<Capture>| {
        let trial = try_once(&Prepared { capture, ..prepared.clone() }, limits.time_limit, stop);
        trial.map(|trial| trial.outcome.kind() == kind)
    };
    let seen = (0..AGAIN).filter(|_| shows(Arc::clone(&prepared.capture)) == Some(true)).count();
    if seen == 0 {
        return (whole(), format!("not seen again in {AGAIN} tries: it depends on threads"));
    }
    let tries = if seen == AGAIN { 1 } else { AGAIN };
    let begin = Instant::now();
    let mut differs = |capture: &Capture| {
        if begin.elapsed() > time || stop.load(Ordering::Relaxed) {
            return None;
        }
        let capture = Arc::new(capture.clone());
        Some((0..tries).any(|_| shows(Arc::clone(&capture)) == Some(true)))
    };
    let first = match row.outcome {
        Outcome::Different { first, .. } => first,
        _ => None,
    };
    let reduced = smallest(&prepared.capture, first, &mut differs);
    let mut notes = Vec::new();
    if seen < AGAIN {
        notes.push(format!("it comes and goes: seen in {seen} of {AGAIN} tries"));
    }
    if !reduced.is_smallest {
        notes.push("the search for a smaller one was ended".to_owned());
    }
    (reduced.capture, notes.join("; "))
}

fn command(chain: &str, capture: &Path, prepared: &Prepared) -> String {
    let mut words = vec!["paceline".to_owned(), "verify".to_owned(), chain.to_owned()];
    words.extend(["--pcap".to_owned(), capture.display().to_string()]);
    words.extend(prepared.setting.options());
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
