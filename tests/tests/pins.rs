//! Entries and shards that an operator puts on a core by hand: their flows go with them, and no answer changes.

use engine::strategies::{DYSSECT, RSSPP, Strategy};
use engine::{Chain, Plan, Progress, replay_capture, verify};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, examples, generated, small};
use strategy::{Every, Rebalancing};

const CORES: usize = 3;
const BY_HAND: [&dyn Strategy; 2] = [RSSPP, DYSSECT];
/// The last core, to which all goes.
const LAST: u16 = CORES as u16 - 1;

fn plan(chain: &Chain, strategy: &'static dyn Strategy, every: Every) -> Option<Plan> {
    let plan = Plan::new(chain, strategy, CORES).ok()?;
    Some(Plan { rebalancing: Some(Rebalancing { every, update_latency_ns: 0 }), ..plan })
}

fn units(plan: &Plan) -> u16 {
    plan.shards.map_or(plan.indirection_entries, |shards| shards.count()) as u16
}

fn input() -> Pcap {
    generated("zipf:flows=400,a=1.0,packets=4000,gap-ns=100000,seed=7", 4_000)
}

fn stock() -> impl Iterator<Item = Chain> {
    ALONE.iter().map(|(name, options)| alone(name, options)).chain(examples()).map(small)
}

/// A third of all is pinned, a third goes once, the rest goes as loads, or chance, ask for.
#[test]
fn what_is_put_by_hand_changes_no_answer() {
    let pcap = input();
    let mut compared = [0; BY_HAND.len()];
    for chain in stock() {
        for (strategy, compared) in BY_HAND.into_iter().zip(&mut compared) {
            for every in [Every::Period(5_000_000), Every::Packets(97)] {
                let Some(plan) = plan(&chain, strategy, every) else { continue };
                for entry in 0..units(&plan) {
                    match entry % 3 {
                        0 => assert!(plan.pins.pin(entry, (entry / 3) % CORES as u16)),
                        1 => assert!(plan.pins.move_once(entry, (entry / 3 + 1) % CORES as u16)),
                        _ => (),
                    }
                }
                let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default());
                let verified = verified.expect("it is compared");
                let at = format!("{} under {}: {verified:#?}", chain.name, strategy.name());
                // Nothing is full, so nothing is excused.
                assert!(verified.filled.is_empty() && verified.exhausted.is_empty(), "{at}");
                assert!(verified.holds(), "{at}");
                assert!(verified.moves.entries_in > 0, "{at}");
                *compared += 1;
            }
        }
    }
    assert!(compared.iter().all(|compared| *compared > 30), "{compared:?}");
}

/// All is pinned to the last core, whatever the loads: under `rsspp` it has all packets but those of the first
/// period, and what it says of itself is so.
#[test]
fn all_that_is_pinned_stays_there() {
    let chain = small(alone("conntrack", ""));
    let pcap = input();
    for strategy in BY_HAND {
        let plan = plan(&chain, strategy, Every::Period(10_000_000)).expect("it runs");
        (0..units(&plan)).for_each(|entry| assert!(plan.pins.pin(entry, LAST)));
        let outcome = replay_capture::<()>(&chain, &plan, pcap.open(), &Progress::default(), &mut |_| Ok(()));
        let packets: Vec<u64> =
            outcome.expect("it runs").cores.iter().map(|(core, _)| core.packets).collect();
        let told = plan.account.told();
        assert!(told.places.iter().all(|place| place.core == LAST), "{told:#?}");
        let first = told.last_change.expect("it changed");
        assert_eq!(first.why, "loads", "{}", strategy.name());
        // Each third one is there from the beginning.
        assert_eq!(told.moves, (0..units(&plan)).filter(|entry| entry % CORES as u16 != LAST).count() as u64);
        // 100 packets are a period; 4,000 are all. A core that has all shards has others step parts of them.
        if strategy == RSSPP {
            assert!(packets[0] + packets[1] <= 110, "{packets:?}");
            assert_eq!(first.loads_after[..2], [0, 0], "{first:?}");
        } else {
            assert!(told.offloaders[usize::from(LAST)].is_some() && packets[2] > packets[1], "{packets:?}");
        }
        assert!(told.looks > 30, "{}", told.looks);
    }
}
