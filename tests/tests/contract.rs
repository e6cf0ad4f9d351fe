//! What the engine owes a function: each part of the contract, by functions made to use it.

use engine::Chain;
use io::{EngineDrop, Fate};
use nf::{About, Cx, Extras, FlowKey, FullTable, NetworkFunction, OptionError, Pooled, SrcAddr, Verdict};
use paceline_conformance::{Packet, Ran, chain, run_in_batches, tcp, udp6};
use wire::{Fields, Headers};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

/// Marks what it forwards with TOS 7; the destination port says what becomes of a packet.
struct Marker<const REJECTED_PASSES: bool>;

#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
struct Meta {
    src: SrcAddr,
    dst_port: u16,
}

const DROPPED: u16 = 81;
const SENT_BACK: u16 = 82;
const TO_HOST: u16 = 83;
const ENDS_FLOW: u16 = 84;
const FORWARDED: u16 = 85;

impl<const REJECTED_PASSES: bool> NetworkFunction for Marker<REJECTED_PASSES> {
    const ABOUT: About = About {
        name: if REJECTED_PASSES { "marker-passes" } else { "marker" },
        drop_reasons: &["asked", "full"],
        events: &["gone"],
        ..About::NONE
    };
    const READS: Fields =
        Fields::SRC_ADDR.union(Fields::DST_PORT).union(Fields::PROTOCOL).union(Fields::MARKS);
    const EDITS: Fields = Fields::TOS;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled { make: Self::pool, gone: Self::gone, ..Pooled::NONE },
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        ..Extras::NONE
    };
    type Key = SrcAddr;
    type Meta = Meta;
    type State = u64;
    /// Flows that are gone and not yet counted.
    type Pool = u64;
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Marker)
    }

    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_tcp().then(|| Meta { src: SrcAddr::of(headers), dst_port: headers.dst_port })
    }

    fn key(meta: &Meta) -> SrcAddr {
        meta.src
    }

    fn step(&self, flow: &mut Option<u64>, meta: &Meta, cx: &mut Cx<'_, u64>) -> Verdict {
        while *cx.pool > 0 {
            *cx.pool -= 1;
            cx.count(0);
        }
        *flow.get_or_insert(0) += 1;
        cx.edits.set_tos(7);
        match meta.dst_port {
            DROPPED => Verdict::Drop(0),
            SENT_BACK => Verdict::TransmitBack,
            TO_HOST => Verdict::Host,
            ENDS_FLOW => {
                *flow = None;
                Verdict::Forward
            }
            _ => Verdict::Forward,
        }
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        1_000
    }
}

impl<const REJECTED_PASSES: bool> Marker<REJECTED_PASSES> {
    fn pool(&self) -> u64 {
        0
    }

    fn rejected(&self, _: &u64, _: &Meta, _: &mut Cx<'_, u64>) -> Verdict {
        if REJECTED_PASSES { Verdict::Forward } else { Verdict::Drop(1) }
    }

    fn gone(&self, _: &SrcAddr, _: &u64, gone: &mut u64) {
        *gone += 1;
    }
}

/// Drops what is not marked with TOS 7.
struct Watcher;

#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
struct Tos {
    src: SrcAddr,
    tos: u8,
}

impl NetworkFunction for Watcher {
    const ABOUT: About = About { name: "watcher", drop_reasons: &["unmarked"], ..About::NONE };
    const READS: Fields = Fields::SRC_ADDR.union(Fields::TOS);
    type Key = SrcAddr;
    type Meta = Tos;
    type State = u64;
    type Pool = ();
    type Options = NoOptions;

    fn new(_: NoOptions) -> Result<Self, OptionError> {
        Ok(Watcher)
    }

    fn project(headers: &Headers) -> Option<Self::Meta> {
        Some(Tos { src: SrcAddr::of(headers), tos: headers.tos })
    }

    fn key(meta: &Self::Meta) -> SrcAddr {
        meta.src
    }

    fn step(&self, _: &mut Option<u64>, meta: &Self::Meta, _: &mut Cx<'_, ()>) -> Verdict {
        if meta.tos == 7 { Verdict::Forward } else { Verdict::Drop(0) }
    }

    fn idle_timeout_ns(&self, _: &u64) -> u64 {
        1
    }
}

