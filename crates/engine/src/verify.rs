use std::sync::Arc;
use std::sync::atomic::Ordering;

use io::Fate;
use io::capture::{CaptureError, CaptureReader};
use nf::{FiveTuple, FlowKey, WhenShared, hash_bytes};
use strategy::Strategy;
use thiserror::Error;
use wire::Fields;

use crate::chain::{Chain, Keeping};
use crate::egress::Egress;
use crate::external::{HistoryCheck, InputError};
use crate::follow::{End, Ends};
use crate::mask::masked;
use crate::oddities::Oddities;
use crate::plan::{Plan, PlanError};
use crate::registry::FunctionInfo;
use crate::run::Moves;
use crate::session::{Progress, RunError, RunOutcome, Seen, replay_keeping};
use crate::stage::{Stage, StageCounters};

/// How two strategies' answers compare.
#[derive(Debug)]
pub struct Verified {
    /// Packets compared.
    pub packets: u64,
    /// Packets whose answers differ.
    pub different: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// Functions whose states all cores share, each with what it promises then and whether that is so:
    /// instead of `digests`. With them those that nobody can compare. Empty if the runs were stopped.
    pub shared: Vec<SharedCheck>,
    /// Functions that take header fields from a pool, with these fields: answers are compared without them.
    pub allocated: Vec<(String, Fields)>,
    /// What must hold between the flows of a function and does not, in either run.
    pub broken: Vec<Broken>,
    /// Per function: name, and under `single` and the other strategy a hash of its live flows, of when
    /// they will die, of how every other flow left, and of what it counted. Of replicas, the first that
    /// differs, if one does. Empty if the runs were stopped, each at a packet of its own.
    pub digests: Vec<(String, u64, u64)>,
    /// Functions whose table was full at some time: then strategies may differ, because each core
    /// has a table of its own. Replicas may not.
    pub filled: Vec<String>,
    /// Functions whose pool had nothing left to give at some time, such as a NAT without free ports: then
    /// strategies may differ, because each core has its share. Replicas may not.
    pub exhausted: Vec<String>,
    /// Packets that left after a later one of their flow; `None` where the strategy promises no order. Checked by
    /// entry of the indirection table, each of which all packets of a flow share.
    pub out_of_order: Option<u64>,
    /// What went from core to core.
    pub moves: Moves,
    /// Why the input ended early, if it did. What came before is compared.
    pub input_error: Option<InputError>,
    /// Whether [`Progress::stop`] ended it.
    pub stopped: bool,
    /// What became of packets because of their history, where they came with one.
    pub history: Option<HistoryCheck>,
    /// What is odd about the input.
    pub oddities: Oddities,
}

/// A function whose states all cores share, or that comes behind one whose edits nobody can tell, and what it
/// promises.
#[derive(Debug)]
pub struct SharedCheck {
    /// What the chain calls the function.
    pub function: String,
    /// What it promises; `None`: it was not compared.
    pub promise: Option<WhenShared>,
    /// The function before it whose edits nobody can tell, if that is why.
    pub behind: Option<String>,
    /// Why that does not hold, if so.
    pub failure: Option<String>,
}

/// Flows that cannot be at the same time: see [`nf::Guarantees::invariant`].
#[derive(Debug)]
pub struct Broken {
    /// What the chain calls the function.
    pub function: String,
    /// In which run.
    pub strategy: &'static str,
    /// Which flows.
    pub message: String,
}

/// One packet with two answers.
#[derive(Debug)]
pub struct Mismatch {
    /// The packet's number in the capture, from 1.
    pub number: u64,
    /// Its flow; `None` if it is not IP or could not be parsed.
    pub flow: Option<FiveTuple>,
    /// What `single` answers.
    pub single: Answer,
    /// What the other strategy answers.
    pub other: Answer,
}

/// The answer for one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of it.
    pub fate: Fate,
    /// Its bytes with all edits applied.
    pub bytes: Vec<u8>,
}

