//! What expressions of nftables match, as sets of packets.

use std::net::IpAddr;

use serde_json::Value;
use wire::{Addr, protocol};

use super::names::{flags_of, protocol_of, type_of};
use super::ruleset::{Ruleset, Table};
use super::space::{Dim, Ranges, Reach, Region, Regions, TooMany, family};

/// Which interfaces of the ruleset are the chain's sides.
#[derive(Debug)]
pub struct Sides {
    pub inside: String,
    pub outside: String,
    /// What is behind the inside interface, and nothing else is.
    pub prefixes: Ranges,
}

/// What expressions are looked at with.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub ruleset: &'a Ruleset,
    pub sides: Option<&'a Sides>,
    /// Whether packets are on their way through, and not for the host itself.
    pub forwards: bool,
}

/// Why an expression does not fit.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    Why(String),
    TooMany,
}

impl From<TooMany> for Unfit {
    fn from(_: TooMany) -> Unfit {
        Unfit::TooMany
    }
}

impl<T: Into<String>> From<T> for Unfit {
    fn from(why: T) -> Unfit {
        Unfit::Why(why.into())
    }
}

/// What a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The IP version: names of IPv4 and of IPv6.
    Family([&'static str; 2]),
    /// The protocol; whether only of IPv4.
    Protocol {
        of_v4: bool,
    },
    /// The first `nexthdr` of IPv6, which an extension header may have.
    NextHeader,
    Addr {
        is_v6: bool,
        dim: Dim,
    },
    /// A port of one protocol, or of any that has its ports there.
    Port {
        protocol: Option<u8>,
        dim: Dim,
    },
    IcmpType {
        is_v6: bool,
    },
    TcpFlags,
    State,
    InInterface,
    OutInterface,
}

/// Protocols of which rules may ask for ports.
pub const WITH_PORTS: [u8; 4] = [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::DCCP];

/// ICMPv6 that the kernel does not track: MLD, and neighbour discovery but for redirects (`noct_valid_new` in
/// nf_conntrack_proto_icmpv6.c).
const NOT_TRACKED: [u8; 8] = [130, 131, 132, 133, 134, 135, 136, 143];

impl Key {
    fn of(left: &Value) -> Result<Key, Unfit> {
        let name =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(payload) = left.get("payload") {
            let (header, field) = (name(payload, "protocol"), name(payload, "field"));
            let end = |src, dst| if field.starts_with('s') { src } else { dst };
            return Ok(match (header.as_str(), field.as_str()) {
                ("ip", "saddr" | "daddr") => Key::Addr { is_v6: false, dim: end(Dim::Src, Dim::Dst) },
                ("ip6", "saddr" | "daddr") => Key::Addr { is_v6: true, dim: end(Dim::Src, Dim::Dst) },
                ("ip", "protocol") => Key::Protocol { of_v4: true },
                ("ip6", "nexthdr") => Key::NextHeader,
                ("ether", "type") => Key::Family(["ip", "ip6"]),
                ("icmp", "type") => Key::IcmpType { is_v6: false },
                ("icmpv6", "type") => Key::IcmpType { is_v6: true },
                ("tcp", "flags") => Key::TcpFlags,
                ("th" | "tcp" | "udp" | "sctp" | "dccp", "sport" | "dport") => {
                    let protocol = protocol_of(&Value::from(header));
                    Key::Port { protocol, dim: end(Dim::SrcPort, Dim::DstPort) }
                }
                _ => return Err(format!("`firewall` does not look at {header} {field}").into()),
            });
        }
        if let Some(meta) = left.get("meta") {
            return Ok(match name(meta, "key").as_str() {
                "nfproto" => Key::Family(["ipv4", "ipv6"]),
                "protocol" => Key::Family(["ip", "ip6"]),
                "l4proto" => Key::Protocol { of_v4: false },
                "iif" | "iifname" => Key::InInterface,
                "oif" | "oifname" => Key::OutInterface,
                other => return Err(format!("`firewall` does not look at meta {other}").into()),
            });
        }
        if let Some(ct) = left.get("ct") {
            return match name(ct, "key").as_str() {
                "state" if ct.get("dir").is_none() => Ok(Key::State),
                other => Err(format!("`firewall` does not look at ct {other}").into()),
            };
        }
        Err("`firewall` does not look at this".into())
    }

    /// Packets of which the key can be read; of others no condition about it holds, whatever it is.
    fn readable(self) -> Reach {
        let of_protocol = |number: u8| Region::all().with(Dim::Protocol, &Ranges::one(number));
        let exact = |region| Reach::exact(Regions::of(vec![region]));
        match self {
            Key::Family(_) | Key::State | Key::InInterface | Key::OutInterface => Reach::all(),
            Key::Protocol { of_v4: false } => Reach::all(),
            Key::Protocol { of_v4: true } => exact(of_family(false)),
            Key::NextHeader => exact(of_family(true)),
            Key::Addr { is_v6, .. } => exact(of_family(is_v6)),
            Key::Port { protocol: Some(number), .. } => exact(of_protocol(number)),
            // nftables reads whatever is there, a checksum for one.
            Key::Port { protocol: None, .. } => Reach {
                sure: Regions::of(WITH_PORTS.map(of_protocol).to_vec()).simple(),
                may: Regions::all(),
            },
            Key::TcpFlags => exact(of_protocol(protocol::TCP)),
            // With a rule that asks for the protocol too, nft does not ask for the IP version.
            Key::IcmpType { is_v6 } => {
                let number = if is_v6 { protocol::ICMPV6 } else { protocol::ICMP };
                let region = of_protocol(number);
                let addrs = family(is_v6);
                let sure = region.clone().with(Dim::Src, &addrs).with(Dim::Dst, &addrs);
                Reach { sure: Regions::of(vec![sure]), may: Regions::of(vec![region]) }
            }
        }
    }

    /// Packets of which the key is this value, among those of which it can be read.
    fn is(self, value: &Value, context: &Context<'_>) -> Result<Reach, Unfit> {
        let value = value.pointer("/elem/val").unwrap_or(value);
        if value == "*" && !matches!(self, Key::InInterface | Key::OutInterface) {
            return Ok(Reach::all());
        }
        let exact = |dim, ranges: &Ranges| Reach::exact(Regions::of(vec![Region::all().with(dim, ranges)]));
        let unknown = || Unfit::from(format!("{value} is no value that is known here"));
        Ok(match self {
            Key::Family(names) => match names.iter().position(|name| value == *name) {
                Some(index) => Reach::exact(Regions::of(vec![of_family(index == 1)])),
                None => return Err(unknown()),
            },
            Key::Protocol { .. } => exact(
                Dim::Protocol,
                &numbers(value, 255, |one| Some(protocol_of(one)?.into())).ok_or_else(unknown)?,
            ),
            Key::NextHeader => {
                let ranges = numbers(value, 255, |one| Some(protocol_of(one)?.into())).ok_or_else(unknown)?;
                Reach::some(exact(Dim::Protocol, &ranges).may)
            }
            Key::Addr { is_v6, dim } => exact(dim, &addrs(value, is_v6).ok_or_else(unknown)?),
            Key::Port { protocol, dim } => {
                let ports = numbers(value, 0xffff, |one| one.as_u64().map(u128::from)).ok_or_else(unknown)?;
                let reach = exact(dim, &ports);
                match protocol {
                    Some(_) => reach,
                    None => {
                        let readable = self.readable();
                        let others = readable.may.minus(&readable.sure)?;
                        let sure = readable.sure.and(&reach.sure)?;
                        Reach::exact(sure).or(Reach::some(others))
                    }
                }
            }
            Key::IcmpType { is_v6 } => {
                let ranges =
                    numbers(value, 255, |one| Some(type_of(one, is_v6)?.into())).ok_or_else(unknown)?;
                exact(Dim::IcmpType, &ranges)
            }
            Key::TcpFlags => exact(Dim::TcpFlags, &Ranges::one(flags_of(value).ok_or_else(unknown)?)),
            Key::State => of_states(&[value]).ok_or_else(unknown)?,
            Key::InInterface | Key::OutInterface => {
                let name = value.as_str().ok_or_else(unknown)?;
                let Some(sides) = context.sides else {
                    return Err(
                        "which interface is which side? Say --inside, --outside and --inside-prefixes".into(),
                    );
                };
                let [inside, outside] = [&sides.inside, &sides.outside].map(|own| is_interface(own, name));
                if self == Key::InInterface {
                    let taken = [(inside, 0), (outside, 1)].into_iter().filter(|(is, _)| *is);
                    exact(Dim::Side, &Ranges::of(taken.map(|(_, side)| (side, side)).collect()))
                } else if context.forwards {
                    sides.leaving(inside, outside)
                } else {
                    return Err("packets to the host leave by no interface".into());
                }
            }
        })
    }
}

impl Sides {
    /// Packets that leave by the inside, by the outside, or by either: by their destination.
    fn leaving(&self, by_inside: bool, by_outside: bool) -> Reach {
        let to = |addrs: &Ranges| Regions::of(vec![Region::all().with(Dim::Dst, addrs)]);
        [false, true].into_iter().fold(Reach::exact(Regions::default()), |leaving, is_v6| {
            let of_version = family(is_v6);
            let inside = self.prefixes.and(&of_version);
            let all = Region::all().with(Dim::Dst, &of_version);
            let outside = Regions::of(vec![all.clone()]).minus(&to(&inside)).unwrap_or_default();
            leaving.or(match (by_inside, by_outside) {
                (true, true) => Reach::exact(Regions::of(vec![all])),
                (false, false) => Reach::exact(Regions::default()),
                // Nothing says where packets of this IP version go.
                _ if inside.is_empty() => Reach::some(Regions::of(vec![all])),
                (true, false) => Reach::exact(to(&inside)),
                (false, true) => Reach::exact(outside),
            })
        })
    }
}

/// Whether a name of a rule, which may end with `*`, is that of an interface.
fn is_interface(own: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(begin) if !begin.ends_with('\\') => own.starts_with(begin),
        _ => own == name,
    }
}

