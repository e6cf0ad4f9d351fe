//! The classifier against a search of the rules one by one, for rules that are hard on classifiers.

use std::format;

use proptest::prelude::*;

use super::*;
use crate::selector::Packet;
use rule::Judged;
use rules::Rules;

/// Texts of addresses: all that are nested in a few, single ones, both families, sets, the first and the last.
fn addresses() -> impl Strategy<Value = String> {
    let nested = (0_u32..4, 0_u32..=32).prop_map(|(host, length)| {
        let addr = (0x0a00_0000 | (host * 0x0040_4041)) & u32::MAX.checked_shl(32 - length).unwrap_or(0);
        format!("{}/{length}", std::net::Ipv4Addr::from(addr))
    });
    let nested_v6 = (0_u128..4, 0_u32..=128).prop_map(|(host, length)| {
        let addr =
            ((0x2001_0db8 << 96) | (host * 0x4000_0001)) & u128::MAX.checked_shl(128 - length).unwrap_or(0);
        format!("{}/{length}", std::net::Ipv6Addr::from(addr))
    });
    let single = (0_u8..8).prop_map(|host| format!("10.0.0.{host}"));
    let other = proptest::sample::select(std::vec![
        "@some",
        "@none",
        "0.0.0.0/0",
        "::/0",
        "255.255.255.255",
        "ffff::/16"
    ]);
    let one = prop_oneof![3 => nested, 2 => nested_v6, 3 => single, 1 => other.prop_map(Into::into)];
    let list = proptest::collection::vec(one, 1..4).prop_map(|list| list.join(","));
    prop_oneof![1 => Just("any".into()), 4 => list]
}

