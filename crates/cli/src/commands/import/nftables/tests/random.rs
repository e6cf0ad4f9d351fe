//! Random rulesets of what the import knows, and of some that it does not.

use serde_json::{Value, json};

/// Draws from a seed (xorshift64*).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, number: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % number
    }

    pub fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    pub fn is_one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

/// What a ruleset has beside what fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// Conditions that `firewall` cannot ask for.
    Unknown,
}

/// Addresses that packets and rules have: few, so that they meet.
pub fn addr(draw: &mut Draw, is_v6: bool) -> String {
    let last = draw.below(16);
    if is_v6 { format!("2001:db8::{last:x}") } else { format!("10.0.0.{last}") }
}

pub fn port(draw: &mut Draw) -> u64 {
    20 + draw.below(6)
}

/// A table `inet t` with a base chain `forward` and chains `a` and `b`, which it may lead to.
pub fn ruleset(draw: &mut Draw, beside: Beside) -> Value {
    let policy = draw.one(&["accept", "drop"]);
    let mut list = vec![
        json!({ "metainfo": { "json_schema_version": 1 } }),
        json!({ "table": { "family": "inet", "name": "t", "handle": 1 } }),
    ];
    for (name, is_v6) in [("block", false), ("block6", true)] {
        let elements = [0, 4].map(|first| {
            let addr = if is_v6 { format!("2001:db8::{first:x}") } else { format!("10.0.0.{first}") };
            json!({ "prefix": { "addr": addr, "len": if is_v6 { 127 } else { 31 } } })
        });
        let kind = if is_v6 { "ipv6_addr" } else { "ipv4_addr" };
        list.push(json!({ "set": {
            "family": "inet", "table": "t", "name": name, "type": kind, "flags": ["interval"], "elem": elements,
        } }));
    }
    for name in ["b", "a"] {
        list.push(json!({ "chain": { "family": "inet", "table": "t", "name": name } }));
    }
    list.push(json!({ "chain": {
        "family": "inet", "table": "t", "name": "forward", "type": "filter", "hook": "forward", "prio": 0, "policy": policy,
    } }));
    let mut handle = 10;
    for (chain, targets, most) in [("b", &[][..], 3), ("a", &["b"][..], 4), ("forward", &["a", "b"], 9)] {
        for _ in 0..=draw.below(most) {
            handle += 1;
            let expressions = rule(draw, targets, beside);
            list.push(json!({ "rule": {
                "family": "inet", "table": "t", "chain": chain, "handle": handle, "expr": expressions,
            } }));
        }
    }
    json!({ "nftables": list })
}

fn rule(draw: &mut Draw, targets: &[&str], beside: Beside) -> Vec<Value> {
    // What nft takes side by side: one IP version, one protocol.
    let (is_v6, is_tcp) = (draw.is_one_in(3), draw.is_one_in(2));
    let mut expressions: Vec<Value> = (0..draw.below(4)).map(|_| condition(draw, is_v6, is_tcp)).collect();
    if beside == Beside::Unknown && draw.is_one_in(3) {
        expressions.push(draw.one(&[
            json!({ "quota": { "val": 1000, "val_unit": "bytes" } }),
            matching("==", &json!({ "meta": { "key": "mark" } }), &json!(1)),
            // nft takes it: it reads whatever is where ports are.
            matching("==", &payload("th", "dport"), &json!(53)),
        ]));
    }
    if draw.is_one_in(if beside == Beside::Nothing { 40 } else { 6 }) {
        let (burst, inv) = (1 + draw.below(2), draw.is_one_in(2));
        expressions.push(match inv {
            true => json!({ "limit": { "rate": 10, "burst": burst, "per": "minute", "inv": true } }),
            false => json!({ "limit": { "rate": 10, "burst": burst, "per": "minute" } }),
        });
    }
    if draw.is_one_in(3) {
        expressions.push(json!({ "counter": { "packets": 0, "bytes": 0 } }));
    }
    if draw.is_one_in(5) {
        let verdict = |draw: &mut Draw| verdict(draw, targets, false);
        let (key, mut elements) = match draw.below(3) {
            0 => (
                json!({ "ct": { "key": "state" } }),
                vec![json!("established"), json!("invalid"), json!("new")],
            ),
            1 => {
                (payload(if is_tcp { "tcp" } else { "udp" }, "dport"), vec![json!(20), json!(21), json!(23)])
            }
            _ => (json!({ "meta": { "key": "l4proto" } }), vec![json!("tcp"), json!("udp"), json!("icmp")]),
        };
        elements.truncate(1 + draw.below(3) as usize);
        let pairs: Vec<Value> = elements.into_iter().map(|element| json!([element, verdict(draw)])).collect();
        expressions.push(json!({ "vmap": { "key": key, "data": { "set": pairs } } }));
    } else if !draw.is_one_in(8) {
        expressions.push(verdict(draw, targets, true));
    }
    if expressions.is_empty() {
        expressions.push(json!({ "counter": { "packets": 0, "bytes": 0 } }));
    }
    expressions
}

