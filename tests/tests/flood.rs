//! A connection tracker with a full table under a SYN flood: who lives, who is counted as what, and that
//! memory stays as it is.

use std::sync::{Arc, Mutex};

use engine::run;
use engine::{BATCH_PACKETS, Batch, ChainCore, FlowCounters};
use io::capture::Record;
use io::{Closed, Fate, Frame, MemoryPort, Port, Received, Trace};
use nf::NetworkFunction;
use nfs::Conntrack;
use paceline_conformance::counting::{Counting, allocations};
use paceline_conformance::{Packet, chain, tcp};
use wire::{LinkType, tcp_flags};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Connections that the table holds.
const CAPACITY: u64 = 4_096;

/// Connections that are open when the flood begins.
const OPEN: u64 = 1_000;

/// SYNs that nobody will complete: the table many times over, in a fifth of a second.
const FLOOD: u64 = 200_000;

const SERVER: u8 = 200;
const SECOND_NS: u64 = 1_000_000_000;

/// Packets with what becomes of them, by who sent them.
#[derive(Default)]
struct Packets {
    now_ns: u64,
    packets: Vec<Packet>,
    senders: Vec<Sender>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    /// Connections that were open before the flood.
    Open,
    /// Connections that open during the flood.
    New,
    Flood,
}

impl Packets {
    /// A microsecond after the last; `from` is the client's host and port.
    fn push(&mut self, sender: Sender, from: (u8, u16), flags: u8, to_server: bool) {
        self.now_ns += 1_000;
        let ((src, dst), ports) = match to_server {
            true => ((from.0, SERVER), (from.1, 80)),
            false => ((SERVER, from.0), (80, from.1)),
        };
        // Each side has sent its SYN and no data.
        let is_first = flags & tcp_flags::SYN != 0;
        let seq = u32::from(!to_server) * 1_000 + u32::from(!is_first);
        let mut packet = tcp(self.now_ns, src, dst, ports, flags, seq, 0);
        if flags & tcp_flags::ACK != 0 {
            let acked = u32::from(to_server) * 1_000 + 1;
            packet.bytes[14 + 20 + 8..][..4].copy_from_slice(&acked.to_be_bytes());
        }
        self.packets.push(packet);
        self.senders.push(sender);
    }

    fn handshake(&mut self, sender: Sender, from: (u8, u16)) {
        self.push(sender, from, tcp_flags::SYN, true);
        self.push(sender, from, tcp_flags::SYN | tcp_flags::ACK, false);
        self.push(sender, from, tcp_flags::ACK, true);
    }

    /// A sign of life of an open connection, from either side.
    fn keep_alive(&mut self, connection: u64) {
        let to_server = connection.is_multiple_of(2);
        self.push(Sender::Open, client(connection), tcp_flags::ACK, to_server);
    }
}

/// Host and port of a client: 200 hosts with many ports.
fn client(connection: u64) -> (u8, u16) {
    ((connection % 200) as u8, (1_024 + connection / 200) as u16)
}

/// Connections open, and the flood comes while they speak. Now and then one more opens.
fn flood() -> Packets {
    let mut packets = Packets { now_ns: SECOND_NS, ..Packets::default() };
    (0..OPEN).for_each(|connection| packets.handshake(Sender::Open, client(connection)));
    for syn in 0..FLOOD {
        packets.push(Sender::Flood, client(10_000 + syn), tcp_flags::SYN, true);
        if syn % 20 == 0 {
            packets.keep_alive(syn / 20 % OPEN);
        }
        if syn % 1_000 == 999 {
            packets.handshake(Sender::New, client(OPEN + syn / 1_000));
        }
    }
    (0..OPEN).for_each(|connection| packets.keep_alive(connection));
    packets
}

/// A port that gives out a trace once, in batches as large as they get, and keeps fates. It allocates
/// nothing.
struct Once {
    port: MemoryPort,
    left: usize,
    fates: Vec<Fate>,
}

