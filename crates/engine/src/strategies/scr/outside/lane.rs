//! A core's own end of a history whose items hold what functions read: items go into columns as a dispatcher of this
//! machine would write them, and are stepped from there as the
//! [`Replicator`](crate::strategies::scr::replicator::Replicator) steps its log.
//!
//! ```text
//!  received:  | items 1, 2 | 3 |     staged: 1 2 (3)    columns: times, malformed, keys, metas  ──► replay
//! ```

use io::Port;
use ring::{Tickets, Writer};
use sequencer::TypedLayout;
use wire::Stamp;

use crate::chain::Chain;
use crate::path::batch::Batch;
use crate::path::core::ChainCore;
use crate::path::items::{Columns, Items, Seqs};
use crate::path::laps::Laps;
use crate::path::packets::BATCH_PACKETS;
use crate::strategies::scr::log::columns_of;
use crate::strategies::scr::outside::items::TypedItems;

/// Places of the columns: few, so that they stay in the cache; more than a batch, since what goes over their end is
/// stepped in two parts.
const PLACES: usize = 4 * BATCH_PACKETS;

/// Packets that are stepped next, own ones among them.
pub(super) struct Lane {
    items: TypedItems,
    /// Bytes of an item.
    item_len: usize,
    tickets: Tickets,
    writer: Writer,
    columns: Columns,
    /// Their items, one behind the other.
    staged: Box<[u8]>,
    seqs: Box<[u64; BATCH_PACKETS]>,
    times_ns: Box<[u64; BATCH_PACKETS]>,
    /// How many there are.
    count: usize,
    /// Bit *i*: packet *i* is the next one of the batch.
    own: u64,
    /// Where the next one comes in the columns.
    place: usize,
}

impl Lane {
    /// The lane of a core that runs `chain`. Takes all memory that it will need.
    pub(super) fn new(chain: &Chain, items: TypedItems) -> Lane {
        let (tickets, _, mut columns) = columns_of(chain, (0, 1), PLACES, 0);
        let item_len = items.layout.form().item_len;
        Lane {
            writer: tickets.writer(),
            tickets,
            columns: columns.pop().expect("one was asked for"),
            staged: vec![0; BATCH_PACKETS * item_len].into(),
            items,
            item_len,
            seqs: Box::new([0; BATCH_PACKETS]),
            times_ns: Box::new([0; BATCH_PACKETS]),
            count: 0,
            own: 0,
            place: 0,
        }
    }

    /// How many packets are to be stepped.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// One more, with this item; an own packet is at the end of the batch.
    ///
    /// # Panics
    /// If there are [`BATCH_PACKETS`].
    #[inline]
    pub(super) fn push(&mut self, stamp: Stamp, is_own: bool, item: &[u8]) {
        let at = self.count;
        (self.seqs[at], self.times_ns[at]) = (stamp.seq, stamp.time_ns);
        self.own |= u64::from(is_own) << at;
        self.staged[at * self.item_len..][..self.item_len].copy_from_slice(item);
        self.count = at + 1;
    }

    /// Steps them, with the own packets of the batch among them.
    pub(super) fn step(
        &mut self,
        chain: &mut ChainCore,
        batch: &mut Batch,
        port: &dyn Port,
        laps: &mut dyn Laps,
    ) {
        chain.begin(batch);
        self.tell();
        let Lane { columns, seqs, count, own, place, .. } = self;
        let mut own_next = 0;
        while *count > 0 {
            // Not past the end of the columns.
            let some = (PLACES - *place % PLACES).min(*count);
            let mut items = Items::new(columns, *place, some, Seqs::of(seqs));
            for item in 0..some {
                if *own >> item & 1 == 1 {
                    items.mark_own(item, own_next, batch);
                    own_next += 1;
                }
            }
            chain.replay(&mut items, batch, port, laps);
            (*place, *count) = (*place + some, *count - some);
            *own = own.checked_shr(some as u32).unwrap_or(0);
            seqs.copy_within(some.., 0);
        }
        debug_assert_eq!(own_next, batch.len(), "each own packet is stepped");
        columns.reader.release(*place);
    }

    /// Takes the items into the columns.
    fn tell(&mut self) {
        let Lane { items, item_len, tickets, writer, columns, staged, times_ns, count, .. } = self;
        assert!(writer.claim(tickets, *count), "all before are stepped");
        let (item_len, times_ns) = (*item_len, &times_ns[..*count]);
        let staged = &staged[..*count * item_len];
        columns.times_ns.write(writer, |packet| times_ns[packet]);
        let mut each = staged.chunks_exact(item_len);
        let malformed = |_| u8::from(each.next().is_some_and(TypedLayout::is_malformed));
        columns.malformed.write(writer, malformed);
        for (part, place) in items.parts.iter().zip(items.layout.places()) {
            let column = match part.is_key {
                true => columns.keys[part.function].as_ref().expect("the group has a column"),
                false => &columns.metas[part.function],
            };
            part.typed.read(staged, item_len, place, &**column, writer);
        }
        let is_published = writer.publish();
        debug_assert!(is_published, "nobody else writes");
        columns.reader.published();
    }
}