fn of_family(is_v6: bool) -> Region {
    let addrs = family(is_v6);
    Region::all().with(Dim::Src, &addrs).with(Dim::Dst, &addrs)
}

/// Packets in one of these states of the kernel's tracker. What `firewall` calls untracked is so for the kernel if it is ICMPv6 that
/// the kernel does not track; of other ICMP `firewall` cannot tell what the kernel thinks.
fn of_states(names: &[&Value]) -> Option<Reach> {
    let named = |name: &str| names.iter().any(|value| *value == name);
    const OF_KERNEL: [&str; 5] = super::space::STATES;
    if !names.iter().all(|value| OF_KERNEL.iter().any(|name| *value == *name)) {
        return None;
    }
    let in_states = |wanted: &dyn Fn(&str) -> bool| {
        let states = (0..).zip(OF_KERNEL).filter(|(_, name)| wanted(name)).map(|(number, _)| number);
        Region::all().with(Dim::State, &Ranges::numbers(states))
    };
    let alike = in_states(&|name| name != "untracked" && named(name));
    let untracked = in_states(&|name| name == "untracked");
    let not_tracked = untracked
        .clone()
        .with(Dim::Protocol, &Ranges::one(protocol::ICMPV6))
        .with(Dim::IcmpType, &Ranges::numbers(NOT_TRACKED));
    let others = Regions::of(vec![untracked.clone()]).minus(&Regions::of(vec![not_tracked.clone()])).ok()?;
    let tracked = OF_KERNEL.iter().filter(|name| **name != "untracked");
    let (all, any) = (tracked.clone().all(|name| named(name)), tracked.clone().any(|name| named(name)));
    let mut reach = Reach::exact(Regions::of(vec![alike]));
    if named("untracked") {
        reach = reach.or(Reach::exact(Regions::of(vec![not_tracked])));
    }
    if all {
        reach = reach.or(Reach::exact(others));
    } else if any {
        reach = reach.or(Reach::some(others));
    }
    Some(Reach { sure: reach.sure.simple(), may: reach.may.simple() })
}

