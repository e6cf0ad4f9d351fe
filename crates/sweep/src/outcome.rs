use engine::strategies::States;
use engine::{Chain, RunError, Verified, VerifyError};
use io::Fate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Setting;

/// What one comparison says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything is the same.
    Equal,
    /// Everything that is promised is the same, and `verify` says what is not promised, or not to be expected: a
    /// full table, an exhausted pool, an allocation, states that cores share.
    EqualUpTo {
        /// What is announced.
        what: String,
    },
    /// There was nothing to compare.
    NothingCompared {
        /// Why.
        why: String,
    },
    /// The chain cannot run so.
    Refused {
        /// Why.
        why: String,
    },
    /// The capture cannot be read.
    Unreadable {
        /// Why.
        why: String,
    },
    /// Something differs that nothing announced: a defect of Paceline or of a function.
    Different {
        /// What differs first.
        what: String,
        /// Packets with another answer.
        packets: u64,
        /// The first of them, from 1.
        first: Option<u64>,
    },
    /// A thread panicked or gave up: a defect.
    Panicked {
        /// What it said.
        why: String,
    },
    /// It did not end within the time limit: a defect, if the limit is sensible.
    TimedOut,
}

/// What became of one comparison.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it says.
    pub outcome: Outcome,
    /// Packets compared.
    pub packets: u64,
}

/// The names of all outcomes, as JSON and summaries have them.
pub fn kinds() -> [&'static str; 8] {
    [
        "equal",
        "equal-up-to",
        "nothing-compared",
        "refused",
        "unreadable",
        "different",
        "panicked",
        "timed-out",
    ]
}

impl Outcome {
    /// Its name: one of [`kinds`].
    pub fn kind(&self) -> &'static str {
        kinds()[match self {
            Outcome::Equal => 0,
            Outcome::EqualUpTo { .. } => 1,
            Outcome::NothingCompared { .. } => 2,
            Outcome::Refused { .. } => 3,
            Outcome::Unreadable { .. } => 4,
            Outcome::Different { .. } => 5,
            Outcome::Panicked { .. } => 6,
            Outcome::TimedOut => 7,
        }]
    }

    /// Whether it is a defect to look into.
    pub fn is_finding(&self) -> bool {
        matches!(self, Outcome::Different { .. } | Outcome::Panicked { .. } | Outcome::TimedOut)
    }

    /// What it is about, beside its name; empty for those that need no more words.
    pub fn about(&self) -> &str {
        match self {
            Outcome::Equal | Outcome::TimedOut => "",
            Outcome::EqualUpTo { what } | Outcome::Different { what, .. } => what,
            Outcome::NothingCompared { why }
            | Outcome::Refused { why }
            | Outcome::Unreadable { why }
            | Outcome::Panicked { why } => why,
        }
    }
}

/// What a comparison of `chain` under `setting` says; `None` if it was stopped, and says nothing.
pub fn outcome(setting: &Setting, chain: &Chain, result: &Result<Verified, VerifyError>) -> Option<Outcome> {
    match result {
        Ok(verified) if verified.stopped => None,
        Ok(verified) => Some(of_verified(setting, chain, verified)),
        Err(error) => Some(of_error(error)),
    }
}

fn of_error(error: &VerifyError) -> Outcome {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    match error {
        VerifyError::Plan(_) | VerifyError::Run(RunError::OutOfMemory { .. }) => {
            Outcome::Refused { why: first_line(error.to_string()) }
        }
        VerifyError::Input(_) => Outcome::Unreadable { why: first_line(error.to_string()) },
        VerifyError::Run(_) | VerifyError::Packets { .. } => {
            Outcome::Panicked { why: first_line(error.to_string()) }
        }
    }
}

fn of_verified(setting: &Setting, chain: &Chain, verified: &Verified) -> Outcome {
    if !verified.is_same() {
        let what = what_differs(chain, verified);
        if let Some(what) = announced(setting, chain, verified) {
            return Outcome::EqualUpTo { what: what.to_owned() };
        }
        let first = verified.first.as_ref().map(|first| first.number);
        return Outcome::Different { what, packets: verified.different, first };
    }
    if verified.packets == 0 {
        return Outcome::NothingCompared { why: "no packets".to_owned() };
    }
    if !verified.has_compared() {
        return Outcome::NothingCompared { why: "nothing is promised".to_owned() };
    }
    let mut up_to = Vec::new();
    if !verified.allocated.is_empty() {
        up_to.push("allocation");
    }
    if !verified.shared.is_empty() {
        up_to.push("what cores share");
    }
    if up_to.is_empty() { Outcome::Equal } else { Outcome::EqualUpTo { what: up_to.join(" and ") } }
}

/// What was announced that excuses other answers and other flows: a full table, or a pool with nothing left to give.
/// Not those of replicas, which are full when those of the single core are. Nothing excuses packets out of order, or
/// flows that cannot be at the same time.
fn announced(setting: &Setting, chain: &Chain, verified: &Verified) -> Option<&'static str> {
    let is_replicated = setting.plan(chain).is_ok_and(|plan| plan.states == States::Replicated);
    let is_excusable =
        !is_replicated && verified.broken.is_empty() && verified.out_of_order.unwrap_or(0) == 0;
    match is_excusable {
        true if !verified.filled.is_empty() => Some("full tables"),
        true if !verified.exhausted.is_empty() => Some("exhausted pools"),
        _ => None,
    }
}

/// The first thing that differs, in words that are the same for every case of one kind.
fn what_differs(chain: &Chain, verified: &Verified) -> String {
    if verified.history.as_ref().is_some_and(|history| history.diverged() > 0) {
        return "replicas diverged".to_owned();
    }
    if let Some(broken) = verified.broken.first() {
        return format!("what must hold between flows of {}", broken.function);
    }
    if verified.out_of_order.unwrap_or(0) > 0 {
        return "order of packets".to_owned();
    }
    if let Some(first) = &verified.first {
        let functions = [first.single.fate, first.other.fate].into_iter().filter_map(|fate| match fate {
            Fate::DropBy { function, .. } => Some(usize::from(function)),
            _ => None,
        });
        let spec = functions.min().and_then(|function| chain.functions.get(function));
        return match spec {
            Some(spec) => format!("verdicts of {}", spec.name),
            None if first.single.fate != first.other.fate => "verdicts".to_owned(),
            None => "bytes".to_owned(),
        };
    }
    if let Some((name, ..)) = verified.digests.iter().find(|(_, single, other)| single != other) {
        return format!("flows of {name}");
    }
    let failed = verified.shared.iter().find(|check| check.failure.is_some());
    failed.map_or("something".to_owned(), |check| format!("what {} promises", check.function))
}
