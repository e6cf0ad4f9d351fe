//! Sides are those of interfaces: a source address of the other side is spoofed (RFC 2827, RFC 3704).

use std::fs;

use serde_json::Value;

use crate::own_sockets::IN_TURNS;
use crate::service::Lan;
use crate::soak::adds_up;
use crate::support::{Folder, Scratch, json, paceline, stderr};

/// Hosts inside may open connections.
const CHAIN: &str = "name = \"doors\"\n[[function]]\nuse = \"access-list\"\ndefault = \"deny\"\n\
                     rules = [\"allow any from 10.0.0.0/25 to any\"]\n";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// A chain with an inside, and this line in its file.
fn chain(folder: &Folder, name: &str, line: &str) -> String {
    let file = folder.file(name);
    fs::write(&file, format!("inside = [\"10.0.0.0/25\"]\n{line}\n{CHAIN}")).expect("a folder of the test");
    file
}

/// A UDP packet in an Ethernet frame.
fn udp(from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([from, to].concat());
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

/// A pcapng with the interfaces `wan` and `lan`, and packets of them.
fn capture(packets: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = block(0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff");
    for name in ["wan", "lan"] {
        bytes.extend(block(
            1,
            &[&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0][..], name.as_bytes(), &[0; 5]].concat(),
        ));
    }
    for (at, (interface, frame)) in packets.iter().enumerate() {
        let len = frame.len() as u32;
        let fields = [u32::from(*interface == "lan"), 0, 1_000 * (at as u32 + 1), len, len];
        let head: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        bytes.extend(block(6, &[head, frame.clone()].concat()));
    }
    bytes
}

/// Connections from inside with their answers, and forged packets by each interface between them.
fn forged() -> Vec<u8> {
    let mut packets = Vec::new();
    for host in 1..40 {
        let (inside, outside) = ([10, 0, 0, host], [198, 51, 100, host]);
        packets.push(("lan", udp(inside, outside, [4_000, 53])));
        packets.push(("wan", udp([10, 0, 0, 100], inside, [4_000, 53])));
        packets.push(("wan", udp(outside, inside, [53, 4_000])));
        packets.push(("lan", udp([192, 0, 2, host], outside, [4_000, 53])));
    }
    capture(&packets)
}

fn spoofed(report: &Value) -> u64 {
    number(&report["drops"]["malformed/spoofed"])
}

#[test]
fn forged_sources_in_a_capture_with_interfaces_are_dropped() {
    let (folder, file) = (Folder::new("sides-capture"), Scratch::new("forged.pcapng", &forged()));
    let run = |chain: &str, rest: &[&str]| {
        json(&paceline(&[&["run", chain, "--pcap", file.path(), "--json", "-"], rest].concat()))
    };
    let by_interface = ["--inside-interface", "lan"];
    let doors = chain(&folder, "doors.toml", "");
    let report = run(&doors, &by_interface);
    assert_eq!((spoofed(&report), number(&report["verdicts"]["forward"])), (78, 78), "{report:#}");
    assert_eq!(number(&report["functions"][0]["packets"]), 78, "no function sees them: {report:#}");
    let by_number = run(&doors, &["--inside-interface", "1"]);
    assert_eq!(
        (&by_number["drops"], &by_number["functions"][0]["digest"]),
        (&report["drops"], &report["functions"][0]["digest"])
    );
    // By its address a forged packet is from inside.
    let by_address = run(&doors, &[]);
    assert_eq!((spoofed(&by_address), number(&by_address["verdicts"]["forward"])), (0, 117));
    // They are dropped whatever becomes of malformed packets, and pass where the chain says so.
    let report = run(&chain(&folder, "pass-malformed.toml", "malformed = \"pass\""), &by_interface);
    assert_eq!((spoofed(&report), number(&report["verdicts"]["drop"])), (78, 78), "{report:#}");
    let report = run(&chain(&folder, "pass-spoofed.toml", "spoofed = \"pass\""), &by_interface);
    assert_eq!((spoofed(&report), number(&report["verdicts"]["forward"])), (0, 117));
    // Each dropped packet says why.
    let drops = folder.file("drops.pcapng");
    run(&doors, &[&by_interface[..], &["--drops", &drops]].concat());
    let drops = fs::read(&drops).expect("it is written");
    let why = b"dropped as malformed: spoofed";
    assert_eq!(drops.windows(why.len()).filter(|bytes| bytes == why).count(), 78);
    for (strategy, cores) in
        [("rss", "2"), ("rsspp", "3"), ("dyssect", "3"), ("scr", "3"), ("scr-turns", "2"), ("hybrid", "2")]
    {
        let args = ["verify", &doors, "--pcap", file.path(), "--strategy", strategy, "--cores", cores];
        let output = paceline(&[&args[..], &by_interface].concat());
        assert_eq!(output.status.code(), Some(0), "{strategy}: {}", stderr(&output));
    }
}

#[test]
fn an_inside_interface_that_there_is_not_is_an_error() {
    let (folder, file) = (Folder::new("sides-errors"), Scratch::new("sides.pcapng", &forged()));
    let doors = chain(&folder, "doors.toml", "");
    let error = |command: &str, chain: &str, capture: &str, interface: &str| {
        let output = paceline(&[command, chain, "--pcap", capture, "--inside-interface", interface]);
        assert_eq!(output.status.code(), Some(2), "{command} {chain} {capture} {interface}");
        stderr(&output)
    };
    for command in ["run", "verify"] {
        let said = error(command, &doors, file.path(), "eth0");
        assert!(
            said.contains("no interface is called or numbered `eth0`; there are 0 (wan), 1 (lan)"),
            "{said}"
        );
        let said = error(command, &doors, "captures/gateway.pcap", "lan");
        assert!(said.contains("a pcap file does not say by which interface packets came"), "{said}");
        let said = error(command, "examples/edge.toml", file.path(), "lan");
        assert!(said.contains("has no inside"), "{said}");
    }
}

/// A host outside forges addresses of the inside; what it sends in its own name is answered.
fn forged_live(label: &str, arguments: &[&str]) {
    let Some(lan) = Lan::new(&format!("spoofed-{label}")) else { return };
    for (host, address) in [(&lan.left, "10.0.0.10"), (&lan.right, "10.0.0.200"), (&lan.right, "10.0.0.66")] {
        host.ip(&format!("addr add {address}/24 dev eth0"));
    }
    let doors = chain(&lan.folder, "doors.toml", "");
    let run = lan.start(&[&[doors.as_str()], arguments].concat(), &[]);
    assert!(lan.left.ping("10.0.0.200", 2), "who is inside reaches whom it asks");
    let forge = |host: &crate::lab::Namespace| host.run("ping", "-n -c 3 -i 0.2 -W 1 -I 10.0.0.66 10.0.0.10");
    assert!(!forge(&lan.right).status.success(), "nobody answers a forged request");
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(spoofed(&report), 3, "{report:#}");
}

/// What came in and what was spoofed of it are in the record, and a replay drops the same.
#[test]
fn a_record_that_names_interfaces_gives_the_same_drops() {
    let Some(lan) = Lan::new("spoofed-record") else { return };
    for (host, address) in [(&lan.left, "10.0.0.10"), (&lan.right, "10.0.0.200"), (&lan.right, "10.0.0.66")] {
        host.ip(&format!("addr add {address}/24 dev eth0"));
    }
    let (doors, record) = (chain(&lan.folder, "doors.toml", ""), lan.folder.file("in.pcapng"));
    let run = lan.start(&[&doors, "--socket", "xdp", "--record", &record], &[]);
    assert!(!lan.right.run("ping", "-n -c 3 -i 0.2 -W 1 -I 10.0.0.66 10.0.0.10").status.success());
    assert!(lan.left.ping("10.0.0.200", 2), "who is inside reaches whom it asks");
    lan.ctl(&["stop"]);
    let report = run.ended();
    let again =
        json(&paceline(&["run", &doors, "--pcap", &record, "--inside-interface", "in", "--json", "-"]));
    assert_eq!(
        (spoofed(&report), &again["drops"], &again["verdicts"]),
        (3, &report["drops"], &report["verdicts"])
    );
}

#[test]
fn forged_sources_are_dropped_on_one_core() {
    forged_live("single", &["--socket", "xdp"]);
    forged_live("packet", &["--socket", "packet"]);
}

#[test]
fn forged_sources_are_dropped_by_several_cores() {
    forged_live("rss", &["--socket", "xdp", "--strategy", "rss", "--cores", "2"]);
    forged_live("front", &["--socket", "xdp", "--strategy", "rsspp", "--cores", "2", "--front"]);
    forged_live("turns", &[&["--socket", "xdp"], &IN_TURNS[..]].concat());
}

/// A router drops packets with its own source address before its chain sees them, and all others keep their numbers.
#[test]
fn packets_with_the_routers_own_source_are_dropped() {
    let Some(lan) = Lan::new("own-source") else { return };
    lan.routed();
    lan.right.ip("addr add 10.0.0.1/32 dev lo");
    lan.right.ip("route add 10.0.0.10/32 via 203.0.113.1");
    let chain = lan.folder.file("track.toml");
    let run = lan.start(&[chain.as_str(), "--mode", "route", "--socket", "xdp"], &[]);
    assert!(lan.left.ping("203.0.113.2", 1), "it routes");
    let forge = lan.right.run("ping", "-n -c 3 -i 0.2 -W 1 -I 10.0.0.1 10.0.0.10");
    assert!(!forge.status.success(), "nobody answers");
    assert!(lan.left.ping("203.0.113.2", 3), "it routes on");
    lan.ctl(&["stop"]);
    let report = run.ended();
    assert_eq!(number(&report["routing"]["dropped"]["own-source"]), 3, "{report:#}");
    adds_up(&report);
}
