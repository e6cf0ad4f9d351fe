//! Promotion under the model checker: an entry is promoted and demoted while its packets come, in every order that the memory
//! model allows. Run with
//!
//! ```sh
//! cargo test -p paceline-control-model promotion
//! ```
//!
//! Bounds: threads are interrupted where they could go on at most `BOUND` times; each core takes `TURNS` turns beside the
//! others, and the rest when these have ended.

use std::collections::VecDeque;

use loom::thread;
use ring::{Consumer, Producer, Publisher, Subscriber, broadcast, ring};

use super::{Change, Changes, Promotion, Status, Step, promotion};

const BOUND: usize = 1;

/// Packets that a core works off between two looks at the changes.
const BATCH: usize = 2;

/// Turns that a core takes beside the others: so many as can matter.
const TURNS: usize = 2;

/// Turns after which whoever still waits waits for ever.
const ENDLESS: usize = 50;

/// The numbers of the packets that the entry's flows have seen.
type Flows = Vec<u64>;

/// A packet: its number, and whether it was told.
type Packet = (u64, bool);

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Plant {
    /// A copy is made while a packet from before is in the owner's queue.
    early_copy: bool,
    /// Told packets are stepped though the copy is not here.
    no_wait: bool,
    /// A demotion is carried out one told packet too early.
    early_demotion: bool,
    /// Packets are stepped though a change of their entry came before.
    no_order: bool,
    /// The history is looked at behind the changes: what is told behind an unknown change is known.
    late_history: bool,
}

#[derive(Clone, Copy)]
enum Event {
    Comes,
    Promote,
    Demote,
}
use Event::{Comes, Demote, Promote};

/// Sends the entry's packets, which core 0 owns.
fn assign(
    script: &[Event],
    (mut changes, mut history): (Changes, Publisher<u64>),
    mut queues: [Producer<Packet>; 2],
    plant: Plant,
) {
    let (mut seq, mut told, mut sent, mut is_promoted) = (0, 0, [0; 2], false);
    for event in script {
        let status = match event {
            Comes => {
                let core = if is_promoted { told as usize % 2 } else { 0 };
                if is_promoted {
                    assert!(history.push(seq), "room");
                    history.publish();
                    told += 1;
                }
                queues[core].push((seq, is_promoted)).expect("room for all packets");
                sent[core] += 1;
                seq += 1;
                continue;
            }
            Promote => Status::Promoted,
            Demote => Status::Demoted,
        };
        is_promoted = status == Status::Promoted;
        let change = Change {
            status,
            entry: 0,
            slot: 0,
            owner: 0,
            since_seq: seq,
            since_ns: 0,
            after: sent[0] - u64::from(plant.early_copy && is_promoted),
            told: told - u64::from(plant.early_demotion && !is_promoted),
        };
        assert!(changes.give(change), "room");
    }
}

struct Core {
    number: u64,
    promotion: Promotion<Flows>,
    history: Subscriber<u64>,
    queue: Consumer<Packet>,
    waiting: VecDeque<Packet>,
    worked_off: u64,
    known: u64,
    told: u64,
    own: Option<Flows>,
    replica: Option<Flows>,
    plant: Plant,
}

fn step(flows: &mut Option<Flows>, seq: u64) {
    let flows = flows.as_mut().expect("out of order, or without its flows");
    assert_eq!(flows.last().map_or(0, |last| last + 1), seq, "out of order, or without its flows");
    flows.push(seq);
}

impl Core {
    fn limit(&self) -> u64 {
        if self.plant.no_wait { u64::MAX } else { self.promotion.told_limit() }
    }

    fn replay(&mut self, until: u64) -> bool {
        while self.told < until.min(self.limit()).min(self.known) {
            step(&mut self.replica, self.history.item(self.told as usize));
            self.told += 1;
        }
        self.told == until
    }

    fn carry_out(&mut self) {
        while let Some(todo) = self.promotion.step(self.worked_off, self.told) {
            match todo {
                Step::Copy(_) => {
                    let flows = self.own.take().expect("out of order, or without its flows");
                    self.promotion.send(flows);
                }
                Step::TakeIn(_, flows) => self.replica = Some(flows),
                Step::Demote(_) => {
                    let flows = self.replica.take();
                    self.own = flows.filter(|_| self.number == 0);
                }
                Step::Replay(until) => {
                    if !self.replay(until) {
                        return;
                    }
                }
            }
        }
    }

