//! Expressions as nft writes them, for comments and messages. What is not known here stays JSON.

use serde_json::Value;

/// More is cut: a set in a rule may have a thousand elements.
const CHARACTERS_MAX: usize = 160;

/// A rule.
pub fn rule(expressions: &[Value]) -> String {
    let words: Vec<String> = expressions.iter().map(full).collect();
    cut(words.join(" "))
}

/// One expression of a rule.
pub fn expression(expression: &Value) -> String {
    cut(full(expression))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn full(expression: &Value) -> String {
    let Some((kind, value)) = expression.as_object().and_then(|map| map.iter().next()) else {
        return expression.to_string();
    };
    let part = |key: &str| value.get(key).map(words).unwrap_or_default();
    match kind.as_str() {
        "match" => {
            let op = match part("op").as_str() {
                "==" | "in" => String::new(),
                "!" => "! ".to_owned(),
                other => format!("{other} "),
            };
            format!("{} {op}{}", part("left"), part("right"))
        }
        "accept" | "drop" | "return" | "continue" => kind.clone(),
        "jump" | "goto" => format!("{kind} {}", part("target")),
        "counter" => kind.clone(),
        "log" => "log".to_owned(),
        "vmap" => format!("{} vmap {}", part("key"), part("data")),
        "limit" if value.get("rate").is_some() => {
            let over = if value.get("inv").is_some_and(|over| over == true) { "over " } else { "" };
            format!("limit rate {over}{}/{}", part("rate"), part("per"))
        }
        "reject" if value.is_null() => kind.clone(),
        "reject" if value.get("expr").is_none() => format!("reject with {}", part("type")),
        "reject" => format!("reject with {} {}", part("type"), part("expr")),
        _ => expression.to_string(),
    }
}

fn words(value: &Value) -> String {
    let list = |values: &[Value], between: &str| values.iter().map(words).collect::<Vec<_>>().join(between);
    let Some(map) = value.as_object() else {
        return match value {
            Value::String(text) => text.clone(),
            Value::Array(pair) if pair.iter().any(Value::is_object) => list(pair, " : "),
            Value::Array(names) => list(names, ","),
            other => other.to_string(),
        };
    };
    let Some((kind, value)) = map.iter().next() else { return "{}".to_owned() };
    let text = |key: &str| value.get(key).map(words).unwrap_or_default();
    match (kind.as_str(), value) {
        ("payload", _) if value.get("field").is_some() => format!("{} {}", text("protocol"), text("field")),
        ("meta", _) => {
            let key = text("key");
            if matches!(key.as_str(), "iif" | "oif" | "iifname" | "oifname" | "mark") {
                key
            } else {
                format!("meta {key}")
            }
        }
        ("ct", _) => format!("ct {}", text("key")),
        ("prefix", _) => format!("{}/{}", text("addr"), text("len")),
        ("range", Value::Array(ends)) => list(ends, "-"),
        ("concat", Value::Array(parts)) => list(parts, " . "),
        ("set", Value::Array(elements)) => format!("{{ {} }}", list(elements, ", ")),
        ("elem", _) => text("val"),
        ("&", Value::Array(parts)) => list(parts, " & "),
        ("|", Value::Array(parts)) => list(parts, "|"),
        ("accept" | "drop" | "return" | "continue", _) => kind.clone(),
        ("jump" | "goto", _) => format!("{kind} {}", text("target")),
        _ => Value::Object(map.clone()).to_string(),
    }
}
