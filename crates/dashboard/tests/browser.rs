//! The page in a headless Chromium: widths, colours, contrast, names and keys, and the end of a run.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::chromium::chromium;
use super::made_up::{Run, TOKEN};

#[test]
fn the_page_is_for_all_screens_eyes_and_keys() {
    let Some(chromium) = chromium() else { return };
    let mut run = Run::new();
    let asked = std::sync::Arc::clone(&run.asked);
    let dashboard = run.dashboard();
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    std::fs::create_dir_all(&pictures).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/browser.mjs");
    let url = format!("http://{}/", dashboard.address());
    let mut browser = Command::new("node")
        .arg(script)
        .args([&url, pictures.to_str().expect("a path"), chromium])
        .env("TOKEN", TOKEN)
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    // Beside it the run goes on.
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let counting = std::thread::spawn(move || {
        let period = std::time::Duration::from_millis(100);
        while is_over.recv_timeout(period).is_err_and(|why| why == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            run.step();
        }
    });
    let mut lines = BufReader::new(browser.stdout.take().expect("its output")).lines();
    let seen = lines.next().transpose().expect("its output");
    assert_eq!(seen.as_deref(), Some("seen"), "what went wrong is above");
    drop(dashboard);
    let report = lines.next().transpose().expect("its output").unwrap_or_default();
    drop(over);
    counting.join().expect("it counts");
    assert!(browser.wait().expect("it ends").success());
    let report: Value = serde_json::from_str(&report).expect("a report");
    let none = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&none).clone();
    let refused = "Failed to load resource: the server responded with a status of 401 (Unauthorized)";
    assert_eq!(list(&report["errors"]), [refused], "the wrong token alone: {report:#}");
    assert_eq!(list(&report["unnamed"]), none);
    let planted = report["planted"].to_string();
    for fault in [
        "faint: ",
        "P wide: ",
        "P out stands out of its section",
        "DIV nameless has no name",
        "INPUT mute has no name",
    ] {
        assert!(planted.contains(fault), "the checks miss what was planted, {fault}: {planted}");
    }
    let looks = list(&report["looks"]);
    assert_eq!(looks.len(), 6);
    for look in &looks {
        assert_eq!(list(&look["overflowing"]), none, "{look:#}");
        assert_eq!(list(&look["low_contrast"]), none, "{look:#}");
        assert!(look["checked"].as_u64() > Some(80), "{look:#}");
    }
    let sections: Vec<Value> = list(&report["sections"]);
    let expected = [
        "Now",
        "Interfaces",
        "Dropped packets",
        "Functions",
        "Tables of flows",
        "Top flows",
        "Rules",
        "Cores",
        "Strategy",
        "Counted events",
        "Trace packets",
        "Reload the chain",
        "What changed",
    ];
    assert_eq!(sections, expected.map(Value::from));
    assert_eq!(report["charts"], 2);
    let flows = &report["flows"];
    assert!(flows["by_packets"].as_str().is_some_and(|key| key.contains(":5:0]")), "{flows:#}");
    assert!(flows["by_bits"].as_str().is_some_and(|key| key.contains(":5:12b]")), "{flows:#}");
    assert!(
        flows["about"].as_str().is_some_and(|about| about.starts_with("300 flows looked through in ")),
        "{flows:#}"
    );
    let trace = &report["trace"];
    assert!(
        trace["about"].as_str().is_some_and(|about| about.ends_with("that is as many as are shown.")),
        "{trace:#}"
    );
    assert_eq!(
        trace["packets"].as_str().map(|packets| packets.matches("=> forward").count()),
        Some(20),
        "{trace:#}"
    );
    let reload = &report["reload"];
    assert!(reload["refused"].as_str().is_some_and(|told| told.starts_with("Not reloaded")), "{reload:#}");
    assert!(
        reload["reloaded"].as_str().is_some_and(|told| told.contains("nat begins anew, because")),
        "{reload:#}"
    );
    assert_eq!(*asked.reloads.lock().expect("no panic"), [Some("name = \"edge\"".to_owned())]);
    let keys = list(&report["keys"]);
    let places: Vec<u64> = keys.iter().filter_map(|key| key["place"].as_u64()).collect();
    assert!(
        places.len() >= 5 && places.is_sorted(),
        "tables that scroll are stops, in the page's order: {keys:?}"
    );
    assert!(keys.iter().all(|key| key["isSeen"] == true), "{keys:?}");
    assert!(report["headline"].as_str().is_some_and(|text| text.contains("packets/s")), "{report:#}");
    assert!(
        report["ended"].as_str().is_some_and(|text| text.starts_with("The run has ended after")),
        "{report:#}"
    );
    assert_eq!(report["still"], 2, "the last state stays");
}
