//! What judges a run of the NAT: an automaton that sees packets come and go, learns from those that leave which mapping
//! has which external endpoint, and says of each packet whether it went where the [module's page](super) has it go.
//!
//! It shares no code with what it judges: it reads options, and packets' bytes. Where the core that a packet comes to may
//! be behind another, as it may for hairpinned packets, it holds the answer to what some order of the packets in flight
//! allows, and counts it. A full table that evicts ends mappings early, and what they were begun anew with is not always
//! told from what they had: there may be as many of these as were evicted.

mod fixed;
mod lives;

use core::ops::RangeInclusive;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::prefix::PrefixSet;
use nf::{Counted, FixedEnd, Hearing, Judge, Left, Passage, Ruling};
use wire::{Addr, Headers, IcmpPorts, Marks, protocol};

use crate::ends::{Endpoint, Ends, sums_are_right};
use crate::firsts::Firsts;
use lives::{Key, Life, Lives, Phase, Stage};

/// Drop reasons, by their places in the function's list.
const REASONS: [&str; 6] =
    ["no-port", "no-mapping", "fragment", "untranslated", "table-full", "ports-per-host"];
const NO_PORT: u8 = 0;
const NO_MAPPING: u8 = 1;
const FRAGMENT: u8 = 2;
const UNTRANSLATED: u8 = 3;
const TABLE_FULL: u8 = 4;
const HOST_HAS_MOST: u8 = 5;

/// So many refusals for want of a port are looked into: each looks at all mappings.
const REFUSALS_LOOKED_INTO: u64 = 1_000;

/// What the chain file says.
pub(super) struct Rules {
    pub(super) inside: PrefixSet,
    pub(super) external: Vec<[u8; 4]>,
    pub(super) ports: RangeInclusive<u16>,
    pub(super) preserves: bool,
    pub(super) udp_ns: u64,
    pub(super) tcp_in_use_ns: u64,
    pub(super) tcp_opening_ns: u64,
    pub(super) tcp_closing_ns: u64,
    pub(super) icmp_ns: u64,
    pub(super) hairpinning: bool,
    pub(super) drops_unmatched: bool,
    pub(super) drops_others: bool,
    /// External ends with the inside ends that they stand for.
    pub(super) fixed: Vec<FixedEnd>,
    /// The largest segment that SYNs may announce; 0: any.
    pub(super) mss: u16,
    /// How many mappings an inside host may have; 0: any number.
    pub(super) ports_per_host: usize,
    /// Whether later fragments come with what their first said.
    pub(super) follows_fragments: bool,
}

/// A judge of one run.
pub(super) fn judge(rules: Rules, hearing: Hearing) -> Box<dyn Judge> {
    let counts = Counts::default();
    let (lives, pairs, cut, ahead) = (Lives::default(), BTreeMap::new(), None, Vec::new());
    let firsts = Firsts::default();
    Box::new(NatJudge { rules, hearing, firsts, lives, pairs, counts, cut, ahead, seq: 0, now_ns: 0 })
}

struct NatJudge {
    rules: Rules,
    hearing: Hearing,
    firsts: Firsts,
    lives: Lives,
    /// By inside host: its external address.
    pairs: BTreeMap<[u8; 4], [u8; 4]>,
    counts: Counts,
    /// The first mapping that was gone before its end.
    cut: Option<String>,
    /// Packets between cores that went to an endpoint whose mapping must be made soon: their number, the external
    /// endpoint, and the inside one.
    ahead: Vec<(u64, Key, Key)>,
    /// The number of the packet that is looked at.
    seq: u64,
    /// Its time.
    now_ns: u64,
}

/// What the function should have counted.
#[derive(Default)]
struct Counts {
    made: u64,
    /// How many mappings have shown their external endpoints.
    shown: u64,
    parity_lost: u64,
    packets_out: u64,
    packets_in: u64,
    hairpinned: u64,
    errors: u64,
    /// Refusals for want of a port.
    no_port: u64,
    /// Mappings that were gone before their end.
    cut: u64,
    /// Later fragments whose first did not come to the NAT.
    unknown: u64,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// TCP or UDP.
    Transport,
    Request,
    Reply,
    Error {
        from_destination: bool,
    },
    OtherMessage,
    OtherProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In,
    Hairpin,
    Past,
}

