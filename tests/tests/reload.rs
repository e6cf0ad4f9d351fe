//! One chain takes over from another while packets come: nothing is lost by it, and many cores do it as one does.

use std::collections::BTreeMap;

use engine::report::RunReport;
use engine::strategies::{ALL, DYSSECT, RSS, RSSPP, SCR, SCR_TURNS, SINGLE, Strategy, StrategyInfo};
use engine::{
    Agreement, Chain, Plan, Progress, Reload, Reloaded, RunOutcome, replay_reloading, verify_reloading,
};
use io::Fate;
use nf::hash_bytes;
use paceline_conformance::pcap::{Pcap, first_of};
use paceline_conformance::stock::{ALONE, alone, every_model, examples, generated, small};
use paceline_conformance::{chain, example, root};
use strategy::{Assign, Every, Rebalancing};
use table::WhenFull;

/// A plan in which flows migrate often, where they migrate.
fn plan(chain: &Chain, strategy: &'static dyn Strategy, cores: usize) -> Option<Plan> {
    let plan = Plan::new(chain, strategy, cores).ok()?;
    let often = Rebalancing { every: Every::Packets(97), update_latency_ns: 0 };
    Some(Plan { rebalancing: plan.rebalancing.map(|_| often), ..plan })
}

fn reloads(chains: &[(u64, &Chain)], strategy: &'static dyn Strategy, cores: usize) -> Option<Vec<Reload>> {
    let reload = |(after, chain): &(u64, &Chain)| {
        Some(Reload { after: *after, chain: (*chain).clone(), plan: plan(chain, strategy, cores)? })
    };
    chains.iter().map(reload).collect()
}

/// A run's answers, packet by packet, and what it leaves behind. `None`: the chain does not run so.
fn run(
    pcap: &Pcap,
    chains: &[(u64, &Chain)],
    strategy: &'static dyn Strategy,
    cores: usize,
) -> Option<(Vec<(Fate, u64)>, RunOutcome)> {
    let (first, rest) = chains.split_first()?;
    let (plan, reloads) = (plan(first.1, strategy, cores)?, reloads(rest, strategy, cores)?);
    let mut answers = Vec::new();
    let outcome =
        replay_reloading::<()>(first.1, &plan, &reloads, pcap.open(), &Progress::default(), &mut |seen| {
            answers.push((seen.fate, hash_bytes(seen.bytes, 0)));
            Ok(())
        });
    Some((answers, outcome.expect("it runs")))
}

/// Whether many cores do as one; `None`: the chain does not run so, or nobody can compare.
fn holds(
    pcap: &Pcap,
    chains: &[(u64, &Chain)],
    strategy: &'static dyn Strategy,
    cores: usize,
) -> Option<(bool, Vec<Reloaded>, String)> {
    let (first, rest) = chains.split_first()?;
    let (plan, reloads) = (plan(first.1, strategy, cores)?, reloads(rest, strategy, cores)?);
    let open = || Ok(pcap.open());
    let verified =
        verify_reloading(first.1, &plan, &reloads, &open, &Progress::default()).expect("it is compared");
    assert_eq!(verified.reloads.len(), rest.len(), "all came to pass");
    let holds = !matches!(verified.agreement(), Agreement::Different | Agreement::Stopped);
    let text = format!("{verified:#?}");
    Some((holds, verified.reloads, text))
}

fn many() -> impl Iterator<Item = (&'static dyn Strategy, usize)> {
    ALL.into_iter().filter(|strategy| *strategy != SINGLE).flat_map(|strategy| [(strategy, 2), (strategy, 3)])
}

/// The first packets of the recorded capture.
fn edge_capture() -> Pcap {
    first_of(&root().join("captures/edge.pcap"), 3_000)
}

/// What became of each function, all in one line.
fn told(reloaded: &Reloaded) -> String {
    let functions = reloaded.functions.iter().map(|(name, kept)| match kept {
        Ok(_) => format!("{name} kept"),
        Err(why) => format!("{name} anew ({why})"),
    });
    functions.collect::<Vec<_>>().join(", ")
}

