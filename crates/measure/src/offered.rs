//! A trace laid out for trials, and where a trial's cores find what the packets of others were.

use std::sync::Arc;

use engine::{Chain, Loss, Plan, SequencedAs, Sequencing};
use io::capture::Record;
use io::{Packets, Trace};
use thiserror::Error;

/// A trace laid out for replay under one plan.
#[derive(Clone)]
pub struct Offered {
    pub(crate) packets: Arc<Packets>,
    /// How packets bring their history along, if they do; otherwise it is where the strategy's dispatcher leaves it.
    pub(crate) history: Option<InPackets>,
}

impl Offered {
    /// The packets, as a card has them.
    pub fn packets(&self) -> &Packets {
        &self.packets
    }
}

/// How packets bring their history along, before each, in the format of `docs/history-format.md`.
#[derive(Clone, Copy, Debug)]
pub struct InPackets {
    /// What its items hold.
    pub version: SequencedAs,
    /// Whether cores get from each other what they lost.
    pub has_recovery: bool,
    /// What gets lost between sequencer and cores, beside what a card drops.
    pub loss: Option<Loss>,
}

/// Why a chain cannot be measured so.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Nothing to offer.
    #[error("the trace has no packets")]
    Empty,
    /// Nothing that functions could work on.
    #[error(
        "none of the trace's {packets} packets is a well-formed IP packet\nIs the link type that the capture states the right one?"
    )]
    NoIp {
        /// How many there are.
        packets: usize,
    },
    /// A thread for each core would not have a processor of its own.
    #[error(
        "{cores} cores{} cannot be measured on {processors} processors\n\
         Use fewer, or `--cores {cores} --virtual`: cores that run in turn, each with a clock of its own.",
        if *has_sequencer { " and a sequencer in front of them" } else { "" }
    )]
    Processors {
        /// What was asked.
        cores: usize,
        /// Whether the strategy has one core more, which passes packets on to these.
        has_sequencer: bool,
        /// What there is.
        processors: usize,
    },
    /// Cores with common memory slow each other down, which cores that run in turn do not show.
    #[error(
        "virtual cores cannot show what {what} cost{}: cores that run in turn never wait for each other's cache lines\n\
         Use `--cores`, up to as many as there are processors.", if what.contains("strategy") { "s" } else { "" }
    )]
    Common {
        /// What the cores have in common.
        what: String,
    },
    /// Packets go from core to core, and the simulated card decides at the packets' own time, for which real cores do not wait.
    #[error(
        "the simulated card cannot hand packets from core to core on real cores, as strategy `{strategy}` does on {cores}\n\
         Use `--virtual`, or one core, or `paceline run`, which says what it took."
    )]
    HandsOn {
        /// The strategy.
        strategy: &'static str,
        /// What was asked.
        cores: usize,
    },
    /// No memory for the tables.
    #[error("no memory for the tables\nUse fewer cores, or smaller `flows` in the chain file.")]
    OutOfMemory,
}

/// Lays a trace out for replay and hashes each packet once, as a card under this plan does.
///
/// # Errors
/// [`BenchError::Empty`] and [`BenchError::NoIp`].
pub fn packets(chain: &Chain, plan: &Plan, trace: &Trace) -> Result<Offered, BenchError> {
    if trace.is_empty() {
        return Err(BenchError::Empty);
    }
    let assign = plan.assign(chain);
    let mut has_ip = false;
    let packets = Packets::new(trace, &all(trace), |record| {
        let headers = chain.headers(record.link, record.data, record.wire_len);
        has_ip |= headers.is_ip() && headers.is_well_formed();
        assign.entry(&headers)
    });
    if !has_ip {
        return Err(BenchError::NoIp { packets: trace.len() });
    }
    Ok(Offered { packets: Arc::new(packets), history: None })
}

/// Lays a trace out as [`packets`] does, with its history before each packet.
///
/// # Errors
/// As [`packets`].
pub fn packets_with_history(
    chain: &Chain,
    plan: &Plan,
    trace: &Trace,
    how: InPackets,
) -> Result<Offered, BenchError> {
    // That there is anything to work on is seen in the packets as they are.
    packets(chain, plan, trace)?;
    let sequencing = Sequencing::with_version(chain, how.version.of(chain), plan.cores, false);
    let mut sequencing = sequencing.expect("a plan for replicas");
    let mut sequenced = Trace::default();
    for index in 0..trace.len() {
        let Record { time_ns, wire_len, link, data } = trace.packet(index);
        sequenced.push(&sequencing.next(&Record { time_ns, wire_len, link, data }).record);
    }
    let packets = Arc::new(Packets::new(&sequenced, &all(&sequenced), |_| 0));
    Ok(Offered { packets, history: Some(how) })
}

fn all(trace: &Trace) -> Vec<u32> {
    (0..trace.len() as u32).collect()
}
