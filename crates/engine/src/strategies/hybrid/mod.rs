//! Mice are sharded and elephants are replicated: flows are spread over cores by a hash, as under `rss`, but for the few largest,
//! whose packets go to all cores in turn, and which each core steps, as under `scr`. No paper has this strategy.
//!
//! | file | what it is |
//! |---|---|
//! | `steering` | which packets go to the sequencer, and which to their owner: what a card does, or one thread for all |
//! | `elephants` | which values of the hash are too much for a core, and how what is told is shared out |
//! | `sequencer` | tells all cores of packets of promoted flows |
//! | `core` | a core's side: its own packets, the history, and flows that are promoted or demoted |
//! | `counters` | what cores count |
//! | `home` | promoted flows go back to one core, ahead of what takes over |
//! | `told` | the history: what all cores are told, as `scr` has it |
//! | `waiting` | packets that came to a core, and how they come into a batch |
//! | `replica` | flows between the two tables of a core |
//!
//! What is promoted is a value of the hash, with all flows whose packets have it: flows that share any state share their
//! hash. The protocol is [`control::Promotion`]. `docs/hybrid.md` has the pictures, and the limits.

mod core;
pub(super) mod counters;
mod elephants;
mod home;
mod replica;
mod sequencer;
mod steering;
#[cfg(test)]
mod tests;
mod told;
mod waiting;

use std::sync::Arc;

use control::{promotion, replay_sixteenths};
use io::QUEUE_FRAMES_MAX;
use ring::ring;
use strategy::{Assign, Every, Rebalancing, Rss};
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::path::packets::BATCH_PACKETS;
use crate::path::parcel::UNKNOWN_ENTRY;
use crate::path::receive::Intake;
use crate::strategies::dispatch::{SteeredTeam, Team};
use crate::strategies::hashing;
use crate::strategies::hybrid::core::Core;
use crate::strategies::hybrid::counters::COUNTERS;
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::hybrid::home::bring_values_home;
use crate::strategies::hybrid::sequencer::{Front, Sequencer, Teller};
use crate::strategies::hybrid::steering::{DECISION_CHANGES, Steering};
use crate::strategies::hybrid::told::told;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{HASH_VALUES, Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Hybrid;

/// From one decision to the next, ns.
const PERIOD_NS: u64 = 10_000_000;

/// Each core has a ring to each other one.
const CORES: usize = 32;

static INFO: StrategyInfo = StrategyInfo {
    max_cores: CORES,
    unit: "hash",
    parking: Err("flows that are promoted are on all cores"),
    pinning: Err("flows stay on their core, or go to all cores"),
    counters: COUNTERS,
    rates: Some(&control::rates::HYBRID),
    ..StrategyInfo::new(
        "hybrid",
        "packets go to cores by a hash as under rss, and all cores step the largest flows as under scr",
    )
};

impl Strategy for Hybrid {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        if cores > CORES {
            return Err(PlanError::Rings { strategy: self.name(), cores, max: CORES });
        }
        let layout = hashing::layout(chain, self.name())?;
        // One core alone has all flows.
        if cores == 1 {
            return Ok(layout);
        }
        promotable(chain, &layout.shared)?;
        let rebalancing = Some(Rebalancing { every: Every::Period(PERIOD_NS), ..Rebalancing::default() });
        Ok(Layout { states: States::PartlyReplicated, rebalancing, ..layout })
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        match self.owners(plan) {
            None => on_both_sides(hashing::rss(plan), chain),
            Some(owners) => values(chain, plan, owners),
        }
    }

    /// As an indirection table has it that `rss` would use.
    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        plan.is_partly_replicated().then(|| owners_of_values(plan))
    }

    fn bring_home(&self, plan: &Plan, cores: &mut [ChainCore], last: Stamp) {
        if let Some(owners) = self.owners(plan) {
            bring_values_home(cores, &owners, last);
        }
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let Some(owners) = self.owners(plan) else {
            return Team::plain(self.assign(chain, plan), plan.cores);
        };
        let Parts { steering, teller, intakes } =
            parts(chain, plan, &owners, 4 * BATCH_PACKETS * DECISION_CHANGES);
        let front = Front::new(self.assign(chain, plan), steering, teller, plan.cores);
        Team { dispatcher: Box::new(front), intakes }
    }

    fn steered_team(&self, chain: &Chain, plan: &Plan) -> Option<SteeredTeam> {
        let Parts { steering, teller, intakes } = parts(chain, plan, &self.owners(plan)?, CHANGES_AHEAD);
        Some(SteeredTeam { card: Box::new(steering), sequencer: Box::new(Sequencer::new(teller)), intakes })
    }
}

