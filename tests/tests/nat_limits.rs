//! A limit of mappings for each inside host: exact where one core or every replica counts, refused where hosts are spread.

use engine::strategies::{ALL, DYSSECT, HYBRID, RSS, RSSPP, SHARED};
use engine::{Chain, Plan, Progress, verify};
use etherparse::PacketBuilder;
use paceline_conformance::draw::Draw;
use paceline_conformance::pcap::{self, Pcap};
use paceline_conformance::{Packet, chain};

const PEER: ([u8; 4], u16) = ([192, 0, 2, 9], 53);
const SECOND: u64 = 1_000_000_000;

fn limited(flows: usize) -> Chain {
    let toml = format!(
        "[[function]]\nuse = \"nat\"\nflows = {flows}\ntable_full = \"reject\"\ninside = [\"10.0.0.0/24\"]\n\
         external = [\"203.0.113.1\"]\nports = [2000, 2999]\nports_per_host = 4\n"
    );
    chain(&toml, &stock::registry()).with_seed(7)
}

/// Eight hosts with up to twelve endpoints each; at times all mappings have died.
fn traffic(seed: u64) -> Pcap {
    let mut draw = Draw::new(seed);
    let mut time_ns = SECOND;
    let packet = |number: usize| {
        time_ns += if number % 250 == 249 { 290 * SECOND } else { SECOND / 10 };
        let (src, port) = ([10, 0, 0, 1 + draw.below(8) as u8], 2_000 + draw.below(12) as u16);
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, PEER.0, 64).udp(port, PEER.1);
        builder.write(&mut bytes, b"x").expect("writing to memory");
        Packet { time_ns, bytes }
    };
    pcap::of(&(0..900).map(packet).collect::<Vec<_>>())
}

#[test]
fn a_limit_for_each_host_is_kept_or_refused() {
    let mut refused = Vec::new();
    for flows in [16, 1_024] {
        let chain = limited(flows);
        for strategy in ALL {
            let cores = if strategy.name() == "single" { 1 } else { 3 };
            let plan = match Plan::new(&chain, strategy, cores) {
                Ok(plan) => Plan { simulation: Some(1), ..plan },
                Err(error) => {
                    let why = error.to_string();
                    let says =
                        ["`nat` counts what each inside host has (`ports_per_host`)", "`--strategy scr`"];
                    let is_said = says.iter().all(|says| why.contains(says));
                    assert!(is_said || strategy.name() == HYBRID.name(), "{}: {why}", strategy.name());
                    refused.push(strategy.name());
                    continue;
                }
            };
            let capture = traffic(3);
            let verified =
                verify(&chain, &plan, &|| Ok(capture.open()), &Progress::default()).expect("it runs");
            assert!(verified.is_same(), "{}, {flows} flows: {verified:#?}", strategy.name());
            let is_judged = verified.judged.iter().all(|judged| judged.not_judged.is_none());
            assert!(is_judged || strategy.name() == SHARED.name(), "{verified:#?}");
        }
    }
    refused.sort_unstable();
    refused.dedup();
    let mut expected = [RSS, RSSPP, DYSSECT, HYBRID].map(|strategy| strategy.name());
    expected.sort_unstable();
    assert_eq!(refused, expected);
}
