//! What is kept of a connection.

use nf::Verdict;
use zerocopy::{Immutable, IntoBytes};

use super::rule::{Action, States};
use crate::conntrack::{self, Side};

/// Index into the firewall's drop reasons.
pub(super) const DROPPED_BY_RULE: u8 = 0;
/// Index into the firewall's drop reasons.
pub(super) const DROPPED_BY_DEFAULT: u8 = 1;

/// Index into the firewall's drop reasons of the first rule that asks for a log.
const LOGGED: u8 = 3;
/// The most rules that ask for a log: each has a drop reason of its own, by which it is known where packets leave.
pub(super) const LOGGED_RULES_MAX: u8 = 16;

/// Index into the firewall's drop reasons of packets that are rejected, by a rule without `log` or by the default.
pub(super) const REJECTED: u8 = LOGGED + LOGGED_RULES_MAX;

/// The verdict of a rule with this number among those that ask for a log.
pub(super) fn logged(log: u8) -> Verdict {
    Verdict::Drop(LOGGED + log)
}

/// The number among the rules that ask for a log of that for which a drop reason stands.
pub(super) fn log_of(reason: u8) -> Option<u8> {
    reason.checked_sub(LOGGED).filter(|log| *log < LOGGED_RULES_MAX)
}

/// What is kept of a connection: 72 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// The ends, the time, and of TCP states and windows.
    pub(super) tracked: conntrack::State,
    /// Packets in both directions.
    pub(super) packets: u32,
    /// By which rules the rulings are: [`Rules::number`](super::rules::Rules::number).
    pub(super) rules: u16,
    /// The index of the rule that accepted the connection; behind the last one the default.
    pub(super) rule: u16,
    /// What the rules say of its packets: established ones by the end that they are from, new ones. Read by
    /// [`State::ruling`].
    pub(super) rulings: [Ruling; 3],
    /// Bits: [`asked`] for ICMP, [`outside`] for each ruling.
    pub(super) marks: u8,
}

const _: () = assert!(size_of::<State>() == 72);

/// The index in [`State::rulings`] of packets that are `new`.
pub(super) const OF_NEW: usize = 2;

/// What the rules say of packets that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub(super) enum Ruling {
    /// They were not asked.
    Open,
    Accept,
    DropByRule,
    DropByDefault,
    /// By a rule or by the default.
    Reject,
}

impl Ruling {
    /// What `action` is of the rule with `index` among `rules`, or of the default behind them.
    pub(super) fn of(action: Action, index: usize, rules: usize) -> Ruling {
        match action {
            Action::Accept => Ruling::Accept,
            Action::Drop if index < rules => Ruling::DropByRule,
            Action::Drop => Ruling::DropByDefault,
            Action::Reject => Ruling::Reject,
        }
    }

    pub(super) fn verdict(self) -> Verdict {
        match self {
            Ruling::Accept => Verdict::Forward,
            Ruling::DropByRule => Verdict::Drop(DROPPED_BY_RULE),
            Ruling::Reject => Verdict::Drop(REJECTED),
            Ruling::Open | Ruling::DropByDefault => Verdict::Drop(DROPPED_BY_DEFAULT),
        }
    }
}

/// The bit in [`State::marks`] of an end that sent an ICMP request that was accepted.
pub(super) fn asked(end: Side) -> u8 {
    1 << end as u8
}

/// The bit in [`State::marks`] that is set if a ruling is about packets that come from outside.
fn outside(ruling: usize) -> u8 {
    4 << ruling
}

impl State {
    /// By which ruling a packet goes that comes from the key's low end, or does not, and what it is to rules.
    pub(super) fn asked_of(&self, from_low: bool) -> (usize, States) {
        match self.tracked.side(from_low) {
            Side::Originator if !self.tracked.is_answered() => (OF_NEW, States::NEW),
            side => (side as usize, States::ESTABLISHED),
        }
    }

    /// Forgets the rulings if they are those of other rules; says whether it did.
    pub(super) fn forget_rulings_of_others(&mut self, rules: u16) -> bool {
        let is_other = self.rules != rules;
        if is_other {
            (self.rules, self.rulings) = (rules, [Ruling::Open; 3]);
        }
        is_other
    }

    /// What the rules say of packets that come from this side of the chain. A forged packet may come from the other one.
    #[inline]
    pub(super) fn ruling(&self, index: usize, is_from_outside: bool) -> Ruling {
        let is_of_side = (self.marks & outside(index) != 0) == is_from_outside;
        if is_of_side { self.rulings[index] } else { Ruling::Open }
    }

    pub(super) fn set_ruling(&mut self, index: usize, is_from_outside: bool, ruling: Ruling) {
        self.rulings[index] = ruling;
        self.marks &= !outside(index);
        self.marks |= if is_from_outside { outside(index) } else { 0 };
    }
}
