//! Mistakes of which it can be told what was meant, and what refusals offer instead.

use crate::support::{Scratch, paceline, stderr, stdout};

const EDGE: &str = "examples/edge.toml";
const CAPTURE: &str = "captures/edge.pcap";

/// The program refuses, and says all of `words`.
fn refused(args: &[&str], words: &[&str]) {
    let output = paceline(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}{}", stdout(&output), stderr(&output));
    for word in words {
        assert!(stderr(&output).contains(word), "{args:?}: {word}: {}", stderr(&output));
    }
}

#[test]
fn an_option_of_the_chain_below_a_function_is_sent_up() {
    let chain = Scratch::new("name-below.toml", b"[[function]]\nuse = \"ddos\"\nname = \"edge\"\n");
    refused(
        &["run", chain.path(), "--pcap", CAPTURE],
        &[":3:1", "`name` is an option of the chain", "above the first `[[function]]`"],
    );
}

#[test]
fn an_option_of_functions_above_them_is_sent_down() {
    let chain = Scratch::new("flows-above.toml", b"flows = 64\n[[function]]\nuse = \"ddos\"\n");
    refused(
        &["run", chain.path(), "--pcap", CAPTURE],
        &[":1:1", "`flows` is an option of a function", "below that function's `[[function]]`"],
    );
}

#[test]
fn a_capture_for_a_chain_and_a_chain_for_a_capture_are_told_apart() {
    for command in ["run", "verify"] {
        refused(
            &[command, CAPTURE, "--pcap", CAPTURE],
            &["edge.pcap is a capture, and a chain was expected"],
        );
        refused(&[command, EDGE, "--pcap", EDGE], &["edge.toml is a chain file, and a capture was expected"]);
    }
    refused(&["plan", CAPTURE], &["edge.pcap is a capture, and a chain was expected"]);
    refused(&["inspect", "--pcap", EDGE], &["edge.toml is a chain file, and a capture was expected"]);
    refused(
        &["bench", "chain", EDGE, "--pcap", EDGE],
        &["edge.toml is a chain file, and a capture was expected"],
    );
}

#[test]
fn letters_that_changed_places_are_put_right() {
    refused(&["nfs", "nta"], &["Did you mean `nat`?"]);
    refused(&["nfs", "natt"], &["Did you mean `nat`?"]);
    let chain = Scratch::new("nta.toml", b"[[function]]\nuse = \"nta\"\n");
    refused(&["run", chain.path(), "--pcap", CAPTURE], &["did you mean `nat`?"]);
    let far = paceline(&["nfs", "xyz"]);
    assert!(!stderr(&far).contains("Did you mean"), "{}", stderr(&far));
}

/// One search puts all names right: models and their options, profiles, interfaces, words of chain files, codes.
#[test]
fn whatever_is_named_wrong_gets_the_nearest_name() {
    refused(&["generate", "datacentre", "--out", "-"], &["Did you mean `datacenter`?"]);
    refused(&["bench", "chain", EDGE, "--traffic", "unifrom"], &["Did you mean `uniform`?"]);
    refused(&["bench", "chain", EDGE, "--traffic", "zipf:flow=5"], &["Did you mean `flows`?"]);
    refused(
        &["p4", "resources", "examples/p4/elephant.p4", "--profile", "swich"],
        &["Did you mean `switch`?"],
    );
    refused(&["run", EDGE, "--on", "loo"], &["Did you mean `lo`?"]);
    refused(
        &["run", EDGE, "--pcap", CAPTURE, "--strategy", "dysect"],
        &["a similar value exists: 'dyssect'"],
    );
    refused(&["verifi", EDGE], &["a similar subcommand exists: 'verify'"]);
    refused(&["run", EDGE, "--pcapp", CAPTURE], &["a similar argument exists: '--pcap'"]);
    refused(&["run", EDGE, "--pcap", "captures/egde.pcap"], &["Did you mean `captures/edge.pcap`?"]);
    let chain = Scratch::new("word.toml", b"[[function]]\nuse = \"policer\"\naction = \"makr\"\n");
    refused(&["run", chain.path(), "--pcap", CAPTURE], &["did you mean \"mark\"?"]);
    let rules = Scratch::new("rule.toml", b"[[function]]\nuse = \"firewall\"\nrules = [\"acept all\"]\n");
    refused(&["run", rules.path(), "--pcap", CAPTURE], &["did you mean \"accept\"?"]);
}

/// And `scr` does run it.
#[test]
fn refusals_for_keys_that_no_hash_serves_offer_scr() {
    const PERIMETER: &str = "examples/perimeter.toml";
    for strategy in ["rss", "rsspp"] {
        let run = ["run", PERIMETER, "--pcap", CAPTURE, "--cores", "2", "--strategy", strategy];
        refused(&run, &["`--strategy scr`", "exactly as one core does", "`--strategy single`"]);
    }
    let verify = paceline(&["verify", PERIMETER, "--pcap", CAPTURE, "--cores", "2", "--strategy", "scr"]);
    assert_eq!(verify.status.code(), Some(0), "{}", stderr(&verify));
}

