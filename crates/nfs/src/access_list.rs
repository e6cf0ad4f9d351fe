//! `access-list`: passes the connections that its rules allow, in both directions.
//!
//! FAJITA (CoNEXT'24) App. A.1, "Access Control List": a stateful one, which decides by the context of
//! the whole connection. State is a number: which rule the connection met.
//!
//! ```toml
//! [[function]]
//! use = "access-list"
//! rules = [
//!     "deny  any from 203.0.113.0/24 to any",
//!     "allow tcp from any to 198.51.100.10,2001:db8:2::10 port 80,443",
//!     "allow udp from any to 198.51.100.0/24 port 53",
//!     "allow icmp from any to any",
//! ]
//! ```
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `rules` | | none | the first that matches decides; at most 1000 |
//! | `default` | | `"deny"` | what happens where none matches: `"deny"` or `"allow"` |
//! | `unanswered_timeout_s` | s | 60 | forget a connection of which one direction was seen |
//! | `tcp_timeout_s` | s | 7440 | forget a TCP connection after this time without a packet |
//! | `closing_timeout_s` | s | 120 | the same after a FIN or RST |
//! | `other_timeout_s` | s | 300 | the same for what is not TCP |
//! | `denied_timeout_s` | s | 10 | forget that a connection was denied |
//! | `when_full` | | `"drop"` | packets of connections that are allowed while the table is full |
//!
//! # Rules
//!
//! ```text
//! allow|deny  PROTOCOL  from ADDRESSES [port PORTS]  to ADDRESSES [port PORTS]
//! ```
//!
//! - PROTOCOL is `any`, `tcp`, `udp`, `icmp` (for IPv6: ICMPv6), `sctp`, `dccp`, or a number.
//! - ADDRESSES are `any`, or prefixes: `10.0.0.0/8`, `2001:db8::1,2001:db8::2`.
//! - PORTS are ports and ranges: `80,443`, `6000-6063`. Only tcp, udp, sctp and dccp have them.
//! - Lists are written with commas and without spaces; as many spaces as you like elsewhere.
//!
//! A rule is about who begins: `allow tcp from 10.0.0.0/8 to any` lets 10.0.0.1 connect to anyone, and
//! get answers, but nobody connect to 10.0.0.1. The list is searched from its first rule on, once for
//! each connection: linear in the rules, and from then on a connection costs the same however long the
//! list is. It is searched again for packets that find no room in the table, for later fragments, and when
//! a denied connection is tried from its other end.
//!
//! # What passes, and for how long
//!
//! - The first packet of a connection decides, whichever TCP flags it has; `conntrack` before this one
//!   checks them. If it is allowed, the connection passes in both directions until it was idle for
//!   its time-out. (Two hours and four minutes for TCP is RFC 5382 REQ-5, five minutes for others RFC
//!   4787 REQ-5.)
//! - A denied packet denies its own direction only. The other end may still open the same connection, if
//!   a rule lets it: otherwise anyone could shut a connection by sending its answer too early.
//! - After a FIN or RST in either direction the connection passes on, with the short time-out. A SYN is
//!   then another connection, and meets the rules anew.
//! - ICMP between two hosts is one connection. An error from a router in between is another one, which
//!   wants `allow icmp`.
//! - A later fragment has no ports. It passes if the rules could allow a packet of its protocol between its
//!   two addresses, in one direction or the other: rules that allow match without their ports, and rules that
//!   deny some ports do not match. Without the first fragment, which has ports and is treated like any
//!   packet, no host makes anything of it (RFC 1858 §2). It leaves no state.
//! - What is not IP passes, such as ARP; so do neighbour solicitations and advertisements (RFC 4861 §7.1,
//!   hop limit 255), its like in IPv6.
//!
//! # Drops, events, expiry, full table
//!
//! - `denied-by-rule`, `denied-by-default`; `table-full`: see below.
//! - Events: `connections-allowed`, `connections-denied`, each time that the list was searched. The
//!   report says which rules the connections met that are remembered now.
//! - A forgotten connection's next packet meets the rules again.
//! - When the table is full a new connection that is allowed is dropped as `table-full`: its
//!   answers could not be told from anything else. With `when_full = "pass"` packets pass that a rule
//!   allows by themselves. `table_full = "evict-oldest"` lets denied ones go first, then unanswered ones,
//!   since their time-outs are the shortest: the right choice where strangers can send packets.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Connection, Cx, EndedOf, Extras, FlowKey, Flows, FullTable, FunctionReport, NetworkFunction,
    OptionDoc, OptionError, Reload, Reports, StateValue, Verdict,
};
use serde::Deserialize;
use wire::{Addr, Fields, Headers, Marks, Stamp, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::PassOrDrop;

mod rule;

pub use rule::Action;

use rule::{Packet, Rule};

const DENIED_BY_RULE: u8 = 0;
const DENIED_BY_DEFAULT: u8 = 1;
const TABLE_FULL: u8 = 2;

const CONNECTIONS_ALLOWED: usize = 0;
const CONNECTIONS_DENIED: usize = 1;

const RULES_MAX: usize = 1000;
/// In place of a rule's index: none matched.
const DEFAULT_RULE: u16 = u16::MAX;

/// The hop limit of neighbour discovery: what a router passed on has less (RFC 4861 §7.1).
const ON_LINK_HOP_LIMIT: u8 = 255;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Passes the connections that its rules allow: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct AccessList {
    rules: Vec<Rule>,
    default: Action,
    /// For the report, each beside its rule.
    texts: Vec<String>,
    timeouts: Timeouts,
    when_full: PassOrDrop,
}

/// Options of [`AccessList`]: see the [module's page](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The first that matches decides.
    pub rules: Vec<String>,
    /// What happens where none matches.
    pub default: Action,
    /// How long a connection is kept of which one direction was seen, s.
    pub unanswered_timeout_s: u32,
    /// How long a TCP connection is kept without a packet, s.
    pub tcp_timeout_s: u32,
    /// The same after a FIN or RST, s.
    pub closing_timeout_s: u32,
    /// The same for what is not TCP, s.
    pub other_timeout_s: u32,
    /// How long it is remembered that a connection was denied, s.
    pub denied_timeout_s: u32,
    /// What happens to packets of connections that are allowed while the table is full.
    pub when_full: PassOrDrop,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rules: Vec::new(),
            default: Action::Deny,
            unanswered_timeout_s: 60,
            tcp_timeout_s: 7440,
            closing_timeout_s: 120,
            other_timeout_s: 300,
            denied_timeout_s: 10,
            when_full: PassOrDrop::Drop,
        }
    }
}

