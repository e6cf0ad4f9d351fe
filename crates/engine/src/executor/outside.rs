//! Runs a chain over packets that come with their history from a sequencer outside.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use io::Feeder;
use io::capture::CaptureReader;
use sequencer::{Kind, Version};

use crate::chain::Chain;
use crate::chain::checksums::{ChecksumSample, Checksums, DecidedBy};
use crate::executor::cores::Before;
use crate::executor::input::Progress;
use crate::executor::leaving::Watch;
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::pace::{Pace, Speed};
use crate::executor::seen::Seen;
use crate::executor::simulated::Executor;
use crate::executor::threads::{Fed, FeedEnd, Job, conclude};
use crate::path::checks::Fragments;
use crate::path::core::ChainCore;
use crate::path::receive::Intake;
use crate::strategies::egress::{Egress, Replayed};
use crate::strategies::plan::Plan;
use crate::strategies::scr::outside::arrivals::{Arrivals, InputError};
use crate::strategies::scr::outside::intake::External;
use crate::strategies::scr::outside::items::HistoryItems;
use crate::strategies::scr::outside::line::Line;
use crate::strategies::scr::outside::loss::Loss;
use crate::strategies::scr::outside::on_loss::{OnLoss, Recovery};
use crate::strategies::scr::outside::sequencing::Sequencing;

/// Packets that come to cores with their history.
pub struct ExternalInput {
    /// Where from.
    pub packets: ExternalPackets,
    /// How fast their time goes by; without it they come as fast as they are taken.
    pub speed: Option<Speed>,
    /// What gets lost on the way.
    pub loss: Option<Loss>,
    /// What is done about that.
    pub recovery: Recovery,
}

/// Where packets with history come from.
pub enum ExternalPackets {
    /// A file for each core.
    Files(Vec<CaptureReader>),
    /// A capture, to be sequenced on the way.
    Capture(Box<CaptureReader>, SequencedAs),
}

/// The version of the history that a capture is sequenced with on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequencedAs {
    /// The newest that the chain can have: see [`Chain::history_version`].
    #[default]
    Newest,
    /// Version 1: items hold bytes of headers.
    Headers,
}

impl SequencedAs {
    /// The version that a chain's history has then.
    pub fn of(self, chain: &Chain) -> Version {
        match self {
            SequencedAs::Newest => chain.history_version(),
            SequencedAs::Headers => Version::Headers,
        }
    }
}

/// Frames of each file that are looked at ahead, for one that says what is in all of them: some may be damaged.
const LOOKED_AT: usize = 16;

impl ExternalPackets {
    /// What the first frame says that is read here. Files that are none of a sequencer have none.
    fn kind(&mut self, chain: &Chain) -> Option<Kind> {
        let (version, table_seed) = match self {
            ExternalPackets::Capture(_, version) => (version.of(chain), chain.table_seed),
            ExternalPackets::Files(readers) => {
                let mut found = None;
                for reader in readers {
                    reader.look_ahead(LOOKED_AT, usize::MAX, &mut |record| {
                        found = found.or_else(|| Kind::of(record.data));
                    });
                    if found.is_some() {
                        return found;
                    }
                }
                return None;
            }
        };
        Some(Kind { version, table_seed })
    }

    /// The chain as cores run it on these packets, with what was decided about checksums. Of files their sequencer
    /// decided, and says which packets are wrong: see below. The seed of tables is that of the hashes in the
    /// files, if there are any: who sends them can fill tables as he likes anyway.
    pub(crate) fn decided(&mut self, chain: &Chain) -> (Chain, ChecksumSample) {
        let sample = match self {
            ExternalPackets::Capture(reader, _) => chain.checksums.decide(reader),
            ExternalPackets::Files(_) => {
                ChecksumSample { decided_by: DecidedBy::Sequencer, ..ChecksumSample::default() }
            }
        };
        // What a sequencer refused is refused, whatever the chain says here: the other cores are told so, too.
        let fragments = match (&self, chain.fragments) {
            (ExternalPackets::Files(_), Fragments::Pass) => Fragments::Track,
            (_, fragments) => fragments,
        };
        let checksums = Checksums::decided(&sample);
        let table_seed = match self.kind(chain) {
            Some(Kind { version: Version::Typed, table_seed }) => table_seed,
            _ => chain.table_seed,
        };
        (Chain { checksums, fragments, table_seed, ..chain.clone() }, sample)
    }
}

