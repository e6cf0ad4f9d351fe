//! The client's first sequence number is 100, the server's 300.

use super::*;

const OPEN: &str = "
    > S  seq=100         : pass syn-sent 120
    < SA seq=300 ack=101 : pass syn-received 60
    > A  seq=101 ack=301 : pass established 432000
";

/// With both windows scaled by 128: 100 in a header is 12,800 bytes.
const OPEN_SCALED: &str = "
    > S  seq=100 win=8192 scale=7         : pass syn-sent
    < SA seq=300 ack=101 win=8192 scale=7 : pass syn-received
    > A  seq=101 ack=301 win=100          : pass established
";

fn opened() -> Talk {
    Talk::new("").play(OPEN)
}

#[test]
fn the_client_closes_first() {
    let talk = opened().play(
        "
        > PA seq=101 ack=301 len=500  : pass established 300
        < A  seq=301 ack=601          : pass established 432000
        < PA seq=301 ack=601 len=1400 : pass established 300
        > A  seq=601 ack=1701         : pass established 432000
        > FA seq=601 ack=1701         : pass fin-wait 120
        < A  seq=1701 ack=602         : pass close-wait 60
        < PA seq=1701 ack=602 len=100 : pass close-wait 60
        > A  seq=602 ack=1801         : pass close-wait 60
        < FA seq=1801 ack=602         : pass last-ack 30
        > A  seq=602 ack=1802         : pass time-wait 120
        wait 119.9
        < FA seq=1801 ack=602         : pass time-wait 120
        > A  seq=602 ack=1802         : pass time-wait 120
        wait 120
        > A  seq=602 ack=1802         : pass established 300
        ",
    );
    let events = [("opened", 1), ("picked-up", 1), ("established", 1), ("closed-by-fin", 1)];
    assert_eq!(talk.events(), events);
}

#[test]
fn the_server_closes_first() {
    opened().play(
        "
        < PA seq=301 ack=101 len=100 : pass established
        < FA seq=401 ack=101         : pass fin-wait
        > A  seq=101 ack=402         : pass close-wait
        > FA seq=101 ack=402         : pass last-ack
        < A  seq=402 ack=102         : pass time-wait
        ",
    );
}

#[test]
fn both_close_at_once() {
    opened().play(
        "
        > FA seq=101 ack=301 : pass fin-wait
        < FA seq=301 ack=101 : pass last-ack
        > A  seq=102 ack=302 : pass time-wait
        < A  seq=302 ack=102 : pass time-wait
        ",
    );
}

#[test]
fn both_open_at_once() {
    // RFC 9293 §3.5, figure 7.
    Talk::new("").play(
        "
        > S  seq=100         : pass syn-sent
        < S  seq=300         : pass syn-sent-2 120
        > SA seq=100 ack=301 : pass syn-received 60
        < SA seq=300 ack=101 : pass syn-received
        < A  seq=301 ack=101 : pass established
        ",
    );
}

#[test]
fn a_refused_connection_is_forgotten_at_once() {
    let talk = Talk::new("").play(
        "
        > S  seq=100      : pass syn-sent
        < RA seq=0 ack=101 : pass -
        ",
    );
    assert_eq!(talk.events(), [("opened", 1), ("closed-by-reset", 1)]);
}

#[test]
fn a_refusal_must_acknowledge_the_syn() {
    Talk::new("").play(
        "
        > S  seq=100       : pass syn-sent
        < RA seq=0 ack=500 : ack-out-of-window syn-sent
        < RA seq=0 ack=101 : pass -
        ",
    );
}

#[test]
fn a_reset_closes() {
    let talk = opened().play(
        "
        > PA seq=101 ack=301 len=10 : pass established
        < A  seq=301 ack=111        : pass established
        > R  seq=111                : pass closed 10
        < A  seq=301 ack=111        : pass closed
        wait 10
        ",
    );
    assert!(talk.rig.is_empty());
    assert_eq!(talk.events(), [("opened", 1), ("established", 1), ("closed-by-reset", 1)]);
}

