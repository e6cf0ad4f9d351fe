//! Time stamps that leap ahead of all others.
//!
//! A stamp never runs back: so one damaged stamp, years ahead, would stop the time of all packets behind it. A packet
//! whose stamp lies more than [`LEAP_NS`] ahead of the packets before it is therefore compared with those behind it,
//! [`WITNESSES`] at most. If most of these lie more than that before it, its stamp is *held*: the packet counts as of the
//! packet before it, the first packet as of the next. A pause in which nothing was captured is none: what comes after it is as late.

/// Less is no leap: captures from several queues step back by less.
const LEAP_NS: u64 = 1_000_000_000;

/// How many packets behind one that leaps are asked, at most.
const WITNESSES: usize = 3;

/// Stamps that were held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldStamps {
    /// Packets whose stamp was held.
    pub packets: u64,
    /// The furthest that one of them lay ahead, ns.
    pub furthest_ns: u64,
    /// The number of the packet that lay so far ahead, from 0, among those that were read.
    pub furthest: u64,
}

/// What a reader knows of its packets' times.
#[derive(Default)]
pub(super) struct Leaps {
    /// The latest time that was believed.
    latest_ns: Option<u64>,
    /// Packets so far.
    packets: u64,
    /// Whether all times are believed.
    pub believes_all: bool,
    pub held: HeldStamps,
}

impl Leaps {
    /// Whether packets behind one of this time have to be asked.
    #[inline]
    pub fn leaps(&self, time_ns: u64) -> bool {
        // Of the first packet nothing is known.
        let leaps = |latest_ns| time_ns.saturating_sub(latest_ns) > LEAP_NS;
        !self.believes_all && self.latest_ns.is_none_or(leaps)
    }

    /// A packet's time is believed.
    #[inline]
    pub fn believe(&mut self, time_ns: u64) -> u64 {
        self.latest_ns = Some(self.latest_ns.unwrap_or(0).max(time_ns));
        self.packets += 1;
        time_ns
    }

    /// The time of a packet that leaps to `time_ns`, from the times of those behind it, which are asked as long as they
    /// could make a difference.
    pub fn judge(&mut self, time_ns: u64, mut behind: impl FnMut(usize) -> Option<u64>) -> u64 {
        let (mut against, mut with, mut other_ns) = (0, 0, None);
        for witness in 0..WITNESSES {
            let Some(witness_ns) = behind(witness) else { break };
            match time_ns.saturating_sub(witness_ns) > LEAP_NS {
                true => {
                    against += 1;
                    other_ns.get_or_insert(witness_ns);
                }
                false => with += 1,
            }
            if against.max(with) > WITNESSES / 2 {
                break;
            }
        }
        match (against > with, self.latest_ns.or(other_ns)) {
            (true, Some(held_ns)) => {
                if time_ns - held_ns > self.held.furthest_ns {
                    (self.held.furthest_ns, self.held.furthest) = (time_ns - held_ns, self.packets);
                }
                self.held.packets += 1;
                self.packets += 1;
                held_ns
            }
            _ => self.believe(time_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times that packets of these times get, in seconds.
    fn told(times: &[u64]) -> (Vec<u64>, HeldStamps) {
        const S: u64 = 1_000_000_000;
        let mut leaps = Leaps::default();
        let told = times.iter().enumerate().map(|(at, time)| {
            let time_ns = time * S;
            let told = match leaps.leaps(time_ns) {
                true => leaps.judge(time_ns, |witness| Some(times.get(at + 1 + witness)? * S)),
                false => leaps.believe(time_ns),
            };
            told / S
        });
        (told.collect(), leaps.held)
    }

    #[test]
    fn one_stamp_far_ahead_is_held_wherever_it_is() {
        for at in 0..9 {
            let mut times: Vec<u64> = (100..110).collect();
            times[at] = 1_000_000;
            let (told, held) = told(&times);
            // The first packet has none before it.
            let expected = if at == 0 { 101 } else { 99 + at as u64 };
            assert_eq!(told[at], expected, "{at}");
            times[at] = expected;
            assert_eq!((told, held.packets, held.furthest), (times, 1, at as u64));
        }
    }

    #[test]
    fn two_in_a_row_are_held_and_so_are_two_that_differ() {
        assert_eq!(told(&[1, 2, 900, 901, 3, 4, 5]).0, [1, 2, 2, 2, 3, 4, 5]);
        assert_eq!(told(&[1, 2, 90_000, 900, 3, 4, 5]).0, [1, 2, 2, 2, 3, 4, 5]);
    }

    #[test]
    fn a_pause_is_no_leap_nor_is_what_nobody_contradicts() {
        for times in [&[1, 2, 900, 901, 902][..], &[1, 2, 900], &[1, 900, 1_800, 2_700], &[900], &[]] {
            assert_eq!(told(times), (times.to_vec(), HeldStamps::default()));
        }
    }

    /// Stamps that run back are none of its business: see `wire::Stamper`.
    #[test]
    fn a_stamp_that_runs_back_stays_as_it_is() {
        let times = [100, 101, 5, 102, 103];
        assert_eq!(told(&times), (times.to_vec(), HeldStamps::default()));
    }
}
