//! Tests of the router: by hand, with random packets, and against the kernel's own routing.

mod cost;
mod golden;
mod kernel;
mod lab;
mod life;
mod namespace;
mod properties;
mod stacks;
mod unresolved;

use super::message::Change;

/// A fault that a test plants, and has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// Changes of neighbours are not applied.
    Neighbours,
    /// Changes of routes are not applied.
    Routes,
}

impl Planted {
    pub(super) fn loses(self, change: &Change) -> bool {
        match self {
            Planted::Neighbours => matches!(change, Change::Neighbour { .. }),
            Planted::Routes => matches!(change, Change::Route(_) | Change::RouteGone(_)),
        }
    }
}
