//! Tests of the order in which packets leave.

use io::Fate;
use wire::{LinkType, Stamp};

use super::*;

/// Entries do not wait for each other: each has its packets in order for itself.
#[test]
fn a_packet_that_is_overtaken_in_its_entry_is_counted() {
    let mut order = Order::new(2);
    let mut out_of_order = |entry: u16, sent: u64| {
        let (stamp, link) = (Stamp::default(), LinkType::Ethernet);
        let seen =
            Seen { stamp, fate: Fate::Forward, bytes: &[], wire_len: 0, link, refused: None, entry, sent };
        order.see(&seen);
        order.out_of_order
    };
    assert_eq!([(0, 5), (1, 0), (0, 6), (1, 2)].map(|(entry, sent)| out_of_order(entry, sent)), [0; 4]);
    // Two that were overtaken by one, and then one that was by none.
    assert_eq!([(0, 3), (0, 4), (0, 7)].map(|(entry, sent)| out_of_order(entry, sent)), [1, 2, 2]);
}
