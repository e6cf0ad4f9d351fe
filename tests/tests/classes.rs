//! Classes of traffic under `dyssect`: answers are `single`'s, no flow is in two classes, and no packet with priority is stepped by
//! another core than its worker, which a strategy that watches cores finds out by looking into packets itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::strategies::{DYSSECT, Layout, Strategy, StrategyInfo, Team};
use engine::{
    Batch, Chain, ChainCore, Classes, Intake, IntakeCounters, IntakeEnd, Plan, PlanError, Progress, Reload,
    verify, verify_reloading,
};
use io::{Port, Received};
use paceline_conformance::chain;
use paceline_conformance::migration::{
    PACKETS, WAYS, assert_no_trace, inputs, shardable_examples, verify_forced, verify_tiny_tables,
};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{ALONE, alone, generated, small};
use strategy::{Assign, Every, Rebalancing};
use sweep::Compared;
use wire::{Addr, Headers, Stamp};

/// Some of the hosts and the services of the captures and models. The first class takes from the second.
const CLASSES: &str = r#"
[[class]]
priority = "low"
prefixes = ["10.0.0.0/30", "192.0.2.0/28"]

[[class]]
priority = "high"
prefixes = ["10.0.0.0/9", "172.16.0.0/12", "192.0.2.0/25", "198.51.100.0/25", "2001:db8::/34"]
"#;

/// Classes by ports, where no address is hashed.
const BY_PORT: &str = "[[class]]\npriority = \"high\"\nports = [53, 80, 5201]\n";

fn classes(toml: &str) -> Classes {
    chain(&format!("{toml}\n[[function]]\nuse = \"conntrack\"\n"), &stock::registry()).classes
}

/// A chain with classes that it can have.
fn classed(mut chain: Chain) -> Chain {
    chain.classes = classes(CLASSES);
    if let Err(PlanError::Classes { .. }) = Plan::new(&small(chain.clone()), DYSSECT, 2) {
        chain.classes = classes(BY_PORT);
    }
    chain
}

fn all() -> impl Iterator<Item = Chain> {
    let alone = ALONE.iter().map(|(name, options)| alone(name, options));
    alone.chain(shardable_examples(DYSSECT)).map(classed)
}

#[test]
fn stock_functions_and_examples_equal_one_core() {
    let inputs = inputs(PACKETS / 2);
    for chain in all() {
        verify_forced(DYSSECT, &chain, &inputs, &WAYS, |compared| {
            assert_no_trace(compared);
        });
    }
}

#[test]
fn tiny_tables_under_both_policies() {
    let check = |compared: &Compared<'_>| assert_eq!(compared.verified.out_of_order, Some(0), "{compared}");
    verify_tiny_tables(DYSSECT, classed, check, |moves| moves.waited_packets > 0);
}

/// Whichever direction a packet goes: what a tracker keeps is in one bucket, and so in one class.
#[test]
fn a_flow_is_in_one_class_in_both_directions() {
    let chain = classed(alone("conntrack", ""));
    let assign = Plan::new(&chain, DYSSECT, 2).expect("a plan").assign(&chain);
    let (mut entries, half) = (0, 512);
    let mut high = 0;
    for (name, pcap) in inputs(PACKETS) {
        for number in 0..pcap.packets() {
            let there = headers(&chain, &pcap, number);
            let (src, dst) = ((there.src, there.src_port), (there.dst, there.dst_port));
            let back = Headers { src: dst.0, src_port: dst.1, dst: src.0, dst_port: src.1, ..there };
            assert_eq!(assign.entry(&there), assign.entry(&back), "packet {number} of {name}");
            assert_eq!(assign.entry(&there) >= half, has_priority(&there), "packet {number} of {name}");
            entries += 1;
            high += u64::from(has_priority(&there));
        }
    }
    assert!(high > entries / 10 && high < entries * 9 / 10, "{high} of {entries} have priority");
}

fn headers(chain: &Chain, pcap: &Pcap, number: usize) -> Headers {
    let record = pcap.record(number);
    chain.headers(record.link, record.data, record.wire_len)
}

/// [`CLASSES`], without the engine's code: either end decides.
fn has_priority(headers: &Headers) -> bool {
    let any = |is: &dyn Fn([u8; 4]) -> bool, v6: bool| {
        [headers.src, headers.dst].into_iter().any(|Addr(bytes)| match Addr(bytes).to_v4() {
            Some(v4) => is(v4),
            None => v6 && bytes[..4] == [0x20, 0x01, 0x0d, 0xb8] && bytes[4] < 0x40,
        })
    };
    let low =
        any(&|v4| (v4[..3] == [10, 0, 0] && v4[3] < 4) || (v4[..3] == [192, 0, 2] && v4[3] < 16), false);
    let high = any(
        &|v4| match v4 {
            [10, second, ..] => second < 128,
            [172, second, ..] => second & 0xf0 == 16,
            [192, 0, 2, last] | [198, 51, 100, last] => last < 128,
            _ => false,
        },
        true,
    );
    high && !low
}

