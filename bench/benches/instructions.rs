//! How many instructions each stage takes. The counts are the same on every run of one program, so a
//! change of a few is seen; times are not told.
//!
//! A benchmark takes what its setup made, does one stage for every packet, and gives everything back,
//! so that freeing it is not counted. Nothing in here is called by name: each must be in a group below.
#![allow(missing_docs)] // The macros make public modules of the benchmarks.

use std::hint::black_box;

use engine::strategies::{DYSSECT, RSS, RSSPP, SHARED, SINGLE, Shards, Strategy};
use engine::strategies::{Dispatcher, Team};
use engine::{BATCH_PACKETS, Chain, ChainCore, CoreCounters, Intake, Mover, Plan};
use engine::{SequencedAs, Sequencing, turn};
use gungraun::prelude::*;
use io::capture::Record;
use io::{MemoryPort, Port, Reference, Trace};
use nf::{Connection, FiveTuple, FlowKey, Hasher, NetworkFunction, Short};
use paceline_bench::{Batch, Kind, PACKETS, balance};
use sequencer::{History, ItemLayout, Sequencer};
use table::{FlowTable, Layout, Slot, Wanted, WhenFull};
use wire::{Edits, LinkType};
use zerocopy::IntoBytes;

use crate::firewalling::Firewalling;
use crate::fused::Fused;
use crate::inside::{Dispatching, Replicating, Sink};
use crate::outside::{Bringing, outside};

#[path = "instructions/firewalling.rs"]
mod firewalling;
#[path = "instructions/fused.rs"]
mod fused;
#[path = "instructions/inside.rs"]
mod inside;
#[path = "instructions/outside.rs"]
mod outside;

#[library_benchmark]
#[bench::udp(args = (Kind::Udp), setup = Batch::new)]
#[bench::tcp(args = (Kind::Tcp), setup = Batch::new)]
#[bench::tcp_timestamps(args = (Kind::TcpTimestamps), setup = Batch::new)]
#[bench::vlan(args = (Kind::Vlan), setup = Batch::new)]
#[bench::ipv6(args = (Kind::Ipv6), setup = Batch::new)]
fn parse(mut batch: Batch) -> Batch {
    let frames = black_box(&batch.frames).chunks(BATCH_PACKETS);
    for (frames, headers) in frames.zip(batch.headers.chunks_mut(BATCH_PACKETS)) {
        black_box(wire::parse_batch(frames, 0, headers, |frame| (LinkType::Ethernet, frame, 0)));
    }
    batch
}

// A packet by itself, without the instructions that not every processor has.
#[library_benchmark]
#[bench::udp(args = (Kind::Udp), setup = Batch::new)]
#[bench::tcp_timestamps(args = (Kind::TcpTimestamps), setup = Batch::new)]
fn parse_one(mut batch: Batch) -> Batch {
    for (frame, headers) in black_box(&batch.frames).iter().zip(&mut batch.headers) {
        wire::parse_into(LinkType::Ethernet, frame, 0, headers);
    }
    batch
}

#[library_benchmark]
#[bench::clear(args = (Kind::Udp), setup = Batch::balanced)]
fn edits_clear(mut batch: Batch) -> Batch {
    black_box(&mut batch.edits).iter_mut().for_each(Edits::clear);
    batch
}

#[library_benchmark]
#[bench::balancer(args = (Kind::Udp), setup = Batch::new)]
fn edits_set(mut batch: Batch) -> Batch {
    black_box(&mut batch.edits).iter_mut().for_each(|edits| balance(edits, 7));
    batch
}

#[library_benchmark]
#[bench::none(args = (Kind::Udp), setup = Batch::new)]
#[bench::balancer_udp(args = (Kind::Udp), setup = Batch::balanced)]
#[bench::balancer_tcp(args = (Kind::Tcp), setup = Batch::balanced)]
fn edits_to_headers(mut batch: Batch) -> Batch {
    for (edits, headers) in black_box(&batch.edits).iter().zip(&mut batch.headers) {
        edits.apply_to_headers(headers);
    }
    batch
}

