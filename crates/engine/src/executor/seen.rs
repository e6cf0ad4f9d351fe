//! One packet as it comes out.

use io::Fate;
use wire::{LinkType, Malformed, Stamp};

/// One packet as it comes out of a chain.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Order and time.
    pub stamp: Stamp,
    /// What becomes of it.
    pub fate: Fate,
    /// Its bytes with all edits applied.
    pub bytes: &'a [u8],
    /// Its bytes on the wire, more where the capture cut it.
    pub wire_len: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// Why it was refused where packets enter, if it was: it is malformed then.
    pub refused: Option<Malformed>,
    /// The entry of the indirection table that its hash points to; 0 where nobody hashed it.
    pub entry: u16,
    /// How many packets were sent before it, from all cores: the order in which they left these.
    pub sent: u64,
}
