//! A chain on a port of the machine: what leaves is what one core makes of the same packets of a capture.
//!
//! The port here has a capture behind it instead of interfaces, and few frames, so that cores wait for each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::strategies::{ALL, AUTO, Candidates, RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE, Strategy};
use engine::{Chain, Egress, Plan, Progress, Seen, guests, replay_capture, run_live};
use io::capture::CaptureReader;
use io::{Closed, Fate, Foreign, Frame, Pool, Port, Received};
use paceline_conformance::pcap::{Pcap, of};
use paceline_conformance::stock::{beginnings, generated, small};
use paceline_conformance::{example, tcp};
use strategy::{Every, Rebalancing};

/// What became of a packet, and its bytes as it left.
type Left = Vec<(u64, Fate, Vec<u8>)>;

/// Gives the packets of a capture, and stops the run when all of them have come back.
struct Replayed {
    pool: Pool,
    reader: CaptureReader,
    next: u64,
    time_ns: u64,
    is_over: bool,
    left: Left,
    progress: Arc<Progress>,
    /// The planted fault: frames with this number are taken and never given back to the pool.
    leaks: Option<u64>,
}

impl Port for Replayed {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let before = frames.len();
        while !self.is_over && frames.len() - before < max && self.pool.free() > 0 {
            let Some(record) = self.reader.next().expect("whole") else {
                self.is_over = true;
                break;
            };
            self.time_ns = self.time_ns.max(record.time_ns);
            let stamp = wire::Stamp { seq: self.next, time_ns: self.time_ns };
            self.next += 1;
            frames.extend(self.pool.fill(stamp, record.link, record.wire_len, record.data));
        }
        if self.is_over && self.left.len() as u64 == self.next {
            self.progress.stop.store(true, Ordering::Relaxed);
        }
        if frames.len() > before { Received::Frames } else { Received::Idle }
    }

    fn consumed(&self) -> u64 {
        self.next
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        // Not always all of them.
        let taken = frames.len().min(1 + self.left.len() % 7);
        for (frame, fate) in frames.drain(..taken).zip(fates) {
            self.left.push((frame.stamp.seq, *fate, self.pool.bytes(&frame).to_vec()));
            if self.leaks != Some(frame.stamp.seq) {
                self.pool.give_back([frame].into_iter());
            }
        }
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }
}

fn live(chain: &Chain, plan: &Plan, capture: &Pcap, leaks: Option<u64>) -> (Left, usize) {
    let (left, missing, _) = live_through(chain, plan, capture, leaks);
    (left, missing)
}

/// Runs as [`live`] does, and returns the strategies that ran, too.
fn live_through(
    chain: &Chain,
    plan: &Plan,
    capture: &Pcap,
    leaks: Option<u64>,
) -> (Left, usize, BTreeSet<&'static str>) {
    let (mut pool, guests) = Pool::chunks(1, 1 << 16, guests(plan));
    let frames = pool.free();
    let progress = Arc::new(Progress::default());
    let reader = capture.open();
    let mut port = Replayed {
        pool,
        reader,
        next: 0,
        time_ns: 0,
        is_over: false,
        left: Vec::new(),
        progress: Arc::clone(&progress),
        leaks,
    };
    let outcome = run_live::<(), _>(chain, plan, &mut port, (guests, frames), &progress).expect("it runs");
    assert_eq!(outcome.packets, port.next);
    let ran = outcome.changes.phases.iter().map(|change| change.strategy).collect();
    (port.left, frames - port.pool.free(), ran)
}

/// What leaves if the capture is replayed through one core.
fn expected(chain: &Chain, capture: &Pcap) -> Left {
    replayed(&chain.on_interfaces(), capture)
}

fn replayed(chain: &Chain, capture: &Pcap) -> Left {
    let plan = Plan::new(chain, SINGLE, 1).expect("a plan");
    let mut left = Vec::new();
    let mut see = |seen: &Seen<'_>| {
        left.push((seen.stamp.seq, seen.fate, seen.bytes.to_vec()));
        Ok::<_, ()>(())
    };
    replay_capture(chain, &plan, capture.open(), &Progress::default(), &mut see).expect("it runs");
    left
}

