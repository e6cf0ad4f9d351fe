//! Which TCP state follows which, by the kind of packet and the side that sent it.

use super::tcp::{Kind, Side, TcpState};

/// What the table says to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The connection is in this state from here on, if the packet is in the window.
    To(TcpState),
    /// The packet may be right where the tracker is out of step with both ends, such as a SYN on an
    /// open connection: it passes and is remembered, and the answer tells.
    Ignore,
    /// No TCP sends this packet now.
    Invalid,
}

/// What the table says to a packet of `kind` from `side` on a connection in `state`.
pub(super) fn next(state: TcpState, side: Side, kind: Kind) -> Next {
    match kind {
        Kind::None => Next::Invalid,
        _ => TRANSITIONS[state as usize][side as usize][kind as usize],
    }
}

/// RFC 9293 §3.3.2 as seen from the middle: one state for both ends, moved by packets that pass, in
/// the way of Linux's connection tracker. What the rows say in words:
///
/// - An originator's SYN opens; the responder's SYN-ACK answers; the originator's ACK completes.
///   SYNs from both sides are a simultaneous open (`S2`), which a SYN-ACK from either completes.
/// - The first FIN leads to `FW`, its ACK (any ACK) to `CW`, the second FIN to `LA`, its ACK to
///   `TW`. A second FIN before the first one's ACK, a simultaneous close, leads to `LA`, too.
/// - An originator's SYN on a live connection, and what may answer it, is ignored: only the ends know
///   whether it is old, forged, or a true new connection. A SYN on a closed one opens anew.
/// - A reset closes whatever there is; how much it must prove is another page.
/// - A responder cannot open, and nothing but SYN and, as a pick-up, ACK opens.
#[rustfmt::skip]
const TRANSITIONS: [[[Next; 5]; 2]; TcpState::COUNT] = {
    const SS: Next = Next::To(TcpState::SynSent);
    const SR: Next = Next::To(TcpState::SynReceived);
    const ES: Next = Next::To(TcpState::Established);
    const FW: Next = Next::To(TcpState::FinWait);
    const CW: Next = Next::To(TcpState::CloseWait);
    const LA: Next = Next::To(TcpState::LastAck);
    const TW: Next = Next::To(TcpState::TimeWait);
    const CL: Next = Next::To(TcpState::Closed);
    const S2: Next = Next::To(TcpState::SynSent2);
    const IG: Next = Next::Ignore;
    const NO: Next = Next::Invalid;
    [
        //            from the originator        from the responder
        //             SYN  S-A  FIN  ACK  RST    SYN  S-A  FIN  ACK  RST
        /* none */  [[ SS,  NO,  NO,  ES,  NO ], [ NO,  NO,  NO,  NO,  NO ]],
        /* SS   */  [[ SS,  NO,  NO,  NO,  CL ], [ S2,  SR,  NO,  IG,  CL ]],
        /* SR   */  [[ IG,  SR,  FW,  ES,  CL ], [ NO,  IG,  FW,  SR,  CL ]],
        /* ES   */  [[ IG,  NO,  FW,  ES,  CL ], [ NO,  IG,  FW,  ES,  CL ]],
        /* FW   */  [[ IG,  NO,  LA,  CW,  CL ], [ NO,  IG,  LA,  CW,  CL ]],
        /* CW   */  [[ IG,  NO,  LA,  CW,  CL ], [ NO,  IG,  LA,  CW,  CL ]],
        /* LA   */  [[ IG,  NO,  LA,  TW,  CL ], [ NO,  IG,  LA,  TW,  CL ]],
        /* TW   */  [[ SS,  NO,  TW,  TW,  CL ], [ SS,  IG,  TW,  TW,  CL ]],
        /* CL   */  [[ SS,  NO,  CL,  CL,  CL ], [ NO,  IG,  CL,  CL,  CL ]],
        /* S2   */  [[ S2,  SR,  NO,  NO,  CL ], [ S2,  SR,  NO,  IG,  CL ]],
    ]
};
