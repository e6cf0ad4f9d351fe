//! The way of single packets through a chain: under every strategy as on one core, and without a trace of its own in what
//! comes out.

use std::collections::HashMap;
use std::time::Duration;

use engine::report::{FieldValue, FlowState, TraceReport, TracedFunction};
use engine::strategies::{ALL, RSS, RSSPP, SCR, SCR_TURNS, SHARED, SINGLE, Strategy};
use engine::{Chain, Plan, Progress, Reload, RunOutcome, replay_reloading};
use io::Fate;
use io::filter::{Filter, FilterError};
use nf::hash_bytes;
use paceline_conformance::pcap::{Pcap, first_of};
use paceline_conformance::stock::{ALONE, alone, every_model, examples, small};
use paceline_conformance::{chain, example, root};
use strategy::{Every, Rebalancing};
use wire::Stamp;

/// More than any test has packets.
const ALL_OF_THEM: usize = 50_000;

/// Flows migrate often, where they migrate.
/// On cores that are simulated.
fn plan(chain: &Chain, strategy: &'static dyn Strategy, cores: usize) -> Option<Plan> {
    let plan = Plan::new(chain, strategy, cores).ok()?;
    let often = Rebalancing { every: Every::Packets(97), update_latency_ns: 0 };
    Some(Plan { rebalancing: plan.rebalancing.map(|_| often), simulation: Some(3), ..plan })
}

/// What came out of a run, and what was traced of it, in the order of packets.
struct Ran {
    answers: Vec<(Fate, u64)>,
    /// Flows of each function: live ones, and how they came and went.
    digests: Vec<(u64, u64)>,
    traced: Vec<TraceReport>,
    matched: u64,
    missed: u64,
}

/// A run; with a filter, of which at most so many packets of each core are traced.
fn run(pcap: &Pcap, chain: &Chain, plan: &Plan, reloads: &[Reload], filter: Option<(Filter, usize)>) -> Ran {
    let progress = Progress::default();
    let traces = filter.map(|(filter, limit)| {
        progress.tracing.start(filter, limit, limit * plan.cores).expect("nobody else traces")
    });
    let mut answers = Vec::new();
    let outcome = replay_reloading::<()>(chain, plan, reloads, pcap.open(), &progress, &mut |seen| {
        answers.push((seen.stamp.seq, seen.fate, hash_bytes(seen.bytes, 0)));
        Ok(())
    });
    let outcome = outcome.expect("it runs");
    answers.sort_unstable_by_key(|(seq, ..)| *seq);
    let answers = answers.into_iter().map(|(_, fate, bytes)| (fate, bytes)).collect();
    let (mut traced, mut matched, mut missed) = (Vec::new(), 0, 0);
    if let Some(traces) = traces {
        traced.extend(std::iter::from_fn(|| traces.next(Duration::ZERO)));
        (matched, missed) = (traces.matched(), traces.missed());
    }
    traced.sort_by_key(|traced| traced.stamp.seq);
    let traced = traced.iter().map(TraceReport::new).collect();
    Ran { answers, digests: digests(&outcome), traced, matched, missed }
}

fn digests(outcome: &RunOutcome) -> Vec<(u64, u64)> {
    let of = |function: usize, digest: &dyn Fn(engine::Stage<'_>, Stamp) -> u64| {
        let cores = outcome.whole().iter().map(|(_, core)| digest(core.stage(function), outcome.last));
        cores.fold(0, u64::wrapping_add)
    };
    let both = |function| {
        (of(function, &|stage, now| stage.digest(now)), of(function, &|stage, now| stage.audit(now)))
    };
    let functions = outcome.cores.first().map_or(0, |(_, core)| core.stages().count());
    (0..functions).map(both).collect()
}

fn all() -> Option<(Filter, usize)> {
    Some((Filter::compile("").expect("takes no library"), ALL_OF_THEM))
}

/// Without the core, which differs.
fn anywhere(traced: &[TraceReport]) -> Vec<TraceReport> {
    traced.iter().cloned().map(|traced| TraceReport { core: 0, ..traced }).collect()
}

