//! When the packets of a trial arrive: at once, evenly, or in the rhythm of a trace.

use std::sync::Arc;

use crate::Packets;

/// When packets arrive at the card, by their number in a trial, counted over all queues from 0.
#[derive(Clone, Debug)]
pub enum Pace {
    /// All at once.
    AtOnce,
    /// One after another at the same distance, in picoseconds.
    Even {
        /// More than 0.
        gap_ps: u64,
    },
    /// With the gaps of a trace, longer or shorter all alike.
    Shaped(Arc<Shape>),
}

/// The times of one round through a trace.
#[derive(Debug)]
pub struct Shape {
    offsets_ns: Vec<u64>,
    /// From one round's first packet to the next round's.
    round_ns: u64,
}

impl Pace {
    /// `pps` packets a second at the same distance.
    ///
    /// # Panics
    /// If `pps` is not more than 0.
    pub fn even(pps: f64) -> Pace {
        assert!(pps > 0.0, "{pps} packets a second");
        Pace::Even { gap_ps: ((1e12 / pps) as u64).max(1) }
    }

    /// `pps` packets a second on average, with the bursts and lulls of the trace. A trace whose packets all
    /// have one time has no shape and comes at the same distance.
    ///
    /// # Panics
    /// As [`Pace::even`].
    pub fn shaped(packets: &Packets, pps: f64) -> Pace {
        let (first, last) = (packets.time_ns(0), packets.time_ns(packets.len() - 1));
        let span_ns = (last - first) as f64;
        if span_ns == 0.0 {
            return Pace::even(pps);
        }
        assert!(pps > 0.0, "{pps} packets a second");
        let count = packets.len() as f64;
        // A round ends a mean gap after its last packet.
        let round_ns = count / pps * 1e9;
        let scale = round_ns * (1.0 - 1.0 / count) / span_ns;
        let offset = |index| ((packets.time_ns(index) - first) as f64 * scale) as u64;
        let offsets_ns = (0..packets.len()).map(offset).collect();
        Pace::Shaped(Arc::new(Shape { offsets_ns, round_ns: round_ns as u64 }))
    }

    /// When packet `number` arrives, ns from the first; never less than the one before.
    #[inline]
    pub fn arrival_ns(&self, number: u32) -> u64 {
        match self {
            Pace::AtOnce => 0,
            Pace::Even { gap_ps } => u64::from(number) * gap_ps / 1_000,
            Pace::Shaped(shape) => {
                let count = shape.offsets_ns.len() as u32;
                self.arrival_in_round_ns(number / count, (number % count) as usize, number)
            }
        }
    }

    /// When packet `number` arrives, ns from the first, for a caller that counts rounds through the trace, and so
    /// need not divide: the packet is number `index` of the trace.
    #[inline]
    pub fn arrival_in_round_ns(&self, round: u32, index: usize, number: u32) -> u64 {
        match self {
            Pace::AtOnce | Pace::Even { .. } => self.arrival_ns(number),
            Pace::Shaped(shape) => u64::from(round) * shape.round_ns + shape.offsets_ns[index],
        }
    }

    /// Whether a packet has arrived by `now_ns`: what to ask about many.
    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> impl Fn(u32) -> bool {
        // Dividing once is cheaper than multiplying for each.
        let due = match self {
            Pace::AtOnce | Pace::Shaped(_) => u64::MAX,
            Pace::Even { gap_ps } => ((now_ns + 1) * 1_000).div_ceil(*gap_ps),
        };
        move |number| match self {
            Pace::Shaped(_) => self.arrival_ns(number) <= now_ns,
            _ => u64::from(number) < due,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::LinkType;

    use super::*;
    use crate::Trace;
    use crate::capture::Record;

    fn packets(times_ns: &[u64]) -> Packets {
        let mut trace = Trace::default();
        for time_ns in times_ns {
            let record = Record { time_ns: *time_ns, wire_len: 60, link: LinkType::Ethernet, data: &[0; 60] };
            trace.push(&record);
        }
        let all: Vec<u32> = (0..times_ns.len() as u32).collect();
        Packets::new(&trace, &all, |_| 0)
    }

    #[test]
    fn paces_by_hand() {
        let even = Pace::even(3e6);
        assert_eq!([0, 1, 2, 3].map(|number| even.arrival_ns(number)), [0, 333, 666, 999]);
        // Four packets in 4 us: a round. Its three gaps are 0, 1/4 and 3/4 of what is left of the round.
        let shaped = Pace::shaped(&packets(&[500, 500, 600, 900]), 1e6);
        let times = [0, 1, 2, 3, 4, 7].map(|number| shaped.arrival_ns(number));
        assert_eq!(times, [0, 0, 750, 3_000, 4_000, 7_000]);
        assert!(matches!(Pace::shaped(&packets(&[5, 5]), 1e6), Pace::Even { gap_ps: 1_000_000 }));
        assert_eq!(Pace::AtOnce.arrival_ns(7), 0);
    }

    proptest! {
        #[test]
        fn due_is_what_has_arrived(pps in 1e3..2e9f64, number in 0u32..100_000, later in -3i64..4, seed in 0u64..50) {
            let shaped = Pace::shaped(&packets(&[seed, seed + 1, seed + 40, seed + 41]), pps);
            for pace in [Pace::even(pps), shaped, Pace::AtOnce] {
                let now_ns = pace.arrival_ns(number).saturating_add_signed(later);
                prop_assert_eq!(pace.is_due(now_ns)(number), pace.arrival_ns(number) <= now_ns);
                prop_assert!(pace.arrival_ns(number + 1) >= pace.arrival_ns(number));
            }
        }
    }
}
