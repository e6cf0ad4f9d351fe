//! What a strategy is expected to do with some traffic: the model of it by which `auto` and `plan` choose.
//!
//! A strategy says which model is its own; one from outside brings its own [`RateModel`]. Those of the stock strategies are here, since
//! their formulas are those of [`Costs`].

use std::fmt;

use crate::throughput::{Costs, busiest_shares, promoted_shares, shards_share};

/// What a strategy is expected to do, and what can be learnt of costs while it runs.
pub struct RateModel {
    /// The strategy's name. Models with one name are one.
    pub name: &'static str,
    /// What the time tells that cores spend under it.
    pub learning: Learning,
    /// The rate on so many cores, million packets per second, if flows are where they should be, to move them costs nothing,
    /// and packets come evenly.
    pub mpps: fn(&Load<'_>, usize) -> f64,
}

/// What the time of cores tells under a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// What a packet costs: cores step their own packets alone, and no flow moves.
    Packets,
    /// Nothing that lasts: cores step their own packets, and what it takes to move flows is in their time.
    Moves,
    /// What a packet of another core costs: each core steps the packets of all.
    Replays {
        /// Whether a core also writes the history of its own packets.
        writes_history: bool,
    },
    /// What a packet of a few flows costs on the other cores: those flows are replicated, all others stay on one core.
    Promotions,
}

/// What a rate is predicted from.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// What packets cost.
    pub costs: Costs,
    /// What a packet of a replicated flow costs another core, ns, where that has been measured apart.
    pub told_ns: Option<f64>,
    /// Packets by entry of the indirection table.
    pub packets: &'a [u64],
    /// What a replay is taken for where flows are promoted, in sixteenths of a packet's time: see
    /// [`replay_sixteenths`](crate::replay_sixteenths).
    pub replay_sixteenths: u64,
}

impl Load<'_> {
    /// The core of each entry as long as none moves: entries go to the cores in turn.
    pub fn owners(&self, cores: usize) -> Vec<u16> {
        (0..self.packets.len()).map(|entry| (entry % cores) as u16).collect()
    }

    /// Share of the packets of the busiest of so many cores, 0 to 1, where `owners` has the core of each entry.
    ///
    /// # Panics
    /// If there are not as many owners as entries, or an owner is no core.
    pub fn busiest_share(&self, owners: &[u16], cores: usize) -> f64 {
        crate::throughput::busiest_share(owners, self.packets, cores)
    }

    /// Share of the busiest of so many cores, under `rss` and under `rsspp`.
    pub fn shares(&self, cores: usize) -> (f64, f64) {
        busiest_shares(&mut self.owners(cores), self.packets, cores)
    }

    /// What `hybrid` comes to on so many cores: see [`promoted_shares`].
    pub fn promoted(&self, cores: usize) -> (f64, f64) {
        promoted_shares(&self.owners(cores), self.packets, cores, self.replay_sixteenths)
    }
}

impl PartialEq for RateModel {
    fn eq(&self, other: &RateModel) -> bool {
        self.name == other.name
    }
}

impl Eq for RateModel {}

impl fmt::Debug for RateModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// One core gets all packets.
pub static SINGLE: RateModel =
    RateModel { name: "single", learning: Learning::Packets, mpps: |load, _| load.costs.single_mpps() };

/// A hash picks the core.
pub static RSS: RateModel = RateModel {
    name: "rss",
    learning: Learning::Packets,
    mpps: |load, cores| load.costs.sharded_mpps(load.shares(cores).0),
};

/// A hash picks the core, and entries of the indirection table follow the load.
pub static RSSPP: RateModel = RateModel {
    name: "rsspp",
    learning: Learning::Moves,
    mpps: |load, cores| load.costs.sharded_mpps(load.shares(cores).1),
};

/// A hash picks the core. Shards of flows follow the load, and cores have others step some of theirs.
pub static DYSSECT: RateModel = RateModel {
    name: "dyssect",
    learning: Learning::Moves,
    mpps: |load, cores| load.costs.sharded_mpps(shards_share(load.packets, cores)),
};

/// Packets go to cores in turn, and each core steps all of them.
pub static SCR: RateModel = RateModel {
    name: "scr",
    learning: Learning::Replays { writes_history: false },
    mpps: |load, cores| load.costs.scr_mpps(cores),
};

/// Packets go to cores in turn by one queue that all cores take them from, and each core steps all packets.
pub static SCR_TURNS: RateModel = RateModel {
    name: "scr-turns",
    learning: Learning::Replays { writes_history: true },
    mpps: |load, cores| load.costs.turns_mpps(cores),
};

/// A hash picks the core, but packets of the largest flows go to cores in turn, and each core steps all of those.
pub static HYBRID: RateModel = RateModel {
    name: "hybrid",
    learning: Learning::Promotions,
    mpps: |load, cores| {
        let replay_ns = load.told_ns.unwrap_or(load.costs.replay_ns);
        Costs { replay_ns, ..load.costs }.hybrid_mpps(cores, load.promoted(cores))
    },
};