#[library_benchmark]
#[bench::none(args = (Kind::Udp), setup = Batch::new)]
#[bench::balancer_udp(args = (Kind::Udp), setup = Batch::balanced)]
#[bench::balancer_tcp(args = (Kind::Tcp), setup = Batch::balanced)]
fn edits_apply(mut batch: Batch) -> Batch {
    for ((edits, headers), frame) in black_box(&batch.edits).iter().zip(&batch.headers).zip(&mut batch.frames)
    {
        // As a chain has it, which knows from its parse which packets are plain.
        black_box(edits.is_empty() || wire::apply_plain(edits, headers, frame));
    }
    batch
}

#[library_benchmark]
#[bench::ipv4(args = (Kind::Tcp), setup = with_shorts)]
#[bench::ipv6(args = (Kind::Ipv6), setup = with_shorts)]
fn short_of_five_tuple((batch, mut shorts): (Batch, Vec<Short>)) -> (Batch, Vec<Short>) {
    for (headers, short) in black_box(&batch.headers).iter().zip(&mut shorts) {
        *short = FiveTuple::of(headers).short();
    }
    (batch, shorts)
}

#[library_benchmark]
#[bench::ipv4(args = (Kind::Tcp), setup = with_shorts)]
#[bench::ipv6(args = (Kind::Ipv6), setup = with_shorts)]
fn short_of_connection((batch, mut shorts): (Batch, Vec<Short>)) -> (Batch, Vec<Short>) {
    for (headers, short) in black_box(&batch.headers).iter().zip(&mut shorts) {
        *short = Connection::of(headers).short();
    }
    (batch, shorts)
}

#[library_benchmark]
#[bench::five_tuple(args = (Kind::Tcp), setup = with_hashes)]
fn hash_of_five_tuple((batch, mut hashes, hasher): Hashed) -> Hashed {
    // The library leaves it to the compiler whether its hash of
    // plain bytes is a call, so that builds differ: 69 instructions, or 31. On record is the call.
    for (headers, hash) in black_box(&batch.headers).iter().zip(&mut hashes) {
        *hash = hasher.hash_bytes(FiveTuple::of(headers).as_bytes());
    }
    (batch, hashes, hasher)
}

#[library_benchmark]
#[bench::five_tuple(args = (Kind::Tcp), setup = with_hashes)]
fn short_and_its_hash((batch, mut hashes, hasher): Hashed) -> Hashed {
    for (headers, hash) in black_box(&batch.headers).iter().zip(&mut hashes) {
        *hash = hasher.hash_u128(FiveTuple::of(headers).short().bits);
    }
    (batch, hashes, hasher)
}

// Hash, look up, prefetch and compare keys: what a group of functions does before its steps.
#[library_benchmark]
#[bench::known_flows(args = (Kind::Udp), setup = Flows::new)]
fn table_locate(mut flows: Flows) -> Flows {
    let Flows { table, batch, wanted, slots } = &mut flows;
    let short = |packet: usize| FiveTuple::of(&batch.headers[packet]).short();
    let key = |packet: usize| FiveTuple::of(&batch.headers[packet]);
    for (begin, (wanted, slots)) in (0..).step_by(64).zip(wanted.chunks_mut(64).zip(slots)) {
        for (packet, wanted) in (begin..).zip(&mut *wanted) {
            *wanted = Wanted::new(short(packet), table.hash(short(packet), || key(packet)));
            table.prefetch_bucket(wanted.hash());
        }
        table.candidates(u64::MAX, wanted, slots);
        black_box(table.find_all(u64::MAX, wanted, slots, |packet| key(begin + packet)));
    }
    flows
}

// A chain over packets of known flows, from headers to edits.
#[library_benchmark]
#[bench::statistics(args = (STATISTICS), setup = Running::new)]
#[bench::statistics_limiter(args = (STATISTICS, LIMITER), setup = Running::of_two)]
#[bench::statistics_balancer(args = (STATISTICS, BALANCER), setup = Running::of_two)]
#[bench::nat(args = (NAT), setup = Running::new)]
#[bench::limiter_lapsed(args = (LIMITER), setup = Running::lapsed)]
fn chain(mut running: Running) -> Running {
    running.process();
    running
}

