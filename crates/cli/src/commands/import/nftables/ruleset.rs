//! What `nft -j list ruleset` prints (libnftables-json(5)), as tables, chains, rules and sets.
//!
//! Expressions stay JSON: those that are not known are listed for the user, and a schema with types would refuse the whole file for one.

use std::collections::BTreeMap;

use serde_json::Value;

/// A ruleset.
#[derive(Debug, Default)]
pub struct Ruleset {
    /// In the file's order.
    pub chains: Vec<Chain>,
    /// Named sets and maps by table and name.
    pub sets: BTreeMap<(Table, String), Set>,
    /// Tables whose chains are not hooked, as they are dormant.
    pub dormant: Vec<Table>,
}

/// A table's family and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table {
    pub family: String,
    pub name: String,
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

#[derive(Debug)]
pub struct Chain {
    pub table: Table,
    pub name: String,
    /// Where the kernel calls it, if it is a base chain.
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

/// Where a base chain is called, and what it does with packets of which its rules say nothing.
#[derive(Debug)]
pub struct Base {
    /// `filter`, `nat` or `route`.
    pub kind: String,
    pub hook: String,
    pub priority: i64,
    pub accepts: bool,
}

#[derive(Debug)]
pub struct Rule {
    pub handle: u64,
    pub comment: Option<String>,
    pub expressions: Vec<Value>,
}

#[derive(Debug)]
pub struct Set {
    /// What elements are made of.
    pub types: Vec<String>,
    pub elements: Vec<Value>,
    /// Whether its elements cannot be told: packets add them, they have a time-out, or they are not written as a list.
    pub changes: bool,
}

impl Ruleset {
    /// # Errors
    /// Says what the text is in place of a ruleset.
    pub fn parse(text: &str) -> Result<Ruleset, String> {
        let root: Value = serde_json::from_str(text).map_err(|error| {
            format!("is no JSON: {error}\nHave nft write it: `nft -j list ruleset > FILE`.")
        })?;
        let Some(objects) = root.get("nftables").and_then(Value::as_array) else {
            return Err("has no list \"nftables\"\nHave nft write it: `nft -j list ruleset > FILE`.".into());
        };
        let mut ruleset = Ruleset::default();
        for (number, object) in (1..).zip(objects) {
            ruleset
                .add(object)
                .map_err(|wrong| format!("{wrong} (object {number} of the list \"nftables\")"))?;
        }
        Ok(ruleset)
    }

    fn add(&mut self, object: &Value) -> Result<(), String> {
        let Some((kind, value)) =
            object.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next())
        else {
            return Err("has something that is no object of nft".into());
        };
        match kind.as_str() {
            "table" => {
                let table = Table { family: text(value, "family")?, name: text(value, "name")? };
                if flags(value).contains(&"dormant") {
                    self.dormant.push(table);
                }
            }
            "chain" => {
                let base = match value.get("hook") {
                    None => None,
                    Some(_) => Some(Base {
                        kind: text(value, "type")?,
                        hook: text(value, "hook")?,
                        priority: value
                            .get("prio")
                            .and_then(Value::as_i64)
                            .ok_or("has a base chain without a number as \"prio\"")?,
                        accepts: value.get("policy").is_none_or(|policy| policy == "accept"),
                    }),
                };
                let chain =
                    Chain { table: table(value)?, name: text(value, "name")?, base, rules: Vec::new() };
                if self.chain(&chain.table, &chain.name).is_some() {
                    return Err(format!("has the chain {} {} twice", chain.table, chain.name));
                }
                self.chains.push(chain);
            }
            "rule" => {
                let (table, name) = (table(value)?, text(value, "chain")?);
                let Some(expressions) = value.get("expr").and_then(Value::as_array) else {
                    return Err("has a rule without a list \"expr\"".into());
                };
                let rule = Rule {
                    handle: value.get("handle").and_then(Value::as_u64).unwrap_or_default(),
                    comment: value.get("comment").and_then(Value::as_str).map(str::to_owned),
                    expressions: expressions.clone(),
                };
                let chain = self.chains.iter_mut().find(|chain| chain.table == table && chain.name == name);
                match chain {
                    Some(chain) => chain.rules.push(rule),
                    None => {
                        return Err(format!(
                            "has a rule of the chain {table} {name} before the chain itself"
                        ));
                    }
                }
            }
            "set" | "map" => {
                let types = match value.get("type") {
                    Some(Value::String(one)) => vec![one.clone()],
                    Some(Value::Array(list)) => {
                        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                    }
                    _ => Vec::new(),
                };
                let listed = value.get("elem");
                let elements = listed.and_then(Value::as_array).cloned().unwrap_or_default();
                let flags = flags(value);
                let changes = listed.is_some_and(|listed| !listed.is_array())
                    || flags.iter().any(|flag| matches!(*flag, "dynamic" | "timeout"))
                    || value.get("timeout").is_some()
                    || elements.iter().any(|element| element.pointer("/elem/timeout").is_some());
                self.sets.insert((table(value)?, text(value, "name")?), Set { types, elements, changes });
            }
            // What rules refer to by name is looked for where they do: counters, limits, helpers, flow tables.
            _ => {}
        }
        Ok(())
    }

    pub fn chain(&self, table: &Table, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.table == *table && chain.name == name)
    }
}

fn table(value: &Value) -> Result<Table, String> {
    Ok(Table { family: text(value, "family")?, name: text(value, "table")? })
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    match value.get(key).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("has no text as \"{key}\"")),
    }
}

fn flags(value: &Value) -> Vec<&str> {
    match value.get("flags") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
