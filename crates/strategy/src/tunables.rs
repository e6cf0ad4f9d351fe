//! Tunables: numbers that a strategy lets its user set.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that a strategy lets its user set: at the start by `--tune NAME=VALUE`, and, where it may change, while it runs by
/// `paceline ctl tune NAME=VALUE`.
#[derive(Debug)]
pub struct Tunable {
    /// Its name on command lines: lower-case letters, digits and hyphens. No two of a strategy have the same.
    pub name: &'static str,
    /// What it is, in one line, with its unit.
    pub help: &'static str,
    /// Its value where nothing else is said.
    pub default: u64,
    /// The values that it may have.
    pub range: RangeInclusive<u64>,
    /// Whether it may change while the strategy runs.
    pub is_live: bool,
}

/// The values of a strategy's tunables. Clones share them, so that what dispatches packets sees a change.
#[derive(Clone, Debug, Default)]
pub struct Tunables(Arc<[(&'static Tunable, AtomicU64)]>);

/// Why a tunable cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTunable {
    /// The strategy has no such tunable.
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that it has.
        names: Vec<&'static str>,
    },
    /// It may not have this value.
    Range {
        /// Its name.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// What it may have.
        range: RangeInclusive<u64>,
    },
    /// It keeps the value that it had at the start.
    Fixed {
        /// Its name.
        name: &'static str,
    },
}

impl Tunables {
    /// Each has its default.
    pub fn new(of: &[&'static Tunable]) -> Tunables {
        Tunables(of.iter().map(|tunable| (*tunable, AtomicU64::new(tunable.default))).collect())
    }

    /// The value of one of the strategy's tunables; its default if it is another strategy's. O(n) for n tunables.
    pub fn get(&self, tunable: &Tunable) -> u64 {
        let of_it = self.0.iter().find(|(of, _)| of.name == tunable.name);
        of_it.map_or(tunable.default, |(_, value)| value.load(Ordering::Relaxed))
    }

    /// All with their values, in the order in which the strategy declares them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Tunable, u64)> {
        self.0.iter().map(|(tunable, value)| (*tunable, value.load(Ordering::Relaxed)))
    }

    /// Sets a tunable before the strategy runs.
    ///
    /// # Errors
    /// [`NotTunable::Unknown`] or [`NotTunable::Range`]; then nothing has changed.
    pub fn set(&self, name: &str, value: u64) -> Result<(), NotTunable> {
        let (tunable, place) = self.find(name)?;
        if !tunable.range.contains(&value) {
            return Err(NotTunable::Range { name: tunable.name, value, range: tunable.range.clone() });
        }
        place.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Sets a tunable while the strategy runs.
    ///
    /// # Errors
    /// [`NotTunable`]; then nothing has changed.
    pub fn set_live(&self, name: &str, value: u64) -> Result<(), NotTunable> {
        let (tunable, _) = self.find(name)?;
        if !tunable.is_live {
            return Err(NotTunable::Fixed { name: tunable.name });
        }
        self.set(name, value)
    }

    fn find(&self, name: &str) -> Result<&(&'static Tunable, AtomicU64), NotTunable> {
        self.0.iter().find(|(of, _)| of.name == name).ok_or_else(|| NotTunable::Unknown {
            name: name.to_owned(),
            names: self.0.iter().map(|(of, _)| of.name).collect(),
        })
    }
}

impl fmt::Display for NotTunable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTunable::Unknown { name, names } if names.is_empty() => {
                write!(f, "the strategy has no tunable `{name}`, nor any other")
            }
            NotTunable::Unknown { name, names } => {
                write!(f, "the strategy has no tunable `{name}`: it has `{}`", names.join("`, `"))
            }
            NotTunable::Range { name, value, range } => {
                write!(f, "`{name}` is {} to {}, not {value}", range.start(), range.end())
            }
            NotTunable::Fixed { name } => {
                write!(f, "`{name}` is set when the run begins, by `--tune {name}=VALUE`, and stays")
            }
        }
    }
}

impl Error for NotTunable {}

#[cfg(test)]
mod tests {
    use super::*;

    static WIDTH: Tunable =
        Tunable { name: "width", help: "entries, side by side", default: 4, range: 1..=8, is_live: false };
    static EVERY: Tunable =
        Tunable { name: "every", help: "packets", default: 100, range: 1..=u64::MAX, is_live: true };

    #[test]
    fn what_is_set_is_what_all_clones_have() {
        let tunables = Tunables::new(&[&WIDTH, &EVERY]);
        let seen = tunables.clone();
        assert_eq!((seen.get(&WIDTH), seen.get(&EVERY)), (4, 100));
        tunables.set("width", 8).expect("in range");
        tunables.set_live("every", 7).expect("it is live");
        assert_eq!((seen.get(&WIDTH), seen.get(&EVERY)), (8, 7));
        assert_eq!(
            seen.iter().map(|(of, value)| (of.name, value)).collect::<Vec<_>>(),
            [("width", 8), ("every", 7)]
        );
        assert_eq!(Tunables::default().get(&WIDTH), 4, "another strategy's");
    }

    #[test]
    fn what_cannot_be_set_says_why_and_stays() {
        let tunables = Tunables::new(&[&WIDTH, &EVERY]);
        let said = |refused: Result<(), NotTunable>| refused.expect_err("it cannot be set").to_string();
        assert_eq!(
            said(tunables.set("widht", 2)),
            "the strategy has no tunable `widht`: it has `width`, `every`"
        );
        assert_eq!(said(tunables.set("width", 9)), "`width` is 1 to 8, not 9");
        assert_eq!(said(tunables.set_live("every", 0)), format!("`every` is 1 to {}, not 0", u64::MAX));
        let fixed = "`width` is set when the run begins, by `--tune width=VALUE`, and stays";
        assert_eq!(said(tunables.set_live("width", 2)), fixed);
        assert_eq!(
            said(Tunables::default().set("width", 2)),
            "the strategy has no tunable `width`, nor any other"
        );
        assert_eq!((tunables.get(&WIDTH), tunables.get(&EVERY)), (4, 100));
    }
}
