use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use control::{Order, Orders};
use io::capture::{CaptureReader, Remarks};
use io::{
    Closed, Collector, Done, EngineDrop, Fate, Feeder, ReplayPort, Waiting, replay, replay_in_any_order,
};
use strategy::{Assign, Move};
use table::OutOfMemory;
use telemetry::Telemetry;
use thiserror::Error;
use wire::{Headers, LinkType, RanBack, Stamp};

use crate::chain::{Chain, ChainCore, Keeping};
use crate::checksums::{ChecksumSample, Checksums};
use crate::egress::{Egress, EgressOutcome};
use crate::external::{HistoryOutcome, InputError};
use crate::history::{HistoryWriter, history};
use crate::ingress::Ingress;
use crate::moving::Mover;
use crate::pace::{Pace, Speed};
use crate::plan::Plan;
use crate::publish::Publisher;
use crate::replicate::{Forgotten, Replicator};
use crate::run::{self, CoreCounters, Intake, IntakeEnd, Moves};
use crate::undeclared::{UndeclaredError, check_declared};
use crate::{BATCH_PACKETS, Batch};

/// One packet as it comes out of a chain.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Order and time.
    pub stamp: Stamp,
    /// What becomes of it.
    pub fate: Fate,
    /// Its bytes with all edits applied.
    pub bytes: &'a [u8],
    /// Its bytes on the wire, more where the capture cut it.
    pub wire_len: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// The entry of the indirection table that its hash points to; 0 where nobody hashed it.
    pub entry: u16,
    /// How many packets were sent before it, from all cores: the order in which they left these.
    pub sent: u64,
}

/// How a run goes on, to be read from outside while it does.
#[derive(Debug, Default)]
pub struct Progress {
    /// Set to end the run after the packets that are on their way.
    pub stop: AtomicBool,
    /// Bytes of the input file read so far.
    pub read_bytes: AtomicU64,
    /// Where the cores tell what they count, if anyone wants to know: as [`Plan::telemetry`] makes it.
    pub telemetry: Option<Arc<Telemetry>>,
}

/// Where packets come from, and when.
pub struct Input {
    /// The capture.
    pub reader: CaptureReader,
    /// How fast its time goes by; without it packets come as fast as they are taken.
    pub speed: Option<Speed>,
}

impl From<CaptureReader> for Input {
    fn from(reader: CaptureReader) -> Input {
        Input { reader, speed: None }
    }
}

/// What a run leaves behind.
pub struct RunOutcome {
    /// Packets that came out: all that went in.
    pub packets: u64,
    /// From the first packet in to the last packet out.
    pub elapsed: Duration,
    /// The last packet's stamp: the time at which flows are counted and digested.
    pub last: Stamp,
    /// Per core, what it did and its functions with their flows, settled at `last`.
    pub cores: Vec<(CoreCounters, ChainCore)>,
    /// Why the input ended early, if it did. Everything whole before that was processed.
    pub input_error: Option<InputError>,
    /// Whether [`Progress::stop`] ended the run before the input did.
    pub stopped: bool,
    /// How far arrival times ran back, which stamps do not.
    pub ran_back: RanBack,
    /// What the reader of the input skipped, or could not take as it was.
    pub remarks: Remarks,
    /// Whether any packet that came out is IP, or malformed.
    pub has_ip: bool,
    /// What went from core to core.
    pub moves: Moves,
    /// Whether each core has all flows, and not those of its own packets.
    pub is_replicated: bool,
    /// What became of packets because of their history, where they came with one.
    pub history: Option<HistoryOutcome>,
    /// How packets left.
    pub egress: EgressOutcome,
    /// Whether checksums were verified, and why.
    pub checksums: ChecksumSample,
}

impl RunOutcome {
    /// Of a run that did not begin.
    pub(crate) fn nothing(error: InputError) -> RunOutcome {
        RunOutcome {
            packets: 0,
            elapsed: Duration::ZERO,
            last: Stamp::default(),
            cores: Vec::new(),
            input_error: Some(error),
            stopped: false,
            ran_back: RanBack::default(),
            remarks: Remarks::default(),
            has_ip: false,
            moves: Moves::default(),
            is_replicated: false,
            history: None,
            egress: EgressOutcome::default(),
            checksums: ChecksumSample::default(),
        }
    }

