//! Tests of what is promised where answers need not be the same.

use super::*;
use crate::strategies::{RSS, SCR, SHARED};
use crate::verify::samples::{DDOS, NAT, STATISTICS, chain, plan};

/// What a function takes from a pool is left out where cores have shares of it, unless a judge knows what it stands for.
#[test]
fn what_is_allocated_is_left_out_where_cores_allocate_otherwise() {
    let chain = chain(&[STATISTICS, NAT]);
    let fields = chain.functions[1].function.allocates();
    assert!(!fields.is_empty());
    let named = vec![("nat".to_owned(), fields)];
    let rss = plan(&chain, RSS, 2);
    assert_eq!((allocated(&chain, &rss, None), allocated(&chain, &rss, Some(0))), (named.clone(), named));
    assert_eq!(
        (may_differ(&chain, &rss, None), may_differ(&chain, &rss, Some(1))),
        (fields, Fields::empty())
    );
    assert!(allocated(&chain, &rss, Some(1)).is_empty());
    assert!(allocation_events(&chain, &rss, 0).is_empty());
    let [lost] = allocation_events(&chain, &rss, 1) else { panic!("a NAT names one event") };
    assert_eq!(chain.functions[1].function.info().about.events[*lost], "parity-lost");
    // Each replica, and one core, gives out what one core does.
    for alike in [plan(&chain, SCR, 2), plan(&chain, SINGLE, 1)] {
        assert!(!allocates_otherwise(&alike) && allocated(&chain, &alike, None).is_empty());
        assert!(
            allocation_events(&chain, &alike, 1).is_empty() && may_differ(&chain, &alike, None).is_empty()
        );
    }
}

/// Edits that are not promised blind what comes behind them; a function that edits nothing blinds none.
#[test]
fn edits_that_are_not_promised_blind_what_comes_behind() {
    let blinding = chain(&[NAT, STATISTICS]);
    let shared = plan(&blinding, SHARED, 2);
    assert_eq!((blinded_by(&blinding, &shared, 0), blinded_by(&blinding, &shared, 1)), (None, Some(0)));
    assert_eq!(followed(&blinding, &shared), [0, 1]);
    let seeing = chain(&[DDOS, STATISTICS]);
    let shared = plan(&seeing, SHARED, 2);
    assert_eq!((blinded_by(&seeing, &shared, 0), blinded_by(&seeing, &shared, 1)), (None, None));
    assert_eq!(followed(&seeing, &shared), [0, 1]);
    // Each core has states of its own, so that nothing has to be followed.
    assert!(followed(&seeing, &plan(&seeing, SCR, 2)).is_empty());
}
