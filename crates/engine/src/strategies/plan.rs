//! The contract of strategies, and a chain's strategy with everything that follows from it.

use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use control::{BUCKETS, SolverKind};
use io::{replay, replay_in_any_order, replay_one_queue};
use strategy::{
    ActiveCores, Assign, Every, HashFields, INDIRECTION_ENTRIES, INDIRECTION_SIZES, Pins, Rebalancing,
    Tunables,
};
use table::OutOfMemory;
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::chain::keeping::{Entries, Keeping, Spread};
use crate::path::core::ChainCore;
use crate::path::moves::Counter;
use crate::path::parcel::ShardsHere;
use crate::strategies::account::Account;
use crate::strategies::card::CardLink;
use crate::strategies::changing::Changing;
use crate::strategies::dispatch::{OwnTeam, SteeredTeam, Team};
use crate::strategies::egress::{Egress, Replayed};
use crate::strategies::home;
use crate::strategies::info::StrategyInfo;
use crate::strategies::limits::{CARD_FLOWS, MAX_CORES, free_bytes};
use crate::strategies::refusal::{NoMove, NoOwnPorts, NoParking, PlanError};
use crate::strategies::rsspp::updates::Updates;

/// Values of a hash of which each has an entry of its own: as many as [`io::Frame::entry`] tells apart.
pub(crate) const HASH_VALUES: usize = 1 << 16;

/// The most entries of an indirection table.
const MOST_ENTRIES: usize = INDIRECTION_SIZES[INDIRECTION_SIZES.len() - 1];

/// A way to run one chain on several cores. A strategy is a folder of its own, and a line in
/// [`ALL`](crate::strategies::ALL); one from outside this crate is given to [`Plan::new`] as any other, and to a
/// program's commands in its list of strategies.
///
/// It says what it is ([`Strategy::info`]), where states are ([`Strategy::layout`]), which core gets a packet
/// ([`Strategy::assign`]), which core has each entry of the indirection table at first if flows migrate
/// ([`Strategy::owners`]), and which parts there are beside the chains ([`Strategy::team`]).
pub trait Strategy: Send + Sync {
    /// What it says of itself before there is a chain.
    fn info(&self) -> &'static StrategyInfo;

    /// [`StrategyInfo::name`].
    fn name(&self) -> &'static str {
        self.info().name
    }

    /// Where the states of `chain` are on `cores` cores.
    ///
    /// # Errors
    /// [`PlanError`] says why the chain cannot run so, and what would work.
    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError>;

    /// Which core gets a packet. Asked of a plan that [`Strategy::layout`] is in.
    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign>;

    /// Which core has each entry of the indirection table at first, if flows migrate between cores.
    fn owners(&self, _plan: &Plan) -> Option<Vec<u16>> {
        None
    }

    /// The core of each entry of the indirection table at first, if a packet's core follows from that and its hash alone, and
    /// the table stays as it is, or changes as [`Strategy::own_team`] has it: then a card or an XDP program that has both can
    /// spread packets.
    fn table(&self, _plan: &Plan) -> Option<Vec<u16>> {
        None
    }

    /// The dispatcher that sends packets to the cores, and what stands before each core's chain. A strategy under which
    /// cores hear of nothing but their own packets needs no team of its own.
    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        Team::plain(self.assign(chain, plan), plan.cores)
    }

    /// The team of cores that have ports of their own, where entries of the table move by which packets come to them; `None`
    /// where none move.
    fn own_team(&self, _chain: &Chain, _plan: &Plan) -> Option<OwnTeam> {
        None
    }

    /// The team behind a card that steers, where the strategy sends some packets past its sequencer; else `None`.
    fn steered_team(&self, _chain: &Chain, _plan: &Plan) -> Option<SteeredTeam> {
        None
    }

    /// Brings flows that have gone from core to core back to where the plan has them at first, so that another chain or
    /// strategy can take over. `last` is the stamp of the last packet that came; no core is at work.
    ///
    /// Unless a strategy says otherwise each flow goes to the core that [`Strategy::owners`] has for its entry.
    fn bring_home(&self, plan: &Plan, cores: &mut [ChainCore], last: Stamp) {
        if let Some(owners) = self.owners(plan) {
            home::bring_home(cores, &owners, last);
        }
    }

    /// The strategies that may run the chain, where this one [leaves it to others](StrategyInfo::has_others_run) and a program
    /// names no more: see [`Plan::candidates`].
    fn candidates(&self) -> Vec<&'static dyn Strategy> {
        Vec::new()
    }

    /// Which strategy runs the chain when, where this one [leaves it to others](StrategyInfo::has_others_run).
    ///
    /// Takes all memory that this needs beside what `cores` have, so that none is taken while packets come.
    fn changing(&self, _chain: &Chain, _plan: &Plan, _cores: &[ChainCore]) -> Option<Box<dyn Changing>> {
        None
    }
}

