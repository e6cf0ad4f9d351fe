//! Packets sprayed over cores that share all states: each function keeps what it promises then, and what it
//! does not promise is not compared.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use engine::report::RunReport;
use engine::strategies::{SHARED, SINGLE};
use engine::{Chain, Plan, Progress, Seen, Verified, replay_capture, verify};
use io::capture::{CaptureReader, CaptureWriter};
use nf::{DstAddr, WhenShared};
use paceline_conformance::faulty::{
    COUNTS_TWICE, Faulty, LOSES_A_COUNT, REFUSES_ALL, REFUSES_HALF, TIME_RUNS_BACK, WELL,
};
use paceline_conformance::pcap::first_of;
use paceline_conformance::{chain, example, root};
use sweep::{Matrix, Tables, Way, verify_each};
use traffic::Model;
use wire::LinkType;

const CORES: [usize; 3] = [2, 4, 8];

fn edge() -> PathBuf {
    root().join("captures/edge.pcap")
}

fn verify_shared(chain: &Chain, capture: &Path, cores: usize) -> Verified {
    let plan = Plan::new(chain, SHARED, cores).expect("any chain can be shared");
    verify(chain, &plan, &|| CaptureReader::open(capture), &Progress::default()).expect("runs")
}

/// What becomes of one function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    /// Each answer.
    Answers,
    /// What it promises.
    Promise(WhenShared),
    /// Nothing is promised.
    Nothing,
    /// It comes behind edits that are not promised.
    Behind,
}

const TOTALS: Kept = Kept::Promise(WhenShared::Totals);
const BOUND: Kept = Kept::Promise(WhenShared::Bound { over: Some(0) });
const BOUND_OF_PACKETS: Kept = Kept::Promise(WhenShared::Bound { over: None });

fn kept(chain: &Chain, verified: &Verified) -> Vec<Kept> {
    let kept = |name: &String| match verified.shared.iter().find(|check| check.function == *name) {
        None => Kept::Answers,
        Some(check) if check.behind.is_some() => Kept::Behind,
        Some(check) => check.promise.map_or(Kept::Nothing, Kept::Promise),
    };
    chain.functions.iter().map(|spec| kept(&spec.name)).collect()
}

fn assert_kept(chain: &Chain, capture: &Path, expected: &[Kept]) {
    let matrix =
        Matrix { tables: vec![Tables::AsWritten], ways: vec![Way::plain(SHARED)], cores: CORES.to_vec() };
    let captures = [(capture.display().to_string(), first_of(capture, usize::MAX))];
    verify_each(chain, &captures, &matrix.settings(1), &mut |compared| {
        let verified = &compared.verified;
        assert!(verified.packets > 1_000);
        assert!(verified.filled.is_empty(), "{compared}: {:?} filled up", verified.filled);
        assert!(verified.is_same(), "{compared}: {verified:#?}");
        assert_eq!(kept(chain, verified), expected, "{compared}");
        let compares = expected.iter().any(|kept| matches!(kept, Kept::Answers | Kept::Promise(_)));
        assert_eq!(verified.has_compared(), compares);
        assert_eq!(verified.holds(), compares, "what compares nothing does not hold");
    });
}

macro_rules! alone {
    ($($test:ident: $name:literal, $options:literal, $kept:expr;)*) => {$(
        #[test]
        fn $test() {
            let toml = format!("[[function]]\nuse = \"{}\"\nflows = 4096\n{}", $name, $options);
            assert_kept(&chain(&toml, &stock::registry()), &edge(), &[$kept]);
        }
    )*};
}

