//! How the history of a packet is written: each group its key, each function what it reads.

use std::marker::PhantomData;

use nf::{FlowKey, Hasher, NetworkFunction};
use ring::{Publisher, broadcast};
use table::Wanted;
use wire::Headers;

use crate::path::items::{Column, KeyColumn};
use crate::path::packets::BATCH_PACKETS;

/// Writes one column of the history, for all cores.
pub(crate) trait Record: Send {
    /// Adds what is to be known of the next packets, at most [`BATCH_PACKETS`], and publishes it. There is room for it.
    fn record(&mut self, headers: &[Headers]);
}

/// A column as it is made: who writes it, and what each core reads.
pub struct NewColumn {
    pub(crate) record: Box<dyn Record>,
    pub(crate) columns: Vec<Box<dyn Column>>,
}

struct Keys<K> {
    hasher: Hasher,
    wanted: Publisher<Wanted>,
    repeats: Publisher<u8>,
    last: Wanted,
    key: PhantomData<fn() -> K>,
}

impl<K: FlowKey> Record for Keys<K> {
    #[inline]
    fn record(&mut self, headers: &[Headers]) {
        let Keys { hasher, wanted, repeats, last, .. } = self;
        let mut repeated = [0; BATCH_PACKETS];
        let repeated = &mut repeated[..headers.len()];
        let has_room = wanted.extend(headers.len(), |packet| {
            let short = K::short_of(&headers[packet]);
            let wanted = Wanted::new(short, table::hash(hasher, short, || K::of(&headers[packet])));
            repeated[packet] = u8::from(wanted.is_same(last));
            *last = wanted;
            wanted
        });
        let has_room = has_room & repeats.extend(repeated.len(), |packet| repeated[packet]);
        debug_assert!(has_room, "the times had room");
        wanted.publish();
        repeats.publish();
    }
}

/// The keys of a group, in a table with this seed.
pub(crate) fn keys<K: FlowKey>(table_seed: u64, records: usize, cores: usize) -> NewColumn {
    let (wanted, wanted_columns) = broadcast(records, cores);
    let (repeats, repeats_columns) = broadcast(records, cores);
    let columns = wanted_columns.into_iter().zip(repeats_columns);
    let column = |(wanted, repeats)| -> Box<dyn Column> { Box::new(KeyColumn { wanted, repeats }) };
    let (hasher, last) = (Hasher::new(table_seed), Wanted::NONE);
    NewColumn {
        record: Box::new(Keys::<K> { hasher, wanted, repeats, last, key: PhantomData }),
        columns: columns.map(column).collect(),
    }
}

struct Metas<F: NetworkFunction> {
    metas: Publisher<Option<F::Meta>>,
    function: PhantomData<fn() -> F>,
}

impl<F: NetworkFunction> Record for Metas<F> {
    #[inline]
    fn record(&mut self, headers: &[Headers]) {
        // Malformed packets are no function's business.
        let meta = |headers: &Headers| if headers.is_well_formed() { F::project(headers) } else { None };
        let has_room = self.metas.extend(headers.len(), |packet| meta(&headers[packet]));
        debug_assert!(has_room, "the times had room");
        self.metas.publish();
    }
}

/// What a function reads.
pub(crate) fn metas<F: NetworkFunction>(records: usize, cores: usize) -> NewColumn {
    let (metas, columns) = broadcast(records, cores);
    let column = |column| -> Box<dyn Column> { Box::new(column) };
    NewColumn {
        record: Box::new(Metas::<F> { metas, function: PhantomData }),
        columns: columns.into_iter().map(column).collect(),
    }
}
