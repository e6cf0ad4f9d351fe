//! `paceline sequence`, and `run` and `verify` over what it writes, as a user meets them.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::support::{Folder, by_line, json, paceline, root, stderr, stdout};

const CHAIN: &str = "examples/perimeter.toml";
const CAPTURE: &str = "captures/edge.pcap";

fn sequence(folder: &Folder, cores: &str, more: &[&str]) -> Output {
    sequence_for(CHAIN, folder, cores, more)
}

fn sequence_for(chain: &str, folder: &Folder, cores: &str, more: &[&str]) -> Output {
    let args = ["sequence", chain, "--pcap", CAPTURE, "--cores", cores, "--out-dir", folder.path()];
    paceline(&[&args, more].concat())
}

fn external(command: &str, folder: &Folder, more: &[&str]) -> Output {
    external_with(CHAIN, command, folder, more)
}

fn external_with(chain: &str, command: &str, folder: &Folder, more: &[&str]) -> Output {
    let args = [command, chain, "--pcap-dir", folder.path(), "--strategy", "scr", "--sequencer", "external"];
    paceline(&[&args, more].concat())
}

fn packets(path: &str) -> u64 {
    let inspect = paceline(&["inspect", "--pcap", path, "--json", "-"]);
    json(&inspect)["packets"].as_u64().expect("a count")
}

#[test]
fn a_capture_is_sequenced_and_runs_as_on_one_core() {
    // In the first a function edits what a later one reads.
    a_capture_is_sequenced_and_runs("examples/two-rates.toml", &[], 1);
    a_capture_is_sequenced_and_runs("examples/stats-limiter.toml", &[], 2);
    a_capture_is_sequenced_and_runs("examples/stats-limiter.toml", &["--history-version", "1"], 1);
}

/// With history of this version.
fn a_capture_is_sequenced_and_runs(chain: &str, asked: &[&str], version: u64) {
    let folder = Folder::absent(&format!("runs-{version}"));
    let written = json(&sequence_for(chain, &folder, "3", &[&["--json", "-"], asked].concat()));
    assert_eq!(written["history_version"], version);
    assert_eq!(
        (&written["packets"], &written["ring_items"], &written["complete"]),
        (&5_432.into(), &2.into(), &true.into())
    );
    let header = if version == 2 { 48 } else { 40 };
    let prefix = header + 2 * written["item_bytes"].as_u64().expect("a number");
    assert_eq!(written["prefix_bytes"], prefix);
    assert_eq!(folder.names(), ["core-00.pcap", "core-01.pcap", "core-02.pcap"]);
    // A flush behind each core's packets.
    assert_eq!(packets(&folder.file("core-02.pcap")), 1_810 + 1);

    let outs = Folder::absent(&format!("runs-out-{version}"));
    fs::create_dir(outs.path()).expect("a folder");
    let [single, many] = ["single.pcap", "many.pcap"].map(|name| outs.file(name));
    let single_run = paceline(&["run", chain, "--pcap", CAPTURE, "--out", &single, "--json", "-"]);
    let many_run = external_with(chain, "run", &folder, &["--out", &many, "--json", "-"]);
    assert!(many_run.status.success(), "{}", stderr(&many_run));
    assert_eq!(
        fs::read(single).expect("written"),
        fs::read(many).expect("written"),
        "bytes, times and order"
    );
    let (single_run, many_run) = (json(&single_run), json(&many_run));
    for name in ["packets", "bytes", "verdicts", "drops", "malformed", "digest"] {
        assert_eq!(single_run[name], many_run[name], "{name}");
    }
    assert_eq!(many_run["history"]["cores"].as_array().map(Vec::len), Some(3));
    assert!(single_run["history"].is_null());

    let verify = external_with(chain, "verify", &folder, &[]);
    assert!(
        verify.status.success() && stdout(&verify).contains("scr on 3 cores EQUALS single"),
        "{}",
        stdout(&verify)
    );
}