    /// Cores that have each flow once.
    pub fn whole(&self) -> &[(CoreCounters, ChainCore)] {
        if self.is_replicated { &self.cores[..1] } else { &self.cores }
    }
}

/// Why a run has no outcome.
#[derive(Debug, Error)]
pub enum RunError<E> {
    /// A core panicked, which is a defect of Paceline or of a function.
    #[error(
        "core {core} panicked after {packets} packets; this is a defect, please report it with the packet that did it"
    )]
    CorePanicked {
        /// Which core.
        core: usize,
        /// Packets that had come out by then.
        packets: u64,
    },
    /// No memory for the tables.
    #[error("no memory for the tables of {cores} cores, one of which takes {} MiB\nUse fewer cores, or smaller `flows` in the chain file.", bytes >> 20)]
    OutOfMemory {
        /// How many cores were asked for.
        cores: usize,
        /// What the table takes that could not be had.
        bytes: u64,
    },
    /// A core lagged so far behind that the history of others' packets was overwritten.
    #[error(
        "core {core} lagged behind the others, and the history of packet {seq} was overwritten before it had read it; this is a defect, please report it"
    )]
    Forgotten {
        /// Which core.
        core: usize,
        /// The packet's number, from 0.
        seq: u64,
    },
    /// A function used a number that it does not declare.
    #[error(transparent)]
    Undeclared(UndeclaredError),
    /// The caller's `see` said so.
    #[error(transparent)]
    Seen(E),
}

impl<E> RunError<E> {
    pub(crate) fn out_of_memory(cores: usize, OutOfMemory { bytes }: OutOfMemory) -> RunError<E> {
        RunError::OutOfMemory { cores, bytes }
    }
}

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
    let assign = plan.assign(chain);
    // All memory is taken before the clock starts.
    let chains =
        plan.cores_keeping(chain, keeping).map_err(|error| RunError::out_of_memory(plan.cores, error))?;
    let (tell, intakes) = intakes(chain, plan);
    // A packet that waits for its flow is sent behind later ones.
    let ordered = if plan.rebalancing.is_some() { replay_in_any_order } else { replay };
    let ends = plan.egress.ends(chains.len(), ordered);
    let job = Job { chains, intakes, ends, egress: plan.egress, is_replicated: plan.is_replicated() };
    let feed = |feeder| feed(chain, input, feeder, assign, tell, progress);
    let outcome = run_cores(chain, job, feed, progress, see)?;
    Ok(RunOutcome { checksums, ..outcome })
}

/// Cores with all that they need.
pub(crate) struct Job {
    pub chains: Vec<ChainCore>,
    pub intakes: Vec<Box<dyn Intake>>,
    /// Of the port that packets come through.
    pub ends: (Feeder, Vec<ReplayPort>, Collector),
    /// In which order they come out of it.
    pub egress: Egress,
    /// Whether each core gets all flows.
    pub is_replicated: bool,
}

