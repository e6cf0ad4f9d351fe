//! The stock functions with options that the tests give them, the examples, and traffic for both: what each strategy
//! is held to.

use std::fs;
use std::sync::Arc;

use engine::Chain;
use sweep::NamedChain;
use traffic::{Kind, Model};

use crate::pcap::{Pcap, first_of};
use crate::{captures, chain, example_with_few_ports, root};

/// Calls the macro named with all stock functions, `test: "name", "options";` each. The options are low enough that
/// every verdict occurs on the captures, and flows come and go.
#[macro_export]
macro_rules! stock_functions {
    ($callback:ident) => {
        $callback! {
            access_list: "access-list", "rules = [\"deny tcp from any to any port 22,443\", \"allow tcp from any to any\"]";
            conntrack: "conntrack", "";
            ddos: "ddos", "threshold_packets = 100\nwindow_ms = 1000\nblock_ms = 2000";
            destination_policer: "destination-policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000";
            firewall: "firewall", "default = \"accept\"\nrules = [\"drop tcp from any to any port 22,443 state new\", \"accept any from any to any state established,related\", \"drop any from any to any state invalid\"]";
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
            nat: "nat", "inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]\nexternal = [\"203.0.113.1\", \"203.0.113.2\"]\nports = [1024, 9215]";
            pattern_scanner: "pattern-scanner", "patterns = [\"a\", \"|00 00|\"]";
            policer: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000";
            policer_marking: "policer", "rate_bytes_per_s = 20000\nburst_bytes = 5000\naction = \"mark\"";
            port_knock: "port-knock", "";
            port_scan: "port-scan", "threshold_ports = 5\nblock_ms = 1000\naction = \"drop\"";
            rate_limiter: "rate-limiter", "rate_packets_per_s = 20\nburst_packets = 10";
            source_statistics: "source-statistics", "idle_ms = 500\nactive_ms = 1000";
            synthetic: "synthetic", "bytes = 65536\nidle_ms = 500";
        }
    };
}

macro_rules! list {
    ($($test:ident: $name:literal, $options:literal;)*) => {
        /// All stock functions, by name with options, some more than once.
        pub const ALONE: &[(&str, &str)] = &[$(($name, $options)),*];
    };
}

stock_functions!(list);

/// A function in a chain of its own.
pub fn alone(name: &str, options: &str) -> Chain {
    chain(&format!("[[function]]\nuse = \"{name}\"\n{options}"), &stock::registry())
}

/// All examples of chains, in the order of their names; NATs have few ports.
pub fn examples() -> Vec<Chain> {
    let files = fs::read_dir(root().join("examples")).expect("the examples");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("text"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    names.sort();
    names.iter().map(|name| example_with_few_ports(name)).collect()
}

/// Three keys, and history that can hold what the functions read.
pub fn three_typed() -> Chain {
    let uses = ["ddos", "conntrack", "flow-statistics"]
        .map(|name| format!("[[function]]\nuse = \"{name}\"\nflows = 2048\n"));
    chain(&uses.concat(), &stock::registry())
}

/// Functions with large tables take smaller ones, so that many cores find memory.
pub fn small(mut chain: Chain) -> Chain {
    chain.functions.iter_mut().for_each(|spec| spec.flows = spec.flows.min(2_048));
    chain
}

/// All examples for a sweep, with small tables.
pub fn named_examples() -> Vec<NamedChain> {
    let named =
        |chain: Chain| NamedChain { name: chain.name.clone(), hash: 0, chain: Arc::new(small(chain)) };
    examples().into_iter().map(named).collect()
}

/// The first packets of each capture, at most so many.
pub fn beginnings(most: usize) -> Vec<(String, Pcap)> {
    let first = |path: std::path::PathBuf| (path.display().to_string(), first_of(&path, most));
    captures().into_iter().map(first).collect()
}

/// At most so many packets of a model.
pub fn generated(model: &str, most: usize) -> Pcap {
    let mut pcap = Pcap::new();
    push_generated(&mut pcap, model, most, START_NS);
    pcap
}

/// All models of traffic one after the other, so many packets of each.
pub fn every_model(packets_of_each: usize) -> Pcap {
    let mut pcap = Pcap::new();
    let mut now_ns = START_NS;
    for name in Kind::NAMES {
        let model = format!("{name}:packets={packets_of_each},gap-ns=1000000,seed=7");
        now_ns = push_generated(&mut pcap, &model, packets_of_each, now_ns);
    }
    pcap
}

const START_NS: u64 = 1_000_000_000;

/// Says when the last packet came.
fn push_generated(pcap: &mut Pcap, model: &str, most: usize, start_ns: u64) -> u64 {
    let (mut left, mut last_ns) = (most, start_ns);
    Model::parse(model).expect("a model").generate(|time_ns, data| {
        if left > 0 {
            left -= 1;
            last_ns = start_ns + time_ns;
            pcap.push(last_ns, data.len() as u32, data);
        }
    });
    last_ns
}