/// A packet as it came, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Came<'a> {
    kind: Kind,
    way: Way,
    /// A fragment that cannot be translated by ports.
    is_fragment: bool,
    /// A later fragment, whose ports are those of its first.
    is_followed: bool,
    flags: u8,
    /// Protocol of the mapping that it is of.
    protocol: u8,
    /// The sender's endpoint; of an error, the one that the quoted packet was sent to.
    src: Endpoint,
    /// The receiver's endpoint; of an error, that of its receiver.
    dst: Endpoint,
    ends: Ends,
    left: Left<'a>,
    /// The ends with which it left, if it did and they can be read.
    sent: Option<Ends>,
}

/// What has to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Drop(u8),
    Unchanged,
    /// With these ends, if so.
    Changed {
        src: Option<Endpoint>,
        dst: Option<Endpoint>,
    },
    /// What does not show cannot be told.
    Either,
}

impl Judge for NatJudge {
    fn packet(&mut self, passage: &Passage<'_>) -> Ruling {
        (self.seq, self.now_ns) = (passage.stamp.seq, passage.stamp.time_ns);
        let mut ruling = Ruling::NONE;
        let mut headers = wire::parse(passage.link, passage.came, passage.wire_len);
        if self.rules.follows_fragments {
            self.firsts.complete(passage.came, &mut headers);
            if headers.is_lone_fragment() {
                // A function before this one dropped its first, which the entrance saw: ports are not known here.
                self.counts.unknown += 1;
                return ruling;
            }
        }
        let Some(came) = self.came(&headers, passage) else { return ruling };
        let judged = self.due(&came, &mut ruling).and_then(|due| {
            if let (Due::Changed { src: Some(_), .. }, Left::Sent(_)) = (due, passage.left) {
                ruling.rename.set_src(came.src.wire_addr());
                ruling.rename.set_src_port(came.src.port);
            }
            check(due, &came, passage)?;
            self.check_mss(&came, passage)
        });
        ruling.wrong = judged.err().map(|why| format!("{}: {why}", came.ends));
        ruling
    }

    fn end(&mut self, counted: &Counted<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        let Counts { made, shown, parity_lost, packets_out, packets_in, hairpinned, errors, cut, .. } =
            self.counts;
        let unknown = self.counts.unknown;
        let mut hold = |index: usize, name: &str, least: u64, most: u64| {
            let count = counted.events.get(index).copied().unwrap_or(0);
            if !(least..=most).contains(&count) {
                wrong.push(format!("{name} counted {count}, and packets show {least}"));
            }
        };
        // What a full table refuses leaves no trace in these. A mapping that was evicted may have got its port again.
        let evicted = counted.evicted;
        hold(0, "mappings-made", made.saturating_sub(evicted), made + evicted);
        hold(1, "parity-lost", parity_lost.saturating_sub(evicted), parity_lost + made - shown + evicted);
        hold(2, "packets-out", packets_out, packets_out + unknown);
        hold(3, "packets-in", packets_in, packets_in + unknown);
        hold(4, "packets-hairpinned", hairpinned, hairpinned + unknown);
        hold(5, "errors-translated", errors, errors);
        if cut > evicted {
            let first = self.cut.take().unwrap_or_default();
            wrong.push(format!(
                "{cut} mappings changed or were gone before their end, and {evicted} were evicted; {first}"
            ));
        }
        if let Some((seq, external, inside)) = self.ahead.first() {
            let (number, (external, _), (inside, _)) = (seq + 1, external, inside);
            wrong.push(format!("packet {number} to {external} went to {inside}, which never had that"));
        }
        wrong
    }
}

