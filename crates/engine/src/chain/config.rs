//! Chain files.
//!
//! ```toml
//! name = "edge"
//! malformed = "drop"            # or "pass"
//! fragments = "pass"            # or "drop", "track", "follow"
//! spoofed = "drop"              # or "pass": sides go by source addresses, and not by interfaces
//! seed = 1                      # of what functions draw; without it one is drawn
//! inside = ["10.0.0.0/8"]       # gives the chain two sides; a NAT in it says the same
//!
//! [[interface]]                 # which network interfaces it is for, and the side of each
//! name = "eth1"
//! side = "dmz"                  # "outside", or any name for a side of the inside
//! prefixes = ["10.0.1.0/24"]    # of the hosts there; not outside
//!
//! [[class]]                     # for `dyssect`: the first that a packet fits says whether it has priority
//! priority = "high"             # or "low"
//! prefixes = ["10.1.0.0/16"]    # of one of its addresses
//! ports = [5060]                # one of its ports; a class may have both
//!
//! [[function]]
//! use = "conntrack"
//! flows = 65536                 # what each core's table holds
//! table_full = "evict-oldest"   # or "reject"
//! pick_up = true                # the function's own options
//! tcp_timeout_time_wait = "2 min"  # numbers with units may be texts, and go without the unit in the name
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ::names::nearest;
use miette::{Diagnostic, NamedSource, SourceSpan};
use nf::prefix::PrefixSet;
use nf::{OptionDoc, OptionError};
use serde::Deserialize;
use table::{MAX_FLOWS, WhenFull};
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::chain::checksums::Checksums;
use crate::chain::classes::{Class, Classes, Priority};
use crate::chain::interfaces::{self, ChainInterface, INSIDE, INTERFACES_MAX, NAME_BYTES_MAX, OUTSIDE};
use crate::chain::quantity;
use crate::chain::registry::{MakeError, Registry};
use crate::chain::{Chain, FunctionSpec, MalformedPolicy, Slo, SpoofedPolicy};
use crate::path::checks::Fragments;
use crate::path::sides::Sides;

/// Flows per core where a chain file does not say.
const DEFAULT_FLOWS: usize = 1 << 16;

/// The most functions in a chain: fates hold the index in 8 bits.
const MAX_FUNCTIONS: usize = 64;

#[rustfmt::skip]
const CHAIN_OPTIONS: [&str; 11] = [
    "name", "malformed", "checksums", "fragments", "spoofed", "seed", "inside", "slo", "class", "interface",
    "function",
];

/// The option of a function that has the sides of the chain's interfaces, where the function's table does not say otherwise.
const SIDES: &str = "sides";

/// Options of every function.
const FUNCTION_OPTIONS: [&str; 3] = ["use", "flows", "table_full"];

/// What is wrong with a chain file, and where.
#[derive(Debug, Error, Diagnostic)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
    #[source_code]
    source_code: NamedSource<String>,
    #[label("{label}")]
    span: SourceSpan,
    label: String,
    #[help]
    help: Option<String>,
}

