//! Packets with their history as they arrive at cores, from files or from a capture that is sequenced on the way.

use std::sync::atomic::{AtomicBool, Ordering};

use io::capture::{CaptureError, CaptureReader, Record, Remarks};
use sequencer::{History, Receiver};
use thiserror::Error;
use wire::{LinkType, RanBack};

use crate::strategies::scr::outside::items::HistoryItems;
use crate::strategies::scr::outside::loss::Loss;
use crate::strategies::scr::outside::sequencing::Sequencing;

/// The most packets in a row that can be lost to all cores. A number that leaps further is a mistake somewhere: all
/// of these would have to be decided on.
const MAX_LEAP: u64 = 1 << 24;

/// Why the input ended early.
#[derive(Debug, Error)]
pub enum InputError {
    /// A capture is cut short, or not one.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The files are not all, or not of one sequencer.
    #[error(
        "the packets were sequenced for {sequenced} cores, and there are files for {files}\n\
         Put the files of one `paceline sequence` into the folder, all of them."
    )]
    Cores {
        /// For how many the first packet's history is.
        sequenced: usize,
        /// How many there are.
        files: usize,
    },
    /// A number was given twice.
    #[error(
        "packet {seq} is both in the file of core {first} and in that of core {second}\n\
         Put the files of one `paceline sequence` into the folder, and no others."
    )]
    Twice {
        /// The number, from 0.
        seq: u64,
        /// One core.
        first: usize,
        /// The other.
        second: usize,
    },
    /// More packets would be lost than can be.
    #[error(
        "the next packet is number {seq}, for core {core}, and {expected} was to come: so many cannot be lost\n\
         Put the files of one `paceline sequence` into the folder, and no others."
    )]
    Leap {
        /// The number, from 0.
        seq: u64,
        /// Whose it is.
        core: usize,
        /// The number after the greatest so far.
        expected: u64,
    },
}

/// Packets with their history in the order in which they were sequenced, each for a core; less those that are lost.
pub(crate) struct Arrivals {
    source: Source,
    loss: Option<Loss>,
    /// By core, how many there were, lost ones included.
    counts: Vec<u64>,
    /// How many of them were lost.
    lost: u64,
    /// The first number of all.
    base: u64,
    /// The number after the greatest so far.
    end: u64,
    /// By core: no item of a lower number comes to it behind what has arrived.
    floors: Vec<u64>,
}

enum Source {
    Files(Files),
    Capture(Box<Capture>),
}

/// A file for each core.
struct Files {
    items: HistoryItems,
    files: Vec<CoreFile>,
    /// Whose packet was taken last.
    current: Option<usize>,
}

struct CoreFile {
    reader: CaptureReader,
    /// Knows which packets its core will take.
    receiver: Receiver,
    /// The next packet; none at the end.
    head: Option<Head>,
}

#[derive(Default)]
struct Head {
    bytes: Vec<u8>,
    time_ns: u64,
    wire_len: u32,
    link: LinkType,
    /// What its core will take of it; nothing if the core will reject it.
    place: Option<Place>,
}

/// A packet's place in the sequence.
#[derive(Clone, Copy)]
struct Place {
    seq: u64,
    /// The number of its oldest item.
    first: u64,
    is_flush: bool,
}

/// A capture that is sequenced as it is read.
struct Capture {
    reader: CaptureReader,
    sequencing: Sequencing,
    /// The core to be flushed next, at the end.
    flushed: usize,
    /// What was sequenced last has not arrived yet: for whom it is, and its floor from then on.
    current: Option<(usize, u64)>,
}

impl Arrivals {
    /// From files, one for each core, for chains whose histories have such items.
    pub(crate) fn from_files(
        readers: Vec<CaptureReader>,
        items: HistoryItems,
        loss: Option<Loss>,
    ) -> Result<Arrivals, InputError> {
        let cores = readers.len();
        let file = |reader| CoreFile { reader, receiver: Receiver::starting_at(0), head: None };
        let mut files = Files { items, files: readers.into_iter().map(file).collect(), current: None };
        let mut counts = vec![0; cores];
        let mut lost = 0;
        for (core, count) in counts.iter_mut().enumerate() {
            files.load(core, loss, count, &mut lost)?;
        }
        files.check_cores()?;
        let places = files.files.iter().filter_map(|file| file.head.as_ref()?.place);
        let base = places.map(|place| place.first).min().unwrap_or(0);
        for file in &mut files.files {
            if file.head.as_ref().is_none_or(|head| head.place.is_none()) {
                file.receiver = Receiver::starting_at(base);
            }
        }
        let source = Source::Files(files);
        Ok(Arrivals { source, loss, counts, lost, base, end: base, floors: vec![base; cores] })
    }

