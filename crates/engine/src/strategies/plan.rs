use std::cell::RefCell;
use std::sync::Arc;
use std::{fs, thread};

use nf::{FlowKey, Stateless};
use strategy::{
    Assign, FunctionShape, HashFields, INDIRECTION_ENTRIES, Move, Rebalancing, Rss, RssPlusPlus, Single,
    Spray, Strategy,
};
use table::OutOfMemory;
use wire::{Fields, Headers, Stamp};

use crate::chain::Chain;
use crate::chain::keeping::{Entries, Keeping, Spread};
use crate::chain::registry::FunctionInfo;
use crate::path::core::ChainCore;
use crate::path::sides::Sides;
use crate::strategies::egress::Egress;

/// The most cores that a chain can be spread over: one entry of the smallest indirection table each.
pub const MAX_CORES: usize = INDIRECTION_ENTRIES;

/// A chain's strategy with everything that follows from it, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// How many cores.
    pub cores: usize,
    /// What is hashed to pick a core, where the strategy hashes.
    pub hash_fields: Option<HashFields>,
    /// Functions, by index in the chain, whose states all cores share: under `shared` all that have any; else
    /// those whose keys no hash keeps on one core, see [`nf::WhenShared`], which for most chains are none.
    pub shared: Vec<usize>,
    /// Entries of the indirection table, one of [`strategy::INDIRECTION_SIZES`].
    pub indirection_entries: usize,
    /// When flows go from core to core, where the strategy has them move.
    pub rebalancing: Option<Rebalancing>,
    /// In which order packets leave.
    pub egress: Egress,
}

/// Why a chain cannot run as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number of cores that makes no sense.
    #[error("{cores} cores: the number of cores must be 1 to {MAX_CORES}")]
    Cores {
        /// What was asked.
        cores: usize,
    },
    /// `single` with several cores.
    #[error(
        "strategy `single` runs on one core, and {cores} were asked for; use `--strategy rss`, or leave out `--cores`"
    )]
    SingleCore {
        /// What was asked.
        cores: usize,
    },
    /// More memory than there is.
    #[error(
        "the tables of {cores} cores take {} MiB and {} MiB are free\n\
         Use fewer cores, or smaller `flows` in the chain file.",
        need_bytes >> 20,
        free_bytes >> 20
    )]
    Memory {
        /// What was asked.
        cores: usize,
        /// What all tables take.
        need_bytes: u64,
        /// What the system says is available.
        free_bytes: u64,
    },
    /// The same where all cores have one.
    #[error(
        "the tables that all cores share take {} MiB and {} MiB are free\n\
         Use smaller `flows` in the chain file.",
        need_bytes >> 20,
        free_bytes >> 20
    )]
    SharedMemory {
        /// What all tables take.
        need_bytes: u64,
        /// What the system says is available.
        free_bytes: u64,
    },
    /// More cores than a packet's history can be of.
    #[error("strategy `scr` on {cores} cores: a sequencer serves at most {max} cores")]
    Replicas {
        /// What was asked.
        cores: usize,
        /// The most.
        max: usize,
    },
    /// What a function finds in a payload decides what others step, and replicas do not see it.
    #[error(
        "strategy `scr` cannot run chain `{chain}`: `{function}` looks into payloads, which other cores do not see, and functions with states come behind it\n\
         What works: `{function}` behind them, or `--strategy {works}`."
    )]
    Payload {
        /// The chain.
        chain: String,
        /// The function that inspects.
        function: String,
        /// A strategy that runs it.
        works: &'static str,
    },
    /// Two functions' keys cannot be kept on one core.
    #[error("strategy `{strategy}` cannot run chain `{chain}`: {conflict}.\n{remedy}")]
    Conflict {
        /// The strategy.
        strategy: &'static str,
        /// The chain.
        chain: String,
        /// Which functions, and their keys.
        conflict: String,
        /// What would work.
        remedy: String,
    },
}

