//! The history that one dispatcher leaves for all cores: what it alone writes, and all read where it is.
//!
//! With the dispatcher in the same machine the history need not be copied into each packet: what rides with a packet
//! is its number, and a core reads what lies before it where the dispatcher wrote it, once for all cores.
//!
//! What is written of a packet is what the functions read of it, key and hash included, so that a core steps it without
//! a look at headers. In a chain in which a function edits what a later one reads, or that has two sides, only the
//! functions before know what the later ones read: there the headers themselves are written.

use ring::{Publisher, Subscriber, broadcast};
use wire::{Headers, Stamp};

use crate::chain::Chain;
use crate::path::items::{Columns, Head};
use crate::path::receive::Intake;
use crate::store::history::{NewColumn, Record};
use crate::strategies::scr::interleaver::Interleaver;
use crate::strategies::scr::replicator::Replicator;

/// The dispatcher's end.
pub struct HistoryWriter {
    heads: Publisher<Head>,
    records: Vec<Box<dyn Record>>,
    /// The number of the next packet.
    next: u64,
    malformed: u64,
}

/// A history of `chain` with room for `records` packets, from number `first` on, and what each of `cores` replicas has
/// before its chain to step it.
pub fn history(
    chain: &Chain,
    cores: usize,
    records: usize,
    first: u64,
) -> (HistoryWriter, Vec<Box<dyn Intake>>) {
    let (heads, head_columns) = broadcast(records, cores);
    if !chain.tells_metas() {
        let (headers, header_columns) = broadcast(records, cores);
        let intake = |(heads, headers)| -> Box<dyn Intake> {
            Box::new(Interleaver::new(HeaderHistory { heads, headers, first }, cores))
        };
        let intakes = head_columns.into_iter().zip(header_columns).map(intake).collect();
        return (
            HistoryWriter { heads, records: vec![Box::new(headers)], next: first, malformed: 0 },
            intakes,
        );
    }
    let mut writer = HistoryWriter { heads, records: Vec::new(), next: first, malformed: 0 };
    let columns = |heads| Columns { heads, keys: Vec::new(), metas: Vec::new() };
    let mut by_core: Vec<Columns> = head_columns.into_iter().map(columns).collect();
    let begins: Vec<usize> = chain.groups().into_iter().map(|group| group.start).collect();
    for (index, spec) in chain.functions.iter().enumerate() {
        let keys =
            begins.contains(&index).then(|| spec.function.key_history(chain.table_seed, records, cores));
        let keys = writer.take(keys.flatten());
        let metas = writer.take(Some(spec.function.meta_history(records, cores)));
        let mut keys = keys.into_iter();
        for (columns, meta) in by_core.iter_mut().zip(metas) {
            columns.keys.push(keys.next());
            columns.metas.push(meta);
        }
    }
    let intake = |columns| -> Box<dyn Intake> { Box::new(Replicator::new(columns, first)) };
    (writer, by_core.into_iter().map(intake).collect())
}

impl HistoryWriter {
    /// Whether the next packet can be recorded: there is room for it, which the cores make as they step on.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.heads.has_room()
    }

    /// Records the next packet, ahead of any later one that a core gets.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub fn write(&mut self, headers: &Headers, stamp: Stamp) {
        debug_assert_eq!(stamp.seq, self.next);
        self.next += 1;
        assert!(self.has_room(), "a history without room");
        self.records.iter_mut().for_each(|record| record.record(headers));
        self.malformed += u64::from(!headers.is_well_formed());
        let head = Head { time_ns: stamp.time_ns, malformed: self.malformed };
        let has_room = self.heads.push(head);
        debug_assert!(has_room, "asked before");
        self.heads.publish();
    }

    /// Takes who writes a column, and gives what each core reads.
    fn take(&mut self, column: Option<NewColumn>) -> Vec<Box<dyn crate::path::items::Column>> {
        let Some(NewColumn { record, columns }) = column else { return Vec::new() };
        self.records.push(record);
        columns
    }
}

/// The headers as they are.
impl Record for Publisher<Headers> {
    fn record(&mut self, headers: &Headers) {
        let has_room = self.push(*headers);
        debug_assert!(has_room, "the heads had room");
        self.publish();
    }
}

/// A core's end of a history that holds headers.
pub(crate) struct HeaderHistory {
    heads: Subscriber<Head>,
    headers: Subscriber<Headers>,
    first: u64,
}

impl HeaderHistory {
    /// The number of the first packet.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the first packet of which nothing is known now.
    pub(crate) fn end(&mut self) -> u64 {
        let published = self.heads.published();
        self.headers.published();
        self.first + published as u64
    }

    /// Whether more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.heads.is_abandoned()
    }

    /// A packet that is known, and not given back.
    pub(crate) fn read(&self, seq: u64) -> (u64, Headers) {
        let place = (seq - self.first) as usize;
        (self.heads.item(place).time_ns, self.headers.item(place))
    }

    /// Gives back all before this number. The heads go last, as in [`Columns::release`].
    pub(crate) fn release(&mut self, below: u64) {
        let below = (below - self.first) as usize;
        self.headers.release(below);
        self.heads.release(below);
    }
}