impl NatJudge {
    /// `None` if the packet is not IPv4, or its ends cannot be read.
    fn came<'a>(&mut self, headers: &Headers, passage: &Passage<'a>) -> Option<Came<'a>> {
        if !headers.marks.contains(Marks::IPV4) {
            return None;
        }
        let ends = Ends::of(passage.link, passage.came, passage.wire_len)?;
        let (kind, of) = match (headers.protocol, headers.icmp_ports()) {
            (protocol::TCP | protocol::UDP, _) => (Kind::Transport, headers.protocol),
            (protocol::ICMP, Some(IcmpPorts::Request)) => (Kind::Request, protocol::ICMP),
            (protocol::ICMP, Some(IcmpPorts::Reply)) => (Kind::Reply, protocol::ICMP),
            (protocol::ICMP, Some(IcmpPorts::Error { protocol, is_from_destination })) => {
                (Kind::Error { from_destination: is_from_destination }, protocol)
            }
            (protocol::ICMP, None) => (Kind::OtherMessage, protocol::ICMP),
            (other, _) => (Kind::OtherProtocol, other),
        };
        let is_inside = |addr: [u8; 4]| self.rules.inside.contains(Addr::v4(addr));
        let (from, to) = (ends.src.addr, ends.dst.addr);
        let is_external = self.rules.external.contains(&to) || self.is_one_hosts(to);
        let way = match (is_inside(from), is_external) {
            (true, true) => Way::Hairpin,
            (false, true) => Way::In,
            (true, false) if !is_inside(to) => Way::Out,
            _ => Way::Past,
        };
        let mut came = Came {
            kind,
            way,
            is_fragment: headers.is_lone_fragment()
                || headers.is_first_fragment() && !self.rules.follows_fragments,
            is_followed: headers.is_followed(),
            flags: if headers.is_tcp() { headers.tcp_flags } else { 0 },
            protocol: of,
            src: Endpoint { addr: from, port: headers.src_port },
            dst: Endpoint { addr: to, port: headers.dst_port },
            ends,
            left: passage.left,
            sent: match passage.left {
                Left::Sent(bytes) => Ends::of(passage.link, bytes, bytes.len() as u32),
                _ => None,
            },
        };
        if came.is_followed && !matches!(kind, Kind::Error { .. }) {
            self.show_ports(&mut came);
        }
        Some(came)
    }

    /// A later fragment shows no ports: where its addresses are those of its mapping, or stay, the ports are taken to be so, too.
    fn show_ports(&mut self, came: &mut Came<'_>) {
        let (src, dst) = (came.src, came.dst);
        (came.ends.src.port, came.ends.dst.port) = (src.port, dst.port);
        let mapped = self.lives.of_inside((src, came.protocol), self.now_ns).and_then(|life| life.external);
        let owner = self.lives.of_external((dst, came.protocol), self.now_ns).map(|(owner, _)| owner.0);
        let fixed_src = self.fixed_end(src, came.protocol, false);
        let fixed_dst = self.fixed_end(dst, came.protocol, true);
        let Some(sent) = &mut came.sent else { return };
        let port = |shown: Endpoint, candidates: [Option<Endpoint>; 3]| {
            candidates.into_iter().flatten().find(|end| end.addr == shown.addr).map_or(0, |end| end.port)
        };
        sent.src.port = port(sent.src, [fixed_src, mapped, Some(src)]);
        sent.dst.port = port(sent.dst, [fixed_dst, owner, Some(dst)]);
    }

    fn due(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        if let Some(due) = self.of_fixed(came, ruling) {
            return due;
        }
        match (came.kind, came.way) {
            (_, Way::Past) => return Ok(Due::Unchanged),
            (Kind::Transport, _) if !came.is_fragment => return self.of_connection(came, ruling),
            (Kind::Request, Way::Out) if !came.is_fragment => return self.outbound(came, ruling),
            _ => {}
        }
        if !matches!(came.kind, Kind::Error { .. }) {
            self.refresh(came);
        }
        match (came.kind, came.way) {
            (Kind::OtherProtocol, _) if !self.rules.drops_others => Ok(Due::Unchanged),
            (Kind::OtherProtocol, _) => Ok(Due::Drop(UNTRANSLATED)),
            _ if came.is_fragment => Ok(Due::Drop(FRAGMENT)),
            (Kind::OtherMessage, _) => Ok(Due::Drop(UNTRANSLATED)),
            (Kind::Error { from_destination }, _) => self.error(came, from_destination, ruling),
            (Kind::Reply, Way::In) => self.inbound(came, ruling),
            (_, Way::Out) => Ok(Due::Drop(NO_MAPPING)),
            _ => Ok(self.unmatched()),
        }
    }

    fn of_connection(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        match came.way {
            Way::Out | Way::Past => self.outbound(came, ruling),
            Way::In => self.inbound(came, ruling),
            Way::Hairpin => self.hairpin(came, ruling),
        }
    }

    fn unmatched(&self) -> Due {
        if self.rules.drops_unmatched { Due::Drop(NO_MAPPING) } else { Due::Unchanged }
    }

    fn timeout_ns(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Datagrams => self.rules.udp_ns,
            Phase::Query => self.rules.icmp_ns,
            Phase::Tcp { stage: Stage::InUse, .. } => self.rules.tcp_in_use_ns,
            Phase::Tcp { stage: Stage::Opening, .. } => self.rules.tcp_opening_ns,
            Phase::Tcp { stage: Stage::Closing, .. } => self.rules.tcp_closing_ns,
        }
    }

    /// A packet of the owner of a mapping that tells nothing more.
    fn refresh(&mut self, came: &Came<'_>) {
        let key = (came.src, came.protocol);
        let has_key = matches!(came.kind, Kind::Transport | Kind::Request);
        if let Some(life) = self.lives.of_inside(key, self.now_ns).filter(|_| has_key) {
            let phase = life.phase;
            self.renew(key, phase);
        }
    }

    /// A mapping begins its time-out anew.
    fn renew(&mut self, key: Key, phase: Phase) {
        let deadline_ns = self.now_ns.saturating_add(self.timeout_ns(phase));
        if let Some(life) = self.lives.of_inside(key, self.now_ns) {
            life.touch(self.seq, deadline_ns);
            life.phase = phase;
        }
    }

    /// A packet that leaves by the mapping of its sender, which is made if need be.
    fn outbound(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        let key = (came.src, came.protocol);
        if came.is_followed {
            return Ok(self.later_outbound(key, came, ruling));
        }
        let shown = came.sent.map(|ends| ends.src);
        let refused = match came.left {
            Left::Dropped(reason @ (NO_PORT | TABLE_FULL | HOST_HAS_MOST)) => Some(reason),
            Left::Dropped(reason) => return Err(format!("dropped as {}, though it goes out", name(reason))),
            _ => None,
        };
        if let Some(life) = self.lives.of_inside(key, self.now_ns).copied() {
            let is_same = shown.is_none() || life.external.is_none() || life.external == shown;
            if is_same && refused.is_none() {
                self.renew(key, life.phase.after(came.flags, came.dst));
                ruling.own = life.made;
                self.counts.packets_out += 1;
                if let (None, Some(external)) = (life.external, shown) {
                    self.show(key, external, false)?;
                }
                return Ok(Due::Changed { src: life.external.or(shown), dst: None });
            }
            let had = life.external.map_or_else(|| "its mapping".into(), |external| format!("{external}"));
            let why = match shown {
                Some(shown) => format!("{} left as {shown}, and had {had}", came.src),
                None => format!("{} was refused, and had {had}", came.src),
            };
            self.cut(key, &why);
        }
        // Where each core counts for itself, or evicted mappings are taken for living ones, it cannot be told.
        let is_told = !self.hearing.is_divided && !self.hearing.evicts;
        let has_most = match self.rules.ports_per_host {
            0 => false,
            most => self.lives.of_host(came.src.addr, self.now_ns) >= most,
        };
        if is_told && has_most && refused != Some(HOST_HAS_MOST) {
            return Err(format!("{} was not refused, and its host has as many mappings as it may", came.src));
        }
        match refused {
            Some(HOST_HAS_MOST) if is_told && !has_most => {
                Err("dropped as ports-per-host, and its host has fewer mappings".into())
            }
            Some(NO_PORT) => self.no_port_left(came).map(|()| Due::Drop(NO_PORT)),
            Some(reason) => Ok(Due::Drop(reason)),
            None => {
                let phase = Phase::begin(came.protocol, came.flags, came.dst);
                let deadline_ns = self.now_ns.saturating_add(self.timeout_ns(phase));
                let admitted = shown.map_or(Ok(()), |external| self.admit(key, external, true));
                self.lives.make(key, Life::new(self.seq, deadline_ns, phase));
                self.counts.made += 1;
                self.counts.packets_out += 1;
                ruling.own = self.seq + 1;
                admitted?;
                if let Some(external) = shown {
                    self.note_shown(key, external);
                }
                Ok(Due::Changed { src: shown, dst: None })
            }
        }
    }

    /// A later fragment that leaves by the mapping that its first found or made; it makes none.
    fn later_outbound(&mut self, key: Key, came: &Came<'_>, ruling: &mut Ruling) -> Due {
        let Some(life) = self.lives.of_inside(key, self.now_ns).copied() else { return Due::Drop(FRAGMENT) };
        if came.left == Left::Dropped(FRAGMENT) {
            self.cut(key, &format!("a later fragment of {} was dropped, and it has a mapping", came.src));
            return Due::Drop(FRAGMENT);
        }
        self.renew(key, life.phase);
        ruling.own = life.made;
        self.counts.packets_out += 1;
        match life.external {
            Some(_) => Due::Changed { src: life.external, dst: None },
            None => Due::Either,
        }
    }

    fn inbound(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        let due = self.receiver(came, came.sent.map(|ends| ends.dst), ruling)?;
        self.counts.packets_in += u64::from(matches!(due, Due::Changed { .. }));
        if due == Due::Either {
            // Whichever host gets it, it was let in: what is not matched would have been dropped.
            self.counts.packets_in += u64::from(self.rules.drops_unmatched);
        }
        Ok(due)
    }

    fn hairpin(&mut self, came: &Came<'_>, ruling: &mut Ruling) -> Result<Due, String> {
        let to = match self.rules.hairpinning {
            true => self.receiver(came, came.sent.map(|ends| ends.dst), ruling)?,
            false => self.unmatched(),
        };
        let (Due::Changed { .. } | Due::Either) = to else {
            self.refresh(came);
            return Ok(to);
        };
        let due = self.outbound(came, ruling)?;
        self.counts.hairpinned += u64::from(matches!(due, Due::Changed { .. }));
        match (due, to) {
            (Due::Changed { src, .. }, Due::Changed { dst, .. }) => Ok(Due::Changed { src, dst }),
            (Due::Changed { .. }, _) => Ok(Due::Either),
            _ => Ok(due),
        }
    }

    /// An error changes no mapping.
    fn error(&mut self, came: &Came<'_>, from_destination: bool, ruling: &mut Ruling) -> Result<Due, String> {
        let key = (came.src, came.protocol);
        let sender = match from_destination && came.way != Way::In {
            true => self.lives.of_inside(key, self.now_ns).copied(),
            false => None,
        };
        let is_let_go = !matches!(came.left, Left::Dropped(_)) && from_destination && came.way != Way::In;
        let sender = sender.or_else(|| is_let_go.then(|| self.revive(key, "sends an error"))?);
        let mut dst = None;
        if came.way != Way::Out {
            if came.way == Way::Hairpin && !self.rules.hairpinning {
                return Ok(self.unmatched());
            }
            let has_receiver = self.lives.of_external((came.dst, came.protocol), self.now_ns).is_some();
            if came.way == Way::Hairpin && sender.is_none() && has_receiver {
                return Ok(Due::Drop(NO_MAPPING));
            }
            match self.receiver(came, came.sent.and_then(|ends| Some(ends.quoted?.0)), ruling)? {
                Due::Changed { dst: to, .. } => dst = to,
                Due::Either => {}
                other => return Ok(other),
            }
        }
        if came.way == Way::In {
            self.counts.errors += 1;
            return Ok(if dst.is_some() { Due::Changed { src: None, dst } } else { Due::Either });
        }
        let Some(sender) = sender else { return Ok(Due::Drop(NO_MAPPING)) };
        ruling.own = sender.made;
        if came.left == Left::Dropped(NO_MAPPING) {
            self.cut(key, &format!("an error of {} was dropped as no-mapping, and it has one", came.src));
            return Ok(Due::Drop(NO_MAPPING));
        }
        self.counts.errors += 1;
        self.counts.hairpinned += u64::from(came.way == Way::Hairpin);
        let shown = came.sent.and_then(|ends| Some(ends.quoted?.1));
        if let (None, Some(external)) = (sender.external, shown) {
            self.show(key, external, false)?;
        }
        Ok(Due::Changed { src: sender.external.or(shown), dst })
    }

    /// Who gets what is sent to an external endpoint: nobody, or a changed destination. `to` is who got it, if that shows.
    fn receiver(
        &mut self,
        came: &Came<'_>,
        to: Option<Endpoint>,
        ruling: &mut Ruling,
    ) -> Result<Due, String> {
        let external = (came.dst, came.protocol);
        let in_flight = if came.way == Way::Hairpin { self.hearing.in_flight } else { 0 };
        if let Some((owner, made)) = self.lives.of_external(external, self.now_ns) {
            ruling.meant = made;
            let is_missed = came.left == Left::Dropped(NO_MAPPING);
            // An evicted mapping's port may be another's, which has not been seen yet.
            let is_others = to.is_some_and(|to| to != owner.0 && self.is_unseen((to, came.protocol)));
            if !is_missed && !is_others {
                return Ok(Due::Changed { src: None, dst: Some(owner.0) });
            }
            if in_flight > 0 && self.lives.may_be_missed(owner, (self.seq, self.now_ns), in_flight) {
                ruling.in_flight = true;
                return Ok(self.unmatched());
            }
            self.cut(owner, &format!("{} was not let in to {}, which has it", came.dst, owner.0));
        }
        let Some(to) = to.filter(|to| *to != came.dst) else {
            let may_be_anyone = self.lives.has_unseen() || in_flight > 0 || self.hearing.evicts;
            return Ok(if came.left == Left::Unseen && may_be_anyone {
                Due::Either
            } else {
                self.unmatched()
            });
        };
        let inside = (to, came.protocol);
        let had_it = self.lives.was_of(external, inside);
        if let Some(life) = had_it.then(|| self.revive(inside, "is reached")).flatten() {
            ruling.meant = life.made;
        } else if self.is_unseen(inside) {
            self.show(inside, came.dst, false)?;
            ruling.meant = self.lives.of_external(external, self.now_ns).map_or(0, |(_, made)| made);
        } else if in_flight > 0 {
            ruling.in_flight = true;
            if !self.lives.was_a_moment_ago(external, inside, self.seq, in_flight) {
                self.ahead.push((self.seq, external, inside));
            }
        } else {
            return Err(format!("went to {to}, and {} is nobody's", came.dst));
        }
        Ok(Due::Changed { src: None, dst: Some(to) })
    }

    /// Whether an inside endpoint has a mapping whose external endpoint nobody has seen.
    fn is_unseen(&mut self, inside: Key) -> bool {
        self.lives.of_inside(inside, self.now_ns).is_some_and(|life| life.external.is_none())
    }

    /// A mapping that was made before shows its external endpoint.
    fn show(&mut self, key: Key, external: Endpoint, is_new: bool) -> Result<(), String> {
        self.admit(key, external, is_new)?;
        self.note_shown(key, external);
        Ok(())
    }

    fn note_shown(&mut self, key: Key, external: Endpoint) {
        self.lives.show(key, external, self.seq);
        self.counts.shown += 1;
        self.ahead.retain(|(_, of, inside)| (*of, *inside) != ((external, key.1), key));
    }

    /// Whether a mapping may have this external endpoint.
    fn admit(&mut self, key: Key, external: Endpoint, is_new: bool) -> Result<(), String> {
        let (inside, of) = key;
        if !self.rules.external.contains(&external.addr) || !self.rules.ports.contains(&external.port) {
            return Err(format!("left as {external}, which is none of `external` and `ports`"));
        }
        if let Some(to) = self.forwarded(external, of) {
            return Err(format!("{inside} got {external}, which always leads to {to}"));
        }
        if let Some((owner, _)) = self.lives.of_external((external, of), self.now_ns)
            && owner != key
        {
            self.cut(owner, &format!("{inside} got {external}, which {} has", owner.0));
        }
        let paired = *self.pairs.entry(inside.addr).or_insert(external.addr);
        if paired != external.addr {
            let paired = Endpoint { addr: paired, port: 0 };
            return Err(format!("{inside} got {external}, and its host has the address of {paired}"));
        }
        if of != protocol::ICMP {
            self.counts.parity_lost += u64::from(external.port % 2 != inside.port % 2);
        }
        let keeps = self.rules.preserves && (!self.hearing.is_divided || self.hearing.spreads_by_port);
        let own = Endpoint { addr: external.addr, port: inside.port };
        let is_to_be_had = self.rules.ports.contains(&inside.port)
            && self.lives.of_external((own, of), self.now_ns).is_none()
            && self.forwarded(own, of).is_none()
            && !self.lives.has_unseen()
            && !self.hearing.evicts;
        if is_new && keeps && own != external && is_to_be_had {
            return Err(format!("{inside} got {external}, and {own} is free"));
        }
        Ok(())
    }

    /// A mapping is gone before its end: it was evicted, or the answer is wrong.
    fn cut(&mut self, key: Key, why: &str) {
        self.counts.cut += 1;
        let number = self.seq + 1;
        self.cut.get_or_insert_with(|| format!("packet {number}: {why}"));
        if let Some(life) = self.lives.of_inside(key, self.now_ns) {
            life.deadline_ns = 0;
        }
    }

    /// A mapping lives on at which it is looked as dead: it was evicted, and begun anew with the same external endpoint, so that
    /// it knows less of its connections.
    fn revive(&mut self, key: Key, what: &str) -> Option<Life> {
        if !self.hearing.evicts {
            return None;
        }
        let in_use_ns = self.rules.tcp_in_use_ns;
        let timeout_ns = self.lives.last(key).map(|life| self.timeout_ns(life.phase))?;
        let now_ns = self.now_ns;
        let life = self.lives.last_mut(key)?;
        let deadline_ns = life.deadline_ns.saturating_sub(timeout_ns).saturating_add(in_use_ns);
        let Phase::Tcp { peer, has_others, .. } = life.phase else { return None };
        if now_ns >= deadline_ns {
            return None;
        }
        life.deadline_ns = deadline_ns;
        life.phase = Phase::Tcp { stage: Stage::InUse, peer, has_others };
        let life = *life;
        let number = self.seq + 1;
        self.counts.cut += 1;
        self.cut.get_or_insert_with(|| format!("packet {number}: {} {what}, whose mapping has ended", key.0));
        Some(life)
    }

    /// Where one core has all ports, some external address has to have none left.
    fn no_port_left(&mut self, came: &Came<'_>) -> Result<(), String> {
        self.counts.no_port += 1;
        let cannot_be_told = self.hearing.is_divided || self.hearing.evicts || self.lives.has_unseen();
        if cannot_be_told || self.counts.no_port > REFUSALS_LOOKED_INTO {
            return Ok(());
        }
        let mut addresses = self
            .rules
            .external
            .iter()
            .filter(|addr| self.pairs.get(&came.src.addr).is_none_or(|paired| paired == *addr));
        let all = |addr: [u8; 4]| self.rules.ports.len() - self.forwards_of(addr, came.protocol);
        match addresses.any(|addr| self.lives.ports_of(*addr, came.protocol, self.now_ns) >= all(*addr)) {
            true => Ok(()),
            false => Err("dropped as no-port, and there are ports left".into()),
        }
    }
}

