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

use super::{Change, Changes, Places, Progress, Promotion, Status, Step, promotion};

const BOUND: usize = 1;

/// Packets that a core takes from a queue between two looks at the changes.
const BATCH: usize = 2;

/// Turns that a core takes beside the others: so many as can matter.
const TURNS: usize = 2;

/// Turns that a core takes where the sequencer takes one beside it: the order in which each writes and reads shows
/// in one.
const TURNS_BEHIND: usize = 1;

/// A core that still waits after this many turns waits for ever.
const ENDLESS: usize = 50;

/// The numbers of the packets that the entry's flows have seen.
type Flows = Vec<u64>;

/// A packet: its number, and whether it was told.
type Packet = (u64, bool);

/// Who tells promoted packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequencer {
    /// The thread that steers: each core has one queue.
    Steers,
    /// A thread of its own, behind the card: each core has two queues.
    IsBehindTheCard,
}
use Sequencer::{IsBehindTheCard, Steers};

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
    /// The card acts by a change before it is given.
    late_change: bool,
    /// A change has its place when the first packet behind it was told.
    late_place: bool,
}

#[derive(Clone, Copy)]
enum Event {
    Comes,
    Promote,
    /// Back to the core that it came from.
    Demote,
    /// To the other one.
    Elsewhere,
}
use Event::{Comes, Demote, Elsewhere, Promote};

/// Tells packets, and sends them to the cores in turn.
struct Teller {
    places: Places,
    history: Publisher<u64>,
    told: u64,
    plant: Plant,
}

impl Teller {
    /// Places changes that come before packet `seq`.
    fn attend(&mut self, seq: u64) {
        self.places.look();
        while let Some(change) = self.places.next().filter(|change| change.since_seq <= seq) {
            let early = self.plant.early_demotion && change.status == Status::Demoted;
            self.places.place(self.told - u64::from(early));
        }
    }

    /// Tells a packet; says which core gets it.
    fn tell(&mut self, seq: u64) -> usize {
        if !self.plant.late_place {
            self.attend(seq);
        }
        assert!(self.history.push(seq), "room");
        self.history.publish();
        self.attend(seq);
        self.told += 1;
        (self.told as usize - 1) % 2
    }
}

/// The sequencer, where it has a thread of its own.
struct Front {
    teller: Teller,
    queue: Consumer<u64>,
    /// `None` when it has ended.
    to_cores: Option<[Producer<Packet>; 2]>,
}

impl Front {
    fn turn(&mut self) {
        let Some(to_cores) = &mut self.to_cores else { return };
        let has_ended = self.queue.is_abandoned();
        while let Some(seq) = self.queue.pop() {
            let core = self.teller.tell(seq);
            to_cores[core].push((seq, true)).expect("room for all packets");
        }
        if has_ended {
            self.teller.attend(u64::MAX);
            self.to_cores = None;
        }
    }
}

/// Where promoted packets go.
enum Way {
    Told(Box<Teller>),
    Sequenced(Producer<u64>),
}

/// Sends the entry's packets, which core 0 owns at first.
fn steer(
    script: &[Event],
    mut changes: Changes,
    mut way: Way,
    mut queues: [Producer<Packet>; 2],
    plant: Plant,
) {
    let (mut seq, mut sent, mut is_promoted, mut owner, mut late) = (0, [0; 2], false, 0, None);
    let mut give = |change| assert!(changes.give(change), "room");
    for event in script {
        let status = match event {
            Comes => {
                match (is_promoted, &mut way) {
                    (false, _) => {
                        queues[owner].push((seq, false)).expect("room for all packets");
                        sent[owner] += 1;
                    }
                    (true, Way::Told(teller)) => {
                        let core = teller.tell(seq);
                        queues[core].push((seq, true)).expect("room for all packets");
                        sent[core] += 1;
                    }
                    (true, Way::Sequenced(queue)) => queue.push(seq).expect("room for all packets"),
                }
                late.take().into_iter().for_each(&mut give);
                seq += 1;
                continue;
            }
            Promote => Status::Promoted,
            Demote => Status::Demoted,
            Elsewhere => {
                owner = 1 - owner;
                Status::Demoted
            }
        };
        is_promoted = status == Status::Promoted;
        let change = Change {
            status,
            entry: 0,
            slot: 0,
            owner: owner as u16,
            since_seq: seq,
            since_ns: 0,
            after: sent[owner] - u64::from(plant.early_copy && is_promoted),
        };
        match plant.late_change {
            true => late = Some(change),
            false => give(change),
        }
        if let Way::Told(teller) = &mut way {
            teller.attend(seq);
        }
    }
}