/// Runs `chain` with a replica on each core over packets that come with history, with one pinned thread per core,
/// and shows every packet to `see` as it comes out, in the order of sequence numbers, or as [`Plan::egress`] says. Packets whose history is bad
/// are dropped, and counted in [`RunOutcome::history`].
///
/// # Errors
/// [`RunError`]; input that is cut short or contradicts itself is no error here but in the outcome.
pub fn replay_external<E: Send>(
    chain: &Chain,
    plan: &Plan,
    input: ExternalInput,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let ExternalInput { mut packets, speed, loss, recovery } = input;
    let (chain, checksums) = packets.decided(chain);
    let chain = &chain;
    let opened = match open(chain, plan, packets, loss) {
        Ok(opened) => opened,
        Err(error) => return Ok(RunOutcome::nothing(error)),
    };
    let chains = (0..plan.cores).map(|_| chain.core()).collect::<Result<Vec<_>, _>>();
    let mut chains = chains.map_err(|error| RunError::out_of_memory(plan.cores, error))?;
    chain.trace_on(&mut chains, &progress.tracing);
    let manner = Manner { recovery, speed, egress: plan.egress, unanswered: Vec::new() };
    let outcome = run((chain, plan), opened, chains, manner, progress, see)?;
    Ok(RunOutcome { checksums, ..outcome })
}

/// What `single` makes of all that any core gets, in the order of sequence numbers; `unanswered` packets it steps as if
/// their own core had lost them.
pub(crate) fn replay_all<E: Send>(
    chain: &Chain,
    plan: &Plan,
    input: ExternalInput,
    unanswered: &[u64],
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let ExternalInput { mut packets, loss, .. } = input;
    let (chain, checksums) = packets.decided(chain);
    let chain = &chain;
    let opened = match open(chain, plan, packets, loss) {
        Ok(opened) => opened,
        Err(error) => return Ok(RunOutcome::nothing(error)),
    };
    let core = chain.core().map_err(|error| RunError::out_of_memory(1, error))?;
    let unanswered = unanswered.to_vec();
    let manner = Manner { recovery: Recovery::Off, speed: None, egress: plan.egress, unanswered };
    let outcome = run((chain, plan), opened, vec![core], manner, progress, see)?;
    Ok(RunOutcome { checksums, ..outcome })
}

/// Opens packets for a chain as [`ExternalPackets::decided`] has it. Says what their items hold: where files are of a
/// version that the chain cannot have, headers, and every packet is rejected.
pub(crate) fn open(
    chain: &Chain,
    plan: &Plan,
    mut packets: ExternalPackets,
    loss: Option<Loss>,
) -> Result<(Arrivals, HistoryItems), InputError> {
    let version = packets.kind(chain).map_or(Version::Headers, |kind| kind.version);
    let version = version.min(chain.history_version());
    let items = chain.history_items(version).expect("a version that the chain has");
    let arrivals = match packets {
        ExternalPackets::Files(readers) => {
            assert_eq!(readers.len(), plan.cores, "a file for each core");
            Arrivals::from_files(readers, items.clone(), loss)?
        }
        ExternalPackets::Capture(reader, _) => {
            let sequencing = Sequencing::with_version(chain, version, plan.cores, false);
            Arrivals::from_capture(*reader, sequencing.expect("a plan for replicas"), loss)
        }
    };
    Ok((arrivals, items))
}

/// How cores go about what they get.
struct Manner {
    recovery: Recovery,
    speed: Option<Speed>,
    egress: Egress,
    /// See [`External::without_answers`].
    unanswered: Vec<u64>,
}

