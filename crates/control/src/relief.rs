//! What relieves the core with the most to do, where flows can go to another core or be replicated on all (`hybrid`).
//!
//! What there is to do is counted in packets. To step a packet for another core, a replay, counts as a part of one, in sixteenths.

/// What a replay takes of a packet's time, in sixteenths, in a chain with so many functions that have states: 1/8 for one, and 1/4
/// for three, as `bench compare` measures it behind a card that takes 105 ns for a packet. Twice that from a history of headers.
pub fn replay_sixteenths(stateful: usize, from_headers: bool) -> u64 {
    ((1 + stateful as u64) << u32::from(from_headers)).min(16)
}

/// What the sequencer takes for a packet that it tells, in sixteenths of what a core takes for a packet of its own: half, as `bench
/// compare` measures it (7/16 to 10/16).
const TELLING_SIXTEENTHS: u64 = 8;

/// What relieves a core takes at least 1/64 of what it has to do from it, and more than chance alone makes of it.
const GAIN: u64 = 64;

/// To replicate anything leaves the busiest core with at least 1/4 less than moves alone do. Packets of a large flow take up to a quarter less
/// time than those of many small ones, which counts of packets do not show, and a replay's time is not known well.
const REPLICATION_GAIN: u64 = 4;

/// What is replicated has at least 1/8 of the mean of a core's packets.
const HOT: u64 = 8;

/// What goes to another core has at least 1/64 of that mean.
const WORTH_MOVING: u64 = 64;

/// What cores have to do in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    /// By core, packets that no other core steps.
    pub own: Vec<u64>,
    /// Packets that all cores step.
    pub told: u64,
    /// What a replay counts as, in sixteenths of a packet.
    pub replay_sixteenths: u64,
}

/// What becomes of some of a core's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// All cores step them.
    Replicate,
    /// They go to this core.
    Move(usize),
}

/// Packets of one value of the hash, which go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<V> {
    /// Whose they are.
    pub value: V,
    /// The core that has them.
    pub core: usize,
    /// How many.
    pub packets: u64,
}

/// Why nothing more relieves the core with the most to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRelief {
    /// Its largest part has less than 1/8 of a core's mean.
    Small,
    /// To replay it would take as much as there would be less to do.
    NoGain,
    /// There have been as many changes as there may be.
    Enough,
}

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Parts move.
    MovesAlone,
    /// What cannot move is replicated.
    MovesFirst,
    /// Whichever takes more from the busiest core.
    AsFarAsEach,
}

/// A step for a core's relief.
type Step<V> = (Part<V>, Relief);

/// Where a way leads, its steps, and for which part, and why, there is no further one.
type Led<V> = (Burden, Vec<Step<V>>, Option<(Part<V>, NoRelief)>);

impl Burden {
    /// The burden of cores that have nothing to do, where a replay takes so many sixteenths of a packet's time.
    pub fn none(cores: usize, replay_sixteenths: u64) -> Burden {
        Burden { own: vec![0; cores], told: 0, replay_sixteenths }
    }

    /// From so many packets on a part can make a difference.
    pub fn notable(&self) -> u64 {
        (self.mean() / WORTH_MOVING).max(1)
    }

    /// The core with the most packets of its own; of several the last.
    pub fn busiest(&self) -> usize {
        (0..self.own.len()).max_by_key(|core| self.own[*core]).unwrap_or(0)
    }

    /// The core with the fewest; of several the first.
    pub fn idlest(&self) -> usize {
        (0..self.own.len()).min_by_key(|core| self.own[*core]).unwrap_or(0)
    }

    /// Takes from the busiest core what relieves it, over and over: part after part goes to the idlest core, or is replicated.
    /// Steps are written to `steps`, as far as they leave the busiest core with less to do than it had, and made. Moves take two of
    /// `changes`, replication one. Says for which part, and why, there is no further step, if that is known.
    ///
    /// A step alone may be for nothing, since a second core has as much to do: what counts is where they lead. Three ways are tried.
    /// On one, parts move, and none is replicated. On the next whatever can go goes first, so that an elephant may have a core for
    /// itself; on the last, an elephant is replicated as soon as that takes more from its core. The last counts where it leads as far as the one
    /// before, and moves alone where the others lead no further by 1/4. Then the other cores are levelled. `O((changes + cores) · parts)`
    pub fn relieve<V: Copy + PartialEq>(
        &mut self,
        parts: &[Part<V>],
        changes: usize,
        steps: &mut Vec<Step<V>>,
    ) -> Option<(Part<V>, NoRelief)> {
        let why_not;
        (*self, *steps, why_not) = self.relieve_busiest(parts, changes);
        self.level_others(parts, changes, steps);
        why_not
    }