impl ConfigError {
    /// Line and column, from 1, at which the mistake begins.
    pub fn position(&self) -> (usize, usize) {
        let before = &self.source_code.inner()[..self.span.offset()];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// All that it says, for readers who do not have the file to point at: place, mistake and hint in one line; help below.
    pub fn in_words(&self) -> String {
        let (line, column) = self.position();
        let ConfigError { message, source_code, label, help, .. } = self;
        // Some only point at the place.
        let label = if label == "here" || label.starts_with("this ") { "" } else { &format!(": {label}") };
        let help = help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
        format!("{}:{line}:{column}: {message}{label}{help}", source_code.name())
    }
}

impl Chain {
    /// Reads a chain from TOML. `source_name` is what errors call the file.
    ///
    /// # Errors
    /// [`ConfigError`] points at the line, says what is wrong, and names the valid choices.
    pub fn parse(source_name: &str, text: &str, registry: &Registry) -> Result<Chain, Box<ConfigError>> {
        parse_chain(source_name, text, registry).map_err(|Mistake { span, message, label, help }| {
            // A span at the very end would point at nothing.
            let start = span.start.min(text.len());
            let span = SourceSpan::from(start..span.end.clamp(start, text.len()));
            let source_code = NamedSource::new(source_name, text.to_owned()).with_language("TOML");
            Box::new(ConfigError { message, source_code, span, label, help })
        })
    }
}

/// A mistake before it knows its file.
struct Mistake {
    span: Range<usize>,
    message: String,
    label: String,
    help: Option<String>,
}

fn mistake(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Mistake {
    Mistake { span, message: message.into(), label: label.into(), help: None }
}

impl Mistake {
    fn help(self, help: impl Into<String>) -> Mistake {
        Mistake { help: Some(help.into()), ..self }
    }
}

impl From<toml::de::Error> for Mistake {
    fn from(error: toml::de::Error) -> Mistake {
        mistake(error.span().unwrap_or(0..0), error.message(), "here")
    }
}

fn parse_chain(source_name: &str, text: &str, registry: &Registry) -> Result<Chain, Mistake> {
    let mut chain = Fields::new(DeTable::parse(text)?);
    let name = match chain.take_spanned::<String>("name")? {
        None => file_stem(source_name),
        Some((_, name)) if !name.trim().is_empty() && !name.contains(char::is_control) => name,
        Some((span, _)) => {
            let label = "must have characters, none of them control characters";
            return Err(mistake(span, "a chain needs a name that can be printed", label));
        }
    };
    let malformed = chain.take::<MalformedPolicy>("malformed")?.unwrap_or_default();
    let checksums = chain.take::<Checksums>("checksums")?.unwrap_or_default();
    let fragments = chain.take::<Fragments>("fragments")?.unwrap_or_default();
    let spoofed = chain.take::<SpoofedPolicy>("spoofed")?.unwrap_or_default();
    let given_seed = chain.take::<u64>("seed")?;
    let inside = chain.take_spanned::<Vec<String>>("inside")?;
    let inside_span = inside.as_ref().map_or(0..0, |(span, _)| span.clone());
    let inside = inside.map(parse_inside).transpose()?;
    let slo = chain.remove("slo").map(parse_slo).transpose()?;
    let classes = chain.remove("class").map_or(Ok(Vec::new()), parse_classes)?;
    let interfaces = chain.remove("interface").map_or(Ok(Vec::new()), parse_interfaces)?;
    let of_interfaces = Some(interfaces::inside(&interfaces)).filter(|inside| !inside.is_empty());
    if inside.is_some() && of_interfaces.is_some() {
        let message =
            "`inside` says which hosts are inside, and `prefixes` of an `[[interface]]` says so, too";
        return Err(mistake(inside_span, message, "leave this out: the interfaces' prefixes are inside"));
    }
    let inside = inside.or(of_interfaces);
    let tables = chain.remove("function");
    chain.refuse_rest(&CHAIN_OPTIONS, "a chain")?;

    let tables = function_tables(tables, registry)?;
    let named_sides = interfaces::sides_in_words(&interfaces);
    let mut functions = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for table in tables {
        let mut spec = parse_function(table, registry, named_sides.as_deref())?;
        let count = seen.entry(spec.function.info().about.name).or_insert(0);
        *count += 1;
        if *count > 1 {
            spec.name += &format!("#{count}");
        }
        functions.push(spec);
    }
    let sides = Sides::of_chain(inside, &functions)
        .map_err(|message| mistake(inside_span, message, "what is inside is said here, or by a function"))?
        .map(Arc::new);
    let (drawn, table_seed) = (random_seed()?, random_seed()?);
    let chain = Chain {
        name,
        text: text.into(),
        malformed,
        checksums,
        fragments,
        spoofed,
        // One that was drawn can be written in a file: there numbers go to 2^63 - 1.
        seed: given_seed.unwrap_or(drawn >> 1),
        seed_is_drawn: given_seed.is_none(),
        table_seed,
        sides,
        slo,
        classes: Classes::new(classes),
        interfaces: interfaces.into(),
        functions,
    };
    Ok(if fragments == Fragments::Follow { chain.following_fragments() } else { chain })
}

fn parse_interfaces(value: Spanned<DeValue<'_>>) -> Result<Vec<ChainInterface>, Mistake> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        let help = "begin each interface with a line `[[interface]]`, in two brackets";
        return Err(mistake(span, "`interface` is not a list of tables", "here").help(help));
    };
    let mut all: Vec<ChainInterface> = Vec::new();
    for table in tables {
        let (span, interface) = (table.span(), parse_interface(table)?);
        if all.iter().any(|before| before.name == interface.name) {
            let message = format!("the interface `{}` is here twice", interface.name);
            return Err(mistake(span, message, "each has one table"));
        }
        let overlaps = |before: &&ChainInterface| {
            before.side != interface.side && before.prefixes.common(&interface.prefixes).is_some()
        };
        if let Some(before) = all.iter().find(overlaps) {
            let message = format!(
                "hosts of `{}` are on the side `{}` and on `{}`",
                interface.name, before.side, interface.side
            );
            return Err(mistake(span, message, "a host is on one side: its address says on which"));
        }
        all.push(interface);
    }
    let is_outside = |interface: &ChainInterface| interface.side == OUTSIDE;
    if all.len() > INTERFACES_MAX || all.iter().all(is_outside) || !all.iter().any(is_outside) {
        let message =
            format!("a chain has at most {INTERFACES_MAX} interfaces, one of them outside and one not");
        return Err(mistake(span, message, "`side = \"outside\"` says which is outside"));
    }
    let mut inside = all.iter().filter(|interface| !is_outside(interface));
    // With that alone the chain's `inside`, or a NAT's, says all.
    let is_plain = inside.clone().all(|interface| interface.side == INSIDE);
    if let Some(interface) = inside.find(|interface| !is_plain && interface.prefixes.is_empty()) {
        let message = format!("nothing says which hosts are on the side `{}`", interface.side);
        let label = format!(
            "`prefixes` of `{}` is missing: a packet's address says on which side it is",
            interface.name
        );
        return Err(mistake(span, message, label));
    }
    Ok(all)
}

fn parse_interface(value: Spanned<DeValue<'_>>) -> Result<ChainInterface, Mistake> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        return Err(mistake(span, "an interface is a table of options", "this is something else"));
    };
    let mut fields = Fields::new(Spanned::new(span.clone(), table));
    let name = fields.take_spanned::<String>("name")?;
    let side = fields.take_spanned::<String>("side")?;
    let prefixes = fields.take_spanned::<Vec<String>>("prefixes")?;
    fields.refuse_rest(&["name", "side", "prefixes"], "an interface")?;
    let (Some((name_span, name)), Some((side_span, side))) = (name, side) else {
        let label = "write `name = \"eth1\"` and `side = \"inside\"`";
        return Err(mistake(span, "an interface has a name and a side", label));
    };
    if name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || name.contains(|letter: char| letter == '/' || letter.is_whitespace())
    {
        let label = format!("a name as `ip link` shows it, {NAME_BYTES_MAX} bytes at most");
        return Err(mistake(name_span, format!("no interface is called `{name}`"), label));
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if side.is_empty() || !side.chars().all(is_letter) {
        return Err(mistake(side_span, format!("the side `{side}`"), "write letters, digits, - and _"));
    }
    let prefixes = match prefixes {
        None => PrefixSet::default(),
        Some((span, _)) if side == OUTSIDE => {
            return Err(mistake(span, "outside is whatever is not inside", "leave this out"));
        }
        Some((span, prefixes)) => PrefixSet::parse("prefixes", &prefixes)
            .map_err(|error| mistake(span, format!("`prefixes` {}", error.message), "this value"))?,
    };
    Ok(ChainInterface { name, side, prefixes })
}

fn parse_slo(value: Spanned<DeValue<'_>>) -> Result<Slo, Mistake> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        let help = "write a line `[slo]`, and below it `p99_us = 500`";
        return Err(mistake(span, "`slo` is not a table", "here").help(help));
    };
    let mut fields = Fields::new(Spanned::new(span.clone(), table));
    let Some((value, p99_us)) = fields.take_spanned::<f64>("p99_us")? else {
        let message = "`slo` does not say how long packets may wait";
        return Err(mistake(span, message, "`p99_us` is missing"));
    };
    fields.refuse_rest(&["p99_us"], "`slo`")?;
    match p99_us > 0.0 && p99_us <= 1e9 {
        true => Ok(Slo { p99_us }),
        false => {
            let told = if p99_us.abs() < 1e12 { p99_us.to_string() } else { format!("{p99_us:e}") };
            let message = format!("`p99_us`: no packet waits at most {told} µs");
            Err(mistake(value, message, "must be above 0, and at most 1000000000"))
        }
    }
}

