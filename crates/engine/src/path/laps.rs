//! The parts of a batch's way, for observers that time them.

use crate::path::batch::Batch;

/// Parts of a batch's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// From the port.
    Receive,
    /// To headers.
    Parse,
    /// To the blocks of the packets' flows: hashed, looked up, prefetched, keys compared.
    Locate,
    /// Through the function with this index in the chain: packets of known flows.
    Function(usize),
    /// Packet by packet through a group of functions: new flows, and all in a full table.
    OneByOne,
    /// Past some blocks to see whether their flows are dead, once in a while.
    Sweep,
    /// Edits applied, checksums updated.
    Edit,
    /// Counted.
    Count,
    /// Back to the port.
    Send,
}

/// Observes the parts of a batch's way, for timing.
pub trait Laps {
    /// A part is behind it. After [`Lap::Send`] the batch is empty.
    fn lap(&mut self, _lap: Lap, _batch: &Batch) {}
}

impl Laps for () {}
