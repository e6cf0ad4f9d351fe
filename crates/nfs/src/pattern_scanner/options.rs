//! What a chain file may say about patterns.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use nf::OptionDoc;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use wire::protocol;

/// Options of [`PatternScanner`](super::PatternScanner): see the [module's page](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What to look for.
    #[serde(deserialize_with = "texts_or_tables")]
    pub patterns: Vec<PatternOptions>,
    /// What patterns do that do not say so themselves.
    pub action: Action,
}

impl Default for Options {
    fn default() -> Self {
        Options { patterns: Vec::new(), action: Action::Drop }
    }
}

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternOptions {
    /// What to find: text, with bytes in hex between bars.
    pub content: String,
    /// What the report calls it; if not given, as its content.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether A to Z are found in either case.
    #[serde(default)]
    pub nocase: bool,
    /// In which packets; if not given, in both kinds.
    #[serde(default)]
    pub protocol: Option<ScannedProtocol>,
    /// Destination ports of the packets; if none is given, all.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// What becomes of the packet; if not given, what the function's `action` says.
    #[serde(default)]
    pub action: Option<Action>,
}

/// What becomes of a packet in which a pattern is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is dropped, and counted.
    Drop,
    /// It is counted, and passes.
    Count,
}

/// Protocols whose payloads are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScannedProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl ScannedProtocol {
    pub(super) fn number(self) -> u8 {
        match self {
            ScannedProtocol::Tcp => protocol::TCP,
            ScannedProtocol::Udp => protocol::UDP,
        }
    }
}

/// A list in which text stands for a table of content alone. Not an untagged enum, whose errors do not
/// say what is wrong within a table.
fn texts_or_tables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PatternOptions>, D::Error> {
    struct TextOrTable(PatternOptions);

    impl<'de> Deserialize<'de> for TextOrTable {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(PatternVisitor).map(TextOrTable)
        }
    }

    struct PatternVisitor;

    impl<'de> Visitor<'de> for PatternVisitor {
        type Value = PatternOptions;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a pattern: text such as \"cmd.exe|00|\", or a table with `content`")
        }

        fn visit_str<E>(self, content: &str) -> Result<PatternOptions, E> {
            Ok(PatternOptions {
                content: content.into(),
                name: None,
                nocase: false,
                protocol: None,
                ports: Vec::new(),
                action: None,
            })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PatternOptions, A::Error> {
            PatternOptions::deserialize(MapAccessDeserializer::new(map))
        }
    }

    let patterns = Vec::<TextOrTable>::deserialize(deserializer)?;
    Ok(patterns.into_iter().map(|TextOrTable(pattern)| pattern).collect())
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "patterns",
        default: "[]",
        help: "what to look for: text with bytes in hex between bars (\"cmd.exe|00|\"), or tables of content, \
               name, nocase, protocol (\"tcp\" or \"udp\"), ports (destinations) and action",
    },
    OptionDoc {
        name: "action",
        default: "\"drop\"",
        help: "what patterns do that do not say so themselves: \"drop\" the packet, or \"count\" it",
    },
];
