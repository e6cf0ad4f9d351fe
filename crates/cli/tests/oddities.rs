//! What is odd about an input is said, in `run`, `verify` and `inspect`.

use std::process::Output;

use crate::support::{Scratch, json, paceline, stderr, stdout};

const EDGE: &str = "examples/edge.toml";

/// A UDP packet from 10.0.0.1 in an Ethernet frame.
fn udp() -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    frame.extend([0x10, 0x00, 0x00, 0x35, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// A UDP packet from the IPv4-mapped address of 10.0.0.1, in IPv6.
fn mapped() -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 12, 17, 64]);
    frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x10, 0x00, 0x00, 0x35, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// A frame with an EtherType, and IP behind what that announces.
fn framed(ethertype: u16, between: &[u8]) -> Vec<u8> {
    let mut frame = udp();
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame.splice(14..14, between.iter().copied());
    frame
}

/// A pcap of Ethernet frames with their seconds since 1970.
fn pcap(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes =
        b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\0\0\0\0\0\0\0\0\x00\x00\x04\x00\x01\x00\x00\x00".to_vec();
    for (seconds, frame) in packets {
        let len = frame.len() as u32;
        [*seconds, 0, len, len].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

/// A pcapng with an interface of each link type, and packets of them with their microseconds.
fn pcapng(links: &[u16], packets: &[(u32, u64)]) -> Vec<u8> {
    let mut bytes = block(0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff");
    for link in links {
        bytes.extend(block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat()));
    }
    let frame = udp();
    for (interface, micros) in packets {
        let len = frame.len() as u32;
        let fields = [*interface, (micros >> 32) as u32, *micros as u32, len, len];
        let head: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        bytes.extend(block(6, &[head, frame.clone()].concat()));
    }
    bytes
}

/// All three commands say it; gives what `run` printed.
fn all_say(name: &str, capture: &[u8], said: &str) -> String {
    let file = Scratch::new(name, capture);
    let run = ["run", EDGE, "--pcap", file.path()];
    let verify = ["verify", EDGE, "--pcap", file.path(), "--strategy", "rss", "--cores", "2"];
    for args in [&run[..], &verify, &["inspect", "--pcap", file.path()]] {
        let output = paceline(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}{}", stdout(&output), stderr(&output));
        assert!(unbroken(&output).contains(said), "{args:?}: {said}\n{}", stdout(&output));
        let report = json(&paceline(&[args, &["--json", "-"]].concat()));
        let oddities = report["oddities"].as_array().expect("a list");
        let is_there = oddities.iter().any(|oddity| oddity.as_str().expect("text").contains(said));
        assert!(is_there, "{args:?}: {oddities:?}");
    }
    unbroken(&paceline(&run))
}

/// What is printed, with sentences in one line.
fn unbroken(output: &Output) -> String {
    stdout(output).replace("\n  ", " ")
}

/// Linktype 105 is IEEE 802.11.
#[test]
fn packets_of_an_unsupported_link_are_skipped_and_counted() {
    let capture = pcapng(&[1, 105], &[(0, 1), (1, 2), (0, 3), (1, 4), (0, 5)]);
    let run = all_say(
        "skipped.pcapng",
        &capture,
        "2 packets were skipped: link type 105 (IEEE 802.11) is not supported",
    );
    assert!(run.starts_with("edge: 3 packets"), "{run}");
    let file = Scratch::new("skipped-json.pcapng", &capture);
    let report = json(&paceline(&["run", EDGE, "--pcap", file.path(), "--json", "-"]));
    assert_eq!(report["skipped"]["IEEE 802.11 (105)"], 2);
    // Commands whose reports are of something else say it beside them.
    let folder = crate::support::Folder::new("skipped");
    let sequence =
        paceline(&["sequence", EDGE, "--pcap", file.path(), "--cores", "2", "--out-dir", folder.path()]);
    assert!(stderr(&sequence).contains("2 packets were skipped"), "{}", stderr(&sequence));
}

#[test]
fn a_capture_of_unsupported_links_alone_is_refused() {
    let file = Scratch::new("unsupported.pcapng", &pcapng(&[105], &[(0, 1), (0, 2)]));
    for args in [["run", EDGE, "--pcap", file.path()], ["verify", EDGE, "--pcap", file.path()]] {
        let output = paceline(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("link type 105 (IEEE 802.11)"), "{}", stderr(&output));
    }
}

#[test]
fn stamps_past_2554_are_said_to_be() {
    let capture = pcapng(&[1], &[(0, 1), (0, u64::MAX), (0, u64::MAX - 1)]);
    all_say("late.pcapng", &capture, "2 packets are stamped later than the year 2554");
}

/// Several confirm each other: what comes after them counts as of their time, so that flows expire that are alive.
#[test]
fn stamps_far_in_the_future_are_named() {
    let times = [100, 101, 100_000_000, 100_000_001, 100_000_002, 102, 103];
    let capture = pcap(&times.map(|seconds| (seconds, udp())));
    let run =
        all_say("future.pcap", &capture, "packet 5 is stamped 99999900 s later than a packet behind it");
    assert!(run.contains("2 packets behind one like it count as of the later time"), "{run}");
    assert!(run.contains("`editcap IN OUT 5`"), "{run}");
}

#[test]
fn mapped_addresses_are_said_to_be_malformed() {
    let capture = pcap(&[(1, udp()), (2, mapped()), (3, mapped())]);
    all_say("mapped.pcap", &capture, "2 packets are counted as malformed for an IPv4-mapped address");
}

/// MPLS, PPPoE, LLC/SNAP, a provider backbone's tag, ARP: as the README says of what is not supported.
#[test]
fn captures_without_ip_are_said_to_be_and_pass() {
    let frames = [
        framed(0x8847, &[0, 0, 0x11, 64]),
        framed(0x8864, &[0x11, 0, 0, 1, 0, 34, 0, 0x21]),
        framed(40, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        framed(0x88e7, &[0; 18]),
        framed(0x0806, &[]),
    ];
    let capture = pcap(&frames.map(|frame| (1, frame)));
    let run = all_say("no-ip.pcap", &capture, "no packet is IP: no function had any to work on");
    assert!(run.contains("Verdicts: forward 5 (100.0%)"), "{run}");
    let file = Scratch::new("no-ip-json.pcap", &capture);
    let report = json(&paceline(&["inspect", "--pcap", file.path(), "--json", "-"]));
    assert_eq!((&report["protocols"]["not_ip"], &report["protocols"]["malformed"]), (&5.into(), &0.into()));
}

#[test]
fn an_ordinary_capture_has_nothing_odd() {
    let file = Scratch::new("ordinary.pcap", &pcap(&[(1, udp()), (2, udp())]));
    for command in [&["run", EDGE][..], &["verify", EDGE], &["inspect"]] {
        let args = [command, &["--pcap", file.path(), "--json", "-"]].concat();
        assert_eq!(json(&paceline(&args))["oddities"], serde_json::json!([]), "{args:?}");
    }
}

#[test]
fn when_every_packet_is_lost_that_is_said() {
    let external = ["--strategy", "scr", "--cores", "2", "--sequencer", "external", "--loss", "1"];
    let chain = ["examples/perimeter.toml", "--pcap", "captures/edge.pcap"];
    let run = paceline(&[&["run"], &chain[..], &external].concat());
    assert!(stdout(&run).contains("every packet was lost on the way, as --loss asks"), "{}", stdout(&run));
    let verify = paceline(&[&["verify"], &chain[..], &external].concat());
    assert_eq!(verify.status.code(), Some(3), "{}{}", stdout(&verify), stderr(&verify));
    let said = "nothing to compare: every packet was lost on the way, as --loss asks";
    assert!(stdout(&verify).contains(said), "{}", stdout(&verify));
}

/// Hosts with even ports use up those of a core's share; what was counted of it is no difference.
#[test]
fn a_nat_that_gives_out_ports_of_another_parity_than_one_core_equals_it() {
    let chain = b"[[function]]\nuse = \"nat\"\nexternal = [\"203.0.113.1\"]\nports = [50000, 50999]\n";
    let chain = Scratch::new("parity.toml", chain);
    let hosts = (0..60_u32).map(|number| {
        let mut frame = udp();
        frame[29] = 1 + (number % 10) as u8;
        frame[34..36].copy_from_slice(&(32_768 + 2 * (number / 10) as u16).to_be_bytes());
        (number, frame)
    });
    let capture = Scratch::new("parity.pcap", &pcap(&hosts.collect::<Vec<_>>()));
    let verify = ["verify", chain.path(), "--pcap", capture.path(), "--strategy", "rsspp", "--cores", "4"];
    let output = paceline(&verify);
    let text = stdout(&output);
    assert!(text.contains("EQUALS single up to allocation by `nat`"), "{text}{}", stderr(&output));
    assert!(text.contains("note: nat counted parity-lost 0 times under single and "), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let report = json(&paceline(&[&verify[..], &["--json", "-"]].concat()));
    let [event] = &report["allocation_events"].as_array().expect("a list")[..] else { panic!("{report}") };
    assert_eq!((&event["event"], &event["single"]), (&"parity-lost".into(), &0.into()));
    assert!(event["other"].as_u64() > Some(0), "{report}");
}

/// Four ports for 60 hosts: which of them get one depends on how cores share the ports.
#[test]
fn a_nat_that_ran_out_of_ports_is_named() {
    let chain = b"[[function]]\nuse = \"nat\"\nexternal = [\"203.0.113.1\"]\nports = [2000, 2003]\n";
    let chain = Scratch::new("few-ports.toml", chain);
    let hosts = (0..240_u32).map(|number| {
        let mut frame = udp();
        frame[29] = (number % 60) as u8;
        (number, frame)
    });
    let capture = Scratch::new("few-ports.pcap", &pcap(&hosts.collect::<Vec<_>>()));
    for (strategy, said) in [
        ("rss", "nat ran out of ports at some time; single turned away what it turned away"),
        ("scr", "nat ran out of ports at some time; what it turned away was held to be the same"),
        ("scr-turns", "nat ran out of ports at some time; what it turned away was held to be the same"),
    ] {
        let verify =
            ["verify", chain.path(), "--pcap", capture.path(), "--strategy", strategy, "--cores", "5"];
        let output = paceline(&verify);
        assert!(stdout(&output).contains(said), "{strategy}: {}{}", stdout(&output), stderr(&output));
        let report = json(&paceline(&[&verify[..], &["--json", "-"]].concat()));
        assert_eq!(report["exhausted"], serde_json::json!(["nat"]), "{strategy}");
        assert_eq!(report["filled"], serde_json::json!([]), "{strategy}");
    }
}

/// One stamp in the year 2096 does not stop the time of a limiter: of 20 packets within a second it lets its burst of 3 pass.
#[test]
fn one_stamp_far_in_the_future_is_held() {
    let folder = crate::support::Folder::new("leap");
    let chain = folder.file("limit.toml");
    let text = "checksums = \"ignore\"\n[[function]]\nuse = \"rate-limiter\"\nrate_packets_per_s = 1\nburst_packets = 3\n";
    std::fs::write(&chain, text).expect("a folder of the test");
    for at in [0, 1, 5, 18, 19] {
        let times = (0..20).map(|number| {
            (0, if number == at { 4_000_000_000_000_000 } else { 1_000_000 + 10_000 * number })
        });
        let file = Scratch::new(&format!("leap-{at}.pcapng"), &pcapng(&[1], &times.collect::<Vec<_>>()));
        let run = ["run", &chain, "--pcap", file.path(), "--json", "-"];
        let report = json(&paceline(&run));
        // Behind the last packet none contradicts it.
        let (forwarded, is_held) = if at == 19 { (4, false) } else { (3, true) };
        assert_eq!(report["verdicts"]["forward"], forwarded, "{at}: {report:#}");
        let oddities = report["oddities"].to_string();
        let said = format!(
            "1 packet is stamped more than a second ahead of those before and behind, packet {}",
            at + 1
        );
        assert_eq!(oddities.contains(&said), is_held, "{oddities}");
        for strategy in ["rss", "scr"] {
            let verify = ["verify", &chain, "--pcap", file.path(), "--strategy", strategy, "--cores", "2"];
            assert_eq!(paceline(&verify).status.code(), Some(0), "{strategy}");
        }
        let inspected = json(&paceline(&["inspect", "--pcap", file.path(), "--json", "-"]));
        assert_eq!(inspected["oddities"].to_string().contains(&said), is_held);
    }
}

/// What a capture claims to have behind a packet's end is left out, as tshark does, and said.
#[test]
fn a_captured_length_above_the_packets_is_cut_and_said() {
    let mut capture = pcap(&[(1, [udp(), vec![0; 4]].concat()), (2, udp())]);
    capture[24 + 12..24 + 16].copy_from_slice(&(udp().len() as u32).to_le_bytes());
    all_say("caplen.pcap", &capture, "of 1 packet the capture has more bytes than were on the wire");
    let file = Scratch::new("caplen-bytes.pcap", &capture);
    let inspected = json(&paceline(&["inspect", "--pcap", file.path(), "--json", "-"]));
    assert_eq!(inspected["bytes"], 2 * udp().len());
}
