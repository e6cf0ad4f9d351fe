//! RSS++: entries of the indirection table move between cores as the load asks for.

use std::sync::Arc;

use control::Balancer;
use nf::hash_bytes;
use wire::{Headers, Stamp};

use crate::active::share_out;
use crate::{ActiveCores, Assign, Every, Move, Pins, Rebalancing, Rss, Schedule};

/// RSS++ (Barbette et al., CoNEXT'19): receive-side scaling whose indirection table follows the load. Each entry's
/// packets are counted, and every so often entries go from loaded cores to others: see [`Balancer`].
#[derive(Clone)]
pub struct RssPlusPlus {
    rss: Rss,
    active: ActiveCores,
    /// Cores that have entries.
    cores: usize,
    rebalancing: Rebalancing,
    balancer: Balancer,
    /// Packets of the period at hand, by entry.
    loads: Box<[u64]>,
    schedule: Schedule,
    /// What has been decided and is not in force: from when on, and all owners.
    decided: Option<(u64, Box<[u16]>)>,
    moves: Vec<Move>,
    pins: Pins,
    watcher: Option<Watcher>,
}

/// What was looked at where entries were to go to other cores, or not.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The stamp of the packet ahead of which it was.
    pub stamp: Stamp,
    /// What had been asked for: the loads' period, moves at random, or another number of cores (`Never`).
    pub every: Every,
    /// Packets by entry since the look before.
    pub loads: &'a [u64],
    /// By entry, its core.
    pub before: &'a [u16],
    /// By entry, the core that is to have it.
    pub after: &'a [u16],
    /// How many cores there are.
    pub cores: usize,
}