fn stock() -> Vec<Chain> {
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    alone.chain(examples()).map(small).collect()
}

#[test]
fn the_same_chain_changes_nothing() {
    let pcap = every_model(400);
    for chain in stock() {
        for (strategy, cores) in [(SINGLE, 1), (RSS, 3), (RSSPP, 3), (SCR, 3), (SCR_TURNS, 3)] {
            let Some((expected, before)) = run(&pcap, &[(0, &chain)], strategy, cores) else { continue };
            let times = [(0, &chain), (1, &chain), (700, &chain), (701, &chain), (1_500, &chain)];
            let (answers, after) = run(&pcap, &times, strategy, cores).expect("as before");
            assert_eq!(after.reloads.len(), 4);
            let name = format!("{} under {}", chain.name, strategy.name());
            let first = answers.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!((answers.len(), first), (expected.len(), None), "{name}");
            for reloaded in &after.reloads {
                assert!(
                    reloaded.functions.iter().all(|(_, kept)| kept.is_ok()),
                    "{name}: {}",
                    told(reloaded)
                );
            }
            let sum = |outcome: &RunOutcome| -> (u64, u64) {
                let cores = || outcome.cores.iter().map(|(counters, _)| counters);
                (cores().map(|core| core.packets).sum(), cores().map(|core| core.bytes).sum())
            };
            assert_eq!(sum(&before), sum(&after), "{name}: counters go on");
        }
    }
}

#[test]
fn nor_in_tables_that_are_full() {
    let pcap = generated("zipf:flows=300,a=1.1,seed=11,packets=2000,gap-ns=3000000", 2_000);
    for (name, options) in ALONE {
        for (flows, when_full) in [(4, WhenFull::Reject), (64, WhenFull::Reject), (16, WhenFull::EvictOldest)]
        {
            let chain = alone(name, options).with_flows(flows, when_full);
            let times = [(0, &chain), (333, &chain), (1_001, &chain)];
            for (strategy, cores) in [(SINGLE, 1), (RSS, 2), (SCR, 2)] {
                let Some((expected, _)) = run(&pcap, &times[..1], strategy, cores) else { continue };
                let (answers, _) = run(&pcap, &times, strategy, cores).expect("as before");
                assert!(answers == expected, "{name}, {flows} flows, {when_full:?}, {}", strategy.name());
            }
        }
    }
}

