//! A log of items by sequence number: one thread writes it, any number read it, and none waits.
//!
//! ```text
//!   record of number n:   │ tag │ item, in words of 8 bytes │      at position n modulo the log's length
//!   tag:  number * 4 +    0 being written,  1 an item,  2 lost
//! ```
//!
//! Before a record is overwritten its tag changes to the new number, and when the item is there it changes
//! again. A reader looks at the tag, copies the item, and looks at the tag again. As numbers only grow, a tag
//! never has the same value twice, and a reader that finds it unchanged has copied that item and no other.
//!
//! **Why the orderings suffice.** Words are atomics, so there is no data race, but their values may be old or
//! new. *Not too old:* the tag that says "item n" is stored with Release after the words and loaded with Acquire
//! before them, so they are at least those of item n. *Not too new:* the writer of n' > n first stores the tag
//! "n' being written", then a Release fence, then words; the reader loads words, then an Acquire fence, then the
//! tag. Should the reader have got a word of n', the fences order the store of the tag before the reader's
//! second load of it, which then sees that tag or a later one, and not "item n". (Boehm, *Can seqlocks get along
//! with programming language memory models?*, MSPC'12, Fig. 6.)

use crate::sync::{
    Arc, AtomicU64, Fault, Ordering, acquire_unless, fence_unless, is_planted, release_unless,
};

/// Sequence numbers lie below this, so that a tag fits into a word: at a thousand million packets a second, the
/// numbers of 146 years.
pub const SEQ_END: u64 = 1 << 62;

const WORD_BYTES: usize = 8;

const WRITING: u64 = 0;
const ITEM: u64 = 1;
const LOST: u64 = 2;

/// What a log says of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The item: it has been copied out.
    Item,
    /// It is not and will not be in this log.
    Lost,
    /// It is not written yet.
    NotYet,
    /// Whatever it was, a later record has its place.
    Overwritten,
}

/// A log of `records` records, rounded up to a power of two, for items of `item_bytes`: the end that writes and
/// one that reads, of which there may be any number.
///
/// It takes `records` times as many bytes as 8 plus `item_bytes` rounded up to 8, and nothing is allocated later.
///
/// # Panics
/// If `records` is 0, or there is no memory for so many.
pub fn log(records: usize, item_bytes: usize) -> (Writer, Reader) {
    assert!(records > 0, "a log has at least one record");
    let records = records.next_power_of_two();
    let stride = 1 + item_bytes.div_ceil(WORD_BYTES);
    let words = records.checked_mul(stride).expect("a log that fits in memory");
    let words = std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect();
    let shared = Arc::new(Shared { words, mask: records as u64 - 1, stride, item_bytes });
    (Writer { shared: Arc::clone(&shared), next: 0 }, Reader { shared })
}

/// The end of a log that writes: one record for each sequence number, in their order.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    next: u64,
}

impl Writer {
    /// The sequence number of the next record.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// How many records the log holds.
    #[inline]
    pub fn records(&self) -> usize {
        self.shared.records()
    }

    /// Records the item of the next sequence number. Overwrites the oldest record.
    ///
    /// # Panics
    /// If the item is not as long as the log's items, or numbers have run out.
    #[inline]
    pub fn write(&mut self, item: &[u8]) {
        self.write_each(std::iter::once(item), |_, _| ());
    }

    /// Records the items of the next sequence numbers, each of which is handed on as soon as it is recorded.
    ///
    /// # Panics
    /// As [`Writer::write`].
    #[inline]
    pub fn write_each<'a>(
        &mut self,
        items: impl Iterator<Item = &'a [u8]>,
        mut then: impl FnMut(u64, &[u8]),
    ) {
        // Not in memory, which every step would go through.
        let mut seq = self.next;
        for item in items {
            self.put(seq, item);
            then(seq, item);
            seq += 1;
        }
        self.go_on_at(seq);
    }

    /// Records that the item of the next sequence number is not in this log.
    #[inline]
    pub fn write_lost(&mut self) {
        self.tag(self.next).store(tag(self.next, LOST), Ordering::Release);
        self.go_on_at(self.next + 1);
    }

    /// Goes on at `seq`, if the log is not there already. The numbers in between are not written, now or ever:
    /// readers find [`Found::NotYet`], and [`Found::Overwritten`] once later records have their places.
    pub fn skip_to(&mut self, seq: u64) {
        self.go_on_at(self.next.max(seq));
    }

    /// Records the next two numbers as lost, which may still come: a [fault](Fault::LostEarly).
    pub(crate) fn write_lost_early(&self) {
        for seq in [self.next, self.next + 1] {
            self.tag(seq).store(tag(seq, LOST), Ordering::Release);
        }
    }

    #[inline]
    fn put(&mut self, seq: u64, item: &[u8]) {
        assert_eq!(item.len(), self.shared.item_bytes, "an item of another length");
        let record = self.shared.record(seq);
        let (at, words) = record.split_first().expect("a record has a tag");
        if !is_planted(Fault::NoClaim) {
            at.store(tag(seq, WRITING), Ordering::Relaxed);
        }
        fence_unless(Fault::ClaimRelaxed, Ordering::Release);
        store(words, item);
        at.store(tag(seq, ITEM), release_unless(Fault::PublishRelaxed));
    }

    #[inline]
    fn go_on_at(&mut self, seq: u64) {
        assert!(seq < SEQ_END, "sequence numbers have run out");
        self.next = seq;
    }

    #[inline]
    fn tag(&self, seq: u64) -> &AtomicU64 {
        &self.shared.record(seq)[0]
    }
}

