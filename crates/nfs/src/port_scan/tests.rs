//! Tests of the port scan detector.

use std::collections::{BTreeMap, BTreeSet};

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::Marks;

use super::*;
use crate::test_util::{
    arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full, verdicts_without_expiry,
};

const PASS: Verdict = Verdict::Forward;
const DROPPED: Verdict = Verdict::Drop(SCANNER);

const SYN: u8 = tcp_flags::SYN;
const ACK: u8 = tcp_flags::ACK;

fn rig(options: &str) -> Rig<PortScan> {
    Rig::new(function(options))
}

fn tcp_to(port: u16, flags: u8) -> Headers {
    Headers { dst_port: port, tcp_flags: flags, ..tcp(1) }
}

fn syn(port: u16) -> Headers {
    tcp_to(port, SYN)
}

/// More than two ports in 100 ms make a scanner, for 200 ms.
#[test]
fn golden() {
    let mut rig = rig("threshold_ports = 2\nwindow_ms = 100\nblock_ms = 200\naction = \"drop\"");
    let steps = [
        // ms, port, flags, verdict, the source: (window began, scanner until, tries, bits)
        (5, 22, ACK, PASS, None), // no try, no state
        (5, 22, SYN, PASS, Some((5, 0, 1, 1))),
        (6, 22, SYN, PASS, Some((5, 0, 2, 1))),       // sent again
        (7, 80, SYN | ACK, PASS, Some((5, 0, 2, 1))), // an answer
        (8, 23, SYN, PASS, Some((5, 0, 3, 2))),
        (104, 80, ACK, PASS, Some((5, 0, 3, 2))),
        (105, 80, ACK, PASS, None), // the window is over
        (105, 24, SYN, PASS, Some((105, 0, 1, 1))),
        (106, 25, SYN, PASS, Some((105, 0, 2, 2))),
        (204, 26, SYN, DROPPED, Some((105, 404, 3, 3))),
        (210, 80, ACK, DROPPED, Some((105, 404, 3, 3))),
        (403, 27, SYN, DROPPED, Some((105, 404, 4, 4))), // is counted, and extends nothing
        (404, 28, SYN, PASS, Some((404, 0, 1, 1))),
    ];
    for (time_ms, port, flags, verdict, source) in steps {
        assert_eq!(rig.packet(ms(time_ms), &tcp_to(port, flags)), verdict, "at {time_ms}");
        let got = rig
            .state(&tcp(1))
            .map(|state| (state.start_ns / ms(1), state.scanner_until_ns / ms(1), state.tries, state.bits()));
        assert_eq!(got, source, "at {time_ms}");
    }
    assert_eq!((rig.event("scanners-found"), rig.event("tries")), (1, 8));
    rig.wait_until(ms(504));
    assert!(rig.is_empty());
}