#[test]
fn a_forged_reset_does_not_close() {
    // RFC 5961 §3.2: before the window, drop; within it but not exact, let the ends decide.
    opened().play(
        "
        < A  seq=301 ack=101   : pass established 432000
        > A  seq=101 ack=301   : pass established 432000
        > R  seq=100           : invalid-reset established 432000
        > R  seq=4000000000    : invalid-reset established 432000
        > R  seq=20000         : seq-out-of-window established 432000
        > R  seq=5000          : pass established 10
        < A  seq=301 ack=101   : pass established 300
        > R  seq=101           : pass closed 10
        ",
    );
}

#[test]
fn a_reset_may_follow_data_on_its_way() {
    opened().play(
        "
        < A  seq=301 ack=101        : pass established
        > PA seq=101 ack=301 len=10 : pass established
        > R  seq=111                : pass closed
        ",
    );
}

#[test]
fn syn_is_sent_again_and_does_not_live_for_ever() {
    Talk::new("").play(
        "
        > S  seq=100         : pass syn-sent 120
        wait 60
        > S  seq=100         : pass syn-sent 60
        wait 30
        > S  seq=100         : pass syn-sent 30
        < SA seq=300 ack=101 : pass syn-received 60
        wait 5
        < SA seq=300 ack=101 : pass syn-received 55
        > A  seq=101 ack=301 : pass established
        ",
    );
}

#[test]
fn a_half_open_connection_is_forgotten() {
    Talk::new("").play(
        "
        > S  seq=100         : pass syn-sent 120
        wait 120
        < SA seq=300 ack=101 : no-connection -
        > S  seq=100         : pass syn-sent 120
        < SA seq=300 ack=101 : pass syn-received 60
        wait 59.9
        > A  seq=101 ack=301 : pass established
        ",
    );
}

#[test]
fn a_syn_with_other_numbers_replaces_the_first() {
    Talk::new("").play(
        "
        > S  seq=100          : pass syn-sent
        > S  seq=5000         : pass syn-sent
        < SA seq=300 ack=5001 : pass syn-received
        > A  seq=5001 ack=301 : pass established
        ",
    );
}

#[test]
fn the_ports_are_used_again() {
    let talk = opened().play(
        "
        > FA seq=101 ack=301    : pass fin-wait
        < FA seq=301 ack=102    : pass last-ack
        > A  seq=102 ack=302    : pass time-wait
        wait 1
        > S  seq=70000          : pass syn-sent 120
        < SA seq=9000 ack=70001 : pass syn-received
        > A  seq=70001 ack=9001 : pass established
        ",
    );
    assert_eq!(talk.events(), [("opened", 2), ("reopened", 1), ("established", 2), ("closed-by-fin", 1)]);
}

#[test]
fn the_server_may_open_what_the_client_had_opened() {
    opened().play(
        "
        > FA seq=101 ack=301    : pass fin-wait
        < FA seq=301 ack=102    : pass last-ack
        > A  seq=102 ack=302    : pass time-wait
        < S  seq=70000          : pass syn-sent
        < A  seq=70001 ack=1    : invalid-transition syn-sent
        > SA seq=9000 ack=70001 : pass syn-received
        < A  seq=70001 ack=9001 : pass established
        ",
    );
}

#[test]
fn only_the_end_that_reset_opens_again() {
    opened().play(
        "
        < A  seq=301 ack=101    : pass established
        < R  seq=301            : pass closed 10
        > S  seq=70000          : pass closed 10
        < SA seq=9000 ack=70001 : pass syn-received
        > A  seq=70001 ack=9001 : pass established
        ",
    );
    opened().play(
        "
        < A  seq=301 ack=101    : pass established
        > R  seq=101            : pass closed
        > S  seq=70000          : pass syn-sent
        ",
    );
}

#[test]
fn a_forged_syn_changes_nothing() {
    // RFC 5961 §4.2: the server answers with an ACK of what it holds.
    let talk = opened().play(
        "
        > S  seq=77777       : pass established 432000
        < A  seq=301 ack=101 : pass established 432000
        > PA seq=101 ack=301 len=5 : pass established
        < S  seq=77777       : invalid-transition established
        ",
    );
    assert_eq!(talk.events(), [("opened", 1), ("established", 1), ("ignored", 1)]);
}

