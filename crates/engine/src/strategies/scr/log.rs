//! The history that one dispatcher leaves for all cores: what it alone writes, and all read where it is.
//!
//! With the dispatcher in the same machine the history need not be copied into each packet: what rides with a packet
//! is its number, and a core reads what lies before it where the dispatcher wrote it, once for all cores.
//!
//! What is written of a packet is what the functions read of it, key and hash included, so that a core steps it without
//! a look at headers. In a chain in which a function edits what a later one reads, or that has two sides, only the
//! functions before know what the later ones read: there the headers themselves are written.

use io::Frame;
use ring::{Publisher, broadcast};
use wire::Headers;

use crate::chain::Chain;
use crate::path::items::{Column, Columns};
use crate::path::receive::Intake;
use crate::store::history::{NewColumn, Record};
use crate::strategies::scr::interleaver::{HeaderHistory, Interleaver};
use crate::strategies::scr::replicator::Replicator;

/// The dispatcher's end.
pub struct HistoryWriter {
    times_ns: Publisher<u64>,
    malformed: Publisher<u8>,
    records: Vec<Box<dyn Record>>,
    /// The number of the next packet.
    next: u64,
}

/// A history of `chain` with room for `records` packets, from number `first` on, and what each of `cores` replicas has
/// before its chain to step it.
pub fn history(
    chain: &Chain,
    cores: usize,
    records: usize,
    first: u64,
) -> (HistoryWriter, Vec<Box<dyn Intake>>) {
    let (times_ns, times_columns) = broadcast(records, cores);
    let (malformed, malformed_columns) = broadcast(records, cores);
    let mut writer = HistoryWriter { times_ns, malformed, records: Vec::new(), next: first };
    let columns = times_columns.into_iter().zip(malformed_columns);
    if !chain.tells_metas() {
        let (headers, header_columns) = broadcast(records, cores);
        writer.records.push(Box::new(headers));
        let intake = |((times_ns, _), headers)| -> Box<dyn Intake> {
            Box::new(Interleaver::new(HeaderHistory::new(times_ns, headers, first), cores))
        };
        return (writer, columns.zip(header_columns).map(intake).collect());
    }
    let columns = columns.map(|(times_ns, malformed)| Columns {
        times_ns,
        malformed,
        keys: Vec::new(),
        metas: Vec::new(),
    });
    let mut by_core: Vec<Columns> = columns.collect();
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
    /// Whether so many packets can be recorded: there is room for them, which the cores make as they step on.
    #[inline]
    pub fn has_room(&mut self, packets: usize) -> bool {
        self.times_ns.has_room(packets)
    }

    /// Records the next packets, at most [`BATCH_PACKETS`](crate::BATCH_PACKETS), ahead of the first of them that a core
    /// gets.
    ///
    /// # Panics
    /// If there is no room, or there are more.
    #[inline]
    pub fn write(&mut self, headers: &[Headers], frames: &[Frame]) {
        assert_eq!(headers.len(), frames.len(), "a packet has headers");
        assert!(self.has_room(headers.len()), "a history without room");
        debug_assert!(frames.iter().map(|frame| frame.stamp.seq).eq((self.next..).take(frames.len())));
        self.next += frames.len() as u64;
        self.records.iter_mut().for_each(|record| record.record(headers));
        let has_room =
            self.malformed.extend(headers.len(), |packet| u8::from(!headers[packet].is_well_formed()))
                & self.times_ns.extend(frames.len(), |packet| frames[packet].stamp.time_ns);
        debug_assert!(has_room, "asked before");
        self.malformed.publish();
        // Last: whoever sees a packet's time sees all of it.
        self.times_ns.publish();
    }

    /// Takes who writes a column, and gives what each core reads.
    fn take(&mut self, column: Option<NewColumn>) -> Vec<Box<dyn Column>> {
        let Some(NewColumn { record, columns }) = column else { return Vec::new() };
        self.records.push(record);
        columns
    }
}

/// The headers as they are.
impl Record for Publisher<Headers> {
    fn record(&mut self, headers: &[Headers]) {
        let has_room = self.extend(headers.len(), |packet| headers[packet]);
        debug_assert!(has_room, "the times had room");
        self.publish();
    }
}
