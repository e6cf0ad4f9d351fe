//! Where cores find what the packets of others were: in a log that all read, or in their own packets.

use std::sync::Arc;

use engine::{Chain, Loss, Plan, Sequencing};
use io::Trace;
use io::capture::Record;

use crate::bench::{BenchError, Offered, packets};
use crate::replay::TraceHistory;

/// Where a trial's cores find what the packets of others were.
#[derive(Clone)]
pub(crate) enum Histories {
    /// They need not know.
    None,
    /// In memory, where the dispatcher left it once for all.
    Log(Arc<TraceHistory>),
    /// Before each packet, in the format of `docs/history-format.md`.
    Packets(InPackets),
}

/// How packets bring their history along.
#[derive(Clone, Copy, Debug)]
pub struct InPackets {
    /// Whether cores get from each other what they lost.
    pub has_recovery: bool,
    /// What gets lost between sequencer and cores, beside what a card drops.
    pub loss: Option<Loss>,
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
    let mut sequencing = Sequencing::new(chain, plan.cores, false).expect("a plan for replicas");
    let mut sequenced = Trace::default();
    for index in 0..trace.len() {
        let Record { time_ns, wire_len, link, data } = trace.packet(index);
        sequenced.push(&sequencing.next(&Record { time_ns, wire_len, link, data }).record);
    }
    Ok(Offered::with_history(&sequenced, how))
}
