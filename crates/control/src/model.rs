//! The hand-over under the model checker: an entry goes from core 0 to core 1 and back while its packets come,
//! in every order that the memory model allows. Run with
//!
//! ```sh
//! cargo test -p paceline-control-model
//! ```
//!
//! Packets and mail go through [`ring`], which is modelled, too. Bounds: threads are interrupted where they could
//! go on at most `BOUND` times; each core takes `TURNS` turns beside the others, and the rest when these have ended.
//! With a turn more it takes minutes: `cargo test -p paceline-control-model -- --ignored`.

mod table;

use loom::thread;
use ring::{Consumer, Producer, ring};

use crate::{Message, Migration, Order, Orders, migration};

const BOUND: usize = 2;

/// What the entry's packets leave behind: their numbers, in the order in which they were worked on.
type Flows = Vec<u64>;

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Plant {
    /// Orders are given behind the packets that they concern.
    late_orders: bool,
    /// One packet too few comes before the hand-over.
    early_hand_over: bool,
    /// The number from which on packets are later is not looked at.
    no_number: bool,
    /// Orders are looked at before packets are received, and not after.
    early_look: bool,
    /// The entry counts as there before its flows are.
    empty_last: bool,
}

/// A packet or a move, in the order in which the dispatcher sees them.
#[derive(Clone, Copy)]
enum Event {
    Packet,
    Move,
}
use Event::{Move, Packet};

/// Sends the entry's packets where they belong, and has its flows follow them.
fn assign(script: &[Event], mut orders: Orders, mut queues: [Producer<u64>; 2], plant: Plant) {
    let (mut owner, mut seq, mut sent) = (0, 0, [0; 2]);
    let mut late = Vec::new();
    for event in script {
        match event {
            Packet => {
                queues[owner].push(seq).expect("room for all packets");
                sent[owner] += 1;
                seq += 1;
            }
            Move => {
                let to = 1 - owner;
                let order = Order {
                    entry: 0,
                    to: to as u16,
                    after: sent[owner] - u64::from(plant.early_hand_over),
                    since_seq: if plant.no_number { u64::MAX } else { seq },
                    since_ns: 0,
                };
                match plant.late_orders {
                    true => late.push((owner, order)),
                    false => orders.give(owner, order).expect("room"),
                }
                owner = to;
            }
        }
    }
    for (from, order) in late {
        orders.give(from, order).expect("room");
    }
}

/// A core that has the flows of the one entry, or does not.
struct Core {
    migration: Migration<u64, Flows>,
    queue: Consumer<u64>,
    flows: Flows,
    received: u64,
    plant: Plant,
}

impl Core {
    fn new(migration: Migration<u64, Flows>, queue: Consumer<u64>, plant: Plant) -> Core {
        Core { migration, queue, flows: Vec::new(), received: 0, plant }
    }

    /// What a core does between two looks at its queue; `true` when it may go.
    fn turn(&mut self) -> bool {
        let migration = &mut self.migration;
        if let Some((_, parcel)) = migration.receive() {
            self.flows.extend(parcel);
        }
        if let Some(order) = migration.next_order(self.received) {
            let mut parcel = std::mem::take(&mut self.flows);
            let rest = if self.plant.empty_last { std::mem::take(&mut parcel) } else { Vec::new() };
            migration.send(order.to, Message::Last(0, parcel)).expect("room");
            if self.plant.empty_last {
                migration.send(order.to, Message::Flows(rest)).expect("room");
            }
        }
        let mut now = Vec::new();
        migration.release(1, &mut now);
        if self.plant.early_look {
            migration.look();
        }
        let has_ended = self.queue.is_abandoned();
        let packet = self.queue.pop();
        if !self.plant.early_look {
            migration.look();
        }
        self.received += u64::from(packet.is_some());
        if let Some(packet) = packet {
            match migration.has(0, packet) {
                true => now.push(packet),
                false => migration.hold(0, packet, packet),
            }
        }
        for packet in now {
            let next = self.flows.last().map_or(0, |last| last + 1);
            assert_eq!(packet, next, "out of order, or without its flows");
            self.flows.push(packet);
        }
        has_ended && packet.is_none() && self.migration.is_settled()
    }
}

/// Turns that a core takes beside the others: so many as can matter. A model checker tries all orders of them, and
/// would try waiting for ever, too.
const TURNS: usize = 2;

/// A core that still waits after this many turns waits for ever.
const ENDLESS: usize = 50;

/// All packets are worked on once, in order, and all cores come to an end.
fn check(script: &'static [Event], plant: Plant) {
    check_with(TURNS, script, plant);
}

fn check_with(turns: usize, script: &'static [Event], plant: Plant) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(BOUND);
    builder.check(move || {
        let packets = script.iter().filter(|event| matches!(event, Packet)).count();
        let (orders, migrations) = migration::<u64, Flows>(&[0], 2, 2);
        let (mut cores, mut queues) = (Vec::new(), Vec::new());
        for migration in migrations {
            let (to_core, queue) = ring(packets);
            queues.push(to_core);
            cores.push(Core::new(migration, queue, plant));
        }
        let queues: [Producer<u64>; 2] = queues.try_into().expect("two queues");
        let working: Vec<_> = cores
            .into_iter()
            .map(|mut core| {
                thread::spawn(move || {
                    // A core that may go goes, and is gone for the other.
                    let is_over = (0..turns).any(|_| core.turn());
                    (core, is_over)
                })
            })
            .collect();
        assign(script, orders, queues, plant);
        let mut cores: Vec<_> = working.into_iter().map(|core| core.join().expect("no core fails")).collect();
        for _ in 0..ENDLESS {
            for (core, is_over) in &mut cores {
                *is_over = *is_over || core.turn();
            }
        }
        assert!(cores.iter().all(|(_, is_over)| *is_over), "somebody waits for ever");
        let owner = script.iter().filter(|event| matches!(event, Move)).count() % 2;
        let all: Vec<u64> = (0..packets as u64).collect();
        assert_eq!(cores[owner].0.flows, all, "each packet once, where the entry is");
    });
}

const THERE: &[Event] = &[Packet, Move, Packet];
const THERE_AND_BACK: &[Event] = &[Move, Packet, Move, Packet];
const AT_ONCE: &[Event] = &[Move, Move, Packet];

#[test]
fn an_entry_goes() {
    check(THERE, Plant::default());
}

#[test]
fn an_entry_goes_and_comes_back() {
    check(THERE_AND_BACK, Plant::default());
}

#[test]
fn an_entry_goes_and_comes_back_without_a_packet() {
    check(AT_ONCE, Plant::default());
}

#[test]
#[ignore = "takes minutes"]
fn entries_go_and_come_back_beside_longer_work() {
    for script in [THERE, THERE_AND_BACK, AT_ONCE] {
        check_with(TURNS + 1, script, Plant::default());
    }
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_orders_behind_their_packets_are_found() {
    check(THERE_AND_BACK, Plant { late_orders: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_hand_over_ahead_of_a_packet_is_found() {
    check(THERE, Plant { early_hand_over: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_packets_of_a_return_that_do_not_wait_are_found() {
    check(THERE_AND_BACK, Plant { no_number: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_a_look_ahead_of_the_packets_is_found() {
    check(THERE_AND_BACK, Plant { early_look: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_an_entry_ahead_of_its_flows_is_found() {
    check(THERE, Plant { empty_last: true, ..Plant::default() });
}
