//! The options of the connection tracker, as a chain file has them and as checked.

use alloc::format;

use nf::{OptionDoc, OptionError};

use super::part::OtherTimeouts;
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
    /// How many records of connections that have ended each core keeps.
    pub records: u32,
    /// Time-out after the first SYN.
    pub tcp_timeout_syn_sent: u32,
    /// Time-out after the SYN-ACK.
    pub tcp_timeout_syn_recv: u32,
    /// Time-out of an open connection.
    pub tcp_timeout_established: u32,
    /// Time-out after the first FIN.
    pub tcp_timeout_fin_wait: u32,
    /// Time-out after the first FIN was acknowledged.
    pub tcp_timeout_close_wait: u32,
    /// Time-out after the second FIN.
    pub tcp_timeout_last_ack: u32,
    /// Time-out after the second FIN was acknowledged.
    pub tcp_timeout_time_wait: u32,
    /// Time-out after a reset.
    pub tcp_timeout_close: u32,
    /// Cap on the time-out after repeated retransmission, or of a closed window.
    pub tcp_timeout_max_retrans: u32,
    /// Cap on the time-out while data waits for its acknowledgment.
    pub tcp_timeout_unacknowledged: u32,
    /// Time-out of a UDP flow without an answer, or that is a question and its answer.
    pub udp_timeout: u32,
    /// Time-out of a UDP flow both ways that lasts.
    pub udp_timeout_stream: u32,
    /// Time-out of an ICMP query.
    pub icmp_timeout: u32,
    /// Time-out of an ICMPv6 query.
    pub icmpv6_timeout: u32,
    /// Time-out of a GRE flow without an answer.
    pub gre_timeout: u32,
    /// Time-out of a GRE flow both ways.
    pub gre_timeout_stream: u32,
    /// Time-out of a flow of another protocol.
    pub generic_timeout: u32,
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
            records: 0,
            tcp_timeout_syn_sent: 120,
            tcp_timeout_syn_recv: 60,
            tcp_timeout_established: 432_000,
            tcp_timeout_fin_wait: 120,
            tcp_timeout_close_wait: 60,
            tcp_timeout_last_ack: 30,
            tcp_timeout_time_wait: 120,
            tcp_timeout_close: 10,
            tcp_timeout_max_retrans: 300,
            tcp_timeout_unacknowledged: 300,
            udp_timeout: 30,
            udp_timeout_stream: 120,
            icmp_timeout: 30,
            icmpv6_timeout: 30,
            gre_timeout: 30,
            gre_timeout_stream: 180,
            generic_timeout: 600,
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
        name: "records",
        default: "0",
        help: "have `paceline run --connections` write a record of each connection, and keep so many of those that have \
               ended on each core, the largest; up to 1,000,000, of 220 bytes each",
    },
    OptionDoc {
        name: "tcp_timeout_syn_sent",
        default: "120",
        help: "seconds until a connection is forgotten whose SYN has no answer",
    },
    OptionDoc { name: "tcp_timeout_syn_recv", default: "60", help: "the same after the SYN-ACK" },
    OptionDoc {
        name: "tcp_timeout_established",
        default: "432000",
        help: "seconds until an open connection without packets is forgotten",
    },
    OptionDoc { name: "tcp_timeout_fin_wait", default: "120", help: "the same after the first FIN" },
    OptionDoc {
        name: "tcp_timeout_close_wait",
        default: "60",
        help: "the same after the first FIN was acknowledged",
    },
    OptionDoc { name: "tcp_timeout_last_ack", default: "30", help: "the same after the second FIN" },
    OptionDoc {
        name: "tcp_timeout_time_wait",
        default: "120",
        help: "the same after the second FIN was acknowledged",
    },
    OptionDoc { name: "tcp_timeout_close", default: "10", help: "the same after a reset" },
    OptionDoc {
        name: "tcp_timeout_max_retrans",
        default: "300",
        help: "at most so many seconds after three retransmissions of one segment, or while a window is closed",
    },
    OptionDoc {
        name: "tcp_timeout_unacknowledged",
        default: "300",
        help: "at most so many seconds while data waits for its acknowledgment, or a picked-up connection for \
               its other direction",
    },
    OptionDoc {
        name: "udp_timeout",
        default: "30",
        help: "seconds until a UDP flow is forgotten that has no answer, or that was over within two seconds",
    },
    OptionDoc {
        name: "udp_timeout_stream",
        default: "120",
        help: "the same for one that goes on after two seconds, and has an answer",
    },
    OptionDoc {
        name: "icmp_timeout",
        default: "30",
        help: "seconds until an ICMP request is forgotten, and its replies",
    },
    OptionDoc { name: "icmpv6_timeout", default: "30", help: "the same for ICMPv6" },
    OptionDoc {
        name: "gre_timeout",
        default: "30",
        help: "seconds until a GRE flow without an answer is forgotten",
    },
    OptionDoc { name: "gre_timeout_stream", default: "180", help: "the same with an answer" },
    OptionDoc {
        name: "generic_timeout",
        default: "600",
        help: "seconds until a flow of any other protocol is forgotten, SCTP and DCCP among them",
    },
];

