//! All tests of the parser, the edits and the checksums, as one program.
//!
//! A new file is named here.

extern crate paceline_wire as wire;

mod invariants;
mod oracle;
mod packets;

#[path = "answer.rs"]
mod answer;
#[path = "capture.rs"]
mod capture;
#[path = "checksums.rs"]
mod checksums;
#[path = "complete.rs"]
mod complete;
#[path = "edit_properties.rs"]
mod edit_properties;
#[path = "fragments.rs"]
mod fragments;
#[path = "golden.rs"]
mod golden;
#[path = "icmp.rs"]
mod icmp;
#[path = "mss.rs"]
mod mss;
#[path = "names.rs"]
mod names;
#[path = "parse_properties.rs"]
mod parse_properties;
#[path = "plain.rs"]
mod plain;
#[path = "tunnel.rs"]
mod tunnel;

/// So many random cases of a property; fewer or more where `PROPTEST_CASES` asks for other than the usual 256.
fn cases(many: u32) -> proptest::test_runner::Config {
    let usual = proptest::test_runner::Config::default();
    proptest::test_runner::Config { cases: (u64::from(many) * u64::from(usual.cases) / 256) as u32, ..usual }
}