/// By default as `run` over the capture: the sequencer decides whether checksums count, and files say which are wrong.
#[test]
fn wrong_checksums_are_the_sequencers_to_find() {
    let (folder, made) = (Folder::absent("checksums"), Folder::new("checksums-made"));
    let (chain, capture) = (made.file("track.toml"), made.file("wrong.pcap"));
    let text = "[[function]]\nuse = \"conntrack\"\n";
    fs::write(&chain, text).expect("a folder of the test");
    let mut bytes = fs::read(root().join(CAPTURE)).expect("the capture");
    let (mut at, mut number) = (24, 0);
    while at < bytes.len() {
        let len = u32::from_le_bytes([8, 9, 10, 11].map(|byte| bytes[at + byte])) as usize;
        number += 1;
        if number % 7 == 0 {
            // The checksum of IPv4's header, or a byte of IPv6's addresses.
            bytes[at + 16 + 24] ^= 0x55;
        }
        at += 16 + len;
    }
    fs::write(&capture, bytes).expect("a folder of the test");
    let once = json(&paceline(&["run", &chain, "--pcap", &capture, "--json", "-"]));
    assert_eq!(once["checksums"]["verified"], true);
    assert!(once["checksums"]["refused"].as_u64() > Some(600), "{}", once["checksums"]);
    let to = ["--cores", "3", "--out-dir", folder.path()];
    let said = stdout(&paceline(&[&["sequence", &chain, "--pcap", &capture], &to[..]].concat()));
    assert!(said.contains("checksums: verified (of the first 3996, 85.7% are right)"), "{said}");
    for checksums in ["", "checksums = \"verify\"\n", "checksums = \"ignore\"\n"] {
        fs::write(&chain, format!("{checksums}{text}")).expect("a folder of the test");
        let run = json(&external_with(&chain, "run", &folder, &["--json", "-"]));
        for name in ["packets", "verdicts", "drops", "malformed", "digest"] {
            assert_eq!(run[name], once[name], "{name} with {checksums:?}");
        }
        assert_eq!(run["checksums"]["decided_by"], "sequencer");
        let said = stdout(&external_with(&chain, "run", &folder, &[]));
        let why = "checksums: not verified (the sequencer decides, and says which are wrong)\n";
        assert!(said.contains(why), "{said}");
        let verify = external_with(&chain, "verify", &folder, &[]);
        assert!(stdout(&verify).contains("scr on 3 cores EQUALS single"), "{}", stdout(&verify));
    }
}

#[test]
fn an_ethernet_header_may_go_before() {
    let (plain, ethernet) = (Folder::absent("plain"), Folder::absent("ethernet"));
    // One seed, so that the files are alike.
    let seed = ["--json", "-", "--table-seed", "7"];
    let [without, with] =
        [sequence(&plain, "2", &seed), sequence(&ethernet, "2", &[&seed[..], &["--ethernet"]].concat())];
    let prefix = |output| json(output)["prefix_bytes"].as_u64().expect("a number");
    assert_eq!(prefix(&with), prefix(&without) + 14);
    let first = |folder: &Folder| fs::read(folder.file("core-01.pcap")).expect("written")[24 + 16..].to_vec();
    let (with, without) = (first(&ethernet), first(&plain));
    assert_eq!(with[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0xff, 0xff, 0x88, 0xb5]);
    assert_eq!(with[14..200], without[..186]);
    let [with, without] =
        [&ethernet, &plain].map(|folder| json(&external("verify", folder, &["--json", "-"])));
    assert_eq!(with["holds"], true);
    assert_eq!(with["digests"], without["digests"]);
}

