//! Tables of 4 to 64 flows under `rsspp`, with moves every 2 to 132 packets: flows expire, and make room for others,
//! while packets wait for flows from another core. No flow may be forgotten that a waiting packet needs.
//!
//! A full table is allowed to make a difference: each core's table then decides alone, and the counters of evicted and
//! refused flows say so. What no counter announces must not differ.

use std::fs;
use std::path::Path;

use engine::strategies::{Layout, RSSPP, Strategy, StrategyInfo, Team};
use engine::{Batch, Chain, ChainCore, Intake, IntakeCounters, IntakeEnd, Plan, PlanError, Progress, verify};
use io::{Port, Received};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::root;
use paceline_conformance::stock::{ALONE, alone, beginnings, examples, generated, small};
use strategy::{Assign, Every, Rebalancing};
use table::WhenFull;

/// Packets of each input.
const PACKETS: usize = 1_000;

const FLOWS: [usize; 5] = [4, 8, 16, 32, 64];

const POLICIES: [WhenFull; 2] = [WhenFull::EvictOldest, WhenFull::Reject];

/// Cores, with the packets from one move to the next.
const WAYS: [(usize, u64); 6] = [(2, 2), (4, 3), (2, 7), (4, 7), (2, 37), (4, 132)];

/// Functions whose flows die within the inputs, so that tables have room without evicting or refusing any.
const SHORT_LIVED: [&str; 6] =
    ["destination-policer", "flow-statistics", "policer", "rate-limiter", "source-statistics", "synthetic"];

fn short_lived() -> impl Iterator<Item = Chain> {
    let all = SHORT_LIVED.iter().map(|short| ALONE.iter().find(|(name, _)| name == short));
    all.map(|found| found.expect("a stock function")).map(|(name, options)| alone(name, options))
}

fn sized(chain: &Chain, flows: usize, when_full: WhenFull) -> Chain {
    let mut chain = chain.clone();
    chain.functions.iter_mut().for_each(|spec| (spec.flows, spec.when_full) = (flows, when_full));
    chain
}

fn captures() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    for model in ["zipf:flows=200,a=1.1,seed=11", "zipf:flows=60,a=0.8,seed=3", "datacenter:seed=5"] {
        let model = format!("{model},packets={PACKETS},gap-ns=20000000");
        let pcap = generated(&model, PACKETS);
        inputs.push((model, pcap));
    }
    inputs
}

fn moving(chain: &Chain, strategy: &'static dyn Strategy, cores: usize, every: u64) -> Plan {
    let plan = Plan::new(chain, strategy, cores).expect("shardable");
    let rebalancing = Some(Rebalancing { every: Every::Packets(every), update_latency_ns: 0 });
    Plan { rebalancing, ..plan }
}

/// What runs came to.
#[derive(Debug, Default)]
struct Tally {
    equal: u64,
    /// Equal runs in which `single` turned away what full tables turned away.
    told: u64,
    different: Vec<String>,
    /// Equal runs in which no table was full, and packets waited for flows.
    equal_with_waits: u64,
}

impl Tally {
    /// Runs the chain over all inputs in tables of `flows` flows, each input in one of the ways, on cores that are simulated.
    fn run(
        &mut self,
        chain: &Chain,
        inputs: &[(String, Pcap)],
        (flows, when_full): (usize, WhenFull),
        strategy: &'static dyn Strategy,
        seed: u64,
    ) {
        let chain = &sized(chain, flows, when_full);
        for (number, (name, capture)) in inputs.iter().enumerate() {
            let way = number + flows.ilog2() as usize;
            let (cores, every) = WAYS[way % WAYS.len()];
            let plan = moving(chain, strategy, cores, every);
            let plan = Plan { simulation: Some(seed + way as u64), ..plan };
            let open = || Ok(capture.open());
            let verified = verify(chain, &plan, &open, &Progress::default()).expect("runs");
            let at = format!(
                "{}, {flows} flows, {when_full:?}, {cores} cores, every {every} of {name}",
                chain.name
            );
            assert_eq!(verified.out_of_order, Some(0), "{at}");
            if verified.is_same() {
                self.equal += 1;
                self.told += u64::from(verified.is_told);
                self.equal_with_waits +=
                    u64::from(verified.filled.is_empty() && verified.moves.waited_packets > 0);
            } else {
                self.different.push(format!("{at}: {verified:?}"));
            }
        }
    }

    /// Nothing differed.
    fn assert_holds(&self, equal_at_least: u64) {
        let Tally { different, equal_with_waits, .. } = self;
        assert!(different.is_empty(), "{} differ: {different:#?}", different.len());
        assert!(*equal_with_waits >= equal_at_least, "{self:?}");
    }
}