/// What stands for a function with other options, and whether its flows go on.
const CHANGES: &[(&str, &str, &str, bool)] = &[
    ("access-list", "rules = [\"allow tcp from any to any\"]", "rules = []\ndefault = \"allow\"", true),
    ("conntrack", "", "tcp_timeout_established = 60\nliberal = true", true),
    ("ddos", "threshold_packets = 100\nwindow_ms = 1000", "threshold_packets = 10\nwindow_ms = 10", true),
    ("destination-policer", "rate_bytes_per_s = 20000\nburst_bytes = 50000", "rate_bytes_per_s = 900\nburst_bytes = 2000", true),
    ("firewall", "rules = [\"accept tcp from any to any\"]", "rules = []\ndefault = \"accept\"", true),
    (
        "firewall",
        "rules = [\"accept tcp from any to any rate 20/s burst 3\", \"drop any from any to any rate over 9/s\"]\ndefault = \"accept\"",
        "rules = [\"accept icmp from any to any rate 2/s\", \"accept tcp from any to any rate 20/s burst 3\"]",
        true,
    ),
    ("firewall", "rules = [\"accept tcp from any to any rate 20/s\"]", "rules = [\"accept tcp from any to any\"]", false),
    ("flow-statistics", "idle_ms = 500\nactive_ms = 1000", "idle_ms = 5\nactive_ms = 0\ntop_k = 3", true),
    ("heavy-hitters", "threshold_bytes = 10000", "threshold_bytes = 10\nwindow_ms = 0\ntop_k = 2", true),
    (
        "load-balancer",
        "services = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }] }]",
        "services = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.23\" }, { address = \"198.51.100.22\", state = \"drain\" }] }]",
        true,
    ),
    (
        "load-balancer",
        "services = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }, { address = \"198.51.100.23\" }] }]",
        "when_down = \"drop\"\nservices = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.21\", state = \"down\" }, { address = \"198.51.100.22\", health = \"failed\" },
            { address = \"198.51.100.23\", weight = 9 }] }]",
        true,
    ),
    (
        "load-balancer",
        "policy = \"round-robin\"\nservices = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.21\" }, { address = \"198.51.100.22\" }, { address = \"198.51.100.24\" }] }]",
        "policy = \"round-robin\"\nservices = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.22\" }] }]",
        true,
    ),
    (
        "load-balancer",
        "services = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [{ address = \"198.51.100.21\" }] }]",
        "policy = \"round-robin\"\nservices = [{ vip = \"0.0.0.0/0\", port = \"any\", backends = [
            { address = \"198.51.100.21\" }] }]",
        false,
    ),
    (
        "nat",
        "inside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]",
        "inside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]\nudp_ms = 120000\nport_choice = \"in-turn\"",
        true,
    ),
    (
        "nat",
        "inside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]",
        "inside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.2\"]",
        false,
    ),
    ("pattern-scanner", "patterns = [\"a\"]", "patterns = [\"b\", \"c\"]", true),
    ("policer", "rate_bytes_per_s = 20000\nburst_bytes = 50000", "rate_bytes_per_s = 900\nburst_bytes = 2000", true),
    ("port-knock", "", "step_ms = 1", true),
    ("port-knock", "", "ports = [7000, 80]", false),
    ("port-scan", "threshold_ports = 5", "threshold_ports = 2\nblock_ms = 10\naction = \"drop\"", true),
    ("port-scan", "threshold_ports = 5", "seed = 4", false),
    ("rate-limiter", "rate_packets_per_s = 20\nburst_packets = 90", "rate_packets_per_s = 2\nburst_packets = 1", true),
    ("source-statistics", "idle_ms = 500\nactive_ms = 1000", "active_ms = 1\ntop_k = 50", true),
    ("synthetic", "bytes = 65536\nidle_ms = 500", "bytes = 65536\nidle_ms = 50\naccesses = 2", true),
    ("synthetic", "bytes = 65536\nidle_ms = 500", "bytes = 64\nidle_ms = 500", false),
];

#[test]
fn every_stock_function_says_which_options_may_change() {
    for (name, _) in ALONE {
        assert!(CHANGES.iter().any(|(changed, ..)| changed == name), "{name} has no line in CHANGES");
    }
    let pcap = edge_capture();
    let mut compared: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, from, to, keeps) in CHANGES {
        let (from, to) = (small(alone(name, from)), small(alone(name, to)));
        let times = [(0, &from), (900, &to), (1_600, &from)];
        let (_, outcome) = run(&pcap, &times, SINGLE, 1).expect("one core");
        for reloaded in &outcome.reloads {
            assert_eq!(reloaded.functions[0].1.is_ok(), *keeps, "{name}: {}", told(reloaded));
        }
        for (strategy, cores) in many() {
            let Some((holds, reloads, text)) = holds(&pcap, &times, strategy, cores) else { continue };
            assert!(holds, "{name} under {} on {cores}: {text}", strategy.name());
            assert_eq!(reloads[0].functions[0].1.is_ok(), *keeps, "{name} under {}", strategy.name());
            *compared.entry(strategy.name()).or_default() += 1;
        }
    }
    assert!(compared.len() == ALL.len() - 1 && compared.values().all(|count| *count > 20), "{compared:?}");
}

#[test]
fn many_cores_change_chains_as_one_does() {
    let longer = "[[function]]\nuse = \"source-statistics\"\nflows = 4096\n\
                  [[function]]\nuse = \"conntrack\"\nflows = 4096\npick_up = false\n\
                  [[function]]\nuse = \"policer\"\nflows = 4096\nrate_bytes_per_s = 9000\nburst_bytes = 4000\n\
                  [[function]]\nuse = \"pattern-scanner\"\npatterns = [\"GET\"]\n";
    let shorter = "[[function]]\nuse = \"conntrack\"\nflows = 4096\npick_up = false\n\
                   [[function]]\nuse = \"policer\"\nflows = 4096\n";
    let [longer, shorter] = [longer, shorter].map(|text| chain(text, &stock::registry()));
    let edge = small(example("edge.toml"));
    let pcap = edge_capture();
    for chains in [[&edge, &shorter, &longer, &edge], [&shorter, &longer, &shorter, &shorter]] {
        let times: Vec<(u64, &Chain)> = [0, 800, 1_300, 1_900].into_iter().zip(chains).collect();
        let mut compared = 0;
        for (strategy, cores) in many() {
            let Some((holds, _, text)) = holds(&pcap, &times, strategy, cores) else { continue };
            assert!(holds, "{} on {cores}: {text}", strategy.name());
            compared += 1;
        }
        assert!(compared >= 4, "{compared}");
    }
}

#[test]
fn examples_change_to_each_other_on_many_cores() {
    let pcap = every_model(200);
    let chains: Vec<Chain> = examples().into_iter().map(small).collect();
    for pair in chains.windows(2) {
        for (strategy, cores) in many() {
            let times = [(0, &pair[0]), (400, &pair[1]), (900, &pair[0])];
            let Some((holds, _, text)) = holds(&pcap, &times, strategy, cores) else { continue };
            assert!(
                holds,
                "{} and {} under {} on {cores}: {text}",
                pair[0].name,
                pair[1].name,
                strategy.name()
            );
        }
    }
}

/// On one core, too, a shard is another where other fields are hashed.
#[test]
fn flows_begin_anew_where_they_would_be_in_another_shard() {
    let by_flow = "[[function]]\nuse = \"flow-statistics\"\n";
    let by_source = format!("{by_flow}[[function]]\nuse = \"source-statistics\"\n");
    let [by_flow, by_source] = [by_flow, &by_source].map(|text| chain(text, &stock::registry()));
    let pcap = edge_capture();
    for cores in [1, 2] {
        let times = [(0, &by_flow), (800, &by_source), (1_600, &by_flow), (2_000, &by_flow)];
        let (holds, reloads, text) = holds(&pcap, &times, DYSSECT, cores).expect("it runs");
        assert!(holds, "{cores} cores: {text}");
        assert!(told(&reloads[0]).starts_with("flow-statistics anew"), "{}", told(&reloads[0]));
        assert_eq!(told(&reloads[2]), "flow-statistics kept");
    }
}

#[test]
fn small_tables_hold_too() {
    let pcap = generated("zipf:flows=200,a=1.1,seed=11,packets=2000,gap-ns=20000000", 2_000);
    for (name, from, to, _) in CHANGES {
        for (flows, when_full) in [(16, WhenFull::Reject), (64, WhenFull::EvictOldest)] {
            let [from, to] = [from, to].map(|options| alone(name, options).with_flows(flows, when_full));
            let times = [(0, &from), (500, &to), (1_000, &from), (1_001, &to)];
            for strategy in [SCR, RSSPP, RSS] {
                let Some((holds, _, text)) = holds(&pcap, &times, strategy, 3) else { continue };
                assert!(holds, "{name}, {flows}, {when_full:?}, {}: {text}", strategy.name());
            }
        }
    }
}

#[test]
fn what_begins_anew_is_told_with_the_reason() {
    let chains = [
        "[[function]]\nuse = \"conntrack\"\n[[function]]\nuse = \"policer\"\n",
        "[[function]]\nuse = \"policer\"\nflows = 100\n[[function]]\nuse = \"ddos\"\n[[function]]\nuse = \"conntrack\"\n",
    ];
    let chains = chains.map(|text| chain(text, &stock::registry()));
    let pcap = edge_capture();
    let (_, outcome) = run(&pcap, &[(0, &chains[0]), (500, &chains[1])], SINGLE, 1).expect("one core");
    assert_eq!(
        told(&outcome.reloads[0]),
        "policer anew (its table is another (`flows`, `table_full`)), \
         ddos anew (no function of its name was there before), conntrack kept"
    );
    let Ok(flows) = outcome.reloads[0].functions[2].1 else { unreachable!("told") };
    assert!(flows > 10, "{flows}");
}

/// Sends packets to cores by a hash, and from the first reload on to others.
struct Forgetful;

impl Strategy for Forgetful {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("forgetful", "loses flows at a reload");
        &INFO
    }

    fn layout(&self, chain: &Chain, _: usize) -> Result<engine::strategies::Layout, engine::PlanError> {
        engine::strategies::sharded(chain, self.name())
    }

    fn assign(&self, _: &Chain, plan: &Plan) -> Box<dyn Assign> {
        let rss = strategy::Rss::new(plan.hash_fields.expect("sharded"), plan.cores, 128);
        Box::new(Turned { rss, by: usize::from(plan.first > 0), cores: plan.cores })
    }
}