// A firewall's step of packets that begin a connection, of which the last rule decides: the worst case of its classifier.
#[library_benchmark]
#[bench::rules_10(args = (10), setup = Firewalling::new)]
#[bench::rules_10000(args = (10_000), setup = Firewalling::new)]
fn firewall_new(mut firewalling: Firewalling) -> Firewalling {
    firewalling.begin();
    firewalling
}

// Its step of packets of known connections, which ask no rule.
#[library_benchmark]
#[bench::rules_10(args = (10), setup = Firewalling::open)]
#[bench::rules_10000(args = (10_000), setup = Firewalling::open)]
fn firewall_known(mut firewalling: Firewalling) -> Firewalling {
    firewalling.go_on();
    firewalling
}

// The same on one of two cores that share their flows: with a lock for each packet, and nobody who wants it.
#[library_benchmark]
#[bench::statistics(args = (STATISTICS), setup = Running::sharing)]
#[bench::nat(args = (NAT), setup = Running::sharing)]
fn chain_shared(mut running: Running) -> Running {
    running.process();
    running
}

// Whole turns from the port and back on the one core of a plan: what a strategy costs that has nothing to do.
#[library_benchmark]
#[bench::single(args = (SINGLE), setup = Turning::new)]
#[bench::single_two(args = (SINGLE), setup = Turning::of_two)]
#[bench::single_fused(args = (SINGLE), setup = Turning::of_fused)]
#[bench::rss(args = (RSS), setup = Turning::new)]
#[bench::rsspp(args = (RSSPP), setup = Turning::new)]
#[bench::shared(args = (SHARED), setup = Turning::new)]
fn turns(mut turning: Turning) -> Turning {
    turning.turns();
    turning
}

// What stands between a core's port and its chain takes batches through the chain, under `dyssect` with one shard and with sixteen: flows are
// looked up, or a card says where they are.
#[library_benchmark]
#[bench::looked_up(args = (1, 0), setup = Referred::new)]
#[bench::said(args = (1, 1_000), setup = Referred::new)]
#[bench::looked_up_of_16(args = (16, 0), setup = Referred::new)]
#[bench::said_of_16(args = (16, 1_000), setup = Referred::new)]
fn card(mut referred: Referred) -> Referred {
    referred.process();
    referred
}

