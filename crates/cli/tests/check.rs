//! `paceline check`: chain files are looked at, and nothing is run.

use crate::support::{Scratch, by_line, paceline, stderr, stdout};

#[test]
fn every_example_is_right_and_every_strategy_has_its_line() {
    let output = by_line("check examples/gateway.toml examples/edge.toml examples/balance.toml");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.starts_with("gateway: access-list, conntrack, policer, nat\n"), "{text}");
    for strategy in ["single", "rss", "rsspp", "dyssect", "scr", "scr-turns", "hybrid", "auto", "shared"] {
        let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(strategy));
        assert_eq!(lines.count(), 3, "{strategy}: {text}");
    }
    let hybrid = text.lines().find(|line| line.trim_start().starts_with("hybrid")).expect("a line");
    assert!(hybrid.contains("no: "), "a NAT's pool is no replica's: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_strategy_that_has_to_run_it_and_does_not_is_status_2() {
    let output = by_line("check examples/gateway.toml --strategy hybrid");
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let output = by_line("check examples/gateway.toml --strategy rss --cores 8");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("Strategies, on 8 cores"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("dyssect"), "{}", stdout(&output));
}

#[test]
fn mistakes_of_every_file_are_told_with_their_places() {
    let wrong = Scratch::new("check-wrong.toml", b"[[function]]\nuse = \"conntrak\"\n");
    let more = Scratch::new("check-more.toml", b"[[function]]\nuse = \"nat\"\nflow = 3\n");
    let output = paceline(&["check", wrong.path(), "examples/edge.toml", more.path()]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.contains("conntrack") && said.contains("check-wrong.toml:2"), "{said}");
    assert!(said.contains("flows") && said.contains("check-more.toml:3"), "{said}");
    assert!(stdout(&output).starts_with("edge: "), "{}", stdout(&output));
}
