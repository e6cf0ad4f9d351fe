//! State-compute replication with real threads: `scr` answers as `single` does, whatever the chain, and each replica
//! ends as the single core does. Tables that are full are no exception, nor is what a pool gives out.
//!
//! Longer captures, and each model of traffic by itself, which take minutes:
//! `cargo test --release -p paceline-conformance --test all scr:: -- --ignored`.

use engine::strategies::{RSS, SCR, SCR_TURNS};
use engine::{Chain, FunctionInfo, Plan, PlanError, Progress, verify};
use paceline_conformance::pcap::{Pcap, first_of};
use paceline_conformance::stock::{ALONE, alone, beginnings, every_model, examples, generated, small};
use paceline_conformance::{chain, example, root, stock_functions};
use sweep::{Compared, Matrix, Setting, Tables, Way, verify_each};
use table::WhenFull;
use traffic::Kind;

/// That nothing shows, in whatever is compared, and that all is compared.
fn assert_is_equal(compared: &Compared<'_>) {
    let Compared { chain, capture, verified, .. } = compared;
    assert_eq!(verified.packets, capture.packets() as u64, "{compared}");
    assert!(verified.holds(), "{compared}: {verified:#?}");
    assert!(verified.allocated.is_empty() && verified.shared.is_empty(), "{compared}: not all is compared");
    assert_eq!(verified.digests.len(), chain.functions.len(), "{compared}");
}

fn settings(tables: Tables, cores: &[usize]) -> Vec<Setting> {
    let matrix = Matrix {
        tables: vec![tables],
        ways: [SCR, SCR_TURNS].map(Way::plain).to_vec(),
        cores: cores.to_vec(),
    };
    matrix.settings(1)
}

/// Asserts equality for tables as the chain has them.
fn assert_equal(chain: &Chain, cores: &[usize], captures: &[(String, Pcap)]) {
    verify_each(chain, captures, &settings(Tables::AsWritten, cores), &mut assert_is_equal);
}

const CORES: [usize; 5] = [1, 2, 3, 7, 14];

/// Packets of each capture, and of each model of traffic.
const PACKETS: usize = 5_500;
const PACKETS_OF_MODEL: usize = 500;

/// The captures, and all models in one; before a NAT, what a gateway got.
fn inputs(chain: &Chain) -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    inputs.push(("every model".to_owned(), every_model(PACKETS_OF_MODEL)));
    if chain.functions.iter().any(|spec| spec.name == "nat") {
        let name = "captures/gateway.pcap";
        inputs.push((name.to_owned(), first_of(&root().join(name), PACKETS)));
    }
    inputs
}

/// With tables that never fill, and with such that do.
fn assert_replicas_equal(chain: &Chain) {
    let inputs = inputs(chain);
    let chain = small(chain.clone());
    verify_each(&chain, &inputs, &settings(Tables::AsWritten, &CORES), &mut |compared| {
        assert_is_equal(compared);
        assert!(compared.verified.filled.is_empty(), "{compared}: {:?} filled up", compared.verified.filled);
    });
    // Few knock.
    let keeps_few = |info: FunctionInfo| info.sharding.is_stateless() || info.about.name == "port-knock";
    let keeps_flows = chain.functions.iter().any(|spec| !keeps_few(spec.function.info()));
    for crowded in CROWDED {
        let mut filled = 0;
        verify_each(&chain, &inputs, &settings(crowded, &[2, 7]), &mut |compared| {
            assert_is_equal(compared);
            filled += compared.verified.filled.len();
        });
        assert!(filled > 0 || !keeps_flows, "no table of {} filled up", chain.name);
    }
}

/// Tables of a few flows each.
const CROWDED: [Tables; 2] = [
    Tables::Of { flows: 3, when_full: WhenFull::EvictOldest },
    Tables::Of { flows: 3, when_full: WhenFull::Reject },
];

macro_rules! alone {
    ($($test:ident: $name:literal, $options:literal;)*) => {$(
        #[test]
        fn $test() {
            assert_replicas_equal(&alone($name, $options));
        }
    )*};
}

stock_functions!(alone);

