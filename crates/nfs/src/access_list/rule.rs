//! One rule: how it is written, and what it matches.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;
use wire::{Addr, protocol};

use crate::prefix::PrefixSet;

/// How a rule is written, for error messages.
const FORM: &str = "\"allow|deny PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES [port PORTS]\"";

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) src: Addr,
    pub(super) dst: Addr,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) protocol: u8,
}

impl Packet {
    /// Its answer.
    pub(super) fn reversed(self) -> Packet {
        Packet {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }
}

/// What a rule does with the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They pass, and so do their answers.
    Allow,
    /// They are dropped.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) action: Action,
    protocol: Protocol,
    from: Ends,
    to: Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
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

impl Rule {
    /// Whether the rule decides about a packet.
    #[inline]
    pub(super) fn matches(&self, packet: &Packet) -> bool {
        self.matches_but_for_ports(packet)
            && self.from.have_port(packet.src_port)
            && self.to.have_port(packet.dst_port)
    }

    /// Whether the rule decides about packets of which the ports are not known: it might allow them, or
    /// denies them whatever their ports are.
    pub(super) fn may_allow_or_denies(&self, packet: &Packet) -> bool {
        let asks_for_ports = !self.from.ports.is_empty() || !self.to.ports.is_empty();
        self.matches_but_for_ports(packet) && (self.action == Action::Allow || !asks_for_ports)
    }

    #[inline]
    fn matches_but_for_ports(&self, packet: &Packet) -> bool {
        self.protocol.is(packet.protocol) && self.from.have_addr(packet.src) && self.to.have_addr(packet.dst)
    }

    /// The rule that `text` says, or what is wrong with it, to follow its name in a sentence. `option`
    /// is where it stands.
    pub(super) fn parse(option: &'static str, text: &str) -> Result<Rule, String> {
        let mut words = text.split_whitespace().peekable();
        let action = match words.next() {
            Some("allow") => Action::Allow,
            Some("deny") => Action::Deny,
            None => return Err(format!("is empty; write {FORM}")),
            Some(word) => {
                return Err(format!("begins with \"{word}\"; rules begin with \"allow\" or \"deny\""));
            }
        };
        let protocol = Protocol::parse(words.next())?;
        let mut ends = |keyword: &str| {
            match words.next() {
                Some(word) if word == keyword => {}
                Some(word) => return Err(format!("has \"{word}\" in place of \"{keyword}\"; write {FORM}")),
                None => return Err(format!("ends before \"{keyword}\"; write {FORM}")),
            }
            let (addrs, family) = parse_addrs(option, keyword, words.next())?;
            let ports = match words.next_if_eq(&"port") {
                Some(_) => parse_ports(protocol, words.next())?,
                None => Vec::new(),
            };
            Ok((Ends { addrs, ports }, family))
        };
        let (from, from_family) = ends("from")?;
        let (to, to_family) = ends("to")?;
        if let Some(word) = words.next() {
            return Err(format!(
                "goes on with \"{word}\" where it should end; lists have commas and no spaces: \"80,443\""
            ));
        }
        if !from_family.overlaps(to_family) {
            return Err("never matches: its addresses are IPv4 on one side and IPv6 on the other".into());
        }
        Ok(Rule { action, protocol, from, to })
    }
}

impl Protocol {
    #[inline]
    fn is(self, number: u8) -> bool {
        match self {
            Protocol::Any => true,
            Protocol::Icmp => matches!(number, protocol::ICMP | protocol::ICMPV6),
            Protocol::Number(own) => own == number,
        }
    }

    fn has_ports(self) -> bool {
        matches!(self, Protocol::Number(protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP))
    }

    fn parse(word: Option<&str>) -> Result<Protocol, String> {
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
            None => return Err(format!("ends before its protocol; write {FORM}")),
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
    option: &'static str,
    keyword: &str,
    word: Option<&str>,
) -> Result<(Option<PrefixSet>, Family), String> {
    let Some(word) = word else { return Err(format!("ends after \"{keyword}\"; write {FORM}")) };
    if word == "any" {
        return Ok((None, Family { v4: true, v6: true }));
    }
    let prefixes: Vec<String> = word.split(',').map(ToString::to_string).collect();
    let set = PrefixSet::parse(option, &prefixes).map_err(|error| error.message)?;
    let v6 = |prefix: &String| prefix.contains(':');
    Ok((Some(set), Family { v4: !prefixes.iter().all(v6), v6: prefixes.iter().any(v6) }))
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
