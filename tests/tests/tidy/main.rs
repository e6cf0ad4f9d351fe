//! The rules of the house, as a test: what a reviewer would otherwise have to say every time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use paceline_conformance::root;

mod claims;
mod contract;
mod imports;
mod unchanged;
mod words;

/// Past this many lines a file has a seam.
const MAX_LINES: usize = 800;

/// The files that each packet passes, which are read one after another: receive, parse, locate, step, replay, edit, send.
const PASSED: [&str; 7] = [
    "crates/wire/src/parse",
    "crates/wire/src/edits",
    "crates/table/src/lookup.rs",
    "crates/engine/src/path/",
    "crates/engine/src/store/private",
    "crates/engine/src/store/function",
    "crates/engine/src/store/replay",
];

/// The most lines of one of those.
const MAX_LINES_PASSED: usize = 400;

/// Unfinished work.
const UNFINISHED: [&str; 3] = ["todo!(", "unimplemented!(", "dbg!("];

/// What a function must not touch: it would make replicas differ.
const BANNED_IN_FUNCTIONS: [&str; 9] = [
    "Instant",
    "SystemTime",
    "rand::",
    "HashMap",
    "HashSet",
    "thread",
    "std::env",
    "RandomState",
    "std::time",
];

/// Crates from the bottom up. Each may use those before it, less the exceptions below.
const LAYERS: [&str; 26] = [
    "names",
    "wire",
    "nf",
    "sequencer",
    "nfs",
    "memory",
    "ring",
    "control",
    "recovery",
    "table",
    "strategy",
    "io",
    "live",
    "telemetry",
    "dashboard",
    "engine",
    "stock",
    "traffic",
    "p4",
    "xdp",
    "pipeline",
    "measure",
    "sweep",
    "cli",
    "python",
    "conformance",
];

/// Uses that the order would allow and that are not wanted.
const FORBIDDEN: [(&str, &str); 6] = [
    ("table", "nfs"),
    ("strategy", "nfs"),
    ("strategy", "table"),
    ("io", "nfs"),
    ("io", "table"),
    ("io", "strategy"),
];

fn sources(under: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![under.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder entry").path();
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !is_hidden && !path.ends_with("target") && !path.ends_with("corpus") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "sh") {
                found.push(path);
            }
        }
    }
    found
}

