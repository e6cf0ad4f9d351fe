//! Tests of how a packet is named for its judge.

use super::*;
use crate::strategies::RSS;
use crate::verify::samples::{NAT, STATISTICS, chain, plan};

/// What becomes of packets for which the pool of the judged function has nothing: the function, and its reason.
fn empty(functions: &[&str]) -> Option<(u8, &'static str)> {
    let chain = chain(functions);
    let docket = Docket::of(&chain, &plan(&chain, RSS, 2), false);
    let open = || CaptureReader::from_bytes(Vec::new());
    let (mask, asking, progress) = (Fields::empty(), None, &Progress::default());
    match (Comparing { chain: &chain, docket: &docket, mask, open: &open, asking, progress }).empty()? {
        Fate::DropBy { function, reason } => {
            let about = chain.functions[usize::from(function)].function.info().about;
            Some((function, about.drop_reasons[usize::from(reason)]))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_pool_is_that_of_the_judged_function() {
    assert_eq!(empty(&[STATISTICS, NAT]), Some((1, "no-port")));
    assert_eq!(empty(&[STATISTICS]), None, "nothing is judged");
}