fn marked_and_watched(marker: &str, options: &str) -> Chain {
    let mut registry = stock::registry();
    registry.add::<Marker<false>>();
    registry.add::<Marker<true>>();
    registry.add::<Watcher>();
    chain(&format!("[[function]]\nuse = \"{marker}\"\n{options}\n[[function]]\nuse = \"watcher\""), &registry)
}

/// A packet from `src` to `port` at `time_ns`.
fn packet(time_ns: u64, src: u8, port: u16) -> Packet {
    tcp(time_ns, src, 200, (4000, port), 0x10, 1, 0)
}

fn run(chain: &Chain, packets: &[Packet]) -> (Ran, Vec<Vec<u64>>) {
    let mut core = chain.core().expect("memory");
    let ran = run_in_batches(&mut core, packets, &[2, 64]);
    let counted = core.stages().map(|stage| {
        let counters = stage.counters();
        let verdicts = [counters.packets, counters.forward, counters.transmit_back, counters.host];
        [&verdicts[..], counters.drops, counters.events].concat()
    });
    (ran, counted.collect())
}

const TOS_OFFSET: usize = 15;

#[test]
fn every_verdict_becomes_its_fate_and_is_counted() {
    let ports = [FORWARDED, DROPPED, SENT_BACK, TO_HOST, ENDS_FLOW];
    let packets: Vec<Packet> = ports.iter().map(|port| packet(5, 1, *port)).collect();
    let (ran, counted) = run(&marked_and_watched("marker", ""), &packets);
    let fates: Vec<Fate> = ran.answers.iter().map(|(fate, _)| *fate).collect();
    let dropped = Fate::DropBy { function: 0, reason: 0 };
    assert_eq!(fates, [Fate::Forward, dropped, Fate::TransmitBack, Fate::Host, Fate::Forward]);
    // Packets, forward, back, host; drops: asked, full, unnamed; events: gone.
    assert_eq!(counted[0], [5, 2, 1, 1, 1, 0, 0, 0]);
    // Only what was forwarded came this far, and its edits were seen.
    assert_eq!(counted[1], [2, 2, 0, 0, 0, 0]);
    assert_eq!((ran.counters.forward, ran.counters.transmit_back, ran.counters.host), (2, 1, 1));
    assert_eq!(ran.counters.dropped_by_function, 1);
    for (fate, bytes) in &ran.answers {
        let is_sent = !matches!(fate, Fate::DropBy { .. });
        assert_eq!(bytes[TOS_OFFSET], if is_sent { 7 } else { 0 }, "{fate:?}");
    }
}

#[test]
fn a_batch_leaves_nothing_to_the_next_and_each_packet_is_counted_once() {
    let mut cut = packet(5, 1, FORWARDED);
    cut.bytes.truncate(20);
    let ended = [packet(5, 1, DROPPED), packet(5, 1, SENT_BACK), packet(5, 1, TO_HOST), cut];
    // In the same places of the next batch what is no function's business.
    let plain = [
        udp6(6, 1, 2, (1, 2), 0),
        udp6(6, 1, 2, (1, 2), 9),
        udp6(6, 3, 2, (1, 2), 0),
        udp6(6, 4, 2, (1, 2), 0),
    ];
    let packets = [ended, plain].concat();
    let mut registry = stock::registry();
    registry.add::<Marker<false>>();
    for (policy, malformed_fate) in [("drop", Fate::Drop(EngineDrop::Malformed)), ("pass", Fate::Forward)] {
        let chain = chain(&format!("malformed = \"{policy}\"\n[[function]]\nuse = \"marker\""), &registry);
        let mut core = chain.core().expect("memory");
        let ran = run_in_batches(&mut core, &packets, &[4]);
        let fates: Vec<Fate> = ran.answers.iter().map(|(fate, _)| *fate).collect();
        let dropped = Fate::DropBy { function: 0, reason: 0 };
        assert_eq!(fates[..4], [dropped, Fate::TransmitBack, Fate::Host, malformed_fate]);
        for (packet, answer) in packets[4..].iter().zip(&ran.answers[4..]) {
            assert_eq!(*answer, (Fate::Forward, packet.bytes.clone()));
        }
        let counters = ran.counters;
        let malformed_dropped = u64::from(policy == "drop");
        assert_eq!((counters.packets, counters.forward), (8, 5 - malformed_dropped));
        assert_eq!(counters.bytes, packets.iter().map(|packet| packet.bytes.len() as u64).sum::<u64>());
        assert_eq!((counters.transmit_back, counters.host, counters.dropped_by_function), (1, 1, 1));
        assert_eq!((counters.dropped_malformed, counters.dropped_no_room), (malformed_dropped, 0));
        assert_eq!(counters.malformed.iter().sum::<u64>(), 1);
    }
}

