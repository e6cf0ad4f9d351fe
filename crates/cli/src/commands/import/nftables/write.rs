//! Decisions as a chain file with a `firewall`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nfs::firewall::{FLAGS, MEMBERS_MAX};
use wire::{Addr, protocol, tcp_flags};

use super::matches::{Sides, WITH_PORTS};
use super::ruleset::Ruleset;
use super::space::{Dim, Ranges, Region, STATES, V4, family};
use super::walk::{Decision, Limited, Problem, Says, Walk};
use crate::output::printable;

/// More prefixes than these get a set of their own.
const INLINE_MAX: usize = 8;

const ESTABLISHED: u8 = 1;
const CWR: u8 = tcp_flags::CWR;

/// Writes decisions as rules.
pub struct Writer<'a> {
    /// Sets of addresses by their ranges.
    known: BTreeMap<Ranges, String>,
    /// Those that rules name, with their prefixes.
    used: BTreeMap<String, Vec<String>>,
    sides: Option<&'a Sides>,
    asks_for_side: bool,
    /// States of which all packets are decided, of IPv4 and of IPv6.
    decided: [Ranges; 2],
    pub problems: Vec<Problem>,
}

/// A line of the chain file's rules.
enum Line {
    Comment(String),
    Rule(String),
    /// A rule up to its rate, if its limit comes to this one.
    Limited(String, Says, Limited),
}

