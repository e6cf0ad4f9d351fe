use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A packet's place in the order of packets: all that a step may know of time.
///
/// Given once, where packets enter, so that every core that steps this packet, now or in replay,
/// computes with the same numbers (SCR §3.4, "programs that depend on timestamps").
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Stamp {
    /// Sequence number, from 0, without gaps.
    pub seq: u64,
    /// Nanoseconds since the Unix epoch; never less than the previous packet's.
    pub time_ns: u64,
}

/// Gives out stamps: counts packets, and keeps time from running backwards.
#[derive(Clone, Debug, Default)]
pub struct Stamper {
    next: Stamp,
    ran_back: RanBack,
}

/// How far arrival times ran back, which stamps do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RanBack {
    /// Packets that arrived, by their own time, before a packet stamped earlier.
    pub packets: u64,
    /// The furthest that one of them lay behind, ns.
    pub furthest_ns: u64,
}

impl Stamper {
    /// The stamp of the next packet, which arrived at `time_ns`.
    ///
    /// Captures and clocks step back now and then; functions may assume that stamps do not.
    pub fn stamp(&mut self, time_ns: u64) -> Stamp {
        if time_ns < self.next.time_ns {
            self.ran_back.packets += 1;
            self.ran_back.furthest_ns = self.ran_back.furthest_ns.max(self.next.time_ns - time_ns);
        }
        self.next.time_ns = self.next.time_ns.max(time_ns);
        let stamp = self.next;
        self.next.seq += 1;
        stamp
    }

    /// How far arrival times ran back so far.
    pub fn ran_back(&self) -> RanBack {
        self.ran_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_has_no_gaps_and_time_never_runs_back() {
        let mut stamper = Stamper::default();
        let stamps = [50, 40, 60].map(|time_ns| stamper.stamp(time_ns));
        assert_eq!(stamps, [(0, 50), (1, 50), (2, 60)].map(|(seq, time_ns)| Stamp { seq, time_ns }));
    }
}
