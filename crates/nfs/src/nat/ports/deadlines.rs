//! Finds the mapping of a share that has been dead for longest.

use alloc::vec;
use alloc::vec::Vec;

/// How many ports, or nodes below, a node stands for: the bounds of one level of these are one cache line.
const WIDTH: usize = 8;

/// A tree of bounds: no port below a node has a mapping that is dead before the node's time.
///
/// ```text
/// root                     [        ]
/// ...                  [        ] [        ]
/// leaves           [        ] [        ] ...      one for each 8 ports
/// ```
///
/// A deadline that moves on, as each packet that goes out moves it, is not entered: the bound is too early then,
/// and still a bound. Only [`Deadlines::dead`], which runs when no port is free, looks at the deadlines
/// themselves, and raises bounds that are too early.
///
/// What that costs: each turn of its loop but the last raises a bound of 8 ports, which was the deadline of one
/// mapping that a packet has extended since, or that is gone. So over a run there are no more turns than packets
/// that went out and mappings that ended; one packet alone may take as many turns as it has been since the last
/// that looked. A turn is 8 bounds on each level, of which there are five for the ports of an address.
///
/// What it finds depends on the deadlines alone, and not on what the tree has seen of them.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    len: usize,
    /// From the leaves to the root.
    levels: Vec<Vec<u64>>,
}

impl Deadlines {
    /// For `len` ports, all free.
    pub(super) fn new(len: usize) -> Deadlines {
        let mut levels = Vec::new();
        let mut nodes = len;
        while nodes > 1 || levels.is_empty() {
            nodes = nodes.div_ceil(WIDTH).max(1);
            levels.push(vec![u64::MAX; nodes]);
        }
        Deadlines { len, levels }
    }

    /// How many ports.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A port's deadline is this now; to be said of each that is earlier than the last one said.
    pub(super) fn lower(&mut self, port: usize, deadline_ns: u64) {
        let mut node = port;
        for level in &mut self.levels {
            node /= WIDTH;
            if level[node] <= deadline_ns {
                // And so are all above it.
                break;
            }
            level[node] = deadline_ns;
        }
    }

    /// The port with the earliest deadline, if that is not after `now_ns`; of several the first. `deadline_ns` is
    /// each port's, `u64::MAX` if it is free.
    pub(super) fn dead(&mut self, now_ns: u64, deadline_ns: impl Fn(usize) -> u64) -> Option<usize> {
        loop {
            let (leaves, above) = self.levels.split_first()?;
            let mut node = 0;
            for level in above.iter().rev().skip(1).chain((!above.is_empty()).then_some(leaves)) {
                let start = node * WIDTH;
                let below = start..level.len().min(start + WIDTH);
                node = below.min_by_key(|node| level[*node])?;
            }
            let bound_ns = leaves[node];
            if bound_ns > now_ns {
                return None;
            }
            let ports = node * WIDTH..self.len.min((node + 1) * WIDTH);
            let (earliest_ns, port) = ports.map(|port| (deadline_ns(port), port)).min()?;
            if earliest_ns == bound_ns {
                return Some(port);
            }
            self.raise(node, earliest_ns);
        }
    }

    /// The bound of a leaf was too early.
    fn raise(&mut self, mut node: usize, bound_ns: u64) {
        self.levels[0][node] = bound_ns;
        for level in 1..self.levels.len() {
            node /= WIDTH;
            let start = node * WIDTH;
            let below = &self.levels[level - 1];
            let earliest_ns = below[start..below.len().min(start + WIDTH)].iter().copied().min();
            self.levels[level][node] = earliest_ns.unwrap_or(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Happening {
        /// A port gets a mapping, or another deadline for the one that it has.
        Set(usize, u64),
        /// It becomes free.
        Free(usize),
        Ask(u64),
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            5 => (0..700_usize, 1..90_u64).prop_map(|(port, after)| Happening::Set(port, after)),
            1 => (0..700_usize).prop_map(Happening::Free),
            3 => (0..30_u64).prop_map(Happening::Ask),
        ]
    }

    proptest! {
        /// As a search of all of them finds it, in no more turns than there were changes.
        #[test]
        fn the_earliest_is_found(
            len in 1..700_usize, happenings in proptest::collection::vec(happening(), 1..400),
        ) {
            let mut tree = Deadlines::new(len);
            let mut deadlines = vec![u64::MAX; len];
            let (mut now, mut changes, looks) = (0, 0, Cell::new(0));
            for happening in happenings {
                match happening {
                    Happening::Set(port, after) => {
                        let port = port % len;
                        changes += 1;
                        let before = core::mem::replace(&mut deadlines[port], now + after);
                        if before == u64::MAX || now + after < before {
                            tree.lower(port, now + after);
                        }
                    }
                    Happening::Free(port) => {
                        deadlines[port % len] = u64::MAX;
                        changes += 1;
                    }
                    Happening::Ask(elapsed) => {
                        now += elapsed;
                        let look = |port: usize| {
                            looks.set(looks.get() + 1);
                            deadlines[port]
                        };
                        let found = tree.dead(now, look);
                        changes += 1;
                        let earliest = deadlines.iter().copied().enumerate().min_by_key(|(_, at)| *at);
                        let expected = earliest.filter(|(_, at)| *at <= now).map(|(port, _)| port);
                        prop_assert_eq!(found, expected);
                        prop_assert!(looks.get() <= changes * WIDTH, "{} looks, {changes}", looks.get());
                    }
                }
            }
        }
    }
}
