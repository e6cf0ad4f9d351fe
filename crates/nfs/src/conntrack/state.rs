//! What is kept of a connection.

use alloc::vec;
use alloc::vec::Vec;

use bitflags::bitflags;
use nf::StateValue;
use zerocopy::{Immutable, IntoBytes};

use super::segment::{Segment, Shape};
use super::tcp::{Kind, Side, TcpState};

/// What is known of one end from the packets that passed. Sequence numbers wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(super) struct Half {
    /// One past the highest sequence number that it sent.
    pub(super) end: u32,
    /// One past the highest sequence number that the other end's window lets it send.
    pub(super) max_end: u32,
    /// The largest window that it offered, scaled, bytes; 0 if no packet of it was seen.
    pub(super) max_window: u32,
    /// The highest acknowledgment number that it sent, if [`Shape::ACKED`].
    pub(super) max_ack: u32,
    pub(super) shape: Shape,
}

impl Half {
    /// An end of which no packet was seen.
    pub(super) const UNSEEN: Half =
        Half { end: 0, max_end: 0, max_window: 0, max_ack: 0, shape: Shape::empty() };

    /// The right edge that the sender of `segment` has, to this end: SACK blocks count if it permitted them.
    pub(super) fn sack_of(&self, segment: &Segment) -> u32 {
        match self.shape.contains(Shape::SACK_PERMITTED) {
            true => segment.sack,
            false => segment.ack,
        }
    }
}

/// The last ACK that passed, to tell retransmissions by, or the last packet that was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Last {
    pub(super) end: u32,
    pub(super) ack: u32,
    /// Sequence numbers that it took, low 16 bits.
    pub(super) len: u16,
    /// Not scaled.
    pub(super) window: u16,
}

impl Last {
    pub(super) fn of(segment: &Segment) -> Last {
        let len = segment.end.wrapping_sub(segment.seq) as u16;
        Last { end: segment.end, ack: segment.ack, len, window: segment.window }
    }
}

/// What is kept of a connection: 60 bytes.
///
/// Eight of them are the deadline: packets that are refused or ignored must not keep a connection
/// alive, or an outsider who knows its ports could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Originator, responder.
    pub(super) halves: [Half; 2],
    pub(super) tcp: TcpState,
    pub(super) flags: Flags,
    pub(super) last: Last,
    /// When the connection expires, ms; the epoch's low 32 bits.
    deadline_ms: u32,
    /// How long that was from the last step.
    remaining_ms: u32,
    /// What the last SYN that was ignored offered.
    pub(super) last_offer: Shape,
    /// Kind and sender of the last packet that passed, or was ignored.
    pub(super) last_kind: Kind,
    pub(super) last_from: Side,
    /// How often the last ACK came again.
    pub(super) retransmissions: u8,
}

const _: () = assert!(size_of::<State>() == 60);

/// What is true of a connection as a whole, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(transparent)]
pub(super) struct Flags(u8);

bitflags! {
    impl Flags: u8 {
        /// The originator is the key's low end.
        const ORIGINATOR_IS_LOW = 1 << 0;
        /// A packet of the responder passed.
        const ANSWERED = 1 << 1;
        /// The handshake was completed, or a picked-up connection was answered. Not TCP: it is a stream, both ways.
        const CONFIRMED = 1 << 2;
        /// A FIN was seen, so a SYN may open anew once all is closed.
        const CLOSED_BY_FIN = 1 << 3;
        /// Both ends sent a SYN.
        const SIMULTANEOUS_OPEN = 1 << 4;
        /// Both ends sent a request (ICMP).
        const BOTH_BEGAN = 1 << 4;
        /// A SYN was ignored in LAST-ACK: an ACK may be the challenge to it (RFC 5961 §4.2).
        const CHALLENGE_EXPECTED = 1 << 5;
        /// Picked up: scales are not known, so windows do not hold for what the originator sends.
        const ORIGINATOR_LIBERAL = 1 << 6;
        /// Nor for what the responder sends.
        const RESPONDER_LIBERAL = 1 << 7;
    }
}

impl Flags {
    /// Says which end opened the connection.
    fn originator(is_low: bool) -> Flags {
        if is_low { Flags::ORIGINATOR_IS_LOW } else { Flags::empty() }
    }
}

impl State {
    /// A connection that `segment` opens: a SYN, or any other packet as a pick-up.
    pub(crate) fn open(segment: &Segment, from_low: bool) -> State {
        let mut originator = Half {
            end: segment.end,
            max_end: segment.end,
            max_window: u32::from(segment.window).max(1),
            max_ack: 0,
            shape: segment.offer,
        };
        let mut responder = Half::UNSEEN;
        let mut flags = Flags::originator(from_low);
        if segment.kind != Kind::Syn {
            originator.max_end = segment.end.wrapping_add(originator.max_window);
            originator.shape = Shape::SACK_PERMITTED;
            responder.shape = Shape::SACK_PERMITTED;
            flags |= Flags::ORIGINATOR_LIBERAL | Flags::RESPONDER_LIBERAL;
        }
        State { halves: [originator, responder], flags, ..State::open_other(from_low) }
    }

