//! The options of the connection tracker, as a chain file has them and as checked.

use alloc::format;

use nf::{OptionDoc, OptionError};

use super::tcp::TcpState;
use crate::PassOrDrop;

/// What a chain file may say about the connection tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether to pick up connections whose handshake was not seen.
    pub pick_up: bool,
    /// Who may open connections, in a chain with an inside.
    pub open_from: OpenFrom,
    /// What becomes of packets that no connection can explain.
    pub invalid: PassOrDrop,
    /// What becomes of packets outside of their connection's window.
    pub out_of_window: PassOrDrop,
    /// What becomes of packets that would open a connection when the table is full.
    pub when_full: PassOrDrop,
    /// Accept what lies outside of the window; resets are checked still.
    pub liberal: bool,
    /// What becomes of a connection of which packets were missed.
    pub gaps: Gaps,
    /// Time-out after the first SYN.
    pub syn_sent_timeout_s: u32,
    /// Time-out after the SYN-ACK.
    pub syn_received_timeout_s: u32,
    /// Time-out of an open connection.
    pub established_timeout_s: u32,
    /// Time-out after the first FIN.
    pub fin_wait_timeout_s: u32,
    /// Time-out after the first FIN was acknowledged.
    pub close_wait_timeout_s: u32,
    /// Time-out after the second FIN.
    pub last_ack_timeout_s: u32,
    /// Time-out after the second FIN was acknowledged.
    pub time_wait_timeout_s: u32,
    /// Time-out after a reset.
    pub closed_timeout_s: u32,
    /// Cap on the time-out after repeated retransmission, or of a closed window.
    pub retransmission_timeout_s: u32,
    /// Cap on the time-out while data waits for its acknowledgment.
    pub unacknowledged_timeout_s: u32,
}

/// Who may open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenFrom {
    /// Hosts on the inside.
    Inside,
    /// Anyone.
    Both,
}

/// What becomes of a connection of which packets were missed: see [`Conntrack`](super::Conntrack).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gaps {
    /// `Strict` on interfaces, `Resync` on captures.
    #[default]
    Auto,
    /// When both ends agree on other numbers, they are taken up.
    Resync,
    /// What does not fit the numbers that were seen is refused.
    Strict,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pick_up: true,
            open_from: OpenFrom::Both,
            invalid: PassOrDrop::Drop,
            out_of_window: PassOrDrop::Drop,
            when_full: PassOrDrop::Drop,
            liberal: false,
            gaps: Gaps::Auto,
            syn_sent_timeout_s: 120,
            syn_received_timeout_s: 60,
            established_timeout_s: 432_000,
            fin_wait_timeout_s: 120,
            close_wait_timeout_s: 60,
            last_ack_timeout_s: 30,
            time_wait_timeout_s: 120,
            closed_timeout_s: 10,
            retransmission_timeout_s: 300,
            unacknowledged_timeout_s: 300,
        }
    }
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "pick_up",
        default: "true",
        help: "follow connections whose handshake was not seen, from any ACK and without window checks; \
               false drops their packets",
    },
    OptionDoc {
        name: "open_from",
        default: "\"both\"",
        help: "who may open connections, and have them picked up: \"both\" sides, or \"inside\" alone, in a chain \
               that has an inside",
    },
    OptionDoc {
        name: "invalid",
        default: "\"drop\"",
        help: "packets that no connection can explain: \"drop\", or \"pass\" and count them",
    },
    OptionDoc {
        name: "out_of_window",
        default: "\"drop\"",
        help: "packets outside of their connection's window: \"drop\", or \"pass\" and count them",
    },
    OptionDoc {
        name: "when_full",
        default: "\"drop\"",
        help: "packets that would open a connection when the table is full: \"drop\", or \"pass\" untracked",
    },
    OptionDoc {
        name: "liberal",
        default: "false",
        help: "accept what lies outside of the window, for paths that show one direction only in part; \
               resets are checked still",
    },
    OptionDoc {
        name: "gaps",
        default: "\"auto\"",
        help: "a connection of which packets were missed: \"resync\", take up the numbers on which both ends agree, \
               \"strict\", refuse them as Linux does, or \"auto\": strict on interfaces, resync on captures",
    },
    OptionDoc {
        name: "syn_sent_timeout_s",
        default: "120",
        help: "a connection whose SYN has no answer is forgotten after this time",
    },
    OptionDoc { name: "syn_received_timeout_s", default: "60", help: "the same after the SYN-ACK" },
    OptionDoc {
        name: "established_timeout_s",
        default: "432000",
        help: "an open connection without packets is forgotten after this time",
    },
    OptionDoc { name: "fin_wait_timeout_s", default: "120", help: "the same after the first FIN" },
    OptionDoc {
        name: "close_wait_timeout_s",
        default: "60",
        help: "the same after the first FIN was acknowledged",
    },
    OptionDoc { name: "last_ack_timeout_s", default: "30", help: "the same after the second FIN" },
    OptionDoc {
        name: "time_wait_timeout_s",
        default: "120",
        help: "the same after the second FIN was acknowledged",
    },
    OptionDoc { name: "closed_timeout_s", default: "10", help: "the same after a reset" },
    OptionDoc {
        name: "retransmission_timeout_s",
        default: "300",
        help: "at most this long after three retransmissions of one segment, or while a window is closed",
    },
    OptionDoc {
        name: "unacknowledged_timeout_s",
        default: "300",
        help: "at most this long while data waits for its acknowledgment, or a picked-up connection for \
               its other direction",
    },
];

