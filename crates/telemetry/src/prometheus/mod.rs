//! Prometheus' text format, version 0.0.4: a [`Snapshot`](crate::Snapshot) as text, and such text as samples.
//!
//! What the names mean is in `docs/telemetry.md`, which a test holds to [`FAMILIES`].

mod parse;
mod write;

pub use parse::{ParseError, Sample, parse};
pub use write::{FAMILIES, Family, Kind, write};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