    /// A connection of another protocol: the ends and the time are kept, and in `last` from when on it is a stream.
    pub(crate) fn open_other(from_low: bool) -> State {
        State {
            halves: [Half::UNSEEN; 2],
            tcp: TcpState::None,
            flags: Flags::originator(from_low),
            last: Last { end: 0, ack: 0, len: 0, window: 0 },
            deadline_ms: 0,
            remaining_ms: 0,
            last_offer: Shape::empty(),
            last_kind: Kind::None,
            last_from: Side::Originator,
            retransmissions: 0,
        }
    }

    /// Whether a packet of the responder passed.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.flags.contains(Flags::ANSWERED)
    }

    /// Notes that a packet of the responder passed.
    pub(crate) fn answer(&mut self) {
        self.flags.insert(Flags::ANSWERED);
    }

    /// Says from when on a connection that is not TCP's is a stream.
    pub(super) fn stream_from(&mut self, at_ms: u32) {
        self.last.end = at_ms;
    }

    /// Whether a connection that is not TCP's has gone on for long enough to be a stream.
    pub(super) fn is_stream(&self, now_ms: u32) -> bool {
        (now_ms.wrapping_sub(self.last.end) as i32) > 0
    }

    /// Whether both ends take part for good: Linux's `ASSURED`, for what is not TCP.
    pub fn is_assured(&self) -> bool {
        self.flags.contains(Flags::CONFIRMED)
    }

    /// The state of TCP.
    pub fn tcp(&self) -> TcpState {
        self.tcp
    }

    /// For people: see [`nf::Reports::state`].
    pub(crate) fn shown(&self) -> Vec<(&'static str, StateValue)> {
        let originator_end = if self.flags.contains(Flags::ORIGINATOR_IS_LOW) { "low" } else { "high" };
        let is_answered = if self.flags.contains(Flags::ANSWERED) { "yes" } else { "no" };
        let mut values: Vec<(&'static str, StateValue)> = vec![
            ("tcp", self.tcp.name().into()),
            ("answered", is_answered.into()),
            ("originator_end", originator_end.into()),
        ];
        if self.tcp == TcpState::None {
            values.push(("assured", if self.is_assured() { "yes" } else { "no" }.into()));
            return values;
        }
        let names = [
            ["originator_seq", "originator_seq_max", "originator_ack", "originator_window"],
            ["responder_seq", "responder_seq_max", "responder_ack", "responder_window"],
        ];
        for (names, Half { end, max_end, max_ack, max_window, .. }) in names.into_iter().zip(self.halves) {
            let numbers = [end, max_end, max_ack, max_window];
            values.extend(names.into_iter().zip(numbers.map(StateValue::from)));
        }
        values
    }

    /// Which end a packet is from.
    pub(crate) fn side(&self, from_low: bool) -> Side {
        match self.flags.contains(Flags::ORIGINATOR_IS_LOW) == from_low {
            true => Side::Originator,
            false => Side::Responder,
        }
    }

    /// Whether packets from `side` pass whatever their window says.
    pub(super) fn is_liberal(&self, side: Side) -> bool {
        self.flags.contains(match side {
            Side::Originator => Flags::ORIGINATOR_LIBERAL,
            Side::Responder => Flags::RESPONDER_LIBERAL,
        })
    }

    /// The sender and the receiver of a packet from `side`.
    pub(super) fn sender_and_receiver(&mut self, side: Side) -> (&mut Half, &mut Half) {
        let [originator, responder] = &mut self.halves;
        match side {
            Side::Originator => (originator, responder),
            Side::Responder => (responder, originator),
        }
    }

    /// What remains until the connection expires, at `now_ms`.
    pub(crate) fn count_down(&mut self, now_ms: u32) {
        // Milliseconds round down, so a connection that still lives may have none left.
        let left_ms = self.deadline_ms.wrapping_sub(now_ms) as i32;
        self.remaining_ms = left_ms.max(1).unsigned_abs();
    }

    /// Gives the connection `timeout_ms` from `now_ms` on.
    pub(crate) fn renew(&mut self, now_ms: u32, timeout_ms: u32) {
        self.deadline_ms = now_ms.wrapping_add(timeout_ms);
        self.remaining_ms = timeout_ms;
    }

    /// Lives as long as `before` did.
    #[cfg(test)]
    pub(super) fn keep_time_of(&mut self, before: &State) {
        (self.deadline_ms, self.remaining_ms) = (before.deadline_ms, before.remaining_ms);
    }

    /// One past the highest sequence number that an end sent, if a packet of it was seen: 0 is the originator.
    pub(super) fn end_of(&self, end: usize) -> Option<u32> {
        let half = self.halves[end];
        (half.max_window != 0).then_some(half.end)
    }

    /// Whether its time is over at `now_ms`.
    pub(super) fn is_due(&self, now_ms: u32) -> bool {
        self.deadline_ms.wrapping_sub(now_ms) as i32 <= 0
    }

    pub(crate) fn remaining_ms(&self) -> u32 {
        self.remaining_ms
    }
}
