//! What a port does about packets that are dropped: it copies them for a listener, and answers those that the chain rejects, and
//! pings.

use io::{Dropped, Fate, Frame, Tap, Why};
use wire::{AnswerKind, AnswerTo};

use super::{LivePort, Mode};
use crate::counters::Lost;

impl LivePort {
    /// Has a dropped packet become its answer, which leaves by the interface by which the packet came; `None` if it gets none.
    #[cold]
    pub(super) fn answer_dropped(&mut self, frame: &mut Frame, from: usize, to: AnswerTo) -> Option<usize> {
        if matches!(self.mode, Mode::Mirror) {
            return None;
        }
        let now_ns = self.clock.now_ns();
        // A flood costs a look.
        if !self.answer_limit.has_one(from, now_ns) {
            self.answers.limited += 1;
            return None;
        }
        let (data, link, wire_len) = (frame.data(), frame.link, frame.wire_len);
        let buffer = self.pool.buffer_mut(frame);
        let answer = buffer.get(data.clone()).and_then(|bytes| to.answer(link, bytes, wire_len));
        let Some(answer) = answer else {
            self.answers.unanswerable += 1;
            return None;
        };
        if !self.answer_limit.take(from, now_ns) {
            self.answers.limited += 1;
            return None;
        }
        let Some(data) = answer.write(buffer, data) else {
            self.sides[from].lost.lose(Lost::NoBuffer);
            return None;
        };
        frame.set_data(data);
        match answer.kind() {
            AnswerKind::Reset => self.answers.resets += 1,
            AnswerKind::Prohibited => self.answers.errors += 1,
            AnswerKind::Echo => self.answers.pings += 1,
        }
        Some(from)
    }

    /// Copies a packet that is dropped, if the tap has a listener.
    #[inline]
    pub(super) fn tell_dropped(&self, frame: &Frame, interface: usize, why: Why) {
        self.copy(&self.tap, frame, interface, why);
    }

    /// Copies a packet that a rule asks to have in a log, if that has a listener.
    #[cold]
    pub(super) fn tell_logged(&self, frame: &Frame, interface: usize, fate: Fate) {
        self.copy(&self.log, frame, interface, Why::Chain(fate, None));
    }

    #[inline]
    fn copy(&self, tap: &Tap, frame: &Frame, interface: usize, why: Why) {
        if !tap.is_on() {
            return;
        }
        let Frame { stamp, wire_len, link, .. } = *frame;
        let bytes = || self.pool.bytes(frame).into();
        tap.drop_packet(stamp, || Dropped { stamp, interface, wire_len, link, bytes: bytes(), why });
    }
}
