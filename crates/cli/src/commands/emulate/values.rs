//! Values of options that a run and a sweep have in common.

use std::fmt;
use std::str::FromStr;

use pipeline::Consistency;
use serde::Serialize;

use crate::args::number;

/// [`Consistency`] as options have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct Level(pub Consistency);

/// Updates after which a flow is blocked, or never.
#[derive(Clone, Debug)]
pub struct Threshold(pub Option<u32>);

/// Packets or flows of a buffer.
pub fn size(text: &str) -> Result<usize, String> {
    number(1..=1 << 20)(text)
}

pub fn threshold(text: &str) -> Result<Threshold, String> {
    match text.parse() {
        Ok(updates) => Ok(Threshold(Some(updates))),
        _ if text == "never" => Ok(Threshold(None)),
        _ => Err("a number of updates, or never".to_owned()),
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Consistency::Strict => f.write_str("strict"),
            Consistency::BoundedStaleness(packets) => write!(f, "bs{packets}"),
            Consistency::Weak => f.write_str("weak"),
        }
    }
}

impl From<Level> for String {
    fn from(level: Level) -> String {
        level.to_string()
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let level = match text.to_ascii_lowercase().as_str() {
            "strict" => Some(Consistency::Strict),
            "weak" => Some(Consistency::Weak),
            other => other.strip_prefix("bs").and_then(|k| k.parse().ok()).map(Consistency::BoundedStaleness),
        };
        level
            .map(Level)
            .ok_or_else(|| "strict, weak, or bs and how many stale packets may pass, such as bs2".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        for text in ["strict", "bs1", "bs12", "weak"] {
            assert_eq!(text.parse::<Level>().map(|level| level.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "bs", "bs-1", "eventual"] {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
    }
}