/// Looks at what each core of `dyssect` steps.
struct Watching {
    /// What is done wrong: the classes are forgotten.
    is_faulty: bool,
    seen: Arc<Seen>,
}

/// Packets that an offloader stepped: all, and those with priority.
#[derive(Default)]
struct Seen {
    offloaded: AtomicU64,
    with_priority: AtomicU64,
}

impl Watching {
    fn chain(&self, chain: &Chain) -> Chain {
        let classes = if self.is_faulty { Classes::default() } else { chain.classes.clone() };
        Chain { classes, ..chain.clone() }
    }
}

impl Strategy for Watching {
    fn info(&self) -> &'static StrategyInfo {
        static INFO: StrategyInfo = StrategyInfo::new("watching", "dyssect, watched");
        &INFO
    }

    fn layout(&self, chain: &Chain, cores: usize) -> Result<Layout, PlanError> {
        DYSSECT.layout(chain, cores)
    }

    fn assign(&self, chain: &Chain, plan: &Plan) -> Box<dyn Assign> {
        DYSSECT.assign(&self.chain(chain), plan)
    }

    fn owners(&self, plan: &Plan) -> Option<Vec<u16>> {
        DYSSECT.owners(plan)
    }

    fn bring_home(&self, plan: &Plan, cores: &mut [ChainCore], last: Stamp) {
        DYSSECT.bring_home(plan, cores, last);
    }

    fn team(&self, chain: &Chain, plan: &Plan) -> Team {
        let Team { dispatcher, intakes } = DYSSECT.team(&self.chain(chain), plan);
        let watched = |inner: Box<dyn Intake>| -> Box<dyn Intake> {
            Box::new(Watched { inner, chain: chain.clone(), seen: Arc::clone(&self.seen) })
        };
        Team { dispatcher, intakes: intakes.into_iter().map(watched).collect() }
    }
}

struct Watched {
    inner: Box<dyn Intake>,
    chain: Chain,
    seen: Arc<Seen>,
}

impl Intake for Watched {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let offloaded = |counters: IntakeCounters| counters.moves.own.of("offloaded_packets");
        let before = offloaded(self.inner.counters());
        let received = self.inner.receive(port, chain, batch);
        let taken = offloaded(self.inner.counters()) - before;
        if taken > 0 {
            // A batch has packets of one worker.
            assert_eq!(taken, batch.frames.len() as u64);
            for frame in &batch.frames {
                let headers = self.chain.headers(frame.link, port.bytes(frame), frame.wire_len);
                self.seen.with_priority.fetch_add(u64::from(has_priority(&headers)), Ordering::Relaxed);
            }
            self.seen.offloaded.fetch_add(taken, Ordering::Relaxed);
        }
        received
    }

    fn counters(&self) -> IntakeCounters {
        self.inner.counters()
    }

    fn is_busy(&self) -> bool {
        self.inner.is_busy()
    }

    fn finish(&mut self) -> IntakeEnd {
        self.inner.finish()
    }
}

/// Packets that offloaders stepped, and those of them with priority.
fn watch(is_faulty: bool, every: Every) -> (u64, u64) {
    let seen = Arc::<Seen>::default();
    let strategy: &'static Watching = Box::leak(Box::new(Watching { is_faulty, seen: Arc::clone(&seen) }));
    let chain = classed(small(alone("conntrack", "")));
    let plan = Plan::new(&chain, strategy, 3).expect("a plan");
    let plan = Plan { rebalancing: Some(Rebalancing { every, update_latency_ns: 0 }), ..plan };
    let model = "zipf:flows=400,a=1.2,packets=40000,gap-ns=20000,seed=5";
    let pcap = generated(model, 40_000);
    let verified = verify(&chain, &plan, &|| Ok(pcap.open()), &Progress::default()).expect("it runs");
    // A flow is in one part with all its packets, whatever its class: answers do not tell.
    assert!(verified.holds(), "{verified:#?}");
    let told = plan.account.told().priority;
    assert_eq!(told.is_none(), is_faulty);
    if let Some(told) = told {
        let high = (0..pcap.packets()).filter(|number| has_priority(&headers(&chain, &pcap, *number)));
        assert_eq!((told.packets, told.with_priority), (40_000, high.count() as u64), "{told:?}");
    }
    (seen.offloaded.load(Ordering::Relaxed), seen.with_priority.load(Ordering::Relaxed))
}