    /// From a capture that is sequenced on the way.
    pub(crate) fn from_capture(
        reader: CaptureReader,
        sequencing: Sequencing,
        loss: Option<Loss>,
    ) -> Arrivals {
        let cores = sequencing.cores();
        let capture = Capture { reader, sequencing, flushed: 0, current: None };
        let source = Source::Capture(Box::new(capture));
        Arrivals { source, loss, counts: vec![0; cores], lost: 0, base: 0, end: 0, floors: vec![0; cores] }
    }

    /// The next packet or flush: for which core it is. [`Arrivals::record`] has it. `None` at the end, and while
    /// packets are lost one after the other, once `stop` is set.
    pub(crate) fn advance(&mut self, stop: &AtomicBool) -> Result<Option<usize>, InputError> {
        match &self.source {
            Source::Files(_) => self.advance_files(),
            Source::Capture(_) => self.advance_capture(stop),
        }
    }

    fn advance_files(&mut self) -> Result<Option<usize>, InputError> {
        let Self { source: Source::Files(files), loss, counts, lost, end, floors, .. } = self else {
            return Ok(None);
        };
        if let Some(core) = files.current.take() {
            files.load(core, *loss, &mut counts[core], lost)?;
        }
        for (floor, file) in floors.iter_mut().zip(&files.files) {
            let next = match &file.head {
                Some(Head { place, .. }) => place.map_or(*floor, |place| place.first),
                // Nothing comes any more, and all that was before has arrived.
                None => *end,
            };
            *floor = next.max(*floor);
        }
        let Some((core, place)) = files.first()? else { return Ok(None) };
        if let Some(Place { seq, is_flush, .. }) = place {
            if seq > *end + MAX_LEAP {
                return Err(InputError::Leap { seq, core, expected: *end });
            }
            *end = (*end).max(seq + u64::from(!is_flush));
        }
        files.current = Some(core);
        Ok(Some(core))
    }

    fn advance_capture(&mut self, stop: &AtomicBool) -> Result<Option<usize>, InputError> {
        let Self { source: Source::Capture(capture), loss, counts, lost, end, floors, .. } = self else {
            return Ok(None);
        };
        loop {
            if let Some((core, floor)) = capture.current.take() {
                floors[core] = floor;
            }
            let Some(core) = capture.sequence()? else { return Ok(None) };
            counts[core] += 1;
            if loss.is_none_or(|loss| !loss.hits(core, counts[core])) {
                // A flush has the next packet's number.
                *end = (*end).max(capture.sequencing.last().stamp.seq + u64::from(capture.flushed == 0));
                return Ok(Some(core));
            }
            *lost += 1;
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }

    /// What [`Arrivals::advance`] came to.
    pub(crate) fn record(&self) -> Option<Record<'_>> {
        match &self.source {
            Source::Capture(capture) => Some(capture.sequencing.last().record),
            Source::Files(files) => {
                let Head { bytes, time_ns, wire_len, link, .. } =
                    files.files[files.current?].head.as_ref()?;
                Some(Record { time_ns: *time_ns, wire_len: *wire_len, link: *link, data: bytes })
            }
        }
    }

    /// How many cores get packets.
    pub(crate) fn cores(&self) -> usize {
        self.floors.len()
    }

    /// The first number of all.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The number after the greatest so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// By core: no item of a lower number comes to it, but for those before what [`Arrivals::advance`] came to.
    pub(crate) fn floors(&self) -> &[u64] {
        &self.floors
    }

