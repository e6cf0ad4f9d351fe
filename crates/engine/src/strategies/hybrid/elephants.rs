//! Which values of the hash are too much for a core, and which have cooled.
//!
//! There are 65,536 values, and each has a counter: memory is bounded, a packet costs one access, and counts are exact. A sketch
//! for as many keys (Space-Saving, Metwally et al., ICDT'05) would take more time for each packet of a small flow, and err.
//!
//! A period's packets are counted by value and by core. Then, as long as the core with the most to do has much more than the
//! mean, its largest value is promoted, which takes the value's packets from that core and gives every core its share.

/// How many values of the hash can be promoted at a time. An entry below this number is such a place; the entry of a packet that
/// is not promoted is at or above it.
pub(super) const SLOTS: u16 = 64;

/// A core has too much to do from 9/8 of the mean on.
const TOO_MUCH: (u64, u64) = (9, 8);

/// What is promoted has at least 1/4 of the mean of a core's packets.
const HOT: u64 = 4;

/// What has fewer than 1/16 of that mean has cooled.
const COOL: u64 = 16;

/// Periods for which it has to be cool until it is demoted.
const COOL_PERIODS: u8 = 3;

/// Values that are looked at: each has a part of a core's load that is too large for more.
const CANDIDATES: usize = 512;

/// Nobody's slot.
const NONE: u8 = u8::MAX;

const _: () = assert!(SLOTS <= NONE as u16);

/// What is known of a value of the hash.
#[derive(Clone, Copy)]
struct Value {
    /// Packets in the period in which one came last.
    packets: u32,
    /// The lowest bits of that period's number.
    period: u8,
    /// Where it is promoted.
    slot: u8,
    /// The core that has its flows where it is not.
    owner: u16,
}

/// A value that is promoted.
#[derive(Clone, Copy)]
struct Elephant {
    entry: u16,
    /// Periods for which it has been cool.
    cool: u8,
}

/// A change that is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Promote { entry: u16, slot: u16 },
    Demote { entry: u16, slot: u16 },
}

/// Counts packets, and knows who is promoted.
pub(super) struct Elephants {
    values: Box<[Value]>,
    slots: [Option<Elephant>; SLOTS as usize],
    period: u8,
    /// Packets of this period.
    packets: u64,
    /// By core, packets of values that are not promoted.
    loads: Box<[u64]>,
    /// From so many packets in a period on a value is looked at.
    notable: u32,
    /// Values that have so many.
    candidates: Vec<u16>,
}

impl Elephants {
    /// `owners[entry]` has the flows of an entry.
    pub(super) fn new(owners: &[u16], cores: usize) -> Elephants {
        let value = |owner: &u16| Value { packets: 0, period: 0, slot: NONE, owner: *owner };
        Elephants {
            values: owners.iter().map(value).collect(),
            slots: [None; SLOTS as usize],
            period: 0,
            packets: 0,
            loads: vec![0; cores].into(),
            notable: 1,
            candidates: Vec::with_capacity(CANDIDATES),
        }
    }

    /// Counts a packet.
    #[inline]
    pub(super) fn count(&mut self, entry: u16) {
        let value = &mut self.values[usize::from(entry)];
        if value.period != self.period {
            (value.period, value.packets) = (self.period, 0);
        }
        value.packets += 1;
        self.packets += 1;
        if value.slot == NONE {
            self.loads[usize::from(value.owner)] += 1;
            if value.packets == self.notable && self.candidates.len() < CANDIDATES {
                self.candidates.push(entry);
            }
        }
    }

    /// The core that has the flows of an entry, or where it is promoted its slot.
    #[inline]
    pub(super) fn place(&self, entry: u16) -> Result<usize, u16> {
        let Value { slot, owner, .. } = self.values[usize::from(entry)];
        if slot == NONE { Ok(owner.into()) } else { Err(slot.into()) }
    }

    pub(super) fn owner(&self, entry: u16) -> u16 {
        self.values[usize::from(entry)].owner
    }

    fn packets_of(&self, entry: u16) -> u64 {
        let value = self.values[usize::from(entry)];
        if value.period == self.period { value.packets.into() } else { 0 }
    }

    /// Ends a period: at most `most` changes, which are made.
    pub(super) fn end_period(&mut self, most: usize, mut change: impl FnMut(Decision)) {
        let mut left = most;
        let mean = self.packets / self.loads.len() as u64;
        for slot in 0..SLOTS {
            let Some(Elephant { entry, cool }) = self.slots[usize::from(slot)] else { continue };
            let cool = if self.packets_of(entry) * COOL < mean { cool + 1 } else { 0 };
            self.slots[usize::from(slot)] = Some(Elephant { entry, cool });
            if cool >= COOL_PERIODS && left > 0 {
                left -= 1;
                change(self.demote(slot, entry));
            }
        }
        let cores = self.loads.len() as u64;
        let promoted = self.packets - self.loads.iter().sum::<u64>();
        let mut shared = promoted / cores;
        while left > 0 {
            let busiest = (0..self.loads.len()).max_by_key(|core| self.loads[*core]).unwrap_or(0);
            if (self.loads[busiest] + shared) * TOO_MUCH.1 <= mean * TOO_MUCH.0 {
                break;
            }
            let is_here = |entry: &u16| self.place(*entry) == Ok(busiest);
            let theirs = self.candidates.iter().copied().filter(is_here);
            let Some(largest) = theirs.max_by_key(|entry| self.packets_of(*entry)) else { break };
            let packets = self.packets_of(largest);
            if packets * HOT < mean {
                break;
            }
            let Some(promotion) = self.promote(largest) else { break };
            self.loads[busiest] -= packets;
            shared += packets / cores;
            left -= 1;
            change(promotion);
        }
        self.period = self.period.wrapping_add(1);
        // A counter that was last used 256 periods ago would look like one of this period.
        if self.period == 0 {
            self.values.iter_mut().for_each(|value| value.packets = 0);
        }
        self.packets = 0;
        self.loads.fill(0);
        // Half as many as matter if the next period is like this one.
        self.notable = (mean / (2 * HOT)).clamp(1, u32::MAX.into()) as u32;
        self.candidates.clear();
    }

