//! What pages say in numbers and names, where the project knows better: counts on record, lengths of files, bytes that
//! strategies carry, crates with `unsafe`, commits.
//!
//! A number that is derived has a comment behind it, which a reader of the page does not see: `350<!-- chains::turns
//! single -->` is a count of `bench/instructions.txt`, `19<!-- (chains::replicas ddos - chains::replicas ddos_single) / 7 -->`
//! follows from two, and `200<!-- lines crates/telemetry/src/server.rs -->` is the length of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::Sequencing;
use paceline_conformance::stock::{ALONE, alone};
use sequencer::Version;

use super::{code_spans, pages, root, source, sources};

/// As far as a number may be from the count that it is of: as far as counts may be from those on record.
const COUNT_TOLERANCE: f64 = 0.03;

/// As far as "some 200 lines" may be from what there is.
const LINES_TOLERANCE: f64 = 0.15;

/// A number in a page, with what it is derived from.
#[derive(Debug, PartialEq)]
struct Claim {
    number: f64,
    of: String,
}

/// The numbers of a page that have a comment behind them.
fn claims(page: &str) -> Vec<Claim> {
    let pieces: Vec<&str> = page.split("<!-- ").collect();
    let claim = |pair: &[&str]| {
        let (before, behind) = (pair[0], pair[1]);
        let digits = before
            .trim_end_matches('%')
            .rsplit(|c: char| !(c.is_ascii_digit() || ".,".contains(c)))
            .next()?;
        let number = digits.replace(',', "").parse().ok()?;
        let of = behind.split(" -->").next().unwrap_or_default().to_owned();
        Some(Claim { number, of })
    };
    pieces.windows(2).filter_map(claim).collect()
}

/// The counts on record, by the name of their benchmark.
fn counts() -> BTreeMap<String, f64> {
    let record = source("bench/instructions.txt");
    let count = |line: &str| {
        let (name, count) = line.split_once('\t').expect("a name and a count");
        (name.to_owned(), count.parse().expect("a count"))
    };
    record.lines().map(count).collect()
}

/// A count, a difference of two, one of these in so many parts, `(A - B) / 6`, or how many percent one is over another.
fn derived(of: &str, counts: &BTreeMap<String, f64>) -> Result<f64, String> {
    if let Some((more, less)) = of.split_once(" over ") {
        return Ok(100.0 * (derived(more, counts)? / derived(less, counts)? - 1.0));
    }
    let (whole, parts) = match of.rsplit_once(" / ") {
        Some((whole, parts)) => (whole, parts.parse().map_err(|_| format!("no number: {parts}"))?),
        None => (of, 1.0),
    };
    let count = |name: &str| counts.get(name).copied().ok_or(format!("no count on record is called {name}"));
    let mut terms = whole.trim_matches(['(', ')']).split(" - ").map(count);
    let first = terms.next().unwrap_or(Err(of.to_owned()))?;
    Ok((first - terms.sum::<Result<f64, String>>()?) / parts)
}

/// What is wrong with a number, if anything.
fn wrong(claim: &Claim, counts: &BTreeMap<String, f64>) -> Option<String> {
    let (actual, tolerance) = match claim.of.strip_prefix("lines ") {
        Some(file) => (source(file).lines().count() as f64, LINES_TOLERANCE),
        None => match derived(&claim.of, counts) {
            Ok(count) => (count, COUNT_TOLERANCE),
            Err(error) => return Some(error),
        },
    };
    // Half of the last place is rounding.
    let is_near = (claim.number - actual).abs() <= (tolerance * actual).max(0.5);
    (!is_near).then(|| format!("{} is {actual:.1}, not {}", claim.of, claim.number))
}

#[test]
fn numbers_in_pages_are_those_that_they_are_derived_from() {
    let counts = counts();
    let mut number = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let claims = claims(&text);
        let wrong: Vec<String> = claims.iter().filter_map(|claim| wrong(claim, &counts)).collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", page.display());
        number += claims.len();
    }
    assert!(number > 50, "{number} numbers with what they are derived from");
}