/// What a class says of itself.
const CLASS_OPTIONS: [&str; 3] = ["priority", "prefixes", "ports"];

fn parse_classes(value: Spanned<DeValue<'_>>) -> Result<Vec<Class>, Mistake> {
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        let help = "begin each class with a line `[[class]]`, in two brackets";
        return Err(mistake(span, "`class` is not a list of tables", "here").help(help));
    };
    let last = tables.iter().last().map_or(0..0, Spanned::span);
    let classes: Vec<Class> = tables.into_iter().map(parse_class).collect::<Result<_, _>>()?;
    match classes.iter().any(|class| class.priority == Priority::High) {
        true => Ok(classes),
        false => {
            let label = "one of them must have `priority = \"high\"`";
            Err(mistake(last, "no class has priority, so that all packets are alike", label))
        }
    }
}

fn parse_class(value: Spanned<DeValue<'_>>) -> Result<Class, Mistake> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        return Err(mistake(span, "a class is a table of options", "this is something else"));
    };
    let mut fields = Fields::new(Spanned::new(span.clone(), table));
    if let Some(dscp) = fields.remove("dscp") {
        let message = "packets of one flow may differ in `dscp`, and would be in two classes";
        return Err(mistake(dscp.span(), message, "a class is told by `prefixes` or `ports`"));
    }
    let Some(priority) = fields.take::<Priority>("priority")? else {
        let label = "`priority` is missing: \"high\" or \"low\"";
        return Err(mistake(span, "this class does not say which priority it has", label));
    };
    let prefixes = fields.take_spanned::<Vec<String>>("prefixes")?;
    let ports = fields.take_spanned::<Vec<u16>>("ports")?;
    fields.refuse_rest(&CLASS_OPTIONS, "a class")?;
    let prefixes = match prefixes {
        None => PrefixSet::default(),
        Some((span, prefixes)) => PrefixSet::parse("prefixes", &prefixes)
            .map_err(|error| mistake(span, format!("`prefixes` {}", error.message), "this value"))?,
    };
    let ports = match ports {
        Some((span, ports)) if ports.contains(&0) => {
            return Err(mistake(span, "packets without ports have 0", "a port is 1 to 65535"));
        }
        ports => ports.map_or_else(Vec::new, |(_, ports)| ports),
    };
    if prefixes.is_empty() && ports.is_empty() {
        return Err(mistake(span, "a class of all packets", "name its `prefixes`, its `ports`, or both"));
    }
    Ok(Class { priority, prefixes, ports })
}