impl<'a> Writer<'a> {
    pub fn new(ruleset: &Ruleset, sides: Option<&'a Sides>) -> Writer<'a> {
        let mut writer = Writer {
            known: BTreeMap::new(),
            used: BTreeMap::new(),
            sides,
            asks_for_side: false,
            decided: [(); 2].map(|()| Ranges::of(Vec::new())),
            problems: Vec::new(),
        };
        if let Some(sides) = sides {
            let outside = Region::all().without_numbers(Dim::Dst, &sides.prefixes);
            writer.known.insert(sides.prefixes.clone(), "inside".to_owned());
            writer.known.insert(outside.of(Dim::Dst).clone(), "not-inside".to_owned());
        }
        for ((table, name), set) in &ruleset.sets {
            let is_v6 = match &set.types[..] {
                [only] if only == "ipv4_addr" => false,
                [only] if only == "ipv6_addr" => true,
                _ => continue,
            };
            let Some(ranges) = super::matches::elements(&set.elements, is_v6) else { continue };
            let name = writer.free_name(name, &table.name);
            writer.known.entry(ranges).or_insert(name);
        }
        writer
    }

    /// A name that `firewall` takes, and that no other set has.
    fn free_name(&self, name: &str, table: &str) -> String {
        let plain = |name: &str| -> String {
            let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
            name.chars().map(letter).collect()
        };
        let (name, longer) = (plain(name), format!("{}-{}", plain(table), plain(name)));
        let numbered = (2..).map(|number| format!("{longer}-{number}"));
        let is_free = |name: &String| !self.known.values().any(|own| own == name);
        [name, longer.clone()].into_iter().chain(numbered).find(is_free).unwrap_or(longer)
    }

    /// The chain file; `about` is what it says of itself first, each line a comment.
    pub fn chain(mut self, walk: &Walk<'_>, name: &str, about: &[String]) -> (String, Vec<Problem>) {
        let mut lines = Vec::new();
        let mut decisions = &walk.decisions[..];
        // What is left is dropped, so a policy that drops needs no rule.
        while let [before @ .., Decision { says: Says::Drop, origin, .. }] = decisions
            && walk.origins[*origin].ends_with("policy drop")
        {
            decisions = before;
        }
        let mut shown = None;
        for decision in decisions {
            if shown != Some(decision.origin) {
                lines.push(Line::Comment(walk.origins[decision.origin].clone()));
                shown = Some(decision.origin);
            }
            for region in decision.packets.iter() {
                let rules = self.rules(decision.says, region, &walk.origins[decision.origin]).into_iter();
                match &decision.limit {
                    None => lines.extend(rules.map(Line::Rule)),
                    Some(limit) => {
                        lines.extend(rules.map(|rule| Line::Limited(rule, decision.says, limit.clone())));
                    }
                }
            }
            if decision.limit.is_none() {
                self.remember(decision);
            }
        }
        let lines = self.with_rates(lines);
        (self.text(&lines, name, about), self.problems)
    }

    /// Gives the one rule that a limit comes to its rate. Where they are several, each of which would have a bucket, those that accept
    /// are left out, and those that drop are for all.
    fn with_rates(&mut self, lines: Vec<Line>) -> Vec<Line> {
        let mut rules_of: BTreeMap<String, usize> = BTreeMap::new();
        for line in &lines {
            if let Line::Limited(_, _, Limited { place, .. }) = line {
                *rules_of.entry(place.clone()).or_default() += 1;
            }
        }
        let mut with_rates = Vec::new();
        for line in lines {
            let Line::Limited(rule, says, Limited { limit, place, expression }) = line else {
                with_rates.push(line);
                continue;
            };
            let rules = rules_of.get(&place).copied().unwrap_or_default();
            if rules == 1 {
                with_rates.push(Line::Rule(format!("{rule} {}", limit.text())));
                continue;
            }
            let instead = match says {
                Says::Accept => "the rule is left out, and its packets meet the next ones",
                Says::Drop | Says::Reject => "the rule is for all packets, whatever the rate",
            };
            let why = format!(
                "it comes to {rules} rules of `firewall`, each of which would have a bucket of its own"
            );
            let problem = Problem { place, expression, why, instead };
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
            if says != Says::Accept {
                with_rates.push(Line::Rule(rule));
            }
        }
        with_rates
    }

    fn text(&self, lines: &[Line], name: &str, about: &[String]) -> String {
        let mut text: String = about.iter().map(|line| format!("# {}\n", printable(line))).collect();
        text += &format!("\nname = {}\nmalformed = \"drop\"\nfragments = \"track\"\n", quoted(name));
        if let Some(sides) = self.sides.filter(|_| self.asks_for_side) {
            let prefixes: Vec<String> =
                prefixes(&sides.prefixes).iter().map(|prefix| quoted(prefix)).collect();
            text += &format!("inside = [{}] # {}\n", prefixes.join(", "), printable(&sides.inside));
        }
        text += "\n[[function]]\nuse = \"firewall\"\ndefault = \"drop\"\nrules = [\n";
        for line in lines {
            text += &match line {
                Line::Comment(comment) => format!("    # {}\n", printable(comment)),
                Line::Rule(rule) | Line::Limited(rule, ..) => format!("    {},\n", quoted(rule)),
            };
        }
        text += "]\n";
        if !self.used.is_empty() {
            text += "\n[function.sets]\n";
        }
        for (name, prefixes) in &self.used {
            let prefixes: Vec<String> = prefixes.iter().map(|prefix| quoted(prefix)).collect();
            text += &format!("{name} = [{}]\n", prefixes.join(", "));
        }
        text
    }

    /// Keeps in mind which states have no packets left.
    fn remember(&mut self, decision: &Decision) {
        for region in decision.packets.iter() {
            for (decided, is_v6) in self.decided.iter_mut().zip([false, true]) {
                let of_version = family(is_v6);
                let has_all = |dim| region.of(dim).and(&of_version) == of_version;
                let rest = region.clone().without(Dim::State).without(Dim::Src).without(Dim::Dst);
                if has_all(Dim::Src) && has_all(Dim::Dst) && rest == Region::all() {
                    *decided = decided.or(region.of(Dim::State));
                }
            }
        }
    }

    /// Rules that together are about these packets.
    fn rules(&mut self, says: Says, region: &Region, origin: &str) -> Vec<String> {
        let is_of = |is_v6: bool| {
            [Dim::Src, Dim::Dst].into_iter().all(|dim| !region.of(dim).and(&family(is_v6)).is_empty())
        };
        let is_decided = [false, true].into_iter().all(|is_v6| {
            let states = region.of(Dim::State);
            !is_of(is_v6) || states.and(&self.decided[usize::from(is_v6)]) == *states
        });
        if is_decided {
            return Vec::new();
        }
        let untracked = Ranges::one(4_u8);
        let icmp = Ranges::numbers([protocol::ICMP, protocol::ICMPV6]);
        let region = match *region.of(Dim::State) == untracked {
            // Nothing else is ever untracked.
            true => &region.clone().with(Dim::Protocol, &icmp),
            false => region,
        };
        if region.is_any(Dim::TcpFlags) {
            return self.without_flags(says, region, "");
        }
        let accepts = says == Says::Accept;
        // `firewall` judges established packets once for a connection, whatever their flags are.
        let established = Ranges::one(ESTABLISHED);
        let (flags, states) = (region.of(Dim::TcpFlags), region.of(Dim::State));
        let others = Ranges::numbers((0..5).filter(|state| *state != ESTABLISHED)).and(states);
        let is_decided = [false, true]
            .into_iter()
            .all(|is_v6| !is_of(is_v6) || self.decided[usize::from(is_v6)].contains(1));
        let mut rules = Vec::new();
        let (some, all) = (tcp_has(flags, true), tcp_has(flags, false));
        if states.contains(ESTABLISHED.into()) && !is_decided && some {
            if !all {
                self.problems.push(Problem {
                    place: origin.split(": ").next().unwrap_or_default().to_owned(),
                    expression: origin.split_once(": ").map_or("", |(_, rule)| rule).to_owned(),
                    why: "`firewall` does not look at the flags of established packets; ask for `ct state new`, or accept \
                          established ones before"
                        .to_owned(),
                    instead: match accepts {
                        true => "the rule is not for established packets",
                        false => "the rule drops established packets whatever their flags are",
                    },
                });
            }
            if all || !accepts {
                let region = region.clone().without(Dim::TcpFlags).with(Dim::State, &established);
                rules.extend(self.without_flags(says, &region, ""));
            }
        }
        if !others.is_empty() {
            let region = region.clone().without(Dim::TcpFlags).with(Dim::State, &others);
            for flags in cubes(flags, accepts) {
                rules.extend(self.without_flags(says, &region, &flags));
            }
        }
        rules
    }

    fn without_flags(&mut self, says: Says, region: &Region, flags: &str) -> Vec<String> {
        let accepts = says == Says::Accept;
        let verdict = match says {
            Says::Accept => "accept",
            Says::Drop => "drop",
            Says::Reject => "reject",
        };
        let states = match region.is_any(Dim::State) {
            true => String::new(),
            false => {
                let taken =
                    (0_u128..).zip(STATES).filter(|(number, _)| region.of(Dim::State).contains(*number));
                format!(" state {}", taken.map(|(_, name)| name).collect::<Vec<_>>().join(","))
            }
        };
        let side = match (region.of(Dim::Side).contains(0), region.of(Dim::Side).contains(1)) {
            (true, true) => "",
            (true, false) => " in inside",
            (false, _) => " in outside",
        };
        self.asks_for_side |= !side.is_empty();
        let mut rules = Vec::new();
        for protocol in protocols(region) {
            let number = protocol.1;
            let has_ports = number.is_some_and(|number| WITH_PORTS.contains(&number));
            let ports = |dim| {
                let list = list(region.of(dim));
                if region.is_any(dim) || !has_ports { String::new() } else { format!(" port {list}") }
            };
            let asks_for_ports = !region.is_any(Dim::SrcPort) || !region.is_any(Dim::DstPort);
            let has_types = number.is_some_and(|number| matches!(number, protocol::ICMP | protocol::ICMPV6));
            let asks_for_types = !region.is_any(Dim::IcmpType);
            if accepts && ((asks_for_ports && !has_ports) || (asks_for_types && !has_types)) {
                continue;
            }
            let types = match asks_for_types && has_types {
                true => format!(" type {}", list(region.of(Dim::IcmpType))),
                false => String::new(),
            };
            let (from_port, to_port) = (ports(Dim::SrcPort), ports(Dim::DstPort));
            let from = self.addrs(region, Dim::Src);
            let to = self.addrs(region, Dim::Dst);
            for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (from, to))) {
                let name = &protocol.0;
                rules.push(format!(
                    "{verdict} {name} from {from}{from_port} to {to}{to_port}{side}{types}{flags}{states}"
                ));
            }
        }
        rules
    }

    /// The addresses of an end as rules write them; more than fit into a set are several.
    fn addrs(&mut self, region: &Region, dim: Dim) -> Vec<String> {
        let other = if dim == Dim::Src { Dim::Dst } else { Dim::Src };
        let (own, of_other) = (region.of(dim), region.of(other));
        let is_family = [false, true].into_iter().map(family).find(|addrs| own == addrs);
        // The other end's addresses are of one IP version, and these are all of it.
        let is_said =
            |addrs: &Ranges| of_other.and(addrs) == *of_other && (of_other != addrs || dim == Dim::Dst);
        if region.is_any(dim) || is_family.is_some_and(|addrs| is_said(&addrs)) {
            return vec!["any".to_owned()];
        }
        if let Some(name) = self.known.get(own).cloned() {
            let prefixes = prefixes(own);
            if prefixes.len() <= MEMBERS_MAX {
                self.used.insert(name.clone(), prefixes);
                return vec![format!("@{name}")];
            }
        }
        let prefixes = prefixes(own);
        if prefixes.len() <= INLINE_MAX {
            return vec![prefixes.join(",")];
        }
        let mut names = Vec::new();
        for part in prefixes.chunks(MEMBERS_MAX) {
            let same = self.used.iter().find(|(_, own)| *own == part).map(|(name, _)| name.clone());
            let name = same.unwrap_or_else(|| {
                let mut numbers = (1..).map(|number| format!("addresses-{number}"));
                let is_free = |name: &String| {
                    !self.used.contains_key(name) && !self.known.values().any(|own| own == name)
                };
                numbers.find(is_free).unwrap_or_default()
            });
            self.used.insert(name.clone(), part.to_vec());
            names.push(format!("@{name}"));
        }
        names
    }
}

