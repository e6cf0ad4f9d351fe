//! What the README and the guides show is what the program prints.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Folder, root, stdout};

/// The README and the guides.
fn pages() -> Vec<PathBuf> {
    let guides = fs::read_dir(root().join("docs/guides")).expect("guides");
    let guides = guides.map(|entry| entry.expect("a folder entry").path());
    [root().join("README.md")].into_iter().chain(guides).collect()
}

/// The blocks of a page between fences of this kind.
fn blocks<'a>(page: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("```{kind}\n");
    page.split(begin.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The files that a page has its readers save: names and contents.
fn saved(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("Save this as `").skip(1).filter_map(|rest| rest.split_once("`:\n\n```toml\n"));
    parts.filter_map(|(name, rest)| Some((name, rest.split("```").next()?))).collect()
}

/// The words of a command line, of which some are quoted.
fn words<'a>(line: &'a str) -> Vec<&'a str> {
    let parts = line.split('\'').enumerate();
    let split = |(i, part): (usize, &'a str)| match i % 2 {
        0 => part.split_whitespace().collect::<Vec<_>>(),
        _ => vec![part],
    };
    parts.flat_map(split).collect()
}

/// Whether each part between the lines `...` stands in what is printed, one behind the other.
fn shows(expected: &str, printed: &str) -> bool {
    let mut rest = printed;
    expected.split("...\n").all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Commands run one after the other in a folder of the page's own, with the files that it has its readers save.
#[test]
fn pages_show_what_the_program_prints() {
    let mut commands = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = Folder::new("pages");
        for shared in ["captures", "examples"] {
            symlink(root().canonicalize().expect("the root").join(shared), folder.file(shared))
                .expect("a link");
        }
        for (name, content) in saved(&text) {
            fs::write(folder.file(name), content).expect("a temporary file");
        }
        for part in blocks(&text, "console").iter().flat_map(|block| block.split("$ paceline ").skip(1)) {
            let (command, expected) = part.split_once('\n').expect("a command line");
            let mut program = Command::new(env!("CARGO_BIN_EXE_paceline"));
            let output = program.current_dir(folder.path()).args(words(command)).output();
            let printed = stdout(&output.expect("the program runs"));
            assert!(shows(expected, &printed), "{}: paceline {command}\n{printed}", page.display());
            commands += 1;
        }
    }
    assert!(commands >= 15, "{commands} commands");
}

#[test]
fn what_is_not_printed_is_seen() {
    assert!(shows("a\n...\nb\n", "a\nx\nb\n"));
    assert!(!shows("a\n...\nb\n", "b\na\n"));
    assert_eq!(words("run --trace 'tcp port 1' x"), ["run", "--trace", "tcp port 1", "x"]);
    assert_eq!(saved("Save this as `a.toml`:\n\n```toml\nb\n```\n"), [("a.toml", "b\n")]);
}