fn parse_inside((span, prefixes): (Range<usize>, Vec<String>)) -> Result<PrefixSet, Mistake> {
    if prefixes.is_empty() {
        let label = "name the prefixes of the hosts inside, such as \"10.0.0.0/8\"";
        return Err(mistake(span, "nothing is inside", label));
    }
    PrefixSet::parse("inside", &prefixes)
        .map_err(|error| mistake(span, format!("`inside` {}", error.message), "this value"))
}

/// From the system, where outsiders cannot tell it.
fn random_seed() -> Result<u64, Mistake> {
    getrandom::u64()
        .map_err(|error| mistake(0..0, format!("the system gives no random numbers: {error}"), ""))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum TableFull {
    #[default]
    Reject,
    EvictOldest,
}

fn function_tables<'i>(
    value: Option<Spanned<DeValue<'i>>>,
    registry: &Registry,
) -> Result<Vec<Spanned<DeValue<'i>>>, Mistake> {
    let how = format!(
        "begin each function with a line `[[function]]`, then `use = \"…\"`: {}",
        names(registry.functions().map(|info| info.about.name))
    );
    let Some(value) = value else {
        return Err(mistake(0..0, "the chain has no functions", "no `[[function]]` in this file").help(how));
    };
    let span = value.span();
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(mistake(span, "`function` is not a list of tables", "here").help(how));
    };
    if tables.is_empty() || tables.len() > MAX_FUNCTIONS {
        let message = format!("a chain has 1 to {MAX_FUNCTIONS} functions, this one {}", tables.len());
        return Err(mistake(span, message, "here").help(how));
    }
    Ok(tables.into_iter().collect())
}

