//! Chains under an offered load, and what comes of it.
#![forbid(unsafe_code)]

mod comparison;

pub use comparison::{Clock, Comparison, CoreLoad, LatencyPoint, Point, Refused, Series, TraceSummary};
