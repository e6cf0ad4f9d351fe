//! Window tracking: whether a segment can be part of a connection, by its numbers.
//!
//! From Guido van Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (USENIX Security 2001),
//! with what Linux's connection tracker added: scaling, SACK, and tolerance for stacks that overrun
//! a window. With the sender's `end`, `max_end`, `max_window` and the receiver's, a segment
//! `seq..end` with acknowledgment `ack` is plausible if
//!
//! | bound | holds | else |
//! |---|---|---|
//! | I   | `seq <= sender.max_end` | beyond the receiver's window |
//! | II  | `end >= sender.end - receiver.max_window` | data that was acknowledged long ago |
//! | III | `sack <= receiver.end` | acknowledges what was never sent |
//! | IV  | `sack >= receiver.end - max(sender.max_window, 66000)` | an old acknowledgment |
//!
//! where `sack` is the right edge of the highest SACK block, or `ack`. Beyond II and IV packets are
//! late rather than forged: they pass, and change nothing. The middle may see a packet that the
//! receiver does not, and the other way round; the bounds hold in either case.

use super::segment::{Segment, Shape};
use super::state::{Half, Last, State};
use super::tcp::{Kind, Side, TcpState};

/// What the window says to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// It is in the window.
    Inside,
    /// It is late: passes, and the connection does not move.
    Tolerated,
    /// It is over by less than a window: passes, and the sender's end alone moves.
    Overrun,
    /// Bound I does not hold.
    SeqBeyond,
    /// Bound III does not hold.
    AckBeyond,
}

/// Bound IV reaches back this far at least: the largest window without scaling, and some.
pub(super) const MIN_ACK_REACH: u32 = 66_000;

/// `a < b` of sequence numbers that wrap around (RFC 9293 §3.4).
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl State {
    /// Holds `segment` to the bounds, and learns from it. `liberal` lets through what fails.
    #[inline]
    pub(super) fn check_window(&mut self, segment: &Segment, side: Side, liberal: bool) -> Window {
        let tcp = self.tcp;
        let liberal = liberal || self.is_liberal(side);
        let (sender, receiver) = self.sender_and_receiver(side);
        if sender.meet(receiver, segment, side, tcp) == Met::SimultaneousSyn {
            return Window::Inside;
        }
        let numbers = Numbers::of(segment, sender, receiver, tcp);
        match numbers.bounds(sender, receiver) {
            Window::Inside => {}
            outside => {
                if outside == Window::Overrun {
                    // If the receiver takes it, its acknowledgment must find it known.
                    sender.end = numbers.end;
                    sender.shape.insert(Shape::UNACKNOWLEDGED);
                }
                return if liberal { Window::Inside } else { outside };
            }
        }
        numbers.learn(segment, sender, receiver);
        if segment.kind == Kind::Ack {
            self.count_retransmission(segment, side);
        }
        Window::Inside
    }

    /// Checks an ACK of an end that was seen before, and learns from it: `true` if it passes and is no
    /// [`Window::Overrun`]. If it is another case nothing changes: `false`.
    #[inline(always)]
    pub(super) fn takes_ack(&mut self, segment: &Segment, side: Side, liberal: bool) -> bool {
        let is_liberal = liberal || self.is_liberal(side);
        // Copies, so that each is loaded once and stored once.
        let (sender_half, receiver_half) = self.sender_and_receiver(side);
        let (mut sender, mut receiver) = (*sender_half, *receiver_half);
        if sender.max_window == 0 {
            return false;
        }
        let Segment { seq, end, ack, .. } = *segment;
        let numbers = Numbers { seq, end, ack, sack: receiver.sack_of(segment) };
        match numbers.bounds(&sender, &receiver) {
            Window::Inside => {
                numbers.learn(segment, &mut sender, &mut receiver);
                (*sender_half, *receiver_half) = (sender, receiver);
                self.count_retransmission(segment, side);
                true
            }
            Window::Overrun => false,
            Window::Tolerated | Window::SeqBeyond | Window::AckBeyond => is_liberal,
        }
    }

    #[inline(always)]
    fn count_retransmission(&mut self, segment: &Segment, side: Side) {
        let this = Last::of(segment);
        self.last_offer.remove(Shape::REFUSED);
        if self.last_from == side && self.last == this {
            self.retransmissions = self.retransmissions.saturating_add(1);
        } else {
            self.last_from = side;
            self.last = this;
            self.retransmissions = 0;
        }
    }
}

/// How a sender came to be known.
#[derive(PartialEq, Eq)]
enum Met {
    /// There are numbers to hold the segment to.
    Known,
    /// A SYN that answers a SYN has no acknowledgment to hold to anything.
    SimultaneousSyn,
}

impl Half {
    /// Takes up a sender that was not seen before, or that starts its handshake anew.
    fn meet(&mut self, receiver: &mut Half, segment: &Segment, side: Side, tcp: TcpState) -> Met {
        let in_handshake = matches!(tcp, TcpState::SynSent | TcpState::SynReceived);
        if self.max_window == 0 && segment.is_syn() {
            self.begin(receiver, segment, side);
            if !segment.has_ack {
                return Met::SimultaneousSyn;
            }
        } else if self.max_window == 0 {
            self.join(receiver, segment);
        } else if segment.is_syn() && in_handshake && before(self.end, segment.end) {
            // A retransmitted SYN may have another sequence number, or other options.
            self.begin(receiver, segment, side);
            if side == Side::Responder && !segment.has_ack {
                return Met::SimultaneousSyn;
            }
        }
        Met::Known
    }

