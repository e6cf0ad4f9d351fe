//! What the exit status says: 0 equal, 1 a difference, 2 usage, 3 nothing compared, 4 an input cut short.

use std::fs;
use std::process::Output;

use crate::support::{Scratch, json, paceline, root, stderr, stdout};

const EDGE: &str = "examples/edge.toml";
const CAPTURE: &str = "captures/edge.pcap";

fn capture() -> Vec<u8> {
    fs::read(root().join(CAPTURE)).expect("the capture")
}

fn is(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}{}", stdout(output), stderr(output));
}

/// A pcap file's header alone is a capture without packets.
#[test]
fn nothing_compared_is_status_3() {
    let none = Scratch::new("status-none.pcap", &capture()[..24]);
    let verify = ["verify", EDGE, "--pcap", none.path(), "--strategy", "rss", "--cores", "2"];
    let output = paceline(&verify);
    is(&output, 3);
    assert!(stdout(&output).contains("nothing to compare"), "{}", stdout(&output));
    let output = paceline(&[&verify[..], &["--json", "-"]].concat());
    is(&output, 3);
    let report = json(&output);
    assert_eq!((&report["outcome"], &report["holds"]), (&"nothing-compared".into(), &false.into()));
}

/// Nobody but the chain file is said to have decided what it decided.
#[test]
fn of_no_packets_the_chain_file_decides_nothing() {
    let none = Scratch::new("status-none-run.pcap", &capture()[..24]);
    let said = stdout(&paceline(&["run", EDGE, "--pcap", none.path()]));
    assert!(said.contains("checksums: verified (there is no packet)\n"), "{said}");
}

/// `shared` promises nothing of a tracker's states, so that there is nothing to hold it to.
#[test]
fn a_chain_of_which_nothing_is_promised_is_status_3() {
    let chain = Scratch::new("status-tracker.toml", b"[[function]]\nuse = \"conntrack\"\n");
    let verify = ["verify", chain.path(), "--pcap", CAPTURE, "--strategy", "shared", "--cores", "2"];
    let output = paceline(&verify);
    is(&output, 3);
    assert!(stdout(&output).contains("nothing to compare"), "{}", stdout(&output));
}

#[test]
fn an_input_cut_short_is_status_4_and_what_was_compared_is_said() {
    let whole = capture();
    let cut = Scratch::new("status-cut.pcap", &whole[..whole.len() - 7]);
    let verify = ["verify", EDGE, "--pcap", cut.path(), "--strategy", "rss", "--cores", "2"];
    let output = paceline(&verify);
    is(&output, 4);
    let text = stdout(&output);
    assert!(text.contains("EQUALS single up to the end of the input, which is cut short"), "{text}");
    assert!(text.contains("5,431 packets: every verdict and every byte sent is the same"), "{text}");
    assert!(stderr(&output).contains("cut short"), "{}", stderr(&output));
    let report = json(&paceline(&[&verify[..], &["--json", "-"]].concat()));
    assert_eq!((&report["outcome"], &report["same"]), (&"cut-short".into(), &true.into()));

    let folder = crate::support::Folder::new("status-cut");
    let others: [&[&str]; 5] = [
        &["run", EDGE, "--pcap", cut.path()],
        &["inspect", "--pcap", cut.path()],
        &["p4", "run", "examples/p4/syn_cookie.p4", "--pcap", cut.path()],
        &["sequence", EDGE, "--pcap", cut.path(), "--cores", "2", "--out-dir", folder.path()],
        &["bench", "chain", EDGE, "--pcap", cut.path()],
    ];
    others.iter().for_each(|args| is(&paceline(args), 4));
}

/// Without recovery replicas that lose packets come to differ.
#[test]
fn a_difference_is_status_1_in_a_cut_input_too() {
    let whole = capture();
    let cut = Scratch::new("status-differs.pcap", &whole[..whole.len() - 7]);
    for (pcap, loss) in [(CAPTURE, "0.05"), (cut.path(), "0.05")] {
        let verify =
            ["verify", "examples/perimeter.toml", "--pcap", pcap, "--strategy", "scr", "--cores", "3"];
        let losses = ["--sequencer", "external", "--loss", loss, "--recovery", "off", "--json", "-"];
        let output = paceline(&[&verify[..], &losses].concat());
        is(&output, 1);
        let report = json(&output);
        assert_eq!((&report["outcome"], &report["same"]), (&"different".into(), &false.into()));
    }
}

#[test]
fn equal_is_status_0() {
    let output = paceline(&["verify", EDGE, "--pcap", CAPTURE, "--json", "-"]);
    is(&output, 0);
    assert_eq!(json(&output)["outcome"], "equal");
}

#[test]
fn help_lists_every_status() {
    let help = stdout(&paceline(&["--help"]));
    let statuses = help.split("Exit status:").nth(1).expect("a section");
    for status in ["0", "1", "2", "3", "4", "101", "130"] {
        let begins = |line: &str| line.split_whitespace().next() == Some(status);
        assert!(statuses.lines().any(begins), "{status}: {help}");
    }
}
