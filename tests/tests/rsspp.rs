//! Flows that move between cores: whatever moves, however often, `rsspp` answers as `single` does, and packets of
//! a flow leave in the order in which they came.
//!
//! Longer captures, more cores and moves at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test rsspp -- --ignored`.

use std::fs;

use engine::{Chain, Plan, PlanError, Progress, Registry, Verified, verify};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::{captures, chain, example, root};
use strategy::{Every, Rebalancing, Strategy};
use traffic::Model;

/// The chain on so many cores, with flows that move so.
fn moving(chain: &Chain, cores: usize, every: Every, update_latency_ns: u64) -> Plan {
    let plan = Plan::new(chain, Strategy::RssPlusPlus, cores).expect("shardable");
    Plan { rebalancing: Some(Rebalancing { every, update_latency_ns }), ..plan }
}

fn verify_plan(chain: &Chain, plan: &Plan, capture: &Pcap) -> Verified {
    verify(chain, plan, &|| Ok(capture.open()), &Progress::default()).expect("runs")
}

/// Names of functions with large tables take smaller ones, so that many cores find memory.
fn small(mut chain: Chain) -> Chain {
    chain.functions.iter_mut().for_each(|spec| spec.flows = spec.flows.min(8_192));
    chain
}

/// Few flows that send most, and many that send little, some of them IPv6; the time-outs of statistics pass in
/// between. And whole connections, both directions.
fn generated(packets: usize) -> [(String, Pcap); 2] {
    ["zipf:flows=700,a=1.1,ipv6-share=0.1,seed=11", "datacenter:seed=5"].map(|model| {
        let text = format!("{model},packets={packets},gap-ns=1000000");
        let mut pcap = Pcap::new();
        Model::parse(&text).expect("a model").generate(|time_ns, data| {
            if pcap.packets() < packets {
                pcap.push(1_000_000_000 + time_ns, data.len() as u32, data);
            }
        });
        (text, pcap)
    })
}

fn inputs(most: usize) -> Vec<(String, Pcap)> {
    let first = |path: std::path::PathBuf| (path.display().to_string(), Pcap::first_of(&path, most));
    let mut inputs: Vec<_> = captures().into_iter().map(first).collect();
    inputs.extend(generated(most));
    inputs
}

/// That nothing shows, in whatever is compared, and that something moved: a quarter of the entries each time, to
/// any of the cores.
fn assert_holds(verified: &Verified, at: &str, moves_at_least: u64) {
    assert!(verified.packets > 1_000, "{at}");
    assert!(verified.filled.is_empty(), "{at}: {:?} filled up", verified.filled);
    assert_eq!(verified.out_of_order, Some(0), "{at}");
    assert!(verified.holds(), "{at}: {verified:#?}");
    let moved = verified.moves.entries_in;
    assert!(moved >= moves_at_least, "{at}: {moved} entries moved, {moves_at_least} expected");
}

fn assert_moves_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    let chain = &small(chain.clone());
    for (name, capture) in inputs {
        for (cores, every) in ways {
            let verified = verify_plan(chain, &moving(chain, *cores, Every::Packets(*every), 0), capture);
            let at = format!("{} on {cores} cores, every {every} of {name}", chain.name);
            let times = (capture.packets() as u64 - 1) / every;
            let expected = times * 32 * (*cores as u64 - 1) / *cores as u64;
            assert_holds(&verified, &at, expected * 3 / 4);
        }
    }
}

/// Cores, with the packets from one move to the next.
const WAYS: [(usize, u64); 9] =
    [(2, 2_000), (2, 100), (2, 37), (4, 2_000), (4, 100), (4, 37), (8, 2_000), (8, 100), (8, 37)];

/// Packets of each capture.
const PACKETS: usize = 5_500;

macro_rules! alone {
    ($($test:ident: $name:literal, $options:literal;)*) => {
        $(
            #[test]
            fn $test() {
                assert_moves_leave_no_trace(&alone($name, $options), &inputs(PACKETS), &WAYS);
            }
        )*

        const ALONE: &[(&str, &str)] = &[$(($name, $options)),*];
    };
}