impl Plan {
    /// Checks that `chain` can run under `strategy` on `cores` cores.
    ///
    /// # Errors
    /// [`PlanError`] says why it cannot, and what would work.
    pub fn new(chain: &Chain, strategy: Strategy, cores: usize) -> Result<Plan, PlanError> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(PlanError::Cores { cores });
        }
        let (hash_fields, shared) = match strategy {
            Strategy::Single if cores > 1 => return Err(PlanError::SingleCore { cores }),
            Strategy::Single => (None, Vec::new()),
            Strategy::Rss | Strategy::RssPlusPlus => {
                let (fields, shared) = derive(chain, strategy.name())?;
                (Some(fields), shared)
            }
            // One core has nobody to share with, and pays for no lock.
            Strategy::Shared if cores == 1 => (None, Vec::new()),
            Strategy::Shared => (None, chain.keyed()),
            Strategy::Scr => {
                replicable(chain, cores)?;
                (None, Vec::new())
            }
        };
        let rebalancing = (strategy == Strategy::RssPlusPlus).then(Rebalancing::default);
        let indirection_entries = INDIRECTION_ENTRIES;
        let egress = Egress::default();
        let plan = Plan { strategy, cores, hash_fields, shared, indirection_entries, rebalancing, egress };
        let need_bytes = match plan.is_striped() {
            true => chain.striped_bytes(),
            false => chain.table_bytes(cores, &plan.shared),
        };
        match free_bytes().filter(|free_bytes| need_bytes > *free_bytes) {
            None => Ok(plan),
            Some(free_bytes) if plan.is_striped() => Err(PlanError::SharedMemory { need_bytes, free_bytes }),
            Some(free_bytes) => Err(PlanError::Memory { cores, need_bytes, free_bytes }),
        }
    }

    /// The cores to use where none are asked for: all that the machine and the strategy have.
    pub fn default_cores(strategy: Strategy) -> usize {
        match strategy {
            Strategy::Single => 1,
            Strategy::Rss | Strategy::RssPlusPlus | Strategy::Shared | Strategy::Scr => {
                thread::available_parallelism().map_or(1, usize::from).min(MAX_CORES)
            }
        }
    }

    /// Which core gets a packet of `chain`.
    pub fn assign(&self, chain: &Chain) -> Box<dyn Assign> {
        if self.is_striped() || self.is_replicated() {
            return Box::new(Spray::new(self.cores));
        }
        let Some(fields) = self.hash_fields else { return Box::new(Single) };
        let rss = Rss::new(fields, self.cores, self.indirection_entries);
        match self.rebalancing {
            None => on_both_sides(rss, chain),
            Some(rebalancing) => on_both_sides(RssPlusPlus::new(rss, self.cores, rebalancing), chain),
        }
    }

    /// Which core has each entry of the indirection table at first, where flows move.
    pub fn owners(&self) -> Option<Vec<u16>> {
        let rss = Rss::new(self.hash_fields?, self.cores, self.indirection_entries);
        self.rebalancing.map(|_| rss.indirection().to_vec())
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

    /// The same with what is promised of shared states to be checked or not.
    pub(crate) fn keeping_watched(&self, is_watched: bool) -> Keeping<'_> {
        match self.is_striped() {
            true => Keeping::Striped { is_watched },
            false => Keeping::Shared { functions: &self.shared, is_watched },
        }
    }

    /// Whether all cores have one table for each group.
    pub fn is_striped(&self) -> bool {
        self.strategy == Strategy::Shared && self.cores > 1
    }

    /// Whether each core has a replica of all states. One core alone steps its own packets and no others.
    pub fn is_replicated(&self) -> bool {
        self.strategy == Strategy::Scr && self.cores > 1
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
            let entry = assign.borrow().entry(&marked(headers));
            assign.borrow_mut().core(entry)
        };
        let entry_of = |headers: &Headers| usize::from(assign.borrow().entry(&marked(headers)));
        let owners = self.owners();
        let entries = owners.as_deref().map(|owners| Entries { owners, entry_of: &entry_of });
        chain.cores_keeping(&Spread { cores: self.cores, core_of: &core_of, entries }, keeping)
    }

    /// The names of the functions whose states all cores share, in the order of the chain.
    pub fn shared_names(&self, chain: &Chain) -> Vec<String> {
        self.shared.iter().map(|index| chain.functions[*index].name.clone()).collect()
    }
}

/// With a card on each side, where a function of the chain stands between the two.
fn on_both_sides(assign: impl Assign + 'static, chain: &Chain) -> Box<dyn Assign> {
    match &chain.sides {
        Some(sides) if chain.has_between() => Box::new(Sided { inside: assign, sides: Arc::clone(sides) }),
        _ => Box::new(assign),
    }
}

/// A card on each side: one hashes what the fields say, the one outside the mirrored fields.
struct Sided<A> {
    inside: A,
    sides: Arc<Sides>,
}

impl<A: Assign> Assign for Sided<A> {
    fn entry(&self, headers: &Headers) -> u16 {
        self.inside.entry(&self.sides.seen_from_inside(headers))
    }

    fn core(&mut self, entry: u16) -> usize {
        self.inside.core(entry)
    }

    fn moves(&mut self, stamp: Stamp) -> &[Move] {
        self.inside.moves(stamp)
    }
}

