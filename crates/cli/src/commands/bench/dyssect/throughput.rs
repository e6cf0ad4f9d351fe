//! What several cores take of what is offered, in the time that the chain takes on virtual cores: Fig. 4a. And what a card that looks flows up
//! saves one core: Fig. 6.

use std::sync::atomic::AtomicBool;

use engine::strategies::{DYSSECT, RSS, RSSPP, Strategy};
use engine::{Chain, Plan};
use io::Trace;
use measure::{Load, Once, OnceError, once, packets, spread_note};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;

/// Receive descriptors of each queue.
const DESCRIPTORS: usize = 1024;

/// What is offered, in shares of as many times the rate of one core as there are cores.
const LOADS: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// Bits of a packet: the paper's mean.
const PACKET_BITS: f64 = 8.0 * 1_001.0;

/// The share of a trial that counts for nothing: flows are new, and nothing was decided yet.
const WARM_UP: f64 = 0.25;

/// Losses of one rate that differ by more than this are told.
const LOSS_SPREAD: f64 = 0.01;

/// At one rate, under one strategy. Where there are several trials, figures are those of the trial whose loss is the median.
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
    /// The share of packets that the card dropped, in each trial.
    losses: Vec<f64>,
    /// By core, that share of all packets: those dropped at its queue.
    loss_by_core: Vec<f64>,
    /// The time that cores spent on packets, in times of the trial.
    cores_busy: f64,
    /// Entries or shards that went from core to core.
    moves: u64,
    /// The share of the packets taken that a function dropped.
    refused: f64,
    /// Why these figures are not to be relied on.
    notes: Vec<String>,
}

/// One core with a card that looks flows up.
#[derive(Serialize, JsonSchema)]
pub struct LookUps {
    /// Flows that the card looks up.
    card_flows: usize,
    /// Packets a second, in millions.
    pub mpps: f64,
}

/// How long packets are offered, and how often.
#[derive(Clone, Copy)]
pub struct Trials {
    /// What one core takes, packets a second.
    pub one_pps: f64,
    /// How long each trial offers packets.
    pub seconds: f64,
    /// How many there are at each rate.
    pub count: usize,
}

/// All rates under each strategy. Strategies take turns, so that what else a machine does meets all of them.
pub fn throughputs(
    chain: &Chain,
    cores: usize,
    trace: &Trace,
    Trials { one_pps, seconds, count }: Trials,
    stop: &AtomicBool,
) -> Result<Vec<Throughput>, Failure> {
    let mut all = Vec::new();
    for load in LOADS {
        let pps = load * cores as f64 * one_pps;
        let packets = (pps * seconds).min(f64::from(u32::MAX)) as u32;
        let warm_up = (f64::from(packets) * WARM_UP) as u32;
        let load = Load { pps: Some(pps), count: packets, warm_up };
        let mut trials = [RSS, RSSPP, DYSSECT].map(|strategy| (strategy, Vec::new()));
        for _ in 0..count {
            for (strategy, trials) in &mut trials {
                trials.push(trial(chain, *strategy, cores, trace, load, stop)?);
            }
        }
        all.extend(trials.into_iter().map(|(strategy, trials)| Throughput::of(strategy, load, trials)));
    }
    Ok(all)
}

/// Flows are new at first under each strategy, and the card is the same.
fn trial(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    trace: &Trace,
    load: Load,
    stop: &AtomicBool,
) -> Result<Once, Failure> {
    let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
    plan.card_flows = 0;
    let offered = packets(chain, &plan, trace).map_err(Failure::usage)?;
    once(chain, &plan, offered, load, DESCRIPTORS, stop).map_err(failure)
}

fn failure(error: OnceError) -> Failure {
    match error {
        OnceError::Bench(error) => Failure::usage(error),
        OnceError::Trial(error) => Failure::of_trial(error),
    }
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
    let load = Load { pps: None, count: (3 * trace.len()) as u32, warm_up: 0 };
    [0, plan.card_flows]
        .map(|card_flows| {
            plan.card_flows = card_flows;
            let mut mpps = 0.0f64;
            for _ in 0..rounds {
                let Once { received, elapsed_ns, .. } =
                    once(chain, &plan, offered.clone(), load, DESCRIPTORS, stop).map_err(failure)?;
                mpps = mpps.max(received as f64 * 1e3 / elapsed_ns.max(1) as f64);
            }
            Ok(LookUps { card_flows, mpps })
        })
        .into_iter()
        .collect()
}

impl Throughput {
    fn of(strategy: &'static dyn Strategy, load: Load, mut trials: Vec<Once>) -> Throughput {
        trials.sort_by(|one, other| one.loss().total_cmp(&other.loss()));
        let losses: Vec<f64> = trials.iter().map(Once::loss).collect();
        let median = &trials[trials.len() / 2];
        let pps = load.pps.unwrap_or_default();
        let (gbps, loss, offered) = (pps * PACKET_BITS / 1e9, median.loss(), median.offered.max(1) as f64);
        let counted_ns = offered / pps * 1e9;
        let mut notes: Vec<String> = trials.iter().flat_map(Once::notes).collect();
        notes.dedup();
        let spread = losses[losses.len() - 1] - losses[0];
        notes.extend(spread_note("trials lost", &losses, "of all packets").filter(|_| spread > LOSS_SPREAD));
        Throughput {
            offered_gbps: gbps,
            strategy: strategy.name().to_owned(),
            gbps: gbps * (1.0 - loss),
            loss,
            losses,
            loss_by_core: median.cores.iter().map(|core| core.dropped_late as f64 / offered).collect(),
            cores_busy: median.cores.iter().map(|core| core.busy_ns).sum::<u64>() as f64 / counted_ns,
            moves: median.moves,
            refused: median.refused as f64 / median.received.max(1) as f64,
            notes,
        }
    }

    /// A row of the figure.
    pub fn row(&self) -> Vec<String> {
        let Throughput { offered_gbps, strategy, gbps, loss, losses, cores_busy, moves, refused, .. } = self;
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let range = format!("{} to {}", percent(losses[0]), percent(losses[losses.len() - 1]));
        vec![
            format!("{offered_gbps:.1}"),
            strategy.clone(),
            format!("{gbps:.1}"),
            percent(*loss),
            range,
            format!("{cores_busy:.1}"),
            moves.to_string(),
            percent(*refused),
        ]
    }

    /// Why its figures are not to be relied on: a sentence for each reason.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let Throughput { offered_gbps, strategy, notes, .. } = self;
        notes.iter().map(move |note| format!("{strategy} at {offered_gbps:.1} Gbit/s: {note}"))
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
