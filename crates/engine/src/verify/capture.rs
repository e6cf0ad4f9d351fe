//! Verifies a chain over a capture: under `single` and under a plan.

use std::mem;
use std::sync::Arc;

use io::capture::{CaptureError, CaptureReader};
use wire::Fields;

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::chain::keeping::Keeping;
use crate::executor::capture::Generation;
use crate::executor::input::Progress;
use crate::executor::oddities::Oddities;

use crate::executor::reload::Reload;
use crate::executor::seen::Seen;
use crate::path::turned_away::{Notes, Told};
use crate::store::follow::{End, Ends};
use crate::strategies::SINGLE;
use crate::strategies::egress::Egress;
use crate::strategies::plan::Plan;
use crate::strategies::succession::Standing;
use crate::verify::answering::Asking;
use crate::verify::compare::{broken, differing, digests, exhausted, filled};
use crate::verify::full_tables::{TurnedAway, may_explain};
use crate::verify::judged::{Docket, Heard, Tally};
use crate::verify::promises::{allocated, allocation_events, check_shared, followed, may_differ};
use crate::verify::runs::{Comparing, Ran, Run};
use crate::verify::verified::{Mismatch, Uncompared, Verified, VerifyError};

/// Runs `chain` over a capture under `single` and under `plan`, both with real threads, and compares
/// each packet's verdict and bytes, and at the end each function's flows.
///
/// Where all cores share a function's states, which packets it drops is not promised. So `plan` runs first;
/// then `single`, in which these functions step, and answer what they answered in the first run: so what
/// reaches the others is the same, and they must answer the same. What the shared ones promise is checked
/// besides, and header fields that they edit are left out.
///
/// What a function takes from a pool, such as a NAT's ports, its judge in each run holds to its rules, and it is
/// renamed before packets are compared; without a judge it is left out.
///
/// Answers are compared in order of arrival, whatever [`Plan::egress`] says.
///
/// Where something differs and a table was full, or a pool empty, `single` runs once more, and turns away what the strategy
/// turned away: see [`Verified::is_told`].
///
/// Opens the input twice, once more where a table was full, and twice more where an answer differs; each time twice where a
/// function is judged. Holds 16 bytes per packet, 3 more with shared states, 40 more with a judge, and where a table was full
/// the numbers of packets that met it.
///
/// # Errors
/// [`VerifyError`]. Different answers are no error but a result.
pub fn verify(
    chain: &Chain,
    plan: &Plan,
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    verify_reloading(chain, plan, &[], open, progress)
}

/// Verifies as [`verify`] does, where other chains take over behind packets. What each goes on with is what both
/// strategies allow.
///
/// # Errors
/// As [`verify`].
pub fn verify_reloading(
    chain: &Chain,
    plan: &Plan,
    reloads: &[Reload],
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    verify_beside(&mut Beside::default(), chain, plan, reloads, open, false, progress)
}

/// As [`verify`], with each run answered in its own endpoints: what the capture has for external addresses of a NAT, or from a
/// balancer's backends, is left out, and each packet that goes out, or to a backend, is answered 1 ms later, as the run sent it.
/// Opens the input once more.
///
/// # Errors
/// As [`verify`]; [`VerifyError::Unanswered`] if no function of the chain is judged that gives external endpoints out or rewrites
/// answers.
pub fn verify_answered(
    chain: &Chain,
    plan: &Plan,
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    verify_beside(&mut Beside::default(), chain, plan, &[], open, true, progress)
}

/// What `single` made of a chain over a capture, to be compared with what several plans make of the same.
#[derive(Default)]
pub struct Beside(Option<Known>);

/// What `single` made of it, and how that was to be compared.
struct Known {
    mask: Fields,
    renames: bool,
    ran: Ran,
}

impl Beside {
    /// As [`verify()`], with the same chain and over the same capture each time: `single` runs once for all plans of which
    /// the same is promised, and where cores share states for each.
    ///
    /// # Errors
    /// As [`verify()`].
    pub fn verify(
        &mut self,
        chain: &Chain,
        plan: &Plan,
        open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
        progress: &Progress,
    ) -> Result<Verified, VerifyError> {
        verify_beside(self, chain, plan, &[], open, false, progress)
    }
}

