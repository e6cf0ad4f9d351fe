//! The error of a table that gets no memory.

/// The system has no memory for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What the table takes.
    pub bytes: u64,
}
