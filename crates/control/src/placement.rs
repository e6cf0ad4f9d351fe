//! Which core steps what: which worker has which shard, and which part of it which offloader (Dyssect, §II-C).
//!
//! | function | the paper's problem |
//! |---|---|
//! | [`Placement::balance`] | Table IV: loads as even as can be, with few changes |
//! | [`Placement::fit`] | Tables II and III: as few cores as keep below a utilisation, then few changes |
//! | [`utilisation_for`] | equations 12 and 13: below which utilisation packets wait no longer than they may |
//!
//! All of it is greedy, deterministic, and allocates little. Tests compare it with the optimum of small cases.

#[cfg(test)]
pub(crate) mod cases;
#[cfg(test)]
mod tests;

use crate::{BUCKETS, Balancer, Split};

/// What buckets of a shard cost, in any one measure: packets, or time.
pub type Buckets = [u64; BUCKETS as usize];

/// Buckets of a shard's flows without priority, where some flows have it: the first ones.
pub const REGULAR_BUCKETS: u8 = BUCKETS / 2;

/// Who steps what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By shard, its worker: A.
    pub owners: Vec<u16>,
    /// By shard, how many of its buckets are offloaded: r.
    pub ratios: Vec<u8>,
    /// By shard, which buckets those are: see [`Split`].
    pub masks: Vec<u8>,
    /// By core, who steps what it offloads: O.
    pub offloaders: Vec<Option<u16>>,
    /// The most buckets of a shard that may be offloaded, r^max: flows of the others have priority.
    pub offloadable: u8,
}

/// How much cores may have to do, in the measure of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// One that the objective [binds](Placement::bound).
    pub priority: u64,
    /// Any other: no less.
    pub regular: u64,
}

/// Loads may differ from their mean by this share before anything is changed.
const TOLERANCE: f64 = 0.05;

/// What a change of a shard's worker, or of an offloader, costs beside the squares, in shares of T²: α of Table IV.
pub(crate) const ALPHA: f64 = 1e-4;

/// Another order of buckets is worth while if it takes this share of its target from the heavier core.
const GAIN: f64 = 0.01;

/// Where loads do not fit, bound cores may have so many times a share more to do, until they have what others may.
const SLACK_STEPS: u64 = 16;

impl Placement {
    /// Shards are dealt out to `cores` cores in turn, and nothing is offloaded.
    pub fn new(shards: usize, cores: usize) -> Placement {
        let owners = (0..shards).map(|shard| (shard % cores) as u16).collect();
        let (ratios, masks) = (vec![0; shards], vec![0; shards]);
        Placement { owners, ratios, masks, offloaders: vec![None; cores], offloadable: BUCKETS }
    }

    /// Gives flows with priority the last buckets, from [`REGULAR_BUCKETS`] on: those are not offloaded.
    pub fn with_priority(self) -> Placement {
        Placement { offloadable: REGULAR_BUCKETS, ..self }
    }

    /// Whether some flows have priority.
    pub fn has_priority(&self) -> bool {
        self.offloadable < BUCKETS
    }

    /// By core, what its packets with priority cost; 0 where none have any.
    pub fn priority_loads(&self, costs: &[Buckets]) -> Vec<u64> {
        let mut loads = vec![0; self.offloaders.len()];
        for (worker, costs) in self.owners.iter().zip(costs) {
            loads[usize::from(*worker)] += costs[usize::from(self.offloadable)..].iter().sum::<u64>();
        }
        loads
    }

    /// Which cores an objective binds: workers (equation 12), and all where no flow has priority.
    pub fn bound(&self) -> Vec<bool> {
        let mut bound = vec![!self.has_priority(); self.offloaders.len()];
        self.owners.iter().for_each(|worker| bound[usize::from(*worker)] = true);
        bound
    }

    /// Which buckets of a shard are offloaded.
    pub fn split(&self, shard: usize) -> Split {
        Split { buckets: self.ratios[shard], mask: self.masks[shard] }
    }

