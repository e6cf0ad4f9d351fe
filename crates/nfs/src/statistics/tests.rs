//! Tests of flow and source statistics.

use nf::{Ended, FlowKey, Rig, Verdict};
use proptest::prelude::*;
use wire::{Marks, tcp_flags};

use super::*;
use crate::test_util::{arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full};

const PASS: Verdict = Verdict::Forward;

const S: u8 = tcp_flags::SYN;
const A: u8 = tcp_flags::ACK;
const P: u8 = tcp_flags::PSH;
const F: u8 = tcp_flags::FIN;
const R: u8 = tcp_flags::RST;

fn flows(options: &str) -> Rig<FlowStatistics> {
    Rig::new(function(options))
}

fn sources(options: &str) -> Rig<SourceStatistics> {
    Rig::new(function(options))
}

fn with(headers: Headers, l3_len: u16, tcp_flags: u8) -> Headers {
    Headers { l3_len, tcp_flags, ..headers }
}

/// Records of at most a second, ended by 400 ms of silence.
#[test]
fn golden() {
    let mut rig = flows("idle_ms = 400\nactive_ms = 1000");
    let steps = [
        // ms, bytes, flags, then the record: (packets, bytes, first, last, min, max, flags), active-timeouts
        (5, 60, S, (1, 60, 5, 5, 60, 60, S), 0),
        (6, 52, A, (2, 112, 5, 6, 52, 60, S | A), 0),
        (205, 1500, A | P, (3, 1612, 5, 205, 52, 1500, S | A | P), 0),
        (604, 40, A, (4, 1652, 5, 604, 40, 1500, S | A | P), 0),
        (1004, 40, A, (1, 40, 1004, 1004, 40, 40, A), 0), // 400 ms of silence
        (1403, 40, A, (2, 80, 1004, 1403, 40, 40, A), 0),
        (1802, 100, A, (3, 180, 1004, 1802, 40, 100, A), 0),
        (2003, 100, A, (4, 280, 1004, 2003, 40, 100, A), 0),
        (2004, 52, A | F, (1, 52, 2004, 2004, 52, 52, A | F), 1), // a second old
        (2004, 0, R, (2, 52, 2004, 2004, 0, 52, A | F | R), 1),
    ];
    for (time_ms, len, flags, record, timeouts) in steps {
        let packet = with(tcp(1), len, flags);
        assert_eq!(rig.packet(ms(time_ms), &packet), PASS);
        let State { packets, bytes, first_ns, last_ns, min_bytes, max_bytes, tcp_flags, zero } =
            *rig.state(&packet).unwrap();
        let got = (packets, bytes, first_ns / ms(1), last_ns / ms(1), min_bytes, max_bytes, tcp_flags);
        assert_eq!((got, zero), (record, [0; 3]), "at {time_ms}");
        assert_eq!(rig.event("active-timeouts"), timeouts, "at {time_ms}");
    }
}

#[test]
fn a_flow_is_a_5_tuple_and_a_source_an_address_of_either_family() {
    let (mut by_flow, mut by_source) = (flows(""), sources(""));
    let answer = Headers { src: tcp(1).dst, dst: tcp(1).src, src_port: 80, dst_port: 4000, ..tcp(1) };
    let later_fragment =
        Headers { src_port: 0, dst_port: 0, marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..tcp(1) };
    for packet in [tcp(1), answer, tcp_v6(1), Headers { protocol: 17, ..tcp(1) }, later_fragment, not_ip()] {
        assert_eq!([by_flow.packet(0, &packet), by_source.packet(0, &packet)], [PASS; 2]);
    }
    assert_eq!((by_flow.len(), by_source.len()), (5, 3));
    assert!(by_flow.flows().all(|(_, record)| record.packets == 1));
    assert_eq!(by_source.state(&tcp(1)).unwrap().packets, 3);
}

#[test]
fn metadata_is_no_larger_than_its_fields() {
    assert_eq!((size_of::<Meta<FiveTuple>>(), size_of::<Meta<SrcAddr>>(), size_of::<State>()), (40, 19, 40));
}

#[test]
fn reports_the_largest_records_and_their_sizes() {
    let mut rig = sources("top_k = 2");
    for (time_ms, source, len, flags) in [
        (0, 1, 100, S),
        (1, 1, 100, A),
        (8, 1, 101, A | P),
        (0, 2, 1500, A | F),
        (0, 3, 40, 0),
        (0, 4, 40, 0),
        (3, 4, 60, 0),
    ] {
        rig.packet(ms(time_ms), &with(tcp(source), len, flags));
    }
    let [largest, sizes] = &rig.report()[..] else { panic!("two tables") };
    assert_eq!(largest.title, "Top 2 of 4 source records by bytes, 0 of which ended before the run did");
    assert_eq!(largest.columns[0], "source");
    assert_eq!(largest.rows[0], ["10.0.0.2", "1", "1500", "77.2", "0", "-", "1500", "1500", "...A...F"]);
    assert_eq!(largest.rows[1], ["10.0.0.1", "3", "301", "15.5", "8", "4000", "100", "101", "...AP.S."]);
    assert_eq!(sizes.title, "4 source records by size: 7 packets, 1941 bytes");
    assert_eq!(sizes.rows[0], ["1", "2", "50.0", "2", "1540"]);
    assert_eq!(sizes.rows[1], ["2 to 3", "2", "50.0", "5", "401"]);
    assert_eq!(sizes.rows.len(), 2);

    let mut rig = flows("top_k = 1\ntop_by = \"packets\"");
    for source in [1, 2, 2] {
        rig.packet(0, &tcp(source));
    }
    let report = &rig.report()[0];
    assert_eq!(report.title, "Top 1 of 2 flow records by packets, 0 of which ended before the run did");
    assert_eq!(report.rows[0][..2], ["tcp 10.0.0.2:4000 -> 192.0.2.1:80", "2"]);
    assert_eq!(flows("").report()[1].title, "0 flow records by size: 0 packets, 0 bytes");
}

