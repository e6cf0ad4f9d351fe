//! Traces with a stated spacing of the packets of a flow: RAPID §7.4 to §7.7, Tables 6 and 7.

use crate::port::Arrival;
use crate::programs::{Synthetic, SyntheticPhv};

/// How far behind the one before it in its flow a packet comes: for some distances in cycles, the share of the packets
/// that come so far behind or less.
///
/// That a cycle takes 64 bytes shows in the tables themselves: 36 cycles at 384 bytes and 54 at 512 have one share,
/// 26.83%, and both are 6 packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spacing {
    /// Bytes of every packet.
    pub bytes: u32,
    /// Distance in cycles, share in hundredths of a percent; both ascending.
    pub points: [(u32, u32); 3],
}

/// Bytes that a cycle takes.
const BYTES_PER_CYCLE: u32 = 64;

impl Spacing {
    /// Trace 1: 256 bytes.
    pub const TRACE_1: Spacing = Spacing { bytes: 256, points: [(36, 3_142), (54, 3_559), (72, 3_933)] };
    /// Trace 2: 384 bytes.
    pub const TRACE_2: Spacing = Spacing { bytes: 384, points: [(36, 2_683), (54, 3_142), (72, 3_467)] };
    /// Trace 3: 512 bytes.
    pub const TRACE_3: Spacing = Spacing { bytes: 512, points: [(36, 2_165), (54, 2_683), (72, 3_142)] };
    /// Trace 4: 384 bytes.
    pub const TRACE_4: Spacing = Spacing { bytes: 384, points: [(36, 2_457), (54, 2_683), (72, 3_142)] };
    /// Trace 5: 384 bytes.
    pub const TRACE_5: Spacing = Spacing { bytes: 384, points: [(36, 2_165), (54, 2_457), (72, 2_862)] };
    /// Trace 6: 384 bytes.
    pub const TRACE_6: Spacing = Spacing { bytes: 384, points: [(36, 1_774), (54, 2_165), (72, 2_683)] };

    /// This spacing in cycles of packets of another length: of 64 bytes, so that there is one in every cycle.
    pub fn with_bytes(self, bytes: u32) -> Spacing {
        Spacing { bytes, ..self }
    }

    /// Makes a trace of [`Synthetic`] packets, of which a share of `update_percent` update their flow's state. Within
    /// an interval of two stated distances all are equally likely; a packet behind the last one begins a flow.
    pub fn arrivals(
        &self,
        packets: u64,
        update_percent: u64,
        seed: u64,
    ) -> impl Iterator<Item = Arrival<SyntheticPhv>> + Clone {
        let bytes = self.bytes;
        let points = self.in_packets();
        let window = points[2].0 as usize;
        // The flows of the last packets; each is 0 once a later packet has followed.
        let mut latest = vec![0_u64; window + 1];
        (0..packets).map(move |number| {
            let draw = |what: u64| nf::hash_bytes(&[number, what].map(u64::to_le_bytes).concat(), seed);
            let distance = distance(&points, draw(0), draw(1));
            let at = |distance: usize| (number as usize + window + 1 - distance) % (window + 1);
            // The packet drawn may have a follower: then one that has none, of the same interval if there is one.
            let order = distance.into_iter().flat_map(|(d, near, far)| {
                (d..=far).chain((near..d).rev()).chain(far + 1..=window).chain((1..near).rev())
            });
            let followed = order.into_iter().find(|&d| latest[at(d)] != 0);
            let flow = match followed {
                Some(d) => std::mem::take(&mut latest[at(d)]),
                None => number + 1,
            };
            latest[at(0)] = flow;
            let phv = Synthetic::packet(flow, draw(2) % 100 < update_percent, number + 1);
            Arrival { phv, bytes, time_ns: 0, port: 0 }
        })
    }

    /// Distances in packets.
    fn in_packets(&self) -> [(u32, u32); 3] {
        self.points.map(|(cycles, share)| (cycles * BYTES_PER_CYCLE / self.bytes, share))
    }
}

/// A distance by the stated shares, and the nearest and farthest of its interval; none behind all of them.
fn distance(points: &[(u32, u32)], share: u64, within: u64) -> Option<(usize, usize, usize)> {
    let share = (share % 10_000) as u32;
    let index = points.iter().position(|(_, upto)| share < *upto)?;
    let near = if index == 0 { 1 } else { points[index - 1].0 as usize + 1 };
    let far = points[index].0 as usize;
    Some((near + within as usize % (far + 1 - near), near, far))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The generated traces have the shares that the tables state, within half a percent.
    #[test]
    fn traces_have_the_stated_spacing() {
        let traces = [Spacing::TRACE_2, Spacing::TRACE_3, Spacing::TRACE_6, Spacing::TRACE_1.with_bytes(64)];
        for trace in traces {
            let mut last = BTreeMap::new();
            let mut distances = Vec::new();
            for (number, arrival) in trace.arrivals(100_000, 30, 1).enumerate() {
                if let Some(before) = last.insert(arrival.phv[0], number) {
                    distances.push(number - before);
                }
            }
            for (upto, share) in trace.in_packets() {
                let within = distances.iter().filter(|distance| **distance <= upto as usize).count();
                let got = within as f64 / 100_000.0 * 10_000.0;
                assert!((got - f64::from(share)).abs() < 50.0, "{upto}: {got}, not {share}");
            }
        }
    }
}
