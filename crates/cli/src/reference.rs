//! Pages of `docs/reference/`, made from the code and held to it. `UPDATE_SCHEMA=1` rewrites them.

use std::fmt::Write as _;
use std::path::Path;

use clap_markdown::MarkdownOptions;
use engine::FunctionInfo;
use telemetry::prometheus::{FAMILIES, Family};

use crate::args::read_program;
use crate::commands::Cli;
use crate::commands::nfs::{key, names};
use crate::commands::p4::resources::rows;
use crate::explain::{ALL, Dropped, Page, Shown, drop_reasons, dropped};
use crate::schema::stale;

#[test]
fn pages_say_what_the_code_says() {
    let pages = [
        stale("reference/functions.md", &functions()),
        stale("reference/cli.md", &command_line()),
        stale("reference/metrics.md", &metrics()),
        stale("reference/p4-resources.md", &resources()),
        stale("reference/errors.md", &errors()),
    ];
    let pages: Vec<_> = pages.into_iter().flatten().collect();
    assert!(pages.is_empty(), "out of date in docs/: {pages:?}; run the tests with UPDATE_SCHEMA=1");
}

const FUNCTIONS: &str = "# Functions and their options

Made from the code: `paceline nfs NAME` prints the same. [Functions](../functions.md) is the overview, [chain files](../chain-file.md) says how
a chain names them, and [what strangers can fill](../floods.md) what each does when its table is full.

Every function also takes `flows`, what each core's table holds (default 65536), and `table_full`, what a full table does with a new flow:
`\"reject\"`, the default, or `\"evict-oldest\"`.
";

fn functions() -> String {
    let mut page = FUNCTIONS.to_owned();
    for info in stock::registry().functions() {
        function(info, &mut page);
    }
    page
}

/// `paceline check` and the page on floods say the same of what makes entries.
#[test]
fn the_page_on_floods_says_what_functions_say() {
    let page = include_str!("../../../docs/floods.md");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).map(cells).collect();
    for FunctionInfo { about, filled_by, sharding, .. } in stock::registry().functions() {
        let is_of_it =
            |row: &&Vec<String>| row[1].split(", ").any(|name| name == format!("`{}`", about.name));
        let row = rows.iter().find(is_of_it).unwrap_or_else(|| panic!("{} is not there", about.name));
        let expected = if sharding.is_stateless() { "" } else { row[2].as_str() };
        assert_eq!(*filled_by, expected, "{}", about.name);
    }
}

const METRICS: &str = "# Metrics

Made from the code: what `--metrics` serves, in its order. [Telemetry](../telemetry.md) is the overview.

| metric | type | labels | meaning |
|---|---|---|---|
";

fn metrics() -> String {
    let mut page = METRICS.to_owned();
    for Family { name, kind, labels, help, more } in FAMILIES {
        let _ = writeln!(
            page,
            "| `{name}` | {} | {} | {} |",
            kind.name(),
            quoted(labels),
            [*help, *more].join(" ").trim_end()
        );
    }
    page
}

const ERRORS: &str = "# Errors, by code

Made from the code: `paceline explain CODE` prints the same, and an error ends in its code. Codes stay from release to release.
[Exit statuses](../commands.md) say how a command ended; what drops packets is below.

| code | what is wrong |
|---|---|
";

/// Every code with its page, and every drop reason.
fn errors() -> String {
    let (mut page, mut pages) = (ERRORS.to_owned(), String::new());
    for code in ALL {
        let Page { name, title, means, remedy, shown } = code.page();
        let _ = writeln!(page, "| [`{name}`](#{name}) | {title} |");
        let shown = match shown {
            Shown::By(lines) => format!("```sh\n{lines}\n```"),
            Shown::Only(what) => format!("To see it takes {what}."),
        };
        let _ = write!(pages, "\n## `{name}`\n\n{title}. {means}\n\n{remedy}\n\n{shown}\n");
    }
    page += &pages;
    page += "\n## Drop reasons\n\nWhat reports, `--trace` and `--drops` call the reason for which a packet was dropped.\n\n\
             | reason | dropped by | what it means |\n|---|---|---|\n";
    let registry = stock::registry();
    for reason in drop_reasons(&registry) {
        for Dropped { by, means } in dropped(reason, &registry) {
            let _ = writeln!(page, "| `{reason}` | {by} | {means} |");
        }
    }
    page
}

const RESOURCES: &str = "# What the programs take of a chip

Made from the code: `paceline p4 resources PROG.p4` prints a program's part. [Resources](../resources.md) says what is counted, and where the
numbers of the chips come from. Sums over all stages.

| program | chip | stages | SRAM blocks | TCAM blocks | hash units | ALUs | tables | key bits | bits of the vector |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// All programs of `examples/p4` on all chips.
fn resources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut page, mut unfit) = (RESOURCES.to_owned(), String::new());
    for folder in ["examples/p4", "examples/p4/scr"] {
        let found = std::fs::read_dir(root.join(folder)).expect("examples");
        let mut names: Vec<String> =
            found.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".p4") && name != "headers.p4");
        names.sort();
        for name in names {
            let path = root.join(folder).join(&name);
            let program = read_program(&path, &[], &[]).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            // Two folders may each have a program of one name.
            let name = path.strip_prefix(root.join("examples/p4")).unwrap_or(&path).display();
            let (rows, what) = rows(&program);
            for row in rows {
                let _ = writeln!(page, "| `{name}` | {} |", row.join(" | "));
            }
            for (profile, what) in what {
                let _ = writeln!(unfit, "- `{name}` on `{profile}`: {what}");
            }
        }
    }
    page + "\nWhat does not fit:\n\n" + &unfit
}

fn function(info: &FunctionInfo, page: &mut String) {
    let about = &info.about;
    let _ = write!(page, "\n## `{}`\n\n{}. From {}.\n", about.name, capitalised(about.summary), about.spec);
    if !about.options.is_empty() {
        page.push_str("\n| option | default | what it does |\n|---|---|---|\n");
    }
    for option in about.options {
        let help = option.help.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | `{}` | {help} |", option.name, option.default);
    }
    page.push('\n');
    let state = format!("{}; {} bytes of state a flow", key(info), info.state_bytes);
    let lists = [
        ("key", state),
        ("reads", names(info.reads)),
        ("edits", names(info.edits)),
        ("drop reasons", quoted(about.drop_reasons)),
        ("counts", quoted(about.events)),
    ];
    for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        let _ = writeln!(page, "- {what}: {list}");
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Every command with every option, as `--help` has them.
fn command_line() -> String {
    let options = MarkdownOptions::new()
        .title("Command line".to_owned())
        .show_footer(false)
        .show_table_of_contents(false);
    clap_markdown::help_markdown_custom::<Cli>(&options)
}