/// One number, a range or a prefix of numbers up to `last`.
fn numbers(value: &Value, last: u128, of_one: impl Fn(&Value) -> Option<u128>) -> Option<Ranges> {
    if let Some([from, to]) = value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let (from, to) = (of_one(from)?, of_one(to)?);
        return (from <= to && to <= last).then(|| Ranges::of(vec![(from, to)]));
    }
    of_one(value).filter(|one| *one <= last).map(Ranges::one)
}

fn addrs(value: &Value, is_v6: bool) -> Option<Ranges> {
    let of_text = |value: &Value| {
        let ip: IpAddr = value.as_str()?.parse().ok()?;
        (ip.is_ipv6() == is_v6).then(|| u128::from_be_bytes(Addr::from(ip).0))
    };
    if let Some(prefix) = value.get("prefix") {
        let (first, bits) = (of_text(prefix.get("addr")?)?, if is_v6 { 128 } else { 32 });
        let host_bits = bits - u32::try_from(prefix.get("len")?.as_u64()?).ok().filter(|len| *len <= bits)?;
        let ones = 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1);
        return Some(Ranges::of(vec![(first & !ones, first | ones)]));
    }
    numbers(value, u128::MAX, of_text)
}

/// Elements of a set of addresses; `None` if one is none.
pub fn elements(elements: &[Value], is_v6: bool) -> Option<Ranges> {
    let one = |value: &Value| addrs(value.pointer("/elem/val").unwrap_or(value), is_v6);
    let all: Option<Vec<Ranges>> = elements.iter().map(one).collect();
    Some(Ranges::of(all?.iter().flat_map(Ranges::iter).collect()))
}