    fn relieve_busiest<V: Copy + PartialEq>(&self, parts: &[Part<V>], changes: usize) -> Led<V> {
        let by = |way| self.clone().descend(parts.to_vec(), changes, way);
        let alone = by(Way::MovesAlone);
        let most_alone = alone.0.most();
        let is_enough = |most: u64| most + most_alone / REPLICATION_GAIN < most_alone;
        // No way leads to less than the mean.
        if !is_enough(self.mean()) {
            return alone;
        }
        let (moved, any) = (by(Way::MovesFirst), by(Way::AsFarAsEach));
        let is_further = moved.0.most() + self.most() / (2 * GAIN) < any.0.most();
        let further = if is_further { moved } else { any };
        if is_enough(further.0.most()) { further } else { alone }
    }

    /// A core whose largest part is too much for any other has more to do than they, and may take less time for it: packets of one flow are
    /// stepped faster than those of many. So cores that have nothing more to give are left aside one after the other, and those that are left
    /// relieve each other, as long as one has more than the mean. What is told levels cores out anyway.
    fn level_others<V: Copy + PartialEq>(
        &mut self,
        parts: &[Part<V>],
        changes: usize,
        steps: &mut Vec<Step<V>>,
    ) {
        let mut parts = parts.to_vec();
        for (step, relief) in &*steps {
            let moved = parts.iter_mut().find(|part| part.value == step.value);
            if let (Some(part), Relief::Move(core)) = (moved, relief) {
                part.core = *core;
            }
        }
        let mut left = changes.saturating_sub(2 * steps.len());
        let mut others: Vec<usize> = (0..self.own.len()).collect();
        while self.told == 0 && left >= 2 && others.len() > 2 {
            let busiest = (0..others.len()).max_by_key(|other| self.own[others[*other]]).unwrap_or(0);
            others.remove(busiest);
            let own = others.iter().map(|core| self.own[*core]).collect();
            let rest = Burden { own, told: 0, replay_sixteenths: self.replay_sixteenths };
            if rest.most() <= self.mean() {
                break;
            }
            let place = |core: usize| others.iter().position(|other| *other == core);
            let theirs =
                parts.iter().filter_map(|part| Some(Part { core: place(part.core)?, ..*part })).collect();
            let (_, of_rest, _) = rest.descend(theirs, left, Way::MovesAlone);
            left -= 2 * of_rest.len();
            for (part, relief) in of_rest {
                let (from, Relief::Move(to)) = (others[part.core], relief) else { continue };
                let to = others[to];
                self.own[from] -= part.packets;
                self.own[to] += part.packets;
                parts.iter_mut().filter(|other| other.value == part.value).for_each(|other| other.core = to);
                steps.push((Part { core: from, ..part }, Relief::Move(to)));
            }
        }
        join(steps);
    }

    /// One way.
    fn descend<V: Copy + PartialEq>(mut self, mut parts: Vec<Part<V>>, changes: usize, way: Way) -> Led<V> {
        let mut steps = Vec::new();
        let (before, mut left) = (self.most(), changes);
        let mut most = Vec::new();
        let mut why_not = loop {
            let (index, relief) = match self.relief(&parts, way) {
                None => break None,
                Some((index, Err(why))) => break Some((parts[index], why)),
                Some((index, Ok(relief))) => (index, relief),
            };
            let takes = if relief == Relief::Replicate { 1 } else { 2 };
            if takes > left {
                break Some((parts[index], NoRelief::Enough));
            }
            left -= takes;
            steps.push((parts[index], relief));
            self.own[parts[index].core] -= parts[index].packets;
            match relief {
                Relief::Replicate => self.told += parts.swap_remove(index).packets,
                Relief::Move(core) => {
                    self.own[core] += parts[index].packets;
                    parts[index].core = core;
                }
            }
            most.push(self.most());
        };
        let least = most.iter().copied().min().unwrap_or(before);
        // Steps that bring next to nothing are left out at the end.
        let is_enough = |most: &u64| *most <= least + before / (2 * GAIN);
        let enough = most.iter().position(is_enough).map_or(0, |step| step + 1);
        let made = if gains(before, least) { enough } else { 0 };
        for step in steps.drain(made..).rev() {
            why_not = Some((step.0, NoRelief::NoGain));
            self.undo(step);
        }
        join(&mut steps);
        (self, steps, why_not)
    }