// The same on one of seven cores that replicate state: for each packet of its own it steps six of others. Less what one
// core alone takes, and divided by six, it is what an item of history costs.
#[library_benchmark]
#[bench::ddos_single(args = (1, "ddos", Spread::OneFlow), setup = Replicating::new)]
#[bench::ddos(args = (7, "ddos", Spread::OneFlow), setup = Replicating::new)]
#[bench::heavy_hitters_single(args = (1, "heavy-hitters", Spread::OneFlow), setup = Replicating::new)]
#[bench::heavy_hitters(args = (7, "heavy-hitters", Spread::OneFlow), setup = Replicating::new)]
#[bench::policer_single(args = (1, "policer", Spread::OneFlow), setup = Replicating::new)]
#[bench::policer(args = (7, "policer", Spread::OneFlow), setup = Replicating::new)]
#[bench::port_knock_single(args = (1, "port-knock", Spread::OneFlow), setup = Replicating::new)]
#[bench::port_knock(args = (7, "port-knock", Spread::OneFlow), setup = Replicating::new)]
#[bench::conntrack_single(args = (1, "conntrack", Spread::OneFlow), setup = Replicating::new)]
#[bench::conntrack(args = (7, "conntrack", Spread::OneFlow), setup = Replicating::new)]
#[bench::conntrack_both_ways_single(args = (1, "conntrack", Spread::BothWays), setup = Replicating::new)]
#[bench::conntrack_both_ways(args = (7, "conntrack", Spread::BothWays), setup = Replicating::new)]
#[bench::policer_flows_single(args = (1, "policer", Spread::ManyFlows), setup = Replicating::new)]
#[bench::policer_flows(args = (7, "policer", Spread::ManyFlows), setup = Replicating::new)]
#[bench::ddos_flows_single(args = (1, "ddos", Spread::ManyFlows), setup = Replicating::new)]
#[bench::ddos_flows(args = (7, "ddos", Spread::ManyFlows), setup = Replicating::new)]
#[bench::ddos_skewed_single(args = (1, "ddos", Spread::Skewed), setup = Replicating::new)]
#[bench::ddos_skewed(args = (7, "ddos", Spread::Skewed), setup = Replicating::new)]
#[bench::heavy_hitters_skewed_single(args = (1, "heavy-hitters", Spread::Skewed), setup = Replicating::new)]
#[bench::heavy_hitters_skewed(args = (7, "heavy-hitters", Spread::Skewed), setup = Replicating::new)]
#[bench::policer_skewed_single(args = (1, "policer", Spread::Skewed), setup = Replicating::new)]
#[bench::policer_skewed(args = (7, "policer", Spread::Skewed), setup = Replicating::new)]
#[bench::port_knock_skewed_single(args = (1, "port-knock", Spread::Skewed), setup = Replicating::new)]
#[bench::port_knock_skewed(args = (7, "port-knock", Spread::Skewed), setup = Replicating::new)]
#[bench::conntrack_skewed_single(args = (1, "conntrack", Spread::Skewed), setup = Replicating::new)]
#[bench::conntrack_skewed(args = (7, "conntrack", Spread::Skewed), setup = Replicating::new)]
fn replicas(mut replicating: Replicating) -> Replicating {
    replicating.turns();
    replicating
}

// The same where packets bring their history along: version 1 of the format, whose items hold headers, and version 2, whose
// items hold what functions read.
#[library_benchmark]
#[bench::ddos_single(args = (1, SequencedAs::Newest, "ddos", Spread::OneFlow), setup = Bringing::new)]
#[bench::ddos_headers(args = (7, SequencedAs::Headers, "ddos", Spread::OneFlow), setup = Bringing::new)]
#[bench::ddos_typed(args = (7, SequencedAs::Newest, "ddos", Spread::OneFlow), setup = Bringing::new)]
#[bench::policer_single(args = (1, SequencedAs::Newest, "policer", Spread::ManyFlows), setup = Bringing::new)]
#[bench::policer_headers(args = (7, SequencedAs::Headers, "policer", Spread::ManyFlows), setup = Bringing::new)]
#[bench::policer_typed(args = (7, SequencedAs::Newest, "policer", Spread::ManyFlows), setup = Bringing::new)]
#[bench::conntrack_single(args = (1, SequencedAs::Newest, "conntrack", Spread::OneFlow), setup = Bringing::new)]
#[bench::conntrack_headers(args = (7, SequencedAs::Headers, "conntrack", Spread::OneFlow), setup = Bringing::new)]
#[bench::conntrack_typed(args = (7, SequencedAs::Newest, "conntrack", Spread::OneFlow), setup = Bringing::new)]
fn history_replayed(mut bringing: Bringing) -> Bringing {
    bringing.turns();
    bringing
}

// What a sequencer outside does for a packet, parsing included: all bytes that it puts before it.
#[library_benchmark]
#[bench::ddos_headers(args = (SequencedAs::Headers, "ddos"), setup = outside)]
#[bench::ddos_typed(args = (SequencedAs::Newest, "ddos"), setup = outside)]
#[bench::conntrack_headers(args = (SequencedAs::Headers, "conntrack"), setup = outside)]
#[bench::conntrack_typed(args = (SequencedAs::Newest, "conntrack"), setup = outside)]
fn history_sequenced((mut sequencing, trace): (Sequencing, Trace)) -> (Sequencing, Trace) {
    for index in 0..trace.len() {
        black_box(sequencing.next(&trace.packet(index)));
    }
    (sequencing, trace)
}

