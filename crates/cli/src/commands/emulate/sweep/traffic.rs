//! What arrives, by name.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// What arrives, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub enum Traffic {
    /// A trace of Tables 6 and 7 of RAPID (NSDI'24): 1 to 6.
    Spaced(usize),
    /// So many flows that take turns.
    Turns(u64),
    /// A model of traffic.
    Named(String),
    /// A capture.
    Capture(PathBuf),
}

/// Traces of Tables 6 and 7 whose spacing the paper states.
pub const SPACED: usize = 6;

impl Traffic {
    /// As the command line names it.
    pub fn named(name: &str) -> Traffic {
        let number = name.strip_prefix("trace-").and_then(|number| number.parse().ok());
        match number.filter(|number| (1..=SPACED).contains(number)) {
            Some(number) => Traffic::Spaced(number),
            None => Traffic::Named(name.to_owned()),
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Traffic::Spaced(number) => write!(f, "trace-{number}"),
            Traffic::Turns(gap) => write!(f, "turns-{gap}"),
            Traffic::Named(name) => f.write_str(name),
            Traffic::Capture(path) => path.display().fmt(f),
        }
    }
}

impl From<Traffic> for String {
    fn from(traffic: Traffic) -> String {
        traffic.to_string()
    }
}
