//! Tests of the import: what it makes of random rulesets against a small interpreter of nftables, and of single expressions.

use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use nf::{NetworkFunction, Rig, Verdict};
use nfs::Firewall;
use serde_json::{Value, json};
use wire::{Addr, Headers, Marks, protocol, tcp_flags};

use super::*;

mod limits;
mod oracle;
mod random;

use oracle::Packet;
use random::{Beside, Draw};

/// What is behind `lan0` in these tests.
fn sides() -> Sides {
    let range = |first: &str, bits: u32| {
        let first = u128::from_be_bytes(Addr::from(first.parse::<IpAddr>().expect("an address")).0);
        (first, first + (1 << bits) - 1)
    };
    let prefixes = Ranges::of(vec![range("10.0.0.0", 3), range("2001:db8::", 3)]);
    Sides { inside: "lan0".into(), outside: "wan0".into(), prefixes }
}

/// The firewall of a chain file.
fn firewall(chain: &str) -> Firewall {
    let file: toml::Table = chain.parse().expect("TOML");
    let mut function = file["function"][0].as_table().expect("a function").clone();
    function.remove("use");
    let options = toml::Value::Table(function).try_into().expect("options");
    Firewall::new(options).unwrap_or_else(|error| panic!("{error}: {chain}"))
}

/// The rules of a chain file.
fn rules(chain: &str) -> Vec<String> {
    let file: toml::Table = chain.parse().expect("TOML");
    let rules = file["function"][0]["rules"].as_array().expect("rules");
    rules.iter().map(|rule| rule.as_str().expect("text").to_owned()).collect()
}

fn headers(packet: &Packet) -> Headers {
    let is_v6 = packet.src.is_ipv6();
    let family = if is_v6 { Marks::IPV6 } else { Marks::IPV4 };
    let side = if packet.by == "wan0" { Marks::FROM_OUTSIDE } else { Marks::empty() };
    let headers = Headers {
        src: packet.src.into(),
        dst: packet.dst.into(),
        protocol: packet.protocol,
        l3_len: if is_v6 { 60 } else { 40 },
        marks: family | side,
        ..Headers::default()
    };
    let Packet { src_port, dst_port, flags, .. } = *packet;
    match packet.protocol {
        protocol::TCP => Headers {
            src_port,
            dst_port,
            tcp_flags: flags,
            seq: u32::from(flags & tcp_flags::SYN == 0),
            ack: u32::from(flags & tcp_flags::ACK != 0),
            sack: u32::from(flags & tcp_flags::ACK != 0),
            tcp_shape: 5 << 4 | 15,
            l3_offset: 14,
            l4_offset: if is_v6 { 54 } else { 34 },
            window: 1_000,
            ..headers
        },
        protocol::UDP => Headers { src_port, dst_port, ..headers },
        protocol::ICMP => {
            // An identifier stands where ports do.
            let (shape, src_port, dst_port) = match packet.icmp_type {
                8 => (0x20 | 1, src_port, 0),
                0 => (0x20 | 2, 0, src_port),
                _ => (0, 0, 0),
            };
            Headers {
                src_port,
                dst_port,
                seq: u32::from(packet.icmp_type) << 24,
                tcp_shape: shape,
                ..headers
            }
        }
        protocol::ICMPV6 => Headers { seq: u32::from(packet.icmp_type) << 24, ..headers },
        _ => headers,
    }
}

fn is_inside(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if v4.octets()[3] < 8) || matches!(ip, IpAddr::V6(v6) if v6.octets()[15] < 8)
}

fn way_out(dst: IpAddr) -> &'static str {
    if is_inside(dst) { "lan0" } else { "wan0" }
}

