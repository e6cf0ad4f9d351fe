//! Replicas on one thread: a dispatcher and cores take turns in an order that is drawn, and whenever a core has
//! finished a batch its states are compared with those of a single core after as many packets.
//!
//! What a core is told of packets is the test's to say, see [`Memory`], so that it can be wrong.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{
    BATCH_PACKETS, Batch, Chain, ChainCore, CoreCounters, FlowCounters, Forgotten, HistoryWriter, Intake,
};
use engine::{history, turn};
use io::{Closed, Fate, Frame, Port, Received};
use sequencer::ItemLayout;
use wire::{Headers, LinkType, Stamp};

use crate::draw::Draw;
use crate::{CutPort, Packet};

/// A core that still waits after this many turns waits for ever.
const ENDLESS: u64 = 1_000_000;

/// Packets that go to cores in turn, each of which has a replica.
pub struct Sprayed {
    /// What each core runs.
    pub chain: Chain,
    /// How many cores.
    pub cores: usize,
    /// In order of arrival, one for each core at least.
    pub packets: Vec<Packet>,
}

/// How the cores go.
#[derive(Clone, Debug)]
pub struct Pace {
    /// By core, in how many of a hundred turns it does something.
    pub speeds: Vec<u64>,
    /// The most packets that are dispatched at once.
    pub dispatched_max: u64,
    /// The most packets that a core receives at once.
    pub received_max: u64,
    /// What else is drawn.
    pub draw: Draw,
}

impl Pace {
    /// Cores that are fast and slow.
    pub fn draw(cores: usize, draw: &mut Draw) -> Pace {
        let slowest = draw.of(&[100, 50, 10, 2]);
        Pace {
            speeds: (0..cores).map(|_| slowest + draw.below(101 - slowest)).collect(),
            dispatched_max: draw.of(&[1, 3, 20, 1_000]),
            received_max: draw.of(&[1, 3, 64]),
            draw: Draw::new(draw.below(u64::MAX)),
        }
    }
}

/// The question what a core is told of packet number `seq`. One that the core has itself is asked for, too.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which core.
    pub core: u64,
    /// How many cores there are.
    pub cores: u64,
    /// The packet.
    pub seq: u64,
    /// Packets that there will have been.
    pub packets: u64,
}

/// The answer: of which packet the headers are, and of which the time.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// `None`: of none.
    pub headers_of: Option<u64>,
    /// The packet that came at that time.
    pub time_of: u64,
}

/// What cores are told; `None` is nothing, of this packet or any later one.
pub type Memory = Arc<dyn Fn(&Ask) -> Option<Told> + Send + Sync>;

/// A memory that tells of each packet its own headers and time.
pub fn faithful() -> Memory {
    Arc::new(|ask| Some(Told { headers_of: Some(ask.seq), time_of: ask.seq }))
}

/// A memory and the numbers with which own packets come, so that those can be wrong, too.
#[derive(Clone)]
pub struct History {
    /// What cores are told.
    pub memory: Memory,
    /// Has each own packet come with the number before its own: it changes places with that packet if `memory` has it
    /// so, too.
    pub own_come_early: bool,
    /// Has cores told of packets without the side that they came from.
    pub has_no_sides: bool,
}

impl From<Memory> for History {
    fn from(memory: Memory) -> History {
        History { memory, own_come_early: false, has_no_sides: false }
    }
}

/// How replicas and the single core compare.
#[derive(Debug, Default)]
pub struct Compared {
    /// Comparisons of all functions' states on a core.
    pub comparisons: u64,
    /// After how many packets there were some.
    pub after: BTreeSet<u64>,
    /// Comparisons that found a difference.
    pub different: u64,
    /// The first of them.
    pub first: Option<String>,
    /// Packets whose fate or bytes differ.
    pub different_answers: u64,
    /// By core, where it had forgotten something, if it had.
    pub forgotten: Vec<Option<Forgotten>>,
    /// Packets that cores stepped for others.
    pub replayed: u64,
    /// By function, how its flows came and went on the single core.
    pub flows: Vec<FlowCounters>,
}

impl Compared {
    /// Whether nothing differs, in states or answers.
    pub fn is_same(&self) -> bool {
        self.different == 0 && self.different_answers == 0
    }
}

/// All that is kept of a function's flows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct States {
    digest: u64,
    audit: u64,
    flows: FlowCounters,
    live: usize,
}

fn states(core: &ChainCore, now: Stamp) -> Vec<States> {
    let states = core.stages().map(|stage| {
        let counters = stage.counters();
        let (digest, audit) = (stage.digest(now), stage.audit(now));
        States { digest, audit, flows: counters.flows, live: counters.live }
    });
    states.collect()
}

/// What a function counted of the core's own packets.
fn counts(core: &ChainCore) -> Vec<Vec<u64>> {
    let counts = core.stages().map(|stage| {
        let counters = stage.counters();
        let verdicts = [counters.packets, counters.forward, counters.transmit_back, counters.host];
        [&verdicts[..], counters.drops, counters.events].concat()
    });
    counts.collect()
}

