//! The strategies that can run a chain one after the other, and why others cannot.

use std::fmt;

use crate::chain::Chain;
use crate::strategies::plan::{Plan, Strategy};
use crate::strategies::{RSS, RSSPP, SCR, SINGLE, hashing};

/// A strategy on a number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) strategy: &'static dyn Strategy,
    pub(super) cores: usize,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.strategy.name(), self.cores)
    }
}

/// All of a chain.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// The first is `single`.
    pub(super) all: Vec<Candidate>,
    /// Strategies that cannot take part, and why.
    pub(super) left_out: Vec<(&'static str, String)>,
}

impl Candidates {
    /// Of `chain`, on up to as many cores as `plan` has.
    pub(super) fn new(chain: &Chain, plan: &Plan) -> Candidates {
        let mut candidates =
            Candidates { all: vec![Candidate { strategy: SINGLE, cores: 1 }], left_out: Vec::new() };
        for strategy in [RSS, RSSPP, SCR] {
            match why_not(chain, strategy) {
                None => {
                    let cores = 2..=plan.cores.min(strategy.max_cores());
                    candidates.all.extend(cores.map(|cores| Candidate { strategy, cores }));
                }
                Some(why) => candidates.left_out.push((strategy.name(), why)),
            }
        }
        candidates
    }
}

/// Why a strategy cannot take part, if it cannot.
fn why_not(chain: &Chain, strategy: &'static dyn Strategy) -> Option<String> {
    let layout = match strategy.layout(chain, 2) {
        Ok(layout) => layout,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(index) = layout.shared.first() {
        return Some(format!("all cores would share the states of `{}`", chain.functions[*index].name));
    }
    // A pool is divided by entry, and of another core's packet a replica does not know the entry.
    let pooled = chain.functions.iter().find(|spec| spec.function.steps_in_order());
    pooled.filter(|_| strategy == SCR).map(|spec| {
        format!(
            "flows of `{}` take from a pool that is divided among cores, and replicas need it whole",
            spec.name
        )
    })
}

/// Which core has each entry where `cores` cores share flows out.
pub(super) fn owners(plan: &Plan, cores: usize) -> Vec<u16> {
    match plan.hash_fields {
        Some(_) => hashing::rss(&Plan { cores, ..plan.clone() }).indirection().to_vec(),
        None => vec![0; plan.indirection_entries],
    }
}
