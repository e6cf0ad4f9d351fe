//! A sweep's comparisons one by one, as calls: Python's package spreads them over processes and machines.

use std::path::PathBuf;
use std::time::Duration;

use engine::{Progress, Registry};
use serde::Serialize;
use sweep::{Cell, Row, Source};

use super::{SweepArgs, question, sources};
use crate::failure::Failure;

/// What a sweep with these arguments is to do.
#[derive(Serialize)]
pub struct Cells {
    out: PathBuf,
    resume: bool,
    ray: Option<String>,
    cells: Vec<Cell>,
}

pub fn cells(args: &SweepArgs, registry: &Registry) -> Result<Cells, Failure> {
    let question = question(args, sources(args, true)?, registry)?;
    Ok(Cells {
        out: args.out.clone(),
        resume: args.resume,
        ray: args.ray.clone(),
        cells: question.cells().collect(),
    })
}

/// Makes one comparison of `capture`, by its number among those of this capture. Where that is an object's name, `fetched` is a file
/// with what it has.
pub fn compare(
    args: &SweepArgs,
    capture: PathBuf,
    fetched: Option<PathBuf>,
    number: u64,
    registry: &Registry,
    progress: &Progress,
) -> Result<Row, Failure> {
    let source = match fetched {
        Some(file) => Source::Fetched(capture.display().to_string(), file),
        None => Source::File(capture),
    };
    let question = question(args, vec![source], registry)?;
    if number >= question.runs() {
        return Err(Failure::usage(format!(
            "there is no comparison {number}; there are {}",
            question.runs()
        )));
    }
    let time_limit = Duration::from_secs(args.time_limit);
    question.compare(number, time_limit, &progress.stop).ok_or(Failure::Interrupted)
}
