mod outcome;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use engine::Moves;
use engine::report::{HistoryReport, hex};
use engine::strategies::SCR;
use engine::{
    Answer, Broken, Chain, HistoryCheck, Mismatch, Plan, Registry, RunError, SharedCheck, Verified,
    VerifyError, verify, verify_external,
};
use io::capture::CaptureReader;
use io::{EngineDrop, Fate};
use nf::WhenShared;
use schemars::JsonSchema;
use serde::Serialize;

use self::outcome::Outcome;
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::output::{Reports, count, plural, table};
use crate::packets::{self, Packets, Setting};
use crate::session;

pub fn command(args: &VerifyArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let Setting { chain, plan, packets } =
        packets::prepare(&args.chain, &args.history, args.strategy.0, &args.card, &args.tables, registry)?;
    let is_pipe = |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if let Some(path) = packets.paths().into_iter().find(|path| *path == "-" || is_pipe(path)) {
        return Err(Failure::usage(format!(
            "verify reads its input more than once\nGive a file instead of `{}`.",
            path.display()
        )));
    }
    let inputs = [vec![args.chain.chain.as_path()], packets.paths()].concat();
    let reports = Reports::open(&inputs, None, args.json.as_deref())?;
    let progress = session::interruptible(None);
    let verified = match &packets {
        Packets::Capture(path) => verify(&chain, &plan, &|| CaptureReader::open(path), &progress),
        Packets::External(external) => verify_external(&chain, &plan, &|| external.open(None), &progress),
    };
    let mut verified = verified.map_err(|error| match error {
        VerifyError::Plan(error) => Failure::usage(error),
        VerifyError::Input(error) => Failure::usage(error),
        VerifyError::Run(memory @ RunError::OutOfMemory { .. }) => Failure::usage(memory),
        VerifyError::Run(defect) => Failure::defect(defect),
        packets @ VerifyError::Packets { .. } => Failure::difference(packets),
    })?;
    let nothing_read = verified.packets == 0 && !verified.stopped;
    if let Some(error) = verified.input_error.take_if(|_| nothing_read) {
        return Err(Failure::usage(error));
    }
    reports.write(&as_json(&chain, &plan, &verified), &render(&chain, &plan, &verified))?;
    let outcome = Outcome::of(&verified);
    match verified.input_error {
        Some(error) if outcome == Outcome::CutShort => Err(Failure::cut_short(error)),
        Some(error) if !verified.stopped => {
            eprintln!("note: {error}");
            Ok(outcome.exit_code())
        }
        _ => Ok(outcome.exit_code()),
    }
}

fn render(chain: &Chain, plan: &Plan, verified: &Verified) -> String {
    let strategy = plan.strategy.name();
    let on_cores = format!("{strategy} on {}", plural(plan.cores as u64, "core"));
    if verified.stopped {
        let compared = match verified.packets {
            0 => "no packet was compared".to_owned(),
            packets => format!(
                "of {} compared, {} had another answer",
                plural(packets, "packet"),
                if verified.different == 0 { "none".to_owned() } else { count(verified.different) }
            ),
        };
        return format!("{}: {on_cores} INTERRUPTED: nothing is proved; {compared}\n", chain.name);
    }
    if verified.packets == 0 {
        let cores = verified.history.iter().flat_map(|check| &check.outcome.cores);
        let why = match (verified.oddities.lost, cores.flat_map(|core| core.rejected).sum()) {
            (1.., _) => "every packet was lost on the way, as --loss asks",
            (0, 0_u64) => "the input has no packets",
            _ => "every packet was dropped for its history",
        };
        return format!("{}: nothing to compare: {why}\n", chain.name);
    }
    if !verified.has_compared() && verified.is_same() {
        return format!(
            "{}: {on_cores}: nothing to compare with single\n\n{}",
            chain.name,
            shared_rows(plan, verified)
        );
    }
    let is_same = verified.is_same();
    let up_to = up_to(plan, verified);
    let partly = match &verified.input_error {
        Some(_) => " up to the end of the input, which is cut short",
        None => "",
    };
    let mut text = format!(
        "{}: {on_cores} {} single{}{partly}\n",
        chain.name,
        if is_same { "EQUALS" } else { "DIFFERS FROM" },
        if is_same { &*up_to } else { "" },
    );
    text += &match verified.different {
        0 => format!(
            " {}: every verdict and every byte sent is the same{}\n",
            plural(verified.packets, "packet"),
            if up_to.is_empty() { "" } else { ", but for that" }
        ),
        different => {
            format!(" {} of {} have another answer\n", count(different), plural(verified.packets, "packet"))
        }
    };
    if let Some(first) = &verified.first {
        text += &mismatch(chain, strategy, first);
    }
    text += &order(plan, verified);
    text += &verified.history.as_ref().map(history).unwrap_or_default();
    text += &full(plan, verified);
    for oddity in verified.oddities.sentences() {
        text += &format!(" note: {oddity}\n");
    }
    for Broken { function, strategy, message } in &verified.broken {
        text += &format!(" BROKEN under {strategy}: {function}: {message}\n");
    }
    if !verified.shared.is_empty() {
        text += &format!("\n{}", shared_rows(plan, verified));
    }
    let rows: Vec<_> = verified
        .digests
        .iter()
        .map(|(name, single, other)| {
            let same = if single == other { "same" } else { "DIFFERENT" };
            vec![name.clone(), hex(*single), hex(*other), same.to_owned()]
        })
        .collect();
    if rows.is_empty() {
        return text;
    }
    text + "\n" + &table(&["state of", "single", strategy, ""], &rows, 4)
}

