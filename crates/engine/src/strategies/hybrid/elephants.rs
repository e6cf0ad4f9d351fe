//! Which values of the hash are too much for a core, and which have cooled.
//!
//! There are 65,536 values, and each has a counter: memory is bounded, a packet costs one access, and counts are exact. A sketch
//! for as many keys (Space-Saving, Metwally et al., ICDT'05) would take more time for each packet of a small flow, and err.
//!
//! A period's packets are counted by value and by core. Then, as long as the core with the most to do would be better off, its largest value
//! is promoted, which takes the value's packets from that core, gives every core its share, and has every core replay the rest.
//! What is told goes to the cores in such shares that all have the same to do, as far as that is possible: those with many
//! mice get less.
//!
//! What there is to do is counted in packets. A packet that is stepped for another core counts as [`REPLAY`] of one.

use crate::strategies::account::{NotPromoted, PromotionTold, Why};

/// How many values of the hash can be promoted at a time. An entry below this number is such a place; the entry of a packet that
/// is not promoted is at or above it.
pub(super) const SLOTS: u16 = 64;

/// To replay a packet takes 1/4 of what it takes to receive, step and send it: between what short steps take behind a
/// card (1/8) and long ones (1/2), as `bench scr` measures it.
const REPLAY: u64 = 4;

/// A promotion takes at least 1/64 of what it has to do from the core with the most.
const GAIN: u64 = 64;

/// What is promoted has at least 1/8 of the mean of a core's packets.
const HOT: u64 = 8;

/// What has fewer than 1/16 of that mean has cooled.
const COOL: u64 = 16;

/// Periods for which it has to be cool until it is demoted.
const COOL_PERIODS: u8 = 3;

/// Values that are looked at: each has a part of a core's load that is too large for more.
const CANDIDATES: usize = 512;

/// Nobody's slot.
pub(super) const NONE: u8 = u8::MAX;

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

/// Told packets of one turn.
const HAND: usize = 64;

/// Which core gets which told packet: round after round, each core has its share.
#[derive(Clone, Copy)]
pub(super) struct Hand {
    cores: [u8; HAND],
    packets: u8,
    next: u8,
}

impl Hand {
    /// All get the same.
    pub(super) fn even(cores: usize) -> Hand {
        let packets = HAND - HAND % cores;
        let mut hand = Hand { cores: [0; HAND], packets: packets as u8, next: 0 };
        hand.cores.iter_mut().enumerate().for_each(|(packet, core)| *core = (packet % cores) as u8);
        hand
    }

    /// Each core gets as many as makes all have the same to do, where each steps `mice` packets of its own and all of them
    /// `told` packets: what its own take more than those that it replays.
    fn levelling(mice: &[u64], told: u64) -> Hand {
        let cores = mice.len() as u64;
        let more = told - told / REPLAY;
        // The level up to which `more` fills those that have less.
        let fits = |level: u64| mice.iter().map(|mice| level.saturating_sub(*mice)).sum::<u64>() <= more;
        let (mut low, mut high) = (0, mice.iter().sum::<u64>() + more + 1);
        while high - low > 1 {
            let level = low.midpoint(high);
            *(if fits(level) { &mut low } else { &mut high }) = level;
        }
        // None is left out: it would look at the history in vain, and late.
        let share = |mice: &u64| low.saturating_sub(*mice).max(more / (8 * cores)).max(1) as i64;
        let all: i64 = mice.iter().map(share).sum();
        let mut hand = Hand { packets: HAND as u8, ..Hand::even(mice.len()) };
        let mut due = vec![0; mice.len()];
        for core in &mut hand.cores {
            due.iter_mut().zip(mice).for_each(|(due, mice)| *due += share(mice));
            let next = (0..due.len()).rev().max_by_key(|core| due[*core]).unwrap_or(0);
            due[next] -= all;
            *core = next as u8;
        }
        hand
    }

    /// The core that gets the next.
    #[inline]
    pub(super) fn next(&mut self) -> usize {
        let core = self.cores[usize::from(self.next)];
        self.next = if self.next + 1 == self.packets { 0 } else { self.next + 1 };
        core.into()
    }
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
    last: Last,
}

/// What the last period came to.
struct Last {
    packets: u64,
    told: u64,
    loads: Box<[u64]>,
    next: Option<NotPromoted>,
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
            last: Last { packets: 0, told: 0, loads: vec![0; cores].into(), next: None },
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

    /// Ends a period: at most `most` changes, which are made. Says who gets what is told from now on, if anything is.
    pub(super) fn end_period(&mut self, most: usize, mut change: impl FnMut(Decision)) -> Option<Hand> {
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
        let mut told = self.packets - self.loads.iter().sum::<u64>();
        self.last.next = None;
        loop {
            let busiest = (0..self.loads.len()).max_by_key(|core| self.loads[*core]).unwrap_or(0);
            let is_here = |entry: &u16| self.place(*entry) == Ok(busiest);
            let theirs = self.candidates.iter().copied().filter(is_here);
            let Some(largest) = theirs.max_by_key(|entry| self.packets_of(*entry)) else { break };
            let packets = self.packets_of(largest);
            let load = self.loads[busiest];
            let (before, after) = (self.work(load, told), self.work(load - packets, told + packets));
            let why_not = match () {
                () if packets * HOT < mean => Some(Why::Small),
                () if after + before / GAIN >= before => Some(Why::NoGain),
                () if left == 0 => Some(Why::Enough),
                () => None,
            };
            let promotion = if why_not.is_none() { self.promote(largest) } else { None };
            let Some(promotion) = promotion else {
                let (value, core, why) = (largest, busiest as u16, why_not.unwrap_or(Why::Full));
                self.last.next = Some(NotPromoted { value, core, packets, why });
                break;
            };
            self.loads[busiest] -= packets;
            told += packets;
            left -= 1;
            change(promotion);
        }
        let hand = (told > 0).then(|| Hand::levelling(&self.loads, told));
        (self.last.packets, self.last.told) = (self.packets, told);
        self.last.loads.copy_from_slice(&self.loads);
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
        hand
    }