    fn undo<V>(&mut self, (Part { core, packets, .. }, relief): Step<V>) {
        match relief {
            Relief::Replicate => self.told -= packets,
            Relief::Move(to) => self.own[to] -= packets,
        }
        self.own[core] += packets;
    }

    /// What takes most from the busiest core, by number of the part. `None` if nothing is known of its parts.
    fn relief<V: Copy>(&self, parts: &[Part<V>], way: Way) -> Option<(usize, Result<Relief, NoRelief>)> {
        let (busiest, idlest) = (self.busiest(), self.idlest());
        let (most, fewest) = (self.own[busiest], self.own[idlest]);
        let theirs = || parts.iter().enumerate().filter(|(_, part)| part.core == busiest);
        let (largest, Part { packets, .. }) = theirs().max_by_key(|(_, part)| part.packets)?;
        let before = self.work(most, self.told);
        // What goes leaves one core with less, and the other with more.
        let moved = |part: &Part<V>| self.work((most - part.packets).max(fewest + part.packets), self.told);
        let movable = theirs().filter(|(_, part)| part.packets >= self.notable());
        let best = movable.map(|(index, part)| (moved(part), index)).min();
        let replicated = self.work(most - packets, self.told + packets);
        Some(match best {
            Some((after, index)) if after < before && (way != Way::AsFarAsEach || after <= replicated) => {
                (index, Ok(Relief::Move(idlest)))
            }
            _ if packets * HOT < self.mean() => (largest, Err(NoRelief::Small)),
            _ if way == Way::MovesAlone || replicated >= before => (largest, Err(NoRelief::NoGain)),
            _ => (largest, Ok(Relief::Replicate)),
        })
    }

    /// Whether no core has more to do, and all of them together less, where these of the told packets go to the idlest core alone.
    pub fn has_room_for(&self, packets: u64) -> bool {
        let with = self.own[self.busiest()].max(self.own[self.idlest()] + packets);
        gains(self.most(), self.work(with, self.told - packets))
    }

    /// What the busiest core has to do.
    fn most(&self) -> u64 {
        self.work(self.own[self.busiest()], self.told)
    }

    fn all(&self) -> u64 {
        self.own.iter().sum::<u64>() + self.told
    }

    fn mean(&self) -> u64 {
        self.all() / self.own.len() as u64
    }

    /// What the core with the most has to do where the busiest core has `own` packets of its own and `told` are
    /// told: at least its own and the replay of all others, at least what each core has where told packets even out
    /// all, and at least what the sequencer has.
    fn work(&self, own: u64, told: u64) -> u64 {
        let cores = self.own.len() as u64;
        let replays = self.replays(told);
        let telling = told * TELLING_SIXTEENTHS / 16;
        (own + replays).max((self.all() + (cores - 1) * replays) / cores).max(telling)
    }

    /// What it takes to replay so many.
    pub fn replays(&self, told: u64) -> u64 {
        told * self.replay_sixteenths / 16
    }
}

/// What goes twice goes at once, from where it was first.
fn join<V: Copy + PartialEq>(steps: &mut Vec<Step<V>>) {
    for last in (0..steps.len()).rev() {
        let Part { value, .. } = steps[last].0;
        if let Some(before) = steps[..last].iter().rposition(|(part, _)| part.value == value) {
            steps[last].0.core = steps[before].0.core;
            steps.remove(before);
            return join(steps);
        }
    }
    steps.retain(|(part, relief)| *relief != Relief::Move(part.core));
}

