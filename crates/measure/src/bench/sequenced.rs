//! Trials behind a sequencer.

use engine::Plan;
use engine::strategies::{Dispatcher, Queues, SCR, SINGLE, Strategy};
use io::{Closed, Frame, Trace};
use wire::Headers;

use super::tests::{NEVER, chain, trace};
use super::*;
use crate::offered::packets;
use crate::stopwatch::{Meter, Spent};
use crate::trial::CoreTrial;

pub(super) const VIRTUAL: Settings =
    Settings { clock: Clock::Virtual, descriptors: 64, is_shaped: false, dispatch_ns: 0 };

fn bench(chain: &Chain, cores: usize, trace: &Trace, settings: Settings) -> Bench {
    bench_of(SCR, chain, cores, trace, settings)
}

/// A bench of another strategy than `scr`.
pub(super) fn bench_of(
    strategy: &'static dyn Strategy,
    chain: &Chain,
    cores: usize,
    trace: &Trace,
    settings: Settings,
) -> Bench {
    let plan = Plan::new(chain, strategy, cores).expect("a plan");
    let offered = packets(chain, &plan, trace).expect("packets");
    // With less processors than threads a run is slow and its figures mean nothing, and its answers are the same.
    let mut bench =
        Bench::new(chain, &plan, offered, Settings { clock: Clock::Virtual, ..settings }).expect("a bench");
    bench.settings.clock = settings.clock;
    bench
}

/// What each core's states are at the end.
pub(super) fn digests(bench: &mut Bench) -> Vec<(u64, u64, u64)> {
    let last = bench.next;
    let digest = |core: &mut ChainCore| {
        core.settle(last);
        let stage = core.stage(0);
        (stage.digest(last), stage.audit(last), stage.counters().flows.created)
    };
    bench.cores.iter_mut().map(digest).collect()
}

/// One core over the same trials, which steps each packet as its own.
pub(super) fn alone(chain: &Chain, trace: &Trace, counts: &[u32]) -> (u64, u64, u64) {
    let plan = Plan::new(chain, SINGLE, 1).expect("a plan");
    let offered = packets(chain, &plan, trace).expect("packets");
    let mut bench = Bench::new(chain, &plan, offered, VIRTUAL).expect("a bench");
    for count in counts {
        assert!(bench.closed_loop(*count, &NEVER).expect("a trial").sequencer.is_none());
    }
    digests(&mut bench)[0]
}

/// Real and virtual cores, for some numbers of them and tiny tables under both policies: all replicas are one core's,
/// trial after trial, and each packet went through the sequencer, whose time is charged.
#[test]
fn both_clocks_lead_all_replicas_to_the_state_of_one_core() {
    let trace = trace("zipf:packets=3000,flows=60,a=1.1");
    // More than the log holds, and than a queue.
    let counts = [3_000, 9_000, 700];
    for policy in ["evict-oldest", "reject"] {
        let text = format!("[[function]]\nuse = \"conntrack\"\nflows = 24\ntable_full = \"{policy}\"\n");
        let chain = Chain::parse("test.toml", &text, &stock::registry()).expect("a chain");
        let expected = alone(&chain, &trace, &counts);
        for (cores, clock) in
            [(2, Clock::Measured), (2, Clock::Virtual), (3, Clock::Virtual), (7, Clock::Virtual)]
        {
            let mut bench = bench(&chain, cores, &trace, Settings { clock, ..VIRTUAL });
            for count in counts {
                let trial = bench.closed_loop(count, &NEVER).expect("a trial");
                let CoreTrial { arrived, received, dropped, busy_ns, elapsed_ns, .. } =
                    trial.sequencer.expect("one in front");
                assert_eq!((arrived, received, dropped), (count.into(), count.into(), 0));
                assert!(busy_ns > 0 && busy_ns <= elapsed_ns, "{busy_ns} of {elapsed_ns} ns");
                assert_eq!((trial.offered, trial.received()), (count.into(), count.into()));
                // In turn.
                assert!(
                    trial
                        .cores
                        .iter()
                        .all(|core| core.arrived.abs_diff(u64::from(count) / cores as u64) <= 1)
                );
                assert!(trial.cores.iter().all(|core| core.busy_ns > 0));
            }
            let digests = digests(&mut bench);
            assert!(digests.iter().all(|digest| *digest == expected), "{policy}, {cores} cores, {clock:?}");
        }
    }
}