/// On as many cores as there are chains: either each gets its own packets, or one gets all.
fn run<E: Send>(
    (chain, plan): (&Chain, &Plan),
    (arrivals, items): (Arrivals, HistoryItems),
    chains: Vec<ChainCore>,
    Manner { recovery, speed, egress, unanswered }: Manner,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let (cores, senders) = (chains.len(), arrivals.cores());
    let line = Arc::new(Line::new(senders));
    let steps = OnLoss::for_cores(recovery, cores, items.item_len());
    let base = arrivals.base();
    let intake = |(core, steps)| -> Box<dyn Intake> {
        let external = External::new(chain, core, senders, items.clone(), base, steps, Arc::clone(&line));
        let external = external.seeing_as(chain);
        Box::new(external.without_answers(unanswered.clone()))
    };
    let intakes = steps.into_iter().enumerate().map(intake).collect();
    let ends = Replayed { egress, has_one_queue: false, ordered: io::replay_restamped }.ends(cores);
    let telemetry = progress.telemetry.as_deref();
    telemetry.inspect(|telemetry| telemetry.begin());
    let job = Job { chains, intakes, ends, before: Before::all(cores, telemetry), first: 0 };
    let (mut watch, begin) = (Watch::of(egress), Instant::now());
    let feed = |feeder| feed(arrivals, feeder, cores, &line, speed, progress);
    let (ran, lost) = Executor::with(plan, cores, |executor| executor.run_cores(job, feed, &mut watch, see))?;
    let mut outcome = conclude(chain, plan, ran, begin.elapsed(), &watch)?;
    outcome.is_replicated = true;
    if let Some(history) = &mut outcome.history {
        (history.lost, history.has_recovery) = (lost, recovery != Recovery::Off);
    }
    Ok(outcome)
}

/// Sends what arrives to its core, or all to one; and how many packets were lost.
fn feed(
    mut arrivals: Arrivals,
    mut feeder: Feeder,
    queues: usize,
    line: &Line,
    speed: Option<Speed>,
    progress: &Progress,
) -> (Fed, u64) {
    let end = feed_all(&mut arrivals, &mut feeder, queues, line, speed, progress);
    // Ahead of the queues' end, which the cores see when the feeder goes.
    (0..arrivals.cores()).for_each(|core| line.raise(core, arrivals.end()));
    let fed = Fed { end, ended: Instant::now(), ran_back: arrivals.ran_back(), remarks: arrivals.remarks() };
    (fed, arrivals.lost())
}

fn feed_all(
    arrivals: &mut Arrivals,
    feeder: &mut Feeder,
    queues: usize,
    line: &Line,
    speed: Option<Speed>,
    progress: &Progress,
) -> FeedEnd {
    let mut pace = speed.map(Pace::new);
    let mut packets = 0u64;
    loop {
        let core = match arrivals.advance(&progress.stop) {
            Ok(Some(core)) => core,
            Ok(None) if progress.stop.load(Ordering::Relaxed) => return FeedEnd::Stopped,
            Ok(None) => return FeedEnd::Input(Ok(())),
            Err(error) => return FeedEnd::Input(Err(error)),
        };
        let Some(record) = arrivals.record() else { return FeedEnd::Input(Ok(())) };
        arrivals.floors().iter().enumerate().for_each(|(core, floor)| line.raise(core, *floor));
        let is_stopped = || progress.stop.load(Ordering::Relaxed);
        if let Some(pace) = &mut pace {
            pace.wait_for(record.time_ns, || is_stopped() || feeder.is_closed());
        }
        if (pace.is_some() || packets.is_multiple_of(256)) && is_stopped() {
            return FeedEnd::Stopped;
        }
        let sent = feeder.take(&record).and_then(|mut frame| {
            frame.entry = core as u16;
            feeder.send(if queues == 1 { 0 } else { core }, frame)
        });
        if sent.is_err() {
            return FeedEnd::Closed;
        }
        packets += 1;
        if packets.is_multiple_of(256) {
            progress.read_bytes.store(arrivals.position_bytes(), Ordering::Relaxed);
        }
    }
}
