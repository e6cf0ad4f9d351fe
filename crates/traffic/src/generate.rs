//! Packets by recipe: the same seed gives the same bytes.

use etherparse::PacketBuilder;
use nf::hash_bytes;

/// Bytes of Ethernet, IPv4 and UDP headers: the shortest frame.
pub const MIN_FRAME_BYTES: usize = 14 + 20 + 8;

/// The longest frame: the longest IPv4 packet behind an Ethernet header.
pub const MAX_FRAME_BYTES: usize = 14 + 65_535;

/// Which flow the next packet is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// Each as likely as any other.
    Uniform,
    /// Flow of rank *r* with a probability in proportion to *r* to the power of minus this.
    Zipf(f64),
}

/// A recipe for UDP packets over IPv4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Flows to draw from, at least 1. How many appear depends on chance.
    pub flows: usize,
    /// How they are drawn.
    pub skew: Skew,
    /// Packets to draw.
    pub packets: usize,
    /// Bytes of each frame, [`MIN_FRAME_BYTES`] to [`MAX_FRAME_BYTES`], without the frame check sequence.
    pub frame_bytes: usize,
    /// Time from one packet to the next, ns.
    pub gap_ns: u64,
    /// What the draws begin with.
    pub seed: u64,
}

impl Recipe {
    /// Makes the packets and hands each to `packet` with its time, from 0. O(flows) memory, and
    /// O(log flows) per packet for Zipf.
    pub fn generate(&self, mut packet: impl FnMut(u64, &[u8])) {
        let weights = self.cumulative_weights();
        let payload = vec![0; self.frame_bytes.max(MIN_FRAME_BYTES) - MIN_FRAME_BYTES];
        let mut frame = Vec::with_capacity(self.frame_bytes);
        for number in 0..self.packets as u64 {
            let draw = hash_bytes(&number.to_le_bytes(), self.seed);
            frame.clear();
            write_frame(&mut frame, self.flow(draw, &weights), &payload);
            packet(number * self.gap_ns, &frame);
        }
    }

    /// The flow's rank, from 0.
    fn flow(&self, draw: u64, cumulative: &[f64]) -> u64 {
        let Some(total) = cumulative.last() else { return draw % self.flows as u64 };
        // 53 bits of the draw, as a number from 0 to 1.
        let point = (draw >> 11) as f64 / (1u64 << 53) as f64 * total;
        let rank = cumulative.partition_point(|weight| *weight <= point);
        rank.min(self.flows - 1) as u64
    }

    fn cumulative_weights(&self) -> Vec<f64> {
        let Skew::Zipf(exponent) = self.skew else { return Vec::new() };
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
        let add = |sum: &mut f64, rank| {
            *sum += weight(rank);
            Some(*sum)
        };
        (0..self.flows).scan(0.0, add).collect()
    }
}

/// The frame of a flow: its addresses and ports follow from its rank, each once, in no order that hash
/// tables would like.
fn write_frame(frame: &mut Vec<u8>, flow: u64, payload: &[u8]) {
    // A bijection of 32 bits: no two flows share it.
    let id = (flow as u32).wrapping_mul(0x9e37_79b1);
    let [a, b, c, d] = id.to_be_bytes();
    let noise = hash_bytes(&flow.to_le_bytes(), 0).to_le_bytes();
    let src = [10, a, b, c];
    let dst = [198, 18 + (noise[0] & 1), noise[1], noise[2]];
    let src_port = 1024 + (u16::from(d) << 7 | u16::from(noise[3] & 0x7f));
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src, dst, 64)
        .udp(src_port, u16::from_le_bytes([noise[4], noise[5]]) | 1);
    builder.write(frame, payload).expect("writing to memory, lengths within bounds");
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use nf::{FiveTuple, FlowKey};
    use wire::LinkType;

    fn recipe(flows: usize, skew: Skew) -> Recipe {
        Recipe { flows, skew, packets: 20_000, frame_bytes: 60, gap_ns: 100, seed: 1 }
    }

    fn counts(recipe: &Recipe) -> HashMap<FiveTuple, u64> {
        let mut counts = HashMap::new();
        recipe.generate(|_, frame| {
            let headers = wire::parse(LinkType::Ethernet, frame, frame.len() as u32);
            assert!(headers.is_well_formed());
            assert_eq!(frame.len(), recipe.frame_bytes);
            *counts.entry(FiveTuple::of(&headers)).or_default() += 1;
        });
        counts
    }

    #[test]
    fn uniform_flows_are_alike_and_zipf_flows_are_not() {
        let uniform = counts(&recipe(100, Skew::Uniform));
        assert_eq!(uniform.len(), 100);
        assert!(uniform.values().all(|count| (120..280).contains(count)), "200 expected: {uniform:?}");

        let zipf = counts(&recipe(1000, Skew::Zipf(1.0)));
        let mut sizes: Vec<u64> = zipf.values().copied().collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        // The harmonic number of 1,000 is 7.49: the first flow has 13.4% of packets, the second half of that.
        assert!((2_400..2_950).contains(&sizes[0]), "{}", sizes[0]);
        assert!((1_150..1_550).contains(&sizes[1]), "{}", sizes[1]);
    }

    #[test]
    fn a_seed_gives_the_same_bytes_and_another_seed_others() {
        let bytes = |seed| {
            let mut all = Vec::new();
            Recipe { packets: 100, seed, ..recipe(50, Skew::Zipf(1.2)) }.generate(|time_ns, frame| {
                all.push((time_ns, frame.to_vec()));
            });
            all
        };
        assert_eq!(bytes(7), bytes(7));
        assert_ne!(bytes(7), bytes(8));
        assert_eq!(bytes(7)[99].0, 9_900);
    }

    #[test]
    fn flows_are_all_different() {
        let mut seen = HashSet::new();
        for flow in 0..100_000 {
            let mut frame = Vec::new();
            write_frame(&mut frame, flow, &[]);
            let headers = wire::parse(LinkType::Ethernet, &frame, frame.len() as u32);
            assert!(seen.insert(FiveTuple::of(&headers)), "flow {flow}");
        }
    }
}
