//! Offloading under the model checker: a shard's offloaded part goes to another core and back while its packets come, in
//! every order that the memory model allows. Run with
//!
//! ```sh
//! cargo test -p paceline-control-model offloading
//! ```
//!
//! Bounds: threads are interrupted where they could go on at most `BOUND` times; the offloader takes `TURNS` turns beside
//! the worker, and the rest when that has come to the end of its script.

use loom::thread;

use super::{Event, Fault, Offloading, Route, Todo, offloading};
use crate::Split;

const BOUND: usize = 2;

/// Turns that the offloader takes beside the worker: so many as can matter.
const TURNS: usize = 3;

/// A core that still waits after this many turns waits for ever.
const ENDLESS: usize = 50;

/// By bucket, the numbers of the packets that its flows have seen; `None` if they are elsewhere.
type Flows = [Option<Vec<u64>>; 2];

/// A packet: its bucket and its number among those of the bucket.
type Packet = (u8, u64);

#[derive(Clone, Copy)]
enum Say {
    /// A packet of this bucket comes.
    Packet(u8),
    /// So many buckets should be offloaded, in the order of this mask.
    Want(u8, u8),
    /// They should be offloaded to this core.
    To(Option<u16>),
    /// The shard is to leave.
    Leave,
}
use Say::{Leave, Packet as Comes, To, Want};

struct Core {
    offloading: Offloading<Packet, (Split, Flows)>,
    flows: Flows,
    /// What is in the offloaded part.
    split: Split,
    has_left: bool,
    /// Planted: looks at events while packets that it has taken are not stepped.
    is_half_done: bool,
    taken: Vec<Packet>,
}

impl Core {
    fn new(offloading: Offloading<Packet, (Split, Flows)>, flows: Flows) -> Core {
        Core {
            offloading,
            flows,
            split: Split::NONE,
            has_left: false,
            is_half_done: false,
            taken: Vec::new(),
        }
    }

    fn step(&mut self, (bucket, seq): Packet) {
        let flow = self.flows[usize::from(bucket)].as_mut().expect("out of order, or without its flows");
        assert_eq!(flow.len() as u64, seq, "out of order, or without its flows");
        flow.push(seq);
    }

    fn take_part(&mut self) -> (Split, Flows) {
        let of = |bucket: u8| self.flows[usize::from(bucket)].take_if(|_| self.split.has(bucket));
        (self.split, [0, 1].map(of))
    }

    fn put_part(&mut self, (split, part): (Split, Flows)) {
        self.split = split;
        for (flow, come) in self.flows.iter_mut().zip(part) {
            *flow = come.or(flow.take());
        }
    }

    /// What a core does between two looks at its packets.
    fn turn(&mut self) {
        if self.is_half_done {
            self.serve();
        }
        self.offloading.flush();
        while let Some(event) = self.offloading.event() {
            match event {
                Event::Lent(_, part) | Event::Returned(_, part) => self.put_part(part),
                Event::Recalled { shard, to } => {
                    let part = self.take_part();
                    self.offloading.give_back(to, shard, part);
                }
            }
        }
        while let Some(todo) = self.offloading.todo(0) {
            match todo {
                // The flows of both parts are here, and in one place: nothing has to go.
                Todo::Arrange { to, .. } => {
                    self.split = to;
                    self.offloading.arranged(0);
                }
                Todo::Lend(core) => {
                    let part = self.take_part();
                    self.offloading.lend(0, core, part).expect("room");
                }
                Todo::Leave => {
                    assert!(self.flows.iter().all(Option::is_some), "left without all flows");
                    self.offloading.left(0);
                    self.has_left = true;
                }
            }
        }
        let mut now = Vec::new();
        self.offloading.release(1, &mut now, |_| ());
        now.into_iter().for_each(|packet| self.step(packet));
        std::mem::take(&mut self.taken).into_iter().for_each(|packet| self.step(packet));
        if !self.is_half_done {
            self.serve();
            std::mem::take(&mut self.taken).into_iter().for_each(|packet| self.step(packet));
        }
    }

    /// Does all that a script says; how many packets of each bucket came.
    fn follow(&mut self, script: &[Say]) -> [u64; 2] {
        let mut seqs = [0; 2];
        for say in script {
            match say {
                Comes(bucket) => {
                    let seq = &mut seqs[usize::from(*bucket)];
                    self.come((*bucket, *seq));
                    *seq += 1;
                }
                Want(buckets, mask) => {
                    self.offloading.want(0, Split { buckets: *buckets, mask: *mask });
                }
                To(core) => self.offloading.offload_to(*core),
                Leave => self.offloading.leave(0),
            }
            self.turn();
        }
        seqs
    }

