//! `paceline self-test`, as after installing.

use std::process::{Command, Output};

use crate::support::{paceline, stderr, stdout};

#[test]
fn what_is_installed_is_checked_and_each_check_has_a_line() {
    let output = paceline(&["self-test", "--packets", "2000", "--verbose"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for name in ["capture", "run", "rss", "rsspp", "scr", "auto", "oracle"] {
        let is_ok = |line: &str| line.split_whitespace().take(2).eq(["ok", name]);
        assert!(text.lines().any(is_ok), "{name}: {text}");
    }
    // Where there is a network namespace it is passed; otherwise the line has the reason.
    assert!(text.lines().any(|line| line.contains(" live ") && !line.starts_with("FAILED")), "{text}");
    assert!(
        text.contains("$ paceline verify edge.toml --pcap capture.pcap --strategy scr --cores 2 --json -"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("Paceline works here"), "{text}");
}

#[test]
fn a_check_that_takes_what_is_not_here_is_left_out_with_the_reason() {
    let output = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["self-test", "--packets", "1000"])
        .env("PATH", "/nonexistent")
        .output()
        .expect("a program");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("not tried  live       it takes a network namespace"), "{text}");
    assert!(text.contains("7 checks passed, 1 not tried"), "{text}");
}

/// Planted: nothing longer than 10 KiB can be written, so that the capture is cut short.
#[test]
fn a_check_that_fails_is_named_and_the_status_says_so() {
    let limited = |limit: &str, folder: Option<&str>| -> Output {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{limit}; exec \"$0\" self-test"), env!("CARGO_BIN_EXE_paceline")]);
        if let Some(folder) = folder {
            command.env("TMPDIR", folder);
        }
        command.output().expect("bash")
    };
    let output = limited("ulimit -f 10", None);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FAILED     capture    `paceline generate"), "{text}");
    assert!(text.contains("0 checks passed, 1 FAILED, 7 not tried"), "{text}");

    let output = limited("true", Some("/nonexistent"));
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("set TMPDIR"), "{}", stderr(&output));
}