/// Why there was nothing to compare.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The chain cannot run so.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The input cannot be read at all.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A core panicked.
    #[error(transparent)]
    Run(RunError<std::convert::Infallible>),
    /// The runs do not have the same packets: the input changed in between, or packets were lost.
    #[error(
        "`single` saw {single} packets and `{strategy}` {other}: the input changed in between, or packets were lost"
    )]
    Packets {
        /// The other strategy.
        strategy: &'static str,
        /// Packets under `single`.
        single: u64,
        /// Packets under the other.
        other: u64,
    },
}

impl From<CaptureError> for VerifyError {
    fn from(error: CaptureError) -> VerifyError {
        VerifyError::Input(error.into())
    }
}

/// Runs `chain` over a capture under `single` and under `plan`, both with real threads, and compares
/// each packet's verdict and bytes, and at the end each function's flows.
///
/// Where all cores share a function's states, which packets it drops is not promised. So `plan` runs first;
/// then `single`, in which these functions step, and answer what they answered in the first run: so what
/// reaches the others is the same, and they must answer the same. What the shared ones promise is checked
/// besides, and header fields that they edit, or that functions take from a pool, are left out.
///
/// Answers are compared in order of arrival, whatever [`Plan::egress`] says.
///
/// Opens the input twice, and twice more where an answer differs. Holds 8 bytes per packet, 11 with shared
/// states.
///
/// # Errors
/// [`VerifyError`]. Different answers are no error but a result.
pub fn verify(
    chain: &Chain,
    plan: &Plan,
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    let plan = &Plan { egress: Egress::Ordered, ..plan.clone() };
    let single_plan = Plan::new(chain, Strategy::Single, 1)?;
    let has_shared = !plan.shared.is_empty();
    let mask = may_differ(chain, plan);

    let watched = plan.keeping_watched(true);
    let first_run = if has_shared { (plan, &watched) } else { (&single_plan, &Keeping::Own) };
    let mut answers: Vec<u64> = Vec::new();
    let mut order = Order::new(plan.indirection_entries);
    let mut ends = Ends::new();
    let first = run(chain, first_run, open()?, progress, &mut |seen| {
        answers.push(fingerprint(seen, mask));
        if has_shared {
            order.see(seen);
        }
        if has_shared {
            ends.push(End::of(seen.fate));
        }
    })?;

    if first.stopped {
        return Ok(Verified::stopped());
    }
    let followed = followed(chain, plan);
    let following = Keeping::Followed { functions: &followed, ends: Arc::new(ends) };
    let second_run = if has_shared { (&single_plan, &following) } else { (plan, &Keeping::Own) };
    let mut different = 0;
    let mut mismatch: Option<(u64, Answer)> = None;
    let second = run(chain, second_run, open()?, progress, &mut |seen| {
        if !has_shared {
            order.see(seen);
        }
        if answers.get(seen.stamp.seq as usize) != Some(&fingerprint(seen, mask)) {
            different += 1;
            mismatch.get_or_insert_with(|| (seen.stamp.seq, answer(seen, mask)));
        }
    })?;

    let explained = |seq, of_second| explain(chain, first_run, open, seq, mask, of_second, progress);
    let (single, other) = if has_shared { (second, first) } else { (first, second) };
    let stopped = single.stopped || other.stopped;
    if single.packets != other.packets && !stopped {
        return Err(VerifyError::Packets {
            strategy: plan.strategy.name(),
            single: single.packets,
            other: other.packets,
        });
    }
    let first = match mismatch {
        Some((seq, of_second)) if !stopped => {
            let in_order = |Mismatch { number, flow, single: a, other: b }| {
                let (single, other) = if has_shared { (b, a) } else { (a, b) };
                Mismatch { number, flow, single, other }
            };
            explained(seq, of_second)?.map(in_order)
        }
        _ => None,
    };
    // Explaining takes as long as a run, and may be stopped, too.
    let stopped = stopped || (different > 0 && first.is_none());
    let own = (0..chain.functions.len()).filter(|index| !followed.contains(index) && !stopped);
    let digests = own.map(|index| digests(chain, index, &single, &other));
    let shared = followed.iter().filter(|_| !stopped);
    Ok(Verified {
        packets: other.packets,
        different,
        first,
        digests: digests.collect(),
        shared: shared.map(|index| check_shared(chain, plan, *index, &single, &other)).collect(),
        allocated: allocated(chain, plan),
        broken: match stopped {
            true => Vec::new(),
            false => broken(chain, [("single", &single), (plan.strategy.name(), &other)]),
        },
        filled: filled(chain, [&single, &other]),
        exhausted: exhausted(chain, [&single, &other]),
        oddities: Oddities::of(&other),
        out_of_order: (!plan.is_striped() && !plan.is_replicated()).then_some(order.out_of_order),
        moves: other.moves,
        input_error: other.input_error,
        stopped,
        history: None,
    })
}