/// Tables that were full and pools that were empty: what that means for the comparison.
fn full(plan: &Plan, verified: &Verified) -> String {
    let is_replicated = plan.strategy == SCR;
    let note = |names: &[String], what: &str, help: &str| match names {
        [] => String::new(),
        // Each replica's table is full, and its pool empty, when the single core's is.
        _ if is_replicated => {
            format!(" note: {what}; what it turned away was held to be the same\n")
        }
        _ => format!(
            " note: {what}; what it turns away differs between strategies, and is not held to anything: {help}\n"
        ),
    };
    let table = format!("the table of {} was full at some time", verified.filled.join(", "));
    let ports = format!("{} ran out of ports at some time", verified.exhausted.join(", "));
    note(&verified.filled, &table, "raise `flows`")
        + &note(
            &verified.exhausted,
            &ports,
            "each core has its share; give it more ports, or more addresses in `external`",
        )
}

/// What was checked of functions that are not compared packet by packet.
fn shared_rows(plan: &Plan, verified: &Verified) -> String {
    let row = |check: &SharedCheck| {
        let found = match &check.failure {
            None => promise(plan, check),
            Some(failure) => format!("BROKEN: {failure}"),
        };
        vec![check.function.clone(), found]
    };
    let rows: Vec<_> = verified.shared.iter().map(row).collect();
    table(&["shared by all cores", "what holds"], &rows, 2)
}

