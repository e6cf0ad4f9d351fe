//! What is not TCP, in the way of Linux's connection tracker: UDP, GRE, queries of ICMP, errors about connections, and
//! all other protocols.

use wire::protocol;

use super::counts::reason;
use super::options::Settings;
use super::part::{GRE, Other, Part};
use super::state::{Flags, State};
use super::tcp::Side;

/// A UDP flow that goes on for longer than this and has an answer is a stream, not a question (Linux, since 2018).
const STREAM_MS: u32 = 2_000;

impl Settings {
    /// The connection that a packet begins; of a reply, or of an error, the reason why it cannot.
    pub(super) fn open_other(&self, other: Other, from_low: bool, now_ms: u32) -> Result<State, u8> {
        match other.part {
            Part::Reply => return Err(reason::NO_REQUEST),
            Part::Error => return Err(reason::UNRELATED),
            Part::Later => return Err(reason::NO_CONNECTION),
            Part::Any | Part::Request => {}
        }
        let mut state = State::open_other(from_low);
        state.stream_from(now_ms.wrapping_add(STREAM_MS));
        state.renew(now_ms, self.timeouts.other.of(other.protocol, false));
        Ok(state)
    }

    /// Moves a connection on by a packet, if it belongs: else the connection stays as it is, and the reason comes back.
    /// `may_ask` is `false` for a sender who may not begin connections.
    pub(super) fn follow_other(
        &self,
        state: &mut State,
        Other { protocol, part }: Other,
        from_low: bool,
        may_ask: bool,
        now_ms: u32,
    ) -> Result<(), u8> {
        let side = state.side(from_low);
        match part {
            // Its first has moved the connection on.
            Part::Later => {
                state.count_down(now_ms);
                return Ok(());
            }
            // RFC 5927: anyone can send errors, so they do not let a connection live longer.
            Part::Error => {
                state.count_down(now_ms);
                return Ok(());
            }
            Part::Reply if side == Side::Originator && !state.flags.contains(Flags::BOTH_BEGAN) => {
                return Err(reason::NO_REQUEST);
            }
            Part::Request if side == Side::Responder && !state.flags.contains(Flags::BOTH_BEGAN) => {
                if !may_ask {
                    return Err(reason::FROM_OUTSIDE);
                }
                state.flags.insert(Flags::BOTH_BEGAN);
            }
            Part::Any | Part::Request | Part::Reply => {}
        }
        // As of the packets before: the first answer does not make a stream yet.
        let is_stream = state.flags.contains(Flags::ANSWERED)
            && (protocol != protocol::UDP
                || state.flags.contains(Flags::CONFIRMED)
                || state.is_stream(now_ms));
        if is_stream && matches!(protocol, protocol::UDP | GRE) {
            state.flags.insert(Flags::CONFIRMED);
        }
        let is_answer = match part {
            Part::Request => false,
            _ => side == Side::Responder,
        };
        if is_answer {
            state.flags.insert(Flags::ANSWERED);
        }
        state.renew(now_ms, self.timeouts.other.of(protocol, is_stream));
        Ok(())
    }
}