#[test]
fn a_full_table_asks_the_function_and_undoes_the_step() {
    let packets = [packet(5, 1, FORWARDED), packet(6, 2, FORWARDED), packet(7, 1, FORWARDED)];
    let (ran, _) = run(&marked_and_watched("marker", "flows = 1"), &packets);
    assert_eq!(ran.answers[1].0, Fate::DropBy { function: 0, reason: 1 });
    assert_eq!(ran.answers[2].0, Fate::Forward);

    // Passed, but without the mark that the refused step had set: the watcher sees it.
    let (ran, counted) = run(&marked_and_watched("marker-passes", "flows = 1"), &packets);
    assert_eq!(ran.answers[1].0, Fate::DropBy { function: 1, reason: 0 });
    assert_eq!(ran.answers[1].1[TOS_OFFSET], 0);
    assert_eq!(counted[0][..2], [3, 3]);
}

#[test]
fn the_pool_hears_of_flows_that_expire_or_are_evicted() {
    let gone = |options: &str, packets: &[Packet]| {
        let (_, counted) = run(&marked_and_watched("marker", options), packets);
        counted[0][7]
    };
    // The second flow evicts the first; the third packet's step hears of it.
    let close = [packet(5, 1, FORWARDED), packet(6, 2, FORWARDED), packet(7, 2, FORWARDED)];
    assert_eq!(gone("flows = 1\ntable_full = \"evict-oldest\"", &close), 1);
    // The first flow is dead when its next packet comes; that step begins anew and hears of it.
    let apart = [packet(5, 1, FORWARDED), packet(2_000, 1, FORWARDED)];
    assert_eq!(gone("", &apart), 1);
    // A step that ends a flow knows of it itself.
    assert_eq!(gone("", &[packet(5, 1, ENDS_FLOW), packet(6, 1, FORWARDED)]), 0);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "assertions are off")]
#[should_panic(expected = "EDITS does not name")]
fn edits_that_are_not_declared_are_caught_where_assertions_are_on() {
    struct Undeclared;
    impl NetworkFunction for Undeclared {
        const ABOUT: About = About { name: "undeclared", ..About::NONE };
        const READS: Fields = Fields::SRC_ADDR;
        type Key = SrcAddr;
        type Meta = SrcAddr;
        type State = u64;
        type Pool = ();
        type Options = NoOptions;
        fn new(_: NoOptions) -> Result<Self, OptionError> {
            Ok(Undeclared)
        }
        fn project(headers: &Headers) -> Option<SrcAddr> {
            Some(SrcAddr::of(headers))
        }
        fn key(meta: &SrcAddr) -> SrcAddr {
            *meta
        }
        fn step(&self, _: &mut Option<u64>, _: &SrcAddr, cx: &mut Cx<'_, ()>) -> Verdict {
            cx.edits.set_ttl(1);
            Verdict::Forward
        }
        fn idle_timeout_ns(&self, _: &u64) -> u64 {
            1
        }
    }
    let mut registry = stock::registry();
    registry.add::<Undeclared>();
    run(&chain("[[function]]\nuse = \"undeclared\"", &registry), &[packet(5, 1, FORWARDED)]);
}

#[test]
fn a_length_that_lies_is_no_reason_to_panic() {
    use io::capture::Record;
    use io::replay;
    use wire::LinkType;
    let chain = marked_and_watched("marker", "");
    let (mut feeder, mut ports, _collector) = replay(1);
    let data = packet(5, 1, FORWARDED).bytes;
    let record = Record { time_ns: 5, wire_len: u32::MAX, link: LinkType::Ethernet, data: &data };
    let frame = feeder.take(&record).expect("open");
    feeder.send(0, frame).expect("open");
    drop(feeder);
    let mut core = chain.core().expect("memory");
    let counters = engine::run(&mut ports[0], &mut core, &mut engine::Batch::new(), &mut (), &mut ());
    assert_eq!(counters.expect("open").bytes, u64::from(u32::MAX));
}

#[test]
fn what_the_functions_here_read_they_declare() {
    paceline_conformance::check_reads::<Marker<true>>();
    paceline_conformance::check_reads::<Watcher>();
}
