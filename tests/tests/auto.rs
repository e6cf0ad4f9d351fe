//! `auto` answers as `single` does, whatever strategy runs the chain, on however many cores, and however often that
//! changes.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all auto:: -- --ignored`.

use std::collections::BTreeSet;

use engine::Chain;
use engine::strategies::AUTO;
use paceline_conformance::migration::{
    LONG_WAYS, PACKETS, WAYS, assert_same, inputs, verify_forced, verify_tiny_tables,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, examples};
use paceline_conformance::stock_functions;
use sweep::Compared;

/// That nothing shows, in whatever is compared, and that strategies changed: once more than packets ask for.
fn assert_holds(compared: &Compared<'_>) {
    let times = assert_same(compared);
    let changes = &compared.verified.changes;
    assert_eq!(changes.len() as u64, times + 1, "{compared}");
    assert_eq!(changes.iter().map(|change| change.packets).sum::<u64>(), compared.verified.packets);
    // Of two that can run the chain the other one comes next.
    let which: BTreeSet<_> = changes.iter().map(|change| (change.strategy, change.cores)).collect();
    assert!(times < 20 || which.len() > 1 || which.contains(&("single", 1)), "{compared}: {which:?}");
}

fn assert_changes_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    verify_forced(AUTO, chain, inputs, ways, assert_holds);
}

macro_rules! alone {
    ($($test:ident: $name:literal, $options:literal;)*) => {$(
        #[test]
        fn $test() {
            assert_changes_leave_no_trace(&alone($name, $options), &inputs(PACKETS), &WAYS);
        }
    )*};
}

stock_functions!(alone);

/// All of them: what no hash can serve is replicated, or runs on one core.
#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in examples() {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// Tables of 4 to 64 flows.
#[test]
fn tiny_tables_under_both_policies() {
    verify_tiny_tables(AUTO, |_| (), |_| true);
}

/// Longer captures, as many cores as the processor has or not, and changes at each packet.
#[test]
#[ignore = "takes a minute and more"]
fn longer_captures_and_changes_at_each_packet() {
    let inputs = inputs(12_000);
    for chain in ALONE.iter().map(|(name, options)| alone(name, options)).chain(examples()) {
        assert_changes_leave_no_trace(&chain, &inputs, &LONG_WAYS);
    }
}