/// Whether each core can step what the others have.
fn replicable(chain: &Chain, cores: usize) -> Result<(), PlanError> {
    if cores > sequencer::MAX_CORES {
        return Err(PlanError::Replicas { cores, max: sequencer::MAX_CORES });
    }
    match chain.inspects_before_state() {
        Some(function) if cores > 1 => {
            let works = if derive(chain, "rss").is_ok() { "rss" } else { "single" };
            Err(PlanError::Payload { chain: chain.name.clone(), function: function.to_owned(), works })
        }
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping; `None` where the system does not say. Asked beforehand,
/// because a system that overcommits grants what it does not have and ends the program later.
pub fn free_bytes() -> Option<u64> {
    Some(kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? << 10)
}

/// The number of a line such as `MemAvailable:   12345 kB`.
pub(crate) fn kib(lines: &str, name: &str) -> Option<u64> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// What to hash, and which functions' states to share.
fn derive(chain: &Chain, strategy: &'static str) -> Result<(HashFields, Vec<usize>), PlanError> {
    let all: Vec<usize> = (0..chain.functions.len()).collect();
    hash_and_share(chain, &all).map_err(|conflict| {
        // Without either of the two the rest may still conflict: only promise what was checked.
        let without = |index: usize| {
            let rest: Vec<usize> = all.iter().copied().filter(|other| *other != index).collect();
            !rest.is_empty() && hash_and_share(chain, &rest).is_ok()
        };
        let mut remedy = "What works: ".to_owned();
        if chain.inspects_before_state().is_none() {
            remedy += "`--strategy scr`, which needs no such hash and answers exactly as one core does, or ";
        }
        remedy += "`--strategy single`";
        if let Some(index) = [conflict.second, conflict.first].into_iter().find(|index| without(*index)) {
            remedy += &format!(", or `{}` in a chain of its own", chain.functions[index].name);
        }
        remedy += ".";
        PlanError::Conflict { strategy, chain: chain.name.clone(), conflict: conflict.message, remedy }
    })
}

/// Two functions, by index, that no hash can serve.
struct Conflict {
    first: usize,
    second: usize,
    message: String,
}

/// For the functions `among`: no states to share, if some hash keeps all keys on one core; else, of those
/// that can be shared, as few as leave the hash that the others want.
fn hash_and_share(chain: &Chain, among: &[usize]) -> Result<(HashFields, Vec<usize>), Conflict> {
    let shapes = chain.shapes();
    // Any core will do for a shared function, but what it edits is edited all the same.
    let derive = |shared: &[usize]| {
        let of = |index: &usize| match shared.contains(index) {
            true => FunctionShape { sharding: Stateless::SHARDING, ..shapes[*index] },
            false => shapes[*index],
        };
        let shapes_among = among.iter().map(of).collect::<Vec<_>>();
        let derived = match chain.sides {
            None => HashFields::derive(&shapes_among),
            Some(_) => HashFields::derive_both_ways(&shapes_among),
        };
        let keeps_ports =
            |index: &usize| chain.functions[*index].function.sides().is_some_and(|sides| sides.keeps_ports);
        let derived = match among.iter().any(keeps_ports) {
            false => derived,
            true => derived.map(HashFields::port_alone),
        };
        derived.map_err(|conflict| {
            let index = |name: &str| shapes.iter().position(|shape| shape.name == name).unwrap_or(0);
            let (first, second) = (index(conflict.first.name), index(conflict.second.name));
            Conflict { first, second, message: conflict.to_string() }
        })
    };
    if let Ok(fields) = derive(&[]) {
        return Ok((fields, Vec::new()));
    }
    let mut shared: Vec<usize> = among.iter().copied().filter(|index| can_share(chain, *index)).collect();
    let fields = derive(&shared)?;
    for index in shared.clone() {
        let fewer: Vec<usize> = shared.iter().copied().filter(|other| *other != index).collect();
        if derive(&fewer).is_ok_and(|found| found == fields) {
            shared = fewer;
        }
    }
    Ok((fields, shared))
}

/// Whether a reference in a table by 5-tuple can stand for the function's state, and it says what holds then.
fn can_share(chain: &Chain, index: usize) -> bool {
    let function = &chain.functions[index].function;
    let FunctionInfo { sharding, when_shared, .. } = function.info();
    let is_coarser = Fields::FIVE_TUPLE.contains(sharding.fields) && sharding.fields != Fields::FIVE_TUPLE;
    when_shared.is_some()
        && is_coarser
        && !sharding.is_stateless()
        && function.sides().is_none()
        && !function.steps_in_order()
}