#[test]
fn losses_are_recovered_or_told() {
    let folder = Folder::absent("losses");
    sequence(&folder, "3", &[]);
    let on = external("verify", &folder, &["--loss", "0.1", "--loss-seed", "4", "--json", "-"]);
    assert_eq!(on.status.code(), Some(0), "{}", stdout(&on));
    let on = json(&on);
    assert_eq!(
        (&on["holds"], &on["history"]["recovery"], &on["history"]["diverged"]),
        (&true.into(), &true.into(), &0.into())
    );
    assert!(on["history"]["lost"].as_u64() > Some(400) && on["history"]["lost_to_all"].as_u64() > Some(0));

    let off = external("verify", &folder, &["--loss", "0.1", "--loss-seed", "4", "--recovery", "off"]);
    assert_eq!(off.status.code(), Some(1));
    assert!(
        stdout(&off).contains("REPLICAS DIVERGED") && stdout(&off).contains("DIFFERS FROM single"),
        "{}",
        stdout(&off)
    );
    let run = external("run", &folder, &["--loss", "0.1", "--recovery", "off"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(stdout(&run).contains("cores missed packets and went on without them"), "{}", stdout(&run));

    // Without files.
    let args =
        ["verify", CHAIN, "--pcap", CAPTURE, "--strategy", "scr", "--sequencer", "external", "--cores", "3"];
    let on_the_way =
        json(&paceline(&[&args[..], &["--loss", "0.1", "--loss-seed", "4", "--json", "-"]].concat()));
    assert_eq!(on_the_way["digests"], on["digests"]);
}

#[test]
fn bad_histories_are_in_the_report() {
    let folder = Folder::absent("bad");
    sequence(&folder, "2", &[]);
    let path = folder.file("core-01.pcap");
    let mut bytes = fs::read(&path).expect("written");
    bytes[24 + 16] = b'X';
    fs::write(&path, bytes).expect("a file");
    let report = json(&external("run", &folder, &["--json", "-"]));
    assert_eq!(report["history"]["rejected"], serde_json::json!({ "not-history": 1 }));
    assert_eq!(report["packets"], 5_431);
    let verify = external("verify", &folder, &[]);
    assert!(verify.status.success() && stdout(&verify).contains("not-history"), "{}", stdout(&verify));

    // Sequenced for other functions.
    let args =
        ["examples/knock.toml", "--pcap-dir", folder.path(), "--strategy", "scr", "--sequencer", "external"];
    let run = paceline(&[&["run"], &args[..]].concat());
    assert!(
        stdout(&run).contains("every packet was dropped for its history")
            && stdout(&run).contains("other-layout")
    );
    let said = "no packet was taken: all were dropped for their history, 1 for `not-history`, 5433 for `other-layout`";
    assert_eq!((run.status.code(), stderr(&run).contains(said)), (Some(3), true), "{}", stderr(&run));
    let verify = paceline(&[&["verify"], &args[..]].concat());
    assert_eq!(verify.status.code(), Some(3), "{}", stdout(&verify));
    let said = "nothing to compare: every packet was dropped for its history";
    assert!(stdout(&verify).contains(said), "{}", stdout(&verify));
}

#[test]
fn an_input_that_is_cut_leaves_partial_files_and_older_ones_alone() {
    let folder = Folder::absent("cut");
    sequence(&folder, "2", &[]);
    let before = fs::read(folder.file("core-00.pcap")).expect("written");
    let inputs = Folder::absent("cut-in");
    fs::create_dir(inputs.path()).expect("a folder");
    let cut = inputs.file("cut.pcap");
    let whole =
        fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(CAPTURE)).expect("a capture");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let output =
        by_line(&format!("sequence {CHAIN} --pcap {} --cores 2 --out-dir {} --json -", cut, folder.path()));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(json(&output)["complete"], false);
    assert_eq!(
        folder.names(),
        ["core-00.pcap", "core-00.pcap.partial", "core-01.pcap", "core-01.pcap.partial"]
    );
    assert_eq!(fs::read(folder.file("core-00.pcap")).expect("there"), before);
    assert_eq!(json(&output)["files"][1]["packets"], packets(&folder.file("core-01.pcap.partial")));

    // The same of the cores' own files.
    let file = folder.file("core-01.pcap");
    let bytes = fs::read(&file).expect("written");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("a file");
    let run = external("run", &folder, &[]);
    assert_eq!(run.status.code(), Some(4));
    assert!(stdout(&run).contains("INCOMPLETE") && stderr(&run).contains("core-01.pcap"), "{}", stderr(&run));
}

#[test]
fn wrong_usage_is_explained() {
    let folder = Folder::absent("usage");
    let told = |output: Output, part: &str| {
        assert_eq!(output.status.code(), Some(2), "{part}: {}{}", stdout(&output), stderr(&output));
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    };
    told(external("run", &folder, &[]), "cannot read the folder");
    fs::create_dir(folder.path()).expect("a folder");
    told(external("run", &folder, &[]), "`paceline sequence` writes them");
    told(sequence(&folder, "0", &[]), "1 to");
    told(sequence(&folder, "65", &[]), "at most 64 cores");
    assert_eq!(sequence(&folder, "3", &[]).status.code(), Some(0));
    told(sequence(&folder, "2", &[]), "is of an earlier run");
    let own = folder.file("core-00.pcap");
    told(
        paceline(&["sequence", CHAIN, "--pcap", &own, "--cores", "3", "--out-dir", folder.path()]),
        "would overwrite",
    );
    told(external("verify", &folder, &["--cores", "2"]), "the folder has the packets of 3 cores");
    fs::remove_file(folder.file("core-01.pcap")).expect("a file");
    told(external("verify", &folder, &[]), "core-01.pcap, and there are files of later cores");
    fs::rename(folder.file("core-02.pcap"), folder.file("core-01.pcap")).expect("a file");
    told(external("verify", &folder, &[]), "sequenced for 3 cores, and there are files for 2");
    told(
        paceline(&["verify", CHAIN, "--pcap", CAPTURE, "--loss", "0.1"]),
        "for packets that come with their history",
    );
    told(
        paceline(&["verify", CHAIN, "--pcap", CAPTURE, "--sequencer", "external"]),
        "or use `--strategy scr`",
    );
    told(
        paceline(&["verify", CHAIN, "--pcap", CAPTURE, "--loss", "2"]),
        "a share of packets is a number from 0 to 1",
    );
    told(paceline(&["verify", CHAIN, "--strategy", "scr"]), "--pcap");
    told(external("verify", &folder, &["--history-version", "1"]), "files say themselves");
    // Behind a NAT nobody but the NAT knows what is read.
    let nat = ["examples/nat.toml", "--pcap", CAPTURE, "--cores", "2", "--history-version", "2"];
    let folder = Folder::absent("usage-nat");
    told(
        paceline(&[&["sequence"], &nat[..], &["--out-dir", folder.path()]].concat()),
        "no history of version 2",
    );
    let external = ["--strategy", "scr", "--sequencer", "external"];
    told(paceline(&[&["verify"], &nat[..], &external[..]].concat()), "no history of version 2");
}

/// The packets of a pcap file.
fn frames(path: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("it was written");
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let len = u32::from_le_bytes([8, 9, 10, 11].map(|byte| bytes[at + byte])) as usize;
        frames.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// The capture with times in whole microseconds: a switch's clock has no finer ones.
fn in_microseconds() -> Vec<u8> {
    let mut bytes = fs::read(root().join(CAPTURE)).expect("the capture");
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "nanoseconds");
    bytes[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    let mut at = 24;
    while at < bytes.len() {
        let number = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[from + byte]));
        let (fraction, len) = (number(at + 4) / 1000, number(at + 8) as usize);
        bytes[at + 4..at + 8].copy_from_slice(&fraction.to_le_bytes());
        at += 16 + len;
    }
    bytes
}

