//! Stamps: the sequence number and time that a packet gets once.

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
    /// Describes the latest unbroken stretch of packets that ran back: the number before its first, and its last
    /// one's.
    behind: (u64, u64),
}

/// How far arrival times ran back, which stamps do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RanBack {
    /// Packets that arrived, by their own time, before a packet stamped earlier.
    pub packets: u64,
    /// The furthest that one of them lay behind, ns.
    pub furthest_ns: u64,
    /// The sequence number of the packet that one lay so far behind: the last one whose own time was not behind. If
    /// its time is wrong, so are the stamps of all that came after it.
    pub ahead_seq: u64,
}

impl Stamper {
    /// The stamp of the next packet, which arrived at `time_ns`.
    ///
    /// Captures and clocks step back now and then; functions may assume that stamps do not.
    pub fn stamp(&mut self, time_ns: u64) -> Stamp {
        if time_ns < self.next.time_ns {
            self.run_back(time_ns);
        }
        self.next.time_ns = self.next.time_ns.max(time_ns);
        let stamp = self.next;
        self.next.seq += 1;
        stamp
    }

    /// The first packet of all is never behind, so that there is one before.
    #[cold]
    fn run_back(&mut self, time_ns: u64) {
        let Stamp { seq, time_ns: ahead_ns } = self.next;
        if self.behind.1 + 1 != seq || self.behind.1 == 0 {
            self.behind.0 = seq - 1;
        }
        self.behind.1 = seq;
        self.ran_back.packets += 1;
        if ahead_ns - time_ns > self.ran_back.furthest_ns {
            self.ran_back.furthest_ns = ahead_ns - time_ns;
            self.ran_back.ahead_seq = self.behind.0;
        }
    }

    /// The next packet's number.
    pub fn next_seq(&self) -> u64 {
        self.next.seq
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

    /// One stamp far in the future: all that comes after it lies behind it.
    #[test]
    fn the_packet_is_known_that_others_lie_furthest_behind() {
        let mut stamper = Stamper::default();
        for time_ns in [10, 9, 20, 9_000, 30, 31, 8_990] {
            stamper.stamp(time_ns);
        }
        let RanBack { packets, furthest_ns, ahead_seq } = stamper.ran_back();
        assert_eq!((packets, furthest_ns, ahead_seq), (4, 9_000 - 30, 3));
        for time_ns in [50_000, 60_000, 40_000] {
            stamper.stamp(time_ns);
        }
        assert_eq!((stamper.ran_back().furthest_ns, stamper.ran_back().ahead_seq), (20_000, 8));
    }
}