/// Runs each core of `chain` on a thread of its own, and `feed` on another.
pub(crate) fn run_cores<E: Send>(
    chain: &Chain,
    Job { chains, intakes, ends: (feeder, ports, collector), egress, is_replicated }: Job,
    feed: impl FnOnce(Feeder) -> Fed + Send,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    thread::scope(|scope| {
        let begin = Instant::now();
        let telemetry = progress.telemetry.as_deref();
        telemetry.inspect(|telemetry| telemetry.begin());
        let workers: Vec<_> = ports
            .into_iter()
            .zip(chains)
            .zip(intakes)
            .enumerate()
            .map(|(core, ((port, chain), intake))| {
                let publisher = telemetry.and_then(|telemetry| Publisher::new(telemetry, core));
                scope.spawn(move || work(core, port, chain, intake, publisher))
            })
            .collect();
        let feeding = scope.spawn(move || feed(feeder));
        let mut collected = collect(collector, egress, see);
        let elapsed = begin.elapsed();

        let fed = feeding.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        let mut all_worked = Vec::new();
        for (core, worker) in workers.into_iter().enumerate() {
            let worked =
                worker.join().map_err(|_| RunError::CorePanicked { core, packets: collected.packets })?;
            if let Some(Forgotten { seq }) = worked.end.forgotten {
                return Err(RunError::Forgotten { core, seq });
            }
            // What was stepped last may be history.
            let last = worked.end.external.map_or(Stamp::default(), |external| external.last);
            collected.last = collected.last.max(last);
            all_worked.push(worked);
        }
        let mut cores = Vec::new();
        let mut moves = Moves::default();
        let mut publishers = Vec::new();
        let mut histories = Vec::new();
        for Worked { counters, mut chain, moves: moved, end, publisher } in all_worked {
            moves = moves.plus(moved);
            chain.settle(collected.last);
            cores.push((counters, chain));
            publishers.push(publisher);
            histories.extend(end.external.map(|external| external.counters));
        }
        // When all are settled, since what they share is told by one of them.
        for ((counters, chain), publisher) in cores.iter().zip(&mut publishers) {
            publisher.iter_mut().for_each(|publisher| publisher.functions(chain, counters));
        }
        if let Some(error) = collected.error.take() {
            return Err(RunError::Seen(error));
        }
        check_declared(chain, cores.iter().map(|(_, core)| core)).map_err(RunError::Undeclared)?;
        collected.overtaken.sort_unstable();
        let history = (!histories.is_empty()).then_some(HistoryOutcome {
            has_recovery: false,
            lost: 0,
            cores: histories,
            overtaken: collected.overtaken,
        });
        Ok(RunOutcome {
            packets: collected.packets,
            elapsed,
            last: collected.last,
            cores,
            stopped: matches!(fed.end, FeedEnd::Stopped),
            input_error: match fed.end {
                FeedEnd::Input(result) => result.err(),
                FeedEnd::Stopped | FeedEnd::Closed => None,
            },
            ran_back: fed.ran_back,
            remarks: fed.remarks,
            has_ip: collected.has_ip,
            moves,
            is_replicated,
            history,
            egress: collected.egress,
            checksums: ChecksumSample::default(),
        })
    })
}

/// How feeding went.
pub(crate) struct Fed {
    pub end: FeedEnd,
    pub ran_back: RanBack,
    pub remarks: Remarks,
}

pub(crate) enum FeedEnd {
    /// The input ended, as it should or not.
    Input(Result<(), InputError>),
    /// [`Progress::stop`] was set.
    Stopped,
    /// Nobody takes packets any more: why is for the others to say.
    Closed,
}

fn feed(
    chain: &Chain,
    mut input: Input,
    mut feeder: Feeder,
    mut assign: Box<dyn Assign>,
    mut tell: Tell,
    progress: &Progress,
) -> Fed {
    let end = feed_all(chain, &mut input, &mut feeder, &mut *assign, &mut tell, progress);
    // The history ends before the cores see that their queues do.
    drop(tell);
    Fed { end, ran_back: feeder.ran_back(), remarks: input.reader.remarks() }
}

