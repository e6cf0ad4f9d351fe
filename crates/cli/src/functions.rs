use std::process::ExitCode;

use engine::{FunctionInfo, Registry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::NfsArgs;
use crate::failure::Failure;
use crate::output::{Reports, heading, table};

pub fn command(args: &NfsArgs) -> Result<ExitCode, Failure> {
    let registry = Registry::stock();
    let wanted = |info: &&FunctionInfo| args.name.as_deref().is_none_or(|name| name == info.name);
    let infos: Vec<&FunctionInfo> = registry.functions().filter(wanted).collect();
    if infos.is_empty() {
        let all: Vec<_> = registry.functions().map(|info| info.name).collect();
        let name = args.name.as_deref().unwrap_or_default();
        let near = registry.nearest(name).map_or(String::new(), |near| format!("Did you mean `{near}`? "));
        return Err(Failure::usage(format!(
            "there is no function `{name}`\n{near}There are: {}",
            all.join(", ")
        )));
    }
    let reports = Reports::open(&[], None, args.json.as_deref())?;
    let list: Vec<_> = infos.iter().map(|info| as_json(info)).collect();
    reports.write(&list, &render(&infos))?;
    Ok(ExitCode::SUCCESS)
}

fn render(infos: &[&FunctionInfo]) -> String {
    let row = |info: &&FunctionInfo| {
        let mut row = vec![info.name.to_owned(), key(info)];
        row.extend([info.meta_bytes, info.key_bytes, info.state_bytes].map(|bytes| bytes.to_string()));
        row
    };
    let rows: Vec<_> = infos.iter().map(row).collect();
    let header = ["function", "key", "meta bytes", "key bytes", "state bytes"];
    let mut text = table(&header, &rows, 2);
    for info in infos {
        text += &heading(&format!("{}: {}\n  from {}", info.name, info.summary, info.spec));
        let rows: Vec<_> = info
            .options
            .iter()
            .map(|option| vec![option.name.to_owned(), option.default.to_owned(), option.help.to_owned()])
            .collect();
        if !rows.is_empty() {
            text += &table(&["option", "default", "what it does"], &rows, 3);
        }
        if !info.drop_reasons.is_empty() {
            text += &format!("  drops: {}\n", info.drop_reasons.join(", "));
        }
        if !info.events.is_empty() {
            text += &format!("  counts: {}\n", info.events.join(", "));
        }
    }
    text + &FOR_ALL.replace("MAX_FLOWS", &table::MAX_FLOWS.to_string())
}

const FOR_ALL: &str = "
Every function also takes
  flows       what each core's table holds, 1 to MAX_FLOWS; default 65536
  table_full  what a full table does with a new flow: \"reject\" or \"evict-oldest\"; default \"reject\"
and the chain, above its first `[[function]]`,
  name        what reports call it; default the file's name
  malformed   packets whose headers cannot be believed: \"drop\" or \"pass\"; default \"drop\"
  seed        seed of what functions draw, a whole number, at least 0; default 0
";

fn key(info: &FunctionInfo) -> String {
    let fields = info.sharding.fields.names().collect::<Vec<_>>().join(", ");
    let both = if info.sharding.symmetric { " (both directions as one)" } else { "" };
    let five_tuple = wire::Fields::FIVE_TUPLE;
    if info.sharding.fields == five_tuple { format!("5-tuple{both}") } else { format!("{fields}{both}") }
}

/// A function, as JSON: `docs/nfs.schema.json` has a list of these.
#[derive(Serialize, JsonSchema)]
pub struct FunctionEntry {
    /// What chain files call it.
    name: &'static str,
    /// What it does.
    summary: &'static str,
    /// What it is written from.
    spec: &'static str,
    /// The header fields that its key is made of.
    key_fields: Vec<&'static str>,
    /// Whether both directions have one key.
    symmetric: bool,
    /// Bytes of the key.
    key_bytes: usize,
    /// Bytes of the header fields that its steps read.
    meta_bytes: usize,
    /// Bytes of one flow's state.
    state_bytes: usize,
    /// Its options.
    options: Vec<FunctionOption>,
    /// Names of its drop reasons.
    drop_reasons: Vec<&'static str>,
    /// Names of what it counts.
    events: Vec<&'static str>,
    /// The header fields that it may change.
    edits: Vec<&'static str>,
}

/// An option of a function.
#[derive(Serialize, JsonSchema)]
struct FunctionOption {
    /// As chain files write it.
    name: &'static str,
    /// Its default, as TOML.
    default: &'static str,
    /// What it does.
    help: &'static str,
}

fn as_json(info: &FunctionInfo) -> FunctionEntry {
    FunctionEntry {
        name: info.name,
        summary: info.summary,
        spec: info.spec,
        key_fields: info.sharding.fields.names().collect(),
        symmetric: info.sharding.symmetric,
        key_bytes: info.key_bytes,
        meta_bytes: info.meta_bytes,
        state_bytes: info.state_bytes,
        options: info
            .options
            .iter()
            .map(|option| FunctionOption { name: option.name, default: option.default, help: option.help })
            .collect(),
        drop_reasons: info.drop_reasons.to_vec(),
        events: info.events.to_vec(),
        edits: info.edits.names().collect(),
    }
}