/// The first packet of a connection, or one that none explains.
fn packet(draw: &mut Draw) -> Packet {
    use tcp_flags::{ACK, FIN, RST, SYN, URG};
    let is_v6 = draw.is_one_in(3);
    let [src, dst] = [(), ()].map(|()| random::addr(draw, is_v6).parse::<IpAddr>().expect("an address"));
    let (ports, unknown) =
        ([random::port(draw), random::port(draw)].map(|port| port as u16), draw.is_one_in(2));
    let icmp = if is_v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let protocol = draw.one(&[protocol::TCP, protocol::TCP, protocol::UDP, protocol::UDP, icmp, 47]);
    let (mut flags, mut icmp_type, mut state) = (0, 0, "new");
    match protocol {
        protocol::TCP => {
            flags = draw.one(&[SYN, SYN, SYN | URG, ACK, SYN | ACK, SYN | FIN, RST, FIN | ACK, 0]);
            state = if matches!(flags & !URG, SYN | ACK) { "new" } else { "invalid" };
        }
        protocol::ICMP => {
            icmp_type = draw.one(&[8, 0]);
            state = if icmp_type == 8 { "new" } else { "invalid" };
        }
        protocol::ICMPV6 => {
            icmp_type = draw.one(&[128, 129, 133]);
            state = match icmp_type {
                128 => "new",
                129 => "invalid",
                _ => "untracked",
            };
        }
        _ => {}
    }
    Packet {
        src,
        dst,
        protocol,
        src_port: ports[0],
        dst_port: ports[1],
        icmp_type,
        flags,
        state,
        by: draw.one(&["lan0", "wan0"]),
        to: way_out(dst),
        unknown,
    }
}

/// The answer to the first packet of a connection.
fn answer(to: &Packet) -> Packet {
    use tcp_flags::{ACK, SYN};
    Packet {
        src: to.dst,
        dst: to.src,
        src_port: to.dst_port,
        dst_port: to.src_port,
        flags: if to.protocol == protocol::TCP { SYN | ACK } else { 0 },
        state: "established",
        by: if to.by == "lan0" { "wan0" } else { "lan0" },
        to: way_out(to.src),
        ..to.clone()
    }
}

/// Packets that pass though the ruleset drops them, or, if all of the ruleset fits, the other way round.
fn differences(ruleset: &Value, chain: &str, fits: bool, draw: &mut Draw) -> Option<Packet> {
    let differs = |packet: &Packet, passes: bool, taken: &mut oracle::Taken| {
        let accepts = oracle::accepts(ruleset, packet, taken);
        (passes && !accepts) || (fits && passes != accepts)
    };
    let firewall = firewall(chain);
    for _ in 0..60 {
        // A connection of its own for each.
        let (mut rig, mut taken) = (Rig::new(firewall.clone()), oracle::Taken::new());
        let first = packet(draw);
        let mut passes = false;
        // As often as a bucket may have tokens, and once more.
        for _ in 0..3 {
            let passes_now = rig.packet(0, &headers(&first)) == Verdict::Forward;
            if differs(&first, passes_now, &mut taken) {
                return Some(first);
            }
            passes |= passes_now;
        }
        let is_open =
            first.state == "new" && (first.protocol != protocol::TCP || first.flags == tcp_flags::SYN);
        if passes
            && is_open
            && !matches!(first.protocol, protocol::ICMP | protocol::ICMPV6)
            && first.src != first.dst
        {
            let second = answer(&first);
            let passes = rig.packet(1, &headers(&second)) == Verdict::Forward;
            if differs(&second, passes, &mut taken) {
                return Some(second);
            }
        }
    }
    None
}

fn import_of(ruleset: &Value) -> Imported {
    let sides = sides();
    import(&ruleset.to_string(), Hook::Forward, Some(&sides), &[])
        .unwrap_or_else(|error| panic!("{error}: {ruleset}"))
}

/// Whether nothing but other answers to rejected packets is missing.
fn fits(problems: &[Problem]) -> bool {
    problems.iter().all(|problem| problem.why.contains("answers with TCP resets and"))
}

