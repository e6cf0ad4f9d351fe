//! One rule: how it is written, and what it matches.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bitflags::bitflags;
use serde::Deserialize;
use wire::{protocol, tcp_flags};

use super::rate::{Pace, Rate, parse_burst};
use crate::prefix::PrefixSet;
use crate::selector::{Grammar, Packet, Protocol, Selector, Sets, Words, help};

/// How a rule is written, for error messages.
const FORM: &str = "\"accept|drop|reject PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES [port PORTS] [in SIDE] \
                    [out SIDE] [type TYPES] [flags FLAGS] [state STATES] [rate [over] RATE] [burst PACKETS] [log]\"";

/// All that is not inside.
pub(super) const OUTSIDE: &str = "outside";
/// All sides that are not outside, unless one of them has that name.
const INSIDE: &str = "inside";

/// What a rule does with the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They pass.
    Accept,
    /// They are dropped.
    Drop,
    /// They are dropped, and their senders are told so.
    Reject,
}

/// The state of a packet with regard to its connection; of a rule, all for which it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct States(u8);

bitflags! {
    impl States: u8 {
        /// It begins a connection, or goes on with one that has no answer yet.
        const NEW = 1 << 0;
        /// It is of a connection of which both directions were seen.
        const ESTABLISHED = 1 << 1;
        /// It is an ICMP error that quotes a packet of a connection that is known.
        const RELATED = 1 << 2;
        /// No connection explains it.
        const INVALID = 1 << 3;
        /// Its connection cannot be told.
        const UNTRACKED = 1 << 4;
    }
}

const STATES: [(&str, States); 5] = [
    ("new", States::NEW),
    ("established", States::ESTABLISHED),
    ("related", States::RELATED),
    ("invalid", States::INVALID),
    ("untracked", States::UNTRACKED),
];

/// Names of TCP flags in rules, with their bits. CWR is not here: what is read of a packet has another bit in its place.
pub const FLAGS: [(&str, u8); 7] = [
    ("fin", tcp_flags::FIN),
    ("syn", tcp_flags::SYN),
    ("rst", tcp_flags::RST),
    ("psh", tcp_flags::PSH),
    ("ack", tcp_flags::ACK),
    ("urg", tcp_flags::URG),
    ("ece", tcp_flags::ECE),
];

/// Names of ICMP's types and ICMPv6's, with their numbers (IANA).
const TYPES: [(&str, Option<u8>, Option<u8>); 14] = [
    ("destination-unreachable", Some(3), Some(1)),
    ("echo-reply", Some(0), Some(129)),
    ("echo-request", Some(8), Some(128)),
    ("neighbor-advertisement", None, Some(136)),
    ("neighbor-solicitation", None, Some(135)),
    ("packet-too-big", None, Some(2)),
    ("parameter-problem", Some(12), Some(4)),
    ("redirect", Some(5), Some(137)),
    ("router-advertisement", Some(9), Some(134)),
    ("router-solicitation", Some(10), Some(133)),
    ("source-quench", Some(4), None),
    ("time-exceeded", Some(11), Some(3)),
    ("timestamp-reply", Some(14), None),
    ("timestamp-request", Some(13), None),
];

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) packet: Packet,
    pub(super) state: States,
    pub(super) is_from_outside: bool,
    /// The type of an ICMP or ICMPv6 message; anything for other packets.
    pub(super) icmp_type: u8,
    pub(super) tcp_flags: u8,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) action: Action,
    selector: Selector,
    states: States,
    /// Where the packet comes from; `None` is either side.
    is_from_outside: Option<bool>,
    /// Protocol and type of ICMP messages; empty is any.
    types: Vec<(u8, u8)>,
    /// TCP flags that are looked at, and what they have to be.
    flags: Option<(u8, u8)>,
    /// Which one it is of those that ask for a log of what they drop, from 0.
    pub(super) log: Option<u8>,
    /// How many packets it takes in how much time.
    pub(super) rate: Option<Rate>,
}

