//! What a rule of `access-list` or `firewall` matches: the protocol, and the addresses and ports of both ends. How that
//! is written, and what is wrong with a text.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter::Peekable;
use core::net::IpAddr;
use core::str::SplitWhitespace;

use names::nearest;
use wire::{Addr, protocol};

use crate::prefix::PrefixSet;

/// The words of a rule.
pub(crate) type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// Sets of addresses by their names.
pub(crate) type Sets = BTreeMap<String, PrefixSet>;

/// How the rules of a function are written.
#[derive(Clone, Copy)]
pub(crate) struct Grammar<'a> {
    /// The option in which they stand.
    pub(crate) option: &'static str,
    /// The form of a rule, for error messages.
    pub(crate) form: &'static str,
    /// What `@name` stands for, where rules may say that.
    pub(crate) sets: Option<&'a Sets>,
}

/// The ends of a packet, as rules look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) protocol: u8,
}

impl Packet {
    /// Its answer.
    pub(crate) fn reversed(self) -> Packet {
        Packet {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }
}

/// A protocol with the addresses and ports of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) protocol: Protocol,
    from: Ends,
    to: Ends,
}

/// The protocols that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Any,
    /// ICMP and ICMPv6.
    Icmp,
    Number(u8),
}

/// Addresses with their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ends {
    /// `None` is any.
    addrs: Option<PrefixSet>,
    /// First and last of each range; empty is any.
    ports: Vec<(u16, u16)>,
}

impl Selector {
    #[inline]
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        self.matches_but_for_ports(packet)
            && self.from.have_port(packet.src_port)
            && self.to.have_port(packet.dst_port)
    }

    #[inline]
    pub(crate) fn matches_but_for_ports(&self, packet: &Packet) -> bool {
        self.protocol.is(packet.protocol) && self.from.have_addr(packet.src) && self.to.have_addr(packet.dst)
    }

    pub(crate) fn asks_for_ports(&self) -> bool {
        !self.from.ports.is_empty() || !self.to.ports.is_empty()
    }

    /// The addresses of the source (0) or destination (1), as big-endian numbers: first and last of each range, none of which
    /// overlap. `None` is any.
    pub(crate) fn addr_ranges(&self, end: usize) -> Option<Vec<(u128, u128)>> {
        let addrs = self.end(end).addrs.as_ref()?;
        let range = |(ip, length): (IpAddr, u32)| {
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let first = u128::from_be_bytes(Addr::from(ip).0);
            (first, first | 1_u128.checked_shl(bits - length).unwrap_or(0).wrapping_sub(1))
        };
        Some(addrs.prefixes().map(range).collect())
    }

    /// How many ranges of addresses both ends have.
    pub(crate) fn ranges(&self) -> usize {
        [&self.from, &self.to].into_iter().filter_map(|end| end.addrs.as_ref()).map(PrefixSet::len).sum()
    }

    /// The ports of the source (0) or destination (1): first and last of each range, none of which overlap. `None` is any.
    pub(crate) fn port_ranges(&self, end: usize) -> Option<Vec<(u128, u128)>> {
        let mut ports = self.end(end).ports.clone();
        ports.sort_unstable();
        ports.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        let range = |(first, last): (u16, u16)| (first.into(), last.into());
        (!ports.is_empty()).then(|| ports.into_iter().map(range).collect())
    }

    /// Has the source (0) or destination (1) be one of these addresses, too. Says whether it can be one.
    pub(crate) fn narrow(&mut self, end: usize, to: &PrefixSet) -> bool {
        let ends = if end == 0 { &mut self.from } else { &mut self.to };
        let addrs = ends.addrs.take().map_or_else(|| to.clone(), |addrs| addrs.intersection(to));
        let can_be = !addrs.is_empty();
        ends.addrs = Some(addrs);
        can_be
    }

    fn end(&self, end: usize) -> &Ends {
        if end == 0 { &self.from } else { &self.to }
    }

    /// Reads `PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES [port PORTS]`. An error says what is wrong, to follow the
    /// rule's name in a sentence.
    pub(crate) fn parse(words: &mut Words<'_>, grammar: &Grammar<'_>) -> Result<Selector, String> {
        let form = grammar.form;
        let protocol = Protocol::parse(words.next(), form)?;
        let mut ends = |keyword: &str| {
            match words.next() {
                Some(word) if word == keyword => {}
                Some(word) => return Err(format!("has \"{word}\" in place of \"{keyword}\"; write {form}")),
                None => return Err(format!("ends before \"{keyword}\"; write {form}")),
            }
            let (addrs, family) = parse_addrs(grammar, keyword, words.next())?;
            let ports = match words.next_if_eq(&"port") {
                Some(_) => parse_ports(protocol, words.next())?,
                None => Vec::new(),
            };
            Ok((Ends { addrs, ports }, family))
        };
        let (from, from_family) = ends("from")?;
        let (to, to_family) = ends("to")?;
        if !from_family.overlaps(to_family) {
            return Err("never matches: its addresses are IPv4 on one side and IPv6 on the other".into());
        }
        Ok(Selector { protocol, from, to })
    }
}