/// The named set that a `match` asks for, if it is empty: `nft -t` writes no elements.
pub fn empty_set<'v>(value: &'v Value, table: &Table, ruleset: &Ruleset) -> Option<&'v str> {
    let name = value.get("right")?.as_str()?.strip_prefix('@')?;
    let set = ruleset.sets.get(&(table.clone(), name.to_owned()))?;
    (set.elements.is_empty() && !set.changes).then_some(name)
}

/// The condition that a `match` is.
///
/// # Errors
/// Why it cannot be said, with the packets that it may be about.
pub fn of_match(value: &Value, table: &Table, context: &Context<'_>) -> Result<Reach, (Unfit, Reach)> {
    let part = |key: &str| value.get(key).unwrap_or(&Value::Null);
    let (op, left, right) = (part("op").as_str().unwrap_or("=="), part("left"), part("right"));
    if let Some(flags) = masked_flags(op, left, right) {
        return Ok(flags);
    }
    of_values(left, op, right, table, context)
}

/// `tcp flags & MASK == VALUE`, and `tcp flags MASK`, which asks for one of them.
fn masked_flags(op: &str, left: &Value, right: &Value) -> Option<Reach> {
    let (key, mask) = match left.get("&").and_then(Value::as_array).map(Vec::as_slice) {
        Some([key, mask]) => (key, Some(flags_of(mask)?)),
        _ => (left, None),
    };
    if Key::of(key) != Ok(Key::TcpFlags) {
        return None;
    }
    let right = flags_of(right)?;
    let takes = |flags: &u8| match (mask, op) {
        (Some(mask), "==") => Some(flags & mask == right),
        (Some(mask), "!=") => Some(flags & mask != right),
        (None, "==") => Some(*flags == right),
        (None, "!=") => Some(*flags != right),
        (None, "in") => Some(flags & right != 0),
        (None, "!") => Some(flags & right == 0),
        _ => None,
    };
    takes(&0)?;
    let flags = Ranges::numbers((0..=255).filter(|flags| takes(flags) == Some(true)));
    let region = Region::all().with(Dim::Protocol, &Ranges::one(protocol::TCP)).with(Dim::TcpFlags, &flags);
    Some(Reach::exact(Regions::of(vec![region])))
}

