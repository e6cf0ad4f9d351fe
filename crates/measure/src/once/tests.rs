use engine::strategies::DYSSECT;
use engine::{Plan, Registry};
use strategy::{Every, Rebalancing};

use super::*;
use crate::bench::tests::{NEVER, trace};
use crate::offered::packets;

fn of(plan: impl FnOnce(Plan) -> Plan, cores: usize, pps: Option<f64>, count: u32) -> Once {
    let toml = "[[function]]\nuse = \"conntrack\"\nflows = 4096\n";
    let chain = Chain::parse("test.toml", toml, &Registry::stock()).expect("a chain");
    let plan = plan(Plan::new(&chain, DYSSECT, cores).expect("a plan"));
    let offered = packets(&chain, &plan, &trace("zipf:packets=3000,flows=400,a=1.2")).expect("packets");
    once(&chain, &plan, offered, (pps, count), 256, &NEVER).expect("a trial")
}

/// Shards, ratios and offloaders change all the time: each packet is taken through the chain once.
#[test]
fn all_packets_are_done_whatever_is_handed_on() {
    let every = |packets| {
        move |plan| {
            let rebalancing = Some(Rebalancing { every: Every::Packets(packets), update_latency_ns: 0 });
            Plan { rebalancing, ..plan }
        }
    };
    for (cores, packets) in [(1, 100), (2, 37), (4, 1_000)] {
        let Once { offered, dropped, received, elapsed_ns, busy_ns } =
            of(every(packets), cores, None, 20_000);
        assert_eq!((offered, dropped, received), (20_000, 0, 20_000));
        assert!(elapsed_ns > 0 && busy_ns.len() == cores && busy_ns.iter().all(|ns| *ns > 0));
    }
}

/// What the card drops was offered and is not received.
#[test]
fn too_high_a_rate_is_lost() {
    let Once { offered, dropped, received, .. } = of(|plan| plan, 2, Some(1e9), 30_000);
    assert!(dropped > 0 && dropped + received == offered, "{dropped} + {received} of {offered}");
}
