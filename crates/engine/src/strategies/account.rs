//! What a strategy has to say of itself while it runs: who has what, what it decided last, and why.
//!
//! The thread that decides writes it where it decides, so never for each packet; any thread reads it. What has no bound is cut.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::{BUCKETS, Epoch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strategy::{Every, Look, Move, Watcher};
use telemetry::{ChoosingSnapshot, ObjectiveSnapshot, PromotionSnapshot, ShardSnapshot, StrategySnapshot};
use wire::Stamp;

/// Written by the thread that decides, read by any.
#[derive(Debug, Default)]
pub struct Account(Mutex<Told>);

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Told {
    /// The strategy that runs, which under `auto` is another one.
    pub runs: String,
    /// On how many cores.
    pub cores: usize,
    /// What has a core: `entry` of the indirection table, `shard`, `value` of the hash; empty where nothing has.
    pub unit: String,
    /// By entry or shard, who has it.
    pub places: Vec<Place>,
    /// By core, who steps what it offloads; empty where none can.
    pub offloaders: Vec<Option<u16>>,
    /// Looks at the loads so far, whether anything changed or not.
    pub looks: u64,
    /// Entries or shards that were given to other cores so far.
    pub moves: u64,
    /// How often another part of a shard came to be offloaded.
    pub ratio_changes: u64,
    /// The last look.
    pub last_look: Option<Decision>,
    /// The last look that changed something.
    pub last_change: Option<Decision>,
    /// The objective of the chain file, under `dyssect`.
    pub objective: Option<ObjectiveTold>,
    /// The solver that decides in place of the greedy one, under `dyssect`.
    pub solver: Option<SolverTold>,
    /// Packets by class, under `dyssect` where the chain file has classes.
    pub priority: Option<PriorityTold>,
    /// Under `hybrid`.
    pub promotion: Option<PromotionTold>,
    /// Under `auto`.
    pub choosing: Option<ChoosingTold>,
}

/// Who has an entry or a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The core.
    pub core: u16,
    /// How many of the 64 buckets of a shard another core steps.
    pub offloaded: u8,
    /// Which these are: bucket *b* is one of them where *b* xor `mask` is less than `offloaded`.
    pub mask: u8,
    /// How often it has gone to another core.
    pub moves: u64,
    /// The number of the first packet of its core, from 1; 0 if it has had no other core.
    pub since_packet: u64,
    /// When that came, ns since 1970.
    pub since_ns: u64,
}

/// A look at the loads, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Ahead of this packet, numbered from 1.
    pub packet: u64,
    /// When that came, ns since 1970.
    pub time_ns: u64,
    /// `loads`; `objective` of the chain file; `cores`: another number of cores gets packets; `forced`: at random.
    pub why: String,
    /// Packets by core: what was looked at.
    pub loads: Vec<u64>,
    /// Packets by core, had it been decided before.
    pub loads_after: Vec<u64>,
    /// What goes to another core: the first 32.
    pub moves: Vec<Moved>,
    /// How many go.
    pub moved: usize,
    /// Shards of which another part is offloaded.
    pub ratios: Vec<RatioChange>,
}

/// An entry or a shard goes to another core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Its number.
    pub entry: u16,
    /// The core that had it.
    pub from: u16,
    /// The core that has it now.
    pub to: u16,
    /// Packets in what was looked at.
    pub packets: u64,
}

/// Another part of a shard is offloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RatioChange {
    /// The shard.
    pub shard: u16,
    /// How many of its 64 buckets were offloaded.
    pub from: u8,
    /// How many are.
    pub to: u8,
    /// Whether they are counted in another order from now on, so that other buckets are the first ones.
    pub is_reordered: bool,
}