/// An end of a log that reads.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    /// Looks for a sequence number, and copies its item out, or as many of its first bytes as `out` has room for.
    /// What `out` holds is an item only if [`Found::Item`] comes back; otherwise it may hold parts of any.
    ///
    /// [`Found::NotYet`] may be out of date at once; the others hold, but that an item and a loss may be
    /// overwritten later.
    ///
    /// # Panics
    /// If `out` is longer than the log's items.
    #[inline]
    pub fn read(&self, seq: u64, out: &mut [u8]) -> Found {
        assert!(out.len() <= self.shared.item_bytes, "longer than an item");
        let record = self.shared.record(seq);
        let (at, words) = record.split_first().expect("a record has a tag");
        let seen = at.load(acquire_unless(Fault::TagSeenRelaxed));
        let found = says(seen, seq);
        if found != Found::Item {
            return found;
        }
        load(words, out);
        if is_planted(Fault::NoRecheck) {
            return Found::Item;
        }
        fence_unless(Fault::RecheckRelaxed, Ordering::Acquire);
        if at.load(Ordering::Relaxed) == seen { Found::Item } else { Found::Overwritten }
    }

    /// How many bytes each item has.
    #[inline]
    pub fn item_bytes(&self) -> usize {
        self.shared.item_bytes
    }

    /// How many records the log holds.
    #[inline]
    pub fn records(&self) -> usize {
        self.shared.records()
    }
}

#[derive(Debug)]
struct Shared {
    /// Record by record: a tag, and an item.
    words: Box<[AtomicU64]>,
    /// The number of records, a power of two, less one.
    mask: u64,
    /// Words of a record.
    stride: usize,
    item_bytes: usize,
}

impl Shared {
    #[inline]
    fn record(&self, seq: u64) -> &[AtomicU64] {
        let at = (seq & self.mask) as usize * self.stride;
        &self.words[at..at + self.stride]
    }

    fn records(&self) -> usize {
        self.mask as usize + 1
    }
}

#[inline]
fn tag(seq: u64, what: u64) -> u64 {
    seq << 2 | what
}

/// What a tag says of a sequence number. That of a record that nobody wrote is 0, as if number 0 were being
/// written there: not yet, whichever number is asked for.
#[inline]
fn says(seen: u64, seq: u64) -> Found {
    let of = if is_planted(Fault::NoNumber) { seq } else { seen >> 2 };
    match seen & 3 {
        _ if of < seq => Found::NotYet,
        _ if of > seq => Found::Overwritten,
        WRITING => Found::NotYet,
        ITEM => Found::Item,
        _ => Found::Lost,
    }
}

/// Whole words first: what is left over, of a length known only at run time, takes a call to copy.
#[inline]
fn store(words: &[AtomicU64], item: &[u8]) {
    let (whole, rest) = item.as_chunks::<WORD_BYTES>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut bytes = [0; WORD_BYTES];
        bytes[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

#[inline]
fn load(words: &[AtomicU64], out: &mut [u8]) {
    let (whole, rest) = out.as_chunks_mut::<WORD_BYTES>();
    for (word, bytes) in words.iter().zip(&mut *whole) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !rest.is_empty() {
        let bytes = words[whole.len()].load(Ordering::Relaxed).to_ne_bytes();
        rest.copy_from_slice(&bytes[..rest.len()]);
    }
}
