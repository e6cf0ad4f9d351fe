//! Failures of commands, and the exit status of each kind.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use engine::RunError;
use io::capture::CaptureError;
use measure::TrialError;
use miette::{Diagnostic, Report};
use thiserror::Error;

use crate::explain::{Code, Explained};
use crate::meant;

/// Exit status of a check that found a difference: of `verify`, or between what a test file or a reference expects and
/// what came.
pub const DIFFERENT: u8 = 1;
/// Exit status of wrong usage or configuration, an input of which nothing can be read, or an output that cannot be
/// written.
pub const USAGE: u8 = 2;
/// Exit status where nothing was compared, or no figure found, so that nothing is shown.
pub const NOTHING_COMPARED: u8 = 3;
/// Exit status of an input that is cut short or damaged after whole packets.
pub const CUT_SHORT: u8 = 4;
/// Exit status of a defect of Paceline; that of a panic, which is one, too.
pub const DEFECT: u8 = 101;
/// Exit status of a program ended by Ctrl-C: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// Why a command did not do what it was asked to.
pub enum Failure {
    /// With the exit status, and the code that `paceline explain` says more of.
    Told(u8, Code, Report),
    /// The end was asked for, and there is nothing to report.
    Interrupted,
    /// Standard output was closed, as by `| head`; not worth a word.
    OutputClosed,
}

/// A line on standard error; nothing where nobody reads it any more, as behind `2>&1 | head`.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What fails at the end of a run, where nothing that fails keeps the rest from being written.
#[derive(Default)]
pub struct Failures(Option<Failure>);

impl Failures {
    /// What a step came to, if it did not fail. Failures after the first are told at once.
    pub fn of<T>(&mut self, step: Result<T, Failure>) -> Option<T> {
        match step {
            Ok(done) => return Some(done),
            Err(Failure::Told(_, _, report)) if self.0.is_some() => say(&format!("note: {report}")),
            Err(failure) => _ = self.0.get_or_insert(failure),
        }
        None
    }

    /// # Errors
    /// The first failure.
    pub fn first(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), Err)
    }
}

/// A failure in one sentence, with what to do.
#[derive(Debug, Error, Diagnostic)]
#[error("{message}")]
pub struct Plain {
    message: String,
    #[help]
    help: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Told(_, _, report) => report.fmt(f),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::OutputClosed => f.write_str("standard output was closed"),
        }
    }
}

impl Failure {
    pub fn usage(error: impl Explained) -> Failure {
        Failure::Told(USAGE, error.explained_by(), plain(error))
    }

    /// With a code that says more than that of its kind.
    pub fn coded(self, code: Code) -> Failure {
        match self {
            Failure::Told(status, _, report) => Failure::Told(status, code, report),
            other => other,
        }
    }

    /// Why a run has no outcome.
    pub fn of_run(error: RunError<Failure>) -> Failure {
        match error {
            RunError::Seen(failure) => failure,
            memory @ RunError::OutOfMemory { .. } => Failure::usage(memory),
            error => Failure::defect(error),
        }
    }

    /// Why a trial gave no figures.
    pub fn of_trial(error: TrialError) -> Failure {
        match error {
            TrialError::Interrupted => Failure::Interrupted,
            error if error.is_defect() => Failure::defect(error),
            error => Failure::usage(error),
        }
    }

    /// A mistake in a file, with its place.
    pub fn mistake(error: impl Diagnostic + Explained + Send + Sync + 'static) -> Failure {
        Failure::Told(USAGE, error.explained_by(), Report::new(error))
    }

    /// What has to be the same is not.
    pub fn difference(error: impl ToString) -> Failure {
        Failure::Told(DIFFERENT, Code::Different, plain(error))
    }

    pub fn nothing_found(error: impl ToString) -> Failure {
        Failure::Told(NOTHING_COMPARED, Code::NothingCompared, plain(error))
    }

    /// An input that ends after whole packets.
    pub fn cut_short(error: impl ToString) -> Failure {
        Failure::Told(CUT_SHORT, Code::CutShort, plain(error))
    }

    /// A capture that cannot be read to its end: cut short if it has whole packets.
    pub fn capture(error: CaptureError) -> Failure {
        match &error {
            CaptureError::Open { path, .. } => {
                Failure::usage(format!("{error}{}", meant::tip(path))).coded(error.explained_by())
            }
            error if error.whole_packets() > 0 => Failure::cut_short(error),
            error => Failure::usage(error),
        }
    }

    pub fn defect(error: impl ToString) -> Failure {
        Failure::Told(DEFECT, Code::Defect, plain(error))
    }

    /// Tells the user and gives the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Told(status, code, report) => {
                // The report ends without a new line, or with one.
                say(&format!("{}\n  more: {}", format!("{report:?}").trim_end(), code.hint()));
                ExitCode::from(status)
            }
            // The first signal brought a line.
            Failure::Interrupted => ExitCode::from(INTERRUPTED),
            Failure::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// An error as a report; lines after the first are its help.
fn plain(error: impl ToString) -> Report {
    let text = error.to_string();
    let (message, help) = match text.split_once('\n') {
        Some((message, help)) => (message.to_owned(), Some(help.trim().to_owned())),
        None => (text, None),
    };
    Report::new(Plain { message, help })
}
