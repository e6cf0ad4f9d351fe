//! The layout of a block: what there is to count, and in which cells.

use std::ops::Range;

use crate::counts::{CORE_CELLS, FUNCTION_CELLS};

/// What there is to count in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The chain's name.
    pub chain: String,
    /// The strategy's name.
    pub strategy: String,
    /// Names of what the strategy counts of its own on each core.
    pub strategy_events: Vec<String>,
    /// Names of the reasons for which a packet may be malformed.
    pub malformed: Vec<String>,
    /// Whether malformed packets are dropped.
    pub drops_malformed: bool,
    /// The functions, in the order of the chain.
    pub functions: Vec<FunctionLayout>,
}

/// What a function counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionLayout {
    /// What the chain calls it.
    pub name: String,
    /// Its drop reasons.
    pub drop_reasons: Vec<String>,
    /// Its events.
    pub events: Vec<String>,
}

impl FunctionLayout {
    pub(crate) fn cells(&self) -> usize {
        FUNCTION_CELLS + self.drop_reasons.len() + self.events.len()
    }
}

/// Where a block's parts are.
impl Layout {
    pub(crate) fn malformed_cells(&self) -> Range<usize> {
        CORE_CELLS..CORE_CELLS + self.malformed.len()
    }

    pub(crate) fn strategy_cells(&self) -> Range<usize> {
        let first = self.malformed_cells().end;
        first..first + self.strategy_events.len()
    }

    /// Where each function's cells begin, and where the last one's end.
    pub(crate) fn function_cells(&self) -> Vec<usize> {
        let mut bounds = vec![self.strategy_cells().end];
        for function in &self.functions {
            bounds.push(bounds[bounds.len() - 1] + function.cells());
        }
        bounds
    }
}
