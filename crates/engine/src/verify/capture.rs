use std::sync::Arc;
use std::sync::atomic::Ordering;

use io::capture::{CaptureError, CaptureReader};
use memory::on_demand;
use nf::{FiveTuple, FlowKey};
use wire::Fields;

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::chain::keeping::Keeping;
use crate::executor::capture::{Generation, replay_generations};
use crate::executor::input::Progress;
use crate::executor::oddities::Oddities;
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::reload::Reload;
use crate::executor::seen::Seen;
use crate::store::follow::{End, Ends};
use crate::strategies::SINGLE;
use crate::strategies::egress::Egress;
use crate::strategies::plan::Plan;
use crate::strategies::succession::Standing;
use crate::verify::compare::{answer, fingerprint};
use crate::verify::compare::{broken, differing, digests, exhausted, filled};
use crate::verify::promises::{allocated, allocation_events, check_shared, followed, may_differ};
use crate::verify::verified::{Answer, Mismatch, Verified, VerifyError};

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
    verify_reloading(chain, plan, &[], open, progress)
}

/// The same where other chains take over behind packets. What each goes on with is what both strategies allow.
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
    verify_beside(&mut Beside::default(), chain, plan, reloads, open, progress)
}

/// What `single` made of a chain over a capture, to be compared with what several plans make of the same.
#[derive(Default)]
pub struct Beside(Option<FirstRun>);

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
        verify_beside(self, chain, plan, &[], open, progress)
    }
}

/// The run to whose answers those of the other are compared.
struct FirstRun {
    mask: Fields,
    /// By packet.
    answers: Vec<u64>,
    outcome: RunOutcome,
}

fn verify_beside(
    Beside(known): &mut Beside,
    chain: &Chain,
    plan: &Plan,
    reloads: &[Reload],
    open: &dyn Fn() -> Result<CaptureReader, CaptureError>,
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
    let mask = all().map(|(chain, plan)| may_differ(chain, plan)).fold(Fields::empty(), Fields::union);
    let followed: Vec<Vec<usize>> = all().map(|(chain, plan)| followed(chain, plan)).collect();
    let following = |ends: &Arc<Ends>| -> Vec<Keeping<'_>> {
        followed.iter().map(|functions| Keeping::Followed { functions, ends: Arc::clone(ends) }).collect()
    };

    // What a chain goes on with in one run it goes on with in the other.
    let (own, no_ends) = (vec![Keeping::Own; plans.len()], following(&Arc::default()));
    let of_plan: Vec<Keeping<'_>> = plans.iter().map(|plan| plan.keeping_watched(has_shared)).collect();
    let of_single = if has_shared { &no_ends } else { &own };
    let inherited = inherited(&parts, [(&plans, &of_plan), (&singles, of_single)]);
    let first_run = if has_shared {
        generations(&parts, &plans, &of_plan, &inherited)
    } else {
        generations(&parts, &singles, &own, &inherited)
    };
    let mut order = Order::new(plans.iter().map(Plan::entries).max().unwrap_or(0));
    let mut ends = Ends::new();
    let again = known.take_if(|known| known.mask == mask && !has_shared);
    let FirstRun { answers, outcome: first, .. } = match again {
        Some(known) => known,
        None => {
            let mut answers: Vec<u64> = Vec::new();
            let outcome = run(&first_run, open()?, progress, &mut |seen| {
                answers.push(fingerprint(seen, mask));
                if has_shared {
                    order.see(seen);
                    ends.push(End::of(seen.fate));
                }
            })?;
            FirstRun { mask, answers, outcome }
        }
    };

    if first.stopped {
        return Ok(Verified::stopped());
    }
    let following = following(&Arc::new(ends));
    let second_run = if has_shared {
        generations(&parts, &singles, &following, &inherited)
    } else {
        generations(&parts, &plans, &of_plan, &inherited)
    };
    let mut different = 0;
    let mut mismatch: Option<(u64, Answer)> = None;
    let second = run(&second_run, open()?, progress, &mut |seen| {
        if !has_shared {
            order.see(seen);
        }
        if answers.get(seen.stamp.seq as usize) != Some(&fingerprint(seen, mask)) {
            different += 1;
            mismatch.get_or_insert_with(|| (seen.stamp.seq, answer(seen, mask)));
        }
    })?;

    let explained = |seq, of_second| explain(&first_run, open, seq, mask, of_second, progress);
    let (single, other) = if has_shared { (second, first) } else { (first, second) };
    // The chain that ran last.
    let last = other.reloads.len();
    let (chain, plan, followed) = (parts[last].1, &plans[last], &followed[last]);
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
    let left_out = |index| allocation_events(chain, plan, index);
    let differing = own.clone().flat_map(|index| differing(chain, index, left_out(index), &single, &other));
    let digests = own.map(|index| digests(chain, index, left_out(index), &single, &other));
    let shared = followed.iter().filter(|_| !stopped);
    let verified = Verified {
        packets: other.packets,
        different,
        first,
        digests: digests.collect(),
        shared: shared.map(|index| check_shared(chain, plan, *index, &single, &other)).collect(),
        allocated: allocated(chain, plan),
        allocation_events: differing.collect(),
        broken: match stopped {
            true => Vec::new(),
            false => broken(chain, [("single", &single), (plan.strategy.name(), &other)]),
        },
        filled: filled(chain, [&single, &other]),
        exhausted: exhausted(chain, [&single, &other]),
        oddities: Oddities::of(&other),
        out_of_order: plan.keeps_flows_on_one_core().then_some(order.out_of_order),
        moves: other.moves,
        reloads: other.reloads,
        changes: other.changes,
        input_error: other.input_error,
        stopped,
        history: None,
    };
    if !has_shared {
        *known = Some(FirstRun { mask, answers, outcome: single });
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

fn run(
    generations: &[Generation<'_>],
    reader: CaptureReader,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>),
) -> Result<RunOutcome, VerifyError> {
    let mut see = |seen: &Seen<'_>| {
        see(seen);
        Ok(())
    };
    // Nobody measures this run, and it may be one of thousands, over few packets each.
    on_demand(|| replay_generations(generations, reader.into(), progress, &mut see)).map_err(VerifyError::Run)
}

/// Does the first run once more up to packet `seq`, for its whole answer: in the result this is `single`'s,
/// and `of_second` the other. `None` if it is stopped.
fn explain(
    generations: &[Generation<'_>],
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
        replay_generations(generations, open()?.into(), progress, &mut |seen| {
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
