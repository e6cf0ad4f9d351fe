//! The cores of a plan on one thread, in turns that a seed draws. Which packets wait for which flows, and for how long,
//! is the same each time, and no core waits for a processor. The conformance tests hold moving flows to this.

use engine::strategies::SINGLE;
use engine::{Batch, Chain, ChainCore, FlowCounters, Mover, Order, Plan};
use engine::{CoreCounters, Intake, turn};
use io::capture::CaptureReader;
use io::{Closed, Fate, Frame, MemoryPort, Port, Received, Trace};
use wire::{Stamp, Stamper};

use crate::draw::Draw;

/// What the cores made of the packets.
#[derive(Debug)]
pub struct Turned {
    /// For each packet: what became of it, and its bytes with all edits applied.
    pub answers: Vec<Option<(Fate, Vec<u8>)>>,
    /// By function, summed over the cores.
    pub functions: Vec<Traces>,
    /// Packets that waited for their flows.
    pub waited: u64,
}

/// What one function's steps left behind, once the dead are gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    digest: u64,
    audit: u64,
    packets: u64,
    events: Vec<u64>,
    /// Flows that came and went.
    pub flows: FlowCounters,
}

/// How two runs compare.
#[derive(Debug, PartialEq, Eq)]
pub enum Compared {
    /// All answers and flows are the same.
    Equal,
    /// They differ, and one of them says that a table was full.
    Announced,
    /// They differ, and neither says why.
    Unannounced(String),
}

impl Turned {
    /// Whether some table was full: a flow was evicted, or refused.
    pub fn is_full(&self) -> bool {
        self.functions.iter().any(|traces| traces.flows.evicted + traces.flows.rejected > 0)
    }

    /// Compares with the same packets on one core.
    pub fn compare(&self, single: &Turned) -> Compared {
        let differs = |(ours, theirs): &(&Option<_>, &Option<_>)| ours != theirs;
        let different = self.answers.iter().zip(&single.answers).filter(differs).count();
        let of_flows = |traces: &Traces| FlowCounters { moved_in: 0, moved_out: 0, ..traces.flows };
        let is_same = |(ours, theirs): (&Traces, &Traces)| {
            let flows = of_flows(ours);
            Traces { flows, events: ours.events.clone(), ..*ours }
                == Traces { flows: of_flows(theirs), events: theirs.events.clone(), ..*theirs }
        };
        let has_same_flows = self.functions.iter().zip(&single.functions).all(is_same);
        if different == 0 && has_same_flows {
            return Compared::Equal;
        }
        if self.is_full() || single.is_full() {
            return Compared::Announced;
        }
        let (ours, theirs) = (&self.functions, &single.functions);
        Compared::Unannounced(format!("{different} answers differ; {ours:?} instead of {theirs:?}"))
    }
}

/// Runs the packets on one core.
pub fn run_single(chain: &Chain, trace: &Trace) -> Turned {
    let plan = Plan::new(chain, SINGLE, 1).expect("one core");
    run_in_turns(chain, &plan, trace, 0, &|_| {})
}

/// Runs the packets on the cores of `plan`, of which `seed` draws whose turn it is, how long that lasts, and how large
/// its batches are. `plant` may tamper with each batch before it is worked on.
///
/// # Panics
/// If a packet is lost, comes back twice, or waits for ever.
pub fn run_in_turns(
    chain: &Chain,
    plan: &Plan,
    trace: &Trace,
    seed: u64,
    plant: &(dyn Fn(&mut Batch) + Sync),
) -> Turned {
    let mut cores = stations(chain, plan, trace);
    let mut draw = Draw::new(seed);
    let mut is_over = vec![false; cores.len()];
    let mut idle_turns = 0;
    while let Some(next) = pick(&is_over, &mut draw) {
        cores[next].port.most = 1 + draw.below(64) as usize;
        for _ in 0..1 + draw.below(8) {
            idle_turns += 1;
            match cores[next].turn(plant) {
                Received::End => is_over[next] = true,
                Received::Idle => break,
                Received::Frames => idle_turns = 0,
            }
        }
        assert!(idle_turns < 100_000, "packets wait for ever");
    }
    let last =
        Stamp { seq: trace.len() as u64, time_ns: stamps(trace).last().map_or(0, |last| last.time_ns) };
    summarise(chain, cores, trace.len(), last)
}

