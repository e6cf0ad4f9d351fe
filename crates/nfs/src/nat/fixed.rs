//! Packets with an end that is fixed: port forwards, and hosts with an external address of their own. What such an end
//! becomes is in the options, so it takes no mapping, no port and no room, and any core says the same of it.

use nf::{Counterpart, Cx, Verdict};
use wire::{Addr, Edits, protocol};

use super::ports::Pool;
use super::state::{Message, Meta, State};
use super::{
    ERRORS_TRANSLATED, FRAGMENT, NO_MAPPING, Nat, PACKETS_HAIRPINNED, PACKETS_IN, PACKETS_OUT, UNTRANSLATED,
};

/// Who gets a packet that is for an external address.
enum Receiver {
    Fixed(Counterpart),
    /// By a mapping at this external address.
    Mapped(u8),
}

impl Nat {
    /// What more is set than most NATs have: fixed ends, or a largest segment.
    #[inline(never)]
    pub(super) fn step_with_more(
        &self,
        flow: &mut Option<State>,
        meta: &Meta,
        cx: &mut Cx<'_, Pool>,
    ) -> Verdict {
        let verdict = match self.fixed_step(flow, meta, cx) {
            Some(verdict) => {
                flow.iter_mut().for_each(|state| self.follow_up(state, meta, cx));
                verdict
            }
            None => self.step_by_mapping(flow, meta, cx),
        };
        if self.mss > 0 && verdict == Verdict::Forward && meta.opens() && self.crosses(meta) {
            cx.edits.lower_mss(self.mss);
        }
        verdict
    }

    /// From one side to the other, an external address included.
    fn crosses(&self, meta: &Meta) -> bool {
        let is_external = || {
            let fixed = self.fixed.inside(Addr::v4(meta.dst), meta.protocol, meta.dst_port);
            self.sides.external(meta.dst).is_some() || fixed.is_some()
        };
        match (self.sides.is_inside(meta.src), self.sides.is_inside(meta.dst)) {
            (true, to_inside) => !to_inside,
            (false, to_inside) => to_inside || is_external(),
        }
    }

    /// `None`: no end of the packet is fixed, or it does not cross.
    fn fixed_step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Option<Verdict> {
        if self.fixed.is_empty() || !self.crosses(meta) {
            return None;
        }
        let is_from_inside = self.sides.is_inside(meta.src);
        let (src, dst) = (Addr::v4(meta.src), Addr::v4(meta.dst));
        // An error of a router is about a packet to another host, whose end is not known here.
        let has_source = is_from_inside && meta.message != Message::ErrorFromRouter;
        let source = if has_source { self.fixed.external(src, meta.protocol, meta.src_port) } else { None };
        let fixed = self.fixed.inside(dst, meta.protocol, meta.dst_port);
        let receiver = match fixed {
            Some(to) => Some(Receiver::Fixed(to)),
            None if source.is_none() => return None,
            None => self.sides.external(meta.dst).map(Receiver::Mapped),
        };
        Some(match (is_from_inside, receiver) {
            (false, Some(Receiver::Fixed(to))) => self.in_to(to, meta, cx),
            (false, _) => return None,
            (true, None) => self.out_from(source?, meta, cx),
            (true, Some(receiver)) => self.hairpin_fixed(source, receiver, flow, meta, cx),
        })
    }

    /// What becomes of a packet whatever its ends become. An address as a whole is translated for all that has addresses.
    fn refuses_fixed(&self, by_address: bool, meta: &Meta) -> Option<Verdict> {
        match meta.message {
            // Of a fragment nobody knows.
            Message::Other if !self.refuses(meta.fragment) => Some(Verdict::Drop(UNTRANSLATED)),
            _ if self.refuses(meta.fragment) && !by_address => Some(Verdict::Drop(FRAGMENT)),
            Message::None if !by_address && !matches!(meta.protocol, protocol::UDP | protocol::TCP) => {
                Some(self.other_protocols.verdict(UNTRANSLATED))
            }
            _ => None,
        }
    }

    fn in_to(&self, to: Counterpart, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        if let Some(verdict) = self.refuses_fixed(to.port.is_none(), meta) {
            return verdict;
        }
        direct_to(to, cx.edits);
        cx.count(if is_error(meta) { ERRORS_TRANSLATED } else { PACKETS_IN });
        Verdict::Forward
    }

    fn out_from(&self, source: Counterpart, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        if let Some(verdict) = self.refuses_fixed(source.port.is_none(), meta) {
            return verdict;
        }
        send_from(source, cx.edits);
        cx.count(if is_error(meta) { ERRORS_TRANSLATED } else { PACKETS_OUT });
        Verdict::Forward
    }

    /// RFC 4787 §6, RFC 7857 §12: from inside to an external address; each end is fixed or has a mapping.
    fn hairpin_fixed(
        &self,
        source: Option<Counterpart>,
        receiver: Receiver,
        flow: &mut Option<State>,
        meta: &Meta,
        cx: &mut Cx<'_, Pool>,
    ) -> Verdict {
        let is_by_address = |end: &Counterpart| end.port.is_none();
        let by_address = source.as_ref().is_some_and(is_by_address)
            && matches!(&receiver, Receiver::Fixed(to) if is_by_address(to));
        if let Some(verdict) = self.refuses_fixed(by_address, meta) {
            return verdict;
        }
        // Looked up first, so that a packet to nobody takes no port.
        let to = match receiver {
            Receiver::Fixed(to) => Some(to),
            Receiver::Mapped(_) if meta.message == Message::Request => None,
            Receiver::Mapped(address) => {
                let inside = cx.pool.inside(meta.destination(address), cx.stamp.time_ns);
                inside.map(|(addr, port)| Counterpart { addr: Addr::v4(addr), port: Some(port) })
            }
        };
        let Some(to) = to.filter(|_| self.hairpinning) else { return self.unmatched.verdict(NO_MAPPING) };
        let verdict = match (source, flow.as_ref()) {
            (Some(source), _) => {
                send_from(source, cx.edits);
                if !is_error(meta) {
                    cx.count(PACKETS_OUT);
                }
                Verdict::Forward
            }
            (None, _) if matches!(meta.message, Message::None | Message::Request) => {
                self.outbound(flow, meta, cx)
            }
            (None, Some(state)) if is_error(meta) => {
                cx.edits.set_src(self.sides.external_addr(state.address));
                cx.edits.set_src_port(state.port);
                Verdict::Forward
            }
            _ => Verdict::Drop(NO_MAPPING),
        };
        if verdict == Verdict::Forward {
            direct_to(to, cx.edits);
            cx.count(PACKETS_HAIRPINNED);
            if is_error(meta) {
                cx.count(ERRORS_TRANSLATED);
            }
        }
        verdict
    }
}

fn is_error(meta: &Meta) -> bool {
    matches!(meta.message, Message::ErrorFromHost | Message::ErrorFromRouter)
}

fn direct_to(to: Counterpart, edits: &mut Edits) {
    edits.set_dst(to.addr);
    if let Some(port) = to.port {
        edits.set_dst_port(port);
    }
}

fn send_from(source: Counterpart, edits: &mut Edits) {
    edits.set_src(source.addr);
    if let Some(port) = source.port {
        edits.set_src_port(port);
    }
}