fn edge_capture() -> Pcap {
    first_of(&root().join("captures/edge.pcap"), 3_000)
}

fn stock() -> Vec<Chain> {
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    alone.chain(examples()).map(small).collect()
}

/// Strategies under which each packet finds the state that it finds on one core.
fn alike() -> impl Iterator<Item = (&'static dyn Strategy, usize)> {
    let private = ALL.into_iter().filter(|strategy| *strategy != SHARED);
    let both = private.flat_map(|strategy| [(strategy, 1), (strategy, 3)]).chain([(SHARED, 1)]);
    both.filter(|(strategy, cores)| *strategy != SINGLE || *cores == 1)
}

#[test]
fn a_trace_leaves_no_trace() {
    let pcap = every_model(150);
    for chain in stock() {
        for (strategy, cores) in [(SINGLE, 1), (RSS, 3), (RSSPP, 3), (SCR, 3), (SHARED, 1)] {
            let Some(plan) = plan(&chain, strategy, cores) else { continue };
            // States that cores share are stepped in no order that a run repeats.
            if cores > 1 && !plan.shared.is_empty() {
                continue;
            }
            let (without, with) =
                (run(&pcap, &chain, &plan, &[], None), run(&pcap, &chain, &plan, &[], all()));
            let name = format!("{} under {} on {cores}", chain.name, strategy.name());
            let first = without.answers.iter().zip(&with.answers).position(|(a, b)| a != b);
            assert_eq!((first, with.answers.len()), (None, without.answers.len()), "{name}");
            assert_eq!(with.digests, without.digests, "{name}: flows and how they left");
            assert_eq!((with.traced.len(), with.missed), (with.answers.len(), 0), "{name}: all traced");
        }
    }
}

#[test]
fn every_strategy_traces_what_one_core_does() {
    let captures =
        [("edge", first_of(&root().join("captures/edge.pcap"), 1_200)), ("models", every_model(100))];
    let mut compared: HashMap<(&str, usize), u64> = HashMap::new();
    for ((label, pcap), chain) in
        captures.iter().flat_map(|capture| stock().into_iter().map(move |chain| (capture, chain)))
    {
        let single = plan(&chain, SINGLE, 1).expect("one core runs all");
        let expected = run(pcap, &chain, &single, &[], all());
        for (strategy, cores) in alike() {
            let Some(plan) = plan(&chain, strategy, cores) else { continue };
            // Where tables fill up, or pools are divided, or states shared, cores do otherwise than one.
            let is_divided = strategy != SCR && strategy != SINGLE;
            let ran = run(pcap, &chain, &plan, &[], all());
            if is_divided && (ran.answers != expected.answers || ran.digests != expected.digests) {
                continue;
            }
            let name = format!("{label}: {} under {} on {cores}", chain.name, strategy.name());
            assert!(ran.answers == expected.answers, "{name}");
            let (one, many) = (anywhere(&expected.traced), anywhere(&ran.traced));
            if let Some(at) = one.iter().zip(&many).position(|(one, many)| one != many) {
                panic!("{name}: on one core\n{}here\n{}", one[at].text(), many[at].text());
            }
            assert_eq!(many.len(), one.len(), "{name}");
            *compared.entry((strategy.name(), cores)).or_default() += 1;
        }
    }
    for (strategy, cores) in alike().filter(|(_, cores)| *cores > 1) {
        let compared = compared.get(&(strategy.name(), cores)).copied().unwrap_or(0);
        assert!(compared > 20, "{compared} compared under {} on {cores}", strategy.name());
    }
}

/// What is wrong with the states of a trace: what a packet finds is what the one before it of its key left, unless that
/// has expired since.
fn wrong_states(traced: &[TraceReport]) -> Option<String> {
    let mut left: HashMap<(&str, &str), (u64, Option<&FlowState>)> = HashMap::new();
    for packet in traced {
        for TracedFunction { function, key, before, after, verdict, .. } in &packet.functions {
            let Some(key) = key.as_deref().filter(|_| verdict != "not-its-business") else { continue };
            if let Some((time_ns, state)) = left.get(&(function.as_str(), key)) {
                let waited = packet.time_ns - time_ns;
                let alive = state.filter(|state| state.expires_in_ns.is_none_or(|expires| expires > waited));
                let (found, was) =
                    (before.as_ref().map(|state| &state.values), alive.map(|state| &state.values));
                if found != was {
                    return Some(format!(
                        "packet {}, {function}: found {found:?}, left {was:?}",
                        packet.packet
                    ));
                }
            } else if before.is_some() {
                return Some(format!(
                    "packet {}, {function}: a state before the first packet",
                    packet.packet
                ));
            }
            left.insert((function, key), (packet.time_ns, after.as_ref()));
        }
    }
    None
}