#[test]
fn random_rulesets_of_what_fits_mean_the_same() {
    let mut whole = 0;
    for seed in 0..80 {
        let mut draw = Draw::new(seed);
        let ruleset = random::ruleset(&mut draw, Beside::Nothing);
        let Imported { chain, problems } = import_of(&ruleset);
        let fits = fits(&problems);
        whole += usize::from(fits);
        if let Some(packet) = differences(&ruleset, &chain, fits, &mut draw) {
            panic!("seed {seed}: {packet:?}\n{ruleset}\n{chain}\n{problems:#?}");
        }
    }
    assert!(whole > 50, "{whole} of 80 fitted, so little was compared");
}

#[test]
fn what_does_not_fit_accepts_nothing_more() {
    let mut partly = 0;
    for seed in 1_000..1_080 {
        let mut draw = Draw::new(seed);
        let ruleset = random::ruleset(&mut draw, Beside::Unknown);
        let Imported { chain, problems } = import_of(&ruleset);
        partly += usize::from(!fits(&problems));
        if let Some(packet) = differences(&ruleset, &chain, fits(&problems), &mut draw) {
            panic!("seed {seed}: {packet:?}\n{ruleset}\n{chain}\n{problems:#?}");
        }
    }
    assert!(partly > 40, "{partly} of 80 did not fit");
}

/// Has the kernel of a new network namespace load a ruleset, and nft write what the kernel has then.
fn loaded(ruleset: &str, options: &str) -> Result<String, String> {
    in_namespace(&format!("nft {options} -f - && nft -j list ruleset"), ruleset)
}

/// Runs a script of bash in a network namespace of its own; `Ok` is what it printed.
fn in_namespace(script: &str, ruleset: &str) -> Result<String, String> {
    let mut command = Command::new("unshare");
    command
        .args(["--net", "bash", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("`unshare` does not run: {error}"))?;
    child.stdin.take().expect("a pipe").write_all(ruleset.as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("text")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Whether nft can load rulesets here; says why not.
fn has_nft() -> bool {
    match loaded("table inet t {}", "") {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: nft, in a network namespace as root, does not load a table: {}", why.trim());
            false
        }
    }
}

/// The kernel gets a ruleset, and what nft says of it is imported: it means what was loaded.
#[test]
fn rulesets_that_the_kernel_has_loaded_mean_the_same() {
    if !has_nft() {
        return;
    }
    let mut compared = 0;
    for seed in 2_000..2_040 {
        let mut draw = Draw::new(seed);
        let ruleset = random::ruleset(&mut draw, Beside::Unknown);
        // Not all that is drawn is a rule of nft: two conditions of one may contradict each other.
        let Ok(exported) = loaded(&ruleset.to_string(), "-j") else { continue };
        compared += 1;
        let sides = sides();
        let Imported { chain, problems } = import(&exported, Hook::Forward, Some(&sides), &[])
            .unwrap_or_else(|error| panic!("{error}: {exported}"));
        if let Some(packet) = differences(&ruleset, &chain, fits(&problems), &mut draw) {
            panic!("seed {seed}: {packet:?}\n{exported}\n{chain}\n{problems:#?}");
        }
    }
    assert!(compared > 12, "nft took {compared} of 40");
}

/// A ruleset as people write it, as nft exports it, and as the chain file that it becomes.
#[test]
fn a_ruleset_as_people_write_it_has_its_chain_file() {
    let (written, exported) = (include_str!("tests/office.nft"), include_str!("tests/office.json"));
    if has_nft() {
        let without_counts = |text: &str| {
            let mut value: Value = serde_json::from_str(text).expect("JSON");
            let objects = value["nftables"].as_array_mut().expect("a list");
            objects.retain(|object| object.get("metainfo").is_none());
            value
        };
        let now = loaded(written, "").expect("it is a ruleset");
        assert_eq!(without_counts(&now), without_counts(exported), "{now}");
    }
    let sides = Sides { inside: "eth1".into(), outside: "eth0".into(), ..sides() };
    let Imported { chain, problems } =
        import(exported, Hook::Forward, Some(&sides), &["ip nat".into()]).expect("a ruleset");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/import/nftables/tests/office.toml");
        std::fs::write(path, &chain).expect("the repository can be written");
    }
    assert_eq!(chain, include_str!("tests/office.toml"));
    let told: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.place, problem.expression)).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    EngineChain::parse("office.toml", &chain, &stock::registry())
        .unwrap_or_else(|error| panic!("{}", error.in_words()));
}

