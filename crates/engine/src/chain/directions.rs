//! A chain with sides: packets from inside meet the functions in the order of the chain, packets from outside in
//! reverse.

use std::net::IpAddr;

use wire::{Addr, SidePrefix};

use crate::chain::{Chain, MalformedPolicy};
use crate::path::core::{ChainCore, Place};
use crate::path::group::{Group, StageSpec};

impl Chain {
    /// The chain on a core, from its groups.
    pub(super) fn core_of(&self, groups: Vec<Box<dyn Group>>, places: Vec<Place>) -> ChainCore {
        let is_between = |index: usize| {
            let functions = self.functions.iter().zip(&places);
            let mut here = functions.filter(|(_, place)| place.group == index);
            here.any(|(spec, _)| spec.function.sides().is_some())
        };
        let between: Vec<bool> = (0..groups.len()).map(is_between).collect();
        // One function, and each packet its business: there is one order.
        let has_order = self.sides.is_some() && (places.len() > 1 || between.contains(&true));
        let between = if has_order { between } else { Vec::new() };
        let drop_malformed = self.malformed == MalformedPolicy::Drop;
        let (checks, tracer, listed) = (self.checks(), None, None);
        ChainCore { drop_malformed, checks, groups, between, places, tracer, listed }
    }

    /// Whether some function stands between the sides, such as a NAT.
    pub(crate) fn has_between(&self) -> bool {
        self.functions.iter().any(|spec| spec.function.sides().is_some())
    }

    /// Where some function stands between the sides: which addresses are on which. Packets from outside are hashed as they
    /// look from inside then.
    pub fn side_prefixes(&self) -> Option<Vec<SidePrefix>> {
        self.sides.as_ref().filter(|_| self.has_between()).map(|sides| sides.prefixes())
    }

    /// Whether what is sent to an external end that always stands for an inside end has to come to the core of that end: a
    /// function on the inside sees both directions of the connection.
    pub(crate) fn spreads_by_fixed_ends(&self) -> bool {
        self.functions.len() > 1 && self.sides.as_ref().is_some_and(|sides| !sides.fixed.is_empty())
    }

    /// Whether packets to this address are a function's, though it may be an address of this host: a NAT's, a balancer's.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.functions.iter().any(|spec| spec.function.has_address(Addr::from(address)))
    }

    /// What a function on a core is made from.
    pub(super) fn spec(&self, index: usize) -> StageSpec {
        // With sides, the first function is the last one for packets from outside.
        let is_last = match self.sides {
            None => index + 1 == self.functions.len(),
            Some(_) => self.functions.len() == 1,
        };
        StageSpec { index: index as u8, is_last, seed: self.seed }
    }
}
