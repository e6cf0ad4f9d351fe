//! `dyssect` answers as `single` does, whatever shards, ratios and offloaders change, however often, and packets of a
//! flow leave in the order in which they came.
//!
//! Longer captures, more cores and changes at each packet, which take minutes:
//! `cargo test -p paceline-conformance --test all dyssect:: -- --ignored`.

use engine::strategies::DYSSECT;
use engine::{Chain, Plan, Progress, replay_capture, verify};
use paceline_conformance::chain;
use paceline_conformance::migration::{
    LONG_WAYS, PACKETS, WAYS, assert_no_trace, inputs, shardable_examples, verify_forced, verify_tiny_tables,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, generated, small};
use paceline_conformance::{alone_in_all_ways, stock_functions};
use sweep::{Compared, Setting, Tables, Way, verify_each};

/// That nothing shows, in whatever is compared, and that something changed: a quarter of everything each time.
fn assert_holds(compared: &Compared<'_>) {
    let Compared { setting, verified, .. } = compared;
    let times = assert_no_trace(compared);
    let moves = verified.moves;
    // 16 shards.
    let expected = times * 4 * (setting.cores as u64 - 1) / setting.cores as u64 / 2;
    assert!(moves.entries_in >= expected, "{compared}: {expected} shards expected, {moves:?}");
    if times > 20 {
        assert!(
            moves.own.of("parts_lent") > 0 && moves.own.of("offloaded_packets") > 0,
            "{compared}: {moves:?}"
        );
    }
}

fn assert_changes_leave_no_trace(chain: &Chain, inputs: &[(String, Pcap)], ways: &[(usize, u64)]) {
    verify_forced(DYSSECT, chain, inputs, ways, assert_holds);
}

stock_functions!(alone_in_all_ways);

#[test]
fn example_chains() {
    let inputs = inputs(PACKETS);
    for chain in shardable_examples(DYSSECT) {
        assert_changes_leave_no_trace(&chain, &inputs, &WAYS);
    }
}

/// Tables of 4 to 64 flows: flows expire, and make room for others, while packets wait for a shard or for a part of one.
#[test]
fn tiny_tables_under_both_policies() {
    let check = |compared: &Compared<'_>| assert_eq!(compared.verified.out_of_order, Some(0), "{compared}");
    verify_tiny_tables(DYSSECT, |chain| chain, check, |moves| moves.waited_packets > 0);
}

/// Loads decide: the controller moves shards and offloads parts of them while a few flows send most.
#[test]
fn as_the_loads_ask_for() {
    let model = "zipf:flows=400,a=1.2,packets=40000,gap-ns=20000,seed=5";
    let inputs = [(model.to_owned(), generated(model, 40_000))];
    let setting = |cores| Setting { tables: Tables::AsWritten, way: Way::plain(DYSSECT), cores, seed: 1 };
    let mut lent = 0;
    for chain in [alone("flow-statistics", "idle_ms = 500"), alone("conntrack", "")] {
        verify_each(&small(chain), &inputs, &[2, 4, 8].map(setting), &mut |compared| {
            let verified = &compared.verified;
            assert!(verified.holds(), "{compared}: {verified:#?}");
            assert!(verified.moves.entries_in > 0, "{compared}: {:?}", verified.moves);
            lent += verified.moves.own.of("parts_lent");
        });
    }
    assert!(lent > 0, "nothing was offloaded");
}

/// How many packets each of 4 cores steps of 1,000 a second.
///
/// There are many more than rings hold: decisions follow what cores have measured, however late cores begin.
fn packets_by_core(chain: &Chain) -> Vec<u64> {
    let capture = generated("uniform:flows=500,packets=60000,gap-ns=1000000,seed=2", 60_000);
    let plan = Plan::new(chain, DYSSECT, 4).expect("a plan");
    let verified = verify(chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
    assert!(verified.holds(), "{verified:#?}");
    let mut see = |_: &engine::Seen<'_>| Ok::<(), std::convert::Infallible>(());
    let outcome = replay_capture(chain, &plan, capture.open(), &Progress::default(), &mut see).expect("runs");
    outcome.cores.iter().map(|(counters, _)| counters.packets).collect()
}

fn with_slo(p99_us: &str) -> String {
    format!("[slo]\np99_us = {p99_us}\n\n[[function]]\nuse = \"flow-statistics\"\nflows = 4096\n")
}

/// The long-term problem: as few cores as keep the objective; without one, loads are made even.
#[test]
fn with_an_objective_few_packets_take_few_cores() {
    let with = |toml: &str| packets_by_core(&chain(toml, &stock::registry()));
    let even = with(&with_slo("50000").replace("[slo]\np99_us = 50000\n", ""));
    assert!(even.iter().all(|packets| *packets > 6_000), "{even:?}");
    let few = with(&with_slo("50000"));
    assert!(few[0] > 40_000, "all but those of the first periods: {few:?}");
    // No number of cores is enough: then all are used.
    let tight = with(&with_slo("0.000001"));
    assert!(tight.iter().all(|packets| *packets > 6_000), "{tight:?}");
}

#[test]
fn an_objective_that_makes_no_sense_is_refused() {
    for (toml, expected) in [
        (with_slo("0"), "no packet waits at most 0 µs"),
        (with_slo("-1"), "no packet waits at most -1 µs"),
        (with_slo("nan"), "no packet waits at most NaN µs"),
        (with_slo("1e300"), "no packet waits at most 1e300 µs"),
        (with_slo("\"soon\""), "must be a number"),
        (with_slo("1\np50_us = 1"), "`slo` has no option `p50_us`"),
    ] {
        let error = match Chain::parse("test.toml", &toml, &stock::registry()) {
            Ok(_) => panic!("{toml}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{toml}: {error}");
    }
}

/// Longer captures, as many cores as the processor has or not, and changes at each packet.
#[test]
#[ignore = "takes a minute and more"]
fn longer_captures_and_changes_at_each_packet() {
    let inputs = inputs(12_000);
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    for chain in alone.chain(shardable_examples(DYSSECT)) {
        assert_changes_leave_no_trace(&chain, &inputs, &LONG_WAYS);
    }
}
