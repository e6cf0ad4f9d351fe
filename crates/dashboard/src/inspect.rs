//! What a run can be asked beside its counters: the page asks when its reader opens a part of it.

use std::time::Duration;

use serde::Deserialize;

/// A run that answers questions of the page. Each question is asked on a thread of its own, since it waits for cores. It returns soon
/// after the run has ended, or when what it is given says that nobody listens.
pub trait Inspect: Send + Sync + 'static {
    /// Looks through all flows of functions that count packets, and gives them to `see` some at a time, which says whether to go on.
    ///
    /// # Errors
    /// Why they cannot be listed now, for people.
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String>;

    /// Has cores trace packets that match, `most` on each core, and gives their ways to `see` as they come, which says whether to go on.
    ///
    /// # Errors
    /// Why nothing is traced, for people: what is wrong with the filter, or that another trace is on.
    fn trace(
        &self,
        filter: &TraceFilter,
        most: u64,
        see: &mut dyn FnMut(Seen) -> bool,
    ) -> Result<Matched, String>;

    /// Has another chain take over, from the text of a chain file, or the run's own chain file read again. Says what each function goes
    /// on with.
    ///
    /// # Errors
    /// Why not, for people: the chain before goes on.
    fn reload(&self, text: Option<&str>) -> Result<String, String>;
}

/// Which packets are traced: all that is given has to hold. It is no expression of pcap-filter(7), which the run would have libpcap
/// read, and look names up for, from any user of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFilter {
    /// Source or destination address, or a prefix that has it.
    #[serde(default)]
    pub host: Option<String>,
    /// Source or destination port.
    #[serde(default)]
    pub port: Option<u16>,
    /// A protocol by its name.
    #[serde(default)]
    pub protocol: Option<String>,
}

/// What a trace sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has begun, with this filter in words.
    Began(String),
    /// A packet's way, for people.
    Packet(String),
    /// Nothing came for a moment.
    Nothing,
}

/// What matched a trace's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Packets that matched, until each core had traced as many as it may.
    pub matched: u64,
    /// Those among them that were not traced, since others had not been read.
    pub missed: u64,
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