/// Every line of every source, with its file and number, less this file.
fn lines(under: &str) -> Vec<(PathBuf, usize, String)> {
    let files = sources(&root().join(under)).into_iter().filter(|path| !path.ends_with("tests/tidy/main.rs"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let number = |(i, line): (usize, &str)| (path.clone(), i + 1, line.to_owned());
        text.lines().enumerate().map(number).collect::<Vec<_>>()
    };
    files.flat_map(read).collect()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// What is wrong with a line of code, if anything.
fn fault(line: &str, banned: &[&'static str]) -> Option<&'static str> {
    if is_comment(line) {
        return None;
    }
    banned.iter().copied().find(|word| line.contains(word))
}

/// How long a file may be.
fn most_lines(path: &Path) -> usize {
    let path = path.strip_prefix(root()).unwrap_or(path).to_string_lossy();
    match PASSED.iter().any(|passed| path.starts_with(passed)) {
        true => MAX_LINES_PASSED,
        false => MAX_LINES,
    }
}

#[test]
fn files_are_short_enough() {
    let mut lengths: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (path, _, _) in lines("") {
        *lengths.entry(path).or_default() += 1;
    }
    assert!(lengths.len() > 30, "the walk found only {} files", lengths.len());
    let passed = lengths.keys().filter(|path| most_lines(path) == MAX_LINES_PASSED).count();
    assert!(passed > 20, "{passed} files of those that packets pass");
    let long: Vec<_> = lengths.iter().filter(|(path, length)| **length > most_lines(path)).collect();
    assert!(long.is_empty(), "past {MAX_LINES} lines, or {MAX_LINES_PASSED}, split by meaning: {long:?}");
}

#[test]
fn nothing_is_left_to_do() {
    let left: Vec<_> =
        lines("").into_iter().filter(|(_, _, line)| fault(line, &UNFINISHED).is_some()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn functions_are_deterministic_by_construction() {
    for krate in ["crates/nf/src", "crates/nfs/src"] {
        let all = lines(krate);
        assert!(all.len() > 100);
        let is_test =
            |path: &Path| path.ends_with("tests.rs") || path.components().any(|c| c.as_os_str() == "tests");
        let bad: Vec<_> = all
            .into_iter()
            .filter(|(path, _, line)| !is_test(path) && fault(line, &BANNED_IN_FUNCTIONS).is_some())
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
}

#[test]
fn the_innermost_crates_need_no_operating_system() {
    for krate in ["names", "wire", "nf", "sequencer", "nfs"] {
        let path = root().join("crates").join(krate).join("src/lib.rs");
        let text = fs::read_to_string(&path).expect("a crate");
        assert!(text.contains("#![no_std]"), "{krate}");
    }
}

/// The project's crates that a crate uses, tests aside.
fn uses(manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().trim().to_owned();
    dependencies.lines().map(name).filter(|name| LAYERS.contains(&name.as_str())).collect()
}

fn wrong_uses(krate: &str, used: &[String]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let is_wrong = |other: &&String| {
        let is_forbidden = FORBIDDEN.contains(&(krate, other.as_str()));
        let is_upward = layer(other) >= layer(krate);
        is_forbidden || is_upward
    };
    used.iter().filter(is_wrong).cloned().collect()
}

#[test]
fn dependencies_point_down() {
    let mut crates = 0;
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("a folder entry").path();
        let krate = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(LAYERS.contains(&krate.as_str()), "say in which layer `{krate}` is");
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        let wrong = wrong_uses(&krate, &uses(&manifest));
        assert!(wrong.is_empty(), "{krate} must not use {wrong:?}");
        crates += 1;
    }
    assert!(crates >= 8);
}

/// Files that use each other are one file, or three: see [`imports`].
#[test]
fn no_files_use_each_other_in_circles() {
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("a folder entry").path();
        let krate = path.file_name().expect("a name").to_string_lossy().into_owned();
        let circles = imports::circles(&imports::graph(&path.join("src")));
        assert!(circles.is_empty(), "circles of files in `{krate}`: {circles:?}");
    }
}

/// A folder of tests that cargo does not search: those files of it that no test program has.
fn forgotten(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    if !manifest.contains("autotests = false") {
        return Vec::new();
    }
    let all = fs::read_to_string(folder.join("tests/all.rs")).expect("the program of all tests");
    let names = fs::read_dir(folder.join("tests")).expect("tests").filter_map(|entry| {
        let path = entry.expect("a folder entry").path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source.then(|| path.file_name().expect("a name").to_string_lossy().into_owned())
    });
    let is_had = |name: &String| all.contains(&format!("#[path = \"{name}\"]\nmod "));
    let is_program = |name: &String| manifest.contains(&format!("path = \"tests/{name}\""));
    names.filter(|name| !is_had(name) && !is_program(name)).collect()
}

/// A test in a file that nobody names would never run.
#[test]
fn each_file_of_tests_is_in_a_program() {
    let mut folders = 0;
    let crates =
        fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path());
    for folder in crates.chain([root().join("tests")]).filter(|folder| folder.join("tests").is_dir()) {
        let forgotten = forgotten(&folder);
        assert!(forgotten.is_empty(), "name in {}/tests/all.rs: {forgotten:?}", folder.display());
        folders += 1;
    }
    assert!(folders > 5);
    let planted = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forgotten");
    fs::create_dir_all(planted.join("tests")).expect("a folder");
    let manifest = "autotests = false\n[[test]]\nname = \"all\"\npath = \"tests/all.rs\"\n";
    fs::write(planted.join("Cargo.toml"), manifest).expect("written");
    fs::write(planted.join("tests/all.rs"), "#[path = \"a.rs\"]\nmod a;\n").expect("written");
    ["a.rs", "b.rs"]
        .iter()
        .for_each(|name| fs::write(planted.join("tests").join(name), "").expect("written"));
    assert_eq!(forgotten(&planted), ["b.rs"]);
}

/// `x` runs the program of tests that begins with a `p` beside all others, and one example. Others like these would never run.
#[test]
fn x_runs_each_program_of_tests() {
    let mut with_p = Vec::new();
    let mut examples = Vec::new();
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    for folder in crates
        .map(|entry| entry.expect("an entry").path())
        .chain([root().join("tests"), root().join("bench")])
    {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let named = manifest.split("[[test]]").skip(1).filter_map(|test| test.split("name = \"").nth(1));
        with_p.extend(named.filter_map(|name| name.split('"').next().map(str::to_owned)));
        if !manifest.contains("autotests = false") && folder.join("tests").is_dir() {
            let files = fs::read_dir(folder.join("tests")).expect("tests");
            with_p
                .extend(files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()));
        }
        let tested = manifest.split("[[example]]").skip(1).filter(|example| example.contains("test = true"));
        let names = tested.filter_map(|example| example.split("name = \"").nth(1)?.split('"').next());
        examples.extend(names.map(str::to_owned));
    }
    with_p.retain(|name| name.starts_with('p'));
    assert_eq!((with_p, examples), (vec!["program".to_owned()], vec!["own_port".to_owned()]));
}

/// The rooms of the engine, from the bottom up. Each may use those before it.
const ROOMS: [&str; 7] = ["path", "store", "chain", "strategies", "executor", "verify", "report"];

/// Uses of a room by one before it.
fn uses_upward(graph: &imports::Graph) -> Vec<String> {
    let room =
        |module: &imports::Module| ROOMS.iter().position(|room| module.first().is_some_and(|m| m == room));
    let upward = |(from, to): (&imports::Module, &imports::Module)| room(from) < room(to) && !from.is_empty();
    let edges = graph.iter().flat_map(|(from, used)| used.iter().map(move |to| (from, to)));
    edges
        .filter(|edge| upward(*edge))
        .map(|(from, to)| format!("{} uses {}", from.join("::"), to.join("::")))
        .collect()
}

/// Every file of the engine is in a room, and rooms use those below them.
#[test]
fn arrows_between_the_rooms_of_the_engine_run_one_way() {
    let graph = imports::graph(&root().join("crates/engine/src"));
    let rooms: BTreeSet<&String> = graph.keys().filter_map(|module| module.first()).collect();
    assert_eq!(rooms, BTreeSet::from(ROOMS.map(str::to_owned).each_ref()), "the rooms of the engine");
    assert_eq!(uses_upward(&graph), [""; 0]);
}

fn source(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The contract is what every function says; what only some have is in `EXTRAS`.
#[test]
fn the_contract_is_short_and_so_is_its_example() {
    let items = contract::items(&source("crates/nf/src/function.rs"));
    assert!((1..=14).contains(&items.len()), "`NetworkFunction` has {} items: {items:?}", items.len());
    let lines = contract::example_lines(&source("crates/nf/src/lib.rs"));
    assert!((1..=40).contains(&lines), "the example on the front page has {lines} lines");
}

/// Words of our own that have a plain one: what not to write, and what to write instead.
const PLAIN_WORDS: [(&str, &str); 7] = [
    ("change hands", "migrate"),
    ("changes hands", "migrates"),
    ("mends checksums", "updates checksums incrementally (RFC 1624)"),
    ("mend checksums", "update checksums incrementally (RFC 1624)"),
    ("hoever assigns", "the dispatcher"),
    ("no clock's", "time stamps come from the capture, not from a clock"),
    ("custody", "migration, intake"),
];

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let inside = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("docs");
        entries.map(|entry| entry.expect("a folder entry").path()).collect::<Vec<_>>()
    };
    let docs = ["docs", "docs/decisions", "docs/guides"].into_iter().flat_map(inside);
    pages.into_iter().chain(docs.filter(|path| path.extension().is_some_and(|end| end == "md"))).collect()
}

/// The word in a line that has a plainer one, if any.
fn riddle(line: &str) -> Option<&'static str> {
    PLAIN_WORDS.iter().map(|(word, _)| *word).find(|word| line.to_lowercase().contains(word))
}

#[test]
fn words_are_plain() {
    let mut found = Vec::new();
    let in_code = lines("crates").into_iter().filter(|(_, _, line)| is_comment(line));
    let in_pages = pages().into_iter().flat_map(|path| {
        let text = fs::read_to_string(&path).expect("a page");
        text.lines().enumerate().map(|(i, line)| (path.clone(), i + 1, line.to_owned())).collect::<Vec<_>>()
    });
    for (path, number, line) in in_code.chain(in_pages) {
        if let Some(word) = riddle(&line) {
            found.push(format!("{}:{number}: \"{word}\"", path.display()));
        }
    }
    assert!(found.is_empty(), "see PLAIN_WORDS: {found:#?}");
}

/// What stands between backticks in a text.
fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the glossary: the word, and the names in its last column.
fn glossary(page: &str) -> Vec<(String, Vec<String>)> {
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let names = code_spans(cells.last().unwrap_or(&"")).into_iter().map(str::to_owned).collect();
        (cells[0].trim().to_owned(), names)
    };
    rows.map(row).collect()
}

