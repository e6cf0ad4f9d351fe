//! `verify` sees what a balancer that goes by turns does on many cores, whatever backends flows get there.

use engine::strategies::{AUTO, DYSSECT, RSS, RSSPP, Strategy};
use engine::{Plan, Progress, Registry, Verified, verify};
use etherparse::PacketBuilder;
use paceline_conformance::faulty_balancer::{CHANGES, DRAINED, FaultyBalancer, UNEVEN, UNTRANSLATED, WELL};
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};
use strategy::{Every, Rebalancing};

/// Connections of 60 clients, six packets each, side by side.
fn connections() -> Pcap {
    let packet = |number: u64| {
        let client = (number % 60) as u8;
        let mut tcp = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([198, 51, 100, client], [192, 0, 2, 80], 64)
            .tcp(4_000 + u16::from(client), 80, 1, 9_000);
        tcp = if number < 60 { tcp.syn() } else { tcp.ack(1) };
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, b"x").expect("writing to memory");
        Packet { time_ns: 1_000_000_000 + number * 1_000_000, bytes }
    };
    pcap::of(&(0..360).map(packet).collect::<Vec<_>>())
}

fn verified<const FAULT: u8>(strategy: &'static dyn Strategy, capture: &Pcap) -> Verified {
    let mut registry = Registry::stock();
    registry.add::<FaultyBalancer<FAULT>>();
    let toml = "[[function]]\nuse = \"load-balancer\"\nflows = 1024\npolicy = \"round-robin\"\n\
                [[function.services]]\nvip = \"192.0.2.80\"\nport = 80\nbackends = [{ address = \"10.9.0.1\" }, \
                { address = \"10.9.0.2\" }, { address = \"10.9.0.3\", state = \"drain\" }]\n";
    let chain = chain(toml, &registry);
    let plan = Plan::new(&chain, strategy, 3).expect("it runs");
    let rebalancing =
        plan.rebalancing.map(|_| Rebalancing { every: Every::Packets(37), update_latency_ns: 0 });
    let plan = Plan { rebalancing, simulation: Some(1), ..plan };
    verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs")
}

#[test]
fn a_balancer_that_goes_wrong_on_many_cores_is_found() {
    let capture = connections();
    let strategies: [&dyn Strategy; 4] = [RSS, RSSPP, DYSSECT, AUTO];
    for strategy in strategies {
        let name = strategy.name();
        let right = verified::<WELL>(strategy, &capture);
        assert!(right.holds() && right.allocated.is_empty(), "{name}: {right:#?}");
        assert!(matches!(&right.judged[..], [judged] if judged.not_judged.is_none()), "{name}: {right:#?}");
        assert!(!verified::<CHANGES>(strategy, &capture).is_same(), "{name}: a flow changes its backend");
        assert!(!verified::<DRAINED>(strategy, &capture).is_same(), "{name}: a backend that takes no flows");
        assert!(!verified::<UNTRANSLATED>(strategy, &capture).is_same(), "{name}: to the service itself");
    }
    // Where each entry has turns of its own, so few flows may all be of one backend.
    assert!(!verified::<UNEVEN>(RSS, &capture).is_same(), "turns are uneven");
}
