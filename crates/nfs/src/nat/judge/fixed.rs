//! What has to become of packets with an end that is fixed, and of the segment sizes that SYNs announce.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{End, FixedEnd, Left, Passage, Ruling};
use wire::{Addr, LinkType, protocol, tcp_flags};

use super::{Came, Due, FRAGMENT, Kind, NO_MAPPING, NatJudge, UNTRANSLATED, Way};
use crate::ends::Endpoint;

/// What a packet's end becomes, and whether that says nothing of its port.
#[derive(Clone, Copy)]
struct Becomes {
    end: Endpoint,
    is_whole: bool,
}

impl NatJudge {
    /// Whether all of an external address is of one host.
    pub(super) fn is_one_hosts(&self, addr: [u8; 4]) -> bool {
        self.rules.fixed.iter().any(|fixed| fixed.external == End { addr: Addr::v4(addr), port: None })
    }

    /// The inside endpoint of a port forward.
    pub(super) fn forwarded(&self, external: Endpoint, of: u8) -> Option<Endpoint> {
        let becomes = self.becomes(external, of, external.port, |fixed| (fixed.external, fixed.inside))?;
        (!becomes.is_whole).then_some(becomes.end)
    }

    /// How many of `ports` have forwards.
    pub(super) fn forwards_of(&self, addr: [u8; 4], of: u8) -> usize {
        let is_one = |fixed: &&FixedEnd| {
            let has_port = fixed
                .external
                .port
                .is_some_and(|(protocol, port)| protocol == of && self.rules.ports.contains(&port));
            fixed.external.addr == Addr::v4(addr) && has_port
        };
        self.rules.fixed.iter().filter(is_one).count()
    }

    /// What the end becomes that `from` says of a fixed one; `shown` is the port that it shows.
    fn becomes(
        &self,
        end: Endpoint,
        of: u8,
        shown: u16,
        from_and_to: impl Fn(&FixedEnd) -> (End, End),
    ) -> Option<Becomes> {
        let ends = || self.rules.fixed.iter().map(&from_and_to);
        let is_it = |port| move |(from, _): &(End, End)| *from == End { addr: end.wire_addr(), port };
        let found = ends().find(is_it(Some((of, end.port)))).or_else(|| ends().find(is_it(None)));
        let (_, to) = found?;
        let port = to.port.map_or(shown, |(_, port)| port);
        Some(Becomes { end: Endpoint { addr: to.addr.to_v4()?, port }, is_whole: to.port.is_none() })
    }

    /// What an end becomes that is fixed, on the way in or out.
    pub(super) fn fixed_end(&self, end: Endpoint, of: u8, inward: bool) -> Option<Endpoint> {
        let becomes = self.becomes(end, of, end.port, |fixed| match inward {
            true => (fixed.external, fixed.inside),
            false => (fixed.inside, fixed.external),
        });
        becomes.map(|becomes| becomes.end)
    }