/// The words of the glossary are those of the code.
#[test]
fn the_glossary_names_what_there_is() {
    let page = fs::read_to_string(root().join("docs/glossary.md")).expect("the page");
    let words = glossary(&page);
    assert!(words.len() > 25, "{words:?}");
    let code = lines("crates");
    let is_defined = |name: &str| {
        let kinds = ["struct", "enum", "trait", "type"];
        let begins = |line: &str| {
            let line = line.trim_start();
            let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
            let rest =
                kinds.iter().find_map(|kind| line.strip_prefix(kind)?.strip_prefix(' ')?.strip_prefix(name));
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        code.iter().any(|(_, _, line)| begins(line))
    };
    for (word, names) in &words {
        for name in names {
            assert!(is_defined(name), "`{name}`, of \"{word}\", is defined nowhere");
        }
    }
    let mut once: Vec<&String> = words.iter().map(|(word, _)| word).collect();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), words.len(), "a word stands twice in the glossary");
    assert!(!is_defined("Custody"));
}

/// Files that pages name are there.
#[test]
fn pages_name_files_that_exist() {
    let begins = ["crates/", "tests/", "bench/", "docs/", "examples/", "captures/"];
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for span in text.lines().flat_map(code_spans) {
            let is_path = begins.iter().any(|begin| span.starts_with(begin));
            let is_one_path = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if is_path && is_one_path {
                assert!(root().join(span).exists(), "{}: `{span}`", page.display());
            }
        }
    }
}