/// Whether flags have any, or all, of those that packets of an open connection have: others are invalid (RFC 9293 §3.10.7; the
/// kernel's `tcp_valid_flags`).
fn tcp_has(flags: &Ranges, any: bool) -> bool {
    use tcp_flags::{ACK, ECE, FIN, PSH, RST, SYN, URG};
    const VALID: [u8; 9] =
        [SYN, SYN | URG, SYN | ACK, RST, RST | ACK, FIN | ACK, FIN | ACK | URG, ACK, ACK | URG];
    let mut valid = (0..=255_u8).filter(|all| VALID.contains(&(all & !(PSH | ECE | CWR))));
    if any {
        valid.any(|all| flags.contains(all.into()))
    } else {
        valid.all(|all| flags.contains(all.into()))
    }
}

/// Conditions for `flags`, each of bits that are set and bits that are not, which together are about these. `firewall` does not
/// look at CWR: a rule that accepts takes flags that are in with and without, one that drops those that are in with or without.
fn cubes(flags: &Ranges, accepts: bool) -> Vec<String> {
    let has = |all: u8| flags.contains(all.into());
    let wanted =
        |all: u8| if accepts { has(all & !CWR) && has(all | CWR) } else { has(all & !CWR) || has(all | CWR) };
    let mut left: Vec<u8> = (0..=255).filter(|all| all & CWR == 0 && wanted(*all)).collect();
    // Masks that look at few bits first: their cubes are the largest.
    let mut masks: Vec<u8> = (0..=255).filter(|mask| mask & CWR == 0).collect();
    masks.sort_by_key(|mask| mask.count_ones());
    let mut found = Vec::new();
    for mask in masks {
        for value in (0..=255_u8).filter(|value| value & !mask == 0) {
            let is_of = |all: &u8| all & mask == value;
            let is_within = (0..=255).filter(|all| all & CWR == 0).filter(is_of).all(wanted);
            if is_within && left.iter().any(is_of) {
                left.retain(|all| !is_of(all));
                let words = FLAGS.iter().filter(|(_, flag)| mask & flag != 0);
                let words: Vec<String> = words
                    .map(|(name, flag)| format!("{}{name}", if value & flag == 0 { "!" } else { "" }))
                    .collect();
                found.push(if words.is_empty() {
                    String::new()
                } else {
                    format!(" flags {}", words.join(","))
                });
            }
        }
    }
    found
}