/// The header fields that rules and connections are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    low: Addr,
    high: Addr,
    low_port: u16,
    high_port: u16,
    protocol: u8,
    tcp_flags: u8,
    /// 1 if the packet goes from `low` to `high`.
    is_from_low: u8,
    /// 1 for a later fragment.
    is_later_fragment: u8,
}

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Packets in both directions; of a denied one, those denied.
    pub packets: u32,
    /// Index of the rule that it met, 65,535 for the default.
    pub rule: u16,
    /// How far it is.
    pub phase: Phase,
    /// 1 if the packet that met the rule came from the key's `low` end.
    pub is_from_low: u8,
}

const _: () = assert!(size_of::<Meta>() == 40 && size_of::<State>() == 8);

/// How far a connection is; decides its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub enum Phase {
    /// Denied, in one direction.
    Denied,
    /// Allowed; no packet has come back yet.
    Unanswered,
    /// TCP, both directions seen.
    OpenTcp,
    /// Not TCP, both directions seen.
    OpenOther,
    /// TCP, after a FIN or RST.
    Closing,
}

#[derive(Clone, Copy, Debug)]
struct Timeouts {
    unanswered_ns: u64,
    tcp_ns: u64,
    closing_ns: u64,
    other_ns: u64,
    denied_ns: u64,
}

