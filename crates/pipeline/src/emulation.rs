//! One call for every model.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::blocking::Blocking;
use crate::chip::{Atoms, Chip};
use crate::kernel::{Kernel, Observer, Scheme, Stuck};
use crate::options::{Model, Options, Setup, SetupError};
use crate::plain::Plain;
use crate::port::Arrival;
use crate::program::Program;
use crate::rapid::{Faults, Rapid, Sound};
use crate::report::Report;

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome<State> {
    /// What was counted.
    pub report: Report,
    /// Cycles from arrival to departure of the packets that came out, to three digits.
    pub latency: Histogram<u64>,
    /// What each table of the program holds, by key; with several pipelines all of the first one's, and so on.
    pub tables: Vec<BTreeMap<u64, State>>,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EmulateError {
    /// Model, program and options do not go together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The model made no progress.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// Whether `program` can run on a model so. [`emulate`] asks first.
///
/// # Errors
/// [`SetupError`] says what does not go together.
pub fn check<P: Program>(program: &P, model: &Model, options: &Options) -> Result<(), SetupError> {
    Setup::check(program, model, options).map(|_| ())
}

/// Runs `program` on a model over `arrivals`, up to the last packet's departure. Deterministic but for
/// [`Report::cycles_per_second`]; after the start nothing is allocated unless the observer does.
///
/// # Errors
/// [`EmulateError`].
pub fn emulate<P: Program>(
    program: P,
    model: &Model,
    options: &Options,
    arrivals: impl IntoIterator<Item = Arrival<P::Phv>>,
    observer: &mut impl Observer<P::Phv, P::State>,
) -> Result<Outcome<P::State>, EmulateError> {
    emulate_with::<P, Sound>(program, model, options, arrivals, observer)
}

/// Runs `program` as [`emulate`] does, with defects in RAPID, for tests.
pub(crate) fn emulate_with<P: Program, F: Faults>(
    program: P,
    model: &Model,
    options: &Options,
    arrivals: impl IntoIterator<Item = Arrival<P::Phv>>,
    observer: &mut impl Observer<P::Phv, P::State>,
) -> Result<Outcome<P::State>, EmulateError> {
    let setup = Setup::check(&program, model, options)?;
    let atoms = if *model == Model::Pisa { Atoms::ReadOnly } else { Atoms::Update };
    let chip = Chip::new(program, setup.pipelines, setup.stages, atoms, |table| model.is_function(table));
    let arrivals = arrivals.into_iter();
    let functions = chip.functions.len();
    match model {
        Model::Pisa | Model::Banzai => {
            run(Kernel::new(chip, Plain, &setup, options, model.name()), arrivals, observer)
        }
        Model::Blocking(blocking) | Model::FlowBlaze(blocking) => {
            let scheme = Blocking::new(functions, blocking, options.when_full);
            run(Kernel::new(chip, scheme, &setup, options, model.name()), arrivals, observer)
        }
        Model::Rapid(rapid) => {
            let scheme: Rapid<P::State, F> =
                Rapid::new(&chip, setup.stages, setup.stage_cycles, rapid, options.when_full);
            run(Kernel::new(chip, scheme, &setup, options, model.name()), arrivals, observer)
        }
    }
}

fn run<P: Program, S: Scheme<P>>(
    mut kernel: Kernel<P, S>,
    arrivals: impl Iterator<Item = Arrival<P::Phv>>,
    observer: &mut impl Observer<P::Phv, P::State>,
) -> Result<Outcome<P::State>, EmulateError> {
    let report = kernel.run(arrivals, observer)?;
    let tables = kernel.chip.tables.iter().map(|table| table.contents()).collect();
    let latency = kernel.chip.stats.latency.clone();
    Ok(Outcome { report, latency, tables })
}