    /// Whether this can take over from `now`: it is of as many shards and cores, offloads what may be, and no core's flows to
    /// itself.
    pub fn can_follow(&self, now: &Placement) -> bool {
        let (shards, cores) = (now.owners.len(), now.offloaders.len());
        let is_core = |core: u16| usize::from(core) < cores;
        let mut offloaders = self.offloaders.iter().enumerate();
        [self.owners.len(), self.ratios.len(), self.masks.len()] == [shards; 3]
            && self.offloaders.len() == cores
            && self.offloadable == now.offloadable
            && self.owners.iter().all(|core| is_core(*core))
            && self.ratios.iter().all(|ratio| *ratio <= now.offloadable)
            && self.masks.iter().all(|mask| *mask < now.offloadable)
            && offloaders.all(|(core, to)| to.is_none_or(|to| is_core(to) && usize::from(to) != core))
    }

    /// How each shard is split between its worker and an offloader, by shard.
    pub fn splits(&self) -> Vec<Split> {
        (0..self.ratios.len()).map(|shard| self.split(shard)).collect()
    }

    /// What each core steps, its own packets and others', where buckets cost so much.
    pub fn loads(&self, costs: &[Buckets]) -> Vec<u64> {
        let mut loads = vec![0; self.offloaders.len()];
        for (shard, costs) in costs.iter().enumerate() {
            let worker = usize::from(self.owners[shard]);
            let other = self.offloaders[worker].map_or(worker, usize::from);
            let offloaded: u64 = self.split(shard).buckets().map(|bucket| costs[usize::from(bucket)]).sum();
            loads[other] += offloaded;
            loads[worker] += costs.iter().sum::<u64>() - offloaded;
        }
        loads
    }

    /// Σ (u − T)² of Table IV, the mean load being the target, in shares of T².
    pub fn imbalance(&self, costs: &[Buckets]) -> f64 {
        let loads = self.loads(costs);
        let target = (loads.iter().sum::<u64>() as f64 / loads.len() as f64).max(1.0);
        loads.iter().map(|load| (*load as f64 / target - 1.0).powi(2)).sum()
    }

    /// How many shards have another worker than in `before`, and how many workers another offloader: F of equation 16.
    pub fn changes_from(&self, before: &Placement) -> usize {
        let shards = self.owners.iter().zip(&before.owners).filter(|(now, then)| now != then).count();
        let offloaders = self.offloaders.iter().zip(&before.offloaders).filter(|(now, then)| now != then);
        shards + offloaders.count()
    }

    /// Makes loads even (Table IV), where they are not: moves shards first, then has loaded cores offload to others. A core
    /// may be both, a worker and another's offloader. Changes nothing while no load is more than 105% of the mean.
    ///
    /// # Panics
    /// If there are not as many costs as shards.
    pub fn balance(&mut self, costs: &[Buckets], balancer: &Balancer) {
        assert_eq!(self.owners.len(), costs.len(), "costs for each shard");
        let cores = self.offloaders.len();
        let total: u64 = costs.iter().flatten().sum();
        let target = total as f64 / cores.max(1) as f64;
        if self.is_even(costs, target) {
            return;
        }
        let shards: Vec<u64> = costs.iter().map(|costs| costs.iter().sum()).collect();
        balancer.rebalance(&mut self.owners, &shards, cores);
        self.ratios.fill(0);
        self.offload(costs, &vec![target; cores]);
    }

    fn is_even(&self, costs: &[Buckets], target: f64) -> bool {
        self.loads(costs).iter().all(|load| (*load as f64) <= target * (1.0 + TOLERANCE))
    }

    /// Has each core with more than its target offload what is too much, heaviest core first, to the core with the most room. A
    /// worker keeps its offloader where that has room.
    fn offload(&mut self, costs: &[Buckets], targets: &[f64]) {
        let before = self.offloaders.clone();
        self.offloaders.fill(None);
        let mut loads = self.loads(costs);
        let mut loaded: Vec<usize> = (0..loads.len()).collect();
        loaded.sort_by_key(|core| (std::cmp::Reverse(loads[*core]), *core));
        for worker in loaded {
            let excess = loads[worker] as f64 - targets[worker];
            if excess <= targets[worker] * TOLERANCE {
                continue;
            }
            let room = |core: usize| targets[core] - loads[core] as f64;
            // The first of equal ones.
            let most = (0..loads.len())
                .rev()
                .filter(|core| *core != worker)
                .max_by(|a, b| room(*a).total_cmp(&room(*b)));
            let same =
                before[worker].map(usize::from).filter(|core| *core != worker && room(*core) >= excess);
            let Some(other) = same.or(most).filter(|core| room(*core) > 0.0) else { continue };
            let pair = [worker, other];
            let moved = self.offload_from(
                worker,
                costs,
                pair.map(|core| loads[core]),
                pair.map(|core| targets[core]),
            );
            if moved > 0 {
                self.offloaders[worker] = Some(other as u16);
                loads[worker] -= moved;
                loads[other] += moved;
            }
        }
    }

