//! The controller: it counts the packets of a period, and at its end says who steps what from then on (§II-C).
//!
//! It knows no queues and no threads. `steering` has the cores of a run carry out what it decides; `paceline bench dyssect` asks
//! it about virtual cores.

use control::{BUCKETS, Balancer, Buckets, Placement};
use nf::hash_bytes;
use strategy::{Every, Pins};

use crate::chain::Chain;
use crate::strategies::dyssect::objective::Objective;
use crate::strategies::plan::Plan;

/// Decides for the cores of a plan.
pub struct ShardController {
    /// What is in force.
    pub(super) now: Placement,
    /// Packets of the period at hand, by shard.
    pub(super) counted: Vec<Buckets>,
    /// The same of all periods, the later ones counting for more.
    pub(super) loads: Vec<Buckets>,
    every: Every,
    /// If the chain has one.
    pub(super) objective: Option<Objective>,
    balancer: Balancer,
    pins: Pins,
}

impl ShardController {
    /// At first shards are dealt out to the cores in turn, and nothing is offloaded.
    pub fn new(chain: &Chain, plan: &Plan) -> ShardController {
        let shards = plan.shards.unwrap_or_default().count();
        let first = Placement::new(shards, plan.cores);
        ShardController {
            now: if chain.classes.is_empty() { first } else { first.with_priority() },
            counted: vec![[0; BUCKETS as usize]; shards],
            loads: vec![[0; BUCKETS as usize]; shards],
            every: plan.rebalancing.unwrap_or_default().every,
            objective: chain.slo.map(Objective::new),
            balancer: Balancer::default(),
            pins: plan.pins.clone(),
        }
    }

    /// Who steps what.
    pub fn placement(&self) -> &Placement {
        &self.now
    }

    /// Counts a packet of this entry of the indirection table. Says the worker of its shard.
    #[inline]
    pub fn count(&mut self, entry: u16) -> usize {
        let shards = self.counted.len();
        let (shard, bucket) = (usize::from(entry) & (shards - 1), usize::from(entry) / shards);
        self.counted[shard][bucket] += 1;
        usize::from(self.now.owners[shard])
    }

    /// The core that steps packets of this entry: its shard's worker, or whom that one offloads to.
    pub fn stepped_by(&self, entry: u16) -> usize {
        let shards = self.counted.len();
        let (shard, bucket) = (usize::from(entry) & (shards - 1), usize::from(entry) / shards);
        let worker = self.now.owners[shard];
        let is_offloaded = bucket < usize::from(self.now.ratios[shard]);
        let offloader = self.now.offloaders[usize::from(worker)].filter(|_| is_offloaded);
        usize::from(offloader.unwrap_or(worker))
    }

    /// A core was busy for so long with so many packets.
    pub fn add_time(&self, busy_ns: u64, packets: u64) {
        if let Some(objective) = &self.objective {
            objective.meter().add(busy_ns, packets);
        }
    }

    /// Ends a period. Says who is to step what on the first `cores` cores; `seq`, the number of the next packet, is the seed where
    /// shards move at random.
    pub fn decide(&mut self, cores: usize, seq: u64) -> Placement {
        let is_first = self.loads.iter().flatten().all(|load| *load == 0);
        for (loads, counted) in self.loads.iter_mut().zip(&mut self.counted) {
            // A period counts for as much as all before it.
            for (load, counted) in loads.iter_mut().zip(&*counted) {
                *load = if is_first { *counted } else { (*load + *counted) / 2 };
            }
            counted.fill(0);
        }
        let mut placement = self.now.clone();
        self.balancer.pinned = self.pins.put(&mut placement.owners, cores);
        placement.on_first(cores, &self.loads, |placement| match self.every {
            Every::Period(period_ns) => match &mut self.objective {
                Some(objective) => objective.place(placement, &self.loads, period_ns, &self.balancer),
                None => placement.balance(&self.loads, &self.balancer),
            },
            Every::Packets(_) => shuffle(placement, seq, &self.balancer),
            Every::Never => (),
        });
        placement
    }

    /// Who is to step what if the first `cores` cores get all packets from here on; and what buckets cost, as far as is known.
    pub(super) fn on_cores(&mut self, cores: usize) -> (Placement, Vec<Buckets>) {
        let mut costs = self.loads.clone();
        for (cost, counted) in costs.iter_mut().flatten().zip(self.counted.iter().flatten()) {
            // Shards without packets are shared out by their number.
            *cost += counted + 1;
        }
        let mut placement = self.now.clone();
        self.balancer.pinned = self.pins.put(&mut placement.owners, cores);
        placement.on_first(cores, &costs, |placement| placement.balance(&costs, &self.balancer));
        (placement, costs)
    }

    /// What was decided holds from the next packet on. Says what held until then.
    pub fn put_in_force(&mut self, placement: Placement) -> Placement {
        std::mem::replace(&mut self.now, placement)
    }
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
