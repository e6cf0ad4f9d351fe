//! Jumbo frames: longer than a page, through AF_XDP in several buffers where the kernel has that.

use std::fs;

use serde_json::json;

use crate::lab::Namespace;
use crate::live::{number, of, transfer};
use crate::service::Lan;

const BYTES: usize = 8 << 20;
const MTU: u32 = 9_000;
/// What AF_XDP says of itself where frames are longer than a page.
const PARTS: &str = "several buffers a frame";

fn widen(lan: &Lan, mtu: u32) {
    for (namespace, names) in
        [(&lan.left, &["eth0"][..]), (&lan.gateway, &["in", "out"]), (&lan.right, &["eth0"])]
    {
        names.iter().for_each(|name| drop(namespace.ip(&format!("link set {name} mtu {mtu}"))));
    }
}

/// Linux 6.6 has sockets for frames in several buffers.
fn has_parts(said: &str) -> bool {
    let has = said.contains(PARTS);
    if !has {
        println!("skipped: this kernel has no frames in several buffers\n{said}");
    }
    has
}

/// Echo requests that no host on the way may cut.
fn ping(host: &Namespace, address: &str, bytes: u32) -> bool {
    (0..10).any(|_| {
        let output = host.run("ping", &format!("-n -q -M do -i 0.3 -W 2 -c 3 -s {bytes} {address}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}");
        output.status.success() && said.contains(" 0% packet loss")
    })
}

fn through(mode: &str, offloads: bool, strategy: &str, cores: &str) {
    let Some(lan) = Lan::new(&format!("jumbo-{mode}-{strategy}-{offloads}")) else { return };
    widen(&lan, MTU);
    if mode == "route" {
        lan.routed();
    }
    if offloads {
        for host in [&lan.left, &lan.right] {
            host.offload("eth0");
        }
    }
    let chain = lan.folder.file("track.toml");
    fs::write(&chain, "[[function]]\nuse = \"conntrack\"\n").expect("a folder of the test");
    let arguments = ["--socket", "auto", "--mode", mode, "--strategy", strategy, "--cores", cores];
    let run = lan.start(&[&[chain.as_str()], &arguments[..]].concat(), &[]);
    if mode == "route" {
        lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
        assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1), "neighbours");
    }
    let far = if mode == "route" { "203.0.113.2" } else { "192.0.2.2" };
    // Around where a part ends, and the longest.
    for bytes in [100, 3_798, 3_799, 8_000, MTU - 28] {
        assert!(ping(&lan.left, far, bytes), "echo requests of {bytes} bytes");
    }
    let address = format!("{far}:7000");
    assert!(transfer((&lan.left, &address), (&lan.right, &address), BYTES), "TCP with long segments");
    run.signal("-TERM");
    let said = run.said.clone();
    // It ends with status 0 only if all frames are back in their pool.
    let report = run.ended();
    if !has_parts(&said) {
        return;
    }
    assert!(!said.contains("AF_PACKET"), "{said}");
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    for name in ["in", "out"].map(|name| of(&report, name)) {
        assert_eq!(name["lost"], json!({}), "{name:#}");
        let (bytes, frames) = (number(&name["received_bytes"]), number(&name["received"]));
        assert!(bytes > BYTES as u64 && bytes / frames > 3_498, "frames are long: {name:#}");
    }
}

#[test]
fn jumbo_frames_pass_a_bridge() {
    through("bridge", false, "single", "1");
}

#[test]
fn jumbo_frames_with_checksums_left_to_a_card_pass_a_bridge() {
    through("bridge", true, "single", "1");
}

#[test]
fn jumbo_frames_pass_a_bridge_under_scr() {
    through("bridge", false, "scr", "2");
}

#[test]
fn jumbo_frames_pass_a_router() {
    through("route", false, "single", "1");
}

#[test]
fn jumbo_frames_pass_a_router_under_rss() {
    through("route", true, "rss", "2");
}
