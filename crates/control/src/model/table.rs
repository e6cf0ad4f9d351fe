//! Models migration where a table outside steers: an XDP program looks up the core of each packet of one entry, and
//! no thread sees packets and moves in one order. Core 0 and the program have a thread each; a third thread moves
//! the entry, and takes core 1's turns beside that.

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, MutexGuard};
use loom::thread;
use ring::{Consumer, Producer, ring};

use super::{BOUND, ENDLESS, Flows};
use crate::{Message, Migration, Order, Orders, migration};

/// Turns that core 0 takes beside the others, and core 1 for each move.
const TURNS: usize = 2;

/// What is done wrong, to see that it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Plant {
    /// Nobody waits for packets that were steered by the table before.
    no_grace: bool,
    /// The grace period comes before the table changes.
    early_grace: bool,
    /// The old core does not step what its queue has when it sees the order.
    no_drain: bool,
    /// The entry goes on while its flows are on their way.
    overlapping: bool,
}

/// The table of one entry, and the program that goes by it.
struct Table {
    owner: AtomicUsize,
    /// Held by a program while it runs, until what it has steered is in a queue. Nobody else ever waits for it but for a
    /// grace period, after which all programs that ran before are through.
    running: Mutex<()>,
}

impl Table {
    fn run(&self) -> MutexGuard<'_, ()> {
        self.running.lock().expect("no program panics")
    }

    fn wait_for_grace_period(&self) {
        drop(self.run());
    }
}

/// Steers packets by the table.
fn program(table: &Table, packets: u64, mut queues: [Producer<u64>; 2]) {
    for seq in 0..packets {
        let _running = table.run();
        // Nothing is ordered by it: the kernel's program loads as plainly.
        let owner = table.owner.load(Ordering::Relaxed);
        queues[owner].push(seq).expect("room for all packets");
    }
}

/// Gives the entry to a core.
fn give(table: &Table, orders: &mut Orders, (from, to): (usize, usize), plant: Plant) {
    orders.announce(1);
    if plant.early_grace {
        table.wait_for_grace_period();
    }
    table.owner.store(to, Ordering::Relaxed);
    if !plant.no_grace && !plant.early_grace {
        table.wait_for_grace_period();
    }
    let order = Order { entry: 0, to: to as u16, after: Order::UNMARKED, since_seq: u64::MAX, since_ns: 0 };
    orders.give_announced(from, order).expect("room");
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
    /// What a core does between two looks at its queue; `true` when it may go.
    fn turn(&mut self) -> bool {
        let migration = &mut self.migration;
        if let Some((_, parcel)) = migration.receive() {
            self.flows.extend(parcel);
        }
        if migration.has_unmarked() {
            let waiting = if self.plant.no_drain { 0 } else { self.queue.len() as u64 };
            migration.mark(self.received + waiting);
        }
        if let Some(order) = migration.next_order(self.received) {
            let parcel = std::mem::take(&mut self.flows);
            migration.send(order.to, Message::Last(0, parcel)).expect("room");
        }
        let mut now = Vec::new();
        migration.release(1, &mut now);
        let has_ended = self.queue.is_abandoned();
        let packet = self.queue.pop();
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

/// All packets are worked on once, in order, on whichever core has the entry in the end, and both come to an end.
fn check(packets: u64, moves: usize, plant: Plant) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(BOUND);
    builder.check(move || {
        let (mut orders, migrations) = migration::<u64, Flows>(&[0], 2, 2);
        let table = Arc::new(Table { owner: AtomicUsize::new(0), running: Mutex::new(()) });
        let (mut cores, mut queues) = (Vec::new(), Vec::new());
        for migration in migrations {
            let (to_core, queue) = ring(packets as usize);
            queues.push(to_core);
            cores.push(Core { migration, queue, flows: Vec::new(), received: 0, plant });
        }
        let queues: [Producer<u64>; 2] = queues.try_into().expect("two queues");
        let [mut first, mut second]: [Core; 2] = cores.try_into().ok().expect("two cores");
        let steering = thread::spawn({
            let table = Arc::clone(&table);
            move || program(&table, packets, queues)
        });
        let working = thread::spawn(move || {
            // No core leaves as long as entries may be moved.
            for _ in 0..TURNS {
                first.turn();
            }
            first
        });
        let mut owner = 0;
        for at in 0..moves {
            if at > 0 && !plant.overlapping && !orders.are_carried_out() {
                break;
            }
            give(&table, &mut orders, (owner, 1 - owner), plant);
            owner = 1 - owner;
            for _ in 0..TURNS {
                second.turn();
            }
        }
        steering.join().expect("it does not fail");
        let mut first = working.join().expect("it does not fail");
        let are_over =
            (0..ENDLESS).fold([false; 2], |over, _| [over[0] || first.turn(), over[1] || second.turn()]);
        assert_eq!(are_over, [true; 2], "somebody waits for ever");
        assert!(orders.are_carried_out());
        let all: Vec<u64> = (0..packets).collect();
        assert_eq!([first, second][owner].flows, all, "each packet once, where the entry is");
    });
}

#[test]
fn an_entry_goes() {
    check(3, 1, Plant::default());
}

#[test]
fn an_entry_goes_and_comes_back() {
    check(2, 2, Plant::default());
}

// Packets that are steered to the old core behind the flows are found as what waits there for ever.

#[test]
#[should_panic(expected = "somebody waits for ever")]
fn planted_a_hand_over_ahead_of_the_grace_period_is_found() {
    check(2, 1, Plant { no_grace: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "somebody waits for ever")]
fn planted_a_grace_period_ahead_of_the_change_is_found() {
    check(2, 1, Plant { early_grace: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "somebody waits for ever")]
fn planted_a_hand_over_ahead_of_what_the_queue_has_is_found() {
    check(2, 1, Plant { no_drain: true, ..Plant::default() });
}

#[test]
#[should_panic(expected = "out of order, or without its flows")]
fn planted_an_entry_that_goes_on_while_its_flows_are_on_their_way_is_found() {
    check(2, 2, Plant { overlapping: true, ..Plant::default() });
}