#[test]
fn a_client_that_lost_its_state_resets_and_opens() {
    opened().play(
        "
        < A  seq=301 ack=101   : pass established
        > S  seq=77777         : pass established
        < A  seq=301 ack=101   : pass established
        > R  seq=101           : pass closed
        > S  seq=77777         : pass syn-sent
        < SA seq=900 ack=77778 : pass syn-received
        ",
    );
}

#[test]
fn a_syn_that_was_ignored_and_answered_is_a_connection() {
    opened().play(
        "
        > S  seq=77777 scale=3         : pass established 432000
        < SA seq=900 ack=77778 scale=3 : pass syn-received 60
        > A  seq=77778 ack=901         : pass established 432000
        < PA seq=901 ack=77778 len=60000 : pass established
        < PA seq=140000 ack=77778      : seq-out-of-window established
        ",
    );
}

#[test]
fn the_answer_to_a_forged_syn_does_not_end_last_ack() {
    opened().play(
        "
        < FA seq=301 ack=101 : pass fin-wait
        > A  seq=101 ack=302 : pass close-wait
        > FA seq=101 ack=302 : pass last-ack
        > S  seq=5000        : pass last-ack
        < A  seq=302 ack=101 : pass last-ack
        < A  seq=302 ack=102 : pass time-wait
        ",
    );
}

#[test]
fn a_connection_is_picked_up_in_its_middle() {
    let talk = Talk::new("").play(
        "
        > PA seq=5000 ack=900 len=100           : pass established 300
        < PA seq=900 ack=5100 len=60000 win=1   : pass established 300
        > A  seq=5100 ack=60900                 : pass established 432000
        < PA seq=60900 ack=5100 len=60000 win=1 : pass established 300
        > A  seq=5100 ack=120900                : pass established 432000
        ",
    );
    assert_eq!(talk.events(), [("picked-up", 1)]);
}

#[test]
fn nothing_but_an_ack_is_picked_up() {
    Talk::new("").play(
        "
        > FA seq=100 ack=300 : no-connection -
        > SA seq=100 ack=300 : no-connection -
        > RA seq=100 ack=300 : no-connection -
        < R  seq=100         : no-connection -
        ",
    );
}

#[test]
fn without_pick_up_there_must_be_a_handshake() {
    Talk::new("pick_up = false").play("> PA seq=5000 ack=900 len=100 : no-connection -").play(OPEN);
}

#[test]
fn scaled_windows_let_more_through() {
    Talk::new("").play(OPEN_SCALED).play(
        "
        < A  seq=301 ack=101 win=100             : pass established
        < PA seq=301 ack=101 win=100 len=10000   : pass established
        < PA seq=10301 ack=101 win=100 len=2800  : pass established
        < PA seq=40000 ack=101 win=100 len=2800  : seq-out-of-window established
        ",
    );
}

#[test]
fn windows_are_scaled_only_if_both_said_so() {
    Talk::new("").play(
        "
        > S  seq=100 win=100 scale=7           : pass syn-sent
        < SA seq=300 ack=101                   : pass syn-received
        > A  seq=101 ack=301 win=100           : pass established
        < A  seq=301 ack=101                   : pass established
        < PA seq=301 ack=101 len=100           : pass established
        < PA seq=5000 ack=101 len=100          : seq-out-of-window established
        ",
    );
}

#[test]
fn a_little_more_than_the_window_passes() {
    // Some senders run over; the receiver decides, and what it takes must be known then.
    let talk = Talk::new("").play(
        "
        > S  seq=100 win=1000        : pass syn-sent
        < SA seq=300 ack=101         : pass syn-received
        > A  seq=101 ack=301 win=1000 : pass established
        < PA seq=301 ack=101 len=1000 : pass established
        < PA seq=1302 ack=101 len=500 : pass established
        > A  seq=101 ack=1802 win=1000 : pass established
        ",
    );
    assert_eq!(talk.rig.event("ignored"), 1);
}

