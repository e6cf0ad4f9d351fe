//! Tests of the policer.

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::{Edits, Headers};

use super::*;
use crate::test_util::{
    arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full, verdicts_without_expiry,
};

const PASS: Verdict = Verdict::Forward;
const DROPPED: Verdict = Verdict::Drop(OVER_RATE);

fn rig(options: &str) -> Rig<Policer> {
    Rig::new(function(options))
}

fn with_len(l3_len: u16) -> Headers {
    Headers { l3_len, ..tcp(1) }
}

/// One byte a millisecond, and 300 bytes at once.
#[test]
fn golden() {
    let mut rig = rig("rate_bytes_per_s = 1000\nburst_bytes = 300");
    let steps = [
        // ns, bytes, verdict, debt afterwards, nanobytes
        (0, 200, PASS, Some(200_000_000_000)),
        (0, 101, DROPPED, Some(200_000_000_000)), // 301 > 300; takes nothing
        (0, 100, PASS, Some(300_000_000_000)),
        (99_000_000, 100, DROPPED, Some(201_000_000_000)),
        (100_000_000, 100, PASS, Some(300_000_000_000)),
        (100_000_001, 1, DROPPED, Some(299_999_999_000)),
        (399_999_999, 301, DROPPED, Some(1_000)),
        (400_000_000, 301, DROPPED, None), // full, and yet too small for this packet
        (400_000_000, 300, PASS, Some(300_000_000_000)),
        (700_000_000, 300, PASS, Some(300_000_000_000)), // full once more, and no fuller
    ];
    for (time_ns, len, verdict, debt) in steps {
        let packet = with_len(len);
        assert_eq!(rig.packet(time_ns, &packet), verdict, "at {time_ns}");
        let expected = debt.map(|nanotokens| Debt { nanotokens, last_ns: time_ns });
        assert_eq!(rig.state(&packet).copied(), expected, "at {time_ns}");
        assert!(rig.edits().is_empty());
    }
    assert_eq!(rig.event("packets-over-rate"), 5);
}

#[test]
fn flows_have_buckets_of_their_own_and_what_is_not_ip_has_none() {
    let mut rig = rig("burst_bytes = 100\nrate_bytes_per_s = 1");
    for packet in [tcp(1), tcp(2), tcp_v6(1), Headers { src_port: 4001, ..tcp(1) }] {
        assert_eq!(rig.packet(0, &packet), PASS);
        assert_eq!(rig.packet(0, &packet), DROPPED);
    }
    assert_eq!(rig.packet(0, &not_ip()), PASS);
    assert_eq!(rig.len(), 4);
}

#[test]
fn marking_writes_the_dscp_and_leaves_ecn() {
    let options = "burst_bytes = 100\nrate_bytes_per_s = 1\naction = \"mark\"\nmark_dscp = 14";
    let mut rig = rig(options);
    let packet = Headers { tos: (10 << 2) | 0b10, ..tcp(1) }; // AF11, ECT(0)
    assert_eq!((rig.packet(0, &packet), *rig.edits()), (PASS, Edits::NONE));
    let mut marked = Edits::NONE;
    marked.set_tos((14 << 2) | 0b10); // AF13, ECT(0)
    assert_eq!((rig.packet(0, &packet), *rig.edits()), (PASS, marked));
    assert_eq!(rig.event("packets-over-rate"), 1);
    assert_eq!(rig.state(&packet).unwrap().nanotokens, 100_000_000_000); // takes nothing
}

#[test]
fn exact_at_a_terabit_and_at_a_byte_a_second() {
    let mut fast = rig("rate_bytes_per_s = 125_000_000_000\nburst_bytes = 1500");
    for (time_ns, len, verdict) in
        [(0, 1500, PASS), (11, 1376, DROPPED), (11, 1375, PASS), (12, 125, PASS), (12, 1, DROPPED)]
    {
        assert_eq!(fast.packet(time_ns, &with_len(len)), verdict, "{len} at {time_ns}");
    }
    let mut slow = rig("rate_bytes_per_s = 1\nburst_bytes = 40");
    for (time_ns, verdict) in
        [(0, PASS), (39_999_999_999, DROPPED), (40_000_000_000, PASS), (79_999_999_999, DROPPED)]
    {
        assert_eq!(slow.packet(time_ns, &with_len(40)), verdict, "at {time_ns}");
    }
}

