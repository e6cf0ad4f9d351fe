//! Comments say who acts, and each stands alone: a hover shows one doc comment, without the one before it.

use std::fs;

use paceline_conformance::root;

use crate::{lines, pages};

/// How no paragraph of a doc comment begins: it would lean on the comment before it. Say what the item is, once more if need be.
const LEANING: [&str; 6] = ["The same", "Of", "Likewise", "As above", "See above", "Ditto"];

/// What stands in no comment and on no page. Name the core, thread, program or person; say "that is possible", "means nothing".
const VAGUE: [&str; 13] = [
    "somebody",
    "someone",
    "whoever",
    "what of ",
    "those who ",
    " one who ",
    "who asks",
    "who are to",
    "nobody panics who",
    " be had ",
    "leapt over",
    "of no meaning",
    "the model has it",
];

/// The turn in a line that is too vague, if any.
fn vague(line: &str) -> Option<&'static str> {
    // So that a turn before a full stop is found as well.
    let words: String =
        line.to_lowercase().chars().map(|c| if c.is_alphabetic() { c } else { ' ' }).collect();
    let words = format!(" {words} ");
    VAGUE.into_iter().find(|turn| words.contains(turn))
}

/// The comment in a line of a source, if there is one.
fn comment<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let begin = if path.ends_with(".rs") { "//" } else { "#" };
    line.find(begin).map(|at| &line[at..])
}

/// What a line of a doc comment says; `None` of other lines.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// How a paragraph of a doc comment begins with this line, if it leans on what stands elsewhere.
fn leaning(line: &str, before: Option<&str>) -> Option<&'static str> {
    let text = doc(line).filter(|_| before.and_then(doc).is_none_or(str::is_empty))?;
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric());
    LEANING.into_iter().find(|word| text.strip_prefix(word).is_some_and(|rest| !goes_on(rest)))
}

/// What is wrong with each line of Rust and shell sources, in their order.
fn faults() -> Vec<String> {
    let mut found = Vec::new();
    let mut before = String::new();
    for (path, number, line) in lines("") {
        let path = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        let above = (number > 1).then_some(before.as_str());
        let is_silent = number == 1 && path.ends_with(".rs") && !line.starts_with("//! ");
        let turns = [
            comment(&path, &line).and_then(vague),
            leaning(&line, above),
            is_silent.then_some("no line `//! ...` that says what the file is"),
        ];
        found.extend(turns.into_iter().flatten().map(|turn| format!("{path}:{number}: {turn}")));
        before = line;
    }
    // Its tests have all turns.
    found.retain(|fault| !fault.contains("tests/tidy/words.rs"));
    found
}

#[test]
fn comments_say_who_and_stand_alone() {
    let found = faults();
    assert!(found.is_empty(), "see VAGUE and LEANING: {found:#?}");
}

#[test]
fn pages_and_examples_say_who() {
    let others = ["examples", "crates/live/bpf"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        entries.map(|entry| entry.expect("a folder entry").path()).filter(|path| path.is_file())
    });
    let mut found = Vec::new();
    for path in pages().into_iter().chain(others) {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (number, line) in (1..).zip(text.lines()) {
            found.extend(vague(line).map(|turn| format!("{}:{number}: {turn}", path.display())));
        }
    }
    assert!(found.is_empty(), "see VAGUE: {found:#?}");
}

#[test]
fn the_rules_on_words_can_be_broken() {
    assert_eq!(vague("// Whoever has it."), Some("whoever"));
    assert_eq!(vague("// as it can be had."), Some(" be had "));
    assert_eq!(vague("// what offers"), None);
    assert_eq!(comment("a.rs", "f(); // for someone").and_then(vague), Some("someone"));
    assert_eq!(comment("a.sh", "f # for someone").and_then(vague), Some("someone"));
    assert_eq!(comment("a.rs", "someone();"), None);
    assert_eq!(leaning("    /// The same of IPv6.", Some("    }")), Some("The same"));
    assert_eq!(leaning("//! Of a header.", None), Some("Of"));
    assert_eq!(leaning("/// Of a header.", Some("///")), Some("Of"));
    assert_eq!(leaning("/// Of a header.", Some("/// A field")), None);
    assert_eq!(leaning("/// Offset of a field.", None), None);
    assert_eq!(leaning("// The same.", None), None);
}