    /// What a core does between two looks at its queue; `true` when it may go.
    fn turn(&mut self) -> bool {
        let has_ended = self.queue.is_abandoned();
        while self.waiting.len() < BATCH
            && let Some(packet) = self.queue.pop()
        {
            self.waiting.push_back(packet);
        }
        let is_last = has_ended && self.waiting.is_empty();
        if self.plant.late_history {
            self.promotion.look();
        }
        self.known = self.history.published() as u64;
        if !self.plant.late_history {
            self.promotion.look();
        }
        self.carry_out();
        if is_last {
            self.replay(self.known);
        }
        while let Some((seq, is_told)) = self.waiting.front().copied()
            && (self.plant.no_order || self.promotion.allows(seq))
        {
            let next_own = self.told + (self.told + self.number) % 2;
            if !is_told {
                step(&mut self.own, seq);
            } else if self.replay(next_own) && self.limit() > next_own {
                step(&mut self.replica, seq);
                self.told += 1;
            } else {
                break;
            }
            self.waiting.pop_front();
            self.worked_off += 1;
        }
        if self.waiting.is_empty() {
            // What was told before its next own packet.
            self.replay((self.told + (self.told + self.number) % 2).min(self.known));
        }
        is_last && self.told == self.known && self.promotion.is_settled()
    }
}

/// Whoever has the entry's flows at the end has had all packets once, in order, and all cores come to an end.
fn check(script: &'static [Event], plant: Plant) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(BOUND);
    builder.check(move || {
        let packets = script.iter().filter(|event| matches!(event, Comes)).count();
        let (changes, promotions) = promotion::<Flows>(2, script.len());
        let (history, histories) = broadcast(packets, 2);
        let (mut cores, mut queues) = (Vec::new(), Vec::new());
        for (number, (promotion, history)) in promotions.into_iter().zip(histories).enumerate() {
            let (to_core, queue) = ring(packets);
            queues.push(to_core);
            cores.push(Core {
                number: number as u64,
                promotion,
                history,
                queue,
                waiting: VecDeque::new(),
                worked_off: 0,
                known: 0,
                told: 0,
                own: (number == 0).then(Vec::new),
                replica: None,
                plant,
            });
        }
        let queues: [Producer<Packet>; 2] = queues.try_into().expect("two queues");
        let working: Vec<_> = cores
            .into_iter()
            .map(|mut core| {
                thread::spawn(move || {
                    let is_over = (0..TURNS).any(|_| core.turn());
                    (core, is_over)
                })
            })
            .collect();
        assign(script, (changes, history), queues, plant);
        let mut cores: Vec<_> = working.into_iter().map(|core| core.join().expect("no core fails")).collect();
        for _ in 0..ENDLESS {
            for (core, is_over) in &mut cores {
                *is_over = *is_over || core.turn();
            }
        }
        assert!(cores.iter().all(|(_, is_over)| *is_over), "somebody waits for ever");
        let all: Vec<u64> = (0..packets as u64).collect();
        let last = script.iter().rev().find(|event| !matches!(event, Comes));
        match last {
            Some(Promote) => assert!(cores.iter().all(|(core, _)| core.replica.as_ref() == Some(&all))),
            _ => assert_eq!(cores[0].0.own, Some(all), "each packet once, where the entry is"),
        }
    });
}

const UP: &[Event] = &[Comes, Promote, Comes, Comes];
const UP_AND_DOWN: &[Event] = &[Promote, Comes, Comes, Demote, Comes];
const AGAIN: &[Event] = &[Promote, Comes, Demote, Promote, Comes];
const AT_ONCE: &[Event] = &[Comes, Promote, Demote, Comes];

#[test]
fn an_entry_is_promoted() {
    check(UP, Plant::default());
}

#[test]
fn an_entry_is_promoted_and_demoted() {
    check(UP_AND_DOWN, Plant::default());
}

#[test]
fn an_entry_is_promoted_again() {
    check(AGAIN, Plant::default());
}

#[test]
fn an_entry_is_promoted_and_demoted_without_a_packet() {
    check(AT_ONCE, Plant::default());
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_copy_ahead_of_a_packet_is_found() {
    check(UP, Plant { early_copy: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_step_ahead_of_the_copy_is_found() {
    check(UP, Plant { no_wait: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_demotion_ahead_of_the_history_is_found() {
    check(UP_AND_DOWN, Plant { early_demotion: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_packets_that_do_not_wait_for_the_demotion_are_found() {
    check(UP_AND_DOWN, Plant { no_order: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_history_that_is_ahead_of_the_changes_is_found() {
    check(UP, Plant { late_history: true, ..Plant::default() });
}
