//! Packets of a capture that come in by several ports, as a user meets it.

use crate::support::{Folder, json, paceline, stderr};

const FIREWALL: &str = "examples/p4/stateful_firewall.p4";
const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 1];
const STRANGER: [u8; 4] = [203, 0, 113, 9];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A pcap of Ethernet frames, a microsecond apart.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (frame, micros) in frames.iter().zip(0_u32..) {
        for word in [0, micros, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

/// TCP from one address to another, between the client's port 1000 and port 80.
fn tcp(from: [u8; 4], to: [u8; 4], flags: u8) -> Vec<u8> {
    let ports = if from == CLIENT { [1000_u16, 80] } else { [80, 1000] };
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    let mut header = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0];
    header.extend(from.into_iter().chain(to));
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame.extend(header);
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    frame
}

/// A connection that the client opens, and what a stranger sends to it: before, within, and behind.
fn connection() -> [Vec<u8>; 7] {
    [
        tcp(STRANGER, CLIENT, SYN),
        tcp(SERVER, CLIENT, SYN | ACK),
        tcp(CLIENT, SERVER, SYN),
        tcp(STRANGER, CLIENT, SYN | ACK),
        tcp(SERVER, CLIENT, SYN | ACK),
        tcp(CLIENT, SERVER, ACK),
        tcp(STRANGER, CLIENT, ACK),
    ]
}

/// The numbers of the frames of a connection that are in a pcap, in its order.
fn admitted(path: &str) -> Vec<usize> {
    let bytes = std::fs::read(path).expect("a capture");
    let connection = connection();
    let frames = bytes[24..].chunks(16 + connection[0].len());
    let number = |frame: &[u8]| connection.iter().rposition(|sent| *sent == frame[16..]);
    frames.map(|frame| number(frame).expect("a frame of the connection")).collect()
}

#[test]
fn a_firewall_tells_the_sides_apart() {
    let folder = Folder::new("sides");
    let (capture, out) = (folder.file("in.pcap"), folder.file("out.pcap"));
    std::fs::write(&capture, pcap(&connection())).expect("a capture");
    let run = |what: &[&str], ports: &[&str]| {
        let rest = ["--pcap", &capture, "--out", &out];
        let run = paceline(&[what, &[FIREWALL], &rest, ports].concat());
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        admitted(&out)
    };
    let inside_by_prefix = ["--port-of", "192.0.2.0/24=0", "--port", "1"];
    let outside_by_address = ["--port-of", "198.51.100.1=1", "--port-of", "203.0.113.0/24=1"];
    for ports in [inside_by_prefix, outside_by_address] {
        assert_eq!(run(&["p4", "run"], &ports), [2, 4, 5]);
        assert_eq!(run(&["emulate", "--check", "--when-full", "stall"], &ports), [2, 4, 5]);
    }
    // By one port nothing is outside, and nobody opens.
    assert!(run(&["p4", "run"], &["--port", "1"]).is_empty());
}

#[test]
fn a_switch_learns_by_which_port_stations_are() {
    let frame = |to: u8, from: u8| {
        let mut frame = vec![0x02, 0, 0, 0, 0, to, 0x02, 0, 0, 0, 0, from, 0x88, 0xb5];
        frame.resize(60, 0);
        frame
    };
    let folder = Folder::new("stations");
    let (capture, groups) = (folder.file("in.pcap"), folder.file("groups.stf"));
    std::fs::write(&capture, pcap(&[frame(2, 1), frame(1, 2), frame(2, 1)])).expect("a capture");
    std::fs::write(&groups, "multicast 1 0 1 2\n").expect("a test file");
    let switch = ["p4", "run", "examples/p4/mac_learning.p4", "--stf", &groups, "--json", "-"];
    let run = paceline(
        &[&switch[..], &["--pcap", &capture, "--port-of", "02:00:00:00:00:02=2", "--port", "1"]].concat(),
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    // The first is sent to both other ports, the answer and what follows to where the stations are.
    let found = json(&run);
    assert_eq!((found["packets"].as_u64(), found["packets_out"].as_u64()), (Some(3), Some(4)));
    let entries = found["state"]["mu_tables"][0]["entries"].as_array().expect("stations").iter();
    let learned: Vec<_> = entries.map(|entry| (&entry["keys"][0], &entry["values"][0])).collect();
    // The program keeps the port and one more, since 0 is no entry.
    let (first, second) = (&"0x20000000001".into(), &"0x20000000002".into());
    assert_eq!(learned, [(first, &"0x2".into()), (second, &"0x3".into())]);
}

#[test]
fn sources_that_make_no_sense_are_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&["--port-of", "192.0.2.1/24=0"], "write 192.0.2.0/24"),
        (&["--port-of", "192.0.2.0/24"], "'192.0.2.0/24' for '--port-of <SOURCE=PORT>': the port is missing"),
        (&["--port-of", "192.0.2.0/24=511"], "a number from 0 to 510"),
        (&["--port-of", "inside=0"], "neither a prefix nor an address"),
        (&["--port-of", "10.0.0.1=0", "--port-of", "10.0.0.1/32=1"], "--port-of 10.0.0.1/32=1: port 0 has"),
        (&["--port", "511"], "511 is not in 0..511"),
    ];
    for (ports, said) in cases {
        for what in [&["p4", "run"][..], &["emulate"]] {
            let run = paceline(&[what, &[FIREWALL, "--pcap", "captures/edge.pcap"], ports].concat());
            assert_eq!(run.status.code(), Some(2), "{what:?} {ports:?}");
            assert!(stderr(&run).contains(said), "{ports:?}: {}", stderr(&run));
        }
    }
    let without_packets = paceline(&["p4", "run", FIREWALL, "--stf", "x.stf", "--port-of", "10.0.0.1=0"]);
    assert!(stderr(&without_packets).contains("--pcap"), "{}", stderr(&without_packets));
    let synthetic = paceline(&["emulate", "synthetic", "--traffic", "uniform", "--port-of", "10.0.0.1=0"]);
    assert_eq!(synthetic.status.code(), Some(2));
    assert!(stderr(&synthetic).contains("no ports"), "{}", stderr(&synthetic));
}