/// The objective of the chain file, and how far the model is from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveTold {
    /// How long 99 in 100 packets may wait, µs; where there are classes, of those with priority, as in all that follows.
    pub p99_us: f64,
    /// How long they wait on the busiest core by the model that decides (M/M/1), µs; null where that has no end.
    pub predicted_p99_us: Option<f64>,
    /// How long 99 in 100 packets of the last period waited at most from their stamp until their core began with their batch, µs, of all classes;
    /// null where packets bring their times along, as those of a capture.
    pub measured_p99_us: Option<f64>,
    /// What a packet takes in the mean, ns.
    pub service_ns: f64,
    /// The share of its time that the busiest core is used, where there are classes of those with shards.
    pub utilisation: f64,
    /// The most that one may be.
    pub most: f64,
    /// Cores that are used.
    pub used: usize,
    /// Over the whole run.
    pub so_far: ObjectiveTally,
}

/// How an objective was kept, period by period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveTally {
    /// Periods in which it was known how long packets take.
    pub periods: u64,
    /// Those at whose end it was kept, as measured, or where packets bring their times along by the model.
    pub kept: u64,
    /// The fewest cores that were used.
    pub fewest: usize,
    /// The most.
    pub most: usize,
    /// In the mean.
    pub mean: f64,
}

impl ObjectiveTally {
    /// Another period is over.
    pub(crate) fn add(&mut self, is_kept: bool, used: usize) {
        self.fewest = if self.periods == 0 { used } else { self.fewest.min(used) };
        self.most = self.most.max(used);
        self.mean = (self.mean * self.periods as f64 + used as f64) / (self.periods + 1) as f64;
        self.periods += 1;
        self.kept += u64::from(is_kept);
    }
}

/// A solver on a thread of its own, and how it did: it is asked once a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SolverTold {
    /// Its name.
    pub name: String,
    /// Placements that it found and that came into force.
    pub answers: u64,
    /// Questions without an answer by the deadline, or with none at all: the old placement stayed in force.
    pub missed: u64,
    /// Answers to questions that had been overtaken: cores had been parked, or shards moved or pinned by hand.
    pub overtaken: u64,
    /// Answers that cannot be carried out: a fault of the solver.
    pub refused: u64,
}

/// Packets by class. Those with priority are stepped by the core that has their shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PriorityTold {
    /// Packets so far, up to the last look.
    pub packets: u64,
    /// Those of them with priority.
    pub with_priority: u64,
    /// By core, packets with priority of the last period.
    pub loads: Vec<u64>,
}

/// What is promoted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromotionTold {
    /// Promotions so far.
    pub promotions: u64,
    /// Demotions so far.
    pub demotions: u64,
    /// Demotions among these to another core than the flows came from.
    pub moves: u64,
    /// Packets of the last period.
    pub packets: u64,
    /// Packets among these of promoted values.
    pub told: u64,
    /// By core, packets of that period that are not of promoted values.
    pub loads: Vec<u64>,
    /// What is promoted now.
    pub promoted: Vec<Promoted>,
    /// Values that went to another core and are there, or went from there when they were promoted.
    pub moved: Vec<MovedValue>,
    /// The largest value of the busiest core that is not, and why.
    pub next: Option<NotPromoted>,
}

/// A value of the hash that is promoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promoted {
    /// The value.
    pub value: u16,
    /// Its packets in the last period.
    pub packets: u64,
    /// Ahead of which packet it was promoted, numbered from 1.
    pub since_packet: u64,
    /// When that came, ns since 1970.
    pub since_ns: u64,
}

/// A value of the hash that has gone to another core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedValue {
    /// The value.
    pub value: u16,
    /// The core that has its flows.
    pub core: u16,
    /// Ahead of which packet it went there, numbered from 1.
    pub since_packet: u64,
    /// When that came, ns since 1970.
    pub since_ns: u64,
}

/// A value of the hash that is not promoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotPromoted {
    /// The value.
    pub value: u16,
    /// Its core.
    pub core: u16,
    /// Its packets in the last period.
    pub packets: u64,
    /// Why.
    pub why: Why,
}

/// Why a value is not promoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It has less than an eighth of a core's mean.
    #[default]
    Small,
    /// To replay its packets would take as much as its core has less.
    NoGain,
    /// As many are promoted as can be.
    Full,
    /// As many changes were made at once as may be.
    Enough,
}

