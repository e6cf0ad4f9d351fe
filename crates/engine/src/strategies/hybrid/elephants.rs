//! Which values of the hash are too much for a core, and which have cooled.
//!
//! There are 65,536 values, and each has a counter: memory is bounded, a packet costs one access, and counts are exact. A sketch
//! for as many keys (Space-Saving, Metwally et al., ICDT'05) would take more time for each packet of a small flow, and err.
//!
//! A period's packets are counted by value and by core. Then, as long as something relieves the core with the most to do
//! ([`control::Burden`]), its largest value is promoted, or one goes to another core: it is promoted and demoted at once, ahead of the
//! same packet. What is promoted, and has room on a core alone, goes to the one with the least to do.
//! What is told goes to the cores in such shares that all have the same to do, as far as that is possible: those with many
//! mice get less.

use std::mem;

use control::{Burden, NoRelief, Part, Relief};

use crate::strategies::account::{NotPromoted, PromotionTold, Why};

/// How many values of the hash can be promoted at a time. An entry below this number is such a place; the entry of a packet that
/// is not promoted is at or above it.
pub(super) const SLOTS: u16 = 64;

/// What has fewer than 1/16 of that mean has cooled.
const COOL: u64 = 16;

/// Periods for which it has to be cool until it is demoted.
const COOL_PERIODS: u8 = 3;

/// Values that are looked at: each has a part of a core's load that is too large for more.
const CANDIDATES: usize = 1024;

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
    fn levelling(burden: &Burden) -> Hand {
        let (mice, told) = (&burden.own, burden.told);
        let cores = mice.len() as u64;
        let more = told - burden.replays(told);
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
    /// Its flows come from `owner`.
    Promote { entry: u16, slot: u16, owner: u16 },
    /// Its flows go to `owner`, which is another core than had them before if they have moved.
    Demote { entry: u16, slot: u16, owner: u16, has_moved: bool },
}

/// Counts packets, and knows who is promoted.
pub(super) struct Elephants {
    values: Box<[Value]>,
    slots: [Option<Elephant>; SLOTS as usize],
    period: u8,
    /// Packets of this period: by core those of values that are not promoted, and the others.
    now: Burden,
    /// From so many packets in a period on a value is looked at.
    notable: u32,
    /// Values that have so many.
    candidates: Vec<u16>,
    last: Last,
    /// What is looked at, and what follows, at the end of a period.
    parts: Vec<Part<u16>>,
    steps: Vec<(Part<u16>, Relief)>,
}

/// What the last period came to.
struct Last {
    burden: Burden,
    next: Option<NotPromoted>,
}

