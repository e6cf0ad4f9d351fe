//! What was found, as JSON: `docs/verify.schema.json`.

use engine::report::{ChangesReport, HistoryReport, ReloadReport, SeedReport, hex};
use engine::{Broken, Chain, Plan, Verified};
use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::Outcome;
use super::words::{describe, promise};

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
    /// The seed of a simulation, in which the cores took turns on one thread; null where each had a thread.
    simulated: Option<u64>,
    /// What functions drew from, in both runs.
    seed: SeedReport,
    /// How it ended. The exit status says the same.
    outcome: Outcome,
    /// Whether everything is the same, over the whole input, which has packets.
    pub holds: bool,
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
    /// Events that count what was taken from a pool, and differ. They are no difference.
    allocation_events: Vec<CountedEvent>,
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
    /// Moves of an entry of the indirection table, or of a shard, with its flows, from core to core.
    moves: u64,
    /// Promotions of a value of the hash, with its flows, to all cores.
    promotions: u64,
    /// What became of packets because of their history; null unless they came with one.
    history: Option<HistoryVerified>,
    /// Where another chain took over, and what it went on with in both runs; all else is told of the last chain.
    reloads: Vec<ReloadReport>,
    /// What ran the chain; null unless the strategy has others run it.
    changes: Option<ChangesReport>,
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

/// How often an event was counted that depends on what was taken from a pool, such as ports of the other parity.
#[derive(Serialize, JsonSchema)]
struct CountedEvent {
    /// What the chain calls the function.
    function: String,
    /// The event.
    event: &'static str,
    /// How often under `single`.
    single: u64,
    /// How often under the other strategy.
    other: u64,
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
            holds: Outcome::of(verified) == Outcome::Equal,
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
            broken: verified
                .broken
                .iter()
                .map(|Broken { function, strategy, message }| {
                    format!("{function} under {strategy}: {message}")
                })
                .collect(),
            filled: verified.filled.clone(),
            exhausted: verified.exhausted.clone(),
            oddities: verified.oddities.sentences(),
            out_of_order: verified.out_of_order,
            moves: verified.moves.entries_out,
            promotions: verified.moves.promotions,
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