/// A page as one line, so that a sentence may be broken anywhere.
fn in_one_line(page: &str) -> String {
    source(page).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A stock function in a chain of its own, and bytes of an item of its history, with the time; in version 2 only where it has one.
struct Carried {
    name: &'static str,
    state_bytes: usize,
    headers: usize,
    typed: Option<usize>,
}

fn carried() -> Vec<Carried> {
    let carried = |info: &engine::FunctionInfo| {
        let name = info.about.name;
        let options = ALONE.iter().find(|(alone, _)| *alone == name).map_or("", |(_, options)| options);
        let chain = alone(name, options);
        let bytes = |version| Some(Sequencing::with_version(&chain, version, 2, false).ok()?.item_bytes());
        Carried {
            name,
            state_bytes: info.state_bytes,
            headers: bytes(Version::Headers).expect("each chain has headers"),
            typed: bytes(Version::Typed),
        }
    };
    stock::registry().functions().map(carried).collect()
}

#[test]
fn bytes_in_pages_are_those_that_functions_have() {
    let all = carried();
    let of = |name: &str| all.iter().find(|carried| carried.name == name).expect("a stock function");
    let typed = |name: &str| of(name).typed.expect("it has history of version 2");
    let functions = source("docs/functions.md");
    for Carried { name, headers, typed, .. } in &all {
        let row = functions.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("`{name}` has a row in docs/functions.md"));
        let typed = typed.map_or("-".to_owned(), |bytes| bytes.to_string());
        let cell = row.split(" | ").nth(3).unwrap_or_default();
        assert_eq!(
            cell,
            format!("{headers}, {typed}"),
            "docs/functions.md on `{name}`, carried in versions 1 and 2"
        );
    }
    let scan = of("port-scan").state_bytes;
    let keeping = all.iter().filter(|carried| carried.state_bytes > 0).filter_map(|carried| carried.typed);
    let (least, most) = (keeping.clone().min().unwrap_or(0), keeping.max().unwrap_or(0));
    let (ddos, tracker, policer) = (of("ddos"), of("conntrack"), of("policer"));
    let said = [
        ("docs/functions.md", format!("finds sources that try many ports, in {scan} bytes of state each")),
        ("crates/nfs/src/port_scan.rs", format!("A state is {scan} bytes")),
        ("crates/nfs/src/statistics.rs", format!("A record is {} bytes", of("flow-statistics").state_bytes)),
        (
            "docs/strategies.md",
            format!("{least} to {most} bytes a packet for one function that keeps states"),
        ),
        ("docs/strategies.md", format!("headers, {} bytes, for a NAT", of("nat").headers)),
        (
            "docs/history-format.md",
            format!(
                "An item of `ddos` has {} bytes in version 1 and {} in version 2, one of `conntrack` {} and {}, one of `policer` \
                 {} and {}",
                ddos.headers,
                typed("ddos"),
                tracker.headers,
                typed("conntrack"),
                policer.headers,
                typed("policer")
            ),
        ),
        ("docs/scr.md", format!("in version 2, {} bytes with their time stamp", typed("policer"))),
        (
            "docs/scr.md",
            format!(
                "Seven cores and the {} + 8 bytes of a `policer` are {} bytes of history in version 1, {} in version 2",
                policer.headers - 8,
                6 * policer.headers,
                6 * typed("policer")
            ),
        ),
    ];
    for (page, sentence) in said {
        assert!(in_one_line(page).contains(&sentence), "{page} should say: {sentence}");
    }
}

