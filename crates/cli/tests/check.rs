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

/// What a run then says of the reload is what was said ahead of it.
#[test]
fn what_a_reload_would_keep_is_what_it_keeps() {
    let function = |name: &str, more: &str| format!("[[function]]\nuse = \"{name}\"\n{more}");
    let rules = "rules = [\"accept tcp from any to any\"]\n";
    let old = [function("policer", ""), function("heavy-hitters", ""), function("firewall", "")].concat();
    let new =
        [function("firewall", rules), function("policer", "flows = 512\n"), function("rate-limiter", "")]
            .concat();
    let old = Scratch::new("check-old.toml", old.as_bytes());
    let new = Scratch::new("check-new.toml", new.as_bytes());
    for strategy in ["rss", "scr", "single"] {
        let output =
            paceline(&["check", new.path(), "--against", old.path(), "--strategy", strategy, "--cores", "2"]);
        let text = stdout(&output);
        assert!(output.status.success(), "{text}{}", stderr(&output));
        let at = text.find("A reload from ").unwrap_or_else(|| panic!("{text}"));
        let told: String = text[at..].split_whitespace().collect::<Vec<_>>().join(" ");
        let is_one = strategy == "single";
        let cores = if is_one { "1" } else { "2" };
        let reload =
            ["run", old.path(), "--pcap", "captures/edge.pcap", "--strategy", strategy, "--cores", cores];
        let reload = [&reload[..], &["--reload-at", "1000", new.path(), "--json", "-"]].concat();
        let report = crate::support::json(&paceline(&reload));
        let functions = report["reloads"][0]["functions"].as_array().expect("functions");
        assert_eq!(functions.len(), 3, "{report}");
        for function in functions {
            let name = function["function"].as_str().expect("a name");
            let expected = match function["why"].as_str() {
                None => format!("{name} goes on with its flows"),
                Some(why) => format!("{name} begins anew, because {why}"),
            };
            assert!(told.contains(&expected), "{strategy}: {expected}: {told}");
        }
        assert!(told.contains("heavy-hitters is gone, with its flows"), "{told}");
        assert!(told.contains("firewall goes on with its flows"), "{told}");
        assert!(told.contains("policer begins anew, because its table is another"), "{told}");
    }
}

/// Without a strategy that is asked for, one is taken that runs both; what cannot be read is told with its place.
#[test]
fn a_reload_is_told_of_under_a_strategy_that_runs_both() {
    let output = by_line("check examples/edge.toml --against examples/edge.toml");
    let text = stdout(&output);
    assert!(output.status.success() && text.contains("A reload from edge, under rss on 4 cores"), "{text}");
    assert_eq!(text.matches("goes on with its flows").count(), 3, "{text}");
    let wrong = Scratch::new("check-against.toml", b"[[function]]\nuse = \"conntrak\"\n");
    let output = paceline(&["check", "examples/edge.toml", "--against", wrong.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("check-against.toml:2"), "{}", stderr(&output));
}

#[test]
fn what_strangers_can_fill_is_told_of_each_function_with_a_table() {
    let text = stdout(&by_line("check examples/firewall.toml"));
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("firewall: a packet that the rules accept as `new`; dropped packets make none"),
        "{text}"
    );
    let text = stdout(&by_line("check examples/gateway.toml"));
    let names = ["access-list", "conntrack", "policer", "nat"];
    assert!(names.iter().all(|name| text.contains(&format!("  {name}: a "))), "{text}");
}
