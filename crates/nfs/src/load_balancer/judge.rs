//! What judges a run of the balancer under `policy = "round-robin"`: which backend has which flow, as packets to services
//! show it. It shares no code with what it judges: it reads options, and packets' headers.
//!
//! A flow goes to a backend that takes flows, and stays with it as long as it lives; turns are even. A full table forgets
//! flows, which may choose again: there may be as many of these as it turned away, and turns are not counted then.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nf::{Counted, Hearing, Judge, Left, Passage, Ruling};
use wire::{Addr, Headers, Marks, protocol, tcp_flags};

/// Drop reasons, by their places in the function's list.
const NO_BACKEND: u8 = 0;
const FRAGMENT: u8 = 1;

/// What the chain file says.
pub(super) struct Rules {
    pub(super) services: Vec<ServiceRule>,
    pub(super) opening_ns: u64,
    pub(super) open_ns: u64,
    pub(super) closing_ns: u64,
    pub(super) datagrams_ns: u64,
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
    flows: BTreeMap<Key, Flow>,
    /// By service and backend: how many flows took their turns.
    turns: Vec<Vec<u64>>,
    /// The first flow that went to another backend.
    changed: Option<String>,
    changes: u64,
}

/// Source, destination, ports, protocol.
type Key = (Addr, Addr, u16, u16, u8);

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// One more than the number of its first packet.
    made: u64,
    /// Its place among the service's. `None`: no packet of it has left the chain yet.
    backend: Option<usize>,
    /// It lives at times before this.
    deadline_ns: u64,
    stage: Stage,
    took_turn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Closing,
    Datagrams,
}

impl Judge for BalancerJudge {
    fn packet(&mut self, passage: &Passage<'_>) -> Ruling {
        let mut ruling = Ruling::NONE;
        let came = wire::parse(passage.link, passage.came, passage.wire_len);
        let is_flow = matches!(came.protocol, protocol::TCP | protocol::UDP) && came.has_transport();
        let Some(service) = self.service(&came).filter(|_| is_flow) else { return ruling };
        if let Err(why) = self.hear(service, &came, passage, &mut ruling) {
            ruling.wrong = Some(why);
        }
        ruling
    }