/// Reads the capture and sends each packet to its core.
fn feed_all(
    chain: &Chain,
    Input { reader, speed }: &mut Input,
    feeder: &mut Feeder,
    assign: &mut dyn Assign,
    tell: &mut Tell,
    progress: &Progress,
) -> FeedEnd {
    let mut pace = speed.map(Pace::new);
    let mut ingress = Ingress::new(chain, matches!(tell, Tell::History(_)));
    let reads_headers = assign.reads_headers() || ingress.sees_all();
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
            let (headers, refused) = match reads_headers {
                true => ingress.headers(frame.link, feeder.bytes(&frame), frame.wire_len, record.time_ns),
                false => (Headers::default(), None),
            };
            frame.refused = refused;
            frame.entry = assign.entry(&headers);
            match tell {
                Tell::Nothing => {}
                Tell::Orders(orders) => {
                    give_orders(assign.moves(frame.stamp), frame.stamp, orders, feeder)?;
                }
                Tell::History(history) => history.write(&headers, frame.stamp),
            }
            feeder.send(assign.core(frame.entry), frame)
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

/// Has flows handed over, ahead of the first packet that goes to their new cores.
fn give_orders(moves: &[Move], stamp: Stamp, orders: &mut Orders, feeder: &Feeder) -> Result<(), Closed> {
    for Move { entry, from, to } in moves {
        let from = usize::from(*from);
        let order = Order {
            entry: *entry,
            to: *to,
            after: feeder.sent(from),
            since_seq: stamp.seq,
            since_ns: stamp.time_ns,
        };
        let waiting = Waiting::default();
        // The core looks at its orders between any two batches.
        while orders.give(from, order).is_err() {
            if feeder.is_closed() {
                return Err(Closed);
            }
            waiting.wait();
        }
    }
    Ok(())
}

/// What cores are told beside their packets.
enum Tell {
    Nothing,
    /// Which flows to hand over.
    Orders(Orders),
    /// What packets the others have.
    History(Box<HistoryWriter>),
}

/// What stands before the chain of each core, and what they have to be told.
fn intakes(chain: &Chain, plan: &Plan) -> (Tell, Vec<Box<dyn Intake>>) {
    if plan.is_replicated() {
        // As many as can be in flight, so that none is overwritten before the last core has read it.
        let records = plan.cores * (io::QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS);
        let (writer, reader) = history(chain.excerpt(), records);
        let intake =
            |_| -> Box<dyn Intake> { Box::new(Replicator::new(reader.clone(), chain, plan.cores, 0)) };
        return (Tell::History(Box::new(writer)), (0..plan.cores).map(intake).collect());
    }
    let Some(owners) = plan.owners() else {
        return (Tell::Nothing, (0..plan.cores).map(|_| -> Box<dyn Intake> { Box::new(()) }).collect());
    };
    let (orders, movers) = Mover::for_cores(&owners, plan.cores);
    let intakes = movers.into_iter().map(|mover| -> Box<dyn Intake> { Box::new(mover) });
    (Tell::Orders(orders), intakes.collect())
}

/// What a core leaves behind.
struct Worked {
    counters: CoreCounters,
    chain: ChainCore,
    moves: Moves,
    end: IntakeEnd,
    publisher: Option<Publisher>,
}

/// One core: pinned, with private state.
fn work(
    core: usize,
    mut port: ReplayPort,
    mut chain: ChainCore,
    mut intake: Box<dyn Intake>,
    mut publisher: Option<Publisher>,
) -> Worked {
    pin(core);
    let mut batch = Batch::new();
    let counters = run::run(&mut port, &mut chain, &mut batch, &mut publisher, &mut *intake);
    let (moves, end) = (intake.counters().moves, intake.finish());
    match counters {
        Ok(counters) => Worked { counters, chain, moves, end, publisher },
        // The collector left; so do we, and it says why.
        Err(Closed) => Worked { counters: CoreCounters::default(), chain, moves, end, publisher: None },
    }
}

/// Pins this thread to a processor, several threads to one where there are too few. Where that is not
/// allowed the thread runs where it may: slower perhaps, never wrong.
pub fn pin(core: usize) {
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    if !processors.is_empty() {
        core_affinity::set_for_current(processors[core % processors.len()]);
    }
}

struct Collected<E> {
    packets: u64,
    last: Stamp,
    /// Numbers of packets that have no verdict.
    overtaken: Vec<u64>,
    has_ip: bool,
    egress: EgressOutcome,
    error: Option<E>,
}

fn collect<E>(
    mut collector: Collector,
    egress: Egress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Collected<E> {
    let (mut packets, mut last, mut error) = (0, Stamp::default(), None);
    let (mut overtaken, mut has_ip) = (Vec::new(), false);
    let mut watch = egress.watch();
    while let Some(done) = collector.collect() {
        let Done { frame, fate, sent } = &done;
        if let Fate::Drop(why @ (EngineDrop::NotTaken | EngineDrop::Overtaken)) = *fate {
            overtaken.extend((why == EngineDrop::Overtaken).then_some(frame.stamp.seq));
            collector.release(done);
            continue;
        }
        let seen = Seen {
            stamp: frame.stamp,
            fate: *fate,
            bytes: collector.bytes(&done),
            wire_len: frame.wire_len,
            link: frame.link,
            entry: frame.entry,
            sent: *sent,
        };
        // Only up to the first: captures without any are rare.
        has_ip = has_ip || is_ip(&seen);
        if let Err(failed) = see(&seen) {
            // Dropping the collector makes every core end.
            error = Some(failed);
            break;
        }
        watch.see(&seen);
        packets += 1;
        last = last.max(collector.release(done).0);
    }
    let blocked_batches = collector.blocked_batches();
    let egress = EgressOutcome { egress, blocked_batches, reordered: watch.reordered() };
    Collected { packets, last, overtaken, has_ip, egress, error }
}

/// Whether a packet is IP, or malformed, which most often means that it was to be.
fn is_ip(seen: &Seen<'_>) -> bool {
    let headers = wire::parse(seen.link, seen.bytes, seen.wire_len);
    headers.is_ip() || !headers.is_well_formed()
}