fn verify_beside(
    Beside(known_single): &mut Beside,
    chain: &Chain,
    plan: &Plan,
    reloads: &[Reload],
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
    is_answered: bool,
    progress: &Progress,
) -> Result<Verified, VerifyError> {
    let parts: Vec<(u64, &Chain, &Plan)> =
        std::iter::once((0, chain, plan)).chain(reloads.iter().map(Reload::parts)).collect();
    let plans: Vec<Plan> =
        parts.iter().map(|(.., plan)| Plan { egress: Egress::Ordered, ..(*plan).clone() }).collect();
    let single = |(_, chain, plan): &(u64, &Chain, &Plan)| {
        Plan::new(chain, SINGLE, 1).map(|single| Plan { simulation: plan.simulation, ..single })
    };
    let singles: Vec<Plan> = parts.iter().map(single).collect::<Result<_, _>>()?;
    let has_shared = plans.iter().any(|plan| !plan.shared.is_empty());
    let all = || parts.iter().zip(&plans).map(|((_, chain, _), plan)| (*chain, plan));
    let docket = Docket::of(chain, plan, !reloads.is_empty());
    let (judged, renames) = (docket.judged, docket.renames);
    let mask =
        all().map(|(chain, plan)| may_differ(chain, plan, judged)).fold(Fields::empty(), Fields::union);
    let asking = match is_answered.then(|| docket.responds(chain)) {
        None => None,
        Some(Ok(responds)) => Some(Arc::new(Asking::new(responds, open()?))),
        Some(Err(why)) => return Err(VerifyError::Unanswered { why }),
    };
    let comparing = Comparing { chain, docket: &docket, mask, open, asking, progress };
    let followed: Vec<Vec<usize>> = all().map(|(chain, plan)| followed(chain, plan)).collect();
    let following = |ends: &Arc<Ends>, told: &[Arc<Told>]| -> Vec<Keeping<'_>> {
        let keeping = |(number, functions)| {
            let (ends, told) = (Arc::clone(ends), told.get(number).cloned());
            Keeping::Followed { functions, ends, told }
        };
        followed.iter().map(|functions| &**functions).enumerate().map(keeping).collect()
    };
    let mut turned_away = TurnedAway::new(&parts, &plans);

    // What a chain goes on with in one run it goes on with in the other.
    let (own, no_ends) = (vec![Keeping::Own; plans.len()], following(&Arc::default(), &[]));
    let notes: Vec<Arc<Notes>> = turned_away.notes().cloned().collect();
    let of_plan: Vec<Keeping<'_>> = plans
        .iter()
        .zip(&notes)
        .map(|(plan, notes)| plan.keeping_watched(has_shared).noting(notes))
        .collect();
    let of_single = if has_shared { &no_ends } else { &own };
    let inherited = inherited(&parts, [(&plans, &of_plan), (&singles, of_single)]);
    let of_plan = generations(&parts, &plans, &of_plan, &inherited);
    let run_of_plan = Run { generations: &of_plan, plan: &plans[0] };
    let run_of_single = |generations| Run { generations, plan: &singles[0] };

    // Where cores share states, `single` does what the strategy did there: it runs behind it.
    let own = generations(&parts, &singles, &own, &inherited);
    let known = known_single.take_if(|known| known.mask == mask && known.renames == renames && !has_shared);
    let first = match known {
        _ if has_shared => None,
        Some(Known { ran, .. }) => Some(ran),
        None => Some(comparing.run(run_of_single(&own), None, &mut |_| {})?),
    };
    if first.as_ref().is_some_and(|first| first.outcome.stopped) {
        return Ok(Verified::stopped());
    }
    let mut order = Order::new(plans.iter().map(Plan::entries).max().unwrap_or(0));
    let mut ends = Ends::new();
    let mut other = comparing.run(run_of_plan, first.as_ref(), &mut |seen| {
        order.see(seen);
        turned_away.see(seen);
        if has_shared {
            ends.push(End::of(seen.fate));
        }
    })?;
    if has_shared && other.outcome.stopped {
        return Ok(Verified::stopped());
    }
    let ends = Arc::new(ends);
    let told = |turned_away: &mut TurnedAway<'_>, other: &Ran| {
        following(&ends, &turned_away.told(&other.outcome, &inherited))
    };
    let keeping_shared = if has_shared { told(&mut turned_away, &other) } else { Vec::new() };
    let with_shared = match has_shared {
        true => generations(&parts, &singles, &keeping_shared, &inherited),
        false => Vec::new(),
    };
    let (mut single, run_again) = match first {
        Some(first) => (first, run_of_single(&own)),
        None => {
            let single = comparing.run(run_of_single(&with_shared), Some(&other), &mut |_| {})?;
            (single, run_of_single(&with_shared))
        }
    };

    // The chain that ran last.
    let last = other.outcome.reloads.len();
    let (chain, plan, followed) = (parts[last].1, &plans[last], &followed[last]);
    let stopped = single.outcome.stopped || other.outcome.stopped;
    if single.outcome.packets != other.outcome.packets && !stopped {
        return Err(VerifyError::Packets {
            strategy: plan.strategy.name(),
            single: single.outcome.packets,
            other: other.outcome.packets,
        });
    }
    let mut found = mem::take(if has_shared { &mut single.found } else { &mut other.found });
    let own_states = (0..chain.functions.len()).filter(|index| !followed.contains(index) && !stopped);
    let left_out = |index| allocation_events(chain, plan, index);
    let states = |tally: Tally, single: &Ran, other: &Ran| -> (Vec<_>, Vec<_>, Vec<_>) {
        // Which packets of the capture come in depends on the ports given out: each judge has counted them for its own run.
        let uncompared = |index: usize| match judged == Some(index) && tally.has_apart() {
            true => (0..chain.functions[index].function.info().about.events.len()).collect(),
            false => left_out(index).to_vec(),
        };
        let (single, other) = (&single.outcome, &other.outcome);
        let events =
            own_states.clone().flat_map(|index| differing(chain, index, left_out(index), single, other));
        let is_open = |index: usize, one: u64, other: u64| one != other && tally.opens(chain, index, judged);
        let (mut compared, mut open) = (Vec::new(), Vec::new());
        for index in own_states.clone() {
            let (function, one, other) = digests(chain, index, &uncompared(index), single, other);
            match is_open(index, one, other) {
                true => open.push(Uncompared { function, packets: tally.apart() }),
                false => compared.push((function, one, other)),
            }
        }
        (compared, open, events.collect())
    };
    let (digests, uncompared, allocation_events) = states(found.tally, &single, &other);
    let outcomes = [&single.outcome, &other.outcome];
    let exhausted = exhausted(chain, outcomes);
    // What `single` is told to refuse, its pool may well have.
    let is_heard = !has_shared || exhausted.is_empty();
    let heard = |other: &Ran| {
        let of_single = if is_heard { single.heard.clone() } else { Heard::default() };
        [(SINGLE.name(), of_single), (plan.strategy.name(), other.heard.clone())]
    };
    let shared = followed.iter().filter(|_| !stopped);
    let shared =
        shared.map(|index| check_shared(chain, plan, *index, &single.outcome, &other.outcome)).collect();
    let mut verified = Verified {
        packets: other.outcome.packets,
        different: found.different,
        first: None,
        digests,
        uncompared,
        shared,
        allocated: allocated(chain, plan, judged),
        allocation_events,
        judged: docket.verdicts(chain, found.tally, heard(&other)),
        broken: match stopped {
            true => Vec::new(),
            false => broken(chain, [(SINGLE.name(), outcomes[0]), (plan.strategy.name(), outcomes[1])]),
        },
        filled: filled(chain, outcomes),
        exhausted,
        oddities: Oddities::of(&other.outcome),
        answered: other.answered,
        out_of_order: plan.keeps_flows_on_one_core().then_some(order.out_of_order),
        moves: other.outcome.moves,
        reloads: other.outcome.reloads.clone(),
        changes: mem::take(&mut other.outcome.changes),
        input_error: other.outcome.input_error.take(),
        stopped,
        history: None,
        is_told: has_shared,
    };
    let (keeping_told, told_run);
    if !has_shared && may_explain(&verified, plan) {
        // What was turned away in the strategy's run is turned away again, and all else has to be the same.
        keeping_told = told(&mut turned_away, &other);
        told_run = generations(&parts, &singles, &keeping_told, &inherited);
        let mut told = comparing.run(run_of_single(&told_run), Some(&other), &mut |_| {})?;
        found = mem::take(&mut told.found);
        (verified.different, verified.is_told) = (found.different, true);
        (verified.digests, verified.uncompared, verified.allocation_events) =
            states(found.tally, &told, &other);
        verified.judged = docket.verdicts(chain, found.tally, heard(&other));
        verified.stopped |= told.outcome.stopped;
    }
    // Behind all that is noted of the strategy's run: it may be noted again.
    if let Some(unlike) = found.first
        && !verified.stopped
    {
        let again = if verified.is_told { run_of_plan } else { run_again };
        let Some((flow, answer)) = comparing.explain(unlike.seq, again)? else {
            // Explaining takes as long as a run, and may be stopped, too.
            let Verified { packets, different, .. } = verified;
            return Ok(Verified { packets, different, ..Verified::stopped() });
        };
        let (single, other) =
            if verified.is_told { (unlike.answer, answer) } else { (answer, unlike.answer) };
        verified.first = Some(Mismatch { number: unlike.seq + 1, flow, single, other });
    }
    if !has_shared {
        *known_single = Some(Known { mask, renames, ran: single });
    }
    Ok(verified)
}