/// A rate that divides nothing evenly, offered twice over for three days: not one nanobyte is lost
/// or won.
#[test]
fn does_not_drift() {
    const RATE: u64 = 999_983;
    const LEN: u16 = 65_535;
    let mut rig = rig("rate_bytes_per_s = 999_983\nburst_bytes = 131_070");
    let mut now_ns = 0;
    let mut passed_nanobytes = 0_u128;
    while now_ns < 3 * 24 * 3600 * 1_000_000_000 {
        if rig.packet(now_ns, &with_len(LEN)) == PASS {
            passed_nanobytes += u128::from(LEN) * 1_000_000_000;
        }
        now_ns += u64::from(LEN) * 1_000_000_000 / (2 * RATE);
    }
    let Debt { nanotokens, last_ns } = *rig.state(&with_len(LEN)).unwrap();
    let earned_nanobytes = u128::from(RATE) * u128::from(last_ns);
    assert_eq!(passed_nanobytes, earned_nanobytes + u128::from(nanotokens));
    assert!(rig.event("packets-over-rate") > 1_000_000);
}

#[test]
fn a_flow_is_kept_until_its_bucket_is_full() {
    let mut rig = rig("rate_bytes_per_s = 3\nburst_bytes = 1000");
    rig.packet(7, &with_len(100));
    let full_ns = 7 + 33_333_333_334; // 100 bytes at 3 a second, rounded up
    rig.wait_until(full_ns - 1);
    assert_eq!(rig.len(), 1);
    rig.wait_until(full_ns);
    assert!(rig.is_empty());

    let fast: Policer = function("rate_bytes_per_s = 125_000_000_000");
    assert_eq!(fast.idle_timeout_ns(&Debt { nanotokens: 1, last_ns: 0 }), ms(10));
}

#[test]
fn reports_the_emptiest_buckets() {
    let mut rig = rig("rate_bytes_per_s = 1000\nburst_bytes = 1000");
    for source in [1, 2, 2, 3, 3, 4] {
        rig.packet(0, &tcp(source)); // 100 bytes each
    }
    rig.packet(ms(50), &tcp(4));
    let report = &rig.report()[0];
    assert_eq!(report.title, "Buckets not full now: 4, emptiest first");
    let flow = |source| format!("tcp 10.0.0.{source}:4000 -> 192.0.2.1:80");
    assert_eq!(report.rows[0], [&flow(2), "850", "150"]);
    assert_eq!(report.rows[1], [&flow(3), "850", "150"]);
    assert_eq!(report.rows[2], [&flow(4), "850", "150"]);
    assert_eq!(report.rows[3], [&flow(1), "950", "50"]);
}

/// What differs for `destination-policer`: whose bucket it is.
#[test]
fn a_destination_has_one_bucket_for_all_that_it_is_sent() {
    let mut rig: Rig<DestinationPolicer> = Rig::new(function("rate_bytes_per_s = 1000\nburst_bytes = 300"));
    let answer = Headers { src: tcp(1).dst, dst: tcp(1).src, ..tcp(1) };
    let steps = [
        // ms, packet of 100 bytes, verdict, debt of its destination afterwards, bytes
        (0, tcp(1), PASS, 100),
        (0, Headers { dst_port: 443, ..tcp(2) }, PASS, 200),
        (0, Headers { protocol: 17, ..tcp(3) }, PASS, 300),
        (50, tcp(4), DROPPED, 250),
        (50, answer, PASS, 100),
        (50, tcp_v6(1), PASS, 100),
        (100, tcp(4), PASS, 300),
    ];
    for (time_ms, packet, verdict, debt_bytes) in steps {
        assert_eq!(rig.packet(ms(time_ms), &packet), verdict, "at {time_ms}");
        assert_eq!(rig.state(&packet).unwrap().nanotokens, debt_bytes * 1_000_000_000, "at {time_ms}");
    }
    assert_eq!(rig.packet(ms(100), &not_ip()), PASS);
    assert_eq!((rig.len(), rig.event("packets-over-rate")), (3, 1));
    let report = &rig.report()[0];
    assert_eq!(report.columns, ["destination", "left_bytes", "full_in_ms"]);
    assert_eq!(report.rows[0], ["192.0.2.1", "0", "300"]);
}

