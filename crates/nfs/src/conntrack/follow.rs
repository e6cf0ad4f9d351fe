//! One packet on one connection: what the table says, with the exceptions that a table of single
//! states cannot hold. Read [`Settings::follow`] first, then [`State::course`].

use super::counts::reason;
use super::options::{Gaps, Settings};
use super::segment::{Meta, Segment, Shape};
use super::state::{Flags, Half, Last, State};
use super::tcp::{Kind, Side, TcpState};
use super::transition::{Next, next};
use super::window::{Window, before};

/// What comes of a packet and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It belongs; the connection has moved on.
    Pass,
    /// It passes; the connection stays as it was, and does not live longer for it.
    Ignore,
    /// It does not belong, for this reason.
    Refuse(u8),
    /// It belongs: both ends agree on numbers that were missed, and the connection has taken them up.
    Resync,
    /// It passes, and ends a connection that the other end never took part in.
    Remove,
    /// The connection is over and this packet begins another between the same ends.
    Reopen,
}

/// Where a packet would lead, before its window is checked.
enum Course {
    /// To this state if it is in the window.
    IfInWindow(TcpState),
    /// To this state whatever the window says.
    Straight(TcpState),
    /// Nowhere: this comes of it.
    Decided(Fate),
}

/// How often the same ACK comes again before the connection counts as stuck.
const MAX_RETRANSMISSIONS: u8 = 3;

/// A refused packet does not shorten what remains below this.
const SHORT_MS: u32 = 120_000;

impl Settings {
    /// Moves a connection on by a packet, if it belongs.
    pub(crate) fn follow(&self, state: &mut State, segment: &Segment, from_low: bool, now_ms: u32) -> Fate {
        let side = state.side(from_low);
        let fate = match state.course(segment, side) {
            Course::Decided(fate) => fate,
            Course::Straight(to) => self.move_on(state, to, segment.kind, side, now_ms),
            Course::IfInWindow(to) => match state.check_window(segment, side, self.options.liberal) {
                Window::Inside => self.move_on(state, to, segment.kind, side, now_ms),
                Window::Tolerated | Window::Overrun => Fate::Ignore,
                beyond if self.options.gaps != Gaps::Strict && state.resumes(segment, side) => {
                    debug_assert!(matches!(beyond, Window::SeqBeyond | Window::AckBeyond));
                    match self.move_on(state, to, segment.kind, side, now_ms) {
                        Fate::Pass => Fate::Resync,
                        fate => fate,
                    }
                }
                Window::SeqBeyond => {
                    self.shorten(state, segment.kind, side, now_ms);
                    Fate::Refuse(reason::SEQ)
                }
                Window::AckBeyond => {
                    self.shorten(state, segment.kind, side, now_ms);
                    Fate::Refuse(reason::ACK)
                }
            },
        };
        if side == Side::Responder && matches!(fate, Fate::Pass | Fate::Ignore | Fate::Resync) {
            state.flags.insert(Flags::ANSWERED);
        }
        fate
    }

    /// [`Settings::follow`] for most packets: an ACK on an open connection that its end was seen on before, and that passes.
    /// If the packet is another nothing changes: `false`.
    #[inline(always)]
    pub(crate) fn passes(&self, state: &mut State, meta: &Meta, now_ms: u32) -> bool {
        if state.tcp != TcpState::Established || !meta.is_plain_ack() {
            return false;
        }
        let (segment, side) = (Segment::new(meta, Kind::Ack), state.side(meta.is_from_low()));
        if !state.takes_ack(&segment, side, self.options.liberal) {
            return false;
        }
        let fate = self.move_on(state, TcpState::Established, Kind::Ack, side, now_ms);
        debug_assert_eq!(fate, Fate::Pass);
        if side == Side::Responder {
            state.flags.insert(Flags::ANSWERED);
        }
        true
    }

    /// Puts the connection into state `to`, and gives it that state's time.
    #[inline(always)]
    fn move_on(&self, state: &mut State, to: TcpState, kind: Kind, side: Side, now_ms: u32) -> Fate {
        let from = state.tcp;
        state.tcp = to;
        (state.last_kind, state.last_from) = (kind, side);
        if from != to && to == TcpState::FinWait {
            state.flags.insert(Flags::CLOSED_BY_FIN);
        }
        let timeout_ms = self.timeout_ms(state, kind);

        if !state.flags.contains(Flags::ANSWERED) {
            if kind == Kind::Rst {
                state.tcp = TcpState::Closed;
                return Fate::Remove;
            }
            if kind == Kind::Syn && from == TcpState::SynSent {
                // A client that tries for ever must not hold its entry for ever.
                return Fate::Pass;
            }
            let unanswered_ms = match to {
                TcpState::Established => timeout_ms.min(self.timeouts.unacknowledged_ms),
                _ => timeout_ms,
            };
            state.renew(now_ms, unanswered_ms);
            return Fate::Pass;
        }
        let was_open = matches!(from, TcpState::SynReceived | TcpState::Established);
        if was_open && to == TcpState::Established {
            state.flags.insert(Flags::CONFIRMED);
        }
        state.renew(now_ms, timeout_ms);
        Fate::Pass
    }

