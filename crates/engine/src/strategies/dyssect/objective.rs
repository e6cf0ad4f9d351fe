//! How much a core may have to do so that packets wait no longer than the chain file says (§II-C, equations 12 to 15).

use std::sync::Arc;

use control::{Balancer, Buckets, Placement, utilisation_for};

use crate::chain::Slo;
use crate::strategies::dyssect::worker::Meter;

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
}

impl Objective {
    pub(super) fn new(slo: Slo) -> Objective {
        // Of an exponential distribution, as waits are under heavy load, 99% are below ln 100 times the mean.
        let mean_ns = slo.p99_us * 1e3 / 100f64.ln();
        Objective { mean_ns, meter: Arc::default(), used: 1, epoch: 0 }
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
        let Some(service_ns) = self.meter.service_ns() else { return placement.balance(packets, balancer) };
        // Nothing is known of how times vary: as in M/M/1.
        let utilisation = utilisation_for(self.mean_ns, 1.0, 1.0, service_ns, MOST);
        let most = (utilisation * period_ns as f64 / service_ns) as u64;
        self.epoch += 1;
        let least = if self.epoch.is_multiple_of(EPOCHS) { 1 } else { self.used };
        let used = placement.fit(packets, most, least, balancer);
        self.used = used.unwrap_or(placement.offloaders.len());
    }
}