/// Whether it is worth a change. Twice the root is what chance makes of a count in one period of 20.
fn gains(before: u64, after: u64) -> bool {
    after + (before / GAIN).max(2 * before.isqrt()) < before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn burden(own: &[u64], told: u64) -> Burden {
        Burden { own: own.to_vec(), told, replay_sixteenths: 4 }
    }

    /// The burden after the steps, the steps by part, and for which part there is no further one, and why.
    type Relieved = (Burden, Vec<(usize, Relief)>, Option<(usize, NoRelief)>);

    /// Parts of the last core, which it has; and what follows.
    fn relieve(own: &[u64], packets: &[u64]) -> Relieved {
        relieved(burden(own, 0), packets)
    }

    fn relieved(mut burden: Burden, packets: &[u64]) -> Relieved {
        let core = burden.own.len() - 1;
        let part = |(value, packets): (usize, &u64)| Part { value, core, packets: *packets };
        let parts: Vec<_> = packets.iter().enumerate().map(part).collect();
        let mut steps = Vec::new();
        let why_not = burden.relieve(&parts, 64, &mut steps);
        let steps = steps.into_iter().map(|(part, relief)| (part.value, relief)).collect();
        (burden, steps, why_not.map(|(part, why)| (part.value, why)))
    }

    #[test]
    fn what_is_too_much_for_any_core_is_replicated_and_what_fits_elsewhere_goes_there() {
        let (after, steps, why_not) = relieve(&[1_000, 1_000, 1_000, 7_000], &[6_000, 500, 500]);
        assert_eq!(steps, [(0, Relief::Replicate)]);
        assert_eq!(
            (after, why_not),
            (burden(&[1_000, 1_000, 1_000, 1_000], 6_000), Some((1, NoRelief::NoGain)))
        );
        let (after, steps, _) = relieve(&[1_000, 1_000, 1_000, 4_000], &[700, 800, 750]);
        assert_eq!(steps, [(1, Relief::Move(0)), (2, Relief::Move(1)), (0, Relief::Move(2))]);
        assert_eq!(after, burden(&[1_800, 1_750, 1_700, 1_750], 0));
        // To replicate it would take more from its core at first than to leave it there alone.
        let dear = Burden { replay_sixteenths: 8, ..burden(&[1_000, 1_000, 1_000, 3_400], 0) };
        let (after, steps, _) = relieved(dear, &[2_500, 300, 300, 300]);
        assert_eq!(steps.len(), 3, "{steps:?}");
        assert_eq!((after.told, after.own[3]), (0, 2_500), "{after:?}");
        assert_eq!(relieve(&[200, 200, 200, 201], &[10, 10]).2, Some((1, NoRelief::Small)));
        assert_eq!(relieve(&[200, 200, 200, 201], &[100, 101]).2, Some((1, NoRelief::NoGain)));
        assert_eq!(relieve(&[200, 200, 200, 201], &[]).2, None, "nothing is known of its parts");
    }

    /// Two cores have two parts too many each. To move one is for nothing, as the other core has its own to step.
    #[test]
    fn steps_count_by_where_they_lead() {
        let mut burden = burden(&[1_000, 1_000, 5_000, 5_000], 0);
        let parts = [0, 1, 2, 3].map(|value| Part { value, core: 2 + value / 2, packets: 2_500 });
        let mut steps = Vec::new();
        burden.relieve(&parts, 64, &mut steps);
        assert_eq!((burden.own, steps.len()), (vec![3_500, 3_500, 2_500, 2_500], 2));
    }

    /// One core has an elephant, and keeps it. Of the others one has two parts too many, though it has less to do than that core.
    #[test]
    fn others_are_levelled_beside_an_elephant() {
        let mut burden = burden(&[1_000, 1_000, 1_000, 2_900, 3_000], 0);
        let mut parts: Vec<_> = (0..4).map(|value| Part { value, core: 3, packets: 700 }).collect();
        parts.push(Part { value: 4, core: 4, packets: 3_000 });
        burden.replay_sixteenths = 16;
        let mut steps = Vec::new();
        burden.relieve(&parts, 64, &mut steps);
        assert_eq!(burden.own, [1_700, 1_700, 1_000, 1_500, 3_000]);
        let to: Vec<_> = steps.iter().map(|(part, relief)| (part.core, *relief)).collect();
        assert_eq!(to, [(3, Relief::Move(0)), (3, Relief::Move(1))]);
        burden.relieve(&[], 64, &mut steps);
        assert!(steps.is_empty());
    }

    /// To replicate it, the sequencer would have as much to do as a core with one of them: half of what the core has for each.
    #[test]
    fn the_sequencer_bounds_what_is_replicated() {
        let mut burden = burden(&[1_000, 1_000, 1_000, 1_000, 1_000, 5_000, 5_000], 0);
        let parts = [5, 6].map(|core| Part { value: core, core, packets: 5_000 });
        let mut steps = Vec::new();
        let why_not = burden.relieve(&parts, 64, &mut steps);
        assert_eq!((burden.told, steps.len(), why_not), (0, 0, Some((parts[1], NoRelief::NoGain))));
        burden.own[5] = 1_000;
        burden.relieve(&parts[1..], 64, &mut steps);
        assert_eq!((burden.told, steps), (5_000, vec![(parts[1], Relief::Replicate)]));
    }

    /// To tell a packet takes the sequencer half of what a core takes for one of its own. With replays that take next to nothing
    /// (1/16), two elephants of 5,000 would leave 2,678 to each core, and 5,000 to the sequencer: as much as the busiest core has.
    #[test]
    fn the_sequencer_takes_half_a_packet_to_tell_one() {
        let mut burden =
            Burden { replay_sixteenths: 1, ..burden(&[1_000, 1_000, 1_000, 1_000, 1_000, 5_000, 5_000], 0) };
        let parts = [5, 6].map(|core| Part { value: core, core, packets: 5_000 });
        let mut steps = Vec::new();
        burden.relieve(&parts, 64, &mut steps);
        assert_eq!((burden.told, steps.len()), (0, 0));
        let told = |told| Burden { own: vec![0; 8], told, replay_sixteenths: 0 };
        assert_eq!([told(1_600).most(), told(16).most()], [800, 8]);
    }

    /// By hand, with replays that take a quarter. An elephant of 2,000 beside three cores with 1,000: replicated, it leaves
    /// (5,000 + 3 * 500) / 4 = 1,625 to each, 19% less. One of 2,500 leaves (5,500 + 3 * 625) / 4 = 1,843, 26% less.
    #[test]
    fn what_gains_less_than_a_quarter_is_not_replicated() {
        let (after, steps, _) = relieve(&[1_000, 1_000, 1_000, 2_000], &[2_000]);
        assert_eq!((after, steps.len()), (burden(&[1_000, 1_000, 1_000, 2_000], 0), 0));
        let (after, steps, _) = relieve(&[1_000, 1_000, 1_000, 2_500], &[2_500]);
        assert_eq!((after, steps), (burden(&[1_000, 1_000, 1_000, 0], 2_500), vec![(0, Relief::Replicate)]));
    }

    #[test]
    fn what_is_replicated_goes_back_where_a_core_has_room() {
        let with_room = burden(&[3_000, 3_000, 3_000, 1_000], 2_000);
        assert!(with_room.has_room_for(2_000), "to 3,000 each, and nothing to replay");
        assert!(
            !burden(&[2_000, 2_000, 2_000, 2_000], 4_000).has_room_for(4_000),
            "it is more than a core's mean"
        );
        assert!(!burden(&[3_000, 3_000, 3_000, 1_000], 0).has_room_for(0), "nothing is won");
    }

    proptest! {
        /// Steps leave the busiest core with less to do than it had, or if it keeps what it has the busiest of the others, and lose no packet.
        /// When the same comes again, there are none, and what was replicated has room nowhere.
        #[test]
        fn relief_lowers_the_most_that_a_core_has_to_do(
            all in prop::collection::vec((0..5usize, prop_oneof![1u64..50, 1u64..3_000]), 1..60),
            replay_sixteenths in 1u64..17,
        ) {
            let mut burden = Burden::none(5, replay_sixteenths);
            let mut parts = Vec::new();
            for (value, (core, packets)) in all.iter().copied().enumerate() {
                burden.own[core] += packets;
                parts.push(Part { value, core, packets });
            }
            let (all, mut steps, mut rounds) = (burden.all(), Vec::new(), 0);
            loop {
                let (before, at_first) = (burden.most(), burden.clone());
                burden.relieve(&parts, 8, &mut steps);
                if steps.is_empty() {
                    prop_assert_eq!(burden, at_first);
                    break;
                }
                let in_order = |burden: &Burden| {
                    let mut own = burden.own.clone();
                    own.sort_unstable_by_key(|packets| std::cmp::Reverse(*packets));
                    own
                };
                let is_level = burden.told == at_first.told && in_order(&burden) < in_order(&at_first);
                prop_assert!(burden.most() < before || is_level);
                prop_assert_eq!(burden.all(), all, "no packet is lost");
                for (part, relief) in &steps {
                    let of = parts.iter().position(|other| other.value == part.value).expect("a part");
                    prop_assert_eq!(parts[of], *part);
                    match relief {
                        Relief::Replicate => {
                            parts.swap_remove(of);
                        }
                        Relief::Move(core) => parts[of].core = *core,
                    }
                }
                rounds += 1;
                prop_assert!(rounds < 100, "it comes to an end");
            }
        }

        /// What goes back leaves no core with more to do than the busiest had.
        #[test]
        fn what_goes_back_is_no_burden(own in prop::collection::vec(0u64..5_000, 2..9), packets in 0u64..5_000, told in 0u64..5_000) {
            let before = burden(&own, told + packets);
            if before.has_room_for(packets) {
                let mut after = before.clone();
                let idlest = after.idlest();
                after.own[idlest] += packets;
                after.told -= packets;
                prop_assert!(after.most() < before.most());
            }
        }
    }
}
