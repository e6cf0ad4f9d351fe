//! Many cores equal one: every function alone and the example chains, over the captures.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::strategies::{RSS, RSSPP, SCR, SHARED, SINGLE};
use engine::{
    Agreement, Beside, Chain, ExternalInput, ExternalPackets, Plan, PlanError, Progress, Recovery, Reload,
    SequencedAs, UpTo, Verified, VerifyError, verify, verify_external, verify_reloading,
};
use etherparse::PacketBuilder;
use io::Fate;
use io::capture::CaptureReader;
use nf::{About, Cx, DstAddr, Extras, FiveTuple, FlowKey, NetworkFunction, OptionError, Pooled, Verdict};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, generated, small};
use paceline_conformance::{Packet, captures, chain, example, faulty, pcap, root, stock_functions};
use table::WhenFull;
use wire::{Fields, Headers};

fn verify_rss(chain: &Chain, capture: &std::path::Path, cores: usize) -> Verified {
    let plan = Plan::new(chain, RSS, cores).expect("shardable");
    verify(chain, &plan, &|| CaptureReader::open(capture), &Progress::default()).expect("runs")
}

fn assert_holds(chain: &Chain, cores: &[usize]) {
    for capture in captures() {
        let mut beside = Beside::default();
        for cores in cores {
            let plan = Plan::new(chain, RSS, *cores).expect("shardable");
            let verified =
                beside.verify(chain, &plan, &|| CaptureReader::open(&capture), &Progress::default());
            let verified = verified.expect("runs");
            assert!(verified.packets > 1_000, "{}", capture.display());
            assert!(verified.filled.is_empty(), "{}: {:?} filled up", chain.name, verified.filled);
            assert!(
                verified.holds(),
                "{} on {cores} cores over {}: {verified:#?}",
                chain.name,
                capture.display()
            );
        }
    }
}

const CORES: [usize; 4] = [1, 2, 3, 8];

macro_rules! alone {
    ($($test:ident: $name:literal, $options:literal;)*) => {$(
        #[test]
        fn $test() {
            let toml = format!("[[function]]\nuse = \"{}\"\n{}", $name, $options);
            assert_holds(&chain(&toml, &stock::registry()), &CORES);
        }
    )*};
}

stock_functions!(alone);

alone! {
    conntrack_without_pick_up: "conntrack", "pick_up = false";
    port_scan_of_services: "port-scan", "count = \"services\"\nudp = true\naction = \"drop\"";
}

#[test]
fn the_edge_chain() {
    assert_holds(&example("edge.toml"), &CORES);
}

#[test]
fn the_chain_of_statistics_and_limiter() {
    assert_holds(&example("stats-limiter.toml"), &CORES);
}

/// With tables of a size that these captures need.
fn smaller(name: &str) -> Chain {
    let text = std::fs::read_to_string(root().join("examples").join(name)).expect("an example");
    let (large, small) = ("flows = 2_097_152", "flows = 65_536");
    assert!(text.contains(large), "{name}");
    chain(&text.replace(large, small), &stock::registry())
}

#[test]
fn the_chains_of_the_benchmarks() {
    assert_holds(&smaller("stats-lb.toml"), &[1, 2, 4, 8]);
    assert_holds(&smaller("stats-lb-limiter.toml"), &[1, 2, 4, 8]);
    let groups = smaller("stats-lb-limiter.toml").groups();
    assert!(groups.len() == 1 && groups[0].len() == 3, "all three share a table");
}

#[test]
fn the_nat_behind_the_scanner_is_equal_up_to_allocation() {
    assert_holds(&example("nat-ids.toml"), &[1, 2, 4, 8]);
}

#[test]
fn turns_are_equal_up_to_allocation() {
    let text = std::fs::read_to_string(root().join("examples/stats-lb.toml")).expect("an example");
    let text = text.replace("2_097_152", "65_536").replace("\"maglev\"", "\"round-robin\"");
    assert_holds(&chain(&text, &stock::registry()), &[1, 2, 4]);
}

#[test]
fn the_access_list_the_firewall_and_the_balancer() {
    assert_holds(&example("acl.toml"), &CORES);
    assert_holds(&example("firewall.toml"), &CORES);
    assert_holds(&example("balance.toml"), &CORES);
    assert_holds(&example("web-service.toml"), &CORES);
}

#[test]
fn chains_by_source_address() {
    assert_holds(&example("ddos.toml"), &CORES);
    assert_holds(&example("knock.toml"), &CORES);
    assert_holds(&example("scan.toml"), &CORES);
}

