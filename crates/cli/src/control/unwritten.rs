//! Captures that a run could not write to their end.

use std::io::{Write, stderr};
use std::sync::{Arc, Mutex, PoisonError};

use io::capture::CaptureError;

/// What is missing and why, for clients that ask while the run goes on.
#[derive(Clone, Default)]
pub struct Unwritten(Arc<Mutex<Vec<String>>>);

impl Unwritten {
    pub fn read(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds one, and says it at once: it may be long until the run ends.
    pub fn add(&self, error: &CaptureError) {
        let line = error.to_string();
        // Where standard error is closed nobody reads this.
        let _ = writeln!(stderr(), "note: {line}; the run goes on without");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
