//! Where packets enter: the indirection table, and decisions as they come into force (Algorithm 1).

use std::sync::Arc;

use control::{Buckets, Orders, Placement, Split};
use io::{Closed, Frame, Reference};
use ring::Producer;
use strategy::{ActiveCores, Assign, Move, Rebalancing, Schedule};
use wire::{Headers, Stamp};

use crate::strategies::account::{Account, Decision, RatioChange, why};
use crate::strategies::dispatch::{Dispatcher, Queues};
use crate::strategies::dyssect::card::FlowCard;
use crate::strategies::dyssect::controller::ShardController;
use crate::strategies::dyssect::objective::Objective;
use crate::strategies::dyssect::worker::{Says, Signal};
use crate::strategies::orders::{give, give_order};

/// Sends packets to the workers of their shards, and tells cores what the controller decides.
pub(super) struct Steering {
    hash: Box<dyn Assign>,
    controller: ShardController,
    /// Which cores may get packets, and how many did when that was looked at last.
    active: ActiveCores,
    cores: usize,
    /// What was decided and is not in force: from when on.
    decided: Option<(u64, Placement)>,
    /// By shard, how often it has gone from core to core.
    tenures: Vec<u32>,
    rebalancing: Rebalancing,
    schedule: Schedule,
    orders: Orders,
    signals: Vec<Producer<Signal>>,
    account: Arc<Account>,
    /// Where a card looks flows up.
    card: Option<FlowCard>,
}

impl Steering {
    /// Has cores do what the controller decides. `orders` and `signals` go to them.
    pub(super) fn new(
        hash: Box<dyn Assign>,
        controller: ShardController,
        rebalancing: Rebalancing,
        active: ActiveCores,
        (orders, signals): (Orders, Vec<Producer<Signal>>),
        account: Arc<Account>,
        card: Option<FlowCard>,
    ) -> Steering {
        Steering {
            hash,
            cores: signals.len(),
            active,
            decided: None,
            tenures: vec![0; controller.placement().owners.len()],
            controller,
            rebalancing,
            schedule: Schedule::new(rebalancing.every),
            orders,
            signals,
            account,
            card,
        }
    }

    #[cold]
    fn decide(&mut self, stamp: Stamp) {
        self.tell_of_priority();
        let placement = self.controller.decide(self.cores, stamp.seq);
        let (every, objective) = (self.rebalancing.every, &self.controller.objective);
        let why = if objective.is_some() && why(every) == "loads" { "objective" } else { why(every) };
        let told_objective = objective.as_ref().and_then(Objective::told);
        self.tell_of(&placement, why, stamp, &self.controller.loads);
        let told_solver = self.controller.asking.as_ref().map(|asking| asking.told().clone());
        self.account.tell(|told| (told.objective, told.solver) = (told_objective, told_solver));
        self.decided = Some((stamp.time_ns.saturating_add(self.rebalancing.update_latency_ns), placement));
    }

    /// Other cores are to get packets, at once. What was decided for those before is forgotten.
    #[cold]
    fn change_cores(&mut self, cores: usize, stamp: Stamp, queues: &dyn Queues) -> Result<(), Closed> {
        (self.cores, self.decided) = (cores, None);
        let (placement, costs) = self.controller.on_cores(cores);
        self.tell_of(&placement, "cores", stamp, &costs);
        self.put_in_force(placement, stamp, queues)
    }

    /// Tells the account how many packets of the period had priority, where there are classes.
    fn tell_of_priority(&self) {
        self.account.tell(|told| {
            if let Some(priority) = &mut told.priority {
                let ShardController { now, counted, .. } = &self.controller;
                priority.packets += counted.iter().flatten().sum::<u64>();
                priority.loads = now.priority_loads(counted);
                priority.with_priority += priority.loads.iter().sum::<u64>();
            }
        });
    }