/// A wrong translation, planted as another ruleset that is translated in place of the right one.
fn planted(fault: &str, value: &mut Value) {
    match value {
        Value::Object(map) => {
            match (fault, map.get("op").and_then(Value::as_str)) {
                ("negations are lost", Some("!=")) => _ = map.insert("op".into(), "==".into()),
                ("one more than asked for", Some("<")) => {
                    let port = map["right"].as_u64().expect("a number");
                    map.insert("right".into(), (port + 1).into());
                }
                ("all of a list in place of one", Some("in")) => _ = map.insert("op".into(), "==".into()),
                _ => {}
            }
            if fault == "goto comes back"
                && let Some(target) = map.remove("goto")
            {
                map.insert("jump".into(), target);
            }
            if fault == "return is nothing"
                && let Some(nothing) = map.remove("return")
            {
                map.insert("continue".into(), nothing);
            }
            if fault == "rules of limits are taken whole" && map.contains_key("limit") {
                map.clear();
                map.insert("counter".into(), json!(null));
            }
            map.values_mut().for_each(|value| planted(fault, value));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| planted(fault, value)),
        _ => {}
    }
}

#[test]
fn the_oracle_finds_planted_wrong_translations() {
    for fault in [
        "negations are lost",
        "one more than asked for",
        "goto comes back",
        "return is nothing",
        "rules of limits are taken whole",
    ] {
        let found = (0..600).find(|seed| {
            let mut draw = Draw::new(*seed);
            let ruleset = random::ruleset(&mut draw, Beside::Unknown);
            let mut wrong = ruleset.clone();
            planted(fault, &mut wrong);
            let Imported { chain, problems } = import_of(&wrong);
            differences(&ruleset, &chain, fits(&problems), &mut draw).is_some()
        });
        assert!(found.is_some(), "{fault}");
    }
}

/// A ruleset with one base chain that drops, and these rules.
fn with_rules(expressions: &[Vec<Value>]) -> Value {
    let mut list = vec![json!({ "chain": {
        "family": "inet", "table": "t", "name": "forward", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop",
    } })];
    list.extend((1..).zip(expressions).map(|(handle, expressions)| {
        json!({ "rule": { "family": "inet", "table": "t", "chain": "forward", "handle": handle, "expr": expressions } })
    }));
    json!({ "nftables": list })
}

fn imported(expressions: &[Vec<Value>]) -> (Vec<String>, Vec<Problem>) {
    let Imported { chain, problems } =
        import(&with_rules(expressions).to_string(), Hook::Forward, None, &[]).expect("a ruleset");
    (rules(&chain), problems)
}

