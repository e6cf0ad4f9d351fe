//! Errors of calls as `paceline.Error`, which the Python part of the package defines.

use paceline::CallError;
use pyo3::prelude::*;

/// The exception, to be raised.
pub fn raised(py: Python<'_>, failed: &CallError) -> PyErr {
    error(py, failed).map_or_else(|other| other, PyErr::from_value)
}

/// The exception as an object.
pub fn error<'py>(py: Python<'py>, failed: &CallError) -> PyResult<Bound<'py, PyAny>> {
    let CallError { status, message, place, help, code, text } = failed;
    let class = py.import("paceline._errors")?.getattr("Error")?;
    class.call1((text, message, place.as_deref(), help.as_deref(), *status, *code))
}

/// A failure in a sentence; lines after the first are its help.
pub fn plain(status: u8, error: impl ToString) -> CallError {
    let text = error.to_string();
    let (message, help) = match text.split_once('\n') {
        Some((message, help)) => (message.to_owned(), Some(help.trim().to_owned())),
        None => (text.clone(), None),
    };
    CallError { status, message, place: None, help, code: None, text }
}
