use io::Fate;
use io::capture::{CaptureError, CaptureReader};
use nf::{FiveTuple, FlowKey, hash_bytes};
use strategy::Strategy;
use thiserror::Error;

use crate::chain::Chain;
use crate::plan::{Plan, PlanError};
use crate::session::{Progress, RunError, RunOutcome, Seen, replay_capture};
use crate::stage::Stage;

/// How two strategies' answers compare.
#[derive(Debug)]
pub struct Verified {
    /// Packets compared.
    pub packets: u64,
    /// Packets whose answers differ.
    pub different: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// Per function: name, and under `single` and the other strategy a hash of its live flows, of when
    /// they will die, of how every other flow left, and of what it counted. Empty if the runs were
    /// stopped, each at a packet of its own.
    pub digests: Vec<(String, u64, u64)>,
    /// Functions whose table was full at some time: then strategies may differ, because each core
    /// has a table of its own.
    pub filled: Vec<String>,
    /// Why the input ended early, if it did. What came before is compared.
    pub input_error: Option<CaptureError>,
    /// Whether [`Progress::stop`] ended it.
    pub stopped: bool,
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
    Input(#[from] CaptureError),
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

/// Runs `chain` over a capture under `single` and under `plan`, both with real threads, and compares
/// each packet's verdict and bytes, and at the end each function's flows.
///
/// Opens the input twice, and twice more where an answer differs. Holds 8 bytes per packet.
///
/// # Errors
/// [`VerifyError`]. Different answers are no error but a result.
pub fn verify(
    chain: &Chain,
    plan: &Plan,
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    let single_plan = Plan::new(chain, Strategy::Single, 1)?;
    let mut answers: Vec<u64> = Vec::new();
    let single = run(chain, &single_plan, open()?, progress, &mut |seen| answers.push(fingerprint(seen)))?;

    let mut different = 0;
    let mut first: Option<(u64, Answer)> = None;
    let other = run(chain, plan, open()?, progress, &mut |seen| {
        if answers.get(seen.stamp.seq as usize) != Some(&fingerprint(seen)) {
            different += 1;
            first.get_or_insert_with(|| (seen.stamp.seq, answer(seen)));
        }
    })?;
    let stopped = single.stopped || other.stopped;
    if single.packets != other.packets && !stopped {
        return Err(VerifyError::Packets {
            strategy: plan.strategy.name(),
            single: single.packets,
            other: other.packets,
        });
    }
    let first = match first {
        Some((seq, other)) if !stopped => Some(explain(chain, &single_plan, open, seq, other)?),
        _ => None,
    };
    let digests = traces(chain, &single).into_iter().zip(traces(chain, &other));
    let digests = digests.filter(|_| !stopped);
    let named = chain.functions.iter().zip(digests).map(|(spec, (a, b))| (spec.name.clone(), a, b));
    Ok(Verified {
        packets: other.packets,
        different,
        first,
        digests: named.collect(),
        filled: filled(chain, [&single, &other]),
        input_error: other.input_error,
        stopped,
    })
}

impl Verified {
    /// Whether every answer and every function's flows are the same, over the whole input.
    pub fn holds(&self) -> bool {
        let same_flows = self.digests.iter().all(|(_, single, other)| single == other);
        self.different == 0 && same_flows && self.input_error.is_none() && !self.stopped
    }
}

/// For each function a hash of all that its steps left behind, over all cores. Once settled, none of it
/// depends on how packets were spread, as long as no table was full.
fn traces(chain: &Chain, outcome: &RunOutcome) -> Vec<u64> {
    let trace = |index: usize| {
        let stages = || outcome.cores.iter().map(move |(_, core)| core.stage(index));
        let sum = |of: &dyn Fn(Stage<'_>) -> u64| stages().map(of).fold(0, u64::wrapping_add);
        let mut parts = vec![
            sum(&|stage| stage.digest(outcome.last)),
            sum(&|stage| stage.audit(outcome.last)),
            sum(&|stage| stage.counters().packets),
            sum(&|stage| stage.counters().flows.created),
            sum(&|stage| stage.counters().flows.removed),
        ];
        let events = chain.functions[index].function.info().events.len();
        parts.extend((0..events).map(|event| sum(&|stage| stage.counters().events[event])));
        parts.iter().fold(0, |seed, part| hash_bytes(&part.to_le_bytes(), seed))
    };
    (0..chain.functions.len()).map(trace).collect()
}

fn run(
    chain: &Chain,
    plan: &Plan,
    reader: CaptureReader,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>),
) -> Result<RunOutcome, VerifyError> {
    let mut see = |seen: &Seen<'_>| {
        see(seen);
        Ok(())
    };
    replay_capture(chain, plan, reader, progress, &mut see).map_err(VerifyError::Run)
}

/// The answer in 64 bits. Dropped packets' bytes do not matter.
fn fingerprint(seen: &Seen<'_>) -> u64 {
    let kind = match seen.fate {
        Fate::Forward => 0,
        Fate::TransmitBack => 1,
        Fate::Host => 2,
        Fate::DropBy { function, reason } => return u64::from_le_bytes([3, function, reason, 0, 0, 0, 0, 0]),
        Fate::Drop(why) => return u64::from_le_bytes([4, why as u8, 0, 0, 0, 0, 0, 0]),
    };
    let [a, b, c, d] = seen.wire_len.to_le_bytes();
    hash_bytes(seen.bytes, u64::from_le_bytes([kind, a, b, c, d, 0, 0, 0]))
}

fn answer(seen: &Seen<'_>) -> Answer {
    Answer { fate: seen.fate, bytes: seen.bytes.to_vec() }
}

/// Runs `single` once more up to packet `seq`, for its whole answer.
fn explain(
    chain: &Chain,
    single: &Plan,
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    seq: u64,
    other: Answer,
) -> Result<Mismatch, VerifyError> {
    let mut reader = open()?;
    let mut flow = None;
    for number in 0..=seq {
        let Some(record) = reader.next()? else { break };
        if number == seq {
            let headers = wire::parse(record.link, record.data, record.wire_len);
            flow = (headers.is_ip() && headers.is_well_formed()).then(|| FiveTuple::of(&headers));
        }
    }
    let mut found = None;
    let progress = Progress::default();
    let _: Result<RunOutcome, RunError<()>> =
        replay_capture(chain, single, open()?, &progress, &mut |seen| {
            if seen.stamp.seq < seq {
                return Ok(());
            }
            found = Some(answer(seen));
            Err(())
        });
    let Some(single) = found else {
        return Err(VerifyError::Packets { strategy: "single, again,", single: seq + 1, other: seq });
    };
    Ok(Mismatch { number: seq + 1, flow, single, other })
}

fn filled(chain: &Chain, outcomes: [&RunOutcome; 2]) -> Vec<String> {
    let was_full = |index: usize| {
        outcomes.iter().flat_map(|outcome| &outcome.cores).any(|(_, core)| {
            let flows = core.stage(index).counters().flows;
            flows.evicted + flows.rejected > 0
        })
    };
    let names = chain.functions.iter().enumerate().filter(|(index, _)| was_full(*index));
    names.map(|(_, spec)| spec.name.clone()).collect()
}
