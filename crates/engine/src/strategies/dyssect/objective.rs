//! How much a core may have to do so that packets wait no longer than the chain file says (§II-C, equations 12 to 15).

use std::sync::Arc;

use control::{Balancer, Buckets, Caps, Goal, Placement, utilisation_for};

use crate::chain::Slo;
use crate::strategies::account::{ObjectiveTally, ObjectiveTold};
use crate::strategies::dyssect::meter::Meter;

/// The most that a core is used: the paper's u_max, room for bursts.
const MOST: f64 = 0.9;

/// Epochs of a long period, after which fewer cores may be used: the paper's τ over its ε (§IV-A).
const EPOCHS: u64 = 10;

/// As few cores as keep the objective.
pub(super) struct Objective {
    /// How long packets may wait in the mean.
    mean_ns: f64,
    meter: Arc<Meter>,
    /// Cores that are used now.
    used: usize,
    epoch: u64,
    /// The most that a core may be used, as of the last goal, and what a packet took then, ns.
    most: f64,
    service_ns: f64,
    /// What is told of the last period, once packets have been timed.
    told: Option<ObjectiveTold>,
    tally: ObjectiveTally,
}

impl Objective {
    pub(super) fn new(slo: Slo) -> Objective {
        // Of an exponential distribution, as waits are under heavy load, 99% are below ln 100 times the mean.
        let mean_ns = slo.p99_us * 1e3 / 100f64.ln();
        Objective {
            mean_ns,
            meter: Arc::default(),
            used: 1,
            epoch: 0,
            most: 0.0,
            service_ns: 0.0,
            told: None,
            tally: ObjectiveTally::default(),
        }
    }

    /// Where cores tell of their time.
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Fits a period's packets on cores. Before anything is known of how long packets take, it makes loads even.
    pub(super) fn place(
        &mut self,
        placement: &mut Placement,
        packets: &[Buckets],
        period_ns: u64,
        balancer: &Balancer,
    ) {
        match self.goal(placement.has_priority(), period_ns) {
            Goal::Even => placement.balance(packets, balancer),
            Goal::Fit { caps, least } => {
                let used = placement.fit(packets, caps, least, balancer);
                self.note(placement, Some(used), packets, period_ns);
            }
        }
    }

    /// What a placement should do in the next period: even loads, as long as nothing is known of how long packets take.
    pub(super) fn goal(&mut self, has_priority: bool, period_ns: u64) -> Goal {
        let Some(service_ns) = self.meter.service_ns() else { return Goal::Even };
        // Nothing is known of how times vary: as in M/M/1.
        let utilisation = utilisation_for(self.mean_ns, 1.0, 1.0, service_ns, MOST);
        let packets_at = |utilisation: f64| (utilisation * period_ns as f64 / service_ns) as u64;
        // The paper's SLO of regular packets (equation 13) is not asked for: a core without shards may be used up to u_max.
        let regular = if has_priority { MOST } else { utilisation };
        let caps = Caps { priority: packets_at(utilisation), regular: packets_at(regular) };
        self.epoch += 1;
        let least = if self.epoch.is_multiple_of(EPOCHS) { 1 } else { self.used };
        (self.most, self.service_ns) = (utilisation, service_ns);
        Goal::Fit { caps, least }
    }

    /// A placement was found that uses so many cores, if one was found: `Some(None)` if all are too few. It is told how far that is from
    /// the objective.
    pub(super) fn note(
        &mut self,
        placement: &Placement,
        used: Option<Option<usize>>,
        packets: &[Buckets],
        period_ns: u64,
    ) {
        let service_ns = self.service_ns;
        if let Some(used) = used {
            self.used = used.unwrap_or(placement.offloaders.len());
        }
        let (loads, bound) = (placement.loads(packets), placement.bound());
        let busiest =
            loads.into_iter().zip(bound).filter_map(|(load, is_bound)| is_bound.then_some(load)).max();
        let busiest = busiest.unwrap_or(0) as f64 * service_ns;
        let busy = busiest / period_ns as f64;
        // Waits of M/M/1, as above.
        let p99_us = |busy: f64| 100f64.ln() * busy / (1.0 - busy) * service_ns / 1e3;
        let asked_us = self.mean_ns * 100f64.ln() / 1e3;
        let (predicted_us, measured_us) = ((busy < 1.0).then(|| p99_us(busy)), self.meter.take_p99_us());
        // What was asked comes out of a logarithm and an exponential: the last digits are not its own.
        let is_kept = measured_us.or(predicted_us).is_some_and(|us| us <= asked_us * 1.001);
        self.tally.add(is_kept, self.used);
        self.told = Some(ObjectiveTold {
            p99_us: asked_us,
            predicted_p99_us: predicted_us,
            measured_p99_us: measured_us,
            service_ns,
            utilisation: busy,
            most: self.most,
            used: self.used,
            so_far: self.tally,
        });
    }

