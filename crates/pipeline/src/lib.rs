//! Cycle-accurate models of pipelines that process packets with state: RAPID (NSDI'24) and those it is compared
//! with. What the models take from the paper and what they choose is in `docs/rapid.md`.
//!
//! ```
//! use paceline_pipeline::programs::Synthetic;
//! use paceline_pipeline::{Arrival, Model, Options, emulate};
//!
//! // Two packets of one flow, each of which updates its state, back to back.
//! let packet = |tag| Arrival { phv: Synthetic::packet(7, true, tag), bytes: 64, time_ns: 0, port: 0 };
//! let model = Model::named("blocking").expect("a model");
//! let outcome = emulate(Synthetic::new(2), &model, &Options::default(), [packet(1), packet(2)], &mut ())?;
//! // The second one waited for the first to pass two stages of 18 cycles.
//! assert_eq!(outcome.report.cycles, 1 + 2 * 36);
//! # Ok::<(), paceline_pipeline::EmulateError>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`Program`] | what a pipeline runs: a header vector, stages, tables with a stage to read and one to write |
//! | [`programs`] | such programs, written by hand |
//! | [`compiled`] | programs in P4 |
//! | [`Reference`] | the same program without a pipeline: what every model is held to |
//! | [`emulate`] | runs a program on a [`Model`] |
//! | `kernel` | the cycle, the same for every model; `segment` the registers between stages |
//! | `plain`, `blocking`, `rapid` | what each model adds to it |
#![forbid(unsafe_code)]

mod blocking;
mod cam;
mod chip;
pub mod compiled;
mod deal;
mod emulation;
mod fifo;
mod kernel;
mod options;
mod packets;
mod plain;
mod port;
mod program;
pub mod programs;
mod rapid;
mod reference;
mod registers;
mod report;
mod segment;
mod snapshot;
pub mod spacing;
mod state;
#[cfg(test)]
mod tests;
pub mod trace;

pub use emulation::{EmulateError, Outcome, check, emulate};
pub use kernel::{Observer, Stuck};
pub use options::{BlockingOptions, Model, Options, RapidOptions, SetupError, WhenFull};
pub use packets::{Handle, Packet};
pub use port::{Arrival, Line, LineError, Pacing};
pub use program::{Consistency, LayoutError, MAX_STAGES, MAX_TABLES, Program, TableSpec, check_layout};
pub use reference::Reference;
pub use registers::Registers;
pub use report::{DropCause, Latency, Lost, Report};
pub use snapshot::Snapshot;
