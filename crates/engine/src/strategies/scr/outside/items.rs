//! What the items of histories hold, for a chain: bytes of headers, or what its functions read of a packet.

use std::sync::Arc;

use sequencer::{Form, ItemLayout, Layout, Part, TypedLayout, Version};
use wire::Headers;

use crate::chain::Chain;
use crate::store::typed::{Typed, TypedPart};

/// Items of either version.
#[derive(Clone)]
pub(crate) enum HistoryItems {
    Headers(Box<ItemLayout>),
    Typed(TypedItems),
}

/// Items that hold what the functions of a chain read.
#[derive(Clone)]
pub(crate) struct TypedItems {
    pub(super) layout: TypedLayout,
    pub(super) parts: Arc<[FunctionPart]>,
}

/// One part of them.
pub(super) struct FunctionPart {
    /// Whose, by index in the chain: of a key, the first function of its group.
    pub(super) function: usize,
    pub(super) is_key: bool,
    pub(super) typed: Box<dyn Typed>,
}

/// Who packs typed items: a function's meta is what this version of the program has in memory.
const PROGRAM: &str = concat!("paceline ", env!("CARGO_PKG_VERSION"));

impl Chain {
    /// The newest version of the history format that this chain can have: 1 where a function edits what a later one
    /// reads, where the chain has two sides, and where typed items would be too long.
    pub fn history_version(&self) -> Version {
        if self.typed_items().is_some() { Version::Typed } else { Version::Headers }
    }

    /// The items of a version; `None` if the chain cannot have it.
    pub(crate) fn history_items(&self, version: Version) -> Option<HistoryItems> {
        match version {
            Version::Headers => Some(HistoryItems::Headers(Box::new(ItemLayout::new(self.history_bytes())))),
            Version::Typed => self.typed_items().map(HistoryItems::Typed),
        }
    }

    /// Those of the newest version.
    pub(crate) fn newest_items(&self) -> HistoryItems {
        match self.typed_items() {
            Some(typed) => HistoryItems::Typed(typed),
            None => HistoryItems::Headers(Box::new(ItemLayout::new(self.history_bytes()))),
        }
    }

    fn typed_items(&self) -> Option<TypedItems> {
        if !self.tells_metas() {
            return None;
        }
        let begins: Vec<usize> = self.groups().into_iter().map(|group| group.start).collect();
        let of_function = |function: usize| {
            let of = &self.functions[function].function;
            let key = begins.contains(&function).then(|| of.typed_key(self.table_seed)).flatten();
            let part = move |is_key| move |TypedPart(typed)| FunctionPart { function, is_key, typed };
            key.map(part(true)).into_iter().chain([part(false)(of.typed_meta())])
        };
        let parts: Arc<[FunctionPart]> = (0..self.functions.len()).flat_map(of_function).collect();
        let described: Vec<Part<'_>> = parts.iter().map(|part| part.typed.part()).collect();
        let layout = TypedLayout::new(PROGRAM, &described, self.table_seed).ok()?;
        Some(TypedItems { layout, parts })
    }
}

impl Layout for HistoryItems {
    #[inline]
    fn form(&self) -> Form {
        match self {
            HistoryItems::Headers(layout) => layout.form(),
            HistoryItems::Typed(items) => items.layout.form(),
        }
    }

    #[inline]
    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        match self {
            HistoryItems::Headers(layout) => layout.write(headers, time_ns, item),
            HistoryItems::Typed(items) => items.write(headers, time_ns, item),
        }
    }
}

impl HistoryItems {
    /// Bytes of an item.
    pub(crate) fn item_len(&self) -> usize {
        self.form().item_len
    }
}

impl TypedItems {
    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        let is_malformed = !headers.is_well_formed();
        self.layout.begin(time_ns, is_malformed, item);
        if !is_malformed {
            let parts = self.parts.iter().zip(self.layout.places());
            parts.for_each(|(part, place)| part.typed.write(headers, place, item));
        }
    }
}
