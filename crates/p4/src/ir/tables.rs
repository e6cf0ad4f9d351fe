//! What holds entries and state: tables, muTables, registers, counters, meters.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statement::{Constant, FieldId, Operand, Statement};

/// A place in the sources. Written `mac_learning.p4:18:13`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourcePlace {
    /// The file, without its folder.
    pub file: String,
    /// The line, from 1; 0 if there is no such place.
    pub line: u32,
    /// The character in it, from 1.
    pub column: u32,
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Where a statement is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenPlace {
    /// Where it begins.
    pub place: SourcePlace,
    /// The line there, without the spaces around it.
    pub text: String,
}

/// Where the sources name something that keeps state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mentions {
    /// Where it is declared.
    pub declared: SourcePlace,
    /// Where it is read, written or counted, in the order of the sources.
    pub used: Vec<SourcePlace>,
}

/// An array of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Register {
    /// Its name.
    pub name: String,
    /// Bits of a value.
    pub width: u32,
    /// How many values.
    pub size: u32,
    /// Where the program names it.
    pub mentions: Mentions,
}

/// What a counter or a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    PacketsAndBytes,
}

/// An array of counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// How many.
    pub size: u32,
    /// Where the program names it.
    pub mentions: Mentions,
}

/// An array of two-rate three-colour markers (RFC 2698).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Meter {
    /// Its name.
    pub name: String,
    /// What its rates are of.
    pub unit: Unit,
    /// How many.
    pub size: u32,
    /// Where the program names it.
    pub mentions: Mentions,
}

/// A table that the data plane writes (RAPID §5.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MuTable {
    /// Its name.
    pub name: String,
    /// Keys: how the program writes each, and its bits.
    pub keys: Vec<Column>,
    /// Values: name and bits of each.
    pub values: Vec<Column>,
    /// How keys are matched.
    pub matching: Matching,
    /// What packets behind one that writes may see.
    pub consistency: Consistency,
    /// Entries at most.
    pub size: u32,
    /// Where the program names it.
    pub mentions: Mentions,
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its bits.
    pub width: u32,
}

/// How the keys of a muTable are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matching {
    /// All bits.
    Exact,
    /// The bits of an entry's mask.
    Ternary,
    /// The longest prefix.
    Lpm,
    /// The one key is the entry's number.
    Direct,
}

/// What a packet may see of a state that a packet before it changes (RAPID §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Always the new one.
    Strict,
    /// The new one some time.
    Weak,
    /// The old one in at most so many packets.
    BoundedStaleness(u32),
}

/// An action of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Where what the entry says is put.
    pub parameters: Vec<FieldId>,
    /// What it does.
    pub body: Vec<Statement>,
}

impl Action {
    /// Its name in the program. An action that several tables list with arguments of their own is there once for each:
    /// `set`, `set#2`, `set#3`.
    pub fn plain_name(&self) -> &str {
        self.name.split('#').next().unwrap_or(&self.name)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What is looked up.
    pub keys: Vec<TableKey>,
    /// Its actions, as indices of `Program::actions`.
    pub actions: Vec<u32>,
    /// What is done where nothing matches.
    pub default: ActionCall,
    /// Whether that never changes.
    pub is_default_const: bool,
    /// What is in it from the start, in order of precedence.
    pub entries: Vec<Entry>,
    /// Whether nothing can be added.
    pub is_const: bool,
    /// Entries at most.
    pub size: u32,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableKey {
    /// As the program writes it.
    pub name: String,
    /// Where it is.
    pub value: Operand,
    /// How it is matched.
    pub kind: MatchKind,
}

/// How a key is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// All bits.
    Exact,
    /// The longest prefix.
    Lpm,
    /// The bits of a mask.
    Ternary,
    /// Between two bounds.
    Range,
    /// All bits, or anything.
    Optional,
}

/// Whether an order decides between entries that match, not the longest prefix: where a key is matched by a mask, a range
/// or as an option (P4Runtime, "Match Format"), whatever other keys are.
pub fn has_priorities(keys: &[TableKey]) -> bool {
    let decides =
        |key: &TableKey| matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional);
    keys.iter().any(decides)
}

/// An action with what it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionCall {
    /// Index in `Program::actions`.
    pub action: u32,
    /// A value for each parameter.
    pub arguments: Vec<Constant>,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// What each key is held against.
    pub keys: Vec<KeySet>,
    /// What is done.
    pub call: ActionCall,
}

/// What a value is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySet {
    /// The bits of `mask` are those of `value`.
    Masked {
        /// What the bits are.
        value: Constant,
        /// Which bits.
        mask: Constant,
    },
    /// From `low` to `high`, both of them in it.
    Range {
        /// The least.
        low: Constant,
        /// The greatest.
        high: Constant,
    },
}