#[test]
fn a_closed_window_lets_probes_through() {
    // RFC 9293 §3.8.6.1.
    opened().play(
        "
        < PA seq=301 ack=101 len=8000 : pass established 300
        > A  seq=101 ack=8301 win=0   : pass established 300
        < PA seq=8301 ack=101 len=1   : pass established 300
        > A  seq=101 ack=8301 win=0   : pass established 300
        < PA seq=8301 ack=101 len=1   : pass established 300
        > A  seq=101 ack=8302 win=4000 : pass established 432000
        < PA seq=8302 ack=101 len=4000 : pass established 300
        ",
    );
}

#[test]
fn data_far_out_of_the_window_is_dropped() {
    let talk = opened().play(
        "
        < A  seq=301 ack=101             : pass established 432000
        wait 100
        > PA seq=50000 ack=301 len=100   : seq-out-of-window established 431900
        > PA seq=3000000000 ack=301 len=100 : pass established 431900
        < PA seq=301 ack=9000 len=100    : ack-out-of-window established 431900
        > A  seq=101 ack=301             : pass established 432000
        ",
    );
    // Data from long ago is late, not forged.
    assert_eq!(talk.rig.event("ignored"), 1);
}

#[test]
fn old_acknowledgments_pass_and_do_nothing() {
    Talk::new("").play(OPEN_SCALED).play(
        "
        < A  seq=301 ack=101 win=1000            : pass established
        > PA seq=101 ack=301 win=100 len=60000   : pass established
        > PA seq=60101 ack=301 win=100 len=60000 : pass established 300
        wait 10
        < A  seq=301 ack=101 win=100             : pass established 300
        < A  seq=301 ack=120101 win=100          : pass established 432000
        wait 10
        < A  seq=301 ack=101 win=100             : pass established 432000
        ",
    );
    Talk::new("").play(OPEN).play(
        "
        > PA seq=101 ack=301 len=8000 : pass established 300
        < A  seq=301 ack=8101         : pass established 432000
        wait 10
        < A  seq=301 ack=4294900101   : pass established 431990
        ",
    );
}

#[test]
fn selective_acknowledgments_reach_no_further_than_the_data() {
    Talk::new("").play(
        "
        > S  seq=100 sackok            : pass syn-sent
        < SA seq=300 ack=101 sackok    : pass syn-received
        > A  seq=101 ack=301           : pass established
        > PA seq=101 ack=301 len=100   : pass established
        > PA seq=301 ack=301 len=100   : pass established
        < A  seq=301 ack=201 sack=401  : pass established
        < A  seq=301 ack=201 sack=402  : ack-out-of-window established
        ",
    );
}

#[test]
fn selective_acknowledgments_count_only_if_permitted() {
    opened().play(
        "
        > PA seq=101 ack=301 len=100     : pass established
        < A  seq=301 ack=101 sack=999999 : pass established
        ",
    );
}

#[test]
fn sequence_numbers_wrap_around() {
    Talk::new("").play(
        "
        > S  seq=4294967000                       : pass syn-sent
        < SA seq=4294967295 ack=4294967001        : pass syn-received
        > A  seq=4294967001 ack=0                 : pass established 432000
        > PA seq=4294967001 ack=0 len=1000        : pass established 300
        < A  seq=0 ack=705                        : pass established 432000
        > PA seq=705 ack=0 len=100                : pass established 300
        > PA seq=4294967001 ack=0 len=1000        : pass established 300
        > PA seq=20000 ack=0 len=100              : seq-out-of-window established
        < A  seq=0 ack=806                        : ack-out-of-window established
        > FA seq=805 ack=0                        : pass fin-wait
        < FA seq=0 ack=806                        : pass last-ack
        > A  seq=806 ack=1                        : pass time-wait
        ",
    );
}

