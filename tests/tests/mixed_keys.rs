//! Chains whose keys no hash keeps on one core: all cores share the coarser functions' states, and each
//! function keeps what it promises then.

use std::path::Path;

use engine::strategies::RSS;
use engine::{Chain, Plan, Progress, Verified, verify};
use io::Fate;
use io::capture::CaptureReader;
use nf::{
    About, Cx, DstAddr, Extras, FiveTuple, FlowKey, Flows, Guarantees, NetworkFunction, OptionError, Pooled,
    Verdict, WhenShared,
};
use paceline_conformance::faulty::{
    COUNTS_TWICE, DRIFTS, DROPS, Faulty, LOSES_A_COUNT, NoOptions, TIME_RUNS_BACK, WELL,
};
use paceline_conformance::{captures, chain, example, root};
use wire::{Fields, Headers};

const CORES: [usize; 4] = [1, 2, 4, 8];

fn verify_rss(chain: &Chain, capture: &Path, cores: usize) -> Verified {
    verify_with_auxiliary_tables(true, chain, capture, cores)
}

fn verify_with_auxiliary_tables(
    has_auxiliary_tables: bool,
    chain: &Chain,
    capture: &Path,
    cores: usize,
) -> Verified {
    let plan = Plan { has_auxiliary_tables, ..Plan::new(chain, RSS, cores).expect("shardable") };
    assert!(!plan.shared.is_empty(), "{}", chain.name);
    verify(chain, &plan, &|| CaptureReader::open(capture), &Progress::default()).expect("runs")
}

fn assert_holds(chain: &Chain, times: usize) {
    for capture in captures() {
        for cores in CORES {
            for _ in 0..times {
                let verified = verify_rss(chain, &capture, cores);
                assert!(verified.packets > 1_000, "{}", capture.display());
                assert!(verified.filled.is_empty(), "{:?} filled up", verified.filled);
                let (name, capture) = (&chain.name, capture.display());
                assert!(verified.holds(), "{name} on {cores} cores over {capture}: {verified:#?}");
            }
        }
    }
}

#[test]
fn the_example() {
    let chain = example("mixed-keys.toml");
    assert_holds(&chain, 3);
    let verified = verify_rss(&chain, &root().join("captures/edge.pcap"), 4);
    let promises: Vec<_> =
        verified.shared.iter().map(|check| (&*check.function, check.promise.expect("a promise"))).collect();
    let over = WhenShared::Bound { over: Some(0) };
    assert_eq!(promises, [("source-statistics", WhenShared::Totals), ("destination-policer", over)]);
    assert_eq!(verified.digests.len(), 1, "the balancer's flows are compared");
}

/// Options low enough that records end and begin and packets are over the rate all the time.
const BUSY: &str = "
[[function]]
use = \"source-statistics\"
idle_ms = 50
active_ms = 300

[[function]]
use = \"destination-policer\"
rate_bytes_per_s = 20000
burst_bytes = 5000
ACTION

[[function]]
use = \"conntrack\"

[[function]]
use = \"flow-statistics\"
idle_ms = 500
";

/// Every packet searches what all cores share.
#[test]
fn without_auxiliary_tables_what_is_promised_holds() {
    let chain = chain(&BUSY.replace("ACTION", ""), &stock::registry());
    for capture in captures() {
        let verified = verify_with_auxiliary_tables(false, &chain, &capture, 4);
        assert!(verified.holds(), "over {}: {verified:#?}", capture.display());
    }
}

#[test]
fn busy_states() {
    assert_holds(&chain(&BUSY.replace("ACTION", ""), &stock::registry()), 2);
}

#[test]
fn a_policer_that_marks() {
    assert_holds(&chain(&BUSY.replace("ACTION", "action = \"mark\""), &stock::registry()), 2);
}

/// As few are shared as need be, and the hash is the widest that the others allow.
#[test]
fn what_is_shared() {
    let names = |functions: &[&str]| {
        let toml: String = functions.iter().map(|name| format!("[[function]]\nuse = \"{name}\"\n")).collect();
        let chain = chain(&toml, &stock::registry());
        Plan::new(&chain, RSS, 4)
            .map(|plan| (plan.shared_names(&chain).join(" "), plan.hash_fields.expect("hashed").to_string()))
    };
    let five = "source address, destination address, source port, destination port";
    let cases: [(&[&str], &str, &str); 5] = [
        (&["source-statistics", "flow-statistics"], "", "source address"),
        (&["source-statistics", "destination-policer"], "source-statistics destination-policer", five),
        (&["conntrack", "source-statistics"], "source-statistics", five),
        // The detector cannot be shared, and what agrees with it need not be.
        (&["ddos", "source-statistics", "destination-policer"], "destination-policer", "source address"),
        (&["destination-policer", "port-scan"], "destination-policer", "source address"),
    ];
    for (functions, shared, fields) in cases {
        assert_eq!(names(functions), Ok((shared.to_owned(), fields.to_owned())), "{functions:?}");
    }
    let error = names(&["source-statistics", "ddos", "conntrack"]).expect_err("no hash").to_string();
    assert!(error.contains("`ddos`") && error.contains("or `conntrack` in a chain of its own"), "{error}");
}

fn verify_faulty<const FAULT: u8>() -> Verified {
    let mut registry = stock::registry();
    registry.add::<Faulty<DstAddr, FAULT>>();
    registry.add::<Faulty<FiveTuple, FAULT>>();
    let chain = chain(
        "[[function]]\nuse = \"faulty-shared\"\n[[function]]\nuse = \"faulty-flow\"\n[[function]]\nuse = \"source-statistics\"",
        &registry,
    );
    verify_rss(&chain, &root().join("captures/edge.pcap"), 3)
}

