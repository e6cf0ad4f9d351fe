//! Flows that are listed while a run goes on: under every strategy all that live, each once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use engine::report::FlowReport;
use engine::strategies::{ALL, SINGLE, Strategy};
use engine::{Chain, Doomed, ListError, ListedFlow, Plan, Progress, Reloaded, RunOutcome, guests, run_live};
use io::{Closed, Fate, Foreign, Frame, Pool, Port, Received};
use paceline_conformance::pcap::first_of;
use paceline_conformance::stock::small;
use paceline_conformance::{chain, root};
use strategy::{Every, Rebalancing};
use wire::{LinkType, Stamp};

/// Between two packets, ns: no flow of these tests expires.
const GAP_NS: u64 = 1_000;

/// How the port and the test agree.
#[derive(Default)]
struct Traffic {
    /// Rounds of the packets that may come.
    rounds: AtomicU64,
    /// Packets that have left.
    left: AtomicU64,
    /// Whether rounds go on and on.
    endless: AtomicBool,
}

/// Gives the packets of a capture, round after round.
struct Looped {
    pool: Pool,
    packets: Vec<(LinkType, Vec<u8>)>,
    next: u64,
    traffic: Arc<Traffic>,
}

impl Port for Looped {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let before = frames.len();
        let count = self.packets.len() as u64;
        while frames.len() - before < max && self.pool.free() > 0 {
            let is_due = self.next < self.traffic.rounds.load(Ordering::Acquire) * count;
            if !is_due && !self.traffic.endless.load(Ordering::Relaxed) {
                break;
            }
            let (link, data) = &self.packets[(self.next % count) as usize];
            let stamp = Stamp { seq: self.next, time_ns: 1 + self.next * GAP_NS };
            self.next += 1;
            frames.extend(self.pool.fill(stamp, *link, data.len() as u32, data));
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

    fn transmit(&mut self, frames: &mut Vec<Frame>, _: &[Fate]) -> Result<usize, Closed> {
        let taken = frames.len();
        self.pool.give_back(frames.drain(..));
        self.traffic.left.fetch_add(taken as u64, Ordering::Release);
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }
}

/// A run that goes on, and what is done with it.
struct Going<'a> {
    progress: &'a Progress,
    traffic: &'a Traffic,
    /// Packets of a round.
    round: u64,
}

impl Going<'_> {
    /// Lets so many rounds of packets through, and waits until all of them have left, and each replica has stepped all: it
    /// steps those of other cores when it has some of its own, or ends.
    fn pass(&self, rounds: u64) {
        self.traffic.rounds.fetch_add(rounds, Ordering::Release);
        let all = self.traffic.rounds.load(Ordering::Acquire) * self.round;
        while self.traffic.left.load(Ordering::Acquire) < all {
            thread::sleep(Duration::from_micros(200));
        }
        self.remove(|_| false);
    }

    /// Removes flows.
    fn remove(&self, is_doomed: impl Fn(&ListedFlow) -> bool) -> Reloaded {
        let mut doomed: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for flow in self.list(None).into_iter().filter(is_doomed) {
            doomed.entry(flow.function).or_default().push(flow.state.key_bytes);
        }
        let doomed = doomed.into_iter().map(|(function, keys)| Doomed { function, keys }).collect();
        self.progress.reloads.remove(doomed).expect("it goes on")
    }

    /// Lists all flows.
    fn list(&self, function: Option<&str>) -> Vec<ListedFlow> {
        self.list_all(function).0
    }

    /// Lists all flows; returns also how many of them moved meanwhile, if nothing else changed.
    fn list_all(&self, function: Option<&str>) -> (Vec<ListedFlow>, Option<u64>) {
        let mut flows = self.progress.listing.flows(function, || 1).expect("it runs");
        let mut all = Vec::new();
        while let Some(portion) = flows.next_portion() {
            all.extend(portion);
        }
        (all, (!flows.has_changed()).then(|| flows.moved()))
    }
}

