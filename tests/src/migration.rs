//! Strategies under which states go from core to core: forced to move them at any time, they answer as `single` does.

use engine::strategies::{RSS, Strategy};
use engine::{Chain, Moves, Plan, PlanError};
use sweep::{Compared, Setting, Tables, Way, verify_each};
use table::WhenFull;

use crate::pcap::Pcap;
use crate::stock::{ALONE, alone, beginnings, examples, generated, small};

/// Cores, with the packets from one forced move to the next.
pub const WAYS: [(usize, u64); 9] =
    [(4, 100), (2, 2_000), (2, 100), (2, 37), (4, 2_000), (4, 37), (8, 2_000), (8, 100), (8, 37)];

/// Ways for tests that take minutes: moves at each packet, and as many cores as the processor has or not.
pub const LONG_WAYS: [(usize, u64); 6] = [(2, 1), (3, 501), (5, 7), (8, 1), (16, 100), (16, 2_000)];

/// Packets of each capture, with [`WAYS`].
pub const PACKETS: usize = 5_500;

/// The captures; few flows that send most, and many that send little, some of them IPv6; the time-outs of statistics
/// pass in between. And whole connections, both directions.
pub fn inputs(most: usize) -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(most);
    for model in ["zipf:flows=700,a=1.1,ipv6-share=0.1,seed=11", "datacenter:seed=5"] {
        let model = format!("{model},packets={most},gap-ns=1000000");
        let pcap = generated(&model, most);
        inputs.push((model, pcap));
    }
    inputs
}

/// For [`stock_functions`](crate::stock_functions): a test for each, in which `assert_changes_leave_no_trace` of the caller has it
/// over all inputs in all ways.
#[macro_export]
macro_rules! alone_in_all_ways {
    ($($test:ident: $name:literal, $options:literal;)*) => {$(
        #[test]
        fn $test() {
            let chain = $crate::stock::alone($name, $options);
            let inputs = $crate::migration::inputs($crate::migration::PACKETS);
            assert_changes_leave_no_trace(&chain, &inputs, &$crate::migration::WAYS);
        }
    )*};
}

/// Runs a chain under a strategy beside `single`, in each way, and has `check` look at what came of it. Cores are simulated,
/// and in the first way on threads, too.
pub fn verify_forced(
    strategy: &'static dyn Strategy,
    chain: &Chain,
    inputs: &[(String, Pcap)],
    ways: &[(usize, u64)],
    mut check: impl FnMut(&Compared<'_>),
) {
    let on_threads = |(cores, every): &(usize, u64)| Setting {
        tables: Tables::AsWritten,
        way: Way::plain(strategy).forced(*every),
        cores: *cores,
        seed: 1,
    };
    let simulated = ways.iter().map(|way| on_threads(way).simulated());
    let settings: Vec<Setting> = simulated.chain(ways.first().map(on_threads)).collect();
    verify_each(&small(chain.clone()), inputs, &settings, &mut check);
}

/// That nothing shows, in whatever is compared, and that packets of a flow leave in the order in which they came; says how
/// often something was forced to move.
///
/// # Panics
/// If something shows.
pub fn assert_no_trace(compared: &Compared<'_>) -> u64 {
    assert_eq!(compared.verified.out_of_order, Some(0), "{compared}");
    assert_same(compared)
}

/// Asserts that answers are the same where no order is promised.
///
/// # Panics
/// If something shows.
pub fn assert_same(compared: &Compared<'_>) -> u64 {
    let Compared { capture, setting, verified, .. } = compared;
    assert!(verified.packets > 1_000, "{compared}");
    assert!(verified.filled.is_empty(), "{compared}: {:?} filled up", verified.filled);
    assert!(verified.holds(), "{compared}: {verified:#?}");
    (capture.packets() as u64 - 1) / setting.way.move_every.expect("forced moves")
}

/// Functions whose flows die within the inputs, so that tables have room without evicting or refusing any.
const SHORT_LIVED: [&str; 4] = ["flow-statistics", "policer", "rate-limiter", "synthetic"];

/// Runs these functions with tables of 4 to 64 flows, under both policies, in chains that `make` may change, and has `check`
/// look at each run. A full table
/// may make a difference, and then says so. What no table announces must not differ.
///
/// # Panics
/// If it does; if too few runs are equal though something `is_told` to have moved; or if too few tables were full.
pub fn verify_tiny_tables(
    strategy: &'static dyn Strategy,
    make: impl Fn(Chain) -> Chain,
    mut check: impl FnMut(&Compared<'_>),
    is_told: impl Fn(&Moves) -> bool,
) {
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
            let way = Way::plain(strategy).forced(every);
            let setting = Setting { tables: Tables::Of { flows, when_full }, way, cores, seed: 1 };
            // Some of them on threads, too.
            settings.extend((number == 2).then_some(setting));
            settings.push(setting.simulated());
        }
    }
    let (mut equal, mut announced) = (0, 0);
    for (name, options) in ALONE.iter().filter(|(name, _)| SHORT_LIVED.contains(name)) {
        verify_each(&make(alone(name, options)), &inputs, &settings, &mut |compared| {
            check(compared);
            let verified = &compared.verified;
            match verified.filled.is_empty() {
                true => assert!(verified.holds(), "{compared}: {verified:#?}"),
                false => announced += 1,
            }
            equal += u64::from(verified.holds() && is_told(&verified.moves));
        });
    }
    assert!(equal >= 30 && announced >= 10, "{equal} equal, {announced} announced");
}

/// All examples that sharding can run.
///
/// # Panics
/// If those that it cannot are not refused under `strategy`, too.
pub fn shardable_examples(strategy: &'static dyn Strategy) -> Vec<Chain> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        examples().into_iter().partition(|chain| Plan::new(&small(chain.clone()), RSS, 4).is_ok());
    assert!(can.len() >= 12 && cannot.len() == 2, "{} run, {} do not", can.len(), cannot.len());
    for chain in cannot {
        let error = Plan::new(&chain, strategy, 4).expect_err("no hash");
        let is_refused =
            matches!(error, PlanError::Conflict { strategy: name, .. } if name == strategy.name());
        assert!(is_refused, "{error}");
    }
    can
}
