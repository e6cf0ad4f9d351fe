//! Takes packets that leave, and shows them to the caller's function.

use io::{Collector, Done, EngineDrop, Fate};
use wire::Stamp;

use crate::executor::leaving::Watch;
use crate::executor::seen::Seen;

pub(crate) struct Collected<E> {
    pub(super) packets: u64,
    pub(super) last: Stamp,
    /// Numbers of packets that have no verdict.
    pub(super) overtaken: Vec<u64>,
    pub(super) has_ip: bool,
    pub(super) blocked_batches: u64,
    pub(super) error: Option<E>,
}

/// `first` is the number of the first packet that comes.
pub(super) fn collect<E>(
    mut collector: Collector,
    first: u64,
    watch: &mut Watch,
    see: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
) -> Collected<E> {
    let (mut packets, mut last, mut error) = (0, Stamp::default(), None);
    let (mut overtaken, mut has_ip) = (Vec::new(), false);
    while let Some(done) = collector.collect() {
        let Done { frame, fate, sent } = &done;
        if let Fate::Drop(why @ (EngineDrop::NotTaken | EngineDrop::Overtaken)) = *fate {
            overtaken.extend((why == EngineDrop::Overtaken).then_some(frame.stamp.seq));
            collector.release(done);
            continue;
        }
        let seen = Seen {
            stamp: frame.stamp,
            fate: *fate,
            bytes: collector.bytes(&done),
            wire_len: frame.wire_len,
            link: frame.link,
            refused: frame.note.refused(),
            entry: frame.entry,
            sent: first + *sent,
        };
        // Only up to the first: captures without any are rare.
        has_ip = has_ip || is_ip(&seen);
        if let Err(failed) = see(&seen) {
            // Dropping the collector makes every core end.
            error = Some(failed);
            break;
        }
        watch.see(&seen);
        packets += 1;
        last = last.max(collector.release(done).0);
    }
    let blocked_batches = collector.blocked_batches();
    Collected { packets, last, overtaken, has_ip, blocked_batches, error }
}

impl<E> Collected<E> {
    /// Nothing yet.
    pub(super) fn nothing() -> Collected<E> {
        let (last, overtaken) = (Stamp::default(), Vec::new());
        Collected { packets: 0, last, overtaken, has_ip: false, blocked_batches: 0, error: None }
    }

    /// Adds what came after it.
    pub(super) fn add(&mut self, later: Collected<E>) {
        let Collected { packets, last, overtaken, has_ip, blocked_batches, error } = later;
        self.packets += packets;
        self.last = self.last.max(last);
        self.overtaken.extend(overtaken);
        self.has_ip |= has_ip;
        self.blocked_batches += blocked_batches;
        self.error = self.error.take().or(error);
    }
}

/// Whether a packet is IP, or malformed, which most often means that it was to be.
fn is_ip(seen: &Seen<'_>) -> bool {
    let headers = wire::parse(seen.link, seen.bytes, seen.wire_len);
    headers.is_ip() || !headers.is_well_formed()
}