#[test]
fn every_stock_function_is_verified_alone() {
    let verified = [
        "access-list",
        "conntrack",
        "ddos",
        "destination-policer",
        "firewall",
        "flow-statistics",
        "heavy-hitters",
        "load-balancer",
        "nat", // equal up to the ports that it gives out: `tests/tests/nat.rs`
        "pattern-scanner",
        "policer",
        "port-knock",
        "port-scan",
        "rate-limiter",
        "source-statistics",
        "synthetic",
    ];
    let mut stock: Vec<_> = stock::registry().functions().map(|info| info.about.name).collect();
    stock.sort();
    assert_eq!(stock, verified, "add the new function above");
}

#[test]
fn the_perimeter_chain_is_refused_with_the_reason() {
    let chain = example("perimeter.toml");
    assert!(Plan::new(&chain, SINGLE, 1).is_ok());
    let error = Plan::new(&chain, RSS, 2).expect_err("keys by connection and by source");
    assert!(matches!(error, PlanError::Conflict { .. }));
    let message = error.to_string();
    for part in ["`conntrack`", "source address", "--strategy scr", "--strategy single"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn one_core_for_single() {
    let chain = example("edge.toml");
    assert_eq!(Plan::new(&chain, SINGLE, 2).expect_err("two"), PlanError::SingleCore { cores: 2 });
    for cores in [0, 129] {
        assert_eq!(Plan::new(&chain, RSS, cores).expect_err("bad"), PlanError::Cores { cores });
    }
}

/// A packet counter that can be told to go wrong from its second run on.
struct Faulty<const FAULT: u8>;

/// Verdicts differ; state differs where verdicts do not; edits differ.
const FORGETS_VERDICT: u8 = 0;
const FORGETS_STATE: u8 = 1;
const FORGETS_EDIT: u8 = 2;
/// As FORGETS_STATE, in a flow that has ended by the time that the run does.
const FORGETS_STATE_OF_THE_DEAD: u8 = 3;
/// Drops for another reason.
const MISTAKES_REASON: u8 = 4;

/// As FORGETS_VERDICT, in a comparison that is stopped.
const IS_STOPPED: u8 = 5;

/// Counts an event that it should not.
const MISCOUNTS: u8 = 6;

/// Faults show with the 500th IP packet, which is this one of the capture, from 1.
const NUMBER_OF_THE_500TH: u64 = 504;

/// As FORGETS_VERDICT, with an input that is shorter when the packet is to be explained.
const IS_CUT: u8 = 7;
/// As FORGETS_STATE, in the first of several replicas.
const FORGETS_STATE_OF_A_REPLICA: u8 = 8;
/// As FORGETS_VERDICT, over packets that come with their history.
const FORGETS_VERDICT_OUTSIDE: u8 = 9;
/// Drops the first packet that is not IP.
const DROPS_NO_IP: u8 = 10;

/// Cores of all runs so far, for each fault: those of the first run are well.
static POOLS_MADE: [AtomicU64; 11] = [const { AtomicU64::new(0) }; 11];

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl<const FAULT: u8> NetworkFunction for Faulty<FAULT> {
    const ABOUT: About =
        About { name: "faulty", drop_reasons: &["one", "other"], events: &["hits"], ..About::NONE };
    const READS: Fields = Fields::FIVE_TUPLE.union(Fields::MARKS);
    const EDITS: Fields = Fields::TTL;
    const EXTRAS: Extras<Self> = Extras { pool: Pooled { make: Self::pool, ..Pooled::NONE }, ..Extras::NONE };
    type Key = FiveTuple;
    type Meta = FiveTuple;
    type State = u64;
    /// Whether this core is of a later run, and packets so far.
    type Pool = (bool, u64);
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Faulty)
    }

    fn project(headers: &Headers) -> Option<FiveTuple> {
        (headers.is_ip() || FAULT == DROPS_NO_IP).then(|| FiveTuple::of(headers))
    }

    fn key(meta: &FiveTuple) -> FiveTuple {
        *meta
    }

    fn step(&self, flow: &mut Option<u64>, meta: &FiveTuple, cx: &mut Cx<'_, (bool, u64)>) -> Verdict {
        let (is_faulty, packets) = &mut *cx.pool;
        *packets += u64::from(FAULT != DROPS_NO_IP || meta.src == wire::Addr::default());
        let is_hit = *is_faulty && *packets == if FAULT == DROPS_NO_IP { 1 } else { 500 };
        let seen = flow.get_or_insert(0);
        let forgets_state =
            matches!(FAULT, FORGETS_STATE | FORGETS_STATE_OF_THE_DEAD | FORGETS_STATE_OF_A_REPLICA);
        if !(is_hit && forgets_state) {
            *seen += 1;
        }
        if !(is_hit && FAULT == FORGETS_EDIT) {
            cx.edits.set_ttl(7);
        }
        if is_hit && FAULT == MISCOUNTS {
            cx.count(0);
        }
        match FAULT {
            FORGETS_VERDICT | IS_STOPPED | IS_CUT | FORGETS_VERDICT_OUTSIDE | DROPS_NO_IP if is_hit => {
                Verdict::Drop(0)
            }
            MISTAKES_REASON => Verdict::Drop(u8::from(is_hit)),
            _ => Verdict::Forward,
        }
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        if FAULT == FORGETS_STATE_OF_THE_DEAD { 1 } else { u64::MAX }
    }
}

