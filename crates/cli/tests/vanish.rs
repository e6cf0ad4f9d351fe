//! Interfaces that go down or away while a run has them, and come back.

use serde_json::Value;

use crate::lab::Namespace;
use crate::service::Lan;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// The way out as `Lan` made it.
fn outside(lan: &Lan) {
    lan.pair((&lan.right, "eth0"), (&lan.gateway, "out"));
}

fn comes_and_goes(label: &str, arguments: &[&str], address: &str, prepare: fn(&Lan), again: fn(&Lan)) {
    let Some(lan) = Lan::new(label) else { return };
    prepare(&lan);
    let chain = lan.folder.file("track.toml");
    let mut run = lan.start(&[&[chain.as_str()], arguments].concat(), &[]);
    // The first one may be late while a router's neighbour is resolved.
    lan.left.ping(address, 1);
    assert!(lan.left.ping(address, 2), "before");

    lan.gateway.ip("link set out down");
    run.hear("out: down; packets that are to leave by it are lost (link-down)");
    assert!(!lan.left.ping_once(address, 1), "while it is down");
    lan.gateway.ip("link set out up");
    run.hear("out: up again");
    again(&lan);
    lan.left.ping(address, 1);
    assert!(lan.left.ping(address, 2), "up again");

    for _ in 0..2 {
        lan.gateway.ip("link del out");
        run.hear("out: gone; packets that are to leave by it are lost (link-down)");
        assert!(!lan.left.ping_once(address, 2), "while it is gone");
        let status = lan.ctl(&["status"]);
        assert!(status.lines().any(|line| line.starts_with("out (gone): ")), "{status}");
        outside(&lan);
        run.hear("out: back, AF_");
        prepare_right(&lan.right, address);
        again(&lan);
        lan.left.ping(address, 1);
        assert!(lan.left.ping(address, 2), "there again");
    }
    assert_eq!(run.said.matches("out: gone").count(), 2, "each is told once: {}", run.said);
    lan.ctl(&["stop"]);
    // It ends with an error if a frame of its pool is missing.
    let report = run.ended();
    let interfaces = report["interfaces"].as_array().expect("a list");
    let out = interfaces.iter().find(|found| found["name"] == "out").expect("it is there");
    // What was counted before goes on to count.
    assert!(number(&out["received"]) >= 6 && number(&out["sent"]) >= 6, "{out:#}");
    let lost = number(&out["lost"]["link-down"])
        + report["routing"]["dropped"].as_object().map_or(0, |dropped| {
            dropped
                .iter()
                .filter(|(why, _)| *why != "no-neighbour")
                .map(|(_, count)| number(count))
                .sum::<u64>()
        });
    assert!(lost >= 3, "{out:#} {:#}", report["routing"]);
    let other = interfaces.iter().find(|found| found["name"] == "in").expect("it is there");
    assert_eq!(other["lost"], serde_json::json!({}), "the other one lost nothing");
}

fn prepare_right(right: &Namespace, address: &str) {
    right.ip(&format!("addr add {address}/24 dev eth0"));
}

fn bridged(label: &str, arguments: &[&str]) {
    // The new interface has another Ethernet address.
    let again = |lan: &Lan| _ = lan.left.ip("neigh flush all");
    comes_and_goes(label, arguments, "192.0.2.2", |_| {}, again);
}

#[test]
fn a_bridge_by_af_xdp_goes_on() {
    bridged("xdp", &["--socket", "xdp"]);
}

#[test]
fn a_bridge_by_af_packet_goes_on() {
    bridged("packet", &["--socket", "packet"]);
}

#[test]
fn a_bridge_on_two_cores_goes_on() {
    bridged("cores", &["--socket", "xdp", "--strategy", "rss", "--cores", "2"]);
}

#[test]
fn a_bridge_on_cores_that_take_turns_goes_on() {
    let turns = [&["--socket", "xdp", "--cores", "2"], &crate::own_sockets::IN_TURNS[..]].concat();
    bridged("turns", &turns);
}

/// The program at an interface that is back has the table that is in force.
#[test]
fn a_bridge_on_two_cores_whose_entries_move_goes_on() {
    let moving = ["--socket", "xdp", "--strategy", "rsspp", "--cores", "2", "--move-every", "5"];
    bridged("moves", &moving);
}

/// The host's own addresses come back later than the interface, and are the host's again.
#[test]
fn a_router_goes_on() {
    let again = |lan: &Lan| {
        if !lan.gateway.ip("addr show dev out").contains("203.0.113.1/24") {
            lan.gateway.ip("addr add 203.0.113.1/24 dev out");
        }
        lan.right.ip("route replace 10.0.0.0/24 via 203.0.113.1");
        // As soon as the run has heard of the address.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(lan.right.ping("203.0.113.1", 2), "the router itself");
    };
    let prepare = |lan: &Lan| {
        lan.routed();
        lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    };
    comes_and_goes("router", &["--mode", "route", "--socket", "xdp"], "203.0.113.2", prepare, again);
}
