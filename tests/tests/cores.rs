//! Cores are parked, and get packets again, while packets come: nothing is lost by it, and it changes no answer.

use engine::strategies::{ALL, DYSSECT, Layout, RSS, RSSPP, Strategy, StrategyInfo};
use engine::{Chain, NoParking, Plan, PlanError, Progress, replay_capture, verify};
use paceline_conformance::chain;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, every_model, examples, small};
use strategy::{ActiveCores, Assign, Every, Rebalancing};
use wire::Headers;

const CORES: usize = 3;
const PARKS: [&dyn Strategy; 3] = [RSS, RSSPP, DYSSECT];

/// A plan under which cores come and go behind these packets; flows migrate all the while where they migrate by themselves.
fn plan(chain: &Chain, strategy: &'static dyn Strategy, changes: &[(u64, usize)]) -> Option<Plan> {
    let plan = Plan::new(chain, strategy, CORES).ok()?;
    let often = Rebalancing { every: Every::Packets(97), update_latency_ns: 0 };
    let plan = Plan { rebalancing: plan.rebalancing.map(|_| often), ..plan };
    let plan = plan.with_cores_to_park(chain).ok()?;
    // The others on threads.
    let simulation = (strategy == RSSPP).then_some(5);
    Some(Plan { active: ActiveCores::changing(CORES, changes), simulation, ..plan })
}

fn stock() -> impl Iterator<Item = Chain> {
    ALONE.iter().map(|(name, options)| alone(name, options)).chain(examples()).map(small)
}

#[test]
fn a_change_of_cores_changes_no_answer() {
    let pcap = every_model(400);
    let changes = [(100, 1), (400, 3), (700, 2), (701, 1), (702, 3), (1_200, 2)];
    let mut compared = [0; PARKS.len()];
    for chain in stock() {
        for (strategy, compared) in PARKS.into_iter().zip(&mut compared) {
            let Some(plan) = plan(&chain, strategy, &changes) else { continue };
            let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default());
            let verified = verified.expect("it is compared");
            let at = format!("{} under {}: {verified:#?}", chain.name, strategy.name());
            // Nothing is full, so nothing is excused.
            assert!(verified.filled.is_empty() && verified.exhausted.is_empty(), "{at}");
            assert!(verified.holds(), "{at}");
            *compared += 1;
        }
    }
    assert!(compared.iter().all(|compared| *compared > 15), "{compared:?}");
}

/// `rss` with a fault: every fiftieth packet comes to the core beside that of its flow.
struct Straying;

impl Strategy for Straying {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("straying", "rss with a fault");
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        RSS.layout(chain, cores)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        Box::new(Strays { assign: RSS.assign(chain, plan), packets: 0 })
    }
}

struct Strays {
    assign: Box<dyn Assign>,
    packets: usize,
}

impl Assign for Strays {
    fn entry(&self, headers: &Headers) -> u16 {
        self.assign.entry(headers)
    }

    fn core(&mut self, entry: u16) -> usize {
        self.packets += 1;
        (self.assign.core(entry) + usize::from(self.packets.is_multiple_of(50))) % CORES
    }
}

/// Planted: what the test above compares by sees packets that come to a core without their flow, in each function that keeps more of
/// a flow than what its packets say.
#[test]
fn packets_that_stray_are_found() {
    let pcap = every_model(400);
    let mut found = Vec::new();
    for (name, options) in ALONE {
        let chain = small(alone(name, options));
        let Some(plan) = Plan::new(&chain, &Straying, CORES).ok() else { continue };
        let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default());
        if !verified.expect("it is compared").holds() {
            found.push(*name);
        }
    }
    assert!(found.len() >= 12, "{found:?}");
}

/// How many packets each core got.
fn packets(pcap: &Pcap, plan: &Plan, chain: &Chain) -> Vec<u64> {
    let outcome = replay_capture::<()>(chain, plan, pcap.open(), &Progress::default(), &mut |_| Ok(()));
    outcome.expect("it runs").cores.iter().map(|(core, _)| core.packets).collect()
}

#[test]
fn a_parked_core_gets_no_packets_and_one_that_is_added_does() {
    let pcap = every_model(400);
    let chain = chain("[[function]]\nuse = \"conntrack\"\nflows = 4096\n", &stock::registry());
    let all = packets(&pcap, &plan(&chain, RSS, &[]).expect("it runs"), &chain);
    assert!(all.iter().all(|packets| *packets > 0), "{all:?}");
    for strategy in PARKS {
        let of = |changes: &[(u64, usize)]| {
            packets(&pcap, &plan(&chain, strategy, changes).expect("it runs"), &chain)
        };
        let alone = of(&[(0, 1)]);
        assert_eq!(alone, [all.iter().sum(), 0, 0], "{}", strategy.name());
        let added = of(&[(0, 1), (600, 2)]);
        assert!(added[0] >= 600 && added[1] > 0 && added[2] == 0, "{}: {added:?}", strategy.name());
        assert_eq!(added.iter().sum::<u64>(), alone[0]);
    }
}

#[test]
fn what_cannot_be_parked_is_refused_with_the_reason() {
    let tracker = chain("[[function]]\nuse = \"conntrack\"\n", &stock::registry());
    for strategy in ALL {
        let cores = if strategy.info().max_cores == 1 { 1 } else { 2 };
        let plan = Plan::new(&tracker, strategy, cores).expect("it runs").with_cores_to_park(&tracker);
        match plan {
            Ok(plan) => {
                assert!(PARKS.contains(&strategy), "{}", strategy.name());
                for asked in [0, 3] {
                    let refused = Err(NoParking::Number { asked, cores: 2 });
                    assert_eq!(plan.check_cores(&tracker, asked), refused);
                }
            }
            Err(why) => {
                assert!(!PARKS.contains(&strategy), "{}", strategy.name());
                let name = strategy.name();
                match cores {
                    1 => assert_eq!(why, NoParking::OneCore),
                    _ => assert!(matches!(why, NoParking::Strategy { strategy, .. } if strategy == name)),
                }
            }
        }
    }
    // No hash serves both keys: all cores share the policer's states.
    let mixed = "[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"destination-policer\"\n";
    let mixed = chain(mixed, &stock::registry());
    let plan = Plan::new(&mixed, RSS, 2).expect("it runs");
    assert!(!plan.shared.is_empty());
    assert!(
        matches!(plan.with_cores_to_park(&mixed), Err(NoParking::Shared { functions }) if functions.len() == 1)
    );
    let plan = Plan::new(&tracker, RSS, 2).expect("it runs");
    assert_eq!(plan.check_cores(&tracker, 1), Err(NoParking::Began));
}