    /// How far the model is from the objective.
    pub(super) fn told(&self) -> Option<ObjectiveTold> {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use control::BUCKETS;

    use super::*;

    const CORES: usize = 8;
    const PERIOD_NS: u64 = 100_000_000;
    /// Packets a period in frames of 1,500 bytes: 1 and 36 Gbit/s.
    const LOW: u64 = 8_333;
    const HIGH: u64 = 300_000;

    /// 16 shards with so many packets in a period, all buckets alike.
    fn packets(of_period: u64) -> Vec<Buckets> {
        vec![[of_period.div_ceil(16 * u64::from(BUCKETS)); BUCKETS as usize]; 16]
    }

    /// In virtual time: packets take 1.5 us, and the load jumps from 1 to 36 Gbit/s and back. At the end of the first period of the new
    /// load there are cores enough, and fewer not before a long period is over: so the objective is missed for a period at
    /// most.
    #[test]
    fn load_that_jumps_has_cores_enough_after_a_period() {
        let mut objective = Objective::new(Slo { p99_us: 20.0 });
        objective.meter().add(1_500_000, 1_000);
        let mut placement = Placement::new(16, CORES);
        let mut place = |load: u64, objective: &mut Objective| {
            objective.place(&mut placement, &packets(load), PERIOD_NS, &Balancer::default());
            let told = objective.told().expect("packets were timed");
            let keeps = told.predicted_p99_us.is_some_and(|us| us <= told.p99_us);
            assert!(keeps && told.utilisation <= told.most, "{load}: {told:?}");
            told.used
        };
        let low: Vec<usize> = (0..20).map(|_| place(LOW, &mut objective)).collect();
        assert_eq!(low[19], 1);
        let high = place(HIGH, &mut objective);
        assert!((6..=CORES).contains(&high), "300,000 packets are 450 ms of work in 100 ms: {high} cores");
        let later: Vec<usize> = (0..20).map(|_| place(HIGH, &mut objective)).collect();
        assert!(later.iter().all(|used| *used <= high), "{high}, then no more: {later:?}");
        let low: Vec<usize> = (0..20).map(|_| place(LOW, &mut objective)).collect();
        let first = low.iter().position(|used| *used == 1).expect("cores are given back");
        assert!(first < EPOCHS as usize && low[..first].iter().all(|used| *used == later[19]), "{low:?}");
    }

    /// 300 ms of work in 100 ms, of which a core may have 42 if it has packets with priority: where few have, others take from it what
    /// they may have to do, which is 90.
    #[test]
    fn an_objective_binds_workers_alone_where_there_are_classes() {
        let used = |placement: Placement| {
            let mut objective = Objective::new(Slo { p99_us: 5.0 });
            objective.meter().add(1_500_000, 1_000);
            let mut placement = placement;
            objective.place(&mut placement, &packets(200_000), PERIOD_NS, &Balancer::default());
            let told = objective.told().expect("packets were timed");
            assert!(told.utilisation <= told.most, "{told:?}");
            told.used
        };
        assert_eq!(used(Placement::new(16, CORES)), CORES);
        let with_classes = used(Placement::new(16, CORES).with_priority());
        assert!((5..CORES).contains(&with_classes), "{with_classes}");
    }

    /// More than all cores can do: all are used, and it says that packets wait ever longer.
    #[test]
    fn too_much_for_all_cores_is_said() {
        let mut objective = Objective::new(Slo { p99_us: 20.0 });
        objective.meter().add(1_500_000, 1_000);
        let mut placement = Placement::new(16, 2);
        objective.place(&mut placement, &packets(HIGH), PERIOD_NS, &Balancer::default());
        let told = objective.told().expect("packets were timed");
        assert_eq!((told.used, told.predicted_p99_us), (2, None), "{told:?}");
    }
}