/// `gaps = "auto"` of the tracker: what is missing of a capture was missed; on interfaces it was never sent, and who says
/// otherwise may be forging both ends.
#[test]
fn the_tracker_is_strict_on_interfaces() {
    let packets = {
        let segment = |to_server: bool, flags, seq: u32, ack: u32, payload| {
            let (hosts, ports) = if to_server { ((1, 2), (4_000, 80)) } else { ((2, 1), (80, 4_000)) };
            let mut packet = tcp(1_000_000_000, hosts.0, hosts.1, ports, flags, seq, payload);
            packet.bytes[14 + 20 + 8..][..4].copy_from_slice(&ack.to_be_bytes());
            packet
        };
        [
            segment(true, 0x02, 100, 0, 0),
            segment(false, 0x12, 300, 101, 0),
            segment(true, 0x10, 101, 301, 0),
            segment(true, 0x10, 101, 301, 500),
            // 1,400 bytes more, of which nobody here knows.
            segment(false, 0x10, 301, 2_001, 100),
            segment(true, 0x10, 2_001, 401, 0),
            segment(false, 0x10, 401, 2_001, 100),
        ]
    };
    let capture = of(&packets);
    let passed =
        |left: Left| -> Vec<bool> { left.iter().map(|(_, fate, _)| *fate == Fate::Forward).collect() };
    for (options, on_capture, on_interfaces) in
        [("", true, false), ("gaps = \"strict\"", false, false), ("gaps = \"resync\"", true, true)]
    {
        let toml = format!("checksums = \"ignore\"\n[[function]]\nuse = \"conntrack\"\n{options}");
        let chain = paceline_conformance::chain(&toml, &stock::registry());
        let resumes = |resumes| [true, true, true, true, false, resumes, resumes];
        assert_eq!(passed(replayed(&chain, &capture)), resumes(on_capture), "{options} on a capture");
        for (strategy, cores) in [(SINGLE, 1), (RSS, 2), (SCR, 2), (AUTO, 2)] {
            let plan = Plan::new(&chain, strategy, cores).expect("a plan");
            let (left, _) = live(&chain, &plan, &capture, None);
            assert_eq!(passed(left), resumes(on_interfaces), "{options} live, {}", strategy.name());
            // The chain that takes over is live, too.
            let (left, _, told) = live_reloading(&chain, &plan, std::slice::from_ref(&chain), &capture);
            assert!(told.len() < 2);
            assert_eq!(passed(left), resumes(on_interfaces), "{options} reloaded, {}", strategy.name());
        }
    }
}

fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(3_000);
    inputs.push(("university".to_owned(), generated("university:packets=4000", 4_000)));
    inputs
}

/// Checksums are not verified on live ports unless the chain says so.
fn example_ignoring(name: &str) -> Chain {
    Chain { checksums: engine::Checksums::Ignore, ..small(example(name)) }
}

/// Strategies take over from each other while packets pass: none is lost, and each leaves as it would from one core.
#[test]
fn strategies_that_take_over_answer_as_one_core_does() {
    for name in ["edge.toml", "mixed-keys.toml", "gateway.toml"] {
        let chain = example_ignoring(name);
        let mut ran = BTreeSet::new();
        for (input, capture) in inputs() {
            let expected = expected(&chain, &capture);
            for (cores, every) in [(1, 100), (2, 500), (4, 97), (3, 13)] {
                let plan = Plan::new(&chain, AUTO, cores).expect("a plan");
                let rebalancing = Some(Rebalancing { every: Every::Packets(every), update_latency_ns: 0 });
                let plan = Plan { rebalancing, ..plan };
                let (left, missing, strategies) = live_through(&chain, &plan, &capture, None);
                ran.extend(strategies);
                assert_eq!(missing, 0, "{name} {input} {cores}: all frames are at home");
                let different = (0..expected.len()).find(|packet| expected.get(*packet) != left.get(*packet));
                assert_eq!((left.len(), different), (expected.len(), None), "{name} {input} {cores} {every}");
            }
        }
        let can_run = Candidates::new(&chain, 2, &ALL).all.into_iter().map(|choice| choice.model.name);
        assert_eq!(ran, can_run.collect(), "{name}: what could take part did");
    }
}

