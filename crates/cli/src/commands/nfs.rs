//! `paceline nfs`: lists the functions, and explains one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::{FunctionInfo, Registry};
use schemars::JsonSchema;
use serde::Serialize;
use wire::Fields;

use crate::failure::Failure;
use crate::output::{Reports, heading, table};

#[derive(Args)]
pub struct NfsArgs {
    /// Only this function
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Write the list as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub fn command(args: &NfsArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let wanted = |info: &&FunctionInfo| args.name.as_deref().is_none_or(|name| name == info.about.name);
    let infos: Vec<&FunctionInfo> = registry.functions().filter(wanted).collect();
    if infos.is_empty() {
        let all: Vec<_> = registry.functions().map(|info| info.about.name).collect();
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
        let mut row = vec![info.about.name.to_owned(), key(info)];
        let bytes = [info.item_bytes(), info.meta_bytes, info.key_bytes, info.state_bytes];
        row.extend(bytes.map(|bytes| bytes.to_string()));
        row
    };
    let rows: Vec<_> = infos.iter().map(row).collect();
    let header = ["function", "key", "item bytes", "meta bytes", "key bytes", "state bytes"];
    let mut text = table(&header, &rows, 2);
    text += ITEM;
    for info in infos {
        text += &heading(&format!("{}: {}\n  from {}", info.about.name, info.about.summary, info.about.spec));
        text += &format!("  reads: {}\n", names(info.reads));
        if !info.edits.is_empty() {
            text += &format!("  edits: {}\n", names(info.edits));
        }
        let rows: Vec<_> = info
            .about
            .options
            .iter()
            .map(|option| vec![option.name.to_owned(), option.default.to_owned(), option.help.to_owned()])
            .collect();
        if !rows.is_empty() {
            text += &table(&["option", "default", "what it does"], &rows, 3);
        }
        if !info.about.drop_reasons.is_empty() {
            text += &format!("  drops: {}\n", info.about.drop_reasons.join(", "));
        }
        if !info.about.events.is_empty() {
            text += &format!("  counts: {}\n", info.about.events.join(", "));
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
  checksums   packets with wrong checksums of IPv4, TCP, UDP, ICMP, ICMPv6: \"verify\", which makes them malformed,
              \"ignore\", or \"auto\", the default: verify where the capture's first packets are mostly right
  fragments   fragments: \"pass\", the default, \"drop\", or \"track\", which finds those malformed that overlap, come without
              their first one or are wrong otherwise; see docs/fragments.md
  seed        seed of what functions draw, a whole number, at least 0; default drawn from the system and printed
  inside      prefixes of the hosts inside, which give the chain two directions; default its NAT's, or none
  slo         under dyssect, how long packets may wait: [slo] with p99_us, us; default none; see docs/dyssect.md
  class       under dyssect, which packets have priority: [[class]] with priority, and prefixes, ports or both; default
              none; see docs/dyssect.md
";

const ITEM: &str = "
item   what a packet's history holds of it, in a chain of this function alone: the header fields that it reads,
       whether the packet is malformed, and 8 bytes more for its time stamp; see docs/scr.md
meta   what a step of the function gets
";

/// What selects a function's state, for people.
pub fn key(info: &FunctionInfo) -> String {
    let both = if info.sharding.symmetric { " (both directions as one)" } else { "" };
    names(info.sharding.fields) + both
}

/// The fields, for people: a whole 5-tuple by that name.
pub fn names(fields: Fields) -> String {
    let is_whole = fields.contains(Fields::FIVE_TUPLE);
    let rest = if is_whole { fields - Fields::FIVE_TUPLE } else { fields };
    let names: Vec<_> = is_whole.then_some("5-tuple").into_iter().chain(rest.names()).collect();
    names.join(", ")
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
    /// The header fields that it reads, those included that decide whether a packet is its business.
    reads: Vec<&'static str>,
    /// Bytes that a packet's history holds of it in a chain of this function alone: of the header fields that
    /// the function reads, and of whether the packet is malformed. Its time stamp is 8 bytes more.
    item_bytes: usize,
    /// Bytes that a step gets: what is made of the header fields.
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
        name: info.about.name,
        summary: info.about.summary,
        spec: info.about.spec,
        key_fields: info.sharding.fields.names().collect(),
        symmetric: info.sharding.symmetric,
        key_bytes: info.key_bytes,
        reads: info.reads.names().collect(),
        item_bytes: info.item_bytes(),
        meta_bytes: info.meta_bytes,
        state_bytes: info.state_bytes,
        options: info
            .about
            .options
            .iter()
            .map(|option| FunctionOption { name: option.name, default: option.default, help: option.help })
            .collect(),
        drop_reasons: info.about.drop_reasons.to_vec(),
        events: info.about.events.to_vec(),
        edits: info.edits.names().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_every_chain_are_listed() {
        for option in ["name", "malformed", "checksums", "fragments", "seed", "inside", "slo", "class"] {
            assert!(FOR_ALL.lines().any(|line| line.split_whitespace().next() == Some(option)), "{option}");
        }
    }

    /// The table in `docs/scr.md`: every function, its item's bytes, and those with 12 less for each address.
    #[test]
    fn documented_items_are_those_there_are() {
        let documented = include_str!("../../../../docs/scr.md");
        let rows: Vec<Vec<&str>> = documented
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
            .collect();
        let expected: Vec<Vec<String>> = stock::registry()
            .functions()
            .map(|info| {
                let addresses = (info.reads & Fields::ADDRS).iter().count();
                let bytes = [info.item_bytes(), info.item_bytes() - 12 * addresses];
                [&[info.about.name.to_owned()][..], &bytes.map(|bytes| bytes.to_string())].concat()
            })
            .collect();
        let documented: Vec<_> = rows.iter().map(|row| vec![row[1], row[3], row[4]]).collect();
        assert_eq!(documented, expected);
    }
}
