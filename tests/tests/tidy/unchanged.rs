//! `unchanged.sh`, by which `./x test` leaves out what passed before: a program runs again where anything changed that it
//! depends on, and where it failed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_conformance::root;

/// A folder with a test program and what it starts, gone afterwards.
struct Build(PathBuf);

impl Drop for Build {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Build {
    fn new() -> Build {
        let build = Build(std::env::temp_dir().join(format!("paceline-unchanged-{}", std::process::id())));
        fs::create_dir_all(build.0.join("debug")).expect("a folder");
        fs::create_dir_all(build.0.join("passed")).expect("a folder");
        build
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("debug").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::write(&path, content).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// A program that passes or fails, and starts another one if it names it.
    fn write_test(&self, status: u8, starts: Option<&Path>) {
        let line = "test result: ok. 3 passed; 0 failed; 1 ignored";
        let starts = starts.map(|path| path.display().to_string()).unwrap_or_default();
        self.write(
            "all-1",
            &format!(
                "#!/bin/sh\n# {starts}\necho runs; echo 'skipped: no root'; echo '{line}'; exit {status}\n"
            ),
        );
    }

    /// What was printed, and whether it passed.
    fn run(&self, name: &str, argument: &str, inputs: &str) -> (String, bool) {
        let mut command = Command::new(root().join("tests/unchanged.sh"));
        command.arg(self.path(name)).arg(argument);
        command.env("BUILD", &self.0).env("PASSED", self.0.join("passed")).env("INPUTS", inputs);
        let output = command.output().expect("bash runs");
        (String::from_utf8(output.stdout).expect("text"), output.status.success())
    }

    fn runs(&self, argument: &str, inputs: &str) -> bool {
        let (said, passed) = self.run("all-1", argument, inputs);
        assert!(passed && said.contains("3 passed; 0 failed; 1 ignored"), "{said}");
        assert!(said.contains("skipped: no root\n"), "it was skipped then, too: {said}");
        assert_eq!(said.contains("result: unchanged."), !said.contains("runs"), "{said}");
        said.contains("runs")
    }
}

#[test]
fn a_test_program_runs_again_where_something_changed_that_it_depends_on() {
    let build = Build::new();
    build.write_test(0, None);
    build.write("paceline", "one");
    assert!(build.runs("", "a"), "the first time");
    assert!(!build.runs("", "a"), "nothing changed");
    assert!(build.runs("some_test", "a"), "an argument");
    assert!(build.runs("", "b"), "a file that is read");
    build.write("paceline", "two");
    assert!(!build.runs("", "a"), "a program that it does not start");
    build.write_test(0, Some(&build.path("paceline")));
    assert!(build.runs("", "a"), "its own code");
    assert!(!build.runs("", "a"));
    build.write("paceline", "three");
    assert!(build.runs("", "a"), "the program that it starts");

    build.write_test(1, None);
    for _ in 0..2 {
        let (said, passed) = build.run("all-1", "", "a");
        assert!(said.contains("runs") && !passed, "what failed runs again: {said}");
    }
    build.write("tidy-1", "#!/bin/sh\necho runs; echo 'test result: ok. 1 passed; 0 failed; 0 ignored'\n");
    for _ in 0..2 {
        assert!(build.run("tidy-1", "", "a").0.contains("runs"), "it reads all sources");
    }
}

/// Names in `tests/extended.txt` of which no test has one in the sources.
fn unknown(list: &str, sources: &str) -> Vec<String> {
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let is_unknown = |name: &&str| {
        let function = name.rsplit("::").next().unwrap_or_default();
        !sources.contains(&format!("fn {function}")) && !sources.contains(&format!("{function} {{"))
    };
    names.filter(is_unknown).map(str::to_owned).collect()
}

/// `./x test` leaves out tests by these names: a misspelt one would leave a long test where it was.
#[test]
fn long_tests_are_named_as_they_are() {
    let mut sources = String::new();
    for folder in ["tests/tests", "crates/cli/tests", "crates/cli/tests/linux", "crates/xdp/tests"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            sources += &fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
        }
    }
    let list = fs::read_to_string(root().join("tests/extended.txt")).expect("the list");
    assert_eq!(unknown(&list, &sources), [""; 0]);
    assert_eq!(unknown("no::such_test  for ever", &sources), ["no::such_test"]);
}
