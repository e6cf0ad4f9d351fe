//! `hybrid` answers as `single` does, whatever is promoted and demoted, however often.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all hybrid:: -- --ignored`.

use engine::strategies::HYBRID;
use engine::{Chain, Plan, PlanError};
use paceline_conformance::migration::{
    LONG_WAYS, PACKETS, WAYS, assert_same, inputs, verify_forced, verify_tiny_tables,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, examples, generated, small};
use paceline_conformance::{alone_in_all_ways, stock_functions};
use sweep::{Compared, Setting, Tables, Way, verify_each};

/// That nothing shows, in whatever is compared, and that something changed: at least one entry each time.
fn assert_holds(compared: &Compared<'_>) {
    let times = assert_same(compared);
    let moves = compared.verified.moves;
    assert!(
        moves.own.of("promotions") + moves.own.of("demotions") >= times,
        "{compared}: {times} changes expected, {moves:?}"
    );
    assert!(
        moves.own.of("promotions") == moves.own.of("demotions"),
        "{compared}: nobody is promoted at the end: {moves:?}"
    );
}

fn is_promotable(chain: &Chain) -> bool {
    Plan::new(&small(chain.clone()), HYBRID, 4).is_ok()
}

fn assert_changes_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    if is_promotable(chain) {
        verify_forced(HYBRID, chain, inputs, ways, assert_holds);
    }
}

stock_functions!(alone_in_all_ways);

#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in examples() {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// What hybrid cannot run it refuses, and says why.
#[test]
fn functions_with_pools_are_refused() {
    let refused = |chain: Chain| match Plan::new(&chain, HYBRID, 4) {
        Err(PlanError::Promotion { function, why, .. }) => {
            assert!(why.contains("a pool"), "{why}");
            function
        }
        other => panic!("{other:?}"),
    };
    let nat = "inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]\nexternal = [\"203.0.113.1\", \"203.0.113.2\"]";
    assert_eq!(refused(alone("nat", nat)), "nat");
}

/// Tables of 4 to 64 flows.
#[test]
fn tiny_tables_under_both_policies() {
    verify_tiny_tables(HYBRID, |chain| chain, |_| (), |moves| moves.own.of("promotions") > 0);
}

/// Loads decide: a few flows send most of the packets, and are promoted.
#[test]
fn elephants_are_promoted() {
    let model = "zipf:flows=400,a=1.2,packets=40000,gap-ns=20000,seed=5";
    let inputs = [(model.to_owned(), generated(model, 40_000))];
    let setting = |cores| Setting { tables: Tables::AsWritten, way: Way::plain(HYBRID), cores, seed: 1 };
    for chain in [alone("flow-statistics", "idle_ms = 500"), alone("conntrack", "")] {
        verify_each(&small(chain), &inputs, &[2, 4, 8].map(setting), &mut |compared| {
            let verified = &compared.verified;
            assert!(verified.holds(), "{compared}: {verified:#?}");
            assert!(verified.moves.own.of("promotions") > 0, "{compared}: {:?}", verified.moves);
        });
    }
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
