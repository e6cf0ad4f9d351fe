//! `paceline schema`: what files may say, as JSON Schema, so that editors complete and check them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::{FunctionInfo, Registry};
use nf::OptionDoc;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub struct SchemaArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The schema of chain files, with every option of every function, on standard output. In an editor with TOML support
    /// (taplo, Even Better TOML): write it to a file, and begin chain files with `#:schema ./chain.schema.json`
    Chain,
}

pub fn command(args: &SchemaArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let What::Chain = args.what;
    output::print(&output::json(&chain(registry))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The schema of chain files, draft 7.
pub fn chain(registry: &Registry) -> Value {
    let functions: Vec<Value> = registry.functions().map(function).collect();
    let word = |words: &[&str], about: &str| json!({ "enum": words, "description": about });
    let list = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A chain of network functions",
        "type": "object",
        "required": ["function"],
        "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "description": "What reports call the chain (default: the file's name)." },
            "malformed": word(&["drop", "pass"], "What becomes of packets whose headers cannot be believed (default \"drop\")."),
            "checksums": word(&["auto", "verify", "ignore"], "Whether packets with wrong checksums are malformed (default \"auto\")."),
            "fragments": word(&["pass", "drop", "track", "follow"], "Which fragments are malformed: none, all, or those that are wrong, which are also with \"follow\"; there later fragments have the ports of their first (default \"pass\")."),
            "spoofed": word(&["drop", "pass"], "What becomes of packets that come by an interface of the other side (default \"drop\")."),
            "seed": { "type": "integer", "minimum": 0, "description": "Seed of what functions draw (default: drawn for each run)." },
            "inside": list("Prefixes of the hosts inside; gives the chain two directions."),
            "interface": {
                "type": "array",
                "maxItems": 16,
                "description": "The network interfaces that it is for, and the side of each.",
                "items": {
                    "type": "object",
                    "required": ["name", "side"],
                    "additionalProperties": false,
                    "properties": {
                        "name": { "type": "string", "description": "As `ip link` shows it." },
                        "side": { "type": "string", "description": "\"outside\", or any name for a side of the inside." },
                        "prefixes": list("Of the hosts there; not outside."),
                    },
                },
            },
            "slo": {
                "type": "object",
                "description": "Under `dyssect`: how long 99 in 100 packets may wait.",
                "required": ["p99_us"],
                "additionalProperties": false,
                "properties": { "p99_us": { "type": "number", "description": "Microseconds." } },
            },
            "class": {
                "type": "array",
                "description": "Under `dyssect`: classes of traffic; the first that a packet fits decides.",
                "items": {
                    "type": "object",
                    "required": ["priority"],
                    "additionalProperties": false,
                    "properties": {
                        "priority": word(&["high", "low"], "Whether such packets have priority."),
                        "prefixes": list("Of one of its addresses."),
                        "ports": { "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 65535 }, "description": "One of its ports." },
                    },
                },
            },
            "function": {
                "type": "array",
                "minItems": 1,
                "maxItems": 64,
                "description": "Functions in the order in which packets meet them.",
                "items": { "oneOf": functions },
            },
        },
    })
}

fn function(info: &FunctionInfo) -> Value {
    let about = &info.about;
    let quantity = json!(["integer", "string"]);
    let mut properties = Map::new();
    properties.insert("use".to_owned(), json!({ "const": about.name, "description": about.summary }));
    properties.insert(
        "flows".to_owned(),
        json!({ "type": quantity, "default": 65_536, "description": "What each core's table holds: a number, or \"64 Ki\"." }),
    );
    properties.insert(
        "table_full".to_owned(),
        json!({ "enum": ["reject", "evict-oldest"], "default": "reject", "description": "What a full table does with a new flow." }),
    );
    for doc in about.options {
        properties.insert(doc.name.to_owned(), option(doc, doc.help));
        if let Some(short) = engine::without_unit(doc.name) {
            let help = format!("{}: a text with its unit, in place of `{}`.", doc.help, doc.name);
            properties.insert(short.to_owned(), json!({ "type": "string", "description": help }));
        }
    }
    json!({
        "title": about.name,
        "description": about.summary,
        "type": "object",
        "required": ["use"],
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Its type is that of its default, which is TOML; numbers may be texts with units.
fn option(OptionDoc { default, .. }: &OptionDoc, help: &str) -> Value {
    let number = default.replace('_', "");
    let default: Value =
        serde_json::from_str(&number).or_else(|_| serde_json::from_str(default)).unwrap_or_default();
    let kind = match &default {
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!(["number", "string"]),
        Value::String(_) => json!("string"),
        Value::Array(_) => json!("array"),
        Value::Object(_) => json!("object"),
        Value::Null => return json!({ "description": help }),
    };
    json!({ "type": kind, "default": default, "description": help })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key of each example is one that the schema has; the chain's own options are those that the engine takes.
    #[test]
    fn examples_say_what_the_schema_has() {
        let schema = chain(&stock::registry());
        let functions = schema["properties"]["function"]["items"]["oneOf"].as_array().expect("functions");
        let mut keys = 0;
        for example in std::fs::read_dir("../../examples").expect("examples") {
            let path = example.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let table: toml::Table = text.parse().expect("TOML");
            for (name, value) in &table {
                assert!(schema["properties"].get(name).is_some(), "{}: {name}", path.display());
                for function in value.as_array().into_iter().flatten().filter_map(toml::Value::as_table) {
                    let Some(uses) = function.get("use") else { continue };
                    let of_it = |known: &&Value| known["title"].as_str() == uses.as_str();
                    let known = functions.iter().find(of_it).expect("a function");
                    for key in function.keys() {
                        assert!(known["properties"].get(key).is_some(), "{}: {key}", path.display());
                        keys += 1;
                    }
                }
            }
        }
        assert!(keys > 50, "{keys}");
        let error = engine::Chain::parse("x", "nonsense = 1\n", &stock::registry())
            .err()
            .expect("refused")
            .in_words();
        let properties = schema["properties"].as_object().expect("properties");
        assert!(properties.keys().all(|name| error.contains(&format!("`{name}`"))), "{error}");
        assert_eq!(error.matches('`').count() / 2 - 1, properties.len(), "{error}");
    }
}
