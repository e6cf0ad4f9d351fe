//! What was found, as JSON: `docs/verify.schema.json`.

use std::collections::BTreeMap;

use engine::report::{ChangesReport, HistoryReport, ReloadReport, SeedReport, hex};
use engine::{Agreement, Answered, Broken, Chain, Plan, UpTo, Verified, Wrong};
use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::Outcome;
use super::words::{describe, promise};

/// What `verify` found, as JSON: `docs/verify.schema.json`.
#[derive(Serialize, JsonSchema)]
pub struct VerifyReport {
    /// Version of Paceline.
    pub(super) paceline: &'static str,
    /// Name of the chain.
    pub(super) chain: String,
    /// The strategy compared with `single`.
    pub(super) strategy: &'static str,
    /// Its cores.
    pub(super) cores: usize,
    /// The seed of a simulation, in which the cores took turns on one thread; null where each had a thread.
    pub(super) simulated: Option<u64>,
    /// What functions drew from, in both runs.
    pub(super) seed: SeedReport,
    /// How it ended. The exit status says the same.
    pub(super) outcome: Outcome,
    /// What need not be the same, in words; empty if everything has to be, or something differs.
    pub(super) up_to: Vec<&'static str>,
    /// Whether every answer, byte and state was compared, and none left out or excused: given what full tables and empty pools
    /// turned away.
    pub(super) exact: bool,
    /// Whether everything that has to be the same is, over the whole input, which has packets.
    pub holds: bool,
    /// Whether all that was compared is the same: of an input that is cut short, up to there.
    pub(super) same: bool,
    /// Packets compared.
    pub(super) packets: u64,
    /// Packets with another verdict or other bytes.
    pub(super) different: u64,
    /// The first of them.
    pub(super) first: Option<Different>,
    /// Each function's state at the end, less those whose states cores share.
    pub(super) digests: Vec<Digests>,
    /// Functions whose states differ and need not be the same, since packets judged alone came to them.
    pub(super) uncompared: Vec<String>,
    /// Functions whose states all cores share, and what was checked of them instead; with those that see edits
    /// that nobody can tell.
    pub(super) shared: Vec<Shared>,
    /// Functions that take header fields from a pool and have no judge: answers are compared without those.
    pub(super) allocated: Vec<Allocated>,
    /// Events that count what was taken from a pool, and differ. They are no difference.
    pub(super) allocation_events: Vec<CountedEvent>,
    /// Functions that take header fields from a pool, before a judge of each run: packets are compared with those renamed.
    pub(super) judged: Vec<JudgedFunction>,
    /// Packets that were answered as each run sent them, with `--answer`; else null. They are numbered with the answers.
    pub(super) answered: Option<AnsweredPackets>,
    /// What must hold between a function's flows and does not.
    pub(super) broken: Vec<String>,
    /// Functions whose table was full at some time.
    pub(super) filled: Vec<String>,
    /// Functions whose pool was empty at some time, such as a NAT that ran out of ports.
    pub(super) exhausted: Vec<String>,
    /// Whether `single` had no full tables and empty pools of its own, but turned away what the strategy's turned away.
    pub(super) told: bool,
    /// What is odd about the input, in sentences.
    pub(super) oddities: Vec<String>,
    /// Packets that left after a later one of their flow; null where the strategy promises no order.
    pub(super) out_of_order: Option<u64>,
    /// Moves of what the strategy moves with its flows: entries of the indirection table, shards, values of the hash.
    pub(super) moves: u64,
    /// What the strategy counts of its own, each by its name.
    pub(super) counters: BTreeMap<&'static str, u64>,
    /// What became of packets because of their history; null unless they came with one.
    pub(super) history: Option<HistoryVerified>,
    /// Where another chain took over, and what it went on with in both runs; all else is told of the last chain.
    pub(super) reloads: Vec<ReloadReport>,
    /// What ran the chain; null unless the strategy has others run it.
    pub(super) changes: Option<ChangesReport>,
    /// Why the input was not processed to its end, if so.
    pub(super) error: Option<String>,
}

/// What was lost of packets that came with history.
#[derive(Serialize, JsonSchema)]
pub(super) struct HistoryVerified {
    /// What the cores counted.
    #[serde(flatten)]
    pub(super) report: HistoryReport,
    /// Packets that no core got, neither themselves nor in another's history.
    pub(super) lost_to_all: u64,
    /// Packets that some replica missed and another did not, each as often as it was missed.
    pub(super) diverged: u64,
}

/// A function whose states all cores share.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shared {
    /// What the chain calls the function.
    pub(super) function: String,
    /// What it promises, in words; or that it was not compared, and why.
    pub(super) promise: String,
    /// Why that does not hold; null if it does.
    pub(super) failure: Option<String>,
    /// Why that does not hold where it need not, since the function's table was full; else null.
    pub(super) excused: Option<String>,
}

/// A function that takes header fields from a pool, which each core has of its own.
#[derive(Serialize, JsonSchema)]
pub(super) struct Allocated {
    /// What the chain calls the function.
    pub(super) function: String,
    /// The fields.
    pub(super) fields: Vec<&'static str>,
}