#[test]
fn metadata_is_no_larger_than_its_fields() {
    assert_eq!((size_of::<Markable<FiveTuple>>(), size_of::<Markable<DstAddr>>()), (40, 19));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("rate_bytes_per_s = 0", "`rate_bytes_per_s` must be at least 1"),
        ("burst_bytes = 0", "`burst_bytes` must be from 1 to 18446744073, and at least the largest packet"),
        (
            "burst_bytes = 18446744074",
            "`burst_bytes` must be from 1 to 18446744073, and at least the largest packet",
        ),
        ("mark_dscp = 64", "`mark_dscp` must be from 0 to 63"),
    ] {
        assert_eq!(option_error::<Policer>(options), expected);
    }
    function::<Policer>("burst_bytes = 18446744073");
    assert!(toml::from_str::<Options>("action = \"shape\"").is_err());
}

#[test]
fn new_flows_pass_while_the_table_is_full_unless_told_otherwise() {
    assert_eq!(verdict_when_full::<Policer>(&function(""), &tcp(1)), PASS);
    let strict = function::<Policer>("when_full = \"drop\"");
    assert_eq!(verdict_when_full(&strict, &tcp(1)), Verdict::Drop(TABLE_FULL));
}

/// Whether a packet conforms, from the definition alone, in exact arithmetic: with it, no interval
/// that ends now holds more than the burst and what the rate earns meanwhile.
fn conforms(passed: &[(u64, u16)], now_ns: u64, len: u16, rate: u64, burst: u64) -> bool {
    let mut nanobytes = u128::from(len) * 1_000_000_000;
    let burst_nanobytes = u128::from(burst) * 1_000_000_000;
    let mut fits = nanobytes <= burst_nanobytes;
    for (at_ns, len) in passed.iter().rev() {
        nanobytes += u128::from(*len) * 1_000_000_000;
        fits &= nanobytes <= burst_nanobytes + u128::from(rate) * u128::from(now_ns - at_ns);
    }
    fits
}

fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..100, 1_000_u64..10_000_000, 100_000_000_u64..200_000_000_000]
}

proptest! {
    #[test]
    fn passes_what_conforms_and_nothing_else_whether_flows_expire_or_not(
        times in arrivals(), lens: [u16; 8], rate in any_rate(), burst in 1_u64..200_000,
    ) {
        let function: Policer =
            function(&format!("rate_bytes_per_s = {rate}\nburst_bytes = {burst}"));
        let packets: Vec<(u64, Headers)> = times
            .iter()
            .enumerate()
            .map(|(i, time_ns)| (*time_ns, with_len(lens[i % 8])))
            .collect();
        let forgetful = verdicts_without_expiry(&function, &packets);
        let mut rig = Rig::new(function);
        let mut passed = Vec::new();
        for ((time_ns, packet), never_expired) in packets.into_iter().zip(forgetful) {
            let expected = conforms(&passed, time_ns, packet.l3_len, rate, burst);
            let verdict = rig.packet(time_ns, &packet);
            prop_assert_eq!(verdict == PASS, expected, "at {}", time_ns);
            prop_assert_eq!(verdict, never_expired, "at {}", time_ns);
            if verdict == PASS {
                passed.push((time_ns, packet.l3_len));
            }
        }
    }

    /// "Never less", as [`TokenBucket`] proves it. Packets have 40 bytes or more and come before the
    /// debt of the last is paid: the flow is backlogged.
    #[test]
    fn a_backlogged_flow_gets_its_rate_but_for_one_packet(
        packets in proptest::collection::vec((0.0..1.0, 40_u16..1500), 1..200),
        rate in 1_u64..20_000_000_000,
        burst in 3_000_u64..10_000,
    ) {
        let mut rig = rig(&format!("rate_bytes_per_s = {rate}\nburst_bytes = {burst}"));
        let gap_max_ns = (40_000_000_000 - 1) / rate;
        let mut now_ns = 0;
        let mut log = Vec::new();
        for (part, len) in packets {
            now_ns += (part * gap_max_ns as f64) as u64;
            let passes = rig.packet(now_ns, &with_len(len)) == PASS;
            log.push((now_ns, len, passes));
        }
        for (i, (start_ns, _, start_passes)) in log.iter().enumerate() {
            let mut passed_bytes = 0;
            for (end_ns, len, passes) in &log[i + 1..] {
                if *passes {
                    passed_bytes += u128::from(*len);
                } else if !start_passes {
                    let earned = u128::from(rate) * u128::from(end_ns - start_ns);
                    prop_assert!((passed_bytes + u128::from(*len)) * 1_000_000_000 > earned);
                }
            }
        }
    }

    /// No rate, time or length panics; and the time-out is the very nanosecond that the debt is paid.
    #[test]
    fn anything_goes(
        rate in 1_u64.., burst in 1..=BURST_MAX, times: [u64; 4], len: u16,
    ) {
        let options = Options { rate_bytes_per_s: rate, burst_bytes: burst, ..Options::default() };
        let function = Policer::<FiveTuple>::new(options).unwrap();
        let (mut edits, mut pool, mut events) = (Edits::NONE, (), [0]);
        let mut flow = None;
        for time_ns in times { // in any order
            let mut cx = Cx::new(Stamp { seq: 0, time_ns }, &mut edits, &mut pool, &mut events, 0);
            function.step(&mut flow, &Markable::of(&with_len(len)).unwrap(), &mut cx);
            if let Some(state) = flow {
                let from_zero = Debt { last_ns: 0, ..state };
                let to_full_ns = function.bucket.ns_to_full(state.nanotokens);
                prop_assert!(state.nanotokens <= burst * 1_000_000_000);
                prop_assert_eq!(function.bucket.debt_at(&from_zero, to_full_ns), 0);
                prop_assert!(function.bucket.debt_at(&from_zero, to_full_ns - 1) > 0);
                prop_assert!(function.idle_timeout_ns(&state) >= to_full_ns);
            }
        }
    }
}

