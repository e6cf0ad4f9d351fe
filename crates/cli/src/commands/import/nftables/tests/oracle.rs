//! A small interpreter of nftables: what a ruleset does with one packet, straight from its JSON. It shares no code with the import.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

/// A packet, and what the kernel's tracker says of it.
#[derive(Clone, Debug)]
pub struct Packet {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
    pub icmp_type: u8,
    pub flags: u8,
    pub state: &'static str,
    pub by: &'static str,
    pub to: &'static str,
    /// What becomes of conditions that the import does not know.
    pub unknown: bool,
}

/// What a rule or chain says.
#[derive(Debug, PartialEq, Eq)]
enum Says {
    Nothing,
    Verdict(bool),
    Return,
    /// The end of a chain that was gone to.
    End,
}

/// How many tokens packets have taken, by the handle of the limit's rule. All come at once.
pub type Taken = BTreeMap<u64, u64>;

/// Whether the base chain `forward` of the table `inet t` lets a packet pass.
pub fn accepts(ruleset: &Value, packet: &Packet, taken: &mut Taken) -> bool {
    let list = ruleset["nftables"].as_array().expect("a list");
    let base = list.iter().find(|object| object["chain"]["name"] == "forward").expect("a base chain");
    match chain(list, "forward", packet, taken) {
        Says::Verdict(verdict) => verdict,
        _ => base["chain"]["policy"] == "accept",
    }
}

fn chain(list: &[Value], name: &str, packet: &Packet, taken: &mut Taken) -> Says {
    for rule in list.iter().filter(|object| object["rule"]["chain"] == name) {
        match self::rule(list, &rule["rule"], packet, taken) {
            Says::Nothing => {}
            says => return says,
        }
    }
    Says::Nothing
}

fn rule(list: &[Value], rule: &Value, packet: &Packet, taken: &mut Taken) -> Says {
    for expression in rule["expr"].as_array().expect("expressions") {
        let (kind, value) = expression.as_object().and_then(|map| map.iter().next()).expect("one key");
        match kind.as_str() {
            "match" if !matches(list, value, packet) => return Says::Nothing,
            "limit" => {
                let of_rule = taken.entry(rule["handle"].as_u64().expect("a handle")).or_default();
                let has_one = *of_rule < value["burst"].as_u64().expect("a burst");
                *of_rule += u64::from(has_one);
                if has_one == (value["inv"] == true) {
                    return Says::Nothing;
                }
            }
            "quota" if !packet.unknown => return Says::Nothing,
            "match" | "quota" | "counter" | "log" => {}
            "vmap" => {
                let key = keys(&value["key"], packet);
                let Some(key) = key else { return Says::Nothing };
                let elements = value["data"]["set"].as_array().expect("elements");
                let found = elements.iter().find(|pair| pair[0] != "*" && is(&pair[0], &key, &value["key"]));
                let found = found.or_else(|| elements.iter().find(|pair| pair[0] == "*"));
                return found.map_or(Says::Nothing, |pair| verdict(list, &pair[1], packet, taken));
            }
            _ => return verdict(list, expression, packet, taken),
        }
    }
    Says::Nothing
}

fn verdict(list: &[Value], value: &Value, packet: &Packet, taken: &mut Taken) -> Says {
    let (kind, value) = value.as_object().and_then(|map| map.iter().next()).expect("one key");
    let target = value["target"].as_str().unwrap_or_default();
    match kind.as_str() {
        "accept" => Says::Verdict(true),
        "drop" | "reject" => Says::Verdict(false),
        "return" => Says::Return,
        "continue" => Says::Nothing,
        "jump" => match chain(list, target, packet, taken) {
            Says::Return | Says::End => Says::Nothing,
            says => says,
        },
        "goto" => match chain(list, target, packet, taken) {
            Says::Return | Says::Nothing => Says::End,
            says => says,
        },
        other => panic!("{other}"),
    }
}

/// What is compared: a number, or a word.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Number(u128),
    Word(&'static str),
}

/// What the left side is of a packet; `None` where the packet has none.
fn keys(left: &Value, packet: &Packet) -> Option<Vec<Part>> {
    match left["concat"].as_array() {
        Some(parts) => parts.iter().map(|part| key(part, packet)).collect(),
        None => Some(vec![key(left, packet)?]),
    }
}