/// `sides` are those of the chain's interfaces, for functions that have an option of that name.
fn parse_function(
    table: Spanned<DeValue<'_>>,
    registry: &Registry,
    sides: Option<&str>,
) -> Result<FunctionSpec, Mistake> {
    let span = table.span();
    let DeValue::Table(table) = table.into_inner() else {
        return Err(mistake(span, "a function is a table of options", "this is something else"));
    };
    let mut fields = Fields::new(Spanned::new(span.clone(), table));
    let choices = names(registry.functions().map(|info| info.about.name));
    let Some((use_span, name)) = fields.take_spanned::<String>("use")? else {
        let message = "this function does not say which function it is";
        return Err(mistake(span, message, "`use` is missing").help(format!("add `use = \"…\"`: {choices}")));
    };
    let info = registry.functions().find(|info| info.about.name == name);
    let known = info.map_or(&[][..], |info| info.about.options);
    let quantities = fields.quantities(known)?;
    // From here on the table borrows from the numbers, too.
    let mut fields: Fields<'_> = fields;
    quantities.iter().try_for_each(|(option, number)| fields.replace(option, number))?;
    if let Some(sides) = sides
        && known.iter().any(|option| option.name == SIDES)
        && !fields.table.contains_key(SIDES)
    {
        let value = Spanned::new(use_span.clone(), DeValue::parse(sides)?.into_inner());
        fields.table.insert(Spanned::new(use_span.clone(), SIDES.into()), value);
    }
    let flows = fields.take_spanned::<u64>("flows")?;
    let table_full = fields.take_spanned::<TableFull>("table_full")?;
    let when_full = match &table_full {
        None | Some((_, TableFull::Reject)) => WhenFull::Reject,
        Some((_, TableFull::EvictOldest)) => WhenFull::EvictOldest,
    };
    let flows = match flows {
        None => DEFAULT_FLOWS,
        Some((_, flows)) if (1..=MAX_FLOWS as u64).contains(&flows) => flows as usize,
        Some((span, flows)) => {
            let message = format!("a table for {flows} flows");
            return Err(mistake(span, message, format!("must be 1 to {MAX_FLOWS}")));
        }
    };
    let spans = fields.spans();
    let value = fields.into_value();
    let as_written = toml::Table::deserialize(ValueDeserializer::from(value.clone()))?;
    let options = ValueDeserializer::from(value);
    let Some(made) = registry.make(&name, options) else {
        let message = format!("there is no function `{name}`");
        let near = registry.nearest(&name);
        let help = near.map_or_else(|| choices.clone(), |near| format!("did you mean `{near}`? {choices}"));
        return Err(mistake(use_span, message, "not a function").help(help));
    };
    let function = made.map_err(|error| match error {
        MakeError::Option(OptionError { option, message }) => {
            let span = spans.get(option).cloned().unwrap_or(use_span);
            mistake(span, format!("`{name}`: `{option}` {message}"), "this value")
        }
        MakeError::Toml(error) => wrong_option(error, &spans, &name, known),
    })?;
    if let (Some((span, TableFull::EvictOldest)), Some(reason)) = (table_full, function.refuses_eviction()) {
        let message = format!("`{name}` cannot evict flows that live: {reason}");
        return Err(mistake(span, message, "this policy").help("use `table_full = \"reject\"`, the default"));
    }
    Ok(FunctionSpec { name, function, options: as_written.into(), flows, when_full })
}