fn of_values(
    left: &Value,
    op: &str,
    right: &Value,
    table: &Table,
    context: &Context<'_>,
) -> Result<Reach, (Unfit, Reach)> {
    let keys = keys_of(left).map_err(|unfit| (unfit, Reach::some(Regions::all())))?;
    let readable = readable(&keys).map_err(|unfit| (unfit, Reach::some(Regions::all())))?;
    let found = || -> Result<Reach, Unfit> {
        let values = values_of(right, table, context)?;
        let is_list = right.is_array();
        let is = match op {
            // Without a difference, which leaves states behind that no packet is in.
            "!=" | "!" if keys == [Key::State] && (op == "!" || !is_list) => {
                return is_in_other_state(&values);
            }
            "==" | "!=" if !is_list => is_one_of(&keys, &values, context)?,
            "in" if keys == [Key::State] => is_one_of(&keys, &values, context)?,
            "<" | ">" | "<=" | ">=" if matches!(keys[..], [Key::Port { .. }]) => {
                let number = right.as_u64().ok_or("a comparison with something that is no number")?;
                let range = match op {
                    "<" => number.checked_sub(1).map(|last| [0, last]),
                    "<=" => Some([0, number]),
                    ">" => Some([number + 1, 0xffff]),
                    _ => Some([number, 0xffff]),
                };
                match range.filter(|[first, last]| first <= last) {
                    Some([first, last]) => {
                        is_one_of(&keys, &[serde_json::json!({ "range": [first, last] })], context)?
                    }
                    None => Reach::exact(Regions::default()),
                }
            }
            _ => return Err(format!("the comparison \"{op}\" is not known here").into()),
        };
        let is = if op == "!=" { is.not()? } else { is };
        Ok(readable.and(&is)?)
    };
    found().map_err(|unfit| (unfit, Reach::some(readable.may.clone())))
}

/// What a condition looks at: one thing, or several side by side.
pub fn keys_of(left: &Value) -> Result<Vec<Key>, Unfit> {
    match left.get("concat").and_then(Value::as_array) {
        Some(parts) => parts.iter().map(Key::of).collect(),
        None => Ok(vec![Key::of(left)?]),
    }
}

/// Packets of which all keys can be read.
pub fn readable(keys: &[Key]) -> Result<Reach, Unfit> {
    keys.iter().try_fold(Reach::all(), |reach, key| Ok(reach.and(&key.readable())?))
}

/// What the right side of a condition names: a value, or the elements of a set.
fn values_of(right: &Value, table: &Table, context: &Context<'_>) -> Result<Vec<Value>, Unfit> {
    if let Some(name) = right.as_str().and_then(|text| text.strip_prefix('@')) {
        let Some(set) = context.ruleset.sets.get(&(table.clone(), name.to_owned())) else {
            return Err(format!("there is no set @{name} in {table}").into());
        };
        if set.changes {
            return Err(format!("packets or time change the set @{name}").into());
        }
        return Ok(set.elements.clone());
    }
    Ok(match (right.get("set"), right) {
        (Some(Value::Array(elements)), _) => elements.clone(),
        (Some(other), _) => vec![other.clone()],
        // States with commas between them.
        (None, Value::Array(list)) => list.clone(),
        (None, one) => vec![one.clone()],
    })
}

/// Packets that are in none of these states.
fn is_in_other_state(values: &[Value]) -> Result<Reach, Unfit> {
    let unknown = || Unfit::from("a state that is not known here");
    let names: Vec<&Value> = values.iter().map(|value| value.pointer("/elem/val").unwrap_or(value)).collect();
    of_states(&names).ok_or_else(unknown)?;
    let others: Vec<Value> =
        super::space::STATES.into_iter().map(Value::from).filter(|state| !names.contains(&state)).collect();
    of_states(&others.iter().collect::<Vec<_>>()).ok_or_else(unknown)
}

/// Packets whose keys are one of these values.
pub fn is_one_of(keys: &[Key], values: &[Value], context: &Context<'_>) -> Result<Reach, Unfit> {
    if let [Key::State] = keys {
        let names: Vec<&Value> =
            values.iter().map(|value| value.pointer("/elem/val").unwrap_or(value)).collect();
        return of_states(&names).ok_or_else(|| "a state that is not known here".into());
    }
    let none = Reach::exact(Regions::default());
    let mut found = values.iter().try_fold(none, |found, value| {
        let value = value.pointer("/elem/val").unwrap_or(value);
        let parts: Vec<&Value> = match value.get("concat").and_then(Value::as_array) {
            Some(parts) => parts.iter().collect(),
            None => vec![value],
        };
        if parts.len() != keys.len() && value != "*" {
            return Err(Unfit::from("a set of which the elements have another number of parts"));
        }
        let one = keys.iter().zip(parts).try_fold(Reach::all(), |reach, (key, part)| {
            Ok::<_, Unfit>(reach.and(&key.is(part, context)?)?)
        })?;
        Ok::<_, Unfit>(found.or(one))
    })?;
    if let [_] = keys {
        (found.sure, found.may) = (found.sure.united(), found.may.united());
    }
    Ok(found)
}