#[test]
fn no_packet_with_priority_is_offloaded() {
    for every in [Every::Period(20_000_000), Every::Packets(100), Every::Packets(37)] {
        let (offloaded, with_priority) = watch(false, every);
        assert!(offloaded > 50 && with_priority == 0, "{every:?}: {with_priority} of {offloaded}");
    }
}

#[test]
fn planted_packets_with_priority_that_are_offloaded_are_found() {
    let (offloaded, with_priority) = watch(true, Every::Packets(100));
    assert!(with_priority > 100, "{with_priority} of {offloaded}");
}

/// Another chain takes over: with the same classes it goes on with all flows, with others it begins anew, also on one core.
#[test]
fn flows_go_on_where_classes_are_the_same() {
    let without = small(alone("flow-statistics", "idle_ms = 500"));
    let with = classed(without.clone());
    let pcap = generated("zipf:flows=400,a=1.2,packets=4000,gap-ns=20000,seed=5", 4_000);
    for cores in [1, 3] {
        let often = Some(Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
        let plan = |chain: &Chain| {
            let plan = Plan::new(chain, DYSSECT, cores).expect("a plan");
            Plan { rebalancing: often, ..plan }
        };
        for (next, kept) in [(&with, true), (&without, false)] {
            let reload = [Reload { after: 2_000, chain: next.clone(), plan: plan(next) }];
            let open = || Ok(pcap.open());
            let verified = verify_reloading(&with, &plan(&with), &reload, &open, &Progress::default());
            let verified = verified.expect("it is compared");
            let what = &verified.reloads[0].functions[0].1;
            assert_eq!(what.is_ok(), kept, "{what:?}");
            assert!(what.as_ref().is_ok_and(|flows| *flows > 100) || !kept, "{what:?}");
            assert!(verified.is_same(), "{cores} cores: {verified:#?}");
        }
    }
}

#[test]
fn classes_that_make_no_sense_are_refused() {
    let with = |class: &str| format!("[[class]]\n{class}\n[[function]]\nuse = \"conntrack\"\n");
    for (class, expected) in [
        ("priority = \"high\"", "a class of all packets"),
        ("priority = \"high\"\ndscp = 46", "packets of one flow may differ in `dscp`"),
        ("priority = \"high\"\nports = [0]", "packets without ports have 0"),
        ("priority = \"high\"\nports = [70000]", "a whole number, 0 to 65535"),
        ("priority = \"high\"\nprefixes = [\"10.0.0.0/33\"]", "`prefixes`"),
        ("priority = \"low\"\nports = [80]", "no class has priority"),
        ("priority = \"urgent\"\nports = [80]", "must be \"high\" or \"low\", and is \"urgent\""),
        ("ports = [80]", "does not say which priority it has"),
        ("priority = \"high\"\nport = 80", "a class has no option `port`"),
    ] {
        let error = match Chain::parse("test.toml", &with(class), &stock::registry()) {
            Ok(_) => panic!("{class}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{class}: {error}");
    }
}

/// Behind another class, that which is wrong is marked, and in it what is wrong.
#[test]
fn what_is_wrong_with_a_class_is_marked() {
    let right = "[[class]]\npriority = \"high\"\nports = [80]\n";
    let function = "[[function]]\nuse = \"conntrack\"\n";
    for (class, line) in [
        ("[[class]]\npriority = \"low\"\nports = [70000]\n", 6),
        ("[[class]]\nport = 80\npriority = \"low\"\n", 5),
        ("[[class]]\npriority = 3\n", 5),
        ("[slo]\n\np99_us = -1\n", 6),
    ] {
        let text = format!("{right}{class}{function}");
        let Err(error) = Chain::parse("test.toml", &text, &stock::registry()) else { panic!("{text}") };
        assert_eq!(error.position().0, line, "{text}: {error}");
    }
}

/// What is not hashed cannot decide a class, and other strategies do not care.
#[test]
fn classes_that_could_tear_flows_apart_are_refused() {
    let by_source = Chain { classes: classes(BY_PORT), ..alone("source-statistics", "") };
    let error = Plan::new(&by_source, DYSSECT, 2).expect_err("ports are not hashed").to_string();
    assert!(error.contains("class 1 is told by ports") && error.contains("source address"), "{error}");
    Plan::new(&by_source, engine::strategies::RSSPP, 2).expect("no classes there");
    Plan::new(&Chain { classes: classes(CLASSES), ..by_source }, DYSSECT, 2).expect("by its source");
}
