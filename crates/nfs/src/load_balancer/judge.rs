//! What judges a run of the balancer under `policy = "round-robin"`: which backend has which flow, as packets to services
//! show it. It shares no code with what it judges: it reads options, and packets' headers.
//!
//! A flow goes to a backend that takes flows, and stays with it as long as it lives; turns are even. With `rewrite_answers`
//! what comes from a backend leaves as the service's that it answers for, unless a client opened the connection to the backend
//! itself, and a client's ICMP errors go to its flow's backend. A full table forgets
//! flows, which may choose again: there may be as many of these as it turned away, and turns are not counted then.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nf::{Counted, Hearing, Judge, Left, Passage, Ruling};
use wire::{Addr, Headers, IcmpPorts, protocol, tcp_flags};

use crate::ends::{Endpoint, Ends};
use crate::firsts::Firsts;

mod flows;

use flows::{End, Flow, Key, Stage, With, is_tcp_with, opens_tcp};

/// Drop reasons, by their places in the function's list.
const NO_BACKEND: u8 = 0;
const FRAGMENT: u8 = 1;

/// What the chain file says.
pub(super) struct Rules {
    pub(super) services: Vec<ServiceRule>,
    /// Whether flows are followed in both directions, and answers rewritten.
    pub(super) rewrites: bool,
    pub(super) opening_ns: u64,
    pub(super) open_ns: u64,
    pub(super) closing_ns: u64,
    pub(super) datagrams_ns: u64,
    /// Whether later fragments come with the ports of their first.
    pub(super) follows_fragments: bool,
}

/// A service: those of one address and port come before ranges.
pub(super) struct ServiceRule {
    pub(super) name: String,
    /// The address, or a range's first, and how many of its 128 bits count.
    pub(super) vip: Addr,
    pub(super) bits: u32,
    /// `None`: any.
    pub(super) port: Option<u16>,
    pub(super) protocol: u8,
    /// Those that take flows.
    pub(super) backends: Vec<BackendRule>,
    /// Address and port of all that have an address, those too that take no flows: from there it is answered.
    pub(super) answering: Vec<(Addr, u16)>,
}

/// What a packet to a backend is written to; `None` stays.
#[derive(Clone, Copy)]
pub(super) struct BackendRule {
    pub(super) addr: Option<Addr>,
    pub(super) port: Option<u16>,
    pub(super) mac: Option<[u8; 6]>,
    pub(super) weight: u64,
}

/// A judge of one run.
pub(super) fn judge(rules: Rules, hearing: Hearing) -> Box<dyn Judge> {
    let turns = rules.services.iter().map(|service| vec![0; service.backends.len()]).collect();
    Box::new(BalancerJudge {
        rules,
        shares: hearing.shares,
        firsts: Firsts::default(),
        flows: BTreeMap::new(),
        turns,
        changed: None,
        changes: 0,
    })
}

struct BalancerJudge {
    rules: Rules,
    /// How many have turns of their own.
    shares: u64,
    firsts: Firsts,
    flows: BTreeMap<Key, Flow>,
    /// By service and backend: how many flows took their turns.
    turns: Vec<Vec<u64>>,
    /// The first flow that did not go on as it was.
    changed: Option<String>,
    changes: u64,
}

impl Judge for BalancerJudge {
    fn packet(&mut self, passage: &Passage<'_>) -> Ruling {
        let mut ruling = Ruling::NONE;
        let mut came = wire::parse(passage.link, passage.came, passage.wire_len);
        if self.rules.follows_fragments {
            self.firsts.complete(passage.came, &mut came);
            if came.is_lone_fragment() {
                // A function before this one dropped its first, which the entrance saw: ports are not known here.
                return ruling;
            }
        }
        let is_flow = matches!(came.protocol, protocol::TCP | protocol::UDP) && came.has_flow();
        let service = self.service((came.dst, came.dst_port), came.protocol).filter(|_| is_flow);
        let heard = match service {
            Some(service) => self.asks_service(service, &came, passage, &mut ruling),
            // Nothing of it depends on the flows then.
            None if !self.rules.rewrites => Ok(()),
            None if is_flow => self.past_services(&came, passage, &mut ruling),
            None => self.message(&came, passage, &mut ruling),
        };
        ruling.wrong = heard.err();
        ruling
    }

