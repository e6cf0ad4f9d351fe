//! The JSON reports' schemas: files in `docs/`, held to the code. `UPDATE_SCHEMA=1` rewrites them.

use std::{env, fs, path::Path};

use schemars::{JsonSchema, schema_for};

fn check<T: JsonSchema>(name: &str) {
    let schema = serde_json::to_string_pretty(&schema_for!(T)).expect("a schema is JSON") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &schema).expect("docs/ can be written");
    }
    let documented = fs::read_to_string(&path).unwrap_or_default();
    assert!(documented == schema, "docs/{name} is out of date: run the tests with UPDATE_SCHEMA=1");
}

#[test]
fn run_is_documented() {
    check::<engine::report::RunReport>("run.schema.json");
}

#[test]
fn verify_is_documented() {
    check::<crate::commands::verify::VerifyReport>("verify.schema.json");
}

#[test]
fn sweep_is_documented() {
    check::<::sweep::Summary>("sweep.schema.json");
    check::<::sweep::Row>("sweep-run.schema.json");
}

#[test]
fn inspect_is_documented() {
    check::<crate::commands::inspect::Inspection>("inspect.schema.json");
}

#[test]
fn generate_is_documented() {
    check::<crate::commands::generate::Generation>("generate.schema.json");
}

#[test]
fn sequence_is_documented() {
    check::<crate::commands::sequence::Sequence>("sequence.schema.json");
}

#[test]
fn nfs_is_documented() {
    check::<Vec<crate::commands::nfs::FunctionEntry>>("nfs.schema.json");
}

#[test]
fn plan_is_documented() {
    check::<measure::Forecast>("plan.schema.json");
}

#[test]
fn bench_is_documented() {
    check::<crate::commands::bench::chain::ChainBench>("bench-chain.schema.json");
    check::<crate::commands::bench::egress::EgressBench>("bench-egress.schema.json");
    check::<crate::commands::bench::mlffr::MlffrBench>("bench-mlffr.schema.json");
    check::<crate::commands::bench::table::TableBench>("bench-table.schema.json");
    check::<crate::commands::bench::scr::report::ScrBench>("bench-scr.schema.json");
    check::<measure::Comparison>("bench-compare.schema.json");
}

#[test]
fn p4_is_documented() {
    check::<crate::commands::p4::P4Run>("p4-run.schema.json");
    check::<::p4::ir::Program>("p4-ir.schema.json");
}

#[test]
fn emulate_is_documented() {
    check::<crate::commands::emulate::run::report::Emulation>("emulate.schema.json");
    check::<crate::commands::emulate::sweep::rows::Sweep>("emulate-sweep.schema.json");
}