/// Reads packets to be run, at most so many.
///
/// # Panics
/// If the capture is broken.
pub fn trace_of(mut reader: CaptureReader, most: usize) -> Trace {
    let mut trace = Trace::default();
    while trace.len() < most
        && let Some(record) = reader.next().expect("a whole capture")
    {
        trace.push(&record);
    }
    trace
}

fn pick(is_over: &[bool], draw: &mut Draw) -> Option<usize> {
    let running: Vec<usize> = (0..is_over.len()).filter(|core| !is_over[*core]).collect();
    (!running.is_empty()).then(|| draw.of(&running))
}

fn stamps(trace: &Trace) -> Vec<Stamp> {
    let mut stamper = Stamper::default();
    (0..trace.len()).map(|packet| stamper.stamp(trace.packet(packet).time_ns)).collect()
}

/// Gives each core its packets and its orders.
fn stations(chain: &Chain, plan: &Plan, trace: &Trace) -> Vec<Station> {
    let mut assign = plan.assign(chain);
    let mut queues: Vec<Vec<Arrival>> = vec![Vec::new(); plan.cores];
    let mut orders: Vec<Vec<Order>> = vec![Vec::new(); plan.cores];
    for (packet, stamp) in stamps(trace).into_iter().enumerate() {
        let record = trace.packet(packet);
        let entry = assign.entry(&wire::parse(record.link, record.data, record.wire_len));
        for moved in assign.moves(stamp) {
            let from = usize::from(moved.from);
            let (after, since_seq, since_ns) = (queues[from].len() as u64, stamp.seq, stamp.time_ns);
            orders[from].push(Order { entry: moved.entry, to: moved.to, after, since_seq, since_ns });
        }
        queues[assign.core(entry)].push(Arrival { packet: packet as u32, stamp, entry });
    }
    let movers = plan.owners().map_or_else(Vec::new, |owners| Mover::for_cores(&owners, plan.cores).1);
    let mut movers = movers.into_iter();
    let cores = plan.cores_of(chain).expect("memory").into_iter().zip(queues.into_iter().zip(orders));
    let station = |(chain, (queue, orders)): (ChainCore, (Vec<Arrival>, Vec<Order>))| {
        let mover = movers.next().map(|mut mover| {
            mover.announce(orders.len());
            mover
        });
        Station {
            chain,
            mover,
            orders: orders.into(),
            port: QueuePort::new(trace, queue),
            batch: Batch::new(),
            counters: CoreCounters::default(),
        }
    };
    cores.map(station).collect()
}

/// A core with its queue.
struct Station {
    chain: ChainCore,
    mover: Option<Mover>,
    orders: std::collections::VecDeque<Order>,
    port: QueuePort,
    batch: Batch,
    counters: CoreCounters,
}

impl Station {
    fn turn(&mut self, plant: &(dyn Fn(&mut Batch) + Sync)) -> Received {
        let Station { chain, mover, orders, port, batch, counters } = self;
        let Some(mover) = mover else {
            return turn(port, chain, batch, &mut (), &mut (), counters).expect("open");
        };
        // An order is there before any packet that came after it.
        let end = port.consumed() + port.most as u64;
        while let Some(order) = orders.pop_front_if(|order| order.after <= end) {
            mover.order(order);
        }
        turn(port, chain, batch, &mut (), &mut Tampered { mover, plant }, counters).expect("open")
    }
}

/// A mover whose batches somebody tampers with.
struct Tampered<'a> {
    mover: &'a mut Mover,
    plant: &'a (dyn Fn(&mut Batch) + Sync),
}