    /// Packets and flushes that were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// How far the times of packets ran back that were sequenced here.
    pub(crate) fn ran_back(&self) -> RanBack {
        match &self.source {
            Source::Files(_) => RanBack::default(),
            Source::Capture(capture) => capture.sequencing.ran_back(),
        }
    }

    /// What the reader of the capture that is sequenced here skipped, or could not take as it was.
    pub(crate) fn remarks(&self) -> Remarks {
        match &self.source {
            Source::Files(_) => Remarks::default(),
            Source::Capture(capture) => capture.reader.remarks(),
        }
    }

    /// Bytes of all files that were read so far.
    pub(crate) fn position_bytes(&self) -> u64 {
        match &self.source {
            Source::Files(files) => files.files.iter().map(|file| file.reader.position_bytes()).sum(),
            Source::Capture(capture) => capture.reader.position_bytes(),
        }
    }
}

impl Files {
    /// Reads a core's next packet that is not lost.
    fn load(
        &mut self,
        core: usize,
        loss: Option<Loss>,
        count: &mut u64,
        lost: &mut u64,
    ) -> Result<(), InputError> {
        let Self { items, files, .. } = self;
        let CoreFile { reader, receiver, head } = &mut files[core];
        loop {
            let Some(record) = reader.next()? else {
                *head = None;
                return Ok(());
            };
            *count += 1;
            if loss.is_some_and(|loss| loss.hits(core, *count)) {
                *lost += 1;
                continue;
            }
            let head = head.get_or_insert_default();
            head.bytes.clear();
            head.bytes.extend_from_slice(record.data);
            (head.time_ns, head.wire_len, head.link) = (record.time_ns, record.wire_len, record.link);
            let taken = History::parse(&head.bytes, items).and_then(|history| {
                receiver.accept(&history)?;
                Ok(Place {
                    seq: history.stamp().seq,
                    first: history.first_seq(),
                    is_flush: history.is_flush(),
                })
            });
            head.place = taken.ok();
            return Ok(());
        }
    }

    /// The core whose packet is next. One that will be rejected comes at once.
    fn first(&self) -> Result<Option<(usize, Option<Place>)>, InputError> {
        let mut first: Option<(usize, Place)> = None;
        for (core, file) in self.files.iter().enumerate() {
            let Some(head) = &file.head else { continue };
            let Some(place) = head.place else { return Ok(Some((core, None))) };
            match first {
                Some((first, before)) if before.seq == place.seq && !before.is_flush && !place.is_flush => {
                    return Err(InputError::Twice { seq: place.seq, first, second: core });
                }
                // A flush comes before the packet that has its number.
                Some((_, before)) if (before.seq, !before.is_flush) <= (place.seq, !place.is_flush) => {}
                _ => first = Some((core, place)),
            }
        }
        Ok(first.map(|(core, place)| (core, Some(place))))
    }

    /// Whether the first packets are for as many cores as there are files.
    fn check_cores(&self) -> Result<(), InputError> {
        for head in self.files.iter().filter_map(|file| file.head.as_ref()) {
            if let Ok(history) = History::parse(&head.bytes, &self.items)
                && history.ring_items() + 1 != self.files.len()
            {
                let sequenced = history.ring_items() + 1;
                return Err(InputError::Cores { sequenced, files: self.files.len() });
            }
        }
        Ok(())
    }
}

impl Capture {
    /// Sequences the next packet, and flushes every core at the end: for which core it is.
    fn sequence(&mut self) -> Result<Option<usize>, InputError> {
        if self.flushed == 0
            && let Some(record) = self.reader.next()?
        {
            let sequenced = self.sequencing.next(&record);
            let (core, next) = (sequenced.core, sequenced.stamp.seq + 1);
            // The core's next turn is a round later, with a round's history: from the next number on. But if this is the last packet
            // a flush comes first, which has a round's history up to here.
            let round = self.sequencing.cores() as u64 - 1;
            self.current = Some((core, next.saturating_sub(round)));
            return Ok(Some(core));
        }
        if self.flushed == self.sequencing.cores() {
            return Ok(None);
        }
        let core = self.flushed;
        self.flushed += 1;
        self.current = Some((core, self.sequencing.flush(core).stamp.seq));
        Ok(Some(core))
    }
}
