//! Verifies a chain over packets that come with their history.

use std::sync::atomic::{AtomicBool, Ordering};

use nf::{FiveTuple, FlowKey};
use sequencer::History;
use wire::{Edits, Fields};

use crate::chain::Chain;
use crate::executor::input::Progress;
use crate::executor::oddities::Oddities;
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::outside::{ExternalInput, open, replay_all, replay_external};
use crate::executor::seen::Seen;
use crate::path::moves::Moves;
use crate::strategies::changing::Changes;
use crate::strategies::egress::Egress;
use crate::strategies::plan::Plan;
use crate::strategies::scr::outside::arrivals::{Arrivals, InputError};
use crate::strategies::scr::outside::items::HistoryItems;
use crate::verify::compare::{answer, fingerprint};
use crate::verify::compare::{broken, digests, exhausted, filled};
use crate::verify::verified::{Answer, HistoryCheck, Mismatch, Verified, VerifyError};

/// Runs `chain` with a replica on each core over packets that come with history, and on one core over all that any
/// of these got, in the order of sequence numbers; compares each packet's verdict and bytes, and at the end the
/// flows of every replica with those of the one.
///
/// The one core takes packets from all files, and from histories what no file has: so without losses it is `single`
/// over the packets as they were before they were sequenced, and with losses `single` over those that were not lost
/// to all. Packets that came and have no verdict, since their core was rebuilt, it steps as history, too.
///
/// Opens the input twice, and twice more where an answer differs. Holds 16 bytes per packet.
///
/// # Errors
/// [`VerifyError`]. Different answers are no error but a result.
pub fn verify_external(
    chain: &Chain,
    plan: &Plan,
    open_input: &dyn Fn() -> Result<ExternalInput, InputError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    let plan = &Plan { egress: Egress::Ordered, ..plan.clone() };
    let mut answers: Vec<(u64, u64)> = Vec::new();
    let other = replay_external(chain, plan, open_input()?, progress, &mut |seen| {
        answers.push((seen.stamp.seq, fingerprint(seen, Fields::empty(), &Edits::NONE)));
        Ok(())
    })
    .map_err(VerifyError::Run)?;
    if other.stopped {
        return Ok(Verified::stopped());
    }
    let unanswered = other.history.as_ref().map_or(&[][..], |history| &history.overtaken);
    let (mut different, mut at) = (0, 0);
    let mut mismatch: Option<(u64, Answer)> = None;
    let single = replay_all(chain, plan, open_input()?, unanswered, progress, &mut |seen| {
        if answers.get(at) != Some(&(seen.stamp.seq, fingerprint(seen, Fields::empty(), &Edits::NONE))) {
            different += 1;
            mismatch.get_or_insert_with(|| (seen.stamp.seq, answer(seen, Fields::empty(), &Edits::NONE)));
        }
        at += 1;
        Ok(())
    })
    .map_err(VerifyError::Run)?;

    let stopped = single.stopped || other.stopped;
    if single.packets != other.packets && !stopped {
        let (single, other) = (single.packets, other.packets);
        return Err(VerifyError::Packets { strategy: plan.strategy.name(), single, other });
    }
    let first = match mismatch {
        Some((seq, single)) if !stopped => explain(chain, plan, open_input, seq, single, progress)?,
        _ => None,
    };
    // Explaining takes as long as a run, and may be stopped, too.
    let stopped = stopped || (different > 0 && first.is_none() && progress.stop.load(Ordering::Relaxed));
    let functions = if stopped || other.cores.is_empty() { 0 } else { chain.functions.len() };
    Ok(Verified {
        packets: other.packets,
        different,
        first,
        digests: (0..functions).map(|index| digests(chain, index, &[], &single, &other)).collect(),
        uncompared: Vec::new(),
        shared: Vec::new(),
        allocated: Vec::new(),
        allocation_events: Vec::new(),
        judged: Vec::new(),
        broken: match functions {
            0 => Vec::new(),
            _ => broken(chain, [("single", &single), (plan.strategy.name(), &other)]),
        },
        filled: filled(chain, [&single, &other]),
        exhausted: exhausted(chain, [&single, &other]),
        oddities: Oddities::of(&other),
        answered: None,
        out_of_order: None,
        moves: Moves::default(),
        reloads: Vec::new(),
        changes: Changes::default(),
        history: check(&single, &other),
        input_error: other.input_error,
        stopped,
        is_told: false,
    })
}

fn check(single: &RunOutcome, other: &RunOutcome) -> Option<HistoryCheck> {
    let lost_to_all = single.history.as_ref()?.cores.iter().map(|core| core.missed).sum();
    Some(HistoryCheck { outcome: other.history.clone()?, lost_to_all })
}

/// Does the first run once more up to packet `seq`, for its whole answer; `None` if it has none this time.
fn explain(
    chain: &Chain,
    plan: &Plan,
    open_input: &dyn Fn() -> Result<ExternalInput, InputError>,
    seq: u64,
    single: Answer,
    progress: &Progress,
) -> Result<Option<Mismatch>, VerifyError> {
    let mut found = None;
    let mut see = |seen: &Seen<'_>| {
        if seen.stamp.seq < seq {
            return Ok(());
        }
        found = (seen.stamp.seq == seq).then(|| answer(seen, Fields::empty(), &Edits::NONE));
        Err(())
    };
    let again = replay_external(chain, plan, open_input()?, progress, &mut see);
    if let Err(RunError::OutOfMemory { cores, bytes }) = again {
        return Err(VerifyError::Run(RunError::OutOfMemory { cores, bytes }));
    }
    let ExternalInput { mut packets, loss, .. } = open_input()?;
    let (chain, _) = packets.decided(chain);
    let flow = flow_of(open(&chain, plan, packets, loss)?, seq, &progress.stop)?;
    Ok(found.map(|other| Mismatch { number: seq + 1, flow, single, other }))
}

/// The flow of packet `seq` as it came.
fn flow_of(
    (mut arrivals, items): (Arrivals, HistoryItems),
    seq: u64,
    stop: &AtomicBool,
) -> Result<Option<FiveTuple>, InputError> {
    while arrivals.advance(stop)?.is_some() && !stop.load(Ordering::Relaxed) {
        let Some(record) = arrivals.record() else { break };
        let Ok(history) = History::parse(record.data, &items) else { continue };
        if history.stamp().seq == seq && !history.is_flush() {
            let offset = history.packet_offset();
            let wire_len = record.wire_len - offset as u32;
            let headers = wire::parse(history.link(), &record.data[offset..], wire_len);
            let is_flow = headers.is_ip() && headers.is_well_formed();
            return Ok(is_flow.then(|| FiveTuple::of(&headers)));
        }
    }
    Ok(None)
}
