//! `verify --answer`: what goes out is answered in the endpoints of each run.

use crate::support::{Scratch, json, paceline, stderr, stdout};

const NAT: &str = "name = \"small\"\nseed = 1\n[[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/8\"]\n\
                   external = [\"203.0.113.1\"]\nports = [2000, 8191]\n";

/// UDP without a checksum in an Ethernet frame.
fn udp(src: [u8; 4], src_port: u16, dst: [u8; 4], dst_port: u16) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([src, dst].concat());
    frame.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// TCP without a checksum: a segment without payload.
fn tcp(src: [u8; 4], src_port: u16, dst: [u8; 4], dst_port: u16, [seq, ack, flags]: [u32; 3]) -> Vec<u8> {
    let mut frame = udp(src, src_port, dst, dst_port);
    (frame[17], frame[23]) = (40, 6);
    frame.truncate(38);
    frame.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    frame.extend([0x50, flags as u8, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

/// Six inside endpoints send, and hosts outside send to every external port: so it was recorded.
fn capture() -> Vec<u8> {
    let inside = (0..60).map(|number| udp([10, 0, 0, 1 + number % 6], 5_000, [192, 0, 2, 9], 53));
    let outside = (2_000..8_192).map(|port| udp([192, 0, 2, 9], 53, [203, 0, 113, 1], port));
    pcap(inside.chain(outside))
}

/// Twenty connections open, and a host outside refuses those that have one of the lower ports: others in each run. Then
/// all go on.
fn refused() -> Vec<u8> {
    let peer = ([192, 0, 2, 9], 80);
    let all = |flags: [u32; 3]| (1..=20).map(move |host| tcp([10, 0, 0, host], 5_000, peer.0, peer.1, flags));
    let refusals = (2_000..3_500).map(|port| tcp(peer.0, peer.1, [203, 0, 113, 1], port, [0, 8, 0x14]));
    pcap(all([7, 0, 2]).chain(refusals).chain(all([8, 1, 0x10])))
}

fn pcap(frames: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes =
        b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\0\0\0\0\0\0\0\0\x00\x00\x04\x00\x01\x00\x00\x00".to_vec();
    for (number, frame) in frames.enumerate() {
        let len = frame.len() as u32;
        [1, 100 * number as u32, len, len].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn nothing_is_judged_alone_where_each_run_is_answered() {
    let (chain, pcap) =
        (Scratch::new("answers.toml", NAT.as_bytes()), Scratch::new("answers.pcap", &capture()));
    for strategy in ["rss", "rsspp", "dyssect", "scr"] {
        let verify = |more: &[&str]| {
            let command =
                ["verify", chain.path(), "--pcap", pcap.path(), "--strategy", strategy, "--cores", "3"];
            paceline(&[&command, more].concat())
        };
        let recorded = json(&verify(&["--json", "-"]));
        let alone = recorded["judged"][0]["alone"].as_u64();
        assert!(alone > Some(0) || strategy != "rss", "{strategy}: {alone:?}");
        assert!(recorded["answered"].is_null());

        let answered = verify(&["--answer", "--json", "-"]);
        assert_eq!(answered.status.code(), Some(0), "{}{}", stdout(&answered), stderr(&answered));
        let answered = json(&answered);
        let counted = &answered["answered"];
        // Of 60 packets every eighth is complained of, too.
        assert_eq!(
            [&counted["answered"], &counted["unsent"], &counted["left_out"]],
            [68, 0, 6_192],
            "{counted}"
        );
        assert_eq!(answered["packets"], 60 + 68);
        assert_eq!([&answered["judged"][0]["alone"], &answered["different"]], [0, 0]);
        assert_eq!(answered["exact"], true, "{strategy}: {answered}");

        let text = stdout(&verify(&["--answer", "--simulate", "7"]));
        let line = "answered: 68 answers to what went out, as each run sent it; 6,192 packets of the capture left out, \
                    which answered another run";
        assert!(text.contains(line), "{text}");
    }
}

/// Functions inside of the NAT see what each run let in. That is no difference, and it is said.
#[test]
fn what_packets_judged_alone_did_to_others_is_named() {
    let (name, nat) = NAT.split_at(NAT.find("[[").expect("a function"));
    for (function, bytes) in [("flow-statistics", capture()), ("conntrack", refused())] {
        let text = format!("{name}[[function]]\nuse = \"{function}\"\n{nat}");
        let chain = Scratch::new(&format!("alone-{function}.toml"), text.as_bytes());
        let pcap = Scratch::new(&format!("alone-{function}.pcap"), &bytes);
        let command = ["verify", chain.path(), "--pcap", pcap.path(), "--cores", "3"];
        let verify = paceline(&command);
        assert_eq!(verify.status.code(), Some(0), "{}{}", stdout(&verify), stderr(&verify));
        let note = format!("the state of {function} is not compared");
        assert!(stdout(&verify).contains(&note), "{}", stdout(&verify));
        let report = json(&paceline(&[&command[..], &["--json", "-"]].concat()));
        assert_eq!(report["uncompared"][0], function);
        assert_eq!([&report["exact"], &report["holds"]], [false, true]);
        assert_eq!(report["judged"][0]["touched"].as_u64() > Some(0), function == "conntrack", "{report}");

        let answered = json(&paceline(&[&command[..], &["--answer", "--json", "-"]].concat()));
        assert_eq!([&answered["exact"], &answered["holds"]], [true, true], "{answered}");
        assert!(answered["uncompared"].as_array().is_some_and(Vec::is_empty));
    }
}

/// Handshakes go on, since answers begin and go on with the numbers that the sender acknowledges.
#[test]
fn a_tracker_before_the_nat_follows_what_is_answered() {
    let pcap = ["--pcap", "captures/edge.pcap"];
    let (name, nat) = NAT.split_at(NAT.find("[[").expect("a function"));
    let tracked =
        format!("{name}[[function]]\nuse = \"conntrack\"\n{nat}").replace("10.0.0.0/8", "192.0.2.0/26");
    let chain = Scratch::new("answers-tracked.toml", tracked.as_bytes());
    let gateway = ["--pcap", "captures/gateway.pcap"];
    for (chain, pcap, least) in
        [(chain.path(), pcap, 500), ("examples/nat.toml", pcap, 500), ("examples/gateway.toml", gateway, 400)]
    {
        let command = [&["verify", chain, "--answer", "--cores", "3", "--json", "-"][..], &pcap].concat();
        let verify = paceline(&command);
        assert_eq!(verify.status.code(), Some(0), "{}{}", stdout(&verify), stderr(&verify));
        let report = json(&verify);
        assert!(report["answered"]["answered"].as_u64() > Some(least), "{chain}: {}", report["answered"]);
        assert_eq!(report["judged"][0]["alone"], 0);
    }
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let pcap = ["--pcap", "captures/edge.pcap", "--answer", "--cores", "2"];
    let refused = |more: &[&str], why: &str| {
        let verify = paceline(&[&["verify"], more, &pcap].concat());
        assert_eq!(verify.status.code(), Some(2), "{}", stdout(&verify));
        assert!(stderr(&verify).contains(why), "{}", stderr(&verify));
    };
    refused(&["examples/edge.toml"], "no function of the chain gives external endpoints out");
    refused(&["examples/nat.toml", "--strategy", "shared"], "all cores share its states");
    refused(&["examples/nat.toml", "--cores-at", "100=1"], "--answer is for");
    refused(&["examples/nat.toml", "--strategy", "scr", "--sequencer", "external"], "--answer is for");
}

/// Three clients talk to a service of two backends, which take turns, and the recorded answers are of one that has none of the flows.
#[test]
fn backends_are_answered_for_too() {
    const BALANCER: &str = "name = \"turns\"\n[[function]]\nuse = \"load-balancer\"\npolicy = \"round-robin\"\n\
                            rewrite_answers = true\n[[function.services]]\nvip = \"192.0.2.80\"\nport = 53\n\
                            protocol = \"udp\"\nbackends = [{ address = \"10.9.0.1\" }, { address = \"10.9.0.2\" }, \
                            { address = \"10.9.0.3\", state = \"drain\" }]\n";
    let asks = |number: u8| udp([198, 51, 100, 1 + number % 3], 5_000, [192, 0, 2, 80], 53);
    let answers = |number: u8| udp([10, 9, 0, 3], 53, [198, 51, 100, 1 + number % 3], 5_000);
    let frames = (0..60).flat_map(|number| [asks(number), answers(number)]);
    let (chain, pcap) =
        (Scratch::new("turns.toml", BALANCER.as_bytes()), Scratch::new("turns.pcap", &pcap(frames)));
    for strategy in ["rss", "rsspp", "dyssect", "scr"] {
        let verify = |more: &[&str]| {
            let command =
                ["verify", chain.path(), "--pcap", pcap.path(), "--strategy", strategy, "--cores", "3"];
            paceline(&[&command, more].concat())
        };
        let recorded = verify(&["--json", "-"]);
        assert_eq!(recorded.status.code(), Some(0), "{}{}", stdout(&recorded), stderr(&recorded));
        assert!(json(&recorded)["judged"][0]["not_judged"].is_null());
        let answered = verify(&["--answer", "--json", "-"]);
        assert_eq!(answered.status.code(), Some(0), "{}{}", stdout(&answered), stderr(&answered));
        let counted = &json(&answered)["answered"];
        assert_eq!(
            [&counted["answered"], &counted["unsent"], &counted["left_out"]],
            [68, 0, 60],
            "{counted}"
        );
    }
    let beside = BALANCER.replacen("[[function]]", "[[function]]\nuse = \"conntrack\"\n[[function]]", 1);
    let chain = Scratch::new("beside.toml", beside.as_bytes());
    let refused =
        paceline(&["verify", chain.path(), "--pcap", pcap.path(), "--answer", "--strategy", "rsspp"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stdout(&refused));
    assert!(stderr(&refused).contains("other functions of the chain would see"), "{}", stderr(&refused));
}
