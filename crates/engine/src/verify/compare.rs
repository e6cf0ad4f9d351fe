//! What is compared: answers, and what functions are left with.

use io::Fate;
use nf::hash_bytes;
use wire::{Edits, Fields};

use crate::chain::Chain;
use crate::chain::registry::FunctionInfo;
use crate::executor::outcome::RunOutcome;
use crate::executor::reload::Reloaded;
use crate::executor::seen::Seen;
use crate::path::counters::StageCounters;
use crate::path::group::Stage;
use crate::verify::mask::{masked, renamed};
use crate::verify::verified::{AllocationEvent, Answer, Broken};

/// The answer in 64 bits, without what may differ, and with what was allocated renamed. Dropped packets' bytes do not
/// matter.
pub(super) fn fingerprint(seen: &Seen<'_>, mask: Fields, rename: &Edits) -> u64 {
    let kind = match seen.fate {
        Fate::Forward => 0,
        Fate::TransmitBack => 1,
        Fate::Host => 2,
        Fate::DropBy { function, reason } => return u64::from_le_bytes([3, function, reason, 0, 0, 0, 0, 0]),
        Fate::Drop(why) => return u64::from_le_bytes([4, why as u8, 0, 0, 0, 0, 0, 0]),
    };
    let hash = |bytes: &[u8]| {
        // A tunnel that is masked is gone, from the length on the wire, too.
        let shorter = seen.bytes.len().saturating_sub(bytes.len()) as u32;
        let [a, b, c, d] = seen.wire_len.saturating_sub(shorter).to_le_bytes();
        hash_bytes(bytes, u64::from_le_bytes([kind, a, b, c, d, 0, 0, 0]))
    };
    match mask.is_empty() && rename.is_empty() {
        true => hash(seen.bytes),
        false => hash(&comparable(seen, mask, rename)),
    }
}

pub(super) fn answer(seen: &Seen<'_>, mask: Fields, rename: &Edits) -> Answer {
    Answer { fate: seen.fate, bytes: comparable(seen, mask, rename) }
}

fn comparable(seen: &Seen<'_>, mask: Fields, rename: &Edits) -> Vec<u8> {
    match rename.is_empty() {
        true => masked(seen, mask),
        false => masked(&Seen { bytes: &renamed(seen, rename), ..*seen }, mask),
    }
}

pub(super) fn broken(chain: &Chain, outcomes: [(&'static str, &RunOutcome); 2]) -> Vec<Broken> {
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

/// A function's name, and its traces in both runs, less the events `left_out`: of replicas, the first that differs, if one does.
pub(super) fn digests(
    chain: &Chain,
    index: usize,
    left_out: &[usize],
    single: &RunOutcome,
    other: &RunOutcome,
) -> (String, u64, u64) {
    let single = traces(chain, single, index, left_out)[0];
    let replicas = traces(chain, other, index, left_out);
    let other = replicas.iter().find(|trace| **trace != single).unwrap_or(&replicas[0]);
    (chain.functions[index].name.clone(), single, *other)
}

/// A hash of all that a function's steps left behind, over all cores, less the events `left_out`; of replicas, one for
/// each. Once settled, none of it depends on how packets were spread, as long as no table was full.
fn traces(chain: &Chain, outcome: &RunOutcome, index: usize, left_out: &[usize]) -> Vec<u64> {
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
        let events = chain.functions[index].function.info().about.events.len();
        let compared = (0..events).filter(|event| !left_out.contains(event));
        parts.extend(compared.map(|event| sum(&all, &|stage| stage.counters().events[event])));
        parts.iter().fold(0, |seed, part| hash_bytes(&part.to_le_bytes(), seed))
    };
    states.into_iter().map(trace).collect()
}

/// Those events of a function that differ.
pub(super) fn differing(
    chain: &Chain,
    index: usize,
    events: &[usize],
    single: &RunOutcome,
    other: &RunOutcome,
) -> Vec<AllocationEvent> {
    let spec = &chain.functions[index];
    let count = |outcome: &RunOutcome, event: usize| -> u64 {
        stages(outcome, index).iter().map(|stage| stage.counters().events[event]).sum()
    };
    let counted = events.iter().map(|event| AllocationEvent {
        function: spec.name.clone(),
        event: spec.function.info().about.events[*event],
        single: count(single, *event),
        other: count(other, *event),
    });
    counted.filter(|event| event.single != event.other).collect()
}

pub(super) fn stages(outcome: &RunOutcome, index: usize) -> Vec<Stage<'_>> {
    outcome.cores.iter().map(|(_, core)| core.stage(index)).collect()
}

/// Functions whose table was full at some time.
pub(super) fn filled(chain: &Chain, outcomes: [&RunOutcome; 2]) -> Vec<String> {
    let mut filled =
        where_any(chain, outcomes, |_, counters| counters.flows.evicted + counters.flows.rejected > 0);
    before(&mut filled, outcomes, |reloaded| &reloaded.filled);
    filled
}

/// Adds what was so in chains before the last.
fn before(names: &mut Vec<String>, outcomes: [&RunOutcome; 2], of: impl Fn(&Reloaded) -> &Vec<String>) {
    for name in outcomes.iter().flat_map(|outcome| &outcome.reloads).flat_map(of) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}

/// Functions whose pool had nothing left to give at some time.
pub(super) fn exhausted(chain: &Chain, outcomes: [&RunOutcome; 2]) -> Vec<String> {
    let mut exhausted = where_any(chain, outcomes, |info, counters| {
        info.pool_empty.is_some_and(|reason| counters.drops[usize::from(reason)] > 0)
    });
    before(&mut exhausted, outcomes, |reloaded| &reloaded.exhausted);
    exhausted
}

/// The names of the functions for which something is so on any core in either run.
pub(super) fn where_any(
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