#[test]
fn without_a_fault_it_holds() {
    let verified = verify_faulty::<WELL>();
    assert!(verified.holds(), "{verified:#?}");
}

/// Where a fault must be seen: in what `faulty-shared` promises, and nowhere else.
fn assert_broken(verified: &Verified, why: &str) {
    assert!(!verified.holds(), "{verified:#?}");
    assert_eq!(verified.different, 0, "no other function answers otherwise");
    assert!(verified.digests.iter().all(|(_, single, other)| single == other));
    let broken: Vec<_> = verified.shared.iter().filter(|check| check.failure.is_some()).collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(broken[0].function, "faulty-shared");
    assert!(broken[0].failure.as_ref().is_some_and(|failure| failure.contains(why)), "{broken:?}");
}

#[test]
fn a_policer_whose_time_runs_back_is_found() {
    assert_broken(&verify_faulty::<TIME_RUNS_BACK>(), "at most");
}

#[test]
fn a_lost_count_is_found() {
    assert_broken(&verify_faulty::<LOSES_A_COUNT>(), "add up");
}

#[test]
fn a_double_count_is_found() {
    assert_broken(&verify_faulty::<COUNTS_TWICE>(), "add up");
}

#[test]
fn a_function_behind_that_drifts_is_found() {
    let verified = verify_faulty::<DRIFTS>();
    assert_eq!(verified.different, 0);
    assert!(!verified.holds() && verified.digests.iter().any(|(_, single, other)| single != other));
}

#[test]
fn a_wrong_answer_behind_is_found_and_named() {
    let verified = verify_faulty::<DROPS>();
    assert_eq!(verified.different, 1, "{verified:#?}");
    let first = verified.first.as_ref().expect("one differs");
    assert_eq!(first.single.fate, Fate::Forward);
    assert!(!verified.holds());
}

/// Numbers each flow, and writes the number as its source port.
struct Numbers<const DIVIDED: bool>;

impl<const DIVIDED: bool> NetworkFunction for Numbers<DIVIDED> {
    const ABOUT: About = About { name: "numbers", ..About::NONE };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::MARKS);
    const EDITS: Fields = Fields::SRC_PORT;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: Self::pool,
            divide: Self::pools,
            allocates: |_| Fields::SRC_PORT,
            without_allocation: Some(Self::without_allocation),
            ..Pooled::NONE
        },
        guarantees: Guarantees { invariant: Self::invariant, ..Guarantees::NONE },
        ..Extras::NONE
    };
    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = u64;
    /// The last number given.
    type Pool = u64;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Numbers)
    }

    fn project(headers: &Headers) -> Option<FiveTuple> {
        headers.is_ip().then(|| FiveTuple::of(headers))
    }

    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, _: &FiveTuple, cx: &mut Cx<'_, u64>) -> Verdict {
        let number = *flow.get_or_insert_with(|| {
            *cx.pool += 1;
            *cx.pool
        });
        cx.edits.set_src_port(number as u16);
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

impl<const DIVIDED: bool> Numbers<DIVIDED> {
    fn pool(&self) -> u64 {
        0
    }

    fn pools(&self, cores: usize, _: &dyn Fn(&Headers) -> usize) -> Vec<u64> {
        (0..cores as u64).map(|core| if DIVIDED { core * 8_000 } else { 0 }).collect()
    }

    fn without_allocation(&self, _: &u64) -> u64 {
        0
    }

    fn invariant(&self, flows: Flows<'_, '_, Self>) -> Result<(), String> {
        let mut numbers: Vec<u64> = flows.map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("number {} is given twice", pair[0])),
            None => Ok(()),
        }
    }
}

fn verify_numbers<const DIVIDED: bool>() -> Verified {
    let mut registry = stock::registry();
    registry.add::<Numbers<DIVIDED>>();
    let chain = chain("[[function]]\nuse = \"numbers\"\nflows = 4096", &registry);
    let plan = Plan::new(&chain, RSS, 3).expect("shardable");
    let capture = root().join("captures/edge.pcap");
    verify(&chain, &plan, &|| CaptureReader::open(&capture), &Progress::default()).expect("runs")
}

#[test]
fn what_each_core_allocates_may_differ_but_not_meet() {
    let verified = verify_numbers::<true>();
    assert!(verified.holds(), "{verified:#?}");
    assert_eq!(verified.allocated, [("numbers".to_owned(), Fields::SRC_PORT)]);

    let verified = verify_numbers::<false>();
    assert_eq!(verified.different, 0);
    assert!(!verified.holds());
    assert!(matches!(&verified.broken[..], [broken] if broken.strategy == "rss"), "{verified:#?}");
}

#[test]
fn the_nat_equals_itself_up_to_its_ports() {
    let chain = example("nat.toml");
    let capture = root().join("captures/edge.pcap");
    for cores in CORES {
        let plan = Plan::new(&chain, RSS, cores).expect("shardable");
        let verified =
            verify(&chain, &plan, &|| CaptureReader::open(&capture), &Progress::default()).expect("runs");
        assert!(verified.holds(), "on {cores} cores: {verified:#?}");
        assert!(verified.allocated.is_empty() && verified.judged.len() == 1, "{verified:#?}");
    }
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Numbers<true>>();
    paceline_conformance::check_reads::<paceline_conformance::faulty::Faulty<nf::DstAddr, 0>>();
    paceline_conformance::check_reads::<paceline_conformance::faulty::Faulty<nf::FiveTuple, 0>>();
}
