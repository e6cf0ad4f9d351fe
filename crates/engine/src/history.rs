//! The history that one dispatcher leaves for all cores: a log of items that it alone writes.
//!
//! With the dispatcher in the same machine the history need not be copied into each packet: what rides with a packet
//! is its number, and a core reads what lies before it where the dispatcher wrote it, once for all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recovery::{Found, Reader, Writer, log};
use sequencer::ItemLayout;
use wire::{Headers, Stamp};

use crate::replicate::{Forgotten, Past};

/// No number of packets.
const NOT_YET: u64 = u64::MAX;

/// The dispatcher's end.
pub(crate) struct HistoryWriter {
    layout: ItemLayout,
    log: Writer,
    item: Box<[u8]>,
    end: Arc<AtomicU64>,
}

/// A core's end.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    log: Reader,
    item: Box<[u8]>,
    end: Arc<AtomicU64>,
}

/// A log of at least so many items.
pub(crate) fn history(layout: ItemLayout, records: usize) -> (HistoryWriter, HistoryReader) {
    let (writer, reader) = log(records, layout.item_len());
    let item = || vec![0; layout.item_len()].into_boxed_slice();
    let end = Arc::new(AtomicU64::new(NOT_YET));
    let reader = HistoryReader { log: reader, item: item(), end: Arc::clone(&end) };
    (HistoryWriter { item: item(), layout, log: writer, end }, reader)
}

impl HistoryWriter {
    /// Records the next packet, ahead of any later one that a core gets.
    pub(crate) fn write(&mut self, headers: &Headers, stamp: Stamp) {
        debug_assert_eq!(stamp.seq, self.log.next());
        self.layout.write(headers, stamp.time_ns, &mut self.item);
        self.log.write(&self.item);
    }
}

/// No more packets will come.
impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.end.store(self.log.next(), Ordering::Release);
    }
}

impl Past for HistoryReader {
    #[inline]
    fn recall(&mut self, seq: u64) -> Result<(u64, &[u8]), Forgotten> {
        match self.log.read(seq, &mut self.item) {
            Found::Item => Ok((ItemLayout::time_ns(&self.item), &self.item)),
            Found::Lost | Found::NotYet | Found::Overwritten => Err(Forgotten { seq }),
        }
    }

    fn end(&self) -> Option<u64> {
        let end = self.end.load(Ordering::Acquire);
        (end != NOT_YET).then_some(end)
    }
}
