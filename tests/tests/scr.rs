//! State-compute replication with real threads: `scr` answers as `single` does, whatever the chain, and each replica
//! ends as the single core does. Tables that are full are no exception, nor is what a pool gives out.
//!
//! Longer captures, and each model of traffic by itself, which take minutes:
//! `cargo test --release -p paceline-conformance --test scr -- --ignored`.

use engine::{Chain, FunctionInfo, Plan, PlanError, Progress, Registry, Verified, verify};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, beginnings, every_model, examples, generated, small};
use paceline_conformance::{chain, example, root, stock_functions};
use strategy::Strategy;
use table::WhenFull;
use traffic::Kind;

fn replicated(chain: &Chain, cores: usize) -> Plan {
    Plan::new(chain, Strategy::Scr, cores).unwrap_or_else(|error| panic!("{}: {error}", chain.name))
}

/// That nothing shows, in whatever is compared, and that all is compared.
fn assert_equal(chain: &Chain, cores: usize, (name, capture): &(String, Pcap)) -> Verified {
    let plan = replicated(chain, cores);
    let verified = verify(chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
    let at = format!("{} on {cores} cores over {name}", chain.name);
    assert_eq!(verified.packets, capture.packets() as u64, "{at}");
    assert!(verified.holds(), "{at}: {verified:#?}");
    assert!(verified.allocated.is_empty() && verified.shared.is_empty(), "{at}: not all is compared");
    assert_eq!(verified.digests.len(), chain.functions.len(), "{at}");
    verified
}

const CORES: [usize; 5] = [1, 2, 3, 7, 14];

/// Packets of each capture, and of each model of traffic.
const PACKETS: usize = 5_500;
const PACKETS_OF_MODEL: usize = 500;

/// The captures, and all models in one.
fn inputs() -> Vec<(String, Pcap)> {
    let mut inputs = beginnings(PACKETS);
    inputs.push(("every model".to_owned(), every_model(PACKETS_OF_MODEL)));
    inputs
}

/// With tables that never fill, and with such that do.
fn assert_replicas_equal(chain: &Chain) {
    let inputs = inputs();
    let chain = small(chain.clone());
    for cores in CORES {
        for input in &inputs {
            let verified = assert_equal(&chain, cores, input);
            assert!(verified.filled.is_empty(), "{}: {:?} filled up", chain.name, verified.filled);
        }
    }
    // Few knock.
    let keeps_few = |info: FunctionInfo| info.sharding.is_stateless() || info.name == "port-knock";
    let keeps_flows = chain.functions.iter().any(|spec| !keeps_few(spec.function.info()));
    for when_full in [WhenFull::EvictOldest, WhenFull::Reject] {
        let crowded = crowded(chain.clone(), when_full);
        let filled = |input| [2, 7].map(|cores| assert_equal(&crowded, cores, input).filled.len());
        let filled: usize = inputs.iter().flat_map(filled).sum();
        assert!(filled > 0 || !keeps_flows, "no table of {} filled up", chain.name);
    }
}

/// With tables of a few flows each.
fn crowded(mut chain: Chain, when_full: WhenFull) -> Chain {
    for spec in &mut chain.functions {
        (spec.flows, spec.when_full) = (3, when_full);
    }
    chain
}

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
        let error = Plan::new(&chain, Strategy::Scr, 2).expect_err("payloads decide").to_string();
        let scanner = chain.inspects_before_state().expect("one does");
        let expected = format!(
            "strategy `scr` cannot run chain `{}`: `{scanner}` looks into payloads, which other cores do not see, and \
             functions with states come behind it\nWhat works: `{scanner}` behind them, or `--strategy rss`.",
            chain.name
        );
        assert_eq!(error, expected);
        assert!(Plan::new(&chain, Strategy::Scr, 1).is_ok(), "one core sees all payloads");
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
        let sharded = Plan::new(&chain, Strategy::Rss, 2);
        assert!(sharded.is_err() || sharded.is_ok_and(|plan| !plan.shared.is_empty()), "{name}");
        assert!(replicable_examples().iter().any(|other| other.name == chain.name), "{name}");
        let capture = ("edge".to_owned(), Pcap::first_of(&root().join("captures/edge.pcap"), usize::MAX));
        for cores in [2, 7] {
            assert_equal(&chain, cores, &capture);
        }
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
        let capture = Pcap::first_of(&root().join("captures/edge.pcap"), usize::MAX);
        let verified = verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("runs");
        verified.allocated.len()
    };
    assert_eq!([Strategy::Rss, Strategy::Scr].map(allocated), [1, 0]);
    for input in &inputs() {
        for cores in CORES {
            assert_equal(&chain, cores, input);
            assert_equal(&crowded(chain.clone(), WhenFull::EvictOldest), cores, input);
        }
    }
}

#[test]
fn sixty_four_cores_are_the_most() {
    let chain = chain(
        "[[function]]\nuse = \"conntrack\"\nflows = 64\n[[function]]\nuse = \"ddos\"\nflows = 64",
        &Registry::stock(),
    );
    for input in &inputs() {
        assert_equal(&chain, 64, input);
    }
    let refused = Plan::new(&chain, Strategy::Scr, 65).expect_err("too many");
    assert_eq!(refused, PlanError::Replicas { cores: 65, max: 64 });
    assert_eq!(refused.to_string(), "strategy `scr` on 65 cores: a sequencer serves at most 64 cores");
}

/// Cores that get no packet step those of others all the same.
#[test]
fn fewer_packets_than_cores() {
    let chain = alone("conntrack", "flows = 64");
    for packets in 1..=3 {
        let pcap = Pcap::first_of(&root().join("captures/edge.pcap"), packets);
        for cores in [2, 3, 14] {
            assert_equal(&chain, cores, &(format!("{packets} packets"), pcap.clone()));
        }
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
        let chain = small(chain);
        let (evict, reject) =
            (crowded(chain.clone(), WhenFull::EvictOldest), crowded(chain.clone(), WhenFull::Reject));
        for input in &inputs {
            for cores in CORES {
                for chain in [&chain, &evict, &reject] {
                    assert_equal(chain, cores, input);
                }
            }
        }
    }
}
