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
        "-v",
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
    assert!(report.contains("\nVerdicts: forward ") && report.contains("digest of all flows"), "{report}");
}

/// Every example, on one core and replicated: a screen of text, and all of it within 100 columns.
#[test]
fn a_summary_fits_a_screen() {
    let examples = std::fs::read_dir(crate::support::root().join("examples")).expect("examples");
    let mut runs = 0;
    for example in examples {
        let path = example.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let chain = path.to_str().expect("text");
        for more in [&["--strategy", "single"][..], &["--strategy", "scr", "--cores", "3"]] {
            let run = [&["run", chain, "--pcap", "captures/edge.pcap"], more].concat();
            let output = crate::support::paceline(&run);
            // Some chains cannot be replicated.
            if !output.status.success() {
                continue;
            }
            let text = crate::support::stdout(&output);
            let full = crate::support::stdout(&crate::support::paceline(&[&run[..], &["-v"]].concat()));
            assert!(text.lines().count() <= engine::report::SUMMARY_LINES, "{chain}:\n{text}");
            for line in text.lines().chain(full.lines()) {
                assert!(line.chars().count() <= 100, "{chain}: {line}");
            }
            assert!(full.lines().count() >= text.lines().count() && full.contains("\nCores\n"), "{full}");
            runs += 1;
        }
    }
    assert!(runs >= 30, "{runs}");
}