/// Whether what is due became of a packet.
fn check(due: Due, came: &Came<'_>, passage: &Passage<'_>) -> Result<(), String> {
    let bytes = match (due, passage.left) {
        (Due::Drop(due), Left::Dropped(reason)) if due == reason => return Ok(()),
        (Due::Drop(due), Left::Dropped(reason)) => {
            return Err(format!("dropped as {}, and not as {}", name(reason), name(due)));
        }
        (Due::Drop(due), _) => {
            let sent = came.sent.map_or_else(String::new, |ends| format!(", and left as {ends}"));
            return Err(format!("not dropped as {}{sent}", name(due)));
        }
        (_, Left::Dropped(reason)) => return Err(format!("dropped as {}", name(reason))),
        (Due::Either, _) | (_, Left::Unseen) => return Ok(()),
        (_, Left::Sent(bytes)) => bytes,
    };
    let mut expected = came.ends;
    if let Due::Changed { src, dst } = due {
        let is_error = matches!(came.kind, Kind::Error { .. });
        if let Some(external) = src {
            expected.src = if is_error { Endpoint { port: 0, ..external } } else { external };
            expected.quoted = expected.quoted.map(|(from, _)| (from, external));
        }
        if let Some(inside) = dst {
            expected.dst = if is_error { Endpoint { port: 0, ..inside } } else { inside };
            expected.quoted = expected.quoted.map(|(_, to)| (inside, to));
        }
    }
    match came.sent {
        Some(sent) if sent == expected => {}
        Some(sent) => return Err(format!("left as {sent}, and not as {expected}")),
        None => return Err("left, and its ends cannot be read".into()),
    }
    let were_right = sums_are_right(passage.link, passage.came, passage.wire_len) == Some(true);
    if were_right && sums_are_right(passage.link, bytes, bytes.len() as u32) == Some(false) {
        return Err("left with a wrong checksum".into());
    }
    Ok(())
}

fn name(reason: u8) -> &'static str {
    REASONS.get(usize::from(reason)).copied().unwrap_or("another reason")
}

#[cfg(test)]
mod tests;
