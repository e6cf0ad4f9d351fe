//! What the page of a run asks, answered by what is controlled.

use std::time::Duration;

use dashboard::{Flow, Inspect, Portion};
use engine::{ListError, ListedFlow};
use nf::StateValue;

use super::subject::{Subject, now_ns};

impl Inspect for Subject {
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String> {
        let (chain, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let mut worked = Duration::ZERO;
        for spec in &chain.functions {
            let mut flows = match self.progress.listing.flows(Some(&spec.name), now_ns) {
                Ok(flows) => flows,
                Err(ListError::NoFlows { .. }) => continue,
                Err(error) => return Err(error.to_string()),
            };
            while let Some(portion) = flows.next_portion() {
                let is_empty = portion.is_empty();
                let counted: Vec<Flow> = portion.into_iter().filter_map(counted).collect();
                // A function that counts no packets of one flow counts none of any.
                let counts = is_empty || !counted.is_empty();
                if !see(Portion { flows: counted, worked: worked + flows.worked() }) {
                    return Ok(());
                }
                if !counts {
                    break;
                }
            }
            if flows.has_changed() {
                return Err(
                    "another chain or strategy took over meanwhile, so flows may be missing".to_owned()
                );
            }
            worked += flows.worked();
        }
        Ok(())
    }
}

/// A flow with what its function counts, if it counts packets.
fn counted(flow: ListedFlow) -> Option<Flow> {
    let value = |wanted: &str| {
        flow.state.flow.state.iter().find_map(|(name, value)| match value {
            StateValue::Number(number) if *name == wanted => Some(*number),
            _ => None,
        })
    };
    let (packets, bytes) = (value("packets")?, value("bytes"));
    Some(Flow { function: flow.function, key: flow.state.key, core: flow.core, packets, bytes })
}
