//! Tagged frames (IEEE 802.1Q) through a bridge: a chain sees what is behind the tag, and the tag leaves as it came.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::live::{number, of, transfer};
use crate::service::Lan;
use crate::support::vlan::{Tagged, has_devices};

const BYTES: usize = 2 << 20;
const VLAN: u16 = 10;

/// Ends what carries frames, after a panic, too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Where the hosts leave the tag.
#[derive(Clone, Copy, PartialEq)]
enum Tag {
    InFrame,
    Beside,
}

fn tagged_frames_pass(tag: Tag, socket: &str, strategy: &str, cores: &str) {
    let label = format!("vlan-{socket}-{strategy}-{}", tag as u8);
    let Some(lan) = Lan::new(&label).filter(|_| has_devices()) else { return };
    let make = if tag == Tag::Beside { Tagged::beside } else { Tagged::new };
    let chain = lan.folder.file("track.toml");
    fs::write(&chain, "[[function]]\nuse = \"conntrack\"\npick_up = false\n").expect("a folder of the test");
    let hosts = [&lan.left, &lan.right];
    let tagged = hosts.map(|host| host.inside(|| make("eth0", "tagged", VLAN)).expect("a TAP interface"));
    for (host, number) in hosts.into_iter().zip(1..) {
        host.ip("addr flush dev eth0");
        host.ip("link set tagged up");
        host.ip(&format!("addr add 192.0.2.{number}/24 dev tagged"));
        host.ip(&format!("addr add 2001:db8::{number}/64 dev tagged nodad"));
    }
    let card: &[&str] = if strategy == "dyssect" { &["--card-flows", "1000"] } else { &[] };
    let arguments = [&chain, "--socket", socket, "--strategy", strategy, "--cores", cores];
    let run = lan.start(&[&arguments, card].concat(), &[]);
    let (goes_on, others) = (AtomicBool::new(true), AtomicU64::new(0));
    thread::scope(|scope| {
        let _ending = Ending(&goes_on);
        for end in &tagged {
            scope.spawn(|| end.carry(&goes_on, &others));
        }
        assert!(
            lan.left.ping("192.0.2.2", 2) && lan.left.ping("2001:db8::2", 2),
            "echo requests are answered"
        );
        for address in ["192.0.2.2:7000", "[2001:db8::2]:7000"] {
            assert!(transfer((&lan.left, address), (&lan.right, address), BYTES), "TCP to {address}");
        }
    });
    run.signal("-TERM");
    let report = run.ended();
    // Frames without the tag would not have come through; that none came at all says that no tag was lost on the way.
    assert_eq!(others.load(Ordering::Relaxed), 0, "every frame had its tag");
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let established = &report["functions"][0]["events"]["established"];
    assert_eq!(number(established), 2, "the tracker sees connections behind tags: {report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    if strategy == "dyssect" {
        // A connection's end is told of as late as its last packets have come, and later where the machine is busy. Without the tag
        // in its place no reference would be right.
        let [referred, wrong] =
            ["referred_packets", "wrong_references"].map(|what| number(&report["moves"][what]));
        assert!(referred > packets / 2 && wrong < referred / 4, "{}", report["moves"]);
    }
}

/// The program puts the tag into the frame, and before the frame where its flow is.
#[test]
fn tags_beside_frames_pass_with_what_a_card_says() {
    tagged_frames_pass(Tag::Beside, "xdp", "dyssect", "2");
}

#[test]
fn tagged_frames_pass_by_af_xdp() {
    tagged_frames_pass(Tag::InFrame, "xdp", "single", "1");
}

#[test]
fn tagged_frames_pass_by_af_xdp_under_rss() {
    tagged_frames_pass(Tag::InFrame, "xdp", "rss", "2");
}

#[test]
fn tagged_frames_pass_by_af_packet() {
    tagged_frames_pass(Tag::InFrame, "packet", "single", "1");
}

/// The driver of the interface is asked for tags that are beside frames.
#[test]
fn tags_beside_frames_pass_by_af_xdp() {
    tagged_frames_pass(Tag::Beside, "xdp", "single", "1");
}

#[test]
fn tags_beside_frames_pass_by_af_packet() {
    tagged_frames_pass(Tag::Beside, "packet", "single", "1");
}

/// The interface leaves tags in frames as long as the run lasts, and not longer; one that was told so stays so.
#[test]
fn interfaces_are_told_to_leave_tags_in_frames() {
    let Some(lan) = Lan::new("vlan-switch") else { return };
    if !lan.gateway.command("ethtool").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: `ethtool` does not run");
        return;
    }
    let takes_off = || {
        ["in", "out"].map(|name| {
            let shown = lan.gateway.command("ethtool").args(["-k", name]).output().expect("ethtool runs");
            String::from_utf8_lossy(&shown.stdout).contains("rx-vlan-offload: on")
        })
    };
    let told = lan.gateway.command("ethtool").args(["-K", "out", "rxvlan", "off"]).status();
    assert!(told.expect("ethtool runs").success() && takes_off() == [true, false]);
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain, "--socket", "xdp", "--mode", "bridge"], &[]);
    assert_eq!(takes_off(), [false, false], "{}", run.said);
    run.signal("-TERM");
    run.ended();
    assert_eq!(takes_off(), [true, false]);
    let run = lan.start(&[&chain, "--socket", "packet", "--mode", "bridge"], &[]);
    assert_eq!(takes_off(), [true, false], "the kernel's sockets tell tags: {}", run.said);
}

/// A router does not take tagged frames for others, and says why.
#[test]
fn a_router_drops_tagged_frames() {
    let Some(lan) = Lan::new("vlan-route").filter(|_| has_devices()) else { return };
    lan.routed();
    let tagged = lan.left.inside(|| Tagged::new("eth0", "tagged", VLAN)).expect("a TAP interface");
    lan.left.ip("link set tagged up");
    lan.left.ip("addr add 192.0.2.1/24 dev tagged");
    // It asks nobody: the router itself would not answer.
    let gateway: Value = serde_json::from_str(&lan.gateway.ip("-j link show dev in")).expect("JSON of ip");
    let address = gateway[0]["address"].as_str().expect("an Ethernet address");
    lan.left.ip(&format!("neigh add 192.0.2.2 lladdr {address} dev tagged"));
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[&chain, "--socket", "xdp", "--mode", "route"], &[]);
    let (goes_on, others) = (AtomicBool::new(true), AtomicU64::new(0));
    thread::scope(|scope| {
        let _ending = Ending(&goes_on);
        scope.spawn(|| tagged.carry(&goes_on, &others));
        assert!(!lan.left.ping_once("192.0.2.2", 2), "nobody answers");
    });
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], json!({ "vlan-tag": 2 }), "{report:#}");
}
