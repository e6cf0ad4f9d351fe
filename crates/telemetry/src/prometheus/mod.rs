//! Prometheus' text format, version 0.0.4: a [`Snapshot`](crate::Snapshot) as text, and such text as samples.
//!
//! What the names mean is in `docs/reference/metrics.md`, which is made from [`FAMILIES`].

mod families;
mod parse;
mod write;

pub use families::{FAMILIES, Family, Kind};
pub use parse::{ParseError, Sample, parse};
pub use write::write;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
