//! Connections that clients open to a backend itself: their answers are no service's, and leave as they came.
//!
//! Which connection an answer is of, nothing in it says: client, backend and ports may be alike. So what a client opens
//! is remembered, and what nobody opened is a service's.

use nf::Cx;
use wire::tcp_flags;

use super::round_robin::Turns;
use super::state::{Followed, Meta, Phase, State};
use super::{DIRECT_FLOWS, LoadBalancer};

impl<K: Followed> LoadBalancer<K> {
    /// Whether the packet is of a connection that a client opened to a backend itself, which it steps, or opens one.
    ///
    /// TCP opens when the backend answers a SYN with SYN and ACK. An attacker who forges a SYN in the name of a
    /// client that talks to a service gets no such answer: the backend has that connection, and confirms it (RFC
    /// 9293 §3.10.7.4).
    pub(super) fn is_direct(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Turns>) -> bool {
        let Some(state) = flow else {
            let opens = meta.is_opening() && !meta.has(tcp_flags::RST) && self.services.is_to_backend(meta);
            if opens {
                *flow = Some(State::direct(meta));
                cx.count(DIRECT_FLOWS);
            }
            return opens;
        };
        if !state.is_direct() {
            return false;
        }
        let is_end = meta.has(tcp_flags::FIN | tcp_flags::RST);
        let phase = match (state.phase, state.is_from_client(meta)) {
            (Phase::Datagrams, _) => Some(Phase::Datagrams),
            (Phase::Opening, true) if is_end => None,
            (Phase::Opening, true) => Some(Phase::Opening),
            (Phase::Opening, false) if meta.has(tcp_flags::RST) => None,
            (Phase::Opening, false) if meta.has(tcp_flags::SYN) => Some(Phase::Open),
            // What the backend sends besides is of an older connection, of the service.
            (Phase::Opening, false) => return false,
            (Phase::Closing, true) if meta.is_tcp_opening() => Some(Phase::Opening),
            // An answer to a SYN that did not come by here as one to this backend: the next connection is a service's.
            (Phase::Closing, false) if meta.has(tcp_flags::SYN) => {
                *flow = None;
                return false;
            }
            (Phase::Open, _) if !is_end => Some(Phase::Open),
            (Phase::Open | Phase::Closing, _) => Some(Phase::Closing),
        };
        let packets = state.packets + 1;
        *flow = phase.map(|phase| State { packets, phase, ..*state });
        true
    }
}