/// Where links of a page lead that leave it for another file, fragments aside.
fn linked(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    let ends = prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let files = ends.filter(|to| !to.contains("://")).filter_map(|to| to.split('#').next());
    files.filter(|file| !file.is_empty()).collect()
}

#[test]
fn links_lead_to_files_that_exist() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = page.parent().expect("a folder");
        for to in linked(&text) {
            assert!(folder.join(to).exists(), "{}: {to}", page.display());
        }
    }
}

/// The book has every page of docs/.
#[test]
fn the_book_has_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the table of contents");
    let listed: Vec<PathBuf> = linked(&summary).into_iter().map(|to| root().join("docs").join(to)).collect();
    let docs = root().join("docs");
    for page in pages().iter().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md")) {
        assert!(listed.contains(page), "docs/SUMMARY.md should list {}", page.display());
    }
}

/// A newcomer reads these two first, so they stay short: more belongs on a page of its own.
const SHORT_PAGES: [(&str, usize); 2] = [("README.md", 8 << 10), ("ARCHITECTURE.md", 18 << 10)];

#[test]
fn the_first_pages_are_short() {
    for (page, most) in SHORT_PAGES {
        let bytes = fs::read_to_string(root().join(page)).expect("a page").len();
        assert!(bytes <= most, "{page} has {bytes} bytes, at most {most}");
    }
}

/// A check that cannot fail is a defect: each of the above, failing.
#[test]
fn the_rules_can_be_broken() {
    assert_eq!(linked("[a](b.md#c), [d](#e), [f](https://g)\n```\n[h](i)\n```\n"), ["b.md"]);
    assert!(fault("    todo!()", &UNFINISHED).is_some());
    assert!(fault("    // todo!() is banned", &UNFINISHED).is_none());
    assert!(fault("use std::time::Instant;", &BANNED_IN_FUNCTIONS).is_some());
    assert_eq!(contract::items("trait NetworkFunction { const A: u8; type B; fn c(); }"), ["A", "B", "c"]);
    assert_eq!(contract::example_lines("//! ```\n//! # x\n//! a\n//!\n//! }\n//! b\n//! ```\n"), 3);
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nwire.workspace = true\nengine.workspace = true\n\n[dev-dependencies]\ncli.workspace = true\n";
    assert_eq!(uses(manifest), ["wire", "engine"]);
    assert_eq!(wrong_uses("nfs", &uses(manifest)), ["engine"]);
    assert_eq!(wrong_uses("io", &["strategy".to_owned()]), ["strategy"]);
    assert_eq!(riddle("// flows Change hands here"), Some("change hands"));
    assert_eq!(most_lines(&root().join("crates/engine/src/path/step.rs")), MAX_LINES_PASSED);
    assert_eq!(most_lines(&root().join("crates/engine/src/verify/compare.rs")), MAX_LINES);
    assert_eq!(glossary("# Glossary\n\n| word | x | code |\n|---|---|---|\n| a | b | `C`, `D` |\n").len(), 1);
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let graph = BTreeMap::from([(
        module("path::run"),
        BTreeSet::from([module("path::edit"), module("store::slow_path")]),
    )]);
    assert_eq!(uses_upward(&graph), ["path::run uses store::slow_path"]);
}

/// Two files that use each other are a circle. A variable that is called as a file is none.
#[test]
fn circles_are_found() {
    let circles = |name: &str, parent: &str, child: &str| {
        let src = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(src.join("parent")).expect("a folder for a crate");
        fs::write(src.join("lib.rs"), "mod parent;").expect("written");
        fs::write(src.join("parent.rs"), format!("mod child;\npub struct Parent;\n{parent}"))
            .expect("written");
        fs::write(src.join("parent/child.rs"), child).expect("written");
        imports::circles(&imports::graph(&src)).len()
    };
    let child = "pub fn of(_: super::Parent) {}";
    assert_eq!(circles("circle", "pub fn of() { child::of(Parent) }", child), 1);
    assert_eq!(circles("used", "use child::of;", child), 1);
    assert_eq!(circles("variable", "pub fn of(child: u8) -> u8 { child }", child), 0);
}