/// One rule each, as `nft -j` writes it, and the rules that it becomes.
#[test]
fn expressions_become_the_rules_that_say_them() {
    let payload = |header: &str, field: &str| json!({ "payload": { "protocol": header, "field": field } });
    let matching =
        |op: &str, left: Value, right: Value| json!({ "match": { "op": op, "left": left, "right": right } });
    let state = || json!({ "ct": { "key": "state" } });
    let cases: Vec<(Vec<Value>, &str, Vec<&str>)> = vec![
        (
            vec![matching("in", state(), json!(["established", "related"]))],
            "accept",
            vec!["accept any from any to any state established,related"],
        ),
        (
            vec![matching("in", state(), json!("invalid"))],
            "drop",
            vec![
                "drop any from any to any state invalid",
                "drop 1 from any to any state untracked",
                "drop icmpv6 from any to any type 0-129,137-142,144-255 state untracked",
            ],
        ),
        (
            vec![matching("==", payload("ip", "saddr"), json!({ "range": ["192.0.2.10", "192.0.2.12"] }))],
            "accept",
            vec!["accept any from 192.0.2.10/31,192.0.2.12 to any"],
        ),
        (
            vec![matching(
                "==",
                payload("ip6", "daddr"),
                json!({ "prefix": { "addr": "2001:db8::", "len": 32 } }),
            )],
            "accept",
            vec!["accept any from any to 2001:db8::/32"],
        ),
        (
            vec![matching("==", payload("tcp", "dport"), json!({ "set": [22, { "range": [80, 90] }] }))],
            "accept",
            vec!["accept tcp from any to any port 22,80-90"],
        ),
        (
            vec![matching("!=", payload("tcp", "dport"), json!(22))],
            "accept",
            vec!["accept tcp from any to any port 0-21,23-65535"],
        ),
        (
            vec![
                matching("==", json!({ "meta": { "key": "l4proto" } }), json!({ "set": ["tcp", "udp"] })),
                matching("==", payload("th", "dport"), json!(53)),
            ],
            "accept",
            vec!["accept tcp from any to any port 53", "accept udp from any to any port 53"],
        ),
        (
            vec![matching("==", payload("icmp", "type"), json!("echo-request"))],
            "accept",
            vec!["accept 1 from 0.0.0.0/0 to any type 8"],
        ),
        (
            vec![
                matching("==", json!({ "&": [payload("tcp", "flags"), ["syn", "ack"]] }), json!("syn")),
                matching("in", state(), json!("new")),
            ],
            "accept",
            vec!["accept tcp from any to any flags syn,!ack state new"],
        ),
        (
            // What no TCP sends is invalid, and never established.
            vec![matching("==", payload("tcp", "flags"), json!(0))],
            "drop",
            vec![
                "drop tcp from any to any flags !fin,!syn,!rst,!psh,!ack,!urg,!ece state new,related,invalid,untracked",
            ],
        ),
    ];
    for (mut expressions, verdict, expected) in cases {
        expressions.push(json!({ verdict: null }));
        let (rules, problems) = imported(&[expressions.clone()]);
        assert_eq!((rules, problems), (expected.iter().map(|rule| (*rule).to_owned()).collect(), Vec::new()));
    }
}

/// A rule that cannot be said accepts nothing, or drops all that it may be about; the list says which.
#[test]
fn what_cannot_be_said_is_listed_with_its_place_and_closed() {
    let limit = json!({ "limit": { "rate": 10, "rate_unit": "kbytes", "burst": 5, "per": "second" } });
    let udp = json!({ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": "udp" } });
    let (accept, drop) = (json!({ "accept": null }), json!({ "drop": null }));
    let queue = json!({ "queue": { "num": 1 } });
    for (expressions, expected, instead) in [
        (vec![udp.clone(), limit.clone(), accept.clone()], vec![], "left out, and its packets"),
        (
            vec![udp.clone(), limit, drop],
            vec!["drop udp from any to any"],
            "all packets that the rule may be about",
        ),
        (
            vec![udp.clone(), queue],
            vec!["drop udp from any to any"],
            "all packets that the rule may be about",
        ),
        (
            vec![udp.clone(), json!({ "log": null }), accept.clone()],
            vec!["accept udp from any to any"],
            "verdicts are as before",
        ),
    ] {
        let (mut rules, problems) = imported(&[expressions, vec![udp.clone(), accept.clone()]]);
        assert_eq!(rules.pop().as_deref(), Some("accept udp from any to any"));
        assert_eq!(rules, expected);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].place, "inet t forward rule 1");
        assert!(problems[0].instead.contains(instead), "{problems:?}");
    }
}

