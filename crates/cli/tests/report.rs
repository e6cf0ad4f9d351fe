//! A report prints itself as `paceline run` prints it.

use std::convert::Infallible;

use engine::report::RunReport;
use engine::strategies::SINGLE;
use engine::{Chain, Plan, Progress, Seen, replay_capture};
use io::capture::CaptureReader;

#[test]
fn a_report_prints_as_the_program_prints_it() {
    let printed = crate::support::stdout(&crate::support::paceline(&[
        "run",
        "examples/edge.toml",
        "--pcap",
        "captures/edge.pcap",
    ]));
    let chain =
        std::fs::read_to_string(crate::support::root().join("examples/edge.toml")).expect("an example");
    let chain = Chain::parse("edge.toml", &chain, &stock::registry()).expect("a chain");
    let plan = Plan::new(&chain, SINGLE, 1).expect("one core");
    let capture = CaptureReader::open(crate::support::root().join("captures/edge.pcap")).expect("a capture");
    let mut see = |_: &Seen<'_>| Ok::<(), Infallible>(());
    let outcome = replay_capture(&chain, &plan, capture, &Progress::default(), &mut see).expect("runs");
    let report = format!("{}\n", RunReport::new(&chain, &plan, &outcome));
    // The first line and the cores' table have times.
    let timeless = |text: &str| {
        let (head, cores) = text.split_once("\nCores\n").expect("a table of cores");
        let (_, tables) = head.split_once('\n').expect("a first line");
        let (_, rest) = cores.split_once("\n\n").expect("another heading");
        format!("{tables}\n{rest}")
    };
    assert_eq!(timeless(&report), timeless(&printed));
    assert!(report.contains("\nVerdicts\n") && report.contains("digest of all flows"), "{report}");
}