    /// How long a connection may now stay idle: the time-out of its state, less if it is stuck.
    #[inline(always)]
    fn timeout_ms(&self, state: &State, kind: Kind) -> u32 {
        let timeout_ms = self.timeouts.of(state.tcp);
        let is_unacknowledged = state.halves.iter().any(|half| half.shape.contains(Shape::UNACKNOWLEDGED));
        if state.retransmissions >= MAX_RETRANSMISSIONS && timeout_ms > self.timeouts.retransmission_ms {
            self.timeouts.retransmission_ms
        } else if kind == Kind::Rst {
            self.timeouts.of(TcpState::Closed)
        } else if is_unacknowledged && timeout_ms > self.timeouts.unacknowledged_ms {
            self.timeouts.unacknowledged_ms
        } else if state.last.window == 0 && timeout_ms > self.timeouts.retransmission_ms {
            self.timeouts.retransmission_ms
        } else {
            timeout_ms
        }
    }

    /// A FIN or reset was refused for its window, and then one from the other side: both ends may
    /// well be done with a connection that the tracker would keep for days.
    fn shorten(&self, state: &mut State, kind: Kind, side: Side, now_ms: u32) {
        let ends = |kind: Kind| matches!(kind, Kind::Fin | Kind::Rst);
        if !state.flags.contains(Flags::CONFIRMED) || !ends(kind) {
            return;
        }
        if state.last_from == side || !ends(state.last_kind) {
            (state.last_kind, state.last_from) = (kind, side);
        } else if state.remaining_ms() >= SHORT_MS && state.remaining_ms() > self.timeouts.unacknowledged_ms {
            state.renew(now_ms, self.timeouts.unacknowledged_ms);
        }
    }
}

impl State {
    /// Where a packet would lead.
    #[inline]
    fn course(&mut self, segment: &Segment, side: Side) -> Course {
        match next(self.tcp, side, segment.kind) {
            Next::Invalid => Course::Decided(Fate::Refuse(reason::TRANSITION)),
            Next::Ignore => self.ignore(segment, side),
            Next::To(TcpState::SynSent) if matches!(self.tcp, TcpState::TimeWait | TcpState::Closed) => {
                match self.may_reopen(side) {
                    true => Course::Decided(Fate::Reopen),
                    false => self.ignore(segment, side),
                }
            }
            Next::To(TcpState::TimeWait) if self.is_challenge_ack(segment, side) => {
                self.flags.remove(Flags::CHALLENGE_EXPECTED);
                Course::Decided(Fate::Ignore)
            }
            Next::To(TcpState::SynSent2) => {
                self.flags.insert(Flags::SIMULTANEOUS_OPEN);
                Course::IfInWindow(TcpState::SynSent2)
            }
            // RFC 9293 §3.5, figure 7: each side's SYN-ACK is the other's last word.
            Next::To(TcpState::SynReceived)
                if side == Side::Responder
                    && segment.kind == Kind::Ack
                    && self.flags.contains(Flags::SIMULTANEOUS_OPEN) =>
            {
                Course::IfInWindow(TcpState::Established)
            }
            Next::To(TcpState::Closed) if segment.kind == Kind::Rst => self.reset(segment, side),
            Next::To(to) => Course::IfInWindow(to),
        }
    }

    /// RFC 9293 §3.6.1 lets a SYN reopen from TIME-WAIT. Sequence numbers are not looked at: the
    /// end that holds the connection decides. After a reset, only the end that sent it is done.
    fn may_reopen(&self, side: Side) -> bool {
        self.flags.contains(Flags::CLOSED_BY_FIN) || (self.last_kind == Kind::Rst && self.last_from == side)
    }

    /// RFC 5961 §4.2: a SYN on a live connection is answered with an ACK, which must not be taken for
    /// the last one.
    fn is_challenge_ack(&self, segment: &Segment, side: Side) -> bool {
        self.tcp == TcpState::LastAck
            && segment.kind == Kind::Ack
            && self.last_kind == Kind::Syn
            && self.last_from != side
            && self.flags.contains(Flags::CHALLENGE_EXPECTED)
    }