impl Rule {
    /// Whether the rule decides about a packet, if its rate lets it.
    #[cfg(test)]
    pub(super) fn matches(&self, judged: &Judged) -> bool {
        self.states.contains(judged.state)
            && self.is_from(judged.is_from_outside)
            && self.selector.matches(&judged.packet)
            && (self.types.is_empty() || self.types.contains(&(judged.packet.protocol, judged.icmp_type)))
            && self.flags.is_none_or(|(mask, set)| judged.tcp_flags & mask == set)
    }

    /// Whether the rule decides about a later fragment, if its rate lets it.
    #[cfg(test)]
    pub(super) fn may_accept_or_drops(&self, packet: &Packet, is_from_outside: bool) -> bool {
        let asks_for_more = self.selector.asks_for_ports() || !self.types.is_empty() || self.flags.is_some();
        self.states.contains(States::NEW)
            && self.is_from(is_from_outside)
            && self.selector.matches_but_for_ports(packet)
            && (self.action == Action::Accept || !asks_for_more)
    }

    /// Whether it is content with the protocol, and of ICMP and ICMPv6 with the type.
    pub(super) fn takes_kind(&self, protocol: u8, icmp_type: u8) -> bool {
        let is_type = |types: &[(u8, u8)]| types.is_empty() || types.contains(&(protocol, icmp_type));
        self.selector.protocol.is(protocol) && is_type(&self.types)
    }

    /// Whether it is content with the TCP flags.
    pub(super) fn takes_flags(&self, tcp_flags: u8) -> bool {
        self.flags.is_none_or(|(mask, set)| tcp_flags & mask == set)
    }

    /// Whether it is content with the state and the side.
    pub(super) fn takes_place(&self, state: States, is_from_outside: bool) -> bool {
        self.states.contains(state) && self.is_from(is_from_outside)
    }

    /// Whether the rule decides about later fragments between its addresses, of which nothing behind the IP header is known:
    /// it might accept a packet that begins a connection, or drops all of them.
    pub(super) fn may_take_fragments(&self, protocol: u8, is_from_outside: bool) -> bool {
        let asks_for_more = self.selector.asks_for_ports() || !self.types.is_empty() || self.flags.is_some();
        self.takes_place(States::NEW, is_from_outside)
            && self.selector.protocol.is(protocol)
            && (self.action == Action::Accept || !asks_for_more)
    }

    /// The addresses of the source (0) or destination (1): see [`Selector::addr_ranges`].
    pub(super) fn addr_ranges(&self, end: usize) -> Option<Vec<(u128, u128)>> {
        self.selector.addr_ranges(end)
    }

    /// How many ranges of addresses it asks for.
    pub(super) fn ranges(&self) -> usize {
        self.selector.ranges()
    }

    /// The ports of the source (0) or destination (1): see [`Selector::port_ranges`].
    pub(super) fn port_ranges(&self, end: usize) -> Option<Vec<(u128, u128)>> {
        self.selector.port_ranges(end)
    }

    fn is_from(&self, outside: bool) -> bool {
        self.is_from_outside.is_none_or(|wanted| wanted == outside)
    }

    /// Whether it makes a difference between the sides.
    pub(super) fn asks_for_side(&self) -> bool {
        self.is_from_outside.is_some()
    }

    /// Whether it asks for TCP flags.
    pub(super) fn asks_for_flags(&self) -> bool {
        self.flags.is_some()
    }

    /// The rule that `text` says, or what is wrong with it, to follow its name in a sentence.
    /// `sides` are those of the inside whose hosts are known.
    pub(super) fn parse(text: &str, sets: &Sets, sides: &Sets) -> Result<Rule, String> {
        let mut words: Words<'_> = text.split_whitespace().peekable();
        let action = match words.next() {
            Some("accept") => Action::Accept,
            Some("drop") => Action::Drop,
            Some("reject") => Action::Reject,
            None => return Err(format!("is empty; write {FORM}")),
            Some(word) => {
                return Err(format!("begins with \"{word}\"{}", help(word, &["accept", "drop", "reject"])));
            }
        };
        let mut selector =
            Selector::parse(&mut words, &Grammar { option: "rules", form: FORM, sets: Some(sets) })?;
        let conditions = Conditions::parse(&mut words, selector.protocol, sides)?;
        for (end, hosts) in conditions.hosts.iter().enumerate() {
            // Of a set that comes and goes nothing is said for good.
            if let Some(hosts) = hosts
                && !selector.narrow(end, hosts)
                && !text.contains('@')
            {
                return Err("never matches: none of its addresses is of the side that it asks for".into());
            }
        }
        conditions.rule(action, selector)
    }
}

