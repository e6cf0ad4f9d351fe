//! Packets that were missed: what both ends agree on is taken up, what one end says is not.

use super::*;

/// Open, and 500 bytes of the client have been seen.
const OPEN: &str = "
    > S  seq=100                 : pass syn-sent
    < SA seq=300 ack=101         : pass syn-received
    > A  seq=101 ack=301         : pass established
    > PA seq=101 ack=301 len=500 : pass established
";

/// The client's next 1,400 bytes are missed. Until an end is believed, nothing fits any more.
const MISSED: &str = "
    < PA seq=301 ack=2001 len=100 : ack-out-of-window established
    > A  seq=2001 ack=401         : ack-out-of-window established
    < PA seq=401 ack=2001 len=100 : ack-out-of-window established
    > PA seq=2001 ack=501 len=100 : ack-out-of-window established
";

#[test]
fn strict_never_finds_its_footing_again() {
    let talk = Talk::new("gaps = \"strict\"").play(OPEN).play(MISSED).play(MISSED);
    assert_eq!(talk.events(), [("opened", 1), ("established", 1)]);
}

#[test]
fn both_ends_agree_on_other_numbers() {
    for options in ["gaps = \"auto\"", "gaps = \"resync\""] {
        let talk = Talk::new(options).play(OPEN).play(
            "
            < PA seq=301 ack=2001 len=100 : ack-out-of-window established
            > A  seq=2001 ack=401         : pass established
            < PA seq=401 ack=2001 len=100 : pass established
            > PA seq=2001 ack=501 len=100 : pass established
            < A  seq=501 ack=2101         : pass established 432000
            > PA seq=90000 ack=501        : seq-out-of-window established
            > FA seq=2101 ack=501         : pass fin-wait
            < FA seq=501 ack=2102         : pass last-ack
            > A  seq=2102 ack=502         : pass time-wait
            ",
        );
        let events = [("opened", 1), ("established", 1), ("closed-by-fin", 1), ("resynchronised", 1)];
        assert_eq!(talk.events(), events);
    }
}

/// More is missed than any window holds.
#[test]
fn a_long_gap() {
    Talk::new("gaps = \"resync\"").play(OPEN).play(
        "
        > PA seq=1000601 ack=301 len=500 : seq-out-of-window established
        < A  seq=301 ack=1001101         : pass established
        > PA seq=1001101 ack=301 len=500 : pass established
        < A  seq=301 ack=1001601         : pass established
        < R  seq=301                     : pass closed
        ",
    );
}

/// One end alone, however often it says so, may be forged.
#[test]
fn one_end_is_not_believed() {
    let talk = Talk::new("gaps = \"resync\"").play(OPEN).play(
        "
        > PA seq=1000601 ack=301 len=500 : seq-out-of-window established
        > PA seq=1001101 ack=301 len=500 : seq-out-of-window established
        > PA seq=1001601 ack=301 len=500 : seq-out-of-window established
        < A  seq=301 ack=601             : pass established
        > PA seq=601 ack=301 len=100     : pass established
        < A  seq=301 ack=701             : pass established
        < PA seq=5000000 ack=701 len=1   : seq-out-of-window established
        > PA seq=701 ack=301 len=100     : pass established
        ",
    );
    assert_eq!(talk.events(), [("opened", 1), ("established", 1)]);
}

/// Segments that do not agree, and resets, which have no say.
#[test]
fn what_does_not_agree_is_refused() {
    let talk = Talk::new("gaps = \"resync\"").play(OPEN).play(
        "
        > PA seq=1000601 ack=301 len=500 : seq-out-of-window established
        < A  seq=301 ack=2000000         : ack-out-of-window established
        > PA seq=3000000 ack=301 len=500 : seq-out-of-window established
        < R  seq=7000000 ack=3000500     : seq-out-of-window established
        ",
    );
    assert_eq!(talk.events(), [("opened", 1), ("established", 1)]);
}

/// A refused segment does not tell a reset where to be: it has to be where the other end expects it (RFC 5961 §3.2).
#[test]
fn a_refused_segment_does_not_help_a_reset() {
    for gaps in ["strict", "resync"] {
        Talk::new(&format!("gaps = \"{gaps}\"")).play(OPEN).play(
            "
            < A  seq=301 ack=601         : pass established
            > A  seq=601 ack=301         : pass established
            > A  seq=3000 ack=90000000   : ack-out-of-window established
            > R  seq=3000                : pass established
            > R  seq=601                 : pass closed
            ",
        );
    }
}

#[test]
fn many_packets_out_of_the_window_are_worth_a_hint() {
    let function = conntrack("");
    let hint = |packets, outside| {
        function.hint(packets, &|reason| if reason == "ack-out-of-window" { outside } else { 0 })
    };
    assert!(hint(100, 50).expect("a hint").contains("liberal"));
    assert_eq!((hint(100, 0), hint(1_000, 10), hint(5, 5)), (None, None, None));
}