impl<const FAULT: u8> Faulty<FAULT> {
    fn pool(&self) -> (bool, u64) {
        (POOLS_MADE[usize::from(FAULT)].fetch_add(1, Ordering::Relaxed) == 1, 0)
    }
}

fn faulty_chain<const FAULT: u8>() -> Chain {
    let mut registry = stock::registry();
    registry.add::<Faulty<FAULT>>();
    chain("[[function]]\nuse = \"faulty\"", &registry)
}

fn verify_faulty<const FAULT: u8>() -> Verified {
    // One core, so that exactly one pool of the second run is made second.
    verify_rss(&faulty_chain::<FAULT>(), &root().join("captures/edge.pcap"), 1)
}

#[test]
fn a_state_that_is_not_updated_is_found_though_no_verdict_shows_it() {
    let verified = verify_faulty::<FORGETS_STATE>();
    assert_eq!(verified.different, 0, "no answer differs");
    assert!(!verified.holds());
    let (_, single, other) = verified.digests[0];
    assert_ne!(single, other);
}

#[test]
fn a_state_that_drifted_is_found_though_its_flow_is_gone() {
    let verified = verify_faulty::<FORGETS_STATE_OF_THE_DEAD>();
    assert_eq!(verified.different, 0, "no answer differs");
    assert!(!verified.holds());
}

/// That cores have pools of their own excuses the events that the function names as depending on them, and no other.
#[test]
fn an_event_that_is_counted_too_often_is_found() {
    let verified = verify_faulty::<MISCOUNTS>();
    assert_eq!((verified.different, verified.allocation_events.len()), (0, 0));
    assert!(!verified.is_same());
}

#[test]
fn another_reason_to_drop_is_another_answer() {
    let verified = verify_faulty::<MISTAKES_REASON>();
    assert_eq!(verified.different, 1);
    let first = verified.first.expect("one differs");
    let dropped = |reason| Fate::DropBy { function: 0, reason };
    assert_eq!((first.single.fate, first.other.fate), (dropped(0), dropped(1)));
}

/// Replicas are compared one by one: that another is right excuses none.
#[test]
fn a_replica_that_drifted_is_found_beside_others_that_did_not() {
    let chain = faulty_chain::<FORGETS_STATE_OF_A_REPLICA>();
    let plan = Plan::new(&chain, SCR, 3).expect("replicable");
    let open = || CaptureReader::open(root().join("captures/edge.pcap"));
    let verified = verify(&chain, &plan, &open, &Progress::default()).expect("runs");
    assert!(verified.different == 0 && !verified.is_same(), "{verified:#?}");
}

/// What turns flows away on many cores `single` turns away as well, so that all else is compared; and where another chain took
/// over, the table of the one before is named.
#[test]
fn a_table_that_filled_up_is_named() {
    let open = || CaptureReader::open(root().join("captures/edge.pcap"));
    for when_full in [WhenFull::Reject, WhenFull::EvictOldest] {
        let small = chain("[[function]]\nuse = \"heavy-hitters\"", &stock::registry());
        let small = small.with_flows(10, when_full);
        let verified = verify_rss(&small, &root().join("captures/edge.pcap"), 3);
        assert_eq!(verified.filled, ["heavy-hitters"]);
        assert_eq!(verified.agreement(), Agreement::EqualUpTo(vec![UpTo::FullTables]), "{verified:#?}");

        let large = chain("[[function]]\nuse = \"flow-statistics\"", &stock::registry());
        let plan = |chain| Plan::new(chain, RSS, 3).expect("shardable");
        let reload = Reload { after: 1_500, chain: large.clone(), plan: plan(&large) };
        let verified = verify_reloading(&small, &plan(&small), &[reload], &open, &Progress::default());
        let verified = verified.expect("runs");
        assert!(verified.filled == ["heavy-hitters"] && verified.holds(), "{verified:#?}");
    }
}

