//! Cores with ports of their own, to which a table steers packets while entries of it move: what leaves is what one core makes
//! of the same packets, in each flow's order.
//!
//! What steers is a thread here, as an XDP program is on interfaces: it looks the core up, and some time later the packet is in
//! that core's queue. All packets are of one time, since a packet that waits is stepped as of the time at which it goes on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use engine::strategies::{RSSPP, SINGLE, Table, TableError};
use engine::{Chain, Plan, Progress, Seen, replay_capture, run_live_each};
use io::{Closed, Fate, Frame, Pool, Port, Received};
use paceline_conformance::example;
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{beginnings, generated, small};
use strategy::{Every, Move, Rebalancing};
use wire::{LinkType, Stamp, parse};

/// When all packets came.
const TIME_NS: u64 = 1_700_000_000_000_000_000;
/// Queues of each core.
const QUEUES: usize = 2;
/// Frames of each core.
const FRAMES: usize = 512;
/// Room for a packet that its sender left to a card to be segmented.
pub const LONGEST: usize = 1 << 16;
pub const PATIENCE: Duration = Duration::from_secs(60);

/// By number, what became of a packet, and its bytes as it left.
pub type Left = Vec<Option<(Fate, Vec<u8>)>>;

/// A packet on its way to a core.
pub struct Packet {
    pub seq: u64,
    pub time_ns: u64,
    pub link: LinkType,
    pub wire_len: u32,
    pub data: Vec<u8>,
}

/// One queue of one core.
#[derive(Default)]
struct Queue {
    taken: u64,
    waiting: VecDeque<Packet>,
}

/// What steers, and all that comes of it.
struct Steering {
    /// By entry, its core.
    owners: Vec<AtomicUsize>,
    /// Held from a look at the table until the packet is in its queue.
    running: Mutex<()>,
    /// By core.
    queues: Vec<[Mutex<Queue>; QUEUES]>,
    left: Mutex<(usize, Left)>,
    moves: AtomicU64,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics")
}

impl Steering {
    fn run(&self, chain: &Chain, plan: &Plan, packets: Vec<Packet>) {
        let assign = plan.assign(chain);
        for packet in packets {
            let mut headers = parse(packet.link, &packet.data, packet.wire_len);
            chain.sides.iter().for_each(|sides| sides.mark(&mut headers));
            let entry = usize::from(assign.entry(&headers));
            if packet.seq.is_multiple_of(16) {
                thread::sleep(Duration::from_micros(100));
            }
            let _running = lock(&self.running);
            let core = self.owners[entry].load(Ordering::Relaxed);
            if packet.seq.is_multiple_of(5) {
                thread::yield_now();
            }
            lock(&self.queues[core][entry % QUEUES]).waiting.push_back(packet);
        }
    }
}

/// The table, as the thread that moves entries has it.
struct Entries(Arc<Steering>);

impl Table for Entries {
    fn give(&mut self, moves: &[Move]) -> Result<(), TableError> {
        let steering = &self.0;
        for moved in moves {
            let before = steering.owners[usize::from(moved.entry)].swap(moved.to.into(), Ordering::Relaxed);
            assert_eq!(before, usize::from(moved.from), "the table is as whoever moves entries knows it");
        }
        steering.moves.fetch_add(moves.len() as u64, Ordering::Relaxed);
        drop(lock(&steering.running));
        Ok(())
    }
}

/// One core's.
struct OwnPort {
    core: usize,
    pool: Pool,
    begin: Instant,
    steering: Arc<Steering>,
    progress: Arc<Progress>,
    next: usize,
    received: u64,
    /// The marks that were not come to, and how far each queue had come.
    marks: VecDeque<(u64, [u64; QUEUES])>,
    made: u64,
    passed: u64,
}

impl Port for OwnPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        assert!(self.begin.elapsed() < PATIENCE, "some packet waits for ever");
        self.next = (self.next + 1) % QUEUES;
        let mut queue = lock(&self.steering.queues[self.core][self.next]);
        let before = frames.len();
        while frames.len() - before < max.min(7) && self.pool.free() > 0 {
            let Some(packet) = queue.waiting.pop_front() else { break };
            queue.taken += 1;
            self.received += 1;
            let stamp = Stamp { seq: packet.seq, time_ns: TIME_NS };
            let frame = self.pool.fill(stamp, packet.link, packet.wire_len, &packet.data);
            frames.push(frame.expect("a frame is free, and no packet is longer"));
        }
        if frames.len() > before { Received::Frames } else { Received::Idle }
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn mark(&mut self) -> u64 {
        self.made += 1;
        let queues = &self.steering.queues[self.core];
        let come = queues.each_ref().map(|queue| {
            let queue = lock(queue);
            queue.taken + queue.waiting.len() as u64
        });
        self.marks.push_back((self.made, come));
        self.made
    }

    fn passed(&mut self) -> u64 {
        let queues = &self.steering.queues[self.core];
        let taken = queues.each_ref().map(|queue| lock(queue).taken);
        while let Some((mark, _)) =
            self.marks.pop_front_if(|(_, come)| come.iter().zip(&taken).all(|(come, taken)| come <= taken))
        {
            self.passed = mark;
        }
        self.passed
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        let mut left = lock(&self.steering.left);
        let taken = frames.len();
        for (frame, fate) in frames.drain(..).zip(fates) {
            let packet = (*fate, self.pool.bytes(&frame).to_vec());
            left.0 += 1;
            assert!(left.1[frame.stamp.seq as usize].replace(packet).is_none(), "each packet once");
            self.pool.give_back([frame].into_iter());
        }
        if left.0 == left.1.len() {
            self.progress.stop.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }
}

