//! How the history of a packet is written: each group its key, each function what it reads.

use std::marker::PhantomData;

use nf::{FlowKey, Hasher, NetworkFunction};
use ring::{Column, Tickets, Writer};
use table::Wanted;
use wire::Headers;

use crate::path::items::{AnyColumn, KeyColumn};
use crate::path::packets::BATCH_PACKETS;

/// Writes a column of the history.
pub(crate) trait Record: Send {
    /// Writes what is to be known of the packets that `writer` has numbers for, at most [`BATCH_PACKETS`]. `follows` says
    /// whether they follow those that it wrote last.
    fn record(&mut self, writer: &mut Writer, headers: &[Headers], follows: bool);
}

/// A column that is to be read.
type Read = Box<AnyColumn>;

/// A column as it is made: who write it, and what each core reads.
pub struct NewColumn {
    pub(crate) records: Vec<Box<dyn Record>>,
    pub(crate) columns: Vec<Read>,
}

impl NewColumn {
    /// For so many that write and that read.
    fn of<R: Record + 'static, C: Send + 'static>(
        (writers, readers): (usize, usize),
        record: impl Fn() -> R,
        column: impl Fn() -> C,
    ) -> NewColumn {
        NewColumn {
            records: (0..writers).map(|_| -> Box<dyn Record> { Box::new(record()) }).collect(),
            columns: (0..readers).map(|_| -> Read { Box::new(column()) }).collect(),
        }
    }
}

struct Keys<K> {
    hasher: Hasher,
    column: KeyColumn,
    last: Wanted,
    key: PhantomData<fn() -> K>,
}

impl<K: FlowKey> Record for Keys<K> {
    #[inline]
    fn record(&mut self, writer: &mut Writer, headers: &[Headers], follows: bool) {
        let Keys { hasher, column, last, .. } = self;
        if !follows {
            *last = Wanted::NONE;
        }
        let mut repeated = [0; BATCH_PACKETS];
        let repeated = &mut repeated[..headers.len()];
        column.wanted.write(writer, |packet| {
            let short = K::short_of(&headers[packet]);
            let wanted = Wanted::new(short, table::hash(hasher, short, || K::of(&headers[packet])));
            repeated[packet] = u8::from(wanted.is_same(last));
            *last = wanted;
            wanted
        });
        column.repeats.write(writer, |packet| repeated[packet]);
    }
}

/// The keys of a group, in a table with this seed, for so many that write and that read.
pub(crate) fn keys<K: FlowKey>(table_seed: u64, tickets: &Tickets, ends: (usize, usize)) -> NewColumn {
    let column = KeyColumn { wanted: tickets.column(Wanted::NONE), repeats: tickets.column(0) };
    let hasher = Hasher::new(table_seed);
    let record = || Keys::<K> { hasher, column: column.clone(), last: Wanted::NONE, key: PhantomData };
    NewColumn::of(ends, record, || column.clone())
}

struct Metas<F: NetworkFunction> {
    column: Column<Option<F::Meta>>,
    function: PhantomData<fn() -> F>,
}

impl<F: NetworkFunction> Record for Metas<F> {
    #[inline]
    fn record(&mut self, writer: &mut Writer, headers: &[Headers], _: bool) {
        // Malformed packets are no function's business.
        let meta = |headers: &Headers| if headers.is_well_formed() { F::project(headers) } else { None };
        self.column.write(writer, |packet| meta(&headers[packet]));
    }
}

/// What a function reads, for so many that write and that read.
pub(crate) fn metas<F: NetworkFunction>(tickets: &Tickets, ends: (usize, usize)) -> NewColumn {
    let column = tickets.column(None::<F::Meta>);
    NewColumn::of(ends, || Metas::<F> { column: column.clone(), function: PhantomData }, || column.clone())
}
