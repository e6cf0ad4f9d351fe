//! [`engine::verify`](engine::verify()) over a whole matrix: captures, mutations of them, chains, table sizes,
//! strategies, forced moves, losses and numbers of cores. `paceline sweep` runs it; so do the conformance tests.
//!
//! | module | what it is |
//! |---|---|
//! | [`Capture`] | packets in memory, cut to a number, selected, written to a file |
//! | [`fragmented()`] | a capture whose packets come in fragments, with mistakes |
//! | [`mutate()`] | a capture changed at random, from a seed: what no network sends |
//! | [`Matrix`], [`Setting`], [`verify_each`] | under what each capture is compared |
//! | [`Outcome`] | what one comparison says: equal, equal up to what is announced, different, ... |
//! | [`Question`], [`sweep()`] | all of it in parallel, each comparison within a time limit |
//! | [`Cell`], [`Question::compare`] | one comparison by its number, for sweeps that are spread over machines |
//! | [`smallest()`] | delta debugging: the fewest packets of a capture that still differ |
//! | [`Row`], [`Journal`] | a comparison that is done, as a line of JSON, so that a sweep can go on later |
//! | [`Summary`] | the outcomes counted, and each kind of finding with its smallest case |
#![forbid(unsafe_code)]

mod capture;
mod cell;
mod draw;
mod fragment;
mod journal;
mod mutate;
mod outcome;
mod question;
mod reduce;
mod setting;
mod summary;
mod workers;

pub use capture::Capture;
pub use cell::Cell;
pub use draw::Draw;
pub use fragment::fragmented;
pub use journal::{Journal, JournalError, Row};
pub use mutate::mutate;
pub use outcome::{Outcome, Trial, kinds, outcome};
pub use question::{NamedChain, Question, Source};
pub use reduce::{Reduced, smallest};
pub use setting::{Compared, Matrix, Setting, Tables, Way, verify_each};
pub use summary::{Count, Finding, Reproducer, Summary};
pub use workers::{Limits, Prepared, sweep, try_once};
