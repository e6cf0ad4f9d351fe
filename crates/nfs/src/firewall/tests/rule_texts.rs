//! What rules match, and what is said of those that cannot be read.

use super::*;

/// Whether a list of this one rule accepts a packet.
fn accepts(rule: &str, packet: Headers) -> bool {
    let sets = "sets = { office = [\"10.0.0.0/8\", \"2001:db8::/64\"], none = [] }\n";
    rig(&format!("{sets}{}", rules(&[rule]))).packet(0, &packet) == PASS
}

#[test]
fn a_rule_matches_what_it_says() {
    let (syn, ack) = (with_flags(SYN, tcp(1)), with_flags(ACK, tcp(1)));
    let request_v6 = icmp(128, tcp_v6(1));
    for (rule, packet, expected) in [
        ("accept any from any to any", syn, true),
        ("accept tcp from any to any", udp(syn), false),
        ("accept udp from @office to any", udp(tcp(1)), true),
        ("accept udp from @office to any", udp(tcp_v6(1)), true),
        ("accept udp from any to @office", udp(tcp(1)), false),
        ("accept udp from @none,192.0.2.0/24,@office to any", udp(tcp(1)), true),
        ("accept udp from @none to any", udp(tcp(1)), false),
        ("accept udp from @none to 192.0.2.1", udp(tcp(1)), false),
        ("accept tcp from any port 4000 to any port 80-90", syn, true),
        ("accept tcp from any to any port 79,81-90", syn, false),
        ("accept tcp from any to any flags syn", syn, true),
        ("accept tcp from any to any flags !ack", syn, true),
        ("accept tcp from any to any flags syn,!ack", ack, false),
        ("accept tcp from any to any flags ack,!syn,!rst state new", ack, true),
        ("accept tcp from any to any flags syn,ack,fin state invalid", with_flags(SYN | FIN, tcp(1)), true),
        ("accept udp from any to any in inside", udp(tcp(1)), true),
        ("accept udp from any to any in outside", udp(tcp(1)), false),
        ("accept udp from any to any in outside", from_outside(udp(tcp(1))), true),
        ("accept tcp from any to any in outside flags !syn", from_outside(ack), true),
        ("accept icmp from any to any type echo-request", ping(1), true),
        ("accept icmp from any to any type echo-request", request_v6, true),
        ("accept icmpv6 from any to any type echo-request", ping(1), false),
        ("accept icmpv6 from any to any type echo-reply,128", request_v6, true),
        ("accept 1 from any to any type 8", ping(1), true),
        ("accept 1 from any to any type 128", request_v6, false),
        ("accept 1 from any to any type 0,13", ping(1), false),
        ("accept 1 from any to any type 0,7-9", ping(1), true),
        ("accept icmpv6 from any to any type 0-127,129-255", request_v6, false),
        ("accept any from any to any state new", syn, true),
        ("accept any from any to any state established,related,invalid,untracked", syn, false),
        ("accept any from any to any state invalid", pong(1), true),
        ("accept any from any to any state untracked", icmp(134, tcp_v6(1)), true),
        ("accept any from any to any state new", icmp(134, tcp_v6(1)), false),
    ] {
        assert_eq!(accepts(rule, packet), expected, "{rule}: {packet:?}");
    }
}

