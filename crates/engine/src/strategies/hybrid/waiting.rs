//! Packets that have come to a core and are not in a batch yet, and how they come into one.

use io::Frame;
use wire::Headers;

use crate::path::batch::Batch;
use crate::path::packets::BATCH_PACKETS;
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::hybrid::told::Told;

/// Packets that have come and are not in a batch yet.
pub(super) struct Waiting {
    /// Packets of the core's own flows.
    pub(super) own: Vec<Frame>,
    /// Told ones that came here.
    pub(super) sent_here: Vec<Frame>,
    /// Whether one of these came ahead of its history, which is a defect.
    pub(super) is_ahead: bool,
}

/// How many of the packets that wait are to be in the next batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    /// How many of the core's own flows.
    pub(super) own: usize,
    /// Told ones that came here.
    pub(super) sent_here: usize,
    /// Told ones of other cores, where these are in the batch as well.
    pub(super) history: usize,
    /// All told ones that are to be stepped with the batch.
    pub(super) told: usize,
}

impl Share {
    fn has_room(&self) -> bool {
        self.own + self.sent_here + self.history < BATCH_PACKETS
    }
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        let queue = || Vec::with_capacity(BATCH_PACKETS);
        Waiting { own: queue(), sent_here: queue(), is_ahead: false }
    }

    pub(super) fn len(&self) -> usize {
        self.own.len() + self.sent_here.len()
    }

    /// Packets of both kinds came in one queue, from number `begin` of the own ones on: each goes to its kind, which is seen by the
    /// entry.
    #[inline]
    pub(super) fn sort(&mut self, begin: usize) {
        let is_told = |frame: &Frame| frame.entry < SLOTS;
        if self.own[begin..].iter().any(is_told) {
            self.sent_here.extend(self.own.extract_if(begin.., |frame| is_told(frame)));
        }
    }

    /// Adds packets of the core's own flows with numbers below `end` to a share, as long as there is room.
    #[inline]
    pub(super) fn share_own(&self, end: u64, share: &mut Share) {
        while share.has_room() && self.own.get(share.own).is_some_and(|frame| frame.stamp.seq < end) {
            share.own += 1;
        }
    }

    /// Adds told packets to the share of core `number`, and ahead of each that came here those of its own flows that came
    /// before it, of which those below `own_end` may. Those of other cores take room where `has_history`. Says whether there may be
    /// more.
    #[inline]
    pub(super) fn share_told(
        &mut self,
        number: u16,
        told: &[Told],
        own_end: u64,
        has_history: bool,
        share: &mut Share,
    ) -> bool {
        for told in told {
            let is_here = told.core == number;
            if is_here || has_history {
                self.share_own(own_end.min(told.stamp.seq), share);
                if !share.has_room() {
                    return false;
                }
            }
            if is_here {
                // One that comes here is stepped when it is here.
                let Some(next) = self.sent_here.get(share.sent_here) else { return false };
                if next.stamp.seq != told.stamp.seq {
                    self.is_ahead = true;
                    return false;
                }
                share.sent_here += 1;
            } else {
                share.history += usize::from(has_history);
            }
            share.told += 1;
        }
        true
    }

    /// Puts a share into the batch, which is empty: first the core's own flows.
    #[inline]
    pub(super) fn put(&mut self, share: &Share, batch: &mut Batch) {
        batch.frames.extend(self.own.drain(..share.own));
        batch.frames.extend(self.sent_here.drain(..share.sent_here));
    }

    /// Puts a share into the batch where told packets are in it as well.
    pub(super) fn put_with_history(
        &mut self,
        number: u16,
        told: impl Iterator<Item = (Told, Headers)>,
        share: &Share,
        batch: &mut Batch,
    ) {
        batch.frames.extend(self.own.drain(..share.own));
        let mut sent_here = self.sent_here.drain(..share.sent_here);
        for (Told { stamp, slot, core }, headers) in told {
            if core == number {
                batch.frames.extend(sent_here.next());
                continue;
            }
            let packet = batch.len();
            batch.headers[packet] = headers;
            batch.history |= 1 << packet;
            let mut frame = Frame::without_bytes(stamp);
            frame.entry = slot;
            batch.frames.push(frame);
        }
    }
}
