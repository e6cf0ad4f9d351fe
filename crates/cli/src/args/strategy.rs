//! Strategies on the command line: their names, defaults and help.

use std::cell::Cell;
use std::sync::LazyLock;

use clap::ValueEnum;
use engine::strategies::{ALL, RSS, RSSPP, SCR, SHARED, SINGLE, Strategy};

use crate::failure::Failure;

/// [`Strategy`] as clap sees it.
#[derive(Clone, Copy)]
pub struct StrategyArg(pub &'static dyn Strategy);

#[allow(non_upper_case_globals, reason = "read as the variants they stand for")]
impl StrategyArg {
    pub const Single: StrategyArg = StrategyArg(SINGLE);
    pub const Rss: StrategyArg = StrategyArg(RSS);
    pub const RssPlusPlus: StrategyArg = StrategyArg(RSSPP);
    pub const Shared: StrategyArg = StrategyArg(SHARED);
    pub const Scr: StrategyArg = StrategyArg(SCR);
}

impl StrategyArg {
    /// For a benchmark, which is of one strategy.
    pub fn steady(self) -> Result<&'static dyn Strategy, Failure> {
        if !self.0.info().has_others_run {
            return Ok(self.0);
        }
        Err(Failure::usage(format!(
            "strategy `{}` has others run the chain, and a benchmark is of one strategy\n\
             Name that one. `paceline bench compare` has all of them side by side, and `paceline plan` says where `auto` comes to rest.",
            self.0.name()
        )))
    }
}

/// The strategies of the installed program.
static STOCK: LazyLock<[StrategyArg; ALL.len()]> = LazyLock::new(|| ALL.map(StrategyArg));

thread_local! {
    /// The strategies of the program whose command line this thread parses: clap asks for them without an argument.
    static NAMED: Cell<&'static [StrategyArg]> = Cell::new(&STOCK[..]);
}

/// Command lines that this thread parses from now on may name these strategies. Keeps the list for good: a process has one or two.
pub fn name_strategies(strategies: &[&'static dyn Strategy]) {
    let named: Vec<StrategyArg> = strategies.iter().copied().map(StrategyArg).collect();
    NAMED.set(Vec::leak(named));
}

impl StrategyArg {
    /// The program's strategies that run a chain themselves, from the first packet to the last.
    pub fn all_steady() -> Vec<&'static dyn Strategy> {
        let named = NAMED.get().iter().map(|StrategyArg(strategy)| *strategy);
        named.filter(|strategy| !strategy.info().has_others_run).collect()
    }
}

impl ValueEnum for StrategyArg {
    fn value_variants<'a>() -> &'a [Self] {
        NAMED.get()
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()).help(self.0.info().summary))
    }
}
