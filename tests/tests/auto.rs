//! `auto` answers as `single` does, whatever strategy runs the chain, on however many cores, and however often that
//! changes.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all auto:: -- --ignored`.

use std::collections::BTreeSet;
use std::time::Instant;

use engine::strategies::{
    ALL, AUTO, Candidates, Changes, Changing, Decided, Layout, Phase, Strategy, StrategyInfo,
};
use engine::{Chain, ChainCore, Plan, PlanError, Progress, verify};
use paceline_conformance::chain;
use paceline_conformance::migration::{
    LONG_WAYS, PACKETS, WAYS, assert_same, inputs, verify_forced, verify_tiny_tables,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, examples, generated, small};
use paceline_conformance::{alone_in_all_ways, stock_functions};
use strategy::{Assign, Every, Rebalancing};
use sweep::{Compared, Setting, Tables, Way, verify_each};
use wire::Stamp;

/// That nothing shows, in whatever is compared, and that strategies changed: once more than packets ask for.
fn assert_holds(compared: &Compared<'_>) {
    let times = assert_same(compared);
    let changes = &compared.verified.changes.phases;
    assert_eq!(changes.len() as u64, times + 1, "{compared}");
    assert_eq!(changes.iter().map(|change| change.packets).sum::<u64>(), compared.verified.packets);
    // Of two that can run the chain the other one comes next.
    let which: BTreeSet<_> = changes.iter().map(|change| (change.strategy, change.cores)).collect();
    assert!(times < 20 || which.len() > 1 || which.contains(&("single", 1)), "{compared}: {which:?}");
}

/// Packets that are enough for many changes, where these are often: each makes the team of a strategy.
const FEW_PACKETS: usize = 1_500;

fn assert_changes_leave_no_trace(chain: &Chain, long: &[(String, Pcap)], ways: &[(usize, u64)]) {
    let is_often = |(_, every): &(usize, u64)| (10 * every) < FEW_PACKETS as u64;
    let (often, seldom): (Vec<_>, Vec<_>) = ways.iter().copied().partition(is_often);
    assert_all_take_part(chain, &[(&inputs(FEW_PACKETS), &often), (long, &seldom)]);
}

/// Inputs, and in which ways.
type InWays<'a> = (&'a [(String, Pcap)], &'a [(usize, u64)]);