impl NetworkFunction for AccessList {
    const ABOUT: About = About {
        name: "access-list",
        summary: "passes connections that its rules allow, in both directions",
        spec: "FAJITA (CoNEXT'24) App. A.1: access control list; RFC 1858",
        options: OPTIONS,
        drop_reasons: &["denied-by-rule", "denied-by-default", "table-full"],
        events: &["connections-allowed", "connections-denied"],
    };
    const READS: Fields = Fields::FIVE_TUPLE
        .union(Fields::TCP_FLAGS)
        .union(Fields::MARKS)
        // Those of neighbor discovery.
        .union(Fields::TTL)
        .union(Fields::SEQ);
    const EDITS: Fields = Fields::empty();
    const EXTRAS: Extras<Self> = Extras {
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = Connection;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |message| OptionError { option: "rules", message };
        if options.rules.len() > RULES_MAX {
            return Err(error(format!("are {}; at most {RULES_MAX} are possible", options.rules.len())));
        }
        let mut rules = Vec::with_capacity(options.rules.len());
        for (number, text) in (1..).zip(&options.rules) {
            let rule = Rule::parse("rules", text)
                .map_err(|wrong| error(format!("rule {number}, \"{text}\", {wrong}")))?;
            rules.push(rule);
        }
        Ok(AccessList {
            timeouts: Timeouts::new(&options)?,
            rules,
            default: options.default,
            texts: options.rules,
            when_full: options.when_full,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        if !headers.is_ip() || is_neighbor_discovery(headers) {
            return None;
        }
        let Connection { low, high, low_port, high_port, protocol, .. } = Connection::of(headers);
        Some(Meta {
            low,
            high,
            low_port,
            high_port,
            protocol,
            tcp_flags: if headers.is_tcp() { headers.tcp_flags } else { 0 },
            is_from_low: Connection::is_from_low(headers).into(),
            is_later_fragment: headers.marks.contains(Marks::LATER_FRAGMENT).into(),
        })
    }

    #[inline]
    fn key(meta: &Meta) -> Connection {
        let Meta { low, high, low_port, high_port, protocol, .. } = *meta;
        Connection { low, high, low_port, high_port, protocol, zero: [0; 3] }
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        if meta.is_later_fragment != 0 {
            return self.later_fragment(meta);
        }
        if let Some(state) = flow
            && let Some(phase) = state.next_phase(meta)
        {
            state.phase = phase;
            state.packets = state.packets.saturating_add(1);
            return verdict(state);
        }
        let packet = meta.packet();
        let (rule, action) = self.search(|rule| rule.matches(&packet));
        let phase = match action {
            Action::Deny => Phase::Denied,
            Action::Allow if meta.closes() => Phase::Closing,
            Action::Allow => Phase::Unanswered,
        };
        cx.count(if action == Action::Allow { CONNECTIONS_ALLOWED } else { CONNECTIONS_DENIED });
        verdict(flow.insert(State { packets: 1, rule, phase, is_from_low: meta.is_from_low }))
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        let Timeouts { unanswered_ns, tcp_ns, closing_ns, other_ns, denied_ns } = self.timeouts;
        match state.phase {
            Phase::Denied => denied_ns,
            Phase::Unanswered => unanswered_ns,
            Phase::OpenTcp => tcp_ns,
            Phase::OpenOther => other_ns,
            Phase::Closing => closing_ns,
        }
    }
}

impl AccessList {
    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let rule = self.texts.get(usize::from(state.rule)).map_or("default", String::as_str);
        let phase = match state.phase {
            Phase::Denied => "denied",
            Phase::Unanswered => "unanswered",
            Phase::OpenTcp | Phase::OpenOther => "open",
            Phase::Closing => "closing",
        };
        vec![("phase", phase.into()), ("packets", state.packets.into()), ("rule", rule.into())]
    }

    fn rejected(&self, state: &State, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
        match verdict(state) {
            Verdict::Forward => self.when_full.verdict(TABLE_FULL),
            denied => denied,
        }
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        // One more than there are rules: the last is for the default.
        let mut counts = vec![[0_u64; 2]; self.rules.len() + 1];
        for (_, state) in flows {
            let [connections, packets] = &mut counts[usize::from(state.rule).min(self.rules.len())];
            *connections += 1;
            *packets += u64::from(state.packets);
        }
        let default = match self.default {
            Action::Allow => "allow what is left".to_string(),
            Action::Deny => "deny what is left".to_string(),
        };
        let row = |(number, (text, [connections, packets])): (usize, (&String, &[u64; 2]))| {
            let number = if number > self.rules.len() { "default".to_string() } else { number.to_string() };
            vec![number, text.clone(), connections.to_string(), packets.to_string()]
        };
        let live: u64 = counts.iter().map(|[connections, _]| connections).sum();
        vec![FunctionReport {
            title: format!("Connections now: {live}, by the rule that they met"),
            columns: vec!["rule", "text", "connections", "packets"],
            rows: (1..).zip(self.texts.iter().chain([&default]).zip(&counts)).map(row).collect(),
        }]
    }

    /// The first rule that matches, by its index, and what it says.
    #[inline]
    fn search(&self, matches: impl Fn(&Rule) -> bool) -> (u16, Action) {
        match (0..).zip(&self.rules).find(|(_, rule)| matches(rule)) {
            Some((index, rule)) => (index, rule.action),
            None => (DEFAULT_RULE, self.default),
        }
    }

    /// Whether a later fragment may belong to a packet that passes, or to an answer to one.
    fn later_fragment(&self, meta: &Meta) -> Verdict {
        let packet = meta.packet();
        let answered = packet.reversed();
        match self.search(|rule| rule.may_allow_or_denies(&packet)) {
            (_, Action::Allow) => Verdict::Forward,
            _ if self.search(|rule| rule.may_allow_or_denies(&answered)).1 == Action::Allow => {
                Verdict::Forward
            }
            (rule, Action::Deny) => denied_by(rule),
        }
    }
}

impl State {
    /// How far the connection is after a packet; `None` if the packet has to meet the rules.
    #[inline]
    fn next_phase(&self, meta: &Meta) -> Option<Phase> {
        let is_answer = self.is_from_low != meta.is_from_low;
        match self.phase {
            Phase::Denied => (!is_answer).then_some(Phase::Denied),
            Phase::Closing => (!meta.opens()).then_some(Phase::Closing),
            _ if meta.closes() => Some(Phase::Closing),
            Phase::Unanswered if !is_answer => Some(Phase::Unanswered),
            Phase::Unanswered if meta.protocol == protocol::TCP => Some(Phase::OpenTcp),
            Phase::Unanswered => Some(Phase::OpenOther),
            open => Some(open),
        }
    }
}

impl Meta {
    #[inline]
    fn packet(&self) -> Packet {
        let Meta { low, high, low_port, high_port, protocol, .. } = *self;
        let packet = Packet { src: low, dst: high, src_port: low_port, dst_port: high_port, protocol };
        if self.is_from_low != 0 { packet } else { packet.reversed() }
    }

