//! Full tables and empty pools: what they turn away is their own choice, and excuses nothing else. `single` makes the
//! same choice, and has to do all else alike; `verify` and `sweep` say it with one word.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::strategies::{AUTO, DYSSECT, HYBRID, RSS, RSSPP, SCR, SCR_TURNS, SHARED, Strategy};
use engine::{Agreement, Chain, Plan, Progress, RunError, UpTo, Verified, replay_capture, verify};
use nf::{About, Cx, Extras, FiveTuple, FlowKey, NetworkFunction, OptionError, Pooled, Verdict};
use paceline_conformance::chain;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{beginnings, generated, named_examples};
use strategy::{Every, Rebalancing};
use sweep::Outcome;
use table::WhenFull;
use wire::{Fields, Headers};

const PACKETS: u64 = 1_000;

/// More flows than the tables below hold.
fn many_flows() -> Pcap {
    generated("zipf:flows=200,a=1.1,packets=1000,gap-ns=1000000", PACKETS as usize)
}

fn verified(chain: &Chain, strategy: &'static dyn Strategy, cores: usize, pcap: &Pcap) -> Option<Verified> {
    let plan = simulated(chain, strategy, cores, 7)?;
    Some(verify(chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("runs"))
}

/// Flows move every few packets, where the strategy moves any.
fn simulated(chain: &Chain, strategy: &'static dyn Strategy, cores: usize, seed: u64) -> Option<Plan> {
    let plan = Plan::new(chain, strategy, cores).ok()?;
    let moves = plan.rebalancing.is_some();
    let rebalancing = Rebalancing { every: Every::Packets(37), update_latency_ns: 0 };
    let rebalancing = if moves { Some(rebalancing) } else { plan.rebalancing };
    Some(Plan { simulation: Some(seed), rebalancing, ..plan })
}

/// What a sweep calls the comparison.
fn swept(chain: &Chain, verified: Verified) -> Outcome {
    sweep::outcome(chain, &Ok(verified)).expect("it was not stopped")
}

/// Wherever tables are full, all else is compared, and is the same.
#[test]
fn all_but_the_choice_of_a_full_table_is_the_same() {
    let mut captures = beginnings(600);
    captures.push(("zipf".to_owned(), many_flows()));
    let mut told = 0;
    for named in named_examples() {
        for (flows, when_full) in
            [(4, WhenFull::Reject), (4, WhenFull::EvictOldest), (16, WhenFull::EvictOldest)]
        {
            let chain = named.chain.as_ref().clone().with_flows(flows, when_full);
            for strategy in [RSS, RSSPP, DYSSECT] {
                for (name, pcap) in &captures {
                    let Some(verified) = verified(&chain, strategy, 3, pcap) else { continue };
                    let at = format!(
                        "{}, {} of {name}, {flows} flows, {when_full:?}",
                        named.name,
                        strategy.name()
                    );
                    let agreement = verified.agreement();
                    assert!(
                        matches!(agreement, Agreement::Equal | Agreement::EqualUpTo(_)),
                        "{at}: {verified:#?}"
                    );
                    let leaves_out = !verified.allocated.is_empty() || !verified.shared.is_empty();
                    assert_eq!(verified.is_exact(), !leaves_out, "{at}");
                    told += u64::from(verified.is_told && !leaves_out);
                }
            }
        }
    }
    assert!(told > 100, "{told}");
}

/// Where some flows are replicated for a while, and where another strategy takes over every few packets: the place of an
/// eviction is told as it was, whichever core is ahead. In chains with typed history, and in one that needs headers.
#[test]
fn replicas_of_some_flows_evict_where_one_core_is_told_to() {
    let mut captures = beginnings(500);
    captures.push(("zipf".to_owned(), many_flows()));
    let mut told = [0, 0];
    for named in named_examples() {
        for (flows, when_full) in
            [(4, WhenFull::Reject), (4, WhenFull::EvictOldest), (16, WhenFull::EvictOldest)]
        {
            for (strategy, told) in [HYBRID, AUTO].into_iter().zip(&mut told) {
                for seed in 1..=4 {
                    let chain = named.chain.as_ref().clone().with_flows(flows, when_full);
                    let chain = Chain { table_seed: seed, seed, ..chain };
                    let Some(plan) = simulated(&chain, strategy, 2 + seed as usize % 3, seed) else {
                        continue;
                    };
                    for (name, pcap) in &captures {
                        let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default());
                        let verified = verified.expect("runs");
                        let leaves_out = !verified.allocated.is_empty() || !verified.shared.is_empty();
                        assert!(
                            matches!(verified.agreement(), Agreement::Equal | Agreement::EqualUpTo(_))
                                && verified.is_exact() != leaves_out,
                            "{}, {} of {name}, {flows} flows, {when_full:?}, seed {seed}: {verified:#?}",
                            named.name,
                            strategy.name(),
                        );
                        *told += u64::from(verified.is_told);
                    }
                }
            }
        }
    }
    assert!(told.iter().all(|told| *told > 100), "{told:?}");
}