/// Runs a chain as long as `act` takes.
fn going<R: Send>(chain: &Chain, plan: &Plan, act: impl FnOnce(&Going<'_>) -> R + Send) -> R {
    going_to_its_end(chain, plan, act).0
}

/// Runs a chain as long as `act` takes, and returns also what is left.
fn going_to_its_end<R: Send>(
    chain: &Chain,
    plan: &Plan,
    act: impl FnOnce(&Going<'_>) -> R + Send,
) -> (R, RunOutcome) {
    let capture = first_of(&root().join("captures/edge.pcap"), 2_000);
    let mut reader = capture.open();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().expect("whole") {
        packets.push((record.link, record.data.to_vec()));
    }
    going_with(packets, chain, plan, act)
}

/// Runs a chain on these packets as long as `act` takes.
fn going_with<R: Send>(
    packets: Vec<(LinkType, Vec<u8>)>,
    chain: &Chain,
    plan: &Plan,
    act: impl FnOnce(&Going<'_>) -> R + Send,
) -> (R, RunOutcome) {
    let (mut pool, guests) = Pool::chunks(1, 1 << 16, guests(plan));
    let frames = pool.free();
    let (progress, traffic) = (Progress::default(), Arc::new(Traffic::default()));
    let round = packets.len() as u64;
    let mut port = Looped { pool, packets, next: 0, traffic: Arc::clone(&traffic) };
    thread::scope(|scope| {
        let acting = scope.spawn(|| {
            while !progress.reloads.has_begun() {
                thread::sleep(Duration::from_micros(200));
            }
            let going = Going { progress: &progress, traffic: &traffic, round };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&going)));
            progress.stop.store(true, Ordering::Relaxed);
            done
        });
        let outcome =
            run_live::<(), _>(chain, plan, &mut port, (guests, frames), &progress).expect("it runs");
        let over = progress.listing.flows(None, || 1).map(|_| ());
        assert_eq!(over, Err(ListError::Over), "the run is over");
        let acted = acting.join().expect("it acts");
        (acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), outcome)
    })
}

/// Small tables: with large ones most of the time is for making them.
fn counts() -> Chain {
    let text = "name = \"counts\"\nchecksums = \"ignore\"\n[[function]]\nuse = \"flow-statistics\"\n[[function]]\nuse = \
                \"source-statistics\"\n[[function]]\nuse = \"pattern-scanner\"\npatterns = [\"x\"]\n";
    small(chain(text, &stock::registry()))
}

/// Every strategy on some cores; flows migrate often, where they migrate.
fn plans(chain: &Chain) -> Vec<(String, Plan)> {
    let often = Rebalancing { every: Every::Packets(97), update_latency_ns: 0 };
    let plan = |strategy: &'static dyn Strategy, cores| {
        let plan = Plan::new(chain, strategy, cores).ok()?;
        let rebalancing = plan.rebalancing.map(|_| often);
        Some((format!("{} on {cores}", strategy.name()), Plan { rebalancing, ..plan }))
    };
    let ways = ALL.into_iter().flat_map(|strategy| [(strategy, 1), (strategy, 3)]);
    ways.filter(|(strategy, cores)| *strategy != SINGLE || *cores == 1)
        .filter_map(|(strategy, cores)| plan(strategy, cores))
        .collect()
}

/// By function and key, how often it is listed, and its packets.
fn by_key(flows: &[ListedFlow]) -> BTreeMap<(String, String), (u64, u64)> {
    let mut all = BTreeMap::new();
    for flow in flows {
        let report = FlowReport::new(flow);
        let count: &mut (u64, u64) = all.entry((report.function, report.key)).or_default();
        *count = (count.0 + 1, report.packets.expect("statistics count packets"));
    }
    all
}

/// What one core has of the packets: found without tables.
fn expected(rounds: u64) -> BTreeMap<(String, String), (u64, u64)> {
    let capture = first_of(&root().join("captures/edge.pcap"), 2_000);
    let mut reader = capture.open();
    let mut all = BTreeMap::new();
    while let Some(record) = reader.next().expect("whole") {
        let mut headers = wire::Headers::default();
        wire::parse_into(record.link, record.data, record.wire_len, &mut headers);
        if headers.malformed().is_some() || !headers.is_ip() {
            continue;
        }
        let keys = [
            ("flow-statistics", <nf::FiveTuple as nf::FlowKey>::of(&headers).to_string()),
            ("source-statistics", headers.src.to_string()),
        ];
        for (function, key) in keys {
            let count: &mut (u64, u64) = all.entry((function.to_owned(), key)).or_default();
            *count = (1, count.1 + rounds);
        }
    }
    all
}