struct Turned {
    rss: strategy::Rss,
    by: usize,
    cores: usize,
}

impl Assign for Turned {
    fn entry(&self, headers: &wire::Headers) -> u16 {
        self.rss.entry(headers)
    }

    fn core(&mut self, entry: u16) -> usize {
        (self.rss.core(entry) + self.by) % self.cores
    }
}

#[test]
fn planted_flows_lost_at_a_reload_are_found() {
    let chain = alone("conntrack", "pick_up = false");
    let pcap = edge_capture();
    let without = holds(&pcap, &[(0, &chain)], &Forgetful, 2).expect("it runs");
    assert!(without.0, "without a reload nothing is lost: {}", without.2);
    let with = holds(&pcap, &[(0, &chain), (1_000, &chain)], &Forgetful, 2).expect("it runs");
    assert!(!with.0, "flows are on another core than their packets, and nobody noticed");
}

#[test]
fn planted_a_chain_that_comes_a_packet_late_is_found() {
    let open = alone("synthetic", "");
    let shut = alone("access-list", "rules = []\ndefault = \"deny\"");
    let pcap = every_model(400);
    let answers = |after| run(&pcap, &[(0, &open), (after, &shut)], RSS, 2).expect("it runs").0;
    let (in_time, late) = (answers(1_000), answers(1_001));
    let differ: Vec<usize> = (0..in_time.len()).filter(|packet| in_time[*packet] != late[*packet]).collect();
    assert_eq!(differ, [1_000], "the very packet");
}

/// Decisions of the chain before are shown as what they were, and apart from those of now.
#[test]
fn connections_are_shown_by_the_rules_that_they_met() {
    let list = |rule: &str| alone("access-list", &format!("rules = [\"{rule}\"]\ntcp_timeout_s = 999999"));
    let (old, new) = (list("allow tcp from any to any"), list("allow any from any to any"));
    let pcap = edge_capture();
    for (strategy, cores) in [(SINGLE, 1), (RSS, 2), (SCR, 2), (DYSSECT, 2)] {
        let (_, outcome) = run(&pcap, &[(0, &old), (1_500, &new)], strategy, cores).expect("it runs");
        let plan = plan(&new, strategy, cores).expect("it runs");
        let report = RunReport::new(&new, &plan, &outcome);
        let rows = &report.functions[0].reports[0].rows;
        let connections = |name: &str, text: &str| -> u64 {
            let row = rows.iter().find(|row| row[0] == name && row[1] == text);
            row.unwrap_or_else(|| panic!("{rows:?}"))[2].parse().expect("a number")
        };
        assert!(connections("1", "allow any from any to any") > 0, "{rows:?}");
        assert!(connections("1 of an earlier chain file", "allow tcp from any to any") > 0, "{rows:?}");
    }
}
