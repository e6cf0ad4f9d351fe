//! Tests of trials on virtual cores, where each packet takes a fixed time.

use engine::strategies::{RSS, SCR};
use engine::{Loss, SequencedAs};
use proptest::prelude::*;
use traffic::Model;
use wire::LinkType;

use io::Trace;
use io::capture::Record;

use super::*;
use crate::offered::{packets, packets_with_history};
use crate::search::{Limits, search};
use crate::stopwatch::{Meter, Spent};

/// Every packet takes the same time.
pub(crate) struct Fixed(pub(crate) u64);

impl Meter for Fixed {
    fn begin(&mut self) {}

    fn end(&mut self, packets: u64) -> Spent {
        Spent { ns: packets * self.0, is_slow: false }
    }
}

pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

const PACKET_NS: u64 = 100;

pub(crate) fn trace(model: &str) -> Trace {
    let mut trace = Trace::default();
    Model::parse(model).expect("a model").generate(|time_ns, data| {
        trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
    });
    trace
}

pub(crate) fn chain(function: &str) -> Chain {
    let text = format!("name = \"test\"\n[[function]]\nuse = \"{function}\"\nflows = 4096\n");
    Chain::parse("test.toml", &text, &stock::registry()).expect("a chain")
}

/// A chain on virtual cores where each packet takes [`PACKET_NS`].
struct Virtual {
    packets: Arc<Packets>,
    assign: Box<dyn Assign>,
    cores: Vec<ChainCore>,
    next_seq: u64,
}

impl Virtual {
    fn new(cores: usize, model: &str) -> Virtual {
        let chain = chain("heavy-hitters");
        let plan = Plan::new(&chain, RSS, cores).expect("a plan");
        let packets = packets(&chain, &plan, &trace(model)).expect("packets");
        let cores = plan.cores_of(&chain).expect("memory");
        Virtual { packets: packets.packets, assign: plan.assign(&chain), cores, next_seq: 0 }
    }

    fn trial(&mut self, pace: Pace, descriptors: usize, count: u32) -> Trial {
        let origin = Stamp { seq: self.next_seq, time_ns: self.next_seq * 1_000_000 };
        self.next_seq += u64::from(count);
        let cores = self.cores.len();
        let Schedule { queues, .. } =
            Schedule::new(&mut *self.assign, cores, &self.packets, &pace, origin, count);
        let terms = Terms {
            offer: Offer { packets: Arc::clone(&self.packets), pace, origin },
            descriptors,
            frames: 256 + SPARE_FRAMES,
            has_latency: true,
            dispatch_ns: 0,
            warm_ns: 0,
        };
        let offered = queues.iter().map(|queue| queue.arrivals.len() as u64).sum();
        let mut meters: Vec<Fixed> = (0..=cores).map(|_| Fixed(PACKET_NS)).collect();
        let seat = |(chain, QueueSchedule { arrivals, .. })| Seat {
            chain,
            intake: Box::new(()) as Box<dyn Intake>,
            coming: Coming::Scheduled(arrivals),
        };
        let seats = self.cores.iter_mut().zip(queues).map(seat).collect();
        let outcomes = virtually(&terms, seats, None, &mut meters, SLICE_ALONE_NS, &NEVER);
        let outcomes = outcomes.expect("not interrupted");
        summarise(Trial { offered, ..Trial::default() }, outcomes).expect("no history")
    }
}

/// At half of what a core can do each packet finds it idle and waits for nobody.
#[test]
fn a_core_that_is_half_busy() {
    let mut bench = Virtual::new(1, "uniform:packets=1000,flows=50");
    let trial = bench.trial(Pace::Even { gap_ps: 2_000 * PACKET_NS }, 256, 5_000);
    assert_eq!(trial.check(), Ok(()));
    assert_eq!((trial.received(), trial.dropped()), (5_000, 0));
    assert_eq!(trial.elapsed_ns(), 2 * PACKET_NS * 4_999 + PACKET_NS);
    assert_eq!(trial.cores[0].busy_ns, PACKET_NS * 5_000);
    let latency = trial.latency.expect("asked for");
    assert_eq!((latency.len(), latency.min(), latency.max()), (5_000, PACKET_NS, PACKET_NS));
}

