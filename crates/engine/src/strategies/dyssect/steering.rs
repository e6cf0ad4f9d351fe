//! Where packets enter: the indirection table, and decisions as they come into force (Algorithm 1).

use control::{BUCKETS, Balancer, Order, Orders};
use io::{Closed, Frame, Waiting};
use nf::hash_bytes;
use ring::Producer;
use strategy::{Assign, Every, Rebalancing};
use wire::{Headers, Stamp};

use crate::strategies::dispatch::{Dispatcher, Queues};
use crate::strategies::dyssect::core::Signal;

/// What the controller decides.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decision {
    /// By shard, its worker (A).
    owners: Vec<u16>,
    /// By shard, how many of its buckets are offloaded (r).
    ratios: Vec<u8>,
    /// By core, who steps what it offloads (O).
    offloaders: Vec<Option<u16>>,
}

/// Sends packets to the workers of their shards, and tells cores what the controller decides.
pub(super) struct Steering {
    hash: Box<dyn Assign>,
    now: Decision,
    /// What was decided and is not in force: from when on.
    decided: Option<(u64, Decision)>,
    /// By shard, how often it has gone from core to core.
    tenures: Vec<u32>,
    /// Packets of the period at hand, by shard.
    loads: Vec<u64>,
    rebalancing: Rebalancing,
    balancer: Balancer,
    packets: u64,
    /// When the period ends; 0 before the first packet.
    ends_ns: u64,
    orders: Orders,
    signals: Vec<Producer<Signal>>,
}

impl Steering {
    /// `owners[shard]` has the shard at first. `orders` and `signals` go to the cores.
    pub(super) fn new(
        hash: Box<dyn Assign>,
        owners: Vec<u16>,
        rebalancing: Rebalancing,
        (orders, signals): (Orders, Vec<Producer<Signal>>),
    ) -> Steering {
        let shards = owners.len();
        Steering {
            hash,
            now: Decision { owners, ratios: vec![0; shards], offloaders: vec![None; signals.len()] },
            decided: None,
            tenures: vec![0; shards],
            loads: vec![0; shards],
            rebalancing,
            balancer: Balancer::default(),
            packets: 0,
            ends_ns: 0,
            orders,
            signals,
        }
    }

    #[inline]
    fn is_due(&mut self, now_ns: u64) -> bool {
        match self.rebalancing.every {
            Every::Packets(packets) => self.packets > 0 && self.packets.is_multiple_of(packets),
            Every::Period(_) if now_ns < self.ends_ns => false,
            Every::Period(period_ns) => {
                let is_first = self.ends_ns == 0;
                self.ends_ns = now_ns.saturating_add(period_ns).max(1);
                !is_first
            }
        }
    }

    #[cold]
    fn decide(&mut self, stamp: Stamp) {
        let mut decision = self.now.clone();
        let cores = self.signals.len();
        match self.rebalancing.every {
            Every::Period(_) => self.balancer.rebalance(&mut decision.owners, &self.loads, cores),
            Every::Packets(_) => decision.shuffle(cores as u64, stamp.seq),
        }
        self.loads.fill(0);
        self.decided = Some((stamp.time_ns.saturating_add(self.rebalancing.update_latency_ns), decision));
    }

    /// In the order of Algorithm 1, lines 7 to 17: ratios, then shards, then offloaders.
    #[cold]
    fn put_in_force(&mut self, new: Decision, stamp: Stamp, queues: &dyn Queues) -> Result<(), Closed> {
        for (shard, buckets) in
            new.ratios.iter().enumerate().filter(|(shard, new)| self.now.ratios[*shard] != **new)
        {
            let signal =
                Signal::Ratio { shard: shard as u16, buckets: *buckets, tenure: self.tenures[shard] };
            give(&mut self.signals[usize::from(self.now.owners[shard])], signal, queues)?;
        }
        for (shard, to) in
            new.owners.iter().enumerate().filter(|(shard, new)| self.now.owners[*shard] != **new)
        {
            let from = usize::from(self.now.owners[shard]);
            let order = Order {
                entry: shard as u16,
                to: *to,
                after: queues.sent(from),
                since_seq: stamp.seq,
                since_ns: stamp.time_ns,
            };
            let waiting = Waiting::default();
            // The core looks at its orders between any two batches.
            while self.orders.give(from, order).is_err() {
                if queues.is_closed() {
                    return Err(Closed);
                }
                waiting.wait();
            }
            self.tenures[shard] += 1;
        }
        for (core, to) in
            new.offloaders.iter().enumerate().filter(|(core, new)| self.now.offloaders[*core] != **new)
        {
            give(&mut self.signals[core], Signal::Offloader(*to), queues)?;
        }
        self.now = new;
        Ok(())
    }
}

/// Tells a core something, which it looks at between any two batches.
fn give(to: &mut Producer<Signal>, signal: Signal, queues: &dyn Queues) -> Result<(), Closed> {
    let waiting = Waiting::default();
    let mut signal = signal;
    while let Err(again) = to.push(signal) {
        if queues.is_closed() {
            return Err(Closed);
        }
        signal = again;
        waiting.wait();
    }
    Ok(())
}

impl Decision {
    /// Changes a quarter of everything at random, whatever the loads: to show that it does no harm.
    fn shuffle(&mut self, cores: u64, seed: u64) {
        let draw =
            |what: u64, index: usize| hash_bytes(&[what, index as u64].map(u64::to_le_bytes).concat(), seed);
        for (shard, owner) in self.owners.iter_mut().enumerate() {
            let draw = draw(0, shard);
            if draw.is_multiple_of(4) {
                *owner = ((draw >> 8) % cores) as u16;
            }
        }
        for (shard, ratio) in self.ratios.iter_mut().enumerate() {
            let draw = draw(1, shard);
            if draw.is_multiple_of(4) {
                *ratio = ((draw >> 8) % (u64::from(BUCKETS) + 1)) as u8;
            }
        }
        for (core, offloader) in self.offloaders.iter_mut().enumerate() {
            let draw = draw(2, core);
            if draw.is_multiple_of(4) {
                // To itself: nothing is offloaded.
                *offloader = Some(((draw >> 8) % cores) as u16).filter(|to| usize::from(*to) != core);
            }
        }
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
        let shard = usize::from(frame.entry) & (self.loads.len() - 1);
        // A decision that is not in force is not overtaken by the next.
        if self.is_due(frame.stamp.time_ns) && self.decided.is_none() {
            self.decide(frame.stamp);
        }
        if let Some((_, decision)) = self.decided.take_if(|(from_ns, _)| *from_ns <= frame.stamp.time_ns) {
            self.put_in_force(decision, frame.stamp, queues)?;
        }
        self.loads[shard] += 1;
        self.packets += 1;
        Ok(usize::from(self.now.owners[shard]))
    }
}
