//! Setups with the engine's own sequencer: cores that replicate state, and that sequencer itself.

use std::hint::black_box;

use engine::strategies::{Dispatcher, Ingress, Queues, SCR, Team};
use engine::{BATCH_PACKETS, Chain, ChainCore, CoreCounters, Intake, Plan, turn};
use io::{Closed, Fate, Frame, MemoryPort, Port, Received};
use paceline_bench::PACKETS;
use wire::Stamp;

use crate::{Spread, port_of};

/// The first of some cores that replicate state.
pub struct Replicating {
    core: ChainCore,
    port: Numbered,
    batch: engine::Batch,
    intake: Box<dyn Intake>,
    /// The history would end with it.
    _dispatching: Dispatching,
}

/// Rounds over the packets: one that is not counted, and one that is.
const ROUNDS: usize = 2;

impl Replicating {
    pub fn new(cores: u64, function: &str, spread: Spread) -> Replicating {
        let toml = format!("[[function]]\nuse = \"{function}\"\nflows = 4096");
        let chain = Chain::parse("bench", &toml, &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, SCR, cores as usize).expect("a plan");
        let core = plan.cores_of(&chain).expect("memory").remove(0);
        let frames: Vec<_> = (0..PACKETS as u64 * cores).map(|number| spread.packet(number)).collect();
        let port = Numbered { port: port_of(frames.iter().step_by(cores as usize)), cores };
        let mut dispatching = Dispatching::of(&plan, &chain, frames);
        // The log holds them all: the core is as far behind as it may be.
        (0..ROUNDS).for_each(|_| dispatching.round());
        // The last batch of each round may reach into the next one.
        dispatching.some(ROUNDS * engine::BATCH_PACKETS * cores as usize);
        let (intake, batch) = (dispatching.intakes.remove(0), engine::Batch::new());
        let mut replicating = Replicating { core, port, batch, intake, _dispatching: dispatching };
        replicating.turns();
        replicating
    }

    /// As many as take each own packet once.
    pub fn turns(&mut self) {
        let Self { core, port, batch, intake, .. } = self;
        let mut counters = CoreCounters::default();
        while counters.packets < PACKETS as u64 {
            let received = turn(port, core, batch, &mut (), &mut **intake, &mut counters);
            assert_ne!(
                received.expect("the port is open"),
                Received::End,
                "history that the core needs is not there"
            );
        }
    }
}

/// Packets that have every so many numbers.
struct Numbered {
    port: MemoryPort,
    cores: u64,
}

impl Port for Numbered {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let begin = frames.len();
        let received = self.port.receive(frames, max);
        frames[begin..].iter_mut().for_each(|frame| frame.stamp.seq *= self.cores);
        received
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
        self.port.transmit(frames, fates)
    }
}

/// The engine's sequencer, and the cores that read what it writes.
pub struct Dispatching {
    ingress: Ingress,
    dispatcher: Box<dyn Dispatcher>,
    intakes: Vec<Box<dyn Intake>>,
    frames: Vec<Vec<u8>>,
    arrived: Vec<Frame>,
    next: u64,
}

impl Dispatching {
    pub fn new(function: &str, spread: Spread) -> Dispatching {
        let toml = format!("[[function]]\nuse = \"{function}\"\nflows = 4096");
        let chain = Chain::parse("bench", &toml, &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, SCR, 7).expect("a plan");
        let frames = (0..PACKETS as u64).map(|number| spread.packet(number)).collect();
        let mut dispatching = Dispatching::of(&plan, &chain, frames);
        dispatching.round();
        dispatching
    }

    fn of(plan: &Plan, chain: &Chain, frames: Vec<Vec<u8>>) -> Dispatching {
        let Team { dispatcher, intakes } = plan.team(chain);
        let ingress = Ingress::new(chain, &*dispatcher);
        Dispatching {
            ingress,
            dispatcher,
            intakes,
            frames,
            arrived: Vec::with_capacity(BATCH_PACKETS),
            next: 0,
        }
    }

    /// Each packet once.
    pub fn round(&mut self) {
        self.some(self.frames.len());
    }

    /// The first packets, once more.
    fn some(&mut self, packets: usize) {
        let Dispatching { ingress, dispatcher, next, arrived, .. } = self;
        for bytes in black_box(&self.frames[..packets.min(self.frames.len())]).chunks(BATCH_PACKETS) {
            let first = *next;
            for bytes_of in bytes {
                let stamp = Stamp { seq: *next, time_ns: 1 };
                arrived.push(Frame::without_bytes(stamp));
                arrived.last_mut().expect("one").wire_len = bytes_of.len() as u32;
                *next += 1;
            }
            let headers = ingress.batch(
                arrived,
                &mut &*bytes,
                |bytes: &&[_], frame| &bytes[(frame.stamp.seq - first) as usize],
                |_, _, _| false,
            );
            dispatcher.tell(headers, arrived, &Sink).expect("open");
            for (frame, headers) in arrived.iter_mut().zip(headers) {
                black_box(dispatcher.dispatch(headers, frame, &Sink)).expect("open");
            }
            arrived.clear();
        }
    }
}

/// Queues of which nobody asks anything.
pub struct Sink;

impl Queues for Sink {
    fn sent(&self, _: usize) -> u64 {
        0
    }

    fn is_closed(&self) -> bool {
        false
    }
}
