//! Tests of the NAT's judge: what it passes, and what it says is wrong.

use alloc::vec;

use etherparse::{Icmpv4Type, PacketBuilder};
use wire::{LinkType, Stamp};

use super::*;

const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 1], 5000);
const OTHER: ([u8; 4], u16) = ([10, 0, 0, 2], 5002);
const EXTERNAL: ([u8; 4], u16) = ([203, 0, 113, 1], 6000);
const PEER: ([u8; 4], u16) = ([192, 0, 2, 9], 53);
const SECOND: u64 = 1_000_000_000;

fn udp((src, src_port): ([u8; 4], u16), (dst, dst_port): ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64).udp(src_port, dst_port);
    builder.write(&mut bytes, b"x").expect("writing to memory");
    bytes
}

/// A router's error to `to` about a frame.
fn error(to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let kind = Icmpv4Type::Unknown { type_u8: 3, code_u8: 4, bytes5to8: [0, 0, 5, 0] };
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([198, 51, 100, 1], to, 64).icmpv4(kind);
    builder.write(&mut bytes, &about[14..14 + 28]).expect("writing to memory");
    bytes
}

struct Rig(Box<dyn Judge>, u64);

impl Rig {
    /// A judge of a run in which one core has all ports. The inside endpoint has been shown to it.
    fn new() -> Rig {
        let rules = Rules {
            inside: PrefixSet::parse("inside", &["10.0.0.0/8".into()]).expect("a prefix"),
            external: vec![EXTERNAL.0],
            ports: 6000..=6003,
            preserves: false,
            udp_ns: 300 * SECOND,
            tcp_in_use_ns: 7_440 * SECOND,
            tcp_transitory_ns: 240 * SECOND,
            icmp_ns: 60 * SECOND,
            hairpinning: true,
            drops_unmatched: true,
            drops_others: true,
        };
        let hearing =
            Hearing { is_divided: false, shares: 1, spreads_by_port: false, evicts: false, in_flight: 0 };
        let mut rig = Rig(judge(rules, hearing), 0);
        assert_eq!(rig.sees(0, &udp(INSIDE, PEER), Left::Sent(&udp(EXTERNAL, PEER))), None);
        rig
    }

    fn sees(&mut self, time_s: u64, came: &[u8], left: Left<'_>) -> Option<String> {
        let stamp = Stamp { seq: self.1, time_ns: time_s * SECOND };
        self.1 += 1;
        let (link, wire_len) = (LinkType::Ethernet, came.len() as u32);
        self.0.packet(&Passage { stamp, link, wire_len, came, left }).wrong
    }

    fn ends(&mut self, events: [u64; 6]) -> usize {
        self.0.end(&Counted { events: &events, evicted: 0, rejected: 0 }).len()
    }
}

#[test]
fn a_quote_is_translated_with_the_error_or_it_is_found() {
    let came = error(EXTERNAL.0, &udp(EXTERNAL, PEER));
    let right = error(INSIDE.0, &udp(INSIDE, PEER));
    assert_eq!(Rig::new().sees(1, &came, Left::Sent(&right)), None);
    let halves = [udp(EXTERNAL, PEER), udp((INSIDE.0, EXTERNAL.1), PEER), udp((EXTERNAL.0, INSIDE.1), PEER)];
    for quote in halves {
        let wrong = Rig::new().sees(1, &came, Left::Sent(&error(INSIDE.0, &quote)));
        assert!(wrong.is_some_and(|why| why.contains("and not as")), "{quote:?}");
    }
    let mut sum = right;
    sum[36] ^= 1;
    assert!(Rig::new().sees(1, &came, Left::Sent(&sum)).is_some_and(|why| why.contains("checksum")));
}

#[test]
fn a_mapping_lives_to_its_deadline_and_no_longer() {
    let (came, right) = (udp(PEER, EXTERNAL), udp(PEER, INSIDE));
    for (time_s, lives) in [(299, true), (300, false)] {
        let mut rig = Rig::new();
        assert_eq!(rig.sees(time_s, &came, Left::Sent(&right)).is_none(), lives, "{time_s}");
        let mut rig = Rig::new();
        // That it is not let in counts as an eviction, of which there were none.
        assert_eq!(rig.sees(time_s, &came, Left::Dropped(NO_MAPPING)), None);
        assert_eq!(rig.ends([1, 0, 1, 0, 0, 0]) == 0, !lives, "{time_s}");
    }
}

#[test]
fn what_was_given_is_nobody_elses_and_stays() {
    let took = Left::Sent(&udp(EXTERNAL, PEER)[..]);
    let mut rig = Rig::new();
    rig.sees(1, &udp(OTHER, PEER), took);
    assert!(rig.ends([2, 0, 2, 0, 0, 0]) > 0, "another has the port");
    let mut rig = Rig::new();
    assert_eq!(rig.sees(300, &udp(OTHER, PEER), took), None);
    assert_eq!(rig.ends([2, 0, 2, 0, 0, 0]), 0, "its mapping was dead");
    let mut rig = Rig::new();
    rig.sees(1, &udp(INSIDE, PEER), Left::Sent(&udp((EXTERNAL.0, 6002), PEER)));
    assert!(rig.ends([1, 0, 2, 0, 0, 0]) > 0, "it changed");
    let outside = [udp(INSIDE, PEER), udp((EXTERNAL.0, 6004), PEER), udp(([203, 0, 113, 2], 6000), PEER)];
    for sent in outside {
        assert!(Rig::new().sees(1, &udp(OTHER, PEER), Left::Sent(&sent)).is_some(), "{sent:?}");
    }
    assert!(Rig::new().sees(1, &udp(OTHER, PEER), Left::Dropped(NO_PORT)).is_some(), "there are three more");
}

#[test]
fn what_was_counted_is_what_was_seen() {
    assert_eq!(Rig::new().ends([1, 0, 1, 0, 0, 0]), 0);
    for wrong in
        [[2, 0, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 0, 2, 0, 0, 0], [1, 0, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0]]
    {
        assert_eq!(Rig::new().ends(wrong), 1, "{wrong:?}");
    }
}