/// `rsspp` with a fault that every core had once: it makes room, and sweeps, as of its newest packet, whatever waits.
struct Forgetful;

impl Strategy for Forgetful {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("forgetful", "rsspp with a fault");
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        RSSPP.layout(chain, cores)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        RSSPP.assign(chain, plan)
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        RSSPP.owners(plan)
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let Team { dispatcher, intakes } = RSSPP.team(chain, plan);
        let forgetful = |intake| -> Box<dyn Intake> { Box::new(AsOfTheNewest(intake)) };
        Team { dispatcher, intakes: intakes.into_iter().map(forgetful).collect() }
    }
}

struct AsOfTheNewest(Box<dyn Intake>);

impl Intake for AsOfTheNewest {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = self.0.receive(port, chain, batch);
        batch.oldest_ns = u64::MAX;
        received
    }

    fn counters(&self) -> IntakeCounters {
        self.0.counters()
    }

    fn is_busy(&self) -> bool {
        self.0.is_busy()
    }

    fn finish(&mut self) -> IntakeEnd {
        self.0.finish()
    }
}

#[test]
fn what_differs_is_announced() {
    let inputs = captures();
    for when_full in POLICIES {
        let mut tally = Tally::default();
        for chain in short_lived() {
            FLOWS.iter().for_each(|flows| tally.run(&chain, &inputs, (*flows, when_full), RSSPP, 0));
        }
        tally.assert_holds(30);
    }
}

#[test]
fn in_every_stock_function_and_example() {
    let inputs = captures();
    let all = ALONE.iter().map(|(name, options)| alone(name, options)).chain(examples());
    let mut tally = Tally::default();
    for (number, chain) in all.enumerate() {
        // What cores share is promised less.
        let plan = Plan::new(&small(chain.clone()), RSSPP, 2);
        if plan.is_ok_and(|plan| plan.shared.is_empty()) {
            tally.run(&chain, &inputs, (64, POLICIES[number % 2]), RSSPP, 0);
        }
    }
    tally.assert_holds(30);
}

#[test]
fn a_core_that_forgets_as_of_its_newest_packet_is_found() {
    let inputs = captures();
    for when_full in POLICIES {
        let is_found = |seed| {
            let mut tally = Tally::default();
            for chain in short_lived() {
                for flows in [16, 32] {
                    tally.run(&chain, &inputs, (flows, when_full), &Forgetful, seed);
                }
            }
            !tally.different.is_empty()
        };
        assert!((0..10).any(is_found), "{when_full:?}");
    }
}

/// Small tables with a thread for each core, which wait for each other as they happen to.
#[test]
fn with_real_threads() {
    let mut equal = 0;
    for (number, (name, capture)) in captures().into_iter().enumerate() {
        for (index, chain) in short_lived().enumerate() {
            let chain = sized(&chain, 32, POLICIES[index % 2]);
            let (cores, every) = WAYS[(number + index) % WAYS.len()];
            let plan = moving(&chain, RSSPP, cores, every);
            let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
            let at = format!("{}, {cores} cores, every {every} of {name}", chain.name);
            assert_eq!(verified.out_of_order, Some(0), "{at}");
            assert!(verified.holds(), "{at}: {verified:#?}");
            equal += u64::from(verified.filled.is_empty());
        }
    }
    assert!(equal >= 5, "{equal}");
}

/// Code that takes a flow from a table without a packet of that flow shows a [`table::Watermark`]. These are all
/// places that say what one is; a change that adds one shows here why no older packet can come.
#[test]
fn watermarks_are_claimed_in_few_places() {
    let mut claims = Vec::new();
    for krate in ["engine", "cli", "measure"] {
        collect_claims(&root().join("crates").join(krate).join("src"), &mut claims);
    }
    claims.sort();
    let expected = [
        ("batch.rs", 1),   // The packet at hand, or the oldest that waits.
        ("clocks.rs", 1),  // The core that lags most.
        ("core.rs", 1),    // The end of a run.
        ("home.rs", 1),    // Another chain or strategy takes over: no packet from before comes any more.
        ("mover.rs", 1),   // The latest packet, or the oldest that waits, between two batches.
        ("replica.rs", 1), // A promotion, or its end: packets come to the table that gets the flows from then on.
        ("table.rs", 2),   // `bench table`: no flow ever dies.
        ("worker.rs", 1),  // As the mover.
    ];
    assert_eq!(claims, expected.map(|(file, count)| (file.to_owned(), count)));
}

fn collect_claims(folder: &Path, claims: &mut Vec<(String, usize)>) {
    for entry in fs::read_dir(folder).expect("sources") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            collect_claims(&path, claims);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let count = fs::read_to_string(&path).expect("text").matches("Watermark::claim(").count();
            claims.extend((count > 0).then_some((name, count)));
        }
    }
}
