//! The kernel's tables as its messages tell of them.
//!
//! A message that says plainly what changed is applied. Where it does not (several routes with one key, routes that the
//! kernel removes without a word when an interface goes down), the mirror is *in doubt*, and a new dump decides.

use std::collections::{BTreeMap, HashMap};

use wire::Addr;

use super::message::{Address, Change, KernelRoute, Key};
use super::snapshot::{Link, Neighbour};

/// The tables.
#[derive(Default)]
pub(super) struct Mirror {
    pub(super) links: BTreeMap<u32, Link>,
    /// In the order in which they came.
    pub(super) addresses: Vec<Address>,
    pub(super) routes: BTreeMap<Key, Vec<KernelRoute>>,
    pub(super) neighbours: HashMap<(u32, Addr), Neighbour>,
    /// What changed since it was last asked for.
    pub(super) changed: Changed,
    /// Whether a new dump is needed.
    pub(super) is_in_doubt: bool,
}

/// Which parts changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Changed {
    pub(super) links: bool,
    pub(super) routes: bool,
    pub(super) neighbours: bool,
}

impl Changed {
    pub(super) const ALL: Changed = Changed { links: true, routes: true, neighbours: true };

    pub(super) fn any(self) -> bool {
        self.links || self.routes || self.neighbours
    }
}

/// How a new route goes with those of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// A line of a dump: behind those that came before.
    Listed,
    /// It was added.
    Added,
    /// It replaced one.
    Replaced,
}

impl Mirror {
    /// Applies a change.
    pub(super) fn apply(&mut self, change: Change, how: How) {
        match change {
            Change::Link(link) => self.link(link, how),
            Change::LinkGone(index) => {
                self.changed.links |= self.links.remove(&index).is_some();
                self.addresses.retain(|address| address.interface != index);
                let before = self.neighbours.len();
                self.neighbours.retain(|(interface, _), _| *interface != index);
                self.changed.neighbours |= self.neighbours.len() != before;
                self.is_in_doubt = true;
            }
            Change::Address(address) => {
                let same = |known: &&mut Address| is_same(known, &address);
                match self.addresses.iter_mut().find(same) {
                    Some(known) if *known == address => return,
                    Some(known) => *known = address,
                    None => self.addresses.push(address),
                }
                self.changed.links = true;
            }
            Change::AddressGone(address) => {
                self.addresses.retain(|known| !is_same(known, &address));
                self.changed.links = true;
                // IPv4 routes with that preferred source vanish with it, and nothing is said of them.
                self.is_in_doubt = true;
            }
            Change::Route(route) => self.route(route, how),
            Change::RouteGone(route) => self.route_gone(&route),
            Change::Neighbour { interface, address, known } => {
                let key = (interface, address);
                let before = match known {
                    Some(neighbour) => self.neighbours.insert(key, neighbour),
                    None => self.neighbours.remove(&key),
                };
                self.changed.neighbours |= before != known;
            }
        }
    }

    fn link(&mut self, link: Link, how: How) {
        let before = self.links.insert(link.index, link.clone());
        if before.as_ref() == Some(&link) {
            return;
        }
        self.changed.links = true;
        // Routes of an interface that goes down are removed, and ways of a route marked as dead, without a word.
        let is_turned = before.is_some_and(|before| before.is_up != link.is_up);
        self.is_in_doubt |= is_turned && how != How::Listed;
    }

    fn route(&mut self, route: KernelRoute, how: How) {
        let alike = self.routes.entry(route.key).or_default();
        match (how, alike.as_mut_slice()) {
            (_, alike) if alike.contains(&route) => return,
            (How::Listed, _) | (_, []) => alike.push(route),
            (How::Replaced, [only]) => *only = route,
            // Before which of them it is, or which one it replaced, is not said.
            _ => self.is_in_doubt = true,
        }
        self.changed.routes = true;
    }

    fn route_gone(&mut self, route: &KernelRoute) {
        let Some(alike) = self.routes.get_mut(&route.key) else { return };
        match alike.iter().position(|known| known == route) {
            Some(at) => {
                alike.remove(at);
                self.changed.routes = true;
            }
            // The kernel may tell of one way of several.
            None => self.is_in_doubt = true,
        }
        if alike.is_empty() {
            self.routes.remove(&route.key);
        }
    }
}

fn is_same(a: &Address, b: &Address) -> bool {
    (a.interface, a.address) == (b.interface, b.address)
}
