//! `hybrid` answers as `single` does, whatever is promoted and demoted, however often.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all hybrid:: -- --ignored`.

use engine::strategies::{HYBRID, RSS};
use engine::{Chain, Plan, PlanError, Registry};
use paceline_conformance::migration::{LONG_WAYS, PACKETS, WAYS, inputs, verify_forced};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, beginnings, examples, generated, small};
use paceline_conformance::stock_functions;
use sweep::{Compared, Setting, Tables, Way, verify_each};
use table::WhenFull;

/// That nothing shows, in whatever is compared, and that something changed: at least one entry each time.
fn assert_holds(compared: &Compared<'_>) {
    let Compared { capture, setting, verified, .. } = compared;
    assert!(verified.packets > 1_000, "{compared}");
    assert!(verified.filled.is_empty(), "{compared}: {:?} filled up", verified.filled);
    assert!(verified.holds(), "{compared}: {verified:#?}");
    let times = (capture.packets() as u64 - 1) / setting.way.move_every.expect("forced changes");
    let moves = verified.moves;
    assert!(moves.entries_out + moves.entries_in >= times, "{compared}: {times} changes expected, {moves:?}");
    assert!(moves.entries_out == moves.entries_in, "{compared}: nobody is promoted at the end: {moves:?}");
}

fn is_promotable(chain: &Chain) -> bool {
    Plan::new(&small(chain.clone()), HYBRID, 4).is_ok()
}

fn assert_changes_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    if is_promotable(chain) {
        verify_forced(HYBRID, chain, inputs, ways, assert_holds);
    }
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

#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in examples() {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}
