//! The blocking scheme, and FlowBlaze: packets wait before a function until none of their queue is in it.
//!
//! RAPID §2.3: flows are hashed to queues, which are served in turn "as long as there is no packets of the same
//! queue in the stateful function". Every packet is taken for one that may update its flow's state.

use crate::chip::Chip;
use crate::fifo::Fifo;
use crate::kernel::Scheme;
use crate::options::{BlockingOptions, WhenFull};
use crate::packets::Handle;
use crate::program::Program;
use crate::report::DropCause;
use crate::snapshot::Snapshot;

/// Queues before each function.
#[derive(Debug)]
pub struct Blocking {
    gates: Vec<Gate>,
    when_full: WhenFull,
}

#[derive(Debug)]
struct Gate {
    queues: Vec<Queue>,
    /// The queue that is asked first.
    turn: usize,
    waiting: usize,
}

#[derive(Clone, Debug)]
struct Queue {
    packets: Fifo<Handle>,
    /// Whether a packet of it is in the function.
    is_out: bool,
}

impl Blocking {
    /// Queues for `functions` functions.
    pub fn new(functions: usize, options: &BlockingOptions, when_full: WhenFull) -> Blocking {
        let queue = || Queue { packets: Fifo::new(options.depth), is_out: false };
        let gate = || Gate { queues: (0..options.queues).map(|_| queue()).collect(), turn: 0, waiting: 0 };
        Blocking { gates: (0..functions).map(|_| gate()).collect(), when_full }
    }
}

impl Gate {
    fn queue(&mut self, key: u64) -> &mut Queue {
        let queue = queue_of(key, self.queues.len());
        &mut self.queues[queue]
    }

    /// The first packet of the next queue in turn that may send one.
    fn next(&mut self) -> Handle {
        if self.waiting == 0 {
            return Handle::NONE;
        }
        let queues = self.queues.len();
        for turn in (self.turn..queues).chain(0..self.turn) {
            let queue = &mut self.queues[turn];
            if !queue.is_out
                && let Some(packet) = queue.packets.pop()
            {
                queue.is_out = true;
                self.turn = (turn + 1) % queues;
                self.waiting -= 1;
                return packet;
            }
        }
        Handle::NONE
    }
}

/// The queue of a flow. Keys need not be hashes.
fn queue_of(key: u64, queues: usize) -> usize {
    ((u128::from(nf::hash_bytes(&key.to_le_bytes(), 0)) * queues as u128) >> 64) as usize
}

impl<P: Program> Scheme<P> for Blocking {
    fn places(&self) -> usize {
        let capacity = |gate: &Gate| gate.queues.iter().map(|queue| queue.packets.capacity()).sum::<usize>();
        self.gates.iter().map(capacity).sum()
    }

    fn comb(&mut self, _: &mut Chip<P>) {}

    fn can_take(&self, function: usize, packet: Handle, chip: &Chip<P>) -> bool {
        if self.when_full == WhenFull::Drop {
            return true;
        }
        let queues = &self.gates[function].queues;
        chip.key(function, packet).is_none_or(|key| {
            let queue = &queues[queue_of(key, queues.len())];
            !queue.packets.is_full()
        })
    }

    fn can_finish(&self, _: usize, _: Handle, _: &Chip<P>) -> bool {
        true
    }

    fn read_gate(&mut self, function: usize, arriving: Handle, chip: &mut Chip<P>) -> Handle {
        let gate = &mut self.gates[function];
        if arriving.is_some() {
            let Some(key) = chip.find_key(function, arriving) else { return arriving };
            match gate.queue(key).packets.push(arriving) {
                true => gate.waiting += 1,
                false => chip.lose(arriving, DropCause::QueueFull),
            }
        }
        let packet = gate.next();
        if packet.is_some() {
            chip.read_state(function, packet);
        }
        packet
    }

    fn write_gate(&mut self, function: usize, leaving: Handle, chip: &mut Chip<P>) -> Handle {
        if leaving.is_none() || !chip.pool.get(leaving).uses_table {
            return leaving;
        }
        let key = chip.pool.get(leaving).key;
        if let Some(state) = chip.new_state(function, leaving) {
            let table = chip.functions[function].table;
            chip.tables[table].set(key, state);
            chip.has_changed(function, leaving);
            chip.stats.writebacks += 1;
        }
        self.gates[function].queue(key).is_out = false;
        leaving
    }

    fn tick(&mut self) {}

    fn is_idle(&self) -> bool {
        true
    }

    fn occupancy(&self, chip: &Chip<P>, say: &mut dyn FnMut(String, u64)) {
        for (gate, function) in self.gates.iter().zip(&chip.functions) {
            let most = gate.queues.iter().map(|queue| queue.packets.most()).max().unwrap_or(0);
            say(format!("{}.flow_queue", function.spec.name), most as u64);
        }
    }

    fn snapshot(&self, chip: &Chip<P>, snapshot: &mut Snapshot) {
        for (gate, function) in self.gates.iter().zip(&chip.functions) {
            for (number, queue) in gate.queues.iter().enumerate() {
                let held = queue.packets.iter().map(|packet| chip.pool.get(packet).number);
                snapshot.buffer(format!("{}.flow_queue.{number}", function.spec.name), held);
            }
        }
    }
}