/// A function that takes header fields from a pool, and what its judge found in each run.
#[derive(Serialize, JsonSchema)]
pub(super) struct JudgedFunction {
    /// What the chain calls the function.
    pub(super) function: String,
    /// Why it was not judged; null if it was.
    pub(super) not_judged: Option<String>,
    /// Packets that have the same answer but for what was taken.
    pub(super) renamed: u64,
    /// Packets that mean another allocation in the other run, or none: of the capture, for an external endpoint which is another's,
    /// or nobody's, there; answers of a backend to which the same client has a connection of its own. The judge of each run alone
    /// says whether its answer is right.
    pub(super) alone: u64,
    /// Packets that were not compared, since packets judged alone had come for the same inside end.
    pub(super) touched: u64,
    /// Packets that were not compared, since the order in which cores came to packets in flight decides.
    pub(super) in_flight: u64,
    /// Packets that one run alone refused, since its pool was empty.
    pub(super) refused: u64,
    /// Packets that may have ended before they came to the function: they were not judged.
    pub(super) unattributed: u64,
    /// What a judge found wrong, in sentences.
    pub(super) wrong: Vec<String>,
}

/// Packets that were answered under the strategy.
#[derive(Serialize, JsonSchema)]
pub(super) struct AnsweredPackets {
    /// Answers to packets that went out, in the endpoints that they had then, or to a backend.
    pub(super) answered: u64,
    /// Answers that there were not, since their packets did not go out: a frame without meaning stands for each.
    pub(super) unsent: u64,
    /// Packets of the capture for external addresses, or from backends, which were left out.
    pub(super) left_out: u64,
}

/// How often an event was counted that depends on what was taken from a pool, such as ports of the other parity.
#[derive(Serialize, JsonSchema)]
pub(super) struct CountedEvent {
    /// What the chain calls the function.
    pub(super) function: String,
    /// The event.
    pub(super) event: &'static str,
    /// How often under `single`.
    pub(super) single: u64,
    /// How often under the other strategy.
    pub(super) other: u64,
}

/// A packet with two answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Different {
    /// Its number in the capture, from 1.
    pub(super) packet: u64,
    /// Its flow; null if it is not IP or is malformed.
    pub(super) flow: Option<String>,
    /// What `single` answers, in words.
    pub(super) single: String,
    /// What the other strategy answers.
    pub(super) other: String,
}

/// Hashes of a function's live flows, hexadecimal.
#[derive(Serialize, JsonSchema)]
pub(super) struct Digests {
    /// What the chain calls the function.
    pub(super) function: String,
    /// Under `single`.
    pub(super) single: String,
    /// Under the other strategy.
    pub(super) other: String,
}

impl VerifyReport {
    /// What was found of a chain.
    pub fn new(chain: &Chain, plan: &Plan, verified: &Verified) -> VerifyReport {
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
            simulated: plan.simulation,
            seed: SeedReport::new(chain),
            outcome: Outcome::of(verified),
            up_to: match verified.agreement() {
                Agreement::EqualUpTo(up_to) => up_to.into_iter().map(UpTo::words).collect(),
                _ => Vec::new(),
            },
            exact: verified.is_exact(),
            holds: matches!(Outcome::of(verified), Outcome::Equal | Outcome::EqualUpTo),
            reloads: verified.reloads.iter().map(ReloadReport::new).collect(),
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
            uncompared: verified.uncompared.iter().map(|open| open.function.clone()).collect(),
            shared: verified
                .shared
                .iter()
                .map(|check| Shared {
                    function: check.function.clone(),
                    promise: promise(plan, check),
                    failure: check.failure.clone(),
                    excused: check.excused.clone(),
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
            allocation_events: verified
                .allocation_events
                .iter()
                .map(|counted| CountedEvent {
                    function: counted.function.clone(),
                    event: counted.event,
                    single: counted.single,
                    other: counted.other,
                })
                .collect(),
            judged: verified
                .judged
                .iter()
                .map(|judged| JudgedFunction {
                    function: judged.function.clone(),
                    not_judged: judged.not_judged.clone(),
                    renamed: judged.renamed,
                    alone: judged.alone,
                    touched: judged.touched,
                    in_flight: judged.in_flight,
                    refused: judged.refused,
                    unattributed: judged.unattributed,
                    wrong: judged
                        .wrong
                        .iter()
                        .map(|Wrong { strategy, count, first }| {
                            format!("under {strategy}: {count} answers, the first: {first}")
                        })
                        .collect(),
                })
                .collect(),
            answered: verified.answered.map(|Answered { answered, unsent, left_out }| AnsweredPackets {
                answered,
                unsent,
                left_out,
            }),
            broken: verified
                .broken
                .iter()
                .map(|Broken { function, strategy, message }| {
                    format!("{function} under {strategy}: {message}")
                })
                .collect(),
            filled: verified.filled.clone(),
            exhausted: verified.exhausted.clone(),
            told: verified.is_told,
            oddities: verified.oddities.sentences(),
            out_of_order: verified.out_of_order,
            moves: verified.moves.entries_out,
            counters: verified.moves.own.iter().map(|(counter, count)| (counter.name, count)).collect(),
            changes: ChangesReport::new(&verified.changes),
            history: verified.history.as_ref().map(|check| HistoryVerified {
                report: HistoryReport::new(&check.outcome),
                lost_to_all: check.lost_to_all,
                diverged: check.diverged(),
            }),
            error,
        }
    }
}
