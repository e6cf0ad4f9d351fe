//! What comes to each queue of a card in one trial, worked out ahead.

use engine::Order;
use io::Packets;
use io::nic::Pace;
use strategy::Assign;
use wire::Stamp;

/// What comes to each queue of a card in one trial, told ahead: strategies look at nothing but arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By core.
    pub queues: Vec<QueueSchedule>,
    /// Entries of the indirection table that went from core to core.
    pub moves: u64,
}

/// What comes to one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSchedule {
    /// The number of each arrival among those to all queues, ascending.
    pub arrivals: Vec<u32>,
    /// What this core hands over, in order; `after` counts arrivals of this trial.
    pub orders: Vec<Order>,
}

impl Schedule {
    /// Asks `assign` about the first `count` arrivals, whose packets are `packets` over and over, with the
    /// stamps that the card will give them. O(`count`), 4 bytes each.
    pub fn new(
        assign: &mut dyn Assign,
        cores: usize,
        packets: &Packets,
        pace: &Pace,
        origin: Stamp,
        count: u32,
    ) -> Schedule {
        let room = count as usize / cores + count as usize / 8;
        let queue = || QueueSchedule { arrivals: Vec::with_capacity(room), orders: Vec::new() };
        let mut schedule = Schedule { queues: (0..cores).map(|_| queue()).collect(), moves: 0 };
        let mut index = 0;
        for number in 0..count {
            let stamp = Stamp {
                seq: origin.seq + u64::from(number),
                time_ns: origin.time_ns + pace.arrival_ns(number),
            };
            for moved in assign.moves(stamp) {
                let from = &mut schedule.queues[usize::from(moved.from)];
                let after = from.arrivals.len() as u64;
                from.orders.push(Order {
                    entry: moved.entry,
                    to: moved.to,
                    after,
                    since_seq: stamp.seq,
                    since_ns: stamp.time_ns,
                });
                schedule.moves += 1;
            }
            schedule.queues[assign.core(packets.entry(index))].arrivals.push(number);
            index = if index + 1 == packets.len() { 0 } else { index + 1 };
        }
        schedule
    }

    /// Takes arrivals out that get lost ahead of the card, by core and number.
    pub(crate) fn lose(&mut self, is_lost: impl Fn(usize, u32) -> bool) {
        for (core, queue) in self.queues.iter_mut().enumerate() {
            queue.arrivals.retain(|arrival| !is_lost(core, *arrival));
        }
    }

    /// How many arrivals there are.
    pub fn packets(&self) -> u64 {
        self.queues.iter().map(|queue| queue.arrivals.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use io::Trace;
    use io::capture::Record;
    use strategy::Move;
    use wire::{Headers, LinkType};

    use super::*;

    /// Entry 1 is core 0's until the packet with number 4, and core 1's from then on.
    struct Moving {
        core: u16,
        moves: Vec<Move>,
    }

    impl Assign for Moving {
        fn entry(&self, _: &Headers) -> u16 {
            0
        }

        fn core(&mut self, entry: u16) -> usize {
            usize::from(if entry == 1 { self.core } else { 0 })
        }

        fn moves(&mut self, stamp: Stamp) -> &[Move] {
            self.moves.clear();
            if (stamp.seq, stamp.time_ns) == (104, 54_000) {
                self.core = 1;
                self.moves.push(Move { entry: 1, from: 0, to: 1 });
            }
            &self.moves
        }
    }

    #[test]
    fn a_move_holds_from_its_packet_on() {
        let mut trace = Trace::default();
        for byte in [0u8, 1, 1] {
            trace.push(&Record { time_ns: 0, wire_len: 1, link: LinkType::RawIp, data: &[byte] });
        }
        let packets = Packets::new(&trace, &[0, 1, 2], |record| u16::from(record.data[0]));
        let mut assign = Moving { core: 0, moves: Vec::new() };
        let origin = Stamp { seq: 100, time_ns: 50_000 };
        let schedule = Schedule::new(&mut assign, 2, &packets, &Pace::even(1e6), origin, 9);
        let order = Order { entry: 1, to: 1, after: 4, since_seq: 104, since_ns: 54_000 };
        let expected = [(vec![0, 1, 2, 3, 6], vec![order]), (vec![4, 5, 7, 8], vec![])];
        let queues = expected.map(|(arrivals, orders)| QueueSchedule { arrivals, orders });
        assert_eq!(schedule, Schedule { queues: queues.into(), moves: 1 });
        assert_eq!(schedule.packets(), 9);
    }
}
