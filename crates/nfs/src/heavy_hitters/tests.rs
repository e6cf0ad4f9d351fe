//! Tests of the heavy hitter detector.

use nf::{Ended, FlowKey, Rig, Verdict};
use proptest::prelude::*;
use wire::{Headers, Marks};

use super::*;
use crate::test_util::{Log, arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

const PASS: Verdict = Verdict::Forward;
const DROPPED: Verdict = Verdict::Drop(OVER_THRESHOLD);

fn rig(options: &str) -> Rig<HeavyHitters> {
    Rig::new(function(options))
}

fn with_len(headers: Headers, l3_len: u16) -> Headers {
    Headers { l3_len, ..headers }
}

/// More than 1000 bytes in 100 ms are heavy.
#[test]
fn golden() {
    let mut rig = rig("threshold_bytes = 1000\nwindow_ms = 100\nidle_ms = 1000\nover_threshold = \"drop\"");
    let steps = [
        // ms, bytes, verdict, life: (bytes, packets, over), window: (start, previous, current)   estimate
        (5, 400, PASS, (400, 1, 0), (5, 0, 400)),
        (15, 400, PASS, (800, 2, 0), (5, 0, 800)),
        (55, 200, PASS, (1000, 3, 0), (5, 0, 1000)), // as much as the threshold is not over it
        (104, 1, DROPPED, (1001, 4, 1), (5, 0, 1001)),
        (105, 100, DROPPED, (1101, 5, 2), (105, 1001, 100)), // 100 + 1001 * 100/100 = 1101
        (155, 100, PASS, (1201, 6, 2), (105, 1001, 200)),    // 200 + 1001 * 50/100 = 700.5
        (304, 900, PASS, (2101, 7, 2), (205, 200, 900)),     // 900 + 200 * 1/100 = 902
        (310, 65535, DROPPED, (67636, 8, 3), (305, 900, 65535)),
        (510, 1, PASS, (67637, 9, 3), (510, 0, 1)), // two windows later
        (1509, 1, PASS, (67638, 10, 3), (1509, 0, 1)),
        (2509, 1, PASS, (1, 1, 0), (2509, 0, 1)), // a second later: a new flow
    ];
    for (time_ms, len, verdict, life, window) in steps {
        let packet = with_len(tcp(1), len);
        assert_eq!(rig.packet(ms(time_ms), &packet), verdict, "at {time_ms}");
        let state = rig.state(&packet).unwrap();
        assert_eq!((state.bytes, state.packets, state.packets_over), life, "at {time_ms}");
        let SlidingCount { start_ns, previous, current } = state.recent_bytes;
        assert_eq!((start_ns / ms(1), previous, current), window, "at {time_ms}");
        assert_eq!(state.last_ns, ms(time_ms));
    }
    assert_eq!((rig.event("heavy-flows"), rig.event("packets-over-threshold")), (1, 3));
}

#[test]
fn without_a_window_the_whole_life_counts_and_nothing_is_dropped_by_default() {
    let mut rig = rig("threshold_bytes = 250\nwindow_ms = 0");
    for (time_ms, over) in [(0, 0), (30_000, 0), (60_000, 1), (90_000, 2)] {
        assert_eq!(rig.packet(ms(time_ms), &tcp(1)), PASS);
        assert_eq!(rig.state(&tcp(1)).unwrap().packets_over, over, "at {time_ms}");
    }
    assert_eq!((rig.event("heavy-flows"), rig.event("packets-over-threshold")), (1, 2));
}

#[test]
fn each_5_tuple_is_a_flow_of_either_family_and_what_is_not_ip_is_none() {
    let mut rig = rig("");
    let answer = Headers { src: tcp(1).dst, dst: tcp(1).src, src_port: 80, dst_port: 4000, ..tcp(1) };
    let later_fragment =
        Headers { src_port: 0, dst_port: 0, marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..tcp(1) };
    for packet in [tcp(1), answer, tcp_v6(1), Headers { protocol: 17, ..tcp(1) }, later_fragment, not_ip()] {
        assert_eq!(rig.packet(0, &packet), PASS);
    }
    assert_eq!(rig.len(), 5);
    assert!(rig.flows().all(|(_, state)| state.packets == 1));
}

#[test]
fn reports_the_largest_flows_and_breaks_ties_by_key() {
    let mut rig = rig("top_k = 3\nthreshold_bytes = 1700");
    for (time_ms, source, len) in
        [(0, 9, 1500), (0, 3, 700), (1, 2, 700), (1, 4, 100), (500, 9, 500), (501, 5, 500)]
    {
        rig.packet(ms(time_ms), &with_len(tcp(source), len));
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Top 3 of 5 flows by bytes, 0 of which ended before the run did");
    let flow = |source| std::format!("tcp 10.0.0.{source}:4000 -> 192.0.2.1:80");
    assert_eq!(report.rows[0], [&flow(9), "2000", "2", "50.0", "500", "4000", "1"]);
    assert_eq!(report.rows[1], [&flow(2), "700", "1", "17.5", "0", "-", "0"]);
    assert_eq!(report.rows[2], [&flow(3), "700", "1", "17.5", "0", "-", "0"]);
    assert!(report.rows.iter().all(|row| row.len() == report.columns.len()));

    let nothing = &Rig::new(function::<HeavyHitters>("")).report()[0];
    let title = "Top 0 of 0 flows by bytes, 0 of which ended before the run did";
    assert_eq!((nothing.title.as_str(), nothing.rows.len()), (title, 0));
}

#[test]
fn flows_that_ended_are_in_the_report() {
    let mut rig = rig("idle_ms = 1000\nwindow_ms = 0\ntop_k = 2");
    for (time_ms, source, len) in [(0, 1, 900), (10, 1, 62), (0, 2, 70), (5_000, 3, 60), (5_001, 1, 40)] {
        rig.packet(ms(time_ms), &with_len(tcp(source), len));
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Top 2 of 4 flows by bytes, 2 of which ended before the run did");
    let rows: Vec<_> = report.rows.iter().map(|row| [&*row[0], &*row[1], &*row[3]]).collect();
    let [one, two] = [1, 2].map(|source| std::format!("tcp 10.0.0.{source}:4000 -> 192.0.2.1:80"));
    assert_eq!(rows, [[&*one, "962", "84.9"], [&*two, "70", "6.1"]]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("threshold_bytes = 0", "`threshold_bytes` must be at least 1"),
        ("top_k = 0", "`top_k` must be from 1 to 10000"),
        ("top_k = 10001", "`top_k` must be from 1 to 10000"),
        ("idle_ms = 0", "`idle_ms` must be at least 1, or flows would end as they begin"),
    ] {
        assert_eq!(option_error::<HeavyHitters>(options), expected);
    }
    assert!(toml::from_str::<Options>("over_threshold = \"mark\"").is_err());
}

#[test]
fn a_flow_outlives_its_window_and_new_ones_pass_a_full_table() {
    let function = function::<HeavyHitters>("window_ms = 1000\nidle_ms = 10");
    assert_eq!(function.idle_timeout_ns(&State::starting_at(0)), ms(2000));
    assert_eq!(verdict_when_full(&function, &tcp(1)), PASS);
}

#[test]
fn counts_and_times_saturate() {
    let function = function::<HeavyHitters>("threshold_bytes = 9223372036854775807\nwindow_ms = 0");
    let (mut edits, mut pool, mut events) = (wire::Edits::NONE, (), [0; 2]);
    let mut cx = Cx::new(Stamp { seq: 0, time_ns: u64::MAX }, &mut edits, &mut pool, &mut events, 0);
    let full = SlidingCount { start_ns: 1, previous: u64::MAX, current: u64::MAX };
    let mut flow = Some(State {
        recent_bytes: full,
        bytes: u64::MAX,
        packets: u64::MAX,
        packets_over: u64::MAX,
        ..State::starting_at(0)
    });
    let before = flow;
    assert_eq!(function.step(&mut flow, &Metered::of(&tcp(1)).unwrap(), &mut cx), PASS);
    assert_eq!(flow.map(|state| State { last_ns: 0, ..state }), before);

    let key = FiveTuple::of(&tcp(1));
    let mut flows = [(&key, flow.as_ref().unwrap())].into_iter();
    let report = &function.report(&mut flows, &Ended::new(10), Stamp::default())[0];
    assert_eq!(report.rows[0][3..6], ["100.0", "18446744073710", "1000000000"]);
}

proptest! {
    /// Against logs of bytes: what is dropped, and what the state holds.
    #[test]
    fn agrees_with_the_model(
        times in arrivals(), lens: [u16; 8], threshold in 1_u64..200_000, window in 1_u64..60,
    ) {
        let mut rig = rig(&format!(
            "threshold_bytes = {threshold}\nwindow_ms = {window}\nover_threshold = \"drop\""
        ));
        let mut log = Log::new(ms(window));
        let (mut over, mut packets) = (0, 0);
        for (i, &now_ns) in times.iter().enumerate() {
            let packet = with_len(tcp(1), lens[i % 8]);
            log.add(now_ns, packet.l3_len.into());
            packets += 1;
            let is_over = log.estimate_by_window(now_ns) > threshold * ms(window);
            over += u64::from(is_over);
            prop_assert_eq!(rig.packet(now_ns, &packet), if is_over { DROPPED } else { PASS });
            let state = rig.state(&packet).unwrap();
            prop_assert_eq!(
                (state.bytes, state.packets, state.packets_over, state.first_ns, state.last_ns),
                (log.between(0, u64::MAX), packets, over, times[0], now_ns)
            );
        }
        prop_assert_eq!(rig.event("heavy-flows"), u64::from(over > 0));
        prop_assert_eq!(rig.event("packets-over-threshold"), over);
    }
}