struct Core {
    number: u64,
    promotion: Promotion<Flows>,
    history: Subscriber<u64>,
    /// From the card, and from the sequencer where it is another thread.
    queues: Vec<Consumer<Packet>>,
    /// By whether they were told.
    waiting: [VecDeque<Packet>; 2],
    taken: u64,
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

    fn progress(&self) -> Progress {
        let waits = self.waiting[0].front().map(|(seq, _)| *seq);
        Progress { taken: self.taken, waits, told: self.told }
    }

    fn carry_out(&mut self) {
        while let Some(todo) = self.promotion.step(self.progress()) {
            match todo {
                Step::Copy(_) => {
                    let flows = self.own.take().expect("out of order, or without its flows");
                    self.promotion.send(flows);
                }
                Step::TakeIn(_, flows) => self.replica = Some(flows),
                Step::Demote(change) => {
                    let flows = self.replica.take();
                    self.own = flows.filter(|_| self.number == u64::from(change.owner));
                }
            }
        }
    }

    /// Steps what was told, as far as it is known and its own packets have come.
    fn follow(&mut self) {
        while self.told < self.limit().min(self.known) {
            let seq = self.history.item(self.told as usize);
            if self.told % 2 == self.number && self.waiting[1].pop_front().is_none() {
                return;
            }
            step(&mut self.replica, seq);
            self.told += 1;
        }
    }

    /// What a core does between two looks at its queues; `true` when it may go.
    fn turn(&mut self) -> bool {
        let has_ended = self.queues.iter().all(Consumer::is_abandoned);
        for (number, queue) in self.queues.iter_mut().enumerate() {
            for _ in 0..BATCH {
                let Some(packet) = queue.pop() else { break };
                self.taken += u64::from(number == 0);
                self.waiting[usize::from(packet.1)].push_back(packet);
            }
        }
        let is_empty = self.queues.iter_mut().all(|queue| queue.is_empty());
        if self.plant.late_history {
            self.promotion.look();
        }
        self.known = self.history.published() as u64;
        if !self.plant.late_history {
            self.promotion.look();
        }
        self.carry_out();
        self.follow();
        while let Some((seq, _)) = self.waiting[0].front().copied()
            && (self.plant.no_order || seq < self.promotion.own_limit())
        {
            step(&mut self.own, seq);
            self.waiting[0].pop_front();
        }
        let is_done = self.waiting.iter().all(VecDeque::is_empty) && self.told == self.known;
        has_ended && is_empty && is_done && self.promotion.is_settled()
    }
}

/// The core that has the entry's flows at the end has had all packets once, in order, and all cores come to an end.
fn check_with(sequencer: Sequencer, script: &'static [Event], plant: Plant) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(BOUND);
    builder.check(move || {
        let packets = script.iter().filter(|event| matches!(event, Comes)).count();
        let turns = if sequencer == Steers { TURNS } else { TURNS_BEHIND };
        let (changes, places, promotions) = promotion::<Flows>(2, script.len());
        let (history, histories) = broadcast(packets, 2);
        let (mut cores, mut queues, mut of_front) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (promotion, history)) in promotions.into_iter().zip(histories).enumerate() {
            let (to_core, queue) = ring(packets);
            let mut of_core = vec![queue];
            queues.push(to_core);
            if sequencer == IsBehindTheCard {
                let (from_front, queue) = ring(packets);
                of_core.push(queue);
                of_front.push(from_front);
            }
            cores.push(Core {
                number: number as u64,
                promotion,
                history,
                queues: of_core,
                waiting: [VecDeque::new(), VecDeque::new()],
                taken: 0,
                known: 0,
                told: 0,
                own: (number == 0).then(Vec::new),
                replica: None,
                plant,
            });
        }
        let queues = <[Producer<Packet>; 2]>::try_from(queues).expect("two queues");
        let teller = Teller { places, history, told: 0, plant };
        let (way, front) = match sequencer {
            Steers => (Way::Told(Box::new(teller)), None),
            IsBehindTheCard => {
                let (to_front, queue) = ring(packets);
                let of_front = <[Producer<Packet>; 2]>::try_from(of_front).expect("two queues");
                (Way::Sequenced(to_front), Some(Front { teller, queue, to_cores: Some(of_front) }))
            }
        };
        let working: Vec<_> = cores
            .into_iter()
            .map(|mut core| {
                thread::spawn(move || {
                    let is_over = (0..turns).any(|_| core.turn());
                    (core, is_over)
                })
            })
            .collect();
        let front = front.map(|mut front| {
            thread::spawn(move || {
                front.turn();
                front
            })
        });
        steer(script, changes, way, queues, plant);
        let mut front = front.map(|front| front.join().expect("it does not fail"));
        let mut cores: Vec<_> = working.into_iter().map(|core| core.join().expect("no core fails")).collect();
        for _ in 0..ENDLESS {
            front.iter_mut().for_each(Front::turn);
            for (core, is_over) in &mut cores {
                *is_over = *is_over || core.turn();
            }
        }
        assert!(cores.iter().all(|(_, is_over)| *is_over), "somebody waits for ever");
        let all: Vec<u64> = (0..packets as u64).collect();
        let last = script.iter().rev().find(|event| !matches!(event, Comes));
        match last {
            Some(Promote) => assert!(cores.iter().all(|(core, _)| core.replica.as_ref() == Some(&all))),
            _ => {
                let owner = script.iter().filter(|event| matches!(event, Elsewhere)).count() % 2;
                assert_eq!(cores[owner].0.own, Some(all), "each packet once, where the entry is");
                assert_eq!(cores[1 - owner].0.own, None, "nobody else has it");
            }
        }
    });
}

