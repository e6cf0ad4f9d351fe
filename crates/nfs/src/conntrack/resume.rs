//! Numbers after a gap in what was seen: taken up when both ends agree on them.
//!
//! ```text
//!  seen until now:  A 101..601   B 301..301
//!  missed:          A 601..2001
//!  refused:         B 301..401 acknowledging 2001: more than A was seen to send
//!  taken up:        A 2001     acknowledging 401:  each acknowledges what the other sends
//! ```

use super::segment::{Segment, Shape};
use super::state::{Flags, Half, Last, State};
use super::tcp::{Kind, Side};
use super::window::{MIN_ACK_REACH, before};

impl State {
    /// Whether `segment`, which is out of the window, and the other end's last segment, which was too, agree on the
    /// numbers; these are the connection's from here on. If not, it is remembered for the other end's next.
    pub(super) fn resumes(&mut self, segment: &Segment, side: Side) -> bool {
        let is_plain = segment.has_ack && matches!(segment.kind, Kind::Ack | Kind::Fin);
        // Before the handshake is complete, and while a SYN waits for its answer, there is other to remember.
        if !is_plain || !self.flags.contains(Flags::CONFIRMED) || self.last_kind == Kind::Syn {
            return false;
        }
        let agrees = self.last_offer.contains(Shape::REFUSED)
            && self.last_from != side
            && self.reach_of(segment.ack, self.last.end)
            && self.reach_of(self.last.ack, segment.seq);
        if agrees {
            self.last_offer.remove(Shape::REFUSED);
            self.take_up(segment, side);
        } else {
            self.last_offer.insert(Shape::REFUSED);
        }
        (self.last, self.last_from, self.retransmissions) = (Last::of(segment), side, 0);
        agrees
    }

    /// Whether what one end acknowledges and what the other sends are no farther apart than the windows let them be.
    fn reach_of(&self, ack: u32, sent: u32) -> bool {
        let reach = self.halves.iter().fold(MIN_ACK_REACH, |reach, half| reach.max(half.max_window));
        ack.wrapping_sub(sent).cast_signed().unsigned_abs() <= reach
    }

    fn take_up(&mut self, segment: &Segment, side: Side) {
        let Last { end, ack, window, .. } = self.last;
        let (sender, receiver) = self.sender_and_receiver(side);
        let window_of = |half: &Half, window: u16| u32::from(window) << half.shape.scale();
        let (offered, accepted) = (window_of(sender, segment.window), window_of(receiver, window));
        sender.end = later(segment.end, ack);
        receiver.end = later(end, segment.ack);
        for (half, other_acks, other_window) in
            [(&mut *sender, ack, accepted), (&mut *receiver, segment.ack, offered)]
        {
            half.max_end = later(other_acks.wrapping_add(other_window), half.end);
        }
        (sender.max_ack, receiver.max_ack) = (segment.ack, ack);
        for (half, window) in [(sender, offered), (receiver, accepted)] {
            half.max_window = half.max_window.max(window).max(1);
            half.shape.insert(Shape::ACKED | Shape::UNACKNOWLEDGED);
        }
    }
}

/// The later of two sequence numbers.
fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}
