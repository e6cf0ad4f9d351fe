//! Tests of limits: which become rates, and whether these let as many packets pass as the kernel does.

use super::*;

/// A limit is the rate of one rule, where an empty bucket closes; elsewhere it is listed, and closed.
#[test]
fn limits_are_rates_where_one_rule_has_them() {
    let limit = |more: Value| {
        let mut limit = json!({ "rate": 10, "burst": 7, "per": "minute" });
        limit.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        json!({ "limit": limit })
    };
    let (some, over) = (|| limit(json!({})), || limit(json!({ "inv": true })));
    let is = |names: Value| json!({ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": names } });
    let (udp, both) = (|| is(json!("udp")), || is(json!({ "set": ["tcp", "udp"] })));
    let (accept, drop, reject) =
        (|| json!({ "accept": null }), || json!({ "drop": null }), || json!({ "reject": null }));
    let says = |text: &str| text.to_owned();
    for (expressions, expected, why) in [
        (vec![udp(), some(), accept()], vec![says("accept udp from any to any rate 10/minute burst 7")], ""),
        (vec![udp(), over(), drop()], vec![says("drop udp from any to any rate over 10/minute burst 7")], ""),
        (
            vec![udp(), over(), reject()],
            vec![says("reject udp from any to any rate over 10/minute burst 7")],
            "",
        ),
        (
            vec![udp(), limit(json!({ "burst": 0 })), accept()],
            vec![says("accept udp from any to any rate 10/minute burst 5")],
            "",
        ),
        (vec![udp(), some(), json!({ "counter": null })], vec![], ""),
        (vec![udp(), over(), accept()], vec![], "more would pass"),
        (vec![udp(), some(), drop()], vec![says("drop udp from any to any")], "more would pass"),
        (vec![some(), udp(), accept()], vec![], "all other conditions"),
        (vec![udp(), some(), over(), accept()], vec![], "all other conditions"),
        (vec![both(), some(), accept()], vec![], "comes to 2 rules"),
        (
            vec![both(), over(), drop()],
            vec![says("drop tcp from any to any"), says("drop udp from any to any")],
            "comes to 2 rules",
        ),
        (vec![udp(), json!({ "limit": "named" }), accept()], vec![], "by name"),
        (vec![udp(), limit(json!({ "per": "week" })), accept()], vec![], "no rate by week"),
        (vec![udp(), limit(json!({ "rate_unit": "mbytes" })), accept()], vec![], "packets, not mbytes"),
        (vec![udp(), json!({ "quota": { "val": 1 } }), some(), accept()], vec![], "not sure"),
    ] {
        let (rules, problems) = imported(std::slice::from_ref(&expressions));
        assert_eq!(rules, expected, "{expressions:?}: {problems:?}");
        assert_eq!(problems.is_empty(), why.is_empty(), "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.instead.is_empty()), "{problems:?}");
        assert!(why.is_empty() || problems.iter().any(|problem| problem.why.contains(why)), "{problems:?}");
    }
}

/// A chain that two rules jump to is written twice, and its limit is one.
#[test]
fn a_limit_that_several_rules_lead_to_is_listed() {
    let udp = |port: u16| {
        let left = json!({ "payload": { "protocol": "udp", "field": "dport" } });
        json!({ "match": { "op": "==", "left": left, "right": port } })
    };
    let jump = |port: u16| vec![udp(port), json!({ "jump": { "target": "a" } })];
    let with_chain = |jumps: &[Vec<Value>]| {
        let mut ruleset = with_rules(jumps);
        let list = ruleset["nftables"].as_array_mut().expect("a list");
        list.push(json!({ "chain": { "family": "inet", "table": "t", "name": "a" } }));
        let limit = json!({ "limit": { "rate": 10, "burst": 5, "per": "second" } });
        list.push(json!({ "rule": { "family": "inet", "table": "t", "chain": "a", "handle": 9,
                                    "expr": [limit, { "accept": null }] } }));
        import(&ruleset.to_string(), Hook::Forward, None, &[]).expect("a ruleset")
    };
    let once = with_chain(&[jump(53)]);
    assert_eq!((rules(&once.chain).len(), once.problems), (1, vec![]));
    let twice = with_chain(&[jump(53), jump(54)]);
    assert_eq!((rules(&twice.chain).len(), twice.problems.len()), (0, 1), "{}", twice.chain);
}

/// The kernel counts which of twenty datagrams its limits let pass; as many pass the firewall that the ruleset becomes.
#[test]
fn limits_let_as_many_pass_as_the_kernel_s() {
    if !has_nft() {
        return;
    }
    const RULES: &str = "table inet t { chain c { type filter hook input priority 0; policy drop;
        udp dport 9 limit rate 3/hour burst 7 packets counter accept
        udp dport 10 limit rate over 2/day burst 4 packets counter drop
        udp dport 10 counter accept
        udp dport 11 limit rate 1/hour counter accept
    }
    }";
    let send = "for port in 9 10 11; do for n in {1..20}; do echo x > /dev/udp/127.0.0.1/$port; done; done";
    let listed = in_namespace(
        &format!("nft -f - && ip link set lo up && {send} 2>/dev/null; nft -j list ruleset"),
        RULES,
    );
    let exported = match listed {
        Ok(exported) => exported,
        Err(why) => return println!("skipped: no datagrams in a network namespace: {}", why.trim()),
    };
    let list: Value = serde_json::from_str(&exported).expect("JSON");
    let expressions = list["nftables"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|object| object["rule"]["expr"].as_array());
    let counted: Vec<u64> =
        expressions.flatten().filter_map(|one| one["counter"]["packets"].as_u64()).collect();
    if counted.iter().all(|packets| *packets == 0) {
        return println!("skipped: no datagrams arrive in a network namespace here");
    }
    let Imported { chain, problems } = import(&exported, Hook::Input, None, &[]).expect("a ruleset");
    assert_eq!(problems, [], "{exported}");
    let mut rig = Rig::new(firewall(&chain));
    for dst_port in [9, 10, 11] {
        let packet = Headers {
            src: Addr::v4([127, 0, 0, 1]),
            dst: Addr::v4([127, 0, 0, 1]),
            src_port: 40_000,
            dst_port,
            protocol: protocol::UDP,
            marks: Marks::IPV4,
            ..Headers::default()
        };
        (0..20).for_each(|time_ns| _ = rig.packet(time_ns, &packet));
    }
    assert_eq!(counted, [7, 16, 4, 5], "{exported}");
    assert_eq!(rig.rules()[..4], counted, "{chain}");
}