    fn end(&mut self, counted: &Counted<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        let forgotten = counted.evicted + counted.rejected;
        if self.changes > forgotten {
            let first = self.changed.take().unwrap_or_default();
            let changes = self.changes;
            wrong.push(format!(
                "{changes} flows did not go on as they were, and {forgotten} were forgotten; {first}"
            ));
        }
        if forgotten > 0 {
            return wrong;
        }
        for (service, turns) in self.rules.services.iter().zip(&self.turns) {
            let (taken, weights): (u64, u64) =
                (turns.iter().sum(), service.backends.iter().map(|backend| backend.weight).sum());
            for (place, (turns, backend)) in turns.iter().zip(&service.backends).enumerate() {
                // Each core with turns of its own is off by less than one at either end of what it gave out.
                let (has, due) = (u128::from(turns * weights), u128::from(taken * backend.weight));
                if has.abs_diff(due) >= u128::from(2 * self.shares * weights) {
                    let name = &service.name;
                    wrong.push(format!("backend {} of {name} took {turns} of {taken} turns", place + 1));
                }
            }
        }
        wrong
    }
}

impl BalancerJudge {
    /// Whether a fragment is dropped for being the first of several.
    fn refuses(&self, came: &Headers) -> bool {
        came.is_first_fragment() && !self.rules.follows_fragments
    }

    /// A packet leaves as an answer of the service at `vip`.
    fn is_answer(&self, vip: Option<End>, came: &Headers, passage: &Passage<'_>) -> Result<(), String> {
        let (addr, port) = vip.ok_or("its sender answers for no service")?;
        if self.refuses(came) {
            return fragment_was_dropped(passage);
        }
        let bytes = match passage.left {
            Left::Dropped(_) => return Err("an answer was dropped".into()),
            Left::Unseen => return Ok(()),
            Left::Sent(bytes) => bytes,
        };
        let sent = sent_as((addr, port), (came.dst, came.dst_port), came, passage, bytes);
        match (sent.src, sent.src_port, sent.dst, sent.dst_port) == (addr, port, came.dst, came.dst_port) {
            true => Ok(()),
            false => Err(format!(
                "an answer of {addr} port {port} left from {} port {} to {} port {}",
                sent.src, sent.src_port, sent.dst, sent.dst_port
            )),
        }
    }

    /// The place of the service that a packet of this protocol is to.
    fn service(&self, (addr, to_port): End, of: u8) -> Option<usize> {
        let is_it = |service: &&ServiceRule| {
            let differs = u128::from_be_bytes(service.vip.0) ^ u128::from_be_bytes(addr.0);
            let counts = u128::MAX.checked_shl(128 - service.bits).unwrap_or(0);
            differs & counts == 0 && service.port.is_none_or(|port| port == to_port) && service.protocol == of
        };
        let is_one = |service: &ServiceRule| service.bits == 128 && service.port.is_some();
        let find = |one: bool| {
            self.rules.services.iter().position(|service| is_one(service) == one && is_it(&service))
        };
        find(true).or_else(|| find(false))
    }

    /// Address and port of the service for which a backend with this end answers, if it is one's.
    fn answers_for(&self, end: End, of: u8) -> Option<End> {
        let mut services = self.rules.services.iter().filter(|service| service.protocol == of);
        let service = services.find(|service| service.answering.contains(&end))?;
        Some((service.vip, service.port?))
    }

    fn timeout_ns(&self, stage: Stage) -> u64 {
        match stage {
            Stage::Opening => self.rules.opening_ns,
            Stage::Open => self.rules.open_ns,
            Stage::Closing => self.rules.closing_ns,
            Stage::Datagrams => self.rules.datagrams_ns,
        }
    }

    fn key(&self, src: End, dst: End, of: u8) -> Key {
        if self.rules.rewrites && dst < src { (dst, src, of) } else { (src, dst, of) }
    }

    fn known(&self, key: Key, now_ns: u64) -> Option<Flow> {
        self.flows.get(&key).copied().filter(|flow| now_ns < flow.deadline_ns)
    }

    /// A packet finds the flow, which begins its time-out anew.
    fn renew(&mut self, key: Key, flow: Flow, now_ns: u64) {
        let deadline_ns = now_ns.saturating_add(self.timeout_ns(flow.stage));
        self.flows.insert(key, Flow { deadline_ns, ..flow });
    }

    /// A flow did not go on as it was: it was forgotten, or the answer is wrong.
    fn change(&mut self, passage: &Passage<'_>, what: impl FnOnce() -> String) {
        self.changes += 1;
        self.changed.get_or_insert_with(|| format!("packet {}: {}", passage.stamp.seq + 1, what()));
    }

