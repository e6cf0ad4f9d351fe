//! Whether the functions of a run used numbers that they do not declare.

use std::error::Error;
use std::fmt;

use crate::chain::Chain;
use crate::path::core::ChainCore;
use crate::path::counters::Undeclared;

/// A function used a number without a name for it, so that its counters would be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeclaredError {
    /// What the chain calls the function.
    pub function: String,
    /// What it used.
    pub used: Undeclared,
    /// What it declares: drop reasons or events.
    pub declared: &'static [&'static str],
}

impl fmt::Display for UndeclaredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndeclaredError { function, used, declared } = self;
        let (what, list) = match used {
            Undeclared::Drop(reason) => (format!("drops for reason number {reason}"), "drop_reasons"),
            Undeclared::Event(event) => (format!("counts event number {event}"), "events"),
        };
        let names = match declared.len() {
            0 => format!("its `{list}` are empty"),
            count => format!("its `{list}` have numbers 0 to {}: {}", count - 1, declared.join(", ")),
        };
        writeln!(f, "function `{function}` {what}, which it does not declare: {names}")?;
        write!(f, "Add a name to `{list}` in the function's ABOUT, or use another number.")
    }
}

impl Error for UndeclaredError {}

/// Looks at what each function of the chain counted on each core.
pub(crate) fn check_declared<'a>(
    chain: &Chain,
    cores: impl Iterator<Item = &'a ChainCore>,
) -> Result<(), UndeclaredError> {
    for core in cores {
        for (spec, stage) in chain.functions.iter().zip(core.stages()) {
            if let Some(used) = stage.counters().undeclared {
                let info = spec.function.info();
                let declared = match used {
                    Undeclared::Drop(_) => info.about.drop_reasons,
                    Undeclared::Event(_) => info.about.events,
                };
                return Err(UndeclaredError { function: spec.name.clone(), used, declared });
            }
        }
    }
    Ok(())
}