/// The most records that a core keeps: their memory is taken at start.
const RECORDS_MAX: u32 = 1_000_000;

/// The options, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(super) options: Options,
    pub(super) timeouts: Timeouts,
}

impl Settings {
    pub(crate) fn new(options: Options) -> Result<Settings, OptionError> {
        if options.records > RECORDS_MAX {
            return Err(OptionError { option: "records", message: format!("must be 0 to {RECORDS_MAX}") });
        }
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
    pub(super) other: OtherTimeouts,
}

/// Deadlines are milliseconds in 32 bits that wrap around, so a time-out takes at most half of them.
pub(crate) const MAX_TIMEOUT_S: u32 = i32::MAX as u32 / 1_000;

impl Timeouts {
    pub(super) fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ms = |option: &'static str, timeout_s: u32| match timeout_s {
            1..=MAX_TIMEOUT_S => Ok(timeout_s * 1_000),
            _ => Err(OptionError { option, message: format!("must be 1 to {MAX_TIMEOUT_S} seconds") }),
        };
        let syn_sent_ms = ms("tcp_timeout_syn_sent", options.tcp_timeout_syn_sent)?;
        let mut by_state_ms = [syn_sent_ms; TcpState::COUNT];
        for (state, option, timeout_s) in [
            (TcpState::SynReceived, "tcp_timeout_syn_recv", options.tcp_timeout_syn_recv),
            (TcpState::Established, "tcp_timeout_established", options.tcp_timeout_established),
            (TcpState::FinWait, "tcp_timeout_fin_wait", options.tcp_timeout_fin_wait),
            (TcpState::CloseWait, "tcp_timeout_close_wait", options.tcp_timeout_close_wait),
            (TcpState::LastAck, "tcp_timeout_last_ack", options.tcp_timeout_last_ack),
            (TcpState::TimeWait, "tcp_timeout_time_wait", options.tcp_timeout_time_wait),
            (TcpState::Closed, "tcp_timeout_close", options.tcp_timeout_close),
        ] {
            by_state_ms[state as usize] = ms(option, timeout_s)?;
        }
        Ok(Timeouts {
            by_state_ms,
            retransmission_ms: ms("tcp_timeout_max_retrans", options.tcp_timeout_max_retrans)?,
            unacknowledged_ms: ms("tcp_timeout_unacknowledged", options.tcp_timeout_unacknowledged)?,
            other: OtherTimeouts {
                udp_ms: ms("udp_timeout", options.udp_timeout)?,
                udp_stream_ms: ms("udp_timeout_stream", options.udp_timeout_stream)?,
                icmp_ms: ms("icmp_timeout", options.icmp_timeout)?,
                icmpv6_ms: ms("icmpv6_timeout", options.icmpv6_timeout)?,
                gre_ms: ms("gre_timeout", options.gre_timeout)?,
                gre_stream_ms: ms("gre_timeout_stream", options.gre_timeout_stream)?,
                generic_ms: ms("generic_timeout", options.generic_timeout)?,
            },
        })
    }

    pub(super) fn of(&self, state: TcpState) -> u32 {
        self.by_state_ms[state as usize]
    }
}