/// What the sequencer's card drops has no number, and the others are stepped by all.
#[test]
fn too_high_a_rate_is_lost_at_the_sequencer() {
    let chain = chain("heavy-hitters");
    for clock in [Clock::Measured, Clock::Virtual] {
        let mut bench =
            bench(&chain, 2, &trace("uniform:packets=3000,flows=50"), Settings { clock, ..VIRTUAL });
        bench.warm_up(&NEVER).expect("a trial");
        let trial = bench.trial(1e9, 20_000, true, &NEVER).expect("a trial");
        let sequencer = trial.sequencer.expect("one in front");
        assert!(trial.dropped() > 0, "a thousand million packets a second are too many");
        assert_eq!(sequencer.dropped, trial.dropped());
        assert_eq!(sequencer.received + sequencer.dropped, 20_000);
        assert_eq!(trial.received(), sequencer.received);
        assert_eq!(trial.latency.as_ref().expect("asked for").len(), trial.received());
        let digests = digests(&mut bench);
        assert_eq!(digests[0], digests[1], "{clock:?}");
    }
}

/// A sequencer that takes 40 ns for a packet, and cores that take 10 for a step.
struct Known(u64);

impl Meter for Known {
    fn begin(&mut self) {}

    fn end(&mut self, packets: u64) -> Spent {
        Spent { ns: packets * self.0, is_slow: false }
    }
}

const SEQUENCER_NS: u64 = 40;

/// A closed loop of 3 cores that take `core_ns` for each step, with a dispatcher that `tamper` makes of the plan's.
fn known(
    core_ns: u64,
    count: u32,
    tamper: impl FnOnce(Box<dyn Dispatcher>) -> Box<dyn Dispatcher>,
) -> Result<Trial, TrialError> {
    known_at(Pace::AtOnce, [core_ns, SEQUENCER_NS], count, tamper)
}

fn known_at(
    pace: Pace,
    [core_ns, sequencer_ns]: [u64; 2],
    count: u32,
    tamper: impl FnOnce(Box<dyn Dispatcher>) -> Box<dyn Dispatcher>,
) -> Result<Trial, TrialError> {
    let chain = chain("heavy-hitters");
    let plan = Plan::new(&chain, SCR, 3).expect("a plan");
    let offered = packets(&chain, &plan, &trace("uniform:packets=1000,flows=50")).expect("packets");
    let mut cores = plan.cores_of(&chain).expect("memory");
    let descriptors = if matches!(pace, Pace::AtOnce) { usize::MAX } else { 256 };
    let terms = Terms {
        offer: Offer { packets: offered.packets, pace, origin: Stamp::default() },
        descriptors,
        frames: SPARE_FRAMES,
        has_latency: false,
        dispatch_ns: 0,
        warm_ns: 0,
    };
    let Team { dispatcher, intakes } = plan.team(&chain);
    let clock = VirtualClock::default();
    let lead = Lead { chain: &chain, terms: &terms, count, cores: 3 };
    let (first, behind) = lead.sequencer(tamper(dispatcher), clock.clone());
    let seat = |((chain, intake), behind)| Seat { chain, intake, coming: Coming::Passed(behind) };
    let seats = cores.iter_mut().zip(intakes).zip(behind).map(seat).collect();
    let mut meters: Vec<Known> = [core_ns, core_ns, core_ns, sequencer_ns].map(Known).into();
    let outcomes = virtually(&terms, seats, Some((first, clock)), &mut meters, SLICE_BEHIND_NS, &NEVER)?;
    let trial = summarise(Trial { offered: count.into(), ..Trial::default() }, outcomes)?;
    trial.check()?;
    Ok(trial)
}

/// What is wrong with a trial whose cores took so much for each step: the sequencer is charged for each packet, the cores
/// for each step, and the slower of them bounds the rate to within a slice and a batch.
fn fault(trial: &Trial, core_ns: u64) -> Option<String> {
    let sequencer = trial.sequencer?;
    let packets = sequencer.received;
    let (lead, steps) = (SEQUENCER_NS * packets, core_ns * packets);
    if sequencer.busy_ns != lead {
        return Some(format!("the sequencer was charged {} ns for {lead}", sequencer.busy_ns));
    }
    if let Some(core) = trial.cores.iter().find(|core| core.busy_ns != steps) {
        return Some(format!("a core was charged {} ns for {steps}", core.busy_ns));
    }
    let share = trial.elapsed_ns() as f64 / lead.max(steps) as f64;
    (share - 1.0).abs().gt(&0.03).then(|| format!("it took {share} times as long as its slowest core"))
}

#[test]
fn the_slowest_is_what_bounds_a_trial() {
    for core_ns in [10, 39, 60, 200] {
        let trial = known(core_ns, 50_000, |dispatcher| dispatcher).expect("a trial");
        assert_eq!(fault(&trial, core_ns), None);
        assert!(trial.sequencer_load().is_some_and(|load| load.packet_ns == SEQUENCER_NS as f64));
    }
}

/// Planted: a sequencer whose time counts for nothing, as that of an array made ahead of the trial did.
#[test]
fn a_sequencer_that_is_not_charged_is_found() {
    let free = known_at(Pace::AtOnce, [10, 0], 50_000, |dispatcher| dispatcher).expect("a trial");
    assert!(fault(&free, 10).is_some_and(|fault| fault.contains("the sequencer was charged 0 ns")));
    // Nor is it that the rate alone hides it.
    let faster = free.elapsed_ns() < SEQUENCER_NS * 50_000 / 2;
    assert!(faster, "{} ns", free.elapsed_ns());
}

