//! The JSON reports' schemas: files in `docs/`, held to the code. `UPDATE_SCHEMA=1` rewrites them.

use std::{env, fs, path::Path};

use schemars::{JsonSchema, schema_for};

use crate::commands::{bench, emulate, generate, inspect, nfs, p4, run, sequence, verify};

/// The name of a schema that is out of date.
fn check<T: JsonSchema>(name: &'static str) -> Option<&'static str> {
    let schema = serde_json::to_string_pretty(&schema_for!(T)).expect("a schema is JSON") + "\n";
    stale(name, &schema)
}

/// The name of a file in `docs/` whose text is another than this one.
pub fn stale(name: &'static str, text: &str) -> Option<&'static str> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, text).expect("docs/ can be written");
    }
    (fs::read_to_string(&path).unwrap_or_default() != text).then_some(name)
}

#[test]
fn all_reports_are_documented() {
    let stale = [
        check::<engine::report::RunReport>("run.schema.json"),
        check::<run::xdp::XdpRun>("run-xdp.schema.json"),
        check::<dashboard::View>("web.schema.json"),
        check::<dashboard::FlowsView>("web-flows.schema.json"),
        check::<dashboard::TraceView>("web-trace.schema.json"),
        check::<engine::report::TraceReport>("trace.schema.json"),
        check::<engine::report::WhyReport>("why.schema.json"),
        check::<engine::report::FlowReport>("flow.schema.json"),
        check::<verify::VerifyReport>("verify.schema.json"),
        check::<::sweep::Summary>("sweep.schema.json"),
        check::<::sweep::Row>("sweep-run.schema.json"),
        check::<inspect::Inspection>("inspect.schema.json"),
        check::<generate::Generation>("generate.schema.json"),
        check::<sequence::Sequence>("sequence.schema.json"),
        check::<Vec<nfs::FunctionEntry>>("nfs.schema.json"),
        check::<measure::Forecast>("plan.schema.json"),
        check::<bench::chain::ChainBench>("bench-chain.schema.json"),
        check::<bench::dyssect::DyssectBench>("bench-dyssect.schema.json"),
        check::<bench::egress::EgressBench>("bench-egress.schema.json"),
        check::<bench::mlffr::MlffrBench>("bench-mlffr.schema.json"),
        check::<bench::table::TableBench>("bench-table.schema.json"),
        check::<bench::scr::report::ScrBench>("bench-scr.schema.json"),
        check::<measure::Comparison>("bench-compare.schema.json"),
        check::<p4::P4Run>("p4-run.schema.json"),
        check::<p4::matrix::Matrix>("p4-matrix.schema.json"),
        check::<::p4::ir::Program>("p4-ir.schema.json"),
        check::<::p4::resources::plan::Plan>("p4-resources.schema.json"),
        check::<emulate::run::report::Emulation>("emulate.schema.json"),
        check::<emulate::sweep::rows::Sweep>("emulate-sweep.schema.json"),
    ];
    let stale: Vec<_> = stale.into_iter().flatten().collect();
    assert!(stale.is_empty(), "out of date in docs/: {stale:?}; run the tests with UPDATE_SCHEMA=1");
}
