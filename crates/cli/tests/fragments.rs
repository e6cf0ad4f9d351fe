//! `fragments` of the chain file, as a user meets it.

use crate::support::{Folder, Scratch, json, paceline, stderr, stdout};

/// A fragment of a UDP datagram of 48 bytes, in an Ethernet frame; IPv4, its header checksum right.
fn piece(offset: u16, has_more: bool, len: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend((20 + len).to_be_bytes());
    ip.extend([0, 7]);
    ip.extend(((offset / 8) | (u16::from(has_more) << 13)).to_be_bytes());
    ip.extend([64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend(ip);
    let data = if offset == 0 { vec![0x10, 0, 0, 0x35, 0, 48, 0, 0] } else { Vec::new() };
    frame.extend(data);
    frame.resize(34 + usize::from(len), 0);
    frame
}

/// Four fragments, of which the third overlaps, which takes the fourth with it.
fn capture() -> Vec<u8> {
    let frames = [piece(0, true, 16), piece(16, true, 16), piece(24, true, 16), piece(32, false, 16)];
    let mut bytes =
        b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\0\0\0\0\0\0\0\0\x00\x00\x04\x00\x01\x00\x00\x00".to_vec();
    for (seconds, frame) in (1..).zip(frames) {
        let len = frame.len() as u32;
        [seconds, 0, len, len].iter().for_each(|field: &u32| bytes.extend(field.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

fn chain(name: &str, fragments: &str) -> Scratch {
    let function = "[[function]]\nuse = \"policer\"\nrate_bytes_per_s = 1000000\n";
    Scratch::new(&format!("fragments-{name}.toml"), format!("{fragments}\n{function}").as_bytes())
}

#[test]
fn a_run_says_how_many_and_why() {
    let file = Scratch::new("fragments.pcap", &capture());
    let told = |setting: &str| {
        let chain = chain(setting, &format!("fragments = \"{setting}\""));
        let output = paceline(&["run", chain.path(), "--pcap", file.path()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = json(&paceline(&["run", chain.path(), "--pcap", file.path(), "--json", "-"]));
        (stdout(&output), report)
    };
    let (text, report) = told("track");
    assert!(text.contains("fragments: tracked, 2 malformed\n"), "{text}");
    assert!(text.contains("fragment-overlap"), "{text}");
    assert_eq!(report["fragments"], serde_json::json!({ "policy": "track", "refused": 2 }));
    assert_eq!(report["malformed"], serde_json::json!({ "fragment-overlap": 2 }));
    let (text, report) = told("drop");
    assert!(text.contains("fragments: all malformed (4 packets)\n"), "{text}");
    assert_eq!(report["malformed"], serde_json::json!({ "fragment": 4 }));
    let (text, report) = told("pass");
    assert!(!text.contains("fragments:"), "{text}");
    assert_eq!(report["fragments"], serde_json::json!({ "policy": "pass", "refused": 0 }));
}

#[test]
fn inspect_says_what_a_chain_would_refuse() {
    let file = Scratch::new("inspected.pcap", &capture());
    let text = stdout(&paceline(&["inspect", "--pcap", file.path()]));
    let said = "a chain with fragments = \"track\" finds 2 of 4 fragments malformed\n";
    assert!(text.contains(said), "{text}");
    let report = json(&paceline(&["inspect", "--pcap", file.path(), "--json", "-"]));
    assert_eq!(report["fragments"], serde_json::json!({ "fragment-overlap": 2 }));
}

/// A sequencer outside follows datagrams, and its files say what it refused.
#[test]
fn files_of_a_sequencer_say_what_it_refused() {
    let file = Scratch::new("sequenced.pcap", &capture());
    let chain = chain("sequenced", "fragments = \"track\"");
    let folder = Folder::new("fragments-sequenced");
    let args = ["sequence", chain.path(), "--pcap", file.path(), "--cores", "2", "--out-dir", folder.path()];
    assert_eq!(paceline(&args).status.code(), Some(0));
    let run = ["run", chain.path(), "--pcap-dir", folder.path(), "--strategy", "scr"];
    let output = paceline(&[&run[..], &["--sequencer", "external", "--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["malformed"], serde_json::json!({ "fragment-overlap": 2 }));
}

#[test]
fn mistakes_are_named() {
    let file = Scratch::new("mistaken.pcap", &capture());
    let word = chain("word", "fragments = \"reassemble\"");
    let output = paceline(&["run", word.path(), "--pcap", file.path()]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        ["`fragments`", "\"pass\"", "\"drop\"", "\"track\""].iter().all(|word| said.contains(word)),
        "{said}"
    );
    let below = "[[function]]\nuse = \"conntrack\"\nfragments = \"drop\"\n";
    let below = Scratch::new("fragments-below.toml", below.as_bytes());
    let output = paceline(&["run", below.path(), "--pcap", file.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is an option of the chain"), "{}", stderr(&output));
}
