//! Tests of the DDoS guard: by hand, and against a plain log of packets.

use nf::{Rig, Verdict};
use proptest::prelude::*;
use wire::Headers;

use super::*;
use crate::test_util::{
    Log, arrivals, function, ms, not_ip, option_error, tcp, tcp_v6, verdict_when_full,
    verdicts_without_expiry,
};

const PASS: Verdict = Verdict::Forward;
const REFUSED: Verdict = Verdict::Drop(SOURCE_BLOCKED);

fn rig(options: &str) -> Rig<Ddos> {
    Rig::new(function(options))
}

/// Window start, previous and current count, and end of the block, in ms.
fn state(rig: &Rig<Ddos>, headers: &Headers) -> Option<(u64, u64, u64, u64)> {
    rig.state(headers).map(|State { packets, blocked_until_ns }| {
        (packets.start_ns / ms(1), packets.previous, packets.current, blocked_until_ns / ms(1))
    })
}

/// At most 4 packets in a window of 100 ms; blocks for 250 ms.
#[test]
fn golden() {
    let mut rig = rig("threshold_packets = 4\nwindow_ms = 100\nblock_ms = 250");
    let steps = [
        // ms, source, verdict, (start, previous, current, blocked until)    estimate
        (1000, 1, PASS, (1000, 0, 1, 0)),
        (1010, 1, PASS, (1000, 0, 2, 0)),
        (1010, 2, PASS, (1010, 0, 1, 0)), // another source
        (1099, 1, PASS, (1000, 0, 3, 0)),
        (1100, 1, PASS, (1100, 3, 1, 0)),       // 1 + 3 * 100/100 = 4
        (1133, 1, REFUSED, (1100, 3, 2, 1383)), // 2 + 3 * 67/100 = 4.01
        (1200, 1, REFUSED, (1100, 3, 3, 1383)), // the window stands still
        (1382, 1, REFUSED, (1100, 3, 4, 1383)),
        (1383, 1, PASS, (1383, 0, 1, 0)), // the block has ended: begins anew
        (1384, 1, PASS, (1383, 0, 2, 0)),
        (1385, 1, PASS, (1383, 0, 3, 0)),
        (1483, 1, PASS, (1483, 3, 1, 0)), // 1 + 3 * 100/100 = 4
        (1517, 1, PASS, (1483, 3, 2, 0)), // 2 + 3 * 66/100 = 3.98
        (1683, 1, PASS, (1683, 0, 1, 0)), // a whole window without a packet: windows begin anew
    ];
    for (time_ms, source, verdict, expected) in steps {
        assert_eq!(rig.packet(ms(time_ms), &tcp(source)), verdict, "at {time_ms}");
        assert_eq!(state(&rig, &tcp(source)), Some(expected), "at {time_ms}");
    }
    assert_eq!((rig.event("sources-blocked"), rig.event("packets-refused")), (1, 3));
    assert_eq!(rig.len(), 1); // source 2 expired
    rig.wait_until(ms(1883));
    assert!(rig.is_empty());
}

#[test]
fn with_extend_a_source_must_be_silent_for_the_whole_block() {
    let mut rig = rig("threshold_packets = 1\nwindow_ms = 100\nblock_ms = 250\nextend = true");
    let steps = [
        (0, PASS, (0, 0, 1, 0)),
        (1, REFUSED, (0, 0, 2, 251)),
        (200, REFUSED, (0, 0, 3, 450)),
        (449, REFUSED, (0, 0, 4, 699)),
        (699, PASS, (699, 0, 1, 0)),
    ];
    for (time_ms, verdict, expected) in steps {
        assert_eq!(rig.packet(ms(time_ms), &tcp(1)), verdict, "at {time_ms}");
        assert_eq!(state(&rig, &tcp(1)), Some(expected), "at {time_ms}");
    }
}

#[test]
fn allowed_sources_leave_no_trace_and_others_of_both_families_are_held() {
    let mut rig = rig("threshold_packets = 1\nallow = [\"10.0.0.8/29\", \"2001:db8::7\"]");
    for (packet, second) in [
        (tcp(8), PASS),
        (tcp(15), PASS),
        (tcp(16), REFUSED),
        (tcp_v6(7), PASS),
        (tcp_v6(8), REFUSED),
        (not_ip(), PASS),
    ] {
        assert_eq!(rig.packet(0, &packet), PASS);
        assert_eq!(rig.packet(1, &packet), second, "{packet:?}");
    }
    assert_eq!(rig.len(), 2);
}

