//! How a comparison ended: the word in the JSON report and the exit status.

use std::process::ExitCode;

use engine::Verified;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::{CUT_SHORT, DIFFERENT, INTERRUPTED, NOTHING_COMPARED};

/// How the comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every answer and every state is the same, over the whole input. Exit status 0.
    Equal,
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
        if verified.stopped {
            Outcome::Interrupted
        } else if !verified.is_same() {
            Outcome::Different
        } else if verified.packets == 0 || !verified.has_compared() {
            Outcome::NothingCompared
        } else if verified.input_error.is_some() {
            Outcome::CutShort
        } else {
            Outcome::Equal
        }
    }

    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Equal => 0,
            Outcome::Different => DIFFERENT,
            Outcome::NothingCompared => NOTHING_COMPARED,
            Outcome::CutShort => CUT_SHORT,
            Outcome::Interrupted => INTERRUPTED,
        })
    }
}