/// Examples that replicas can run; the others are refused for a reason that is named.
fn replicable_examples() -> Vec<Chain> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        examples().into_iter().partition(|chain| chain.inspects_before_state().is_none());
    let names = |chains: &[Chain]| chains.iter().map(|chain| chain.name.clone()).collect::<Vec<_>>();
    assert!(can.len() >= 10 && !cannot.is_empty(), "{:?}, not {:?}", names(&can), names(&cannot));
    for chain in cannot {
        let error = Plan::new(&chain, SCR, 2).expect_err("payloads decide").to_string();
        let scanner = chain.inspects_before_state().expect("one does");
        let expected = format!(
            "strategy `scr` cannot run chain `{}`: `{scanner}` looks into payloads, which other cores do not see, and \
             functions with states come behind it\nWhat works: `{scanner}` behind them, or `--strategy rss`.",
            chain.name
        );
        assert_eq!(error, expected);
        assert!(Plan::new(&chain, SCR, 1).is_ok(), "one core sees all payloads");
    }
    can
}

#[test]
fn example_chains() {
    for chain in replicable_examples() {
        assert_replicas_equal(&chain);
    }
}

/// No hash keeps their keys on one core; under every other strategy with several cores they are refused, or
/// something of them is not promised.
#[test]
fn chains_that_cannot_be_sharded_are_equal_here_in_everything() {
    let names = ["perimeter.toml", "mixed-keys.toml"];
    for name in names {
        let chain = small(example(name));
        let sharded = Plan::new(&chain, RSS, 2);
        assert!(sharded.is_err() || sharded.is_ok_and(|plan| !plan.shared.is_empty()), "{name}");
        assert!(replicable_examples().iter().any(|other| other.name == chain.name), "{name}");
        let capture = ("edge".to_owned(), first_of(&root().join("captures/edge.pcap"), usize::MAX));
        assert_equal(&chain, &[2, 7], &[capture]);
    }
}

/// With so few ports that each is given out again and again, and some flows get none. Under sharding answers would
/// be equal but for the ports.
#[test]
fn a_nat_gives_out_the_same_ports() {
    let options =
        "inside = [\"10.0.0.0/8\", \"192.0.2.0/26\"]\nexternal = [\"203.0.113.1\"]\nports = [2000, 2007]";
    let chain = alone("nat", options);
    let allocated = |strategy| {
        let plan = Plan::new(&chain, strategy, 2).expect("a plan");
        let capture = first_of(&root().join("captures/edge.pcap"), usize::MAX);
        let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
        verified.is_up_to_allocation()
    };
    assert_eq!([RSS, SCR].map(allocated), [true, false]);
    for tables in [Tables::AsWritten, CROWDED[0]] {
        verify_each(&chain, &inputs(&chain), &settings(tables, &CORES), &mut assert_is_equal);
    }
}

#[test]
fn sixty_four_cores_are_the_most() {
    let chain = chain(
        "[[function]]\nuse = \"conntrack\"\nflows = 64\n[[function]]\nuse = \"ddos\"\nflows = 64",
        &stock::registry(),
    );
    assert_equal(&chain, &[64], &inputs(&chain));
    let refused = Plan::new(&chain, SCR, 65).expect_err("too many");
    assert_eq!(refused, PlanError::Replicas { strategy: "scr", cores: 65, max: 64 });
    assert_eq!(refused.to_string(), "strategy `scr` on 65 cores: a packet's history is of at most 64 cores");
}

/// Cores that get no packet step those of others all the same.
#[test]
fn fewer_packets_than_cores() {
    let chain = alone("conntrack", "flows = 64");
    for packets in 1..=3 {
        let pcap = first_of(&root().join("captures/edge.pcap"), packets);
        assert_equal(&chain, &[2, 3, 14], &[(format!("{packets} packets"), pcap)]);
    }
}

/// More of the captures, and each model by itself.
#[test]
#[ignore = "takes minutes"]
fn longer_captures_and_each_model() {
    let mut inputs = beginnings(30_000);
    for name in Kind::NAMES {
        let model = format!("{name}:packets=10000,gap-ns=1000000,seed=9");
        let pcap = generated(&model, 10_000);
        inputs.push((model, pcap));
    }
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    for chain in alone.chain(replicable_examples()) {
        for tables in [Tables::AsWritten, CROWDED[0], CROWDED[1]] {
            let settings = settings(tables, &CORES);
            verify_each(&small(chain.clone()), &inputs, &settings, &mut assert_is_equal);
        }
    }
}