/// A function that is told of each look.
pub type Watcher = Arc<dyn Fn(Look<'_>) + Send + Sync>;

impl RssPlusPlus {
    /// Begins as [`Rss`] does, on `cores` cores; from the first packet on those that are `active` have entries.
    pub fn new(rss: Rss, cores: usize, active: ActiveCores, rebalancing: Rebalancing) -> RssPlusPlus {
        let entries = rss.indirection().len();
        RssPlusPlus {
            rss,
            active,
            cores,
            rebalancing,
            balancer: Balancer::default(),
            loads: vec![0; entries].into(),
            schedule: Schedule::new(rebalancing.every),
            decided: None,
            moves: Vec::with_capacity(entries),
            pins: Pins::new(0),
            watcher: None,
        }
    }

    /// With entries that an operator may pin to a core.
    pub fn with_pins(self, pins: Pins) -> RssPlusPlus {
        RssPlusPlus { pins, ..self }
    }

    /// With a watcher that is told of each look.
    pub fn with_watcher(self, watcher: Watcher) -> RssPlusPlus {
        RssPlusPlus { watcher: Some(watcher), ..self }
    }

    /// Counts packets of an entry that were received where nobody asks for the [core](Assign::core) of each.
    pub fn count(&mut self, entry: u16, packets: u64) {
        self.loads[usize::from(entry)] += packets;
        self.schedule.count_all(packets);
    }

    /// Gives entries to these owners, at once. What was decided before is forgotten.
    pub fn give(&mut self, owners: &[u16]) -> &[Move] {
        self.moves.clear();
        self.decided = None;
        self.put_in_force(owners);
        &self.moves
    }

    fn tell(&self, stamp: Stamp, every: Every, after: &[u16]) {
        if let Some(watcher) = &self.watcher {
            let (loads, before) = (&*self.loads, self.rss.indirection());
            watcher(Look { stamp, every, loads, before, after, cores: self.cores });
        }
    }

    #[cold]
    fn decide(&mut self, stamp: Stamp) {
        let mut owners: Box<[u16]> = self.rss.indirection().into();
        let every = self.rebalancing.every;
        if matches!(every, Every::Packets(_) | Every::Never) {
            self.shuffle(&mut owners, stamp.seq);
        }
        self.balancer.pinned = self.pins.put(&mut owners, self.cores);
        if matches!(every, Every::Period(_)) {
            self.balancer.rebalance(&mut owners, &self.loads, self.cores);
        }
        self.tell(stamp, every, &owners);
        self.loads.fill(0);
        self.decided = Some((stamp.time_ns.saturating_add(self.rebalancing.update_latency_ns), owners));
    }

    /// Other cores are to get packets, at once. What was decided for those before is forgotten.
    #[cold]
    fn change_cores(&mut self, cores: usize, stamp: Stamp) {
        (self.cores, self.decided) = (cores, None);
        let mut owners: Box<[u16]> = self.rss.indirection().into();
        share_out(&mut owners, cores);
        self.tell(stamp, Every::Never, &owners);
        self.put_in_force(&owners);
    }

    /// A quarter of the entries, more or less, each to any core.
    fn shuffle(&self, owners: &mut [u16], seed: u64) {
        for (entry, owner) in owners.iter_mut().enumerate() {
            let draw = hash_bytes(&(entry as u64).to_le_bytes(), seed);
            if draw.is_multiple_of(4) {
                *owner = ((draw >> 8) % self.cores as u64) as u16;
            }
        }
    }

    #[cold]
    fn put_in_force(&mut self, owners: &[u16]) {
        let pairs =
            self.rss.indirection().iter().zip(owners).enumerate().filter(|(_, (from, to))| from != to);
        self.moves.extend(pairs.map(|(entry, (from, to))| Move {
            entry: entry as u16,
            from: *from,
            to: *to,
        }));
        self.rss.indirection_mut().copy_from_slice(owners);
    }
}

impl Assign for RssPlusPlus {
    #[inline]
    fn entry(&self, headers: &Headers) -> u16 {
        self.rss.entry(headers)
    }

    #[inline]
    fn core(&mut self, entry: u16) -> usize {
        self.loads[usize::from(entry)] += 1;
        self.schedule.count();
        self.rss.core(entry)
    }

    #[inline]
    fn moves(&mut self, stamp: Stamp) -> &[Move] {
        self.moves.clear();
        let active = self.active.at(stamp.seq);
        if active != self.cores {
            self.change_cores(active, stamp);
            return &self.moves;
        }
        // A decision that is not in force is not overtaken by the next.
        if self.schedule.is_due(stamp.time_ns) && self.decided.is_none() {
            self.decide(stamp);
        }
        if let Some((_, owners)) = self.decided.take_if(|(from_ns, _)| *from_ns <= stamp.time_ns) {
            self.put_in_force(&owners);
        }
        &self.moves
    }
}

#[cfg(test)]
mod tests {
    use nf::{FlowKey, SrcAddr};
    use wire::Fields;

    use super::*;
    use crate::{FunctionShape, HashFields};

    fn rsspp(cores: usize, rebalancing: Rebalancing) -> RssPlusPlus {
        let shape = FunctionShape {
            name: "f",
            sharding: SrcAddr::SHARDING,
            edits: Fields::empty(),
            has_sides: false,
        };
        let fields = HashFields::derive(&[shape]).expect("one function");
        RssPlusPlus::new(Rss::new(fields, cores, 128), cores, ActiveCores::new(cores), rebalancing)
    }

    fn stamp(seq: u64, time_ns: u64) -> Stamp {
        Stamp { seq, time_ns }
    }

    /// Entries 0, 2, 4, 6 are core 0's at first. All packets are theirs, so two of them go.
    #[test]
    fn a_loaded_core_gives_entries_away_at_the_end_of_a_period() {
        let rebalancing = Rebalancing { every: Every::Period(1_000), update_latency_ns: 300 };
        let mut rsspp = rsspp(2, rebalancing);
        for seq in 0..100 {
            assert_eq!(rsspp.moves(stamp(seq, 50 + 9 * seq)), []);
            assert_eq!(rsspp.core([0, 2, 4, 6][seq as usize % 4]), 0);
        }
        assert_eq!(rsspp.moves(stamp(100, 1_050)), [], "decided, and not yet in force");
        assert_eq!(rsspp.moves(stamp(101, 1_349)), []);
        let moves = rsspp.moves(stamp(102, 1_350)).to_vec();
        assert_eq!(moves.len(), 2, "{moves:?}");
        assert!(moves.iter().all(|moved| (moved.from, moved.to) == (0, 1)));
        assert_eq!(rsspp.core(moves[0].entry), 1);
        assert_eq!(rsspp.moves(stamp(103, 1_351)), []);
    }

    /// Loads as in the test before. Entry 0 is pinned to core 0, and entry 1, of core 1, is to go there once: then the balancer may take it
    /// away again.
    #[test]
    fn what_is_pinned_stays_whatever_the_loads() {
        let rebalancing = Rebalancing { every: Every::Period(1_000), update_latency_ns: 0 };
        let pins = Pins::new(128);
        let looks = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&looks);
        let mut rsspp =
            rsspp(2, rebalancing).with_pins(pins.clone()).with_watcher(Arc::new(move |look: Look<'_>| {
                seen.lock().expect("no panic").push((look.loads[0], look.before[1], look.after[1]));
            }));
        pins.pin(0, 0);
        pins.move_once(1, 0);
        let mut moves = Vec::new();
        for seq in 0..300 {
            moves.extend(rsspp.moves(stamp(seq, 50 + 20 * seq)).iter().copied());
            rsspp.core([0, 0, 0, 1][seq as usize % 4]);
        }
        let first = moves.iter().find(|moved| moved.entry == 1).copied();
        assert_eq!(first, Some(Move { entry: 1, from: 1, to: 0 }));
        assert!(moves.iter().any(|moved| moved.entry == 1 && moved.to == 1), "{moves:?}");
        assert!(moves.iter().all(|moved| moved.entry != 0), "{moves:?}");
        let looks = looks.lock().expect("no panic");
        assert_eq!(looks[0], (38, 1, 0), "{looks:?}");
    }

    /// Entries 0 and 2 are core 0's, 1 is core 1's. One of the two goes, whether packets were asked for one by one or counted.
    #[test]
    fn packets_that_are_counted_are_loads() {
        let period = Rebalancing { every: Every::Period(1_000), update_latency_ns: 0 };
        let mut rsspp = rsspp(2, period);
        assert_eq!(rsspp.moves(stamp(0, 0)), []);
        rsspp.count(0, 50);
        rsspp.count(2, 50);
        let moves = rsspp.moves(stamp(100, 1_000)).to_vec();
        assert_eq!(moves.len(), 1, "{moves:?}");
        // What was counted in a period says nothing of the next.
        rsspp.count(1, 10);
        assert_eq!(rsspp.moves(stamp(110, 2_000)), []);
        // Packets that are counted count for moves by packets, too.
        let mut rsspp = self::rsspp(2, Rebalancing { every: Every::Packets(10), update_latency_ns: 0 });
        rsspp.count(0, 9);
        assert_eq!(rsspp.moves(stamp(9, 0)), []);
        rsspp.count(0, 1);
        assert_ne!(rsspp.moves(stamp(10, 0)), []);
    }

    #[test]
    fn entries_are_given_at_once_and_what_was_decided_is_forgotten() {
        let mut rsspp = rsspp(2, Rebalancing { every: Every::Packets(10), update_latency_ns: 500 });
        rsspp.count(0, 10);
        assert_eq!(rsspp.moves(stamp(10, 0)), [], "decided, and not yet in force");
        let mut owners: Vec<u16> = (0..128).map(|entry| entry % 2).collect();
        owners[4] = 1;
        assert_eq!(rsspp.give(&owners), [Move { entry: 4, from: 0, to: 1 }]);
        assert_eq!(rsspp.core(4), 1);
        assert_eq!(rsspp.moves(stamp(11, 500)), []);
    }

    #[test]
    fn packets_hash_to_the_entries_of_receive_side_scaling() {
        let rsspp = rsspp(2, Rebalancing { every: Every::Never, update_latency_ns: 0 });
        let mut seen = std::collections::BTreeSet::new();
        for last in 0..100 {
            let headers = Headers {
                src: wire::Addr::v4([192, 0, 2, last]),
                marks: wire::Marks::IPV4,
                ..Headers::default()
            };
            assert_eq!(rsspp.entry(&headers), rsspp.rss.entry(&headers));
            seen.insert(rsspp.entry(&headers));
        }
        assert!(seen.len() > 30, "{seen:?}");
    }

    #[test]
    fn a_core_that_is_parked_gives_all_its_entries_at_once() {
        let mut rsspp = rsspp(2, Rebalancing { every: Every::Never, update_latency_ns: 500 });
        let active = rsspp.active.clone();
        assert_eq!(rsspp.moves(stamp(0, 0)), []);
        active.set(1);
        let moves = rsspp.moves(stamp(1, 0)).to_vec();
        let all: Vec<Move> = (0..64).map(|number| Move { entry: 2 * number + 1, from: 1, to: 0 }).collect();
        assert_eq!(moves, all);
        assert_eq!(rsspp.moves(stamp(2, 0)), []);
        active.set(2);
        assert_eq!(rsspp.moves(stamp(3, 0)).len(), 64);
    }

    #[test]
    fn forced_moves_come_at_their_packets_and_repeat() {
        let rebalancing = Rebalancing { every: Every::Packets(10), update_latency_ns: 0 };
        let run = || {
            let mut rsspp = rsspp(4, rebalancing);
            let mut all = Vec::new();
            for seq in 0..100 {
                let moves = rsspp.moves(stamp(seq, 7)).to_vec();
                assert_eq!(moves.is_empty(), !seq.is_multiple_of(10) || seq == 0, "packet {seq}");
                all.extend(moves);
                rsspp.core(seq as u16 % 128);
            }
            all
        };
        assert_eq!(run(), run());
        let core = |wanted| run().iter().filter(|moved| moved.to == wanted).count();
        let to = [0, 1, 2, 3].map(core);
        assert!(to.iter().all(|moves| *moves > 30) && to.iter().sum::<usize>() == run().len(), "{to:?}");
        assert!(run().len() > 9 * 10, "a quarter of 128 entries at 9 times, three in four of them elsewhere");
    }
}