    /// Starts from a SYN or SYN-ACK.
    fn begin(&mut self, receiver: &mut Half, segment: &Segment, side: Side) {
        self.end = segment.end;
        self.max_end = segment.end;
        self.max_window = u32::from(segment.window).max(1);
        self.shape = segment.offer;
        // RFC 7323 §2.2: windows are scaled only if both SYNs said so. The first one stands alone.
        let both = self.shape.contains(Shape::SCALE_OFFERED) && receiver.shape.contains(Shape::SCALE_OFFERED);
        if side == Side::Responder && !both {
            self.shape.remove(Shape::SCALE);
            receiver.shape.remove(Shape::SCALE);
        }
    }

    /// Starts in the middle, from what the segment says.
    fn join(&mut self, receiver: &mut Half, segment: &Segment) {
        let sack = receiver.sack_of(segment);
        self.end = segment.end;
        self.max_window = (u32::from(segment.window) << self.shape.scale()).max(1);
        self.max_end = self.end.wrapping_add(self.max_window);
        if receiver.max_window == 0 {
            receiver.end = sack;
            receiver.max_end = sack;
        } else if sack == receiver.end.wrapping_add(1) {
            // The answer to a keep-alive, which goes one back (RFC 9293 §3.8.4).
            receiver.end = sack;
        }
    }

    fn ack_reach(&self) -> u32 {
        self.max_window.max(MIN_ACK_REACH)
    }
}

/// The numbers of a segment after mending what is known to be wrong in them.
struct Numbers {
    seq: u32,
    end: u32,
    ack: u32,
    sack: u32,
}

impl Numbers {
    fn of(segment: &Segment, sender: &Half, receiver: &Half, tcp: TcpState) -> Numbers {
        let is_reset = segment.kind == Kind::Rst;
        let mut numbers =
            Numbers { seq: segment.seq, end: segment.end, ack: segment.ack, sack: receiver.sack_of(segment) };
        // Some stacks send resets whose ACK flag comes with a zero.
        if !segment.has_ack || (is_reset && segment.ack == 0) {
            (numbers.ack, numbers.sack) = (receiver.end, receiver.end);
        }
        // RFC 9293 §3.10.7.1: the reset that refuses a SYN has sequence number 0.
        if is_reset && segment.seq == 0 && tcp == TcpState::SynSent {
            (numbers.seq, numbers.end) = (sender.end, sender.end);
        }
        numbers
    }

    #[inline(always)]
    fn bounds(&self, sender: &Half, receiver: &Half) -> Window {
        let one_past_max_end = sender.max_end.wrapping_add(1);
        let acks_what_was_sent = before(self.sack, receiver.end.wrapping_add(1));
        let ack_is_recent = before(receiver.end.wrapping_sub(sender.ack_reach()).wrapping_sub(1), self.sack);
        let data_is_recent = before(sender.end.wrapping_sub(receiver.max_window).wrapping_sub(1), self.end);

        if !before(self.seq, one_past_max_end) {
            let overrun = self.end.wrapping_sub(sender.max_end).wrapping_add(1);
            let by_a_window = receiver.max_window != 0 && overrun <= receiver.max_window;
            return match by_a_window && data_is_recent && ack_is_recent && acks_what_was_sent {
                true => Window::Overrun,
                false => Window::SeqBeyond,
            };
        }
        if !acks_what_was_sent {
            return Window::AckBeyond;
        }
        match (data_is_recent || receiver.max_window == 0) && ack_is_recent {
            true => Window::Inside,
            false => Window::Tolerated,
        }
    }

    /// Moves both halves on by a segment in the window.
    #[inline(always)]
    fn learn(&self, segment: &Segment, sender: &mut Half, receiver: &mut Half) {
        // RFC 7323 §2.2: the window of a SYN is never scaled.
        let scale = if segment.is_syn() { 0 } else { sender.shape.scale() };
        let window = u32::from(segment.window) << scale;

        sender.max_window = sender.max_window.max(window.wrapping_add(self.sack.wrapping_sub(self.ack)));
        // Later fragments hold the rest of the segment: anything that the receiver's window allows.
        let end = match segment.is_fragment && before(self.end, sender.max_end) {
            true => sender.max_end,
            false => self.end,
        };
        if before(sender.end, end) {
            sender.end = end;
            sender.shape.insert(Shape::UNACKNOWLEDGED);
        }
        let is_first_ack = !sender.shape.contains(Shape::ACKED);
        if segment.has_ack && (is_first_ack || before(sender.max_ack, self.ack)) {
            sender.max_ack = self.ack;
            sender.shape.insert(Shape::ACKED);
        }

        if receiver.max_window != 0 && before(sender.max_end, end) {
            let more = end.wrapping_sub(sender.max_end);
            receiver.max_window = receiver.max_window.wrapping_add(more);
        }
        let allowed_end = self.sack.wrapping_add(window);
        if before(receiver.max_end.wrapping_sub(1), allowed_end) {
            // A closed window still lets through one byte, the probe (RFC 9293 §3.8.6.1).
            receiver.max_end = allowed_end.wrapping_add(u32::from(window == 0));
        }
        if self.ack == receiver.end {
            receiver.shape.remove(Shape::UNACKNOWLEDGED);
        }
    }
}