// What the engine's sequencer does for a packet: parse, pick a core, write the history.
#[library_benchmark]
#[bench::one_flow(args = ("ddos", Spread::OneFlow), setup = Dispatching::new)]
#[bench::many_flows(args = ("ddos", Spread::ManyFlows), setup = Dispatching::new)]
#[bench::conntrack_many_flows(args = ("conntrack", Spread::ManyFlows), setup = Dispatching::new)]
fn dispatch(mut dispatching: Dispatching) -> Dispatching {
    dispatching.round();
    dispatching
}

// What a sequencer does for a packet, less the bytes it puts before it.
#[library_benchmark]
#[bench::item_of_16(args = (ITEM_OF_16, 2), setup = Histories::new)]
#[bench::item_of_40(args = (ITEM_OF_40, 2), setup = Histories::new)]
fn history_next(mut histories: Histories) -> Histories {
    let Histories { sequencer, batch, .. } = &mut histories;
    for headers in &batch.headers {
        black_box(sequencer.next(headers, 1));
    }
    histories
}

// Those bytes: the number is that of cores.
#[library_benchmark]
#[bench::item_of_16_for_2(args = (ITEM_OF_16, 2), setup = Histories::new)]
#[bench::item_of_16_for_14(args = (ITEM_OF_16, 14), setup = Histories::new)]
#[bench::item_of_40_for_14(args = (ITEM_OF_40, 14), setup = Histories::new)]
fn history_prefix(mut histories: Histories) -> Histories {
    for frame in &mut histories.frames {
        histories.sequencer.prefix(LinkType::Ethernet, black_box(frame));
    }
    histories
}

#[library_benchmark]
#[bench::item_of_16_for_2(args = (ITEM_OF_16, 2), setup = Histories::new)]
#[bench::item_of_16_for_14(args = (ITEM_OF_16, 14), setup = Histories::new)]
#[bench::item_of_40_for_14(args = (ITEM_OF_40, 14), setup = Histories::new)]
fn history_parse(histories: Histories) -> Histories {
    for frame in &histories.frames {
        let _ = black_box(History::parse(black_box(frame), &histories.layout));
    }
    histories
}

// Items as replay reads them: an item is counted where others count a packet.
#[library_benchmark]
#[bench::of_16(args = (ITEM_OF_16, ITEMS + 1), setup = Histories::new)]
#[bench::of_40(args = (ITEM_OF_40, ITEMS + 1), setup = Histories::new)]
#[bench::of_72(args = (u64::MAX, ITEMS + 1), setup = Histories::new)]
fn history_items(mut histories: Histories) -> Histories {
    let Histories { frames, layout, batch, .. } = &mut histories;
    for (frame, headers) in frames.iter().zip(black_box(&mut batch.headers).chunks_exact_mut(ITEMS)) {
        let Ok(history) = History::parse(frame, layout) else { continue };
        let mut items = history.items();
        for headers in headers {
            black_box(items.next_into(headers));
        }
    }
    histories
}

/// Items of a packet where items are counted.
const ITEMS: usize = 20;
/// The source of an IPv4 packet, destination port and protocol; as every item, why a packet is malformed.
const ITEM_OF_16: u64 = 0xf << 12 | 0b11 << 46 | 1 << 56;
/// The source, TCP's sequence number, ports, window, length, protocol, flags and marks.
const ITEM_OF_40: u64 = 0xffff | 0xf << 32 | 0xf << 44 | 0b11 << 48 | 0b11 << 52 | 0b11 << 56 | 1 << 62;

/// Packets of a sequencer whose ring is full, each with room for a prefix, and the last prefix in it.
struct Histories {
    layout: ItemLayout,
    sequencer: Sequencer,
    batch: Batch,
    frames: Vec<Vec<u8>>,
}

impl Histories {
    fn new(header_bytes: u64, cores: usize) -> Histories {
        let layout = ItemLayout::new(header_bytes);
        let mut sequencer = Sequencer::new(layout.clone(), cores).expect("few cores");
        let batch = Batch::new(Kind::Tcp);
        batch.headers.iter().for_each(|headers| {
            sequencer.next(headers, 1);
        });
        let mut prefix = vec![0; sequencer.prefix_len()];
        sequencer.prefix(LinkType::Ethernet, &mut prefix);
        let frames = batch.frames.iter().map(|frame| [&prefix[..], frame].concat()).collect();
        Histories { layout, sequencer, batch, frames }
    }
}