    /// Tells the account what is decided.
    fn tell_of(&self, new: &Placement, why: &str, stamp: Stamp, costs: &[Buckets]) {
        let now = self.controller.placement();
        let packets: Vec<u64> = costs.iter().map(|buckets| buckets.iter().sum()).collect();
        let ratio = |(shard, to): (usize, Split)| {
            let from = now.split(shard);
            let (shard, is_reordered) = (shard as u16, from.mask != to.mask);
            RatioChange { shard, from: from.buckets, to: to.buckets, is_reordered }
        };
        let decision = Decision {
            loads: now.loads(costs),
            loads_after: new.loads(costs),
            ratios: changes(&now.splits(), &new.splits()).map(ratio).collect(),
            ..Decision::new(stamp, why, &packets, (&now.owners, &new.owners))
        };
        self.account.tell(|told| told.looked(decision));
    }

    /// In the order of Algorithm 1, lines 7 to 17: ratios, then shards, then offloaders.
    #[cold]
    fn put_in_force(&mut self, new: Placement, stamp: Stamp, queues: &dyn Queues) -> Result<(), Closed> {
        let old = self.controller.put_in_force(new.clone());
        let splits = (old.splits(), new.splits());
        for (shard, split) in changes(&splits.0, &splits.1) {
            let ratio = Says::Ratio { shard: shard as u16, split, tenure: self.tenures[shard] };
            self.tell(old.owners[shard].into(), ratio, queues)?;
        }
        for (shard, to) in changes(&old.owners, &new.owners) {
            let moved = Move { entry: shard as u16, from: old.owners[shard], to };
            give_order(moved, stamp, &mut self.orders, queues)?;
            self.tenures[shard] += 1;
        }
        for (core, to) in changes(&old.offloaders, &new.offloaders) {
            self.tell(core, Says::Offloader(to), queues)?;
        }
        self.account.tell(|told| {
            told.ratio_changes += changes(&splits.0, &splits.1).count() as u64;
            for (shard, to) in changes(&old.owners, &new.owners) {
                told.moved(Move { entry: shard as u16, from: old.owners[shard], to }, stamp);
            }
            for (place, Split { buckets, mask }) in told.places.iter_mut().zip(splits.1) {
                (place.offloaded, place.mask) = (buckets, mask);
            }
            told.offloaders.clone_from(&new.offloaders);
        });
        Ok(())
    }

    /// Tells a core something, which it looks at between any two batches.
    fn tell(&mut self, core: usize, says: Says, queues: &dyn Queues) -> Result<(), Closed> {
        let signal = Signal { after: queues.sent(core), says };
        give(signal, core, queues, |signal| self.signals[core].push(signal))
    }
}

/// What has changed, by index.
fn changes<T: Copy + PartialEq>(old: &[T], new: &[T]) -> impl Iterator<Item = (usize, T)> {
    old.iter()
        .zip(new)
        .enumerate()
        .filter(|(_, (old, new))| old != new)
        .map(|(index, (_, new))| (index, *new))
}

/// The packets have ended: those of the last period are told of, too.
impl Drop for Steering {
    fn drop(&mut self) {
        self.tell_of_priority();
    }
}

impl Dispatcher for Steering {
    fn refers(&self) -> bool {
        self.card.is_some()
    }

    fn refer(&mut self, headers: &Headers) -> Reference {
        self.card.as_mut().map_or(Reference::NONE, |card| card.refer(headers))
    }

    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        frame.entry = self.hash.entry(headers);
        let active = self.active.at(frame.stamp.seq);
        if active != self.cores {
            self.change_cores(active, frame.stamp, queues)?;
        }
        // A decision that is not in force is not overtaken by the next.
        if self.schedule.is_due(frame.stamp.time_ns) && self.decided.is_none() {
            self.decide(frame.stamp);
        }
        if let Some((_, decision)) = self.decided.take_if(|(from_ns, _)| *from_ns <= frame.stamp.time_ns) {
            self.put_in_force(decision, frame.stamp, queues)?;
        }
        self.schedule.count();
        Ok(self.controller.count(frame.entry))
    }
}
