//! What must be known of a packet to replay it where it did not come (SCR §3.4, chained programs).

use wire::{Edits, Fields};

use crate::chain::{Chain, FunctionSpec};

impl Chain {
    /// The header fields that a packet's history holds: all that some function reads, those that decide whether
    /// an edit by a function before it applies, and whether the packet is malformed, as no function sees it then.
    ///
    /// Who steps the functions with headers that are right in these and 0 in all others gets every state, verdict
    /// and edit that the packet itself gave, unless a function looks at payloads:
    /// see [`Chain::inspects_before_state`].
    pub fn reads(&self) -> Fields {
        // From the last function to the first: what one needs must survive the edits of those before.
        let before = |needed, spec: &FunctionSpec| {
            let info = spec.function.info();
            info.reads | Edits::needs(info.edits, needed)
        };
        let from_inside = self.functions.iter().rev().fold(Fields::MALFORMED, before);
        if self.sides.is_none() {
            return from_inside;
        }
        // The mark says from which side the packet came; the addresses, whether it goes to the other.
        let sides = Fields::MARKS | Fields::ADDRS;
        from_inside | self.functions.iter().fold(Fields::MALFORMED, before) | sides
    }

    /// The first function that inspects payloads and has one that keeps state behind it, by name: which packets
    /// come to the latter is not to be known without the payload. `None`: payloads decide nothing but their
    /// own packet's fate.
    pub fn inspects_before_state(&self) -> Option<&str> {
        let keeps = |index: usize| self.functions[index].keeps_state();
        let first = (0..self.functions.len()).find(|first| {
            let behind = |index: usize| self.comes_behind(index, *first);
            self.functions[*first].function.info().inspects
                && (0..self.functions.len()).any(|index| behind(index) && keeps(index))
        })?;
        Some(&self.functions[first].name)
    }

    /// Functions that keep state: those that a replay steps.
    pub(crate) fn stateful(&self) -> usize {
        self.functions.iter().filter(|spec| spec.keeps_state()).count()
    }

    /// Whether packets come to function number `index` that have passed function number `other`: in a chain with
    /// sides each is behind all others, in one direction or the other.
    pub(crate) fn comes_behind(&self, index: usize, other: usize) -> bool {
        match self.sides {
            None => index > other,
            Some(_) => index != other,
        }
    }

    /// The bytes of [`wire::Headers`] that an item of history holds: bit *i* for byte *i*.
    pub fn history_bytes(&self) -> u64 {
        self.reads().header_bytes()
    }

    /// Whether all functions read of a packet what it came with, so that history can say what each of them reads: none
    /// edits what a later one reads, and there is one order of them.
    pub(crate) fn tells_metas(&self) -> bool {
        let mut edited = Fields::empty();
        self.sides.is_none()
            && self.functions.iter().all(|spec| {
                let info = spec.function.info();
                let reads_as_received = !edited.intersects(info.reads);
                edited |= info.edits;
                reads_as_received
            })
    }
}

impl FunctionSpec {
    /// Whether a step changes what later ones see: a flow, or a pool.
    fn keeps_state(&self) -> bool {
        !self.function.info().sharding.is_stateless() || self.function.steps_in_order()
    }
}