impl Verified {
    /// Stopped before the second run: nothing was compared.
    pub(crate) fn stopped() -> Verified {
        Verified {
            packets: 0,
            different: 0,
            first: None,
            shared: Vec::new(),
            allocated: Vec::new(),
            broken: Vec::new(),
            digests: Vec::new(),
            filled: Vec::new(),
            exhausted: Vec::new(),
            out_of_order: None,
            moves: Moves::default(),
            input_error: None,
            stopped: true,
            history: None,
            oddities: Oddities::default(),
        }
    }

    /// Whether there was anything that has to be the same: some function's answers, or what it promises.
    pub fn has_compared(&self) -> bool {
        self.shared.is_empty()
            || !self.digests.is_empty()
            || self.shared.iter().any(|check| check.promise.is_some())
    }

    /// Whether every answer, every function's flows and all that is promised of shared states are as they
    /// have to be, over the whole input.
    pub fn holds(&self) -> bool {
        self.has_compared() && self.is_same() && self.input_error.is_none() && !self.stopped
    }

    /// The same for as much of the input as there was.
    pub fn is_same(&self) -> bool {
        self.different == 0
            && self.digests.iter().all(|(_, single, other)| single == other)
            && self.shared.iter().all(|check| check.failure.is_none())
            && self.broken.is_empty()
            && self.out_of_order.unwrap_or(0) == 0
            && self.history.as_ref().is_none_or(|history| history.diverged() == 0)
    }
}

/// The order in which packets of one entry leave.
struct Order {
    /// By entry, how many had left before the last packet seen.
    sent: Vec<Option<u64>>,
    out_of_order: u64,
}

impl Order {
    fn new(entries: usize) -> Order {
        Order { sent: vec![None; entries], out_of_order: 0 }
    }

    /// Sees each packet in the order in which they came.
    fn see(&mut self, seen: &Seen<'_>) {
        let last = &mut self.sent[usize::from(seen.entry)];
        self.out_of_order += u64::from(last.is_some_and(|last| seen.sent < last));
        *last = (*last).max(Some(seen.sent));
    }
}

/// Functions that allocate header fields, with the fields.
fn allocated(chain: &Chain, plan: &Plan) -> Vec<(String, Fields)> {
    // Each replica gives out what one core would, which one alone does, too.
    if plan.strategy == Strategy::Scr {
        return Vec::new();
    }
    let fields = chain.functions.iter().map(|spec| (spec.name.clone(), spec.function.allocates()));
    fields.filter(|(_, fields)| !fields.is_empty()).collect()
}

/// Header fields in which right answers may differ.
fn may_differ(chain: &Chain, plan: &Plan) -> Fields {
    let edited = plan.shared.iter().map(|index| chain.functions[*index].function.info().edits);
    let allocated = allocated(chain, plan).into_iter().map(|(_, fields)| fields);
    edited.chain(allocated).fold(Fields::empty(), Fields::union)
}

/// The first function before `index` whose edits are not promised: what comes behind it sees other packets than on
/// one core.
fn blinded_by(chain: &Chain, plan: &Plan, index: usize) -> Option<usize> {
    let info = |index: usize| chain.functions[index].function.info();
    plan.shared.iter().copied().find(|editor| {
        let info = info(*editor);
        info.when_shared.is_none() && !info.edits.is_empty() && chain.comes_behind(index, *editor)
    })
}

/// Functions that are not compared answer by answer: those whose states cores share, and all behind one whose
/// edits are not promised.
fn followed(chain: &Chain, plan: &Plan) -> Vec<usize> {
    let is_blind = |index| blinded_by(chain, plan, index).is_some();
    (0..chain.functions.len()).filter(|index| plan.shared.contains(index) || is_blind(*index)).collect()
}

