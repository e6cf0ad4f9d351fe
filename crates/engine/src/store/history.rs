//! How the history of a packet is written: each group its key, each function what it reads.

use std::marker::PhantomData;

use nf::{FlowKey, Hasher, NetworkFunction};
use ring::{Publisher, broadcast};
use table::Wanted;
use wire::Headers;

use crate::path::items::{Column, KeyColumn};

/// Writes one column of the history, for all cores.
pub(crate) trait Record: Send {
    /// Adds what is to be known of the next packet. There is room for it.
    fn record(&mut self, headers: &Headers);
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
    keys: Publisher<K>,
}

impl<K: FlowKey> Record for Keys<K> {
    #[inline]
    fn record(&mut self, headers: &Headers) {
        let key = K::of(headers);
        let short = K::of(headers).short();
        let hash = table::hash(&self.hasher, short, || K::of(headers));
        let wanted = Wanted::new(short, hash);
        let repeats = u8::from(wanted.is_same(&self.last));
        self.last = wanted;
        let has_room = self.wanted.push(wanted) & self.repeats.push(repeats) & self.keys.push(key);
        debug_assert!(has_room, "the times had room");
        self.wanted.publish();
        self.repeats.publish();
        self.keys.publish();
    }
}

/// The keys of a group, in a table with this seed.
pub(crate) fn keys<K: FlowKey>(table_seed: u64, records: usize, cores: usize) -> NewColumn {
    let (wanted, wanted_columns) = broadcast(records, cores);
    let (repeats, repeats_columns) = broadcast(records, cores);
    let (keys, key_columns) = broadcast::<K>(records, cores);
    let columns = wanted_columns.into_iter().zip(repeats_columns).zip(key_columns);
    let column = |((wanted, repeats), keys)| -> Box<dyn Column> { Box::new(KeyColumn { wanted, repeats, keys }) };
    NewColumn {
        record: Box::new(Keys { hasher: Hasher::new(table_seed), wanted, repeats, last: Wanted::NONE, keys }),
        columns: columns.map(column).collect(),
    }
}

struct Metas<F: NetworkFunction> {
    metas: Publisher<Option<F::Meta>>,
    function: PhantomData<fn() -> F>,
}

impl<F: NetworkFunction> Record for Metas<F> {
    #[inline]
    fn record(&mut self, headers: &Headers) {
        // Malformed packets are no function's business.
        let meta = if headers.is_well_formed() { F::project(headers) } else { None };
        let has_room = self.metas.push(meta);
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
