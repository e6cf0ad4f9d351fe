//! State-Compute Replication (SCR, NSDI'25): packets go to the cores in turn, and each core steps all of them; those of
//! other cores from their history.
//!
//! | file | what it is |
//! |---|---|
//! | `log` | the history, which all cores read: written by one dispatcher, or by all cores |
//! | `turns` | the strategy `scr-turns`: no dispatcher, cores take packets from one queue |
//! | `replicator` | one core: the packets of others between its own, in the order of sequence numbers |
//! | `interleaver` | the same in a chain whose functions change what later ones read |
//! | `outside` | the same where a sequencer outside of this program puts history before packets |

pub(crate) mod interleaver;
pub(crate) mod log;
pub(crate) mod outside;
pub(crate) mod replicator;
pub(crate) mod turns;

use io::{Closed, Frame};
use strategy::{Assign, Spray};
use wire::Headers;

use crate::chain::Chain;
use crate::path::packets::BATCH_PACKETS;
use crate::strategies::dispatch::{Dispatcher, Queues, Team, wait_for_room};
use crate::strategies::hashing;
use crate::strategies::info::StrategyInfo;
use crate::strategies::plan::{Layout, Plan, States, Strategy};
use crate::strategies::refusal::PlanError;
use crate::strategies::scr::log::{HistoryWriter, history};

/// See the module.
pub(crate) struct Scr;

static INFO: StrategyInfo = StrategyInfo {
    // As many as a sequencer serves.
    max_cores: sequencer::MAX_CORES,
    parking: Err("each core steps the packets of all"),
    pinning: Err("each core has all flows"),
    rates: Some(&control::rates::SCR),
    ..StrategyInfo::new(
        "scr",
        "state-compute replication: packets go to cores in turn, and each core steps the history of all",
    )
};

impl Strategy for Scr {
    fn info(&self) -> &'static StrategyInfo {
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        replicable(chain, cores, self.name())?;
        Ok(Layout { states: States::Replicated, ..Layout::default() })
    }

    fn assign(&self, _: &Chain, plan: &Plan) -> Box<dyn Assign> {
        Box::new(Spray::new(plan.cores))
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        // One core alone has no history to step.
        if plan.cores == 1 {
            return Team::plain(self.assign(chain, plan), 1);
        }
        // As many as can be in flight, and those that are told of ahead of them, so that nobody waits for room.
        let records = plan.cores * (io::QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS) + BATCH_PACKETS;
        let (writer, intakes) = history(chain, plan.cores, records, plan.first);
        Team { dispatcher: Box::new(Recording { spray: Spray::new(plan.cores), writer }), intakes }
    }
}

/// Writes each packet's history ahead of sending it.
struct Recording {
    spray: Spray,
    writer: HistoryWriter,
}

impl Dispatcher for Recording {
    fn tells_headers(&self) -> bool {
        true
    }

    #[inline]
    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        wait_for_room(queues, || self.writer.has_room(headers.len()))?;
        self.writer.write(headers, frames);
        Ok(())
    }

    #[inline]
    fn dispatch(&mut self, _: &Headers, frame: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        frame.entry = 0;
        Ok(self.spray.core(0))
    }
}

/// Whether each core can step what the others have.
fn replicable(chain: &Chain, cores: usize, strategy: &'static str) -> Result<(), PlanError> {
    if cores > sequencer::MAX_CORES {
        return Err(PlanError::Replicas { strategy, cores, max: sequencer::MAX_CORES });
    }
    match chain.inspects_before_state() {
        Some(function) if cores > 1 => {
            let works = if hashing::layout(chain, "rss").is_ok() { "rss" } else { "single" };
            Err(PlanError::Payload {
                strategy,
                chain: chain.name.clone(),
                function: function.to_owned(),
                works,
            })
        }
        _ => Ok(()),
    }
}
