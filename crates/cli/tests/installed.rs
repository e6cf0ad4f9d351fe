//! What packages install beside the program: pages of the manual, and completion for shells.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{Folder, paceline, stderr, stdout};

#[test]
fn each_command_has_a_page_of_the_manual() {
    let folder = Folder::absent("man");
    let output = paceline(&["man", "--out", folder.path()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let names = folder.names();
    for name in
        ["paceline.1", "paceline-run.1", "paceline-verify.1", "paceline-p4-compile.1", "paceline-self-test.1"]
    {
        assert!(names.iter().any(|page| page == name), "{name}: {names:?}");
    }
    let page = fs::read_to_string(folder.file("paceline-run.1")).expect("a page");
    assert!(page.contains("\\-\\-pcap") && page.contains("Run a chain over a capture"), "{page}");
    let first = stdout(&paceline(&["man"]));
    assert_eq!(first, fs::read_to_string(folder.file("paceline.1")).expect("a page"));
    // Where man is installed, it takes every page without a word.
    for name in names {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(folder.file(&name));
        match man.stdin(Stdio::null()).output() {
            Ok(output) => {
                assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", stderr(&output))
            }
            Err(_) => return eprintln!("skipped: pages are not read by `man`, which is not here"),
        }
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let output = paceline(&["man", "--out", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot write pages to /proc/nowhere"), "{}", stderr(&output));
}

#[test]
fn bash_takes_its_completion_and_completes() {
    let output = paceline(&["completions", "bash"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = Folder::new("completions");
    fs::write(folder.file("paceline.bash"), &output.stdout).expect("written");
    let script = format!(
        "source {}; COMP_WORDS=(paceline ver); COMP_CWORD=1; _paceline paceline ver paceline; echo \"${{COMPREPLY[*]}}\"",
        folder.file("paceline.bash")
    );
    let completed = Command::new("bash").args(["--norc", "-c", &script]).output().expect("bash");
    assert_eq!(stdout(&completed).trim(), "verify", "{}", stderr(&completed));

    let output = paceline(&["completions", "csh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("fish"), "{}", stderr(&output));
}

/// Runs `paceline new` in a folder of the test's own.
fn new(folder: &Folder, args: &[&str]) -> std::process::Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_paceline"));
    program.current_dir(folder.path()).arg("new").args(args).output().expect("a program")
}

#[test]
fn a_new_crate_is_written_beside_the_sources() {
    let folder = Folder::new("new");
    let output = new(&folder, &["my-quota"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("cargo run --release -- verify chain.toml"), "{}", stdout(&output));
    let manifest = fs::read_to_string(folder.file("my-quota/Cargo.toml")).expect("a manifest");
    let parsed: toml::Table = manifest.parse().expect("TOML");
    let nf = parsed["dependencies"]["nf"]["path"].as_str().expect("a path");
    assert!(fs::exists(format!("{nf}/Cargo.toml")).is_ok_and(|is_there| is_there), "{manifest}");
    // Nothing that is there is written over.
    let again = new(&folder, &["my-quota"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("cannot make the folder my-quota"), "{}", stderr(&again));
    for (args, reason) in [
        (&["Quota"][..], "cannot be a crate's name"),
        (&["nat"], "there is a function `nat`"),
        (&["other", "--sources", "/"], "has no sources of Paceline"),
    ] {
        let output = new(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(folder.names(), ["my-quota"]);
}

/// Takes some minutes: all that the crate depends on is built for it.
#[test]
#[ignore = "builds the engine anew: ./x test --long"]
fn a_new_crate_passes_its_test_and_runs() {
    let folder = Folder::new("new-built");
    assert!(new(&folder, &["my-quota"]).status.success());
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(folder.file("my-quota")).args(args).env_remove("CARGO_TARGET_DIR");
        cargo.output().expect("cargo")
    };
    let tested = cargo(&["test", "--quiet"]);
    assert!(tested.status.success(), "{}{}", stdout(&tested), stderr(&tested));
    let listed = cargo(&["run", "--quiet", "--", "nfs", "my-quota"]);
    assert!(stdout(&listed).contains("over-quota"), "{}{}", stdout(&listed), stderr(&listed));
}
