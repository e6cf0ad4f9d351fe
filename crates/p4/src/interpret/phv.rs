//! What a packet is while a program runs.

/// A packet on its way: all containers, and what is left of its bytes.
#[derive(Clone, Debug)]
pub struct Phv {
    /// A value for each field of the program.
    pub values: Vec<u128>,
    /// For each table, the action that was chosen for this packet.
    pub chosen: Vec<Option<u32>>,
    pub(super) payload: Vec<u8>,
    pub(super) number: u64,
    pub(super) draws: u64,
    pub(super) time_ns: u64,
}