    /// A flow's packet went to this backend.
    fn went_to(&mut self, flow: &mut Flow, backend: usize, passage: &Passage<'_>) {
        if let Some(had) = flow.backend
            && had != backend
        {
            self.change(passage, || format!("from backend {} to {}", had + 1, backend + 1));
        }
        if let (None, true, With::Service(service)) = (flow.backend, flow.took_turn, flow.with) {
            self.turns[service][backend] += 1;
        }
        flow.backend = Some(backend);
    }

    fn asks_service(
        &mut self,
        service: usize,
        came: &Headers,
        passage: &Passage<'_>,
        ruling: &mut Ruling,
    ) -> Result<(), String> {
        let key = self.key((came.src, came.src_port), (came.dst, came.dst_port), came.protocol);
        let (seq, now_ns) = (passage.stamp.seq, passage.stamp.time_ns);
        let opens = opens_tcp(came);
        let known = self.known(key, now_ns);
        if self.refuses(came) {
            if let Some(flow) = known {
                self.renew(key, flow, now_ns);
            }
            return fragment_was_dropped(passage);
        }
        let known = known.filter(|flow| !(flow.stage == Stage::Closing && opens));
        let rules = &self.rules.services[service];
        let backend = match passage.left {
            Left::Dropped(NO_BACKEND) if rules.backends.is_empty() => {
                self.flows.remove(&key);
                return Ok(());
            }
            Left::Dropped(_) => return Err(format!("dropped, though {} has backends", rules.name)),
            _ if rules.backends.is_empty() => {
                return Err(format!("not dropped, and {} has no backend", rules.name));
            }
            Left::Unseen => None,
            Left::Sent(bytes) => Some(sent_to(rules, came, passage, bytes)?),
        };
        if backend.is_some() {
            rename(came, passage, ruling);
        }
        let stage = Stage::behind(known.map(|flow| flow.stage), came);
        let is_reset = is_tcp_with(came, tcp_flags::RST);
        let with = With::Service(service);
        let took_turn = !is_reset && (came.protocol != protocol::TCP || opens) && !came.is_followed();
        let mut flow = match known {
            Some(flow) if flow.with == with => flow,
            // With both directions as one flow it may go to another service now, which chooses.
            Some(flow) => Flow { with, backend: None, took_turn, ..flow },
            // A later fragment opens no flow: its first found no room.
            None if came.is_followed() => return Ok(()),
            None if is_reset => {
                self.flows.remove(&key);
                return Ok(());
            }
            None => {
                let made = seq + 1;
                Flow { made, with, backend: None, deadline_ns: 0, stage, took_turn, is_forgotten: false }
            }
        };
        flow.stage = stage;
        if let Some(backend) = backend {
            self.went_to(&mut flow, backend, passage);
        }
        ruling.own = flow.made;
        self.renew(key, flow, now_ns);
        Ok(())
    }

    /// TCP or UDP to no service: a backend's answer, what clients and backends send each other directly, or a packet of others.
    fn past_services(
        &mut self,
        came: &Headers,
        passage: &Passage<'_>,
        ruling: &mut Ruling,
    ) -> Result<(), String> {
        let (src, dst) = ((came.src, came.src_port), (came.dst, came.dst_port));
        let key = self.key(src, dst, came.protocol);
        let now_ns = passage.stamp.time_ns;
        let known = self.known(key, now_ns);
        let opens = (came.protocol != protocol::TCP || opens_tcp(came))
            && !is_tcp_with(came, tcp_flags::RST)
            && !came.is_followed()
            && self.answers_for(dst, came.protocol).is_some();
        let (is_direct, flow) = match known {
            Some(Flow { with: With::Backend { client }, stage, is_forgotten, .. }) => {
                let (is_direct, stage) = match is_forgotten && opens && src == client {
                    true => (true, Some(Stage::behind(None, came))),
                    false => stage.between(src == client, came),
                };
                (is_direct, stage.zip(known).map(|(stage, flow)| Flow { stage, ..flow }))
            }
            Some(flow) => (false, Some(flow)),
            None if opens => {
                let (made, stage) = (passage.stamp.seq + 1, Stage::behind(None, came));
                let with = With::Backend { client: src };
                let (backend, took_turn, is_forgotten) = (None, false, false);
                (true, Some(Flow { made, with, backend, deadline_ns: 0, stage, took_turn, is_forgotten }))
            }
            None => (false, None),
        };
        match flow {
            Some(flow) => self.renew(key, flow, now_ns),
            None => {
                self.flows.remove(&key);
            }
        }
        let vip = self.answers_for(src, came.protocol);
        let as_services = self.is_answer(vip, came, passage);
        match known.filter(|_| is_direct) {
            Some(known) if vip.is_some() => {
                ruling.meant = known.made;
                self.of_direct((key, known), is_unchanged(came, passage), as_services.is_ok(), passage)
            }
            None if !is_direct && vip.is_some() => as_services,
            _ => is_unchanged(came, passage),
        }
    }

