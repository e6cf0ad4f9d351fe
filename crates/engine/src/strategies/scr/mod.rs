//! State-Compute Replication (SCR, NSDI'25): packets go to the cores in turn, and each core steps all of them; those of
//! other cores from their history.
//!
//! | file | what it is |
//! |---|---|
//! | `log` | the history that one dispatcher writes and all cores read |
//! | `replicator` | one core: the packets of others between its own, in the order of sequence numbers |
//! | `outside` | the same where a sequencer outside of this program puts history before packets |

pub(crate) mod log;
pub(crate) mod outside;
pub(crate) mod replicator;

use io::{Closed, Frame};
use strategy::{Assign, Spray};
use wire::Headers;

use crate::chain::Chain;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::Intake;
use crate::strategies::dispatch::{Dispatcher, Queues, Team};
use crate::strategies::hashing;
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::scr::log::{HistoryWriter, history};
use crate::strategies::scr::replicator::Replicator;

/// See the module.
pub(crate) struct Scr;

impl Strategy for Scr {
    fn name(&self) -> &'static str {
        "scr"
    }

    fn summary(&self) -> &'static str {
        "state-compute replication: packets go to cores in turn, and each core steps the history of all"
    }

    /// As many as a sequencer serves.
    fn max_cores(&self) -> usize {
        sequencer::MAX_CORES
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        replicable(chain, cores)?;
        Ok(Layout { states: States::Replicated, ..Layout::default() })
    }

    fn assign(&self, _: &Chain, plan: &Plan) -> Box<dyn Assign> {
        Box::new(Spray::new(plan.cores))
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let assign = self.assign(chain, plan);
        // One core alone has no history to step.
        if plan.cores == 1 {
            return Team::plain(assign, 1);
        }
        // As many as can be in flight, so that none is overwritten before the last core has read it.
        let records = plan.cores * (io::QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS);
        let (writer, reader) = history(chain.excerpt(), records, plan.first);
        let intake = |_| -> Box<dyn Intake> {
            Box::new(Replicator::new(reader.clone(), chain, plan.cores, plan.first))
        };
        Team {
            dispatcher: Box::new(Recording { assign, writer }),
            intakes: (0..plan.cores).map(intake).collect(),
        }
    }
}

/// Writes each packet's history ahead of sending it.
struct Recording {
    assign: Box<dyn Assign>,
    writer: HistoryWriter,
}

impl Dispatcher for Recording {
    fn tells_headers(&self) -> bool {
        true
    }

    #[inline]
    fn dispatch(&mut self, headers: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        frame.entry = self.assign.entry(headers);
        self.writer.write(headers, frame.stamp);
        Ok(self.assign.core(frame.entry))
    }
}

/// Whether each core can step what the others have.
fn replicable(chain: &Chain, cores: usize) -> Result<(), PlanError> {
    if cores > sequencer::MAX_CORES {
        return Err(PlanError::Replicas { cores, max: sequencer::MAX_CORES });
    }
    match chain.inspects_before_state() {
        Some(function) if cores > 1 => {
            let works = if hashing::layout(chain, "rss").is_ok() { "rss" } else { "single" };
            Err(PlanError::Payload { chain: chain.name.clone(), function: function.to_owned(), works })
        }
        _ => Ok(()),
    }
}