impl fmt::Debug for dyn Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Strategy {
    fn eq(&self, other: &dyn Strategy) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Strategy {}

impl Hash for dyn Strategy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// Where the states of a chain are.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// On which cores.
    pub states: States,
    /// What is hashed to pick a core, where the strategy hashes.
    pub hash_fields: Option<HashFields>,
    /// Functions, by index in the chain, whose states all cores share.
    pub shared: Vec<usize>,
    /// When flows migrate, where they do.
    pub rebalancing: Option<Rebalancing>,
    /// Shards that migrate whole, where they do.
    pub shards: Option<Shards>,
}

/// How packets are divided into shards: units with a table of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(u8);

impl Shards {
    /// The most shards: so that an entry's number is one of 16 bits.
    pub const MAX: usize = 1 << (16 - BUCKETS.trailing_zeros());

    /// So many shards; `None` if they are no power of two, or more than [`Shards::MAX`].
    pub fn new(shards: usize) -> Option<Shards> {
        let is_one = shards.is_power_of_two() && shards <= Shards::MAX;
        is_one.then_some(Shards(shards.trailing_zeros() as u8))
    }

    /// How many.
    pub fn count(self) -> usize {
        1 << self.0
    }

    /// How many entries a packet's hash may point to: buckets of all shards.
    pub fn entries(self) -> usize {
        self.count() * usize::from(BUCKETS)
    }

    /// What all tables of `chain` take; the states of `shared` functions are elsewhere.
    pub(crate) fn table_bytes(self, chain: &Chain, shared: &[usize]) -> u64 {
        self.chain(chain).table_bytes(2 * self.count(), shared)
    }

    /// `chain` with tables as each part of a shard has them.
    fn chain(self, chain: &Chain) -> Chain {
        let mut chain = chain.clone();
        let of_each = |flows| ShardsHere::flows_of_each(self.count(), flows);
        chain.functions.iter_mut().for_each(|spec| spec.flows = of_each(spec.flows));
        chain
    }
}

impl Default for Shards {
    /// 16, as in the paper (Dyssect §IV-B).
    fn default() -> Shards {
        Shards(4)
    }
}

/// On which cores states are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum States {
    /// Each core has the states of its own packets' flows, but for functions whose states are shared.
    #[default]
    Private,
    /// All cores have one table for each group of functions, in stripes.
    Striped,
    /// Each core has the states of its own packets' flows, and beside them all cores have the states of a few
    /// flows, whose packets all of them step.
    PartlyReplicated,
    /// Each core has all states: it steps the packets of all.
    Replicated,
    /// Private or replicated, as the strategy changes that others run under: see [`Strategy::changing`].
    Changing,
}

/// Which solver decides in place of the greedy one, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Solving {
    /// Which.
    pub kind: SolverKind,
    /// From a question to its answer, in real time. What comes later is not used.
    pub deadline: Duration,
}

