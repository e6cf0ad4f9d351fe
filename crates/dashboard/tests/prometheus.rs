//! What `packaging/` has for Prometheus and Grafana: alert rules and a dashboard, held to the metrics that there are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::{Value, json};
use telemetry::prometheus::FAMILIES;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn read(path: &str) -> String {
    fs::read_to_string(packaging().join(path)).expect("a file of packaging/")
}

/// Names of metrics in a text that no run tells.
fn unknown(text: &str) -> Vec<&str> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let names = words.filter(|word| word.starts_with("paceline_"));
    names.filter(|name| FAMILIES.iter().all(|family| family.name != *name)).collect()
}

/// The expressions of a dashboard's panels.
fn expressions(dashboard: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let targets =
        list(&dashboard["panels"]).iter().flat_map(|panel| list(&panel["targets"])).collect::<Vec<_>>();
    targets.iter().filter_map(|target| target["expr"].as_str().map(str::to_owned)).collect()
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_there_are() {
    let texts =
        ["prometheus/paceline.rules.yml", "prometheus/paceline.rules.test.yml", "grafana/paceline.json"];
    for path in texts {
        let text = read(path);
        assert_eq!(unknown(&text), Vec::<&str>::new(), "{path}");
        assert!(text.matches("paceline_").count() > 5, "{path}");
    }
    assert_eq!(
        unknown("rate(paceline_packets_total[1m]) / paceline_pakets_total"),
        ["paceline_pakets_total"]
    );
}

fn promtool(arguments: &[&str], folder: &Path) -> Option<Output> {
    // Tests may be told where it is: Debian's package starts a server, and can be unpacked without.
    let program = env::var_os("PROMTOOL").unwrap_or_else(|| "promtool".into());
    Command::new(program).args(arguments).current_dir(folder).output().ok()
}

#[test]
fn each_rule_fires_for_what_it_is_for_and_each_panel_asks_a_question() {
    let prometheus = packaging().join("prometheus");
    let Some(tested) = promtool(&["test", "rules", "paceline.rules.test.yml"], &prometheus) else {
        return println!(
            "skipped: `promtool` does not run: apt-get install prometheus, or say where it is by PROMTOOL"
        );
    };
    let said = |output: &Output| {
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
    };
    assert!(tested.status.success(), "{}", said(&tested));
    let dashboard: Value = serde_json::from_str(&read("grafana/paceline.json")).expect("JSON");
    let asked = expressions(&dashboard);
    assert!(asked.len() >= 10, "{asked:?}");
    let asked = asked.iter().map(|text| text.replace("$__rate_interval", "1m").replace("$instance", ".*"));
    let check = |asked: Vec<String>| {
        let rule =
            |(index, expr): (usize, &String)| json!({ "record": format!("panel:{index}"), "expr": expr });
        let rules: Vec<Value> = asked.iter().enumerate().map(rule).collect();
        let folder = tempfile::tempdir().expect("a folder");
        // JSON is YAML.
        let text = json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string();
        fs::write(folder.path().join("panels.yml"), text).expect("written");
        promtool(&["check", "rules", "panels.yml"], folder.path()).expect("it ran a moment ago")
    };
    let checked = check(asked.collect());
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(
        !check(vec!["sum(rate(paceline_packets_total[1m])".to_owned()]).status.success(),
        "a bracket is missing"
    );
}
