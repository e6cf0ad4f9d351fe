//! Each code of an error is what its example ends in, and `paceline explain` has its page.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, paceline, root, stderr, stdout};

/// The codes that `paceline explain` lists.
fn codes() -> Vec<String> {
    let list = stdout(&paceline(&["explain"]));
    let errors = list.split("\nDrop reasons\n").next().unwrap_or_default().lines().skip(1);
    let names = errors.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The lines for a shell of a page, if it has some.
fn example(page: &str) -> Option<String> {
    let (_, shown) = page.split_once("\nHow to see it\n")?;
    let lines: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("  $ ")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[test]
fn examples_of_errors_end_in_their_codes() {
    let program = Path::new(env!("CARGO_BIN_EXE_paceline"));
    let programs = program.parent().expect("a folder").to_str().expect("text");
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let codes = codes();
    let (mut shown, mut wrong) = (0, Vec::new());
    for code in &codes {
        let page = stdout(&paceline(&["explain", code]));
        assert!(page.starts_with(&format!("{code}: ")) && page.contains("\nWhat to do\n"), "{code}: {page}");
        let wide: Vec<_> =
            page.lines().filter(|line| !line.starts_with("  $") && line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:?}");
        let Some(lines) = example(&page) else { continue };
        shown += 1;
        let folder = Folder::new("explain");
        for shared in ["captures", "examples"] {
            symlink(root().canonicalize().expect("the root").join(shared), folder.file(shared))
                .expect("a link");
        }
        let mut shell = Command::new("bash");
        shell.args(["-c", &lines]).current_dir(folder.path()).env("PATH", &path);
        let output = shell.output().expect("bash runs");
        let (status, said) = (output.status.code(), stderr(&output));
        if !matches!(status, Some(1..=4)) || !said.ends_with(&format!("more: `paceline explain {code}`")) {
            wrong.push(format!("{code}: {status:?}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(codes.len() >= 40 && shown >= 30, "{shown} of {} have an example", codes.len());
}

#[test]
fn drop_reasons_are_explained_by_who_drops() {
    let reason = stdout(&paceline(&["explain", "over-rate"]));
    for by in ["dropped by policer", "dropped by rate-limiter", "rate_bytes_per_s"] {
        assert!(reason.contains(by), "{reason}");
    }
    let one = stdout(&paceline(&["explain", "policer/over-rate"]));
    assert!(one.contains("dropped by policer") && !one.contains("rate-limiter"), "{one}");
    assert_eq!(paceline(&["explain", "nat/over-rate"]).status.code(), Some(2));
    assert!(stdout(&paceline(&["explain", "logged-03"])).contains("dropped by firewall"));
    assert!(stdout(&paceline(&["explain", "udp-checksum"])).contains("dropped by malformed"));
    assert!(stdout(&paceline(&["explain", "no-room"])).contains("dropped by engine"));
}

#[test]
fn a_name_that_is_none_gets_the_nearest() {
    let unknown = paceline(&["explain", "key-conflict"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("Did you mean `keys-conflict`?"), "{}", stderr(&unknown));
}

/// Help that was asked for is no error.
#[test]
fn help_ends_in_no_code() {
    for args in [&["--help"][..], &["run", "--help"], &["--version"], &[]] {
        let said = stderr(&paceline(args));
        assert!(!said.contains("paceline explain usage"), "{args:?}: {said}");
    }
    assert!(stderr(&paceline(&["run", "--fly"])).ends_with("`paceline explain usage`"));
}
