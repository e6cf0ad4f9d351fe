//! The history that one dispatcher leaves for all cores: a log of excerpts that it alone writes.
//!
//! With the dispatcher in the same machine the history need not be copied into each packet: what rides with a packet
//! is its number, and a core reads what lies before it where the dispatcher wrote it, once for all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recovery::{Found, Reader, Writer, log};
use sequencer::{Excerpt, Likeness};
use wire::{Headers, Stamp};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::path::receive::Forgotten;
use crate::strategies::scr::replicator::{Past, Recalled};

/// No number of packets.
const NOT_YET: u64 = u64::MAX;

/// What is read of every packet.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    time_ns: u64,
    likeness: u64,
}

const KEY: u64 = 1;
const ALL: u64 = 2;

/// A record: a head, and the headers.
const RECORD_LEN: usize = size_of::<Head>() + size_of::<Headers>();

/// The dispatcher's end.
pub(crate) struct HistoryWriter {
    excerpt: Excerpt,
    log: Writer,
    last: Headers,
    /// The number of the first packet.
    first: u64,
    end: Arc<AtomicU64>,
}

/// A core's end.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    log: Reader,
    first: u64,
    end: Arc<AtomicU64>,
}

/// A log of at least so many packets, from number `first` on.
pub(crate) fn history(excerpt: Excerpt, records: usize, first: u64) -> (HistoryWriter, HistoryReader) {
    let (writer, reader) = log(records, RECORD_LEN);
    let end = Arc::new(AtomicU64::new(NOT_YET));
    let reader = HistoryReader { log: reader, first, end: Arc::clone(&end) };
    (HistoryWriter { excerpt, log: writer, last: Headers::default(), first, end }, reader)
}

impl HistoryWriter {
    /// Records the next packet, ahead of any later one that a core gets.
    pub(crate) fn write(&mut self, headers: &Headers, stamp: Stamp) {
        debug_assert_eq!(stamp.seq, self.first + self.log.next());
        let headers = self.excerpt.of(headers);
        let likeness = match self.excerpt.likeness(&self.last, &headers) {
            Likeness::None => 0,
            Likeness::Key => KEY,
            Likeness::All => ALL,
        };
        let mut record = [0; RECORD_LEN];
        let (head, tail) = record.split_at_mut(size_of::<Head>());
        head.copy_from_slice(Head { time_ns: stamp.time_ns, likeness }.as_bytes());
        tail.copy_from_slice(headers.as_bytes());
        self.log.write(&record);
        self.last = headers;
    }
}

/// No more packets will come.
impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.end.store(self.first + self.log.next(), Ordering::Release);
    }
}

impl HistoryReader {
    #[inline]
    fn read(&self, seq: u64, bytes: &mut [u8]) -> Result<(), Forgotten> {
        match self.log.read(seq - self.first, bytes) {
            Found::Item => Ok(()),
            Found::Lost | Found::NotYet | Found::Overwritten => Err(Forgotten { seq }),
        }
    }
}

impl Past for HistoryReader {
    #[inline]
    fn recall(&mut self, seq: u64) -> Result<Recalled, Forgotten> {
        let mut head = Head::default();
        self.read(seq, head.as_mut_bytes())?;
        let likeness = match head.likeness {
            ALL => Likeness::All,
            KEY => Likeness::Key,
            _ => Likeness::None,
        };
        Ok(Recalled { time_ns: head.time_ns, likeness })
    }

    #[inline]
    fn headers(&mut self, seq: u64, headers: &mut Headers) -> Result<(), Forgotten> {
        let mut record = [0; RECORD_LEN];
        self.read(seq, &mut record)?;
        headers.as_mut_bytes().copy_from_slice(&record[size_of::<Head>()..]);
        Ok(())
    }

    fn end(&self) -> Option<u64> {
        let end = self.end.load(Ordering::Acquire);
        (end != NOT_YET).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_recalled_with_its_likeness() {
        let excerpt = Excerpt::new(u64::MAX >> 1, 0xffff);
        let (mut writer, mut reader) = history(excerpt, 4, 0);
        let packets = [(1, 7, 5), (2, 7, 5), (3, 7, 6), (4, 8, 6)];
        for (seq, (time_ns, source, ttl)) in (0..).zip(packets) {
            let src = wire::Addr::v4([10, 0, 0, source]);
            writer.write(&Headers { src, ttl, ..Headers::default() }, Stamp { seq, time_ns });
        }
        let expected = [Likeness::None, Likeness::All, Likeness::Key, Likeness::None];
        for ((seq, (time_ns, _, ttl)), likeness) in (0..).zip(packets).zip(expected) {
            assert_eq!(reader.recall(seq), Ok(Recalled { time_ns, likeness }));
            let mut headers = Headers::default();
            assert_eq!(reader.headers(seq, &mut headers), Ok(()));
            assert_eq!(headers.ttl, ttl);
        }
        assert_eq!((reader.recall(4), reader.end()), (Err(Forgotten { seq: 4 }), None));
        drop(writer);
        assert_eq!(reader.end(), Some(4));
    }
}