fn ports() -> impl Strategy<Value = String> {
    let edge = || proptest::sample::select(std::vec![0_u16, 1, 79, 80, 81, 443, 65_534, 65_535]);
    let range = (edge(), edge()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let list = proptest::collection::vec(range, 1..3).prop_map(|list| format!(" port {}", list.join(",")));
    prop_oneof![1 => Just(String::new()), 1 => list]
}

fn rule() -> impl Strategy<Value = String> {
    let protocol = proptest::sample::select(std::vec!["any", "tcp", "udp", "icmp", "icmpv6", "1", "47"]);
    let more = proptest::sample::subsequence(
        std::vec![" in inside", " state new", " state established,invalid"],
        0..=2,
    );
    let flags = proptest::sample::select(std::vec!["", " flags syn,!ack", " flags rst"]);
    let types =
        proptest::sample::select(std::vec!["", " type echo-request,time-exceeded", " type echo-reply"]);
    let rate =
        proptest::sample::select(std::vec!["", "", "", " rate 1/s burst 1", " rate over 5/minute burst 3"]);
    ((any::<bool>(), protocol, addresses(), ports()), (addresses(), ports(), more, flags, types, rate))
        .prop_map(|((accept, protocol, from, from_ports), (to, to_ports, more, flags, types, rate))| {
            let has_ports = matches!(protocol, "tcp" | "udp");
            let ports = |ports: String| if has_ports { ports } else { String::new() };
            let state = more.iter().filter(|text| text.contains("state")).take(1);
            let side = more.iter().filter(|text| text.contains("in ")).take(1);
            let mut more: String = side.chain(state).copied().collect();
            if protocol == "tcp" && !more.contains("established") {
                more += flags;
            }
            if matches!(protocol, "icmp" | "icmpv6" | "1") {
                more += types;
            }
            more += rate;
            let action = if accept { "accept" } else { "drop" };
            format!("{action} {protocol} from {from}{} to {to}{}{more}", ports(from_ports), ports(to_ports))
        })
}

/// The rules, but those that never match since their addresses are of two families.
fn rules_of(texts: &[String]) -> Rules {
    let options = |rules: Vec<String>| -> Options {
        let sets =
            "sets = { some = [\"10.0.0.4/30\", \"2001:db8::/33\", \"2001:db8:8000::/33\"], none = [] }";
        Options { rules, ..toml::from_str(sets).unwrap() }
    };
    let good = texts.iter().filter(|text| Rules::new(&options(std::vec![(*text).clone()])).is_ok());
    // Of rates there are 256 at most.
    let mut rates = 0..rate::RATES_MAX;
    let good = good.filter(|text| !text.contains(" rate ") || rates.next().is_some());
    Rules::new(&options(good.cloned().collect())).unwrap()
}

fn judged() -> impl Strategy<Value = Judged> {
    let v4 = (0_u32..4, 0_u32..8)
        .prop_map(|(host, low)| Addr::v4((0x0a00_0000 | (host * 0x0040_4041) | low).to_be_bytes()));
    let v6 = (0_u128..4, 0_u128..4)
        .prop_map(|(host, low)| Addr(((0x2001_0db8 << 96) | (host * 0x4000_0001) | low).to_be_bytes()));
    let edge = prop_oneof![
        Just(Addr([0; 16])),
        Just(Addr([255; 16])),
        Just(Addr::v4([255; 4])),
        Just(Addr::v4([0; 4]))
    ];
    let addr = prop_oneof![4 => v4, 2 => v6, 1 => edge];
    let port = prop_oneof![
        any::<u16>(),
        proptest::sample::select(std::vec![0_u16, 1, 79, 80, 81, 443, 65_534, 65_535])
    ];
    let protocol = proptest::sample::select(std::vec![6_u8, 6, 17, 17, 1, 58, 47]);
    let state = proptest::sample::select(std::vec![
        States::NEW,
        States::ESTABLISHED,
        States::RELATED,
        States::INVALID,
        States::UNTRACKED,
    ]);
    let bytes = (proptest::sample::select(std::vec![0_u8, 8, 11, 128, 129, 3, 2]), 0_u8..32, any::<bool>());
    (addr.clone(), addr, port.clone(), port, protocol, state, bytes).prop_map(
        |(src, dst, src_port, dst_port, protocol, state, (icmp_type, tcp_flags, is_from_outside))| {
            let packet = Packet { src, dst, src_port, dst_port, protocol };
            Judged { packet, state, is_from_outside, icmp_type, tcp_flags }
        },
    )
}

/// Packets come all at once, so that buckets get empty.
fn assert_agree(rules: &Rules, packets: impl IntoIterator<Item = Judged>) {
    let [mut buckets, mut plain] = [Buckets::full(), Buckets::full()];
    for judged in packets {
        let expected = rules.judge_one_by_one(&judged, 0, &mut plain);
        assert_eq!(rules.judge(&judged, 0, &mut buckets), expected, "{judged:?}");
        let Judged { packet, is_from_outside, .. } = &judged;
        let expected = rules.judge_later_fragment_one_by_one(packet, *is_from_outside, 0, &mut plain);
        let found = rules.judge_later_fragment(packet, *is_from_outside, 0, &mut buckets);
        assert_eq!(found, expected, "{judged:?}");
    }
}

proptest! {
    #[test]
    fn few_rules_are_found_as_one_by_one(
        texts in proptest::collection::vec(rule(), 0..40),
        packets in proptest::collection::vec(judged(), 100),
    ) {
        let rules = rules_of(&texts);
        assert_agree(&rules, packets);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// In several blocks of bits.
    #[test]
    fn many_rules_are_found_as_one_by_one(
        texts in proptest::collection::vec(rule(), 600..1_500),
        packets in proptest::collection::vec(judged(), 300),
    ) {
        let rules = rules_of(&texts);
        assert_agree(&rules, packets);
    }
}

/// As many rules as there may be, all different in each end: every packet of these is content with half of them in each
/// way, and none is the packet's.
fn hard(rules: u32) -> Rules {
    let rule = |number: u32| {
        let (src, dst) = (number % 100, number / 100);
        let ports = |spread: u32| format!("{}-{}", number % spread, 30_000 + number);
        format!(
            "drop udp from 10.{src}.0.0/16,10.255.0.{}/32 port {} to 10.128.0.0/9,172.16.{dst}.{} port {}",
            number % 256,
            ports(7_919),
            number % 250,
            ports(6_007)
        )
    };
    let rules: Vec<String> = (0..rules).map(rule).collect();
    Rules::new(&Options { rules, ..Options::default() }).unwrap()
}

fn hard_packets(count: u32) -> impl Iterator<Item = Judged> {
    (0..count).map(|number| Judged {
        packet: Packet {
            src: Addr::v4([10, (number * 7 % 100) as u8, 1, 1]),
            dst: Addr::v4([172, 16, (number * 13 % 100) as u8, 251]),
            src_port: (20_000 + number * 31 % 10_000) as u16,
            dst_port: (20_000 + number * 17 % 10_000) as u16,
            protocol: protocol::UDP,
        },
        state: States::NEW,
        is_from_outside: false,
        icmp_type: 0,
        tcp_flags: 0,
    })
}

#[test]
fn ten_thousand_hard_rules_are_found_as_one_by_one() {
    let rules = hard(10_000);
    assert_agree(&rules, hard_packets(200));
}
