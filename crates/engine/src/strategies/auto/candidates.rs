//! The strategies that can run a chain one after the other, and why others cannot.

use control::{Choice, Spreading};

use crate::chain::Chain;
use crate::strategies::dyssect::Dyssect;
use crate::strategies::hashing;
use crate::strategies::hybrid::{self, Hybrid};
use crate::strategies::plan::{Layout, Plan, States, Strategy};
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
    /// What `hybrid` takes a replay for when it decides what to replicate, in sixteenths of a packet's time.
    pub replay_sixteenths: u64,
}

impl Candidates {
    /// The candidates for `chain`, on up to so many cores.
    pub fn new(chain: &Chain, cores: usize) -> Candidates {
        let single = Choice { spreading: Spreading::Single, cores: 1 };
        let mut candidates = Candidates {
            all: vec![single],
            left_out: Vec::new(),
            replay_sixteenths: hybrid::replay_sixteenths_of(chain),
        };
        for spreading in Spreading::OF_SEVERAL {
            let strategy = strategy_of(spreading);
            match why_not(chain, spreading) {
                None => {
                    let cores = 2..=cores.min(strategy.info().max_cores);
                    candidates.all.extend(cores.map(|cores| Choice { spreading, cores }));
                }
                Some(why) => candidates.left_out.push((strategy.name(), why)),
            }
        }
        candidates
    }

    /// Without choices of this kind, for want of memory.
    pub(super) fn leave_out(&mut self, spreading: Spreading) {
        self.all.retain(|choice| choice.spreading != spreading);
        let why = "there is no memory for tables beside those of each core: smaller `flows` in the chain file would do".to_owned();
        self.left_out.push((spreading.name(), why));
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
        Spreading::Dyssect => &Dyssect,
        Spreading::Hybrid => &Hybrid,
    }
}

/// Why a strategy cannot take part, if it cannot.
fn why_not(chain: &Chain, spreading: Spreading) -> Option<String> {
    let layout = match strategy_of(spreading).layout(chain, 2) {
        Ok(layout) => layout,
        // Who asked for that strategy is told its name and the chain's, and what would work.
        Err(error) => {
            let said = error.to_string();
            let why = said.lines().next().unwrap_or_default();
            let named = why.split_once(" cannot run chain ").and_then(|(_, why)| why.split_once(": "));
            return Some(named.map_or(why, |(_, why)| why).to_owned());
        }
    };
    if let Some(index) = layout.shared.first() {
        return Some(format!("all cores would share the states of `{}`", chain.functions[*index].name));
    }
    if layout.shards.is_some() && chain.slo.is_some() {
        return Some("its objective, `[slo]`, says how many cores are used".to_owned());
    }
    if layout.shards.is_some() && !chain.classes.is_empty() {
        return Some("it keeps flows of classes apart, which no other strategy does".to_owned());
    }
    let pooled = chain.functions.iter().find(|spec| spec.function.steps_in_order());
    // A pool is divided by entry.
    let why = match layout {
        // Of another core's packet a replica does not know the entry.
        Layout { states: States::Replicated, .. } => "a replica needs all of it",
        // An entry is several buckets.
        Layout { shards: Some(_), .. } => "parts of shards need more parts of it",
        _ => return None,
    };
    pooled.map(|spec| format!("`{}` takes from a pool that is divided among cores, and {why}", spec.name))
}

/// Which core has each entry where `cores` cores share flows out.
pub(super) fn owners(plan: &Plan, cores: usize) -> Vec<u16> {
    match plan.hash_fields {
        Some(_) => hashing::rss(&Plan { cores, ..plan.clone() }).indirection().to_vec(),
        None => vec![0; plan.indirection_entries],
    }
}
