use etherparse::PacketBuilder;
use wire::{LinkType, Stamp};

use super::*;

const SECOND: u64 = 1_000_000_000;
const VIP: [u8; 4] = [192, 0, 2, 80];

fn syn(client: u8, dst: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([198, 51, 100, client], dst, 64);
    builder.tcp(4000, 80, 1, 9_000).syn().write(&mut bytes, &[]).expect("writing to memory");
    bytes
}

fn backend(number: u8) -> [u8; 4] {
    [10, 0, 0, number]
}

/// A judge of one run with two backends that take flows.
struct Rig(Box<dyn Judge>, u64);

impl Rig {
    fn new() -> Rig {
        let rule = |number| BackendRule {
            addr: Some(Addr::v4(backend(number))),
            port: Some(80),
            mac: None,
            weight: 1,
        };
        let service = ServiceRule {
            name: "web".into(),
            vip: Addr::v4(VIP),
            bits: 128,
            port: Some(80),
            protocol: protocol::TCP,
            backends: vec![rule(1), rule(2)],
        };
        let rules = Rules {
            services: vec![service],
            opening_ns: 60 * SECOND,
            open_ns: 900 * SECOND,
            closing_ns: 120 * SECOND,
            datagrams_ns: 300 * SECOND,
        };
        Rig(
            judge(
                rules,
                Hearing { is_divided: false, shares: 1, spreads_by_port: false, evicts: false, in_flight: 0 },
            ),
            0,
        )
    }

    /// A client's SYN goes to this backend; says what is wrong with that.
    fn sees(&mut self, time_s: u64, client: u8, to: u8) -> Option<String> {
        let (came, left) = (syn(client, VIP), syn(client, backend(to)));
        let stamp = Stamp { seq: self.1, time_ns: time_s * SECOND };
        self.1 += 1;
        let (link, wire_len) = (LinkType::Ethernet, came.len() as u32);
        let passage = Passage { stamp, link, wire_len, came: &came, left: Left::Sent(&left) };
        self.0.packet(&passage).wrong
    }

    fn ends(&mut self, rejected: u64) -> usize {
        self.0.end(&Counted { events: &[], evicted: 0, rejected }).len()
    }
}

#[test]
fn a_flow_goes_to_a_backend_that_takes_flows() {
    assert_eq!(Rig::new().sees(0, 1, 2), None);
    assert!(Rig::new().sees(0, 1, 3).is_some_and(|why| why.contains("no backend")));
}

#[test]
fn a_flow_stays_as_long_as_it_lives() {
    for (time_s, lives) in [(59, true), (60, false)] {
        let mut rig = Rig::new();
        assert_eq!((rig.sees(0, 1, 1), rig.sees(time_s, 1, 2)), (None, None));
        assert_eq!(rig.ends(0) > 0, lives, "{time_s}");
    }
    let mut rig = Rig::new();
    rig.sees(0, 1, 1);
    rig.sees(1, 1, 2);
    assert_eq!(rig.ends(1), 0, "a table that was full may have forgotten it");
}

#[test]
fn turns_are_even() {
    for (uneven, found) in [(1, 0), (3, 0), (4, 2)] {
        let mut rig = Rig::new();
        (0..uneven).for_each(|client| assert_eq!(rig.sees(0, client, 1), None));
        (100..110).for_each(|client| assert_eq!(rig.sees(0, client, 1 + client % 2), None));
        assert_eq!(rig.ends(0), found, "{uneven}");
    }
}
