use std::cell::RefCell;
use std::sync::Arc;
use std::{fs, thread};

use strategy::{Assign, HashFields, INDIRECTION_ENTRIES, Rss, Single, Strategy};
use table::OutOfMemory;
use wire::Headers;

use crate::{Chain, ChainCore, Function};

/// The most cores that a chain can be spread over: one entry of the indirection table each.
pub const MAX_CORES: usize = INDIRECTION_ENTRIES;

/// A chain's strategy with everything that follows from it, checked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// How many cores.
    pub cores: usize,
    /// What is hashed to pick a core, where the strategy hashes.
    pub hash_fields: Option<HashFields>,
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
    /// Two functions' keys cannot be kept on one core.
    #[error("strategy `rss` cannot run chain `{chain}`: {conflict}.\n{remedy}")]
    Conflict {
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
        let hash_fields = match strategy {
            Strategy::Single if cores > 1 => return Err(PlanError::SingleCore { cores }),
            Strategy::Single => None,
            Strategy::Rss => Some(derive(chain)?),
        };
        let need_bytes = chain.table_bytes().saturating_mul(cores as u64);
        if let Some(free_bytes) = free_bytes().filter(|free_bytes| need_bytes > *free_bytes) {
            return Err(PlanError::Memory { cores, need_bytes, free_bytes });
        }
        Ok(Plan { strategy, cores, hash_fields })
    }

    /// The cores to use where none are asked for: all that the machine and the strategy have.
    pub fn default_cores(strategy: Strategy) -> usize {
        match strategy {
            Strategy::Single => 1,
            Strategy::Rss => thread::available_parallelism().map_or(1, usize::from).min(MAX_CORES),
        }
    }

    /// Which core gets a packet of `chain`.
    pub fn assign(&self, chain: &Chain) -> Box<dyn Assign> {
        let Some(fields) = self.hash_fields else { return Box::new(Single) };
        let rss = Rss::new(fields, self.cores);
        let sided = chain.functions.iter().find(|spec| spec.function.info().has_sides);
        match sided {
            None => Box::new(rss),
            Some(spec) => Box::new(Sided { rss, function: Arc::clone(&spec.function) }),
        }
    }

    /// `chain` on each core, with empty tables and the pools divided.
    ///
    /// # Errors
    /// As [`Chain::cores`].
    pub fn cores_of(&self, chain: &Chain) -> Result<Vec<ChainCore>, OutOfMemory> {
        let assign = RefCell::new(self.assign(chain));
        chain.cores(self.cores, &|headers| assign.borrow_mut().core(headers))
    }
}

/// A card on each side of a function: one hashes what the fields say, the one outside the mirrored fields.
struct Sided {
    rss: Rss,
    function: Arc<dyn Function>,
}

impl Assign for Sided {
    fn core(&mut self, headers: &Headers) -> usize {
        if !self.function.is_from_outside(headers) {
            return self.rss.core(headers);
        }
        let Headers { src, dst, src_port, dst_port, .. } = *headers;
        self.rss.core(&Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers })
    }
}

/// Memory that can be had without swapping; `None` where the system does not say. Asked beforehand,
/// because a system that overcommits grants what it does not have and ends the program later.
fn free_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn derive(chain: &Chain) -> Result<HashFields, PlanError> {
    let shapes = chain.shapes();
    HashFields::derive(&shapes).map_err(|conflict| {
        // Without either of the two the rest may still conflict: only promise what was checked.
        let without = |name: &str| -> bool {
            let rest: Vec<_> = shapes.iter().copied().filter(|shape| shape.name != name).collect();
            !rest.is_empty() && HashFields::derive(&rest).is_ok()
        };
        let (first, second) = (conflict.first.name, conflict.second.name);
        let mut remedy = "What works: `--strategy single`".to_owned();
        for name in [second, first] {
            if without(name) {
                remedy += &format!(", or `{name}` in a chain of its own");
                break;
            }
        }
        remedy += ".";
        PlanError::Conflict { chain: chain.name.clone(), conflict: conflict.to_string(), remedy }
    })
}
