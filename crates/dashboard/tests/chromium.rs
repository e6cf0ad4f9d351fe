//! The browser in which tests look at pages, and Node.js, which drives it.

use std::process::Command;

/// Debian's name and others'.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Chromium's program; `None`, with a word why, where it or Node.js does not run.
pub fn chromium() -> Option<&'static str> {
    let chromium = BROWSERS.into_iter().find(|program| runs(program));
    if chromium.is_none() {
        println!("skipped: no Chromium: apt-get install chromium");
        return None;
    }
    if !runs("node") {
        println!("skipped: `node` does not run: apt-get install nodejs");
        return None;
    }
    chromium
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