/// The options, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(super) options: Options,
    pub(super) timeouts: Timeouts,
}

impl Settings {
    pub(crate) fn new(options: Options) -> Result<Settings, OptionError> {
        Ok(Settings { options, timeouts: Timeouts::new(&options)? })
    }

    /// The settings on interfaces, if they are others there: [`Gaps::Auto`] is strict.
    pub(crate) fn live(&self) -> Option<Settings> {
        let options = Options { gaps: Gaps::Strict, ..self.options };
        (self.options.gaps == Gaps::Auto).then_some(Settings { options, ..*self })
    }
}

/// The time-outs, checked, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeouts {
    by_state_ms: [u32; TcpState::COUNT],
    pub(super) retransmission_ms: u32,
    pub(super) unacknowledged_ms: u32,
}

/// Deadlines are milliseconds in 32 bits that wrap around, so a time-out takes at most half of them.
pub(crate) const MAX_TIMEOUT_S: u32 = i32::MAX as u32 / 1_000;

impl Timeouts {
    pub(super) fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ms = |option: &'static str, timeout_s: u32| match timeout_s {
            1..=MAX_TIMEOUT_S => Ok(timeout_s * 1_000),
            _ => Err(OptionError { option, message: format!("must be 1 to {MAX_TIMEOUT_S} seconds") }),
        };
        let syn_sent_ms = ms("syn_sent_timeout_s", options.syn_sent_timeout_s)?;
        let mut by_state_ms = [syn_sent_ms; TcpState::COUNT];
        for (state, option, timeout_s) in [
            (TcpState::SynReceived, "syn_received_timeout_s", options.syn_received_timeout_s),
            (TcpState::Established, "established_timeout_s", options.established_timeout_s),
            (TcpState::FinWait, "fin_wait_timeout_s", options.fin_wait_timeout_s),
            (TcpState::CloseWait, "close_wait_timeout_s", options.close_wait_timeout_s),
            (TcpState::LastAck, "last_ack_timeout_s", options.last_ack_timeout_s),
            (TcpState::TimeWait, "time_wait_timeout_s", options.time_wait_timeout_s),
            (TcpState::Closed, "closed_timeout_s", options.closed_timeout_s),
        ] {
            by_state_ms[state as usize] = ms(option, timeout_s)?;
        }
        Ok(Timeouts {
            by_state_ms,
            retransmission_ms: ms("retransmission_timeout_s", options.retransmission_timeout_s)?,
            unacknowledged_ms: ms("unacknowledged_timeout_s", options.unacknowledged_timeout_s)?,
        })
    }

    pub(super) fn of(&self, state: TcpState) -> u32 {
        self.by_state_ms[state as usize]
    }
}
