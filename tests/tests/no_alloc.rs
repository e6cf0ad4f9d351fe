//! After start, a core does not allocate.

use std::path::Path;
use std::slice;

use engine::strategies::{DYSSECT, RSS, SCR, SCR_TURNS, SHARED, SINGLE};
use engine::{Batch, Chain, CoreCounters, External, HistoryCounters, Intake, Plan, Publisher, Recovery};
use engine::{SequencedAs, Sequencing, history, run, turn};
use io::capture::CaptureReader;
use io::{Collector, Received, ReplayPort, replay, replay_one_queue, replay_restamped};
use paceline_conformance::counting::{Counting, allocations};
use paceline_conformance::{captures, example, stock};
use wire::Stamp;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 2);
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn the_data_path_does_not_allocate() {
    let chains = [
        "edge.toml",
        "perimeter.toml",
        "ddos.toml",
        "knock.toml",
        "scan.toml",
        "stats-limiter.toml",
        "balance.toml",
        "web-service.toml",
        "acl.toml",
        "firewall.toml",
        "mixed-keys.toml",
        "nat.toml",
        "gateway.toml",
    ];
    for name in chains {
        for capture in captures() {
            let chain = example(name);
            // As under rss where it can be, so that states that cores would share are shared.
            let plan = Plan::new(&chain, RSS, 1).or_else(|_| Plan::new(&chain, SINGLE, 1));
            assert_allocates_nothing(&chain, &plan.expect("a plan"), &capture);
            // With a table for each shard; mixed keys share states as under rss.
            if let Ok(plan) = Plan::new(&chain, DYSSECT, 1) {
                assert_allocates_nothing(&chain, &plan, &capture);
            }
            // Two cores, in turn, with one table.
            let plan = Plan::new(&chain, SHARED, 2).expect("a plan");
            assert_allocates_nothing(&chain, &plan, &capture);
        }
    }
}

fn assert_allocates_nothing(chain: &Chain, plan: &Plan, capture: &Path) {
    let mut cores = plan.cores_of(chain).expect("memory");
    // With all that is told while it runs.
    let telemetry = plan.telemetry(chain);
    let mut publishers: Vec<_> = (0..plan.cores).map(|core| Publisher::new(&telemetry, core)).collect();
    let mut batch = Batch::new();
    let mut reader = CaptureReader::open(capture).expect("a capture");
    let mut packets = 0;
    let mut core = 0;
    // As much as the rings hold at a time: run() is called when everything is in its place.
    loop {
        let (mut feeder, mut ports, collector) = replay(1);
        let mut fed = 0;
        while fed < 1000 {
            let Some(record) = reader.next().expect("whole") else { break };
            let frame = feeder.take(&record).expect("open");
            feeder.send(0, frame).expect("open");
            fed += 1;
        }
        drop(feeder);
        let mut port = ports.remove(0);
        let allocated = allocations(|| {
            run(&mut port, &mut cores[core], &mut batch, &mut publishers[core], &mut ()).expect("open");
        });
        let name = &chain.name;
        assert_eq!(allocated, 0, "{name} over {} after {packets} packets", capture.display());
        drop(collector);
        packets += fed;
        core = (core + 1) % cores.len();
        if fed < 1000 {
            break;
        }
    }
    assert!(packets > 1_000);
}

/// A pipeline model takes its memory before the first cycle: a run over four times the packets takes no more.
#[test]
fn a_cycle_of_a_pipeline_model_does_not_allocate() {
    use pipeline::Arrival;
    use pipeline::programs::Synthetic;

    // Few flows: the states left in the end are given as a map.
    let phv = |number: u64| Synthetic::packet(number % 97 % 10, number.is_multiple_of(3), number + 1);
    let trace: Vec<_> =
        (0..20_000).map(|number| Arrival { phv: phv(number), bytes: 64, time_ns: 0, port: 0 }).collect();
    for name in ["pisa", "blocking", "rapid"] {
        let model = pipeline::Model::named(name).expect("a model");
        let when_full = pipeline::WhenFull::Stall;
        let options = pipeline::Options { when_full, ..pipeline::Options::default() };
        let over = |packets: usize| {
            allocations(|| {
                let packets = trace[..packets].iter().copied();
                pipeline::emulate(Synthetic::new(3), &model, &options, packets, &mut ()).expect("a run");
            })
        };
        assert_eq!(over(5_000), over(20_000), "{name}");
    }
}

