//! What functions drew from.

use schemars::JsonSchema;
use serde::Serialize;

use crate::chain::Chain;

/// What functions drew from: a run with the same seed draws the same again.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeedReport {
    /// `seed` in a chain file, or `--seed`.
    pub value: u64,
    /// Whether it was drawn from the system, since neither gave one.
    pub is_drawn: bool,
    /// The functions that draw from it, by their names in the chain.
    pub functions: Vec<String>,
}

impl SeedReport {
    /// The seed of a chain.
    pub fn new(chain: &Chain) -> SeedReport {
        let Chain { seed, seed_is_drawn, .. } = *chain;
        SeedReport {
            value: seed,
            is_drawn: seed_is_drawn,
            functions: chain.drawing().map(str::to_owned).collect(),
        }
    }

    /// For people, in a line, where it matters and no file says it.
    pub fn text(&self) -> String {
        let SeedReport { value, is_drawn, functions } = self;
        match *is_drawn && !functions.is_empty() {
            true => format!(
                "seed {value}, drawn for this run, for {}: --seed {value} draws the same again\n",
                functions.join(", ")
            ),
            false => String::new(),
        }
    }
}