#[test]
fn by_default_scanners_pass_and_are_reported() {
    let mut rig = rig("threshold_ports = 5");
    for port in 1..=100 {
        assert_eq!(rig.packet(ms(port.into()), &syn(port)), PASS);
    }
    for port in 1..=5 {
        rig.packet(ms(100), &Headers { src: tcp(2).src, ..syn(port) });
    }
    for port in 1..=10 {
        rig.packet(ms(100), &Headers { dst_port: port, tcp_flags: SYN, ..tcp_v6(3) });
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Scanners now: 2, those that tried most first");
    assert_eq!(report.columns, ["source", "ports_estimated", "tries", "left_ms"]);
    assert_eq!(report.rows[0], ["10.0.0.1", "101", "100", "299906"]);
    assert_eq!(report.rows[1], ["2001:db8::3", "10", "10", "300000"]);
    assert_eq!(rig.event("scanners-found"), 2);
}

#[test]
fn ports_are_counted_once_for_all_hosts_and_services_for_each() {
    let packets = || (0..50).map(|host| Headers { dst: Addr::v4([192, 0, 2, host]), ..syn(443) });
    let mut ports = rig("threshold_ports = 20");
    let mut services = rig("threshold_ports = 20\ncount = \"services\"");
    for packet in packets() {
        ports.packet(0, &packet);
        services.packet(0, &packet);
    }
    assert_eq!((ports.event("scanners-found"), services.event("scanners-found")), (0, 1));
    assert_eq!(services.report()[0].columns[1], "services_estimated");
}

#[test]
fn tries_are_handshakes_and_udp_if_told() {
    let udp = Headers { protocol: protocol::UDP, tcp_flags: 0, ..syn(53) };
    let later_fragment = Headers { marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..syn(0) };
    let cases = [
        (syn(22), true, true),
        (tcp_to(22, SYN | tcp_flags::ECE | tcp_flags::CWR), true, true),
        (tcp_to(22, SYN | ACK), false, false),
        (tcp_to(22, tcp_flags::FIN), false, false),
        (tcp_to(22, 0), false, false),
        (udp, false, true),
        (later_fragment, false, false),
        (Headers { protocol: protocol::ICMP, ..syn(0) }, false, false),
        (not_ip(), false, false),
    ];
    for (packet, is_try, is_try_with_udp) in cases {
        for (options, expected) in [("", is_try), ("udp = true", is_try_with_udp)] {
            let mut rig = rig(options);
            assert_eq!(rig.packet(0, &packet), PASS);
            assert_eq!(rig.event("tries"), u64::from(expected), "{packet:?} with {options:?}");
            assert_eq!(rig.len() as u64, u64::from(expected));
        }
    }
}

#[test]
fn tcp_and_udp_to_one_port_are_two() {
    let mut rig = rig("udp = true");
    rig.packet(0, &syn(53));
    rig.packet(0, &Headers { protocol: protocol::UDP, ..syn(53) });
    assert_eq!(rig.state(&tcp(1)).unwrap().bits(), 2);
}

#[test]
fn those_allowed_are_not_watched() {
    let mut rig = rig("threshold_ports = 1\naction = \"drop\"\nallow = [\"10.0.0.1\"]");
    for port in 1..100 {
        assert_eq!(rig.packet(0, &syn(port)), PASS);
    }
    assert!(rig.is_empty());
    assert_eq!(rig.event("tries"), 0);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("threshold_ports = 0", "`threshold_ports` must be from 1 to 1000"),
        ("threshold_ports = 1001", "`threshold_ports` must be from 1 to 1000"),
        ("window_ms = 0", "`window_ms` must be at least 1"),
        ("block_ms = 0", "`block_ms` must be at least 1"),
        ("allow = [\"10.0.0.0/33\"]", "`allow` has the prefix \"10.0.0.0/33\", "),
    ] {
        let error = option_error::<PortScan>(options);
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(toml::from_str::<Options>("count = \"hosts\"").is_err());
}

#[test]
fn new_sources_pass_a_full_table() {
    let strict = function::<PortScan>("action = \"drop\"");
    assert_eq!(verdict_when_full(&strict, &syn(1)), PASS);
}

/// Key, header of the table (16 bytes), the mark that there is a state (8) and the state.
#[test]
fn a_source_takes_two_cache_lines() {
    assert_eq!(size_of::<SrcAddr>() + 16 + 8 + size_of::<State>(), 128);
    assert_eq!(16 + 16 + 8 + core::mem::offset_of!(State, bitmap), 64);
}

/// Over many seeds: right on average, and off by no more than the standard error in the root mean
/// square, but for rounding.
#[test]
fn estimates_are_as_exact_as_the_module_says() {
    for ports in [20, 100, 256, 500, 1000_u16] {
        let (n, t) = (f64::from(ports), f64::from(ports) / 512.0);
        let standard_error = (512.0 * (t.exp() - t - 1.0)).sqrt() / n;
        let rounding = 0.5 / n;
        let error = |seed: u32| {
            let scan = function::<PortScan>(&format!("seed = {seed}"));
            let mut state = State::starting_at(0);
            for port in 0..ports {
                state.try_bit(scan.bit(&PortScan::project(&syn(port)).unwrap()));
            }
            f64::from(ports_estimated(state.bits())) / n - 1.0
        };
        let errors: Vec<f64> = (0..300).map(error).collect();
        let mean = errors.iter().sum::<f64>() / 300.0;
        let root_mean_square = (errors.iter().map(|error| error * error).sum::<f64>() / 300.0).sqrt();
        assert!(mean.abs() < standard_error / 4.0 + rounding, "{ports} ports: {mean} on average");
        assert!(root_mean_square < 1.1 * standard_error + rounding, "{ports} ports: {root_mean_square}");
    }
}

#[test]
fn the_estimate_grows_with_each_bit_and_says_when_it_ends() {
    assert_eq!([0, 1, 2, 3, 100].map(ports_estimated), [0, 1, 2, 3, 111]);
    assert!((0..BITMAP_BITS).all(|bits| ports_estimated(bits) < ports_estimated(bits + 1)));
    assert_eq!(ports_text(BITMAP_BITS), "3490 or more");
    for (threshold_ports, bits) in [(1, 2), (20, 21), (64, 61), (100, 92), (1000, 440)] {
        assert_eq!(bits_over(threshold_ports), bits, "{threshold_ports}");
    }
}

proptest! {
    /// Against sets, whether sources expire or not. Ports that share a bit are one.
    #[test]
    fn agrees_with_the_model(
        times in arrivals(),
        ports in proptest::collection::vec((0_u16..200, prop_oneof![4 => Just(SYN), 1 => Just(ACK)]), 300),
        threshold in 1_u32..30,
        window in 1_u64..200,
        block in 1_u64..200,
    ) {
        let function: PortScan = function(&format!(
            "threshold_ports = {threshold}\nwindow_ms = {window}\nblock_ms = {block}\naction = \"drop\""
        ));
        let packets: Vec<_> =
            times.iter().zip(&ports).map(|(time_ns, (port, flags))| (*time_ns, tcp_to(*port, *flags))).collect();
        let forgetful = verdicts_without_expiry(&function, &packets);
        let bit = |packet: &Headers| function.bit(&PortScan::project(packet).unwrap());
        let bits: BTreeMap<u16, u32> = (0..200).map(|port| (port, bit(&syn(port)))).collect();
        let mut rig = Rig::new(function.clone());
        let mut tried = BTreeSet::new();
        let (mut start_ns, mut until_ns, mut found) = (None, 0, 0);
        for ((now_ns, packet), never_expired) in packets.into_iter().zip(forgetful) {
            let is_scanner = until_ns > 0;
            let end_ns = if is_scanner { until_ns } else { start_ns.map_or(0, |start_ns| start_ns + ms(window)) };
            if end_ns <= now_ns {
                (start_ns, until_ns) = (None, 0);
                tried.clear();
            }
            if packet.tcp_flags == SYN {
                start_ns = start_ns.or(Some(now_ns));
                tried.insert(bits[&packet.dst_port]);
                if until_ns == 0 && ports_estimated(tried.len() as u32) > threshold {
                    until_ns = now_ns + ms(block);
                    found += 1;
                }
            }
            let verdict = rig.packet(now_ns, &packet);
            prop_assert_eq!(verdict, if until_ns > 0 { DROPPED } else { PASS }, "at {}", now_ns);
            prop_assert_eq!(verdict, never_expired, "at {}", now_ns);
            let state = rig.state(&packet).map(|state| (state.start_ns, state.bits() as usize));
            prop_assert_eq!(state, start_ns.map(|start_ns| (start_ns, tried.len())));
        }
        prop_assert_eq!(rig.event("scanners-found"), found);
    }
}
