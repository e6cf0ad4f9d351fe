//! `hybrid` answers as `single` does, whatever is promoted and demoted, however often.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all hybrid:: -- --ignored`.

use engine::strategies::HYBRID;
use engine::{Chain, Plan, PlanError};
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

/// Functions whose flows die within the inputs, so that tables have room without evicting or refusing any.
const SHORT_LIVED: [&str; 4] = ["flow-statistics", "policer", "rate-limiter", "synthetic"];

/// Tables of 4 to 64 flows: a full table may make a difference, and then says so. What no table announces must not differ.
#[test]
fn tiny_tables_under_both_policies() {
    let mut inputs = beginnings(1_000);
    for model in ["zipf:flows=200,a=1.1,seed=11", "zipf:flows=60,a=0.8,seed=3", "datacenter:seed=5"] {
        let model = format!("{model},packets=1000,gap-ns=20000000");
        inputs.push((model.clone(), generated(&model, 1_000)));
    }
    let mut settings = Vec::new();
    for (number, flows) in [4, 16, 32, 64].into_iter().enumerate() {
        for (policy, when_full) in [WhenFull::EvictOldest, WhenFull::Reject].into_iter().enumerate() {
            let (cores, every) =
                [(2, 2), (4, 3), (2, 7), (4, 7), (2, 37), (4, 132)][(2 * number + policy) % 6];
            let way = Way::plain(HYBRID).forced(every);
            settings.push(Setting { tables: Tables::Of { flows, when_full }, way, cores, seed: 1 });
        }
    }
    let (mut equal, mut announced) = (0, 0);
    for (name, options) in ALONE.iter().filter(|(name, _)| SHORT_LIVED.contains(name)) {
        let chain = alone(name, options);
        if !is_promotable(&chain) {
            continue;
        }
        verify_each(&chain, &inputs, &settings, &mut |compared| {
            let verified = &compared.verified;
            match verified.filled.is_empty() {
                true => assert!(verified.holds(), "{compared}: {verified:#?}"),
                false => announced += 1,
            }
            equal += u64::from(verified.holds() && verified.moves.entries_out > 0);
        });
    }
    assert!(equal >= 30 && announced >= 10, "{equal} equal, {announced} announced");
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
            assert!(verified.moves.entries_out > 0, "{compared}: {:?}", verified.moves);
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