const STATISTICS: &str = "[[function]]\nuse = \"flow-statistics\"\n";
const LIMITER: &str = "[[function]]\nuse = \"rate-limiter\"\n";
const BALANCER: &str = "[[function]]\nuse = \"load-balancer\"\n[[function.services]]\nvip = \"0.0.0.0/0\"
port = \"any\"\nprotocol = \"udp\"\nbackends = [{ address = \"203.0.113.1\" }, { address = \"203.0.113.2\" }]\n";
const NAT: &str = "[[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/8\"]\nexternal = [\"203.0.113.1\"]\n";

/// A table that knows the flow of every packet.
struct Flows {
    table: FlowTable<FiveTuple>,
    batch: Batch,
    wanted: Vec<Wanted>,
    slots: Vec<[Slot; 64]>,
}

impl Flows {
    fn new(kind: Kind) -> Flows {
        let mut layout = Layout::new();
        let part = layout.add::<u64>();
        let mut table = FlowTable::new(&layout, 1024, WhenFull::Reject, 7).expect("memory");
        let batch = Batch::new(kind);
        for headers in &batch.headers {
            let key = FiveTuple::of(headers);
            let slot = table.insert(table.hash(key.short(), || key), key.short(), &key);
            table.cell_mut(slot, part).set(1, u64::MAX);
        }
        Flows {
            table,
            batch,
            wanted: vec![Wanted::NONE; PACKETS],
            slots: vec![[Slot::NONE; 64]; PACKETS / 64],
        }
    }
}

/// A chain that has seen its packets once, in two batches.
struct Running {
    core: ChainCore,
    port: MemoryPort,
    batches: Vec<engine::Batch>,
}

impl Running {
    fn of_two(first: &str, second: &str) -> Running {
        Running::new(&[first, second].concat())
    }

    fn new(toml: &str) -> Running {
        Running::on(|chain| chain.core().expect("memory"), toml)
    }

    /// Packets that come when their flows' states are dead.
    fn lapsed(toml: &str) -> Running {
        let mut running = Running::new(toml);
        for batch in &mut running.batches {
            batch.frames.iter_mut().for_each(|frame| frame.stamp.time_ns += 1_000_000_000);
        }
        running
    }

    fn sharing(toml: &str) -> Running {
        let core = |chain: &Chain| {
            let plan = Plan::new(chain, SHARED, 2).expect("a plan");
            plan.cores_of(chain).expect("memory").remove(0)
        };
        Running::on(core, toml)
    }

    fn on(core: impl FnOnce(&Chain) -> ChainCore, toml: &str) -> Running {
        let chain = Chain::parse("bench", toml, &stock::registry()).expect("a chain");
        let mut port = port();
        let batches = (0..2).map(|_| {
            let mut batch = engine::Batch::new();
            port.receive(&mut batch.frames, PACKETS / 2);
            for (frame, headers) in batch.frames.iter().zip(&mut *batch.headers) {
                wire::parse_into(frame.link, port.bytes(frame), frame.wire_len, headers);
            }
            batch
        });
        let batches = batches.collect();
        let mut running = Running { core: core(&chain), port, batches };
        running.process();
        running
    }

    fn process(&mut self) {
        for batch in &mut self.batches {
            batch.live = u64::MAX >> (64 - batch.frames.len());
            batch.plain = batch.live;
            self.core.process(batch, &self.port, &mut ());
            batch.edits.iter_mut().for_each(Edits::clear);
        }
    }
}

/// A core under a strategy that has all packets to itself.
struct Turning {
    core: ChainCore,
    port: MemoryPort,
    batch: engine::Batch,
    /// Where the strategy moves flows.
    mover: Option<Mover>,
}

