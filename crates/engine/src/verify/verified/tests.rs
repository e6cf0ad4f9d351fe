//! Tests of what a result amounts to: what holds, up to what, and what is no difference.

use super::*;
use crate::path::receive::HistoryCounters;

/// Two runs over one packet that came to the same.
fn same() -> Verified {
    Verified { packets: 1, digests: vec![("table".to_owned(), 5, 5)], stopped: false, ..Verified::stopped() }
}

fn judged() -> Judged {
    Judged { function: "nat".to_owned(), ..Judged::default() }
}

fn check(promise: Option<WhenShared>) -> SharedCheck {
    SharedCheck { function: "limiter".to_owned(), promise, behind: None, failure: None, excused: None }
}

/// One replica missed three packets, of which so many were lost to all.
fn history(lost_to_all: u64, has_recovery: bool) -> Option<HistoryCheck> {
    let cores = vec![HistoryCounters { missed: 3, ..HistoryCounters::default() }];
    let outcome = HistoryOutcome { has_recovery, lost: 3, cores, overtaken: Vec::new() };
    Some(HistoryCheck { outcome, lost_to_all })
}

#[test]
fn what_is_alike_is_equal_and_exact() {
    for verified in [
        same(),
        Verified { out_of_order: Some(0), ..same() },
        Verified { history: history(3, false), ..same() },
        Verified { history: history(0, true), ..same() },
        Verified { judged: vec![judged()], ..same() },
        // A table that was full with all else alike excuses nothing.
        Verified { filled: vec!["table".to_owned()], exhausted: vec!["nat".to_owned()], ..same() },
        Verified { is_told: true, ..same() },
    ] {
        assert_eq!(verified.agreement(), Agreement::Equal, "{verified:#?}");
        assert!(verified.is_same() && verified.is_exact() && verified.holds(), "{verified:#?}");
        assert!(verified.has_compared() && !verified.is_up_to_allocation(), "{verified:#?}");
    }
}

/// Each of them alone, whatever else is alike.
#[test]
fn each_difference_is_one() {
    let totals = Some(WhenShared::Totals);
    let wrong = Wrong { strategy: "rss", count: 1, first: "packet 1".to_owned() };
    let broken = Broken { function: "nat".to_owned(), strategy: "rss", message: "two have one".to_owned() };
    let failed = SharedCheck { failure: Some("it lost one".to_owned()), ..check(totals) };
    for verified in [
        Verified { different: 1, ..same() },
        Verified { digests: vec![("table".to_owned(), 5, 5), ("other".to_owned(), 5, 6)], ..same() },
        Verified { shared: vec![check(totals), failed], ..same() },
        Verified { broken: vec![broken], ..same() },
        Verified { judged: vec![Judged { wrong: vec![wrong], ..judged() }], ..same() },
        Verified { out_of_order: Some(1), ..same() },
        Verified { history: history(2, false), ..same() },
    ] {
        assert_eq!(verified.agreement(), Agreement::Different, "{verified:#?}");
        assert!(!verified.is_same() && !verified.is_exact() && !verified.holds(), "{verified:#?}");
    }
}

#[test]
fn what_was_not_seen_to_its_end_does_not_hold() {
    let stopped = Verified { stopped: true, ..same() };
    assert!(stopped.agreement() == Agreement::Stopped && !stopped.is_exact() && !stopped.holds());
    let cut = Verified { input_error: Some(InputError::Cores { sequenced: 2, files: 1 }), ..same() };
    assert!(cut.is_same() && !cut.holds());
    let nothing = Verified { packets: 0, ..same() };
    assert!(nothing.agreement() == Agreement::NothingCompared && !nothing.is_exact());
}

/// A function whose states cores share and that promises nothing is not compared: others have to be.
#[test]
fn what_promises_nothing_is_not_compared() {
    let nothing = || Verified { shared: vec![check(None)], digests: Vec::new(), ..same() };
    assert!(!nothing().has_compared() && !nothing().holds() && !nothing().is_exact());
    assert_eq!(nothing().agreement(), Agreement::NothingCompared);
    let beside = Verified { digests: same().digests, ..nothing() };
    let promised = Verified { shared: vec![check(None), check(Some(WhenShared::Totals))], ..nothing() };
    for verified in [beside, promised] {
        assert!(verified.has_compared() && verified.holds() && !verified.is_exact(), "{verified:#?}");
        assert_eq!(verified.agreement(), Agreement::EqualUpTo(vec![UpTo::Shared]));
    }
    assert!(Verified { digests: Vec::new(), ..same() }.has_compared(), "no function has states");
}

/// Each says what it is up to; what full tables and empty pools turn away is compared all the same.
#[test]
fn what_need_not_be_the_same_is_named() {
    let full = || vec!["table".to_owned()];
    let excused =
        SharedCheck { excused: Some("it let more pass".to_owned()), ..check(Some(WhenShared::Totals)) };
    let allocated = vec![("nat".to_owned(), Fields::SRC_PORT)];
    let cases: [(Verified, &[UpTo], bool); 9] = [
        (Verified { is_told: true, filled: full(), ..same() }, &[UpTo::FullTables], true),
        (Verified { is_told: true, exhausted: full(), ..same() }, &[UpTo::EmptyPools], true),
        (Verified { shared: vec![excused], ..same() }, &[UpTo::FullTables, UpTo::Shared], false),
        (Verified { allocated, ..same() }, &[UpTo::Allocation], false),
        (Verified { judged: vec![Judged { renamed: 1, ..judged() }], ..same() }, &[UpTo::Allocation], true),
        (Verified { judged: vec![Judged { alone: 1, ..judged() }], ..same() }, &[UpTo::Allocation], false),
        (
            Verified { judged: vec![Judged { in_flight: 1, ..judged() }], ..same() },
            &[UpTo::Allocation],
            false,
        ),
        (Verified { judged: vec![Judged { refused: 1, ..judged() }], ..same() }, &[], true),
        (
            Verified {
                is_told: true,
                filled: full(),
                exhausted: full(),
                shared: vec![check(None)],
                ..same()
            },
            &[UpTo::FullTables, UpTo::EmptyPools, UpTo::Shared],
            false,
        ),
    ];
    for (verified, up_to, is_exact) in cases {
        let expected = match up_to {
            [] => Agreement::Equal,
            _ => Agreement::EqualUpTo(up_to.to_vec()),
        };
        assert_eq!(verified.agreement(), expected, "{verified:#?}");
        assert_eq!(verified.is_exact(), is_exact, "{verified:#?}");
        assert_eq!(verified.is_up_to_allocation(), up_to.contains(&UpTo::Allocation), "{verified:#?}");
        assert!(verified.holds());
    }
}

#[test]
fn a_function_is_judged_whole_where_none_of_its_packets_is_left_out() {
    assert!(judged().is_whole() && Judged { renamed: 4, refused: 2, ..judged() }.is_whole());
    for not_whole in [
        Judged { not_judged: Some("it has no judge".to_owned()), ..judged() },
        Judged { alone: 1, ..judged() },
        Judged { touched: 1, ..judged() },
        Judged { in_flight: 1, ..judged() },
        Judged { unattributed: 1, ..judged() },
    ] {
        assert!(!not_whole.is_whole(), "{not_whole:?}");
    }
}
