//! How rules are read, and what they match.

use super::*;

/// Verdict for the first packet of a connection, by one rule that allows.
fn allows(rule: &str, packet: Headers) -> bool {
    rig(&rules(&[rule])).packet(0, &packet) == PASS
}

#[test]
fn rules_match_what_they_say() {
    let ports = |src_port, dst_port| Headers { src_port, dst_port, ..tcp(1) };
    let gre = Headers { protocol: 47, src_port: 0, dst_port: 0, ..tcp(1) };
    for (rule, packet, expected) in [
        ("allow any from any to any", tcp(1), true),
        ("allow any from any to any", tcp_v6(1), true),
        ("allow any from any to any", gre, true),
        ("allow 47 from any to any", gre, true),
        ("allow 46 from any to any", gre, false),
        ("allow tcp from any to any", udp(tcp(1)), false),
        ("allow 6 from any to any port 80", tcp(1), true),
        ("allow udp from any to any", udp(tcp_v6(1)), true),
        ("allow icmp from any to any", icmp(8, tcp(1)), true),
        ("allow icmp from any to any", icmp(128, tcp_v6(1)), true),
        ("allow icmp from any to any", tcp(1), false),
        ("allow icmpv6 from any to any", icmp(128, tcp_v6(1)), true),
        ("allow icmpv6 from any to any", icmp(8, tcp(1)), false),
        ("allow tcp from 10.0.0.1 to any", tcp(1), true),
        ("allow tcp from 10.0.0.1 to any", back(tcp(1)), false),
        ("allow tcp from 10.0.0.2/31,10.0.0.1 to 192.0.2.0/24", tcp(3), true),
        ("allow tcp from 10.0.0.2/31,10.0.0.1 to 192.0.2.0/24", tcp(4), false),
        ("allow tcp from 10.0.0.0/8,2001:db8::/32 to any", tcp_v6(4), true),
        ("allow tcp from 0.0.0.0/0 to any", tcp_v6(4), false),
        ("  allow\ttcp  from any   to any port 80  ", tcp(1), true),
        ("allow tcp from any to any port 79,81-90", ports(4000, 80), false),
        ("allow tcp from any to any port 79,81-90", ports(4000, 81), true),
        ("allow tcp from any to any port 79,81-90", ports(4000, 90), true),
        ("allow tcp from any to any port 79,81-90", ports(4000, 91), false),
        ("allow tcp from any to any port 0-65535", ports(0, 65535), true),
        ("allow tcp from any port 1024-65535 to any port 80", ports(1023, 80), false),
        ("allow tcp from any port 1024-65535 to any port 80", ports(1024, 80), true),
    ] {
        assert_eq!(allows(rule, packet), expected, "{rule}: {packet:?}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let list =
        ["allow tcp from 10.0.0.1 to any", "deny tcp from 10.0.0.0/24 to any", "allow any from any to any"];
    let mut rig = rig(&rules(&list));
    for (packet, verdict, rule) in
        [(tcp(1), PASS, Some(0)), (tcp(2), RULE, None), (udp(tcp(2)), PASS, Some(2))]
    {
        assert_eq!(rig.packet(0, &packet), verdict);
        assert_eq!(rig.state(&packet).map(|state| state.rule), rule);
    }
}

#[test]
fn a_bad_rule_is_named_with_its_number_and_remedy() {
    const FORM: &str = "write \"allow|deny PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES [port PORTS]\"";
    for (bad, expected) in [
        ("", "is empty; write \"allow|deny"),
        ("permit tcp from any to any", "begins with \"permit\"; rules begin with \"allow\" or \"deny\""),
        ("allow", "ends before its protocol; write"),
        (
            "allow http from any to any",
            "has the protocol \"http\"; write any, tcp, udp, icmp, icmpv6, sctp, dccp, or a number from 0 to 255",
        ),
        ("allow 256 from any to any", "has the protocol \"256\""),
        ("allow tcp any to any", &format!("has \"any\" in place of \"from\"; {FORM}")),
        ("allow tcp from any", &format!("ends before \"to\"; {FORM}")),
        ("allow tcp from any port 80 any", "has \"any\" in place of \"to\""),
        ("allow tcp from any to", &format!("ends after \"to\"; {FORM}")),
        (
            "allow tcp from 10.0.0.0/33 to any",
            "has the prefix \"10.0.0.0/33\", whose length must be a number from 0 to 32",
        ),
        ("allow tcp from 10.0.0.1/8 to any", "write \"10.0.0.0/8\""),
        ("allow tcp from web to any", "has the prefix \"web\", which is no IP prefix"),
        ("allow tcp from 10.0.0.0/8, 10.1.0.0/16 to any", "has the prefix \"\", which is no IP prefix"),
        (
            "allow tcp from 10.0.0.0/8 to 2001:db8::/32",
            "never matches: its addresses are IPv4 on one side and IPv6 on the other",
        ),
        (
            "allow icmp from any to any port 80",
            "asks for a port; only tcp, udp, sctp and dccp have ports: write a rule for each",
        ),
        ("allow any from any to any port 80", "asks for a port"),
        ("allow tcp from any to any port", "ends after \"port\"; write ports like \"80,443\""),
        ("allow tcp from any to any port http", "has the ports \"http\"; write ports from 0 to 65535"),
        ("allow tcp from any to any port 90-80", "has the ports \"90-80\""),
        ("allow tcp from any to any port 65536", "has the ports \"65536\""),
        ("allow tcp from any to any port 80, 443", "has the ports \"\""),
        (
            "allow tcp from any to any port 80 443",
            "goes on with \"443\" where it should end; lists have commas and no spaces: \"80,443\"",
        ),
    ] {
        let error = option_error::<AccessList>(&rules(&["allow any from any to any", bad]));
        assert!(error.starts_with(&format!("`rules` rule 2, \"{bad}\", ")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let many = std::vec!["allow any from any to any"; 1001];
    assert_eq!(option_error::<AccessList>(&rules(&many)), "`rules` are 1001; at most 1000 are possible");
    for timeout in ["unanswered", "tcp", "closing", "other"] {
        let error = option_error::<AccessList>(&format!("{timeout}_timeout_s = 0"));
        assert_eq!(error, format!("`{timeout}_timeout_s` must be at least 1"));
    }
    assert!(toml::from_str::<Options>("default = \"permit\"").is_err());
}