    /// Remembers a packet that may be right where the tracker is wrong; or, if `segment` answers such
    /// a one, takes both ends' word for it.
    fn ignore(&mut self, segment: &Segment, side: Side) -> Course {
        let answers_a_syn = segment.kind == Kind::SynAck
            && self.last_kind == Kind::Syn
            && self.last_from != side
            && segment.ack == self.last.end;
        if answers_a_syn {
            self.begin_from_ignored_syn();
            return Course::IfInWindow(TcpState::SynReceived);
        }
        (self.last_kind, self.last_from) = (segment.kind, side);
        let is_challenge_ack =
            self.tcp == TcpState::SynSent && segment.kind == Kind::Ack && side == Side::Responder;
        let ack = if is_challenge_ack { segment.ack } else { self.last.ack };
        self.last = Last { ack, ..Last::of(segment) };
        self.last_offer.remove(Shape::REFUSED);
        if segment.kind == Kind::Syn && side == Side::Originator {
            self.last_offer = segment.offer;
            self.flags.remove(Flags::CHALLENGE_EXPECTED | Flags::SIMULTANEOUS_OPEN);
            self.flags.set(Flags::CHALLENGE_EXPECTED, self.tcp == TcpState::LastAck);
        }
        Course::Decided(Fate::Ignore)
    }

    /// A SYN that was ignored got its SYN-ACK: the connection is a new one. A responder that had been
    /// picked up stays liberal, as it does in Linux.
    fn begin_from_ignored_syn(&mut self) {
        let Last { end, window, .. } = self.last;
        let max_window = u32::from(window).max(1);
        let shape = self.last_offer.offer();
        let (sender, receiver) = self.sender_and_receiver(self.last_from);
        *sender = Half { end, max_end: end, max_window, max_ack: 0, shape };
        *receiver = Half::UNSEEN;
        self.flags.remove(Flags::ORIGINATOR_LIBERAL | Flags::CLOSED_BY_FIN | Flags::CHALLENGE_EXPECTED);
    }

    /// How much a reset must prove. RFC 5961 §3.2: a reset at exactly the next sequence number
    /// closes; one elsewhere in the window is answered with a challenge, and the true sender of
    /// the first resets again.
    fn reset(&mut self, segment: &Segment, side: Side) -> Course {
        if self.tcp.is_closing() {
            // There is little left to protect, and the ends may already use the ports again.
            return Course::Straight(TcpState::Closed);
        }
        let mut to = TcpState::Closed;
        let is_open = self.tcp == TcpState::Established && self.flags.contains(Flags::CONFIRMED);
        let (_, receiver) = self.sender_and_receiver(side);
        let (expects, has_acked) = (receiver.max_ack, receiver.shape.contains(Shape::ACKED));
        if has_acked && self.last_kind != Kind::Syn {
            if segment.seq == 0 && !is_open {
                // The refusal of a SYN (RFC 9293 §3.10.7.1).
                return Course::IfInWindow(to);
            }
            if before(segment.seq, expects) {
                return Course::Decided(Fate::Refuse(reason::RESET));
            }
            // A reset behind data that is still on its way is at the end of that data.
            let follows_last = !self.last_offer.contains(Shape::REFUSED)
                && self.last_kind == Kind::Ack
                && self.last_from == side
                && segment.seq == self.last.end;
            if !is_open || segment.seq == expects || follows_last {
                return Course::IfInWindow(to);
            }
            to = self.tcp;
        }
        match self.refuses_what_was_ignored(segment, side) {
            true => Course::Straight(to),
            false => Course::IfInWindow(to),
        }
    }

    /// Whether a reset answers a SYN, or an ACK on a half-open connection, that had been ignored. The
    /// tracker's numbers are not those that the ends have in mind.
    fn refuses_what_was_ignored(&self, reset: &Segment, side: Side) -> bool {
        let answered = self.flags.contains(Flags::ANSWERED);
        let confirmed = self.flags.contains(Flags::CONFIRMED);
        let ends_it =
            (answered && self.last_kind == Kind::Syn) || (!confirmed && self.last_kind == Kind::Ack);
        let refuses_challenge = self.tcp == TcpState::SynSent
            && self.last_kind == Kind::Ack
            && self.last_from == Side::Responder
            && reset.seq == self.last.ack;
        (ends_it && self.last_from != side && reset.ack == self.last.end) || refuses_challenge
    }
}