/// A sequencer at an offered rate loses what is above its bound, and no more.
#[test]
fn a_sequencer_that_has_too_much_drops_the_rest() {
    const COUNT: u32 = 100_000;
    for (gap_ns, loss) in [(44, 0.0), (38, 0.05), (20, 0.5)] {
        let trial = known_at(Pace::Even { gap_ps: gap_ns * 1_000 }, [20, SEQUENCER_NS], COUNT, |same| same);
        let trial = trial.expect("a trial");
        // What waits at the end is not lost.
        assert!((trial.loss() - loss).abs() < 0.006, "{} for {loss} at {gap_ns} ns", trial.loss());
        assert!(trial.cores.iter().all(|core| core.dropped == 0));
    }
}

/// Planted: a dispatcher that writes the history of a packet only when the next one comes.
struct Late {
    dispatcher: Box<dyn Dispatcher>,
    kept: Option<(Headers, Stamp)>,
    sent: u64,
}

impl Dispatcher for Late {
    fn tells_headers(&self) -> bool {
        true
    }

    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        for (headers, frame) in headers.iter().zip(frames) {
            if let Some((headers, stamp)) = self.kept.replace((*headers, frame.stamp)) {
                self.dispatcher.tell(&[headers], &[Frame::without_bytes(stamp)], queues)?;
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, _: &Headers, _: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        self.sent += 1;
        Ok(self.sent as usize % 3)
    }
}

#[test]
fn a_packet_ahead_of_its_history_is_found() {
    let late = |dispatcher| Box::new(Late { dispatcher, kept: None, sent: 0 }) as Box<dyn Dispatcher>;
    let error = known(10, 5_000, late).expect_err("cores step what was not written");
    assert!(matches!(error, TrialError::Forgotten { .. }), "{error}");
}

/// Planted: a dispatcher that runs ahead of what the history holds, since all packets go to one core.
struct Lopsided(Box<dyn Dispatcher>);

impl Dispatcher for Lopsided {
    fn tells_headers(&self) -> bool {
        true
    }

    fn tell(&mut self, headers: &[Headers], frames: &[Frame], queues: &dyn Queues) -> Result<(), Closed> {
        self.0.tell(headers, frames, queues)
    }

    fn dispatch(&mut self, _: &Headers, _: &mut Frame, _: &dyn Queues) -> Result<usize, Closed> {
        Ok(0)
    }
}

/// Cores without packets of their own read history at the end alone, so that there is no room for more.
#[test]
fn a_history_without_room_is_found() {
    let lopsided = |dispatcher| Box::new(Lopsided(dispatcher)) as Box<dyn Dispatcher>;
    let error = known(10, 50_000, lopsided).expect_err("the history is shorter");
    assert!(matches!(error, TrialError::NoRoom), "{error}");
}

/// A core more than the strategy's needs a processor more.
#[test]
fn real_cores_leave_a_processor_to_the_sequencer() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let chain = chain("heavy-hitters");
    let plan = Plan::new(&chain, SCR, processors.max(2)).expect("a plan");
    let offered = packets(&chain, &plan, &trace("uniform:packets=10,flows=2")).expect("packets");
    let refused = Bench::new(&chain, &plan, offered, Settings { clock: Clock::Measured, ..VIRTUAL });
    let refused = refused.err().expect("one processor too few").to_string();
    assert!(refused.contains("cores and a sequencer in front of them cannot be measured on"), "{refused}");
}

/// Virtual cores beside real ones, on a machine with three quiet processors: rates within a fifth of each other.
///
/// `./x bench tests`
#[test]
#[ignore = "times three threads, on a quiet machine with three processors: ./x bench tests"]
fn virtual_rates_are_those_of_real_cores() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 3 {
        return println!("skipped: {processors} processors, and it takes three");
    }
    let chain = chain("heavy-hitters");
    let trace = trace("uniform:packets=20000,flows=1000");
    let rate = |clock| {
        let mut bench = bench(&chain, 2, &trace, Settings { clock, ..VIRTUAL });
        bench.warm_up(&NEVER).expect("a trial");
        let mut rates: Vec<f64> = (0..9)
            .map(|_| bench.closed_loop(1_000_000, &NEVER).expect("a trial").received_pps() / 1e6)
            .collect();
        rates.sort_by(f64::total_cmp);
        rates[4]
    };
    let (measured, virtually) = (rate(Clock::Measured), rate(Clock::Virtual));
    println!("2 cores: {measured:.2} Mpps measured, {virtually:.2} Mpps virtual");
    assert!((virtually / measured - 1.0).abs() < 0.2, "{virtually} for {measured}");
}