    fn end(&mut self, counted: &Counted<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        let forgotten = counted.evicted + counted.rejected;
        if self.changes > forgotten {
            let first = self.changed.take().unwrap_or_default();
            let changes = self.changes;
            wrong.push(format!(
                "{changes} flows went to another backend, and {forgotten} were forgotten; {first}"
            ));
        }
        if forgotten > 0 {
            return wrong;
        }
        for (service, turns) in self.rules.services.iter().zip(&self.turns) {
            let (taken, weights): (u64, u64) =
                (turns.iter().sum(), service.backends.iter().map(|backend| backend.weight).sum());
            for (place, (turns, backend)) in turns.iter().zip(&service.backends).enumerate() {
                // Each who has turns of his own is off by less than one at either end of what he gave out.
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
    /// The place of the service that a packet is to.
    fn service(&self, came: &Headers) -> Option<usize> {
        let is_it = |service: &&ServiceRule| {
            let differs = u128::from_be_bytes(service.vip.0) ^ u128::from_be_bytes(came.dst.0);
            let counts = u128::MAX.checked_shl(128 - service.bits).unwrap_or(0);
            differs & counts == 0
                && service.port.is_none_or(|port| port == came.dst_port)
                && service.protocol == came.protocol
        };
        let is_one = |service: &ServiceRule| service.bits == 128 && service.port.is_some();
        let find = |one: bool| {
            self.rules.services.iter().position(|service| is_one(service) == one && is_it(&service))
        };
        find(true).or_else(|| find(false))
    }

    fn timeout_ns(&self, stage: Stage) -> u64 {
        match stage {
            Stage::Opening => self.rules.opening_ns,
            Stage::Open => self.rules.open_ns,
            Stage::Closing => self.rules.closing_ns,
            Stage::Datagrams => self.rules.datagrams_ns,
        }
    }

    fn hear(
        &mut self,
        service: usize,
        came: &Headers,
        passage: &Passage<'_>,
        ruling: &mut Ruling,
    ) -> Result<(), String> {
        let key = (came.src, came.dst, came.src_port, came.dst_port, came.protocol);
        let (seq, now_ns) = (passage.stamp.seq, passage.stamp.time_ns);
        let opens = came.tcp_flags & tcp_flags::SYN != 0 && came.tcp_flags & tcp_flags::ACK == 0;
        let is_tcp = came.protocol == protocol::TCP;
        let known = self.flows.get(&key).copied().filter(|flow| now_ns < flow.deadline_ns);
        if came.marks.contains(Marks::FIRST_FRAGMENT) {
            if let Some(flow) = known {
                self.flows.insert(key, Flow { deadline_ns: now_ns + self.timeout_ns(flow.stage), ..flow });
            }
            return match passage.left {
                Left::Dropped(FRAGMENT) => Ok(()),
                _ => Err("a fragment was not dropped".into()),
            };
        }
        let known = known.filter(|flow| !(flow.stage == Stage::Closing && is_tcp && opens));
        let rules = &self.rules.services[service];
        let backend = match passage.left {
            Left::Dropped(NO_BACKEND) if rules.backends.is_empty() => return Ok(()),
            Left::Dropped(_) => return Err(format!("dropped, though {} has backends", rules.name)),
            _ if rules.backends.is_empty() => {
                return Err(format!("not dropped, and {} has no backend", rules.name));
            }
            Left::Unseen => None,
            Left::Sent(bytes) => Some(sent_to(rules, came, passage, bytes)?),
        };
        if backend.is_some() {
            ruling.rename.set_dst(came.dst);
            ruling.rename.set_dst_port(came.dst_port);
            if let Some(mac) = mac(passage, passage.came) {
                ruling.rename.set_dst_mac(mac);
            }
        }
        let ends = is_tcp && came.tcp_flags & (tcp_flags::FIN | tcp_flags::RST) != 0;
        let stage = match known.map(|flow| flow.stage) {
            _ if !is_tcp => Stage::Datagrams,
            _ if ends => Stage::Closing,
            None => Stage::Opening,
            Some(Stage::Opening) if came.tcp_flags & tcp_flags::SYN == 0 => Stage::Open,
            Some(stage) => stage,
        };
        let is_reset = is_tcp && came.tcp_flags & tcp_flags::RST != 0;
        let mut flow = match known {
            Some(flow) => flow,
            None if is_reset => {
                self.flows.remove(&key);
                return Ok(());
            }
            None => Flow { made: seq + 1, backend: None, deadline_ns: 0, stage, took_turn: !is_tcp || opens },
        };
        (flow.stage, flow.deadline_ns) = (stage, now_ns.saturating_add(self.timeout_ns(stage)));
        if let (Some(had), Some(has)) = (flow.backend, backend)
            && had != has
        {
            self.changes += 1;
            let number = seq + 1;
            self.changed
                .get_or_insert_with(|| format!("packet {number}: from backend {} to {}", had + 1, has + 1));
        }
        if let (None, Some(has), true) = (flow.backend, backend, flow.took_turn) {
            self.turns[service][has] += 1;
        }
        flow.backend = backend.or(flow.backend);
        ruling.own = flow.made;
        self.flows.insert(key, flow);
        Ok(())
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
    let (mac_came, mac_sent) = (mac(passage, passage.came), mac(passage, bytes));
    let is_it = |backend: &BackendRule| {
        sent.dst == backend.addr.unwrap_or(came.dst)
            && sent.dst_port == backend.port.unwrap_or(came.dst_port)
            && mac_sent == backend.mac.filter(|_| mac_came.is_some()).or(mac_came)
    };
    let to =
        || format!("left for {} port {}, which is no backend of {}", sent.dst, sent.dst_port, rules.name);
    rules.backends.iter().position(is_it).ok_or_else(to)
}

/// The destination's MAC address of an Ethernet frame.
fn mac(passage: &Passage<'_>, bytes: &[u8]) -> Option<[u8; 6]> {
    let is_ethernet = passage.link == wire::LinkType::Ethernet;
    bytes.get(..6).filter(|_| is_ethernet)?.try_into().ok()
}

#[cfg(test)]
mod tests;
