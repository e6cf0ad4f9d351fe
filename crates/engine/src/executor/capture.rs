//! A chain over a capture, or several, one after the other.

use std::slice;
use std::sync::atomic::Ordering;
use std::time::Instant;

use io::capture::Record;
use io::{Closed, Feeder, Frame, Note};
use wire::{Stamp, Stamper};

use crate::chain::Chain;
use crate::chain::checksums::Checksums;
use crate::chain::inherit::Inherited;
use crate::chain::keeping::Keeping;
use crate::chain::undeclared::check_declared;
use crate::executor::collect::Collected;
use crate::executor::cores::{AllWorked, Before};
use crate::executor::input::{Input, Progress, Source, Taken};
use crate::executor::leaving::Watch;
use crate::executor::outcome::{RunError, RunOutcome};
use crate::executor::pace::Pace;
use crate::executor::reload::{Reload, take_over};
use crate::executor::seen::Seen;
use crate::executor::simulated::Executor;
use crate::executor::threads::{Fed, FeedEnd, Job, Ran, conclude};
use crate::path::core::ChainCore;
use crate::strategies::changing::{Changes, Changing, Phase, Until};
use crate::strategies::dispatch::{Dispatcher, Team};
use crate::strategies::ingress::Ingress;
use crate::strategies::plan::Plan;
use crate::strategies::succession::Standing;

/// Runs `chain` over a capture with one pinned thread per core, or in a [simulation](Plan::simulation), and shows every packet to `see` as it
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
    replay_reloading(chain, plan, &[], input, progress, see)
}

/// Runs `chain` as [`replay_capture`] does; other chains take over behind packets, in the order of `reloads`, each
/// with the flows that it can go on with: see [`RunOutcome::reloads`], which are those that came to pass.
///
/// # Errors
/// As [`replay_capture`].
pub fn replay_reloading<E: Send>(
    chain: &Chain,
    plan: &Plan,
    reloads: &[Reload],
    input: impl Into<Input>,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let all = || std::iter::once((0, chain, plan)).chain(reloads.iter().map(Reload::parts));
    let keepings: Vec<Keeping<'_>> = all().map(|(_, _, plan)| plan.keeping()).collect();
    let generations = generations(all(), &keepings);
    let input: Input = input.into();
    replay_generations(&generations, input.into(), progress, see)
}

/// A chain, and from which packet on it runs.
pub(crate) struct Generation<'a> {
    pub(crate) after: u64,
    pub(crate) standing: Standing<'a>,
    /// What it goes on with; empty of the first.
    pub(crate) inherited: Inherited,
}

impl Reload {
    /// When, what, and how.
    pub(crate) fn parts(&self) -> (u64, &Chain, &Plan) {
        (self.after, &self.chain, &self.plan)
    }
}

/// Chains that take over from each other, each with all that it can go on with.
pub(crate) fn generations<'a>(
    all: impl Iterator<Item = (u64, &'a Chain, &'a Plan)>,
    keepings: &'a [Keeping<'a>],
) -> Vec<Generation<'a>> {
    let mut generations: Vec<Generation<'a>> = Vec::new();
    for ((after, chain, plan), keeping) in all.zip(keepings) {
        let standing = Standing { chain, plan, keeping };
        let inherited = generations.last().map(|before| standing.inherits(&before.standing));
        generations.push(Generation { after, standing, inherited: inherited.unwrap_or_default() });
    }
    generations
}

/// What goes on from one chain to the next.
struct Stream {
    source: Source,
    stamper: Stamper,
    ingress: Option<Ingress>,
}

