//! The history of a trial's packets, for cores that step those of others.

use std::sync::Arc;

use engine::{Chain, Forgotten, Past};
use io::Trace;
use io::nic::Pace;
use sequencer::ItemLayout;
use wire::Stamp;

/// An item of history for each packet of a trace, one behind the other: what a sequencer would have written. Cores
/// read from here as they would from its log.
pub(crate) struct TraceHistory {
    layout: ItemLayout,
    items: Box<[u8]>,
    packets: usize,
}

impl TraceHistory {
    pub(crate) fn new(chain: &Chain, trace: &Trace) -> TraceHistory {
        let layout = ItemLayout::new(chain.history_bytes());
        let len = layout.item_len();
        let mut items = vec![0; trace.len() * len].into_boxed_slice();
        for (index, item) in items.chunks_mut(len).enumerate() {
            let record = trace.packet(index);
            let headers = wire::parse(record.link, record.data, record.wire_len);
            layout.write(&headers, record.time_ns, item);
        }
        TraceHistory { layout, items, packets: trace.len() }
    }

    #[inline]
    fn item(&self, index: usize) -> &[u8] {
        let len = self.layout.item_len();
        &self.items[index * len..][..len]
    }
}

/// The packets of one trial.
pub(crate) struct TrialPast {
    pub(crate) history: Arc<TraceHistory>,
    /// When they arrive.
    pub(crate) pace: Pace,
    /// The stamp of the first.
    pub(crate) origin: Stamp,
    /// How many there are.
    pub(crate) count: u32,
    /// Which packet of the trace the next is, and its number in the trial.
    next: (usize, u32),
}

impl TrialPast {
    pub(crate) fn new(history: Arc<TraceHistory>, pace: Pace, origin: Stamp, count: u32) -> TrialPast {
        TrialPast { history, pace, origin, count, next: (0, 0) }
    }

    /// Which packet of the trace the trial's packet `number` is; numbers ascend.
    #[inline]
    fn index(&mut self, number: u32) -> usize {
        let (mut index, next) = self.next;
        index += (number - next) as usize;
        while index >= self.history.packets {
            index -= self.history.packets;
        }
        self.next = (index, number);
        index
    }
}

impl Past for TrialPast {
    /// Times are the trial's, not the trace's.
    #[inline]
    fn recall(&mut self, seq: u64) -> Result<(u64, &[u8]), Forgotten> {
        let number = (seq - self.origin.seq) as u32;
        let index = self.index(number);
        Ok((self.origin.time_ns + self.pace.arrival_ns(number), self.history.item(index)))
    }

    fn end(&self) -> Option<u64> {
        Some(self.origin.seq + u64::from(self.count))
    }
}