fn check(script: &'static [Event], plant: Plant) {
    check_with(Steers, script, plant);
}

const UP: &[Event] = &[Comes, Promote, Comes, Comes];
const UP_AND_DOWN: &[Event] = &[Promote, Comes, Comes, Demote, Comes];
const AGAIN: &[Event] = &[Promote, Comes, Demote, Promote, Comes];
/// Fewer packets, for fewer orders.
const AGAIN_AT_ONCE: &[Event] = &[Promote, Demote, Promote, Comes];
const BRIEFLY: &[Event] = &[Promote, Comes, Demote, Comes];
const AT_ONCE: &[Event] = &[Comes, Promote, Demote, Comes];
const MOVED: &[Event] = &[Comes, Promote, Elsewhere, Comes];
const MOVED_WHILE_TOLD: &[Event] = &[Promote, Comes, Elsewhere, Comes];
const MOVED_AND_BACK: &[Event] = &[Promote, Elsewhere, Comes, Promote, Elsewhere, Comes];

#[test]
fn an_entry_is_promoted() {
    check(UP, Plant::default());
}

#[test]
fn an_entry_is_promoted_and_demoted() {
    check(BRIEFLY, Plant::default());
}

#[test]
#[ignore = "takes two minutes"]
fn an_entry_is_promoted_and_demoted_among_more_packets() {
    check(UP_AND_DOWN, Plant::default());
}

#[test]
fn an_entry_is_promoted_again() {
    check(AGAIN_AT_ONCE, Plant::default());
}

#[test]
#[ignore = "takes two minutes"]
fn an_entry_is_promoted_again_among_more_packets() {
    check(AGAIN, Plant::default());
}

#[test]
fn an_entry_is_promoted_and_demoted_without_a_packet() {
    check(AT_ONCE, Plant::default());
}

#[test]
fn an_entry_goes_to_another_core() {
    check(MOVED, Plant::default());
}

#[test]
fn an_entry_that_was_told_goes_to_another_core() {
    check(MOVED_WHILE_TOLD, Plant::default());
}

#[test]
#[ignore = "takes two minutes"]
fn an_entry_goes_to_another_core_and_back() {
    check(MOVED_AND_BACK, Plant::default());
}

#[test]
fn behind_a_card_an_entry_goes_to_another_core() {
    check_with(IsBehindTheCard, MOVED, Plant::default());
}

#[test]
fn behind_a_card_an_entry_that_was_told_goes_to_another_core() {
    check_with(IsBehindTheCard, MOVED_WHILE_TOLD, Plant::default());
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_packets_that_do_not_wait_for_flows_from_another_core_are_found() {
    check(MOVED, Plant { no_order: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_move_ahead_of_a_packet_is_found() {
    check(MOVED, Plant { early_copy: true, ..Plant::default() });
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

#[test]
fn behind_a_card_an_entry_is_promoted() {
    check_with(IsBehindTheCard, UP, Plant::default());
}

#[test]
fn behind_a_card_an_entry_is_promoted_and_demoted() {
    check_with(IsBehindTheCard, BRIEFLY, Plant::default());
}

#[test]
fn behind_a_card_an_entry_is_promoted_and_demoted_without_a_packet() {
    check_with(IsBehindTheCard, AT_ONCE, Plant::default());
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_packets_behind_a_card_that_do_not_wait_for_the_demotion_are_found() {
    check_with(IsBehindTheCard, BRIEFLY, Plant { no_order: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_card_that_acts_before_a_change_is_given_is_found() {
    check_with(IsBehindTheCard, BRIEFLY, Plant { late_change: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_place_behind_its_first_packet_is_found() {
    check_with(IsBehindTheCard, UP, Plant { late_place: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_copy_ahead_of_a_packet_behind_a_card_is_found() {
    check_with(IsBehindTheCard, UP, Plant { early_copy: true, ..Plant::default() });
}