    /// Says what the last period came to.
    pub(super) fn tell(&self, to: &mut PromotionTold) {
        let Last { packets, told, loads, next } = &self.last;
        (to.packets, to.told, to.next) = (*packets, *told, *next);
        to.loads.clear();
        to.loads.extend_from_slice(loads);
        for promoted in &mut to.promoted {
            promoted.packets = self.last_of(promoted.value);
        }
    }

    /// Packets of an entry in the last period.
    pub(super) fn last_of(&self, entry: u16) -> u64 {
        let value = self.values[usize::from(entry)];
        if value.period == self.period.wrapping_sub(1) { value.packets.into() } else { 0 }
    }

    /// What a core with `load` packets of its own has to do where `told` are told: at least its own and the replay of all others, and
    /// at least what each has where told packets even out all.
    fn work(&self, load: u64, told: u64) -> u64 {
        let cores = self.loads.len() as u64;
        (load + told / REPLAY).max((self.packets + (cores - 1) * told / REPLAY) / cores)
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
        /// Counts are exact, only what is hot and takes something from the core with the most is promoted, and afterwards that core
        /// has no such value left.
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
            let (cores, all) = (CORES as u64, packets.len() as u64);
            let work = |load: u64, told: u64| {
                (load + told / REPLAY).max((all + (cores - 1) * told / REPLAY) / cores)
            };
            let pays = |loads: &[u64; CORES], core: usize, packets: u64, told: u64| {
                let before = work(loads[core], told);
                packets * HOT >= all / cores && work(loads[core] - packets, told + packets) + before / GAIN < before
            };
            let (mut promoted, mut told) = (Vec::new(), 0);
            elephants.end_period(SLOTS.into(), |decision| promoted.push(decision));
            for decision in promoted {
                let Decision::Promote { entry, .. } = decision else { panic!("{decision:?}") };
                let core = usize::from(entry) % CORES;
                let packets = exact.remove(&entry).expect("promoted once");
                prop_assert!(pays(&loads, core, packets, told));
                loads[core] -= packets;
                told += packets;
            }
            let busiest = (0..CORES).max_by_key(|core| loads[*core]).expect("a core");
            let of_busiest = exact.iter().filter(|(entry, _)| usize::from(**entry) % CORES == busiest);
            let largest = of_busiest.map(|(_, packets)| *packets).max().unwrap_or(0);
            // More are not looked at.
            if exact.len() < CANDIDATES / 2 {
                prop_assert!(!pays(&loads, busiest, largest, told), "{loads:?} {told} {largest}");
            }
        }

        /// Told packets level out what cores have to do, as far as there are enough of them: to a packet in a hand, and what
        /// nobody is left out for.
        #[test]
        fn told_packets_level_out_mice(mice in prop::collection::vec(0u64..10_000, 2..33), told in 1u64..100_000) {
            let hand = Hand::levelling(&mice, told);
            let mut mut_hand = hand;
            let mut dealt = vec![0u64; mice.len()];
            (0..HAND).for_each(|_| dealt[mut_hand.next()] += 1);
            let work = |core: usize| {
                let own = (dealt[core] * told) as f64 / HAND as f64;
                mice[core] as f64 + own + (told as f64 - own) / REPLAY as f64
            };
            let all: f64 = (0..mice.len()).map(work).sum();
            let mean = all / mice.len() as f64;
            let rest = *mice.iter().max().expect("cores") as f64 + told as f64 / REPLAY as f64;
            let slack = told as f64 * (2.0 / HAND as f64 + 1.0 / 8.0 / mice.len() as f64 + 1.0 / 8.0);
            for core in 0..mice.len() {
                prop_assert!(work(core) <= mean.max(rest) + slack, "{dealt:?} {} {mean} {rest}", work(core));
            }
        }
    }

    #[test]
    fn a_core_with_more_mice_gets_less_of_what_is_told() {
        let deal = |mut hand: Hand, cores: usize| {
            let mut dealt = vec![0; cores];
            (0..HAND).for_each(|_| dealt[hand.next()] += 1);
            dealt
        };
        assert_eq!(deal(Hand::even(4), 4), [16; 4]);
        assert_eq!(deal(Hand::levelling(&[100; 4], 100), 4), [16; 4]);
        // 400 told take 300 more than their replay: to the level of 250, the others 50, 100, 150.
        assert_eq!(deal(Hand::levelling(&[200, 150, 100, 250], 400), 4), [10, 21, 31, 2]);
    }
}
