//! Chains whose keys no hash keeps on one core: all cores share the coarser functions' states, and each
//! function keeps what it promises then.

use std::path::Path;

use engine::{Chain, Plan, PlanError, Progress, Registry, Verified, verify};
use io::capture::CaptureReader;
use nf::WhenShared;
use paceline_conformance::{captures, chain, example, root};
use strategy::Strategy;

const CORES: [usize; 4] = [1, 2, 4, 8];

fn verify_rss(chain: &Chain, capture: &Path, cores: usize) -> Verified {
    let plan = Plan::new(chain, Strategy::Rss, cores).expect("shardable");
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
    assert_holds(&chain, 5);
    let verified = verify_rss(&chain, &root().join("captures/edge.pcap"), 4);
    let promises: Vec<_> = verified.shared.iter().map(|check| (&*check.function, check.promise)).collect();
    let over = WhenShared::Bound { over: 0 };
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

#[test]
fn busy_states() {
    assert_holds(&chain(&BUSY.replace("ACTION", ""), &Registry::stock()), 3);
}

#[test]
fn a_policer_that_marks() {
    assert_holds(&chain(&BUSY.replace("ACTION", "action = \"mark\""), &Registry::stock()), 2);
}
