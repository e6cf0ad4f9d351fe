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
//! | `when_full` | | `"drop"` | packets of connections that are allowed while the table is full |
//!
//! # Rules
//!
//! ```text
//! allow|deny  PROTOCOL  from ADDRESSES [port PORTS]  to ADDRESSES [port PORTS]
//! ```
//!
//! - PROTOCOL is `any`, `tcp`, `udp`, `icmp` (ICMP and ICMPv6), `icmpv6` (ICMPv6 alone), `sctp`, `dccp`, or a number.
//! - ADDRESSES are `any`, or prefixes: `10.0.0.0/8`, `2001:db8::1,2001:db8::2`.
//! - PORTS are ports and ranges: `80,443`, `6000-6063`. Only tcp, udp, sctp and dccp have them.
//! - Lists are written with commas and without spaces; as many spaces as you like elsewhere.
//!
//! A rule is about who begins: `allow tcp from 10.0.0.0/8 to any` lets 10.0.0.1 connect to anyone, and
//! get answers, but nobody connect to 10.0.0.1. The list is searched from its first rule on, once for
//! each connection that is allowed: linear in the rules, and from then on a connection costs the same however
//! long the list is. It is searched for each packet that is denied or finds no room in the table, and for later
//! fragments.
//!
//! # What passes, and for how long
//!
//! - The first packet of a connection decides, whichever TCP flags it has; `conntrack` before this one
//!   checks them. If it is allowed, the connection passes in both directions until it was idle for
//!   its time-out. (Two hours and four minutes for TCP is RFC 5382 REQ-5, five minutes for others RFC
//!   4787 REQ-5.)
//! - A denied packet leaves no state, as Linux confirms no entry for one: strangers that no rule allows fill no
//!   table. The other end may still open the same connection, if a rule lets it.
//! - After a FIN or RST in either direction the connection passes on, with the short time-out. A SYN is
//!   then another connection, and meets the rules anew.
//! - An ICMP query and its replies are one connection, by the identifier.
//! - An ICMP error about a packet of a connection that is known passes (RFC 792, RFC 1191): the quoted packet must have
//!   been sent by the host that the error goes to, between the connection's addresses and ports. So it must come from the other
//!   end or, over IPv4 in a chain with a NAT, from any router outside. It leaves no state, and the connection lives no longer for
//!   it (RFC 5927: anyone can send errors). Whether the sequence number that is quoted is in flight is for the receiver
//!   to check (RFC 5927 §4.1).
//! - All other errors meet the rules: about connections that are not known, and those of routers on the way over IPv6, or without
//!   a NAT. These want `allow icmp`.
//! - A later fragment goes the way of its first where the chain file says `fragments = "follow"`. Elsewhere it has no ports, and passes if the rules could allow a packet of its protocol between its
//!   two addresses, in one direction or the other: rules that allow match without their ports, and rules that
//!   deny some ports do not match. Without the first fragment, which has ports and is treated like any
//!   packet, no host makes anything of it (RFC 1858 §2). It leaves no state.
//! - What is not IP passes, such as ARP; so do neighbour solicitations and advertisements (RFC 4861 §7.1,
//!   hop limit 255), its like in IPv6.
//!
//! # Drops, events, expiry, full table
//!
//! - `denied-by-rule`, `denied-by-default`; `table-full`: see below.
//! - Events: `connections-allowed`, each time that a rule allowed one. The report says which rules the
//!   connections met that are remembered now, those of earlier chain files apart: after a reload a connection that
//!   exists goes on by the rule that it met.
//! - A forgotten connection's next packet meets the rules again.
//! - When the table is full a new connection that is allowed is dropped as `table-full`: its
//!   answers could not be told from anything else. With `when_full = "pass"` packets pass that a rule
//!   allows by themselves. `table_full = "evict-oldest"` lets unanswered ones go first, since their time-out is the
//!   shortest: the right choice where a rule allows strangers in.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Connection, Cx, EndedOf, Extras, FlowKey, Flows, FullTable, FunctionReport, NetworkFunction,
    OptionDoc, OptionError, Reload, Reports, StateValue, Verdict,
};
use serde::Deserialize;
use wire::{Addr, Fields, Headers, Stamp, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::PassOrDrop;
use crate::common::is_neighbor_discovery;
use crate::selector::Packet;

mod rule;

pub use rule::Action;

use rule::Rule;

const DENIED_BY_RULE: u8 = 0;
const DENIED_BY_DEFAULT: u8 = 1;
const TABLE_FULL: u8 = 2;

const CONNECTIONS_ALLOWED: usize = 0;

const RULES_MAX: usize = 1000;

/// Passes the connections that its rules allow: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct AccessList {
    rules: Vec<Rule>,
    list: List,
    /// Those of the chain files before, whose connections may live.
    earlier: Vec<List>,
    timeouts: Timeouts,
    when_full: PassOrDrop,
}