/// One core with all packets.
struct Single {
    /// By the number of packets.
    states: Vec<Vec<States>>,
    stamps: Vec<Stamp>,
    answers: Vec<(Fate, Vec<u8>)>,
    counts: Vec<Vec<u64>>,
    settled: Vec<States>,
}

impl Single {
    fn run(chain: &Chain, packets: &[Packet]) -> Single {
        let mut core = chain.core().expect("memory");
        let mut port = CutPort::new(packets, &[1]);
        let (mut batch, mut counters) = (Batch::new(), CoreCounters::default());
        let mut stamps = Vec::new();
        let mut after = vec![states(&core, Stamp::default())];
        while turn(&mut port, &mut core, &mut batch, &mut (), &mut (), &mut counters) != Ok(Received::End) {
            stamps.push(port.last);
            after.push(states(&core, port.last));
        }
        let counts = counts(&core);
        core.settle(port.last);
        Single { states: after, settled: states(&core, port.last), counts, stamps, answers: port.answers }
    }
}

/// What the dispatcher has done.
struct Dispatched {
    headers: Vec<Headers>,
    stamps: Vec<Stamp>,
    sent: AtomicU64,
}

impl Dispatched {
    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn packets(&self) -> u64 {
        self.stamps.len() as u64
    }
}

/// What a core is told of packets, ahead of getting them.
struct Telling {
    core: u64,
    cores: u64,
    memory: Memory,
    /// `None` from the first packet on that it is not told of, and at the end.
    writer: Option<HistoryWriter>,
    /// Where it is not told of a packet.
    untold: Option<Forgotten>,
}

impl Telling {
    /// Tells of packets that arrived together.
    fn tell(&mut self, packets: Range<u64>, dispatched: &Dispatched) {
        let Some(writer) = &mut self.writer else { return };
        let (mut headers, mut frames) = (Vec::new(), Vec::new());
        for seq in packets {
            let ask = Ask { core: self.core, cores: self.cores, seq, packets: dispatched.packets() };
            let Some(Told { headers_of, time_of }) = (self.memory)(&ask) else {
                self.untold = Some(Forgotten { seq });
                break;
            };
            headers.push(headers_of.map_or(Headers::default(), |seq| dispatched.headers[seq as usize]));
            let time_ns = dispatched.stamps[time_of as usize].time_ns;
            frames.push(Frame::without_bytes(Stamp { seq, time_ns }));
        }
        for (headers, frames) in headers.chunks(BATCH_PACKETS).zip(frames.chunks(BATCH_PACKETS)) {
            writer.write(headers, frames);
        }
        self.writer.take_if(|_| self.untold.is_some());
    }
}

/// A core's own packets, as they are dispatched.
struct OwnPort {
    port: CutPort,
    core: u64,
    cores: u64,
    received: u64,
    received_max: u64,
    come_early: bool,
    dispatched: Arc<Dispatched>,
    draw: Draw,
}

impl Port for OwnPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let sent = self.dispatched.sent();
        let arrived = (sent + self.cores - 1 - self.core) / self.cores - self.received;
        if arrived == 0 {
            return if sent == self.dispatched.packets() { Received::End } else { Received::Idle };
        }
        let most = arrived.min(max as u64).min(self.received_max);
        let begin = frames.len();
        let received = self.port.receive(frames, 1 + self.draw.below(most) as usize);
        for frame in &mut frames[begin..] {
            let seq = self.received * self.cores + self.core;
            self.received += 1;
            let Stamp { time_ns, .. } = self.dispatched.stamps[seq as usize];
            frame.stamp = Stamp { seq: if self.come_early { seq.saturating_sub(1) } else { seq }, time_ns };
        }
        received
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        self.port.transmit(frames, fates)
    }
}

/// One core with its replica.
struct Core {
    port: OwnPort,
    chain: ChainCore,
    batch: Batch,
    counters: CoreCounters,
    intake: Box<dyn Intake>,
    telling: Telling,
    is_over: bool,
}

impl Core {
    fn new(
        sprayed: &Sprayed,
        dispatched: &Arc<Dispatched>,
        pace: &Pace,
        planted: &History,
        core: usize,
    ) -> Core {
        let Sprayed { chain, cores, packets } = sprayed;
        let own: Vec<Packet> = packets.iter().skip(core).step_by(*cores).cloned().collect();
        // A history of its own, so that it can be wrong for this core alone.
        let (writer, mut intakes) = history(chain, 1, packets.len(), 0);
        let telling = Telling {
            core: core as u64,
            cores: *cores as u64,
            memory: Arc::clone(&planted.memory),
            writer: Some(writer),
            untold: None,
        };
        Core {
            port: OwnPort {
                port: CutPort::new(&own, &[usize::MAX]),
                core: core as u64,
                cores: *cores as u64,
                received: 0,
                received_max: pace.received_max,
                come_early: planted.own_come_early,
                dispatched: Arc::clone(dispatched),
                draw: pace.draw.clone(),
            },
            chain: chain.core().expect("memory"),
            batch: Batch::new(),
            counters: CoreCounters::default(),
            intake: intakes.remove(0),
            telling,
            is_over: false,
        }
    }