/// What is wrong with a list.
fn differs(
    listed: &BTreeMap<(String, String), (u64, u64)>,
    expected: &BTreeMap<(String, String), (u64, u64)>,
) -> Option<String> {
    let wrong = expected.iter().find(|(key, count)| listed.get(*key) != Some(count));
    wrong.map(|(key, count)| format!("{key:?}: {:?}, and not {count:?}", listed.get(key))).or_else(|| {
        listed.keys().find(|key| !expected.contains_key(*key)).map(|key| format!("{key:?} is none"))
    })
}

#[test]
fn every_strategy_lists_each_flow_once() {
    let chain = counts();
    let (one, two) = (expected(1), expected(2));
    assert!(one.len() > 100, "{}", one.len());
    for (name, plan) in plans(&chain) {
        let (first, second, of_sources) = going(&chain, &plan, |going| {
            going.pass(1);
            let first = going.list(None);
            going.pass(1);
            (first, going.list(None), going.list(Some("source-statistics")))
        });
        for (listed, expected) in [(&first, &one), (&second, &two)] {
            assert_eq!(differs(&by_key(listed), expected), None, "{name}");
        }
        let sources = two.keys().filter(|(function, _)| function == "source-statistics").count();
        assert_eq!(of_sources.len(), sources, "{name}");
        let has_core = first.iter().all(|flow| flow.core.is_some());
        let is_alone = plan.cores == 1 || !(plan.is_replicated() || plan.is_striped());
        assert!(!has_core || is_alone, "{name}: all cores have it");
        // Planted: a flow that is listed twice is found.
        let mut planted = first.clone();
        planted.push(first[0].clone());
        assert!(differs(&by_key(&planted), &one).is_some(), "{name}: one is listed twice");
        planted.truncate(first.len() - 1);
        assert!(differs(&by_key(&planted), &one).is_some(), "{name}: one is left out");
    }
}

/// While packets come and flows move: what is listed twice, or not at all, moved.
#[test]
fn what_moves_meanwhile_is_all_that_can_be_wrong() {
    let chain = counts();
    let all = expected(1);
    let mut exact = 0;
    for (name, plan) in plans(&chain) {
        let lists = going(&chain, &plan, |going| {
            going.pass(1);
            going.traffic.endless.store(true, Ordering::Relaxed);
            // Each replica has had packets of its own since.
            while going.traffic.left.load(Ordering::Acquire)
                < going.round + (2 * plan.cores * engine::BATCH_PACKETS) as u64
            {
                thread::sleep(Duration::from_micros(200));
            }
            (0..5).map(|_| going.list_all(None)).collect::<Vec<_>>()
        });
        for (flows, moved) in lists {
            // Under `auto` strategies take over from each other, and the list says so.
            let Some(moved) = moved else {
                assert!(name.starts_with("auto"), "{name}");
                continue;
            };
            let listed = by_key(&flows);
            let twice: u64 = listed.values().map(|(times, _)| times - 1).sum();
            let missing = all.keys().filter(|key| !listed.contains_key(*key)).count() as u64;
            assert!(twice + missing <= moved, "{name}: {twice} twice, {missing} missing, {moved} moved");
            assert!(listed.keys().all(|key| all.contains_key(key)), "{name}");
            exact += u64::from(moved == 0);
        }
    }
    assert!(exact > 10, "{exact} lists while nothing moved");
}

#[test]
fn what_is_not_there_is_refused() {
    let chain = counts();
    let plan = Plan::new(&chain, SINGLE, 1).expect("a plan");
    let listing = Progress::default().listing;
    assert_eq!(listing.flows(None, || 1).map(|_| ()), Err(ListError::Over), "no run");
    going(&chain, &plan, |going| {
        let refused = |name: &str| going.progress.listing.flows(Some(name), || 1).map(|_| ());
        let error = refused("nat").expect_err("no such function").to_string();
        assert!(error.contains("no function `nat`") && error.contains("source-statistics"), "{error}");
        let none = ListError::NoFlows { name: "pattern-scanner".to_owned() };
        assert_eq!(refused("pattern-scanner"), Err(none));
    });
}

/// A reader who takes a portion and goes away holds nothing up, and others go on.
#[test]
fn a_reader_who_goes_away_holds_nothing_up() {
    let chain = counts();
    for (name, plan) in plans(&chain) {
        going(&chain, &plan, |going| {
            going.pass(1);
            let mut gone = going.progress.listing.flows(None, || 1).expect("it runs");
            assert!(gone.next_portion().is_some(), "{name}");
            let slow = going.progress.listing.flows(None, || 1).expect("it runs");
            drop(gone);
            going.pass(1);
            assert_eq!(differs(&by_key(&going.list(None)), &expected(2)), None, "{name}");
            drop(slow);
        });
    }
}

