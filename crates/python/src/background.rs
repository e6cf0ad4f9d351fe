//! Work on a thread without the interpreter: Python's other threads go on meanwhile, and Ctrl-C ends it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use engine::Progress;
use paceline::CallError;
use pyo3::prelude::*;

use crate::failure::raised;

/// How long Ctrl-C goes unnoticed at most.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The exit status of a defect.
const DEFECT: u8 = 101;

/// Does `work` on a thread of its own. Where a signal's handler raises (as that of Ctrl-C does), `work` is asked to stop, and
/// its result is forgotten.
///
/// # Errors
/// What the handler raised; `paceline.Error` where `work` panicked, which is a defect.
pub fn away<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Progress) -> T + Send + 'static,
) -> PyResult<T> {
    let (done, ended) = sync_channel::<()>(0);
    let progress = Arc::new(Progress::default());
    let shared = Arc::clone(&progress);
    let thread = thread::Builder::new().name("paceline".to_owned()).spawn(move || {
        // Hung up when the work ends, by a panic too.
        let _done = done;
        work(&shared)
    })?;
    let mut interrupted = None;
    let mut ended = ended;
    loop {
        let (receiver, outcome) = py.detach(move || {
            let outcome = ended.recv_timeout(LOOK_AGAIN);
            (ended, outcome)
        });
        ended = receiver;
        if outcome != Err(RecvTimeoutError::Timeout) {
            break;
        }
        if let Err(raised) = py.check_signals() {
            progress.stop.store(true, Ordering::Relaxed);
            interrupted.get_or_insert(raised);
        }
    }
    let done = py.detach(|| thread.join());
    match (interrupted, done) {
        (Some(raised), _) => Err(raised),
        (None, Ok(done)) => Ok(done),
        (None, Err(panic)) => Err(raised(py, &defect(&*panic))),
    }
}

fn defect(panic: &(dyn Any + Send)) -> CallError {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word");
    let message = format!("Paceline panicked: {said}");
    let help = "This is a defect, please report it.";
    CallError {
        status: DEFECT,
        text: format!("{message}\n{help}"),
        message,
        place: None,
        help: Some(help.to_owned()),
        code: Some("defect"),
    }
}
