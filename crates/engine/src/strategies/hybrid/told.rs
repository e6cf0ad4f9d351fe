//! What all cores are told of packets of promoted flows: the history of `scr`, in which a packet's place is not its number, and
//! with each packet's number, entry and core beside what is stepped.

use ring::{Column, Tickets};
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::items::Columns;
use crate::path::packets::BATCH_PACKETS;
use crate::strategies::scr::log::{Recorder, columns_of};

/// Which packet was told, and where it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    pub(super) stamp: Stamp,
    /// Its entry as long as it is promoted.
    pub(super) slot: u16,
    /// The core that gets it.
    pub(super) core: u16,
}

/// The sequencer's end of the history.
pub(super) struct Writer {
    tickets: Tickets,
    recorder: Recorder,
    column: Column<Told>,
    /// Those that are told together, which readers see together.
    packets: Vec<Told>,
}

/// A core's end of it.
pub(super) struct Reader {
    /// Which packets they are.
    pub(super) packets: Column<Told>,
    /// What is to be known for their steps.
    pub(super) columns: Columns,
}

/// A history of `chain` with room for `records` packets.
pub(super) fn told(chain: &Chain, cores: usize, records: usize) -> (Writer, Vec<Reader>) {
    let (tickets, mut recorders, by_core) = columns_of(chain, (1, cores), records, 0);
    let recorder = recorders.pop().expect("one was asked for");
    let column = tickets.column(Told::default());
    let reader = |columns| Reader { packets: column.clone(), columns };
    let readers = by_core.into_iter().map(reader).collect();
    let packets = Vec::with_capacity(BATCH_PACKETS);
    (Writer { tickets, recorder, column, packets }, readers)
}

impl Writer {
    /// Whether so many can be told: cores make room as they step on.
    pub(super) fn has_room(&mut self, packets: usize) -> bool {
        self.tickets.has_room(packets)
    }

    /// How many were told so far, those included that are not published.
    pub(super) fn count(&self) -> u64 {
        (self.tickets.claimed() + self.packets.len()) as u64
    }

    /// Tells of one more.
    #[inline]
    pub(super) fn push(&mut self, told: Told) {
        self.packets.push(told);
    }

    /// Lets the cores see what was told, of packets with these headers.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(super) fn publish(&mut self, headers: &[Headers]) {
        let Writer { tickets, recorder, column, packets } = self;
        debug_assert_eq!(headers.len(), packets.len(), "a packet has headers");
        if packets.is_empty() {
            return;
        }
        assert!(recorder.writer.claim(tickets, packets.len()), "a history without room");
        column.write(&mut recorder.writer, |packet| packets[packet]);
        recorder.record(headers, |packet| packets[packet].stamp.time_ns);
        let is_published = recorder.writer.publish();
        debug_assert!(is_published, "nobody else writes");
        packets.clear();
    }
}