/// The rules of one chain file, for people.
#[derive(Clone, Debug)]
struct List {
    /// The number of its first rule, the default's behind the last. A rule's number counts on over all chain files of a
    /// run, so that a state's says which file it means.
    first: u16,
    texts: Arc<[String]>,
    default: Action,
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
    /// How long a TCP connection is kept without a packet after a FIN or RST, s.
    pub closing_timeout_s: u32,
    /// How long a flow that is not TCP is kept without a packet, s.
    pub other_timeout_s: u32,
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
    /// [`PLAIN`], [`LATER_FRAGMENT`], [`ERROR`] or [`FOLLOWED`].
    kind: u8,
    /// The sender of an error over IPv4; its destination is one of the ends. Over IPv6 its sender is the other one.
    sender: [u8; 4],
}

/// A packet of a connection.
const PLAIN: u8 = 0;
/// A later fragment.
const LATER_FRAGMENT: u8 = 1;
/// A later fragment with the ports of its first.
const FOLLOWED: u8 = 3;
/// An ICMP error; the ends are those of the connection whose packet it quotes.
const ERROR: u8 = 2;

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    /// Packets in both directions.
    pub packets: u32,
    /// The number of the rule that it met. Numbers count on over reloads, so a rule of an earlier file keeps its own.
    pub rule: u16,
    /// How far it is.
    pub phase: Phase,
    /// 1 if the packet that met the rule came from the key's `low` end.
    pub is_from_low: u8,
}

const _: () = assert!(size_of::<Meta>() == 44 && size_of::<State>() == 8);

/// How far a connection is; decides its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(u8)]
pub enum Phase {
    /// No packet has come back yet.
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
}

impl NetworkFunction for AccessList {
    const ABOUT: About = About {
        name: "access-list",
        summary: "passes connections that its rules allow, in both directions",
        spec: "FAJITA (CoNEXT'24) App. A.1: access control list; RFC 1858",
        options: OPTIONS,
        drop_reasons: &["denied-by-rule", "denied-by-default", "table-full"],
        events: &["connections-allowed"],
    };
    const READS: Fields = Fields::FIVE_TUPLE
        .union(Fields::TCP_FLAGS)
        .union(Fields::MARKS)
        // What an ICMP error quotes.
        .union(Fields::TCP_SHAPE)
        .union(Fields::ACK)
        // Those of neighbor discovery.
        .union(Fields::TTL)
        .union(Fields::SEQ);
    const EDITS: Fields = Fields::empty();
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet that a rule allows; denied packets and ICMP errors about connections make none",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        refreshes: |meta| meta.kind != ERROR,
        reload: Reload { following: Self::following, ..Reload::ANY },
        rules: Some(Self::rules),
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
            list: List { first: 0, texts: options.rules.into(), default: options.default },
            earlier: Vec::new(),
            when_full: options.when_full,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        if !headers.is_ip() || is_neighbor_discovery(headers) {
            return None;
        }
        let is_icmp = matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6);
        let quoted = if is_icmp { Connection::quoted(headers) } else { None };
        let Connection { low, high, low_port, high_port, protocol, .. } = Connection::of(headers);
        let kind = match quoted {
            Some(_) => ERROR,
            None if headers.is_followed() => FOLLOWED,
            None if headers.is_lone_fragment() => LATER_FRAGMENT,
            None => PLAIN,
        };
        Some(Meta {
            low,
            high,
            low_port,
            high_port,
            protocol,
            tcp_flags: if headers.is_tcp() { headers.tcp_flags } else { 0 },
            is_from_low: Connection::is_from_low(quoted.as_ref().unwrap_or(headers)).into(),
            kind,
            sender: if kind == ERROR { headers.src.last4() } else { [0; 4] },
        })
    }

    #[inline]
    fn key(meta: &Meta) -> Connection {
        let Meta { low, high, low_port, high_port, protocol, .. } = *meta;
        Connection { low, high, low_port, high_port, protocol, zero: [0; 3] }
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        if meta.kind != PLAIN {
            return self.step_apart(flow, meta, &mut cx.reborrow());
        }
        if let Some(state) = flow
            && let Some(phase) = state.next_phase(meta)
        {
            state.phase = phase;
            state.packets = state.packets.saturating_add(1);
            return Verdict::Forward;
        }
        let packet = meta.packet();
        let (index, action) = self.search(|rule| rule.matches(&packet));
        cx.count_rule(Self::ABOUT.events, index);
        if action == Action::Deny {
            return self.denied_by(index);
        }
        cx.count(CONNECTIONS_ALLOWED);
        let phase = if meta.closes() { Phase::Closing } else { Phase::Unanswered };
        let rule = self.list.number(index);
        *flow = Some(State { packets: 1, rule, phase, is_from_low: meta.is_from_low });
        Verdict::Forward
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        let Timeouts { unanswered_ns, tcp_ns, closing_ns, other_ns } = self.timeouts;
        match state.phase {
            Phase::Unanswered => unanswered_ns,
            Phase::OpenTcp => tcp_ns,
            Phase::OpenOther => other_ns,
            Phase::Closing => closing_ns,
        }
    }
}