/// What sends packets stops between telling of a packet and sending it: cores that were told end all the same.
#[test]
fn a_run_that_is_stopped_at_any_packet_ends() {
    let pcap = many_flows();
    let chain = chain("[[function]]\nuse = \"heavy-hitters\"\nflows = 10", &stock::registry());
    for strategy in [RSS, RSSPP, DYSSECT, SCR, SCR_TURNS, HYBRID, AUTO] {
        let plan = simulated(&chain, strategy, 3, 7).expect("it is shardable");
        for last in (0..PACKETS).step_by(7) {
            let run = replay_capture(&chain, &plan, pcap.open(), &Progress::default(), &mut |seen| {
                if seen.stamp.seq < last { Ok(()) } else { Err(last) }
            });
            let is_stopped = matches!(run, Err(RunError::Seen(at)) if at == last);
            assert!(is_stopped, "{} at packet {last}: {:?}", strategy.name(), run.err());
        }
    }
}

/// The word names the full table, in a run that is exact all the same.
#[test]
fn a_full_table_is_named_and_excuses_its_choice() {
    let chain = chain("[[function]]\nuse = \"heavy-hitters\"\nflows = 10", &stock::registry());
    let verified = verified(&chain, RSS, 3, &many_flows()).expect("it is shardable");
    assert_eq!(verified.agreement(), Agreement::EqualUpTo(vec![UpTo::FullTables]));
    assert!(verified.is_told && verified.is_exact() && verified.filled == ["heavy-hitters"]);
    let what = UpTo::FullTables.words().to_owned();
    assert_eq!(swept(&chain, verified), Outcome::EqualUpTo { what });
}

/// Sixty hosts and four ports: which of them get one is the choice of the core's share.
#[test]
fn an_empty_pool_is_named_and_excuses_its_choice() {
    let nat = "[[function]]\nuse = \"nat\"\ninside = [\"0.0.0.0/1\"]\nexternal = [\"203.0.113.1\"]\nports = [2000, 2003]\n\
               [[function]]\nuse = \"flow-statistics\"";
    let alone = nat.split("\n[[function]]\nuse = \"flow").next().expect("a beginning");
    let chain = chain(alone, &stock::registry());
    for strategy in [RSS, RSSPP] {
        let verified = verified(&chain, strategy, 3, &many_flows()).expect("it is shardable");
        let up_to = [UpTo::EmptyPools, UpTo::Allocation].to_vec();
        assert_eq!(verified.agreement(), Agreement::EqualUpTo(up_to), "{verified:#?}");
        assert_eq!(verified.exhausted, ["nat"]);
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Drops the third packet of each core, which on one core is another one.
const FORGETS: u8 = 0;
/// Leaves a packet of the second run out of its state, once, on whichever core it is.
const SLIPS: u8 = 1;

/// With room for all flows, and wrong all the same.
struct Faulty<const FAULT: u8> {
    steps: AtomicU64,
}

impl<const FAULT: u8> NetworkFunction for Faulty<FAULT> {
    const ABOUT: About = About { name: "faulty", drop_reasons: &["fault"], ..About::NONE };
    const READS: Fields = Fields::FIVE_TUPLE;
    const EXTRAS: Extras<Self> =
        Extras { pool: Pooled { make: |_| 0, steps_in_order: |_| false, ..Pooled::NONE }, ..Extras::NONE };
    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = u64;
    type Pool = u64;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Faulty { steps: AtomicU64::new(0) })
    }

    fn project(headers: &Headers) -> Option<FiveTuple> {
        Some(FiveTuple::of(headers))
    }

    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, _: &FiveTuple, cx: &mut Cx<'_, u64>) -> Verdict {
        *cx.pool += 1;
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        let slips = FAULT == SLIPS && step == PACKETS + PACKETS / 2;
        *flow = Some(flow.unwrap_or(0) + u64::from(!slips));
        if FAULT == FORGETS && *cx.pool == 3 { Verdict::Drop(0) } else { Verdict::Forward }
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        u64::MAX
    }
}

