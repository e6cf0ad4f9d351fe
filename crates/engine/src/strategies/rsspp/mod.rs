//! RSS++ (Barbette et al., CoNEXT'19): receive-side scaling whose indirection table follows the load. Entries go from
//! loaded cores to others, and their flows migrate after them.
//!
//! | file | what it is |
//! |---|---|
//! | `mover` | a core's side: which packets wait, and flows as they are packed, sent and taken in |
//! | `own` | the same for cores with ports of their own: to which entry packets belong, and how many |
//! | `balancing` | who moves entries of the table in front of such cores |
//! | `updates` | how long it takes until a change of the table acts |
//!
//! Who gets which entry is decided in [`strategy::RssPlusPlus`]; the protocol of a migration is [`control`]'s.

mod balancing;
pub(crate) mod mover;
mod own;
pub(crate) mod updates;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use control::Orders;
use io::{Closed, Frame};
use strategy::{Assign, Move, Rebalancing, RssPlusPlus};
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::receive::Intake;
use crate::strategies::account::Account;
use crate::strategies::dispatch::{Dispatcher, OwnTeam, Queues, Team};
use crate::strategies::hashing;
use crate::strategies::info::StrategyInfo;
use crate::strategies::orders::give_order;
use crate::strategies::plan::{Layout, Plan, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::rsspp::balancing::Balancing;
use crate::strategies::rsspp::mover::Mover;
use crate::strategies::rsspp::own::{Loads, Own};
use crate::strategies::rsspp::updates::Updates;
use crate::strategies::two_cards::on_both_sides;

/// See the module.
pub(crate) struct Rsspp;

static INFO: StrategyInfo = StrategyInfo {
    parking: Ok(()),
    pinning: Ok(()),
    rates: Some(&control::rates::RSSPP),
    ..StrategyInfo::new(
        "rsspp",
        "RSS++: the same, and hashes with their flows go from loaded cores to others",
    )
};

impl Strategy for Rsspp {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, _: usize) -> Result<Layout, PlanError> {
        let rebalancing = Some(Rebalancing::default());
        Ok(Layout { rebalancing, ..hashing::layout(chain, self.name())? })
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        assign(chain, plan)
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        Some(hashing::rss(plan).indirection().to_vec())
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        team(chain, plan)
    }

    fn table(&self, plan: &Plan) -> Option<Vec<u16>> {
        self.owners(plan)
    }

    fn own_team(&self, chain: &Chain, plan: &Plan) -> Option<OwnTeam> {
        Some(own_team(chain, plan))
    }
}

/// An indirection table of which entries move, as the plan says.
pub(crate) fn assign(chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
    on_both_sides(moving(plan), chain)
}

fn moving(plan: &Plan) -> RssPlusPlus {
    let rebalancing = plan.rebalancing.unwrap_or_default();
    RssPlusPlus::new(hashing::rss(plan), plan.cores, plan.active.clone(), rebalancing)
}

/// A dispatcher that has flows migrate, and what stands before each core's chain for it.
pub(crate) fn team(chain: &Chain, plan: &Plan) -> Team {
    let owners = hashing::rss(plan);
    plan.account.begin(plan.strategy.name(), plan.cores, "entry", owners.indirection());
    let assign = moving(plan).with_pins(plan.pins.clone()).with_watcher(plan.account.watcher());
    let (assign, account) = (on_both_sides(assign, chain), Arc::clone(&plan.account));
    let (orders, movers) = Mover::for_cores(owners.indirection(), plan.cores);
    let dispatcher = Box::new(Migrating { assign, orders, updates: Arc::clone(&plan.updates), account });
    let timed = |mover: Mover| -> Box<dyn Intake> { Box::new(mover.timed(Arc::clone(&plan.updates))) };
    let intakes = movers.into_iter().map(timed);
    Team { dispatcher, intakes: intakes.collect() }
}

/// Who moves entries of a table in front of cores' own ports, and what stands before each core's chain for it.
fn own_team(chain: &Chain, plan: &Plan) -> OwnTeam {
    let at_first = hashing::rss(plan);
    let home = at_first.indirection();
    plan.account.begin(plan.strategy.name(), plan.cores, "entry", home);
    let rsspp = moving(plan).with_pins(plan.pins.clone()).with_watcher(plan.account.watcher());
    let (orders, movers) = Mover::for_cores(home, plan.cores);
    let counts = |_| -> Loads { home.iter().map(|_| AtomicU64::new(0)).collect() };
    let counts: Vec<Loads> = (0..plan.cores).map(counts).collect();
    let intakes = movers.into_iter().zip(&counts).map(|(mover, counts)| -> Box<dyn Intake> {
        let own = Own::new(on_both_sides(hashing::rss(plan), chain), Arc::clone(counts));
        Box::new(mover.timed(Arc::clone(&plan.updates)).at_own_port(own))
    });
    let intakes = intakes.collect();
    let (updates, account) = (Arc::clone(&plan.updates), Arc::clone(&plan.account));
    let rebalancer = Box::new(Balancing::new(rsspp, home, (orders, counts, plan.first), updates, account));
    OwnTeam { rebalancer, intakes }
}

/// Sends the old core of an entry a move order, ahead of the first packet that goes to the new one.
struct Migrating {
    assign: Box<dyn Assign>,
    orders: Orders,
    updates: Arc<Updates>,
    account: Arc<Account>,
}

impl Dispatcher for Migrating {
    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        frame.entry = self.assign.entry(headers);
        let moves = self.assign.moves(frame.stamp);
        if !moves.is_empty() {
            self.account.moved(moves, frame.stamp);
            give_orders(moves, frame.stamp, (&mut self.orders, &self.updates), queues)?;
        }
        Ok(self.assign.core(frame.entry))
    }
}

fn give_orders(
    moves: &[Move],
    stamp: Stamp,
    (orders, updates): (&mut Orders, &Updates),
    queues: &dyn Queues,
) -> Result<(), Closed> {
    for moved in moves {
        updates.give(moved.entry);
        give_order(*moved, stamp, orders, queues)?;
    }
    Ok(())
}
