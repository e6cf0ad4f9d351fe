//! Paceline for Python: the module `paceline._native`, which the package in `python/paceline` wraps.
//!
//! | file | what it is |
//! |---|---|
//! | `background` | work on a thread without the interpreter, which Ctrl-C ends |
//! | `failure` | errors as `paceline.Error` |
//! | `capture` | a capture as Arrow, whose packets lie in the mapped file |
//! | `packets` | a run's packets and flows as Arrow |
//! | `scripted` | functions written in Python |
//! | `table` | Arrow's PyCapsule interface |
//!
//! A call gives the interpreter up, and builds its result without it. Threads of the engine never touch Python, unless a function
//! is written in it.

mod background;
mod capture;
mod failure;
mod packets;
mod scripted;
mod table;

use pyo3::pymodule;

/// The module. What users import is `paceline`, which has types and pages.
#[pymodule]
mod _native {
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::path::PathBuf;

    use engine::{Chain, Progress, Seen};
    use paceline::{CallError, Program};
    use pyo3::prelude::*;

    use crate::background::away;
    use crate::capture::read;
    use crate::failure::{error, raised};
    use crate::packets::Packets;
    #[pymodule_export]
    use crate::scripted::Packet;
    use crate::scripted::{self, Objects};
    #[pymodule_export]
    use crate::table::Table;

    type Functions = HashMap<String, Py<PyAny>>;

    /// Runs a chain over `capture`; `args` are those of `paceline run`. Returns the report's JSON, packets, flows and
    /// dropped packets.
    #[pyfunction]
    fn run(
        py: Python<'_>,
        capture: PathBuf,
        args: Vec<OsString>,
        functions: Functions,
    ) -> PyResult<(String, Table, Table, Table)> {
        with(py, functions, move |program, progress| {
            let mut packets = Packets::of(capture)?;
            let mut see = |chain: &Chain, seen: &Seen<'_>| packets.packet(chain, seen);
            let report = program.call_run(&args, progress, &mut see)?;
            let [packets, flows, dropped] = packets.finish()?;
            Ok((report, packets, flows, dropped))
        })
    }

    /// Does what a command does, and returns the JSON that it writes.
    #[pyfunction]
    fn call(py: Python<'_>, command: String, args: Vec<OsString>, functions: Functions) -> PyResult<String> {
        with(py, functions, move |program, progress| program.call(&command, &args, progress))
    }

    /// The comparisons that a sweep with these arguments of `paceline sweep` is to make, as JSON.
    #[pyfunction]
    fn sweep_cells(py: Python<'_>, args: Vec<OsString>) -> PyResult<String> {
        with(py, Functions::new(), move |program, _| program.call_sweep_cells(&args))
    }

    /// Makes one comparison of a sweep, by its number among those of `capture`, and returns its row as JSON. `fetched` is a file with
    /// what an object by that name has.
    #[pyfunction]
    fn sweep_cell(
        py: Python<'_>,
        args: Vec<OsString>,
        capture: PathBuf,
        fetched: Option<PathBuf>,
        number: u64,
    ) -> PyResult<String> {
        with(py, Functions::new(), move |program, progress| {
            program.call_sweep_cell(&args, capture, fetched, number, progress)
        })
    }

    /// Has the program do something whose chains may name these objects. Raises what they raise.
    fn with<T: Send + 'static>(
        py: Python<'_>,
        functions: Functions,
        work: impl FnOnce(&Program, &Progress) -> Result<T, CallError> + Send + 'static,
    ) -> PyResult<T> {
        let objects = Objects::new(functions);
        let shared = objects.clone();
        let done = away(py, move |progress| {
            shared.enter();
            let mut program = Program::stock();
            scripted::add(&mut program.functions);
            work(&program, progress)
        })?;
        match objects.raised() {
            Some(raised) => Err(raised),
            None => done.map_err(|failed| raised(py, &failed)),
        }
    }

    /// A capture as a table, whether its packets lie in the mapped file, and the error behind the last whole packet.
    #[pyfunction]
    fn read_capture(py: Python<'_>, path: PathBuf, copy: bool) -> PyResult<(Table, bool, Option<Py<PyAny>>)> {
        let read =
            away(py, move |progress| read(&path, copy, progress))?.map_err(|failed| raised(py, &failed))?;
        let cut_short = read.cut_short.map(|failed| error(py, &failed)).transpose()?;
        Ok((read.table, read.is_mapped, cut_short.map(Bound::unbind)))
    }

    /// Panics, as a defect of Paceline would: for the test that none ends Python.
    #[pyfunction]
    fn defect(py: Python<'_>) -> PyResult<()> {
        away(py, |_| panic!("a defect that was asked for"))
    }
}