/// Runs chains that take over from each other.
pub(crate) fn replay_generations<E: Send>(
    generations: &[Generation<'_>],
    mut source: Source,
    progress: &Progress,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Result<RunOutcome, RunError<E>> {
    let Some(Generation { standing: Standing { chain: first, plan, .. }, .. }) = generations.first() else {
        unreachable!("a run has a chain");
    };
    let samples: Vec<_> = generations
        .iter()
        .map(|generation| generation.standing.chain.checksums.decide(&mut source.input.reader))
        .collect();
    let telemetry = progress.telemetry_of(first, plan);
    let mut before = Before::all(plan.cores, telemetry.as_deref());
    let mut watch = Watch::of(plan.egress);
    let mut stream = Stream { source, stamper: Stamper::default(), ingress: None };
    let mut collected = Collected::nothing();
    let (mut reloads, mut changes) = (Vec::new(), Changes::default());
    let mut old = Vec::new();
    let mut chain_before: Option<Chain> = None;
    let mut begin = None;
    for (number, Generation { standing, inherited, .. }) in generations.iter().enumerate() {
        let sample = samples[number];
        let checksums = Checksums::decided(&sample);
        let chain = Chain { checksums, ..standing.chain.clone().behind(first) };
        let chain = match chain_before.take() {
            Some(before) => chain.following(&before),
            None => chain,
        };
        let chain = &*chain_before.insert(chain);
        let plan = &Plan { first: stream.stamper.next_seq(), ..standing.plan.clone() };
        // All memory is taken before the clock starts.
        let mut chains = plan
            .cores_keeping(chain, standing.keeping)
            .map_err(|error| RunError::out_of_memory(plan.cores, error))?;
        chain.trace_on(&mut chains, &progress.tracing);
        if let Some(number_before) = number.checked_sub(1) {
            let of_before = &generations[number_before].standing;
            let at = (plan.first, collected.last);
            reloads.push(take_over(standing, &mut chains, of_before, &mut old, inherited, at));
            before.iter_mut().for_each(|before| before.goes_on(standing.chain, of_before.chain));
        }
        let changing = plan.strategy.changing(chain, plan, &chains);
        let begin = *begin.get_or_insert_with(Instant::now);
        telemetry.iter().for_each(|telemetry| telemetry.begin());
        let until = generations.get(number + 1).map_or(u64::MAX, |next| next.after);
        let (ran, after) = Executor::with(plan, chains.len(), |executor| {
            let mut cores = Cores { chain, progress, executor, watch: &mut watch, see };
            match changing {
                None => {
                    let (team, until) = (plan.team(chain), Until::packet(until));
                    let is_replicated = plan.is_replicated();
                    let phase = Phase { team, queues: plan.replayed(), until, is_replicated };
                    cores.run_phase(phase, (chains, before), stream)
                }
                Some(mut changing) => {
                    telemetry.iter().for_each(|telemetry| changing.observe(telemetry));
                    let at = (until, collected.last);
                    let (ran, of_generation) =
                        cores.run_phases(&mut *changing, (chains, before), stream, at)?;
                    changes.followed_by(of_generation);
                    Ok(ran)
                }
            }
        })?;
        stream = after;
        collected.add(ran.collected);
        if matches!(ran.fed.end, FeedEnd::Border) && collected.error.is_none() {
            (old, before) = ran.worked.hand_over();
            check_declared(chain, old.iter()).map_err(RunError::Undeclared)?;
            continue;
        }
        let ran = Ran { collected, ..ran };
        let outcome = conclude(chain, plan, ran, begin.elapsed(), &watch)?;
        return Ok(RunOutcome { checksums: sample, reloads, changes, ..outcome });
    }
    unreachable!("the last chain has no border")
}

/// What cores leave behind, and what goes on behind their packets.
type Passed<E> = (Ran<E>, Stream);

/// Runs the cores of one chain.
struct Cores<'a, 'env, E> {
    chain: &'env Chain,
    progress: &'env Progress,
    executor: &'a Executor<'env>,
    watch: &'a mut Watch,
    see: &'a mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
}

impl<E: Send> Cores<'_, '_, E> {
    /// One strategy on the first of the cores, as far as its phase goes.
    fn run_phase(
        &mut self,
        Phase { team: Team { dispatcher, intakes }, queues, until, .. }: Phase,
        (mut chains, mut before): (Vec<ChainCore>, Vec<Before>),
        stream: Stream,
    ) -> Result<Passed<E>, RunError<E>> {
        let (cores, first) = (intakes.len(), stream.stamper.next_seq());
        let idle = (chains.split_off(cores), before.split_off(cores));
        let (feeder, ports, collector) = queues.ends(cores);
        let ends = (feeder.going_on(stream.stamper.clone()), ports, collector.starting_at(first));
        let job = Job { chains, intakes, ends, before, first };
        let (chain, progress) = (self.chain, self.progress);
        let feed = move |feeder| feed(chain, stream, feeder, dispatcher, &until, progress);
        let (ran, stream) = self.executor.run_cores(job, feed, self.watch, self.see)?;
        Ok((Ran { worked: ran.worked.with_idle(idle), ..ran }, stream))
    }

    /// One phase after the other, up to packet number `until`. `last` is the stamp of the packet before.
    fn run_phases(
        &mut self,
        changing: &mut dyn Changing,
        (mut chains, mut before): (Vec<ChainCore>, Vec<Before>),
        mut stream: Stream,
        (until, mut last): (u64, Stamp),
    ) -> Result<(Passed<E>, Changes), RunError<E>> {
        let (mut collected, mut since) = (Collected::nothing(), Instant::now());
        loop {
            let phase = changing.begin(&mut chains, (stream.stamper.next_seq(), last), since);
            phase.until.lower(until);
            let (ran, after) = self.run_phase(phase, (chains, before), stream)?;
            let Ran { collected: of_phase, worked, fed } = ran;
            (stream, since) = (after, fed.ended);
            collected.add(of_phase);
            last = last.max(collected.last);
            (chains, before) = worked.hand_over();
            let is_over = !matches!(fed.end, FeedEnd::Border) || collected.error.is_some();
            if is_over || stream.stamper.next_seq() >= until {
                let changes = changing.end(&mut chains, stream.stamper.next_seq(), last);
                let ran = Ran { collected, worked: AllWorked::of(chains, before), fed };
                return Ok(((ran, stream), changes));
            }
        }
    }
}

fn feed(
    chain: &Chain,
    mut stream: Stream,
    mut feeder: Feeder,
    mut dispatcher: Box<dyn Dispatcher>,
    until: &Until,
    progress: &Progress,
) -> (Fed, Stream) {
    let mut ingress = Ingress::new(chain, &*dispatcher).going_on(stream.ingress.take());
    let refers = dispatcher.refers();
    let mut lane = Lane { ingress: &mut ingress, dispatcher: &mut *dispatcher, feeder: &mut feeder, refers };
    let end = feed_all(&mut stream.source, &mut lane, until, progress);
    let ended = Instant::now();
    // The history ends before the cores see that their queues do.
    drop(dispatcher);
    stream.ingress = Some(ingress);
    stream.stamper = feeder.stamper().clone();
    let fed = Fed { end, ended, ran_back: feeder.ran_back(), remarks: stream.source.input.reader.remarks() };
    (fed, stream)
}

/// A packet's way to its core.
struct Lane<'a> {
    ingress: &'a mut Ingress,
    dispatcher: &'a mut dyn Dispatcher,
    feeder: &'a mut Feeder,
    /// Whether a card looks flows up.
    refers: bool,
}

impl Lane<'_> {
    /// Takes a packet in.
    fn take(&mut self, record: &Record<'_>) -> Result<Frame, Closed> {
        self.feeder.take(record)
    }

    fn send(&mut self, mut frame: Frame) -> Result<(), Closed> {
        let Lane { ingress, dispatcher, feeder, refers } = self;
        // What a card does in hardware: parse and hash, to pick the queue.
        let frames = slice::from_mut(&mut frame);
        let headers = ingress.batch(frames, &mut **feeder, Feeder::bytes, Feeder::follow);
        dispatcher.tell(headers, frames, &**feeder)?;
        if *refers {
            feeder.refer(&mut frame, dispatcher.refer(&headers[0]));
        }
        let core = dispatcher.dispatch(&headers[0], &mut frame, &**feeder)?;
        feeder.send(core, frame)
    }
}

