//! What first fragments said, for judges, who see packets' bytes alone.

use alloc::collections::BTreeMap;

use wire::{Addr, First, Headers};

/// By datagram (addresses, identification, protocol), what its first fragment said last. A judge looks at captures, so that it may
/// remember all of them.
#[derive(Debug, Default)]
pub(crate) struct Firsts(BTreeMap<(Addr, Addr, u32, u8), First>);

impl Firsts {
    /// Remembers what a first fragment says, and completes the headers of a later one. Headers of other packets stay as they are.
    pub(crate) fn complete(&mut self, frame: &[u8], headers: &mut Headers) {
        let Some(fragment) = wire::fragment(frame, headers) else { return };
        let of = fragment.datagram;
        let key = (of.src, of.dst, of.id, of.protocol);
        if headers.is_first_fragment() {
            self.0.insert(key, First::of(headers));
        } else if let Some(first) = self.0.get(&key) {
            headers.follow(first);
        }
    }
}
