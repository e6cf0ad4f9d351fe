//! Reports are of all records of a run, those that ended included, and say the same for any number of cores.

use engine::report::RunReport;
use engine::strategies::{RSS, SCR, SCR_TURNS, SHARED, SINGLE};
use engine::{Chain, Progress, Seen, replay_capture};
use paceline_conformance::chain;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{beginnings, generated};
use paceline_conformance::tcp;
use sweep::{Setting, Tables, Way};

/// Records that end by silence and by age, all the time; each function in a table of its own, by two keys.
const RECORDS: &str = "
[[function]]
use = \"flow-statistics\"
flows = 8192
idle_ms = 20
active_ms = 300
top_k = 30
[[function]]
use = \"heavy-hitters\"
flows = 4096
idle_ms = 20
window_ms = 10
top_k = 7
";

/// By source: under `rss` a table by address, and in a chain with the functions above states that cores share.
const SOURCES: &str = "
[[function]]
use = \"source-statistics\"
flows = 8192
idle_ms = 20
active_ms = 300
top_by = \"packets\"
";

fn report(chain: &Chain, way: Way, cores: usize, capture: &Pcap) -> RunReport {
    let setting = Setting { tables: Tables::AsWritten, way, cores, seed: 1 };
    // Flows that move often have threads wait for each other.
    let setting = if way.move_every.is_some() { setting.simulated() } else { setting };
    let plan = setting.plan(chain).expect("a plan");
    let mut see = |_: &Seen<'_>| Ok::<(), ()>(());
    let outcome = replay_capture(chain, &plan, capture.open(), &Progress::default(), &mut see).expect("runs");
    RunReport::new(chain, &plan, &outcome)
}

/// Titles and rows of all functions.
fn told(report: &RunReport) -> Vec<(String, Vec<Vec<String>>)> {
    let reports = report.functions.iter().flat_map(|function| &function.reports);
    reports.map(|report| (report.title.clone(), report.rows.clone())).collect()
}

fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(4_000);
    let model = "zipf:flows=300,a=1.1,seed=4,packets=4000,gap-ns=200000";
    inputs.push((model.to_owned(), generated(model, 4_000)));
    inputs
}

#[test]
fn rows_do_not_depend_on_cores_that_have_flows_of_their_own() {
    for toml in [RECORDS, SOURCES] {
        let chain = chain(toml, &stock::registry());
        for (name, capture) in &inputs() {
            let single = told(&report(&chain, Way::plain(SINGLE), 1, capture));
            assert!(!single[0].0.contains(" 0 of which ended"), "{name}: {}", single[0].0);
            let ways = [
                (Way::plain(RSS), 3),
                (Way::moving(37), 4),
                (Way::moving(2), 2),
                (Way::plain(SCR), 3),
                (Way::plain(SCR_TURNS), 3),
            ];
            for (way, cores) in ways {
                assert_eq!(
                    told(&report(&chain, way, cores, capture)),
                    single,
                    "{way:?} on {cores} over {name}"
                );
            }
        }
    }
}

/// Where cores share states, each packet is in one record all the same.
#[test]
fn every_packet_is_in_a_record_where_cores_share_states() {
    let both = format!("{RECORDS}{SOURCES}");
    for (toml, way) in [(RECORDS, SHARED), (SOURCES, SHARED), (&*both, RSS)] {
        let chain = chain(toml, &stock::registry());
        for (name, capture) in &inputs() {
            let report = report(&chain, Way::plain(way), 3, capture);
            let statistics = report.functions.iter().filter(|function| function.name.ends_with("statistics"));
            for function in statistics {
                let sizes = &function.reports[1];
                let packets: u64 = sizes.rows.iter().map(|row| row[3].parse::<u64>().expect("packets")).sum();
                assert_eq!(packets, function.packets, "{} under {way:?} over {name}", function.name);
                let title = &function.reports[0].title;
                assert!(!title.contains(" 0 of which ended"), "{}: {title}", function.name);
            }
        }
    }
}

/// The flow of an outsider's capture: 962 of 1,184 packets, and silent for a minute at the end.
#[test]
fn a_flow_that_was_silent_at_the_end_is_on_top() {
    let mut capture = Pcap::new();
    let mut push = |packet: paceline_conformance::Packet| {
        capture.push(packet.time_ns, packet.bytes.len() as u32, &packet.bytes);
    };
    (0..962).for_each(|i| push(tcp(i * 1_000_000, 1, 2, (4_000, 80), 0x10, 0, 100)));
    (0..222).for_each(|i| push(tcp(70_000_000_000 + i * 1_000_000, 3, 2, (4_000, 80), 0x10, 0, 10)));
    let toml = "[[function]]\nuse = \"flow-statistics\"\n[[function]]\nuse = \"heavy-hitters\"\n";
    let chain = chain(&format!("{toml}[[function]]\nuse = \"source-statistics\"\n"), &stock::registry());
    let told = told(&report(&chain, Way::plain(SINGLE), 1, &capture));
    let tops: Vec<_> = told.iter().filter(|(title, _)| title.starts_with("Top ")).collect();
    assert_eq!(tops.len(), 3);
    for (title, rows) in tops {
        assert!(title.contains(" 1 of which ended"), "{title}");
        assert!(rows[0].iter().any(|cell| cell == "962"), "{title}: {rows:?}");
    }
}
