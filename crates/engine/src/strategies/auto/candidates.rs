//! The strategies that can run a chain one after the other, and why others cannot.

use control::{Choice, Spreading};

use crate::chain::Chain;
use crate::strategies::hashing;
use crate::strategies::plan::{Plan, States, Strategy};
use crate::strategies::rss::Rss;
use crate::strategies::rsspp::Rsspp;
use crate::strategies::scr::Scr;
use crate::strategies::scr::turns::ScrTurns;
use crate::strategies::single::Single;

/// What can run a chain under `auto`.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The first is `single`.
    pub all: Vec<Choice>,
    /// Strategies that cannot take part, and why.
    pub left_out: Vec<(&'static str, String)>,
}

impl Candidates {
    /// Of `chain`, on up to so many cores.
    pub fn new(chain: &Chain, cores: usize) -> Candidates {
        let single = Choice { spreading: Spreading::Single, cores: 1 };
        let mut candidates = Candidates { all: vec![single], left_out: Vec::new() };
        for spreading in [Spreading::Rss, Spreading::Rsspp, Spreading::Scr, Spreading::ScrTurns] {
            let strategy = strategy_of(spreading);
            match why_not(chain, spreading) {
                None => {
                    let cores = 2..=cores.min(strategy.max_cores());
                    candidates.all.extend(cores.map(|cores| Choice { spreading, cores }));
                }
                Some(why) => candidates.left_out.push((strategy.name(), why)),
            }
        }
        candidates
    }

    /// What a run begins with: what most chains do well under, on all cores.
    pub(super) fn first(&self) -> Choice {
        let hashed = self.all.iter().rev().find(|choice| choice.spreading == Spreading::Rss);
        *hashed.unwrap_or(&self.all[0])
    }
}

/// What spreads packets so.
pub(super) fn strategy_of(spreading: Spreading) -> &'static dyn Strategy {
    match spreading {
        Spreading::Single => &Single,
        Spreading::Rss => &Rss,
        Spreading::Rsspp => &Rsspp,
        Spreading::Scr => &Scr,
        Spreading::ScrTurns => &ScrTurns,
    }
}

/// Why a strategy cannot take part, if it cannot.
fn why_not(chain: &Chain, spreading: Spreading) -> Option<String> {
    let layout = match strategy_of(spreading).layout(chain, 2) {
        Ok(layout) => layout,
        // What would work is for those who asked for that strategy.
        Err(error) => return error.to_string().lines().next().map(str::to_owned),
    };
    if let Some(index) = layout.shared.first() {
        return Some(format!("all cores would share the states of `{}`", chain.functions[*index].name));
    }
    // A pool is divided by entry, and of another core's packet a replica does not know the entry.
    let pooled = chain.functions.iter().find(|spec| spec.function.steps_in_order());
    pooled.filter(|_| layout.states == States::Replicated).map(|spec| {
        format!(
            "`{}` takes from a pool that is divided among cores, and a replica needs all of it",
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
