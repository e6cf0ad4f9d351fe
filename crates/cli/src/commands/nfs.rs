//! `paceline nfs`: lists the functions, and explains one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use engine::{FunctionInfo, Registry};
use schemars::JsonSchema;
use serde::Serialize;
use wire::Fields;

use crate::explain::Code;
use crate::failure::Failure;
use crate::output::Reports;

#[derive(Args)]
pub struct NfsArgs {
    /// The function to explain; without it all are listed
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
        ))
        .coded(Code::UnknownName));
    }
    let reports = Reports::open(&[], None, args.json.as_deref())?;
    let list: Vec<_> = infos.iter().map(|info| as_json(info)).collect();
    let text = match args.name {
        Some(_) => infos.iter().map(|info| page(info)).collect(),
        None => names_and_lines(&infos),
    };
    reports.write(&list, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// A page is at most this wide, in columns.
const WIDTH: usize = 100;

/// Every function with one line.
fn names_and_lines(infos: &[&FunctionInfo]) -> String {
    let longest = infos.iter().map(|info| info.about.name.len()).max().unwrap_or_default();
    let line = |info: &&FunctionInfo| {
        let name = format!("  {:longest$}  ", info.about.name);
        hanging(&name, info.about.summary)
    };
    infos.iter().map(line).collect::<String>()
        + "\n`paceline nfs NAME` has a function's options, what it reads, drops and counts, and its sizes.\n"
}

/// One function, and what every function and chain takes.
fn page(info: &FunctionInfo) -> String {
    let about = &info.about;
    let mut text = hanging(&format!("{}: ", about.name), about.summary);
    text += &hanging("  from      ", about.spec);
    let lists = [
        ("key", key(info)),
        ("reads", names(info.reads)),
        ("edits", names(info.edits)),
        ("drops", about.drop_reasons.join(", ")),
        ("counts", about.events.join(", ")),
    ];
    for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        text += &hanging(&format!("  {what:8}  "), list);
    }
    text += "\n  bytes\n";
    let bytes = [
        ("state", info.state_bytes, "what it keeps of one flow"),
        ("key", info.key_bytes, "what selects that state"),
        ("meta", info.meta_bytes, "what a step gets of a packet"),
        ("item", info.item_bytes(), ITEM),
    ];
    for (what, bytes, meaning) in bytes {
        text += &hanging(&format!("  {what:8}{bytes:>5}  "), meaning);
    }
    for (number, option) in about.options.iter().enumerate() {
        text += if number == 0 { "\nOptions\n" } else { "" };
        text += &format!("  {} = {}\n", option.name, option.default);
        text += &hanging("      ", option.help);
    }
    text + &FOR_ALL.replace("MAX_FLOWS", &table::MAX_FLOWS.to_string())
}

/// `text` behind `first`, wrapped so that it stands under itself.
fn hanging(first: &str, text: &str) -> String {
    let rest = " ".repeat(first.chars().count());
    let options =
        textwrap::Options::new(WIDTH).initial_indent(first).subsequent_indent(&rest).break_words(false);
    textwrap::fill(text, options) + "\n"
}

const FOR_ALL: &str = "
Every function also takes
  flows = 65536
      what each core's table holds, 1 to MAX_FLOWS
  table_full = \"reject\"
      what a full table does with a new flow: \"reject\" or \"evict-oldest\"
What a chain takes above its first `[[function]]` is in docs/chain-file.md.
";

const ITEM: &str = "what a packet's history holds of it, in a chain of this function alone: the header fields that it \
                    reads, and whether the packet is malformed; its time stamp is 8 bytes more (docs/scr.md)";

/// What selects a function's state, for people.
pub fn key(info: &FunctionInfo) -> String {
    if info.sharding.fields.is_empty() {
        return "none: it keeps no state".to_owned();
    }
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
    fn options_of_every_chain_are_documented() {
        let documented = include_str!("../../../../docs/chain-file.md");
        for option in
            ["name", "malformed", "checksums", "fragments", "seed", "inside", "slo", "class", "interface"]
        {
            assert!(documented.contains(&format!("`{option}`")), "{option}");
        }
    }

    #[test]
    fn pages_fit_a_terminal() {
        let registry = stock::registry();
        let infos: Vec<_> = registry.functions().collect();
        let list = names_and_lines(&infos);
        assert!(list.lines().count() <= infos.len() + 2, "one line a function: {list}");
        let pages = infos.iter().map(|info| page(info)).chain([list]);
        for text in pages {
            let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
            assert!(wide.is_empty(), "{wide:?}");
        }
    }

    /// The table in `docs/scr.md`: the functions of the paper's Table 1, their item's bytes, and those with 12 less for each address.
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
            .filter(|info| rows.iter().any(|row| row[1] == info.about.name))
            .map(|info| {
                let addresses = (info.reads & Fields::ADDRS).iter().count();
                let bytes = [info.item_bytes(), info.item_bytes() - 12 * addresses];
                [&[info.about.name.to_owned()][..], &bytes.map(|bytes| bytes.to_string())].concat()
            })
            .collect();
        let documented: Vec<_> = rows.iter().map(|row| vec![row[1], row[3], row[4]]).collect();
        assert_eq!(documented, expected);
        assert_eq!(documented.len(), 5);
    }
}
