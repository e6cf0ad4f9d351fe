//! The page that is checked in is the one that its sources make.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use paceline_dashboard::{FlowsView, TraceView, View};
use schemars::schema_for;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies what the page is made from, without what npm installed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == "node_modules" => (),
            true => copy(&entry.path(), &to.join(entry.file_name()))?,
            false => drop(fs::copy(entry.path(), to.join(entry.file_name()))?),
        }
    }
    Ok(())
}

#[test]
fn the_page_is_what_its_sources_make() {
    let can = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !can("node") || !can("npm") {
        return println!("skipped: `node` and `npm` do not run: apt-get install nodejs npm");
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy(&root().join("web"), folder.path()).expect("a copy");
    let installed = root().join("web/node_modules");
    match installed.is_dir() {
        true => std::os::unix::fs::symlink(&installed, folder.path().join("node_modules")).expect("a link"),
        false => {
            let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
            let output =
                Command::new("npm").args(arguments).current_dir(folder.path()).output().expect("npm runs");
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                return println!(
                    "skipped: `npm ci` in web/ fails: {}",
                    why.lines().next().unwrap_or_default()
                );
            }
        }
    }
    let run = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).current_dir(folder.path()).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&said));
    };
    run("node", &["node_modules/typescript/bin/tsc"]);
    run("node", &["build.mjs", "."]);
    for name in ["page.html", "page.csp"] {
        let built = fs::read_to_string(folder.path().join(name)).expect("a page");
        let kept = fs::read_to_string(root().join("crates/dashboard/src").join(name)).expect("a page");
        assert!(built == kept, "crates/dashboard/src/{name} is not what web/ makes: run ./x web");
    }
}

/// The names of all fields that a schema has, those of its parts included.
fn fields(schema: &Value) -> BTreeSet<String> {
    let of = |part: &Value| {
        part["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let parts = schema["$defs"].as_object().into_iter().flatten().map(|(_, part)| part);
    parts
        .chain([schema])
        .map(of)
        .fold(BTreeSet::new(), |all: BTreeSet<String>, some: BTreeSet<String>| &all | &some)
}

/// The names before a colon in TypeScript.
fn typed(source: &str) -> BTreeSet<String> {
    let parts =
        source.lines().filter(|line| !line.starts_with("//")).flat_map(|line| line.split(['{', ';', '}']));
    let names = parts.filter_map(|part| part.split_once(':')).map(|(name, _)| name.trim().to_owned());
    names.collect()
}

#[test]
fn the_page_knows_the_fields_that_the_server_tells() {
    let source = fs::read_to_string(root().join("web/src/view.ts")).expect("the types of the page");
    let schemas = [schema_for!(View), schema_for!(FlowsView), schema_for!(TraceView)];
    let told = schemas.map(|schema| fields(&serde_json::to_value(schema).expect("a schema is JSON")));
    assert_eq!(typed(&source), told.into_iter().flatten().collect());
    assert!(
        !typed(&source.replace("has_ended", "is_over")).contains("has_ended"),
        "a field that is missing is seen"
    );
}
