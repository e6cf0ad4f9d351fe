//! Receive queues that an interface gets while a run goes on (`ethtool -L`): what comes by them goes through the chain, too.

use std::collections::HashSet;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::live::{number, of};
use crate::own_sockets::know_each_other;
use crate::service::{Lan, Run};
use crate::support::stderr;

/// A busy machine's threads take their time.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is dropped, and what passes.
const DENIED: u16 = 7_001;
const ALLOWED: u16 = 7_002;
const QUEUES: u32 = 4;
/// Flows: each of them goes to one of the sender's queues, and so of the interface's behind it.
const FLOWS: usize = 64;

const CHAIN: &str = "name = \"guard\"\n[[function]]\nuse = \"access-list\"\ndefault = \"deny\"\n\
                     rules = [\"allow udp from any to any port 7002\"]\n";

/// Interfaces that may have four queues, and have one; `None` where the test may not make them.
fn lan(label: &str) -> Option<Lan> {
    let lan = Lan::with_queues(label, QUEUES)?;
    fs::write(lan.folder.file("guard.toml"), CHAIN).expect("a folder of the test");
    if !set_queues(&lan, 1) {
        println!("skipped: `ethtool -L` does not run");
        return None;
    }
    Some(lan)
}

/// Has the gateway's inner interface receive by so many queues, and the sender send by as many.
fn set_queues(lan: &Lan, count: u32) -> bool {
    let set = |mut command: Command, name: &str| {
        let count = count.to_string();
        let output = command.args(["-L", name, "rx", &count, "tx", &count]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let gateway = || set(lan.gateway.command("ethtool"), "in");
    let sender = || set(lan.left.command("ethtool"), "eth0");
    // The sender has no more queues than the other end: where the XDP program is, the kernel asks for that.
    let (first, second): (&dyn Fn() -> bool, &dyn Fn() -> bool) =
        if count == 1 { (&sender, &gateway) } else { (&gateway, &sender) };
    first() && second()
}

/// Sends a datagram of each of many flows, and says how many arrive.
fn arrive(lan: &Lan, from: &str, to: &str, port: u16) -> usize {
    let receives = lan.right.bound(|| UdpSocket::bind((to, port)));
    receives.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
    for at in 0..FLOWS {
        let sends = lan.left.bound(|| UdpSocket::bind((from, 0)));
        sends.send_to(&at.to_be_bytes(), (to, port)).expect("it is sent");
        thread::sleep(Duration::from_millis(1));
    }
    let mut arrived = HashSet::new();
    let mut buffer = [0; 8];
    while receives.recv(&mut buffer).is_ok() {
        arrived.insert(buffer);
    }
    arrived.len()
}

/// Waits until the run says that the new queues have sockets.
fn served(run: &mut Run) {
    run.hear("in: 4 receive queues, 1 before; all have sockets");
}

/// Bridges two hosts, on so many cores: what the chain allows arrives by whatever queue.
fn a_bridge_serves_new_queues(label: &str, more: &[&str]) {
    let Some(lan) = lan(label) else { return };
    know_each_other(&lan);
    let chain = lan.folder.file("guard.toml");
    let mut run = lan.start(&[&[&*chain, "--socket", "xdp"], more].concat(), &[]);
    assert_eq!(arrive(&lan, "192.0.2.1", "192.0.2.2", ALLOWED), FLOWS);
    assert!(set_queues(&lan, QUEUES));
    served(&mut run);
    assert_eq!(arrive(&lan, "192.0.2.1", "192.0.2.2", ALLOWED), FLOWS, "{}", run.said);
    assert_eq!(arrive(&lan, "192.0.2.1", "192.0.2.2", DENIED), 0);
    let queues = received_by_queue(&lan);
    assert!(queues.iter().filter(|count| **count > 0).count() > 1, "they came by several queues: {queues:?}");
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(of(&report, "in")["lost"], json!({}), "{report:#}");
    assert!(number(&of(&report, "out")["sent"]) >= 2 * FLOWS as u64);
}

/// What each queue of the gateway's inner interface received, as its driver counts; all of it once where the driver does not
/// say.
fn received_by_queue(lan: &Lan) -> Vec<u64> {
    let output = lan.gateway.command("ethtool").args(["-S", "in"]).output().expect("ethtool runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_line = |line: &str| {
        let (name, count) = line.trim().split_once(':')?;
        (name.starts_with("rx_queue_") && name.ends_with("_xdp_packets"))
            .then(|| count.trim().parse().ok())?
    };
    let counts: Vec<u64> = text.lines().filter_map(of_line).collect();
    assert!(!counts.is_empty(), "{text}{}", stderr(&output));
    counts
}

#[test]
fn a_bridge_serves_new_queues_from_one_core() {
    a_bridge_serves_new_queues("queues-one", &[]);
}

#[test]
fn a_bridge_serves_new_queues_from_cores_with_sockets_of_their_own() {
    a_bridge_serves_new_queues("queues-own", &["--strategy", "rss", "--cores", "2"]);
}

#[test]
fn a_bridge_serves_new_queues_in_turns() {
    let strategy = ["--strategy", "scr-turns", "--cores", "2", "--egress", "as-ready"];
    a_bridge_serves_new_queues("queues-turns", &strategy);
}

/// A router whose kernel forwards what reaches it: none of what the chain denies gets past it by a new queue, before the
/// queue is served, and after.
#[test]
fn nothing_passes_a_router_by_new_queues() {
    let Some(lan) = lan("queues-route") else { return };
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    lan.gateway.write("/proc/sys/net/ipv4/ip_forward", "1");
    for (host, address) in [(&lan.left, "10.0.0.1"), (&lan.right, "203.0.113.1")] {
        assert!(host.ping(address, 1));
    }
    let (from, to) = ("10.0.0.10", "203.0.113.2");
    assert_eq!(arrive(&lan, from, to, DENIED), FLOWS, "the kernel forwards");
    let chain = lan.folder.file("guard.toml");
    let mut run = lan.start(&[&chain, "--mode", "route", "--socket", "xdp"], &[]);
    assert_eq!(arrive(&lan, from, to, DENIED), 0);
    assert!(set_queues(&lan, QUEUES));
    // At once, and while sockets are opened.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        assert_eq!(arrive(&lan, from, to, DENIED), 0);
    }
    served(&mut run);
    assert_eq!(arrive(&lan, from, to, DENIED), 0);
    let until = Instant::now() + PATIENCE;
    while arrive(&lan, from, to, ALLOWED) < FLOWS {
        assert!(Instant::now() < until, "what is allowed passes");
    }
    lan.ctl(&["stop"]);
    let report = run.ended();
    // What came before the sockets is counted, and what came before they had frames to receive into.
    let lost = of(&report, "in")["lost"].as_object().expect("a table").clone();
    assert!(lost.keys().all(|why| ["no-socket", "no-buffer"].contains(&&**why)), "{lost:?}");
}