    /// What comes from a backend's side in a connection that a client opened to it stays as it is. What a full table has
    /// forgotten, or never had, leaves as a service's.
    fn of_direct(
        &mut self,
        (key, known): (Key, Flow),
        stays: Result<(), String>,
        is_services: bool,
        passage: &Passage<'_>,
    ) -> Result<(), String> {
        if !matches!(passage.left, Left::Unseen) && (stays.is_ok() || is_services) {
            let is_forgotten = stays.is_err();
            if is_forgotten && !known.is_forgotten {
                self.change(passage, || "an answer of a direct connection left as a service's".into());
            }
            if let Some(flow) = self.flows.get_mut(&key) {
                flow.is_forgotten = is_forgotten;
            }
            return Ok(());
        }
        stays
    }

    /// Neither TCP nor UDP. ICMP errors over IPv4 are judged: others do not depend on flows, and are compared as they are.
    fn message(&mut self, came: &Headers, passage: &Passage<'_>, ruling: &mut Ruling) -> Result<(), String> {
        let Some(IcmpPorts::Error { protocol: about, is_from_destination }) = came.icmp_ports() else {
            return Ok(());
        };
        let is_of_flow = matches!(about, protocol::TCP | protocol::UDP);
        let asked = came.quoted_destination().filter(|asked| is_of_flow && asked.to_v4().is_some());
        let Some(asked) = asked else { return Ok(()) };
        let (asked, dst) = ((asked, came.src_port), (came.dst, came.dst_port));
        let (key, now_ns) = (self.key(asked, dst, about), passage.stamp.time_ns);
        // A router's is of no flow: the function follows both directions by what is sent from end to end.
        let known = self.known(key, now_ns).filter(|_| is_from_destination);
        if let Some(flow) = known {
            self.renew(key, flow, now_ns);
        }
        let ends = Ends::of(passage.link, passage.came, passage.wire_len).ok_or("its ends cannot be read")?;
        let service = self.service(dst, about);
        let vip = self.answers_for(asked, about);
        let as_services = |vip: End| {
            let src = endpoint(vip)?;
            let quoted = ends.quoted.map(|(from, _)| (from, src));
            Some(Ends { src: Endpoint { port: 0, ..src }, quoted, ..ends })
        };
        if let Some(flow @ Flow { with: With::Backend { .. }, .. }) = known {
            ruling.meant = flow.made;
            let as_services = vip.and_then(as_services);
            let is_services = as_services.is_some_and(|ends| left_as(ends, passage).is_ok());
            return self.of_direct((key, flow), left_as(ends, passage), is_services, passage);
        }
        if self.refuses(came) {
            let is_dropped = service.is_some() || vip.is_some();
            return if is_dropped { fragment_was_dropped(passage) } else { Ok(()) };
        }
        match (service, vip) {
            (Some(service), _) => self.error_to_service(service, (key, known), (came, ends), passage, ruling),
            (None, Some(vip)) => {
                left_as(as_services(vip).ok_or("of another IP version than its service")?, passage)
            }
            (None, None) => left_as(ends, passage),
        }
    }

    /// An error about what a service sent: it goes to the flow's backend, or to the one that the hash says, which is the same in
    /// all runs.
    fn error_to_service(
        &mut self,
        service: usize,
        (key, known): (Key, Option<Flow>),
        (came, ends): (&Headers, Ends),
        passage: &Passage<'_>,
        ruling: &mut Ruling,
    ) -> Result<(), String> {
        let rules = &self.rules.services[service];
        let bytes = match passage.left {
            Left::Dropped(NO_BACKEND) if rules.backends.is_empty() => return Ok(()),
            Left::Dropped(_) => return Err(format!("an error to {} was dropped", rules.name)),
            Left::Unseen => return Ok(()),
            Left::Sent(bytes) => bytes,
        };
        let sent = Ends::of(passage.link, bytes, bytes.len() as u32);
        let is_it = |backend: &BackendRule| {
            let to = (backend.addr.unwrap_or(came.dst), backend.port.unwrap_or(came.dst_port));
            let expected = endpoint(to).map(|to| Ends {
                dst: Endpoint { port: 0, ..to },
                quoted: ends.quoted.map(|(_, to_client)| (to, to_client)),
                ..ends
            });
            expected.is_some() && sent == expected && has_mac(backend, passage, bytes)
        };
        let backend = rules.backends.iter().position(is_it);
        let Some(backend) = backend else {
            let sent = sent.map_or_else(String::new, |sent| format!(": it left as {sent}"));
            return Err(format!("an error to {} went to none of its backends{sent}", rules.name));
        };
        if let Some(mut flow) = known.filter(|flow| flow.with == With::Service(service)) {
            rename(came, passage, ruling);
            ruling.own = flow.made;
            self.went_to(&mut flow, backend, passage);
            self.renew(key, flow, passage.stamp.time_ns);
        }
        Ok(())
    }
}

