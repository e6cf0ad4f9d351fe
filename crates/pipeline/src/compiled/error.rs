//! What is refused of a P4 program, in its own words.

use thiserror::Error;

use crate::emulation::EmulateError;

/// Why a program cannot run on a pipeline.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CompileError {
    /// What the front end found.
    #[error("{0}")]
    Fault(String),
    /// More stages than a pipeline has.
    #[error("the program takes {stages} stages; a pipeline has at most {most}")]
    Stages {
        /// Stages of the program.
        stages: usize,
        /// The most.
        most: usize,
    },
    /// A header vector that is too wide.
    #[error(
        "the ingress uses fields of {words} 64-bit containers, with what state tables need; a packet has at most {most}"
    )]
    Wide {
        /// What it takes.
        words: usize,
        /// The most.
        most: usize,
    },
    /// A state that is too wide.
    #[error(
        "the values of {object} take {words} 64-bit words; a state has at most {}",
        super::limits::STATE_WORDS
    )]
    WideState {
        /// Which.
        object: String,
        /// What it takes.
        words: usize,
    },
    /// Too many keys.
    #[error("{object} has {keys} keys; a table has at most {}", super::limits::MAX_KEYS)]
    Keys {
        /// Which.
        object: String,
        /// How many.
        keys: usize,
    },
    /// More entries than a model has memory for.
    #[error("{object} has {size} entries; a model holds at most {}", super::limits::MAX_ENTRIES)]
    ManyEntries {
        /// Which.
        object: String,
        /// How many.
        size: u32,
    },
    /// More objects than a packet has marks for.
    #[error(
        "the program uses {objects} muTables, registers, counters and meters; a pipeline has at most {most}"
    )]
    Objects {
        /// How many.
        objects: usize,
        /// The most.
        most: usize,
    },
    /// Draws whose order is not that of the program.
    #[error(
        "the ingress draws random numbers in {draws} places; stages do them in another order, so one is the most"
    )]
    Random {
        /// How many.
        draws: usize,
    },
    /// A checksum over what a header vector does not have.
    #[error(
        "the ingress computes a checksum over the payload, which does not go through the stages; do it in the last control"
    )]
    Payload,
}

/// Why a compiled program does not run on a model.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RunError {
    /// What the model cannot do.
    #[error("{model}: {what}")]
    Unsupported {
        /// The model.
        model: &'static str,
        /// What, and of which object.
        what: String,
    },
    /// The pipeline.
    #[error(transparent)]
    Emulate(#[from] EmulateError),
}