/// What `auto` decides by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChoosingTold {
    /// Changes of strategy or cores so far.
    pub changes: u64,
    /// Epochs so far that had packets enough to tell.
    pub epochs: u64,
    /// Ahead of which packet what runs began, numbered from 1.
    pub since_packet: u64,
    /// What it promised, million packets per second; null of what ran first.
    pub predicted_mpps: Option<f64>,
    /// What was promised of what ran before, million packets per second.
    pub before_mpps: Option<f64>,
    /// The rate of its first epoch if the busiest core had had no pause; null before that is over.
    pub measured_mpps: Option<f64>,
    /// What a packet costs its core, ns; null before it was measured.
    pub packet_ns: Option<f64>,
    /// What a packet of another core costs a replica, ns; null before it was measured.
    pub replay_ns: Option<f64>,
    /// What each choice is predicted to do now.
    pub candidates: Vec<CandidateTold>,
    /// What promises enough more to change to, and in how many epochs, one after the other.
    pub ahead: Option<(String, u32)>,
    /// What it has to promise more, as a share, and in how many epochs.
    pub hysteresis: (f64, u32),
}

/// A choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateTold {
    /// The strategy.
    pub strategy: String,
    /// On how many cores.
    pub cores: usize,
    /// Million packets per second.
    pub predicted_mpps: f64,
}

/// Moves that a decision tells one by one.
const MOVES: usize = 32;

impl Account {
    /// What it says now.
    pub fn told(&self) -> Told {
        self.lock().clone()
    }

    /// Changes what it says.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.lock());
    }

    /// A strategy begins to run, with entries or shards at these cores. Counters go on.
    pub(crate) fn begin(&self, runs: &str, cores: usize, unit: &str, owners: &[u16]) {
        let place = |core: &u16| Place { core: *core, ..Place::default() };
        self.tell(|told| {
            (told.runs, told.cores, told.unit) = (runs.to_owned(), cores, unit.to_owned());
            told.places = owners.iter().map(place).collect();
            told.offloaders.clear();
            (told.last_look, told.last_change, told.objective, told.solver) = (None, None, None, None);
            told.promotion.iter_mut().for_each(|promotion| {
                promotion.promoted.clear();
                promotion.moved.clear();
            });
        });
    }

    /// Entries or shards have gone, from the packet with this stamp on.
    pub(crate) fn moved(&self, moves: &[Move], stamp: Stamp) {
        self.tell(|told| moves.iter().for_each(|moved| told.moved(*moved, stamp)));
    }

    /// A watcher that writes each look at the indirection table into this account.
    pub(crate) fn watcher(self: &Arc<Account>) -> Watcher {
        let account = Arc::clone(self);
        Arc::new(move |look| account.tell(|told| told.looked(Decision::of_entries(&look))))
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    pub(crate) fn moved(&mut self, Move { entry, to, .. }: Move, stamp: Stamp) {
        self.moves += 1;
        if let Some(place) = self.places.get_mut(usize::from(entry)) {
            (place.core, place.moves) = (to, place.moves + 1);
            (place.since_packet, place.since_ns) = (stamp.seq + 1, stamp.time_ns);
        }
    }

    pub(crate) fn looked(&mut self, decision: Decision) {
        self.looks += 1;
        if decision.moved > 0 || !decision.ratios.is_empty() {
            self.last_change = Some(decision.clone());
        }
        self.last_look = Some(decision);
    }

    /// An epoch of `auto` ended, in which so much was measured.
    pub(crate) fn epoch(&mut self, epoch: &Epoch) {
        let choosing = self.choosing.get_or_insert_default();
        if epoch.measured_mpps.is_some() {
            choosing.epochs += 1;
            choosing.measured_mpps = choosing.measured_mpps.or(epoch.measured_mpps);
        }
    }
}