fn stages(outcome: &RunOutcome, index: usize) -> Vec<Stage<'_>> {
    outcome.cores.iter().map(|(_, core)| core.stage(index)).collect()
}

fn check_shared(
    chain: &Chain,
    plan: &Plan,
    index: usize,
    single: &RunOutcome,
    other: &RunOutcome,
) -> SharedCheck {
    let spec = &chain.functions[index];
    let function = &spec.function;
    if let Some(editor) = blinded_by(chain, plan, index) {
        let behind = Some(chain.functions[editor].name.clone());
        return SharedCheck { function: spec.name.clone(), promise: None, behind, failure: None };
    }
    let promise = function.info().when_shared;
    let (single, other) = (stages(single, index), stages(other, index));
    let packets = |stages: &[Stage<'_>]| stages.iter().map(|stage| stage.counters().packets).sum::<u64>();
    let counted = (packets(&single), packets(&other));
    let failure = match promise {
        _ if counted.0 != counted.1 => {
            Some(format!("{} packets were counted, {} came", counted.1, counted.0))
        }
        Some(WhenShared::Totals) if function.totals(&single) != function.totals(&other) => {
            Some("its records do not add up to those of one core".to_owned())
        }
        Some(WhenShared::Bound { .. }) => function.passed(&other).err(),
        Some(WhenShared::Totals) | None => None,
    };
    SharedCheck { function: spec.name.clone(), promise, behind: None, failure }
}

pub(crate) fn broken(chain: &Chain, outcomes: [(&'static str, &RunOutcome); 2]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (strategy, outcome) in outcomes {
        for (index, spec) in chain.functions.iter().enumerate() {
            let whole: Vec<Stage<'_>> = outcome.whole().iter().map(|(_, core)| core.stage(index)).collect();
            if let Err(message) = spec.function.invariant(&whole, outcome.last) {
                broken.push(Broken { function: spec.name.clone(), strategy, message });
            }
        }
    }
    broken
}

/// A function's name, and its traces in both runs: of replicas, the first that differs, if one does.
pub(crate) fn digests(
    chain: &Chain,
    index: usize,
    single: &RunOutcome,
    other: &RunOutcome,
) -> (String, u64, u64) {
    let single = traces(chain, single, index)[0];
    let replicas = traces(chain, other, index);
    let other = replicas.iter().find(|trace| **trace != single).unwrap_or(&replicas[0]);
    (chain.functions[index].name.clone(), single, *other)
}

/// A hash of all that a function's steps left behind, over all cores; of replicas, one for each. Once settled, none
/// of it depends on how packets were spread, as long as no table was full.
fn traces(chain: &Chain, outcome: &RunOutcome, index: usize) -> Vec<u64> {
    let all = stages(outcome, index);
    let states: Vec<&[Stage<'_>]> = match outcome.is_replicated {
        true => all.chunks(1).collect(),
        false => vec![&all],
    };
    let trace = |states: &[Stage<'_>]| {
        let sum = |stages: &[Stage<'_>], of: &dyn Fn(&Stage<'_>) -> u64| {
            stages.iter().map(of).fold(0, u64::wrapping_add)
        };
        let mut parts = vec![
            sum(states, &|stage| stage.digest(outcome.last)),
            sum(states, &|stage| stage.audit(outcome.last)),
            sum(&all, &|stage| stage.counters().packets),
            sum(states, &|stage| stage.counters().flows.created),
            sum(states, &|stage| stage.counters().flows.removed),
        ];
        let events = chain.functions[index].function.info().events.len();
        parts.extend((0..events).map(|event| sum(&all, &|stage| stage.counters().events[event])));
        parts.iter().fold(0, |seed, part| hash_bytes(&part.to_le_bytes(), seed))
    };
    states.into_iter().map(trace).collect()
}

fn run(
    chain: &Chain,
    (plan, keeping): (&Plan, &Keeping<'_>),
    reader: CaptureReader,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>),
) -> Result<RunOutcome, VerifyError> {
    let mut see = |seen: &Seen<'_>| {
        see(seen);
        Ok(())
    };
    replay_keeping(chain, plan, keeping, reader.into(), progress, &mut see).map_err(VerifyError::Run)
}

/// The answer in 64 bits, without what may differ. Dropped packets' bytes do not matter.
pub(crate) fn fingerprint(seen: &Seen<'_>, mask: Fields) -> u64 {
    let kind = match seen.fate {
        Fate::Forward => 0,
        Fate::TransmitBack => 1,
        Fate::Host => 2,
        Fate::DropBy { function, reason } => return u64::from_le_bytes([3, function, reason, 0, 0, 0, 0, 0]),
        Fate::Drop(why) => return u64::from_le_bytes([4, why as u8, 0, 0, 0, 0, 0, 0]),
    };
    let [a, b, c, d] = seen.wire_len.to_le_bytes();
    let seed = u64::from_le_bytes([kind, a, b, c, d, 0, 0, 0]);
    match mask.is_empty() {
        true => hash_bytes(seen.bytes, seed),
        false => hash_bytes(&masked(seen, mask), seed),
    }
}

pub(crate) fn answer(seen: &Seen<'_>, mask: Fields) -> Answer {
    Answer { fate: seen.fate, bytes: masked(seen, mask) }
}

/// Does the first run once more up to packet `seq`, for its whole answer: in the result this is `single`'s,
/// and `of_second` the other. `None` if it is stopped.
fn explain(
    chain: &Chain,
    (plan, keeping): (&Plan, &Keeping<'_>),
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    seq: u64,
    mask: Fields,
    of_second: Answer,
    progress: &Progress,
) -> Result<Option<Mismatch>, VerifyError> {
    let is_stopped = || progress.stop.load(Ordering::Relaxed);
    let mut reader = open()?;
    let mut flow = None;
    for number in 0..=seq {
        let Some(record) = reader.next()? else { break };
        if number.is_multiple_of(256) && is_stopped() {
            return Ok(None);
        }
        if number == seq {
            let headers = wire::parse(record.link, record.data, record.wire_len);
            flow = (headers.is_ip() && headers.is_well_formed()).then(|| FiveTuple::of(&headers));
        }
    }
    let mut found = None;
    let again: Result<RunOutcome, RunError<()>> =
        replay_keeping(chain, plan, keeping, open()?.into(), progress, &mut |seen| {
            if seen.stamp.seq < seq {
                return Ok(());
            }
            found = Some(answer(seen, mask));
            Err(())
        });
    if let Err(RunError::OutOfMemory { cores, bytes }) = again {
        return Err(VerifyError::Run(RunError::OutOfMemory { cores, bytes }));
    }
    let Some(of_first) = found else {
        if is_stopped() {
            return Ok(None);
        }
        return Err(VerifyError::Packets { strategy: "the same again", single: seq + 1, other: seq });
    };
    Ok(Some(Mismatch { number: seq + 1, flow, single: of_first, other: of_second }))
}

/// Functions whose table was full at some time.
pub(crate) fn filled(chain: &Chain, outcomes: [&RunOutcome; 2]) -> Vec<String> {
    where_any(chain, outcomes, |_, counters| counters.flows.evicted + counters.flows.rejected > 0)
}

/// Functions whose pool had nothing left to give at some time.
pub(crate) fn exhausted(chain: &Chain, outcomes: [&RunOutcome; 2]) -> Vec<String> {
    where_any(chain, outcomes, |info, counters| {
        info.pool_empty.is_some_and(|reason| counters.drops[usize::from(reason)] > 0)
    })
}

/// The names of the functions for which something is so on any core in either run.
fn where_any(
    chain: &Chain,
    outcomes: [&RunOutcome; 2],
    is_so: impl Fn(&FunctionInfo, &StageCounters<'_>) -> bool,
) -> Vec<String> {
    let on_any = |index: usize, info: &FunctionInfo| {
        let mut cores = outcomes.iter().flat_map(|outcome| &outcome.cores);
        cores.any(|(_, core)| is_so(info, &core.stage(index).counters()))
    };
    let functions = chain.functions.iter().enumerate();
    let named = functions.filter(|(index, spec)| on_any(*index, &spec.function.info()));
    named.map(|(_, spec)| spec.name.clone()).collect()
}
