//! `iperf3`, where there is one: a well-known program's connections and datagrams, as many as there is room for.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::{number, of};
use crate::service::Lan;

const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams that a busy machine's threads still keep up with.
const UDP: &str = "-u -b 20M -l 1200 -w 1M";

fn has_iperf() -> bool {
    let has = Command::new("iperf3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: `iperf3` (package iperf3) does not run");
    }
    has
}

/// Sends for a second, and reads what it found.
fn iperf(lan: &Lan, server: &str, arguments: &str) -> Value {
    let begin = Instant::now();
    loop {
        let output = lan.left.run("iperf3", &format!("-c {server} -t 1 -J {arguments}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = serde_json::from_str::<Value>(&text).unwrap_or_default();
        if output.status.success() && said["error"].is_null() && said["end"].is_object() {
            return said["end"].clone();
        }
        // The server begins, or has not yet done with the client before, or was kept waiting by a busy machine.
        assert!(begin.elapsed() < PATIENCE, "{arguments}: {text}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// All four, one after the other.
fn both_ways(lan: &Lan, server: &str) {
    let _server = lan.right.start("iperf3", "-s");
    for way in ["", "-R"] {
        let tcp = iperf(lan, server, way);
        let bytes = number(&tcp["sum_received"]["bytes"]);
        assert!(bytes > 100_000, "TCP {way}: {tcp:#}");
        let udp = iperf(lan, server, &format!("{UDP} {way}"));
        let udp = &udp["sum"];
        let (sent, lost) = (number(&udp["packets"]), number(&udp["lost_packets"]));
        println!("{server} {way}: TCP {bytes} bytes, UDP {sent} datagrams, {lost} lost");
        // 1 s at 20 Mbit/s are 2,083, where a machine has the time. Those lost at the receiving socket are the kernel's.
        assert!(sent > 200 && lost * 4 < sent, "UDP {way}: {udp:#}");
    }
}

/// Every packet was forwarded. What did not come in or did not leave was lost because the machine was too slow.
fn adds_up(report: &Value) {
    let packets = number(&report["packets"]);
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    let mut sent = 0;
    for interface in ["in", "out"].map(|name| of(report, name)) {
        let lost = interface["lost"].as_object().expect("an object");
        let by_rate = ["no-buffer", "queue-full", "ring-full"];
        assert!(lost.keys().all(|reason| by_rate.contains(&reason.as_str())), "{interface:#}");
        println!("{interface}");
        sent += number(&interface["sent"]) + lost.get("ring-full").map_or(0, number);
    }
    assert_eq!(sent, packets, "{report:#}");
}

fn through_a_bridge(strategy: &str, cores: &str, more: &[&str]) {
    through_a_bridge_of(1, strategy, cores, more);
}

/// With so many queues at each interface.
fn through_a_bridge_of(queues: u32, strategy: &str, cores: &str, more: &[&str]) {
    let label = format!("iperf-bridge-{strategy}-{queues}");
    let Some(lan) = Lan::with_queues(&label, queues).filter(|_| has_iperf()) else { return };
    for host in [&lan.left, &lan.right] {
        host.offload("eth0");
    }
    let chain = lan.folder.file("track.toml");
    let arguments = [&[&*chain, "--socket", "xdp", "--strategy", strategy, "--cores", cores], more].concat();
    let run = lan.start(&arguments, &[]);
    assert_eq!(run.said.contains("each with sockets of its own"), strategy == "rss", "{}", run.said);
    both_ways(&lan, "192.0.2.2");
    run.signal("-TERM");
    let report = run.ended();
    adds_up(&report);
    if strategy == "auto" {
        let phases = report["changes"]["phases"].as_array().expect("phases");
        println!("{} phases", phases.len());
        assert!(phases.len() > 3, "{report:#}");
        assert_eq!(
            phases.iter().map(|phase| number(&phase["packets"])).sum::<u64>(),
            number(&report["packets"])
        );
    }
}

#[test]
fn iperf_through_a_bridge_on_one_core() {
    through_a_bridge("single", "1", &[]);
}

#[test]
fn iperf_through_a_bridge_by_sockets_of_each_core() {
    through_a_bridge("rss", "2", &[]);
}

#[test]
fn iperf_through_a_bridge_by_sockets_of_each_core_at_two_queues() {
    through_a_bridge_of(2, "rss", "2", &[]);
}

#[test]
fn iperf_through_a_bridge_by_sockets_of_each_core_at_four_queues() {
    through_a_bridge_of(4, "rss", "3", &["--poll", "busy"]);
}

#[test]
fn iperf_through_a_bridge_under_scr() {
    through_a_bridge("scr", "2", &[]);
}

/// Strategies take over from each other while connections last: none breaks, and every packet is accounted for.
#[test]
fn iperf_through_a_bridge_under_auto() {
    through_a_bridge("auto", "2", &["--move-every", "1000"]);
}

/// Each core routes by itself.
#[test]
fn iperf_through_a_router_by_sockets_of_each_core() {
    let Some(lan) = Lan::new("iperf-router-own").filter(|_| has_iperf()) else { return };
    lan.routed();
    lan.right.ip("route add 10.0.0.0/24 via 203.0.113.1");
    for host in [&lan.left, &lan.right] {
        host.offload("eth0");
    }
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let chain = lan.folder.file("track.toml");
    let run =
        lan.start(&[&chain, "--socket", "xdp", "--mode", "route", "--strategy", "rss", "--cores", "2"], &[]);
    assert!(run.said.contains("each with sockets of its own"), "{}", run.said);
    both_ways(&lan, "203.0.113.2");
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], serde_json::json!({}), "{report:#}");
    adds_up(&report);
}

/// With a NAT, and a tracker in front of it.
#[test]
fn iperf_through_a_router() {
    let Some(lan) = Lan::new("iperf-router").filter(|_| has_iperf()) else { return };
    lan.routed();
    for host in [&lan.left, &lan.right] {
        host.offload("eth0");
    }
    // Neighbours first: of packets to one that is unknown only the latest waits.
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let chain = lan.folder.nat_chain();
    let run = lan.start(&[&chain, "--socket", "xdp", "--mode", "route"], &[]);
    both_ways(&lan, "203.0.113.2");
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(report["routing"]["dropped"], serde_json::json!({}), "{report:#}");
    adds_up(&report);
}
