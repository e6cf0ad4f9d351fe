//! Pages of reports in a headless Chromium: at three widths, light and dark, nothing stands out, and all text can be read (WCAG AA).

use std::path::Path;
use std::process::Command;

use crate::chromium::chromium;
use crate::support::{Folder, by_line, stderr};

const CHAIN: &str = "examples/edge.toml --pcap captures/edge.pcap";

#[test]
fn every_report_is_for_all_screens_and_eyes() {
    let Some(chromium) = chromium() else { return };
    let folder = Folder::new("looks");
    let reports = [
        ("run", format!("run {CHAIN} --strategy auto --cores 2 --report")),
        ("verify", format!("verify {CHAIN} --strategy rss --cores 2 --report")),
        ("inspect", "inspect --pcap captures/edge.pcap --report".to_owned()),
        ("plan", format!("plan {CHAIN} --rounds 1 --packets 2000 --report")),
        ("emulate", "emulate examples/p4/port_knocking.p4 --pcap captures/edge.pcap --html".to_owned()),
        (
            "compare",
            format!("bench compare {CHAIN} --strategies rss,scr --cores 1,2 --virtual --searches 1 --html"),
        ),
    ];
    let mut pages = Vec::new();
    for (name, command) in reports {
        let page = folder.file(&format!("{name}.html"));
        let made = by_line(&format!("{command} {page}"));
        assert_eq!(made.status.code(), Some(0), "{command}: {}", stderr(&made));
        pages.push(page);
    }
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
    std::fs::create_dir_all(&pictures).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/reports.mjs");
    let looked = Command::new("node")
        .arg(script)
        .arg(&pictures)
        .arg(chromium)
        .args(&pages)
        .output()
        .expect("node runs");
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    let found: serde_json::Value = serde_json::from_slice(&looked.stdout).expect("findings");
    let none = serde_json::json!([]);
    let planted = found["planted"].to_string();
    assert!(
        planted.contains("faint: ") && planted.contains("wide: "),
        "the checks miss what was planted: {planted}"
    );
    for name in ["run", "verify", "inspect", "plan", "emulate", "compare"] {
        let looks = found[name]["looks"].as_array().expect("looks");
        assert_eq!(looks.len(), 6, "{name}");
        for look in looks {
            assert_eq!(look["overflowing"], none, "{name}: {look:#}");
            assert_eq!(look["low_contrast"], none, "{name}: {look:#}");
            assert!(look["checked"].as_u64() > Some(10), "{name}: {look:#}");
        }
        assert_eq!(found[name]["unnamed"], none, "{name}");
    }
}
