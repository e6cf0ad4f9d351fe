//! Tests of what a full table or an empty pool may explain.

use super::*;
use crate::strategies::{RSS, SCR};
use crate::verify::samples::{POLICER, chain, plan};
use crate::verify::verified::Broken;

#[test]
fn full_tables_and_empty_pools_alone_explain_and_not_everything() {
    let chain = chain(&[POLICER]);
    let (rss, scr) = (plan(&chain, RSS, 2), plan(&chain, SCR, 2));
    let named = || vec!["policer".to_owned()];
    let different = || Verified { different: 1, stopped: false, ..Verified::stopped() };
    let filled = || Verified { filled: named(), ..different() };
    let broken = Broken { function: "nat".to_owned(), strategy: "rss", message: "two have one".to_owned() };

    assert!(may_explain(&filled(), &rss));
    assert!(may_explain(&Verified { exhausted: named(), ..different() }, &rss));
    assert!(may_explain(&Verified { out_of_order: Some(0), ..filled() }, &rss));
    assert!(!may_explain(&different(), &rss), "there was room for all");
    assert!(!may_explain(&Verified { out_of_order: Some(1), ..filled() }, &rss));
    assert!(!may_explain(&Verified { broken: vec![broken], ..filled() }, &rss));
    assert!(!may_explain(&Verified { stopped: true, ..filled() }, &rss));
    assert!(!may_explain(&Verified { different: 0, ..filled() }, &rss), "nothing is to be explained");
    assert!(!may_explain(&filled(), &scr), "replicas have no choice");
}