    fn serve(&mut self) {
        self.offloading.serve(1, &mut self.taken);
    }

    fn come(&mut self, (bucket, seq): Packet) {
        match self.offloading.route(0, bucket) {
            Route::Here => self.step((bucket, seq)),
            Route::Offloader(core) => self.offloading.send(core, (bucket, seq)).expect("room"),
            Route::Wait => self.offloading.wait(0, bucket, (bucket, seq)),
        }
    }
}

/// All packets are stepped once, in order, and nobody waits for ever.
fn check(script: &'static [Say], others: usize, fault: Fault) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(BOUND);
    builder.max_branches = 20_000;
    builder.check(move || {
        let mut sides = offloading(&[0], 1 + others, 4).into_iter();
        let mut worker = Core::new(sides.next().expect("a worker"), [Some(Vec::new()), Some(Vec::new())]);
        worker.offloading.fault = fault;
        let offloaders: Vec<_> = sides
            .map(|side| {
                let mut core = Core::new(side, [None, None]);
                core.is_half_done = fault == Fault::HalfDone;
                core
            })
            .collect();
        let serving: Vec<_> = offloaders
            .into_iter()
            .map(|mut core| {
                thread::spawn(move || {
                    (0..TURNS).for_each(|_| core.turn());
                    core
                })
            })
            .collect();
        let working = thread::spawn(move || {
            let seqs = worker.follow(script);
            (worker, seqs)
        });
        let (worker, seqs) = working.join().expect("no core fails");
        let mut cores: Vec<Core> =
            serving.into_iter().map(|core| core.join().expect("no core fails")).collect();
        cores.push(worker);
        let leaves = script.iter().any(|say| matches!(say, Leave));
        for _ in 0..ENDLESS {
            if cores.iter_mut().all(|core| core.offloading.is_over()) {
                break;
            }
            cores.iter_mut().for_each(Core::turn);
            for core in &mut cores {
                if core.offloading.is_at_rest()
                    && (core.has_left || !leaves || core.offloading.outboxes[0].is_some())
                {
                    core.offloading.finish();
                }
            }
        }
        assert!(cores.iter_mut().all(|core| core.offloading.is_over()), "somebody waits for ever");
        for (bucket, packets) in seqs.into_iter().enumerate() {
            let flows: Vec<_> = cores.iter().filter_map(|core| core.flows[bucket].as_ref()).collect();
            assert_eq!(
                flows,
                [&(0..packets).collect::<Vec<_>>()],
                "each packet once, and flows in one place"
            );
        }
    });
}

/// The ratio grows and shrinks while packets come.
const RATIO: &[Say] = &[To(Some(1)), Want(1, 0), Comes(0), Want(0, 0), Comes(0)];
/// The offloader goes away, and comes back.
const OFFLOADER: &[Say] = &[To(Some(1)), Want(1, 0), Comes(0), To(None), Comes(0), To(Some(1)), Comes(0)];
/// One offloader takes over from another.
const ANOTHER: &[Say] = &[To(Some(1)), Want(1, 0), Comes(0), To(Some(2)), Comes(0)];
/// The shard leaves while some of its packets are offloaded.
const LEAVING: &[Say] = &[To(Some(1)), Want(2, 0), Comes(0), Comes(1), Leave];
/// The other bucket is offloaded in place of the first one.
const ORDER: &[Say] = &[To(Some(1)), Want(1, 0), Comes(0), Want(1, 1), Comes(0), Comes(0), Comes(0)];

#[test]
fn the_ratio_changes() {
    check(RATIO, 1, Fault::None);
}

#[test]
fn the_offloader_goes_and_comes_back() {
    check(OFFLOADER, 1, Fault::None);
}

#[test]
fn another_offloader_takes_over() {
    check(ANOTHER, 2, Fault::None);
}

#[test]
fn other_buckets_are_offloaded() {
    check(ORDER, 1, Fault::None);
}

#[test]
fn a_shard_leaves() {
    check(LEAVING, 1, Fault::None);
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_swap_before_the_old_queue_is_empty_is_found() {
    check(OFFLOADER, 1, Fault::NoRecall);
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_packets_ahead_of_those_that_wait_are_found() {
    check(RATIO, 1, Fault::NobodyWaits);
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_part_returned_while_a_packet_of_it_is_out_is_found() {
    check(RATIO, 1, Fault::HalfDone);
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_another_order_of_buckets_while_packets_wait_is_found() {
    check(ORDER, 1, Fault::OrderUnderWaiting);
}

#[test]
#[should_panic(expected = "left without all flows")]
fn planted_a_shard_that_leaves_without_its_offloaded_part_is_found() {
    check(LEAVING, 1, Fault::NoRecall);
}
