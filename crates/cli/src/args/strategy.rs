//! Strategies on the command line: their names, defaults and help.

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
        if !self.0.has_others_run() {
            return Ok(self.0);
        }
        Err(Failure::usage(format!(
            "strategy `{}` has others run the chain, and a benchmark is of one strategy\n\
             Name that one. `paceline bench compare` has all of them side by side, and `paceline plan` says where `auto` comes to rest.",
            self.0.name()
        )))
    }
}

impl ValueEnum for StrategyArg {
    fn value_variants<'a>() -> &'a [Self] {
        static EACH: LazyLock<[StrategyArg; ALL.len()]> = LazyLock::new(|| ALL.map(StrategyArg));
        &*EACH
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()).help(self.0.summary()))
    }
}
