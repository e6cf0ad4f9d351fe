//! Packets whose flow is drawn for each train, in UDP: flows without beginning or end.

use super::draw::{Dice, Stream};
use super::share::Share;

/// How the flow of a packet is drawn.
pub(super) enum Pick {
    /// Each flow as likely as any other.
    Evenly,
    /// The flow of rank r in proportion to r to the power of minus the exponent: the sums of these weights.
    Weighted(Vec<f64>),
    /// One flow has this share, the others the rest evenly.
    OneAndRest(Share),
}

/// Draws flows.
pub(super) struct FlowDraw {
    flows: u64,
    pick: Pick,
    dice: Dice,
    rest: Dice,
}

impl FlowDraw {
    pub fn new(flows: u64, pick: Pick, seed: u64) -> FlowDraw {
        FlowDraw { flows, pick, dice: Dice::new(seed, Stream::Flow), rest: Dice::new(seed, Stream::Turn) }
    }

    /// The number of the flow of which packet `packet` begins a train.
    pub fn flow(&mut self, packet: u64) -> u64 {
        let draw = self.dice.at(packet);
        match &self.pick {
            Pick::Evenly => draw % self.flows,
            Pick::Weighted(cumulative) => {
                // 53 bits of the draw, as a number from 0 to 1.
                let total = cumulative.last().copied().unwrap_or(0.0);
                let point = (draw >> 11) as f64 / (1u64 << 53) as f64 * total;
                (cumulative.partition_point(|weight| *weight <= point) as u64).min(self.flows - 1)
            }
            Pick::OneAndRest(share) => {
                let is_elephant = self.rest.below(1_000_000) < u64::from(share.millionths());
                if is_elephant { 0 } else { 1 + draw % (self.flows - 1) }
            }
        }
    }
}

/// The sums of Zipf's weights. A power in software, and nothing but IEEE's basic operations beside: the sums are
/// the same on every machine.
pub(super) fn zipf_weights(flows: u64, exponent: f64) -> Vec<f64> {
    let weight = |rank: u64| libm::pow(rank as f64 + 1.0, -exponent);
    let add = |sum: &mut f64, rank| {
        *sum += weight(rank);
        Some(*sum)
    };
    (0..flows).scan(0.0, add).collect()
}