impl Elephants {
    /// `owners[entry]` has the flows of an entry. A replay takes so many sixteenths of a packet's time.
    pub(super) fn new(owners: &[u16], cores: usize, replay_sixteenths: u64) -> Elephants {
        let value = |owner: &u16| Value { packets: 0, period: 0, slot: NONE, owner: *owner };
        Elephants {
            values: owners.iter().map(value).collect(),
            slots: [None; SLOTS as usize],
            period: 0,
            now: Burden::none(cores, replay_sixteenths),
            notable: 1,
            candidates: Vec::with_capacity(CANDIDATES),
            last: Last { burden: Burden::none(cores, replay_sixteenths), next: None },
            parts: Vec::with_capacity(CANDIDATES),
            steps: Vec::new(),
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
        if value.slot == NONE {
            self.now.own[usize::from(value.owner)] += 1;
            if value.packets == self.notable && self.candidates.len() < CANDIDATES {
                self.candidates.push(entry);
            }
        } else {
            self.now.told += 1;
        }
    }

    /// The core that has the flows of an entry, or where it is promoted its slot.
    #[inline]
    pub(super) fn place(&self, entry: u16) -> Result<usize, u16> {
        let Value { slot, owner, .. } = self.values[usize::from(entry)];
        if slot == NONE { Ok(owner.into()) } else { Err(slot.into()) }
    }

    fn owner(&self, entry: u16) -> u16 {
        self.values[usize::from(entry)].owner
    }

    fn packets_of(&self, entry: u16) -> u64 {
        let value = self.values[usize::from(entry)];
        if value.period == self.period { value.packets.into() } else { 0 }
    }

    /// Ends a period: at most `most` changes, which are made. Says who gets what is told from now on, if anything is.
    pub(super) fn end_period(&mut self, most: usize, mut change: impl FnMut(Decision)) -> Option<Hand> {
        let mut left = most;
        let cores = self.now.own.len();
        let all = self.now.own.iter().sum::<u64>() + self.now.told;
        for slot in 0..SLOTS {
            let Some(Elephant { entry, cool }) = self.slots[usize::from(slot)] else { continue };
            let packets = self.packets_of(entry);
            let is_cool = packets * COOL * (cores as u64) < all;
            let cool = if is_cool { cool + 1 } else { 0 };
            self.slots[usize::from(slot)] = Some(Elephant { entry, cool });
            if left > 0 && (cool >= COOL_PERIODS || !is_cool && self.now.has_room_for(packets)) {
                left -= 1;
                let owner = self.now.idlest();
                self.now.told -= packets;
                self.now.own[owner] += packets;
                change(self.demote(slot, entry, owner as u16));
            }
        }
        let free = self.slots.iter().filter(|slot| slot.is_none()).count();
        let (mut parts, mut steps) = (mem::take(&mut self.parts), mem::take(&mut self.steps));
        let part =
            |value: u16| Part { value, core: self.owner(value).into(), packets: self.packets_of(value) };
        parts.clear();
        parts.extend(
            self.candidates.iter().filter(|value| self.place(**value).is_ok()).map(|value| part(*value)),
        );
        let why_not = self.now.relieve(&parts, left.min(free), &mut steps);
        for (Part { value, .. }, relief) in steps.drain(..) {
            let Some(promotion @ Decision::Promote { slot, .. }) = self.promote(value) else { break };
            change(promotion);
            if let Relief::Move(core) = relief {
                change(self.demote(slot, value, core as u16));
            }
        }
        (self.parts, self.steps) = (parts, steps);
        self.last.next = why_not.map(|(Part { value, core, packets }, why)| {
            let why = match why {
                NoRelief::Small => Why::Small,
                NoRelief::NoGain => Why::NoGain,
                NoRelief::Enough if free < left => Why::Full,
                NoRelief::Enough => Why::Enough,
            };
            NotPromoted { value, core: core as u16, packets, why }
        });
        let hand = (self.now.told > 0).then(|| Hand::levelling(&self.now));
        self.last.burden.clone_from(&self.now);
        self.period = self.period.wrapping_add(1);
        // A counter that was last used 256 periods ago would look like one of this period.
        if self.period == 0 {
            self.values.iter_mut().for_each(|value| value.packets = 0);
        }
        // Half as many as matter if the next period is like this one.
        self.notable = (self.now.notable() / 2).clamp(1, u32::MAX.into()) as u32;
        self.now.own.fill(0);
        self.now.told = 0;
        self.candidates.clear();
        hand
    }

    /// Says what the last period came to.
    pub(super) fn tell(&self, to: &mut PromotionTold) {
        let Last { burden: Burden { own, told, .. }, next } = &self.last;
        (to.packets, to.told, to.next) = (own.iter().sum::<u64>() + told, *told, *next);
        to.loads.clone_from(own);
        for promoted in &mut to.promoted {
            promoted.packets = self.last_of(promoted.value);
        }
    }

    /// Packets of an entry in the last period.
    pub(super) fn last_of(&self, entry: u16) -> u64 {
        let value = self.values[usize::from(entry)];
        if value.period == self.period.wrapping_sub(1) { value.packets.into() } else { 0 }
    }

    /// Promotes an entry, if a slot is free.
    pub(super) fn promote(&mut self, entry: u16) -> Option<Decision> {
        let slot = self.slots.iter().position(Option::is_none)?;
        self.slots[slot] = Some(Elephant { entry, cool: 0 });
        self.values[usize::from(entry)].slot = slot as u8;
        Some(Decision::Promote { entry, slot: slot as u16, owner: self.owner(entry) })
    }

    fn demote(&mut self, slot: u16, entry: u16, owner: u16) -> Decision {
        self.slots[usize::from(slot)] = None;
        let value = &mut self.values[usize::from(entry)];
        let has_moved = value.owner != owner;
        (value.slot, value.owner) = (NONE, owner);
        Decision::Demote { entry, slot, owner, has_moved }
    }

    /// Demotes what is promoted at a slot, if anything is: to `owner`, or where it came from.
    pub(super) fn demote_slot(&mut self, slot: u16, owner: Option<u16>) -> Option<Decision> {
        let entry = self.slots[usize::from(slot)]?.entry;
        Some(self.demote(slot, entry, owner.unwrap_or(self.owner(entry))))
    }

    pub(super) fn cores(&self) -> usize {
        self.now.own.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const CORES: usize = 4;

    /// Sixteenths.
    const REPLAY: u64 = 4;

    fn levelling(mice: &[u64], told: u64) -> Hand {
        Hand::levelling(&Burden { own: mice.to_vec(), told, replay_sixteenths: REPLAY })
    }

    fn elephants() -> Elephants {
        let owners: Vec<u16> = (0..1024).map(|entry| entry % CORES as u16).collect();
        Elephants::new(&owners, CORES, REPLAY)
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
        let promoted = [Decision::Promote { entry: 64, slot: 0, owner: 0 }];
        assert_eq!(period(&mut elephants, &with(2_000)), promoted);
        assert_eq!(elephants.place(64), Err(0));
        assert_eq!(period(&mut elephants, &with(2_000)), []);
        assert_eq!(period(&mut elephants, &with(0)), []);
        assert_eq!(period(&mut elephants, &with(0)), []);
        assert_eq!(period(&mut elephants, &with(2_000)), [], "it is hot again");
        let cool: Vec<_> = (0..COOL_PERIODS).flat_map(|_| period(&mut elephants, &with(0))).collect();
        assert_eq!(cool, [Decision::Demote { entry: 64, slot: 0, owner: 0, has_moved: false }]);
        assert_eq!(elephants.place(64), Ok(0));
    }

    /// Core 0 has a flow too many, and core 1 room for it.
    #[test]
    fn what_fits_on_another_core_goes_there() {
        let mut elephants = elephants();
        let packets = [64, 68, 72, 65, 66, 70, 67, 71].map(|entry| (entry, 2_000));
        let decisions = period(&mut elephants, &packets);
        let [Decision::Promote { entry, slot, owner: 0 }, demotion] = decisions[..] else {
            panic!("{decisions:?}")
        };
        assert_eq!(demotion, Decision::Demote { entry, slot, owner: 1, has_moved: true });
        assert_eq!(elephants.place(entry), Ok(1));
        assert_eq!(period(&mut elephants, &packets), [], "all are level");
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
        /// Counts are exact, and so is what is known of loads. When the same comes over and over, all that is promoted stays, no flow moves
        /// any more, and the busiest core has no more to do than at first.
        #[test]
        fn decisions_are_those_of_exact_counts(
            packets in prop::collection::vec(prop_oneof![64..1024u16, Just(64u16), 64..70u16], 100..3_000),
        ) {
            let mut elephants = elephants();
            let mut exact: HashMap<u16, u64> = HashMap::new();
            for entry in &packets {
                *exact.entry(*entry).or_default() += 20;
            }
            let counts: Vec<(u16, u32)> = exact.iter().map(|(entry, packets)| (*entry, *packets as u32)).collect();
            let (mut most, mut last) = (Vec::new(), 0);
            for _ in 0..20 {
                let decisions = period(&mut elephants, &counts);
                last = decisions.len();
                for decision in decisions {
                    let (Decision::Promote { entry, slot, owner } | Decision::Demote { entry, slot, owner, .. }) = decision;
                    prop_assert!(exact.contains_key(&entry) && slot < SLOTS && usize::from(owner) < CORES);
                }
                let mut expected = Burden::none(CORES, REPLAY);
                for (entry, packets) in &exact {
                    prop_assert_eq!(elephants.last_of(*entry), *packets);
                    match elephants.place(*entry) {
                        Ok(owner) => expected.own[owner] += packets,
                        Err(_) => expected.told += packets,
                    }
                }
                prop_assert_eq!(&elephants.last.burden, &expected);
                most.push(expected.own[expected.busiest()]);
            }
            prop_assert!(last == 0, "{last} changes, for ever");
            prop_assert!(most.last() <= most.first());
        }

        /// Told packets level out what cores have to do, as far as there are enough of them: to a packet in a hand, and what
        /// nobody is left out for.
        #[test]
        fn told_packets_level_out_mice(mice in prop::collection::vec(0u64..10_000, 2..33), told in 1u64..100_000) {
            let hand = levelling(&mice, told);
            let mut mut_hand = hand;
            let mut dealt = vec![0u64; mice.len()];
            (0..HAND).for_each(|_| dealt[mut_hand.next()] += 1);
            let work = |core: usize| {
                let own = (dealt[core] * told) as f64 / HAND as f64;
                mice[core] as f64 + own + (told as f64 - own) / 4.0
            };
            let all: f64 = (0..mice.len()).map(work).sum();
            let mean = all / mice.len() as f64;
            let rest = *mice.iter().max().expect("cores") as f64 + told as f64 / 4.0;
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
        assert_eq!(deal(levelling(&[100; 4], 100), 4), [16; 4]);
        // 400 told take 300 more than their replay: to the level of 250, the others 50, 100, 150.
        assert_eq!(deal(levelling(&[200, 150, 100, 250], 400), 4), [10, 21, 31, 2]);
    }
}