fn faulty<const FAULT: u8>(full_before: bool, flows: usize) -> Chain {
    let mut registry = stock::registry();
    registry.add::<Faulty<FAULT>>();
    let faulty = format!("[[function]]\nuse = \"faulty\"\nflows = {flows}\n");
    let full = "[[function]]\nuse = \"heavy-hitters\"\nflows = 10\n";
    let toml = if full_before { full.to_owned() + &faulty } else { faulty + full };
    chain(&toml, &registry)
}

fn assert_found(chain: &Chain, strategy: &'static dyn Strategy) {
    let verified = verified(chain, strategy, 3, &many_flows()).expect("it runs");
    let at = format!("{} under {}: {verified:#?}", chain.name, strategy.name());
    assert!(verified.filled.contains(&"heavy-hitters".to_owned()), "{at}");
    assert_eq!(verified.agreement(), Agreement::Different, "{at}");
    assert!(swept(chain, verified).is_finding(), "{at}");
}

/// In a function whose table was never full, before one that was and behind it; and in one whose own table was.
#[test]
fn a_fault_beside_a_full_table_is_found() {
    for (full_before, flows) in [(false, 4_096), (true, 4_096), (false, 10)] {
        assert_found(&faulty::<FORGETS>(full_before, flows), RSS);
    }
}

/// A replica's table is full at the same packet as that of one core.
#[test]
fn full_tables_excuse_nothing_of_replicas() {
    for strategy in [SCR, SCR_TURNS] {
        assert_found(&faulty::<SLIPS>(false, 4_096), strategy);
        let chain = chain("[[function]]\nuse = \"heavy-hitters\"\nflows = 10", &stock::registry());
        let verified = verified(&chain, strategy, 3, &many_flows()).expect("it runs");
        assert_eq!(verified.agreement(), Agreement::Equal, "{verified:#?}");
        assert!(!verified.filled.is_empty() && !verified.is_told);
    }
}

/// What cores share adds up to what one core has that refuses the same flows.
#[test]
fn a_full_table_that_cores_share_excuses_no_total() {
    let toml = "[[function]]\nuse = \"flow-statistics\"\nflows = 10\n[[function]]\nuse = \"source-statistics\"\nflows = 10\n";
    for full in ["reject", "evict-oldest"] {
        let toml = toml.replace("flows = 10\n", &format!("flows = 10\ntable_full = \"{full}\"\n"));
        let chain = chain(&toml, &stock::registry());
        let verified = verified(&chain, SHARED, 3, &many_flows()).expect("any chain");
        assert!(!verified.filled.is_empty(), "{full}");
        let up_to = [UpTo::FullTables, UpTo::Shared].to_vec();
        assert_eq!(verified.agreement(), Agreement::EqualUpTo(up_to), "{full}: {verified:#?}");
        assert!(verified.shared.iter().all(|check| check.excused.is_none()), "{full}: {verified:#?}");
    }
}