impl Once {
    fn new(packets: &[Packet]) -> Once {
        let mut trace = Trace::default();
        for Packet { time_ns, bytes } in packets {
            let wire_len = bytes.len() as u32;
            trace.push(&Record { time_ns: *time_ns, wire_len, link: LinkType::Ethernet, data: bytes });
        }
        let all: Vec<u32> = (0..packets.len() as u32).collect();
        Once {
            port: MemoryPort::new(&trace, &all, BATCH_PACKETS, Arc::default()),
            left: packets.len(),
            fates: Vec::with_capacity(packets.len()),
        }
    }
}

impl Port for Once {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        if self.left == 0 {
            return Received::End;
        }
        let size = max.min(self.left);
        self.left -= size;
        self.port.receive(frames, size)
    }

    fn consumed(&self) -> u64 {
        self.port.consumed()
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        self.fates.extend(fates);
        self.port.transmit(frames, fates)
    }
}

fn core(options: &str) -> ChainCore {
    let toml = format!("[[function]]\nuse = \"conntrack\"\nflows = {CAPACITY}\npick_up = false\n{options}");
    chain(&toml, &stock::registry()).core().expect("memory")
}

/// Held by each test: memory is the whole process's, so that one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs packets, and says what became of each. Memory stays as it is.
fn drive(core: &mut ChainCore, packets: &Packets) -> Vec<Fate> {
    let mut port = Once::new(&packets.packets);
    let mut batch = Batch::new();
    // Touches the memory in which fates are kept.
    port.fates.resize(packets.packets.len(), Fate::Forward);
    port.fates.clear();
    let before = resident_bytes();
    let allocated = allocations(|| {
        run(&mut port, core, &mut batch, &mut (), &mut ()).expect("open");
    });
    assert_eq!(allocated, 0);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 256 << 10, "memory grew by {grown} bytes");
    port.fates
}

/// Resident memory less what is mapped from files: code that runs for the first time comes in from there, and is
/// nobody's memory. 0 where the system does not say.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages =
        |field| statm.split(' ').nth(field).and_then(|pages: &str| pages.parse().ok()).unwrap_or(0u64);
    pages(1).saturating_sub(pages(2)) * 4096
}

/// How many packets of this sender have this fate.
fn count(packets: &Packets, fates: &[Fate], sender: Sender, fate: Fate) -> u64 {
    let pairs = packets.senders.iter().zip(fates);
    pairs.filter(|pair| *pair == (&sender, &fate)).count() as u64
}

fn sent(packets: &Packets, sender: Sender) -> u64 {
    packets.senders.iter().filter(|other| **other == sender).count() as u64
}

fn dropped(reason: &str) -> Fate {
    let reason = Conntrack::ABOUT.drop_reasons.iter().position(|name| *name == reason).expect("a reason");
    Fate::DropBy { function: 0, reason: reason as u8 }
}

fn event(core: &ChainCore, name: &str) -> u64 {
    let index = Conntrack::ABOUT.events.iter().position(|event| *event == name).expect("an event");
    core.stage(0).counters().events[index]
}

fn flows(core: &ChainCore) -> FlowCounters {
    core.stage(0).counters().flows
}

/// The flood evicts itself: every connection that is open stays, and new ones open.
#[test]
fn with_evict_oldest_connections_live_and_open_through_a_flood() {
    let _alone = ALONE.lock();
    let packets = flood();
    let mut core = core("table_full = \"evict-oldest\"");
    let fates = drive(&mut core, &packets);
    for sender in [Sender::Open, Sender::New, Sender::Flood] {
        assert_eq!(count(&packets, &fates, sender, Fate::Forward), sent(&packets, sender), "{sender:?}");
    }
    let new = FLOOD / 1_000;
    assert_eq!(event(&core, "established"), OPEN + new);
    assert_eq!(event(&core, "opened"), OPEN + new + FLOOD);
    let created = OPEN + new + FLOOD;
    let expected = FlowCounters { created, evicted: created - CAPACITY, ..FlowCounters::default() };
    assert_eq!(flows(&core), expected);
    assert_eq!(core.stage(0).counters().live, CAPACITY as usize);
}

