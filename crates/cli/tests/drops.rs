//! `paceline run --drops` and `--log`: dropped packets, with function, reason and rule.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use io::capture::{CaptureReader, CaptureWriter};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader};
use serde_json::Value;
use wire::LinkType;

use crate::support::{Folder, json, paceline, root, stderr, stdout};

/// The comments of a pcapng, as another program's reader finds them, each with the packet's bytes.
pub fn commented(path: &str) -> Vec<(String, Vec<u8>)> {
    let mut reader = PcapNGReader::new(1 << 20, File::open(path).expect("a file")).expect("a pcapng");
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok((len, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = &block {
                    let comment = packet.options.iter().find(|option| option.code == OptionCode::Comment);
                    let comment = comment.expect("a comment");
                    let text = &comment.value[..usize::from(comment.len)];
                    let text = String::from_utf8(text.to_vec()).expect("text");
                    packets.push((text, packet.data[..packet.caplen as usize].to_vec()));
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("a file"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// How many packets were dropped by each function for each reason, from comments.
pub fn counted(comments: &[(String, Vec<u8>)]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (comment, _) in comments {
        let (why, packet) = comment.split_once(" (packet ").expect("the packet's number");
        assert!(packet.trim_end_matches(')').parse::<u64>().is_ok_and(|packet| packet > 0), "{comment}");
        let why = match why.split_once("dropped by ") {
            Some((_, why)) => why.replace(": ", "/"),
            None => why.replace("dropped as malformed: ", "malformed/"),
        };
        *counts.entry(why).or_default() += 1;
    }
    counts
}

/// How many packets a report says were dropped, by reason.
pub fn reported(report: &Value) -> BTreeMap<String, u64> {
    let of = |field: &str, before: &str| {
        let counts = report[field].as_object().cloned().unwrap_or_default();
        let before = before.to_owned();
        counts
            .into_iter()
            .map(move |(name, count)| (format!("{before}{name}"), count.as_u64().expect("a number")))
    };
    of("drops", "").chain(of("malformed", "malformed/")).collect()
}

/// The recorded capture with every 40th packet's IP header damaged in one way or another.
fn damaged(folder: &Folder) -> String {
    let path = folder.file("damaged.pcap");
    let mut reader = CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture");
    let mut writer =
        CaptureWriter::create(Path::new(&path), LinkType::Ethernet).expect("a folder of the test");
    let mut number = 0;
    while let Some(record) = reader.next().expect("whole") {
        let mut data = record.data.to_vec();
        number += 1;
        if number % 40 == 0 {
            match number / 40 % 4 {
                0 => data[14] = 0xf5,
                1 => data[24] ^= 0x55,
                2 => data.truncate(20),
                _ => data[16] = 0xff,
            }
        }
        let wire_len = if data.len() == record.data.len() { record.wire_len } else { data.len() as u32 };
        writer.write(record.time_ns, wire_len, &data).expect("there is room");
    }
    writer.finish().expect("there is room");
    path
}

#[test]
fn every_dropped_packet_is_there_with_its_function_and_reason() {
    let folder = Folder::new("drops");
    let full = folder.file("full.toml");
    fs::write(&full, "[[function]]\nuse = \"conntrack\"\nflows = 8\ntable_full = \"reject\"\n")
        .expect("a folder of the test");
    let (damaged, drops) = (damaged(&folder), folder.file("drops.pcapng"));
    let (mut kinds, mut malformed) = (0, 0);
    for chain in ["examples/edge.toml", "examples/gateway.toml", "examples/acl.toml", &full] {
        for (strategy, cores) in [("single", "1"), ("rss", "2"), ("scr", "3")] {
            let args =
                ["run", chain, "--pcap", &damaged, "--strategy", strategy, "--cores", cores, "--json", "-"];
            let output =
                paceline(&[&args[..], &["--drops", &drops, "--drops-per-second", "100000"]].concat());
            if strategy == "rss" && !output.status.success() {
                continue;
            }
            let report = json(&output);
            let written = commented(&drops);
            let expected = reported(&report);
            assert_eq!(counted(&written), expected, "{chain} {strategy}");
            let dropped = report["verdicts"]["drop"].as_u64().expect("a number");
            assert_eq!(written.len() as u64, dropped, "{chain} {strategy}");
            kinds += expected.len();
            malformed += expected.keys().filter(|why| why.starts_with("malformed/")).count();
        }
    }
    assert!(kinds > 20 && malformed > 10, "{kinds} kinds of drops, {malformed} of malformed ones");
}

#[test]
fn packets_are_as_they_came_in() {
    let folder = Folder::new("drops-bytes");
    let drops = folder.file("drops.pcapng");
    let output = paceline(&["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--drops", &drops]);
    assert!(
        stdout(&output).contains(&format!("128 dropped packets written to {drops}\n")),
        "{}",
        stdout(&output)
    );
    let mut reader = CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture");
    let mut all = Vec::new();
    while let Some(record) = reader.next().expect("whole") {
        all.push(record.data.to_vec());
    }
    for (comment, bytes) in commented(&drops) {
        let number = comment.rsplit_once("(packet ").expect("a number").1.trim_end_matches(')');
        let number: usize = number.parse().expect("a number");
        assert_eq!(all[number - 1], bytes, "{comment}");
    }
    // Our own reader takes the file, too, and times and lengths are those of the capture.
    let again = paceline(&["run", "examples/edge.toml", "--pcap", &drops, "--json", "-"]);
    assert_eq!(json(&again)["packets"], serde_json::json!(128), "{}", stderr(&again));
}

#[test]
fn tshark_shows_the_comments() {
    let folder = Folder::new("drops-tshark");
    let drops = folder.file("drops.pcapng");
    paceline(&["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--drops", &drops]);
    let tshark = Command::new("tshark").args(["-r", &drops, "-T", "fields", "-e", "frame.comment"]).output();
    let Ok(tshark) = tshark else { return eprintln!("skipped: no tshark") };
    let text = String::from_utf8_lossy(&tshark.stdout).into_owned();
    assert_eq!(text.lines().count(), 128, "{}", stderr(&tshark));
    assert!(text.lines().all(|line| line.starts_with("dropped by policer: over-rate (packet ")), "{text}");
}

#[test]
fn a_second_has_so_many_and_the_others_are_counted() {
    let folder = Folder::new("drops-rate");
    let drops = folder.file("drops.pcapng");
    let args = [
        "run",
        "examples/edge.toml",
        "--pcap",
        "captures/edge.pcap",
        "--drops",
        &drops,
        "--drops-per-second",
        "7",
    ];
    let text = stdout(&paceline(&args));
    let written = commented(&drops).len();
    let left_out = 128 - written;
    assert!(written > 0 && left_out > 0);
    let told = format!(
        "{written} dropped packets written to {drops}; {left_out} not written, beyond --drops-per-second 7\n"
    );
    assert!(text.ends_with(&told), "{text}");
}

/// A chain with a rule that logs, and how many packets of the recorded capture it drops.
fn logging(folder: &Folder) -> (String, usize) {
    let chain = folder.file("logging.toml");
    let rules = [
        "drop tcp from any to any port 5201 log",
        "drop udp from any to any port 53",
        "accept any from any to any",
    ];
    fs::write(&chain, format!("[[function]]\nuse = \"firewall\"\nrules = {rules:?}\n"))
        .expect("a folder of the test");
    let report = json(&paceline(&["run", &chain, "--pcap", "captures/edge.pcap", "--json", "-"]));
    let dropped = report["drops"]["firewall/logged-01"].as_u64().expect("drops of the rule");
    (chain, dropped as usize)
}

fn lines_of(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Each core logs its own packets alone, whatever the strategy.
#[test]
fn what_a_rule_with_log_drops_is_a_line_with_both_ends_under_every_strategy() {
    let folder = Folder::new("log");
    let ((chain, dropped), log, drops) =
        (logging(&folder), folder.file("log.jsonl"), folder.file("drops.pcapng"));
    let mut first = None;
    for (strategy, cores) in [("single", "1"), ("rss", "2"), ("scr", "3"), ("hybrid", "2")] {
        let args = ["run", &chain, "--pcap", "captures/edge.pcap", "--strategy", strategy, "--cores", cores];
        let files = [
            "--log",
            &log,
            "--log-per-second",
            "1000000",
            "--drops",
            &drops,
            "--drops-per-second",
            "1000000",
        ];
        let output = paceline(&[&args[..], &files].concat());
        let told = format!("{dropped} lines of rules with log written to {log}\n");
        assert!(dropped > 100 && stdout(&output).ends_with(&told), "{} {}", stdout(&output), stderr(&output));
        let lines = lines_of(&log);
        let (end, lines) = lines.split_last().expect("an end");
        assert_eq!((lines.len(), &end["written"], &end["left_out"]), (dropped, &dropped.into(), &0.into()));
        for line in lines {
            assert_eq!(
                (&line["function"], &line["rule"], &line["dst_port"]),
                (&"firewall".into(), &"1".into(), &5201.into())
            );
            assert_eq!(
                (&line["protocol"], &line["text"]),
                (&"tcp".into(), &"drop tcp from any to any port 5201 log".into())
            );
        }
        // By the packets' numbers: what the drops' comments say.
        let numbers: Vec<String> = lines.iter().map(|line| format!("(packet {})", line["packet"])).collect();
        let comments = commented(&drops).into_iter().map(|(comment, _)| comment);
        let rule = "dropped by firewall: logged-01, rule 1: drop tcp from any to any port 5201 log ";
        let named: Vec<String> =
            comments.filter_map(|comment| Some(comment.strip_prefix(rule)?.to_owned())).collect();
        assert_eq!(named, numbers, "{strategy}");
        assert_eq!(first.get_or_insert_with(|| lines.to_vec()), lines, "{strategy}");
    }
    let first = first.expect("lines");
    assert_eq!(
        (&first[0]["src"], &first[0]["src_port"]),
        (&"192.0.2.10".into(), &44398.into()),
        "{}",
        first[0]
    );
}

/// A flood fills no file: so many lines a second, and the others are counted.
#[test]
fn a_second_has_so_many_lines_of_the_log_and_the_others_are_counted() {
    let folder = Folder::new("log-rate");
    let ((chain, dropped), log) = (logging(&folder), folder.file("log.jsonl"));
    let args = ["run", &chain, "--pcap", "captures/edge.pcap", "--log", &log, "--log-per-second", "3"];
    let text = stdout(&paceline(&args));
    let lines = lines_of(&log);
    let (end, lines) = lines.split_last().expect("an end");
    let (written, left_out) = (lines.len(), dropped - lines.len());
    assert!(written > 0 && left_out > 0);
    assert_eq!((&end["written"], &end["left_out"]), (&written.into(), &left_out.into()));
    let mut seconds = BTreeMap::<u64, u64>::new();
    for line in lines {
        *seconds.entry(line["time_ns"].as_u64().expect("a time") / 1_000_000_000).or_default() += 1;
    }
    assert!(seconds.values().all(|lines| *lines <= 3), "{seconds:?}");
    assert!(text.ends_with(&format!("; {left_out} left out, beyond --log-per-second 3\n")), "{text}");
}

#[test]
fn a_file_that_cannot_be_is_refused_ahead_of_the_run() {
    for path in ["no-such-folder/drops.pcapng", "captures", "captures/edge.pcap"] {
        let output =
            paceline(&["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--drops", path]);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{path}: {}",
            stderr(&output)
        );
    }
}

/// As with `--out`: an older file is not overwritten by a part of an answer.
#[test]
fn an_older_file_is_left_where_the_input_is_cut_short() {
    let folder = Folder::new("drops-cut");
    let (cut, drops, out) = (folder.file("cut.pcap"), folder.file("drops.pcapng"), folder.file("out.pcap"));
    let whole = fs::read(root().join("captures/edge.pcap")).expect("the capture");
    fs::write(&cut, &whole[..whole.len() - 7]).expect("a folder of the test");
    for file in [&drops, &out] {
        fs::write(file, "older").expect("a folder of the test");
    }
    let args = ["run", "examples/edge.toml", "--pcap", &cut, "--drops", &drops, "--out", &out];
    let output = paceline(&args);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    for file in [&drops, &out] {
        assert_eq!(fs::read(file).expect("it is there"), b"older", "{file}");
    }
    assert_eq!(commented(&format!("{drops}.partial")).len(), 128);
    let told = format!("128 dropped packets kept in {drops}.partial; {drops} is left as it was\n");
    assert!(stdout(&output).ends_with(&told), "{}", stdout(&output));
}

/// What cannot be written is the failure; the answer is there all the same.
#[test]
fn a_full_disk_takes_no_report() {
    let folder = Folder::new("drops-full");
    let (small, other) = (folder.file("small.pcap"), folder.file("other"));
    let mut reader = CaptureReader::open(root().join("captures/edge.pcap")).expect("a capture");
    let mut writer = CaptureWriter::create(&small, LinkType::Ethernet).expect("a folder of the test");
    // So few that the disk is not written to before the end.
    for _ in 0..500 {
        let record = reader.next().expect("whole").expect("a packet");
        writer.write(record.time_ns, record.wire_len, record.data).expect("there is room");
    }
    writer.finish().expect("there is room");
    for (full, healthy) in [("--out", "--drops"), ("--drops", "--out")] {
        let args = ["run", "examples/edge.toml", "--pcap", &small, full, "/dev/full", healthy, &other];
        let output = paceline(&args);
        assert_eq!(output.status.code(), Some(2), "{full}");
        assert!(stderr(&output).contains("cannot write /dev/full"), "{full}: {}", stderr(&output));
        assert!(stdout(&output).contains("digest of all flows"), "{full}: {}", stdout(&output));
        fs::remove_file(&other).expect("the healthy one is whole");
        let output = paceline(&[&args[..], &["--json", "-"]].concat());
        assert_eq!(json(&output)["packets"], serde_json::json!(500), "{full}");
        fs::remove_file(&other).expect("the healthy one is whole");
    }
}

/// The arguments of a command line; what is between `'` is one.
fn arguments(line: &str) -> Vec<&str> {
    let pieces = line.split('\'').enumerate();
    pieces
        .flat_map(|(i, piece)| if i % 2 == 1 { vec![piece] } else { piece.split_whitespace().collect() })
        .collect()
}

/// The lines of an example, cut where it has an ellipsis, that are not in the output in this order.
fn missing<'a>(example: &'a str, output: &str) -> Vec<&'a str> {
    let mut lines = output.lines();
    let shown =
        example.lines().map(|line| line.trim_end_matches("...")).filter(|line| !line.trim().is_empty());
    shown
        .filter(|shown| {
            !lines.clone().any(|line| line.starts_with(shown)) || !lines.any(|line| line.starts_with(shown))
        })
        .collect()
}

/// The examples over captures in `docs/trace.md` are what the program prints.
#[test]
fn the_page_on_traces_shows_what_the_program_prints() {
    let page = fs::read_to_string(root().join("docs/trace.md")).expect("the page");
    let folder = Folder::new("trace-page");
    let blocks = page.split("```console\n").skip(1).map(|block| block.split("```").next().expect("its end"));
    let (mut traces, mut dropped) = (0, 0);
    for block in blocks {
        let Some((line, shown)) = block.strip_prefix("$ paceline ").and_then(|block| block.split_once('\n'))
        else {
            continue;
        };
        let mut args = arguments(line);
        let file = folder.file("drops.pcapng");
        if let Some(at) = args.iter().position(|arg| *arg == "drops.pcapng") {
            args[at] = &file;
            let output = paceline(&args);
            let comments: Vec<String> = commented(&file).into_iter().map(|(comment, _)| comment).collect();
            let of_page = shown.lines().filter_map(|line| line.split_once('\t')?.1.split_once('\t'));
            let of_page: Vec<&str> = of_page.map(|(_, comment)| comment).collect();
            assert_eq!(comments[..of_page.len()], of_page, "{line}");
            let said = shown.lines().find(|line| line.contains("dropped packets written")).expect("how many");
            assert!(stdout(&output).contains(said.split(" to ").next().expect("a number")), "{line}");
            dropped += of_page.len();
        } else if args.contains(&"--trace") && !shown.contains('×') {
            let output = paceline(&args);
            if !output.status.success() && stderr(&output).contains("libpcap") {
                return eprintln!("skipped: no libpcap");
            }
            assert_eq!(missing(shown, &stdout(&output)), [""; 0], "{line}");
            traces += 1;
        }
    }
    assert!(traces >= 2 && dropped >= 2, "{traces} traces, {dropped} dropped packets");
    assert_eq!(missing("a, ...\nd\nb", "a, 1\nb\nc"), ["d"]);
    assert_eq!(missing("b\na", "a\nb"), ["a"]);
}
