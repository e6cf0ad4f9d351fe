//! `--report` of `verify` and `inspect`: a page whose heading says the finding.

use std::fs;

use crate::support::{Folder, by_line, stderr, stdout};

/// Runs the command with `--report`, and returns what its page has: text of the heading, findings, headings of sections, and all text.
fn page(name: &str, command: &str, status: i32) -> (String, Vec<String>, Vec<String>, String) {
    let folder = Folder::new(&format!("html-{name}"));
    let file = folder.file("page.html");
    let output = by_line(&format!("{command} --report {file}"));
    assert_eq!(output.status.code(), Some(status), "{}{}", stdout(&output), stderr(&output));
    let html = fs::read_to_string(file).expect("a page");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).expect("well-formed");
    let text = |node: roxmltree::Node| -> String {
        node.descendants().filter(roxmltree::Node::is_text).filter_map(|text| text.text()).collect()
    };
    let all = |tag: &str| {
        document.descendants().filter(|node| node.has_tag_name(tag)).map(text).collect::<Vec<_>>()
    };
    let is_findings = |node: &roxmltree::Node| node.attribute("class") == Some("findings");
    let findings = document.descendants().find(is_findings).expect("findings");
    let findings = findings.children().map(text).collect();
    // Each table scrolls in itself, and can be reached by keyboard.
    for table in document.descendants().filter(|node| node.has_tag_name("table")) {
        let parent = table.parent().expect("a box");
        assert_eq!((parent.attribute("class"), parent.attribute("tabindex")), (Some("scroll"), Some("0")));
    }
    (all("h1").concat(), findings, all("h2"), text(document.root()))
}

#[test]
fn a_comparison_says_that_it_holds() {
    let command = "verify examples/edge.toml --pcap captures/edge.pcap --strategy scr --cores 2";
    let (heading, findings, sections, text) = page("equal", command, 0);
    assert_eq!(heading, "edge: scr on 2 cores EQUALS single");
    assert!(findings[0].contains("every verdict and every byte sent is the same"), "{findings:?}");
    assert_eq!(sections, ["States at the end"]);
    assert!(text.contains("heavy-hitters") && text.contains("\"outcome\":\"equal\""), "{text}");
}

#[test]
fn a_comparison_shows_the_first_difference() {
    let command = "verify examples/edge.toml --pcap captures/edge.pcap --strategy scr --cores 2 --sequencer external --loss 0.2 \
                   --recovery off";
    let (heading, findings, sections, text) = page("different", command, 1);
    assert_eq!(heading, "edge: scr on 2 cores DIFFERS FROM single");
    assert!(findings.iter().any(|finding| finding.contains("have another answer")), "{findings:?}");
    assert!(findings.iter().any(|finding| finding.contains("REPLICAS DIVERGED")), "{findings:?}");
    assert_eq!(sections[0], "The first packet with another answer");
    assert!(sections.contains(&"History before packets".to_owned()), "{sections:?}");
    assert!(text.contains("DIFFERENT"), "{text}");
}

#[test]
fn a_comparison_says_what_was_judged() {
    let command = "verify examples/gateway.toml --pcap captures/gateway.pcap --strategy rss --cores 2";
    let (heading, _, sections, _) = page("judged", command, 0);
    assert!(heading.starts_with("gateway: rss on 2 cores EQUALS single"), "{heading}");
    assert!(sections.contains(&"States at the end".to_owned()), "{sections:?}");
}

#[test]
fn an_inspection_says_what_the_biggest_flows_have() {
    let (heading, findings, sections, text) = page("inspect", "inspect --pcap captures/edge.pcap", 0);
    assert_eq!(heading, "captures/edge.pcap: 5,432 packets");
    assert!(findings[0].starts_with("The biggest of 1,801 flows has "), "{findings:?}");
    assert!(findings.iter().any(|finding| finding.contains("carry 33.5% of the packets")), "{findings:?}");
    assert_eq!(sections[..3], ["Flows", "Flows by key", "Biggest flows by 5-tuple"]);
    assert!(text.contains("Flows that have at most so many packets"), "{text}");
}

#[test]
fn pages_take_no_dash_and_replace_nothing_that_is_read() {
    for (command, reason) in [
        ("inspect --pcap captures/edge.pcap --report captures/edge.pcap", "captures/edge.pcap"),
        (
            "verify examples/edge.toml --pcap captures/edge.pcap --report examples/edge.toml",
            "examples/edge.toml",
        ),
        ("inspect --pcap captures/edge.pcap --report /nonexistent/page.html", "/nonexistent"),
    ] {
        let output = by_line(command);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", stdout(&output));
        assert!(stderr(&output).contains(reason), "{command}: {}", stderr(&output));
    }
}

#[test]
fn names_that_are_not_there_get_the_ones_that_were_meant() {
    for (command, meant) in [
        ("run exampels/edge.toml --pcap captures/edge.pcap", "Did you mean `examples/edge.toml`?"),
        ("run examples/edge.toml --pcap captures/egde.pcap", "Did you mean `captures/edge.pcap`?"),
        ("inspect --pcap captures/edge.pcpa", "Did you mean `captures/edge.pcap`?"),
        ("generate datacentre --out /tmp/paceline-none.pcap", "Did you mean `datacenter`?"),
        ("generate zipf:flow=10 --out /tmp/paceline-none.pcap", "Did you mean `flows`?"),
        ("p4 run examples/p4/port_nocking.p4 --packet 00", "Did you mean `examples/p4/port_knocking.p4`?"),
    ] {
        let output = by_line(command);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(meant), "{command}: {said}");
    }
}