/// Reads the capture and sends each packet to its core, as far as packet number `until`, which is another phase's.
fn feed_all(source: &mut Source, lane: &mut Lane<'_>, until: &Until, progress: &Progress) -> FeedEnd {
    let mut pace = source.input.speed.map(Pace::new);
    let is_stopped = || progress.stop.load(Ordering::Relaxed);
    let mut packets = lane.feeder.stamper().next_seq();
    loop {
        if packets >= until.get() {
            return FeedEnd::Border;
        }
        let record = match source.next(&|| is_stopped() || lane.feeder.is_closed()) {
            Ok(Taken::Packet(record)) => record,
            Ok(Taken::End) => return FeedEnd::Input(Ok(())),
            Ok(Taken::GivenUp) if is_stopped() => return FeedEnd::Stopped,
            Ok(Taken::GivenUp) => return FeedEnd::Closed,
            Err(error) => return FeedEnd::Input(Err(error.into())),
        };
        if let Some(pace) = &mut pace {
            pace.wait_for(record.time_ns, || is_stopped() || lane.feeder.is_closed());
            if is_stopped() {
                return FeedEnd::Stopped;
            }
        }
        let Ok(mut frame) = lane.take(&record) else { return FeedEnd::Closed };
        frame.note = Note::by(source.side());
        let Ok(()) = lane.send(frame) else { return FeedEnd::Closed };
        packets += 1;
        if packets.is_multiple_of(256) {
            progress.read_bytes.store(source.input.reader.position_bytes(), Ordering::Relaxed);
            if is_stopped() {
                return FeedEnd::Stopped;
            }
        }
    }
}