impl AccessList {
    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let phase = match state.phase {
            Phase::Unanswered => "unanswered",
            Phase::OpenTcp | Phase::OpenOther => "open",
            Phase::Closing => "closing",
        };
        let rule = self.rule_text(state.rule);
        vec![("phase", phase.into()), ("packets", state.packets.into()), ("rule", rule.into())]
    }

    /// The rule of a number, for people.
    fn rule_text(&self, number: u16) -> String {
        if let Some(index) = self.list.index(number) {
            return self.list.texts.get(index).map_or("default", String::as_str).to_string();
        }
        match self.earlier.iter().find_map(|list| Some((list, list.index(number)?))) {
            Some((list, index)) => format!("{} (of an earlier chain file)", list.text(index)),
            None => "one of an earlier chain file".to_string(),
        }
    }

    fn rejected(&self, _: &State, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
        self.when_full.verdict(TABLE_FULL)
    }

    /// Numbers of rules go on where those of `old` end, so that a state's number always says which rule its connection
    /// met. Where numbers run out they begin anew, and connections that are older are shown by rules of now.
    fn following(&self, old: &Self) -> Option<Self> {
        let is_same = self.list.texts == old.list.texts && self.list.default == old.list.default;
        let (list, earlier) = match old.list.first.checked_add(old.list.len()) {
            _ if is_same => (old.list.clone(), old.earlier.clone()),
            Some(first) if first.checked_add(self.list.len()).is_some() => {
                let earlier = old.earlier.iter().chain([&old.list]).cloned().collect();
                (List { first, ..self.list.clone() }, earlier)
            }
            _ => (self.list.clone(), Vec::new()),
        };
        Some(AccessList { list, earlier, ..self.clone() })
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        let mut counts = BTreeMap::<u16, [u64; 2]>::new();
        for (_, state) in flows {
            let [connections, packets] = counts.entry(state.rule).or_default();
            *connections += 1;
            *packets += u64::from(state.packets);
        }
        let live: u64 = counts.values().map(|[connections, _]| connections).sum();
        let mut rows = Vec::new();
        for index in 0..usize::from(self.list.len()) {
            let counted = counts.remove(&self.list.number(index)).unwrap_or_default();
            // What is denied is not remembered: its drops are counted.
            let counted = match self.rules.get(index).map_or(self.list.default, |rule| rule.action) {
                Action::Allow => counted.map(|count| count.to_string()),
                Action::Deny => ["-", "-"].map(ToString::to_string),
            };
            rows.push([self.list.name(index), self.list.text(index)].into_iter().chain(counted).collect());
        }
        for (number, counted) in counts {
            let found = self.earlier.iter().find_map(|list| Some((list, list.index(number)?)));
            let name = found.map_or_else(|| "?".to_string(), |(list, index)| list.name(index));
            let text = found.map_or_else(String::new, |(list, index)| list.text(index));
            let name = format!("{name} of an earlier chain file");
            rows.push([name, text].into_iter().chain(counted.map(|count| count.to_string())).collect());
        }
        vec![FunctionReport {
            title: format!("Connections now: {live}, by the rule that they met"),
            columns: vec!["rule", "text", "connections", "packets"],
            rows,
        }]
    }

    /// The first rule that matches, by its index, and what it says; where none does the index is the number of rules.
    #[inline]
    fn search(&self, matches: impl Fn(&Rule) -> bool) -> (usize, Action) {
        match (0..).zip(&self.rules).find(|(_, rule)| matches(rule)) {
            Some((index, rule)) => (index, rule.action),
            None => (self.rules.len(), self.list.default),
        }
    }

    fn denied_by(&self, index: usize) -> Verdict {
        Verdict::Drop(if index == self.rules.len() { DENIED_BY_DEFAULT } else { DENIED_BY_RULE })
    }

    fn rules(&self) -> Vec<(String, String)> {
        (0..self.list.len().into()).map(|index| (self.list.name(index), self.list.text(index))).collect()
    }

    /// What is neither of a connection nor begins one.
    #[cold]
    fn step_apart(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let (index, verdict) = match meta.kind {
            ERROR => self.error(flow, meta),
            FOLLOWED => self.followed(flow, meta),
            _ => self.later_fragment(meta),
        };
        index.into_iter().for_each(|index| cx.count_rule(Self::ABOUT.events, index));
        verdict
    }

    /// Whether an ICMP error passes: it is about a connection that passes, or the rules allow it. Says also which rule did, if one
    /// was asked. The flow stays as it is.
    fn error(&self, flow: &Option<State>, meta: &Meta) -> (Option<usize>, Verdict) {
        if flow.is_some() {
            return (None, Verdict::Forward);
        }
        let packet = meta.packet();
        let (src, protocol) = match packet.dst.to_v4() {
            Some(_) => (Addr::v4(meta.sender), protocol::ICMP),
            None => (packet.src, protocol::ICMPV6),
        };
        let error = Packet { src, src_port: 0, dst_port: 0, protocol, ..packet };
        match self.search(|rule| rule.matches(&error)) {
            (index, Action::Allow) => (Some(index), Verdict::Forward),
            (index, Action::Deny) => (Some(index), self.denied_by(index)),
        }
    }

    /// A later fragment goes the way of its first, which has begun the connection if it may. Of the connection it tells nothing.
    fn followed(&self, flow: &mut Option<State>, meta: &Meta) -> (Option<usize>, Verdict) {
        if let Some(state) = flow {
            state.packets = state.packets.saturating_add(1);
            return (None, Verdict::Forward);
        }
        let packet = meta.packet();
        match self.search(|rule| rule.matches(&packet)) {
            // There was no room for the first.
            (index, Action::Allow) => (Some(index), self.when_full.verdict(TABLE_FULL)),
            (index, Action::Deny) => (Some(index), self.denied_by(index)),
        }
    }

    /// Whether a later fragment may belong to a packet that passes, or to an answer to one, and which rule says so.
    fn later_fragment(&self, meta: &Meta) -> (Option<usize>, Verdict) {
        let packet = meta.packet();
        let answered = packet.reversed();
        match self.search(|rule| rule.may_allow_or_denies(&packet)) {
            (index, Action::Allow) => (Some(index), Verdict::Forward),
            (index, Action::Deny) => match self.search(|rule| rule.may_allow_or_denies(&answered)) {
                (of_answer, Action::Allow) => (Some(of_answer), Verdict::Forward),
                _ => (Some(index), self.denied_by(index)),
            },
        }
    }
}