    /// Says whether there was a batch.
    fn turn(&mut self) -> bool {
        let Core { port, chain, batch, counters, intake, is_over, .. } = self;
        let received = turn(port, chain, batch, &mut (), &mut **intake, counters).expect("open");
        *is_over = received == Received::End;
        received == Received::Frames
    }

    /// Packets stepped.
    fn stepped(&self) -> u64 {
        self.counters.packets + self.intake.counters().replayed
    }

    /// Where it was not told of a packet, if it was not.
    fn forgotten(&mut self) -> Option<Forgotten> {
        self.intake.finish().forgotten.or(self.telling.untold)
    }
}

impl Sprayed {
    /// Runs the replicas and a single core, and compares them: the states whenever a core has finished a batch, the
    /// answers and counters at the end.
    ///
    /// # Panics
    /// If a core waits for ever, ends early, asks for what is not there yet, or counts otherwise than a single one.
    pub fn compare(&self, pace: &Pace, history: &History) -> Compared {
        let single = Single::run(&self.chain, &self.packets);
        let parse = |packet: &Packet| {
            let wire_len = packet.bytes.len() as u32;
            match history.has_no_sides {
                false => self.chain.headers(LinkType::Ethernet, &packet.bytes, wire_len),
                true => wire::parse(LinkType::Ethernet, &packet.bytes, wire_len),
            }
        };
        // No more than the chain says that it reads.
        let layout = ItemLayout::new(self.chain.history_bytes());
        let mut item = vec![0; layout.item_len()];
        let excerpt = |headers: Headers| {
            layout.write(&headers, 0, &mut item);
            layout.read(&item).0
        };
        let dispatched = Arc::new(Dispatched {
            headers: self.packets.iter().map(parse).map(excerpt).collect(),
            stamps: single.stamps.clone(),
            sent: AtomicU64::new(0),
        });
        let core = |core| Core::new(self, &dispatched, pace, history, core);
        let mut cores: Vec<Core> = (0..self.cores).map(core).collect();
        let mut compared = Compared::default();
        let mut draw = pace.draw.clone();
        let mut turns = 0;
        while cores.iter().any(|core| !core.is_over) {
            turns += 1;
            assert!(turns < ENDLESS, "somebody waits for ever");
            let who = draw.below(self.cores as u64 + 1) as usize;
            let Some(core) = cores.get_mut(who) else {
                let (before, packets) = (dispatched.sent(), dispatched.packets());
                let sent = (before + 1 + draw.below(pace.dispatched_max)).min(packets);
                for Core { telling, .. } in &mut cores {
                    telling.tell(before..sent, &dispatched);
                    telling.writer.take_if(|_| sent == packets);
                }
                dispatched.sent.store(sent, Ordering::Relaxed);
                continue;
            };
            if !core.is_over && draw.hits(pace.speeds[who], 100) && core.turn() {
                let after = core.stepped();
                let stamp = single.stamps[after as usize - 1];
                compared.after.insert(after);
                compared.see(who, after, &single.states[after as usize], &states(&core.chain, stamp));
            }
        }
        self.end(cores, &single, compared)
    }

    /// When all is over.
    fn end(&self, mut cores: Vec<Core>, single: &Single, mut compared: Compared) -> Compared {
        let packets = self.packets.len() as u64;
        compared.flows = single.settled.iter().map(|states| states.flows).collect();
        compared.replayed = cores.iter().map(|core| core.intake.counters().replayed).sum();
        compared.forgotten = cores.iter_mut().map(Core::forgotten).collect();
        for (number, core) in cores.iter_mut().enumerate() {
            let expected = single.answers.iter().skip(number).step_by(self.cores);
            let differ = core.port.port.answers.iter().zip(expected).filter(|(one, other)| one != other);
            compared.different_answers += differ.count() as u64;
            if core.forgotten().is_none() {
                assert_eq!(core.stepped(), packets, "core {number} ends early");
                let last = single.stamps[packets as usize - 1];
                core.chain.settle(last);
                compared.see(number, packets, &single.settled, &states(&core.chain, last));
            }
        }
        if compared.is_same() && compared.forgotten.iter().all(Option::is_none) {
            let mut sums: Vec<Vec<u64>> = single.counts.iter().map(|counts| vec![0; counts.len()]).collect();
            for counted in cores.iter().map(|core| counts(&core.chain)) {
                let pairs = sums.iter_mut().flatten().zip(counted.into_iter().flatten());
                pairs.for_each(|(sum, count)| *sum += count);
            }
            assert_eq!(sums, single.counts, "cores count otherwise");
        }
        compared
    }
}

impl Compared {
    fn see(&mut self, core: usize, after: u64, single: &[States], replica: &[States]) {
        self.comparisons += 1;
        if single != replica {
            self.different += 1;
            let function = single.iter().zip(replica).position(|(one, other)| one != other).unwrap_or(0);
            self.first.get_or_insert_with(|| {
                let (single, replica) = (single[function], replica[function]);
                format!("core {core} after {after} packets, function {function}: {single:?}, {replica:?}")
            });
        }
    }
}
