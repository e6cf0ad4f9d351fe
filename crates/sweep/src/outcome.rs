//! The outcome of one comparison.

use engine::{Agreement, Chain, RunError, UpTo, Verified, VerifyError};
use io::Fate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one comparison says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything is the same.
    Equal,
    /// Everything that has to be the same is.
    EqualUpTo {
        /// What need not be: which flows a full table turns away, who gets nothing from an empty pool, allocation, states that
        /// cores share.
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
    /// Something differs that has to be the same: a defect of Paceline or of a function.
    Different {
        /// What differs first.
        what: String,
        /// Packets with another answer.
        #[serde(rename = "different_packets")]
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
    /// Whether every answer, byte and state was compared: see [`Verified::is_exact`].
    pub exact: bool,
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

/// What a comparison of `chain` says; `None` if it was stopped, and says nothing.
pub fn outcome(chain: &Chain, result: &Result<Verified, VerifyError>) -> Option<Outcome> {
    match result {
        Ok(verified) => of_verified(chain, verified),
        Err(error) => Some(of_error(error)),
    }
}

fn of_error(error: &VerifyError) -> Outcome {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    match error {
        VerifyError::Plan(_)
        | VerifyError::Unanswered { .. }
        | VerifyError::Run(RunError::OutOfMemory { .. }) => {
            Outcome::Refused { why: first_line(error.to_string()) }
        }
        VerifyError::Input(_) => Outcome::Unreadable { why: first_line(error.to_string()) },
        VerifyError::Run(_) | VerifyError::Packets { .. } => {
            Outcome::Panicked { why: first_line(error.to_string()) }
        }
    }
}

fn of_verified(chain: &Chain, verified: &Verified) -> Option<Outcome> {
    let nothing = |why: &str| Outcome::NothingCompared { why: why.to_owned() };
    Some(match verified.agreement() {
        Agreement::Stopped => return None,
        Agreement::Equal => Outcome::Equal,
        Agreement::EqualUpTo(up_to) => {
            let what: Vec<_> = up_to.into_iter().map(UpTo::words).collect();
            Outcome::EqualUpTo { what: what.join(" and ") }
        }
        Agreement::NothingCompared if verified.packets == 0 => nothing("no packets"),
        Agreement::NothingCompared => nothing("nothing is promised"),
        Agreement::Different => {
            let first = verified.first.as_ref().map(|first| first.number);
            Outcome::Different { what: what_differs(chain, verified), packets: verified.different, first }
        }
    })
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
    if let Some(judged) = verified.judged.iter().find(|judged| !judged.wrong.is_empty()) {
        return format!("what {} gives out", judged.function);
    }
    if let Some((name, ..)) = verified.digests.iter().find(|(_, single, other)| single != other) {
        return format!("flows of {name}");
    }
    let failed = verified.shared.iter().find(|check| check.failure.is_some());
    failed.map_or("something".to_owned(), |check| format!("what {} promises", check.function))
}
