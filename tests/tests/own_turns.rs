//! Cores that take packets from one queue by ports of their own, and send by themselves: what leaves is what one core makes of
//! the same packets.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use engine::strategies::SCR_TURNS;
use engine::{Chain, Egress, NoOwnPorts, Plan, Progress, run_live_each};
use io::{Closed, Fate, Frame, Pool, Port, Received};
use paceline_conformance::pcap::Pcap;
use paceline_conformance::stock::{beginnings, every_model, examples, small};
use paceline_conformance::{chain, example};
use wire::Stamp;

use crate::own_ports::{LONGEST, Left, PATIENCE, Packet, expected, lock, packets_of};

/// Frames of each core.
const FRAMES: usize = 512;

/// What all ports have in common.
struct Queue {
    waiting: Mutex<VecDeque<Packet>>,
    left: Mutex<(usize, Left)>,
}

/// One core's. What it receives is not readable until it is fetched.
struct TurnPort {
    pool: Pool,
    begin: Instant,
    queue: Arc<Queue>,
    progress: Arc<Progress>,
    received: u64,
    /// Whether it was told that packets are to be received.
    is_prepared: bool,
    most: usize,
}

impl TurnPort {
    fn turn_over(&mut self, frame: &mut Frame) {
        let data = frame.data();
        self.pool.buffer_mut(frame)[data].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
}

impl Port for TurnPort {
    fn prepare(&mut self) {
        self.is_prepared = true;
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        assert!(self.begin.elapsed() < PATIENCE, "some packet waits for ever");
        assert!(std::mem::take(&mut self.is_prepared), "ahead of receiving");
        let queue = Arc::clone(&self.queue);
        let mut waiting = queue.waiting.try_lock().expect("one core at a time");
        let before = frames.len();
        while frames.len() - before < max.min(self.most) && self.pool.free() > 0 {
            let Some(packet) = waiting.pop_front() else { break };
            self.received += 1;
            let stamp = Stamp { seq: packet.seq, time_ns: packet.time_ns };
            let frame = self.pool.fill(stamp, packet.link, packet.wire_len, &packet.data);
            let mut frame = frame.expect("a frame is free, and no packet is longer");
            self.turn_over(&mut frame);
            frames.push(frame);
        }
        if frames.len() > before { Received::Frames } else { Received::Idle }
    }

    fn fetch(&mut self, frames: &mut [Frame]) {
        frames.iter_mut().for_each(|frame| self.turn_over(frame));
    }

    fn consumed(&self) -> u64 {
        self.received
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        let mut left = lock(&self.queue.left);
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

/// The plan of so many cores that send by themselves.
fn own(chain: &Chain, cores: usize) -> Result<Plan, NoOwnPorts> {
    let plan = Plan::new(chain, SCR_TURNS, cores).expect("a plan");
    Plan { egress: Egress::AsReady, ..plan }.with_own_ports(chain)
}

/// What leaves; each core receives so many packets at most at a time, and the chain takes over from itself so often.
fn own_turns(chain: &Chain, plan: &Plan, packets: Vec<Packet>, most: usize, reloads: usize) -> Left {
    let left = Mutex::new((0, vec![None; packets.len()]));
    let queue = Arc::new(Queue { waiting: Mutex::new(packets.into()), left });
    let progress = Arc::new(Progress::default());
    let port = |_| TurnPort {
        pool: Pool::chunks(FRAMES, LONGEST, 0).0,
        begin: Instant::now(),
        queue: Arc::clone(&queue),
        progress: Arc::clone(&progress),
        received: 0,
        is_prepared: false,
        most,
    };
    let mut ports: Vec<TurnPort> = (0..plan.cores).map(port).collect();
    let frames: Vec<usize> = ports.iter_mut().map(|port| port.pool.free()).collect();
    thread::scope(|scope| {
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
        let outcome = run_live_each::<(), _>(chain, plan, &mut ports, None, &progress).expect("it runs");
        assert_eq!(outcome.packets as usize, lock(&queue.left).0);
    });
    let at_home: Vec<usize> = ports.iter_mut().map(|port| port.pool.free()).collect();
    assert_eq!(at_home, frames, "all frames are at home");
    std::mem::take(&mut lock(&queue.left).1)
}

fn answers_as_one_core_does(chain: &Chain, (input, capture): (&str, &Pcap), ways: &[(usize, usize, usize)]) {
    let expected = expected(chain, capture);
    for (cores, most, reloads) in ways {
        let plan = own(chain, *cores).expect("it is right for the chain");
        let left = own_turns(chain, &plan, packets_of(capture), *most, *reloads);
        let first = left.iter().zip(&expected).position(|(left, expected)| left != expected);
        let what = format!("{} {input} on {cores}, {most} at a time", chain.name);
        assert_eq!((left.len(), first), (expected.len(), None), "{what}");
    }
}

fn runs(chain: &Chain) -> bool {
    SCR_TURNS.layout(chain, 2).is_ok() && own(chain, 2).is_ok()
}

#[test]
fn cores_that_take_turns_answer_as_one_core_does() {
    let mut inputs = beginnings(1_000);
    inputs.push(("models".to_owned(), every_model(300)));
    let chains = examples().into_iter().map(small).filter(runs);
    let mut count = 0;
    for chain in chains {
        let chain = Chain { checksums: engine::Checksums::Ignore, ..chain };
        for (input, capture) in &inputs {
            answers_as_one_core_does(&chain, (input, capture), &[(2, 64, 0), (4, 3, 0), (2, 16, 4)]);
        }
        count += 1;
    }
    println!("{count} chains");
    assert!(count >= 6, "{count}");
}

/// Tables that fill up, under both policies: each core forgets the same flows at the same packet.
#[test]
fn tiny_tables_are_alike_on_cores_that_take_turns() {
    let capture = every_model(300);
    let functions =
        ["conntrack\"", "flow-statistics\"", "policer\"\nrate_bytes_per_s = 20000\nburst_bytes = 5000"];
    for table_full in ["reject", "evict-oldest"] {
        for flows in [4, 64] {
            let of = |function: &str| {
                format!("[[function]]\nuse = \"{function}\nflows = {flows}\ntable_full = \"{table_full}\"\n")
            };
            let text = functions.map(of).concat();
            let chain = chain(&text, &stock::registry());
            let chain = Chain { checksums: engine::Checksums::Ignore, ..chain };
            let input = format!("{flows} flows, {table_full}");
            answers_as_one_core_does(&chain, (&input, &capture), &[(2, 64, 0), (3, 1, 0), (3, 16, 3)]);
        }
    }
}

#[test]
fn packets_that_are_to_leave_in_order_are_sent_by_one_thread() {
    let chain = example("scan.toml");
    let ordered = Plan::new(&chain, SCR_TURNS, 2).expect("a plan").with_own_ports(&chain);
    assert_eq!(ordered.expect_err("cores are done at different times"), NoOwnPorts::Ordered);
    assert_eq!(own(&chain, 1).expect_err("there is nobody to take turns with"), NoOwnPorts::OneCore);
}
