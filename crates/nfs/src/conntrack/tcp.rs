//! TCP's words: states of a connection, the two sides, kinds of packets.

use wire::tcp_flags::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};
use zerocopy::{Immutable, IntoBytes};

/// State of a connection as the middle sees it, one for both ends (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoBytes, Immutable)]
#[repr(u8)]
pub enum TcpState {
    /// Not TCP.
    None,
    /// The originator sent a SYN.
    SynSent,
    /// The responder answered with a SYN-ACK.
    SynReceived,
    /// Open.
    Established,
    /// One side sent a FIN.
    FinWait,
    /// The first FIN was acknowledged.
    CloseWait,
    /// Both sides sent a FIN.
    LastAck,
    /// The second FIN was acknowledged.
    TimeWait,
    /// Reset.
    Closed,
    /// Both sides sent a SYN: simultaneous open (RFC 9293 §3.5, figure 7).
    SynSent2,
}

impl TcpState {
    pub(super) const COUNT: usize = 10;

    /// Every state that a connection may be in, in order of its life.
    pub const ALL: [TcpState; 9] = [
        TcpState::SynSent,
        TcpState::SynSent2,
        TcpState::SynReceived,
        TcpState::Established,
        TcpState::FinWait,
        TcpState::CloseWait,
        TcpState::LastAck,
        TcpState::TimeWait,
        TcpState::Closed,
    ];

    /// A name for reports, such as `syn-sent`.
    pub fn name(self) -> &'static str {
        match self {
            TcpState::None => "none",
            TcpState::SynSent => "syn-sent",
            TcpState::SynReceived => "syn-received",
            TcpState::Established => "established",
            TcpState::FinWait => "fin-wait",
            TcpState::CloseWait => "close-wait",
            TcpState::LastAck => "last-ack",
            TcpState::TimeWait => "time-wait",
            TcpState::Closed => "closed",
            TcpState::SynSent2 => "syn-sent-2",
        }
    }

    /// Whether the handshake has begun and not ended.
    pub fn is_half_open(self) -> bool {
        matches!(self, TcpState::SynSent | TcpState::SynSent2 | TcpState::SynReceived)
    }

    /// Whether a FIN or a reset was seen.
    pub(super) fn is_closing(self) -> bool {
        (TcpState::FinWait..=TcpState::Closed).contains(&self)
    }
}

/// Which end sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub(crate) enum Side {
    /// The end whose packet opened the connection.
    Originator,
    /// The other.
    Responder,
}

/// What a packet does to a connection, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
    /// No packet yet.
    None,
}

impl Kind {
    /// The kind of a packet with these flags; `None` for combinations that no TCP sends (RFC 9293
    /// §3.10.7, RFC 3360): port scanners do. PSH and the ECN flags say nothing here.
    pub(crate) fn of(flags: u8) -> Option<Kind> {
        const SYN_URG: u8 = SYN | URG;
        const SYN_ACK: u8 = SYN | ACK;
        const RST_ACK: u8 = RST | ACK;
        const FIN_ACK: u8 = FIN | ACK;
        const FIN_ACK_URG: u8 = FIN | ACK | URG;
        const ACK_URG: u8 = ACK | URG;
        Some(match flags & !(PSH | ECE | CWR) {
            SYN | SYN_URG => Kind::Syn,
            SYN_ACK => Kind::SynAck,
            FIN_ACK | FIN_ACK_URG => Kind::Fin,
            ACK | ACK_URG => Kind::Ack,
            RST | RST_ACK => Kind::Rst,
            _ => return None,
        })
    }
}