impl Turning {
    fn new(strategy: &'static dyn Strategy) -> Turning {
        Turning::of(STATISTICS, strategy)
    }

    /// The chain of two that docs/performance.md speaks of.
    fn of_two(strategy: &'static dyn Strategy) -> Turning {
        Turning::of(&[STATISTICS, BALANCER].concat(), strategy)
    }

    /// A chain of one function that does what the two of [`Turning::of_two`] do.
    fn of_fused(strategy: &'static dyn Strategy) -> Turning {
        Turning::of(&BALANCER.replace("load-balancer", Fused::ABOUT.name), strategy)
    }

    fn of(toml: &str, strategy: &'static dyn Strategy) -> Turning {
        let mut registry = stock::registry();
        registry.add::<Fused>();
        let chain = Chain::parse("bench", toml, &registry).expect("a chain");
        let plan = Plan::new(&chain, strategy, 1).expect("a plan");
        let core = plan.cores_of(&chain).expect("memory").remove(0);
        let mover = plan.owners().map(|owners| Mover::for_cores(&owners, 1).1.remove(0));
        let (port, batch) = (port(), engine::Batch::new());
        let mut turning = Turning { core, port, batch, mover };
        turning.turns();
        turning
    }

    /// As many as take each packet once.
    fn turns(&mut self) {
        let Self { core, port, batch, mover } = self;
        let mut counters = CoreCounters::default();
        while counters.packets < PACKETS as u64 {
            let received = match mover {
                None => turn(port, core, batch, &mut (), &mut (), &mut counters),
                Some(mover) => turn(port, core, batch, &mut (), mover, &mut counters),
            };
            black_box(received).expect("the port is open");
        }
    }
}

/// One core under `dyssect`, with batches that were received once; in their buffers is what a card says of them.
struct Referred {
    core: ChainCore,
    intake: Box<dyn Intake>,
    port: MemoryPort,
    batches: Vec<engine::Batch>,
    /// The card is its.
    _dispatcher: Box<dyn Dispatcher>,
}

impl Referred {
    fn new(shards: usize, card_flows: usize) -> Referred {
        let chain = Chain::parse("bench", STATISTICS, &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, DYSSECT, 1).expect("a plan");
        let plan = Plan { shards: Shards::new(shards), card_flows, ..plan };
        let Team { mut dispatcher, mut intakes } = plan.team(&chain);
        let (core, intake) = (plan.cores_of(&chain).expect("memory").remove(0), intakes.remove(0));
        let mut port = port();
        let batches = (0..2).map(|_| {
            let mut batch = engine::Batch::new();
            port.receive(&mut batch.frames, PACKETS / 2);
            for (frame, headers) in batch.frames.iter_mut().zip(&mut *batch.headers) {
                wire::parse_into(frame.link, port.bytes(frame), frame.wire_len, headers);
                dispatcher.dispatch(headers, frame, &Sink).expect("open");
            }
            batch
        });
        let batches = batches.collect();
        let mut referred = Referred { core, intake, port, batches, _dispatcher: dispatcher };
        // A core tells the card of one packet in a batch.
        for _ in 0..2_000 {
            referred.process();
            referred.refer();
        }
        referred
    }

    /// What the card does.
    fn refer(&mut self) {
        let Self { port, batches, _dispatcher: dispatcher, .. } = self;
        for batch in batches {
            for (frame, headers) in batch.frames.iter_mut().zip(&*batch.headers) {
                let (reference, start) = (dispatcher.refer(headers), frame.data().start);
                let before = &mut port.buffer_mut(frame)[..start];
                before[start - Reference::LEN..].copy_from_slice(&reference.0.to_le_bytes());
            }
        }
    }

    fn process(&mut self) {
        let Self { core, intake, port, batches, .. } = self;
        for batch in batches {
            batch.live = u64::MAX >> (64 - batch.frames.len());
            batch.plain = batch.live;
            intake.step(core, batch, port, &mut ());
            batch.edits.iter_mut().for_each(Edits::clear);
        }
    }
}

