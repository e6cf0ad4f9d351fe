//! Entries of the XDP program's table move while packets come to cores that have sockets of their own: nothing is lost, each
//! flow's packets leave in order, and flows go along.

use std::collections::HashMap;
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::live::{number, of};
use crate::own_sockets::know_each_other;
use crate::service::Lan;

const PATIENCE: Duration = Duration::from_secs(60);
const OWN: &str = "each with sockets of its own";
const MOVES: &str = "entries of its table move";

fn moved(report: &Value) -> u64 {
    number(&report["moves"]["moves"])
}

/// Datagrams of many flows while a quarter of the entries goes to other cores again and again.
fn datagrams_stay_in_order(queues: u32, cores: &str) {
    const FLOWS: u16 = 60;
    const PACKETS: u64 = 30_000;
    /// On their way at once, at most: what the receiver's socket has room for.
    const AHEAD: u64 = 80;
    let Some(lan) = Lan::with_queues(&format!("moves-order-{queues}"), queues) else { return };
    let chain = lan.folder.file("flows.toml");
    fs::write(&chain, "[[function]]\nuse = \"flow-statistics\"\n").expect("a folder of the test");
    know_each_other(&lan);
    let run = lan.start(
        &[&chain, "--socket", "xdp", "--strategy", "rsspp", "--cores", cores, "--move-every", "100"],
        &[],
    );
    assert!(run.said.contains(OWN) && run.said.contains(MOVES), "{}", run.said);
    let receives = lan.right.bound(|| UdpSocket::bind("192.0.2.2:7000"));
    receives.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let senders: Vec<UdpSocket> =
        (0..FLOWS).map(|flow| lan.left.bound(|| UdpSocket::bind(("192.0.2.1", 20_000 + flow)))).collect();
    let (mut last, mut buffer, mut sent) = (HashMap::new(), [0; 64], 0);
    for arrived in 0..PACKETS {
        while sent < PACKETS.min(arrived + AHEAD) {
            let sender = &senders[sent as usize % senders.len()];
            sender.send_to(&sent.to_be_bytes(), "192.0.2.2:7000").expect("it is sent");
            sent += 1;
        }
        let (len, from) = receives.recv_from(&mut buffer).expect("it arrives");
        let seq = u64::from_be_bytes(buffer[..len].try_into().expect("8 bytes"));
        let before = last.insert(from.port(), seq);
        assert!(before < Some(seq), "flow {}: {seq} behind {before:?}", from.port());
    }
    let status: Value = serde_json::from_str(&lan.ctl(&["status", "--json"])).expect("JSON");
    println!("updates: {}", status["status"]["updates"]);
    run.signal("-TERM");
    let report = run.ended();
    println!("{}", report["moves"]);
    assert!(moved(&report) > 200, "{}", report["moves"]);
    let packets = number(&report["packets"]);
    assert!(packets >= PACKETS, "{packets}");
    assert_eq!(number(&report["verdicts"]["forward"]), packets, "{report:#}");
    for interface in ["in", "out"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    let cores = report["cores"].as_array().expect("cores");
    assert!(cores.iter().all(|core| number(&core["packets"]) > PACKETS / 50), "{cores:#?}");
    // A flow that was left behind would have begun anew. Hosts may have said something beside.
    let live = number(&report["functions"][0]["flows"]["live"]);
    assert!((u64::from(FLOWS)..u64::from(FLOWS) + 20).contains(&live), "{live}");
}

#[test]
fn datagrams_stay_in_order_at_one_queue() {
    datagrams_stay_in_order(1, "2");
}

#[test]
fn datagrams_stay_in_order_at_two_queues() {
    datagrams_stay_in_order(2, "3");
}

/// A NAT's ports and mappings go along, and so do answers of the router that go back through the chain.
#[test]
fn mappings_go_along() {
    let Some(lan) = Lan::new("moves-nat") else { return };
    lan.routed();
    assert!(lan.gateway.ping("203.0.113.2", 1) && lan.gateway.ping("10.0.0.10", 1));
    let chain = lan.folder.nat_chain();
    let mode = ["--socket", "xdp", "--mode", "route", "--move-every", "20"];
    let run = lan.start(&[&[&*chain, "--strategy", "rsspp", "--cores", "2"], &mode[..]].concat(), &[]);
    assert!(run.said.contains(OWN) && run.said.contains(MOVES), "{}", run.said);
    let server = lan.right.bound(|| UdpSocket::bind("203.0.113.2:7000"));
    server.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let clients: Vec<UdpSocket> =
        (0..60_u16).map(|flow| lan.left.bound(|| UdpSocket::bind(("10.0.0.10", 30_000 + flow)))).collect();
    let (mut buffer, mut ports) = ([0; 64], HashMap::new());
    for round in 0..20_u16 {
        for (flow, client) in (0_u16..).zip(&clients) {
            client.set_read_timeout(Some(PATIENCE)).expect("a socket");
            client.send_to(&flow.to_be_bytes(), "203.0.113.2:7000").expect("it is sent");
            let (_, from) = server.recv_from(&mut buffer).expect("it arrives");
            assert_eq!(*ports.entry(flow).or_insert(from), from, "round {round}: its mapping");
            server.send_to(&flow.to_be_bytes(), from).expect("it is sent");
            assert_eq!(client.recv(&mut buffer).expect("the answer is translated back"), 2);
            assert_eq!(buffer[..2], flow.to_be_bytes());
        }
        let output = lan.left.run("ping", "-n -c 1 -W 5 -t 1 203.0.113.2");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Time to live exceeded"), "{said}");
    }
    run.signal("-TERM");
    let report = run.ended();
    println!("{}", report["moves"]);
    assert!(moved(&report) > 100, "{}", report["moves"]);
    assert_eq!(report["routing"]["dropped"], json!({ "ttl-expired": 20 }), "{report:#}");
    assert_eq!(number(&report["verdicts"]["drop"]), 0, "{report:#}");
}

/// Entries follow the load of themselves.
#[test]
fn a_loaded_core_gives_entries_away() {
    let Some(lan) = Lan::new("moves-load") else { return };
    let chain = lan.folder.file("track.toml");
    know_each_other(&lan);
    let run = lan.start(&[&chain, "--socket", "xdp", "--strategy", "rsspp", "--cores", "2"], &[]);
    assert!(run.said.contains(OWN), "{}", run.said);
    let why = |port: u16| -> Value {
        let from = format!("192.0.2.1:{port}");
        let said = lan.ctl(&["why", "--json", "udp", &from, "192.0.2.2:7000"]);
        serde_json::from_str::<Value>(&said).expect("JSON")["why"]["flow"].clone()
    };
    // Flows of one core alone.
    let of_core_0: Vec<u16> = (20_000..).filter(|port| number(&why(*port)["core"]) == 0).take(6).collect();
    let senders: Vec<UdpSocket> =
        of_core_0.iter().map(|port| lan.left.bound(|| UdpSocket::bind(("192.0.2.1", *port)))).collect();
    let begin = Instant::now();
    loop {
        for _ in 0..20 {
            senders.iter().for_each(|sender| drop(sender.send_to(b"?", "192.0.2.2:7000")));
            thread::sleep(Duration::from_millis(1));
        }
        let cores: Vec<u64> = of_core_0.iter().map(|port| number(&why(*port)["core"])).collect();
        if cores.contains(&1) && cores.contains(&0) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{cores:?}");
    }
    run.signal("-TERM");
    let report = run.ended();
    assert!(moved(&report) > 0, "{report:#}");
    let cores = report["cores"].as_array().expect("cores");
    assert!(cores.iter().all(|core| number(&core["packets"]) > 0), "{cores:#?}");
}