impl Registry {
    /// The function that `name` was probably meant to be.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.functions().map(|info| info.about.name))
    }
}

/// A wrong option: one that the function has not, with those that it has; or one of another type.
fn wrong_option(
    error: toml::de::Error,
    spans: &BTreeMap<String, Range<usize>>,
    name: &str,
    options: &[OptionDoc],
) -> Mistake {
    let all = || options.iter().map(|option| option.name).chain(["flows", "table_full"]);
    let list = format!("options of `{name}`: {}", names(all()));
    let span = error.span().unwrap_or(0..0);

    if let Some(unknown) = quoted_after(error.message(), "unknown field ") {
        if CHAIN_OPTIONS.contains(&unknown) {
            let message = format!("`{unknown}` is an option of the chain, and stands below a `[[function]]`");
            let help = format!("move `{unknown}` above the first `[[function]]` of the file. {list}");
            return mistake(span, message, "belongs to the chain").help(help);
        }
        let message = format!("`{name}` has no option `{unknown}`");
        let near = nearest(unknown, all());
        let help = near.map_or_else(|| list.clone(), |near| format!("did you mean `{near}`? {list}"));
        return mistake(span, message, "unknown").help(help);
    }
    let inside = |value: &Range<usize>| value.start <= span.start && span.end <= value.end;
    let message = in_toml_words(error.message());
    let Some((option, _)) = spans.iter().find(|(_, value)| inside(value)) else {
        return mistake(span, format!("`{name}`: {message}"), "here").help(list);
    };
    let found = mistake(span, format!("`{name}`: `{option}`: {message}"), "this value");
    match options.iter().find(|known| known.name == option) {
        Some(known) => found.help(format!("`{option}`: {} (default {})", known.help, known.default)),
        None => found,
    }
}

/// What stands between backticks after `prefix`, if the text begins so.
fn quoted_after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix)?.strip_prefix('`')?.split('`').next()
}

/// The parser's words for a wrong type, in words for an author of TOML.
fn in_toml_words(message: &str) -> String {
    let of_type = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = of_type.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("must be {}, and is {}", expected_words(expected), found_words(found));
    }
    if let Some((length, expected)) =
        message.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("must be {}, and has {length}", expected_words(expected));
    }
    if let Some((variant, choices)) =
        message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        let near = nearest(variant.trim_matches('`'), choices.split('`').skip(1).step_by(2));
        let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        let choices = choices.strip_prefix("one of ").unwrap_or(choices).replace('`', "\"");
        return format!("must be {choices}, and is {}{near}", variant.replace('`', "\""));
    }
    if message == "wanted string or table" {
        return "must be one of its words, in quotes".to_owned();
    }
    message.to_owned()
}