#[test]
fn a_packet_finds_what_the_one_before_it_left() {
    // Tables have room, and one key's states are stepped under that key alone.
    let chains = ["edge.toml", "acl.toml", "scan.toml", "ddos.toml", "stats-limiter.toml"]
        .map(|name| small(example(name)));
    for chain in chains {
        for (strategy, cores) in alike() {
            let Some(plan) = plan(&chain, strategy, cores) else { continue };
            let ran = run(&edge_capture(), &chain, &plan, &[], all());
            let name = format!("{} under {} on {cores}", chain.name, strategy.name());
            assert_eq!(wrong_states(&ran.traced), None, "{name}");
            // Planted: what is after a step is told as what was before it.
            let mut planted = ran.traced.clone();
            let functions = planted.iter_mut().flat_map(|packet| &mut packet.functions);
            let mut changed =
                functions.filter(|function| function.after.is_some() && function.before != function.after);
            let function = changed.nth(50).expect("many");
            function.before = function.after.clone();
            assert!(wrong_states(&planted).is_some(), "{name}: a state after a step as the one before it");
        }
    }
}

/// The states that a trace shows, counted another way: packets of a key so far.
#[test]
fn states_are_what_packets_add_up_to() {
    let chain = chain("name = \"count\"\n[[function]]\nuse = \"flow-statistics\"\n", &stock::registry());
    let value = |state: &Option<FlowState>, name: &str| -> u64 {
        let field = state.iter().flat_map(|state| &state.values).find(|field| field.name == name);
        match field.and_then(|field| field.value.as_ref()) {
            Some(FieldValue::Number(number)) => *number,
            Some(other) => panic!("{other:?}"),
            None => 0,
        }
    };
    let mut strategies = 0;
    for (strategy, cores) in alike() {
        let Some(plan) = plan(&chain, strategy, cores) else { continue };
        strategies += 1;
        let mut packets: HashMap<String, u64> = HashMap::new();
        for traced in run(&edge_capture(), &chain, &plan, &[], all()).traced {
            let [function] = &traced.functions[..] else { panic!("{traced:?}") };
            let Some(key) = &function.key else { continue };
            let so_far = packets.entry(key.clone()).or_default();
            let (before, after) = (value(&function.before, "packets"), value(&function.after, "packets"));
            assert_eq!((before, after), (*so_far, *so_far + 1), "{} {}", strategy.name(), traced.text());
            *so_far += 1;
        }
        assert!(packets.len() > 50);
    }
    assert!(strategies >= 6, "{strategies} strategies");
}

#[test]
fn fates_and_edits_are_those_of_the_run() {
    let pcap = first_of(&root().join("captures/gateway.pcap"), ALL_OF_THEM);
    let chains = ["gateway.toml", "nat.toml", "edge.toml", "stats-lb.toml"].map(example);
    let (mut dropped, mut edited) = (0, 0);
    for chain in chains {
        let plan = plan(&chain, SINGLE, 1).expect("one core runs all");
        let ran = run(&pcap, &chain, &plan, &[], all());
        for (traced, (fate, _)) in ran.traced.iter().zip(&ran.answers) {
            let text = traced.text();
            match fate {
                Fate::Forward => assert_eq!(traced.fate, "forward", "{text}"),
                Fate::TransmitBack => assert_eq!(traced.fate, "transmit-back", "{text}"),
                Fate::Host => assert_eq!(traced.fate, "host", "{text}"),
                Fate::Drop(_) | Fate::DropBy { .. } => assert_eq!(traced.fate, "drop", "{text}"),
            }
            if let Fate::DropBy { function, reason } = fate {
                let spec = &chain.functions[usize::from(*function)];
                let reason = spec.function.info().about.drop_reasons[usize::from(*reason)];
                let last = traced.functions.last().expect("a function dropped it");
                assert_eq!(
                    (last.function.as_str(), last.reason.as_deref()),
                    (spec.name.as_str(), Some(reason))
                );
                assert_eq!(traced.reason, Some(format!("{}/{reason}", spec.name)));
                dropped += 1;
            }
            edited += traced.functions.iter().map(|function| function.edits.len()).sum::<usize>();
        }
    }
    assert!(dropped > 20 && edited > 20, "{dropped} dropped, {edited} edits");
}