fn alone(name: &str, options: &str) -> Chain {
    chain(&format!("[[function]]\nuse = \"{name}\"\n{options}"), &Registry::stock())
}

// Options low enough that every verdict occurs on the captures, and flows come and go between moves.
alone! {
    access_list: "access-list", "rules = [\"deny tcp from any to any port 22,443\", \"allow tcp from any to any\"]";
    conntrack: "conntrack", "";
    ddos: "ddos", "threshold_packets = 100\nwindow_ms = 1000\nblock_ms = 2000";
    destination_policer: "destination-policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000";
    flow_statistics: "flow-statistics", "idle_ms = 500\nactive_ms = 1000";
    heavy_hitters: "heavy-hitters", "threshold_bytes = 10000";
    load_balancer: "load-balancer", "rewrite_answers = true\nservices = [
        { vip = \"198.51.100.10\", port = 80, backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\", weight = 2 }] },
        { vip = \"192.0.2.99\", port = 5201, backends = [{ address = \"198.51.100.10\" }] }]";
    load_balancer_at_random: "load-balancer", "policy = \"random\"\nservices = [
        { vip = \"198.51.100.10\", port = 80, backends = [
            { mac = \"02:00:00:00:00:21\" }, { mac = \"02:00:00:00:00:22\" }] }]";
    load_balancer_in_turns: "load-balancer", "policy = \"round-robin\"\nservices = [
        { vip = \"0.0.0.0/0\", port = \"any\", protocol = \"udp\", backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }] }]";
    nat: "nat", "inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]\nexternal = [\"203.0.113.1\", \"203.0.113.2\"]";
    pattern_scanner: "pattern-scanner", "patterns = [\"a\", \"|00 00|\"]";
    policer: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000";
    policer_marking: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000\naction = \"mark\"";
    port_knock: "port-knock", "";
    port_scan: "port-scan", "threshold_ports = 5\nblock_ms = 1000\naction = \"drop\"";
    rate_limiter: "rate-limiter", "rate_packets_per_s = 20\nburst_packets = 10";
    source_statistics: "source-statistics", "idle_ms = 500\nactive_ms = 1000";
    synthetic: "synthetic", "bytes = 65536\nidle_ms = 500";
}

#[test]
fn every_stock_function_is_above() {
    for info in Registry::stock().functions() {
        assert!(ALONE.iter().any(|(name, _)| *name == info.name), "{} is not tested", info.name);
    }
}

/// All examples, by name; those that sharding cannot run are refused under both strategies.
fn examples() -> Vec<Chain> {
    let files = fs::read_dir(root().join("examples")).expect("the examples");
    let mut names: Vec<_> = files.map(|file| file.expect("a file").file_name()).collect();
    names.sort();
    let examples = names.iter().map(|name| example(name.to_str().expect("text")));
    let (can, cannot): (Vec<_>, Vec<_>) =
        examples.partition(|chain| Plan::new(&small(chain.clone()), Strategy::Rss, 4).is_ok());
    assert!(can.len() >= 12 && cannot.len() == 1, "{} run, {} do not", can.len(), cannot.len());
    for chain in cannot {
        let error = Plan::new(&chain, Strategy::RssPlusPlus, 4).expect_err("no hash");
        assert!(matches!(error, PlanError::Conflict { strategy: "rsspp", .. }), "{error}");
    }
    can
}

#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in examples() {
        assert_moves_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// Longer captures, as many cores as the processor has or not, and moves at each packet.
#[test]
#[ignore = "takes a minute and more"]
fn longer_captures_and_moves_at_each_packet() {
    let inputs = inputs(30_000);
    let ways = [(2, 1), (3, 501), (5, 7), (8, 1), (16, 100), (16, 2_000)];
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    for chain in alone.chain(examples()) {
        assert_moves_leave_no_trace(&chain, &inputs, &ways);
    }
}