/// A chain's strategy with everything that follows from it, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategy.
    pub strategy: &'static dyn Strategy,
    /// How many cores.
    pub cores: usize,
    /// On which cores states are.
    pub states: States,
    /// What is hashed to pick a core, where the strategy hashes.
    pub hash_fields: Option<HashFields>,
    /// Functions, by index in the chain, whose states all cores share: under `shared` all that have any; else
    /// those whose keys no hash keeps on one core, see [`nf::WhenShared`], which for most chains are none.
    pub shared: Vec<usize>,
    /// Whether each core's tables keep where the states of [`Plan::shared`] are: FAJITA's auxiliary tables (§3 ③). Without
    /// them every packet searches what all cores share; answers stay, and what they are worth is measured so.
    pub has_auxiliary_tables: bool,
    /// Entries of the indirection table, one of [`strategy::INDIRECTION_SIZES`].
    pub indirection_entries: usize,
    /// When flows go from core to core, where the strategy has them move.
    pub rebalancing: Option<Rebalancing>,
    /// Shards that go from core to core whole, where the strategy has such.
    pub shards: Option<Shards>,
    /// Flows that a card looks up for cores, where they have shards: the largest ones, 0 for none. Over a capture the card is
    /// simulated.
    pub card_flows: usize,
    /// Who decides which core has which shard, where it is not the greedy solver.
    pub solving: Option<Solving>,
    /// The card that is outside, before the port of a live run; without one no flows are looked up there.
    pub card: Option<CardLink>,
    /// How many cores get packets, where that may change.
    pub active: ActiveCores,
    /// How long it takes until entries that move are on their new core: where [`Plan::moves_entries`].
    pub updates: Arc<Updates>,
    /// What the strategy has to say of itself while it runs.
    pub account: Arc<Account>,
    /// Entries or shards that an operator put on a core by hand.
    pub pins: Pins,
    /// Whether each core has a port of its own: see [`Plan::with_own_ports`].
    pub has_own_ports: bool,
    /// In which order packets leave.
    pub egress: Egress,
    /// The seed of a simulation: cores over a capture take turns on one thread, in an order drawn from it. Without one each core
    /// has a thread.
    pub simulation: Option<u64>,
    /// The number of the first packet that comes; not 0 where the chain replaces another, which had those before.
    pub first: u64,
    /// The strategies among which one chooses that [has others run](StrategyInfo::has_others_run) the chain; at first
    /// [`Strategy::candidates`].
    pub candidates: Vec<&'static dyn Strategy>,
    /// The values of [`StrategyInfo::tunables`].
    pub tunables: Tunables,
}