/// Whose packets cores take in turn.
#[derive(Clone, Copy)]
enum Spread {
    /// All packets are of one connection, in one direction.
    OneFlow,
    /// All packets are of one connection, whose ends take turns: 18 bytes each, which the next packet acknowledges.
    BothWays,
    /// Each packet is of another connection.
    ManyFlows,
    /// 64 that follow each other are of some 20, as in `university`: one in three is of the flow before.
    Skewed,
}

impl Spread {
    /// Packets in the order in which they come, over and over.
    fn packet(self, number: u64) -> Vec<u8> {
        match self {
            Spread::ManyFlows => Kind::Tcp.frame((number % 700) as u16),
            Spread::Skewed => {
                let mixed = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    .rotate_right(32)
                    .wrapping_mul(0xd6e8_feb8_6659_fd93);
                let drawn = (mixed >> 11) as f64 / (1u64 << 53) as f64;
                Kind::Tcp.frame(700f64.powf(drawn.powi(4)) as u16)
            }
            Spread::OneFlow => {
                let mut frame = Kind::Tcp.frame(1);
                // An acknowledgment of nothing new, with 18 more bytes.
                frame[38..42].copy_from_slice(&(18 * number as u32).to_be_bytes());
                frame
            }
            Spread::BothWays => {
                let mut frame = Kind::Tcp.frame(1);
                let sent = 18 * (number / 2) as u32;
                let acknowledged = sent + 18 * (number % 2) as u32;
                frame[38..42].copy_from_slice(&sent.to_be_bytes());
                frame[42..46].copy_from_slice(&acknowledged.to_be_bytes());
                // A window that holds a whole round, which then begins anew inside of it.
                frame[48..50].copy_from_slice(&u16::MAX.to_be_bytes());
                if number % 2 == 1 {
                    let (src, dst) = frame[26..34].split_at_mut(4);
                    src.swap_with_slice(dst);
                    let (src_port, dst_port) = frame[34..38].split_at_mut(2);
                    src_port.swap_with_slice(dst_port);
                }
                frame
            }
        }
    }
}

fn record(data: &[u8]) -> Record<'_> {
    Record { time_ns: 1, wire_len: data.len() as u32, link: LinkType::Ethernet, data }
}

fn port() -> MemoryPort {
    let frames: Vec<_> = (0..PACKETS as u16).map(|number| Kind::Udp.frame(number)).collect();
    port_of(frames.iter())
}

fn port_of<'a>(frames: impl Iterator<Item = &'a Vec<u8>>) -> MemoryPort {
    let mut trace = Trace::default();
    frames.for_each(|data| trace.push(&record(data)));
    let all: Vec<u32> = (0..trace.len() as u32).collect();
    MemoryPort::new(&trace, &all, 2 * PACKETS, Default::default())
}

fn with_shorts(kind: Kind) -> (Batch, Vec<Short>) {
    (Batch::new(kind), vec![Short::of_bytes(&[]); PACKETS])
}

type Hashed = (Batch, Vec<u64>, Hasher);

/// A hasher is made once for each table: what it draws from its seed is not counted.
fn with_hashes(kind: Kind) -> Hashed {
    (Batch::new(kind), vec![0; PACKETS], Hasher::new(7))
}

library_benchmark_group!(name = parsing, benchmarks = [parse, parse_one]);
library_benchmark_group!(name = edits, benchmarks = [edits_clear, edits_set, edits_to_headers, edits_apply]);
library_benchmark_group!(
    name = keys,
    benchmarks = [short_of_five_tuple, short_of_connection, hash_of_five_tuple, short_and_its_hash]
);

library_benchmark_group!(
    name = histories,
    benchmarks = [
        dispatch,
        history_next,
        history_prefix,
        history_parse,
        history_items,
        history_replayed,
        history_sequenced
    ]
);
library_benchmark_group!(name = tables, benchmarks = [table_locate]);
library_benchmark_group!(
    name = chains,
    benchmarks = [chain, chain_shared, firewall_new, firewall_known, card, turns, replicas]
);

main!(library_benchmark_groups = parsing, edits, keys, histories, tables, chains);