/// For metrics.
impl Told {
    /// The snapshot for metrics, but for what the strategy does not know.
    pub(crate) fn snapshot(&self) -> StrategySnapshot {
        let shard = |place: &Place| ShardSnapshot {
            core: place.core.into(),
            offloaded: f64::from(place.offloaded) / f64::from(BUCKETS),
        };
        let has_shards = self.unit == "shard";
        let promotion = |told: &PromotionTold| PromotionSnapshot {
            values: told.promoted.len(),
            promotions: told.promotions,
            demotions: told.demotions,
            share: told.told as f64 / told.packets.max(1) as f64,
        };
        let choosing = |told: &ChoosingTold| ChoosingSnapshot {
            changes: told.changes,
            predicted_mpps: told.predicted_mpps,
            measured_mpps: told.measured_mpps,
            candidates: told
                .candidates
                .iter()
                .map(|told| (told.strategy.clone(), told.cores, told.predicted_mpps))
                .collect(),
        };
        StrategySnapshot {
            runs: self.runs.clone(),
            cores: self.cores,
            active_cores: None,
            looks: self.looks,
            moves: self.moves,
            updates: None,
            shards: if has_shards { self.places.iter().map(shard).collect() } else { Vec::new() },
            roles: if has_shards { self.roles() } else { Vec::new() },
            ratio_changes: self.ratio_changes,
            priority: self.priority.as_ref().map(|told| told.loads.clone()).unwrap_or_default(),
            objective: self.objective.map(|told| ObjectiveSnapshot {
                p99_seconds: told.p99_us / 1e6,
                predicted_p99_seconds: told.predicted_p99_us.map(|us| us / 1e6),
                measured_p99_seconds: told.measured_p99_us.map(|us| us / 1e6),
                utilisation: told.utilisation,
                most: told.most,
            }),
            promotion: self.promotion.as_ref().map(promotion),
            choosing: self.choosing.as_ref().map(choosing),
        }
    }

    /// By core, whether it has shards, and whether it steps flows of another's.
    pub fn roles(&self) -> Vec<(bool, bool)> {
        let mut roles = vec![(false, false); self.cores];
        for Place { core, offloaded, .. } in &self.places {
            let core = usize::from(*core);
            roles.get_mut(core).into_iter().for_each(|role| role.0 = true);
            let offloader = self.offloaders.get(core).copied().flatten().filter(|_| *offloaded > 0);
            if let Some(role) = offloader.and_then(|core| roles.get_mut(usize::from(core))) {
                role.1 = true;
            }
        }
        roles
    }
}

impl Decision {
    /// The decision of a look at the indirection table.
    fn of_entries(look: &Look<'_>) -> Decision {
        let why = why(look.every);
        Decision::new(look.stamp, why, look.loads, (look.before, look.after))
    }

    /// What was decided of entries or shards with so many packets.
    pub(crate) fn new(
        stamp: Stamp,
        why: &str,
        packets: &[u64],
        (before, after): (&[u16], &[u16]),
    ) -> Decision {
        let cores = before.iter().chain(after).map(|core| usize::from(*core) + 1).max().unwrap_or(0);
        let loads = |owners: &[u16]| {
            let mut loads = vec![0; cores];
            owners.iter().zip(packets).for_each(|(core, packets)| loads[usize::from(*core)] += packets);
            loads
        };
        let pairs = before.iter().zip(after).zip(packets).enumerate();
        let moves = pairs.filter(|(_, ((from, to), _))| from != to).map(|(entry, ((from, to), packets))| {
            Moved { entry: entry as u16, from: *from, to: *to, packets: *packets }
        });
        Decision {
            packet: stamp.seq + 1,
            time_ns: stamp.time_ns,
            why: why.to_owned(),
            loads: loads(before),
            loads_after: loads(after),
            moved: moves.clone().count(),
            moves: moves.take(MOVES).collect(),
            ratios: Vec::new(),
        }
    }
}

/// What asked for a decision.
pub(crate) fn why(every: Every) -> &'static str {
    match every {
        Every::Period(_) => "loads",
        Every::Packets(_) => "forced",
        Every::Never => "cores",
    }
}