    #[inline]
    fn closes(&self) -> bool {
        self.tcp_flags & (tcp_flags::FIN | tcp_flags::RST) != 0
    }

    /// A SYN that opens a connection (RFC 9293 §3.5).
    #[inline]
    fn opens(&self) -> bool {
        self.tcp_flags & (tcp_flags::SYN | tcp_flags::ACK) == tcp_flags::SYN
    }
}

fn verdict(state: &State) -> Verdict {
    if state.phase == Phase::Denied { denied_by(state.rule) } else { Verdict::Forward }
}

fn denied_by(rule: u16) -> Verdict {
    Verdict::Drop(if rule == DEFAULT_RULE { DENIED_BY_DEFAULT } else { DENIED_BY_RULE })
}

#[inline]
fn is_neighbor_discovery(headers: &Headers) -> bool {
    headers.protocol == protocol::ICMPV6
        && headers.ttl == ON_LINK_HOP_LIMIT
        && headers
            .icmp()
            .is_some_and(|icmp| matches!(icmp.kind, NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT))
}

impl Timeouts {
    fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ns = |option, timeout_s| match timeout_s {
            0 => Err(OptionError { option, message: "must be at least 1".into() }),
            _ => Ok(u64::from(timeout_s) * 1_000_000_000),
        };
        Ok(Timeouts {
            unanswered_ns: ns("unanswered_timeout_s", options.unanswered_timeout_s)?,
            tcp_ns: ns("tcp_timeout_s", options.tcp_timeout_s)?,
            closing_ns: ns("closing_timeout_s", options.closing_timeout_s)?,
            other_ns: ns("other_timeout_s", options.other_timeout_s)?,
            denied_ns: ns("denied_timeout_s", options.denied_timeout_s)?,
        })
    }
}

const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "rules",
        default: "[]",
        help: "the first that matches decides: \"allow|deny PROTOCOL from ADDRESSES [port PORTS] to \
               ADDRESSES [port PORTS]\"",
    },
    OptionDoc {
        name: "default",
        default: "\"deny\"",
        help: "what happens where no rule matches: \"deny\" or \"allow\"",
    },
    OptionDoc {
        name: "unanswered_timeout_s",
        default: "60",
        help: "forget a connection of which one direction was seen after this time",
    },
    OptionDoc {
        name: "tcp_timeout_s",
        default: "7440",
        help: "forget a TCP connection after this time without a packet",
    },
    OptionDoc { name: "closing_timeout_s", default: "120", help: "the same after a FIN or RST" },
    OptionDoc { name: "other_timeout_s", default: "300", help: "the same for what is not TCP" },
    OptionDoc {
        name: "denied_timeout_s",
        default: "10",
        help: "forget that a connection was denied after this time without a packet",
    },
    OptionDoc {
        name: "when_full",
        default: "\"drop\"",
        help: "packets of connections that are allowed while the table is full: \"drop\" or \"pass\"",
    },
];

#[cfg(test)]
mod tests;
