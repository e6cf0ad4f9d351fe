//! Where packets enter: the indirection table, and decisions as they come into force (Algorithm 1).

use std::sync::Arc;

use control::{BUCKETS, Balancer, Buckets, Orders, Placement};
use io::{Closed, Frame};
use nf::hash_bytes;
use ring::Producer;
use strategy::{ActiveCores, Assign, Every, Move, Pins, Rebalancing, Schedule};
use wire::{Headers, Stamp};

use crate::strategies::account::{Account, Decision, RatioChange, why};
use crate::strategies::dispatch::{Dispatcher, Queues};
use crate::strategies::dyssect::objective::Objective;
use crate::strategies::dyssect::worker::{Says, Signal};
use crate::strategies::orders::{give, give_order};

/// Sends packets to the workers of their shards, and tells cores what the controller decides.
pub(super) struct Steering {
    hash: Box<dyn Assign>,
    now: Placement,
    /// Which cores may get packets, and how many did when that was looked at last.
    active: ActiveCores,
    cores: usize,
    /// What was decided and is not in force: from when on.
    decided: Option<(u64, Placement)>,
    /// By shard, how often it has gone from core to core.
    tenures: Vec<u32>,
    /// Packets of the period at hand, by shard.
    counted: Vec<Buckets>,
    /// The same of all periods, the later ones counting for more.
    loads: Vec<Buckets>,
    rebalancing: Rebalancing,
    /// If the chain has one.
    objective: Option<Objective>,
    balancer: Balancer,
    schedule: Schedule,
    orders: Orders,
    signals: Vec<Producer<Signal>>,
    pins: Pins,
    account: Arc<Account>,
}

impl Steering {
    /// Who steps what is so at first. `orders` and `signals` go to the cores.
    pub(super) fn new(
        hash: Box<dyn Assign>,
        first: Placement,
        rebalancing: Rebalancing,
        objective: Option<Objective>,
        active: ActiveCores,
        (orders, signals): (Orders, Vec<Producer<Signal>>),
        (pins, account): (Pins, Arc<Account>),
    ) -> Steering {
        let shards = first.owners.len();
        Steering {
            hash,
            cores: signals.len(),
            active,
            now: first,
            decided: None,
            tenures: vec![0; shards],
            counted: vec![[0; BUCKETS as usize]; shards],
            loads: vec![[0; BUCKETS as usize]; shards],
            rebalancing,
            objective,
            balancer: Balancer::default(),
            schedule: Schedule::new(rebalancing.every),
            orders,
            signals,
            pins,
            account,
        }
    }

    #[cold]
    fn decide(&mut self, stamp: Stamp) {
        self.tell_of_priority();
        let is_first = self.loads.iter().flatten().all(|load| *load == 0);
        for (loads, counted) in self.loads.iter_mut().zip(&mut self.counted) {
            // A period counts for as much as all before it.
            for (load, counted) in loads.iter_mut().zip(&*counted) {
                *load = if is_first { *counted } else { (*load + *counted) / 2 };
            }
            counted.fill(0);
        }
        let mut placement = self.now.clone();
        let every = self.rebalancing.every;
        self.balancer.pinned = self.pins.put(&mut placement.owners, self.cores);
        placement.on_first(self.cores, &self.loads, |placement| match every {
            Every::Period(period_ns) => match &mut self.objective {
                Some(objective) => objective.place(placement, &self.loads, period_ns, &self.balancer),
                None => placement.balance(&self.loads, &self.balancer),
            },
            Every::Packets(_) => shuffle(placement, stamp.seq, &self.balancer),
            Every::Never => (),
        });
        let why = if self.objective.is_some() && why(every) == "loads" { "objective" } else { why(every) };
        let told_objective = self.objective.as_ref().and_then(Objective::told);
        self.tell_of(&placement, why, stamp, &self.loads);
        self.account.tell(|told| told.objective = told_objective);
        self.decided = Some((stamp.time_ns.saturating_add(self.rebalancing.update_latency_ns), placement));
    }

    /// Other cores are to get packets, at once. What was decided for those before is forgotten.
    #[cold]
    fn change_cores(&mut self, cores: usize, stamp: Stamp, queues: &dyn Queues) -> Result<(), Closed> {
        (self.cores, self.decided) = (cores, None);
        let mut costs = self.loads.clone();
        for (cost, counted) in costs.iter_mut().flatten().zip(self.counted.iter().flatten()) {
            // Shards without packets are shared out by their number.
            *cost += counted + 1;
        }
        let mut placement = self.now.clone();
        self.balancer.pinned = self.pins.put(&mut placement.owners, cores);
        placement.on_first(cores, &costs, |placement| placement.balance(&costs, &self.balancer));
        self.tell_of(&placement, "cores", stamp, &costs);
        self.put_in_force(placement, stamp, queues)
    }