/// Cores share its states, and some of its packets are lost: what cores count does not add up. A table that was full may have
/// lost them as well, which excuses it, and is named.
#[test]
fn a_shared_count_that_is_lost_is_found_unless_its_table_was_full() {
    type Lost = faulty::Faulty<DstAddr, { faulty::LOSES_A_COUNT }>;
    let mut registry = stock::registry();
    registry.add::<Lost>();
    let (lossy, well) =
        ("[[function]]\nuse = \"faulty-shared\"\n", "[[function]]\nuse = \"flow-statistics\"\n");
    let checked = |functions: &str, flows: Option<usize>| {
        let chain = chain(functions, &registry);
        let chain =
            flows.into_iter().fold(chain, |chain, flows| chain.with_flows(flows, WhenFull::EvictOldest));
        let plan = Plan::new(&chain, SHARED, 3).expect("any chain can be shared");
        let open = || CaptureReader::open(root().join("captures/edge.pcap"));
        let verified = verify(&chain, &plan, &open, &Progress::default()).expect("runs");
        let [check] = &verified.shared[..] else { panic!("one function: {verified:#?}") };
        println!("{flows:?} flows: {check:?}");
        assert_eq!(verified.has_compared(), check.promise.is_some());
        (check.failure.is_some(), check.excused.is_some(), verified.is_same())
    };
    assert_eq!(checked(lossy, None), (true, false, false));
    assert_eq!(checked(lossy, Some(2)), (false, true, true));
    assert_eq!(checked(well, None), (false, false, true));
}

/// The input is read anew for each run.
#[test]
fn an_input_that_changes_between_runs_is_an_error() {
    let first = |most| pcap::first_of(&root().join("captures/edge.pcap"), most);
    let (whole, cut) = (first(600), first(450));
    let changing = |chain: &Chain, whole_times: u64| {
        let opened = AtomicU64::new(0);
        let open = || match opened.fetch_add(1, Ordering::Relaxed) < whole_times {
            true => Ok(whole.open()),
            false => Ok(cut.open()),
        };
        let plan = Plan::new(chain, RSS, 1).expect("shardable");
        match verify(chain, &plan, &open, &Progress::default()) {
            Err(VerifyError::Packets { strategy, single, other }) => (strategy, single, other),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(changing(&example("stats-limiter.toml"), 1), ("rss", 600, 450));
    // Where a packet differed that is not there when it is to be explained.
    let number = NUMBER_OF_THE_500TH;
    assert_eq!(changing(&faulty_chain::<IS_CUT>(), 2), ("the same again", number, number - 1));
}

/// What is not IP has no flow.
#[test]
fn a_difference_in_what_is_not_ip_is_found_and_has_no_flow() {
    let verified = verify_faulty::<DROPS_NO_IP>();
    assert_eq!(verified.different, 1);
    let first = verified.first.expect("one differs");
    assert_eq!((first.flow, first.other.fate), (None, Fate::DropBy { function: 0, reason: 0 }));
}

/// Here the one core is the second run. Behind it the packet's flow is read from what came with its history.
#[test]
fn a_wrong_verdict_over_packets_with_history_is_found_and_named() {
    let chain = faulty_chain::<FORGETS_VERDICT_OUTSIDE>();
    let plan = Plan::new(&chain, SCR, 1).expect("replicable");
    let edge = || CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture");
    let open = || {
        let packets = ExternalPackets::Capture(edge().into(), SequencedAs::Newest);
        Ok(ExternalInput { packets, speed: None, loss: None, recovery: Recovery::On })
    };
    let verified = verify_external(&chain, &plan, &open, &Progress::default()).expect("runs");
    assert_eq!((verified.different, verified.stopped), (1, false));
    let first = verified.first.expect("one differs");
    assert_eq!(first.number, NUMBER_OF_THE_500TH);
    assert_eq!(
        (first.single.fate, first.other.fate),
        (Fate::DropBy { function: 0, reason: 0 }, Fate::Forward)
    );
    // The flow that the same packet has in the capture.
    let mut reader = edge();
    let mut flow = None;
    for _ in 0..NUMBER_OF_THE_500TH {
        let record = reader.next().expect("whole").expect("there is one");
        flow = Some(FiveTuple::of(&wire::parse(record.link, record.data, record.wire_len)));
    }
    assert!(flow.is_some() && first.flow == flow, "{:?}", first.flow);
}

/// A SYN of each of these hosts of the inside, with its port, to the same server.
fn syns(endpoints: &[(u8, u16)]) -> Pcap {
    let packet = |(number, (host, port)): (usize, &(u8, u16))| {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, *host], [198, 51, 100, 1], 64)
            .tcp(*port, 443, 1, 8_192)
            .syn();
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &[]).expect("writing to memory");
        Packet { time_ns: 1_000_000 * number as u64, bytes }
    };
    pcap::of(&endpoints.iter().enumerate().map(packet).collect::<Vec<_>>())
}