/// In what the answers may differ and be right.
fn up_to(plan: &Plan, verified: &Verified) -> String {
    let named = |names: Vec<String>| -> String {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !verified.allocated.is_empty() {
        let names = verified.allocated.iter().map(|(name, _)| name.clone()).collect();
        parts.push(format!("allocation by {}", named(names)));
    }
    if !plan.shared.is_empty() {
        let names = verified.shared.iter().map(|check| check.function.clone()).collect();
        parts.push(format!("what cores share in {}", named(names)));
    }
    if parts.is_empty() { String::new() } else { format!(" up to {}", parts.join(" and ")) }
}

/// What a function promises that is not compared packet by packet, in words.
fn promise(plan: &Plan, check: &SharedCheck) -> String {
    match (check.promise, &check.behind) {
        (Some(WhenShared::Totals), _) => "totals equal".to_owned(),
        (Some(WhenShared::Bound { .. }), _) => "never above the rate".to_owned(),
        (None, Some(editor)) => format!("not compared: it sees what `{editor}` edits, which is not promised"),
        (None, None) => format!("not compared: {} promises nothing of it", plan.strategy.name()),
    }
}

fn mismatch(chain: &Chain, strategy: &str, first: &Mismatch) -> String {
    let flow = first.flow.map_or("not IP, or malformed".to_owned(), |flow| flow.to_string());
    let width = strategy.len().max("single".len());
    format!(
        " first: packet {} of the capture, {flow}\n  {:width$}  {}\n  {strategy:width$}  {}\n",
        count(first.number),
        "single",
        describe(chain, &first.single, &first.other),
        describe(chain, &first.other, &first.single),
    )
}

/// An answer in words; where only bytes differ, the first of them.
fn describe(chain: &Chain, answer: &Answer, other: &Answer) -> String {
    let fate = fate(chain, answer.fate);
    if answer.fate != other.fate {
        return fate;
    }
    let (a, b) = (&answer.bytes, &other.bytes);
    let differs = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let end = a.len().min(differs + 8);
    let shown: Vec<_> = a[differs..end].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{fate}, {} bytes, from byte {differs}: {}", a.len(), shown.join(" "))
}

fn fate(chain: &Chain, fate: Fate) -> String {
    match fate {
        Fate::Forward => "forward".to_owned(),
        Fate::TransmitBack => "transmit back".to_owned(),
        Fate::Host => "pass to the host".to_owned(),
        Fate::Drop(EngineDrop::Malformed) => "drop: malformed".to_owned(),
        Fate::Drop(EngineDrop::NoRoom) => "drop: no room for its edits".to_owned(),
        Fate::Drop(EngineDrop::NotTaken) => "drop: its history was not taken".to_owned(),
        Fate::Drop(EngineDrop::Overtaken) => "drop: its core went on with the state of another".to_owned(),
        Fate::DropBy { function, reason } => {
            let spec = chain.functions.get(usize::from(function));
            let name = spec.map_or("?", |spec| spec.name.as_str());
            let reasons = spec.map_or(&[][..], |spec| spec.function.info().drop_reasons);
            format!("drop by {name}: {}", reasons.get(usize::from(reason)).unwrap_or(&"unnamed"))
        }
    }
}

/// What was lost of packets that came with history, and what the replicas did about it.
fn history(check: &HistoryCheck) -> String {
    let mut text = String::new();
    if check.lost_to_all > 0 {
        text += &format!(" {} lost to all cores, and stepped by none\n", plural(check.lost_to_all, "packet"));
    }
    if check.diverged() > 0 {
        text += &format!(
            " REPLICAS DIVERGED: {} missed by a core and stepped by another; recovery is off\n",
            plural(check.diverged(), "packet")
        );
    }
    text + &HistoryReport::new(&check.outcome).to_string()
}

/// What `verify` found, as JSON: `docs/verify.schema.json`.
#[derive(Serialize, JsonSchema)]
pub struct VerifyReport {
    /// Version of Paceline.
    paceline: &'static str,
    /// Name of the chain.
    chain: String,
    /// The strategy compared with `single`.
    strategy: &'static str,
    /// Its cores.
    cores: usize,
    /// How it ended. The exit status says the same.
    outcome: Outcome,
    /// Whether everything is the same, over the whole input, which has packets.
    holds: bool,
    /// Whether all that was compared is the same: of an input that is cut short, up to there.
    same: bool,
    /// Packets compared.
    packets: u64,
    /// Packets with another verdict or other bytes.
    different: u64,
    /// The first of them.
    first: Option<Different>,
    /// Each function's state at the end, less those whose states cores share.
    digests: Vec<Digests>,
    /// Functions whose states all cores share, and what of them was checked instead; with those that see edits
    /// that nobody can tell.
    shared: Vec<Shared>,
    /// Functions that take header fields from a pool: answers are compared without those.
    allocated: Vec<Allocated>,
    /// What must hold between a function's flows and does not.
    broken: Vec<String>,
    /// Functions whose table was full at some time.
    filled: Vec<String>,
    /// Functions whose pool was empty at some time, such as a NAT that ran out of ports.
    exhausted: Vec<String>,
    /// What is odd about the input, in sentences.
    oddities: Vec<String>,
    /// Packets that left after a later one of their flow; null where the strategy promises no order.
    out_of_order: Option<u64>,
    /// Moves of an entry of the indirection table, with its flows, from core to core.
    moves: u64,
    /// What became of packets because of their history; null unless they came with one.
    history: Option<HistoryVerified>,
    /// Why the input was not processed to its end, if so.
    error: Option<String>,
}

/// What was lost of packets that came with history.
#[derive(Serialize, JsonSchema)]
struct HistoryVerified {
    /// What the cores counted.
    #[serde(flatten)]
    report: HistoryReport,
    /// Packets that no core got, neither themselves nor in another's history.
    lost_to_all: u64,
    /// Packets that some replica missed and another did not, each as often as it was missed.
    diverged: u64,
}

/// A function whose states all cores share.
#[derive(Serialize, JsonSchema)]
struct Shared {
    /// What the chain calls the function.
    function: String,
    /// What it promises, in words; or that it was not compared, and why.
    promise: String,
    /// Why that does not hold; null if it does.
    failure: Option<String>,
}

/// A function that takes header fields from a pool, which each core has of its own.
#[derive(Serialize, JsonSchema)]
struct Allocated {
    /// What the chain calls the function.
    function: String,
    /// The fields.
    fields: Vec<&'static str>,
}

/// A packet with two answers.
#[derive(Serialize, JsonSchema)]
struct Different {
    /// Its number in the capture, from 1.
    packet: u64,
    /// Its flow; null if it is not IP or is malformed.
    flow: Option<String>,
    /// What `single` answers, in words.
    single: String,
    /// What the other strategy answers.
    other: String,
}

/// Hashes of a function's live flows, hexadecimal.
#[derive(Serialize, JsonSchema)]
struct Digests {
    /// What the chain calls the function.
    function: String,
    /// Under `single`.
    single: String,
    /// Under the other strategy.
    other: String,
}

/// The order in which packets left, and what went from core to core.
fn order(plan: &Plan, verified: &Verified) -> String {
    let mut text = match verified.out_of_order {
        Some(0) => " of each flow, packets left in the order in which they came\n".to_owned(),
        Some(packets) => format!(" {} left after a later one of their flow\n", plural(packets, "packet")),
        None => String::new(),
    };
    if plan.rebalancing.is_some() {
        let Moves { entries_out, waited_packets, .. } = verified.moves;
        text += &format!(
            " flows changed cores: {} of an entry with its flows; {} waited for theirs\n",
            plural(entries_out, "move"),
            plural(waited_packets, "packet")
        );
    }
    text
}

fn as_json(chain: &Chain, plan: &Plan, verified: &Verified) -> VerifyReport {
    let error = match (&verified.input_error, verified.stopped) {
        (Some(error), _) => Some(error.to_string()),
        (None, true) => Some("interrupted".to_owned()),
        (None, false) => None,
    };
    VerifyReport {
        paceline: env!("CARGO_PKG_VERSION"),
        chain: chain.name.clone(),
        strategy: plan.strategy.name(),
        cores: plan.cores,
        outcome: Outcome::of(verified),
        holds: Outcome::of(verified) == Outcome::Equal,
        same: verified.is_same(),
        packets: verified.packets,
        different: verified.different,
        first: verified.first.as_ref().map(|first| Different {
            packet: first.number,
            flow: first.flow.map(|flow| flow.to_string()),
            single: describe(chain, &first.single, &first.other),
            other: describe(chain, &first.other, &first.single),
        }),
        digests: verified
            .digests
            .iter()
            .map(|(function, single, other)| Digests {
                function: function.clone(),
                single: hex(*single),
                other: hex(*other),
            })
            .collect(),
        shared: verified
            .shared
            .iter()
            .map(|check| Shared {
                function: check.function.clone(),
                promise: promise(plan, check),
                failure: check.failure.clone(),
            })
            .collect(),
        allocated: verified
            .allocated
            .iter()
            .map(|(function, fields)| Allocated {
                function: function.clone(),
                fields: fields.names().collect(),
            })
            .collect(),
        broken: verified
            .broken
            .iter()
            .map(|Broken { function, strategy, message }| format!("{function} under {strategy}: {message}"))
            .collect(),
        filled: verified.filled.clone(),
        exhausted: verified.exhausted.clone(),
        oddities: verified.oddities.sentences(),
        out_of_order: verified.out_of_order,
        moves: verified.moves.entries_out,
        history: verified.history.as_ref().map(|check| HistoryVerified {
            report: HistoryReport::new(&check.outcome),
            lost_to_all: check.lost_to_all,
            diverged: check.diverged(),
        }),
        error,
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_interrupted_comparison_proves_nothing() {
        let chain =
            Chain::parse("a.toml", "[[function]]\nuse = \"ddos\"\n", &Registry::stock()).expect("a chain");
        let plan = Plan::new(&chain, engine::strategies::RSS, 2).expect("a plan");
        for different in [0, 3] {
            let verified = Verified {
                packets: 9,
                different,
                first: None,
                digests: Vec::new(),
                shared: Vec::new(),
                allocated: Vec::new(),
                broken: Vec::new(),
                filled: Vec::new(),
                exhausted: Vec::new(),
                oddities: engine::Oddities::default(),
                out_of_order: Some(0),
                moves: Moves::default(),
                input_error: None,
                stopped: true,
                history: None,
            };
            let text = render(&chain, &plan, &verified);
            assert!(text.contains("INTERRUPTED: nothing is proved; of 9 packets compared, "), "{text}");
            assert!(!text.contains("EQUALS") && !text.contains("DIFFERS"), "{text}");
            assert!(!as_json(&chain, &plan, &verified).holds);
        }
    }
}
