//! Tests of what two judged runs make of one packet.

use super::*;

const PACKET: Named = Named { own: 3, meant: 0, bytes: 7, in_flight: false, refused: false };

fn reached() -> Reached {
    Reached { has_states_beside: false, allocations: HashSet::new() }
}

/// A tally of one packet of two runs whose answers are `is_same`, and whether the packet counts as the same.
fn tally(runs: [Named; 2], is_same: bool) -> (Tally, bool) {
    let mut tally = Tally::default();
    let same = tally.is_same(&mut reached(), runs, is_same);
    (tally, same)
}

#[test]
fn packets_of_one_life_are_compared() {
    let (same, is_same) = tally([PACKET, PACKET], true);
    assert!(is_same && !same.has_apart() && same.apart() == 0 && same.renamed == 0, "{same:?}");
    let (other, is_same) = tally([PACKET, PACKET], false);
    assert!(!is_same && other.apart() == 0, "{other:?}");
    let (renamed, is_same) = tally([PACKET, Named { bytes: 8, ..PACKET }], true);
    assert!(is_same && renamed.renamed == 1 && renamed.apart() == 0, "{renamed:?}");
    let (other_life, is_same) = tally([PACKET, Named { own: 4, ..PACKET }], true);
    assert!(!is_same && other_life.apart() == 0, "{other_life:?}");
}

#[test]
fn packets_for_another_mapping_are_judged_alone_and_counted() {
    let (alone, is_same) = tally([PACKET, Named { meant: 5, ..PACKET }], false);
    assert!(is_same && alone.has_apart(), "{alone:?}");
    assert_eq!((alone.alone, alone.in_flight, alone.sent_apart, alone.apart()), (1, 0, 1, 1));
    let (in_flight, is_same) =
        tally([Named { in_flight: true, own: 0, ..PACKET }, Named { own: 0, ..PACKET }], false);
    assert!(is_same && in_flight.has_apart(), "{in_flight:?}");
    assert_eq!((in_flight.alone, in_flight.in_flight, in_flight.sent_apart, in_flight.apart()), (0, 1, 0, 1));
}

/// Three packets: each kind adds to what is not compared, and none takes from it.
#[test]
fn counts_add_up_over_packets() {
    let mut tally = Tally::default();
    let mut reached = reached();
    let alone = [PACKET, Named { meant: 5, ..PACKET }];
    assert!(tally.is_same(&mut reached, alone, false));
    assert!(tally.is_same(&mut reached, alone, false));
    assert!(tally.is_same(&mut reached, [Named { in_flight: true, ..PACKET }, PACKET], false));
    // The mapping that sent packets apart is reached: what differs of it is excused, and counted.
    assert!(tally.is_same(&mut reached, [PACKET, PACKET], false));
    assert_eq!((tally.alone, tally.in_flight, tally.touched, tally.apart()), (2, 1, 1, 4));
    assert_eq!(tally.sent_apart, 3);
    let refused = [Named { refused: true, ..PACKET }, PACKET];
    assert!(tally.is_same(&mut reached, refused, true) && tally.is_same(&mut reached, refused, true));
    assert_eq!((tally.refused, tally.apart()), (2, 4));
}
