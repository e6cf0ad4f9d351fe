use std::fmt;
use std::process::ExitCode;

use miette::{Diagnostic, Report};
use thiserror::Error;

/// Why a command did not do what it was asked to.
pub enum Failure {
    /// Wrong usage or configuration, an input of which nothing can be read, or an output that cannot be
    /// written: exit status 2.
    Usage(Report),
    /// A check failed, or the input is cut short: exit status 1.
    Check(Report),
    /// Standard output was closed, as by `| head`; not worth a word.
    OutputClosed,
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
            Failure::Usage(report) | Failure::Check(report) => report.fmt(f),
            Failure::OutputClosed => f.write_str("standard output was closed"),
        }
    }
}

impl Failure {
    pub fn usage(error: impl ToString) -> Failure {
        Failure::Usage(plain(error))
    }

    pub fn check(error: impl ToString) -> Failure {
        Failure::Check(plain(error))
    }

    /// Tells the user and gives the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(report) => {
                eprintln!("{report:?}");
                ExitCode::from(2)
            }
            Failure::Check(report) => {
                eprintln!("{report:?}");
                ExitCode::from(1)
            }
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
