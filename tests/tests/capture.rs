//! What functions say of the recorded capture, beside what its README says is in it.

use engine::report::RunReport;
use engine::strategies::RSS;
use engine::{Chain, Plan, Progress, replay_capture};
use io::capture::CaptureReader;
use paceline_conformance::{chain, example, root};

fn run(chain: &Chain) -> RunReport {
    let plan = Plan::new(chain, RSS, 2).expect("shardable");
    let reader = CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture");
    let outcome = replay_capture(chain, &plan, reader, &Progress::default(), &mut |_| Ok::<_, ()>(()));
    RunReport::new(chain, &plan, &outcome.expect("runs"))
}

/// The rows of a function's report whose title begins so.
fn rows<'a>(report: &'a RunReport, function: &str, title: &str) -> &'a [Vec<String>] {
    let function = report.functions.iter().find(|f| f.name == function).expect("in the chain");
    let table = function.reports.iter().find(|report| report.title.starts_with(title));
    &table.unwrap_or_else(|| panic!("{:?}", function.reports)).rows
}

/// tshark counts 255 ports that one of nmap's addresses sent a SYN to, and 41 of the other. Nobody else is
/// named, and over 16 seeds the estimates' mean is within three of its standard errors.
#[test]
fn the_scanners_are_found_and_nobody_else() {
    const SEEDS: u32 = 16;
    let mut means = [0.0; 2];
    for seed in 0..SEEDS {
        let toml = format!("[[function]]\nuse = \"port-scan\"\nthreshold_ports = 20\nseed = {seed}");
        let report = run(&chain(&toml, &stock::registry()));
        let scanners = rows(&report, "port-scan", "Scanners now: 2,");
        assert_eq!(scanners.len(), 2);
        for (mean, (row, source)) in
            means.iter_mut().zip(scanners.iter().zip(["203.0.113.66", "2001:db8:3::66"]))
        {
            assert_eq!(row[0], source);
            *mean += row[1].parse::<f64>().expect("a number") / f64::from(SEEDS);
        }
    }
    for (mean, ports) in means.into_iter().zip([255.0, 41.0]) {
        assert!((mean / ports - 1.0_f64).abs() < 3.0 * 0.034 / f64::from(SEEDS).sqrt(), "{mean} of {ports}");
    }
    assert_eq!(rows(&run(&example("scan.toml")), "port-scan", "Scanners now: 2,").len(), 2);
}

/// No other source sends SYNs to more than four.
#[test]
fn no_client_comes_near_the_threshold() {
    let strict = chain("[[function]]\nuse = \"port-scan\"\nthreshold_ports = 4", &stock::registry());
    assert_eq!(rows(&run(&strict), "port-scan", "Scanners now: 2,").len(), 2);
}

/// Packets and bytes as tshark counts them, all but the six packets of ARP. 5-tuples are 1,789 without what ICMP over
/// IPv4 has in place of ports, and 12 more with it: pings with their identifiers, errors with the ports that they quote.
#[test]
fn statistics_by_flow_and_by_source_add_up_to_the_same() {
    for (function, subject, records) in
        [("flow-statistics", "flow records", 1801), ("source-statistics", "source records", 29)]
    {
        let report = run(&chain(&format!("[[function]]\nuse = \"{function}\""), &stock::registry()));
        let sizes = rows(&report, function, &format!("{records} {subject}"));
        let sum = |column: usize| -> u64 {
            sizes.iter().map(|row| row[column].parse::<u64>().expect("a number")).sum()
        };
        assert_eq!([sum(1), sum(3), sum(4)], [records, 5426, 1_977_280], "{function}");
    }
}

/// Packets and 5-tuples of each service as tshark counts them (fragments not put together), and none for
/// the backend that is drained.
#[test]
fn the_balancer_takes_every_flow_to_a_service_and_keeps_it() {
    let report = run(&example("balance.toml"));
    for (service, flows, packets) in [
        ("tcp 198.51.100.10:80", 499, 1119),
        ("tcp [2001:db8:2::10]:80", 9, 218),
        ("udp 198.51.100.10:53", 38, 39),
    ] {
        let title = format!("{service}: {flows} flows now, {packets} packets");
        let backends = rows(&report, "load-balancer", &title);
        let sum = |column: usize| -> u64 {
            backends.iter().map(|row| row[column].parse::<u64>().expect("a number")).sum()
        };
        assert_eq!([sum(3), sum(5)], [flows, packets], "{service}");
    }
    let web = rows(&report, "load-balancer", "tcp 198.51.100.10:80");
    assert_eq!(web[2][1..4], ["drain", "0.0", "0"]);
    // 499 flows at shares of 1/3 and 2/3: σ is 10.5.
    assert!((web[1][3].parse::<f64>().expect("a number") - 332.7).abs() < 32.0, "{:?}", web[1]);
}

/// What the two scanners sent, as tshark counts it. Their two ICMP errors among it are about other ports than the server's
/// errors are, and so are not of a connection that those opened.
#[test]
fn the_access_list_denies_what_the_scanners_send_and_nothing_else_by_that_rule() {
    let report = run(&example("acl.toml"));
    assert_eq!(report.drops["access-list/denied-by-rule"], 646);
    let rules = rows(&report, "access-list", "Connections now");
    let names: Vec<&str> = rules.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["1", "2", "3", "4", "5", "default"]);
}
