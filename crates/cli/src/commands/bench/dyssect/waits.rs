//! How long packets wait for their core, and on how many cores: the shapes of Fig. 4. And how many look-ups a card could take over, of
//! which Fig. 6 has the cost.
//!
//! Nothing is run. Cores are virtual: queues of which each works off one packet after the other, in the same time each, at the packets' own
//! time. Moving shards and handing packets on costs nothing. Times between packets are exponential.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use engine::strategies::{DYSSECT, RSSPP, Strategy};
use engine::{Chain, Classes, Slo};
use io::Trace;
use nf::{Connection, FlowKey, hash_bytes};
use schemars::JsonSchema;
use serde::Serialize;

use super::steps::{PASSES, Steps, WINDOW_NS};
use crate::failure::Failure;
use crate::progress::go_on;

/// What a packet takes, ns: as many as 22 Gbit/s on eight cores leave two thirds of.
const SERVICE_NS: u64 = 2_000;

/// How long 99 in 100 packets with priority may wait, µs: an objective that even loads keep at all rates, and one that they miss at 22 Gbit/s.
const SLOS_US: [f64; 2] = [20.0, 10.0];

/// Bytes of a packet: the paper's mean.
const PACKET_BYTES: f64 = 1_001.0;

/// At one rate, under one strategy.
#[derive(Serialize, JsonSchema)]
pub struct Waits {
    /// How long 99 in 100 packets with priority may wait, µs.
    slo_us: f64,
    /// What is offered, Gbit/s in packets of 1001 bytes.
    gbps: f64,
    /// The strategy.
    strategy: String,
    /// Cores that had packets in 10 ms, in the mean.
    cores: f64,
    /// What 99.5 in 100 packets with priority waited at most, µs.
    p995_priority_us: f64,
    /// What 99.5 in 100 packets without priority waited at most, µs.
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

/// All objectives and rates under both strategies.
pub fn waits(chain: &Chain, cores: usize, trace: &Trace, stop: &AtomicBool) -> Result<Vec<Waits>, Failure> {
    let (classes, has_priority) = classes_of(chain, trace);
    let mut all = Vec::new();
    for slo_us in SLOS_US {
        let slo = Some(Slo { p99_us: slo_us });
        let chain = Chain { slo, classes: classes.clone(), ..chain.clone() };
        for gbps in [2.5, 5.0, 10.0, 15.0, 22.0] {
            let waits =
                |strategy, cores| offered(&chain, (strategy, cores), (gbps, slo_us), trace, &has_priority);
            let dyssect = waits(DYSSECT, cores)?;
            // On as many cores: `rsspp` does not choose how many, as the paper's RSS++ does.
            let as_many = (dyssect.cores.round() as usize).max(1);
            all.push(waits(RSSPP, as_many)?);
            all.push(dyssect);
            go_on(stop)?;
        }
    }
    Ok(all)
}

/// Classes in which the shortest flows have priority, and which packets then have it.
fn classes_of(chain: &Chain, trace: &Trace) -> (Classes, Vec<bool>) {
    let (flows, sizes) = flows_of(chain, trace);
    let priority = short_flows(&sizes);
    let hosts = (0..trace.len()).filter(|number| priority[flows[*number]]).map(|number| {
        let record = trace.packet(number);
        chain.headers(record.link, record.data, record.wire_len).src
    });
    let classes = Classes::of_hosts(hosts);
    (classes, flows.iter().map(|flow| priority[*flow]).collect())
}

/// A chain in which the shortest flows have priority, and an objective for them.
pub fn prioritised(chain: &Chain, trace: &Trace, slo_us: f64) -> Chain {
    Chain { slo: Some(Slo { p99_us: slo_us }), classes: classes_of(chain, trace).0, ..chain.clone() }
}

/// Exponential times between packets, ns: the one ahead of this packet.
fn gap_ns(number: usize, mean_ns: f64) -> f64 {
    let drawn = hash_bytes(&(number as u64).to_le_bytes(), 1) >> 11;
    -mean_ns * ((drawn as f64 + 0.5) / (1u64 << 53) as f64).ln()
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
    (strategy, cores): (&'static dyn Strategy, usize),
    (gbps, slo_us): (f64, f64),
    trace: &Trace,
    has_priority: &[bool],
) -> Result<Waits, Failure> {
    let mut steps = Steps::new(chain, strategy, cores, trace)?;
    let count = PASSES * trace.len();
    let (mut at_ns, mut free_ns) = (0.0f64, vec![0.0f64; cores]);
    let mut has_had = vec![false; cores];
    let (mut used, mut windows, mut ends_ns) = (0, 0, WINDOW_NS as f64);
    let mut waited = [Vec::new(), Vec::new()];
    for number in 0..count {
        at_ns += gap_ns(number, PACKET_BYTES * 8.0 / gbps);
        // A fifth of the packets until loads are known.
        let is_warm = number >= count / 5;
        if at_ns >= ends_ns {
            if is_warm {
                used += has_had.iter().filter(|has_had| **has_had).count();
                windows += 1;
            }
            ends_ns = at_ns + WINDOW_NS as f64;
            has_had.fill(false);
        }
        let core = steps.next(at_ns as u64);
        steps.took(SERVICE_NS);
        has_had[core] = true;
        let begins_ns = free_ns[core].max(at_ns);
        free_ns[core] = begins_ns + SERVICE_NS as f64;
        if is_warm {
            let has_priority = has_priority[number % trace.len()];
            waited[usize::from(has_priority)].push((begins_ns - at_ns) / 1e3);
        }
    }
    let [mut regular, mut priority] = waited;
    let missed = priority.iter().filter(|us| **us > slo_us).count() as f64 / priority.len().max(1) as f64;
    Ok(Waits {
        slo_us,
        gbps,
        strategy: strategy.name().to_owned(),
        cores: used as f64 / f64::from(windows).max(1.0),
        p995_priority_us: p995(&mut priority),
        p995_regular_us: p995(&mut regular),
        missed,
        moves: steps.moves,
    })
}

fn p995(waits: &mut [f64]) -> f64 {
    waits.sort_by(f64::total_cmp);
    waits.get(waits.len() * 995 / 1_000).copied().unwrap_or(0.0)
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
        let Waits { slo_us, gbps, strategy, cores, p995_priority_us, p995_regular_us, missed, moves } = self;
        vec![
            format!("{slo_us:.0}"),
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
        "Fig. 4: up to {cores} virtual cores, {SERVICE_NS} ns a packet, 99 in 100 with priority wait no longer than the objective"
    )
}

impl CardShare {
    /// The figure, for people.
    pub fn text(&self) -> String {
        format!(
            "a card that does the look-ups of the largest {} flows, one in 100, does them for {:.1}% of packets; below, the \
             time of one virtual core with a simulated card that does\n",
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
