//! What the judge knows of a flow, and how packets of a connection to a backend itself lead it on.

use wire::{Addr, Headers, protocol, tcp_flags};

/// Address and port.
pub(super) type End = (Addr, u16);

/// Two ends with the protocol: source and destination, or in order where both directions are one flow.
pub(super) type Key = (End, End, u8);

/// A flow from its first packet to its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// One more than the number of its first packet.
    pub(super) made: u64,
    pub(super) with: With,
    /// Its place among the service's. `None`: no packet of it has left the chain yet.
    pub(super) backend: Option<usize>,
    /// It lives at times before this.
    pub(super) deadline_ns: u64,
    pub(super) stage: Stage,
    pub(super) took_turn: bool,
    /// Whether the last packet of a connection to a backend itself left as a service's, so that the function has forgotten it.
    pub(super) is_forgotten: bool,
}

/// Whom a client talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// A service, by its place in the list.
    Service(usize),
    /// A backend itself. This is the client's end.
    Backend { client: End },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Open,
    Closing,
    Datagrams,
}

/// Whether it is a SYN that no SYN is answered with.
pub(super) fn opens_tcp(came: &Headers) -> bool {
    is_tcp_with(came, tcp_flags::SYN) && !is_tcp_with(came, tcp_flags::ACK)
}

/// Whether it is TCP with one of these flags.
pub(super) fn is_tcp_with(came: &Headers, flags: u8) -> bool {
    came.protocol == protocol::TCP && came.tcp_flags & flags != 0
}

impl Stage {
    /// That of a flow to a service behind a packet.
    pub(super) fn behind(known: Option<Stage>, came: &Headers) -> Stage {
        match known {
            // A later fragment has no flags.
            Some(stage) if came.is_followed() => stage,
            _ if came.protocol != protocol::TCP => Stage::Datagrams,
            _ if is_tcp_with(came, tcp_flags::FIN | tcp_flags::RST) => Stage::Closing,
            None => Stage::Opening,
            Some(Stage::Opening) if !is_tcp_with(came, tcp_flags::SYN) => Stage::Open,
            Some(stage) => stage,
        }
    }

    /// Whether a packet between a client and a backend is of what the client opened there, and the stage behind it. `None`: the
    /// connection is forgotten.
    ///
    /// It is there from the backend's SYN and ACK on. Until then, what else the backend sends answers for a service.
    pub(super) fn between(self, is_from_client: bool, came: &Headers) -> (bool, Option<Stage>) {
        let is = |flags: u8| is_tcp_with(came, flags);
        let ends = is(tcp_flags::FIN | tcp_flags::RST);
        match self {
            Stage::Datagrams => (true, Some(Stage::Datagrams)),
            Stage::Opening if is_from_client => (true, (!ends).then_some(Stage::Opening)),
            Stage::Opening if is(tcp_flags::RST) => (true, None),
            Stage::Opening if is(tcp_flags::SYN) => (true, Some(Stage::Open)),
            Stage::Opening => (false, Some(Stage::Opening)),
            Stage::Closing if is_from_client && opens_tcp(came) => (true, Some(Stage::Opening)),
            // The client's SYN went to a service: this answers for it.
            Stage::Closing if !is_from_client && is(tcp_flags::SYN) => (false, None),
            Stage::Closing => (true, Some(Stage::Closing)),
            Stage::Open => (true, Some(if ends { Stage::Closing } else { Stage::Open })),
        }
    }
}