/// What is wrong with a word behind the end of a rule.
pub(crate) fn goes_on_with(word: &str) -> String {
    format!("goes on with \"{word}\" where it should end; lists have commas and no spaces: \"80,443\"")
}

impl Protocol {
    #[inline]
    pub(crate) fn is(self, number: u8) -> bool {
        match self {
            Protocol::Any => true,
            Protocol::Icmp => matches!(number, protocol::ICMP | protocol::ICMPV6),
            Protocol::Number(own) => own == number,
        }
    }

    fn has_ports(self) -> bool {
        matches!(self, Protocol::Number(protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP))
    }

    fn parse(word: Option<&str>, form: &str) -> Result<Protocol, String> {
        Ok(match word {
            Some("any") => Protocol::Any,
            Some("icmp") => Protocol::Icmp,
            Some("icmpv6") => Protocol::Number(protocol::ICMPV6),
            Some("tcp") => Protocol::Number(protocol::TCP),
            Some("udp") => Protocol::Number(protocol::UDP),
            Some("sctp") => Protocol::Number(protocol::SCTP),
            Some("dccp") => Protocol::Number(protocol::DCCP),
            Some(word) => match word.parse() {
                Ok(number) => Protocol::Number(number),
                Err(_) => {
                    return Err(format!(
                        "has the protocol \"{word}\"; write any, tcp, udp, icmp, icmpv6, sctp, dccp, or a \
                         number from 0 to 255"
                    ));
                }
            },
            None => return Err(format!("ends before its protocol; write {form}")),
        })
    }
}

impl Ends {
    #[inline]
    fn have_addr(&self, addr: Addr) -> bool {
        self.addrs.as_ref().is_none_or(|addrs| addrs.contains(addr))
    }

    #[inline]
    fn have_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

/// The IP versions of addresses.
#[derive(Clone, Copy)]
struct Family {
    v4: bool,
    v6: bool,
}

impl Family {
    fn overlaps(self, other: Family) -> bool {
        (self.v4 && other.v4) || (self.v6 && other.v6)
    }
}

fn parse_addrs(
    grammar: &Grammar<'_>,
    keyword: &str,
    word: Option<&str>,
) -> Result<(Option<PrefixSet>, Family), String> {
    let form = grammar.form;
    let Some(word) = word else { return Err(format!("ends after \"{keyword}\"; write {form}")) };
    if word == "any" {
        return Ok((None, Family { v4: true, v6: true }));
    }
    let is_name = |part: &&str| grammar.sets.is_some() && part.starts_with('@');
    let (names, prefixes): (Vec<&str>, Vec<&str>) = word.split(',').partition(is_name);
    let prefixes: Vec<String> = prefixes.into_iter().map(ToString::to_string).collect();
    let mut set = PrefixSet::parse(grammar.option, &prefixes).map_err(|error| error.message)?;
    for name in names {
        set = set.union(named_set(grammar, &name[1..])?);
    }
    let (v4, v6) = set.families();
    // An empty set is of either family: it may be one that is to be filled later.
    let family = if set.is_empty() { Family { v4: true, v6: true } } else { Family { v4, v6 } };
    Ok((Some(set), family))
}

fn named_set<'a>(grammar: &Grammar<'a>, name: &str) -> Result<&'a PrefixSet, String> {
    let none = Sets::new();
    let sets = grammar.sets.unwrap_or(&none);
    if let Some(set) = grammar.sets.and_then(|sets| sets.get(name)) {
        return Ok(set);
    }
    let choices: Vec<&str> = sets.keys().map(String::as_str).collect();
    Err(match choices[..] {
        [] => format!("asks for the set \"@{name}\", and there are none; write it into `sets`"),
        _ => format!("asks for the set \"@{name}\", which is not among `sets`{}", help(name, &choices)),
    })
}

/// The end of an error message about a word that is none of `choices`: the nearest one, if there is one, and all.
pub(crate) fn help(word: &str, choices: &[&str]) -> String {
    let near = nearest(word, choices.iter().copied());
    let near = near.map_or_else(String::new, |choice| format!("; did you mean \"{choice}\"?"));
    format!("{near} There are: {}", choices.join(", "))
}

fn parse_ports(protocol: Protocol, word: Option<&str>) -> Result<Vec<(u16, u16)>, String> {
    if !protocol.has_ports() {
        return Err("asks for a port; only tcp, udp, sctp and dccp have ports: write a rule for each".into());
    }
    let Some(word) = word else { return Err("ends after \"port\"; write ports like \"80,443\"".into()) };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
            _ => Err(format!(
                "has the ports \"{part}\"; write ports from 0 to 65535, like \"80,443\" or \"6000-6063\""
            )),
        }
    };
    word.split(',').map(range).collect()
}