#[test]
fn keep_alives_pass() {
    // RFC 9293 §3.8.4: one before the next sequence number, with or without a byte.
    opened().play(
        "
        < A  seq=301 ack=101       : pass established
        wait 7200
        > A  seq=100 ack=301       : pass established 432000
        < A  seq=301 ack=101       : pass established 432000
        wait 7200
        > A  seq=100 ack=301 len=1 : pass established 432000
        < A  seq=301 ack=101       : pass established 432000
        ",
    );
}

#[test]
fn a_picked_up_keep_alive_is_answered() {
    Talk::new("").play(
        "
        > A  seq=100 ack=301 : pass established 300
        < A  seq=301 ack=101 : pass established 300
        > A  seq=101 ack=301 : pass established 432000
        ",
    );
}

#[test]
fn a_stuck_connection_is_forgotten_sooner() {
    let talk = opened().play(
        "
        < A  seq=301 ack=101 : pass established 432000
        < A  seq=301 ack=101 : pass established 432000
        < A  seq=301 ack=101 : pass established 432000
        < A  seq=301 ack=101 : pass established 300
        < A  seq=301 ack=101 win=9000 : pass established 432000
        > PA seq=101 ack=301 len=10 : pass established 300
        wait 299.9
        > PA seq=101 ack=301 len=10 : pass established 300
        wait 300
        ",
    );
    assert!(talk.rig.is_empty());
}

#[test]
fn refused_and_ignored_packets_do_not_keep_a_connection_alive() {
    let talk = opened().play(
        "
        > FA seq=101 ack=301     : pass fin-wait 120
        wait 60
        > PA seq=60000 ack=301 len=5 : seq-out-of-window fin-wait 60
        > SFA seq=101 ack=301    : invalid-flags fin-wait 60
        < S  seq=1               : invalid-transition fin-wait 60
        > S  seq=60000           : pass fin-wait 60
        wait 59.9999
        > S  seq=60000           : pass fin-wait 0
        wait 0.001
        ",
    );
    assert!(talk.rig.is_empty());
}

#[test]
fn refused_ends_of_both_sides_shorten_the_time_out() {
    opened().play(
        "
        < A  seq=301 ack=101   : pass established 432000
        > FA seq=50000 ack=301 : seq-out-of-window established 432000
        < FA seq=50000 ack=101 : seq-out-of-window established 300
        < FA seq=50000 ack=101 : seq-out-of-window established 300
        wait 200
        > FA seq=50000 ack=301 : seq-out-of-window established 100
        ",
    );
}

#[test]
fn flags_that_no_tcp_sends_are_refused() {
    let refused =
        ["-", "F", "P", "U", "SF", "SR", "SFA", "SRA", "RF", "RFA", "SAU", "RAU", "FPU", "FSRPAU", "EC"];
    for flags in refused {
        Talk::new("").play(&format!("> {flags} seq=100 : invalid-flags -"));
    }
    for flags in ["S", "SP", "SU", "SEC", "A", "AU", "PA", "AE"] {
        let talk = Talk::new("").play("");
        let headers = talk.headers(&format!("> {flags} seq=100"));
        let mut rig = talk.rig;
        assert_eq!(rig.packet(0, &headers), Verdict::Forward, "{flags}");
    }
}

