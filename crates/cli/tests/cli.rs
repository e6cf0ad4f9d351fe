//! The program as a user meets it: what it prints, where, and with which exit status.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use crate::support::{Folder, Scratch, by_line, end, json, paceline, root, start, stderr, stdout};

const EDGE: &str = "examples/edge.toml";
const CAPTURE: &str = "captures/edge.pcap";

#[test]
fn run_reports_and_writes_the_same_capture_for_any_number_of_cores() {
    let outs: Vec<_> = ["1", "2", "5"]
        .map(|cores| {
            let out = Scratch::new(&format!("out-{cores}.pcap"), b"");
            let run = by_line(&format!(
                "run {EDGE} --pcap {CAPTURE} --strategy rss --cores {cores} --out {}",
                out.path()
            ));
            assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
            for part in ["Verdicts", "Functions", "Cores", "conntrack", "digest of all flows"] {
                assert!(stdout(&run).contains(part), "{}", stdout(&run));
            }
            fs::read(out.path()).expect("written")
        })
        .into();
    assert!(outs[0].len() > 10_000);
    assert!(outs.iter().all(|out| *out == outs[0]), "order or bytes differ");
}

#[test]
fn json_on_standard_output_is_all_there_is() {
    let run = paceline(&["run", EDGE, "--pcap", CAPTURE, "--json", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let report = json(&run);
    let names = [
        "packets",
        "bytes",
        "seconds",
        "mpps",
        "verdicts",
        "drops",
        "malformed",
        "cores",
        "functions",
        "digest",
    ];
    for name in names {
        assert!(report.get(name).is_some(), "{name}");
    }
    let verdicts = report["verdicts"].as_object().expect("an object");
    let sum: u64 = verdicts.values().filter_map(|count| count.as_u64()).sum();
    assert_eq!(Some(sum), report["packets"].as_u64());
    let drops: u64 =
        report["drops"].as_object().expect("an object").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(Some(drops), report["verdicts"]["drop"].as_u64(), "every drop has a reason");

    let rss = json(&by_line(&format!("run {EDGE} --pcap {CAPTURE} --strategy rss --cores 3 --json -")));
    assert_eq!(report["digest"], rss["digest"]);
    assert_eq!(report["drops"], rss["drops"]);
    assert_eq!(rss["cores"].as_array().expect("a list").len(), 3);
}

#[test]
fn verify_says_what_it_compared() {
    let verify = paceline(&["verify", EDGE, "--pcap", CAPTURE, "--strategy", "rss", "--cores", "2"]);
    assert_eq!(verify.status.code(), Some(0), "{}", stderr(&verify));
    assert!(stdout(&verify).contains("rss on 2 cores EQUALS single"), "{}", stdout(&verify));
    let report = json(&paceline(&["verify", EDGE, "--pcap", CAPTURE, "--json", "-"]));
    assert_eq!(report["holds"], true);
    assert_eq!(report["different"], 0);
}

#[test]
fn chains_that_rss_cannot_run_are_refused() {
    let run =
        paceline(&["run", "examples/perimeter.toml", "--pcap", CAPTURE, "--strategy", "rss", "--cores", "2"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stdout(&run).is_empty());
    let text = stderr(&run);
    for part in ["conntrack", "source address", "--strategy single"] {
        assert!(text.contains(part), "{text}");
    }
    let single = paceline(&["run", "examples/perimeter.toml", "--pcap", CAPTURE]);
    assert_eq!(single.status.code(), Some(0), "{}", stderr(&single));
}

/// A scanner before functions with states.
const SCANNED: &str = "examples/nat-ids.toml";

#[test]
fn replicas_run_what_rss_cannot_and_give_the_same() {
    const PERIMETER: &str = "examples/perimeter.toml";
    let outs = [("single", "1"), ("scr", "1"), ("scr", "3")].map(|(strategy, cores)| {
        let out = Scratch::new(&format!("scr-{strategy}-{cores}.pcap"), b"");
        let strategy = ["--strategy", strategy, "--cores", cores];
        let args =
            [&["run", PERIMETER, "--pcap", CAPTURE, "--json", "-", "--out", out.path()], &strategy[..]];
        let run = paceline(&args.concat());
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        let report = json(&run);
        let told = ["verdicts", "drops", "malformed", "digest"].map(|name| report[name].clone());
        (fs::read(out.path()).expect("written"), told)
    });
    assert!(outs[0].0.len() > 10_000);
    assert!(outs.iter().all(|(out, _)| *out == outs[0].0), "order or bytes differ");
    assert!(outs.iter().all(|(_, told)| *told == outs[0].1), "{:?} {:?}", outs[0].1, outs[2].1);
}

/// Exactly: what a pool gives out, and what a full table turns away, included.
#[test]
fn verify_holds_replicas_to_everything() {
    let full = Scratch::new("full.toml", b"[[function]]\nuse = \"heavy-hitters\"\nflows = 10\n");
    let chains =
        [EDGE, "examples/perimeter.toml", "examples/mixed-keys.toml", "examples/nat.toml", full.path()];
    for chain in chains {
        for cores in ["1", "2", "5"] {
            let verify =
                paceline(&["verify", chain, "--pcap", CAPTURE, "--strategy", "scr", "--cores", cores]);
            let (text, is_full) = (stdout(&verify), chain == full.path());
            assert_eq!(verify.status.code(), Some(0), "{text}{}", stderr(&verify));
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains("scr on") && first.ends_with("EQUALS single"), "{text}");
            assert!(!text.contains("shared by all cores") && !text.contains("raise `flows`"), "{text}");
            assert_eq!(text.contains("what it turned away was held to be the same"), is_full, "{text}");
        }
    }
}

#[test]
fn a_capture_cut_short_is_processed_as_far_as_it_is_whole() {
    let whole = fs::read(root().join(CAPTURE)).expect("the capture");
    let cut = Scratch::new("cut.pcap", &whole[..whole.len() - 7]);
    let run = paceline(&["run", EDGE, "--pcap", cut.path()]);
    assert_eq!(run.status.code(), Some(4));
    assert!(stdout(&run).contains("Verdicts"), "{}", stdout(&run));
    assert!(stderr(&run).contains("at byte 21"), "{}", stderr(&run));
    let report = json(&paceline(&["run", EDGE, "--pcap", cut.path(), "--json", "-"]));
    let all = json(&paceline(&["run", EDGE, "--pcap", CAPTURE, "--json", "-"]));
    assert_eq!(report["complete"], false);
    assert_eq!(report["packets"].as_u64().map(|packets| packets + 1), all["packets"].as_u64());

    let verify = paceline(&["verify", EDGE, "--pcap", cut.path()]);
    assert_eq!(verify.status.code(), Some(4));
    let inspect = paceline(&["inspect", "--pcap", cut.path()]);
    assert_eq!(inspect.status.code(), Some(4));
}

/// Wrong usage, each with a word that the message must have.
#[test]
fn mistakes_are_explained() {
    let text = Scratch::new("text.pcap", b"this is no capture, it is a text of some length");
    let empty = Scratch::new("empty.pcap", b"");
    let cases: &[(&[&str], &str)] = &[
        (&["run", "nowhere.toml", "--pcap", CAPTURE], "nowhere.toml"),
        (&["run", EDGE, "--pcap", "nowhere.pcap"], "nowhere.pcap"),
        (&["run", EDGE, "--pcap", "examples"], "examples"),
        (&["run", EDGE, "--pcap", text.path()], "text.pcap"),
        (&["run", EDGE, "--pcap", empty.path()], "empty.pcap"),
        (&["run", EDGE, "--pcap", CAPTURE, "--cores", "0"], "0 cores"),
        (&["run", EDGE, "--pcap", CAPTURE, "--cores", "2"], "--strategy rss"),
        (&["run", EDGE, "--pcap", CAPTURE, "--strategy", "magic"], "rss"),
        (&["run", EDGE, "--pcap", CAPTURE, "--out", "/nowhere/out.pcap"], "/nowhere/out.pcap"),
        (&["verify", EDGE, "--pcap", "-"], "file"),
        (
            &["run", SCANNED, "--pcap", CAPTURE, "--strategy", "scr", "--cores", "2"],
            "`pattern-scanner` looks into",
        ),
        (&["verify", SCANNED, "--pcap", CAPTURE, "--strategy", "scr", "--cores", "2"], "--strategy rss"),
        (&["verify", EDGE, "--pcap", CAPTURE, "--strategy", "scr", "--cores", "65"], "at most 64 cores"),
        (&["inspect", "--pcap", "nowhere.pcap"], "nowhere.pcap"),
        (&["inspect", "--pcap", CAPTURE, "--window", "0"], "0"),
        (&["nfs", "natt"], "conntrack"),
        (&["nfs", "polcer"], "Did you mean `policer`?"),
        (&["generate", "zipf", "--out", "/nowhere/out.pcap"], "/nowhere/out.pcap"),
        (&["generate", "zipff", "--out", "-"], "datacenter"),
        (&["generate", "zipf:a=1", "--exponent", "2", "--out", "-"], "given twice"),
        (&["generate", "zipf", "--packets", "0", "--out", "-"], "packets=0"),
        (&["generate", "uniform", "--share", "0.5", "--out", "-"], "no option `share`"),
        (&["generate", "datacenter", "--frame-bytes", "40", "--out", "-"], "too short"),
        (&["generate", "uniform"], "--out"),
        (&["bench", "chain", EDGE, "--traffic", "zipff"], "datacenter"),
        (&["bench", "chain", EDGE, "--traffic", "zipf", "--flows", "5"], "--traffic"),
        (&["fly"], "unrecognized"),
    ];
    for (args, word) in cases {
        let output = paceline(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{args:?}: {}", stdout(&output));
    }
}

/// Mistakes in chain files, each with the line that the message must point at and what it must name.
#[test]
fn mistakes_in_chain_files_are_pointed_at() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("name = \"x\"\n", ":1:", &["[[function]]", "conntrack"]),
        ("name = \"x\"\nmalfromed = \"drop\"\n", ":2:1", &["malformed"]),
        ("malformed = \"maybe\"\n[[function]]\nuse = \"ddos\"\n", ":1:13", &["drop", "pass"]),
        ("[[function]]\nuse = \"contrack\"\n", ":2:7", &["did you mean `conntrack`"]),
        ("[[function]]\nflows = 5\n", ":1:", &["use"]),
        ("[[function]]\nuse = \"policer\"\nrate = 5\n", ":3:1", &["rate_bytes_per_s"]),
        ("[[function]]\nuse = \"policer\"\nrate_bytes_per_s = \"fast\"\n", ":3:20", &["rate_bytes_per_s"]),
        ("[[function]]\nuse = \"policer\"\nrate_bytes_per_s = 0\n", ":3:20", &["rate_bytes_per_s"]),
        ("[[function]]\nuse = \"policer\"\nflows = 0\n", ":3:9", &["must be 1 to"]),
        ("[[function]]\nuse = \"policer\"\ntable_full = \"explode\"\n", ":3:14", &["reject", "evict-oldest"]),
        (
            "[[function]]\nuse = \"policer\"\nrate = 5\n",
            ":3:1",
            &["did you mean `rate_bytes_per_s`?", "no option `rate`"],
        ),
        (
            "[[function]]\nuse = \"policer\"\nrate_bytes_per_s = -5\n",
            ":3:20",
            &["a whole number, at least 0", "is -5"],
        ),
        (
            "[[function]]\nuse = \"policer\"\nmark_dscp = 300\n",
            ":3:13",
            &["`mark_dscp`", "0 to 255, and is 300"],
        ),
        (
            "[[function]]\nuse = \"policer\"\naction = \"shout\"\n",
            ":3:10",
            &["`action`", "\"drop\" or \"mark\""],
        ),
        ("[[function]]\nuse = \"policer\"\naction = 3\n", ":3:10", &["`action`", "in quotes"]),
        ("[[function]]\nuse = \"port-knock\"\nports = 3\n", ":3:9", &["`ports`", "must be a list, and is 3"]),
        ("seed = -1\n[[function]]\nuse = \"ddos\"\n", ":1:8", &["`seed`", "a whole number, at least 0"]),
        ("name = \"\"\n[[function]]\nuse = \"ddos\"\n", ":1:8", &["name"]),
        ("name = \"a\\nb\"\n[[function]]\nuse = \"ddos\"\n", ":1:8", &["control characters"]),
        ("[[function]]\nuse = \"POLICER\"\n", ":2:7", &["did you mean `policer`"]),
        ("[[function]]\nuse = \"heavy_hitters\"\n", ":2:7", &["did you mean `heavy-hitters`"]),
        ("function = 3\n", ":1:12", &["[[function]]"]),
        ("[[function]\nuse = 1\n", ":1:", &[]),
    ];
    for (i, (toml, position, words)) in cases.iter().enumerate() {
        let chain = Scratch::new(&format!("chain-{i}.toml"), toml.as_bytes());
        let output = paceline(&["run", chain.path(), "--pcap", CAPTURE]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{toml}: {text}");
        assert!(text.contains(position), "{toml}\n{position}: {text}");
        for word in *words {
            assert!(text.contains(word), "{toml}\n{word}: {text}");
        }
        for word in ["u64", "u8", "i128", "a sequence"] {
            assert!(!text.contains(word), "{toml}\n{word}: {text}");
        }
    }
}

#[test]
fn every_function_is_listed_with_its_options() {
    let list = json(&paceline(&["nfs", "--json", "-"]));
    let names: Vec<_> =
        list.as_array().expect("a list").iter().map(|f| f["name"].as_str().expect("a name")).collect();
    for name in ["conntrack", "ddos", "heavy-hitters", "policer", "port-knock"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let knock = list.as_array().expect("a list").iter().find(|f| f["name"] == "port-knock").expect("there");
    assert_eq!(
        knock["reads"],
        serde_json::json!(["source address", "destination port", "protocol", "marks"])
    );
    assert_eq!((&knock["item_bytes"], &knock["meta_bytes"]), (&21.into(), &20.into()), "{knock}");
    let one = paceline(&["nfs", "policer"]);
    let text = stdout(&one);
    let reads = "  reads     5-tuple, TOS, IP length, marks\n  edits     TOS\n";
    for part in ["rate_bytes_per_s", "burst_bytes = ", "  item ", "  meta ", "5-tuple", reads] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("conntrack"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_reason_to_panic() {
    let script = format!("{} nfs | true", env!("CARGO_BIN_EXE_paceline"));
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn help_shows_examples_and_exit_statuses() {
    let help = paceline(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for part in ["Examples:", "paceline verify", "Exit status"] {
        assert!(stdout(&help).contains(part), "{}", stdout(&help));
    }
}

/// Runs with the capture, or what stands in for it, on standard input.
fn paceline_fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = start(args);
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("fed");
    output
}

#[test]
fn packets_on_standard_output_are_all_there_is() {
    let folder = Folder::new("dash");
    let file = folder.file("out.pcap");
    let to_file = paceline(&["run", EDGE, "--pcap", CAPTURE, "--out", &file]);
    assert_eq!(to_file.status.code(), Some(0), "{}", stderr(&to_file));
    let piped = paceline(&["run", EDGE, "--pcap", CAPTURE, "--out", "-"]);
    assert_eq!(piped.status.code(), Some(0), "{}", stderr(&piped));
    assert!(piped.stdout == fs::read(&file).expect("written"), "not the capture alone");
    assert!(stderr(&piped).contains("written to standard output"), "{}", stderr(&piped));

    let both = paceline(&["run", EDGE, "--pcap", CAPTURE, "--out", "-", "--json", "-"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(both.stdout.is_empty());
    assert!(stderr(&both).contains("both want standard output"), "{}", stderr(&both));
}

#[test]
fn generated_traffic_is_the_same_again_and_what_it_says() {
    let folder = Folder::new("generate");
    let file = folder.file("out.pcap");
    let options = ["--packets", "3000", "--flows", "40", "--seed", "5", "--burst", "3"];
    let first =
        paceline(&[&["generate", "datacenter", "--out", &file, "--json", "-"], &options[..]].concat());
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let summary = json(&first);
    assert_eq!(summary["flows"], 80);

    // The model that the summary names, in one argument, to a pipe.
    let model = summary["model"].as_str().expect("a model");
    let again = paceline(&["generate", model, "--out", "-"]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(again.stdout == fs::read(&file).expect("written"), "other bytes");
    assert!(stderr(&again).contains(summary["digest"].as_str().expect("a digest")), "{}", stderr(&again));

    let inspected = json(&paceline(&["inspect", "--pcap", &file, "--json", "-"]));
    for (field, there) in [("packets", &inspected["packets"]), ("bytes", &inspected["bytes"])] {
        assert_eq!(&summary[field], there, "{field}");
    }
    assert_eq!(summary["biggest"], inspected["top10"][0]);
    let verify = paceline(&["verify", EDGE, "--pcap", &file, "--strategy", "rss", "--cores", "2"]);
    assert_eq!(verify.status.code(), Some(0), "{}", stderr(&verify));
}

/// Outputs that are an input, or each other, by whatever name.
#[test]
fn nothing_that_is_read_is_overwritten() {
    let folder = Folder::new("same");
    let (chain, pcap) = (folder.file("edge.toml"), folder.file("in.pcap"));
    fs::copy(root().join(EDGE), &chain).expect("copied");
    fs::copy(root().join(CAPTURE), &pcap).expect("copied");
    let (soft, hard) = (folder.file("soft.pcap"), folder.file("hard.pcap"));
    std::os::unix::fs::symlink("in.pcap", &soft).expect("a link");
    fs::hard_link(&pcap, &hard).expect("a link");
    let (new, same) = (folder.file("new"), folder.file("./new"));
    let before = folder.names();
    let cases: &[&[&str]] = &[
        &["run", &chain, "--pcap", &pcap, "--out", &pcap],
        &["run", &chain, "--pcap", &pcap, "--out", &soft],
        &["run", &chain, "--pcap", &soft, "--out", &hard],
        &["run", &chain, "--pcap", &pcap, "--json", &soft],
        &["run", &chain, "--pcap", &pcap, "--out", &chain],
        &["run", &chain, "--pcap", &pcap, "--out", &new, "--json", &same],
        &["verify", &chain, "--pcap", &pcap, "--json", &chain],
        &["verify", &chain, "--pcap", &pcap, "--json", &hard],
        &["inspect", "--pcap", &pcap, "--json", &soft],
        &["bench", "chain", &chain, "--pcap", &pcap, "--json", &pcap],
        &["bench", "chain", &chain, "--json", &chain],
    ];
    for args in cases {
        let output = paceline(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("one file"), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(folder.names(), before);
    for (copy, original) in [(&chain, EDGE), (&pcap, CAPTURE)] {
        assert!(fs::read(copy).expect("there") == fs::read(root().join(original)).expect("there"));
    }
    let devices = paceline(&["run", &chain, "--pcap", &pcap, "--out", "/dev/null", "--json", "/dev/null"]);
    assert_eq!(devices.status.code(), Some(0), "{}", stderr(&devices));
}

#[test]
fn json_gets_its_name_when_it_is_whole() {
    let folder = Folder::new("json");
    let json = folder.file("report.json");
    let fine = paceline(&["inspect", "--pcap", CAPTURE, "--json", &json]);
    assert_eq!(fine.status.code(), Some(0), "{}", stderr(&fine));
    assert!(stdout(&fine).contains("Protocols"));
    assert_eq!(folder.names(), ["report.json"]);
    let whole = fs::read(&json).expect("written");
    serde_json::from_slice::<serde_json::Value>(&whole).expect("JSON");

    let refused = paceline(&["run", EDGE, "--pcap", "nowhere.pcap", "--json", &json]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(folder.names(), ["report.json"]);
    assert!(fs::read(&json).expect("there") == whole, "an older report was touched");

    // Before the work, not after it.
    let nowhere = paceline(&["run", EDGE, "--pcap", CAPTURE, "--json", "/nowhere/report.json"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(nowhere.stdout.is_empty() && stderr(&nowhere).contains("/nowhere/report.json"));

    let full = paceline(&["nfs", "--json", "/dev/full"]);
    assert_eq!(full.status.code(), Some(2));
    assert!(stdout(&full).contains("conntrack"), "the text is shown all the same");
    assert!(stderr(&full).contains("/dev/full"), "{}", stderr(&full));
}

#[test]
fn a_cut_input_leaves_an_older_output_as_it_was() {
    let folder = Folder::new("cut");
    let (cut, out) = (folder.file("cut.pcap"), folder.file("out.pcap"));
    let whole = fs::read(root().join(CAPTURE)).expect("the capture");
    fs::write(&cut, &whole[..whole.len() - 7]).expect("written");
    fs::write(&out, b"older").expect("written");
    let run = paceline(&["run", EDGE, "--pcap", &cut, "--out", &out]);
    assert_eq!(run.status.code(), Some(4), "{}", stderr(&run));
    assert_eq!(fs::read(&out).expect("there"), b"older");
    assert!(stdout(&run).contains("out.pcap.partial;"), "{}", stdout(&run));
    let kept = paceline(&["inspect", "--pcap", &format!("{out}.partial")]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));

    let quiet = paceline(&["run", EDGE, "--pcap", &cut, "--out", &out, "--json", "-"]);
    assert_eq!(json(&quiet)["complete"], false);
    assert!(stderr(&quiet).contains("out.pcap.partial2"), "{}", stderr(&quiet));
}

#[test]
fn an_interrupted_run_leaves_an_older_output_as_it_was() {
    for signal in ["-INT", "-TERM"] {
        let folder = Folder::new(&format!("stop{signal}"));
        let out = folder.file("out.pcap");
        fs::write(&out, b"older").expect("written");
        let whole = fs::read(root().join(CAPTURE)).expect("the capture");
        let mut child = start(&["run", EDGE, "--pcap", "-", "--out", &out]);
        let mut stdin = child.stdin.take().expect("a pipe");
        let (first, rest) = whole.split_at(whole.len() / 2);
        // Half of it is more than a pipe holds, so that the program reads by the time it is in.
        stdin.write_all(first).expect("read");
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        std::thread::sleep(std::time::Duration::from_millis(300));
        // It may stop reading before all is in.
        let _ = stdin.write_all(rest);
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{signal}: {}", stderr(&output));
        assert!(stdout(&output).contains("INCOMPLETE"), "{}", stdout(&output));
        assert!(stdout(&output).contains("out.pcap.partial;"), "{}", stdout(&output));
        assert_eq!(fs::read(&out).expect("there"), b"older");
    }
}

#[test]
fn verify_compares_files_that_have_packets() {
    let whole = fs::read(root().join(CAPTURE)).expect("the capture");
    let piped = paceline_fed(&["verify", EDGE, "--pcap", "/dev/stdin"], &whole);
    assert_eq!(piped.status.code(), Some(2), "{}", stderr(&piped));
    assert!(stderr(&piped).contains("Give a file"), "{}", stderr(&piped));

    let none = Scratch::new("none.pcap", &whole[..24]);
    let verify = paceline(&["verify", EDGE, "--pcap", none.path()]);
    assert_eq!(verify.status.code(), Some(3), "{}", stderr(&verify));
    assert!(stdout(&verify).contains("nothing to compare"), "{}", stdout(&verify));
    assert!(!stdout(&verify).contains("EQUALS"));
    let report = json(&paceline(&["verify", EDGE, "--pcap", none.path(), "--json", "-"]));
    assert_eq!(report["holds"], false);
}

/// Captures of which not one packet can be read, whatever their format.
#[test]
fn an_input_cut_in_its_header_is_no_input() {
    let whole = fs::read(root().join(CAPTURE)).expect("the capture");
    let section =
        [&b"\x0a\x0d\x0d\x0a"[..], &28_u32.to_le_bytes(), b"\x4d\x3c\x2b\x1a\x01\x00\x00\x00"].concat();
    for (name, bytes) in [("cut24.pcap", &whole[..20]), ("cut.pcapng", &section)] {
        let cut = Scratch::new(name, bytes);
        for args in [
            &["run", EDGE, "--pcap", cut.path()][..],
            &["verify", EDGE, "--pcap", cut.path()],
            &["inspect", "--pcap", cut.path()],
        ] {
            let output = paceline(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
            assert!(stdout(&output).is_empty(), "{args:?}: {}", stdout(&output));
        }
    }
}

#[test]
fn a_capture_of_another_link_type_is_suspected() {
    let mut raw = fs::read(root().join(CAPTURE)).expect("the capture");
    raw[20] = 101; // LINKTYPE_RAW: these are Ethernet frames
    let raw = Scratch::new("raw.pcap", &raw);
    for args in [&["run", EDGE, "--pcap", raw.path()][..], &["inspect", "--pcap", raw.path()]] {
        let output = paceline(args);
        assert!(stdout(&output).contains("is the link type"), "{args:?}: {}", stdout(&output));
        let fine = if args[0] == "run" {
            ["run", EDGE, "--pcap", CAPTURE].to_vec()
        } else {
            vec!["inspect", "--pcap", CAPTURE]
        };
        assert!(!stdout(&paceline(&fine)).contains("is the link type"));
    }
}

#[test]
fn time_that_runs_back_is_told() {
    let mut swapped = fs::read(root().join(CAPTURE)).expect("the capture");
    // The first packet's seconds: one more than they are.
    swapped[24] += 1;
    let swapped = Scratch::new("back.pcap", &swapped);
    let run = paceline(&["run", EDGE, "--pcap", swapped.path()]);
    assert!(stdout(&run).contains("before an earlier packet's"), "{}", stdout(&run));
}

#[test]
fn standard_input_goes_by_its_name() {
    let whole = fs::read(root().join(CAPTURE)).expect("the capture");
    let inspect = paceline_fed(&["inspect", "--pcap", "-"], &whole);
    assert!(stdout(&inspect).starts_with("standard input: 5,432 packets"), "{}", stdout(&inspect));
}

/// A run that would take hours, with its metrics; stopped when it is let go.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start() -> Running {
        let run = ["run", EDGE, "--pcap", CAPTURE, "--strategy", "rss", "--cores", "2"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .current_dir(root())
            .args(run)
            .args(["--speed", "0.001", "--metrics", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
        let address =
            line.trim().strip_prefix("metrics at http://").and_then(|at| at.strip_suffix("/metrics"));
        Running { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), child }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[test]
fn a_run_can_be_watched_until_it_ends() {
    let mut run = Running::start();
    let top = paceline(&["top", &run.address, "--once"]);
    assert_eq!(top.status.code(), Some(0), "{}", stderr(&top));
    for part in ["edge, rss on 2 cores", "core busy", "conntrack", "policer", "heavy-hitters"] {
        assert!(stdout(&top).contains(part), "{}", stdout(&top));
    }
    let no_terminal = paceline(&["top", &run.address]);
    assert_eq!(no_terminal.status.code(), Some(2));
    assert!(stderr(&no_terminal).contains("--once"), "{}", stderr(&no_terminal));
    let second = paceline(&["run", EDGE, "--pcap", CAPTURE, "--metrics", &run.address]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("Choose another port"), "{}", stderr(&second));
    assert!(stdout(&second).is_empty());

    let pid = run.child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().expect("kill").success());
    assert_eq!(run.child.wait().expect("ends").code(), Some(130), "a polite end, in the middle of a pause");
    let gone = paceline(&["top", &run.address, "--once"]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(stderr(&gone).contains("nobody answers"), "{}", stderr(&gone));
}

#[test]
fn metrics_and_speed_do_not_change_the_report() {
    let plain = json(&paceline(&["run", EDGE, "--pcap", CAPTURE, "--json", "-"]));
    let watched =
        by_line(&format!("run {EDGE} --pcap {CAPTURE} --json - --metrics 127.0.0.1:0 --speed 1000"));
    assert_eq!(watched.status.code(), Some(0), "{}", stderr(&watched));
    let watched = json(&watched);
    for part in ["packets", "verdicts", "drops", "digest"] {
        assert_eq!(watched[part], plain[part]);
    }
}

#[test]
fn addresses_and_speeds_that_are_none_are_refused() {
    let run = ["run", EDGE, "--pcap", CAPTURE];
    for (option, value, says) in [
        ("--metrics", "9100", "the port is missing"),
        ("--metrics", "127.0.0.1:99999", "give a host and a port"),
        // An address that no machine has.
        ("--metrics", "192.0.2.1:9100", "Give an address of this machine"),
        ("--web", "8080", "the port is missing"),
        ("--web", "192.0.2.1:8080", "other machines reach this address"),
        ("--web", "[::]:0", "or add --web-anyone"),
        ("--speed", "0", "0.001 to 1000"),
        ("--speed", "fast", "0.001 to 1000"),
    ] {
        let refused = paceline(&[&run[..], &[option, value]].concat());
        assert_eq!(refused.status.code(), Some(2), "{option} {value}");
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    let top = paceline(&["top", "nowhere"]);
    assert_eq!(top.status.code(), Some(2));
}

const COMPARISON: &str = "crates/cli/tests/comparison.json";

#[test]
fn a_saved_comparison_is_rendered_again() {
    let (html, csv) = (Scratch::new("report.html", b""), Scratch::new("report.csv", b""));
    let report = paceline(&["bench", "report", COMPARISON, "--html", html.path(), "--csv", csv.path()]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    assert!(stdout(&report).contains("Findings"));
    let page = fs::read_to_string(html.path()).expect("written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(fs::read_to_string(csv.path()).expect("written").starts_with("chain,"));

    let alone = paceline(&["bench", "report", COMPARISON, "--html", "-"]);
    assert_eq!(stdout(&alone), page, "nothing but the page");
}

#[test]
fn a_saved_comparison_that_was_interrupted_is_rendered_as_such() {
    let saved = fs::read_to_string(root().join(COMPARISON)).expect("the sample");
    let saved = saved.replace("\"complete\": true", "\"complete\": false");
    let file = Scratch::new("interrupted.json", saved.as_bytes());
    let report = paceline(&["bench", "report", file.path()]);
    assert_eq!(report.status.code(), Some(130), "{}", stderr(&report));
    assert!(stdout(&report).contains("INTERRUPTED, this is what was measured so far"), "{}", stdout(&report));
}

#[test]
fn what_is_not_a_comparison_is_refused() {
    let saved = fs::read_to_string(root().join(COMPARISON)).expect("the sample");
    let cases = [
        ("{", "EOF"),
        ("[1]", "invalid"),
        (&saved.replacen("\"loss_limit\": 0.001", "\"loss_limit\": 1.5", 1), "1.5 is not a share"),
        (&saved.replacen("\"mpps\": 12.41", "\"mpps\": -1.0", 1), "single, 1 cores: -1 is not a rate"),
        (&saved.replacen("\"mpps\": 12.41", "\"mpps\": null", 1), "null"),
        (&saved.replacen("\"cores\": 1", "\"cores\": 0", 1), "cores must be 1 to 4096"),
        (&saved.replacen("\"clock\": \"measured\"", "\"clock\": \"guessed\"", 1), "guessed"),
    ];
    for (text, why) in cases {
        let file = Scratch::new("not-a-comparison.json", text.as_bytes());
        let out = Scratch::new("not-written.html", b"as it was");
        let report = paceline(&["bench", "report", file.path(), "--html", out.path()]);
        assert_eq!(report.status.code(), Some(2), "{why}");
        assert!(stderr(&report).contains(why), "{why}: {}", stderr(&report));
        assert_eq!(fs::read(out.path()).expect("there"), b"as it was");
    }
    let missing = paceline(&["bench", "report", "no-such-file.json"]);
    assert_eq!(missing.status.code(), Some(2));
    let over = paceline(&["bench", "report", COMPARISON, "--csv", COMPARISON]);
    assert!(over.status.code() == Some(2) && stderr(&over).contains("would overwrite the input"));
}

/// Also `null` where nothing does, and a line of text where something does.
#[test]
fn runs_say_what_went_from_core_to_core() {
    let run = |strategy: &str, more: &[&str]| {
        let edge =
            ["run", "examples/edge.toml", "--pcap", "captures/edge.pcap", "--cores", "3", "--strategy"];
        let output = paceline(&[&edge, &[strategy][..], more].concat());
        assert!(output.status.success(), "{strategy}: {}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (strategy, what, said) in [
        ("rsspp", "entry", "moves of an entry with its flows"),
        ("dyssect", "shard", "moves of a shard with its flows"),
        ("hybrid", "hash", "moves of a hash with its flows"),
        ("auto", "entry, shard or hash", "moves of an entry, shard or hash with its flows"),
    ] {
        let forced = ["--move-every", "100"];
        let report: serde_json::Value =
            serde_json::from_str(&run(strategy, &[&forced[..], &["--json", "-"]].concat())).expect("JSON");
        assert_eq!(report["moves"]["what"], what, "{report}");
        assert!(report["moves"]["moves"].as_u64() > Some(9), "{report}");
        assert!(report["moves"]["waited_packets"].as_u64() <= report["packets"].as_u64(), "{report}");
        let text = run(strategy, &forced);
        assert!(text.contains(said), "{text}");
    }
    let report: serde_json::Value = serde_json::from_str(&run("rss", &["--json", "-"])).expect("JSON");
    assert!(report["moves"].is_null(), "{report}");
}