impl Plan {
    /// Checks that `chain` can run under `strategy` on `cores` cores.
    ///
    /// # Errors
    /// [`PlanError`] says why it cannot, and what would work.
    pub fn new(chain: &Chain, strategy: &'static dyn Strategy, cores: usize) -> Result<Plan, PlanError> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(PlanError::Cores { cores });
        }
        let plan = Plan::unchecked(strategy, cores, strategy.layout(chain, cores)?);
        let need_bytes = plan.need_bytes(chain);
        match free_bytes().filter(|free_bytes| need_bytes > *free_bytes) {
            None => Ok(plan),
            Some(free_bytes) if plan.is_striped() => Err(PlanError::SharedMemory { need_bytes, free_bytes }),
            Some(free_bytes) => Err(PlanError::Memory { cores, need_bytes, free_bytes }),
        }
    }

    /// A plan with this layout, whatever memory it takes.
    pub(crate) fn unchecked(strategy: &'static dyn Strategy, cores: usize, layout: Layout) -> Plan {
        let Layout { states, hash_fields, shared, rebalancing, shards } = layout;
        let (indirection_entries, egress) = (INDIRECTION_ENTRIES, Egress::default());
        Plan {
            strategy,
            cores,
            states,
            hash_fields,
            shared,
            has_auxiliary_tables: true,
            indirection_entries,
            rebalancing,
            shards,
            card_flows: if shards.is_some() { CARD_FLOWS } else { 0 },
            solving: None,
            card: None,
            active: ActiveCores::new(cores),
            updates: Arc::new(Updates::new(MOST_ENTRIES)),
            account: Arc::default(),
            pins: Pins::new(MOST_ENTRIES),
            has_own_ports: false,
            egress,
            simulation: None,
            first: 0,
            candidates: strategy.candidates(),
            tunables: Tunables::new(strategy.info().tunables),
        }
    }

    /// What all tables take.
    fn need_bytes(&self, chain: &Chain) -> u64 {
        match self.shards {
            _ if self.is_striped() => chain.striped_bytes(),
            Some(shards) => shards.table_bytes(chain, &self.shared),
            None if self.is_partly_replicated() => chain.table_bytes(2 * self.cores, &self.shared),
            None => chain.table_bytes(self.cores, &self.shared),
        }
    }

    /// This plan, where cores may be parked while it runs, as [`Plan::active`] says. Flows then migrate as under
    /// RSS++, also where nothing but a change of cores has them move.
    ///
    /// # Errors
    /// [`NoParking`] says why no core can be parked.
    pub fn with_cores_to_park(self, chain: &Chain) -> Result<Plan, NoParking> {
        let never = Rebalancing { every: Every::Never, update_latency_ns: 0 };
        let plan = Plan { rebalancing: self.rebalancing.or(Some(never)), ..self };
        plan.check_cores(chain, plan.cores).map(|()| plan)
    }

    /// Whether `active` of the cores can get packets, and the others none.
    ///
    /// # Errors
    /// [`NoParking`] says why not.
    pub fn check_cores(&self, chain: &Chain, active: usize) -> Result<(), NoParking> {
        let (strategy, cores) = (self.strategy.name(), self.cores);
        match () {
            () if cores == 1 => Err(NoParking::OneCore),
            () if !(1..=cores).contains(&active) => Err(NoParking::Number { asked: active, cores }),
            () if let Err(why) = self.strategy.info().parking => Err(NoParking::Strategy { strategy, why }),
            () if !self.shared.is_empty() => Err(NoParking::Shared { functions: self.shared_names(chain) }),
            () if self.has_own_ports && self.rebalancing.is_none() => Err(NoParking::OwnPorts),
            () if self.rebalancing.is_none() => Err(NoParking::Began),
            () => Ok(()),
        }
    }

    /// Whether an entry of the indirection table, or a shard, can be put on a core by hand: see [`Plan::pins`].
    ///
    /// # Errors
    /// [`NoMove`] says why not.
    pub fn check_move(&self, entry: u16, core: u16) -> Result<(), NoMove> {
        let (strategy, active) = (self.strategy.name(), self.active.get());
        if self.cores == 1 {
            return Err(NoMove::OneCore);
        }
        let every = self.rebalancing.map(|rebalancing| rebalancing.every);
        let pinning = match every {
            Some(Every::Period(_) | Every::Packets(_)) => self.strategy.info().pinning,
            // Where nothing but a change of cores has flows move, nothing looks at pins.
            _ => self
                .strategy
                .info()
                .pinning
                .and(Err("entries go to other cores only where the number of cores changes")),
        };
        let unit = self.strategy.info().unit;
        let entries = self.shards.map_or(self.indirection_entries, Shards::count);
        match pinning {
            Err(why) => Err(NoMove::Strategy { strategy, why }),
            Ok(()) if usize::from(entry) >= entries => Err(NoMove::Entry { unit, entry, entries }),
            Ok(()) if usize::from(core) >= active => Err(NoMove::Core { core, active }),
            Ok(()) => Ok(()),
        }
    }

    /// As this one goes on where `self` follows upon `before`, in the same run: what others know of it stays theirs.
    pub fn following(self, before: &Plan) -> Plan {
        let Plan {
            indirection_entries, egress, rebalancing, shards, card_flows, solving, simulation, ..
        } = *before;
        let (active, updates) = (before.active.clone(), Arc::clone(&before.updates));
        let (account, pins, card) = (Arc::clone(&before.account), before.pins.clone(), before.card.clone());
        let (candidates, tunables) = (before.candidates.clone(), before.tunables.clone());
        let passed_on = Plan {
            indirection_entries,
            egress,
            rebalancing,
            shards,
            card_flows,
            solving,
            simulation,
            ..self
        };
        Plan { active, updates, account, pins, card, candidates, tunables, ..passed_on }
    }

    /// What its cores count beside packets and units that move: where others run the chain, what any of them counts.
    pub fn counters(&self) -> Vec<&'static Counter> {
        let chosen = || self.candidates.iter().filter(|candidate| candidate.info().rates.is_some());
        match self.strategy.info().has_others_run {
            true => chosen().flat_map(|candidate| candidate.info().counters).copied().collect(),
            false => self.strategy.info().counters.to_vec(),
        }
    }

    /// The cores to use where none are asked for: all that the machine and the strategy have.
    pub fn default_cores(strategy: &dyn Strategy) -> usize {
        thread::available_parallelism().map_or(1, usize::from).min(strategy.info().max_cores)
    }

    /// Which core gets a packet of `chain`.
    pub fn assign(&self, chain: &Chain) -> Box<dyn Assign> {
        self.strategy.assign(chain, self)
    }

    /// As this one runs where each core has a port of its own, and a card or a program before all ports sends each packet to the one of
    /// its core: the core that [`Plan::indirection`] has for the entry to which the hash of [`Plan::hash_fields`] points, of
    /// the packet as it looks from inside where there are [`Chain::side_prefixes`]. Entries move as loads ask for, where they
    /// do, and not for a change of cores alone. Under a strategy that [has one queue](crate::strategies::StrategyInfo::has_one_queue) all ports receive
    /// from it, nobody picks a core, and packets leave as cores are done with them.
    ///
    /// # Errors
    /// [`NoOwnPorts`] says why one thread has to see all packets.
    pub fn with_own_ports(self, chain: &Chain) -> Result<Plan, NoOwnPorts> {
        let strategy = self.strategy.name();
        match () {
            () if self.cores == 1 => Err(NoOwnPorts::OneCore),
            () if !self.has_one_queue() && self.indirection().is_none() => {
                Err(NoOwnPorts::Strategy { strategy })
            }
            () if self.has_one_queue() && self.egress == Egress::Ordered => Err(NoOwnPorts::Ordered),
            () if chain.checks().tracks_fragments() => Err(NoOwnPorts::Fragments),
            () if chain.spreads_by_fixed_ends() && !self.has_one_queue() => Err(NoOwnPorts::FixedEnds),
            () => {
                let rebalancing = self.rebalancing.filter(|rebalancing| rebalancing.every != Every::Never);
                Ok(Plan { rebalancing, has_own_ports: true, ..self })
            }
        }
    }

    /// The core of each entry of the indirection table at first: see [`Strategy::table`].
    pub fn indirection(&self) -> Option<Vec<u16>> {
        self.strategy.table(self)
    }

    /// Who sends packets of `chain` to the cores, and what stands before each core's chain.
    pub fn team(&self, chain: &Chain) -> Team {
        self.strategy.team(chain, self)
    }

    /// What stands beside and before cores that have ports of their own, where entries move; `None` elsewhere.
    pub fn own_team(&self, chain: &Chain) -> Option<OwnTeam> {
        let moves = self.has_own_ports && self.rebalancing.is_some();
        if moves { self.strategy.own_team(chain, self) } else { None }
    }

    /// The card and the sequencer, where a card steers and the strategy sends some packets past its sequencer.
    pub fn steered_team(&self, chain: &Chain) -> Option<SteeredTeam> {
        self.strategy.steered_team(chain, self)
    }

    /// How many entries a packet's hash may point to.
    pub fn entries(&self) -> usize {
        match self.shards {
            _ if matches!(self.states, States::PartlyReplicated | States::Changing) => HASH_VALUES,
            Some(shards) => shards.entries(),
            None => self.indirection_entries,
        }
    }

    /// Which core has each entry of the indirection table at first, where flows move.
    pub fn owners(&self) -> Option<Vec<u16>> {
        self.strategy.owners(self)
    }

    /// `chain` on each core, with empty tables and the pools divided.
    ///
    /// # Errors
    /// As [`Chain::cores`].
    pub fn cores_of(&self, chain: &Chain) -> Result<Vec<ChainCore>, OutOfMemory> {
        self.cores_keeping(chain, &self.keeping())
    }

    /// Where the functions keep their states.
    pub(crate) fn keeping(&self) -> Keeping<'_> {
        self.keeping_watched(false)
    }

    /// Where the functions keep their states, with what is promised of shared states to be checked or not.
    pub(crate) fn keeping_watched(&self, is_watched: bool) -> Keeping<'_> {
        match self.is_striped() {
            true => Keeping::Striped { is_watched, notes: None },
            false => Keeping::Shared {
                functions: &self.shared,
                has_auxiliary_tables: self.has_auxiliary_tables,
                is_watched,
                notes: None,
            },
        }
    }

    /// Whether all cores have one table for each group.
    pub fn is_striped(&self) -> bool {
        self.states == States::Striped
    }

    /// Whether each core has a replica of all states. One core alone steps its own packets and no others.
    pub fn is_replicated(&self) -> bool {
        self.states == States::Replicated && self.cores > 1
    }

    /// Whether all packets of a flow come to one core at a time, so that they are done in the order in which they came.
    pub(crate) fn keeps_flows_on_one_core(&self) -> bool {
        let stays = matches!(self.states, States::Private | States::Replicated);
        stays && !self.is_replicated()
    }

    /// How packets of a capture come to its cores, and leave them.
    pub fn replayed(&self) -> Replayed {
        let ordered = match self.rebalancing {
            // A packet that waits for its flow is sent behind later ones.
            Some(_) => replay_in_any_order,
            None if self.has_one_queue() => replay_one_queue,
            None => replay,
        };
        Replayed { egress: self.egress, has_one_queue: self.has_one_queue(), ordered }
    }

    /// Whether all cores take packets from one queue.
    pub fn has_one_queue(&self) -> bool {
        self.strategy.info().has_one_queue && self.cores > 1
    }

    /// Whether entries of the indirection table go to other cores with their flows: then [`Plan::updates`] has how long that
    /// takes. Shards and promoted flows go in other ways, and are not timed.
    pub fn moves_entries(&self) -> bool {
        let has_entries = self.states == States::Private && self.shards.is_none();
        self.cores > 1 && has_entries && self.rebalancing.is_some()
    }

    /// Whether each core has a replica of some states beside its own.
    pub fn is_partly_replicated(&self) -> bool {
        self.states == States::PartlyReplicated
    }

    pub(crate) fn cores_keeping(
        &self,
        chain: &Chain,
        keeping: &Keeping<'_>,
    ) -> Result<Vec<ChainCore>, OutOfMemory> {
        if self.is_replicated() {
            return (0..self.cores).map(|_| chain.core()).collect();
        }
        let assign = RefCell::new(self.assign(chain));
        let marked = |headers: &Headers| {
            let mut headers = *headers;
            chain.sides.iter().for_each(|sides| sides.mark(&mut headers));
            headers
        };
        let core_of = |headers: &Headers| {
            // A NAT asks of each of its ports.
            if self.cores == 1 {
                return 0;
            }
            let entry = assign.borrow().entry(&marked(headers));
            assign.borrow_mut().core(entry)
        };
        let owners = self.owners();
        // Of more bits of the hash the lowest are the entry.
        let lowest = owners.as_ref().map_or(0, |owners| owners.len() - 1);
        let entry_of = |headers: &Headers| usize::from(assign.borrow().entry(&marked(headers))) & lowest;
        let is_everywhere = self.is_partly_replicated();
        // One shard on every core, whose offloaded part has what is replicated.
        let shards = if is_everywhere { Some(1) } else { self.shards.map(Shards::count) };
        let entries = Entries { owners: &[], entry_of: &entry_of, shards, is_everywhere };
        let entries = owners.as_deref().map(|owners| Entries { owners, ..entries });
        chain.cores_keeping(&Spread { cores: self.cores, core_of: &core_of, entries }, keeping)
    }

    /// The names of the functions whose states all cores share, in the order of the chain.
    pub fn shared_names(&self, chain: &Chain) -> Vec<String> {
        self.shared.iter().map(|index| chain.functions[*index].name.clone()).collect()
    }
}