    /// Tells whoever asks how many packets of the period had priority, where there are classes.
    fn tell_of_priority(&self) {
        self.account.tell(|told| {
            if let Some(priority) = &mut told.priority {
                priority.packets += self.counted.iter().flatten().sum::<u64>();
                priority.loads = self.now.priority_loads(&self.counted);
                priority.with_priority += priority.loads.iter().sum::<u64>();
            }
        });
    }

    /// Tells whoever asks what is decided.
    fn tell_of(&self, new: &Placement, why: &str, stamp: Stamp, costs: &[Buckets]) {
        let packets: Vec<u64> = costs.iter().map(|buckets| buckets.iter().sum()).collect();
        let ratio =
            |(shard, to): (usize, u8)| RatioChange { shard: shard as u16, from: self.now.ratios[shard], to };
        let decision = Decision {
            loads: self.now.loads(costs),
            loads_after: new.loads(costs),
            ratios: changes(&self.now.ratios, &new.ratios).map(ratio).collect(),
            ..Decision::new(stamp, why, &packets, (&self.now.owners, &new.owners))
        };
        self.account.tell(|told| told.looked(decision));
    }

    /// In the order of Algorithm 1, lines 7 to 17: ratios, then shards, then offloaders.
    #[cold]
    fn put_in_force(&mut self, new: Placement, stamp: Stamp, queues: &dyn Queues) -> Result<(), Closed> {
        let old = std::mem::replace(&mut self.now, new.clone());
        for (shard, buckets) in changes(&old.ratios, &new.ratios) {
            let ratio = Says::Ratio { shard: shard as u16, buckets, tenure: self.tenures[shard] };
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
            told.ratio_changes += changes(&old.ratios, &new.ratios).count() as u64;
            for (shard, to) in changes(&old.owners, &new.owners) {
                told.moved(Move { entry: shard as u16, from: old.owners[shard], to }, stamp);
            }
            told.places.iter_mut().zip(&new.ratios).for_each(|(place, ratio)| place.offloaded = *ratio);
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

/// Changes a quarter of everything at random, whatever the loads: to show that it does no harm.
fn shuffle(placement: &mut Placement, seed: u64, balancer: &Balancer) {
    let (cores, most) = (placement.offloaders.len() as u64, u64::from(placement.offloadable));
    let draw =
        |what: u64, index: usize| hash_bytes(&[what, index as u64].map(u64::to_le_bytes).concat(), seed);
    let is_drawn = |draw: u64| draw.is_multiple_of(4).then_some(draw >> 8);
    let owners = placement.owners.iter_mut().enumerate();
    for (shard, owner) in owners.filter(|(shard, _)| !balancer.is_pinned(*shard)) {
        *owner = is_drawn(draw(0, shard)).map_or(*owner, |draw| (draw % cores) as u16);
    }
    for (shard, ratio) in placement.ratios.iter_mut().enumerate() {
        *ratio = is_drawn(draw(1, shard)).map_or(*ratio, |draw| (draw % (most + 1)) as u8);
    }
    for (core, offloader) in placement.offloaders.iter_mut().enumerate() {
        if let Some(draw) = is_drawn(draw(2, core)) {
            // To itself: nothing is offloaded.
            *offloader = Some((draw % cores) as u16).filter(|to| usize::from(*to) != core);
        }
    }
}

/// The packets have ended: those of the last period are told of, too.
impl Drop for Steering {
    fn drop(&mut self) {
        self.tell_of_priority();
    }
}

impl Dispatcher for Steering {
    #[inline]
    fn dispatch(
        &mut self,
        headers: &Headers,
        frame: &mut Frame,
        queues: &dyn Queues,
    ) -> Result<usize, Closed> {
        frame.entry = self.hash.entry(headers);
        let shards = self.counted.len();
        let (shard, bucket) = (usize::from(frame.entry) & (shards - 1), usize::from(frame.entry) / shards);
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
        self.counted[shard][bucket] += 1;
        self.schedule.count();
        Ok(usize::from(self.now.owners[shard]))
    }
}
