//! A chain over a capture.

use std::sync::atomic::Ordering;

use io::{Feeder, replay, replay_in_any_order};

use crate::chain::Chain;
use crate::chain::checksums::Checksums;
use crate::chain::keeping::Keeping;
use crate::executor::input::{Input, Progress};
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::pace::Pace;
use crate::executor::seen::Seen;
use crate::executor::threads::{Fed, FeedEnd, Job, run_cores};
use crate::strategies::dispatch::{Dispatcher, Team};
use crate::strategies::ingress::Ingress;
use crate::strategies::plan::Plan;

/// Runs `chain` over a capture with one pinned thread per core, and shows every packet to `see` as it
/// comes out: in order of arrival, or as [`Plan::egress`] says.
///
/// # Errors
/// [`RunError`]; a capture that is cut short or corrupt is no error here but in the outcome.
pub fn replay_capture<E: Send>(
    chain: &Chain,
    plan: &Plan,
    input: impl Into<Input>,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    replay_keeping(chain, plan, &plan.keeping(), input.into(), progress, see)
}

/// The same where functions keep their states as `keeping` says.
pub(crate) fn replay_keeping<E: Send>(
    chain: &Chain,
    plan: &Plan,
    keeping: &Keeping<'_>,
    mut input: Input,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let checksums = chain.checksums.decide(&mut input.reader);
    let chain = &Chain { checksums: Checksums::decided(&checksums), ..chain.clone() };
    // All memory is taken before the clock starts.
    let chains =
        plan.cores_keeping(chain, keeping).map_err(|error| RunError::out_of_memory(plan.cores, error))?;
    let Team { dispatcher, intakes } = plan.team(chain);
    // A packet that waits for its flow is sent behind later ones.
    let ordered = if plan.rebalancing.is_some() { replay_in_any_order } else { replay };
    let ends = plan.egress.ends(chains.len(), ordered);
    let job = Job { chains, intakes, ends, egress: plan.egress, is_replicated: plan.is_replicated() };
    let feed = |feeder| feed(chain, input, feeder, dispatcher, progress);
    let outcome = run_cores(chain, job, feed, progress, see)?;
    Ok(RunOutcome { checksums, ..outcome })
}

fn feed(
    chain: &Chain,
    mut input: Input,
    mut feeder: Feeder,
    mut dispatcher: Box<dyn Dispatcher>,
    progress: &Progress,
) -> Fed {
    let end = feed_all(chain, &mut input, &mut feeder, &mut *dispatcher, progress);
    // The history ends before the cores see that their queues do.
    drop(dispatcher);
    Fed { end, ran_back: feeder.ran_back(), remarks: input.reader.remarks() }
}

/// Reads the capture and sends each packet to its core.
fn feed_all(
    chain: &Chain,
    Input { reader, speed }: &mut Input,
    feeder: &mut Feeder,
    dispatcher: &mut dyn Dispatcher,
    progress: &Progress,
) -> FeedEnd {
    let mut pace = speed.map(Pace::new);
    let mut ingress = Ingress::new(chain, dispatcher);
    let mut packets = 0u64;
    loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => return FeedEnd::Input(Ok(())),
            Err(error) => return FeedEnd::Input(Err(error.into())),
        };
        if let Some(pace) = &mut pace {
            let is_stopped = || progress.stop.load(Ordering::Relaxed);
            pace.wait_for(record.time_ns, || is_stopped() || feeder.is_closed());
            if is_stopped() {
                return FeedEnd::Stopped;
            }
        }
        let sent = feeder.take(&record).and_then(|mut frame| {
            // What a card does in hardware: parse and hash, to pick the queue.
            let (headers, refused) =
                ingress.headers(frame.link, feeder.bytes(&frame), frame.wire_len, frame.stamp.time_ns);
            frame.refused = refused;
            let core = dispatcher.dispatch(&headers, &mut frame, feeder)?;
            feeder.send(core, frame)
        });
        let Ok(()) = sent else { return FeedEnd::Closed };
        packets += 1;
        if packets.is_multiple_of(256) {
            progress.read_bytes.store(reader.position_bytes(), Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return FeedEnd::Stopped;
            }
        }
    }
}