/// The firewall fails closed: connections that are open stay, and nobody else comes in, until half-open
/// ones have timed out.
#[test]
fn with_reject_connections_live_through_a_flood_and_none_opens() {
    let _alone = ALONE.lock();
    let packets = flood();
    let mut core = core("table_full = \"reject\"");
    let fates = drive(&mut core, &packets);
    let full = dropped("table-full");
    assert_eq!(count(&packets, &fates, Sender::Open, Fate::Forward), sent(&packets, Sender::Open));
    // The first of the others come in while there is room: two with a handshake among 3,096.
    let room = CAPACITY - OPEN;
    let new = room / 1_000 - u64::from(room % 1_000 < room / 1_000);
    let flooded = room - new;
    assert_eq!(count(&packets, &fates, Sender::Flood, Fate::Forward), flooded);
    assert_eq!(count(&packets, &fates, Sender::Flood, full), FLOOD - flooded);
    assert_eq!(count(&packets, &fates, Sender::New, Fate::Forward), 3 * new);
    let refused = FLOOD / 1_000 - new;
    assert_eq!(count(&packets, &fates, Sender::New, full), refused);
    assert_eq!(event(&core, "established"), OPEN + new);
    let rejected = FLOOD - flooded + refused;
    assert_eq!(flows(&core), FlowCounters { created: CAPACITY, rejected, ..FlowCounters::default() });

    // Two minutes later the half-open ones are dead. A round of the sweep takes 8 steps a block.
    let mut after = Packets { now_ns: packets.now_ns + 121 * SECOND_NS, ..Packets::default() };
    (0..8 * CAPACITY).for_each(|step| after.keep_alive(step % OPEN));
    (0..2_000).for_each(|new| after.handshake(Sender::New, client(5_000 + new)));
    let fates = drive(&mut core, &after);
    assert!(fates.iter().all(|fate| *fate == Fate::Forward));
    assert_eq!(event(&core, "established"), OPEN + new + 2_000);
    let FlowCounters { expired, rejected: still, .. } = flows(&core);
    assert_eq!((expired, still), (flooded, rejected));
}

/// What the tests above can see: half-open connections that live as long as open ones push them out.
#[test]
fn without_shorter_time_outs_a_flood_would_push_connections_out() {
    let _alone = ALONE.lock();
    let packets = flood();
    let mut core = core("table_full = \"evict-oldest\"\ntcp_timeout_syn_sent = 432000");
    let fates = drive(&mut core, &packets);
    let lost = count(&packets, &fates, Sender::Open, dropped("no-connection"));
    assert!(lost > OPEN / 2, "{lost} packets of connections that were pushed out");
}

/// The flow that is nearest to its deadline goes, so time-outs say which flow that is. By default, as in Linux, a
/// connection that was answered times out sooner than one that was not: in a flood that nobody answers
/// it goes first. A time-out for unanswered SYNs below that of answered ones turns it round.
#[test]
fn an_unanswered_flood_spares_handshakes_where_unanswered_syns_time_out_sooner() {
    let _alone = ALONE.lock();
    let mut packets = Packets { now_ns: SECOND_NS, ..Packets::default() };
    let mut syns = 0..;
    let mut flood = |packets: &mut Packets, count: usize| {
        for syn in syns.by_ref().take(count) {
            packets.push(Sender::Flood, client(10_000 + syn), tcp_flags::SYN, true);
        }
    };
    flood(&mut packets, 2 * CAPACITY as usize);
    const HANDSHAKES: u64 = 50;
    for new in 0..HANDSHAKES {
        // A quarter of the table's worth of SYNs between a packet of the handshake and the next.
        packets.push(Sender::New, client(new), tcp_flags::SYN, true);
        flood(&mut packets, CAPACITY as usize / 4);
        packets.push(Sender::New, client(new), tcp_flags::SYN | tcp_flags::ACK, false);
        flood(&mut packets, CAPACITY as usize / 4);
        packets.push(Sender::New, client(new), tcp_flags::ACK, true);
    }
    let established = |options: &str| {
        let mut core = core(&format!("table_full = \"evict-oldest\"\n{options}"));
        drive(&mut core, &packets);
        event(&core, "established")
    };
    assert!(established("") < HANDSHAKES / 10);
    assert_eq!(established("tcp_timeout_syn_sent = 30"), HANDSHAKES);
}