/// From or to a host inside, by its last octet, and a host outside.
fn of_host(host: u8, peer: u8, is_from_outside: bool) -> Headers {
    let mut headers = with_len(100);
    let (inside, outside) = (Addr::v4([10, 0, 0, host]), Addr::v4([203, 0, 113, peer]));
    (headers.src, headers.dst) = if is_from_outside { (outside, inside) } else { (inside, outside) };
    headers.marks.set(wire::Marks::FROM_OUTSIDE, is_from_outside);
    headers
}

#[test]
fn each_host_inside_has_a_bucket_for_each_direction_however_many_flows_it_opens() {
    let mut rig: Rig<HostPolicer> =
        Rig::new(function("by = \"host\"\nrate_bytes_per_s = 1000\nburst_bytes = 300"));
    for is_from_outside in [false, true] {
        for (peer, verdict) in [(1, PASS), (2, PASS), (3, PASS), (4, DROPPED)] {
            let packet = Headers { src_port: 1_000 + u16::from(peer), ..of_host(1, peer, is_from_outside) };
            assert_eq!(rig.packet(0, &packet), verdict, "{peer}, {is_from_outside}");
        }
    }
    assert_eq!(rig.packet(0, &of_host(2, 1, false)), PASS, "another host");
    assert_eq!((rig.len(), rig.packet(0, &not_ip())), (3, PASS));
    let tables = rig.report();
    assert_eq!(tables[0].columns[0], "host");
    assert_eq!(tables[0].rows[0][0], "from 10.0.0.1");
}

#[test]
fn hosts_that_are_not_named_are_not_policed_and_take_no_room() {
    let mut rig: Rig<HostPolicer> = Rig::new(function(
        "by = \"host\"\nhosts = [\"10.0.0.0/31\"]\nrate_bytes_per_s = 1000\nburst_bytes = 100",
    ));
    for _ in 0..3 {
        assert_eq!(rig.packet(0, &of_host(2, 1, false)), PASS);
        assert_eq!(rig.packet(0, &of_host(2, 1, true)), PASS);
    }
    assert!(rig.is_empty());
    assert_eq!([(); 2].map(|()| rig.packet(0, &of_host(1, 1, true))), [PASS, DROPPED]);
}

#[test]
fn hosts_go_with_the_policer_by_host() {
    assert!(option_error::<Policer>("hosts = [\"10.0.0.0/8\"]").contains("by = \"host\""));
    assert!(option_error::<HostPolicer>("by = \"host\"\nhosts = [\"10.0.0.1/8\"]").contains("10.0.0.0/8"));
}