    /// Promotes an entry, if a slot is free.
    pub(super) fn promote(&mut self, entry: u16) -> Option<Decision> {
        let slot = self.slots.iter().position(Option::is_none)?;
        self.slots[slot] = Some(Elephant { entry, cool: 0 });
        self.values[usize::from(entry)].slot = slot as u8;
        Some(Decision::Promote { entry, slot: slot as u16 })
    }

    fn demote(&mut self, slot: u16, entry: u16) -> Decision {
        self.slots[usize::from(slot)] = None;
        self.values[usize::from(entry)].slot = NONE;
        Decision::Demote { entry, slot }
    }

    /// Demotes what is promoted at a slot, if anything is.
    pub(super) fn demote_slot(&mut self, slot: u16) -> Option<Decision> {
        let entry = self.slots[usize::from(slot)]?.entry;
        Some(self.demote(slot, entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const CORES: usize = 4;

    fn elephants() -> Elephants {
        let owners: Vec<u16> = (0..1024).map(|entry| entry % CORES as u16).collect();
        Elephants::new(&owners, CORES)
    }

    /// A period with so many packets of each entry.
    fn period(elephants: &mut Elephants, packets: &[(u16, u32)]) -> Vec<Decision> {
        for (entry, packets) in packets {
            (0..*packets).for_each(|_| elephants.count(*entry));
        }
        let mut decisions = Vec::new();
        elephants.end_period(8, |decision| decisions.push(decision));
        decisions
    }

    #[test]
    fn an_elephant_is_promoted_and_demoted_when_it_has_cooled() {
        let mut elephants = elephants();
        let mice: Vec<(u16, u32)> = (100..500).map(|entry| (entry, 10)).collect();
        let with = |packets| [&mice[..], &[(64, packets)]].concat();
        assert_eq!(period(&mut elephants, &with(10)), [], "even loads");
        assert_eq!(period(&mut elephants, &with(2_000)), [Decision::Promote { entry: 64, slot: 0 }]);
        assert_eq!(elephants.place(64), Err(0));
        assert_eq!(period(&mut elephants, &with(2_000)), []);
        assert_eq!(period(&mut elephants, &with(0)), []);
        assert_eq!(period(&mut elephants, &with(0)), []);
        assert_eq!(period(&mut elephants, &with(2_000)), [], "it is hot again");
        let cool: Vec<_> = (0..COOL_PERIODS).flat_map(|_| period(&mut elephants, &with(0))).collect();
        assert_eq!(cool, [Decision::Demote { entry: 64, slot: 0 }]);
        assert_eq!(elephants.place(64), Ok(0));
    }

    #[test]
    fn counts_of_periods_long_ago_are_forgotten() {
        let mut elephants = elephants();
        period(&mut elephants, &[(70, 1)]);
        for _ in 0..255 {
            period(&mut elephants, &[(71, 1)]);
        }
        // The number of the period is the same again.
        elephants.count(70);
        assert_eq!(elephants.packets_of(70), 1);
    }

    proptest! {
        /// Counts are exact, only what is hot on a core that has too much is promoted, and afterwards no core has too much
        /// that has a hot value left.
        #[test]
        fn decisions_are_those_of_exact_counts(
            packets in prop::collection::vec(prop_oneof![64..1024u16, Just(64u16), 64..70u16], 100..3_000),
        ) {
            let mut elephants = elephants();
            let mut exact: HashMap<u16, u64> = HashMap::new();
            let mut loads = [0; CORES];
            for entry in &packets {
                *exact.entry(*entry).or_default() += 1;
                loads[usize::from(*entry) % CORES] += 1;
                elephants.count(*entry);
            }
            for (entry, packets) in &exact {
                prop_assert_eq!(elephants.packets_of(*entry), *packets);
            }
            let mean = packets.len() as u64 / CORES as u64;
            let (mut promoted, mut shared) = (Vec::new(), 0);
            elephants.end_period(SLOTS.into(), |decision| promoted.push(decision));
            for decision in promoted {
                let Decision::Promote { entry, .. } = decision else { panic!("{decision:?}") };
                let core = usize::from(entry) % CORES;
                prop_assert!(exact[&entry] * HOT >= mean);
                prop_assert!((loads[core] + shared) * TOO_MUCH.1 > mean * TOO_MUCH.0);
                let packets = exact.remove(&entry).expect("promoted once");
                loads[core] -= packets;
                shared += packets / CORES as u64;
            }
            let busiest = (0..CORES).max_by_key(|core| loads[*core]).expect("a core");
            let of_busiest = exact.iter().filter(|(entry, _)| usize::from(**entry) % CORES == busiest);
            let largest = of_busiest.map(|(_, packets)| *packets).max().unwrap_or(0);
            let has_too_much = (loads[busiest] + shared) * TOO_MUCH.1 > mean * TOO_MUCH.0;
            // More are not looked at.
            if exact.len() < CANDIDATES / 2 {
                prop_assert!(!has_too_much || largest * HOT < mean, "{loads:?} {shared} {largest}");
            }
        }
    }
}