/// Flows to a port are removed, and no others; they begin anew with their next packet, and others go on.
#[test]
fn what_is_removed_is_gone_for_all_cores() {
    let chain = counts();
    let (one, two) = (expected(1), expected(2));
    let is_doomed = |(function, key): &(String, String)| function == "flow-statistics" && key.contains(":80");
    assert!(one.keys().filter(|key| is_doomed(key)).count() > 5);
    for (name, plan) in plans(&chain) {
        let (reloaded, behind, later) = going(&chain, &plan, |going| {
            going.pass(1);
            let reloaded = going.remove(|flow| is_doomed(&(flow.function.clone(), flow.state.key.clone())));
            let behind = going.list(None);
            going.pass(1);
            (reloaded, behind, going.list(None))
        });
        let without = one.iter().filter(|(key, _)| !is_doomed(key));
        let without: BTreeMap<_, _> = without.map(|(key, count)| (key.clone(), *count)).collect();
        assert_eq!(differs(&by_key(&behind), &without), None, "{name}");
        assert_eq!(reloaded.removed, Some((one.len() - without.len()) as u64), "{name}");
        assert!(reloaded.functions.iter().all(|(_, kept)| kept.is_ok()), "{name}: {reloaded:?}");
        let anew = two.iter().map(|(key, (times, packets))| {
            (key.clone(), (*times, if is_doomed(key) { packets / 2 } else { *packets }))
        });
        assert_eq!(differs(&by_key(&later), &anew.collect()), None, "{name}");
        // Planted: a core that keeps a flow shows.
        let mut planted = behind.clone();
        planted.extend(
            later.iter().find(|flow| is_doomed(&(flow.function.clone(), flow.state.key.clone()))).cloned(),
        );
        assert!(differs(&by_key(&planted), &without).is_some(), "{name}");
    }
}

/// Removals while packets come leave replicas alike: what each core counts of flows at the end is the same.
#[test]
fn replicas_agree_after_removals_on_the_way() {
    let chain = counts();
    let mut replicated = 0;
    for (name, plan) in plans(&chain).into_iter().filter(|(_, plan)| plan.is_replicated()) {
        replicated += 1;
        let outcome = going_to_its_end(&chain, &plan, |going| {
            going.pass(1);
            going.traffic.endless.store(true, Ordering::Relaxed);
            for _ in 0..5 {
                going.remove(|flow| flow.state.key.contains(":80"));
            }
        })
        .1;
        assert_eq!(outcome.reloads.len(), 1 + 5, "{name}");
        assert!(outcome.reloads.iter().any(|reloaded| reloaded.removed > Some(5)), "{name}");
        // All have stepped all packets when the run is over: those behind the last of a core are told to it, too.
        for function in 0..2 {
            let of = |(_, core): &(engine::CoreCounters, engine::ChainCore)| {
                core.stage(function).counters().flows.removed
            };
            let removed: Vec<u64> = outcome.cores.iter().map(of).collect();
            assert!(removed.iter().all(|count| *count == removed[0]), "{name}: {removed:?}");
        }
    }
    assert!(replicated >= 2, "{replicated} strategies with replicas");
}

/// Mappings that are removed free their ports: a NAT with few of them has room again.
#[test]
fn a_nat_gets_its_ports_back() {
    let text = "name = \"nat\"\nchecksums = \"ignore\"\n[[function]]\nuse = \"nat\"\ninside = [\"192.0.2.0/24\"]\nexternal = \
                [\"203.0.113.1\"]\nports = [2000, 2007]\n";
    let chain = small(chain(text, &stock::registry()));
    let mut ran = 0;
    for (name, plan) in plans(&chain) {
        let (first, emptied, later) = going(&chain, &plan, |going| {
            going.pass(1);
            let first = going.list(Some("nat"));
            going.remove(|_| true);
            let emptied = going.list(Some("nat")).len();
            going.pass(1);
            (first, emptied, going.list(Some("nat")))
        });
        // Eight ports are few to be shared out among many shards.
        ran += usize::from(first.len() >= 3);
        assert_eq!(emptied, 0, "{name}");
        assert_eq!(later.len(), first.len(), "{name}: as many get a port again");
    }
    assert!(ran >= 6, "{ran}");
}

