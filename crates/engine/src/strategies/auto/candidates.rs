//! The strategies that can run a chain one after the other, and why others cannot.

use control::Choice;
use control::rates::{RSS, RateModel, SINGLE};
use strategy::INDIRECTION_ENTRIES;

use crate::chain::Chain;
use crate::path::moves::OwnCounters;
use crate::strategies::dyssect::Dyssect;
use crate::strategies::hashing;
use crate::strategies::hybrid::{self, Hybrid};
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::rss::Rss;
use crate::strategies::rsspp::Rsspp;
use crate::strategies::scr::Scr;
use crate::strategies::scr::turns::ScrTurns;
use crate::strategies::single::Single;

/// Those that take part unless a program names more.
pub(super) const STOCK: [&dyn Strategy; 7] = [&Single, &Rss, &Rsspp, &Dyssect, &Scr, &ScrTurns, &Hybrid];

/// What can run a chain under `auto`.
///
/// A strategy takes part if its [`StrategyInfo::rates`](crate::strategies::StrategyInfo::rates) has a model with its name, no states are shared, and its cores
/// have either all flows (replicas), or each its own: then it hashes what [`sharded`](crate::strategies::sharded) says, and
/// [`Strategy::table`] has the core of each entry, so that flows can go there ahead of their packets.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The first is `single`.
    pub all: Vec<Choice>,
    /// Strategies that cannot take part, and why.
    pub left_out: Vec<(&'static str, String)>,
    /// What `hybrid` takes a replay for when it decides what to replicate, in sixteenths of a packet's time.
    pub replay_sixteenths: u64,
    /// Those of [`Candidates::all`].
    pub(super) strategies: Vec<&'static dyn Strategy>,
}

impl Candidates {
    /// The candidates for `chain` among `strategies`, on up to so many cores.
    pub fn new(chain: &Chain, cores: usize, strategies: &[&'static dyn Strategy]) -> Candidates {
        let mut candidates = Candidates {
            all: vec![Choice { model: &SINGLE, cores: 1 }],
            left_out: Vec::new(),
            replay_sixteenths: hybrid::replay_sixteenths_of(chain),
            strategies: vec![&Single],
        };
        for &strategy in strategies {
            let info = strategy.info();
            let Some(model) = info.rates.filter(|model| **model != SINGLE) else { continue };
            match candidates.why_not(chain, strategy, model) {
                None => {
                    let cores = 2..=cores.min(info.max_cores);
                    candidates.all.extend(cores.map(|cores| Choice { model, cores }));
                    candidates.strategies.push(strategy);
                }
                Some(why) => candidates.left_out.push((strategy.name(), why)),
            }
        }
        candidates
    }

    /// Without choices of this kind, for want of memory.
    pub(super) fn leave_out(&mut self, model: &'static RateModel) {
        self.all.retain(|choice| choice.model != model);
        let why = "there is no memory for tables beside those of each core: smaller `flows` in the chain file would do".to_owned();
        self.left_out.push((model.name, why));
    }

    /// What a run begins with: what most chains do well under, on all cores.
    pub(super) fn first(&self) -> Choice {
        let hashed = self.all.iter().rev().find(|choice| *choice.model == RSS);
        *hashed.unwrap_or(&self.all[0])
    }

    /// The strategy of one of these choices.
    pub(super) fn strategy_of(&self, choice: Choice) -> &'static dyn Strategy {
        let of_it = self.strategies.iter().find(|strategy| strategy.name() == choice.model.name);
        *of_it.expect("a choice among candidates")
    }

    /// Why a strategy cannot take part, if it cannot.
    fn why_not(&self, chain: &Chain, strategy: &'static dyn Strategy, model: &RateModel) -> Option<String> {
        if model.name != strategy.name() {
            return Some(format!(
                "its rate model is that of `{}`: it needs one with its own name",
                model.name
            ));
        }
        let counters =
            self.strategies.iter().map(|taking_part| taking_part.info().counters.len()).sum::<usize>();
        if counters + strategy.info().counters.len() > OwnCounters::MOST {
            let most = OwnCounters::MOST;
            return Some(format!(
                "with those before it the strategies have more than {most} counters of their own"
            ));
        }
        let layout = match strategy.layout(chain, 2) {
            Ok(layout) => layout,
            // Who asked for that strategy is told its name and the chain's, and what would work.
            Err(error) => {
                let said = error.to_string();
                let why = said.lines().next().unwrap_or_default();
                let named = why.split_once(" cannot run chain ").and_then(|(_, why)| why.split_once(": "));
                return Some(named.map_or(why, |(_, why)| why).to_owned());
            }
        };
        why_no_layout(chain, &layout).or_else(|| why_no_flows(chain, strategy, layout))
    }
}

/// Why flows cannot go to where a strategy has them, if they cannot.
fn why_no_flows(chain: &Chain, strategy: &'static dyn Strategy, layout: Layout) -> Option<String> {
    let is_stock = STOCK.contains(&strategy);
    match layout.states {
        States::Replicated => return None,
        States::Private if layout.shards.is_none() => {}
        _ if is_stock => return None,
        _ => return Some("its cores have more than one table of flows each".to_owned()),
    }
    let hashed = hashing::layout(chain, strategy.name()).ok().and_then(|layout| layout.hash_fields);
    if layout.hash_fields != hashed {
        return Some("it does not hash what `sharded` says".to_owned());
    }
    let table = Plan::unchecked(strategy, 2, layout).indirection();
    let has_all =
        table.is_some_and(|table| table.len() == INDIRECTION_ENTRIES && table.iter().all(|core| *core < 2));
    (!has_all).then(|| {
        "it does not say which core has each entry of the indirection table (`Strategy::table`)".to_owned()
    })
}

/// Why states cannot be where a strategy has them, if they cannot.
fn why_no_layout(chain: &Chain, layout: &Layout) -> Option<String> {
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
    let why = match *layout {
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
