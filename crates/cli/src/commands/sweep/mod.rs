//! `paceline sweep`: `verify` over many captures, chains, strategies and table sizes.

mod args;
pub mod cells;
mod ray;

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use engine::Registry;
use engine::strategies::{AUTO, DYSSECT, HYBRID, RSSPP, SCR};
use sweep::{
    Count, Finding, Journal, JournalError, Limits, Matrix, NamedChain, Question, Setting, Source, Summary,
    Tables, Way, sweep,
};
use table::WhenFull;

use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED, NOTHING_COMPARED};
use crate::input::read_chain;
use crate::output::{Reports, count, heading, plural, table};
use crate::progress::{Bar, interruptible};
use args::{LossOr, MoveEvery, TablePolicies};

pub use args::SweepArgs;

/// What a file is called that a folder is searched for, beside `.gz` and `.zst` behind it.
const EXTENSIONS: [&str; 4] = ["pcap", "pcapng", "cap", "dmp"];

/// How many folders deep captures are looked for.
const MAX_DEPTH: usize = 16;

/// Reasons that are shown.
const SHOWN_REASONS: usize = 20;

/// Characters of a reason that are shown.
const SHOWN_CHARS: usize = 90;

/// Tables of all comparisons at one time take at most one in so many of the bytes that are free.
const MEMORY_SHARE: u64 = 2;

pub fn command(args: &SweepArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    if args.ray.is_some() {
        return ray::hand_over();
    }
    let question = question(args, sources(args, false)?, registry)?;
    let mut inputs: Vec<&Path> = args.chains.iter().map(PathBuf::as_path).collect();
    inputs.extend(question.sources.iter().filter_map(|source| match source {
        Source::File(path) => Some(path.as_path()),
        Source::Memory(..) | Source::Fetched(..) => None,
    }));
    let reports = Reports::open(&inputs, None, args.json.as_deref())?;
    let cannot_write = |error| {
        Failure::usage(format!(
            "cannot write to the folder {}: {error}\nName another with --out.",
            args.out.display()
        ))
        .coded(Code::CannotWrite)
    };
    fs::create_dir_all(&args.out).map_err(cannot_write)?;
    let (mut summary, mut known, mut others) = (Summary::new(), 0, 0);
    let path = args.out.join("runs.jsonl");
    let mut journal = Journal::open(&path, args.resume, &mut |row| {
        match question.asks_for(&row) {
            true => known += row.runs,
            false => others += row.runs,
        }
        summary.add(&row);
    })
    .map_err(Failure::usage)?;
    if others > 0 {
        eprintln!(
            "note: {} in {} were made with other options, captures or chains, and are counted, too\n\
             For figures of this sweep alone name another folder with --out.",
            plural(others, "comparison"),
            path.display()
        );
    }
    let done = journal.done().clone();
    let limits = limits(args);
    let progress = interruptible(None);
    // What panics is a finding, and its reproducer says the rest.
    panic::set_hook(Box::new(|_| {}));
    let bar = Bar::counting("sweep", question.runs());
    bar.advance(known);
    let mut failed: Option<JournalError> = None;
    sweep(&question, &limits, &|key| done.contains(&key), &progress.stop, &mut |row| {
        if failed.is_none()
            && let Err(error) = journal.push(&row)
        {
            failed = Some(error);
            progress.stop.store(true, Ordering::Relaxed);
        }
        summary.add(&row);
        if row.outcome.is_finding() {
            let found: u64 = summary.findings.iter().map(|finding| finding.runs).sum();
            bar.say(format!("sweep, {} found", plural(found, "defect")));
        }
        bar.advance(row.runs);
    });
    if let Some(error) = failed {
        return Err(Failure::usage(error));
    }
    let is_stopped = progress.stop.load(Ordering::Relaxed);
    summary.finish(!is_stopped);
    bar.say("making defects small".to_owned());
    let time = Duration::from_secs(args.reduce_time);
    let folder = args.out.join("reproducers");
    summary
        .reproduce(&question, &limits, time, &folder, &progress.stop, &mut |_| {})
        .map_err(cannot_write)?;
    drop(bar);
    drop(panic::take_hook());
    reports.write(&summary, &render(&summary))?;
    Ok(match &summary {
        _ if is_stopped => ExitCode::from(INTERRUPTED),
        summary if !summary.is_clean() => ExitCode::FAILURE,
        summary if summary.compared == 0 => ExitCode::from(NOTHING_COMPARED),
        _ => ExitCode::SUCCESS,
    })
}