/// Nor does a compiled program: hashes, tables, registers and states of flows included.
#[test]
fn a_cycle_of_a_compiled_program_does_not_allocate() {
    use p4::interpret::Machine;
    use pipeline::compiled::{Compiled, Image, Input};

    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/p4").join(name);
        (path.display().to_string(), std::fs::read_to_string(&path).expect("an example"))
    };
    let (name, text) = read("syn_cookie.p4");
    let (mut program, _) = p4::lower(&name, &text, &p4::Options::default()).expect("a program");
    p4::passes::compile(&mut program);
    let mut machine = Machine::new(program);
    let image = Image::new(machine.clone()).expect("a program that pipelines can run");
    let compiled = Compiled::<64>::new(&image);
    let (_, test) = read("syn_cookie.stf");
    let packet = |line: &str| p4::stf::from_hex(line.strip_prefix("packet 3 ")?);
    let frames: Vec<Vec<u8>> = test.lines().filter_map(packet).collect();
    assert!(!frames.is_empty());
    let arrival = |number: usize| {
        let bytes = &frames[number % frames.len()];
        let input = Input { port: 0, bytes, wire_len: 64, time_ns: 0 };
        compiled.arrival(&mut machine, number as u64, &input)
    };
    let trace: Vec<_> = (0..20_000).map(arrival).collect();
    let model = pipeline::Model::named("rapid").expect("a model");
    let when_full = pipeline::WhenFull::Stall;
    let options = pipeline::Options { when_full, ..pipeline::Options::default() };
    let over = |packets: usize| {
        allocations(|| {
            let packets = trace[..packets].iter().copied();
            pipeline::emulate(&compiled, &model, &options, packets, &mut ()).expect("a run");
        })
    };
    // What is hashed is put together in memory that grows once.
    over(100);
    assert_eq!(over(5_000), over(20_000));
}

const REPLICAS: usize = 3;

/// Packets that are in the rings at a time.
const SPRAYED: usize = 900;

#[test]
fn replicas_do_not_allocate() {
    // Alone, so that what repeats itself in history is stepped without a look-up; and in chains.
    let alone = ["heavy-hitters", "conntrack"].map(|name| stock::alone(name, "flows = 4096"));
    let names =
        ["edge.toml", "perimeter.toml", "mixed-keys.toml", "nat.toml", "gateway.toml", "stats-limiter.toml"];
    for chain in alone.into_iter().chain(names.map(example)) {
        for capture in captures() {
            assert_replicas_allocate_nothing(&chain, &capture);
        }
    }
}

fn assert_replicas_allocate_nothing(chain: &Chain, capture: &Path) {
    let plan = Plan::new(chain, SCR, REPLICAS).expect("a plan");
    let mut cores = plan.cores_of(chain).expect("memory");
    let telemetry = plan.telemetry(chain);
    let mut publishers: Vec<_> = (0..plan.cores).map(|core| Publisher::new(&telemetry, core)).collect();
    let mut batch = Batch::new();
    let mut reader = CaptureReader::open(capture).expect("a capture");
    let (mut packets, mut replayed) = (0, 0);
    loop {
        let (sprayed, intakes, ports, collector) = spray(chain, &mut reader);
        for (((mut port, mut intake), core), publisher) in
            ports.into_iter().zip(intakes).zip(&mut cores).zip(&mut publishers)
        {
            let allocated = allocations(|| {
                run(&mut port, core, &mut batch, publisher, &mut *intake).expect("open");
            });
            let name = &chain.name;
            assert_eq!(allocated, 0, "{name} over {} after {packets} packets", capture.display());
            replayed += intake.counters().replayed;
        }
        drop(collector);
        packets += sprayed;
        if sprayed < SPRAYED as u64 {
            break;
        }
    }
    assert!(packets > 1_000);
    assert_eq!(replayed, packets * (REPLICAS as u64 - 1));
}

/// Cores that take packets from one queue, one core after the other: the first takes all of them.
#[test]
fn replicas_that_take_packets_in_turns_do_not_allocate() {
    for chain in ["edge.toml", "mixed-keys.toml", "nat.toml"].map(example) {
        let plan = Plan::new(&chain, SCR_TURNS, REPLICAS).expect("a plan");
        let mut cores = plan.cores_of(&chain).expect("memory");
        let (mut feeder, ports, collector) = replay_one_queue(REPLICAS);
        let mut reader = CaptureReader::open(&captures()[0]).expect("a capture");
        for _ in 0..SPRAYED {
            let record = reader.next().expect("whole").expect("as many");
            let frame = feeder.take(&record).expect("open");
            feeder.send(0, frame).expect("open");
        }
        drop(feeder);
        let mut batch = Batch::new();
        let intakes = plan.team(&chain).intakes;
        let mut replayed = Vec::new();
        for ((mut port, mut intake), core) in ports.into_iter().zip(intakes).zip(&mut cores) {
            let allocated = allocations(|| {
                run(&mut port, core, &mut batch, &mut (), &mut *intake).expect("open");
            });
            assert_eq!(allocated, 0, "{}", chain.name);
            replayed.push(intake.counters().replayed);
        }
        drop(collector);
        assert_eq!(replayed, [0, SPRAYED as u64, SPRAYED as u64]);
    }
}

