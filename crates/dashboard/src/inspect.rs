//! What a run can be asked beside its counters: the page asks when somebody wants to see it.

use std::time::Duration;

/// A run that answers questions of the page. Each question is asked on a thread of its own, since it waits for cores. It returns soon
/// after the run has ended, or when what it is given says that nobody listens.
pub trait Inspect: Send + Sync + 'static {
    /// Looks through all flows of functions that count packets, and gives them to `see` some at a time, which says whether to go on.
    ///
    /// # Errors
    /// Why they cannot be listed now, for people.
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String>;
}

/// Some flows.
#[derive(Clone, Debug, Default)]
pub struct Portion {
    /// Flows, each with what its function counts.
    pub flows: Vec<Flow>,
    /// How long cores worked on the list so far.
    pub worked: Duration,
}

/// A flow of a function that counts its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The function's name.
    pub function: String,
    /// The flow's key, for people.
    pub key: String,
    /// The core that has it; `None` where all cores have it, or each has a replica.
    pub core: Option<usize>,
    /// Its packets so far.
    pub packets: u64,
    /// Their bytes, where the function counts them.
    pub bytes: Option<u64>,
}