/// Each test that the page of the NAT's requirements names is there.
#[test]
fn tests_that_a_page_names_exist() {
    let page = source("docs/reference/nat-requirements.md");
    let files = [
        "crates/nfs/src/nat/tests.rs",
        "crates/nfs/src/nat/tests/checksums.rs",
        "crates/nfs/src/nat/tests/fixed.rs",
        "crates/nfs/src/nat/tests/fragments.rs",
        "crates/nfs/src/nat/tests/hosts.rs",
        "crates/nfs/src/nat/tests/icmp.rs",
        "crates/nfs/src/nat/tests/model.rs",
        "crates/nfs/src/nat/tests/phases.rs",
        "crates/nfs/src/nat/tests/preserve.rs",
        "crates/nfs/src/nat/tests/requirements.rs",
        "tests/tests/nat.rs",
        "tests/tests/nat_limits.rs",
        "crates/cli/tests/fragmented.rs",
        "crates/cli/tests/path_mtu.rs",
        "crates/engine/src/strategies/fragments/tests.rs",
    ];
    let tests: String = files.map(source).concat();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| REQ") || line.starts_with("| §")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 5, "{row}");
        let met = cells[3].trim_start().starts_with("met");
        assert!(!met || !cells[4].trim().is_empty(), "a test or a reason: {row}");
        for name in cells[4].split('`').skip(1).step_by(2).filter(|name| name.contains('_')) {
            let is_test = tests.contains(&format!("fn {name}("));
            assert!(
                is_test || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()),
                "{name}"
            );
            named += usize::from(is_test);
        }
    }
    assert!(named > 40, "{named}");
}

/// The table *Size* of the history format: bytes before a packet, by cores.
#[test]
fn sizes_of_history_are_those_that_a_sequencer_makes() {
    let page = source("docs/history-format.md");
    let (_, rest) = page.split_once("## Size").expect("the section");
    let rows = rest.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| cores"));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<usize> = row
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace(',', "").parse().expect("a number"))
            .collect();
        let [cores, ring, _, ddos_1, ddos_2, policer_1, policer_2, tracker_1, tracker_2] = cells[..] else {
            panic!("{row}")
        };
        let bytes = |name: &str, version| {
            let chain = alone(name, "");
            Sequencing::with_version(&chain, version, cores, false).expect("a sequencer").prefix_bytes()
        };
        assert_eq!(ring, cores - 1);
        assert_eq!(
            (ddos_1, ddos_2),
            (bytes("ddos", Version::Headers), bytes("ddos", Version::Typed)),
            "{row}"
        );
        assert_eq!(
            (policer_1, policer_2),
            (bytes("policer", Version::Headers), bytes("policer", Version::Typed)),
            "{row}"
        );
        assert_eq!(
            (tracker_1, tracker_2),
            (bytes("conntrack", Version::Headers), bytes("conntrack", Version::Typed)),
            "{row}"
        );
        seen += 1;
    }
    assert_eq!(seen, 4);
}

/// Whether code of a crate may be unsafe, its tests aside.
fn has_unsafe(folder: &Path) -> bool {
    let allows = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source");
        let mut code = text.lines().filter(|line| !super::is_comment(line));
        code.any(|line| line.contains("unsafe_code") && (line.contains("allow(") || line.contains("expect(")))
    };
    sources(&folder.join("src")).iter().any(allows)
}

/// What the page on architecture says of the contract.
#[test]
fn the_contract_has_as_many_items_as_is_said() {
    let items = super::contract::items(&source("crates/nf/src/function.rs")).len();
    let said = format!("`NetworkFunction` has {items} items");
    let page = "docs/decisions/02-extras-by-theme.md";
    assert!(in_one_line(page).contains(&said), "{page} should say: {said}");
}

/// The rows of the table of crates: name, and what is unsafe in it.
fn crate_rows(page: &str) -> Vec<(String, String)> {
    let (_, rest) = page.split_once("## The crates").expect("the section");
    let rows = rest.split("\n## ").next().unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[cells.len() - 1].to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn crates_with_unsafe_are_those_that_the_pages_name() {
    let rows = crate_rows(&source("ARCHITECTURE.md"));
    let mut unsafe_crates = BTreeSet::new();
    for (name, what) in &rows {
        let inside = root().join("crates").join(name);
        let is_inside = inside.exists();
        let has = has_unsafe(&if is_inside { inside } else { root().join(name) });
        assert_eq!(has, what != "none", "ARCHITECTURE.md on `{name}`, `unsafe`: {what}");
        if has && is_inside {
            unsafe_crates.insert(name.clone());
        }
    }
    let crates = fs::read_dir(root().join("crates")).expect("crates").count();
    assert_eq!(rows.len(), crates + 2, "the crates, `tests` and `bench`");
    let contributing = source("CONTRIBUTING.md");
    let rule = contributing.lines().find(|line| line.starts_with("- `unsafe` only in")).expect("the rule");
    let names = rule.split("each block").next().unwrap_or_default();
    let named: BTreeSet<String> = code_spans(names).into_iter().skip(1).map(str::to_owned).collect();
    assert_eq!(named, unsafe_crates, "CONTRIBUTING.md");
}

#[test]
fn the_median_file_is_as_long_as_is_said() {
    let mut lengths: Vec<usize> = sources(&root())
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| fs::read_to_string(path).expect("a source").lines().count())
        .collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    let page = in_one_line("CONTRIBUTING.md");
    let (_, rest) = page.split_once("The median file has ").expect("the rule");
    let said: usize = rest.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(said.abs_diff(median) * 10 <= median, "the median file has {median} lines, not {said}");
}