/// Each entry of the indirection table has a share of the ports, and some have none of the parity that a host asks for: the
/// mapping gets one of the other, and that is counted. Which ports there are is up to the strategy, so it is no
/// difference, and it is named.
#[test]
fn a_port_of_the_other_parity_is_no_difference_and_is_named() {
    // Hosts one by one, who meet shares without a port of their parity, and many at once, who use one up.
    let one_by_one = (1..=60).map(|host| vec![(host, 58_473)]).collect();
    let at_once = vec![(0..60).map(|i| (1 + i % 10, 32_768 + 2 * u16::from(i / 10))).collect()];
    let cases: [(_, _, Vec<_>); 2] =
        [("[40000, 40011]", "in-turn", one_by_one), ("[50000, 50999]", "random", at_once)];
    for (ports, choice, runs) in cases {
        let nat = format!(
            "[[function]]\nuse = \"nat\"\nexternal = [\"203.0.113.1\"]\nports = {ports}\nport_choice = \"{choice}\"\n"
        );
        let chain = chain(&nat, &stock::registry());
        let verified = |strategy, endpoints: &[(u8, u16)]| {
            let (pcap, plan) = (syns(endpoints), Plan::new(&chain, strategy, 4).expect("it runs"));
            verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("it runs")
        };
        let mut named = 0;
        for endpoints in &runs {
            let verified = verified(RSSPP, endpoints);
            // A share without any port drops, and then the pool is named as an empty one.
            assert!(verified.holds() || verified.exhausted == ["nat"], "{choice}: {verified:#?}");
            for event in &verified.allocation_events {
                let is_it = (&*event.function, event.event, event.single) == ("nat", "parity-lost", 0);
                assert!(is_it && event.other > 0, "{choice}: {event:?}");
                named += usize::from(verified.holds());
            }
        }
        assert!(named > 0, "{choice}: each share had a port of the parity");
        // Each replica gives out what one core does, so that all is compared.
        let replicas = verified(SCR, &runs.concat());
        assert!(replicas.holds() && replicas.allocation_events.is_empty(), "{choice}: {replicas:#?}");
    }
}

/// Cores take turns of their own, so a backend has other flows than on one core; when it is gone, other ones move, and maybe
/// more.
#[test]
fn flows_that_leave_a_backend_are_as_many_as_turns_gave_it() {
    let balancer = |backends: &str| {
        let toml = format!(
            "[[function]]\nuse = \"load-balancer\"\npolicy = \"round-robin\"\n[[function.services]]\nvip = \"198.51.100.1\"\nport = 443\nprotocol = \"tcp\"\nbackends = [{backends}]\n"
        );
        chain(&toml, &stock::registry())
    };
    let before =
        balancer("{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }, { address = \"10.9.0.3\" }");
    let after = balancer("{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }");
    let mut uneven = 0;
    for hosts in 3..12 {
        let once: Vec<(u8, u16)> = (1..=hosts).map(|host| (host, 32_768)).collect();
        let pcap = syns(&[&once[..], &once].concat());
        let plan = |chain| Plan::new(chain, RSS, 3).expect("it runs");
        let reload = Reload { after: u64::from(hosts), chain: after.clone(), plan: plan(&after) };
        let open = || Ok(pcap.open());
        let verified = verify_reloading(&before, &plan(&before), &[reload], &open, &Progress::default());
        let verified = verified.expect("it runs");
        assert!(verified.holds(), "{hosts}: {verified:#?}");
        uneven += verified.allocation_events.len();
    }
    assert!(uneven > 0, "turns were as on one core");
}

