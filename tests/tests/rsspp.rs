//! Flows that move between cores: whatever moves, however often, `rsspp` answers as `single` does, and packets of
//! a flow leave in the order in which they came.
//!
//! Longer captures, more cores and moves at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all rsspp:: -- --ignored`.

use engine::Chain;
use engine::strategies::RSSPP;
use paceline_conformance::migration::{
    LONG_WAYS, PACKETS, WAYS, assert_no_trace, inputs, shardable_examples, verify_forced,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone};
use paceline_conformance::{alone_in_all_ways, stock_functions};
use sweep::Compared;

/// That nothing shows, in whatever is compared, and that something moved: a quarter of the entries each time, to
/// any of the cores.
fn assert_holds(compared: &Compared<'_>) {
    let Compared { setting, verified, .. } = compared;
    let times = assert_no_trace(compared);
    let expected = times * 32 * (setting.cores as u64 - 1) / setting.cores as u64 * 3 / 4;
    let moved = verified.moves.entries_in;
    assert!(moved >= expected, "{compared}: {moved} entries moved, {expected} expected");
}

fn assert_changes_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    verify_forced(RSSPP, chain, inputs, ways, assert_holds);
}

stock_functions!(alone_in_all_ways);

#[test]
fn every_stock_function_is_above() {
    for info in stock::registry().functions() {
        assert!(ALONE.iter().any(|(name, _)| *name == info.about.name), "{} is not tested", info.about.name);
    }
}

#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in shardable_examples(RSSPP) {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// Longer captures, as many cores as the processor has or not, and moves at each packet.
#[test]
#[ignore = "takes a minute and more"]
fn longer_captures_and_moves_at_each_packet() {
    let inputs = inputs(30_000);
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    for chain in alone.chain(shardable_examples(RSSPP)) {
        assert_changes_leave_no_trace(&chain, &inputs, &LONG_WAYS);
    }
}
