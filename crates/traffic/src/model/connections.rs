//! Connections that begin and end within the trace, several at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nf::hash_bytes;

use super::draw::{Dice, Stream};
use super::flow::Ends;
use super::frame::Packet;
use super::sizes::SizeDraw;
use super::table::{BILLION, SizeTable};
use super::talk::{Directions, Talk};

/// The time of one packet, in the units in which the connections' times are planned.
const PACKET: u64 = 256;

/// What is to be planned.
pub(super) struct Order {
    /// The distribution of sizes.
    pub table: SizeTable,
    /// How many connections; `None` for as many as make up the packets with the table's sizes.
    pub connections: Option<u64>,
    /// At least so many packets in all.
    pub packets: u64,
    /// Connections alive at one time, at most; `None` for a tenth of them, at least 16 and at most 1,000.
    pub concurrent: Option<u64>,
    pub seed: u64,
}

/// A connection that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    start: u64,
    number: u32,
    data: u32,
}

/// A connection that has begun.
struct Active {
    talk: Talk,
    /// Mean time to its next packet.
    step: u64,
}

/// The connections of a trace, in the order of their packets.
///
/// The planned times decide the order alone: the trace's clock decides when packets leave.
pub(super) struct Connections {
    directions: Directions,
    /// Backwards: the first one is at the end.
    waiting: Vec<Planned>,
    active: Vec<Active>,
    /// Places in `active` of connections that are over.
    free: Vec<u32>,
    /// When the next packet of each active connection is due.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    concurrent: usize,
    /// Packets of all connections, those that were sent included.
    packets: u64,
    spans: Spans,
    pace: Dice,
    seed: u64,
    mss: u16,
}

impl Connections {
    /// Plans the connections. O(connections) memory, 16 bytes each.
    pub fn new(order: &Order, mss: u16) -> Connections {
        let directions = order.table.directions;
        let data = sizes(order);
        let packets = data.iter().map(|data| directions.packets(u64::from(*data))).sum();
        let count = data.len() as u64;
        let concurrent = order.concurrent.unwrap_or((count / 10).clamp(16, 1_000)).min(count);
        let spans = Spans::new(&data, directions, packets, concurrent);
        let mut start = Dice::new(order.seed, Stream::Start);
        let plan = |(number, data): (usize, u32)| {
            let span = spans.of(directions.packets(u64::from(data)));
            Planned { start: start.below(spans.whole - span + 1), number: number as u32, data }
        };
        let mut waiting: Vec<Planned> = data.into_iter().enumerate().map(plan).collect();
        waiting.sort_unstable_by_key(|planned| Reverse(*planned));
        Connections {
            directions,
            waiting,
            active: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            concurrent: concurrent as usize,
            packets,
            spans,
            pace: Dice::new(order.seed, Stream::Pace),
            seed: order.seed,
            mss,
        }
    }

    /// Packets of all connections together, sent or not.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sends up to `train` packets of the connection that is next; says how many. 0 when all are over.
    pub fn turn(
        &mut self,
        train: u64,
        sizes: &mut SizeDraw,
        ends: impl Fn(u64) -> Ends,
        mut packet: impl FnMut(&Packet),
    ) -> u64 {
        self.admit(ends);
        let Some(Reverse((now, place))) = self.due.pop() else { return 0 };
        let Active { talk, step } = &mut self.active[place as usize];
        let mut sent = 0;
        while sent < train && !talk.is_done() {
            packet(&talk.next(sizes));
            sent += 1;
        }
        if talk.is_done() {
            self.free.push(place);
        } else {
            let wait = self.pace.wait(*step * sent);
            self.due.push(Reverse((now + wait, place)));
        }
        sent
    }

    /// Begins what is due before the next packet, as far as there is room.
    fn admit(&mut self, ends: impl Fn(u64) -> Ends) {
        while let Some(&Planned { start, number, data }) = self.waiting.last() {
            let is_due = self.due.peek().is_none_or(|Reverse((due, _))| start <= *due);
            if !is_due || self.due.len() == self.concurrent {
                return;
            }
            self.waiting.pop();
            let number = u64::from(number);
            let initial = hash_bytes(&number.to_le_bytes(), self.seed);
            let talk = Talk::new(ends(number), self.directions, data, initial, self.mss);
            let packets = self.directions.packets(u64::from(data));
            let active = Active { talk, step: self.spans.of(packets) / packets };
            let place = self.free.pop().unwrap_or(self.active.len() as u32);
            match self.active.get_mut(place as usize) {
                Some(old) => *old = active,
                None => self.active.push(active),
            }
            self.due.push(Reverse((start, place)));
        }
    }
}