#[test]
fn ipv6_is_no_different() {
    let addr = |last| Addr([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    // The client's address is the greater one here, so it is the key's high end.
    Talk::new("").between((addr(9), 4000), (addr(1), 80)).play(OPEN).play(
        "
        > PA seq=101 ack=301 len=500 : pass established 300
        < A  seq=301 ack=601         : pass established 432000
        < A  seq=301 ack=602         : ack-out-of-window established
        > R  seq=601                 : pass closed 10
        ",
    );
}

#[test]
fn connections_do_not_mix() {
    let other = (CLIENT.0, CLIENT.1 + 1);
    let talk = opened().between(other, SERVER).play("< SA seq=300 ack=101 : no-connection -").play(OPEN);
    assert_eq!(talk.rig.len(), 2);
}

#[test]
fn a_first_fragment_may_be_of_any_length() {
    opened().play(
        "
        < A  seq=301 ack=101              : pass established
        > PA seq=101 ack=301 len=500 frag : pass established 300
        < A  seq=301 ack=5101             : pass established
        < A  seq=301 ack=8293             : pass established 432000
        < A  seq=301 ack=8294             : ack-out-of-window established
        > PA seq=5101 ack=301 len=5       : pass established
        ",
    );
}

#[test]
fn what_is_of_no_connection_passes_and_leaves_no_trace() {
    let mut rig = Rig::new(conntrack("pick_up = false"));
    let ack = tcp(CLIENT, SERVER, tcp_flags::ACK);
    let icmp = Headers { protocol: protocol::ICMP, seq: 9 << 24, tcp_shape: 2 << 4, ..ack };
    let later_fragment = Headers { marks: Marks::IPV4 | Marks::LATER_FRAGMENT, ..ack };
    for headers in [icmp, later_fragment, Headers::default()] {
        assert_eq!(rig.packet(0, &headers), Verdict::Forward);
    }
    assert_eq!(rig.packet(0, &ack), Verdict::Drop(reason::NO_CONNECTION));
    assert!(rig.is_empty());
}

#[test]
fn the_report_counts_states() {
    let talk = opened()
        .between((CLIENT.0, 1), SERVER)
        .play("> S seq=1 : pass syn-sent")
        .between((CLIENT.0, 2), SERVER)
        .play("> S seq=1 : pass syn-sent");
    let [report] = &talk.rig.report()[..] else { panic!("one table") };
    assert_eq!(report.title, "TCP connections now: 3, 2 half-open");
    let counts: Vec<(&str, &str)> =
        report.rows.iter().map(|row| (row[0].as_str(), row[1].as_str())).filter(|row| row.1 != "0").collect();
    assert_eq!(counts, [("syn-sent", "2"), ("established", "1")]);
}

/// A SYN with an option of the wrong length before its window scale, and all that follows from it: the
/// server's data fits the scaled window.
#[test]
fn a_window_scale_behind_an_option_of_the_wrong_length_counts() {
    let frame = |from_client: bool, seq: u32, ack: u32, flags: u8, options: &[u8], payload: usize| {
        let len = 40 + options.len() + payload;
        let (src, dst) =
            if from_client { ([10, 0, 0, 1], [192, 0, 2, 1]) } else { ([192, 0, 2, 1], [10, 0, 0, 1]) };
        let ports = if from_client { [4000_u16, 80] } else { [80, 4000] };
        let mut frame = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, protocol::TCP, 0, 0];
        frame.extend(src.iter().chain(&dst));
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([seq, ack].iter().flat_map(|number| number.to_be_bytes()));
        frame.extend([(20 + options.len() as u8) << 2, flags, 1, 0, 0, 0, 0, 0]); // a window of 256
        frame.extend(options);
        frame.resize(len, 0);
        frame
    };
    const SYN: u8 = tcp_flags::SYN;
    const ACK: u8 = tcp_flags::ACK;
    for wrong in [&[3, 2][..], &[4, 3, 0], &[5, 6, 0, 0, 0, 0]] {
        let mut options = wrong.to_vec();
        options.extend([3, 3, 7]);
        options.resize(options.len().next_multiple_of(4), 0);
        let mut rig = Rig::new(conntrack(""));
        for (from_client, seq, ack, flags, options, payload) in [
            (true, 100, 0, SYN, &options[..], 0),
            (false, 300, 101, SYN | ACK, &options[..], 0),
            (true, 101, 301, ACK, &[], 0),
            (false, 301, 101, ACK, &[], 1_400),
            (false, 1_701, 101, ACK, &[], 1_400),
            (false, 3_101, 101, ACK, &[], 1_400),
        ] {
            let frame = frame(from_client, seq, ack, flags, options, payload);
            let headers = wire::parse(wire::LinkType::RawIp, &frame, frame.len() as u32);
            assert!(headers.is_well_formed(), "{headers:?}");
            assert_eq!(rig.packet(0, &headers), Verdict::Forward, "{wrong:?}: {seq}");
        }
    }
}
