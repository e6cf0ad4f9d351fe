//! What leaves a group of functions for another core: flows, and pools.

use std::any::Any;

/// A function's pool, whatever its type.
pub struct Pool(pub(crate) Box<dyn Any + Send>);

/// A function's pools on one core, as [`Function::pools`](crate::Function::pools) divided them.
pub enum CorePools {
    /// One for all that comes here.
    One(Pool),
    /// One for each entry of the indirection table that comes here, by entry.
    ByEntry(Vec<Option<Pool>>),
}

/// No core.
pub(crate) const NOBODY: u16 = u16::MAX;

/// Flows of one group, on their way to another core.
pub(crate) struct PackedFlows {
    /// By flow.
    pub(crate) entries: Vec<u16>,
    /// A [`table::Parcel`] with the group's key.
    pub(crate) parcel: Box<dyn Any + Send>,
}

/// Which flows are to go.
pub(crate) struct Leaving<'a> {
    /// The core that gets an entry's flows, or [`NOBODY`].
    pub(crate) to: &'a [u16],
    /// Blocks that may still be looked at.
    pub(crate) blocks_left: usize,
    /// Flows that may still be packed.
    pub(crate) flows_left: usize,
}