#[test]
fn reports_who_is_blocked_most_packets_first() {
    let mut rig = rig("threshold_packets = 1\nblock_ms = 1000");
    for source in (0..30).chain(5..30).chain(8..10) {
        rig.packet(ms(5), &tcp(source));
    }
    rig.wait_until(ms(105) - 1);
    let report = &rig.report()[0];
    assert_eq!(report.title, "Sources blocked now: 25");
    assert_eq!(report.rows.len(), 20);
    assert_eq!(report.rows[0], ["10.0.0.8", "3", "901"]);
    assert_eq!(report.rows[1], ["10.0.0.9", "3", "901"]);
    assert_eq!(report.rows[2], ["10.0.0.5", "2", "901"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for option in ["threshold_packets", "window_ms", "block_ms"] {
        let error = option_error::<Ddos>(&std::format!("{option} = 0"));
        assert_eq!(error, std::format!("`{option}` must be at least 1"));
    }
    assert_eq!(
        option_error::<Ddos>("window_ms = 200\nblock_ms = 100"),
        "`block_ms` must be at least window_ms, 200"
    );
    assert!(option_error::<Ddos>("allow = [\"10.0.0.1/8\"]").contains("write \"10.0.0.0/8\""));
    assert!(toml::from_str::<Options>("when_full = \"Pass\"").is_err());
}

#[test]
fn new_sources_pass_while_the_table_is_full_unless_told_otherwise() {
    assert_eq!(verdict_when_full::<Ddos>(&function(""), &tcp(1)), PASS);
    assert_eq!(
        verdict_when_full::<Ddos>(&function("when_full = \"drop\""), &tcp(1)),
        Verdict::Drop(TABLE_FULL)
    );
}

#[test]
fn huge_options_and_times_saturate() {
    let huge = i64::MAX;
    let options =
        std::format!("threshold_packets = {huge}\nwindow_ms = {huge}\nblock_ms = {huge}\nextend = true");
    let mut patient = rig(&options);
    let mut strict = rig(&std::format!("threshold_packets = 1\nwindow_ms = {huge}\nblock_ms = {huge}"));
    for time_ns in [0, 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(patient.packet(time_ns, &tcp(1)), PASS);
        let expected = if time_ns == 1 || time_ns == u64::MAX - 1 { REFUSED } else { PASS };
        assert_eq!(strict.packet(time_ns, &tcp(1)), expected, "at {time_ns}");
    }
}

/// The guard in plain code: a log of every packet since the source was fresh.
struct Model {
    window_ns: u64,
    log: Log,
    blocked_until_ns: Option<u64>,
}

impl Model {
    fn new(window_ns: u64) -> Model {
        Model { window_ns, log: Log::new(window_ns), blocked_until_ns: None }
    }

    fn packet(&mut self, now_ns: u64, threshold: u64, block_ns: u64, extend: bool) -> Verdict {
        if self.blocked_until_ns.is_some_and(|until| until <= now_ns) {
            *self = Model::new(self.window_ns);
        }
        if let Some(until) = &mut self.blocked_until_ns {
            if extend {
                *until = now_ns + block_ns;
            }
            return REFUSED;
        }
        self.log.add(now_ns, 1);
        if self.log.estimate_by_window(now_ns) > threshold * self.window_ns {
            self.blocked_until_ns = Some(now_ns + block_ns);
            return REFUSED;
        }
        PASS
    }
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        times in arrivals(), threshold in 1_u64..20, window in 1_u64..60, longer in 0_u64..200, extend: bool,
    ) {
        let block = window + longer;
        let options = std::format!(
            "threshold_packets = {threshold}\nwindow_ms = {window}\nblock_ms = {block}\nextend = {extend}"
        );
        let mut rig = rig(&options);
        let mut model = Model::new(ms(window));
        for &time_ns in &times {
            let expected = model.packet(time_ns, threshold, ms(block), extend);
            prop_assert_eq!(rig.packet(time_ns, &tcp(1)), expected, "at {}", time_ns);
        }
        let packets: Vec<_> = times.iter().map(|&time_ns| (time_ns, tcp(1))).collect();
        let mut rig = Rig::new(function::<Ddos>(&options));
        let verdicts: Vec<_> = packets.iter().map(|(time_ns, packet)| rig.packet(*time_ns, packet)).collect();
        prop_assert_eq!(verdicts, verdicts_without_expiry(&function::<Ddos>(&options), &packets));
    }

    /// The two promises of the module's page.
    #[test]
    fn passes_at_most_twice_the_threshold_and_everything_up_to_half_of_it(
        times in arrivals(), threshold in 2_u64..20, window in 1_u64..60,
    ) {
        let options = std::format!("threshold_packets = {threshold}\nwindow_ms = {window}\nblock_ms = {window}");
        let mut held = rig(&options);
        let passed: Vec<u64> =
            times.iter().copied().filter(|&time_ns| held.packet(time_ns, &tcp(1)) == PASS).collect();
        for (i, end) in passed.iter().enumerate() {
            let within = passed[..=i].iter().filter(|t| **t + ms(window) > *end).count() as u64;
            prop_assert!(within <= 2 * threshold, "{within} packets pass before {end}");
        }
        let mut modest: Vec<u64> = Vec::new();
        for time_ns in times {
            let within = modest.iter().filter(|t| **t + ms(window) > time_ns).count() as u64;
            if within < threshold / 2 {
                modest.push(time_ns);
            }
        }
        let mut free = rig(&options);
        for time_ns in modest {
            prop_assert_eq!(free.packet(time_ns, &tcp(1)), PASS);
        }
    }
}