/// At twice of what it can do it works all the time, on half of the packets and on what is left waiting.
#[test]
fn a_core_that_has_too_much() {
    let mut bench = Virtual::new(1, "uniform:packets=1000,flows=50");
    let trial = bench.trial(Pace::Even { gap_ps: 500 * PACKET_NS }, 256, 50_000);
    assert_eq!(trial.check(), Ok(()));
    let expected = 50_000 / 2 + 256;
    assert!(trial.received().abs_diff(expected) <= 64, "{} for about {expected}", trial.received());
    assert_eq!(trial.cores[0].busy_ns, PACKET_NS * trial.received());
    assert_eq!(trial.elapsed_ns(), trial.cores[0].busy_ns, "never idle");
    // Who finds the last free descriptor waits for all before him, and for the batch at work.
    let longest = trial.latency.expect("asked for").max();
    assert!(longest.abs_diff((256 + 64) * PACKET_NS) <= 64 * PACKET_NS, "{longest}");
}

/// Cores that have nothing to do with each other take as long as the one with the most packets.
#[test]
fn cores_scale_as_far_as_packets_spread() {
    let mut bench = Virtual::new(4, "uniform:packets=20000,flows=3000");
    let trial = bench.trial(Pace::AtOnce, usize::MAX, 20_000);
    assert_eq!(trial.check(), Ok(()));
    assert_eq!(trial.received(), 20_000);
    for core in &trial.cores {
        assert_eq!(core.elapsed_ns, core.arrived * PACKET_NS);
        assert!((3_500..6_500).contains(&core.arrived), "{}", core.arrived);
    }
    let most = trial.cores.iter().map(|core| core.arrived).max().expect("cores");
    assert_eq!(trial.received_pps(), 20_000.0 / (most * PACKET_NS) as f64 * 1e9);
}