/// How long connections take: in proportion to the square root of their packets, so that a big one lasts longer
/// and is faster, too; at most three quarters of the trace.
struct Spans {
    /// The trace.
    whole: u64,
    /// Time for all connections together, and what it is shared by.
    total: u128,
    weights: u128,
}

impl Spans {
    fn new(data: &[u32], directions: Directions, packets: u64, concurrent: u64) -> Spans {
        let whole = packets * PACKET;
        let weights = data.iter().map(|data| Spans::weight(directions.packets(u64::from(*data)))).sum();
        // Three quarters of those that may be alive at once are so on the average: there is room for more.
        Spans { whole, total: u128::from(whole) * u128::from(concurrent) * 3 / 4, weights }
    }

    fn weight(packets: u64) -> u128 {
        u128::from((packets << 16).isqrt())
    }

    fn of(&self, packets: u64) -> u64 {
        let span = self.total * Spans::weight(packets) / self.weights;
        span.min(u128::from(self.whole / 4 * 3)) as u64
    }
}

/// Segments of data of each connection, in the order in which they are numbered.
fn sizes(order: &Order) -> Vec<u32> {
    let count = order.connections.unwrap_or_else(|| order.table.connections_for(order.packets));
    let mut dice = Dice::new(order.seed, Stream::Connection);
    // One draw in each of as many equal slices of the distribution as there are connections: a shuffled deck has
    // the table's shape, whatever the seed.
    let slice = |number: u64| {
        let point = (u128::from(number) << 64) + u128::from(dice.next());
        let share = (point / u128::from(count) * u128::from(BILLION)) >> 64;
        order.table.quantile((share as u32).min(BILLION - 1)).min(u64::from(u32::MAX)) as u32
    };
    let mut sizes: Vec<u32> = (0..count).map(slice).collect();
    for last in (1..sizes.len()).rev() {
        sizes.swap(last, dice.below(last as u64 + 1) as usize);
    }
    scale(&mut sizes, &order.table, order.packets);
    sizes
}

/// Makes all sizes bigger or smaller by one factor, the least with which there are `packets` packets; none
/// bigger than the table allows.
fn scale(sizes: &mut [u32], table: &SizeTable, packets: u64) {
    /// The factor is in units of this part of 1.
    const ONE_BITS: u32 = 24;
    let directions = table.directions;
    let biggest = (packets * table.biggest_thousandths / 1_000).max(packets * 2 / sizes.len() as u64);
    let bounds = (directions.least_data(), directions.data_for(biggest).min(u64::from(u32::MAX)));
    let scaled = |(number, size): (usize, &u32), factor: u64| {
        // Sizes of 1.5 become 1 or 2, as many one as the other; not all at one factor.
        let rounding = (number as u32).wrapping_mul(0x9e37_79b1) >> (32 - ONE_BITS);
        let size = (u128::from(*size) * u128::from(factor) + u128::from(rounding)) >> ONE_BITS;
        size.clamp(u128::from(bounds.0), u128::from(bounds.1)) as u32
    };
    let total = |factor: u64| -> u64 {
        let data = sizes.iter().enumerate().map(|size| u64::from(scaled(size, factor)));
        data.map(|data| directions.packets(data)).sum()
    };
    let mut high = 1u64 << ONE_BITS;
    while total(high) < packets && high < 1 << 57 {
        high *= 2;
    }
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if total(middle) < packets { low = middle + 1 } else { high = middle }
    }
    let lacking = packets.saturating_sub(total(low));
    for (number, size) in sizes.iter_mut().enumerate() {
        *size = scaled((number, size), low);
    }
    // Connections without data grow by no factor.
    if let Some(size) = sizes.iter_mut().max().filter(|_| lacking > 0) {
        let packets = directions.packets(u64::from(*size)) + lacking;
        *size = directions.data_for(packets).min(u64::from(u32::MAX)) as u32;
    }
}