/// A packet to a backend is compared as if it were to the service.
fn rename(came: &Headers, passage: &Passage<'_>, ruling: &mut Ruling) {
    ruling.rename.set_dst(came.dst);
    ruling.rename.set_dst_port(came.dst_port);
    if let Some(mac) = mac(passage, passage.came) {
        ruling.rename.set_dst_mac(mac);
    }
}

fn fragment_was_dropped(passage: &Passage<'_>) -> Result<(), String> {
    match passage.left {
        Left::Dropped(FRAGMENT) => Ok(()),
        _ => Err("a fragment was not dropped".into()),
    }
}

/// Which backend a packet left for.
fn sent_to(
    rules: &ServiceRule,
    came: &Headers,
    passage: &Passage<'_>,
    bytes: &[u8],
) -> Result<usize, String> {
    let sent = wire::parse(passage.link, bytes, bytes.len() as u32);
    let is_it = |backend: &BackendRule| {
        // A later fragment shows no ports.
        let is_to_port = came.is_followed() || sent.dst_port == backend.port.unwrap_or(came.dst_port);
        sent.dst == backend.addr.unwrap_or(came.dst) && is_to_port && has_mac(backend, passage, bytes)
    };
    let to =
        || format!("left for {} port {}, which is no backend of {}", sent.dst, sent.dst_port, rules.name);
    rules.backends.iter().position(is_it).ok_or_else(to)
}

/// The headers with which a packet left. A later fragment shows no ports: they are taken to be those that it should have.
fn sent_as(src: End, dst: End, came: &Headers, passage: &Passage<'_>, bytes: &[u8]) -> Headers {
    let sent = wire::parse(passage.link, bytes, bytes.len() as u32);
    match came.is_followed() {
        true => Headers { src_port: src.1, dst_port: dst.1, ..sent },
        false => sent,
    }
}

/// TCP or UDP that is no service's passes with the ends that it has.
fn is_unchanged(came: &Headers, passage: &Passage<'_>) -> Result<(), String> {
    let bytes = match passage.left {
        Left::Dropped(_) => return Err("dropped, and it is no service's".into()),
        Left::Unseen => return Ok(()),
        Left::Sent(bytes) => bytes,
    };
    let sent = sent_as((came.src, came.src_port), (came.dst, came.dst_port), came, passage, bytes);
    let ends = |headers: &Headers| (headers.src, headers.src_port, headers.dst, headers.dst_port);
    match ends(&sent) == ends(came) {
        true => Ok(()),
        false => Err(format!(
            "no service's, and it left from {} port {} to {} port {}",
            sent.src, sent.src_port, sent.dst, sent.dst_port
        )),
    }
}

/// An ICMP error leaves with these ends.
fn left_as(expected: Ends, passage: &Passage<'_>) -> Result<(), String> {
    let bytes = match passage.left {
        Left::Dropped(_) => return Err("an error was dropped".into()),
        Left::Unseen => return Ok(()),
        Left::Sent(bytes) => bytes,
    };
    match Ends::of(passage.link, bytes, bytes.len() as u32) {
        Some(sent) if sent == expected => Ok(()),
        Some(sent) => Err(format!("an error left as {sent}, and not as {expected}")),
        None => Err("an error left, and its ends cannot be read".into()),
    }
}

fn endpoint((addr, port): End) -> Option<Endpoint> {
    Some(Endpoint { addr: addr.to_v4()?, port })
}

/// Whether a packet left to the MAC address that one for this backend has.
fn has_mac(backend: &BackendRule, passage: &Passage<'_>, bytes: &[u8]) -> bool {
    let came = mac(passage, passage.came);
    mac(passage, bytes) == backend.mac.filter(|_| came.is_some()).or(came)
}

/// The destination's MAC address of an Ethernet frame.
fn mac(passage: &Passage<'_>, bytes: &[u8]) -> Option<[u8; 6]> {
    let is_ethernet = passage.link == wire::LinkType::Ethernet;
    bytes.get(..6).filter(|_| is_ethernet)?.try_into().ok()
}

#[cfg(test)]
mod tests;