/// Changes that the steering thread can be ahead of the cores where it does not wait for them.
const CHANGES_AHEAD: usize = 8192;

/// Shares of what is told that it can be ahead of the sequencer.
const DEALS_AHEAD: usize = 1024;

/// What the strategy consists of.
struct Parts {
    steering: Steering,
    teller: Teller,
    intakes: Vec<Box<dyn Intake>>,
}

/// What a replay is taken for in a chain, in sixteenths of a packet's time.
pub(super) fn replay_sixteenths_of(chain: &Chain) -> u64 {
    replay_sixteenths(chain.stateful(), !chain.tells_metas())
}

/// With room for so many `changes` that some core has not carried out.
fn parts(chain: &Chain, plan: &Plan, owners: &[u16], changes: usize) -> Parts {
    let cores = plan.cores;
    // As many as can be in flight, and those that are told of ahead of them: see `scr`.
    let records = cores * (QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS) + BATCH_PACKETS;
    let (history, histories) = told(chain, cores, records);
    let (to_all, places, promotions) = promotion(cores, changes);
    let (deals, dealt) = ring(DEALS_AHEAD);
    let sides = promotions.into_iter().zip(histories).enumerate();
    let intake =
        |(core, (promotion, history))| -> Box<dyn Intake> { Box::new(Core::new(core, promotion, history)) };
    let intakes = sides.map(intake).collect();
    plan.account.begin(plan.strategy.name(), cores, "value", &[]);
    let account = Arc::clone(&plan.account);
    let owners = (owners, replay_sixteenths_of(chain));
    let steering =
        Steering::new(owners, cores, plan.rebalancing.unwrap_or_default(), (to_all, deals), account);
    Parts { steering, teller: Teller::new(history, places, dealt, cores), intakes }
}

/// The core of each value of the hash: that of its entry under `rss`.
pub(super) fn owners_of_values(plan: &Plan) -> Vec<u16> {
    let owner = |value: usize| (value % plan.indirection_entries % plan.cores) as u16;
    (0..HASH_VALUES).map(owner).collect()
}

/// The value of the hash of each packet of a chain that is hashed: its lowest bits are the packet's entry in any indirection table.
/// `owners` has the core of each value.
pub(super) fn values(chain: &Chain, plan: &Plan, owners: Vec<u16>) -> Box<dyn Assign> {
    let fields = plan.hash_fields.expect("a layout of `hashing`");
    on_both_sides(BesideSlots(Rss::through(fields, owners)), chain)
}

/// Leaves entries below [`SLOTS`] to flows that are promoted, and [`UNKNOWN_ENTRY`] to nobody. Two values of the hash may have one
/// entry, as two flows may. They differ in the highest bit, which no smaller indirection table takes.
struct BesideSlots(Rss);

/// Tells values apart whose other bits are the same.
const HIGHEST: u16 = 1 << 15;

impl Assign for BesideSlots {
    #[inline]
    fn entry(&self, headers: &Headers) -> u16 {
        match self.0.entry(headers) {
            value if value < SLOTS => value | HIGHEST,
            UNKNOWN_ENTRY => UNKNOWN_ENTRY & !HIGHEST,
            value => value,
        }
    }

    #[inline]
    fn core(&mut self, entry: u16) -> usize {
        self.0.core(entry)
    }
}

/// Whether flows of the chain can be replicated while others are not. `shared` are functions whose states all cores share.
fn promotable(chain: &Chain, shared: &[usize]) -> Result<(), PlanError> {
    let refuse = |function: &str, why| {
        let (chain, function) = (chain.name.clone(), function.to_owned());
        Err(PlanError::Promotion { chain, function, why, works: "rss" })
    };
    if let Some(function) = chain.inspects_before_state() {
        let why =
            "it looks into payloads, which other cores do not see, and functions with states come behind it";
        return refuse(function, why);
    }
    if let Some(index) = shared.first() {
        return refuse(&chain.functions[*index].name, "all cores share its states, under locks");
    }
    match chain.functions.iter().find(|spec| spec.function.steps_in_order()) {
        Some(spec) => {
            let why =
                "they take from a pool that other flows take from, and replicas of the pool would differ";
            refuse(&spec.name, why)
        }
        None => Ok(()),
    }
}