/// Silence, age, and nothing but the end of the run end records; the largest is of a flow that has long been silent.
#[test]
fn records_that_ended_are_in_the_report() {
    let mut rig = flows("idle_ms = 60000\nactive_ms = 100000\ntop_k = 3");
    for time_ms in 0..962 {
        rig.packet(ms(time_ms), &with(tcp(1), 100, A));
    }
    for time_s in [100, 150, 190, 210, 230] {
        rig.packet(ms(time_s * 1_000), &with(tcp(2), 50, A));
    }
    rig.packet(ms(231_000), &with(tcp(3), 40, A));
    let [largest, sizes] = &rig.report()[..] else { panic!("two tables") };
    assert_eq!(largest.title, "Top 3 of 4 flow records by bytes, 2 of which ended before the run did");
    let rows: Vec<_> = largest.rows.iter().map(|row| [&*row[0], &*row[1], &*row[3]]).collect();
    let flow = |source| std::format!("tcp 10.0.0.{source}:4000 -> 192.0.2.1:80");
    let [one, two] = [1, 2].map(flow);
    assert_eq!(rows, [[&*one, "962", "99.6"], [&*two, "3", "0.1"], [&*two, "2", "0.1"]]);
    assert_eq!(sizes.title, "4 flow records by size: 968 packets, 96490 bytes");
    assert_eq!(sizes.rows.last().unwrap()[..2], ["512 to 1023", "1"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, expected) in [
        ("top_k = 0", "`top_k` must be from 1 to 10000"),
        ("top_k = 10001", "`top_k` must be from 1 to 10000"),
        ("idle_ms = 0", "`idle_ms` must be at least 1, or records would end as they begin"),
    ] {
        assert_eq!(option_error::<FlowStatistics>(options), expected);
        assert_eq!(option_error::<SourceStatistics>(options), expected);
    }
    assert!(toml::from_str::<Options>("top_by = \"age\"").is_err());
}

#[test]
fn new_flows_pass_a_full_table_and_a_record_may_last_for_ever() {
    assert_eq!(verdict_when_full::<FlowStatistics>(&function(""), &tcp(1)), PASS);
    let mut rig = flows("active_ms = 0\nidle_ms = 9223372036854775807");
    for time_ns in [0, u64::MAX / 2, u64::MAX - 1] {
        rig.packet(time_ns, &tcp(1));
    }
    assert_eq!(rig.state(&tcp(1)).unwrap().packets, 3);
}

#[test]
fn counts_saturate() {
    let mut state = State { packets: u64::MAX, bytes: u64::MAX, ..State::starting_at(0) };
    state.add(100, 0, u64::MAX);
    assert_eq!((state.packets, state.bytes, state.last_ns), (u64::MAX, u64::MAX, u64::MAX));
    let key = SrcAddr::of(&tcp(1));
    let function = function::<SourceStatistics>("");
    let report = function.report(&mut [(&key, &state)].into_iter(), &Ended::new(10), Stamp::default());
    assert_eq!(report[1].rows[0][0], "9223372036854775808 to 18446744073709551615");
}

proptest! {
    /// Against a log of packets: what a record holds, and which packets it is of.
    #[test]
    fn agrees_with_the_model(
        times in arrivals(), lens: [u16; 8], flags: [u8; 8], active in 0_u64..300, idle in 1_u64..60,
    ) {
        let mut rig = flows(&format!("active_ms = {active}\nidle_ms = {idle}"));
        let mut record: Vec<(u64, u16, u8)> = Vec::new();
        let mut active_timeouts = 0;
        for (i, &now_ns) in times.iter().enumerate() {
            let packet = with(tcp(1), lens[i % 8], flags[i % 8]);
            if record.last().is_some_and(|(last_ns, ..)| now_ns - last_ns >= ms(idle)) {
                record.clear();
            } else if active > 0 && record.first().is_some_and(|(first_ns, ..)| now_ns - first_ns >= ms(active)) {
                record.clear();
                active_timeouts += 1;
            }
            record.push((now_ns, packet.l3_len, packet.tcp_flags));
            prop_assert_eq!(rig.packet(now_ns, &packet), PASS);
            let lens = || record.iter().map(|(_, len, _)| *len);
            let expected = State {
                packets: record.len() as u64,
                bytes: lens().map(u64::from).sum(),
                first_ns: record[0].0,
                last_ns: now_ns,
                min_bytes: lens().min().unwrap(),
                max_bytes: lens().max().unwrap(),
                tcp_flags: record.iter().fold(0, |all, (.., flags)| all | flags),
                zero: [0; 3],
            };
            prop_assert_eq!(rig.state(&packet).copied(), Some(expected));
        }
        prop_assert_eq!(rig.event("active-timeouts"), active_timeouts);
    }
}
