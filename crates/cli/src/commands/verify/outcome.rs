//! How a comparison ended: the word in the JSON report and the exit status.

use std::process::ExitCode;

use engine::{Agreement, Verified};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::{CUT_SHORT, DIFFERENT, INTERRUPTED, NOTHING_COMPARED};

/// How the comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every answer and every state is the same, over the whole input. Exit status 0.
    Equal,
    /// Everything that has to be the same is, over the whole input; `up_to` says what need not be. Exit status 0.
    EqualUpTo,
    /// Something differs that has to be the same. Exit status 1.
    Different,
    /// The input has no packets, or the strategy promises nothing of this chain. Exit status 3.
    NothingCompared,
    /// The input ends in the middle of a packet. What came before is the same. Exit status 4.
    CutShort,
    /// Stopped by a signal before the end. Exit status 130.
    Interrupted,
}

impl Outcome {
    /// A difference counts more than a cut: it is there whatever the rest of the input holds.
    pub fn of(verified: &Verified) -> Outcome {
        match verified.agreement() {
            Agreement::Stopped => Outcome::Interrupted,
            Agreement::Different => Outcome::Different,
            Agreement::NothingCompared => Outcome::NothingCompared,
            Agreement::Equal | Agreement::EqualUpTo(_) if verified.input_error.is_some() => Outcome::CutShort,
            Agreement::Equal => Outcome::Equal,
            Agreement::EqualUpTo(_) => Outcome::EqualUpTo,
        }
    }

    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Equal | Outcome::EqualUpTo => 0,
            Outcome::Different => DIFFERENT,
            Outcome::NothingCompared => NOTHING_COMPARED,
            Outcome::CutShort => CUT_SHORT,
            Outcome::Interrupted => INTERRUPTED,
        })
    }
}