    /// Offloads buckets of a worker's shards, heaviest shard first: of each so many that the heavier of worker and offloader,
    /// which have these `loads`, is as light as can be beside its target, and no more than needed. Says what they cost.
    fn offload_from(&mut self, worker: usize, costs: &[Buckets], loads: [u64; 2], targets: [f64; 2]) -> u64 {
        let mut shards: Vec<usize> =
            (0..costs.len()).filter(|shard| usize::from(self.owners[*shard]) == worker).collect();
        shards.sort_by_key(|shard| (std::cmp::Reverse(costs[*shard].iter().sum::<u64>()), *shard));
        let mut moved = 0;
        let share = |load: u64, target: f64| load as f64 / target.max(1.0);
        for shard in shards {
            // Below both targets nothing is lighter: what is room then is left for others.
            let heavier = |moved: u64| {
                share(loads[0] - moved, targets[0]).max(share(loads[1] + moved, targets[1])).max(1.0)
            };
            let best_of = |mask: u8| {
                let (mut best, mut cost) = ((heavier(moved), 0, moved), moved);
                for buckets in 1..=self.offloadable {
                    cost += costs[shard][usize::from((buckets - 1) ^ mask)];
                    // The first of equal ones: buckets without packets stay.
                    if heavier(cost) < best.0 {
                        best = (heavier(cost), buckets, cost);
                    }
                }
                best
            };
            // Another order has all offloaded flows of the shard change cores.
            let mut mask = self.masks[shard];
            let mut best = best_of(mask);
            for other in Split::masks(self.offloadable) {
                let found = best_of(other);
                if found.0 < best.0 - GAIN {
                    (mask, best) = (other, found);
                }
            }
            (self.masks[shard], self.ratios[shard], moved) = (mask, best.1, best.2);
        }
        moved
    }

    /// Fits loads on as few cores as keep below their caps (Tables II and III), from core 0 on and no fewer than `least`, and
    /// moves few shards for that. Where flows have priority, some cores may have no shards, and step for others alone. Says
    /// how many cores are used; `None` if all cores together are too few: then bound cores have as little more to do than their cap as
    /// can be found, and where no others can help them loads are made even.
    ///
    /// # Panics
    /// As [`Placement::balance`].
    pub fn fit(&mut self, costs: &[Buckets], caps: Caps, least: usize, balancer: &Balancer) -> Option<usize> {
        assert_eq!(self.owners.len(), costs.len(), "costs for each shard");
        let cores = self.offloaders.len();
        let pinned = self.owners.iter().enumerate().filter(|(shard, _)| balancer.is_pinned(*shard));
        let pinned = pinned.map(|(_, owner)| usize::from(*owner) + 1).fold(1, usize::max);
        let on = |used, caps| self.on(used, pinned, costs, caps, balancer);
        let fits = (least.max(pinned).clamp(1, cores)..=cores).find_map(|used| Some((used, on(used, caps)?)));
        if let Some((used, placement)) = fits {
            *self = placement;
            return Some(used);
        }
        let more = |step| caps.priority + caps.regular.saturating_sub(caps.priority) * step / SLACK_STEPS;
        let mut slack = (1..=SLACK_STEPS).map(more).filter(|priority| *priority > caps.priority);
        match slack.find_map(|priority| on(cores, Caps { priority, ..caps })) {
            Some(placement) => *self = placement,
            None => self.balance(costs, balancer),
        }
        None
    }

    /// A placement that [fits](Placement::fit) on `used` cores, as many of them as can be with shards, and `pinned`
    /// at least; `None` if they are too few.
    fn on(
        &self,
        used: usize,
        pinned: usize,
        costs: &[Buckets],
        caps: Caps,
        balancer: &Balancer,
    ) -> Option<Placement> {
        // Equation 8 wants two workers for an offloader; one is enough here.
        let fewest = if self.has_priority() { used.div_ceil(2).max(pinned) } else { used };
        (fewest..=used).rev().find_map(|workers| {
            let mut fewer = self.on_fewer(workers, used, costs);
            if !fewer.is_within(costs, caps) {
                fewer.relieve(workers, used, costs, caps, balancer);
            }
            fewer.is_within(costs, caps).then_some(fewer)
        })
    }

