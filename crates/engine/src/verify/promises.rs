//! What is promised where answers need not be the same.

use nf::WhenShared;
use wire::Fields;

use crate::chain::Chain;
use crate::executor::outcome::RunOutcome;
use crate::path::group::Stage;
use crate::strategies::SINGLE;
use crate::strategies::plan::{Plan, States};
use crate::verify::compare::stages;
use crate::verify::verified::SharedCheck;

pub(super) fn check_shared(
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
        return SharedCheck {
            function: spec.name.clone(),
            promise: None,
            behind,
            failure: None,
            excused: None,
        };
    }
    let promise = function.info().when_shared;
    // Behind a reload its flows may owe what they passed before.
    let kept =
        other.reloads.last().and_then(|last| last.functions.iter().find(|(name, _)| *name == spec.name));
    let goes_on = kept.is_some_and(|(_, kept)| kept.is_ok());
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
        Some(WhenShared::Bound { .. }) => function.passed(&other, goes_on).err(),
        Some(WhenShared::Totals) | None => None,
    };
    // A flow that had to go begins anew, with a full bucket.
    let flows = other.iter().map(|stage| stage.counters().flows);
    let is_full = flows.map(|flows| flows.evicted + flows.rejected).sum::<u64>() > 0;
    let is_excused = is_full && counted.0 == counted.1;
    let (failure, excused) = if is_excused { (None, failure) } else { (failure, None) };
    SharedCheck { function: spec.name.clone(), promise, behind: None, failure, excused }
}

/// The first function before `index` whose edits are not promised: what comes behind it sees other packets than on
/// one core.
pub(super) fn blinded_by(chain: &Chain, plan: &Plan, index: usize) -> Option<usize> {
    let info = |index: usize| chain.functions[index].function.info();
    plan.shared.iter().copied().find(|editor| {
        let info = info(*editor);
        info.when_shared.is_none() && !info.edits.is_empty() && chain.comes_behind(index, *editor)
    })
}

/// Functions that are not compared answer by answer: those whose states cores share, and all behind one whose
/// edits are not promised.
pub(super) fn followed(chain: &Chain, plan: &Plan) -> Vec<usize> {
    let is_blind = |index| blinded_by(chain, plan, index).is_some();
    (0..chain.functions.len()).filter(|index| plan.shared.contains(index) || is_blind(*index)).collect()
}

/// Whether cores may allocate otherwise than one core: each replica gives out what one core would, as one core does.
pub(super) fn allocates_otherwise(plan: &Plan) -> bool {
    plan.states != States::Replicated && plan.strategy != SINGLE
}

/// The events of a function that count what was allocated, and may differ.
pub(super) fn allocation_events(chain: &Chain, plan: &Plan, index: usize) -> &'static [usize] {
    match allocates_otherwise(plan) {
        true => chain.functions[index].function.allocation_events(),
        false => &[],
    }
}

/// Functions that allocate header fields, with the fields, but for the one that is judged.
pub(super) fn allocated(chain: &Chain, plan: &Plan, judged: Option<usize>) -> Vec<(String, Fields)> {
    if !allocates_otherwise(plan) {
        return Vec::new();
    }
    let unjudged = chain.functions.iter().enumerate().filter(|(index, _)| judged != Some(*index));
    let fields = unjudged.map(|(_, spec)| (spec.name.clone(), spec.function.allocates()));
    fields.filter(|(_, fields)| !fields.is_empty()).collect()
}

/// Header fields in which right answers may differ.
pub(super) fn may_differ(chain: &Chain, plan: &Plan, judged: Option<usize>) -> Fields {
    let edited = plan.shared.iter().map(|index| chain.functions[*index].function.info().edits);
    let allocated = allocated(chain, plan, judged).into_iter().map(|(_, fields)| fields);
    edited.chain(allocated).fold(Fields::empty(), Fields::union)
}

#[cfg(test)]
mod tests;