impl Intake for Tampered<'_> {
    fn receive(&mut self, port: &mut dyn Port, chain: &mut ChainCore, batch: &mut Batch) -> Received {
        let received = self.mover.receive(port, chain, batch);
        (self.plant)(batch);
        received
    }
}

#[derive(Clone, Copy)]
struct Arrival {
    packet: u32,
    stamp: Stamp,
    entry: u16,
}

/// One core's queue, whose packets have the stamps and entries that a dispatcher gave them.
struct QueuePort {
    port: MemoryPort,
    queue: Vec<Arrival>,
    next: usize,
    /// The most packets of the next batch.
    most: usize,
    answers: Vec<(u64, Fate, Vec<u8>)>,
}

impl QueuePort {
    fn new(trace: &Trace, queue: Vec<Arrival>) -> QueuePort {
        let packets: Vec<u32> = queue.iter().map(|arrival| arrival.packet).collect();
        // A port without packets there is none of: of this one nothing is received.
        let packets = if packets.is_empty() { vec![0] } else { packets };
        let port = MemoryPort::new(trace, &packets, packets.len(), std::sync::Arc::default());
        QueuePort { port, queue, next: 0, most: 1, answers: Vec::new() }
    }
}

impl Port for QueuePort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        let left = self.queue.len() - self.next;
        if left == 0 {
            return Received::End;
        }
        let before = frames.len();
        let received = self.port.receive(frames, max.min(self.most).min(left));
        for frame in &mut frames[before..] {
            let Arrival { stamp, entry, .. } = self.queue[self.next];
            (frame.stamp, frame.entry) = (stamp, entry);
            self.next += 1;
        }
        received
    }

    fn consumed(&self) -> u64 {
        self.next as u64
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        for (frame, fate) in frames.iter().zip(fates) {
            self.answers.push((frame.stamp.seq, *fate, self.port.bytes(frame).to_vec()));
        }
        self.port.transmit(frames, fates)
    }
}

fn summarise(chain: &Chain, mut cores: Vec<Station>, packets: usize, last: Stamp) -> Turned {
    let mut answers = vec![None; packets];
    let mut waited = 0;
    for core in &mut cores {
        core.chain.settle(last);
        waited += core.mover.as_ref().map_or(0, |mover| mover.counters().moves.waited_packets);
        for (seq, fate, bytes) in core.port.answers.drain(..) {
            let bytes = if matches!(fate, Fate::Drop(_) | Fate::DropBy { .. }) { Vec::new() } else { bytes };
            let before = answers[seq as usize].replace((fate, bytes));
            assert!(before.is_none(), "packet {seq} came back twice");
        }
    }
    assert!(answers.iter().all(Option::is_some), "packets came back");
    let traces = |index| {
        let stages: Vec<_> = cores.iter().map(|core| core.chain.stage(index)).collect();
        let sum = |of: &dyn Fn(&engine::Stage<'_>) -> u64| stages.iter().map(of).fold(0, u64::wrapping_add);
        let flows = |of: &dyn Fn(FlowCounters) -> u64| sum(&|stage| of(stage.counters().flows));
        let events = stages[0].counters().events.len();
        let flows = FlowCounters {
            created: flows(&|flows| flows.created),
            removed: flows(&|flows| flows.removed),
            expired: flows(&|flows| flows.expired),
            evicted: flows(&|flows| flows.evicted),
            rejected: flows(&|flows| flows.rejected),
            moved_in: flows(&|flows| flows.moved_in),
            moved_out: flows(&|flows| flows.moved_out),
        };
        assert_eq!(flows.moved_in, flows.moved_out, "flows that left and did not come");
        Traces {
            digest: sum(&|stage| stage.digest(last)),
            audit: sum(&|stage| stage.audit(last)),
            packets: sum(&|stage| stage.counters().packets),
            events: (0..events).map(|event| sum(&|stage| stage.counters().events[event])).collect(),
            flows,
        }
    };
    Turned { answers, functions: (0..chain.functions.len()).map(traces).collect(), waited }
}