fn key(left: &Value, packet: &Packet) -> Option<Part> {
    let is_v6 = packet.src.is_ipv6();
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (header, field) = (of(&left["payload"], "protocol"), of(&left["payload"], "field"));
    let (meta, ct) = (of(&left["meta"], "key"), of(&left["ct"], "key"));
    let port = if field == "sport" { packet.src_port } else { packet.dst_port };
    let numbers = match (header.as_str(), field.as_str()) {
        ("ip", "saddr") => (!is_v6).then(|| number(packet.src)),
        ("ip", "daddr") => (!is_v6).then(|| number(packet.dst)),
        ("ip6", "saddr") => is_v6.then(|| number(packet.src)),
        ("ip6", "daddr") => is_v6.then(|| number(packet.dst)),
        ("ip", "protocol") => (!is_v6).then_some(packet.protocol.into()),
        ("tcp", "flags") => (packet.protocol == 6).then_some(packet.flags.into()),
        ("tcp", _) => (packet.protocol == 6).then_some(port.into()),
        ("udp", _) => (packet.protocol == 17).then_some(port.into()),
        // What has no ports has other bytes there.
        ("th", _) if matches!(packet.protocol, 6 | 17) => Some(port.into()),
        ("th", _) => Some(if packet.unknown { 53 } else { 9 }),
        ("icmp", "type") => (packet.protocol == 1).then_some(packet.icmp_type.into()),
        ("icmpv6", "type") => (packet.protocol == 58).then_some(packet.icmp_type.into()),
        _ => None,
    };
    if !header.is_empty() {
        return numbers.map(Part::Number);
    }
    Some(match (meta.as_str(), ct.as_str()) {
        ("nfproto", _) => Part::Word(if is_v6 { "ipv6" } else { "ipv4" }),
        ("l4proto", _) => Part::Number(packet.protocol.into()),
        ("iifname", _) => Part::Word(packet.by),
        ("oifname", _) => Part::Word(packet.to),
        (_, "state") => Part::Word(packet.state),
        other => panic!("{other:?}"),
    })
}

fn matches(list: &[Value], value: &Value, packet: &Packet) -> bool {
    let (op, left, right) = (value["op"].as_str().expect("an operator"), &value["left"], &value["right"]);
    if left["meta"]["key"] == "mark" {
        return packet.unknown;
    }
    if let Some(parts) = left["&"].as_array() {
        let Some(Part::Number(flags)) = key(&parts[0], packet) else { return false };
        return (flags & bits(&parts[1]) == bits(right)) == (op == "==");
    }
    let Some(parts) = keys(left, packet) else { return false };
    let among = |values: &Value| match values {
        Value::Array(list) => list.iter().any(|value| is(value, &parts, left)),
        value => is(value, &parts, left),
    };
    match op {
        "in" | "!" if left["payload"]["field"] == "flags" => {
            let Part::Number(flags) = parts[0] else { return false };
            (flags & bits(right) != 0) == (op == "in")
        }
        "==" if left["payload"]["field"] == "flags" => parts[0] == Part::Number(bits(right)),
        "<" | ">" => {
            let (Part::Number(number), Some(than)) = (&parts[0], right.as_u64()) else { return false };
            if op == "<" { *number < than.into() } else { *number > than.into() }
        }
        _ => {
            let name = right.as_str().and_then(|name| name.strip_prefix('@'));
            let values = match name {
                Some(name) => {
                    &list.iter().find(|object| object["set"]["name"] == name).expect("a set")["set"]["elem"]
                }
                None if right["set"].is_array() => &right["set"],
                None => right,
            };
            among(values) == matches!(op, "==" | "in")
        }
    }
}

/// Whether one element, which may be a range, a prefix, or parts side by side, is what the packet has.
fn is(element: &Value, parts: &[Part], left: &Value) -> bool {
    if let Some(elements) = element["concat"].as_array() {
        let lefts = left["concat"].as_array().expect("parts");
        return elements
            .iter()
            .zip(parts)
            .zip(lefts)
            .all(|((element, part), left)| is_one(element, part, left));
    }
    is_one(element, &parts[0], left)
}

fn is_one(element: &Value, part: &Part, left: &Value) -> bool {
    let number = match part {
        Part::Word(word) => return element == word,
        Part::Number(number) => *number,
    };
    let of = |value: &Value| -> u128 {
        let Some(text) = value.as_str() else { return value.as_u64().expect("a number").into() };
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(v4)) => v4.to_bits().into(),
            Ok(IpAddr::V6(v6)) => v6.to_bits(),
            Err(_) => named(text, left).into(),
        }
    };
    if let Some(ends) = element["range"].as_array() {
        return (of(&ends[0])..=of(&ends[1])).contains(&number);
    }
    if element["prefix"].is_object() {
        let bits = if left["payload"]["protocol"] == "ip6" { 128 } else { 32 };
        let host_bits = bits - element["prefix"]["len"].as_u64().expect("a length");
        return number >> host_bits == of(&element["prefix"]["addr"]) >> host_bits;
    }
    number == of(element)
}

fn named(name: &str, left: &Value) -> u8 {
    let is_v6 = left["payload"]["protocol"] == "icmpv6";
    match name {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "ipv6-icmp" => 58,
        "gre" => 47,
        "echo-request" => {
            if is_v6 {
                128
            } else {
                8
            }
        }
        "echo-reply" => {
            if is_v6 {
                129
            } else {
                0
            }
        }
        "destination-unreachable" => {
            if is_v6 {
                1
            } else {
                3
            }
        }
        "nd-router-solicit" => 133,
        other => panic!("{other}"),
    }
}

fn bits(value: &Value) -> u128 {
    const NAMES: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];
    match value {
        Value::Array(list) => list.iter().map(bits).sum(),
        Value::Object(map) => bits(&map["|"]),
        Value::String(name) => 1 << NAMES.iter().position(|own| own == name).expect("a flag"),
        number => number.as_u64().expect("a number").into(),
    }
}
