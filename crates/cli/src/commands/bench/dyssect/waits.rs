//! How long packets wait for their core, and on how many cores: the shapes of Fig. 4. And how many look-ups a card could take over, of
//! which Fig. 6 has the cost.
//!
//! Nothing is run. Cores are virtual: queues of which each works off one packet after the other, in the same time each, at the packets' own
//! time. Moving shards and handing packets on costs nothing. Times between packets are exponential.

use std::collections::HashMap;

use engine::strategies::{DYSSECT, RSSPP, Strategy};
use engine::{Balancer, Buckets, Caps, Chain, Placement, Plan, REGULAR_BUCKETS, utilisation_for};
use io::Trace;
use nf::{Connection, FlowKey, hash_bytes};
use schemars::JsonSchema;
use serde::Serialize;
use strategy::{Every, Rebalancing};
use wire::Stamp;

use super::loads::{NO_PACKETS, PERIOD_NS, shards_of, smooth, stepped_by};
use crate::failure::Failure;

/// What a packet takes, ns: as many as 22 Gbit/s on eight cores leave two thirds of.
const SERVICE_NS: f64 = 2_000.0;

/// How long 99 in 100 packets with priority may wait, µs.
const SLO_US: f64 = 20.0;

/// The most that a core is used, and periods after which there may be fewer cores: as `dyssect` has them.
const MOST: f64 = 0.9;
const EPOCHS: u64 = 10;

/// Bytes of a packet: the paper's mean.
const PACKET_BYTES: f64 = 1_001.0;

/// At one rate, under one strategy.
#[derive(Serialize, JsonSchema)]
pub struct Waits {
    /// What is offered, Gbit/s in packets of 1001 bytes.
    gbps: f64,
    /// The strategy.
    strategy: String,
    /// Cores that had packets in a period, in the mean.
    cores: f64,
    /// What 99.5 in 100 packets with priority waited at most, µs.
    p995_priority_us: f64,
    /// The same of all others.
    p995_regular_us: f64,
    /// The share of packets with priority that waited longer than the objective, which 99 in 100 should not.
    missed: f64,
    /// Entries or shards that went from core to core.
    moves: u64,
}

/// Look-ups that a card could take over.
#[derive(Serialize, JsonSchema)]
pub struct CardShare {
    /// Flows whose look-up the card does: the largest ones.
    flows: usize,
    /// The share of packets that are theirs.
    packets: f64,
}

/// A packet, as the figure needs it.
struct Arrival {
    at_ns: f64,
    has_priority: bool,
}

/// All rates under both strategies.
pub fn waits(chain: &Chain, cores: usize, trace: &Trace) -> Result<Vec<Waits>, Failure> {
    let (flows, sizes) = flows_of(chain, trace);
    let priority = short_flows(&sizes);
    let mut all = Vec::new();
    for gbps in [2.5, 5.0, 10.0, 15.0, 22.0] {
        let gap_ns = PACKET_BYTES * 8.0 / gbps;
        let mut at_ns = 0.0;
        let arrive = |(number, flow): (usize, &usize)| {
            let drawn = hash_bytes(&(number as u64).to_le_bytes(), 1) >> 11;
            at_ns -= gap_ns * ((drawn as f64 + 0.5) / (1u64 << 53) as f64).ln();
            Arrival { at_ns, has_priority: priority[*flow] }
        };
        let arrivals: Vec<Arrival> = flows.iter().enumerate().map(arrive).collect();
        for strategy in [RSSPP, DYSSECT] {
            all.push(offered(chain, strategy, (cores, gbps), trace, &arrivals)?);
        }
    }
    Ok(all)
}

/// The flow of each packet, by number, and how many packets each flow has.
fn flows_of(chain: &Chain, trace: &Trace) -> (Vec<usize>, Vec<u64>) {
    let (mut numbers, mut sizes) = (HashMap::new(), Vec::new());
    let flow = |number: usize| {
        let record = trace.packet(number);
        let key = Connection::of(&chain.headers(record.link, record.data, record.wire_len));
        let flow = *numbers.entry(key).or_insert(sizes.len());
        sizes.resize(sizes.len().max(flow + 1), 0);
        sizes[flow] += 1;
        flow
    };
    ((0..trace.len()).map(flow).collect(), sizes)
}

/// Which flows have priority: the shortest ones, with so many packets together as are a thousandth of all, or whole size after size.
fn short_flows(sizes: &[u64]) -> Vec<bool> {
    let wanted = sizes.iter().sum::<u64>() / 1_000;
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // Of equal size any: those that came first would all be over before the others.
    order.sort_by_key(|flow| (sizes[*flow], hash_bytes(&flow.to_le_bytes(), 2)));
    let mut priority = vec![false; sizes.len()];
    let mut packets = 0;
    for flow in order {
        if packets >= wanted {
            break;
        }
        (priority[flow], packets) = (true, packets + sizes[flow]);
    }
    priority
}