/// And again where it is compared in other header fields, or where cores share states and it follows the other run.
#[test]
fn single_runs_once_for_all_plans_of_which_the_same_is_promised() {
    let options = ALONE.iter().find(|(name, _)| *name == "nat").expect("a stock function").1;
    let chain = small(alone("nat", options));
    let pcap = generated("zipf:flows=200,a=1.1,packets=3000,gap-ns=1000000", 3_000);
    let (mut beside, opened) = (Beside::default(), AtomicU64::new(0));
    let open = || {
        opened.fetch_add(1, Ordering::Relaxed);
        Ok(pcap.open())
    };
    // A judge of a run opens the input once more.
    let plans =
        [(RSS, 2, 4), (RSS, 3, 2), (SCR, 2, 4), (SCR, 3, 2), (SHARED, 2, 2), (SCR, 4, 2), (RSS, 4, 4)];
    for (strategy, cores, runs) in plans {
        let plan = Plan::new(&chain, strategy, cores).expect("it runs");
        let verified = beside.verify(&chain, &plan, &open, &Progress::default()).expect("it runs");
        assert!(verified.different == 0, "{} on {cores}: {verified:#?}", strategy.name());
        // A NAT promises nothing of ports that cores share.
        assert_eq!(verified.holds(), plan.shared.is_empty(), "{} on {cores}", strategy.name());
        assert_eq!(
            (verified.packets, opened.swap(0, Ordering::Relaxed)),
            (3_000, runs),
            "{}",
            strategy.name()
        );
    }
}

#[test]
fn nothing_is_proved_by_runs_that_were_stopped_or_cut_short() {
    let chain = example("edge.toml");
    let capture = root().join("captures/edge.pcap");
    let plan = Plan::new(&chain, RSS, 2).expect("shardable");
    let progress = Progress::default();
    progress.stop.store(true, Ordering::Relaxed);
    let verified = verify(&chain, &plan, &|| CaptureReader::open(&capture), &progress).expect("runs");
    assert!(verified.stopped && !verified.holds() && verified.digests.is_empty(), "{verified:?}");

    let whole = std::fs::read(&capture).expect("the capture");
    let cut = &whole[..whole.len() - 1];
    let verified =
        verify(&chain, &plan, &|| CaptureReader::from_bytes(cut), &Progress::default()).expect("runs");
    assert!(verified.input_error.is_some() && !verified.holds());
    assert_eq!(verified.different, 0);
}

/// Stopped before the first run there is no second one; stopped while a difference is explained, which takes as long
/// as a run again, there is no explanation.
#[test]
fn no_run_begins_after_a_stop() {
    let mut registry = stock::registry();
    registry.add::<Faulty<IS_STOPPED>>();
    let chain = chain("[[function]]\nuse = \"faulty\"", &registry);
    let plan = Plan::new(&chain, RSS, 1).expect("shardable");
    for (at_opening, openings) in [(3, 3), (1, 1)] {
        let (progress, opened) = (Progress::default(), AtomicU64::new(0));
        let open = || {
            if opened.fetch_add(1, Ordering::Relaxed) + 1 == at_opening {
                progress.stop.store(true, Ordering::Relaxed);
            }
            CaptureReader::open(root().join("captures/edge.pcap"))
        };
        let verified = verify(&chain, &plan, &open, &progress).expect("runs");
        assert!(verified.stopped && verified.first.is_none() && !verified.holds(), "{verified:?}");
        assert_eq!(opened.load(Ordering::Relaxed), openings);
    }
}

#[test]
fn a_wrong_verdict_is_found_and_named() {
    let verified = verify_faulty::<FORGETS_VERDICT>();
    assert!(!verified.holds());
    assert_eq!(verified.different, 1);
    let first = verified.first.expect("one differs");
    assert!(first.flow.is_some() && first.number == NUMBER_OF_THE_500TH, "{first:?}");
    assert_eq!(
        (first.single.fate, first.other.fate),
        (Fate::Forward, Fate::DropBy { function: 0, reason: 0 })
    );
}

#[test]
fn a_missing_edit_is_found() {
    let verified = verify_faulty::<FORGETS_EDIT>();
    assert_eq!(verified.different, 1);
    let first = verified.first.expect("one differs");
    assert_eq!((first.single.fate, first.number), (first.other.fate, NUMBER_OF_THE_500TH));
    assert_ne!(first.single.bytes, first.other.bytes);
    assert!(verified.digests.iter().all(|(_, single, other)| single == other));
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Faulty<0>>();
}