fn limits(args: &SweepArgs) -> Limits {
    Limits {
        jobs: args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        time_limit: Duration::from_secs(args.time_limit),
        memory_bytes: engine::free_bytes().unwrap_or(1 << 30) / MEMORY_SHARE,
    }
}

/// The captures that the arguments name, and those in the folders that they name, in the order of their names. Objects may be among
/// them where the caller fetches these.
fn sources(args: &SweepArgs, fetches: bool) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in &args.captures {
        if is_object(path) {
            if !fetches {
                return Err(Failure::usage(format!(
                    "{} is in an object store\nPython's package fetches it: add --ray local, or name a folder with a copy.",
                    path.display()
                )));
            }
            sources.push(path.clone());
            continue;
        }
        match path.is_dir() {
            true => sources.extend(captures_in(path, MAX_DEPTH)?),
            // That it is not there is an outcome of one file among thousands, and an error of one that was named.
            false => {
                fs::metadata(path).map_err(|error| {
                    Failure::usage(format!(
                        "cannot read {}: {error}\nName captures or folders.",
                        path.display()
                    ))
                })?;
                sources.push(path.clone());
            }
        }
    }
    sources.sort();
    sources.dedup();
    if sources.is_empty() {
        return Err(Failure::usage(format!(
            "no captures in these folders\nTheir names end in .{}, or those with .gz or .zst behind.",
            EXTENSIONS.join(", .")
        )));
    }
    Ok(sources.into_iter().map(Source::File).collect())
}

/// What the arguments ask for, over these captures.
fn question(args: &SweepArgs, sources: Vec<Source>, registry: &Registry) -> Result<Question, Failure> {
    let chain = |path: &PathBuf| {
        let chain = read_chain(path, registry)?;
        let text = fs::read(path).unwrap_or_default();
        let hash = nf::hash_bytes(&text, 0);
        Ok(NamedChain { name: path.display().to_string(), hash, chain: Arc::new(chain) })
    };
    let chains: Vec<NamedChain> = args.chains.iter().map(chain).collect::<Result<_, Failure>>()?;
    let matrix = Matrix { tables: tables(args), ways: ways(args), cores: args.cores.clone() };
    let settings = matrix.settings(0).into_iter();
    let simulated = |setting: Setting| if args.simulate { setting.simulated() } else { setting };
    Ok(Question {
        sources,
        mutations: args.mutate,
        chains,
        settings: settings.map(simulated).collect(),
        most_packets: args.packets as usize,
        seed: args.seed,
    })
}

/// Whether a name is an object's: `python/paceline/_objects.py` has the same schemes.
fn is_object(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|name| name.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"].contains(&scheme))
}