/// The next packets, in turn for each core, with what steps the history of all. The dispatcher does not allocate either.
fn spray(
    chain: &Chain,
    reader: &mut CaptureReader,
) -> (u64, Vec<Box<dyn Intake>>, Vec<ReplayPort>, Collector) {
    let (mut feeder, ports, collector) = replay(REPLICAS);
    let (mut writer, intakes) = history(chain, REPLICAS, SPRAYED, 0);
    let mut packets = 0;
    while packets < SPRAYED
        && let Some(record) = reader.next().expect("whole")
    {
        let frame = feeder.take(&record).expect("open");
        let headers = chain.headers(frame.link, feeder.bytes(&frame), frame.wire_len);
        assert_eq!(allocations(|| writer.write(&[headers], slice::from_ref(&frame))), 0);
        feeder.send(packets % REPLICAS, frame).expect("open");
        packets += 1;
    }
    (packets as u64, intakes, ports, collector)
}

/// Replicas that get their history with their packets: without recovery, with it, and where logs are so short that some
/// lag by more and take over the state of others.
#[test]
fn replicas_with_history_in_their_packets_do_not_allocate() {
    let alone = ["heavy-hitters", "conntrack"].map(|name| stock::alone(name, "flows = 4096"));
    let names = ["edge.toml", "perimeter.toml", "mixed-keys.toml", "stats-limiter.toml"];
    for chain in alone.into_iter().chain(names.map(example)) {
        for capture in captures() {
            for version in [SequencedAs::Newest, SequencedAs::Headers] {
                let counted =
                    |recovery| assert_external_allocates_nothing(&chain, &capture, version, recovery);
                let without = counted(Recovery::Off);
                assert!(without.iter().any(|core| core.missed > 0), "{without:?}");
                let with = counted(Recovery::On);
                assert!(with.iter().any(|core| core.recovered > 0), "{with:?}");
                let short = counted(Recovery::Records(8));
                assert!(short.iter().any(|core| core.rebuilt > 0 && core.overtaken > 0), "{short:?}");
            }
        }
    }
}

/// The beginning of a capture, of which one core loses every seventh packet, and then a stretch.
fn assert_external_allocates_nothing(
    chain: &Chain,
    capture: &Path,
    version: SequencedAs,
    recovery: Recovery,
) -> Vec<HistoryCounters> {
    let plan = Plan::new(chain, SCR, REPLICAS).expect("a plan");
    let mut cores = plan.cores_of(chain).expect("memory");
    let telemetry = plan.telemetry(chain);
    let mut publishers: Vec<_> = (0..REPLICAS).map(|core| Publisher::new(&telemetry, core)).collect();
    let mut batches: Vec<_> = (0..REPLICAS).map(|_| Batch::new()).collect();
    let mut counters = vec![CoreCounters::default(); REPLICAS];
    let is_lost = |core, seq| core == 1 && (seq % 7 == 0 || (300..500).contains(&seq));
    let mut ports = sequenced(chain, capture, version, is_lost);
    let origin = Stamp::default();
    let mut externals =
        External::for_cores(chain, version.of(chain), REPLICAS, recovery, SPRAYED as u64, origin);
    let mut has_ended = [false; REPLICAS];
    // Core 0 is ahead of the others, so that these may come too late.
    let order = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2];
    let allocated = allocations(|| {
        for core in order.into_iter().cycle().take(10_000) {
            if !has_ended[core] {
                let (port, batch, publisher) =
                    (&mut ports.0[core], &mut batches[core], &mut publishers[core]);
                let (chain, external) = (&mut cores[core], &mut externals[core]);
                let received =
                    turn(port, chain, batch, publisher, external, &mut counters[core]).expect("open");
                has_ended[core] = received == Received::End;
            }
        }
    });
    let name = &chain.name;
    assert_eq!(has_ended, [true; REPLICAS], "{name} over {}", capture.display());
    assert_eq!(allocated, 0, "{name} over {}, {recovery:?}", capture.display());
    assert!(counters.iter().all(|core| core.packets > 0), "{name} over {}", capture.display());
    externals.iter().map(External::counters).collect()
}

/// The first packets of a capture, in turn for each core, each with its history; less those that are lost.
fn sequenced(
    chain: &Chain,
    capture: &Path,
    version: SequencedAs,
    is_lost: impl Fn(usize, usize) -> bool,
) -> (Vec<ReplayPort>, Collector) {
    let mut reader = CaptureReader::open(capture).expect("a capture");
    let sequencing = Sequencing::with_version(chain, version.of(chain), REPLICAS, false);
    let mut sequencing = sequencing.expect("cores");
    let (mut feeder, ports, collector) = replay_restamped(REPLICAS);
    for seq in 0..SPRAYED {
        let record = reader.next().expect("whole").expect("packets enough");
        let sequenced = sequencing.next(&record);
        if !is_lost(sequenced.core, seq) {
            let frame = feeder.take(&sequenced.record).expect("open");
            feeder.send(sequenced.core, frame).expect("open");
        }
    }
    (ports, collector)
}