/// Rules decide as often on many cores as on one, whatever moves, and go on over a removal; with other rules counts begin anew.
#[test]
fn rules_are_counted_over_all_cores() {
    let list = |rules: &str| {
        let text = format!(
            "name = \"rules\"\nchecksums = \"ignore\"\n[[function]]\nuse = \"firewall\"\nrules = [{rules}]\n[[function]]\nuse = \
             \"access-list\"\ndefault = \"allow\"\nrules = [\"deny udp from any to any\"]\n"
        );
        small(chain(&text, &stock::registry()))
    };
    let chain = list("\"drop icmp from any to any\", \"accept any from any to any\"");
    let other = list("\"accept any from any to any\"");
    let counts = |going: &Going<'_>| {
        let counts = going.progress.listing.rules();
        let counts: Vec<_> =
            counts.into_iter().map(|rule| (rule.function + " " + &rule.rule, rule.decided)).collect();
        counts
    };
    let mut expected = None;
    for (name, plan) in plans(&chain) {
        let (counted, outcome) = going_to_its_end(&chain, &plan, |going| {
            going.pass(1);
            let counted = counts(going);
            let reloaded = going.progress.reloads.reload(other.clone()).expect("it goes on");
            assert!(reloaded.functions.iter().all(|(_, kept)| kept.is_ok()), "{name}");
            assert_eq!(counts(going)[0], ("firewall 1".to_owned(), 0), "{name}: other rules");
            assert_eq!(counts(going)[2..], counted[3..], "{name}: those of the other function go on");
            counted
        });
        assert_eq!(counted.len(), 3 + 2, "{name}");
        let stages = outcome.cores.iter().map(|(_, core)| core.stage(1).counters());
        let denied: u64 = stages.map(|counters| counters.drops[0]).sum();
        assert_eq!(counted[3], ("access-list 1".to_owned(), denied), "{name}: as many as were dropped");
        assert!(counted[0].1 > 0 && counted[1].1 > 10 && denied > 0, "{name}: {counted:?}");
        // Cores that share a table step packets of a flow in no order that a run repeats.
        if plan.cores == 1 || !plan.is_striped() {
            assert_eq!(*expected.get_or_insert(counted.clone()), counted, "{name}");
        }
    }
}

/// What a core with a million flows gives for a list of them, while it has packets all the time: `./x bench tests` prints it.
#[test]
#[ignore = "measures"]
fn list_costs() {
    const FLOWS: u32 = 1 << 20;
    let text = format!(
        "name = \"cost\"\nchecksums = \"ignore\"\n[[function]]\nuse = \"flow-statistics\"\nflows = {FLOWS}\n"
    );
    let chain = chain(&text, &stock::registry());
    let packet = |flow: u32| {
        let [a, b, c, d] = flow.to_be_bytes();
        let mut bytes = vec![2; 12];
        bytes.extend([
            8,
            0,
            0x45,
            0,
            0,
            28,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            10 + a,
            b,
            c,
            d,
            192,
            0,
            2,
            1,
            0x13,
            0x88,
            0,
            53,
            0,
            8,
            0,
            0,
        ]);
        (LinkType::Ethernet, bytes)
    };
    let plan = Plan::new(&chain, SINGLE, 1).expect("a plan");
    going_with((0..FLOWS).map(packet).collect(), &chain, &plan, |going| {
        going.pass(1);
        going.traffic.endless.store(true, Ordering::Relaxed);
        let left = || going.traffic.left.load(Ordering::Relaxed);
        for _ in 0..3 {
            let (begin, before) = (std::time::Instant::now(), left());
            let mut flows = going.progress.listing.flows(None, || 1).expect("it runs");
            let mut listed = 0;
            while let Some(portion) = flows.next_portion() {
                listed += portion.len();
            }
            let (elapsed, worked) = (begin.elapsed(), flows.worked());
            println!(
                "{listed} flows listed in {elapsed:.2?}; the core worked on it for {worked:.2?}, {:.2} % of the time, {:.1} ns a flow, \
                 while it had {} packets",
                100.0 * worked.as_secs_f64() / elapsed.as_secs_f64(),
                worked.as_nanos() as f64 / listed as f64,
                left() - before
            );
        }
    });
}
