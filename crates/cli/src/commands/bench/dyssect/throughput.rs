//! What several cores take of what is offered, in the time that the chain takes on virtual cores: Fig. 4a. And what a card that looks flows up
//! saves one core: Fig. 6.

use std::sync::atomic::AtomicBool;

use engine::strategies::{DYSSECT, RSS, RSSPP, Strategy};
use engine::{Chain, Plan};
use io::Trace;
use measure::{Bench, Clock, Once, Settings, once, packets};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;

/// Receive descriptors of each queue.
const DESCRIPTORS: usize = 1024;

/// What is offered, in shares of as many times the rate of one core as there are cores.
const LOADS: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// Bits of a packet: the paper's mean.
const PACKET_BITS: f64 = 8.0 * 1_001.0;

/// At one rate, under one strategy.
#[derive(Serialize, JsonSchema)]
pub struct Throughput {
    /// What is offered, Gbit/s in packets of 1001 bytes.
    offered_gbps: f64,
    /// The strategy.
    strategy: String,
    /// What was taken of that, Gbit/s.
    gbps: f64,
    /// The share of packets that the card dropped.
    loss: f64,
    /// The time that cores spent on packets, in times of the trial.
    cores_busy: f64,
}

/// One core with a card that looks flows up.
#[derive(Serialize, JsonSchema)]
pub struct LookUps {
    /// Flows that the card looks up.
    card_flows: usize,
    /// Packets a second, in millions.
    pub mpps: f64,
}

/// All rates under each strategy, each for so many seconds. `one_pps` is what one core takes.
pub fn throughputs(
    chain: &Chain,
    cores: usize,
    trace: &Trace,
    (one_pps, seconds): (f64, f64),
    stop: &AtomicBool,
) -> Result<Vec<Throughput>, Failure> {
    let mut all = Vec::new();
    for load in LOADS {
        let pps = load * cores as f64 * one_pps;
        for strategy in [RSS, RSSPP, DYSSECT] {
            let count = (pps * seconds).min(f64::from(u32::MAX)) as u32;
            all.push(throughput(chain, strategy, cores, trace, (pps, count), stop)?);
        }
    }
    Ok(all)
}

/// Flows are new at first under each of them.
fn throughput(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    trace: &Trace,
    (pps, count): (f64, u32),
    stop: &AtomicBool,
) -> Result<Throughput, Failure> {
    let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
    plan.card_flows = 0;
    let offered = packets(chain, &plan, trace).map_err(Failure::usage)?;
    let (loss, busy_ns) = if plan.shards.is_some() {
        let Once { offered, dropped, busy_ns, .. } =
            once(chain, &plan, offered, (Some(pps), count), DESCRIPTORS, stop).map_err(Failure::usage)?;
        (dropped as f64 / offered.max(1) as f64, busy_ns.iter().sum::<u64>())
    } else {
        let (clock, descriptors) = (Clock::Virtual, DESCRIPTORS);
        let settings = Settings { clock, descriptors, is_shaped: false, dispatch_ns: 0 };
        let mut bench = Bench::new(chain, &plan, offered, settings).map_err(Failure::usage)?;
        let trial = bench.trial(pps, count, false, stop).map_err(Failure::usage)?;
        let loss = trial.dropped() as f64 / trial.offered.max(1) as f64;
        (loss, trial.cores.iter().map(|core| core.busy_ns).sum())
    };
    let (gbps, lasts_ns) = (pps * PACKET_BITS / 1e9, f64::from(count) / pps * 1e9);
    Ok(Throughput {
        offered_gbps: gbps,
        strategy: strategy.name().to_owned(),
        gbps: gbps * (1.0 - loss),
        loss,
        cores_busy: busy_ns as f64 / lasts_ns,
    })
}

/// One core, all packets being there at once, without a card that looks flows up and with one; the fastest of so many rounds.
pub fn look_ups(
    chain: &Chain,
    trace: &Trace,
    rounds: usize,
    stop: &AtomicBool,
) -> Result<Vec<LookUps>, Failure> {
    let mut plan = Plan::new(chain, DYSSECT, 1).map_err(Failure::usage)?;
    let offered = packets(chain, &plan, trace).map_err(Failure::usage)?;
    // Of the first pass flows are new.
    let count = (3 * trace.len()) as u32;
    [0, plan.card_flows]
        .map(|card_flows| {
            plan.card_flows = card_flows;
            let mut mpps = 0.0f64;
            for _ in 0..rounds {
                let Once { received, elapsed_ns, .. } =
                    once(chain, &plan, offered.clone(), (None, count), DESCRIPTORS, stop)
                        .map_err(Failure::usage)?;
                mpps = mpps.max(received as f64 * 1e3 / elapsed_ns.max(1) as f64);
            }
            Ok(LookUps { card_flows, mpps })
        })
        .into_iter()
        .collect()
}

impl Throughput {
    /// A row of the figure.
    pub fn row(&self) -> Vec<String> {
        let Throughput { offered_gbps, strategy, gbps, loss, cores_busy } = self;
        let loss = format!("{:.2}%", loss * 100.0);
        vec![
            format!("{offered_gbps:.1}"),
            strategy.clone(),
            format!("{gbps:.1}"),
            loss,
            format!("{cores_busy:.1}"),
        ]
    }
}

impl LookUps {
    /// A row of the figure; `without` is the rate without a card.
    pub fn row(&self, without: f64) -> Vec<String> {
        let LookUps { card_flows, mpps } = self;
        let change = format!("{:+.1}%", (mpps / without.max(f64::MIN_POSITIVE) - 1.0) * 100.0);
        vec![card_flows.to_string(), format!("{mpps:.2}"), change]
    }
}
