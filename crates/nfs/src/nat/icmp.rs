//! ICMP across the NAT (RFC 5508): queries have mappings as UDP has, by their identifiers; errors go where the
//! packets that they quote came from, and leave mappings as they are.

use nf::{Cx, Verdict};

use super::ports::Pool;
use super::state::{Message, Meta, State};
use super::{ERRORS_TRANSLATED, FRAGMENT, NO_MAPPING, Nat, PACKETS_HAIRPINNED, UNTRANSLATED, Way, direct};

impl Nat {
    /// Any message.
    #[inline(never)]
    pub(super) fn icmp(
        &self,
        way: Way,
        flow: &mut Option<State>,
        meta: &Meta,
        cx: &mut Cx<'_, Pool>,
    ) -> Verdict {
        let is_error = matches!(meta.message, Message::ErrorFromHost | Message::ErrorFromRouter);
        let verdict = match (meta.message, way) {
            (_, Way::Past) => Verdict::Forward,
            _ if self.refuses(meta.fragment) => Verdict::Drop(FRAGMENT),
            (Message::Other, _) => Verdict::Drop(UNTRANSLATED),
            _ if is_error => self.error(way, flow.as_ref(), meta, cx),
            (Message::Request, Way::Out) => self.outbound(flow, meta, cx),
            (Message::Reply, Way::In(address)) => self.inbound(address, meta, cx),
            // Nobody asked: to pass it would tell an inside address.
            (_, Way::Out) => Verdict::Drop(NO_MAPPING),
            // A request names nobody behind the external address, and is for the NAT itself.
            _ => self.unmatched.verdict(NO_MAPPING),
        };
        flow.iter_mut().for_each(|state| self.follow_up(state, meta, cx));
        verdict
    }

    /// What a packet of its endpoint does to a mapping, whatever became of it.
    pub(super) fn follow_up(&self, state: &mut State, meta: &Meta, cx: &mut Cx<'_, Pool>) {
        match meta.message {
            // RFC 5508 REQ-6, RFC 4787 REQ-12: an error neither refreshes a mapping nor ends it.
            Message::ErrorFromHost | Message::ErrorFromRouter => {
                let deadline_ns = cx.pool.deadline_ns(state.external(meta.protocol));
                state.left_ns = deadline_ns.saturating_sub(cx.stamp.time_ns);
            }
            _ => self.refresh(state, meta, cx),
        }
    }

    /// RFC 5508 REQ-4, REQ-5, REQ-7. The edits are of the quoted packet, too: see [`wire::Edits`].
    fn error(&self, way: Way, flow: Option<&State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let to = match way {
            Way::In(address) | Way::Hairpin(address) => {
                let inside = cx.pool.inside(meta.destination(address), cx.stamp.time_ns);
                let inside = inside.filter(|_| self.hairpinning || matches!(way, Way::In(_)));
                let Some(inside) = inside else { return self.unmatched.verdict(NO_MAPPING) };
                Some(inside)
            }
            Way::Out | Way::Past => None,
        };
        if !matches!(way, Way::In(_)) {
            let Some(state) = flow else { return Verdict::Drop(NO_MAPPING) };
            cx.edits.set_src(self.sides.external_addr(state.address));
            cx.edits.set_src_port(state.port);
        }
        if let Some(inside) = to {
            direct(inside, cx.edits);
            if matches!(way, Way::Hairpin(_)) {
                cx.count(PACKETS_HAIRPINNED);
            }
        }
        cx.count(ERRORS_TRANSLATED);
        Verdict::Forward
    }
}