/// That nothing shows, and that each strategy that can run the chain ran it at some time.
fn assert_all_take_part(chain: &Chain, runs: &[InWays<'_>]) {
    let mut ran = BTreeSet::new();
    for (inputs, ways) in runs {
        verify_forced(AUTO, chain, inputs, ways, |compared| {
            assert_holds(compared);
            ran.extend(compared.verified.changes.phases.iter().map(|change| change.strategy));
        });
    }
    let can_run = Candidates::new(chain, 2, &ALL).all.into_iter().map(|choice| choice.model.name);
    assert_eq!(ran, can_run.collect(), "what could take part did");
}

stock_functions!(alone_in_all_ways);

/// All of them: what no hash can serve is replicated, or runs on one core.
#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in examples() {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// Tables of 4 to 64 flows.
#[test]
fn tiny_tables_under_both_policies() {
    verify_tiny_tables(AUTO, |chain| chain, |_| (), |_| true);
}

/// Time decides: one flow is more than a core can do, so that replicas promise more, and the prediction is told beside what
/// came of it.
#[test]
fn as_what_is_measured_asks_for() {
    let model = "single-flow:one-way=true,packets=60000,gap-ns=20000";
    let inputs = [(model.to_owned(), generated(model, 60_000))];
    let setting = Setting { tables: Tables::AsWritten, way: Way::plain(AUTO), cores: 4, seed: 1 };
    verify_each(&small(alone("flow-statistics", "idle_ms = 500")), &inputs, &[setting], &mut |compared| {
        let verified = &compared.verified;
        assert!(verified.holds(), "{compared}: {verified:#?}");
        let [first, second, ..] = &verified.changes.phases[..] else { panic!("{:?}", verified.changes) };
        assert_eq!((first.strategy, first.cores, first.why), ("rss", 4, Decided::First));
        let Decided::Better(decision) = second.why else { panic!("{second:?}") };
        assert_eq!((second.strategy, second.cores), ("scr", 4), "{decision:?}");
        assert!(decision.to_mpps > 1.05 * decision.from_mpps && !decision.has_measured_replay);
        assert!(first.measured_mpps.is_some() && second.measured_mpps.is_some(), "{:?}", verified.changes);
    });
}

/// What cannot take part says why, and the others go on.
#[test]
fn what_cannot_take_part_says_why() {
    let left_out = |chain: &Chain| {
        let pcap = generated("uniform:flows=10,packets=100", 100);
        let plan = Plan::new(chain, AUTO, 3).expect("any chain runs");
        let verified = verify(chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs");
        assert!(verified.holds(), "{verified:#?}");
        verified.changes.left_out
    };
    let options = ALONE.iter().find(|(name, _)| *name == "nat").expect("a stock function").1;
    let of_nat = left_out(&small(alone("nat", options)));
    let [("dyssect", parts), ("scr", why), ("scr-turns", as_well), ("hybrid", other)] = &of_nat[..] else {
        panic!("{of_nat:?}");
    };
    assert!(why.contains("a replica needs all of it") && as_well == why, "{of_nat:?}");
    assert!(parts.contains("parts of shards") && other.contains("a pool"), "{of_nat:?}");
    let mixed = "[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"ddos\"\n";
    let of_mixed = left_out(&small(chain(mixed, &stock::registry())));
    let names: Vec<_> = of_mixed.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["rss", "rsspp", "dyssect", "hybrid"], "{of_mixed:?}");
    let with_objective = format!("[slo]\np99_us = 500\n{mixed}").replace("ddos", "policer");
    let of_objective = left_out(&small(chain(&with_objective, &stock::registry())));
    assert!(matches!(&of_objective[..], [("dyssect", why)] if why.contains("[slo]")), "{of_objective:?}");
    assert_eq!(left_out(&small(alone("conntrack", ""))), []);
}

/// What a strategy says before there is a chain is what it does with one: benchmarks go by the first, runs by the second.
#[test]
fn who_has_others_run_says_so() {
    let chain = alone("policer", "rate_bytes_per_s = 1000");
    for strategy in ALL {
        let plan = Plan::new(&chain, strategy, 2.min(strategy.info().max_cores)).expect("it runs");
        assert_eq!(
            strategy.info().has_others_run,
            {
                let cores = plan.cores_of(&chain).expect("memory");
                strategy.changing(&chain, &plan, &cores).is_some()
            },
            "{strategy:?}"
        );
    }
}

/// Between two phases, what goes wrong with the cores of the one that begins.
type Fault = fn(&mut [ChainCore]);

/// `auto` with a fault.
struct Faulty {
    fault: Fault,
}

impl Strategy for Faulty {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("faulty", "auto with a fault");
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        AUTO.layout(chain, cores)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        AUTO.assign(chain, plan)
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        AUTO.owners(plan)
    }

    fn candidates(&self) -> Vec<&'static dyn Strategy> {
        AUTO.candidates()
    }

    fn changing(&self, chain: &Chain, plan: &Plan, cores: &[ChainCore]) -> Option<Box<dyn Changing>> {
        let (inner, fault) = (AUTO.changing(chain, plan, cores)?, self.fault);
        Some(Box::new(FaultyChanging { inner, fault }))
    }
}

struct FaultyChanging {
    inner: Box<dyn Changing>,
    fault: Fault,
}

impl Changing for FaultyChanging {
    fn begin(&mut self, cores: &mut [ChainCore], at: (u64, Stamp), since: Instant) -> Phase {
        let phase = self.inner.begin(cores, at, since);
        if at.0 > 0 {
            (self.fault)(cores);
        }
        phase
    }

    fn end(&mut self, cores: &mut [ChainCore], packets: u64, last: Stamp) -> Changes {
        self.inner.end(cores, packets, last)
    }
}

/// Whether `verify` finds that a strategy with a fault is not `single`. A packet that comes to a core without its shard has the
/// core panic, which ends the run.
fn is_found(fault: &'static Faulty) -> bool {
    let chain = small(alone("flow-statistics", "idle_ms = 500"));
    let pcap = generated("uniform:flows=40,packets=3000,gap-ns=1000000", 3_000);
    let plan = Plan::new(&chain, fault, 3).expect("any chain runs");
    let rebalancing = Some(Rebalancing { every: Every::Packets(200), update_latency_ns: 0 });
    let plan = Plan { rebalancing, ..plan };
    let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default());
    !verified.is_ok_and(|verified| verified.holds())
}

/// Planted: flows that are not where their packets come to are found, on one core or on replicas. Without a fault
/// nothing is.
#[test]
fn flows_left_behind_are_found() {
    static NONE: Faulty = Faulty { fault: |_| () };
    static LEFT_BEHIND: Faulty = Faulty { fault: |cores| cores.swap(0, 1) };
    static LAST_LEFT_BEHIND: Faulty = Faulty { fault: |cores| cores.swap(1, 2) };
    assert!(!is_found(&NONE));
    assert!(is_found(&LEFT_BEHIND));
    assert!(is_found(&LAST_LEFT_BEHIND));
}

/// Longer captures, as many cores as the processor has or not, and changes at each packet.
#[test]
#[ignore = "takes a minute and more"]
fn longer_captures_and_changes_at_each_packet() {
    let inputs = inputs(12_000);
    for chain in ALONE.iter().map(|(name, options)| alone(name, options)).chain(examples()) {
        assert_all_take_part(&chain, &[(&inputs, &LONG_WAYS)]);
    }
}