    /// By core, how much it may have to do.
    fn caps(&self, caps: Caps) -> Vec<u64> {
        self.bound().into_iter().map(|is_bound| if is_bound { caps.priority } else { caps.regular }).collect()
    }

    pub(crate) fn is_within(&self, costs: &[Buckets], caps: Caps) -> bool {
        self.loads(costs).iter().zip(self.caps(caps)).all(|(load, cap)| *load <= cap)
    }

    /// Has the first `used` cores alone step packets: shards of the others come to them, and then `change` sees a placement
    /// on those cores.
    ///
    /// # Panics
    /// If there are no such cores, or not as many costs as shards.
    pub fn on_first(&mut self, used: usize, costs: &[Buckets], change: impl FnOnce(&mut Placement)) {
        let cores = self.offloaders.len();
        assert!((1..=cores).contains(&used), "{used} of {cores} cores");
        *self = self.on_fewer(used, used, costs);
        self.offloaders.truncate(used);
        change(self);
        self.offloaders.resize(cores, None);
    }

    /// This placement on the first `used` cores, of which the first `workers` have shards: those of the others go
    /// to the one with the least, heaviest shard first.
    fn on_fewer(&self, workers: usize, used: usize, costs: &[Buckets]) -> Placement {
        let mut fewer = self.clone();
        let mut homeless: Vec<usize> =
            (0..costs.len()).filter(|shard| usize::from(self.owners[*shard]) >= workers).collect();
        let cost = |shard: usize| costs[shard].iter().sum::<u64>();
        homeless.sort_by_key(|shard| (std::cmp::Reverse(cost(*shard)), *shard));
        for offloader in &mut fewer.offloaders {
            *offloader = offloader.filter(|core| usize::from(*core) < used);
        }
        for shard in homeless {
            let loads = fewer.loads(costs);
            let least = (0..workers).min_by_key(|core| (loads[*core], *core)).unwrap_or(0);
            fewer.owners[shard] = least as u16;
            fewer.ratios[shard] = 0;
        }
        fewer
    }

    /// Has workers with more than they may give shards away, and offload what is still too much.
    fn relieve(&mut self, workers: usize, used: usize, costs: &[Buckets], caps: Caps, balancer: &Balancer) {
        self.ratios.fill(0);
        for _ in 0..costs.len() {
            let (loads, most) = (self.loads(costs), caps.priority);
            let loaded = (0..workers).filter(|core| loads[*core] > most);
            let Some(from) = loaded.max_by_key(|core| loads[*core]) else { return };
            let to = (0..workers).min_by_key(|core| (loads[*core], *core)).unwrap_or(0);
            let cost = |shard: &usize| costs[*shard].iter().sum::<u64>();
            // The lightest that is enough, or else the heaviest that fits.
            let fits = (0..costs.len()).filter(|shard| {
                let is_free = usize::from(self.owners[*shard]) == from && !balancer.is_pinned(*shard);
                is_free && cost(shard) > 0 && loads[to] + cost(shard) <= most
            });
            let (enough, less): (Vec<usize>, Vec<usize>) =
                fits.partition(|shard| loads[from] - cost(shard) <= most);
            let lightest = enough.into_iter().min_by_key(cost);
            let Some(shard) = lightest.or_else(|| less.into_iter().max_by_key(cost)) else { break };
            self.owners[shard] = to as u16;
        }
        let cores = self.offloaders.len();
        let most = self.caps(caps);
        let targets: Vec<f64> = most.iter().map(|most| *most as f64 / (1.0 + TOLERANCE)).collect();
        self.offloaders.truncate(used);
        self.offload(costs, &targets);
        self.offloaders.resize(cores, None);
    }
}

/// The utilisation up to which packets wait `slo_ns` at most in the mean, by Kingman's formula: `ca2` and `cs2` are the
/// squared coefficients of variation of the times between packets and of the times of service, `service_ns` is the mean
/// time of service. At most `most`. Solving equation 12 for u, with T constant, makes it a cap: no bilinear term is left.
pub fn utilisation_for(slo_ns: f64, ca2: f64, cs2: f64, service_ns: f64, most: f64) -> f64 {
    let per_load = (ca2 + cs2) / 2.0 * service_ns;
    if per_load <= 0.0 {
        return most;
    }
    let ratio = slo_ns / per_load;
    (ratio / (1.0 + ratio)).min(most)
}
