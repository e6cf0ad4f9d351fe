//! Tests of the connection tracker's options.

use nf::{Cx, OptionError};
use wire::{Edits, Stamp};

use super::*;

const STRANGE: &str = "
    > PA seq=50000 ack=301 len=100 : pass established
    < A  seq=301 ack=9000          : pass established
";

#[test]
fn what_is_out_of_the_window_may_pass_and_be_counted() {
    let open = "
        > S  seq=100         : pass syn-sent
        < SA seq=300 ack=101 : pass syn-received
        > A  seq=101 ack=301 : pass established
    ";
    let talk = Talk::new("out_of_window = \"pass\"")
        .play(open)
        .play(STRANGE)
        .play("> S seq=50000 win=1 : pass established")
        .play("> SF seq=1 : invalid-flags established");
    assert_eq!(talk.rig.event("passed-out-of-window"), 2);

    let talk = Talk::new("invalid = \"pass\"").play(open).play(
        "
        > SF seq=1            : pass established
        < S  seq=1            : pass established
        > A  seq=101 ack=9000 : ack-out-of-window established
        ",
    );
    assert_eq!(talk.rig.event("passed-invalid"), 2);
}

#[test]
fn invalid_packets_that_pass_begin_no_connection() {
    let talk = Talk::new("invalid = \"pass\"\npick_up = false").play(
        "
        > A  seq=1 ack=1 : pass -
        > FA seq=1 ack=1 : pass -
        ",
    );
    assert_eq!(talk.events(), [("passed-invalid", 2)]);
}

#[test]
fn a_liberal_tracker_checks_resets_only() {
    Talk::new("liberal = true")
        .play(
            "
            > S  seq=100         : pass syn-sent
            < SA seq=300 ack=101 : pass syn-received
            > A  seq=101 ack=301 : pass established
            < A  seq=301 ack=101 : pass established
            ",
        )
        .play(STRANGE)
        .play("> R seq=100 : invalid-reset established");
}

#[test]
fn a_full_table_drops_what_is_new_unless_told_otherwise() {
    let verdict = |options: &str| {
        let function = conntrack(options);
        let meta = Conntrack::project(&tcp(CLIENT, SERVER, tcp_flags::SYN)).expect("TCP");
        let (mut edits, mut pool, mut events) = (Edits::NONE, (), [0; Conntrack::ABOUT.events.len()]);
        let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
        let mut flow = None;
        assert_eq!(function.step(&mut flow, &meta, &mut cx), Verdict::Forward);
        function.rejected(&flow.expect("a connection"), &meta, &mut cx)
    };
    assert_eq!(verdict(""), Verdict::Drop(reason::TABLE_FULL));
    assert_eq!(verdict("when_full = \"pass\""), Verdict::Forward);
}

#[test]
fn every_time_out_is_taken_from_its_option() {
    let talk = Talk::new(
        "tcp_timeout_syn_sent = 1\ntcp_timeout_syn_recv = 2\ntcp_timeout_established = 300\n\
         tcp_timeout_fin_wait = 4\ntcp_timeout_close_wait = 5\ntcp_timeout_last_ack = 6\n\
         tcp_timeout_time_wait = 7\ntcp_timeout_close = 8\ntcp_timeout_max_retrans = 9\n\
         tcp_timeout_unacknowledged = 10",
    );
    talk.play(
        "
        > S  seq=100               : pass syn-sent 1
        < SA seq=300 ack=101       : pass syn-received 2
        > A  seq=101 ack=301       : pass established 300
        > A  seq=101 ack=301 win=0 : pass established 9
        > PA seq=101 ack=301 len=1 : pass established 10
        < A  seq=301 ack=102       : pass established 300
        > FA seq=102 ack=301       : pass fin-wait 4
        < A  seq=301 ack=103       : pass close-wait 5
        < FA seq=301 ack=103       : pass last-ack 6
        > A  seq=103 ack=302       : pass time-wait 7
        < R  seq=302               : pass closed 8
        ",
    );
}

#[test]
fn time_outs_that_make_no_sense_are_refused() {
    let names =
        Conntrack::ABOUT.options.iter().map(|option| option.name).filter(|name| name.contains("timeout"));
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), 17);
    for name in names {
        for (seconds, is_valid) in [(0, false), (1, true), (2_147_483, true), (2_147_484, false)] {
            let options = toml::from_str(&format!("{name} = {seconds}")).expect("options that parse");
            match Conntrack::new(options) {
                Ok(_) => assert!(is_valid, "{name} = {seconds}"),
                Err(OptionError { option, message }) => {
                    assert!(!is_valid && option == name, "{name} = {seconds}: `{option}` {message}");
                    assert_eq!(message, "must be 1 to 2147483 seconds");
                }
            }
        }
    }
}

#[test]
fn documented_options_are_those_there_are() {
    let text: String =
        Conntrack::ABOUT.options.iter().map(|o| format!("{} = {}\n", o.name, o.default)).collect();
    assert_eq!(toml::from_str::<Options>(&text).expect("options that parse"), Options::default());
    assert!(toml::from_str::<Options>("no_such_option = 1").is_err());
}
