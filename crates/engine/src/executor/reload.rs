//! One chain takes over from another between two packets.
//!
//! ```text
//!   packets   0 1 2 3 ... | N N+1 ...
//!   cores     old chain   | new chain: flows of functions that stay are taken over, others begin anew
//! ```
//!
//! All cores of the old chain end behind the same packet, with nothing half done; those of the new chain, which were
//! built before, go on with their tables and pools. Nothing of it is on a packet's way.

use std::time::Duration;

use wire::Stamp;

use crate::chain::Chain;
use crate::chain::inherit::Inherited;
use crate::path::core::ChainCore;
use crate::strategies::plan::Plan;
use crate::strategies::succession::Standing;

/// A chain that takes over, in a run over a capture.
pub struct Reload {
    /// How many packets come before it.
    pub after: u64,
    /// The chain.
    pub chain: Chain,
    /// How it runs: under the strategy of the chain before, on as many cores.
    pub plan: Plan,
}

/// What became of functions where a chain took over.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// How many packets came before it.
    pub after: u64,
    /// The chain's name.
    pub chain: String,
    /// Each of its functions, and how many flows it went on with, or why it began anew.
    pub functions: Vec<(String, Result<u64, String>)>,
    /// For how long no packet was worked on; packets waited meanwhile.
    pub pause: Duration,
    /// How many flows were removed by hand, if that is why the chain took over from itself: see [`Reloads::remove`](crate::Reloads::remove).
    pub removed: Option<u64>,
    /// Functions of the chain before whose tables were full at some time.
    pub(crate) filled: Vec<String>,
    /// Functions of the chain before whose pools were empty at some time.
    pub(crate) exhausted: Vec<String>,
}

/// What a reload would keep where a chain took over from another, each with the plan of its run: the new chain's functions in order,
/// and why one would begin anew. As far as chain and plan say: whether there is memory for both, the run finds out.
pub fn would_keep(now: (&Chain, &Plan), before: (&Chain, &Plan)) -> Vec<(String, Result<(), String>)> {
    let [(chain, plan), (chain_before, plan_before)] = [now, before];
    let (keeping, keeping_before) = (plan.keeping(), plan_before.keeping());
    let standing = Standing { chain, plan, keeping: &keeping };
    let before = Standing { chain: chain_before, plan: plan_before, keeping: &keeping_before };
    let kept = standing.inherits(&before).into_iter().map(|kept| kept.map(drop));
    chain.functions.iter().map(|spec| spec.name.clone()).zip(kept).collect()
}

/// Has `cores` of a chain go on where `old` have ended, those of another, of which `last` was the last packet.
pub(crate) fn take_over(
    now: &Standing<'_>,
    cores: &mut [ChainCore],
    before: &Standing<'_>,
    old: &mut [ChainCore],
    inherited: &Inherited,
    (after, last): (u64, Stamp),
) -> Reloaded {
    let whole = if before.plan.is_replicated() { &old[..1] } else { &old[..] };
    let live = |index: usize| whole.iter().map(|core| core.stage(index).counters().live as u64).sum();
    let flows =
        |index: &Result<usize, String>| index.as_ref().map(|index| live(*index)).map_err(Clone::clone);
    let names = now.chain.functions.iter().map(|spec| spec.name.clone());
    let functions = names.zip(inherited.iter().map(flows)).collect();
    let mut reloaded = Reloaded {
        after,
        chain: now.chain.name.clone(),
        functions,
        pause: Duration::ZERO,
        removed: None,
        filled: Vec::new(),
        exhausted: Vec::new(),
    };
    for (index, spec) in before.chain.functions.iter().enumerate() {
        let counters = || old.iter().map(|core| core.stage(index).counters());
        if counters().any(|counters| counters.flows.evicted + counters.flows.rejected > 0) {
            reloaded.filled.push(spec.name.clone());
        }
        let empty = spec.function.info().pool_empty;
        if empty.is_some_and(|reason| counters().any(|counters| counters.drops[usize::from(reason)] > 0)) {
            reloaded.exhausted.push(spec.name.clone());
        }
    }
    now.take_over(cores, before, old, inherited, last);
    reloaded
}