/// The protocols of packets, as rules write them, with their number if it is one.
fn protocols(region: &Region) -> Vec<(String, Option<u8>)> {
    let numbers = region.of(Dim::Protocol);
    if region.is_any(Dim::Protocol) {
        return vec![("any".to_owned(), None)];
    }
    // `icmp` of a rule is that of either IP version.
    let name = |number: u8| match protocol::name_of(number) {
        Some(name) if number != protocol::ICMP => name.to_owned(),
        _ => number.to_string(),
    };
    (0..=255_u8)
        .filter(|number| numbers.contains((*number).into()))
        .map(|number| (name(number), Some(number)))
        .collect()
}

/// Numbers as rules write them: `80,6000-6063`.
fn list(ranges: &Ranges) -> String {
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// The fewest prefixes that these addresses are.
fn prefixes(ranges: &Ranges) -> Vec<String> {
    let mut prefixes = Vec::new();
    for is_v6 in [false, true] {
        let of_version = ranges.and(&family(is_v6));
        if is_v6 && of_version == family(true) {
            prefixes.push("::/0".to_owned());
            continue;
        }
        for (mut first, last) in of_version.iter() {
            loop {
                let fits = |bits: &u32| {
                    let ones = 1_u128.checked_shl(*bits).unwrap_or(0).wrapping_sub(1);
                    first & ones == 0 && first | ones <= last
                };
                let host_bits = (0..=128).rev().find(fits).unwrap_or(0);
                let bits = if V4.contains(&first) { 32 } else { 128 };
                let ip = IpAddr::from(Addr(first.to_be_bytes()));
                prefixes.push(match bits - host_bits {
                    length if length == bits => ip.to_string(),
                    length => format!("{ip}/{length}"),
                });
                let end = first | 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1);
                if end >= last {
                    break;
                }
                first = end + 1;
            }
        }
    }
    prefixes
}

/// A TOML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}