// Options low enough that every verdict occurs, and records end and begin all the time.
alone! {
    access_list: "access-list", "rules = [\"deny tcp from any to any port 22,443\", \"allow tcp from any to any\"]", Kept::Nothing;
    conntrack: "conntrack", "", Kept::Nothing;
    ddos: "ddos", "threshold_packets = 100\nwindow_ms = 1000\nblock_ms = 2000", Kept::Nothing;
    destination_policer: "destination-policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000", BOUND;
    firewall: "firewall", "default = \"accept\"\nrules = [\"drop tcp from any to any port 22,443 state new\", \"accept any from any to any state established,related\", \"drop any from any to any state invalid\"]", Kept::Nothing;
    flow_statistics: "flow-statistics", "idle_ms = 50\nactive_ms = 300", TOTALS;
    heavy_hitters: "heavy-hitters", "threshold_bytes = 10000\nidle_ms = 1\nwindow_ms = 50\nover_threshold = \"drop\"", TOTALS;
    load_balancer: "load-balancer", "policy = \"random\"\nservices = [
        { vip = \"198.51.100.10\", port = 80, backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }] }]", Kept::Nothing;
    load_balancer_in_turns: "load-balancer", "policy = \"round-robin\"\nservices = [
        { vip = \"198.51.100.10\", port = 80, backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }] }]", Kept::Nothing;
    nat: "nat", "inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]\nexternal = [\"203.0.113.1\"]\nports = [4096, 5119]", Kept::Nothing;
    pattern_scanner: "pattern-scanner", "patterns = [\"a\", \"|00 00|\"]", Kept::Answers;
    policer: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000", BOUND;
    policer_marking: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000\naction = \"mark\"", BOUND;
    port_knock: "port-knock", "", Kept::Nothing;
    port_scan: "port-scan", "threshold_ports = 5\nblock_ms = 1000\naction = \"drop\"", Kept::Nothing;
    rate_limiter: "rate-limiter", "rate_packets_per_s = 20\nburst_packets = 10", BOUND_OF_PACKETS;
    source_statistics: "source-statistics", "idle_ms = 50\nactive_ms = 300", TOTALS;
    synthetic: "synthetic", "bytes = 65536\nidle_ms = 500", Kept::Nothing;
}

#[test]
fn every_stock_function_is_above() {
    let source = include_str!("shared.rs");
    for info in stock::registry().functions() {
        assert!(
            source.contains(&format!(": \"{}\", \"", info.about.name)),
            "{} is not tested",
            info.about.name
        );
    }
}

#[test]
fn example_chains() {
    let nothing = Kept::Nothing;
    let cases: [(&str, &[Kept]); 6] = [
        ("edge.toml", &[nothing, BOUND, TOTALS]),
        ("perimeter.toml", &[nothing, nothing, nothing, BOUND, TOTALS]),
        ("mixed-keys.toml", &[TOTALS, BOUND, nothing]),
        ("stats-limiter.toml", &[TOTALS, BOUND_OF_PACKETS]),
        // Packets from outside meet the NAT first.
        ("nat-ids.toml", &[Kept::Behind, nothing]),
        ("scan.toml", &[nothing, TOTALS]),
    ];
    for (name, expected) in cases {
        assert_kept(&example(name), &edge(), expected);
    }
}

/// What comes behind edits that nobody can tell is not compared, whatever it is; packets from outside meet the
/// functions in reverse, so that beside a NAT all come behind it.
#[test]
fn behind_edits_that_are_not_promised() {
    let toml = "
[[function]]
use = \"pattern-scanner\"
patterns = [\"|00 00 00|\"]
[[function]]
use = \"nat\"
inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]
external = [\"203.0.113.1\"]
[[function]]
use = \"flow-statistics\"
[[function]]
use = \"pattern-scanner\"
patterns = [{ name = \"a\", content = \"a\", ports = [80, 1024] }]
action = \"drop\"
";
    let expected = [Kept::Behind, Kept::Nothing, Kept::Behind, Kept::Behind];
    assert_kept(&chain(toml, &stock::registry()), &edge(), &expected);
}

/// Packets of one flow come to all cores at once; records end and begin.
#[test]
fn a_hot_flow() {
    let path = env::temp_dir().join(format!("paceline-hot-flow-{}.pcap", process::id()));
    let mut writer = CaptureWriter::create(&path, LinkType::Ethernet).expect("a file");
    let model = Model::parse("zipf:flows=50,a=2,packets=60000,gap-ns=10000,seed=3").expect("a model");
    model.generate(|time_ns, data| writer.write(time_ns, data.len() as u32, data).expect("room"));
    writer.finish().expect("room");
    let toml = "
[[function]]
use = \"flow-statistics\"
idle_ms = 1
active_ms = 20
[[function]]
use = \"rate-limiter\"
rate_packets_per_s = 1000
burst_packets = 20
[[function]]
use = \"policer\"
rate_bytes_per_s = 20000
burst_bytes = 500
[[function]]
use = \"heavy-hitters\"
window_ms = 1
idle_ms = 2
";
    assert_kept(&chain(toml, &stock::registry()), &path, &[TOTALS, BOUND_OF_PACKETS, BOUND, TOTALS]);
    fs::remove_file(&path).expect("written above");
}

fn verify_faulty<const FAULT: u8>() -> Verified {
    let mut registry = stock::registry();
    registry.add::<Faulty<DstAddr, FAULT>>();
    let toml = "[[function]]\nuse = \"faulty-shared\"\n[[function]]\nuse = \"flow-statistics\"";
    verify_shared(&chain(toml, &registry), &edge(), 3)
}

#[test]
fn without_a_fault_it_holds() {
    let verified = verify_faulty::<WELL>();
    assert!(verified.holds(), "{verified:#?}");
}

fn assert_broken(verified: &Verified, why: &str) {
    assert!(!verified.holds(), "{verified:#?}");
    let failure = |function: &str| {
        let check = verified.shared.iter().find(|check| check.function == function).expect("shared");
        check.failure.clone()
    };
    assert!(failure("faulty-shared").is_some_and(|failure| failure.contains(why)), "{verified:#?}");
    assert_eq!(failure("flow-statistics"), None);
}

/// As where a core steps a flow without its lock, and another's step is lost.
#[test]
fn a_lost_count_is_found() {
    assert_broken(&verify_faulty::<LOSES_A_COUNT>(), "add up");
}

#[test]
fn a_double_step_is_found() {
    assert_broken(&verify_faulty::<COUNTS_TWICE>(), "add up");
}

#[test]
fn a_policer_whose_time_runs_back_is_found() {
    assert_broken(&verify_faulty::<TIME_RUNS_BACK>(), "at most");
}

#[test]
fn a_policer_that_passes_nothing_or_half_is_found() {
    assert_broken(&verify_faulty::<REFUSES_ALL>(), "did not pass that had to");
    assert_broken(&verify_faulty::<REFUSES_HALF>(), "did not pass that had to");
}

/// One table, one count: the report adds the cores up to what one core has.
#[test]
fn reports_are_of_one_table() {
    let chain = example("stats-limiter.toml");
    let report = |strategy, cores| {
        let plan = Plan::new(&chain, strategy, cores).expect("a plan");
        let reader = CaptureReader::open(edge()).expect("the capture");
        let mut see = |_: &Seen<'_>| Ok::<(), ()>(());
        let outcome = replay_capture(&chain, &plan, reader, &Progress::default(), &mut see).expect("runs");
        RunReport::new(&chain, &plan, &outcome)
    };
    let (single, shared) = (report(SINGLE, 1), report(SHARED, 4));
    assert_eq!(shared.functions[0].flows.live, single.functions[0].flows.live);
    assert_eq!(shared.functions[0].flows.created, single.functions[0].flows.created);
    assert_eq!(shared.functions[0].packets, single.functions[0].packets);
    let largest = shared.cores.iter().map(|core| core.packets).max().expect("cores");
    let least = shared.cores.iter().map(|core| core.packets).min().expect("cores");
    assert!(largest - least <= 1, "sprayed evenly");
    let promises: Vec<_> = shared.shared_functions.iter().map(|shared| &*shared.promise).collect();
    assert_eq!(promises, ["totals", "bound"]);
    assert!(shared.hash_fields.is_empty());
}

/// One core has nobody to share with: it runs, and answers, as `single`.
#[test]
fn one_core_shares_with_nobody() {
    for name in ["edge.toml", "nat.toml", "mixed-keys.toml"] {
        let chain = example(name);
        let verified = verify_shared(&chain, &edge(), 1);
        assert!(verified.holds() && verified.shared.is_empty(), "{name}: {verified:#?}");
        assert_eq!(verified.digests.len(), chain.functions.len());
    }
}

/// All cores have one table, whatever their number.
#[test]
fn memory_does_not_grow_with_the_cores() {
    let chain = chain("[[function]]\nuse = \"conntrack\"\nflows = 1000000", &stock::registry());
    let (one, shared) = (chain.table_bytes(1, &[]), chain.striped_bytes());
    assert!(shared >= one && shared < one + one / 4, "{one} {shared}");
}