#[test]
fn a_filter_chooses_and_a_limit_bounds() {
    let filter = match Filter::compile("udp port 53") {
        Err(FilterError::NoLibrary { why }) => return eprintln!("skipped: no libpcap: {why}"),
        filter => filter.expect("a filter"),
    };
    let (pcap, chain) = (edge_capture(), small(example("edge.toml")));
    let single =
        run(&pcap, &chain, &plan(&chain, SINGLE, 1).expect("runs"), &[], Some((filter.clone(), ALL_OF_THEM)));
    let is_dns = |traced: &TraceReport| {
        traced.protocol == "udp" && [traced.src_port, traced.dst_port].contains(&Some(53))
    };
    assert!(single.traced.len() > 5 && single.traced.iter().all(is_dns));
    for (strategy, cores) in alike() {
        let Some(plan) = plan(&chain, strategy, cores) else { continue };
        let ran = run(&pcap, &chain, &plan, &[], Some((filter.clone(), 4)));
        assert_eq!(ran.matched, single.matched, "{}: what is not traced is counted", strategy.name());
        let first = |traced: &[TraceReport]| anywhere(&traced[..4]);
        assert_eq!(first(&ran.traced), first(&single.traced), "{}: the first of all", strategy.name());
        assert!(ran.traced.len() <= 4 * cores);
    }
}

#[test]
fn who_reads_slowly_misses_packets_and_stalls_nobody() {
    let (pcap, chain) = (edge_capture(), small(example("edge.toml")));
    let progress = Progress::default();
    let filter = Filter::compile("").expect("takes no library");
    let traces = progress.tracing.start(filter.clone(), ALL_OF_THEM, 10).expect("nobody else traces");
    assert!(progress.tracing.start(filter.clone(), 1, 1).is_err(), "one trace at a time");
    let plan = plan(&chain, RSS, 2).expect("runs");
    let outcome = replay_reloading::<()>(&chain, &plan, &[], pcap.open(), &progress, &mut |_| Ok(()));
    let packets = outcome.expect("it runs").packets;
    let read = std::iter::from_fn(|| traces.next(Duration::ZERO)).count() as u64;
    assert_eq!((read, traces.missed(), traces.matched()), (10, packets - 10, packets));
    drop(traces);
    assert!(progress.tracing.start(filter, 1, 1).is_ok(), "the next one may");
}

#[test]
fn a_trace_goes_on_over_a_reload() {
    let (pcap, chain, next) = (edge_capture(), small(example("edge.toml")), small(example("acl.toml")));
    for (strategy, cores) in [(SINGLE, 1), (RSS, 3), (SCR, 3), (SCR_TURNS, 3)] {
        let plans = (plan(&chain, strategy, cores), plan(&next, strategy, cores));
        let (Some(before), Some(after)) = plans else { continue };
        let reload = Reload { after: 1_000, chain: next.clone(), plan: after };
        let ran = run(&pcap, &chain, &before, &[reload], all());
        assert_eq!(ran.traced.len(), ran.answers.len());
        let names =
            |packet: usize| ran.traced[packet].functions.iter().map(|function| function.function.as_str());
        assert!(names(999).eq(["conntrack", "policer", "heavy-hitters"]), "{:?}", ran.traced[999]);
        assert!(names(1_001).any(|name| name == "access-list"), "{:?}", ran.traced[1_001]);
    }
}
