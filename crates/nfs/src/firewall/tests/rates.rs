//! Tests of rates in rules: which packets take tokens, what happens to those that find none, and what a reload keeps.

use proptest::prelude::*;

use super::properties::{PlainRate, any_rate};
use super::*;

const PINGS: &str = "accept icmp from any to any type echo-request state new rate 10/s burst 3";

/// What is said of packets that come at these times, ms.
fn verdicts(rig: &mut Rig<Firewall>, times: &[u64], packet: impl Fn(u16) -> Headers) -> Vec<Verdict> {
    (1..).zip(times).map(|(number, time_ms)| rig.packet(ms(*time_ms), &packet(number))).collect()
}

/// The drawing of `rate`'s page.
#[test]
fn golden() {
    let mut rig = rig(&rules(&[PINGS]));
    let found = verdicts(&mut rig, &[1_000, 1_000, 1_010, 1_020, 1_100, 1_150], ping);
    assert_eq!(found, [PASS, PASS, PASS, DEFAULT, PASS, DEFAULT]);
    assert_eq!((rig.rules()[0], rig.rules()[1], rig.len()), (4, 2, 4));
}

#[test]
fn the_rules_behind_are_looked_at_where_the_bucket_is_empty() {
    for (list, expected) in [
        (&[PINGS, "reject any from any to any"][..], [PASS, PASS, PASS, REJECTED]),
        (
            &["drop icmp from any to any rate over 1/minute burst 1", "accept any from any to any"],
            [PASS, RULE, RULE, RULE],
        ),
        (
            &["drop icmp from any to any rate 1/hour burst 2 log", "accept any from any to any"],
            [state::logged(0), state::logged(0), PASS, PASS],
        ),
        // Each has a bucket of its own, and the second is asked for what the first one does not take.
        (&["accept icmp from any to any rate 1/s burst 1"; 2], [PASS, PASS, DEFAULT, DEFAULT]),
        // A packet that a rule before decides takes nothing.
        (
            &[
                "drop icmp from any to any rate over 1/s burst 2",
                "accept icmp from any to any rate 1/s burst 3",
            ],
            [PASS, PASS, RULE, RULE],
        ),
        (&["accept icmp from any to any burst 1 rate 1/day"], [PASS, DEFAULT, DEFAULT, DEFAULT]),
    ] {
        assert_eq!(verdicts(&mut rig(&rules(list)), &[0; 4], ping)[..], expected, "{list:?}");
    }
}

/// What nftables' documentation says: 5 packets, where nothing is said.
#[test]
fn a_burst_is_five_where_a_rule_has_none() {
    let passed = |rule: &str| {
        verdicts(&mut rig(&rules(&[rule])), &[0; 9], ping)
            .into_iter()
            .filter(|verdict| *verdict == PASS)
            .count()
    };
    assert_eq!(passed("accept icmp from any to any rate 1/minute"), 5);
    assert_eq!(passed("accept icmp from any to any rate 1/minute burst 7"), 7);
}

/// As with nftables: a rule in front that accepts what is established spares connections the rate, and where there is none
/// all of their packets are counted.
#[test]
fn packets_of_known_connections_take_tokens_if_they_come_to_the_rule() {
    let begin = "accept udp from any to any rate 1/hour burst 3";
    let of = |list: &[&str]| {
        let mut rig = rig(list);
        let exchange = [udp(tcp(1)), back(udp(tcp(1))), udp(tcp(1)), back(udp(tcp(1))), udp(tcp(1))];
        let found: Vec<Verdict> = exchange.iter().map(|packet| rig.packet(0, packet)).collect();
        (found, rig.packet(0, &udp(tcp(2))), rig.packet(0, &udp(tcp(3))))
    };
    fn rig(list: &[&str]) -> Rig<Firewall> {
        super::rig(&rules(list))
    }
    let (exchange, second, third) = of(&[STATEFUL[0], begin]);
    assert_eq!((exchange, second, third), ([PASS; 5].to_vec(), PASS, PASS));
    let (exchange, second, _) = of(&[begin]);
    assert_eq!((exchange, second), ([PASS, PASS, PASS, DEFAULT, DEFAULT].to_vec(), DEFAULT));
    // Without an answer packets are `new`.
    let mut rig = rig(&[STATEFUL[0], begin]);
    assert_eq!(verdicts(&mut rig, &[0; 4], |_| udp(tcp(1))), [PASS, PASS, PASS, DEFAULT]);
}

/// A flood of them is bounded, too.
#[test]
fn later_fragments_take_tokens() {
    let of = |rule: &str, packet: Headers| {
        verdicts(&mut rig(&rules(&[rule, "accept udp from any to any"])), &[0; 3], |_| later_fragment(packet))
    };
    let from_host = udp(tcp(1));
    assert_eq!(of("drop udp from any to any rate over 1/s burst 2", from_host), [PASS, PASS, RULE]);
    let ping = later_fragment(ping(1));
    assert_eq!(of(PINGS, ping), [PASS, PASS, PASS]);
    assert_eq!(verdicts(&mut rig(&rules(&[PINGS])), &[0; 4], |_| ping), [PASS, PASS, PASS, DEFAULT]);
    // It may be of another port, as without a rate.
    assert_eq!(of("drop udp from any to any port 53 rate over 1/s burst 1", from_host), [PASS; 3]);
}