/// The rate of a core is known here: 1 / [`PACKET_NS`], and a little more where some may be lost.
#[test]
fn the_rate_of_a_known_core_is_found() {
    let mut bench = Virtual::new(1, "uniform:packets=1000,flows=50");
    for loss in [0.0, 0.04] {
        let limits = Limits { loss, ..Limits::default() };
        let found = search(8e6, limits, |pps| {
            let trial = bench.trial(Pace::even(pps), 256, 100_000);
            Ok::<_, TrialError>((trial.loss(), trial))
        });
        let found = found.expect("not interrupted").expect("a rate");
        // What waits at the end is not lost: of 100,000 packets a few hundred.
        let expected = 1e9 / PACKET_NS as f64 / (1.0 - loss);
        let share = found.pps / expected;
        assert!((0.985..1.01).contains(&share), "{} for {expected}", found.pps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_packet_is_received_or_dropped(
        gap_ps in 1u64..200_000,
        descriptors in 1usize..300,
        count in 1u32..3_000,
        cores in 1usize..5,
    ) {
        let mut bench = Virtual::new(cores, "zipf:packets=500,flows=50,a=1.2");
        for pace in [Pace::Even { gap_ps }, Pace::shaped(&bench.packets, 1e12 / gap_ps as f64)] {
            let trial = bench.trial(pace, descriptors, count);
            prop_assert_eq!(trial.check(), Ok(()));
            prop_assert_eq!(trial.offered, u64::from(count));
            prop_assert_eq!(trial.received() + trial.dropped(), trial.offered);
            prop_assert_eq!(trial.latency.map(|latency| latency.len()), Some(trial.cores.iter().map(|core| core.received).sum()));
        }
    }
}

/// Real threads: nothing is promised of their time.
#[test]
fn both_clocks_account_for_each_packet() {
    let chain = chain("heavy-hitters");
    let plan = Plan::new(&chain, RSS, 1).expect("a plan");
    let packets = packets(&chain, &plan, &trace("uniform:packets=2000,flows=50")).expect("packets");
    for clock in [Clock::Measured, Clock::Virtual] {
        let settings = Settings { clock, descriptors: 16, is_shaped: false, dispatch_ns: 0 };
        let mut bench = Bench::new(&chain, &plan, packets.clone(), settings).expect("a bench");
        bench.warm_up(&NEVER).expect("a trial");
        let all = bench.closed_loop(5_000, &NEVER).expect("a trial");
        assert_eq!((all.received(), all.dropped()), (5_000, 0), "{clock:?}");
        let some = bench.trial(1e9, 5_000, true, &NEVER).expect("a trial");
        assert_eq!(some.received() + some.dropped(), 5_000);
        assert!(some.dropped() > 0, "a thousand million packets a second are too many");
        // Flows live on, and stamps go on: the warm-up and both trials.
        assert_eq!(bench.next.seq, 2_000 + 5_000 + 5_000);
        let stop = AtomicBool::new(true);
        assert_eq!(bench.closed_loop(2_000_000, &stop).unwrap_err(), TrialError::Interrupted);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let rss = |cores, name| {
        let chain = chain(name);
        let plan = Plan::new(&chain, RSS, cores).expect("a plan");
        (chain, plan)
    };
    let (heavy, plan) = rss(128, "heavy-hitters");
    let packets_of = |trace: &Trace| packets(&heavy, &plan, trace);
    assert!(matches!(packets_of(&Trace::default()), Err(BenchError::Empty)));
    let mut junk = Trace::default();
    junk.push(&Record { time_ns: 0, wire_len: 60, link: LinkType::Ethernet, data: &[0; 60] });
    assert!(matches!(packets_of(&junk), Err(BenchError::NoIp { packets: 1 })));
    let packets = packets_of(&trace("uniform:packets=10,flows=2")).expect("packets");
    let settings = Settings { clock: Clock::Measured, descriptors: 16, is_shaped: false, dispatch_ns: 0 };
    let refused = Bench::new(&heavy, &plan, packets, settings).err().expect("so many processors?");
    assert!(refused.to_string().contains("--cores 128 --virtual"), "{refused}");
    assert!(check_virtual(&heavy, &plan).is_ok());

    let text =
        "name = \"mixed\"\n[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"destination-policer\"\n";
    let mixed = Chain::parse("mixed.toml", text, &stock::registry());
    let Ok(mixed) = mixed else { panic!("{:?}", mixed.err()) };
    let plan = Plan::new(&mixed, RSS, 2).expect("shared states");
    let refused = check_virtual(&mixed, &plan).expect_err("cores have memory in common");
    assert!(refused.to_string().contains("shared states of"), "{refused}");
}

/// History in packets: each packet is accounted for, whatever is lost and dropped, and replicas that recover agree.
#[test]
fn histories_in_packets_lead_all_replicas_to_one_state() {
    let chain = chain("heavy-hitters");
    let plan = Plan::new(&chain, SCR, 3).expect("a plan");
    let trace = trace("uniform:packets=3000,flows=50");
    let settings = Settings { clock: Clock::Virtual, descriptors: 16, is_shaped: false, dispatch_ns: 0 };
    let ways = [(true, "0", 1e9), (true, "0.01", 1e5), (true, "0.1", 1e9), (false, "0.01", 1e5)];
    let both = [SequencedAs::Newest, SequencedAs::Headers].into_iter();
    for (version, (has_recovery, share, pps)) in both.flat_map(|version| ways.map(|way| (version, way))) {
        let loss = Some(Loss::new(share.parse().expect("a share"), 7));
        let how = InPackets { version, has_recovery, loss };
        let offered = packets_with_history(&chain, &plan, &trace, how).expect("packets");
        // What is to be lost by the card alone is, whatever else the machine does meanwhile.
        let descriptors = if pps == 1e9 { 16 } else { 16_384 };
        let settings = Settings { descriptors, ..settings };
        let mut bench = Bench::new(&chain, &plan, offered, settings).expect("a bench");
        bench.warm_up(&NEVER).expect("a trial");
        let trial = bench.trial(pps, 5_000, false, &NEVER).expect("a trial");
        let lost = 3_000 - trial.offered;
        assert_eq!(lost > 0, share != "0", "{lost} of the trace's packets");
        assert_eq!(trial.dropped() > 0, pps == 1e9, "{share}");
        let mut traces = bench.cores.iter_mut().map(|core| {
            core.settle(bench.next);
            let stage = core.stage(0);
            (stage.digest(bench.next), stage.audit(bench.next), stage.counters().flows.created)
        });
        let first = traces.next().expect("a core");
        assert_eq!(traces.all(|trace| trace == first), has_recovery, "{share} lost");
    }
}