/// A function that looks into payloads ahead of others with states is nothing for `scr`, and it is not offered.
#[test]
fn scr_is_not_offered_where_it_cannot_run() {
    let text = "[[function]]\nuse = \"pattern-scanner\"\npatterns = [\"abc\"]\n[[function]]\nuse = \"ddos\"\n\
                [[function]]\nuse = \"conntrack\"\n";
    let chain = Scratch::new("scanned.toml", text.as_bytes());
    let output = paceline(&["run", chain.path(), "--pcap", CAPTURE, "--cores", "2", "--strategy", "rss"]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let text = stderr(&output);
    assert!(text.contains("`--strategy single`") && !text.contains("scr"), "{text}");
    let scr = paceline(&["run", chain.path(), "--pcap", CAPTURE, "--cores", "2", "--strategy", "scr"]);
    assert_eq!(scr.status.code(), Some(2), "it would be refused: {}", stdout(&scr));
}

/// What people need first stands first; the rest has headings.
#[test]
fn help_comes_in_groups() {
    for (command, first, headings) in [
        (
            &["run"][..],
            "--pcap",
            &["Pace, order and watching:", "Card, and flows that move", "History (strategy scr):"][..],
        ),
        (&["verify"], "--pcap", &["Card, and flows that move", "History (strategy scr):"]),
        (&["bench", "mlffr"], "--pcap", &["Load:", "Card, and flows that move"]),
        (&["bench", "compare"], "--pcap", &["Load:"]),
        (&["bench", "chain"], "--pcap", &["Generated packets:"]),
        (&["generate"], "--out", &["Packets:", "Options of one model:"]),
        (&["emulate"], "--model", &["Pipeline and load:", "Buffers of the models:"]),
        (&["emulate", "sweep"], "--traffic", &["Buffers of the models:"]),
    ] {
        let help = stdout(&paceline(&[command, &["--help"]].concat()));
        let (_, options) = help.split_once("\nOptions:\n").unwrap_or_else(|| panic!("{command:?}: {help}"));
        assert!(options.trim_start().starts_with(first), "{command:?}: {options}");
        for heading in headings {
            assert!(options.contains(heading), "{command:?}: {heading}: {options}");
        }
        for old in ["--trace ", "--virtual-cores", "<TRACE|MODEL>"] {
            // There it is something else.
            if *command == ["run"] && old == "--trace " {
                continue;
            }
            assert!(!help.contains(old), "{command:?}: {old}: {help}");
        }
    }
}

#[test]
fn chains_without_an_end_and_in_another_encoding_are_refused() {
    refused(&["run", "/dev/zero", "--pcap", CAPTURE], &["the chain file /dev/zero has more than 64 MiB"]);
    refused(&["p4", "check", "/dev/zero"], &["the program /dev/zero has more than 64 MiB"]);
    let chain = Scratch::new("latin1.toml", b"# gr\xfc\xdfe\n[[function]]\nuse = \"ddos\"\n# \xfc\n");
    refused(
        &["run", chain.path(), "--pcap", CAPTURE],
        &["latin1.toml is not UTF-8: line 1", "Save it as UTF-8"],
    );
}

#[test]
fn a_plain_capture_by_the_name_of_another_format_is_told() {
    for name in ["out.pcap.gz", "out.pcapng", "out.pcap.zst", "out.pcap"] {
        let out = Scratch::new(name, b"");
        for args in [&["run", EDGE, "--pcap", CAPTURE][..], &["generate", "uniform", "--packets", "10"]] {
            let output = paceline(&[args, &["--out", out.path()]].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let is_told = stderr(&output).contains("will be a plain pcap");
            assert_eq!(is_told, name != "out.pcap", "{name}: {}", stderr(&output));
        }
    }
}

/// Such a run would be one without what was asked for.
#[test]
fn options_of_live_runs_are_refused_over_a_capture() {
    let options: [&[&str]; 11] = [
        &["--record", "in.pcap"],
        &["--duration", "1"],
        &["--on-death", "block"],
        &["--control", "ctl.sock"],
        &["--mode", "route"],
        &["--front"],
        &["--socket", "xdp"],
        &["--poll", "busy"],
        &["--card-rss"],
        &["--pass-to-host", "tcp/22"],
        &["--pins", "pins"],
    ];
    for option in options {
        let run = [&["run", EDGE, "--pcap", CAPTURE], option].concat();
        refused(&run, &["cannot be used with", "--pcap", option[0]]);
        let history = ["run", EDGE, "--strategy", "scr", "--sequencer", "external", "--pcap-dir", "captures"];
        refused(&[&history[..], option].concat(), &["cannot be used with", "--pcap-dir", option[0]]);
    }
    refused(&["run", EDGE, "--pcap", CAPTURE, "--trace-limit", "5"], &["--trace <FILTER>"]);
}

#[test]
fn without_packets_every_place_where_they_may_come_from_is_named() {
    refused(&["run", EDGE], &["--pcap", "--pcap-dir", "--inside", "--outside", "--on", "--mirror"]);
    refused(&["verify", EDGE], &["--pcap"]);
}

#[test]
fn a_capture_without_its_option_is_given_it() {
    for command in ["run", "verify"] {
        refused(&[command, EDGE, CAPTURE], &["unexpected argument", "`--pcap captures/edge.pcap`"]);
    }
    let other = paceline(&["run", EDGE, "--pcap", CAPTURE, EDGE]);
    assert!(!stderr(&other).contains("tip:"), "{}", stderr(&other));
}
