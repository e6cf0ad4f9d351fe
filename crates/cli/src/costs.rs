//! Measuring what a packet costs, for commands that predict from it.

use measure::{CostError, TrialError};

use crate::failure::Failure;

/// Numbers of cores on which replay is measured.
pub const REPLAY_CORES: [usize; 3] = [2, 4, 7];

/// Whether measuring ended because it was asked to; another error is a failure.
pub fn interrupted(error: CostError) -> Result<(), Failure> {
    match error {
        CostError::Trial(TrialError::Interrupted) => Ok(()),
        CostError::Trial(error) => Err(Failure::of_trial(error)),
        error => Err(Failure::usage(error)),
    }
}