/// A program's packets have history of version 3, and its sequencer for a switch, run by the interpreter, sends the same bytes.
#[test]
fn a_program_in_p4_is_sequenced_and_so_by_a_switch() {
    const PROGRAM: &str = "examples/p4/scr/connection_tracker.p4";
    let (folder, made) = (Folder::absent("program"), Folder::new("program-switch"));
    let capture = made.file("microseconds.pcap");
    fs::write(&capture, in_microseconds()).expect("a folder of the test");
    let sequenced = ["sequence", PROGRAM, "--pcap", &capture, "--cores", "3", "--out-dir", folder.path()];
    let written = json(&paceline(&[&sequenced, &["--ethernet", "--json", "-"][..]].concat()));
    assert_eq!((&written["history_version"], &written["item_bytes"]), (&3.into(), &20.into()));
    assert_eq!((&written["packets"], &written["prefix_bytes"]), (&5_432.into(), &(14 + 48 + 2 * 20).into()));
    assert!(written["checksums"].is_null() && written["complete"] == true, "{written:#}");
    let cores: Vec<_> = (0..3).map(|core| frames(&folder.file(&format!("core-0{core}.pcap")))).collect();
    assert_eq!(cores[2].len(), 1_810 + 1, "and a flush");

    // The upper bits of the time, which a switch does not have.
    let first = u64::from_be_bytes(cores[0][0][14 + 16..14 + 24].try_into().expect("8 bytes"));
    let base = (first / (1000 << 48_u32) * (1000 << 48_u32)).to_string();
    let (switch, all) = (made.file("switch.p4"), made.file("all.pcap"));
    let asked =
        ["p4", "sequencer", PROGRAM, "--cores", "3", "--ethernet", "--base-ns", &base, "--out", &switch];
    let output = paceline(&asked);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = paceline(&["p4", "run", &switch, "--pcap", &capture, "--out", &all]);
    assert!(output.status.success(), "{}", stderr(&output));
    let sent = frames(&all);
    assert_eq!(sent.len(), 5_432);
    for (number, frame) in sent.iter().enumerate() {
        assert_eq!(*frame, cores[number % 3][number / 3], "packet {number}");
    }
}

#[test]
fn options_of_chains_and_of_programs_are_told_apart() {
    let folder = Folder::absent("told-apart");
    for (what, options, why) in [
        ("examples/p4/scr/ddos.p4", ["--table-seed", "7"], "a program in P4 has version 3"),
        ("examples/p4/scr/ddos.p4", ["--history-version", "1"], "a program in P4 has version 3"),
        (CHAIN, ["--port", "1"], "packets of a chain have no ports"),
        ("examples/p4/mac_learning.p4", ["--port", "1"], "a multicast group"),
    ] {
        let refused = sequence_for(what, &folder, "2", &options);
        assert_eq!(refused.status.code(), Some(2), "{what}");
        assert!(stderr(&refused).contains(why), "{what}: {}", stderr(&refused));
    }
    let refused = paceline(&["p4", "sequencer", CHAIN, "--cores", "8"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("`paceline sequence` and `paceline rtl` sequence chains"),
        "{}",
        stderr(&refused)
    );
}