#[test]
fn a_bad_rule_is_named_with_its_number_and_remedy() {
    for (bad, expected) in [
        ("", "is empty; write \"accept|drop|reject PROTOCOL"),
        (
            "acept any from any to any",
            "begins with \"acept\"; did you mean \"accept\"? There are: accept, drop, reject",
        ),
        ("permit any from any to any", "begins with \"permit\" There are: accept, drop, reject"),
        ("accept tcp any to any", "has \"any\" in place of \"from\""),
        ("accept tcp from any port 80 any", "has \"any\" in place of \"to\""),
        ("accept icmp from any to any port 80", "asks for a port"),
        (
            "accept tcp from @offise to any",
            "asks for the set \"@offise\", which is not among `sets`; did you mean \"office\"?",
        ),
        ("accept tcp from 10.0.0.1/8 to any", "write \"10.0.0.0/8\""),
        ("accept tcp from 10.0.0.0/8 to 2001:db8::/32", "never matches"),
        (
            "accept tcp from any to any stat new",
            "goes on with \"stat\", which is no condition; did you mean \"state\"?",
        ),
        ("accept tcp from any to any port 80, 443", "has the ports \"\""),
        ("accept tcp from any to any state", "ends after \"state\"; write"),
        (
            "accept tcp from any to any state etablished",
            "has the state \"etablished\"; did you mean \"established\"?",
        ),
        ("accept tcp from any to any state new state new", "has \"state\" twice"),
        (
            "accept tcp from any to any log",
            "asks for a log of what it accepts; only rules that drop or reject have \"log\"",
        ),
        ("drop tcp from any to any log log", "has \"log\" twice; once is enough"),
        ("drop tcp from any to any log state", "ends after \"state\"; write"),
        (
            "drop tcp from any to any lug",
            "goes on with \"lug\", which is no condition; did you mean \"log\"?",
        ),
        ("drop tcp from any to any rate", "ends after \"rate\"; write"),
        ("drop tcp from any to any rate over", "ends after \"rate\"; write"),
        (
            "drop tcp from any to any rate 10",
            "has the rate \"10\"; write packets and a unit: \"10/s\", or /minute",
        ),
        ("drop tcp from any to any rate 10/week", "has the rate \"10/week\"; write"),
        ("drop tcp from any to any rate -1/s", "has the rate \"-1/s\"; write"),
        ("drop tcp from any to any rate 0/s", "has the rate \"0/s\", which lets nothing pass"),
        ("drop tcp from any to any rate 1000000001/s", "at most one packet a nanosecond"),
        ("drop tcp from any to any rate 1/s rate 2/s", "has \"rate\" twice; a rule has one"),
        ("drop tcp from any to any burst 3", "has a burst and no rate; write \"rate 10/s burst 20\""),
        (
            "drop tcp from any to any rate 1/s burst 0",
            "has the burst \"0\"; write the packets that may come at once",
        ),
        ("drop tcp from any to any rate 1/s burst 4294967296", "has the burst \"4294967296\""),
        (
            "drop tcp from any to any rate 1/day burst 36501",
            "has a burst of 36501, which takes more than 100 years",
        ),
        ("drop tcp from any to any burst 2 rate over 2/s burst 2", "has \"burst\" twice; a rule has one"),
        ("accept tcp from any to any in dmz", "has the side \"dmz\" There are: inside, outside"),
        ("accept udp from any to any flags syn", "asks for flags; only tcp has flags"),
        ("accept tcp from any to any flags sin", "has the flag \"sin\"; did you mean"),
        ("accept tcp from any to any flags syn,!syn", "has the flag \"syn\" twice"),
        ("accept tcp from any to any flags cwr", "has the flag \"cwr\""),
        (
            "accept tcp from any to any flags syn state established",
            "asks for the flags of established packets",
        ),
        ("accept tcp from any to any type echo-request", "asks for a type; only icmp and icmpv6 have types"),
        ("accept any from any to any type echo-request", "asks for a type"),
        ("accept icmp from any to any type 8", "by number, which ICMP and ICMPv6 use for different messages"),
        ("accept icmpv6 from any to any type 9-7", "has the type \"9-7\""),
        ("accept icmpv6 from any to any type timestamp-request", "has the type \"timestamp-request\""),
        ("accept icmp from any to any type echo-requst", "did you mean \"echo-request\"?"),
    ] {
        let sets = "sets = { office = [\"10.0.0.0/8\"] }\n";
        let list = rules(&["accept any from any to any", bad]);
        let error = option_error::<Firewall>(&format!("{sets}{list}"));
        assert!(error.starts_with(&format!("`rules` rule 2, \"{bad}\", ")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let many = std::vec!["accept any from any to any"; 10_001];
    assert_eq!(option_error::<Firewall>(&rules(&many)), "`rules` are 10001; at most 10000 are possible");
    let error = option_error::<Firewall>(&rules(&["drop any from any to any log"; 17]));
    assert!(error.contains("have \"log\" more than 16 times, first in rule 17"), "{error}");
    let error = option_error::<Firewall>(&rules(&["drop any from any to any rate 1/s"; 257]));
    assert!(error.contains("have a rate more than 256 times, first in rule 257"), "{error}");
    rig(&rules(&["drop any from any to any rate 1/s"; 256]));
    let error = option_error::<Firewall>(&rules(&["drop any from @bad to any"]));
    assert!(error.contains("asks for the set \"@bad\", and there are none; write it into `sets`"), "{error}");
}

/// A set may be large; that many rules name it may not take a machine's memory.
#[test]
fn a_million_prefixes_are_a_set_and_no_more() {
    let members: Vec<String> =
        (0..1_000_001_u32).map(|n| format!("{}", core::net::Ipv4Addr::from(n * 4))).collect();
    let options = |members: &[String], rules: usize| Options {
        sets: [("blocklist".into(), members.to_vec())].into(),
        rules: std::vec!["drop any from @blocklist to any".into(); rules],
        default: super::super::Action::Accept,
        ..Options::default()
    };
    let wrong = |options| Firewall::new(options).expect_err("refused").message;
    assert!(wrong(options(&members, 1)).contains("has 1000001 prefixes; at most 1000000 are possible"));
    let members = &members[..1_000_000];
    assert!(
        wrong(options(members, 5)).contains("ask for more than 4000000 ranges of addresses up to rule 5")
    );
    let mut rig = Rig::new(Firewall::new(options(members, 1)).expect("a firewall"));
    let from = |n: u32| udp(Headers { src: Addr::v4(n.to_be_bytes()), ..tcp(1) });
    assert_eq!(rig.packet(0, &from(3_999_996)), RULE);
    assert_eq!(rig.packet(0, &from(3_999_997)), PASS);
    assert_eq!(rig.packet(0, &from(4_000_000)), PASS);
}

#[test]
fn other_options_are_checked() {
    for (bad, expected) in [
        ("sets = { \"a b\" = [] }", "`sets` has the name \"a b\"; write letters, digits, - and _"),
        ("sets = { a = [\"10.0.0.1/8\"] }", "`sets` \"a\" has the prefix \"10.0.0.1/8\""),
        ("udp_timeout_s = 0", "`udp_timeout_s` must be 1 to 2147483 seconds"),
        ("udp_stream_timeout_s = 2147484", "`udp_stream_timeout_s` must be 1 to 2147483 seconds"),
        ("icmp_timeout_s = 0", "`icmp_timeout_s` must be"),
        ("generic_timeout_s = 0", "`generic_timeout_s` must be"),
        ("established_timeout_s = 0", "`established_timeout_s` must be"),
        ("syn_sent_timeout_s = 0", "`syn_sent_timeout_s` must be"),
    ] {
        let error = option_error::<Firewall>(bad);
        assert!(error.starts_with(expected), "{error}");
    }
    let sets: String = (0..101).map(|number| format!("s{number} = [],")).collect();
    assert!(
        option_error::<Firewall>(&format!("sets = {{ {sets} }}")).contains("`sets` are 101; at most 100")
    );
    assert!(toml::from_str::<Options>("default = \"deny\"").is_err());
}

/// Sides inside are told apart by their hosts, in both directions, and outside is whatever is on none.
#[test]
fn a_rule_asks_for_sides_by_their_names() {
    let sides = "sides = { inside = [\"10.0.0.0/24\", \"2001:db8::/64\"], dmz = [\"10.0.1.0/24\"] }\n";
    let packet =
        |src: [u8; 4], dst: [u8; 4]| udp(Headers { src: Addr::v4(src), dst: Addr::v4(dst), ..tcp(1) });
    let (office, server, stranger) = ([10, 0, 0, 1], [10, 0, 1, 1], [198, 51, 100, 1]);
    let pairs =
        [(office, server), (server, office), (office, stranger), (stranger, server), (stranger, office)];
    for (conditions, expected) in [
        ("in inside", [true, false, true, false, false]),
        ("in dmz", [false, true, false, false, false]),
        ("in outside", [false, false, false, true, true]),
        ("out dmz", [true, false, false, true, false]),
        ("out inside", [false, true, false, false, true]),
        ("out outside", [false, false, true, false, false]),
        ("in inside out dmz", [true, false, false, false, false]),
        ("in outside out dmz", [false, false, false, true, false]),
    ] {
        let rule = format!("accept udp from any to any {conditions}");
        let text = format!("{sides}{}", rules(&[&rule]));
        let found = pairs.map(|(src, dst)| {
            let headers = packet(src, dst);
            let headers = if src == stranger { from_outside(headers) } else { headers };
            rig(&text).packet(0, &headers) == PASS
        });
        assert_eq!(found, expected, "{conditions}");
    }
    // Without a side of that name it is all of them.
    let sides = "sides = { office = [\"10.0.0.0/24\"], dmz = [\"10.0.1.0/24\"] }\n";
    let text = format!("{sides}{}", rules(&["accept udp from any to any in inside out inside"]));
    assert_eq!(rig(&text).packet(0, &packet(server, office)), PASS);
    assert_eq!(rig(&text).packet(0, &packet(server, stranger)), DEFAULT);
}

#[test]
fn a_side_that_there_is_not_is_an_error() {
    let sides = "sides = { dmz = [\"10.0.1.0/24\"] }\n";
    let wrong = |sides: &str, rule: &str| option_error::<Firewall>(&format!("{sides}{}", rules(&[rule])));
    for (sides, rule, expected) in [
        ("", "accept any from any to any in dmz", "There are: inside, outside"),
        ("", "accept any from any to any out outside", "write `prefixes` into the chain's `[[interface]]`"),
        (sides, "accept any from any to any in dmx", "did you mean \"dmz\"? There are: dmz, inside, outside"),
        (
            sides,
            "accept any from any to any out dmx",
            "did you mean \"dmz\"? There are: dmz, inside, outside",
        ),
        (sides, "accept any from any to any in dmz in dmz", "has \"in\" twice"),
        (sides, "accept any from any to 10.0.2.0/24 out dmz", "never matches"),
        (
            "sides = { outside = [\"10.0.1.0/24\"] }\n",
            "accept any from any to any",
            "`sides` names hosts outside",
        ),
        ("sides = { dmz = [\"10.0.1.1/24\"] }\n", "accept any from any to any", "10.0.1.0/24"),
    ] {
        let message = wrong(sides, rule);
        assert!(message.contains(expected), "{rule}: {message}");
    }
}