/// Tables with room, so that every strategy answers as one core does, and each packet leaves as it would from there.
#[test]
fn every_strategy_answers_as_one_core_does() {
    let ways: [(&'static dyn Strategy, usize); 9] = [
        (SINGLE, 1),
        (RSS, 1),
        (RSS, 2),
        (RSSPP, 3),
        (SHARED, 2),
        (SCR, 2),
        (SCR, 3),
        (SCR_TURNS, 2),
        (SCR_TURNS, 3),
    ];
    for name in ["edge.toml", "scan.toml", "mixed-keys.toml"] {
        for fragments in [engine::Fragments::Pass, engine::Fragments::Track] {
            let chain = Chain { fragments, ..example_ignoring(name) };
            for (input, capture) in inputs() {
                let expected = expected(&chain, &capture);
                for (strategy, cores) in ways {
                    let Ok(plan) = Plan::new(&chain, strategy, cores) else { continue };
                    let (left, missing) = live(&chain, &plan, &capture, None);
                    assert_eq!(missing, 0, "{name} {input} {strategy:?} {cores}: all frames are at home");
                    // Where cores share states, it depends on which of them comes first.
                    let is_equal = match plan.shared.is_empty() {
                        true => left == expected,
                        false => left.len() == expected.len(),
                    };
                    assert!(is_equal, "{name} {input} {strategy:?} {cores}");
                }
            }
        }
    }
}

#[test]
fn packets_may_leave_as_they_are_ready() {
    let chain = example_ignoring("edge.toml");
    let (_, capture) = inputs().remove(0);
    let plan = Plan { egress: Egress::AsReady, ..Plan::new(&chain, RSS, 3).expect("a plan") };
    let (mut left, missing) = live(&chain, &plan, &capture, None);
    left.sort_by_key(|(seq, ..)| *seq);
    assert_eq!(missing, 0);
    assert!(left == expected(&chain, &capture));
}

/// The planted fault: a port that forgets a buffer.
#[test]
fn a_leaked_frame_is_found() {
    let chain = example_ignoring("edge.toml");
    let (_, capture) = inputs().remove(0);
    for (strategy, cores) in [(SINGLE, 1), (RSS, 2)] {
        let plan = Plan::new(&chain, strategy, cores).expect("a plan");
        assert_eq!(live(&chain, &plan, &capture, Some(17)).1, 1);
    }
}

/// With nothing to do a run ends as soon as it is told to.
#[test]
fn it_ends_when_it_is_told_to() {
    let chain = example_ignoring("edge.toml");
    for (strategy, cores) in [(SINGLE, 1), (RSSPP, 2), (SCR, 2)] {
        let plan = Plan::new(&chain, strategy, cores).expect("a plan");
        let (left, missing) = live(&chain, &plan, &Pcap::new(), None);
        assert!(left.is_empty() && missing == 0);
    }
}

/// Runs with reloads to each of `others` in turn, as soon as the one before has taken over, while packets come.
fn live_reloading(
    chain: &Chain,
    plan: &Plan,
    others: &[Chain],
    capture: &Pcap,
) -> (Left, usize, Vec<engine::Reloaded>) {
    let (mut pool, guests) = Pool::chunks(1, 1 << 16, guests(plan));
    let frames = pool.free();
    let progress = Arc::new(Progress::default());
    let (reader, left) = (capture.open(), Vec::new());
    let (is_over, shared) = (false, Arc::clone(&progress));
    let mut port =
        Replayed { pool, reader, next: 0, time_ns: 0, is_over, left, progress: shared, leaks: None };
    let told = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut told = Vec::new();
            for other in others {
                // Before the run begins, and after it has ended, nobody can take over.
                while progress.reloads.current().is_none() && !progress.stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                match progress.reloads.reload(other.clone()) {
                    Ok(reloaded) => told.push(reloaded),
                    Err(engine::ReloadError::Over) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            told
        });
        let outcome =
            run_live::<(), _>(chain, plan, &mut port, (guests, frames), &progress).expect("it runs");
        assert_eq!(outcome.packets, port.next, "counters go on");
        asking.join().expect("it asks")
    });
    (port.left, frames - port.pool.free(), told)
}

#[test]
fn chains_take_over_while_packets_come() {
    let edge = small(example("edge.toml"));
    let text = "[[function]]\nuse = \"conntrack\"\ntable_full = \"evict-oldest\"\npick_up = false\n\
                [[function]]\nuse = \"policer\"\nrate_bytes_per_s = 30000\nburst_bytes = 9000\n";
    let other = paceline_conformance::chain(text, &stock::registry());
    let others: Vec<Chain> =
        (0..6).map(|turn| if turn % 2 == 0 { other.clone() } else { edge.clone() }).collect();
    let mut in_the_middle = 0;
    for (name, capture) in inputs() {
        for (strategy, cores) in
            [(SINGLE, 1), (RSS, 2), (RSSPP, 2), (SCR, 2), (SCR, 3), (SCR_TURNS, 3), (AUTO, 3)]
        {
            let plan = Plan::new(&edge, strategy, cores).expect("a plan");
            let (left, missing, told) = live_reloading(&edge, &plan, &others, &capture);
            assert_eq!(missing, 0, "{name} under {}: frames are missing", strategy.name());
            // The same on the capture, at the same packets, on one core.
            let reloads: Vec<engine::Reload> = told
                .iter()
                .zip(&others)
                .map(|(told, chain)| engine::Reload {
                    after: told.after,
                    chain: chain.on_interfaces(),
                    plan: Plan::new(chain, SINGLE, 1).expect("a plan"),
                })
                .collect();
            let alone = edge.on_interfaces();
            let mut expected = Left::new();
            let mut see = |seen: &Seen<'_>| {
                expected.push((seen.stamp.seq, seen.fate, seen.bytes.to_vec()));
                Ok::<_, ()>(())
            };
            let single = Plan::new(&alone, SINGLE, 1).expect("a plan");
            engine::replay_reloading(
                &alone,
                &single,
                &reloads,
                capture.open(),
                &Progress::default(),
                &mut see,
            )
            .expect("it runs");
            let packets = expected.len() as u64;
            in_the_middle += told.iter().filter(|told| told.after > 0 && told.after < packets).count();
            let at: Vec<u64> = told.iter().map(|told| told.after).collect();
            let pauses: Vec<_> = told.iter().map(|told| told.pause).collect();
            eprintln!("{name} {} on {cores}: after {at:?}, pauses {pauses:?}", strategy.name());
            let first = left.iter().zip(&expected).position(|(left, expected)| left != expected);
            assert_eq!(
                (left.len(), first),
                (expected.len(), None),
                "{name} {} on {cores}, {at:?}",
                strategy.name()
            );
        }
    }
    assert!(in_the_middle > 0, "all came before or behind the packets");
}