/// What follows the ends of a rule.
#[derive(Default)]
struct Conditions {
    states: Option<States>,
    is_from_outside: Option<bool>,
    /// The hosts of the side that the source has to be of, and of the one that the destination has to be of.
    hosts: [Option<PrefixSet>; 2],
    types: Option<Vec<(u8, u8)>>,
    flags: Option<(u8, u8)>,
    log: Option<u8>,
    pace: Option<Pace>,
    burst: Option<u32>,
}

impl Conditions {
    fn parse(words: &mut Words<'_>, protocol: Protocol, sides: &Sets) -> Result<Conditions, String> {
        let mut conditions = Conditions::default();
        while let Some(name) = words.next() {
            let Conditions { states, is_from_outside, hosts, types, flags, log, pace, burst } =
                &mut conditions;
            let [sources, destinations] = hosts;
            let is_over = name == "rate" && words.next_if_eq(&"over").is_some();
            let mut list = || words.next().ok_or_else(|| format!("ends after \"{name}\"; write {FORM}"));
            let is_first = match name {
                "state" => states.replace(parse_states(list()?)?).is_none(),
                "in" => {
                    let (outside, hosts) = parse_side(list()?, sides)?;
                    *sources = hosts;
                    is_from_outside.replace(outside).is_none()
                }
                "out" => destinations.replace(parse_way_out(list()?, sides)?).is_none(),
                "type" => types.replace(parse_types(list()?, protocol)?).is_none(),
                "flags" => flags.replace(parse_flags(list()?, protocol)?).is_none(),
                "rate" => pace.replace(Pace::parse(list()?, is_over)?).is_none(),
                "burst" => burst.replace(parse_burst(list()?)?).is_none(),
                // Its number comes with its place among all rules.
                "log" => log.replace(0).is_none(),
                _ => {
                    let choices = ["in", "out", "type", "flags", "state", "rate", "burst", "log"];
                    return Err(format!(
                        "goes on with \"{name}\", which is no condition{}; lists have commas and no spaces: \"80,443\"",
                        help(name, &choices)
                    ));
                }
            };
            if !is_first {
                let remedy = match name {
                    "log" => "once is enough",
                    "rate" | "burst" | "in" | "out" => "a rule has one",
                    _ => "write one list with commas",
                };
                return Err(format!("has \"{name}\" twice; {remedy}"));
            }
        }
        Ok(conditions)
    }

    fn rule(self, action: Action, selector: Selector) -> Result<Rule, String> {
        let Conditions { states, is_from_outside, hosts: _, types, flags, log, pace, burst } = self;
        if log.is_some() && action == Action::Accept {
            return Err(
                "asks for a log of what it accepts; only rules that drop or reject have \"log\"".into()
            );
        }
        if flags.is_some() && states.is_some_and(|states| states.contains(States::ESTABLISHED)) {
            return Err(
                "asks for the flags of established packets, which are judged once for a connection and \
                        direction; write \"state new\" or \"state invalid\""
                    .into(),
            );
        }
        let rate = match (pace, burst) {
            (Some(pace), burst) => Some(pace.rate(burst)?),
            (None, None) => None,
            (None, Some(_)) => return Err("has a burst and no rate; write \"rate 10/s burst 20\"".into()),
        };
        let all = if flags.is_some() { States::all() - States::ESTABLISHED } else { States::all() };
        let states = states.unwrap_or(all);
        Ok(Rule {
            action,
            selector,
            states,
            is_from_outside,
            types: types.unwrap_or_default(),
            flags,
            log,
            rate,
        })
    }
}

fn parse_states(list: &str) -> Result<States, String> {
    list.split(',').try_fold(States::empty(), |states, word| match named(&STATES, word) {
        Some(state) => Ok(states | state),
        None => Err(format!("has the state \"{word}\"{}", help(word, &STATES.map(|(name, _)| name)))),
    })
}

