//! Tests of the rate limiter.

use nf::{Rig, Verdict};
use proptest::prelude::*;

use super::*;
use crate::test_util::{
    arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full, verdicts_without_expiry,
};

const PASS: Verdict = Verdict::Forward;
const DROPPED: Verdict = Verdict::Drop(OVER_RATE);

fn rig(options: &str) -> Rig<RateLimiter> {
    Rig::new(function(options))
}

/// A packet each 10 ms, and three at once.
#[test]
fn golden() {
    let mut rig = rig("rate_packets_per_s = 100\nburst_packets = 3");
    let steps = [
        // ms, bytes, verdict, debt afterwards, millipackets
        (0, 40, PASS, 1_000),
        (0, 1500, PASS, 2_000), // large and small cost the same
        (0, 65535, PASS, 3_000),
        (0, 40, DROPPED, 3_000), // takes nothing
        (9, 40, DROPPED, 2_100),
        (10, 40, PASS, 3_000),
        (25, 40, PASS, 2_500), // 1,500 earned
        (29, 40, DROPPED, 2_100),
        (30, 40, PASS, 3_000),
        (100, 40, PASS, 1_000), // full once more, and no fuller
        (100, 40, PASS, 2_000),
        (100, 40, PASS, 3_000),
        (100, 40, DROPPED, 3_000),
    ];
    for (time_ms, l3_len, verdict, millipackets) in steps {
        let packet = Headers { l3_len, ..tcp(1) };
        assert_eq!(rig.packet(ms(time_ms), &packet), verdict, "at {time_ms}");
        let expected = Debt { nanotokens: millipackets * 1_000_000, last_ns: ms(time_ms) };
        assert_eq!(rig.state(&packet), Some(&expected), "at {time_ms}");
    }
    rig.wait_until(ms(130) - 1);
    assert_eq!(rig.len(), 1);
    rig.wait_until(ms(130)); // the debt is paid
    assert!(rig.is_empty());
}

#[test]
fn each_5_tuple_of_either_family_has_its_rate_and_what_is_not_ip_has_none() {
    let mut rig = rig("rate_packets_per_s = 1\nburst_packets = 1");
    let answer = Headers { src: tcp(1).dst, dst: tcp(1).src, src_port: 80, dst_port: 4000, ..tcp(1) };
    for packet in [tcp(1), tcp(2), answer, tcp_v6(1), Headers { protocol: 17, ..tcp(1) }] {
        assert_eq!(rig.packet(0, &packet), PASS);
        assert_eq!(rig.packet(0, &packet), DROPPED);
    }
    assert_eq!([rig.packet(0, &not_ip()), rig.packet(0, &not_ip())], [PASS; 2]);
    assert_eq!(rig.len(), 5);
}

#[test]
fn reports_the_emptiest_buckets_in_packets() {
    let mut rig = rig("rate_packets_per_s = 10\nburst_packets = 10");
    for source in [1, 2, 2] {
        rig.packet(0, &tcp(source));
    }
    let report = &rig.report()[0];
    assert_eq!(report.columns, ["flow", "left_packets", "full_in_ms"]);
    assert_eq!(report.rows[0], ["tcp 10.0.0.2:4000 -> 192.0.2.1:80", "8", "200"]);
    assert_eq!(report.rows[1], ["tcp 10.0.0.1:4000 -> 192.0.2.1:80", "9", "100"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("rate_packets_per_s = 0", "`rate_packets_per_s` must be at least 1"),
        ("burst_packets = 0", "`burst_packets` must be from 1 to 18446744073"),
        ("burst_packets = 18446744074", "`burst_packets` must be from 1 to 18446744073"),
    ] {
        assert_eq!(option_error::<RateLimiter>(options), expected);
    }
}

#[test]
fn new_flows_pass_while_the_table_is_full_unless_told_otherwise() {
    assert_eq!(verdict_when_full::<RateLimiter>(&function(""), &tcp(1)), PASS);
    let strict = function::<RateLimiter>("when_full = \"drop\"");
    assert_eq!(verdict_when_full(&strict, &tcp(1)), Verdict::Drop(TABLE_FULL));
}

proptest! {
    /// From the definition alone: a packet passes if, with it, no interval that ends now holds more than
    /// the burst and what the rate earned meanwhile. Whether flows expire or not.
    #[test]
    fn passes_as_many_as_it_may_and_no_more(
        times in arrivals(), rate in prop_oneof![1_u64..100, 100_u64..100_000], burst in 1_u64..50,
    ) {
        let function: RateLimiter =
            function(&format!("rate_packets_per_s = {rate}\nburst_packets = {burst}"));
        let packets: Vec<_> = times.iter().map(|time_ns| (*time_ns, tcp(1))).collect();
        let forgetful = verdicts_without_expiry(&function, &packets);
        let mut rig = Rig::new(function);
        let mut passed: Vec<u64> = Vec::new();
        for ((now_ns, packet), never_expired) in packets.into_iter().zip(forgetful) {
            let fits = |(i, at_ns): (usize, &u64)| {
                let with_it = (passed.len() - i + 1) as u64;
                with_it * 1_000_000_000 <= burst * 1_000_000_000 + rate * (now_ns - at_ns)
            };
            let expected = passed.iter().enumerate().all(fits);
            let verdict = rig.packet(now_ns, &packet);
            prop_assert_eq!(verdict == PASS, expected, "at {}", now_ns);
            prop_assert_eq!(verdict, never_expired, "at {}", now_ns);
            if verdict == PASS {
                passed.push(now_ns);
            }
        }
    }
}