impl State {
    /// How far the connection is after a packet; `None` if the packet has to meet the rules.
    #[inline]
    fn next_phase(&self, meta: &Meta) -> Option<Phase> {
        let is_answer = self.is_from_low != meta.is_from_low;
        match self.phase {
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

impl List {
    /// How many numbers its rules have: one each, and the default.
    fn len(&self) -> u16 {
        self.texts.len() as u16 + 1
    }

    /// The number of a rule by its index; the default's index is that behind the last.
    fn number(&self, index: usize) -> u16 {
        self.first.wrapping_add(index as u16)
    }

    /// The index of the rule with a number, if it is one of these.
    fn index(&self, number: u16) -> Option<usize> {
        let index = number.checked_sub(self.first)?;
        (index < self.len()).then_some(index.into())
    }

    fn name(&self, index: usize) -> String {
        if index < self.texts.len() { (index + 1).to_string() } else { "default".to_string() }
    }

    fn text(&self, index: usize) -> String {
        let default = match self.default {
            Action::Allow => "allow what is left",
            Action::Deny => "deny what is left",
        };
        self.texts.get(index).map_or(default, String::as_str).to_string()
    }
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
        name: "when_full",
        default: "\"drop\"",
        help: "packets of connections that are allowed while the table is full: \"drop\" or \"pass\"",
    },
];

#[cfg(test)]
mod tests;