fn expected_words(expected: &str) -> String {
    match expected {
        "u8" => "a whole number, 0 to 255".to_owned(),
        "u16" => "a whole number, 0 to 65535".to_owned(),
        "u32" => "a whole number, 0 to 4294967295".to_owned(),
        "u64" | "u128" | "usize" => "a whole number, at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "a borrowed string" => "text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("an array of length ") => other.replace("an array of length", "a list of"),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn found_words(found: &str) -> String {
    let found = found.strip_suffix(" as i128").or_else(|| found.strip_suffix(" as u128")).unwrap_or(found);
    for kind in ["integer ", "floating point ", "boolean ", "string "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches('`').to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// The entries of a table, taken out one by one.
struct Fields<'i> {
    span: Range<usize>,
    table: DeTable<'i>,
}

impl<'i> Fields<'i> {
    fn new(table: Spanned<DeTable<'i>>) -> Fields<'i> {
        Fields { span: table.span(), table: table.into_inner() }
    }

    fn remove(&mut self, name: &str) -> Option<Spanned<DeValue<'i>>> {
        self.table.remove(name)
    }

    fn take_spanned<T: for<'de> Deserialize<'de>>(
        &mut self,
        name: &str,
    ) -> Result<Option<(Range<usize>, T)>, Mistake> {
        let Some(value) = self.remove(name) else { return Ok(None) };
        let span = value.span();
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Ok(Some((span, value))),
            Err(error) => {
                Err(mistake(span, format!("`{name}`: {}", in_toml_words(error.message())), "this value"))
            }
        }
    }

    fn take<T: for<'de> Deserialize<'de>>(&mut self, name: &str) -> Result<Option<T>, Mistake> {
        Ok(self.take_spanned(name)?.map(|(_, value)| value))
    }

    fn refuse_rest(&self, choices: &[&str], of: &str) -> Result<(), Mistake> {
        let Some((key, _)) = self.table.iter().next() else { return Ok(()) };
        let name: &str = key.get_ref();
        let message = format!("{of} has no option `{name}`");
        if FUNCTION_OPTIONS.contains(&name) {
            let help =
                format!("`{name}` is an option of a function: put it below that function's `[[function]]`");
            return Err(mistake(key.span(), message, "belongs to a function").help(help));
        }
        let near = nearest(name, choices.iter().copied());
        let valid = format!("valid: {}", names(choices.iter().copied()));
        let help = near.map_or_else(|| valid.clone(), |near| format!("did you mean `{near}`? {valid}"));
        Err(mistake(key.span(), message, "unknown").help(help))
    }

    /// Options whose values are texts in the place of numbers, and these numbers. Names that lack their unit
    /// are mended.
    fn quantities(&mut self, options: &[OptionDoc]) -> Result<Vec<(String, String)>, Mistake> {
        // A number in TOML may have underscores.
        let is_number = |option: &&OptionDoc| option.default.replace('_', "").parse::<f64>().is_ok();
        let numbers = || options.iter().filter(is_number).map(|option| option.name).chain(["flows"]);
        let is_text = |value: &Spanned<DeValue<'i>>| matches!(value.get_ref(), DeValue::String(_));
        let texts: Vec<String> = self
            .table
            .iter()
            .filter(|(_, value)| is_text(value))
            .map(|(key, _)| key.get_ref().to_string())
            .collect();
        let mut quantities = Vec::new();
        for name in texts {
            let whole = match numbers().find(|number| *number == name) {
                Some(whole) => whole,
                None if options.iter().any(|option| option.name == name) => continue,
                None => match quantity::whole_name(&name, numbers()) {
                    Some(whole) => whole,
                    None => continue,
                },
            };
            let Some((key, value)) = self.table.remove_entry(name.as_str()) else { continue };
            let (span, label) = (value.span(), "this value");
            let DeValue::String(text) = value.get_ref() else { continue };
            let number = quantity::parse(whole, text)
                .map_err(|message| mistake(span.clone(), format!("`{name}`: {message}"), label))?;
            if let Some(other) = self.table.get(whole) {
                let message = format!("`{name}` and `{whole}` are one option");
                return Err(mistake(other.span(), message, "given twice"));
            }
            self.table.insert(Spanned::new(key.span(), whole.to_owned().into()), value);
            quantities.push((whole.to_owned(), number.to_string()));
        }
        Ok(quantities)
    }

    /// Puts a number in the place of a text.
    fn replace(&mut self, option: &str, number: &'i str) -> Result<(), Mistake> {
        if let Some(value) = self.table.get_mut(option) {
            *value = Spanned::new(value.span(), DeValue::parse(number)?.into_inner());
        }
        Ok(())
    }

    fn spans(&self) -> BTreeMap<String, Range<usize>> {
        let entry = |(key, value): (&Spanned<toml::de::DeString<'i>>, &Spanned<DeValue<'i>>)| {
            (key.get_ref().to_string(), value.span())
        };
        self.table.iter().map(entry).collect()
    }

    fn into_value(self) -> Spanned<DeValue<'i>> {
        Spanned::new(self.span, DeValue::Table(self.table))
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn file_stem(source_name: &str) -> String {
    let stem = std::path::Path::new(source_name).file_stem();
    let stem = stem.map_or_else(|| "chain".into(), |stem| stem.to_string_lossy());
    stem.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
