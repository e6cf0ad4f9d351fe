//! Why a chain cannot run as asked.

use crate::strategies::limits::MAX_CORES;

/// Why a chain cannot run as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number of cores that makes no sense.
    #[error("{cores} cores: the number of cores must be 1 to {MAX_CORES}")]
    Cores {
        /// What was asked.
        cores: usize,
    },
    /// `single` with several cores.
    #[error(
        "strategy `single` runs on one core, and {cores} were asked for; use `--strategy rss`, or leave out `--cores`"
    )]
    SingleCore {
        /// What was asked.
        cores: usize,
    },
    /// More memory than there is.
    #[error(
        "the tables of {cores} cores take {} MiB and {} MiB are free\n\
         Use fewer cores, or smaller `flows` in the chain file.",
        need_bytes >> 20,
        free_bytes >> 20
    )]
    Memory {
        /// What was asked.
        cores: usize,
        /// What all tables take.
        need_bytes: u64,
        /// What the system says is available.
        free_bytes: u64,
    },
    /// More memory than there is, where all cores have one table.
    #[error(
        "the tables that all cores share take {} MiB and {} MiB are free\n\
         Use smaller `flows` in the chain file.",
        need_bytes >> 20,
        free_bytes >> 20
    )]
    SharedMemory {
        /// What all tables take.
        need_bytes: u64,
        /// What the system says is available.
        free_bytes: u64,
    },
    /// More cores than a packet's history can be of.
    #[error("strategy `{strategy}` on {cores} cores: a packet's history is of at most {max} cores")]
    Replicas {
        /// The strategy.
        strategy: &'static str,
        /// What was asked.
        cores: usize,
        /// The most.
        max: usize,
    },
    /// More cores than can have a ring to each other.
    #[error("strategy `{strategy}` on {cores} cores: it runs on at most {max} cores")]
    Rings {
        /// The strategy.
        strategy: &'static str,
        /// What was asked.
        cores: usize,
        /// The most.
        max: usize,
    },
    /// What a function finds in a payload decides what others step, and replicas do not see it.
    #[error(
        "strategy `{strategy}` cannot run chain `{chain}`: `{function}` looks into payloads, which other cores do not see, and functions with states come behind it\n\
         What works: `{function}` behind them, or `--strategy {works}`."
    )]
    Payload {
        /// The strategy.
        strategy: &'static str,
        /// The chain.
        chain: String,
        /// The function that inspects.
        function: String,
        /// A strategy that runs it.
        works: &'static str,
    },
    /// A function whose flows cannot be replicated while others are not.
    #[error(
        "strategy `hybrid` cannot run chain `{chain}`: flows of `{function}` cannot be promoted, because {why}\n\
         What works: `--strategy {works}`."
    )]
    Promotion {
        /// The chain.
        chain: String,
        /// The function.
        function: String,
        /// Why not.
        why: &'static str,
        /// A strategy that runs it.
        works: &'static str,
    },
    /// A flow could be in two classes of traffic.
    #[error(
        "strategy `{strategy}` cannot run chain `{chain}`: {why}\nWhat works: classes told by what is hashed, or a strategy without classes, such as `rsspp`."
    )]
    Classes {
        /// The strategy.
        strategy: &'static str,
        /// The chain.
        chain: String,
        /// Which class, and why.
        why: String,
    },
    /// Two functions' keys cannot be kept on one core.
    #[error("strategy `{strategy}` cannot run chain `{chain}`: {conflict}.\n{remedy}")]
    Conflict {
        /// The strategy.
        strategy: &'static str,
        /// The chain.
        chain: String,
        /// Which functions, and their keys.
        conflict: String,
        /// What would work.
        remedy: String,
    },
}

/// Why the number of cores that get packets cannot change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoParking {
    /// There is one.
    #[error(
        "the run has one core: threads, tables and rings are made at the start\nStart it with as many as it may need, `--strategy rsspp --cores N`, and park some of them."
    )]
    OneCore,
    /// Its cores have no flows that others could be handed, or it decides itself.
    #[error(
        "under strategy `{strategy}` no core can be parked: {why}\nUse `--strategy rsspp` or `dyssect`; on captures and with --front also `rss`."
    )]
    Strategy {
        /// The strategy.
        strategy: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// What all cores share is forgotten when all of them have come past its end.
    #[error("no core can be parked: all cores share the states of {}, which a core that sees no packets would keep for ever\nLeave that function out, or put it into a chain of its own.", functions.join(", "))]
    Shared {
        /// Functions whose states all cores share.
        functions: Vec<String>,
    },
    /// The plan is not [`Plan::with_cores_to_park`](crate::Plan::with_cores_to_park).
    #[error(
        "no core can be parked: the chain that the run began with did not allow it\nStart the run anew with this chain."
    )]
    Began,
    /// What spreads packets over cores that have ports of their own does not move entries.
    #[error(
        "no core can be parked: each has sockets of its own, and the XDP program spreads packets over all of them\nStart the run with --strategy rsspp, or with --front, to park some of them."
    )]
    OwnPorts,
    /// Fewer than one, or more than there are.
    #[error(
        "{asked} cores: the run has {cores}, so 1 to {cores} can get packets\nThreads, tables and rings are made at the start: start it with as many as it may need, and park some of them."
    )]
    Number {
        /// What was asked.
        asked: usize,
        /// What there is.
        cores: usize,
    },
}

/// Why an entry of the indirection table, or a shard, cannot be put on a core by hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMove {
    /// There is one.
    #[error("the run has one core, which has all flows\nStart it with `--strategy rsspp --cores N`.")]
    OneCore,
    /// Nobody looks at the table while packets come.
    #[error(
        "under strategy `{strategy}` {why}, so nothing can be put on a core by hand\nUse `--strategy rsspp` or `dyssect`."
    )]
    Strategy {
        /// The strategy.
        strategy: &'static str,
        /// What it does instead.
        why: &'static str,
    },
    /// There is none of this number.
    #[error("there is no {unit} {entry}: they are 0 to {}", entries.saturating_sub(1))]
    Entry {
        /// `entry` or `shard`.
        unit: &'static str,
        /// What was asked.
        entry: u16,
        /// How many there are.
        entries: usize,
    },
    /// It gets no packets, or is not there.
    #[error("core {core} gets no packets: cores 0 to {} do\n`paceline ctl cores N` has more of the run's cores get some.", active.saturating_sub(1))]
    Core {
        /// What was asked.
        core: u16,
        /// How many get packets.
        active: usize,
    },
}

/// Why cores cannot have ports of their own, to which others send the packets that a hash and a table say, or from which they
/// take packets in turns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOwnPorts {
    /// There is one.
    #[error("one core has the port to itself")]
    OneCore,
    /// Packets' cores follow from more than a hash and a table.
    #[error("strategy `{strategy}` decides as packets come")]
    Strategy {
        /// The strategy.
        strategy: &'static str,
    },
    /// Cores that send by themselves are done with packets of one flow at different times.
    #[error(
        "it has packets leave in the order in which they came; with --egress as-ready each core sends by itself"
    )]
    Ordered,
    /// One thread has to see all fragments of a datagram.
    #[error("with `fragments = \"track\"` or `\"follow\"` one thread follows all datagrams")]
    Fragments,
    /// A card and a program before ports know addresses, and not which inside end one of them stands for.
    #[error(
        "its external ends that always stand for inside ends, such as a NAT's `forwards`, are known to one thread alone"
    )]
    FixedEnds,
}