/// What nft tells a sender is told as far as `firewall` does; another answer is listed, and packets are dropped.
#[test]
fn rejects_are_rejects_or_listed() {
    let udp = json!({ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": "udp" } });
    let tcp = json!({ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": "tcp" } });
    for (condition, reject, expected) in [
        (&udp, json!(null), "reject udp from any to any"),
        (&tcp, json!({ "type": "tcp reset" }), "reject tcp from any to any"),
        (&udp, json!({ "type": "icmpx", "expr": "admin-prohibited" }), "reject udp from any to any"),
        (&udp, json!({ "type": "icmp", "expr": "admin-prohibited" }), "reject udp from any to any"),
        (&udp, json!({ "type": "icmpx", "expr": "port-unreachable" }), "reject udp from any to any"),
    ] {
        let (rules, problems) = imported(&[vec![condition.clone(), json!({ "reject": reject })]]);
        assert_eq!((rules, problems), (vec![expected.to_owned()], vec![]), "{reject}");
    }
    let (rules, problems) =
        imported(&[vec![udp, json!({ "reject": { "type": "icmpx", "expr": "no-route" } })]]);
    assert_eq!(rules, ["drop udp from any to any"]);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].expression, "reject with icmpx no-route");
    assert!(problems[0].instead.contains("not told"), "{problems:?}");
}

/// `nft -t` writes sets without their elements, which looks as if they had none.
#[test]
fn a_set_without_elements_is_told() {
    let left = json!({ "payload": { "protocol": "ip", "field": "saddr" } });
    let condition = json!({ "match": { "op": "==", "left": left, "right": "@block" } });
    let mut ruleset = with_rules(&[vec![condition, json!({ "drop": null })]]);
    let set = json!({ "family": "inet", "table": "t", "name": "block", "type": "ipv4_addr" });
    ruleset["nftables"].as_array_mut().expect("a list").insert(0, json!({ "set": set }));
    let Imported { problems, .. } =
        import(&ruleset.to_string(), Hook::Forward, None, &[]).expect("a ruleset");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].why.contains("nft -t"), "{problems:?}");
}

/// Chains that this import does not follow have a say about the same packets.
#[test]
fn other_chains_that_packets_meet_are_refused_until_they_are_left_out() {
    let nat = |hook: &str, kind: &str| {
        let mut ruleset = with_rules(&[vec![json!({ "accept": null })]]);
        let list = ruleset["nftables"].as_array_mut().expect("a list");
        list.push(json!({ "chain": {
            "family": "ip", "table": "other", "name": "c", "type": kind, "hook": hook, "prio": 100, "policy": "accept",
        } }));
        list.push(json!({ "rule": { "family": "ip", "table": "other", "chain": "c", "expr": [{ "masquerade": null }] } }));
        ruleset.to_string()
    };
    for (hook, kind) in [("postrouting", "nat"), ("prerouting", "filter"), ("ingress", "filter")] {
        let error = import(&nat(hook, kind), Hook::Forward, None, &[]).expect_err("refused");
        assert!(error.contains("ip other c") && error.contains("--leave-out 'ip other'"), "{error}");
        import(&nat(hook, kind), Hook::Forward, None, &["ip other".into()]).expect("left out");
    }
    import(&nat("output", "filter"), Hook::Forward, None, &[]).expect("other packets");
    let error = import(&nat("output", "nat"), Hook::Forward, None, &["ip nothing".into()])
        .expect_err("no such table");
    assert!(error.contains("--leave-out"), "{error}");
}