    /// `None`: neither end is fixed.
    pub(super) fn of_fixed(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Option<Result<Due, String>> {
        if self.rules.fixed.is_empty() || came.way == Way::Past {
            return None;
        }
        let is_error = matches!(came.kind, Kind::Error { .. });
        let is_of_router = came.kind == Kind::Error { from_destination: false };
        let shown = |of_error: u16, other: u16| if is_error { of_error } else { other };
        let src = (came.way != Way::In && !is_of_router).then(|| {
            let port = shown(came.src.port, came.ends.src.port);
            self.becomes(came.src, came.protocol, port, |fixed| (fixed.inside, fixed.external))
        });
        let dst = (came.way != Way::Out).then(|| {
            let port = shown(came.dst.port, came.ends.dst.port);
            self.becomes(came.dst, came.protocol, port, |fixed| (fixed.external, fixed.inside))
        });
        let (src, dst) = (src.flatten(), dst.flatten());
        if src.is_none() && dst.is_none() {
            return None;
        }
        let is_whole = |becomes: Option<Becomes>| becomes.is_some_and(|becomes| becomes.is_whole);
        let by_address = match came.way {
            Way::Hairpin => is_whole(src) && is_whole(dst),
            _ => is_whole(src) || is_whole(dst),
        };
        let refused = match came.kind {
            Kind::OtherMessage if !came.is_fragment => Some(Due::Drop(UNTRANSLATED)),
            _ if came.is_fragment && !by_address => Some(Due::Drop(FRAGMENT)),
            Kind::OtherProtocol if !by_address && self.rules.drops_others => Some(Due::Drop(UNTRANSLATED)),
            Kind::OtherProtocol if !by_address => Some(Due::Unchanged),
            _ => None,
        };
        if let Some(due) = refused {
            self.refresh(came);
            return Some(Ok(due));
        }
        let (src, dst) = (src.map(|src| src.end), dst.map(|dst| dst.end));
        if came.way == Way::Hairpin {
            return Some(self.hairpin_fixed(came, src, dst, ruling));
        }
        match (is_error, came.way) {
            (true, _) => self.counts.errors += 1,
            (false, Way::In) => self.counts.packets_in += 1,
            (false, _) => self.counts.packets_out += 1,
        }
        Some(Ok(Due::Changed { src, dst }))
    }

    /// One of the two ends is fixed, or both are.
    fn hairpin_fixed(
        &mut self,
        came: &Came<'_>,
        src: Option<Endpoint>,
        dst: Option<Endpoint>,
        ruling: &mut Ruling,
    ) -> Result<Due, String> {
        let is_error = matches!(came.kind, Kind::Error { .. });
        let to = match dst {
            _ if !self.rules.hairpinning => self.unmatched(),
            Some(_) => Due::Changed { src: None, dst },
            None if came.kind == Kind::Request => self.unmatched(),
            None => {
                let got =
                    came.sent.and_then(|ends| if is_error { Some(ends.quoted?.0) } else { Some(ends.dst) });
                self.receiver(came, got, ruling)?
            }
        };
        let (Due::Changed { .. } | Due::Either) = to else {
            if !is_error {
                self.refresh(came);
            }
            return Ok(to);
        };
        let from = match src {
            Some(_) => {
                self.counts.packets_out += u64::from(!is_error);
                Due::Changed { src, dst: None }
            }
            None if matches!(came.kind, Kind::Transport | Kind::Request) => self.outbound(came, ruling)?,
            None if is_error => self.error_of_mapping(came, ruling)?,
            None => Due::Drop(NO_MAPPING),
        };
        if !matches!(from, Due::Changed { .. }) {
            return Ok(from);
        }
        self.counts.hairpinned += 1;
        self.counts.errors += u64::from(is_error);
        Ok(match (from, to) {
            (Due::Changed { src, .. }, Due::Changed { dst, .. }) => Due::Changed { src, dst },
            _ => Due::Either,
        })
    }

    /// The sender of an error has a mapping, or the error is dropped.
    fn error_of_mapping(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        let key = (came.src, came.protocol);
        let is_dropped = matches!(came.left, Left::Dropped(_));
        let has_key = came.kind == Kind::Error { from_destination: true };
        let life = self.lives.of_inside(key, self.now_ns).copied().filter(|_| has_key);
        let Some(life) =
            life.or_else(|| (has_key && !is_dropped).then(|| self.revive(key, "sends an error"))?)
        else {
            return Ok(Due::Drop(NO_MAPPING));
        };
        ruling.own = life.made;
        if came.left == Left::Dropped(NO_MAPPING) {
            self.cut(key, &format!("an error of {} was dropped as no-mapping, and it has one", came.src));
            return Ok(Due::Drop(NO_MAPPING));
        }
        let shown = came.sent.and_then(|ends| Some(ends.quoted?.1));
        if let (None, Some(external)) = (life.external, shown) {
            self.show(key, external, false)?;
        }
        Ok(Due::Changed { src: life.external.or(shown), dst: None })
    }

    /// A SYN that crosses announces no larger segment than it may, and nothing else is changed of what is announced.
    pub(super) fn check_mss(&self, came: &Came<'_>, passage: &Passage<'_>) -> Result<(), String> {
        let (most, Left::Sent(sent)) = (self.rules.mss, came.left) else { return Ok(()) };
        if most == 0 || came.kind != Kind::Transport || came.protocol != protocol::TCP {
            return Ok(());
        }
        let is_inside = |addr: [u8; 4]| self.rules.inside.contains(Addr::v4(addr));
        let crosses =
            came.way != Way::Past || is_inside(came.ends.dst.addr) && !is_inside(came.ends.src.addr);
        let is_lowered = crosses && came.flags & tcp_flags::SYN != 0;
        let due: Vec<u16> = announced(passage.link, passage.came, passage.wire_len)
            .into_iter()
            .map(|mss| if is_lowered { mss.min(most) } else { mss })
            .collect();
        let left = announced(passage.link, sent, sent.len() as u32);
        let is_cut = passage.wire_len as usize > passage.came.len();
        match due == left || is_cut {
            true => Ok(()),
            false => Err(format!("left with segment sizes {left:?}, and not with {due:?}")),
        }
    }
}

/// The segment sizes in a TCP header, in order.
fn announced(link: LinkType, frame: &[u8], wire_len: u32) -> Vec<u16> {
    let at = usize::from(wire::parse(link, frame, wire_len).l4_offset);
    let tcp = frame.get(at..).unwrap_or_default();
    let end = tcp.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4).min(tcp.len());
    let (mut sizes, mut at) = (Vec::new(), 20);
    while at < end {
        let len = match (tcp[at], tcp.get(at + 1)) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(len @ 2..)) => usize::from(*len),
            _ => break,
        };
        if let (2, 4, Some([high, low])) = (tcp[at], len, tcp.get(at + 2..(at + 4).min(end))) {
            sizes.push(u16::from_be_bytes([*high, *low]));
        }
        at += len;
    }
    sizes
}
