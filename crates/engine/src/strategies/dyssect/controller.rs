//! The controller: it counts the packets of a period, and at its end says who steps what from then on (§II-C).
//!
//! It knows no queues and no threads. `steering` has the cores of a run carry out what it decides; `paceline bench dyssect` asks
//! it about virtual cores.

use control::{BUCKETS, Balancer, Buckets, Goal, Placement};
use nf::hash_bytes;
use strategy::{Every, Pins};

use crate::chain::Chain;
use crate::strategies::dyssect::asking::Asking;
use crate::strategies::dyssect::objective::Objective;
use crate::strategies::plan::Plan;

/// Decides for the cores of a plan.
pub struct ShardController {
    /// What is in force.
    pub(super) now: Placement,
    /// Packets of the period at hand, by shard.
    pub(super) counted: Vec<Buckets>,
    /// Packets of all periods, by shard, the later ones counting for more.
    pub(super) loads: Vec<Buckets>,
    every: Every,
    /// If the chain has one.
    pub(super) objective: Option<Objective>,
    /// Who decides in place of the greedy solver.
    pub(super) asking: Option<Asking>,
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
            asking: plan.solving.map(Asking::new),
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
        let (shard, bucket) = self.place(entry);
        self.counted[shard][bucket] += 1;
        usize::from(self.now.owners[shard])
    }

    /// The core that steps packets of this entry: its shard's worker, or whom that one offloads to.
    pub fn stepped_by(&self, entry: u16) -> usize {
        let (shard, bucket) = self.place(entry);
        let worker = self.now.owners[shard];
        let is_offloaded = self.now.split(shard).has(bucket as u8);
        let offloader = self.now.offloaders[usize::from(worker)].filter(|_| is_offloaded);
        usize::from(offloader.unwrap_or(worker))
    }

    /// The shard of an entry, and its bucket there.
    #[inline]
    fn place(&self, entry: u16) -> (usize, usize) {
        let shards = self.counted.len();
        (usize::from(entry) & (shards - 1), usize::from(entry) >> shards.trailing_zeros())
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
            Every::Period(period_ns) => match (&mut self.asking, &mut self.objective) {
                (None, Some(objective)) => {
                    objective.place(placement, &self.loads, period_ns, &self.balancer);
                }
                (None, None) => placement.balance(&self.loads, &self.balancer),
                (Some(asking), objective) => {
                    let has_priority = placement.has_priority();
                    let goal = objective.as_mut().map(|objective| objective.goal(has_priority, period_ns));
                    let goal = goal.unwrap_or(Goal::Even);
                    let used = asking.decide(placement, &self.loads, goal, &self.balancer);
                    if let (Some(objective), Goal::Fit { .. }) = (objective, goal) {
                        objective.note(placement, used, &self.loads, period_ns);
                    }
                }
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
    for (shard, (ratio, mask)) in placement.ratios.iter_mut().zip(&mut placement.masks).enumerate() {
        if let Some(drawn) = is_drawn(draw(1, shard)) {
            (*ratio, *mask) = ((drawn % (most + 1)) as u8, (draw(3, shard) % most) as u8);
        }
    }
    for (core, offloader) in placement.offloaders.iter_mut().enumerate() {
        if let Some(draw) = is_drawn(draw(2, core)) {
            // To itself: nothing is offloaded.
            *offloader = Some((draw % cores) as u16).filter(|to| usize::from(*to) != core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::strategies::DYSSECT;

    fn controller(cores: usize) -> ShardController {
        let text = "[[function]]\nuse = \"flow-statistics\"\n";
        let chain = Chain::parse("test.toml", text, &Registry::of_tests()).expect("a chain");
        let plan = Plan::new(&chain, DYSSECT, cores).expect("a plan");
        ShardController::new(&chain, &plan)
    }

    /// The first counts whole: half of it would be too few cores for the second.
    #[test]
    fn a_period_counts_for_as_much_as_all_before_it() {
        let mut controller = controller(2);
        for (packets, load) in [(1_000, 1_000), (500, 750), (0, 375)] {
            (0..packets).for_each(|_| assert_eq!(controller.count(17), 1));
            let decision = controller.decide(2, 0);
            // Of 16 shards.
            assert_eq!(controller.loads[1][1], load);
            assert_eq!(controller.loads.iter().flatten().sum::<u64>(), load);
            assert_eq!(controller.put_in_force(decision).owners[1], 1, "what held has its worker");
            controller.now.owners[1] = 1;
        }
    }

    #[test]
    fn each_entry_is_stepped_where_its_load_is() {
        let mut controller = ShardController { every: Every::Packets(1), ..controller(4) };
        let each = vec![[1; BUCKETS as usize]; 16];
        for seed in 0..50 {
            let placement = controller.decide(4, seed);
            controller.put_in_force(placement);
            let mut loads = vec![0; 4];
            (0..1024).for_each(|entry| loads[controller.stepped_by(entry)] += 1);
            assert_eq!(loads, controller.placement().loads(&each), "{:?}", controller.placement());
        }
        assert!(controller.placement().offloaders.iter().any(Option::is_some), "some step for others");
    }
}
