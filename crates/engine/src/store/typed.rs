//! What is told of a packet as bytes, for a wire: the same that [`history`](crate::store::history) writes into columns,
//! and from these bytes into such columns.

use std::marker::PhantomData;

use nf::{FlowKey, Hasher, NetworkFunction, Short};
use ring::{Column, Writer};
use sequencer::{Part, Place, write_key};
use table::Wanted;
use wire::Headers;
use zerocopy::{IntoBytes, TryFromBytes};

use crate::path::items::{AnyColumn, KeyColumn};
use crate::path::packets::BATCH_PACKETS;

/// One part of typed items, whatever its type: the key of a group, or what a function reads.
pub(crate) trait Typed: Send + Sync {
    /// What both ends have to agree on.
    fn part(&self) -> Part<'static>;

    /// Writes the part and its mark into the item of a well-formed packet, where both are 0.
    fn write(&self, headers: &Headers, place: &Place, item: &mut [u8]);

    /// Takes the part of items into their column, for the packets that `writer` has numbers for.
    fn read(&self, items: &[u8], item_len: usize, place: &Place, column: &AnyColumn, writer: &mut Writer);
}

/// A part of typed items, to be passed on.
pub struct TypedPart(pub(crate) Box<dyn Typed>);

struct Keys<K> {
    hasher: Hasher,
    key: PhantomData<fn() -> K>,
}

impl<K: FlowKey> Typed for Keys<K> {
    fn part(&self) -> Part<'static> {
        let nf::Sharding { fields, symmetric } = K::SHARDING;
        Part::Key { fields: fields.bits(), is_symmetric: symmetric, bytes: size_of::<K>() }
    }

    #[inline]
    fn write(&self, headers: &Headers, place: &Place, item: &mut [u8]) {
        let short = K::short_of(headers);
        let hash = table::hash(&self.hasher, short, || K::of(headers));
        write_key(hash, short.bits, place.of_mut(item));
        place.mark(short.is_exact, item);
    }

    fn read(&self, items: &[u8], item_len: usize, place: &Place, column: &AnyColumn, writer: &mut Writer) {
        let column: &KeyColumn = column.downcast_ref().expect("of a group");
        let (mut last, mut repeated) = (Wanted::NONE, [0; BATCH_PACKETS]);
        let mut items = items.chunks_exact(item_len);
        column.wanted.write(writer, |packet| {
            let Some(item) = items.next() else { return Wanted::NONE };
            let (hash, bits) = place.key(item);
            // A short key is whole whatever the mark says: no table takes it otherwise.
            let is_exact = size_of::<K>() <= size_of::<u128>() || place.is_marked(item);
            let wanted = Wanted::new(Short { bits, is_exact }, hash);
            repeated[packet % BATCH_PACKETS] = u8::from(wanted.is_same(&last));
            last = wanted;
            wanted
        });
        column.repeats.write(writer, |packet| repeated[packet % BATCH_PACKETS]);
    }
}

/// The keys of a group, in a table with this seed.
pub(crate) fn keys<K: FlowKey>(table_seed: u64) -> TypedPart {
    TypedPart(Box::new(Keys::<K> { hasher: Hasher::new(table_seed), key: PhantomData }))
}

struct Metas<F>(PhantomData<fn() -> F>);

impl<F: NetworkFunction> Typed for Metas<F> {
    fn part(&self) -> Part<'static> {
        let (function, reads) = (F::ABOUT.name, F::READS.bits());
        Part::Meta { function, reads, bytes: size_of::<F::Meta>() }
    }

    #[inline]
    fn write(&self, headers: &Headers, place: &Place, item: &mut [u8]) {
        if let Some(meta) = F::project(headers) {
            place.of_mut(item).copy_from_slice(meta.as_bytes());
            place.mark(true, item);
        }
    }

    fn read(&self, items: &[u8], item_len: usize, place: &Place, column: &AnyColumn, writer: &mut Writer) {
        let column: &Column<Option<F::Meta>> = column.downcast_ref().expect("of this meta");
        let mut items = items.chunks_exact(item_len);
        column.write(writer, |_| {
            let item = items.next().filter(|item| place.is_marked(item))?;
            // Bytes that are no meta come from no sequencer of this chain: as if it were not the function's business.
            F::Meta::try_read_from_bytes(place.of(item)).ok()
        });
    }
}

/// What a function reads.
pub(crate) fn metas<F: NetworkFunction>() -> TypedPart {
    TypedPart(Box::new(Metas::<F>(PhantomData)))
}
