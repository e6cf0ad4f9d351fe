//! Random rulesets of nftables, of what `paceline import` takes whole.

use super::traffic::Draw;

/// The address that hosts inside have outside, where there is a NAT.
pub const MASQUERADED: &str = "192.0.2.254";
pub const SNAT: &str = "203.0.113.1";

const RULES: &[&str] = &[
    "ip saddr @block drop",
    "ip6 saddr @block6 drop",
    "ip daddr 192.0.2.0-192.0.2.2 accept",
    "ip saddr 10.0.0.2/31 tcp dport 20-100 accept",
    "ip6 daddr 2001:db8:1::2/127 accept",
    "ip saddr != 10.0.0.0/24 tcp sport != { 80, 443, 5000-5003 } ct state new drop",
    "tcp dport { 22, 80, 443, 5000-5004 } accept",
    "udp dport { 53, 5005 } accept",
    "tcp dport > 5004 drop",
    "udp sport < 100 accept",
    "meta l4proto { tcp, udp } ip daddr . th dport { 192.0.2.1 . 80, 192.0.2.2 . 53 } accept",
    "icmp type echo-request accept",
    "icmpv6 type { echo-request, packet-too-big } accept",
    "icmp type { destination-unreachable, time-exceeded } ct state related accept",
    "meta l4proto 50 accept",
    "meta nfproto ipv6 ct state new accept",
    "tcp flags & (syn|ack) == syn ct state new accept",
    "tcp flags & (fin|syn|rst|ack) != syn ct state new drop",
    "tcp dport vmap { 22 : drop, 80 : accept, 8080 : jump services }",
    "meta l4proto udp jump services",
    "ct state vmap { established : accept, related : accept, invalid : drop }",
    "ct state != established tcp dport 8080 drop",
    "meta l4proto tcp ct state new reject with tcp reset",
    "meta l4proto != tcp ct state new reject with icmpx admin-prohibited",
    "iifname \"lan0\" ct state new accept",
    "iifname \"wan0\" ct state new drop",
    "iifname \"lan0\" oifname \"wan0\" udp dport 53 accept",
];

const SERVICES: &[&str] = &[
    "ip saddr 10.0.0.1 return",
    "udp dport 53 accept",
    "tcp dport 8080 ip daddr 192.0.2.3 drop",
    "tcp dport 8080 accept",
];

/// Rules for packets that are forwarded. Most begin as people's do.
pub fn filter(draw: &mut Draw, has_nat: bool) -> String {
    let mut rules = Vec::new();
    if has_nat || draw.percent(80) {
        // What the tracker calls invalid is not translated: without this it would leave with its inside address.
        rules.push("ct state invalid drop");
    }
    if draw.percent(85) {
        rules.push("ct state established,related accept");
    }
    for _ in 0..2 + draw.below(9) {
        rules.push(draw.one(RULES));
    }
    if draw.percent(40) {
        rules.push("iifname \"lan0\" accept");
    }
    if draw.percent(40) {
        rules.push("meta l4proto tcp reject with tcp reset");
        rules.push("reject with icmpx admin-prohibited");
    }
    let policy = draw.one(&["accept", "drop"]);
    let lines = |rules: &[&str]| rules.iter().map(|rule| format!("        {rule}\n")).collect::<String>();
    let services: Vec<&str> = SERVICES.iter().filter(|_| draw.percent(60)).copied().collect();
    format!(
        "table inet filter {{\n    set block {{ type ipv4_addr; flags interval; elements = {{ 10.0.0.4, 192.0.2.4-192.0.2.7 }} }}\n    \
         set block6 {{ type ipv6_addr; flags interval; elements = {{ 2001:db8:1::3/128 }} }}\n    chain services {{\n{}    }}\n    \
         chain forward {{\n        type filter hook forward priority filter; policy {policy};\n{}    }}\n    \
         chain input {{\n        type filter hook input priority filter; policy drop;\n    }}\n}}\n",
        lines(&services),
        lines(&rules)
    )
}

/// Source NAT, and two ports that lead inside; and the function that is to do the same.
pub fn nat(draw: &mut Draw) -> (String, String, &'static str) {
    let (external, verdict) = draw.one(&[(SNAT, "snat to 203.0.113.1"), (MASQUERADED, "masquerade")]);
    let theirs = format!(
        "table ip nat {{\n    chain pre {{\n        type nat hook prerouting priority dstnat;\n        \
         ip daddr {external} tcp dport 443 dnat to 10.0.0.1:8443\n        ip daddr {external} udp dport 53 dnat to 10.0.0.2:53\n    \
         }}\n    chain post {{\n        type nat hook postrouting priority srcnat;\n        oifname \"wan0\" {verdict}\n    }}\n}}\n"
    );
    let ours = format!(
        "\n[[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/24\"]\nexternal = [\"{external}\"]\nhairpinning = false\n\
         forwards = [\"tcp {external}:443 to 10.0.0.1:8443\", \"udp {external}:53 to 10.0.0.2:53\"]\n"
    );
    (theirs, ours, external)
}
