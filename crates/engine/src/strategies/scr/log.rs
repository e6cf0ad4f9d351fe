//! The history of packets: written once, by one dispatcher or by the cores in turns, and read by all cores where it is.
//!
//! Within one machine the history need not be copied into each packet: what rides with a packet is its number, and a core
//! reads what lies before it where it was written, once for all cores.
//!
//! What is written of a packet is what the functions read of it, key and hash included, so that a core steps it without
//! a look at headers. In a chain in which a function edits what a later one reads, or that has two sides, only the
//! functions before know what the later ones read: there the headers themselves are written.

use io::Frame;
use ring::{Column, Tickets, Writer, log};
use wire::Headers;

use crate::chain::Chain;
use crate::path::items::{AnyColumn, Columns};
use crate::path::receive::Intake;
use crate::store::history::{NewColumn, Record};
use crate::strategies::scr::interleaver::{HeaderHistory, Interleaver};
use crate::strategies::scr::replicator::Replicator;

/// The end of one dispatcher that alone writes.
pub struct HistoryWriter {
    tickets: Tickets,
    recorder: Recorder,
}

/// Writes the history of packets that it has numbers for.
pub(crate) struct Recorder {
    pub(crate) writer: Writer,
    times_ns: Column<u64>,
    malformed: Column<u8>,
    records: Vec<Box<dyn Record>>,
    /// The number of the first packet in the log.
    first: u64,
    /// Behind what it wrote last.
    end: usize,
}

/// What stands before the chain of each replica.
pub(crate) type Replicas = Vec<Box<dyn Intake>>;

/// A history of `chain` with room for `records` packets, from number `first` on, and what each of `cores` replicas has
/// before its chain to step it.
pub fn history(chain: &Chain, cores: usize, records: usize, first: u64) -> (HistoryWriter, Replicas) {
    let (tickets, mut recorders, replicas) = history_of(chain, (1, cores), records, first);
    let recorder = recorders.pop().expect("one was asked for");
    (HistoryWriter { tickets, recorder }, replicas)
}

/// A history for so many that write and that read. Where several write, they are the replicas, and no packets are
/// dealt out.
pub(crate) fn history_of(
    chain: &Chain,
    ends: (usize, usize),
    records: usize,
    first: u64,
) -> (Tickets, Vec<Recorder>, Replicas) {
    let (writers, cores) = ends;
    let (tickets, recorders, by_core) = columns_of(chain, ends, records, first);
    let replica = |mut columns: Columns| -> Box<dyn Intake> {
        match columns.headers.take() {
            None => Box::new(Replicator::new(columns, first, writers > 1)),
            Some(headers) => {
                let history = HeaderHistory::new(columns.reader, columns.times_ns, headers, first);
                Box::new(Interleaver::new(history, cores, writers > 1))
            }
        }
    };
    (tickets, recorders, by_core.into_iter().map(replica).collect())
}

/// The history itself: who writes it, and what each core reads.
pub(crate) fn columns_of(
    chain: &Chain,
    ends: (usize, usize),
    records: usize,
    first: u64,
) -> (Tickets, Vec<Recorder>, Vec<Columns>) {
    let (writers, cores) = ends;
    let (tickets, readers) = log(records, cores);
    let (times_ns, malformed) = (tickets.column(0), tickets.column(0));
    let recorder = |_| Recorder {
        writer: tickets.writer(),
        times_ns: times_ns.clone(),
        malformed: malformed.clone(),
        records: Vec::new(),
        first,
        end: 0,
    };
    let mut recorders: Vec<Recorder> = (0..writers).map(recorder).collect();
    let headers = (!chain.tells_metas()).then(|| tickets.column(Headers::default()));
    let columns = |reader| Columns {
        reader,
        times_ns: times_ns.clone(),
        malformed: malformed.clone(),
        keys: Vec::new(),
        metas: Vec::new(),
        headers: headers.clone(),
    };
    let mut by_core: Vec<Columns> = readers.into_iter().map(columns).collect();
    if let Some(headers) = headers {
        recorders.iter_mut().for_each(|recorder| recorder.records.push(Box::new(headers.clone())));
        return (tickets, recorders, by_core);
    }
    let begins: Vec<usize> = chain.groups().into_iter().map(|group| group.start).collect();
    let mut take = |column: Option<NewColumn>| -> Vec<Box<AnyColumn>> {
        let Some(NewColumn { records, columns }) = column else { return Vec::new() };
        recorders.iter_mut().zip(records).for_each(|(recorder, record)| recorder.records.push(record));
        columns
    };
    for (index, spec) in chain.functions.iter().enumerate() {
        let key_history = || spec.function.key_history(chain.table_seed, &tickets, ends);
        let mut keys = take(begins.contains(&index).then(key_history).flatten()).into_iter();
        let metas = take(Some(spec.function.meta_history(&tickets, ends)));
        for (columns, meta) in by_core.iter_mut().zip(metas) {
            columns.keys.push(keys.next());
            columns.metas.push(meta);
        }
    }
    (tickets, recorders, by_core)
}

impl HistoryWriter {
    /// Whether so many packets can be recorded: there is room for them, which the cores make as they step on.
    #[inline]
    pub fn has_room(&mut self, packets: usize) -> bool {
        self.tickets.has_room(packets)
    }

    /// Records the next packets, at most [`BATCH_PACKETS`](crate::BATCH_PACKETS), ahead of the first of them that a core
    /// gets.
    ///
    /// # Panics
    /// If there is no room, or there are more.
    #[inline]
    pub fn write(&mut self, headers: &[Headers], frames: &[Frame]) {
        let HistoryWriter { tickets, recorder } = self;
        assert!(recorder.writer.claim(tickets, frames.len()), "a history without room");
        recorder.write(headers, frames);
        let is_published = recorder.writer.publish();
        debug_assert!(is_published, "nobody else writes");
    }
}

impl Recorder {
    /// Writes what is to be known of the packets that it has numbers for. It is to be published.
    ///
    /// # Panics
    /// If it has other numbers.
    #[inline]
    pub(crate) fn write(&mut self, headers: &[Headers], frames: &[Frame]) {
        assert_eq!(headers.len(), frames.len(), "a packet has headers");
        let numbers = self.writer.first() as u64 + self.first..;
        debug_assert!(frames.iter().map(|frame| frame.stamp.seq).eq(numbers.take(frames.len())));
        self.record(headers, |packet| frames[packet].stamp.time_ns);
    }

    /// Writes what is to be known of packets that have other numbers than history has. They came at these times.
    #[inline]
    pub(crate) fn record(&mut self, headers: &[Headers], time_ns: impl Fn(usize) -> u64) {
        let Recorder { writer, times_ns, malformed, records, end, .. } = self;
        let begin = writer.first();
        let follows = *end == begin;
        *end = begin + headers.len();
        records.iter_mut().for_each(|record| record.record(writer, headers, follows));
        malformed.write(writer, |packet| u8::from(!headers[packet].is_well_formed()));
        times_ns.write(writer, time_ns);
    }
}

/// The headers as they are.
impl Record for Column<Headers> {
    fn record(&mut self, writer: &mut Writer, headers: &[Headers], _: bool) {
        self.write(writer, |packet| headers[packet]);
    }
}