/// Several chains of one hook: what one accepts comes to the next.
#[test]
fn what_a_chain_accepts_comes_to_the_next_of_its_hook() {
    let chain = |family: &str, name: &str, priority: i32, policy: &str| {
        json!({ "chain": { "family": family, "table": "t", "name": name, "type": "filter", "hook": "forward", "prio": priority,
                           "policy": policy } })
    };
    let rule = |family: &str, name: &str, port: u16, verdict: &str| {
        let left = json!({ "payload": { "protocol": "tcp", "field": "dport" } });
        let condition = json!({ "match": { "op": "==", "left": left, "right": port } });
        json!({ "rule": { "family": family, "table": "t", "chain": name, "expr": [condition, { verdict: null }] } })
    };
    let ruleset = json!({ "nftables": [
        chain("inet", "second", 10, "accept"), rule("inet", "second", 80, "drop"),
        chain("ip", "first", 0, "drop"), rule("ip", "first", 80, "accept"), rule("ip", "first", 22, "accept"),
    ] });
    let Imported { chain, problems } =
        import(&ruleset.to_string(), Hook::Forward, None, &[]).expect("a ruleset");
    assert_eq!(problems, []);
    let rules = rules(&chain);
    let expected = [
        "drop tcp from 0.0.0.0/0 to any port 80",
        "accept tcp from 0.0.0.0/0 to any port 80",
        "accept tcp from 0.0.0.0/0 to any port 22",
        "drop any from 0.0.0.0/0 to any",
        "drop tcp from ::/0 to any port 80",
        "accept any from ::/0 to any",
    ];
    for rule in expected {
        assert!(rules.iter().any(|own| own == rule), "{rule}: {rules:#?}");
    }
}

/// Whatever the text is, it is a chain or an error.
#[test]
fn no_text_and_no_ruleset_panics() {
    let text = random::ruleset(&mut Draw::new(7), Beside::Unknown).to_string();
    for cut in (0..text.len()).step_by(7) {
        let _ = import(&text[..cut], Hook::Forward, None, &[]);
        // One letter less, and it may still be JSON.
        let without = [&text[..cut], &text[cut + 1..]].concat();
        let _ = import(&without, Hook::Forward, Some(&sides()), &[]);
        let other = [&text[..cut], "9", &text[cut + 1..]].concat();
        let _ = import(&other, Hook::Input, Some(&sides()), &[]);
    }
    for text in ["", "[]", "{}", "{\"nftables\": 1}", "{\"nftables\": [1, {\"chain\": {}}]}"] {
        assert!(import(text, Hook::Forward, None, &[]).is_err(), "{text}");
    }
}

/// Chains that lead to each other, and rules that would be a million, are refused.
#[test]
fn what_grows_without_end_is_refused() {
    let jump = |to: &str| vec![json!({ "jump": { "target": to } })];
    let mut list = with_rules(&[jump("a")])["nftables"].as_array().expect("a list").clone();
    for name in ["a", "b"] {
        list.push(json!({ "chain": { "family": "inet", "table": "t", "name": name } }));
    }
    let rule = |chain: &str, expressions: Vec<Value>| json!({ "rule": { "family": "inet", "table": "t", "chain": chain, "expr": expressions } });
    let circle = [&list[..], &[rule("a", jump("b")), rule("b", jump("a"))]].concat();
    let error =
        import(&json!({ "nftables": circle }).to_string(), Hook::Forward, None, &[]).expect_err("a circle");
    assert!(error.contains("more than 16 deep"), "{error}");
    let port = |port: u16| {
        let left = json!({ "payload": { "protocol": "tcp", "field": "sport" } });
        vec![json!({ "match": { "op": "==", "left": left, "right": port } }), json!({ "return": null })]
    };
    let mut many = list.clone();
    for number in 0..40 {
        many.push(json!({ "chain": { "family": "inet", "table": "t", "name": format!("c{number}") } }));
    }
    let wide = (0..14).flat_map(|number| {
        let to = format!("c{}", number + 1);
        [
            rule(&format!("c{number}"), jump(&to)),
            rule(&format!("c{number}"), jump(&to)),
            rule(&format!("c{number}"), port(number)),
        ]
    });
    many.extend(wide);
    many.push(rule("c14", vec![json!({ "accept": null })]));
    many.push(rule("a", jump("c0")));
    let error =
        import(&json!({ "nftables": many }).to_string(), Hook::Forward, None, &[]).expect_err("too many");
    assert!(error.contains("too many"), "{error}");
}