/// Words of a page that name a commit: 7 to 12 hexadecimal digits of both kinds, or any behind "commit", outside of code.
fn commits(page: &str) -> Vec<String> {
    let prose = page.split("```").step_by(2).flat_map(|part| part.split('`').step_by(2));
    let mut found = Vec::new();
    for text in prose {
        let mut before = "";
        for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            let is_hex = word.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
            let is_mixed = word.contains(|c: char| c.is_ascii_digit())
                && word.contains(|c: char| c.is_ascii_lowercase());
            if is_hex && (7..=12).contains(&word.len()) && (is_mixed || before.starts_with("commit")) {
                found.push(word.to_owned());
            }
            before = word;
        }
    }
    found
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root()).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Figures are of commits that can be looked at.
#[test]
fn commits_that_pages_name_are_in_the_history() {
    if git(&["rev-parse", "--is-shallow-repository"]).as_deref() != Some("false") {
        return println!("skipped: the history is not here");
    }
    let more = [
        "CHANGELOG.md",
        "bench/README.md",
        "bench/peers/README.md",
        "captures/README.md",
        "packaging/README.md",
    ];
    let all = pages().into_iter().chain(more.map(|name| root().join(name)));
    let mut number = 0;
    for page in all {
        let text = fs::read_to_string(&page).expect("a page");
        for commit in commits(&text) {
            let is_there = git(&["merge-base", "--is-ancestor", &commit, "HEAD"]).is_some();
            assert!(is_there, "{} names commit {commit}, which is not in the history", page.display());
            number += 1;
        }
    }
    assert!(number > 10, "{number} commits");
}

/// A check that cannot fail is a defect: each of the above, failing.
#[test]
fn claims_can_be_wrong() {
    let counts = BTreeMap::from([("a b".to_owned(), 349.7), ("a c".to_owned(), 372.0)]);
    let of = |page: &str| claims(page).iter().filter_map(|claim| wrong(claim, &counts)).count();
    assert_eq!(claims("x <!-- no number -->"), []);
    assert_eq!(
        of(
            "| 349.7<!-- a b --> | 22<!-- a c - a b -->, 6.4%<!-- a c over a b -->, 3.7<!-- (a c - a b) / 6 -->"
        ),
        0
    );
    assert_eq!(
        of(
            "| 667<!-- a b -->, 14<!-- a c - a b -->, 1<!-- a d -->, 4.0%<!-- a c over a b -->, 5<!-- (a c - a b) / 6 -->"
        ),
        5
    );
    assert_eq!(of("some 20<!-- lines tests/tests/tidy/claims.rs --> lines"), 1);
    let table =
        "## The crates\n\n| crate | what | `unsafe` |\n|---|---|---|\n| `wire` | x | none |\n\n## More";
    assert_eq!(crate_rows(table), [("wire".to_owned(), "none".to_owned())]);
    assert!(has_unsafe(&root().join("crates/wire")) && !has_unsafe(&root().join("crates/nf")));
    let named = commits(
        "at commit 5680681, fba96b7, `5a79f88`, 1048576 and ba5eba11; bad, decade\n```\n5a79f88\n```\n",
    );
    assert_eq!(named, ["5680681", "fba96b7", "ba5eba11"]);
    assert!(git(&["merge-base", "--is-ancestor", "5a79f88", "HEAD"]).is_none());
}