/// Has packets wait in the queues of virtual cores.
fn offered(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    (cores, gbps): (usize, f64),
    trace: &Trace,
    arrivals: &[Arrival],
) -> Result<Waits, Failure> {
    let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
    plan.rebalancing = Some(Rebalancing { every: Every::Period(PERIOD_NS), update_latency_ns: 0 });
    let (mut assign, shards) = (plan.assign(chain), shards_of(&plan));
    let mut controller = Controller::new(shards, cores);
    let mut free_ns = vec![0.0f64; cores];
    let mut has_had = vec![false; cores];
    let (mut used, mut periods, mut moves, mut ends_ns) = (0, 0, 0, PERIOD_NS as f64);
    let mut waited = [Vec::new(), Vec::new()];
    for (number, arrival) in arrivals.iter().enumerate() {
        let record = trace.packet(number);
        let entry = assign.entry(&chain.headers(record.link, record.data, record.wire_len));
        if arrival.at_ns >= ends_ns {
            used += has_had.iter().filter(|has_had| **has_had).count();
            (periods, ends_ns) = (periods + 1, arrival.at_ns + PERIOD_NS as f64);
            has_had.fill(false);
            if plan.shards.is_some() {
                moves += controller.decide();
            }
        }
        moves += assign.moves(Stamp { seq: number as u64, time_ns: arrival.at_ns as u64 }).len() as u64;
        let core = match plan.shards {
            None => assign.core(entry),
            Some(_) => controller.core(entry, arrival.has_priority),
        };
        has_had[core] = true;
        let begins_ns = free_ns[core].max(arrival.at_ns);
        free_ns[core] = begins_ns + SERVICE_NS;
        // A fifth of the packets until loads are known.
        if number >= arrivals.len() / 5 {
            waited[usize::from(arrival.has_priority)].push((begins_ns - arrival.at_ns) / 1e3);
        }
    }
    let [mut regular, mut priority] = waited;
    let missed = priority.iter().filter(|us| **us > SLO_US).count() as f64 / priority.len().max(1) as f64;
    Ok(Waits {
        gbps,
        strategy: strategy.name().to_owned(),
        cores: used as f64 / f64::from(periods).max(1.0),
        p995_priority_us: p995(&mut priority),
        p995_regular_us: p995(&mut regular),
        missed,
        moves,
    })
}

fn p995(waits: &mut [f64]) -> f64 {
    waits.sort_by(f64::total_cmp);
    waits.get(waits.len() * 995 / 1_000).copied().unwrap_or(0.0)
}

/// As `dyssect` decides with an objective and classes.
struct Controller {
    placement: Placement,
    counted: Vec<Buckets>,
    loads: Vec<Buckets>,
    used: usize,
    epoch: u64,
}

impl Controller {
    fn new(shards: usize, cores: usize) -> Controller {
        let placement = Placement::new(shards, cores).with_priority();
        let none = vec![NO_PACKETS; shards];
        Controller { placement, counted: none.clone(), loads: none, used: 1, epoch: 0 }
    }

    /// Where a packet is stepped, which is counted.
    fn core(&mut self, entry: u16, has_priority: bool) -> usize {
        let shards = self.counted.len();
        let of_class = if has_priority { usize::from(REGULAR_BUCKETS) } else { 0 };
        let bucket = usize::from(entry) / shards % usize::from(REGULAR_BUCKETS) + of_class;
        stepped_by(&self.placement, &mut self.counted, usize::from(entry) % shards, bucket)
    }

    /// Says how many shards move.
    fn decide(&mut self) -> u64 {
        smooth(&mut self.loads, &mut self.counted);
        self.epoch += 1;
        let utilisation = utilisation_for(SLO_US * 1e3 / 100f64.ln(), 1.0, 1.0, SERVICE_NS, MOST);
        let packets = |utilisation: f64| (utilisation * PERIOD_NS as f64 / SERVICE_NS) as u64;
        let caps = Caps { priority: packets(utilisation), regular: packets(MOST) };
        let least = if self.epoch.is_multiple_of(EPOCHS) { 1 } else { self.used };
        let before = self.placement.owners.clone();
        let used = self.placement.fit(&self.loads, caps, least, &Balancer::default());
        self.used = used.unwrap_or(self.placement.offloaders.len());
        self.placement.owners.iter().zip(&before).filter(|(now, then)| now != then).count() as u64
    }
}

/// How many packets are of the largest flows, of which the paper's card has one in 100.
pub fn card_share(chain: &Chain, trace: &Trace) -> CardShare {
    let (_, mut sizes) = flows_of(chain, trace);
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    let flows = sizes.len().div_ceil(100);
    let theirs: u64 = sizes[..flows].iter().sum();
    CardShare { flows, packets: theirs as f64 / trace.len().max(1) as f64 }
}

impl Waits {
    /// A row of the figure.
    pub fn row(&self) -> Vec<String> {
        let Waits { gbps, strategy, cores, p995_priority_us, p995_regular_us, missed, moves } = self;
        vec![
            format!("{gbps:.1}"),
            strategy.clone(),
            format!("{cores:.1}"),
            format!("{p995_priority_us:.1}"),
            format!("{p995_regular_us:.1}"),
            format!("{:.2}%", missed * 100.0),
            moves.to_string(),
        ]
    }
}

/// What the figures are of, for people.
pub fn caption(cores: usize) -> String {
    format!(
        "Fig. 4: up to {cores} virtual cores, {SERVICE_NS} ns a packet, 99 in 100 with priority wait {SLO_US} us"
    )
}

impl CardShare {
    /// The figure, for people.
    pub fn text(&self) -> String {
        format!(
            "a card that does the look-ups of the largest {} flows, one in 100, does them for {:.1}% of packets; what that saves a core is \
             not measured, since no card here does it\n",
            self.flows,
            self.packets * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_flows_have_priority_up_to_a_thousandth() {
        let mut sizes = vec![1_000; 4];
        sizes.extend([3, 1, 1, 2]);
        assert_eq!(short_flows(&sizes), [false, false, false, false, false, true, true, true]);
    }

    #[test]
    fn the_largest_of_few_waits_is_the_tail() {
        assert_eq!(p995(&mut (0..1_000).rev().map(f64::from).collect::<Vec<_>>()), 995.0);
        assert_eq!(p995(&mut []), 0.0);
    }
}