/// The chains of one run.
fn generations<'a>(
    parts: &[(u64, &'a Chain, &'a Plan)],
    plans: &'a [Plan],
    keepings: &'a [Keeping<'a>],
    inherited: &[Inherited],
) -> Vec<Generation<'a>> {
    let generation = |number: usize| {
        let (after, chain, _) = parts[number];
        let standing = Standing { chain, plan: &plans[number], keeping: &keepings[number] };
        Generation { after, standing, inherited: inherited[number].clone() }
    };
    (0..parts.len()).map(generation).collect()
}

/// What each chain but the first can go on with in both runs.
fn inherited(parts: &[(u64, &Chain, &Plan)], runs: [(&Vec<Plan>, &Vec<Keeping<'_>>); 2]) -> Vec<Inherited> {
    let mut all = vec![Inherited::new()];
    for number in 1..parts.len() {
        let (chain, before) = (parts[number].1, parts[number - 1].1);
        let mut inherited = chain.inherits(before);
        loop {
            let as_it_was = inherited.clone();
            for (plans, keepings) in runs {
                let standing = |number: usize| Standing {
                    chain: parts[number].1,
                    plan: &plans[number],
                    keeping: &keepings[number],
                };
                standing(number).narrow(&standing(number - 1), &mut inherited);
            }
            if inherited == as_it_was {
                break;
            }
        }
        all.push(inherited);
    }
    all
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

#[cfg(test)]
mod tests;