/// Whether packets of a side come from outside, and its hosts if these alone are meant.
fn parse_side(word: &str, sides: &Sets) -> Result<(bool, Option<PrefixSet>), String> {
    match (word, sides.get(word)) {
        (OUTSIDE, _) => Ok((true, None)),
        (_, Some(hosts)) => Ok((false, Some(hosts.clone()))),
        (INSIDE, None) => Ok((false, None)),
        (_, None) => Err(no_side(word, sides)),
    }
}

/// The hosts that a packet goes to.
fn parse_way_out(word: &str, sides: &Sets) -> Result<PrefixSet, String> {
    if sides.is_empty() {
        return Err("asks for \"out\", and a packet is judged before it is routed: where it goes is told by the hosts of each \
                    side, and nobody names them; write `prefixes` into the chain's `[[interface]]`, or addresses behind \"to\""
            .into());
    }
    let all = || sides.values().fold(PrefixSet::default(), |all, hosts| all.union(hosts));
    match (word, sides.get(word)) {
        (OUTSIDE, _) => Ok(all().complement()),
        (_, Some(hosts)) => Ok(hosts.clone()),
        (INSIDE, None) => Ok(all()),
        (_, None) => Err(no_side(word, sides)),
    }
}

fn no_side(word: &str, sides: &Sets) -> String {
    let mut choices: Vec<&str> = sides.keys().map(String::as_str).chain([INSIDE, OUTSIDE]).collect();
    choices.sort_unstable();
    choices.dedup();
    format!("has the side \"{word}\"{}", help(word, &choices))
}

fn parse_flags(list: &str, protocol: Protocol) -> Result<(u8, u8), String> {
    if protocol != Protocol::Number(protocol::TCP) {
        return Err("asks for flags; only tcp has flags".into());
    }
    let (mut mask, mut set) = (0, 0);
    for word in list.split(',') {
        let name = word.strip_prefix('!').unwrap_or(word);
        let Some(flag) = named(&FLAGS, name) else {
            let names = help(name, &FLAGS.map(|(name, _)| name));
            return Err(format!("has the flag \"{name}\"{names}; \"syn,!ack\" is one set and the other not"));
        };
        if mask & flag != 0 {
            return Err(format!("has the flag \"{name}\" twice"));
        }
        mask |= flag;
        set |= if name.len() == word.len() { flag } else { 0 };
    }
    Ok((mask, set))
}

fn parse_types(list: &str, protocol: Protocol) -> Result<Vec<(u8, u8)>, String> {
    let [of_v4, of_v6] = [protocol::ICMP, protocol::ICMPV6].map(|number| protocol.is(number));
    if protocol == Protocol::Any || !(of_v4 || of_v6) {
        return Err("asks for a type; only icmp and icmpv6 have types".into());
    }
    let mut types = Vec::new();
    for word in list.split(',') {
        if let Some((first, last)) = range_of_types(word) {
            if protocol == Protocol::Icmp {
                return Err(format!(
                    "has the type \"{word}\" by number, which ICMP and ICMPv6 use for different messages; write its \
                     name, or the protocol 1 or icmpv6"
                ));
            }
            let number = if of_v4 { protocol::ICMP } else { protocol::ICMPV6 };
            types.extend((first..=last).map(|one| (number, one)));
            continue;
        }
        let before = types.len();
        for (_, v4, v6) in TYPES.iter().filter(|(name, ..)| *name == word) {
            types.extend(v4.filter(|_| of_v4).map(|number| (protocol::ICMP, number)));
            types.extend(v6.filter(|_| of_v6).map(|number| (protocol::ICMPV6, number)));
        }
        if types.len() == before {
            let has = |(_, v4, v6): &&(_, Option<u8>, Option<u8>)| {
                (v4.is_some() && of_v4) || (v6.is_some() && of_v6)
            };
            let names: Vec<&str> = TYPES.iter().filter(has).map(|(name, ..)| *name).collect();
            return Err(format!("has the type \"{word}\"{}", help(word, &names)));
        }
    }
    Ok(types)
}

/// First and last of a range of types by number: `5`, or `5-127`.
fn range_of_types(word: &str) -> Option<(u8, u8)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn named<T: Copy>(names: &[(&str, T)], word: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}
