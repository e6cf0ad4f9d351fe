//! What the registers of a pipeline hold in one cycle, as numbers: what hardware is held to.

/// What registers, queues and tables hold at the beginning of a cycle, in the order in which the model has them.
///
/// `docs/rtl.md` lists the names, and what the numbers of each are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The cycle.
    pub cycle: u64,
    /// Name and numbers of each. Tables are here only where they may differ from the cycle shown before.
    pub held: Vec<(String, Vec<u64>)>,
}

impl Registers {
    /// Says what one holds.
    pub(crate) fn put(&mut self, name: impl Into<String>, numbers: impl IntoIterator<Item = u64>) {
        self.held.push((name.into(), numbers.into_iter().collect()));
    }
}
