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
        Rig::with(Vec::new(), 0)
    }

    fn with(fixed: Vec<FixedEnd>, mss: u16) -> Rig {
        Rig::of(fixed, mss, 0)
    }

    fn of(fixed: Vec<FixedEnd>, mss: u16, ports_per_host: usize) -> Rig {
        let rules = Rules {
            inside: PrefixSet::parse("inside", &["10.0.0.0/8".into()]).expect("a prefix"),
            external: vec![EXTERNAL.0],
            ports: 6000..=6003,
            preserves: false,
            udp_ns: 300 * SECOND,
            tcp_in_use_ns: 7_440 * SECOND,
            tcp_opening_ns: 240 * SECOND,
            tcp_closing_ns: 240 * SECOND,
            icmp_ns: 60 * SECOND,
            hairpinning: true,
            drops_unmatched: true,
            drops_others: true,
            fixed,
            mss,
            ports_per_host,
            follows_fragments: false,
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

/// Port 6001 leads to a host, and another address is one host's.
fn fixed() -> Vec<FixedEnd> {
    let end =
        |(addr, port): ([u8; 4], u16)| nf::End { addr: Addr::v4(addr), port: Some((protocol::UDP, port)) };
    let whole = |addr| nf::End { addr: Addr::v4(addr), port: None };
    vec![
        FixedEnd { external: end((EXTERNAL.0, 6001)), inside: end(OTHER) },
        FixedEnd { external: whole([203, 0, 113, 9]), inside: whole([10, 0, 0, 9]) },
    ]
}

#[test]
fn what_is_fixed_is_held_to_the_options() {
    let (forward, own, host) = ((EXTERNAL.0, 6001), ([203, 0, 113, 9], 7), ([10, 0, 0, 9], 7));
    let golden = [
        (udp(PEER, forward), udp(PEER, OTHER)),
        (udp(OTHER, PEER), udp(forward, PEER)),
        (udp(PEER, own), udp(PEER, host)),
        (udp(host, PEER), udp(own, PEER)),
        (udp(host, forward), udp(own, OTHER)),
        (error(forward.0, &udp(forward, PEER)), error(OTHER.0, &udp(OTHER, PEER))),
    ];
    let strangers = [udp(PEER, INSIDE), udp((EXTERNAL.0, 6002), PEER), udp(PEER, (host.0, 8))];
    for (came, right) in &golden {
        assert_eq!(Rig::with(fixed(), 0).sees(1, came, Left::Sent(right)), None);
        let wrong = strangers.iter().chain([came]).map(|bytes| Left::Sent(bytes));
        for left in wrong.chain([Left::Dropped(NO_MAPPING), Left::Dropped(NO_PORT)]) {
            assert!(Rig::with(fixed(), 0).sees(1, came, left).is_some(), "{came:?} {left:?}");
        }
    }
    // A forward's port is handed out.
    let wrong =
        Rig::with(fixed(), 0).sees(1, &udp(([10, 0, 0, 3], 5001), PEER), Left::Sent(&udp(forward, PEER)));
    assert!(wrong.is_some_and(|why| why.contains("which always leads to 10.0.0.2:5002")));
}

#[test]
fn a_segment_size_that_is_not_lowered_is_found() {
    let syn = |(src, src_port): ([u8; 4], u16), mss: u16, flags: u8| {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, PEER.0, 64).tcp(src_port, 80, 1, 9_000);
        let mut bytes = vec![];
        let options = [etherparse::TcpOptionElement::MaximumSegmentSize(mss)];
        let builder = if flags == 2 { builder.syn() } else { builder.ack(1) };
        builder.options(&options).expect("short").write(&mut bytes, b"").expect("writing to memory");
        bytes
    };
    for (flags, came, left, is_right) in [
        (2, 1460, 1400, true),
        (2, 1460, 1460, false),
        (2, 1300, 1300, true),
        (2, 1300, 1400, false),
        (16, 1460, 1460, true),
        (16, 1460, 1400, false),
    ] {
        let (came, left) = (syn(INSIDE, came, flags), syn(EXTERNAL, left, flags));
        let said = Rig::with(Vec::new(), 1400).sees(1, &came, Left::Sent(&left));
        assert_eq!(said.is_none(), is_right, "{said:?}");
    }
}

#[test]
fn a_host_has_as_many_mappings_as_it_may_and_no_more() {
    let another = (INSIDE.0, 5002);
    let (came, sent) = (udp(another, PEER), udp((EXTERNAL.0, 6002), PEER));
    for (most, time_s, left, is_right) in [
        (1, 1, Left::Dropped(HOST_HAS_MOST), true),
        (1, 1, Left::Sent(&sent), false),
        (1, 300, Left::Sent(&sent), true),
        (1, 300, Left::Dropped(HOST_HAS_MOST), false),
        (2, 1, Left::Sent(&sent), true),
        (2, 1, Left::Dropped(HOST_HAS_MOST), false),
        (0, 1, Left::Dropped(HOST_HAS_MOST), false),
    ] {
        let said = Rig::of(Vec::new(), 0, most).sees(time_s, &came, left);
        assert_eq!(said.is_none(), is_right, "{most} {time_s} {left:?}: {said:?}");
    }
}
