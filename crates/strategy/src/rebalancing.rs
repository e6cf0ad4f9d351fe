//! How often entries go to other cores.

/// When entries go to other cores, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalancing {
    /// When.
    pub every: Every,
    /// From the decision until the card acts by it, ns: Dyssect (§IV-A) measured 0.2 to 359 ms.
    pub update_latency_ns: u64,
}

/// How often entries go to other cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Each period of so many ns, by the packets' stamps, as the loads of the period ask for.
    Period(u64),
    /// Never: entries move where the number of [`ActiveCores`](crate::ActiveCores) changes, and nowhere else.
    Never,
    /// Each so many packets, whatever the loads: entries drawn at random, each to a core drawn at random. To
    /// show that moving does no harm.
    Packets(u64),
}

impl Default for Rebalancing {
    /// Every 10 ms, at once.
    fn default() -> Rebalancing {
        Rebalancing { every: Every::Period(10_000_000), update_latency_ns: 0 }
    }
}

/// Tells, packet by packet, when to decide anew.
#[derive(Clone, Debug)]
pub struct Schedule {
    every: Every,
    packets: u64,
    /// So many times as many packets had come when it was time last.
    turns: u64,
    /// When the period ends; 0 before the first packet.
    ends_ns: u64,
}

impl Schedule {
    /// From the first packet on.
    pub fn new(every: Every) -> Schedule {
        Schedule { every, packets: 0, turns: 0, ends_ns: 0 }
    }

    /// Whether it is time to decide, ahead of a packet that comes now.
    #[inline]
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        match self.every {
            Every::Packets(packets) => {
                let turns = self.packets.checked_div(packets).unwrap_or(0);
                let before = std::mem::replace(&mut self.turns, turns);
                self.turns > before
            }
            Every::Never => false,
            Every::Period(_) if now_ns < self.ends_ns => false,
            Every::Period(period_ns) => {
                let is_first = self.ends_ns == 0;
                self.ends_ns = now_ns.saturating_add(period_ns).max(1);
                !is_first
            }
        }
    }

    /// Counts packets.
    pub fn count_all(&mut self, packets: u64) {
        self.packets += packets;
    }

    /// Counts a packet.
    #[inline]
    pub fn count(&mut self) {
        self.packets += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_with_the_first_packet_and_ends_with_the_first_that_is_late() {
        let mut schedule = Schedule::new(Every::Period(100));
        let due = [7, 106, 107, 108, 206, 300, 399, 400].map(|now_ns| (now_ns, schedule.is_due(now_ns)));
        let times: Vec<u64> = due.iter().filter(|(_, is_due)| *is_due).map(|(now_ns, _)| *now_ns).collect();
        assert_eq!(times, [107, 300, 400]);
        let mut from_zero = Schedule::new(Every::Period(0));
        assert_eq!(
            [0, 1].map(|now_ns| from_zero.is_due(now_ns)),
            [false, true],
            "a first packet at 0 is the first"
        );
        let mut endless = Schedule::new(Every::Period(u64::MAX));
        assert_eq!([5, u64::MAX - 1].map(|now_ns| endless.is_due(now_ns)), [false, false]);
    }

    #[test]
    fn packets_are_counted_one_by_one_and_many_at_once() {
        let mut schedule = Schedule::new(Every::Packets(10));
        let mut due_behind = Vec::new();
        for packets in 0..31 {
            if schedule.is_due(0) {
                due_behind.push(packets);
            }
            schedule.count();
        }
        assert_eq!(due_behind, [10, 20, 30]);
        schedule.count_all(8);
        assert!(!schedule.is_due(0), "39");
        schedule.count_all(21);
        assert_eq!([0, 0].map(|now_ns| schedule.is_due(now_ns)), [true, false], "60, once");
        for never in [Every::Never, Every::Packets(0)] {
            let mut never = Schedule::new(never);
            never.count_all(1_000);
            assert!(!never.is_due(0) && !never.is_due(u64::MAX));
        }
    }
}
