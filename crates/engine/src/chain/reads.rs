//! What must be known of a packet to replay it where it did not come (SCR §3.4, chained programs).

use wire::{Edits, Fields};

use super::{Chain, FunctionSpec};

impl Chain {
    /// The header fields that a packet's history holds: all that some function reads, those that decide whether
    /// an edit by a function before it applies, and whether the packet is malformed, as no function sees it then.
    ///
    /// Who steps the functions with headers that are right in these and 0 in all others gets every state, verdict
    /// and edit that the packet itself gave, unless a function looks at payloads:
    /// see [`Chain::inspects_before_state`].
    pub fn reads(&self) -> Fields {
        // From the last function to the first: what one needs must survive the edits of those before.
        self.functions.iter().rev().fold(Fields::MALFORMED, |needed, spec| {
            let info = spec.function.info();
            info.reads | Edits::needs(info.edits, needed)
        })
    }

    /// The first function that inspects payloads and has one that keeps state behind it, by name: which packets
    /// come to the latter is not to be known without the payload. `None`: payloads decide nothing but their
    /// own packet's fate.
    pub fn inspects_before_state(&self) -> Option<&str> {
        let last = self.functions.iter().rposition(FunctionSpec::keeps_state)?;
        let first = self.functions[..last].iter().find(|spec| spec.function.info().inspects)?;
        Some(&first.name)
    }
}

impl FunctionSpec {
    /// Whether a step changes what later ones see: a flow, or a pool.
    fn keeps_state(&self) -> bool {
        !self.function.info().sharding.is_stateless() || self.function.steps_in_order()
    }
}

#[cfg(test)]
mod tests;
