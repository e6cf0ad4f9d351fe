//! What a core and a function count, as cells of a block.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A count of which nobody knows the value.
pub const UNKNOWN: u64 = u64::MAX;

/// What a core counts: published after every batch. All but the last two never run back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CoreCounts {
    /// Packets received.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Batches received; [`UNKNOWN`] where packets are not worked on in this process.
    pub batches: u64,
    /// Time spent on packets, without waiting for them, ns; [`UNKNOWN`] where packets are not worked on in this process.
    pub busy_ns: u64,
    /// Packets forwarded.
    pub forward: u64,
    /// Packets sent back.
    pub transmit_back: u64,
    /// Packets passed to the host.
    pub host: u64,
    /// Packets dropped by a function.
    pub dropped_by_function: u64,
    /// Malformed packets dropped.
    pub dropped_malformed: u64,
    /// Packets dropped because their edits had no room.
    pub dropped_no_room: u64,
    /// Packets that the port lost because the core's queue was full; the core never saw them.
    pub lost_queue_full: u64,
    /// Entries of the indirection table that came to this core.
    pub moved_in: u64,
    /// Entries of the indirection table that went to another core.
    pub moved_out: u64,
    /// Packets that wait here for an entry which is on its way.
    pub held: u64,
    /// Packets that waited in the receive queue when the core last looked, those included that it then
    /// took; [`UNKNOWN`] where the port does not say.
    pub queue_depth: u64,
}

/// What one function counts on one core: published every few batches, and whenever the core is idle. All
/// but the last two never run back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FunctionCounts {
    /// Packets that were its business and reached it.
    pub packets: u64,
    /// Packets among `packets` that were forwarded.
    pub forward: u64,
    /// Packets among `packets` that were sent back.
    pub transmit_back: u64,
    /// Packets among `packets` that were passed to the host.
    pub host: u64,
    /// Flows that began.
    pub created: u64,
    /// Flows that a packet ended.
    pub removed: u64,
    /// Flows that time ended.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows refused because the table was full.
    pub rejected: u64,
    /// Flows that have a state, dead ones that were not swept yet included.
    pub live: u64,
    /// Flows that the table can hold; 0 where there is none.
    pub capacity: u64,
}

/// How many cells [`CoreCounts`] takes.
pub(crate) const CORE_CELLS: usize = size_of::<CoreCounts>() / size_of::<u64>();

/// How many cells [`FunctionCounts`] takes.
pub(crate) const FUNCTION_CELLS: usize = size_of::<FunctionCounts>() / size_of::<u64>();

impl CoreCounts {
    /// Packets dropped after they were received.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_function + self.dropped_malformed + self.dropped_no_room
    }
}

impl FunctionCounts {
    /// Live flows over what the table can hold, 0 to 1; 0 where there is no table.
    pub fn load(&self) -> f64 {
        self.live as f64 / self.capacity.max(1) as f64
    }
}
