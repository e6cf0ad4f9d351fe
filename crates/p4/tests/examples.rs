//! Every program of `examples/p4` does what its test file says.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_p4::interpret::Machine;
use paceline_p4::{Options, lower, stf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4")
}

#[test]
fn examples_pass_their_tests() {
    let mut programs = 0;
    let folders = [examples(), examples().join("scr")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("examples"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "stf") {
            continue;
        }
        let source = path.with_extension("p4");
        let text = fs::read_to_string(&source).expect("a program");
        let (program, warnings) = match lower(&source.display().to_string(), &text, &Options::default()) {
            Ok(lowered) => lowered,
            Err(errors) => panic!("{:?}", miette::Report::new(errors)),
        };
        assert_eq!(warnings.warnings(), 0, "{}: {warnings:?}", source.display());
        let mut machine = Machine::new(program);
        let test = fs::read_to_string(&path).expect("a test");
        let report =
            stf::run(&mut machine, &test).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(report.failures.is_empty(), "{}: {:#?}", path.display(), report.failures);
        assert!(report.packets > 0 && report.expectations > 0);
        programs += 1;
    }
    assert!(programs >= 1);
}
