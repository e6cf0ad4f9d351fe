//! A fault that only this crate can plant: a core that believes a card, and compares no key, steps other flows. It shows.

use io::capture::CaptureReader;
use strategy::{Every, Rebalancing};

use crate::chain::Chain;
use crate::chain::registry::Registry;
use crate::executor::input::Progress;
use crate::store::referred::planted::BELIEVES;
use crate::strategies::DYSSECT;
use crate::strategies::plan::Plan;
use crate::verify::capture::verify;
use crate::verify::verified::Verified;

/// On simulated cores, where flows change tables every 37 packets, so that references grow old.
fn verified(believes: bool) -> Verified {
    let toml = "[[function]]\nuse = \"policer\"\nflows = 4096\n[[function]]\nuse = \"flow-statistics\"\nflows = 4096";
    let chain = Chain::parse("test.toml", toml, &Registry::of_tests()).expect("a chain");
    let rebalancing = Some(Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
    let plan = Plan::new(&chain, DYSSECT, 3).expect("a plan");
    let plan = Plan { rebalancing, simulation: Some(1), ..plan };
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/edge.pcap");
    BELIEVES.set(believes);
    let verified = verify(&chain, &plan, &|| CaptureReader::open(capture), &Progress::default());
    BELIEVES.set(false);
    verified.expect("runs")
}

#[test]
fn keys_that_are_not_compared_show() {
    let right = verified(false);
    assert!(right.holds() && right.moves.own.of("wrong_references") > 100, "{right:#?}");
    let planted = verified(true);
    assert!(!planted.holds(), "{:?}", planted.moves);
}