/// A sender of more than a rate takes room for what was accepted, and no more.
#[test]
fn a_flood_takes_the_room_of_what_is_accepted() {
    let mut rig = rig(&rules(&["accept udp from any to any rate 100/s burst 10"]));
    for number in 0..100_000_u32 {
        let packet = Headers { src: Addr::v4(number.to_be_bytes()), ..udp(tcp(1)) };
        rig.packet(u64::from(number) * 10_000, &packet);
    }
    // A second's rate, and the burst.
    assert_eq!((rig.len(), rig.event("accepted")), (109, 109));
}

/// What a bucket could do wrong.
#[derive(Clone, Copy, Debug)]
enum Planted {
    Nothing,
    /// The time since the packet before counts once more where the stamp is that of the last packet.
    RefilledTwice,
    /// It holds one token.
    NoBurst,
    /// A packet that finds no token takes one all the same.
    OwesTokens,
}

/// Whether a bucket with a planted fault is told from one without by packets that come after these pauses, ns.
fn differs(planted: Planted, rate: PlainRate, pauses: &[u64]) -> bool {
    let text = std::format!("drop any from any to any{}", rate.text());
    let options = Options { rules: std::vec![text], ..Options::default() };
    let (rules, mut buckets) = (Rules::new(&options).expect("a rule"), Buckets::full());
    let judged = Meta::of(&udp(tcp(1))).expect("a packet").judged(States::NEW);
    let (mut plain, mut pause_before, mut now_ns) = (rate, 0, 0_u64);
    pauses.iter().any(|pause_ns| {
        now_ns += pause_ns;
        match planted {
            Planted::RefilledTwice if *pause_ns == 0 => {
                plain.taken_ns = plain.taken_ns.saturating_sub(pause_before)
            }
            Planted::NoBurst => plain.burst = 1,
            Planted::OwesTokens | Planted::RefilledTwice | Planted::Nothing => {}
        }
        pause_before = u128::from(*pause_ns);
        let is_match = plain.matches(now_ns.into());
        if matches!(planted, Planted::OwesTokens) && is_match == rate.is_over {
            plain.taken_ns += rate.unit.1 / rate.packets;
        }
        (rules.judge(&judged, now_ns, &mut buckets).ruling == Ruling::DropByRule) != is_match
    })
}

proptest! {
    /// Buckets answer as those of nftables do, whose arithmetic is another.
    #[test]
    fn a_bucket_is_as_in_plain_code(
        rate in any_rate(),
        pauses in proptest::collection::vec(
            prop_oneof![Just(0_u64), 0..2_000_000_u64, 0..2_000_000_000_u64, 0..90_000_000_000_000_u64], 1..200,
        ),
    ) {
        prop_assert!(!differs(Planted::Nothing, rate, &pauses));
    }
}

#[test]
fn planted_faults_of_a_bucket_are_found() {
    let rate = |is_over| PlainRate {
        is_over,
        packets: 10,
        unit: ("s", 1_000_000_000),
        burst: 3,
        taken_ns: 0,
        last_ns: 0,
    };
    let pauses: Vec<u64> = [0, 0, 0, 0, 100, 0, 0, 250, 0, 0, 0, 40, 40, 40].map(ms).to_vec();
    for is_over in [false, true] {
        let differs = |planted| differs(planted, rate(is_over), &pauses);
        assert!(!differs(Planted::Nothing));
        for planted in [Planted::RefilledTwice, Planted::NoBurst, Planted::OwesTokens] {
            assert!(differs(planted), "{planted:?}");
        }
    }
}

#[test]
fn a_bucket_goes_on_where_a_rule_says_the_same_after_a_reload() {
    const A: &str = "accept icmp from any to any rate 1/hour burst 2";
    const B: &str = "drop icmp from 10.0.0.0/8 to any rate over 1/hour burst 3";
    let of = |list: &[&str]| -> Firewall { function(&rules(list)) };
    let ping = Meta::of(&ping(1)).expect("a packet").judged(States::INVALID);
    // How many are accepted by each list, one behind the other.
    let accepted = |lists: &[(&[&str], usize)]| -> Vec<usize> {
        let mut firewall = of(lists[0].0);
        let mut buckets = firewall.buckets();
        let accepted = lists.iter().map(|(list, packets)| {
            firewall = of(list).following(&firewall).expect("it follows any other");
            let is_accepted =
                |_: &usize| firewall.rules.judge(&ping, 5, &mut buckets).ruling == Ruling::Accept;
            (0..*packets).filter(is_accepted).count()
        });
        accepted.collect()
    };
    let spaced = A.replace(" from ", "   from ");
    let smaller = A.replace("burst 2", "burst 1");
    assert_eq!(accepted(&[(&[A], 1), (&[A], 4)]), [1, 1], "the same list");
    assert_eq!(
        accepted(&[(&[A], 1), (&[B, A], 9), (&[A], 9)]),
        [1, 1, 0],
        "at another place, and the other one is new"
    );
    assert_eq!(accepted(&[(&[B, A], 1), (&[&spaced], 4)]), [1, 1], "with other spaces");
    assert_eq!(
        accepted(&[(&[A], 9), (&[&smaller], 9), (&[A], 9)]),
        [2, 1, 2],
        "another text is another bucket"
    );
    assert_eq!(
        accepted(&[(&[A, A], 3), (&[A, A], 9), (&[A], 9), (&[A, A], 9)]),
        [3, 1, 0, 2],
        "the first goes on"
    );
    let many: Vec<String> =
        (0..256).map(|host| A.replace("from any", &std::format!("from 10.0.0.{host}"))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let turned: Vec<&str> = many.iter().rev().copied().collect();
    assert_eq!(accepted(&[(&many, 1), (&turned, 9), (&[A], 9)]), [1, 1, 2], "all places are taken");
}