pub fn packets_of(capture: &Pcap) -> Vec<Packet> {
    let mut reader = capture.open();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().expect("whole") {
        let (time_ns, link, wire_len, data) =
            (record.time_ns, record.link, record.wire_len, record.data.to_vec());
        packets.push(Packet { seq: packets.len() as u64, time_ns, link, wire_len, data });
    }
    packets
}

/// These packets, all of one time.
fn of_one_time(packets: &[Packet]) -> Pcap {
    let mut pcap = Pcap::new();
    packets.iter().for_each(|packet| pcap.push(TIME_NS, packet.wire_len, &packet.data));
    pcap
}

pub fn expected(chain: &Chain, capture: &Pcap) -> Left {
    let plan = Plan::new(chain, SINGLE, 1).expect("a plan");
    let mut left = Vec::new();
    let mut see = |seen: &Seen<'_>| {
        left.push(Some((seen.fate, seen.bytes.to_vec())));
        Ok::<_, ()>(())
    };
    replay_capture(chain, &plan, capture.open(), &Progress::default(), &mut see).expect("it runs");
    left
}

/// What leaves, and how often entries moved; the chain takes over from itself so many times.
fn own_ports(chain: &Chain, plan: &Plan, packets: Vec<Packet>, reloads: usize) -> (Left, u64) {
    let steering = Arc::new(Steering {
        owners: plan
            .indirection()
            .expect("a table")
            .into_iter()
            .map(|core| usize::from(core).into())
            .collect(),
        running: Mutex::default(),
        queues: (0..plan.cores).map(|_| Default::default()).collect(),
        left: Mutex::new((0, vec![None; packets.len()])),
        moves: AtomicU64::new(0),
    });
    let progress = Arc::new(Progress::default());
    let port = |core| OwnPort {
        core,
        pool: Pool::chunks(FRAMES, LONGEST, 0).0,
        begin: Instant::now(),
        steering: Arc::clone(&steering),
        progress: Arc::clone(&progress),
        next: 0,
        received: 0,
        marks: VecDeque::new(),
        made: 0,
        passed: 0,
    };
    let mut ports: Vec<OwnPort> = (0..plan.cores).map(port).collect();
    let frames: Vec<usize> = ports.iter_mut().map(|port| port.pool.free()).collect();
    thread::scope(|scope| {
        scope.spawn(|| steering.run(chain, plan, packets));
        scope.spawn(|| {
            for _ in 0..reloads {
                while !progress.reloads.has_begun() {
                    thread::yield_now();
                }
                match progress.reloads.reload(chain.clone()) {
                    Ok(_) | Err(engine::ReloadError::Over) => (),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let table = Some(Box::new(Entries(Arc::clone(&steering))) as Box<dyn Table>);
        let outcome = run_live_each::<(), _>(chain, plan, &mut ports, table, &progress);
        let outcome = outcome.expect("it runs");
        assert_eq!(outcome.packets as usize, lock(&steering.left).0);
        assert_eq!(outcome.moves.entries_in, outcome.moves.entries_out, "no entry is on its way");
    });
    let at_home: Vec<usize> = ports.iter_mut().map(|port| port.pool.free()).collect();
    assert_eq!(at_home, frames, "all frames are at home");
    let left = std::mem::take(&mut lock(&steering.left).1);
    (left, steering.moves.load(Ordering::Relaxed))
}

#[test]
fn cores_with_ports_of_their_own_answer_as_one_core_does() {
    let mut inputs = beginnings(2_000);
    inputs.push(("university".to_owned(), generated("university:packets=4000", 4_000)));
    let mut all_moves = 0;
    for name in ["edge.toml", "scan.toml"] {
        let chain = Chain { checksums: engine::Checksums::Ignore, ..small(example(name)) };
        for (input, capture) in &inputs {
            let capture = of_one_time(&packets_of(capture));
            let expected = expected(&chain, &capture);
            for (cores, every, reloads) in [(2, 50, 0), (3, 7, 0), (2, 20, 5)] {
                let rebalancing = Some(Rebalancing { every: Every::Packets(every), update_latency_ns: 0 });
                let plan = Plan::new(&chain, RSSPP, cores).expect("a plan");
                let plan = Plan { rebalancing, ..plan }.with_own_ports(&chain).expect("it is right");
                let (left, moves) = own_ports(&chain, &plan, packets_of(&capture), reloads);
                let first = left.iter().zip(&expected).position(|(left, expected)| left != expected);
                assert_eq!((left.len(), first), (expected.len(), None), "{name} {input} on {cores}");
                all_moves += moves;
            }
        }
    }
    println!("{all_moves} moves");
    assert!(all_moves > 2_000, "{all_moves}");
}