fn verdict(draw: &mut Draw, targets: &[&str], may_reject: bool) -> Value {
    match draw.below(if targets.is_empty() { 5 } else { 8 }) {
        0 | 1 => json!({ "accept": null }),
        2 => json!({ "drop": null }),
        3 if may_reject => {
            let kind = draw.one(&["port-unreachable", "admin-prohibited", "no-route"]);
            json!({ "reject": { "type": "icmpx", "expr": kind } })
        }
        3 | 4 => json!({ "return": null }),
        5 => json!({ "goto": { "target": draw.one(targets) } }),
        _ => json!({ "jump": { "target": draw.one(targets) } }),
    }
}

fn matching(op: &str, left: &Value, right: &Value) -> Value {
    json!({ "match": { "op": op, "left": left, "right": right } })
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({ "payload": { "protocol": protocol, "field": field } })
}

fn condition(draw: &mut Draw, is_v6: bool, is_tcp: bool) -> Value {
    let equal = draw.one(&["==", "==", "!="]);
    let name = if is_tcp { "tcp" } else { "udp" };
    match draw.below(12) {
        0..3 => {
            let field = draw.one(&["saddr", "daddr"]);
            let right = addrs(draw, is_v6);
            matching(equal, &payload(if is_v6 { "ip6" } else { "ip" }, field), &right)
        }
        3..5 => {
            let field = draw.one(&["sport", "dport"]);
            let port = port(draw);
            let (op, right) = match draw.below(4) {
                0 => (equal, json!(port)),
                1 => (equal, json!({ "range": [port, port + 2] })),
                2 => (equal, json!({ "set": [port, { "range": [port + 2, 30] }] })),
                _ => (draw.one(&["<", ">"]), json!(port)),
            };
            matching(op, &payload(name, field), &right)
        }
        5 => {
            let right =
                draw.one(&[json!("tcp"), json!("udp"), json!({ "set": ["tcp", "udp"] }), json!("ipv6-icmp")]);
            matching(equal, &json!({ "meta": { "key": "l4proto" } }), &right)
        }
        6 => matching(
            "==",
            &json!({ "meta": { "key": "nfproto" } }),
            &json!(if is_v6 { "ipv6" } else { "ipv4" }),
        ),
        7 => {
            let header = if is_v6 { "icmpv6" } else { "icmp" };
            let right = draw
                .one(&[json!("echo-request"), json!({ "set": ["echo-reply", "destination-unreachable"] })]);
            matching(equal, &payload(header, "type"), &right)
        }
        8 if is_tcp => tcp_flags(draw),
        9 => {
            let interface = draw.one(&["lan0", "wan0", "other0"]);
            matching(
                equal,
                &json!({ "meta": { "key": draw.one(&["iifname", "oifname"]) } }),
                &json!(interface),
            )
        }
        10 => {
            let left = json!({ "concat": [payload(if is_v6 { "ip6" } else { "ip" }, "daddr"), payload(name, "dport")] });
            let elements = [0, 1].map(|_| json!({ "concat": [addr(draw, is_v6), port(draw)] }));
            matching("==", &left, &json!({ "set": elements }))
        }
        _ => {
            let state = json!({ "ct": { "key": "state" } });
            match draw.below(4) {
                0 => matching("in", &state, &json!(["established", "related"])),
                1 => matching("in", &state, &json!(draw.one(&["new", "invalid", "untracked"]))),
                2 => matching("!", &state, &json!(["new", "untracked"])),
                _ => matching("!=", &state, &json!("established")),
            }
        }
    }
}

fn addrs(draw: &mut Draw, is_v6: bool) -> Value {
    let one = addr(draw, is_v6);
    let range = |first: u64, last: u64| {
        let [first, last] =
            [first, last].map(|n| if is_v6 { format!("2001:db8::{n:x}") } else { format!("10.0.0.{n}") });
        json!({ "range": [first, last] })
    };
    match draw.below(5) {
        0 => {
            json!({ "prefix": { "addr": if is_v6 { "2001:db8::8" } else { "10.0.0.8" }, "len": if is_v6 { 125 } else { 29 } } })
        }
        1 => range(3, 5 + draw.below(6)),
        2 => json!(if is_v6 { "@block6" } else { "@block" }),
        3 => json!({ "set": [range(0, 1), one.replace(".1", ".9").replace("::1", "::9")] }),
        _ => json!(one),
    }
}

fn tcp_flags(draw: &mut Draw) -> Value {
    let flags = payload("tcp", "flags");
    match draw.below(4) {
        0 => matching("==", &json!({ "&": [flags, ["syn", "ack"]] }), &json!("syn")),
        1 => matching(
            draw.one(&["==", "!="]),
            &json!({ "&": [flags, ["fin", "syn", "rst", "ack"]] }),
            &json!("syn"),
        ),
        2 => matching("in", &flags, &json!(draw.one(&["syn", "rst"]))),
        _ => matching("==", &flags, &json!("syn")),
    }
}
