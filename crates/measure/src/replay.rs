//! The history of a trial's packets, for cores that step those of others.

use std::ops::Range;
use std::sync::Arc;

use engine::{Chain, Forgotten, Past, Recalled};
use io::Trace;
use io::nic::Pace;
use sequencer::Likeness;
use wire::{Headers, Stamp};

/// What a sequencer would have written of each packet of a trace, round and round. Cores read from here as they would
/// from its log.
pub(crate) struct TraceHistory {
    headers: Box<[Headers]>,
    /// Of the first, to the last of the round before.
    likenesses: Box<[Likeness]>,
}

impl TraceHistory {
    pub(crate) fn new(chain: &Chain, trace: &Trace) -> TraceHistory {
        let excerpt = chain.excerpt();
        let headers_of = |index| {
            let record = trace.packet(index);
            excerpt.of(&chain.headers(record.link, record.data, record.wire_len))
        };
        let headers: Box<[Headers]> = (0..trace.len()).map(headers_of).collect();
        let before = headers.iter().cycle().skip(headers.len().saturating_sub(1));
        let likenesses =
            before.zip(&headers).map(|(before, headers)| excerpt.likeness(before, headers)).collect();
        TraceHistory { headers, likenesses }
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
    /// Which packet of the trace the next is, in which round, and its number in the trial.
    next: Place,
}

#[derive(Clone, Copy, Default)]
struct Place {
    index: usize,
    round: u32,
    number: u32,
}

impl TrialPast {
    pub(crate) fn new(history: Arc<TraceHistory>, pace: Pace, origin: Stamp, count: u32) -> TrialPast {
        TrialPast { history, pace, origin, count, next: Place::default() }
    }

    /// Where the trial's packet `number` is in the trace; numbers ascend.
    #[inline]
    fn place(&mut self, number: u32) -> Place {
        let packets = self.history.headers.len();
        let place = &mut self.next;
        place.index += (number - place.number) as usize;
        place.number = number;
        while place.index >= packets {
            place.index -= packets;
            place.round += 1;
        }
        *place
    }
}

impl Past for TrialPast {
    /// Times are the trial's, not the trace's.
    #[inline]
    fn recall(&mut self, seq: u64) -> Result<Recalled, Forgotten> {
        let Place { index, round, number } = self.place((seq - self.origin.seq) as u32);
        let arrival_ns = self.pace.arrival_in_round_ns(round, index, number);
        let likeness = self.history.likenesses[index];
        Ok(Recalled { time_ns: self.origin.time_ns + arrival_ns, likeness })
    }

    /// Where the trace has no end amidst.
    #[inline]
    fn repeats(&mut self, seqs: Range<u64>, times_ns: &mut Vec<u64>) {
        let Place { index, round, number } = self.place((seqs.start - self.origin.seq) as u32);
        let rest = self.history.likenesses[index..].iter();
        let alike = rest.take((seqs.end - seqs.start) as usize).take_while(|like| **like == Likeness::All);
        let count = alike.count();
        let arrival_ns =
            |further| self.pace.arrival_in_round_ns(round, index + further, number + further as u32);
        times_ns.extend((0..count).map(|further| self.origin.time_ns + arrival_ns(further)));
    }

    #[inline]
    fn headers(&mut self, seq: u64, headers: &mut Headers) -> Result<(), Forgotten> {
        let Place { index, .. } = self.place((seq - self.origin.seq) as u32);
        *headers = self.history.headers[index];
        Ok(())
    }

    fn end(&self) -> Option<u64> {
        Some(self.origin.seq + u64::from(self.count))
    }
}