fn captures_in(folder: &Path, depth: usize) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| {
        Failure::usage(format!("cannot read the folder {}: {error}", folder.display()))
            .coded(Code::CannotRead)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        // Links are not followed: they may lead in circles.
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if is_folder && depth > 0 {
            found.extend(captures_in(&path, depth - 1)?);
        } else if !is_folder && is_capture(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_capture(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    EXTENSIONS.iter().any(|extension| name.strip_suffix(extension).is_some_and(|rest| rest.ends_with('.')))
}

fn tables(args: &SweepArgs) -> Vec<Tables> {
    let policies: &[WhenFull] = match args.table_full {
        TablePolicies::Both => &WhenFull::ALL,
        TablePolicies::Reject => &[WhenFull::Reject],
        TablePolicies::EvictOldest => &[WhenFull::EvictOldest],
    };
    let mut tables = Vec::new();
    for flows in &args.flows {
        match flows.0 {
            None => tables.push(Tables::AsWritten),
            Some(flows) => {
                tables.extend(policies.iter().map(|when_full| Tables::Of { flows, when_full: *when_full }));
            }
        }
    }
    tables
}

fn ways(args: &SweepArgs) -> Vec<Way> {
    let mut ways = Vec::new();
    for strategy in args.strategies.iter().map(|strategy| strategy.0) {
        if [RSSPP, DYSSECT, HYBRID, AUTO].contains(&strategy) {
            let plain = Way::plain(strategy);
            let moving = |every: &MoveEvery| every.0.map_or(plain, |packets| plain.forced(packets));
            ways.extend(args.move_every.iter().map(moving));
        } else if strategy == SCR {
            let lossy = |share: &LossOr| share.0.map_or(Way::plain(strategy), Way::lossy);
            ways.extend(args.loss.iter().map(lossy));
        } else {
            ways.push(Way::plain(strategy));
        }
    }
    ways
}

fn render(summary: &Summary) -> String {
    let Summary { runs, packets, cut_short, .. } = summary;
    let mut text = format!("{}, {} compared", plural(*runs, "comparison"), plural(*packets, "packet"));
    if *cut_short > 0 {
        text += &format!("; in {} the capture could not be read to its end", count(*cut_short));
    }
    text += if summary.complete { "\n" } else { "\nINTERRUPTED: --resume goes on\n" };
    let row =
        |kind: &&str| vec![(*kind).to_owned(), count(summary.outcomes.get(*kind).copied().unwrap_or(0))];
    let rows: Vec<_> = sweep::kinds().iter().map(row).collect();
    text += &(heading("Outcomes") + &table(&["outcome", "comparisons"], &rows, 1));
    text += &exact(summary);
    if !summary.reasons.is_empty() {
        let row =
            |Count { outcome, about, runs }: &Count| vec![outcome.clone(), shortened(about), count(*runs)];
        let rows: Vec<_> = summary.reasons.iter().take(SHOWN_REASONS).map(row).collect();
        text += &(heading("Why") + &table(&["outcome", "reason", "comparisons"], &rows, 2));
        let more = summary.reasons.len().saturating_sub(SHOWN_REASONS) as u64;
        if more > 0 {
            text += &format!(" and {}; --json has all\n", plural(more, "more reason"));
        }
    }
    if summary.is_clean() {
        return text + "\nno defect\n";
    }
    text += &heading("Defects");
    summary.findings.iter().for_each(|finding| text += &describe(finding));
    text
}

/// In how many comparisons nothing was left out, or excused.
fn exact(Summary { compared, exact, .. }: &Summary) -> String {
    if *compared == 0 {
        return String::new();
    }
    let percent = 100.0 * *exact as f64 / *compared as f64;
    let rest = match compared - exact {
        0 => String::new(),
        rest => format!(
            "; {} left something out that need not be the same, as Why says, or {}",
            count(rest),
            if rest == 1 { "differs" } else { "differ" }
        ),
    };
    format!(
        "\nexact: {} of the {} in which something was compared, {percent:.0}%: every answer, byte and state{rest}\n",
        count(*exact),
        plural(*compared, "comparison")
    )
}

/// As much of a reason as a terminal has room for.
fn shortened(about: &str) -> String {
    match about.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} ...", about[..end].trim_end()),
        None => about.to_owned(),
    }
}

fn describe(finding: &Finding) -> String {
    let Finding { runs, example, reproducer } = finding;
    let kind = example.outcome.kind().to_uppercase();
    let about = example.outcome.about();
    let colon = if about.is_empty() { "" } else { ": " };
    let mutation = match example.mutation {
        0 => String::new(),
        number => format!(", mutation {number}"),
    };
    let mut text = format!(
        " {kind} under {}{colon}{about}: {}\n  such as {} over {}{mutation}\n",
        example.setting.strategy,
        plural(*runs, "comparison"),
        example.chain,
        example.capture,
    );
    if let Some(reproducer) = reproducer {
        text += &format!("  {}: {}\n", plural(reproducer.packets as u64, "packet"), reproducer.command);
        if !reproducer.note.is_empty() {
            text += &format!("  {}\n", reproducer.note);
        }
    }
    text
}
